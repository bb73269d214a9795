//! FRR's configuration as a tree of lines.

use std::net::Ipv4Addr;

/// Contexts inside of contexts at most: FRR has three.
const DEEPEST: usize = 6;

/// Lines of FRR's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config(pub Vec<Node>);

/// A line, and what it has in its context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The line, without spaces at its ends.
    pub line: String,
    /// The lines of its context, if it opens one.
    pub children: Vec<Node>,
    /// FRR has other lines in this context: it is not ours to remove.
    pub shared: bool,
}

impl Node {
    /// A line.
    pub fn new(line: impl Into<String>) -> Node {
        Node { line: line.into(), ..Node::default() }
    }

    /// Whether it opens a context, also an empty one. `above`: the line of the one that it is in.
    pub fn is_context(&self, above: &str) -> bool {
        !self.children.is_empty() || opens(above, &self.line)
    }

    /// By which line the context ends.
    pub fn end(line: &str) -> &'static str {
        match line.split(' ').next() {
            Some("address-family") => "exit-address-family",
            Some("vrf") => "exit-vrf",
            _ => "exit",
        }
    }
}

/// Contexts that may be empty.
fn opens(above: &str, line: &str) -> bool {
    match above.split(' ').next() {
        Some("bfd") => return line.starts_with("profile ") || line.starts_with("peer "),
        Some("router") => return line.starts_with("address-family ") || line.starts_with("bmp targets "),
        Some("") | None => {}
        Some(_) => return false,
    }
    let mut words = line.split(' ');
    matches!(words.next(), Some("router" | "interface" | "route-map" | "address-family" | "vrf"))
        && words.next().is_some()
        || matches!(line, "bfd" | "rpki")
}

/// What `show running-config` has besides lines.
fn is_noise(line: &str) -> bool {
    line.is_empty()
        || line.starts_with(['!', '#'])
        || matches!(line, "end" | "exit" | "Building configuration..." | "Current configuration:")
        || line.starts_with("exit-")
}

/// A line with single spaces, and numbers of areas as addresses: FRR shows them as they were told.
fn line_of(words: &str) -> String {
    let mut words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let of_area = matches!(words.first().map(String::as_str), Some("area" | "network"))
        || words.len() > 1
            && matches!((words[0].as_str(), words[1].as_str()), ("ip", "ospf") | ("ipv6", "ospf6"));
    if of_area
        && let Some(at) = words.iter().position(|word| word == "area")
        && let Some(number) = words.get(at + 1).and_then(|word| word.parse::<u32>().ok())
    {
        words[at + 1] = Ipv4Addr::from(number).to_string();
    }
    words.join(" ")
}

/// What FRR says in one line for several: so that each can change by itself.
fn lines_of(line: String) -> Vec<String> {
    if let Some(start) = line.strip_suffix(" send-community all") {
        return ["", " extended", " large"]
            .iter()
            .map(|kind| format!("{start} send-community{kind}"))
            .collect();
    }
    if let Some(targets) = line.strip_prefix("rt vpn both ") {
        return ["import", "export"].iter().map(|way| format!("rt vpn {way} {targets}")).collect();
    }
    if let Some(target) = line.strip_prefix("route-target both ") {
        return ["import", "export"].iter().map(|way| format!("route-target {way} {target}")).collect();
    }
    // FRR 10 says some of them in other words.
    if line.starts_with("neighbor ") && line.ends_with(" ebgp-multihop") {
        return vec![line + " 255"];
    }
    if let Some(group) = line.strip_prefix("ip igmp join-group ") {
        return vec![format!("ip igmp join {group}")];
    }
    vec![line]
}

impl Config {
    /// Reads what `show running-config` prints, or what somebody wrote in the same form: a context
    /// has what is indented behind its line.
    pub fn parse(text: &str) -> Config {
        let mut config = Config::default();
        // Contexts that are open: how far their lines are indented.
        let mut open: Vec<(usize, Node)> = Vec::new();
        for line in text.lines() {
            let words = line.trim();
            if is_noise(words) {
                continue;
            }
            let indent = line.len() - line.trim_start().len();
            while open.last().is_some_and(|(above, _)| *above >= indent) || open.len() >= DEEPEST {
                config.close(&mut open);
            }
            for line in lines_of(line_of(words)) {
                while open.last().is_some_and(|(above, _)| *above >= indent) {
                    config.close(&mut open);
                }
                open.push((indent, Node::new(line)));
            }
        }
        while !open.is_empty() {
            config.close(&mut open);
        }
        // FRR 10 has a context for what was said at the root.
        if let Some(at) = config.0.iter().position(|node| node.line == "router pim") {
            let pim = config.0.remove(at).children.into_iter();
            let lines = pim.map(|child| Node { line: format!("ip pim {}", child.line), ..child });
            config.merge(Config(lines.collect()));
        }
        config
    }

