//! Which lines of FRR's take the place of others, and how a line is taken back.

/// Of which an interface has one.
const ONE: [&str; 5] = ["isis", "hello", "drpriority", "version", "query-interval"];

/// How a line takes the place of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is said, and the other one is gone.
    Over,
    /// It is said, and the other one is gone, unless that had an option which it lacks.
    Options,
    /// The other one is taken back first.
    Anew,
}

/// What there can be only one of, of which this line is one; and how it replaces another one.
/// `None`: the line is for itself. `contexts` are the lines of its contexts, from the outside.
pub(crate) fn slot(contexts: &[String], line: &str) -> Option<(String, Mode)> {
    let context = contexts.first().map_or("", String::as_str);
    if context == "bfd" {
        let word = line.split(' ').next().unwrap_or_default();
        return (contexts.len() > 1).then(|| (word.to_owned(), Mode::Over));
    }
    let words: Vec<&str> = line.split(' ').collect();
    let first = |count: usize| words.get(..count).map(|words| words.join(" "));
    let (count, mode) = match (words[0], words.get(1).copied()) {
        ("neighbor", _) => return neighbour(&words),
        ("router", Some("bgp")) => {
            let vrf = words.iter().skip_while(|word| **word != "vrf").nth(1).unwrap_or(&"");
            return Some((format!("router bgp {vrf}"), Mode::Anew));
        }
        ("route-map", Some(name)) if context.is_empty() => {
            return Some((format!("route-map {name} {}", words.get(3)?), Mode::Anew));
        }
        ("bgp", Some("router-id" | "cluster-id")) => (2, Mode::Over),
        ("bgp", Some("dampening")) => (2, Mode::Over),
        ("bgp", Some("graceful-restart")) if words.len() > 3 => (3, Mode::Over),
        ("bgp", Some("listen")) => (if words.get(2) == Some(&"limit") { 3 } else { 4 }, Mode::Anew),
        ("distance", Some("bgp")) => (2, Mode::Over),
        ("aggregate-address", _) => (2, Mode::Over),
        ("rd" | "label" | "nexthop" | "rt" | "route-map", Some("vpn")) => (3, Mode::Over),
        ("rd", _) => (1, Mode::Over),
        ("bgp", Some("as-path")) => (5, Mode::Anew),
        ("bgp", Some("community-list" | "large-community-list" | "extcommunity-list")) => (5, Mode::Anew),
        ("timers", _) => (2, Mode::Over),
        ("maximum-paths", Some("ibgp")) => (2, Mode::Over),
        ("maximum-paths", _) => (1, Mode::Over),
        ("redistribute" | "default-information", _) if context.starts_with("router isis ") => (4, Mode::Over),
        ("net", _) if context.starts_with("router isis ") => (1, Mode::Anew),
        ("is-type" | "lsp-mtu" | "area-password" | "domain-password" | "default-metric", _) => {
            (1, Mode::Over)
        }
        ("isis", _) => (2, Mode::Over),
        ("ip", Some("router" | "pim" | "igmp")) if words.get(2).is_some_and(|word| ONE.contains(word)) => {
            (3, Mode::Over)
        }
        ("ip", Some("pim")) if words.get(2) == Some(&"ssm") => (3, Mode::Over),
        ("ip", Some("rip")) => (4, Mode::Over),
        ("redistribute", _) => (2, Mode::Options),
        ("network", _) if context.starts_with("router bgp ") => (2, Mode::Options),
        ("ospf" | "ospf6", Some("router-id")) => (2, Mode::Over),
        ("auto-cost", _) => (2, Mode::Over),
        ("default-information", _) => (2, Mode::Options),
        ("area", _) => match words.get(2).copied() {
            Some("stub" | "nssa") => return Some((format!("{} kind", first(2)?), Mode::Anew)),
            Some("range") => (4, Mode::Anew),
            _ => return None,
        },
        ("ip", Some("ospf")) | ("ipv6", Some("ospf6")) => match words.get(2).copied() {
            Some("area") => (3, Mode::Anew),
            Some("message-digest-key") => (4, Mode::Anew),
            _ => (3, Mode::Over),
        },
        // FRR ignores an entry that the list has already under another number: those go first.
        ("ip" | "ipv6", Some("prefix-list")) if words.get(3) == Some(&"seq") => (5, Mode::Anew),
        ("ip" | "ipv6", Some("prefix-list")) if words.get(3) == Some(&"description") => (4, Mode::Over),
        ("match" | "set", Some("ip" | "ipv6")) if words.len() > 4 => (4, Mode::Over),
        ("set", Some("ipv6")) => return None,
        ("match" | "set", Some("ip" | "ipv6")) => (3, Mode::Over),
        ("set", Some("as-path" | "extcommunity")) => (3, Mode::Over),
        ("set", Some("comm-list" | "large-comm-list")) => (2, Mode::Over),
        ("match" | "set", _) => (2, Mode::Over),
        ("description" | "call" | "on-match", _) => (1, Mode::Over),
        _ => return None,
    };
    Some((first(count)?, mode))
}

