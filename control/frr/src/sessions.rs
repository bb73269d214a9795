//! What commands do to BGP's sessions, and to OSPF's: told before it is done.
//!
//! BGP's table is that of FRR's source (`peer_flag_action_list`, `peer_af_flag_action_list` and the
//! functions that set what is no flag, in `bgpd/bgpd.c` of 8.4).

use std::fmt;

use crate::diff::{Command, neighbour_of};
use crate::owned::is_policy;
use crate::tree::{Config, Node};

/// What becomes of sessions, by what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// What comes in, or goes out, is judged again; no route is lost meanwhile.
    Refreshed,
    /// One more.
    Begins,
    /// It ends, and begins again.
    Reset,
    /// It ends.
    Ends,
}

/// What becomes of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// What there is a session of, and with whom.
    pub session: String,
    /// What becomes of it.
    pub what: What,
    /// By which keys of FRR's.
    pub why: Vec<String>,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Effect { session, what, why } = self;
        let what = match what {
            What::Refreshed => "is kept, and its routes are judged again",
            What::Begins => "begins",
            What::Reset => "is reset",
            What::Ends => "ends",
        };
        write!(f, "{session} {what}")?;
        if why.is_empty() { Ok(()) } else { write!(f, " ({})", why.join(", ")) }
    }
}

/// What commands do to the sessions that there are by the one configuration, and by the other.
pub fn effects(from: &Config, to: &Config, commands: &[Command]) -> Vec<Effect> {
    let mut effects = Effects::default();
    for command in commands {
        let context = command.contexts.first().map_or("", String::as_str);
        if context.starts_with("router bgp ") {
            bgp(from, to, context, &command.line, &mut effects);
        } else if context.is_empty() && command.line.starts_with("no router bgp ") {
            let gone = &command.line["no ".len()..];
            names(from, gone)
                .for_each(|name| effects.note(session([from, to], gone, name), What::Ends, None));
        } else if context == "bfd" {
            bfd(from, command, &mut effects);
        } else if context.is_empty() && matches!(command.line.as_str(), "no bfd" | "bfd") {
            let all = from.context("bfd").map_or(&[][..], |it| &it.children);
            all.iter().for_each(|it| bfd_peer(&it.line, What::Ends, &mut effects));
        } else if let Some(interface) = context.strip_prefix("interface ") {
            ospf(from, context, interface, &command.line, &mut effects);
        }
    }
    for (bgp, name, _, line) in uses(to, commands) {
        effects.note(session([from, to], bgp, name), What::Refreshed, key(line));
    }
    effects.0
}

/// Commands, not of the configuration, by which neighbours judge routes again: FRR does not by
/// itself when a list changes that a neighbour uses without a route map.
pub fn clears(to: &Config, commands: &[Command]) -> Vec<String> {
    let mut clears = Vec::new();
    for (bgp, name, family, line) in uses(to, commands) {
        let words: Vec<&str> = line.split(' ').collect();
        let (Some("prefix-list" | "filter-list"), Some(direction)) = (words.get(2).copied(), words.last())
        else {
            continue;
        };
        let vrf = vrf_of(bgp).map_or_else(String::new, |vrf| format!(" vrf {vrf}"));
        let family = family.trim_start_matches("address-family ");
        let clear = format!("clear bgp{vrf} {family} {name} soft {direction}");
        if !clears.contains(&clear) {
            clears.push(clear);
        }
    }
    clears
}

#[derive(Default)]
struct Effects(Vec<Effect>);

impl Effects {
    fn note(&mut self, session: String, what: What, why: Option<String>) {
        let place = self.0.iter().position(|effect| effect.session == session);
        let place = place.unwrap_or_else(|| {
            self.0.push(Effect { session, what, why: Vec::new() });
            self.0.len() - 1
        });
        let effect = &mut self.0[place];
        if what > effect.what {
            (effect.what, effect.why) = (what, Vec::new());
        }
        if let Some(why) = why.filter(|why| what == effect.what && !effect.why.contains(why)) {
            effect.why.push(why);
        }
    }
}

/// What a session is called; those of neighbours that come by themselves are called by their group.
fn session(configs: [&Config; 2], bgp: &str, name: &str) -> String {
    let group = format!("neighbor {name} peer-group");
    let lines = configs.iter().filter_map(|config| config.context(bgp)).flat_map(|bgp| &bgp.children);
    let of = if lines.clone().any(|it| it.line == group) {
        "every BGP session of"
    } else {
        "the BGP session with"
    };
    match vrf_of(bgp) {
        None => format!("{of} {name}"),
        Some(vrf) => format!("{of} {name} in {vrf}"),
    }
}

fn vrf_of(bgp: &str) -> Option<&str> {
    bgp.split_once(" vrf ").map(|(_, vrf)| vrf)
}