    fn close(&mut self, open: &mut Vec<(usize, Node)>) {
        let Some((_, node)) = open.pop() else { return };
        match open.last_mut() {
            Some((_, above)) => add(&mut above.children, node),
            None => add(&mut self.0, node),
        }
    }

    /// Adds what another one has.
    pub fn merge(&mut self, other: Config) {
        other.0.into_iter().for_each(|node| add(&mut self.0, node));
    }

    /// The context that a line opens.
    pub fn context(&self, line: &str) -> Option<&Node> {
        self.0.iter().find(|node| node.line == line)
    }

    /// As FRR reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.0.iter().for_each(|node| write(node, "", 0, &mut text));
        text
    }
}

/// Adds a line; what its context has goes to the same one, if that is there.
fn add(nodes: &mut Vec<Node>, node: Node) {
    match nodes.iter_mut().find(|other| other.line == node.line) {
        None => nodes.push(node),
        Some(same) => {
            same.shared |= node.shared;
            node.children.into_iter().for_each(|child| add(&mut same.children, child));
        }
    }
}

fn write(node: &Node, above: &str, depth: usize, text: &mut String) {
    let indent = " ".repeat(depth);
    *text += &format!("{indent}{}\n", node.line);
    node.children.iter().for_each(|child| write(child, &node.line, depth + 1, text));
    if node.is_context(above) {
        *text += &format!("{indent}{}\n", Node::end(&node.line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "Building configuration...\n\nCurrent configuration:\n!\nfrr version 8.4.4\n!\n\
        router bgp 65001\n neighbor 192.0.2.2 remote-as 65002\n !\n address-family ipv4 unicast\n  \
        neighbor 192.0.2.2 activate\n exit-address-family\nexit\n!\nroute-map a deny 10\nexit\n!\n\
        router ospf\n area 0.0.0.3 nssa \nexit\n!\nend\n";

    #[test]
    fn what_frr_shows_is_read_as_a_tree() {
        let config = Config::parse(SHOWN);
        let lines: Vec<&str> = config.0.iter().map(|node| node.line.as_str()).collect();
        assert_eq!(lines, ["frr version 8.4.4", "router bgp 65001", "route-map a deny 10", "router ospf"]);
        let bgp = config.context("router bgp 65001").unwrap();
        assert_eq!(bgp.children[1].children, [Node::new("neighbor 192.0.2.2 activate")]);
        assert_eq!(config.context("router ospf").unwrap().children, [Node::new("area 0.0.0.3 nssa")]);
        assert_eq!(Config::parse(&config.text()), config);
    }

    #[test]
    fn an_area_is_the_same_as_a_number_and_as_an_address() {
        let config = Config::parse(
            "router ospf\n network 10.0.0.0/8 area 0\n area 1 stub\n\
             interface area\n ip ospf area 258\n description area 5\nexit\n",
        );
        let lines = "router ospf\n network 10.0.0.0/8 area 0.0.0.0\n area 0.0.0.1 stub\nexit\n\
                     interface area\n ip ospf area 0.0.1.2\n description area 5\nexit\n";
        assert_eq!(config.text(), lines);
    }

    #[test]
    fn a_context_that_is_there_twice_is_one() {
        let mut config = Config::parse("interface eth0\n ip ospf cost 5\nexit\n");
        config.merge(Config::parse("interface eth0\n ip ospf cost 5\n description x\n"));
        assert_eq!(config.text(), "interface eth0\n ip ospf cost 5\n description x\nexit\n");
    }

    #[test]
    fn what_is_said_in_one_line_or_in_other_words_is_read_as_several() {
        let config = Config::parse(
            "router bgp 7\n neighbor a ebgp-multihop\n address-family ipv4 unicast\n  \
             no neighbor a send-community all\n  rt vpn both 7:1 7:2\n exit-address-family\nexit\n\
             interface eth0\n ip igmp join-group 239.1.1.1\nexit\nrouter pim\n rp 192.0.2.1 239.0.0.0/8\nexit\n",
        );
        let lines = "router bgp 7\n neighbor a ebgp-multihop 255\n address-family ipv4 unicast\n  \
                     no neighbor a send-community\n  no neighbor a send-community extended\n  \
                     no neighbor a send-community large\n  rt vpn import 7:1 7:2\n  rt vpn export 7:1 7:2\n \
                     exit-address-family\nexit\ninterface eth0\n ip igmp join 239.1.1.1\nexit\n\
                     ip pim rp 192.0.2.1 239.0.0.0/8\n";
        assert_eq!(config.text(), lines);
    }
}
