//! Words that people type who know other routers, and what they are here.

/// What such a line becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// A line of ours.
    Ours(Vec<String>),
    /// FRR knows it, by the same words.
    Frr(Vec<String>),
    /// Nothing is to be done; why.
    Nothing(&'static str),
}

enum To {
    /// Ours, with the words that follow, or without.
    Ours(&'static str, bool),
    Frr,
    Nothing(&'static str),
}

use To::{Frr, Nothing, Ours};

/// The first that matches. Words may be shortened, but those in capitals.
const KNOWN: &[(&str, To)] = &[
    ("configure terminal", Ours("configure", false)),
    ("configure T", Ours("configure", false)),
    ("CONF", Ours("configure", false)),
    ("enable", Nothing("there is one mode to look, and one to configure: `configure`")),
    ("WR", Nothing(SAVED)),
    ("write", Nothing(SAVED)),
    ("copy running-config startup-config", Nothing(SAVED)),
    ("terminal", Nothing("`| no-more` shows all at once")),
    ("show ip route", Ours("show routes", true)),
    ("show ipv6 route", Ours("show routes", true)),
    ("show ip interface", Ours("show interfaces", false)),
    ("show ipv6 interface", Ours("show interfaces", false)),
    ("show interfaces terse", Ours("show interfaces", false)),
    ("show interfaces brief", Ours("show interfaces", false)),
    ("show interfaces status", Ours("show ports", false)),
    ("show interfaces descriptions", Ours("show interfaces", false)),
    ("show ARP", Ours("show neighbours", false)),
    ("show ip arp", Ours("show neighbours", false)),
    ("show ipv6 neighbors", Ours("show neighbours", false)),
    ("show ip mroute", Ours("show multicast", false)),
    ("show multicast route", Ours("show multicast", false)),
    ("show TECH-SUPPORT", Ours("support", false)),
    ("request support", Ours("support", false)),
    ("show running-config", Ours("show config", false)),
    ("show startup-config", Ours("show config", false)),
    ("show system commit", Ours("history", false)),
    ("show ARCHIVE", Ours("history", false)),
    ("show vrrp", Ours("show redundancy", false)),
    ("show ip nat", Ours("show nat", false)),
    ("show nat translations", Ours("show nat", false)),
    ("show access-lists", Ours("show filter", false)),
    ("show ip access-lists", Ours("show filter", false)),
    ("show firewall", Ours("show filter", false)),
    ("show CONNTRACK", Ours("show flows", false)),
    ("show security flow session", Ours("show flows", false)),
    ("show bfd peers", Frr),
    ("show bfd session", Ours("show bfd", false)),
    ("show BGP", Frr),
    ("show OSPF", Frr),
    ("show isis", Frr),
    ("show rip", Frr),
    ("show rpki", Frr),
    ("show ROUTE-MAP", Frr),
    ("show ip", Frr),
    ("show ipv6", Frr),
    ("clear ip", Frr),
    ("restart routing", Ours("restart frr", false)),
    ("restart dhcp server", Ours("restart dhcp", false)),
    ("restart dhcpv6 server", Ours("restart dhcp6", false)),
    ("restart dns forwarding", Ours("restart dns", false)),
    ("monitor interfaces", Ours("monitor ports", false)),
    ("show LOG", Ours("log", false)),
    ("show LOGGING", Ours("log", false)),
    ("clear BGP", Frr),
];

const SAVED: &str = "a commit is saved already: into the file, and into the history";

/// What others' words mean here, if they are such.
pub(super) fn meant(words: &[String]) -> Option<Meant> {
    let (line, to) = KNOWN.iter().find(|(line, _)| begins(words, line))?;
    let rest = &words[line.split(' ').count()..];
    let ours = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    Some(match to {
        Ours(line, true) => Meant::Ours(ours(line).into_iter().chain(rest.iter().cloned()).collect()),
        Ours(line, false) => Meant::Ours(ours(line)),
        Nothing(why) => Meant::Nothing(why),
        // FRR takes words short itself, but the first ones are known whole.
        Frr => {
            let known = line.split(' ').map(str::to_lowercase);
            Meant::Frr(known.chain(rest.iter().cloned()).collect())
        }
    })
}

fn begins(words: &[String], line: &str) -> bool {
    let mut words = words.iter();
    line.split(' ').all(|known| {
        words.next().is_some_and(|word| match known == known.to_uppercase() {
            true => known.eq_ignore_ascii_case(word),
            // "sh" is enough for show, and "c" for nothing.
            false => word.len() >= 2.min(known.len()) && known.starts_with(word.as_str()),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Some(match meant(&words)? {
            Meant::Ours(words) => words.join(" "),
            Meant::Frr(words) => format!("frr: {}", words.join(" ")),
            Meant::Nothing(_) => "nothing".to_owned(),
        })
    }

    #[test]
    fn words_of_others_are_understood() {
        for (line, expected) in [
            ("show ip route", "show routes"),
            ("sh ip ro 10.0.0.0/8", "show routes 10.0.0.0/8"),
            ("sh ip int brief", "show interfaces"),
            ("sh int terse", "show interfaces"),
            ("conf t", "configure"),
            ("conf te", "configure"),
            ("configure terminal", "configure"),
            ("wr", "nothing"),
            ("write memory", "nothing"),
            ("sh run", "show config"),
            ("show tech-support", "support"),
            ("request support information", "support"),
            ("show ip bgp summary", "frr: show ip bgp summary"),
            ("sh ip bgp sum", "frr: show ip bgp sum"),
            ("show bgp ipv6 unicast", "frr: show bgp ipv6 unicast"),
            ("clear ip bgp *", "frr: clear ip bgp *"),
            ("restart routing", "restart frr"),
            ("restart dhcp server", "restart dhcp"),
            ("show log", "log"),
            ("sh logging", "log"),
            ("show arp", "show neighbours"),
        ] {
            assert_eq!(of(line).as_deref(), Some(expected), "{line}");
        }
        for line in
            ["show ports", "show interfaces", "sh int", "show bfd", "show routes", "configure", "clear flows"]
        {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