/// Who is a neighbour in a context of BGP.
fn names<'c>(config: &'c Config, bgp: &str) -> impl Iterator<Item = &'c str> {
    let nodes = config.context(bgp).map_or(&[][..], |node| &node.children);
    let mut names: Vec<&str> = nodes.iter().filter_map(|node| neighbour_of(&node.line)).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}

fn key(line: &str) -> Option<String> {
    let line = line.strip_prefix("no ").unwrap_or(line);
    line.split(' ').nth(if line.starts_with("neighbor ") { 2 } else { 1 }).map(str::to_owned)
}

fn bgp(from: &Config, to: &Config, context: &str, line: &str, effects: &mut Effects) {
    let positive = line.strip_prefix("no ").unwrap_or(line);
    let is_in = |config: &Config, name: &str| names(config, context).any(|other| other == name);
    let Some(name) = neighbour_of(line) else {
        // What is said of all of them.
        if positive.starts_with("bgp router-id") || positive.starts_with("bgp cluster-id") {
            for name in names(from, context).filter(|name| is_in(to, name)) {
                effects.note(session([from, to], context, name), What::Reset, key(line));
            }
        }
        return;
    };
    let words: Vec<&str> = positive.split(' ').collect();
    if let ["bgp", "listen", "range", range, ..] = words.as_slice() {
        if line.starts_with("no ") {
            let ends = format!("{} from {range}", session([from, to], context, name));
            effects.note(ends, What::Ends, None);
        }
        return;
    }
    let (was, stays) = (is_in(from, name), is_in(to, name));
    let what = match (was, stays) {
        (true, false) => Some(What::Ends),
        (false, _) => Some(What::Begins),
        // The whole of it is taken back, to be said again.
        (true, true) => words.get(2).map_or(Some(What::Reset), |key| of_key(key)),
    };
    let why = Some(()).filter(|()| was && stays).and_then(|()| key(line));
    what.into_iter().for_each(|what| effects.note(session([from, to], context, name), what, why.clone()));
}

/// What a change of a neighbour's key does to its session.
fn of_key(key: &str) -> Option<What> {
    match key {
        "remote-as"
        | "local-as"
        | "password"
        | "update-source"
        | "ebgp-multihop"
        | "ttl-security"
        | "passive"
        | "shutdown"
        | "activate"
        | "route-reflector-client"
        | "route-server-client"
        | "capability"
        | "disable-connected-check"
        | "port"
        | "interface"
        | "peer-group"
        | "dont-capability-negotiate"
        | "override-capability"
        | "strict-capability-match"
        | "addpath-tx-all-paths"
        | "addpath-tx-bestpath-per-AS"
        | "disable-addpath-rx" => Some(What::Reset),
        // Graceful restart is agreed on when the next session begins.
        "graceful-restart" | "graceful-restart-helper" | "graceful-restart-disable" => None,
        "description"
        | "timers"
        | "bfd"
        | "maximum-prefix"
        | "maximum-prefix-out"
        | "advertisement-interval" => None,
        _ => Some(What::Refreshed),
    }
}

/// Sessions of BFD that begin or end; those that change go on, with the times that both agree on.
fn bfd(from: &Config, command: &Command, effects: &mut Effects) {
    let there =
        |line: &str| from.context("bfd").is_some_and(|it| it.children.iter().any(|it| it.line == line));
    match command.contexts.get(1) {
        None => match command.line.strip_prefix("no ") {
            Some(line) => bfd_peer(line, What::Ends, effects),
            None => bfd_peer(&command.line, What::Begins, effects),
        },
        Some(peer) if !there(peer) => bfd_peer(peer, What::Begins, effects),
        Some(peer) if command.line == "shutdown" => bfd_peer(peer, What::Ends, effects),
        Some(_) => {}
    }
}

fn bfd_peer(line: &str, what: What, effects: &mut Effects) {
    if let Some(peer) = line.strip_prefix("peer ").and_then(|rest| rest.split(' ').next()) {
        effects.note(format!("the BFD session with {peer}"), what, None);
    }
}

/// Keys of OSPF's that neighbours must agree on, or without which there are none.
fn ospf(from: &Config, context: &str, interface: &str, line: &str, effects: &mut Effects) {
    let positive = line.strip_prefix("no ").unwrap_or(line);
    let (name, rest) = match (positive.strip_prefix("ip ospf "), positive.strip_prefix("ipv6 ospf6 ")) {
        (Some(rest), _) => ("OSPF", rest),
        (_, Some(rest)) => ("OSPF for IPv6", rest),
        _ => return others(from, context, interface, line, effects),
    };
    let head = if name == "OSPF" { "ip ospf area " } else { "ipv6 ospf6 area " };
    let was = from.context(context).is_some_and(|it| it.children.iter().any(|it| it.line.starts_with(head)));
    let key = rest.split(' ').next().unwrap_or_default();
    let what = match key {
        "area" if line.starts_with("no ") => What::Ends,
        "area" if !was => What::Begins,
        "hello-interval" | "dead-interval" | "network" | "authentication" | "authentication-key"
        | "message-digest-key" | "passive" | "area"
            if was =>
        {
            What::Reset
        }
        _ => return,
    };
    effects.note(format!("{name} on {interface}"), what, Some(key.to_owned()));
}

