//! The same rules in the words of nftables, for the time when the plane is gone and Linux forwards.
//!
//! Linux has masquerading, pools, port forwards and prefixes one to one. It maps endpoints its own
//! way (other ports for other destinations when it must), which nobody notices in an emergency. It
//! has no NAT64, no NPTv6, no deterministic blocks, and no words for some port forwards: such a
//! rule says itself what becomes of what it is for ([`Fallback`]), and
//! [`Text::check`](crate::Text::check) takes none that doesn't.
//!
//! Of a connection that the plane translated Linux knows nothing, and takes what it sees first of
//! it for its beginning: it would choose another port or address for it, or take what a server says
//! for a connection of the server's own, and the other end would answer with a reset. Where that
//! may be, segments within a connection that Linux does not know are dropped: the connection waits
//! for the plane, or for a segment from the side that began it. Nor does Linux say of the plane's
//! ports that nobody is there.

mod members;

use std::fmt::Write;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use crate::compiled::Port;
use crate::rule::{Action, Fallback, Half, Match, Pooling, Rule, Rules, Spread, Target};
use crate::{Addresses, Clamp};
use members::Members;

/// Entries of a map at most: beyond that Linux is asked too much.
const MOST_ENTRIES: u64 = 256;
/// Segments of TCP within a connection that Linux does not know.
const UNKNOWN: &str = "ct state new tcp flags & (fin | syn | rst | ack) != syn";

/// Asks whether an address is the router's own.
const OWN: &str = "fib daddr type local ";

/// The ports that traceroute counts through.
const TRACEROUTE: RangeInclusive<u16> = 33_434..=33_534;

/// Whether Linux can do what the rule says.
pub(crate) fn can_express(rule: &Rule) -> bool {
    match &rule.action {
        Action::None | Action::Masquerade(_) | Action::OneToOne { .. } => true,
        Action::Deterministic { .. } | Action::Nat64 { .. } | Action::Nptv6(_) => false,
        Action::Source { addresses, .. } => addresses.ranges().len() == 1 || addresses.len() <= MOST_ENTRIES,
        Action::Destination { targets, .. } => match &targets[..] {
            [target] => match shifted(target, &rule.matches) {
                Some(width) => u64::from(width) < MOST_ENTRIES && is_host(target),
                None => is_host(target) || target.ports.is_none(),
            },
            several => {
                let ports = |target: &Target| target.ports.as_ref().map(|ports| ports.start() == ports.end());
                let alike =
                    several.iter().all(|target| ports(target).is_some() == ports(&several[0]).is_some());
                alike && several.iter().all(|target| is_host(target) && ports(target) != Some(false))
            }
        },
    }
}

/// How wide a range of ports is that moves to another: Linux has a word only for each single one.
fn shifted(target: &Target, matches: &Match) -> Option<u16> {
    let ports = target.ports.as_ref().filter(|ports| ports.start() != ports.end())?;
    let same = matches.destination_ports.first() == Some(ports);
    // Invariant of rules: the two ranges are equally wide.
    (!same).then(|| ports.end() - ports.start())
}

fn is_host(target: &Target) -> bool {
    target.net.prefix_len() == target.net.max_prefix_len()
}

/// Who tells Linux what to translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The chains that are made here.
    Here,
    /// Others did: the rules are Linux's own. What is left to say is what becomes of connections
    /// that only the plane knows.
    Elsewhere,
}

