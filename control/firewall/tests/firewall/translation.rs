//! Chains that translate, as rules of the plane's.

use nat::{Action, Match};

fn problems(ruleset: &str) -> Vec<String> {
    super::adopted(ruleset).problems.iter().map(ToString::to_string).collect()
}

/// Chains at `prerouting` and `postrouting`, and others behind them.
fn ruleset(before: &str, behind: &str, others: &str) -> String {
    format!(
        "table inet n {{\n\
         set inside {{ type ipv4_addr; flags interval; elements = {{ 10.0.0.0/8, 172.16.0.0/12 }} }}\n\
         map served {{ type inet_service : ipv4_addr; elements = {{ 80 : 10.0.0.2, 443 : 10.0.0.3 }} }}\n\
         {others}\n\
         chain pre {{ type nat hook prerouting priority dstnat;\n{before}\n}}\n\
         chain post {{ type nat hook postrouting priority srcnat;\n{behind}\n}}\n}}\n"
    )
}

/// The rules that it comes to, in short.
fn rules(ruleset: &str) -> Vec<String> {
    let adopted = super::adopted(ruleset);
    assert_eq!(adopted.problems, [], "{ruleset}");
    assert_eq!(adopted.families, [true; 2]);
    adopted
        .nat
        .iter()
        .flat_map(|nat| &nat.rules)
        .map(|rule| asked(&rule.matches) + &done(&rule.action))
        .collect()
}

fn asked(of: &Match) -> String {
    let words = |word: &str, list: Vec<String>| match list.is_empty() {
        true => String::new(),
        false => format!("{word} {} ", list.join(",")),
    };
    let text = |list: &[ipnet::IpNet]| list.iter().map(ToString::to_string).collect();
    let ports = |list: &[std::ops::RangeInclusive<u16>]| {
        list.iter().map(|range| format!("{}-{}", range.start(), range.end())).collect()
    };
    [
        words("in", of.input.clone()),
        words("not in", of.not_input.clone()),
        words("out", of.output.clone()),
        words("not out", of.not_output.clone()),
        words("from", text(&of.source)),
        words("to", text(&of.destination)),
        words("protocol", of.protocols.iter().map(u8::to_string).collect()),
        words("sport", ports(&of.source_ports)),
        words("port", ports(&of.destination_ports)),
    ]
    .concat()
}

