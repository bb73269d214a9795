//! What is adopted, and what is named instead.

use rules::Hook;

/// A ruleset with rules at `forward`.
fn forward(rules: &str) -> String {
    format!(
        "table inet filter {{\nset moving {{ type ipv4_addr; flags dynamic,timeout; timeout 1m; }}\n\
         chain sub {{ return; }}\nchain fw {{ type filter hook forward priority 0; policy drop;\n{rules}\n}}\n}}\n"
    )
}

fn problems(ruleset: &str) -> Vec<String> {
    super::adopted(ruleset).problems.iter().map(ToString::to_string).collect()
}

/// The rules at a hook, and in the chains behind, as text.
fn rules(ruleset: &str) -> Vec<String> {
    let adopted = super::adopted(ruleset);
    assert_eq!(adopted.problems, [], "{ruleset}");
    let named = |rule: &rules::Rule| rule.name.as_ref().map_or(String::new(), |name| format!(" name {name}"));
    adopted.filter.rules().map(|(_, rule)| format!("{rule}{}", named(rule))).collect()
}

#[test]
fn what_is_not_understood_is_named_with_its_handle_and_reason() {
    for (rule, why) in [
        ("log group 2", "a log for another program (nflog)"),
        ("limit rate 5/minute accept", "a limit of no whole number a second"),
        ("limit rate 5/second tcp dport 22 accept", "a condition behind a limit"),
        ("ct mark 5 accept", "it asks for ct mark"),
        ("ether saddr 02:00:00:00:00:01 drop", "it asks for ether saddr"),
        ("fib saddr . iif oif missing drop", "it asks for fib"),
        ("tcp option maxseg size set rt mtu", "it changes tcp option maxseg"),
        ("quota 10 mbytes drop", "the statement \"quota\""),
        ("ct count over 10 drop", "the statement \"ct count\""),
        ("th dport 5 drop", "ports of any protocol"),
        ("ip saddr @moving drop", "the set moving, which changes by itself"),
        ("ip ttl < 5 drop", "the TTL behind where it is decremented"),
        ("ip saddr & 255.0.0.255 == 10.0.0.1 drop", "the mask \"255.0.0.255\""),
        ("ct state vmap { new : continue, established : accept } drop", "what stands behind its verdict"),
        ("notrack", "the statement \"notrack\""),
        ("meta mark 5 meta mark set 1 meta mark 1 accept", "a condition for what the rule has changed"),
    ] {
        let told = problems(&forward(rule));
        let [told] = told.as_slice() else { panic!("{rule}: {told:?}") };
        assert!(told.starts_with("inet filter fw handle ") && told.ends_with(&format!(": {why}")), "{told}");
    }
}

#[test]
fn a_family_is_adopted_without_the_other() {
    let adopted = super::adopted(&forward("ip ttl 1 drop\nip6 daddr 2001:db8::/32 accept"));
    assert_eq!(adopted.families, [false, true]);
    assert_eq!(adopted.problems[0].families, [true, false]);
    let of_hook: Vec<String> =
        adopted.filter.hook(Hook::Forward).rules.iter().map(ToString::to_string).collect();
    assert_eq!(of_hook, ["jump inet filter fw ip6"], "the other family's packets pass");
}

#[test]
fn translation_and_interfaces_own_hooks_are_named() {
    let nat = "table ip nat {\nchain post { type nat hook postrouting priority 100; masquerade; }\n}\n";
    assert_eq!(problems(nat), [""; 0]);
    let ingress = "table netdev x {\nchain i { type filter hook ingress device lo priority 0; drop; }\n}\n";
    assert_eq!(problems(ingress), ["netdev x i: it stands at the ingress of an interface"]);
    let dormant = "table ip z {\nflags dormant\nchain fw { type filter hook forward priority 0; drop; }\n}\n";
    assert_eq!(problems(dormant), ["ip z fw: its table has flags, of which nft does not tell"]);
    let same = "table ip a {\nchain x { type filter hook forward priority 0; meta mark set 1; }\n}\n\
        table ip b {\nchain y { type filter hook forward priority 0; meta mark 1 drop; }\n}\n";
    let why = "its order beside ip b y is not told, and one of them changes marks or code points";
    assert_eq!(problems(same), [format!("ip a x: {why}")]);
    let idle = "table inet nat {\nchain none { }\n\
        chain post { type nat hook postrouting priority 100; oifname \"a\" goto none; }\n\
        chain fw { type filter hook forward priority 0; ct status dnat accept; drop; }\n}\n";
    assert_eq!(rules(idle), ["jump inet nat fw", "drop"], "nothing is translated");
    let status = format!(
        "{nat}table inet f {{\nchain fw {{ type filter hook forward priority 0; ct status dnat accept; }}\n}}\n"
    );
    assert_eq!(rules(&status), ["jump inet f fw", "accept dnat"], "but where it may be, that is asked for");
    let early = status.replace("hook forward", "hook prerouting").replace("status dnat", "status snat");
    let early = [problems(&early), problems(&status.replace("hook forward", "hook prerouting"))].concat();
    let whys = [
        "it asks whether a source is translated, or a destination is not",
        "whether a destination is translated, before that is known",
    ];
    assert!(early.len() == 2 && early.iter().zip(whys).all(|(told, why)| told.ends_with(why)), "{early:?}");
    let unused = "table ip nat {\nchain post { type nat hook postrouting priority 100; }\n}\n";
    assert_eq!(problems(unused), [""; 0], "a chain without rules does nothing");
    let own = "table inet bifrost {\nchain x { type filter hook forward priority 0; drop; }\n}\n";
    assert_eq!(rules(own), [""; 0], "Bifrost's own table is no other's");
    let input = "table inet f {\nchain x { type filter hook input priority 0; ct mark 1 drop; }\n}\n";
    assert_eq!(rules(input), [""; 0], "what is for this machine is Linux's");
}