/// The chains of these rules, for the table `inet bifrost`, without the table around them. Ports
/// and names are as in [`Nat::install`](crate::Nat::install). A rule that names no port there is
/// yet is left out, with a comment. `members`: which of the ports are in VRFs.
pub fn nftables(
    rules: &Rules,
    ports: &[Port],
    members: &[String],
    told: Told,
    named: impl Fn(&str, &str) -> bool,
) -> String {
    let mut chains = Chains { half: rules.half, ..Chains::new(ports, members, &named) };
    for rule in &rules.rules {
        chains.rule(rule);
    }
    for clamp in &rules.clamps {
        let Some(output) = chains.names(&clamp.output) else { continue };
        let to = match clamp.mss {
            Clamp::Path => "size set rt mtu".to_owned(),
            Clamp::To(mss) => format!("size > {mss} tcp option maxseg size set {mss}"),
        };
        let _ = writeln!(
            chains.forward,
            "\t\t{}tcp flags & syn == syn tcp option maxseg {to}",
            interface("oifname", "==", &output)
        );
    }
    // Exemptions alone say nothing.
    let drops = |lines: &str| lines.contains(" drop\n");
    let [closed, kept] = [&*chains.closed, &*chains.kept].map(|lines| if drops(lines) { lines } else { "" });
    let chain = |name: &str, hook: &str, lines: &str| match lines.is_empty() {
        true => String::new(),
        false => format!("\tchain {name} {{\n\t\ttype {hook}; policy accept;\n{lines}\t}}\n"),
    };
    let own = |lines: String| if told == Told::Here { lines } else { String::new() };
    [
        chain("nat_closed", "filter hook prerouting priority dstnat - 1", closed),
        own(chain("nat_destination", "nat hook prerouting priority dstnat", &chains.destination)),
        own(chain("nat_forward", "filter hook forward priority mangle", &chains.forward)),
        own(chain("nat_members", "filter hook forward priority mangle", &chains.members.labels())),
        chain("nat_kept", "filter hook forward priority mangle + 1", kept),
        own(chain("nat_source", "nat hook postrouting priority srcnat", &chains.source)),
        chain("nat_reset", "filter hook output priority filter", &chains.reset),
    ]
    .concat()
}

struct Chains<'r> {
    ports: &'r [Port],
    members: Members<'r>,
    /// Which part of the ports is given out.
    half: Option<Half>,
    named: &'r dyn Fn(&str, &str) -> bool,
    /// Drops what is to be dropped, before anything is translated.
    closed: String,
    destination: String,
    forward: String,
    /// Drops what is not to leave, once it is known which way it would.
    kept: String,
    source: String,
    /// Keeps Linux from resetting connections that it does not know.
    reset: String,
}

