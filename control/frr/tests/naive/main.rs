//! What the commands make of FRR's configuration, on a naive model of FRR: it takes line for line,
//! knows which keys there are once only, and refuses what FRR refuses.

mod file;

use chance::Random;
use config::Routing;
use frr::{Config, Node, Owned, diff, render, script, sessions};

/// FRR, as a list of lines for each context.
#[derive(Default)]
struct Frr(Vec<(Vec<String>, Vec<String>)>);

impl Frr {
    fn lines(&mut self, context: &[String]) -> &mut Vec<String> {
        let at = self.0.iter().position(|(other, _)| other == context);
        let at = at.unwrap_or_else(|| {
            self.0.push((context.to_vec(), Vec::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    fn read(&mut self, text: &str) {
        let mut context: Vec<String> = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.starts_with("exit") {
                assert!(context.pop().is_some(), "out of nothing");
            } else if is_context(context.last(), line) {
                self.enters(line);
                context.push(line.to_owned());
                self.lines(&context);
            } else {
                self.takes(&context, line);
            }
        }
        assert!(context.is_empty());
    }

    fn enters(&self, line: &str) {
        for (other, _) in self.0.iter().filter(|(other, _)| other.len() == 1 && other[0] != line) {
            let vrf = |line: &str| line.split(" vrf ").nth(1).map(str::to_owned);
            let bgp = |line: &str| line.starts_with("router bgp ");
            assert!(!(bgp(line) && bgp(&other[0]) && vrf(line) == vrf(&other[0])), "BGP is already running");
        }
    }

    fn takes(&mut self, context: &[String], line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        // What is told its default has none.
        let usual = ["detect-multiplier 3", "transmit-interval 300", "receive-interval 300"];
        if usual.contains(&line) {
            return self.removes(context, words[0]);
        }
        if let ["no", rest @ ..] = &words[..] {
            // What is off by default.
            if is_usual(rest) {
                return self.adds(context, line);
            }
            return self.removes(context, &rest.join(" "));
        }
        if is_usual(&words) {
            self.lines(context).retain(|old| old.strip_prefix("no ") != Some(line));
            return;
        }
        self.adds(context, line);
    }

    fn adds(&mut self, context: &[String], line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "neighbor" && words.len() > 2 && !is_made(&words) {
            let known = |line: &String| {
                let made: Vec<&str> = line.split(' ').collect();
                made[0] == "neighbor" && made[1] == words[1] && is_made(&made)
            };
            let lines = self.lines(&context[..1]);
            assert!(lines.iter().any(known), "no such neighbour: {line}");
            let other = match words[2] {
                "ebgp-multihop" => "ttl-security",
                "ttl-security" => "ebgp-multihop",
                _ => "",
            };
            let other = format!("neighbor {} {other} ", words[1]);
            assert!(!lines.iter().any(|line| line.starts_with(&other)), "{line}");
        }
        if let ["bgp", "listen", "range", ..] = words[..] {
            let group = format!("neighbor {} peer-group", words[5]);
            let lines = self.lines(context);
            assert!(lines.contains(&group), "no such group: {line}");
            let same = format!("bgp listen range {} ", words[3]);
            assert!(!lines.iter().any(|other| other != line && other.starts_with(&same)), "{line}");
        }
        if words.last() == Some(&"activate") && words[0] == "neighbor" {
            let (of, labeled) = match &context[1] {
                it if it.ends_with(" labeled-unicast") => (it.replace("labeled-unicast", "unicast"), true),
                it => (it.replace("unicast", "labeled-unicast"), it.ends_with(" unicast")),
            };
            let other = vec![context[0].clone(), of];
            assert!(!(labeled && self.lines(&other).iter().any(|it| it == line)), "in both families: {line}");
        }
        let once = once(line);
        let lines = self.lines(context);
        if let Some(place) = &once
            && let Some(old) = lines.iter_mut().find(|old| self::once(old).as_ref() == Some(place))
        {
            // Areas and keys are not replaced, and options that are not named stay.
            assert!(old == line || !(line.contains("ospf area") || line.contains("digest-key")), "{line}");
            let old_options: Vec<&str> = ["metric", "route-map", "always", "metric-type"]
                .into_iter()
                .filter(|option| old.split(' ').any(|word| word == *option))
                .collect();
            let has = |option: &&str| line.split(' ').any(|word| word == *option);
            let of_isis = context[0].starts_with("router isis ");
            if !of_isis && ["redistribute", "default-information", "network"].contains(&words[0]) {
                assert!(old_options.iter().all(has), "{old} keeps an option: {line}");
            }
            line.clone_into(old);
            return;
        }
        // An entry that a list has already is ignored.
        if line.contains("prefix-list") && words.get(3) == Some(&"seq") {
            let same = |old: &&String| {
                let other: Vec<&str> = old.split(' ').collect();
                other[..3] == words[..3] && other[5..] == words[5..]
            };
            if lines.iter().any(|old| same(&old)) {
                return;
            }
        }
        if !lines.iter().any(|old| old == line) {
            lines.push(line.to_owned());
        }
    }

    fn removes(&mut self, context: &[String], what: &str) {
        let words: Vec<&str> = what.split(' ').collect();
        // What has options of its own, which stay.
        let alone = what == "bgp graceful-restart" || what.ends_with(" next-hop-self");
        let begins = |line: &str| line == what || !alone && line.starts_with(&format!("{what} "));
        if is_context(context.last(), what) {
            let before = self.0.len();
            let gone = [context, &[what.to_owned()]].concat();
            self.0.retain(|(other, _)| !other.starts_with(&gone));
            assert!(self.0.len() < before, "there is no {what}");
        } else if words[0] == "neighbor" && matches!(words[2..], [] | ["peer-group"]) {
            let about = words[..2].join(" ");
            let begins = |line: &str| line == about || line.starts_with(&format!("{about} "));
            for (_, lines) in self.0.iter_mut().filter(|(other, _)| other.starts_with(context)) {
                lines.retain(|line| !begins(line.strip_prefix("no ").unwrap_or(line)));
            }
        } else {
            let lines = self.lines(context);
            let before = lines.len();
            lines.retain(|line| !begins(line));
            assert!(lines.len() < before, "there is no {what}");
        }
    }

    fn shown(&self) -> String {
        let mut text = Config::default();
        for (context, lines) in self.0.iter().filter(|(context, lines)| {
            // Such contexts FRR does not show when they are empty.
            let last = context.last().map_or("", String::as_str);
            !(lines.is_empty() && (last.starts_with("address-family") || last.starts_with("interface")))
        }) {
            let mut nodes: Vec<Node> = lines.iter().map(Node::new).collect();
            for line in context.iter().rev() {
                nodes = vec![Node { line: line.clone(), children: nodes, shared: false }];
            }
            text.merge(Config(nodes));
        }
        text.text()
    }
}

/// By which a neighbour or a group is there.
fn is_made(words: &[&str]) -> bool {
    words[2] == "interface" || words[2] == "remote-as" || words[2..] == ["peer-group"]
}

/// What is on by default.
fn is_usual(words: &[&str]) -> bool {
    matches!(words, ["bgp", "default", "ipv4-unicast"] | ["bgp", "ebgp-requires-policy"])
        || words.get(2) == Some(&"send-community")
}

fn is_context(above: Option<&String>, line: &str) -> bool {
    let heads: &[&str] = match above.map(String::as_str) {
        None => &["router ", "interface ", "route-map "],
        Some("bfd") => &["profile ", "peer "],
        Some(bgp) if bgp.starts_with("router bgp ") => &["address-family ", "bmp targets "],
        Some(_) => &[],
    };
    heads.iter().any(|head| line.starts_with(head)) || above.is_none() && line == "bfd"
}

/// What there is once, of which a line is one.
fn once(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let count = match words[0] {
        "neighbor" if words.len() > 2 => match words[2] {
            "route-map" | "prefix-list" | "filter-list" => {
                return Some(format!("{} {} {}", words[1], words[2], words[4]));
            }
            "bfd" => words.len().min(4),
            "next-hop-self" => words.len(),
            "remove-private-AS" => return None,
            "addpath-tx-all-paths" | "addpath-tx-bestpath-per-AS" => {
                return Some(format!("{} addpath", words[1]));
            }
            it if it.starts_with("graceful-restart") => return Some(format!("{} restart", words[1])),
            "send-community" => words.len(),
            "timers" if words[3] == "connect" => 4,
            _ => 3,
        },
        "redistribute" if matches!(words[1], "ipv4" | "ipv6") => 4,
        "default-information" if matches!(words.get(2), Some(&("ipv4" | "ipv6"))) => 4,
        "is-type" | "net" | "lsp-mtu" | "area-password" | "domain-password" | "default-metric" => 1,
        "isis" => 2,
        "ip" if words[1] == "rip" => 4,
        "ip" if matches!(
            words[..],
            ["ip", "pim" | "igmp", "hello" | "drpriority" | "version" | "query-interval", _]
        ) =>
        {
            3
        }
        "ip" if line.starts_with("ip pim ssm ") => 3,
        "redistribute" | "network" | "default-information" | "timers" | "auto-cost" => 2,
        "distance" | "aggregate-address" => 2,
        "maximum-paths" if words[1] == "ibgp" => 2,
        "rd" | "rt" | "label" | "route-map" if words[1] == "vpn" => 3,
        "rd" => 1,
        "bgp" if words[1] == "dampening" || line.starts_with("bgp listen limit") => 2,
        "bgp" if words[1] == "graceful-restart" && words.len() > 3 => 3,
        "maximum-paths" | "description" | "on-match" => 1,
        "ospf" | "ospf6" => 2,
        "detect-multiplier" | "transmit-interval" | "receive-interval" | "minimum-ttl" => 1,
        "profile" => 1,
        "bgp" if words[1] == "router-id" => 2,
        "ip" | "ipv6" if words[1].starts_with("ospf") => {
            if words[2] == "message-digest-key" {
                4
            } else {
                3
            }
        }
        "ip" | "ipv6" if words[1] == "prefix-list" => 5,
        "set" if words[1] == "ipv6" && words.len() == 4 => return None,
        "match" | "set" if words[1] == "ip" || words[1] == "ipv6" => words.len().min(5) - 1,
        "set" if words[1] == "extcommunity" || words[1] == "as-path" => 3,
        "match" | "set" => 2,
        _ => return None,
    };
    Some(words[..count].join(" "))
}

/// In the same order, whatever it was.
fn sorted(config: &Config) -> String {
    fn sort(nodes: &mut [Node]) {
        nodes.sort_by(|one, other| one.line.cmp(&other.line));
        nodes.iter_mut().for_each(|node| sort(&mut node.children));
    }
    let mut config = config.clone();
    sort(&mut config.0);
    config.text()
}

#[test]
fn the_commands_lead_from_any_file_to_any_other() {
    let mut random = Random(1);
    let (mut before, mut running) = (Routing::default(), Frr::default());
    // Others have their part, which stays.
    running.read("ip route 10.0.0.0/8 192.0.2.9\ninterface eth0\n description theirs\nexit\n");
    let mut told = 0;
    for _ in 0..1_500 {
        let after = file::random(&mut random);
        let wanted = render(&after);
        let all = Config::parse(&running.shown());
        let owned = Owned::of(&before, &after);
        let from = owned.part(&all);
        let commands = diff(&from, &wanted);
        running.read(&script(&commands).0);
        let now = Config::parse(&running.shown());
        assert_eq!(sorted(&owned.part(&now)), sorted(&wanted), "{}", script(&commands).0);
        assert!(diff(&owned.part(&now), &wanted).is_empty());
        let theirs = now.context("interface eth0").unwrap();
        assert!(theirs.children.iter().any(|line| line.line == "description theirs"));
        assert!(now.context("ip route 10.0.0.0/8 192.0.2.9").is_some());
        // Whoever is not in the commands has no part in what they do.
        for effect in sessions::effects(&from, &wanted, &commands) {
            assert!(!commands.is_empty(), "{effect}");
        }
        told += commands.len();
        before = after;
    }
    assert!(told > 10_000, "{told}");
}

#[test]
fn a_file_of_which_nothing_changes_has_no_commands_and_no_effects() {
    let mut random = Random(2);
    for _ in 0..200 {
        let wanted = render(&file::random(&mut random));
        let shown = Config::parse(&wanted.text());
        let commands = diff(&shown, &wanted);
        assert!(commands.is_empty(), "{commands:?}");
        assert!(sessions::effects(&shown, &wanted, &commands).is_empty());
    }
}
