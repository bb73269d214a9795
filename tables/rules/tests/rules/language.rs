//! The language of rules: what is read is printed as it was, what is wrong is all told, and nothing
//! panics.

use std::path::Path;

use crate::pools::{self, Random};
use rules::{Filter, Hook, Mistakes, Policy};
use toml::de::{DeTable, DeValue};

/// Files that rule lists may name.
fn files(path: &Path) -> std::io::Result<String> {
    match path.to_str() {
        Some("few.txt") => {
            Ok("# addresses\n192.0.2.1\n 198.51.100.0/24 ; SBL7\n\n2001:db8::-2001:db8::ff\n".to_owned())
        }
        Some("bad.txt") => Ok("192.0.2.1\n192.0.2.256\n10.0.0.1/8\n".to_owned()),
        Some("marked.txt") => Ok("\u{feff}192.0.2.1\r\n10.0.0.0/8\r\n".to_owned()),
        Some("marked.rules") => Ok("\u{feff}accept from @few\r\ndrop\r\n".to_owned()),
        Some("more.rules") => Ok("accept tcp # from a file\nchain web\n  drop\n".to_owned()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    }
}

fn read(text: &str) -> Result<Filter, Mistakes> {
    Filter::read("f", text, &mut files)
}

fn read_toml(text: &str) -> Result<Filter, Mistakes> {
    let table = DeTable::parse(text).expect("TOML");
    let Some(DeValue::Table(section)) = table.get_ref().get("filter").map(|value| value.get_ref()) else {
        panic!("no filter")
    };
    Filter::read_toml("router.toml", text, section, &mut files)
}

/// The rules of a filter as their lines.
fn lines(filter: &Filter) -> Vec<String> {
    filter.rules().map(|(chain, rule)| format!("{}: {rule}", chain.name)).collect()
}

#[test]
fn reads_every_match_and_action() {
    // What stands in the list, and how it is printed.
    let rules = [
        (
            "accept tcp from 10.0.0.0/8 to any port 80,443 state new  # web",
            "accept tcp from 10.0.0.0/8 to any port 80,443 state new",
        ),
        ("drop from !@few", "drop from !@few"),
        (
            "drop from 10.0.0.0-10.0.0.2 to 2001:db8::1, @few",
            "drop from 10.0.0.0/31,10.0.0.2 to 2001:db8::1,@few",
        ),
        ("reject with tcp-reset tcp to any port smtp", "reject with tcp-reset tcp to any port 25"),
        ("reject", "reject"),
        ("reject with prohibited ip6", "reject with prohibited ip6"),
        ("log every 100 at most 10pps accept udp", "log every 100 at most 10pps accept udp"),
        ("log drop proto !tcp,47", "log drop proto !tcp,gre"),
        ("count gre", "count gre"),
        ("mark 16 set-dscp ef in eth0,wlan*", "mark 0x10 set-dscp ef in eth0,wlan*"),
        ("accept marked 0x10/0xf0 out !ppp0", "accept out !ppp0 marked 0x10/0xf0"),
        ("police 10Mbit burst 64kB jump web", "police 10Mbit burst 64000B jump web"),
        (
            "return icmp type echo-request,3/4,13",
            "return ip icmp type echo-request,fragmentation-needed,timestamp-request",
        ),
        (
            "drop icmp type 13-18,3/0-4,unreachable/14-14,8-8,0-255",
            "drop ip icmp type 13-18,3/0-4,3/14,echo-request,0-255",
        ),
        ("accept icmpv6 type !packet-too-big", "accept ip6 icmpv6 type !packet-too-big"),
        ("drop tcp flags syn/syn+ack,none/fin+syn,rst", "drop tcp flags syn/syn+ack,none/fin+syn,rst"),
        ("drop flags !fin", "drop tcp flags !fin"),
        ("accept dscp af11,63 length !0-63,1500", "accept dscp af11,63 length !0-63,1500"),
        ("drop fragment", "drop fragment first,later"),
        ("drop fragment later in !eth1 kernel open", "drop fragment later in !eth1 kernel open"),
        ("accept time 22:00-06:00 fri-mon local", "accept time 22:00-06:00 mon,fri,sat,sun local"),
        ("accept time sat utc kernel closed", "accept time sat utc kernel closed"),
        (
            "drop rate over 100pps burst 20 per source table 1024",
            "drop rate over 100pps burst 20 per source table 1024",
        ),
        ("accept rate below 2Gbit per source", "accept rate below 2Gbit per source"),
        ("accept to any port !1024-65535", "accept to any port !1024-65535"),
    ];
    for (line, printed) in rules {
        let list = |line: &str| {
            read(&format!("set few file few.txt\nchain web\naccept\nchain forward policy drop\n{line}\n"))
        };
        let filter = list(line).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(filter.hook(Hook::Forward).policy, Policy::Drop);
        let rule = &filter.hook(Hook::Forward).rules[0];
        let shown = rule.to_string();
        assert_eq!(shown, printed, "{line}");
        let again = list(&shown).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(again.hook(Hook::Forward).rules[0].matches, rule.matches, "{shown}");
        assert_eq!(again.hook(Hook::Forward).rules[0].to_string(), shown);
    }
    let filter = read("set few file few.txt\nchain input\naccept name web # the web").expect("a filter");
    assert_eq!(filter.sets[0].1.len(), 3);
    let rule = &filter.hook(Hook::Input).rules[0];
    assert_eq!((rule.name.as_deref(), rule.comment.as_deref()), (Some("web"), Some("the web")));
}

#[test]
fn random_rules_are_printed_as_they_are_read() {
    let mut random = Random(5);
    for _ in 0..300 {
        let text = pools::filter(&mut random, 12);
        let filter = read(&text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        let mut again = pools::SETS.to_owned();
        for chain in &filter.chains {
            again += &format!("chain {}\n", chain.name);
            chain.rules.iter().for_each(|rule| again += &format!("{rule}\n"));
        }
        let reread = read(&again).unwrap_or_else(|mistakes| panic!("{mistakes}\n{again}"));
        assert_eq!(lines(&reread), lines(&filter));
        let matches =
            |filter: &Filter| filter.rules().map(|(_, rule)| rule.matches.clone()).collect::<Vec<_>>();
        assert_eq!(matches(&reread), matches(&filter), "{again}");
    }
}

#[test]
fn all_mistakes_are_told_with_their_places() {
    let text = "set s 10.0.0.1/8\nchain forward polcy drop\n  acept tcp\n  accept tcp to any port 80,x state nwe\n  jump wbe\n  drop frm 10.0.0.1\n\
        chain web\n  drop from @ss\n  jump input\nchain web\n  accept accept\n  drop udp flags syn\n  drop from 10.0.0.1 to 2001:db8::1\n\
        chain a\n  jump b\nchain b\n  jump a\nchain input\n  jump c\nchain c\n  drop out eth0\n  drop time 08:00-09:00\n  drop port 7\n";
    let Err(Mistakes(mistakes)) = read(text) else { panic!("it is wrong") };
    let told: Vec<(usize, usize, &str)> =
        mistakes.iter().map(|mistake| (mistake.line, mistake.column, mistake.message.as_str())).collect();
    let expected = [
        (1, 7, "10.0.0.1/8 has bits behind its length; the prefix is 10.0.0.0/8"),
        (2, 15, "\"polcy\" stands behind the chain"),
        (3, 3, "a rule begins with what is done, not \"acept\""),
        (4, 29, "\"x\" is no number up to 65535, nor a range"),
        (4, 37, "there is no state \"nwe\""),
        (6, 8, "\"frm\" is nothing that a rule matches"),
        (6, 12, "\"10.0.0.1\" is nothing that a rule matches"),
        (10, 7, "chain web is there already, at f:7"),
        (11, 10, "a rule decides once"),
        (12, 3, "only TCP has flags"),
        (13, 3, "no packet is of both families"),
        (22, 8, "whose time?"),
        (23, 8, "ports of which side?"),
        (8, 13, "there is no set \"ss\""),
        (5, 8, "there is no chain \"wbe\""),
        (9, 8, "input is where packets begin; no rule jumps there"),
    ];
    assert_eq!(told, expected, "{}", Mistakes(mistakes.clone()));
    let shown = mistakes.iter().find(|mistake| mistake.line == 3).expect("it is there").to_string();
    assert!(
        shown.starts_with(
            "f:3:3: a rule begins with what is done, not \"acept\"\n  |\n3 |   acept tcp\n  |   ^^^^^\n"
        ),
        "{shown}"
    );
    assert!(shown.ends_with("= perhaps meant: \"accept\""), "{shown}");
    // What only shows when all names are known.
    let text = "chain a\n jump b\nchain b\n jump a\nchain input\n jump c\nchain c\n drop out eth0\n";
    let Err(Mistakes(mistakes)) = read(text) else { panic!("it is wrong") };
    let told: Vec<(usize, &str)> =
        mistakes.iter().map(|mistake| (mistake.line, mistake.message.as_str())).collect();
    let out = "where packets come in, it is not known by which port they will leave";
    assert_eq!(told, [(2, "the jump to b leads back to a"), (4, "the jump to a leads back to b"), (8, out)]);
}

#[test]
fn one_mistake_is_told_once_and_as_what_it_is() {
    for (rule, told) in [
        ("drop time 25:00-26:00 utc", &["\"25:00-26:00\" is no part of a day"][..]),
        ("drop time mon-fry local", &["there is no day \"mon-fry\""]),
        ("drop from !any", &["any is every address: it stands alone, and is not turned round"]),
        ("drop to 10.0.0.0/8,any", &["any is every address: it stands alone, and is not turned round"]),
    ] {
        let Err(Mistakes(mistakes)) = read(&format!("chain forward\n{rule}")) else {
            panic!("{rule} is wrong")
        };
        let messages: Vec<&str> = mistakes.iter().map(|mistake| mistake.message.as_str()).collect();
        assert_eq!(messages, told, "{rule}");
    }
}

#[test]
fn reads_the_section_of_router_toml() {
    let text = r#"
[filter]
rules_file = "more.rules"
[filter.sets]
few = { file = "few.txt" }
site = ["192.0.2.0/24", "2001:db8::/32"]
[filter.input]
rules_file = "more.rules"
[filter.forward]
policy = "drop"
rules = """
accept state established   # those
accept to @site port 80
"""
[filter.chains.guests]
rules = ["police 20Mbit", "accept"]
"#;
    // The file begins a chain itself, and is read twice.
    let Err(Mistakes(mistakes)) = read_toml(text) else { panic!("it is wrong") };
    let told: Vec<&str> = mistakes.iter().map(|mistake| mistake.message.as_str()).collect();
    assert_eq!(told, ["the rule is in no chain", "chain web is there already, at more.rules:2"]);
    let filter = read_toml(&text.replacen("rules_file = \"more.rules\"\n", "", 1)).expect("a filter");
    assert_eq!(
        lines(&filter),
        [
            "input: accept tcp",
            "forward: accept state established",
            "forward: accept to @site port 80",
            "web: drop",
            "guests: police 20Mbit",
            "guests: accept",
        ]
    );
    let place = &filter.hook(Hook::Forward).rules[1].place;
    assert_eq!(place.to_string(), "router.toml:12");
}

/// As an editor under Windows leaves them.
#[test]
fn files_may_begin_with_a_mark_and_end_their_lines_in_two_ways() {
    let text =
        "[filter.forward]\nrules_file = \"marked.rules\"\n[filter.sets]\nfew = { file = \"marked.txt\" }\n";
    let filter = read_toml(text).expect("a filter");
    assert_eq!(lines(&filter), ["forward: accept from @few", "forward: drop"]);
    assert_eq!(filter.sets[0].1.len(), 2);
}

#[test]
fn mistakes_in_router_toml_have_their_places_there() {
    let text = "[filter]\nrule_file = \"x\"\n[filter.sets]\nfew = { file = \"bad.txt\" }\nnone = 7\n[filter.forward]\npolicy = \"drp\"\nrules = [\"accept tpc\"]\n\
        [filter.chains.web]\npolicy = \"drop\"\nrules = '''\n  accept\n  drop form 10.0.0.1'''\nrules_file = \"absent\"\n";
    let Err(Mistakes(mistakes)) = read_toml(text) else { panic!("it is wrong") };
    let mut told: Vec<(&str, usize, usize, &str)> =
        mistakes.iter().map(|m| (m.file.as_str(), m.line, m.column, m.message.as_str())).collect();
    told.sort();
    let expected = [
        ("bad.txt", 2, 1, "\"192.0.2.256\" is no address"),
        ("bad.txt", 3, 1, "10.0.0.1/8 has bits behind its length; the prefix is 10.0.0.0/8"),
        ("router.toml", 2, 1, "[filter] has no key \"rule_file\""),
        ("router.toml", 5, 8, "this is no set"),
        ("router.toml", 7, 10, "a policy cannot be \"drp\""),
        ("router.toml", 8, 18, "\"tpc\" is nothing that a rule matches"),
        ("router.toml", 10, 10, "only input, forward and output have a policy; other chains return"),
        ("router.toml", 13, 8, "\"form\" is nothing that a rule matches"),
        ("router.toml", 13, 13, "\"10.0.0.1\" is nothing that a rule matches"),
        ("router.toml", 14, 14, "cannot read \"absent\": entity not found"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn hostile_texts_do_not_panic() {
    let mut random = Random(77);
    let pieces = [
        "accept",
        "drop",
        "from",
        "to",
        "port",
        "10.0.0.0/8",
        "!",
        ",",
        "@few",
        "80-",
        "-",
        "99999",
        "tcp",
        "type",
        "flags",
        "syn/",
        "/",
        "time",
        "24:00-24:00",
        "mon-",
        "rate",
        "over",
        "9999999999999999999Gbit",
        "burst",
        "per",
        "source",
        "table",
        "#",
        "name",
        "chain",
        "set",
        "policy",
        "jump",
        "log",
        "every",
        "0",
        "at",
        "most",
        "é",
        "\u{1F600}",
        "marked",
        "0x",
        "0x1/0x",
        "in",
        "*",
        "fragment",
        "kernel",
        "dscp",
        "64",
        "::/0",
        "::-",
        "\t",
        "\n",
        "\r\n",
        "file",
        "few.txt",
        "\0",
        "police",
        "1bit",
        "mark",
        "length",
        "icmp",
        "out",
        "utc",
        "00:00-24:00",
        "24:00-01:00",
    ];
    for _ in 0..20_000 {
        let words: Vec<&str> = (0..random.below(14)).map(|_| random.pick(&pieces)).collect();
        let text = format!("chain forward\n{}", words.join(random.pick(&[" ", "", " ", "\n"])));
        if let Ok(filter) = read(&text) {
            filter.rules().for_each(|(_, rule)| drop(rule.to_string()));
        }
    }
    let valid = pools::filter(&mut random, 30);
    for _ in 0..3_000 {
        let mut bytes = valid.clone().into_bytes();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.next() as u8,
                1 => drop(bytes.drain(at..(at + random.below(20)).min(bytes.len()))),
                _ => bytes.insert(at, random.pick(b" ,!@/-#\n0")),
            }
        }
        let _either = read(&String::from_utf8_lossy(&bytes));
    }
}