impl<'r> Chains<'r> {
    fn new(ports: &'r [Port], members: &'r [String], named: &'r dyn Fn(&str, &str) -> bool) -> Chains<'r> {
        let empty = String::new;
        Chains {
            ports,
            members: Members::new(members),
            half: None,
            named,
            closed: empty(),
            destination: empty(),
            forward: empty(),
            kept: empty(),
            source: empty(),
            reset: empty(),
        }
    }

    /// The interfaces that words mean: those there are, and plain names of those to come. `None`:
    /// there is no such interface yet.
    fn names(&self, words: &[String]) -> Option<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for word in words {
            let there = self.ports.iter().filter(|port| (self.named)(word, &port.name));
            let before = names.len();
            names.extend(there.map(|port| port.name.clone()));
            if names.len() == before && !word.contains(['*', '?', '[']) {
                names.push(word.clone());
            }
        }
        // A name in quotes has no quotes: no interface has them, though Linux would let one.
        names.retain(|name| name.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '*')));
        names.sort();
        names.dedup();
        (words.is_empty() || !names.is_empty()).then_some(names)
    }

    fn rule(&mut self, rule: &Rule) {
        // Debug escapes what would end the line.
        let comment = format!("\t\t# {} {:?}", rule.action.name(), rule.name);
        let interfaces = (self.names(&rule.matches.input), self.names(&rule.matches.output));
        let (Some(input), Some(output)) = interfaces else {
            let _ = writeln!(self.source, "{comment}: there is no such port yet");
            return;
        };
        let but = |key: &str, words: &[String]| interface(key, "!=", &self.names(words).unwrap_or_default());
        let sides = Sides {
            input: interface("iifname", "==", &input) + &but("iifname", &rule.matches.not_input),
            output: interface("oifname", "==", &output) + &but("oifname", &rule.matches.not_output),
            from_outside: interface("iifname", "==", &output),
            from_inside: interface("iifname", "!=", &input),
        };
        if !can_express(rule) {
            match rule.fallback {
                Some(Fallback::Closed) => self.close(rule, &sides, &comment),
                _ => {
                    let _ = writeln!(self.source, "{comment}: Linux cannot, it passes untranslated");
                }
            }
            return;
        }
        if let Some(dynamic) = rule.action.dynamic().filter(|_| !sides.output.is_empty()) {
            // A reset without ACK answers a segment for which there is no socket (RFC 9293, 3.5.2):
            // of a connection, as like as not, whose translation is known to the plane alone, which
            // is not there or will be again.
            let _ = writeln!(
                self.reset,
                "{comment}\n\t\t{}tcp flags & (fin | syn | rst | ack) == rst drop",
                sides.output
            );
            for line in unanswered(&dynamic.ports) {
                let _ = writeln!(self.reset, "\t\t{}{line}", sides.output);
            }
        }
        let given_out = rule.given_out(self.half);
        for family in [Family::V4, Family::V6] {
            let (destination, source) = express(&given_out, family, &sides);
            let (early, kept) = unknown(&given_out, family, &sides);
            let members = &mut self.members;
            let (destination, early) = (members.at_prerouting(destination), members.at_prerouting(early));
            let (kept, source) = (members.at_forward(kept, &sides), members.at_postrouting(source, &sides));
            for (chain, lines) in [
                (&mut self.destination, destination),
                (&mut self.source, source),
                (&mut self.closed, early),
                (&mut self.kept, kept),
            ] {
                if !lines.is_empty() {
                    let _ = writeln!(chain, "{comment}");
                }
                for line in lines {
                    let _ = writeln!(chain, "\t\t{line}");
                }
            }
        }
    }

    /// What the rule is for is dropped.
    fn close(&mut self, rule: &Rule, sides: &Sides, comment: &str) {
        let (mut kept, mut early) = (Vec::new(), Vec::new());
        match &rule.action {
            Action::Nat64 { prefix, .. } => early.push(format!("{}ip6 daddr {prefix} drop", sides.input)),
            Action::Nptv6(nptv6) => {
                kept.push(format!("{}ip6 saddr {} drop", sides.output, nptv6.inside()));
                early.push(format!("{}ip6 daddr {} drop", sides.from_outside, nptv6.outside()));
            }
            Action::Deterministic { blocks, .. } => {
                kept.push(format!("{}{}ip saddr {} drop", sides.input, sides.output, blocks.inside));
            }
            _ => {
                for family in [Family::V4, Family::V6] {
                    let Some(conditions) = family.conditions(&rule.matches) else { continue };
                    match &rule.action {
                        Action::Destination { targets, .. } if family.has(&targets[0].net) => {
                            let own = own_address(&rule.matches);
                            early.push(format!("{}{conditions}{own}drop", sides.input));
                        }
                        Action::Source { addresses, .. } if family.has_range(addresses) => {
                            kept.push(format!("{}{}{conditions}drop", sides.input, sides.output));
                        }
                        _ => {}
                    }
                }
            }
        }
        let (kept, early) = (self.members.at_forward(kept, sides), self.members.at_prerouting(early));
        for (chain, lines) in [(&mut self.kept, kept), (&mut self.closed, early)] {
            for line in lines {
                let _ = writeln!(chain, "{comment}\n\t\t{line}");
            }
        }
    }
}

/// Conditions on interfaces, each with a space behind it or empty.
struct Sides {
    input: String,
    output: String,
    /// It came by what the rule calls `output`.
    from_outside: String,
    /// It came by another than what the rule calls `input`.
    from_inside: String,
}

fn interface(key: &str, operator: &str, names: &[String]) -> String {
    let operator = if operator == "==" { String::new() } else { format!("{operator} ") };
    match names {
        [] => String::new(),
        [name] => format!("{key} {operator}\"{name}\" "),
        names => {
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!("{key} {operator}{{ {} }} ", quoted.join(", "))
        }
    }
}