fn done(action: &Action) -> String {
    match action {
        Action::None => "none".to_owned(),
        Action::Masquerade(dynamic) => {
            format!("masquerade {}-{}", dynamic.ports.start(), dynamic.ports.end())
        }
        Action::Source { addresses, dynamic } => {
            format!(
                "source {addresses} {}-{} {:?}",
                dynamic.ports.start(),
                dynamic.ports.end(),
                dynamic.pooling
            )
        }
        Action::Destination { targets, .. } => {
            let ports = targets[0].ports.as_ref().map(|ports| format!(":{}", ports.start()));
            format!("destination {}{}", targets[0].net.addr(), ports.unwrap_or_default())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn statements_come_to_what_they_mean() {
    for (before, behind, expected) in [
        ("", "oifname \"wan\" masquerade", &["out wan masquerade 1-65535"][..]),
        (
            "",
            "meta nfproto ipv4 meta l4proto udp masquerade to :1024-2000",
            &["from 0.0.0.0/0 protocol 17 masquerade 1024-2000"],
        ),
        ("", "ct state new oifname { \"a\", \"b\" } counter masquerade", &["out a,b masquerade 1-65535"]),
        ("", "ct state established masquerade", &[]),
        (
            "",
            "ip saddr @inside oifname != \"lo\" snat ip to 192.0.2.1",
            &["not out lo from 10.0.0.0/8,172.16.0.0/12 source 192.0.2.1 1-65535 Arbitrary"],
        ),
        (
            "",
            "ip saddr 10.0.0.0/8 ip daddr != 10.0.0.0/9 meta l4proto { tcp, udp } snat ip to 192.0.2.1-192.0.2.4:1024-2000 persistent",
            &[
                "from 10.0.0.0/8 to 128.0.0.0/1,64.0.0.0/2,32.0.0.0/3,16.0.0.0/4,0.0.0.0/5,12.0.0.0/6,8.0.0.0/7,11.0.0.0/8,10.128.0.0/9 \
               protocol 6,17 source 192.0.2.1-192.0.2.4 1024-2000 Paired",
            ],
        ),
        (
            "",
            "snat ip to ip saddr map { 10.0.0.1 : 192.0.2.1, 10.0.0.2 : 192.0.2.2 }",
            &[
                "from 10.0.0.1/32 source 192.0.2.1 1-65535 Arbitrary",
                "from 10.0.0.2/32 source 192.0.2.2 1-65535 Arbitrary",
            ],
        ),
        (
            "iifname \"wan\" tcp dport { 80, 443 } dnat ip to 10.0.0.2:8080",
            "",
            &["in wan from 0.0.0.0/0 to 0.0.0.0/0 protocol 6 port 80-80,443-443 destination 10.0.0.2:8080"],
        ),
        (
            "fib daddr type local tcp dport 80 dnat ip to 10.0.0.2",
            "",
            &["from 0.0.0.0/0 protocol 6 port 80-80 destination 10.0.0.2"],
        ),
        (
            "iifname \"wan\" dnat ip to tcp dport map @served",
            "",
            &[
                "in wan from 0.0.0.0/0 to 0.0.0.0/0 protocol 6 port 80-80 destination 10.0.0.2",
                "in wan from 0.0.0.0/0 to 0.0.0.0/0 protocol 6 port 443-443 destination 10.0.0.3",
            ],
        ),
        (
            "ip daddr 192.0.2.1 dnat ip addr . port to tcp dport map { 81 : 10.0.0.2 . 8081 }",
            "",
            &["from 0.0.0.0/0 to 192.0.2.1/32 protocol 6 port 81-81 destination 10.0.0.2:8081"],
        ),
        (
            "ip6 daddr 2001:db8::1 tcp dport 80 dnat ip6 to [2001:db8::2]:8080",
            "",
            &["from ::/0 to 2001:db8::1/128 protocol 6 port 80-80 destination 2001:db8::2:8080"],
        ),
    ] {
        assert_eq!(rules(&ruleset(before, behind, "")), expected, "{before}{behind}");
    }
}

#[test]
fn chains_are_written_out() {
    let others = "chain lan { return; }\n\
        chain wan { ip daddr 10.0.0.0/8 return; udp dport 53 goto dns; ip saddr 10.0.0.0/8 masquerade; }\n\
        chain dns { ip saddr 10.1.0.0/16 snat ip to 192.0.2.1; }\n\
        chain gone { return; masquerade; }\n";
    let behind = "oifname \"lan\" jump lan\n jump gone\n oifname vmap { \"wan\" : jump wan }\n\
        ip saddr 10.9.0.0/16 accept\n ip saddr { 10.9.0.0/17, 10.5.0.0/16 } masquerade\n ip saddr 10.7.0.0/16 accept";
    let found = rules(&ruleset("", behind, others));
    let [dns, other, udp, exempt, last] = found.as_slice() else { panic!("{found:#?}") };
    assert!(dns.starts_with("out wan from 10.1.0.0/16 to ") && !dns.contains("10.0.0.0/8"), "{dns}");
    assert!(dns.ends_with("protocol 17 port 53-53 source 192.0.2.1 1-65535 Arbitrary"), "{dns}");
    // What is no UDP, then what is to other ports.
    assert!(other.contains("protocol 0,1,") && other.contains(",16,18,"), "{other}");
    assert!(udp.contains("protocol 17 port 0-52,54-65535 masquerade"), "{udp}");
    assert_eq!(exempt, "from 10.9.0.0/16 none");
    assert_eq!(last, "from 10.5.0.0/16,10.9.0.0/17 masquerade 1-65535");
}

#[test]
fn what_is_not_understood_is_named() {
    for (before, behind, others, why) in [
        ("tcp dport 80 redirect to :3128", "", "", "it redirects to the router itself"),
        ("tcp dport 80 dnat ip to 10.0.0.2-10.0.0.3", "", "", "one of several destinations"),
        ("tcp dport 80 dnat ip to 10.0.0.2:80-90", "", "", "one of several ports"),
        ("dnat ip prefix to ip daddr map { 10.1.0.0/16 : 10.2.0.0/16 }", "", "", "a prefix for another"),
        (
            "iifname \"wan\" fib daddr type local tcp dport 80 dnat ip to 10.0.0.2",
            "",
            "",
            "the router's own addresses, beside an interface or address",
        ),
        (
            "ip saddr 10.0.0.1 accept\n tcp dport 80 dnat ip to 10.0.0.2",
            "",
            "",
            "an exemption before other destinations",
        ),
        ("", "masquerade random", "", "translation that is random"),
        ("", "ip protocol tcp drop", "", "it drops in a chain that translates"),
        ("", "limit rate 5/second masquerade", "", "a limit on what is translated"),
        ("", "log masquerade", "", "a line in the log of what is translated"),
        (
            "",
            "meta mark 5 masquerade",
            "",
            "translation by more than addresses, protocols, ports and interfaces",
        ),
        ("", "ct mark 5 masquerade", "", "it asks for ct mark"),
        (
            "",
            "ip saddr 10.0.0.1 return\n ip saddr 10.0.0.0/8 masquerade",
            "chain more { type nat hook postrouting priority 200; ip saddr 10.0.0.0/16 snat ip to 192.0.2.1; }",
            "it returns to inet n more, which translates too",
        ),
        (
            "",
            "ip saddr 10.0.0.0/8 masquerade",
            "chain more { type nat hook postrouting priority 100; ip saddr 10.0.0.0/16 snat ip to 192.0.2.1; }",
            "its order beside inet n post is not told, and both translate",
        ),
    ] {
        let told = problems(&ruleset(before, behind, others));
        let [told] = told.as_slice() else { panic!("{before}{behind}: {told:?}") };
        assert!(told.starts_with("inet n ") && told.ends_with(&format!(": {why}")), "{told}");
    }
}

#[test]
fn chains_behind_translation_may_not_ask_for_what_it_changes() {
    let nat = ruleset("tcp dport 80 dnat ip to 10.0.0.2", "masquerade", "");
    let filter = |hook: &str, priority: i32, rule: &str| {
        format!(
            "{nat}table inet f {{\nchain c {{ type filter hook {hook} priority {priority}; {rule} drop; }}\n}}\n"
        )
    };
    let why = "inet f c: it asks for addresses or ports behind their translation";
    assert_eq!(problems(&filter("prerouting", -50, "tcp dport 8080")), [why]);
    assert_eq!(problems(&filter("prerouting", -150, "tcp dport 8080")), [""; 0]);
    assert_eq!(problems(&filter("prerouting", -50, "tcp sport 8080")), [""; 0]);
    assert_eq!(problems(&filter("postrouting", 150, "ip saddr 10.0.0.1")), [why]);
    assert_eq!(problems(&filter("postrouting", 0, "ip saddr 10.0.0.1")), [""; 0]);
    assert_eq!(problems(&filter("forward", 0, "ip saddr 10.0.0.1")), [""; 0]);
}

#[test]
fn a_family_is_translated_without_the_other() {
    let adopted = super::adopted(&ruleset("", "meta nfproto ipv6 meta mark 1 masquerade\nmasquerade", ""));
    assert_eq!(adopted.families, [true, false]);
    let rules = &adopted.nat.as_ref().expect("translation").rules;
    assert_eq!(asked(&rules[0].matches), "from 0.0.0.0/0 ");
    assert!(rules[0].name.starts_with("inet n post handle "), "{}", rules[0].name);
}

#[test]
fn segment_sizes_are_held_down_where_every_syn_comes_by() {
    let forward = |rules: &str| {
        format!("table inet m {{\nchain f {{ type filter hook forward priority mangle;\n{rules}\n}}\n}}\n")
    };
    let clamps = |rules: &str| -> Vec<String> {
        let adopted = super::adopted(&forward(rules));
        assert_eq!(adopted.problems, [], "{rules}");
        let nat = adopted.nat.unwrap_or_else(|| Vec::new().into());
        let said = |rule: &nat::ClampRule| {
            format!("{:?} {:?} {:?} {:?}", rule.input, rule.output, rule.families, rule.mss)
        };
        nat.clamps.iter().map(said).collect()
    };
    let path = "tcp option maxseg size set rt mtu";
    assert_eq!(
        clamps(&format!(
            "iifname \"ppp0\" tcp flags syn {path}\n\
             oifname \"ppp0\" tcp flags syn / fin,syn,rst counter {path}\n\
             meta nfproto ipv4 tcp flags & (syn|rst) == syn tcp option maxseg size > 1400 tcp option maxseg size set 1400\n\
             oifname \"lo\" drop"
        )),
        [
            "[\"ppp0\"] [] [true, true] Path",
            "[] [\"ppp0\"] [true, true] Path",
            "[] [] [true, false] To(1400)",
        ]
    );
    // What some pass by, and what is for less or more than SYN and SYN/ACK.
    for rules in [
        format!("ct state established accept\ntcp flags syn {path}"),
        format!("tcp flags == syn {path}"),
        format!("ip protocol tcp {path}"),
        format!("oifname != \"lo\" tcp flags syn {path}"),
        format!("ip saddr 10.0.0.1 tcp flags syn {path}"),
    ] {
        let [told] = &problems(&forward(&rules))[..] else { panic!("{rules}") };
        assert!(told.ends_with(": it changes tcp option maxseg"), "{told}");
    }
}
