//! Which of FRR's lines are the file's to change.

use config::Routing;

use crate::tree::{Config, Node};

/// What of FRR's configuration is the file's: all of what a section is about, and the lines of the
/// block.
#[derive(Clone, Debug, Default)]
pub struct Owned {
    bgp: bool,
    ospf: bool,
    ospf6: bool,
    bfd: bool,
    /// Protocols that are kept as lines.
    protocols: Vec<&'static Owns>,
    policy: bool,
    /// Lines of the block.
    lines: Config,
}

/// What is a protocol's, of those that are kept as lines.
#[derive(Debug)]
struct Owns {
    section: &'static str,
    /// How its lines at the root begin.
    root: &'static str,
    /// How those of interfaces begin.
    interface: &'static [&'static str],
}

const PROTOCOLS: &[Owns] = &[
    Owns { section: "isis", root: "router isis", interface: &["ip router isis", "ipv6 router isis", "isis"] },
    Owns { section: "rip", root: "router rip", interface: &["ip rip"] },
    Owns { section: "ripng", root: "router ripng", interface: &["ipv6 ripng"] },
    Owns { section: "pim", root: "ip pim", interface: &["ip pim", "ip igmp"] },
];

impl Owns {
    /// Whether a line of an interface is its.
    fn has(&self, line: &str) -> bool {
        let line = line.strip_prefix("no ").unwrap_or(line);
        let begins =
            |head: &str| line.strip_prefix(head).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        self.interface.iter().any(|head| begins(head))
    }
}

/// How lists and route maps begin.
pub(crate) const POLICY: [&str; 7] = [
    "ip prefix-list ",
    "ipv6 prefix-list ",
    "bgp as-path access-list ",
    "bgp community-list ",
    "bgp large-community-list ",
    "bgp extcommunity-list ",
    "route-map ",
];

/// Whether a line of the root is of a list or route map.
pub(crate) fn is_policy(line: &str) -> bool {
    POLICY.iter().any(|head| line.starts_with(head))
}

impl Owned {
    /// What the file said before, and what it says now: what it says no more is taken back.
    pub fn of(before: &Routing, after: &Routing) -> Owned {
        let either = |has: fn(&Routing) -> bool| has(before) || has(after);
        let mut lines = Config::parse(&before.lines);
        lines.merge(Config::parse(&after.lines));
        Owned {
            bgp: either(|it| it.bgp.is_some()),
            ospf: either(|it| it.ospf.is_some()),
            ospf6: either(|it| it.ospf6.is_some()),
            protocols: PROTOCOLS
                .iter()
                .filter(|owns| {
                    let has = |routing: &Routing| {
                        routing.protocols().iter().any(|(name, it)| *name == owns.section && it.is_some())
                    };
                    has(before) || has(after)
                })
                .collect(),
            bfd: either(|it| it.bfd.is_some()),
            policy: either(|it| it.policy.is_some()),
            lines,
        }
    }

    /// The part of what FRR has that is the file's.
    pub fn part(&self, running: &Config) -> Config {
        Config(running.0.iter().filter_map(|node| self.of_root(node)).collect())
    }

    fn of_root(&self, node: &Node) -> Option<Node> {
        let line = node.line.as_str();
        let is =
            |head: &str| line == head || line.strip_prefix(head).is_some_and(|rest| rest.starts_with(' '));
        let whole = self.bgp && (is("router bgp") || line == "rpki")
            || self.bfd && line == "bfd"
            || self.ospf && is("router ospf")
            || self.ospf6 && is("router ospf6")
            || self.protocols.iter().any(|it| is(it.root))
            || self.policy && is_policy(line);
        if whole {
            return Some(node.clone());
        }
        let ours = |child: &Node| {
            line.starts_with("interface ")
                && (self.ospf && child.line.starts_with("ip ospf ")
                    || self.ospf6 && child.line.starts_with("ipv6 ospf6 ")
                    || self.protocols.iter().any(|it| it.has(&child.line)))
        };
        let block = self.lines.context(line);
        let children: Vec<Node> = node
            .children
            .iter()
            .filter_map(|child| match ours(child) {
                true => Some(child.clone()),
                false => {
                    of_block(child, block.and_then(|it| it.children.iter().find(|it| it.line == child.line)))
                }
            })
            .collect();
        let is_interface = line.starts_with("interface ");
        let shared = children.len() < node.children.len() || is_interface;
        (block.is_some() && !is_interface || !children.is_empty()).then(|| Node {
            line: node.line.clone(),
            children,
            shared,
        })
    }
}

/// What of a line and its context a line of the block has as well.
fn of_block(node: &Node, block: Option<&Node>) -> Option<Node> {
    let block = block?;
    let with = |child: &Node| block.children.iter().find(|it| it.line == child.line);
    let children: Vec<Node> = node.children.iter().filter_map(|child| of_block(child, with(child))).collect();
    let shared = children.len() < node.children.len();
    Some(Node { line: node.line.clone(), children, shared })
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Machine, Router};

    const RUNNING: &str = "hostname x\nip route 10.0.0.0/8 Null0\nip prefix-list a seq 5 permit any\n\
        interface eth0\n description x\n ip ospf cost 5\nexit\nrouter bgp 65001\n neighbor a peer-group\nexit\n\
        router ospf\nexit\nrouter ospf6\nexit\nrouter isis 1\n net 49.00\n is-type level-1\nexit\n";

    fn part(file: &str) -> String {
        let file = format!("without_ports = \"on\"\n{file}");
        let router = Router::read("f", &file, &Machine::this()).unwrap();
        let owned = Owned::of(&Routing::default(), &router.routing);
        owned.part(&Config::parse(RUNNING)).text()
    }

    #[test]
    fn a_section_owns_what_it_is_about_and_nothing_else() {
        assert_eq!(part(""), "");
        assert_eq!(part("[bgp]\nas = 7"), "router bgp 65001\n neighbor a peer-group\nexit\n");
        assert_eq!(part("[policy]"), "ip prefix-list a seq 5 permit any\n");
        assert_eq!(part("[ospf]"), "interface eth0\n ip ospf cost 5\nexit\nrouter ospf\nexit\n");
        assert_eq!(part("[ospf6]"), "router ospf6\nexit\n");
        let block = "[routing]\nfrr = '''\nhostname x\nrouter isis 1\n net 49.00\n'''";
        assert_eq!(part(block), "hostname x\nrouter isis 1\n net 49.00\nexit\n");
    }
}