fn own_address(matches: &Match) -> &'static str {
    if matches.destination.is_empty() { OWN } else { "" }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn has(self, net: &IpNet) -> bool {
        matches!((self, net), (Family::V4, IpNet::V4(_)) | (Family::V6, IpNet::V6(_)))
    }

    fn has_range(self, addresses: &Addresses) -> bool {
        addresses.ranges().iter().all(|range| range.is_ipv6() == (self == Family::V6))
    }

    fn ip(self) -> &'static str {
        if self == Family::V4 { "ip" } else { "ip6" }
    }

    /// Everything that a rule matches but interfaces, with a space behind it; `None`: nothing of
    /// this family.
    fn conditions(self, matches: &Match) -> Option<String> {
        let mut text = format!("meta nfproto ipv{} ", if self == Family::V4 { 4 } else { 6 });
        for (key, nets) in [("saddr", &matches.source), ("daddr", &matches.destination)] {
            let mine: Vec<String> = nets.iter().filter(|net| self.has(net)).map(IpNet::to_string).collect();
            match mine.is_empty() {
                true if !nets.is_empty() => return None,
                true => {}
                false => {
                    let _ = write!(text, "{} {key} {{ {} }} ", self.ip(), mine.join(", "));
                }
            }
        }
        if !matches.protocols.is_empty() {
            let numbers: Vec<String> = matches.protocols.iter().map(u8::to_string).collect();
            let _ = write!(text, "meta l4proto {{ {} }} ", numbers.join(", "));
        }
        Some(text + &ports("sport", &matches.source_ports) + &ports("dport", &matches.destination_ports))
    }
}

/// A condition on ports, with a space behind it; nothing where nothing is said.
fn ports(key: &str, ranges: &[RangeInclusive<u16>]) -> String {
    let ranges: Vec<String> =
        ranges.iter().map(|range| format!("{}-{}", range.start(), range.end())).collect();
    if ranges.is_empty() { String::new() } else { format!("th {key} {{ {} }} ", ranges.join(", ")) }
}