/// The same of IS-IS and PIM.
fn others(from: &Config, context: &str, interface: &str, line: &str, effects: &mut Effects) {
    let positive = line.strip_prefix("no ").unwrap_or(line);
    let is_there = |head: &str| {
        from.context(context).is_some_and(|it| it.children.iter().any(|it| it.line.starts_with(head)))
    };
    let words: Vec<&str> = positive.split(' ').collect();
    let (name, key, was) = match words.as_slice() {
        ["ip" | "ipv6", "router", "isis", _] => ("IS-IS", None, is_there(positive)),
        ["ip", "pim"] => ("PIM", None, is_there("ip pim")),
        ["isis", key @ ("circuit-type" | "network" | "password" | "passive"), ..] => {
            ("IS-IS", Some((*key).to_owned()), is_there("ip router isis") || is_there("ipv6 router isis"))
        }
        ["ip", "pim", "passive"] => ("PIM", Some("passive".to_owned()), is_there("ip pim")),
        _ => return,
    };
    let what = match (&key, was, line.starts_with("no ")) {
        (None, _, true) => What::Ends,
        (None, false, false) => What::Begins,
        (Some(_), true, _) => What::Reset,
        _ => return,
    };
    effects.note(format!("{name} on {interface}"), what, key);
}

/// Where neighbours use lists and route maps that change: the context of BGP, the neighbour, the
/// family, and the line.
fn uses<'c>(to: &'c Config, commands: &[Command]) -> Vec<(&'c str, &'c str, &'c str, &'c str)> {
    let mut changed: Vec<(&str, String)> = Vec::new();
    let mut note = |of: (&'static str, String)| {
        if !changed.contains(&of) {
            changed.push(of);
        }
    };
    for command in commands {
        let root = command.contexts.first().unwrap_or(&command.line);
        let root = root.strip_prefix("no ").unwrap_or(root);
        if is_policy(root) {
            named(root).into_iter().for_each(&mut note);
        }
    }
    // Route maps that ask for a list which changes.
    let lists = changed.clone();
    for node in to.0.iter().filter(|node| node.line.starts_with("route-map ")) {
        let asks = |child: &Node| {
            let last = child.line.split(' ').next_back().unwrap_or_default();
            child.line.starts_with("match ")
                && lists.iter().any(|(kind, name)| *kind != "route-map" && name == last)
        };
        let of = named(&node.line).filter(|of| node.children.iter().any(asks) && !changed.contains(of));
        changed.extend(of);
    }
    let mut found = Vec::new();
    for bgp in to.0.iter().filter(|node| node.line.starts_with("router bgp ")) {
        for family in bgp.children.iter().filter(|node| node.line.starts_with("address-family ")) {
            for line in &family.children {
                let words: Vec<&str> = line.line.split(' ').collect();
                let (Some(name), [_, _, kind, list, _]) = (neighbour_of(&line.line), &words[..]) else {
                    continue;
                };
                let own = |(changed, name): &(&str, String)| {
                    let same_family = match *changed {
                        "ip prefix-list" => family.line.contains(" ipv4 "),
                        "ipv6 prefix-list" => family.line.contains(" ipv6 "),
                        _ => true,
                    };
                    same_family && changed.ends_with(kind) && name == list
                };
                if changed.iter().any(own) {
                    found.push((bgp.line.as_str(), name, family.line.as_str(), line.line.as_str()));
                }
            }
        }
    }
    found
}

/// What kind of a list or route map a line is of, as neighbours ask for it, and its name.
fn named(line: &str) -> Option<(&'static str, String)> {
    let words: Vec<&str> = line.split(' ').collect();
    let (kind, at) = match (words[0], words.get(1).copied()) {
        ("route-map", _) => ("route-map", 1),
        ("ip", Some("prefix-list")) => ("ip prefix-list", 2),
        ("ipv6", Some("prefix-list")) => ("ipv6 prefix-list", 2),
        ("bgp", Some("as-path")) => ("filter-list", 3),
        ("bgp", Some("community-list" | "large-community-list" | "extcommunity-list")) => ("communities", 3),
        _ => return None,
    };
    words.get(at).map(|name| (kind, (*name).to_owned()))
}