#[test]
fn chains_of_one_hook_stand_one_behind_the_other() {
    let two = "table ip a {\nchain x { type filter hook forward priority 10; policy drop; tcp dport 1 accept; }\n}\n\
        table inet b {\nchain y { type filter hook forward priority -5; udp dport 1 drop; accept; }\n}\n";
    let adopted = super::adopted(two);
    let of_hook: Vec<String> =
        adopted.filter.hook(Hook::Forward).rules.iter().map(ToString::to_string).collect();
    assert_eq!(of_hook, ["jump inet b y", "jump ip a x ip"]);
    let chain = |name: &str| adopted.filter.chains.iter().find(|chain| chain.name == name).unwrap();
    assert!(chain("inet b y").base && !chain("ip a x").base, "only what another stands behind goes on");
    let policy = chain("ip a x").rules.last().unwrap();
    assert_eq!((policy.to_string().as_str(), policy.name.as_deref()), ("drop", Some("policy")));
}

#[test]
fn rules_come_to_what_they_mean() {
    assert_eq!(
        rules(&forward(
            "ct state vmap { established : accept, invalid : drop }\n\
             limit rate 5/minute log prefix \"x\"\n\
             log prefix \"y out: \" tcp dport 22 counter reject with tcp reset\n\
             iifname . oifname vmap { \"a\" . \"b\" : goto sub }\n\
             udp dport 9 reject with icmp type host-unreachable\n\
             tcp dport { 1, 3-5 } tcp dport != 4 meta nfproto ipv4 accept\n\
             meta l4proto icmp icmp type echo-request accept"
        )),
        [
            "jump inet filter fw",
            "drop state invalid",
            "accept state established",
            "log at most 1pps name x",
            "log name y out",
            "reject with tcp-reset tcp to any port 22",
            "jump inet filter sub in a out b",
            "drop in a out b",
            "reject with host-unreachable ip udp to any port 9",
            "accept ip tcp to any port 1,3,5",
            "accept ip icmp type echo-request",
            "drop name policy",
            "return",
        ]
    );
}

#[test]
fn the_way_back_to_a_source_is_checked_for_all_or_not_at_all() {
    use firewall::Reverse::{Loose, Strict};
    let chain = |rules: &str| {
        format!("table inet m {{\nchain p {{ type filter hook prerouting priority 10;\n{rules}\n}}\n}}\n")
    };
    let nd = "icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept";
    for (rules, reverse, left) in [
        (format!("{nd}\nmeta nfproto ipv6 fib saddr . mark . iif oif missing drop"), [None, Some(Strict)], 2),
        ("tcp dport 9 drop\nfib saddr . iif oif missing counter drop".to_owned(), [Some(Strict); 2], 2),
        ("fib saddr oif missing drop".to_owned(), [Some(Loose); 2], 1),
        ("fib saddr oif missing drop\nfib saddr . iif oif missing drop".to_owned(), [Some(Strict); 2], 1),
    ] {
        let adopted = super::adopted(&chain(&rules));
        assert_eq!(adopted.problems, [], "{rules}");
        assert_eq!((adopted.reverse, adopted.filter.rules().count()), (reverse, left), "{rules}");
    }
    for rules in [
        "tcp dport 9 accept\nfib saddr . iif oif missing drop",
        "meta mark set 5\nfib saddr . mark . iif oif missing drop",
        "iifname \"lo\" fib saddr . iif oif missing drop",
        "fib saddr . iif oif missing log prefix \"x\" drop",
        "fib saddr . iif oif exists accept",
        "fib daddr . iif oif missing drop",
        "icmpv6 type echo-request accept\nmeta nfproto ipv6 fib saddr . iif oif missing drop",
    ] {
        let told = problems(&chain(rules));
        let told: Vec<&String> = told.iter().filter(|told| told.contains("it asks for fib")).collect();
        assert_eq!(told.len(), 1, "{rules}: {told:?}");
        assert_eq!(super::adopted(&chain(rules)).reverse, [None; 2], "{rules}");
    }
}