fn neighbour(words: &[&str]) -> Option<(String, Mode)> {
    let (name, key) = (words.get(1)?, *words.get(2)?);
    let direction = words.last()?;
    let slot = match key {
        "remote-as"
        | "description"
        | "password"
        | "update-source"
        | "weight"
        | "allowas-in"
        | "local-as"
        | "advertisement-interval"
        | "maximum-prefix"
        | "maximum-prefix-out"
        | "unsuppress-map"
        | "attribute-unchanged"
        | "default-originate" => key.to_owned(),
        "addpath-tx-all-paths" | "addpath-tx-bestpath-per-AS" => "addpath-tx".to_owned(),
        "graceful-restart" | "graceful-restart-helper" | "graceful-restart-disable" => {
            return Some((format!("neighbor {name} graceful-restart"), Mode::Anew));
        }
        "remove-private-AS" => return Some((format!("neighbor {name} {key}"), Mode::Anew)),
        "timers" if words.get(3) == Some(&"connect") => "timers connect".to_owned(),
        "timers" => key.to_owned(),
        "route-map" | "prefix-list" | "filter-list" | "distribute-list" => format!("{key} {direction}"),
        "bfd" if words.get(3) == Some(&"profile") => "bfd profile".to_owned(),
        // FRR has one of the two.
        "ebgp-multihop" | "ttl-security" => return Some((format!("neighbor {name} hops"), Mode::Anew)),
        _ => return None,
    };
    Some((format!("neighbor {name} {slot}"), Mode::Over))
}

/// Words that say more of what a line is about.
const OPTIONS: [&str; 4] = ["always", "metric", "metric-type", "route-map"];

/// Whether a line lacks an option that another one has.
pub(crate) fn lacks_option(line: &str, other: &str) -> bool {
    let has = |line: &str, option: &str| line.split(' ').any(|word| word == option);
    OPTIONS.iter().any(|option| has(other, option) && !has(line, option))
}

/// How a line is taken back.
pub(crate) fn negation(line: &str) -> String {
    if let Some(positive) = line.strip_prefix("no ") {
        return positive.to_owned();
    }
    let words: Vec<&str> = line.split(' ').collect();
    // What FRR does not take back, but can be told its default of.
    let usual = match words[0] {
        "detect-multiplier" => Some("3"),
        "transmit-interval" | "receive-interval" => Some("300"),
        _ => None,
    };
    if let Some(usual) = usual {
        return format!("{} {usual}", words[0]);
    }
    // What FRR wants no more of than this.
    let count = match (words[0], words.get(2).copied()) {
        ("neighbor", Some("description" | "password" | "maximum-prefix")) => 3,
        ("neighbor", Some("bfd")) if words.get(3) != Some(&"profile") => 3,
        ("neighbor", Some("allowas-in" | "maximum-prefix-out")) => 3,
        ("bgp", _) if words.get(1) == Some(&"dampening") => 2,
        ("aggregate-address", _) => 2,
        ("redistribute", _) if matches!(words.get(1), Some(&("ipv4" | "ipv6"))) => 4,
        ("default-information", Some("ipv4" | "ipv6")) => 4,
        ("redistribute", _) => 2,
        ("network", _) if !words.contains(&"area") => 2,
        ("default-information", _) => 2,
        ("area", Some("stub" | "nssa")) => 3,
        ("area", Some("range")) => 4,
        ("ip", Some("authentication-key")) => 3,
        ("ip", Some("message-digest-key")) => 4,
        ("set", Some("prepend" | "exclude")) => 3,
        ("description" | "area-password" | "domain-password", _) => 1,
        ("on-match", _) => 2,
        ("set", _) if words.get(1) == Some(&"table") => 2,
        _ => words.len(),
    };
    format!("no {}", words[..count.min(words.len())].join(" "))
}