/// An address as it stands before a port.
fn before_port(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// The lines of a rule for one family: those that choose the destination, and those that choose the
/// source.
fn express(rule: &Rule, family: Family, sides: &Sides) -> (Vec<String>, Vec<String>) {
    let (mut destination, mut source) = (Vec::new(), Vec::new());
    let matches = &rule.matches;
    let Some(conditions) = family.conditions(matches) else { return (destination, source) };
    let (ip, Sides { input, output, from_outside, from_inside }) = (family.ip(), sides);
    match &rule.action {
        Action::None => {
            if matches.leaves_anywhere() {
                destination.push(format!("{input}{conditions}accept"));
            }
            source.push(format!("{input}{output}{conditions}accept"));
        }
        Action::Masquerade(dynamic) => {
            let ports = match matches.protocols.is_empty() {
                true => String::new(),
                false => format!(" to :{}-{}", dynamic.ports.start(), dynamic.ports.end()),
            };
            source.push(format!("{input}{output}{conditions}masquerade{ports}"));
        }
        Action::Source { addresses, dynamic } if family.has_range(addresses) => {
            let to = pool(addresses, family);
            let whole = addresses.ranges().len() == 1;
            let ports = match matches.protocols.is_empty() || !whole {
                true => String::new(),
                false => format!(":{}-{}", dynamic.ports.start(), dynamic.ports.end()),
            };
            let paired = if whole && dynamic.pooling == Pooling::Paired { " persistent" } else { "" };
            source.push(format!("{input}{output}{conditions}snat {ip} to {to}{ports}{paired}"));
        }
        Action::Destination { targets, spread, hairpin } if family.has(&targets[0].net) => {
            let from = if *hairpin { "" } else { input };
            let own = own_address(matches);
            let to = reach(targets, *spread, matches, family);
            destination.push(format!("{from}{conditions}{own}dnat {to}"));
            if *hairpin && !from_inside.is_empty() {
                let nets: Vec<String> = targets.iter().map(|target| target.net.to_string()).collect();
                let nets = nets.join(", ");
                source.push(format!("{from_inside}ct status dnat {ip} daddr {{ {nets} }} masquerade"));
            }
        }
        Action::OneToOne { inside, outside, hairpin } if family.has(inside) => {
            let single = inside.prefix_len() == inside.max_prefix_len();
            let (to_inside, to_outside) = match single {
                true => (format!("to {}", inside.addr()), format!("to {}", outside.addr())),
                false => (
                    format!("prefix to {ip} daddr map {{ {outside} : {inside} }}"),
                    format!("prefix to {ip} saddr map {{ {inside} : {outside} }}"),
                ),
            };
            let from = if *hairpin { "" } else { from_outside };
            destination.push(format!("{from}{ip} daddr {outside} dnat {ip} {to_inside}"));
            source.push(format!("{output}{ip} saddr {inside} snat {ip} {to_outside}"));
            if *hairpin {
                source.push(format!(
                    "ct status dnat {ip} saddr {inside} {ip} daddr {inside} snat {ip} {to_outside}"
                ));
            }
        }
        _ => {}
    }
    (destination, source)
}

/// The lines of a rule for one family about segments of connections that Linux does not know, and
/// of which it would not do what the plane did: before it is known which way they go, and after.
/// Exemptions from lines of later rules stand there as well.
fn unknown(rule: &Rule, family: Family, sides: &Sides) -> (Vec<String>, Vec<String>) {
    let (mut early, mut kept, anywhere) = (Vec::new(), Vec::new(), String::new());
    let matches = &rule.matches;
    let tcp = matches.protocols.is_empty() || matches.protocols.contains(&wire::protocol::TCP);
    let segments = Match { protocols: vec![wire::protocol::TCP], ..matches.clone() };
    let conditions = [matches, &segments].map(|matches| family.conditions(matches));
    let [Some(conditions), Some(segments)] = conditions else { return (early, kept) };
    let (ip, Sides { input, output, from_inside, .. }) = (family.ip(), sides);
    let dynamic = rule.action.dynamic();
    let all_ports =
        dynamic.is_none_or(|dynamic| dynamic.ports.end() - dynamic.ports.start() >= u16::MAX - 1024);
    match &rule.action {
        Action::None => {
            if matches.leaves_anywhere() {
                early.push(format!("{input}{conditions}accept"));
            }
            kept.push(format!("{input}{output}{conditions}accept"));
        }
        Action::Masquerade(_) | Action::Source { .. } => {
            let addresses = match &rule.action {
                Action::Source { addresses, .. } if !family.has_range(addresses) => return (early, kept),
                Action::Source { addresses, .. } => addresses.len(),
                _ => 1,
            };
            let from = format!("{input}{output}");
            match dynamic {
                _ if !tcp => {}
                _ if addresses > 1 => kept.push(format!("{from}{segments}{UNKNOWN} drop")),
                // Linux keeps a port, where it may.
                Some(dynamic) if !all_ports => {
                    let (first, last) = (dynamic.ports.start(), dynamic.ports.end());
                    kept.push(format!("{from}{segments}{UNKNOWN} tcp sport != {first}-{last} drop"));
                }
                _ => {}
            }
            kept.push(format!("{from}{conditions}accept"));
        }
        Action::Destination { targets, hairpin, .. } if tcp && family.has(&targets[0].net) => {
            // What servers say, which is not of a connection that they began.
            for target in targets {
                let ranges =
                    target.ports.as_ref().map_or(&matches.destination_ports[..], std::slice::from_ref);
                early.push(format!("{ip} saddr {} {}{UNKNOWN} drop", target.net, ports("sport", ranges)));
            }
            // Linux would choose another target, or another address for who is inside.
            let others = match targets.len() {
                1 => Some(from_inside).filter(|from| *hairpin && !from.is_empty()),
                _ => Some(if *hairpin { &anywhere } else { input }),
            };
            if let Some(from) = others {
                early.push(format!("{from}{segments}{}{UNKNOWN} drop", own_address(matches)));
            }
        }
        Action::OneToOne { inside, .. } if family.has(inside) => {
            kept.push(format!("{output}{ip} saddr {inside} accept"));
        }
        _ => {}
    }
    (early, kept)
}

/// What drops the answers that there is no socket at one of these ports, to datagrams (RFC 1122,
/// 4.1.3.1). It may be the plane's mapping, and who is told so gives up. Traceroute is told: by
/// that it knows where it has arrived.
fn unanswered(ports: &RangeInclusive<u16>) -> Vec<String> {
    let (first, last) = (*ports.start(), *ports.end());
    let ranges = [(first, last.min(TRACEROUTE.start() - 1)), (first.max(TRACEROUTE.end() + 1), last)];
    let mut lines = Vec::new();
    for (first, last) in ranges.into_iter().filter(|(first, last)| first <= last) {
        // Bits from the ICMP header on: the quoted packet's protocol, and its destination port.
        for (icmp, protocol, port) in [("icmp", 136, 240), ("icmpv6", 112, 400)] {
            lines.push(format!(
                "{icmp} type destination-unreachable {icmp} code port-unreachable @th,{protocol},8 {} @th,{port},16 {first}-{last} drop",
                wire::protocol::UDP
            ));
        }
    }
    lines
}

/// The addresses of a pool.
fn pool(addresses: &Addresses, family: Family) -> String {
    if addresses.ranges().len() == 1 {
        return addresses.to_string();
    }
    let all = (0..addresses.len()).filter_map(|n| addresses.get(n));
    let entries: Vec<String> =
        all.enumerate().map(|(n, octets)| format!("{n} : {}", crate::address(&octets))).collect();
    format!("jhash {} saddr mod {} map {{ {} }}", family.ip(), entries.len(), entries.join(", "))
}

/// Where a destination rule leads, of those that [`can_express`] takes.
fn reach(targets: &[Target], spread: Spread, matches: &Match, family: Family) -> String {
    let ip = family.ip();
    let [target] = targets else {
        let entry = |(n, target): (usize, &Target)| match &target.ports {
            None => format!("{n} : {}", target.net.addr()),
            Some(ports) => format!("{n} : {} . {}", target.net.addr(), ports.start()),
        };
        let entries: Vec<String> = targets.iter().enumerate().map(entry).collect();
        let by = match spread {
            Spread::Hash => format!("jhash {ip} saddr"),
            Spread::RoundRobin => "numgen inc".to_owned(),
        };
        return format!("{ip} to {by} mod {} map {{ {} }}", targets.len(), entries.join(", "));
    };
    if shifted(target, matches).is_some()
        && let (Some(to), [from, ..]) = (&target.ports, &matches.destination_ports[..])
    {
        let pairs = from.clone().zip(to.clone());
        let entries: Vec<String> =
            pairs.map(|(from, to)| format!("{from} : {} . {to}", target.net.addr())).collect();
        return format!("{ip} to th dport map {{ {} }}", entries.join(", "));
    }
    if !is_host(target) {
        let entries: Vec<String> =
            matches.destination.iter().map(|from| format!("{from} : {}", target.net)).collect();
        return format!("{ip} prefix to {ip} daddr map {{ {} }}", entries.join(", "));
    }
    match &target.ports {
        Some(ports) if ports.start() == ports.end() => {
            format!("{ip} to {}:{}", before_port(target.net.addr()), ports.start())
        }
        _ => format!("{ip} to {}", target.net.addr()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Text;

    fn rendered(text: &str) -> String {
        rendered_with(text, &[])
    }

    pub(super) fn rendered_with(text: &str, members: &[String]) -> String {
        let rules = toml::from_str::<Text>(text).unwrap().check().unwrap();
        let port = |number, name: &str| Port { number, name: name.to_owned(), addresses: Vec::new() };
        let ports = [port(1, "wan0"), port(2, "lan0"), port(3, "ppp0"), port(4, "ppp1")];
        nftables(&rules, &ports, members, Told::Here, |word, name| {
            word == name || word == "ppp*" && name.starts_with("ppp")
        })
    }

    #[test]
    fn a_half_of_the_ports_is_a_half_in_linux_and_no_answer_is_for_linux() {
        let text = rendered(&format!("half = \"upper\"\n{}", crate::text::EVERYTHING));
        for line in [
            "snat ip to 203.0.113.16-203.0.113.31:32769-65535 persistent\n",
            "@th,400,16 33535-65535 drop\n",
            "@th,240,16 1-33433 drop\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn every_rule_has_its_words() {
        let text = rendered(crate::text::EVERYTHING);
        for line in [
            "chain nat_destination {\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n",
            "iifname \"lan0\" meta nfproto ipv4 ip daddr { 10.0.0.0/8 } accept\n",
            "oifname \"wan0\" meta nfproto ipv4 ip saddr { 192.168.0.0/16 } masquerade\n",
            "oifname { \"ppp0\", \"ppp1\" } meta nfproto ipv4 meta l4proto { 6, 17 } snat ip to \
             203.0.113.16-203.0.113.31:1-65535 persistent\n",
            "snat ip to jhash ip saddr mod 2 map { 0 : 203.0.113.40, 1 : 203.0.113.42 }\n",
            "meta nfproto ipv4 meta l4proto { 6 } th dport { 443-443 } fib daddr type local dnat ip to jhash ip saddr mod 2 map { 0 : \
             192.168.1.10 . 8443, 1 : 192.168.1.11 . 8443 }\n",
            "iifname != \"wan0\" ct status dnat ip daddr { 192.168.1.10/32, 192.168.1.11/32 } masquerade\n",
            "th dport map { 2000 : 192.168.1.12 . 3000, 2001 : 192.168.1.12 . 3001 }\n",
            "dnat ip6 to [2001:db8:1::5]:80\n",
            "iifname \"wan0\" ip daddr 203.0.113.64/28 dnat ip prefix to ip daddr map { 203.0.113.64/28 : 10.1.0.0/28 }\n",
            "oifname \"wan0\" ip saddr 10.1.0.0/28 snat ip prefix to ip saddr map { 10.1.0.0/28 : 203.0.113.64/28 }\n",
            "\t\tip daddr 203.0.113.90/32 dnat ip to 10.1.0.90\n",
            "# deterministic \"carrier\"\n\t\toifname \"wan0\" ip saddr 100.64.0.0/22 drop\n",
            "# nat64 \"plat\"\n\t\tip6 daddr 64:ff9b::/96 drop\n",
            "# nptv6 \"site\": Linux cannot, it passes untranslated\n",
            "oifname { \"ppp0\", \"ppp1\" } tcp flags & syn == syn tcp option maxseg size set rt mtu\n",
            "chain nat_kept {\n\t\ttype filter hook forward priority mangle + 1; policy accept;\n\t\t# none \"vpn\"\n\t\tiifname \"lan0\" meta nfproto ipv4 ip daddr { 10.0.0.0/8 } accept\n",
            "oifname { \"ppp0\", \"ppp1\" } meta nfproto ipv4 meta l4proto { 6 } ct state new tcp flags & (fin | syn | rst | ack) != syn drop\n",
            "\t\tip saddr 192.168.1.10/32 th sport { 8443-8443 } ct state new tcp flags & (fin | syn | rst | ack) != syn drop\n",
            "th dport { 443-443 } fib daddr type local ct state new tcp flags & (fin | syn | rst | ack) != syn drop\n",
            "\t\toifname \"wan0\" icmpv6 type destination-unreachable icmpv6 code port-unreachable @th,112,8 17 @th,400,16 33535-65535 drop\n",
            "tcp flags & syn == syn tcp option maxseg size > 1400 tcp option maxseg size set 1400\n",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn names_cannot_break_out() {
        let text = rendered(
            "[[rule]]\nname = \"x\\n\\t\\tdrop\"\ntype = \"masquerade\"\nout = [\"a\\\" accept\", \"wan0\"]\n",
        );
        assert!(
            text.contains("# masquerade \"x\\n\\t\\tdrop\"\n") && !text.contains("accept\" accept"),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_rendered_of_nothing() {
        assert_eq!(rendered(""), "");
    }
}
