//! Tests: what becomes of mappings when rules, addresses and programs change, when connections are
//! announced, and what is logged of them.

use super::*;

#[test]
fn mappings_outlive_a_change_of_rules() {
    let nat = nat(EVERYTHING);
    let first = tcp(("192.168.1.5", 4000), ("8.8.8.8", 80));
    let out = lead(&nat, &first, LAN, WAN).unwrap();
    install(&nat, EVERYTHING);
    let second = tcp(("192.168.1.5", 4000), ("9.9.9.9", 80));
    let kept = lead(&nat, &second, LAN, WAN).unwrap();
    assert_eq!((kept.source_port, nat.len(), nat.rules()[1].mappings), (4000, 1, 1));
    // The rule says something else now: its mappings are new, and the old one keeps its port.
    install(
        &nat,
        &EVERYTHING.replace("out = \"wan0\"\nsource", "pool_ports = \"3000-9000\"\nout = \"wan0\"\nsource"),
    );
    let other = lead(&nat, &second, LAN, WAN).unwrap();
    assert!(other.source_port != 4000 && nat.len() == 2);
    install(&nat, "");
    for (original, leaving) in [(first, out), (second, kept), (second, other)] {
        release(&nat, &original, &leaving);
    }
    assert!(nat.is_empty());
}

#[test]
fn announced_connections_are_let_in_once() {
    let nat = nat(EVERYTHING);
    let control = tcp(("192.168.1.5", 4000), ("8.8.8.8", 21));
    let out = lead(&nat, &control, LAN, WAN).unwrap();
    let announced = Expectation {
        peer: control.destination,
        inside: control.source,
        inside_port: 5000,
        outside: out.source,
        control_port: out.source_port,
        table: 0,
    };
    let port = nat.expect(&announced, NOW).unwrap();
    assert_eq!((port, nat.expect(&announced, NOW)), (5000, Some(5000)), "said again, it is the same");
    let data = tcp(("8.8.8.8", 20), ("203.0.113.1", port));
    assert!(nat.is_expected(&data) && !nat.is_expected(&tcp(("9.9.9.9", 20), ("203.0.113.1", port))));
    let led = lead(&nat, &data, WAN, LAN).unwrap();
    assert_eq!(led, tcp(("8.8.8.8", 20), ("192.168.1.5", 5000)));
    assert!(!nat.is_expected(&data));
    assert_eq!(lead(&nat, &data, WAN, LAN), Ok(data), "the second is a stranger");
    release(&nat, &data, &led);
    assert_eq!(nat.len(), 1);
    // One that does not come is forgotten.
    nat.expect(&announced, NOW).unwrap();
    nat.expire(NOW + 299_000_000_000);
    assert_eq!(nat.len(), 2);
    nat.expire(NOW + 300_000_000_000);
    assert_eq!((nat.len(), nat.is_expected(&data)), (1, false));
    // Of a host that is not translated nothing is mapped, but the connection is known.
    let plain = Expectation { outside: announced.inside, ..announced };
    assert_eq!(nat.expect(&plain, NOW), Some(5000));
    let data = tcp(("8.8.8.8", 20), ("192.168.1.5", 5000));
    assert!(nat.is_expected(&data));
    assert_eq!((lead(&nat, &data, WAN, LAN), nat.len()), (Ok(data), 1));
}

#[test]
fn announced_connections_cross_the_families_as_their_control_connection_did() {
    let nat = nat(EVERYTHING);
    let control = tcp(("2001:db8:1::5", 4000), ("64:ff9b::808:808", 21));
    let out = lead(&nat, &control, LAN, WAN).unwrap();
    assert_eq!(out.destination, octets("8.8.8.8".parse().unwrap()));
    // Of the client: the server calls it.
    let announced = Expectation {
        peer: out.destination,
        inside: control.source,
        inside_port: 5000,
        outside: out.source,
        control_port: out.source_port,
        table: 0,
    };
    let port = nat.expect(&announced, NOW).unwrap();
    let data =
        Tuple { destination: out.source, destination_port: port, ..tcp(("8.8.8.8", 20), ("8.8.8.8", 0)) };
    assert!(nat.is_expected(&data));
    let led = lead(&nat, &data, WAN, LAN).unwrap();
    assert_eq!(led, tcp(("64:ff9b::808:808", 20), ("2001:db8:1::5", 5000)));
    assert_eq!(nat.len(), 2);
    release(&nat, &data, &led);
    assert_eq!((nat.len(), nat.is_expected(&data)), (1, false));
    // Of the server: the client calls it as it did before.
    let known = control.destination;
    let announced = Expectation { peer: control.source, inside: known, outside: known, ..announced };
    assert_eq!(nat.expect(&announced, NOW), Some(5000));
    let data = tcp(("2001:db8:1::5", 4001), ("64:ff9b::808:808", 5000));
    assert!(nat.is_expected(&data));
    let led = lead(&nat, &data, LAN, WAN).unwrap();
    assert_eq!((led.source, led.destination, led.destination_port), (out.source, out.destination, 5000));
    assert!(!nat.is_expected(&data));
    release(&nat, &data, &led);
    release(&nat, &control, &out);
    assert!(nat.is_empty());
}

#[test]
fn a_new_address_of_the_port_is_taken_for_new_flows() {
    let nat = nat(EVERYTHING);
    let old = tcp(("192.168.1.5", 4000), ("8.8.8.8", 80));
    let old_out = lead(&nat, &old, LAN, WAN).unwrap();
    let mut ports = ports();
    ports[0].addresses = vec!["198.18.0.9".parse().unwrap()];
    let rules = toml::from_str::<Text>(EVERYTHING).unwrap().check().unwrap();
    nat.install(&rules, &ports, |word, name| word == name);
    let new = tcp(("192.168.1.5", 4000), ("9.9.9.9", 80));
    let new_out = lead(&nat, &new, LAN, WAN).unwrap();
    assert_eq!(new_out, tcp(("198.18.0.9", 4000), ("9.9.9.9", 80)));
    release(&nat, &old, &old_out);
    release(&nat, &new, &new_out);
    assert!(nat.is_empty());
}

#[test]
fn segments_are_held_down_by_the_least_limit_of_their_ports() {
    let held = |nat: &Nat, version, ports| {
        let limit = |clamp: Clamp| clamp.limit(version, 1300);
        nat.clamp(version, ports, limit)
    };
    let own = nat(EVERYTHING);
    assert_eq!(held(&own, 4, [LAN, PPP]), Some(1260), "what fits the way, of all");
    assert_eq!(held(&own, 4, [PPP, LAN]), Some(1400), "what is said of all ports");
    assert_eq!(held(&self::nat(""), 4, [LAN, PPP]), None);
    let clamp = |input: &str, families| crate::ClampRule {
        input: vec![input.to_owned()],
        output: Vec::new(),
        families,
        mss: Clamp::To(1000),
    };
    let clamps = vec![clamp("lan0", [true, false]), clamp("wan0", [false, true])];
    let rules = crate::Rules { clamps, ..Vec::new().into() };
    own.install(&rules, &ports(), |word, name| word == name);
    for (version, input, limit) in [(4, LAN, true), (6, LAN, false), (4, WAN, false), (6, WAN, true)] {
        assert_eq!(held(&own, version, [input, PPP]), limit.then_some(1000), "{version}, {input}");
    }
}

#[test]
fn lost_ends_are_found_and_live_flows_are_left_alone() {
    let nat = nat(EVERYTHING);
    let flows = [
        (tcp(("192.168.1.5", 4000), ("8.8.8.8", 80)), LAN, WAN),
        (tcp(("192.168.1.5", 4000), ("9.9.9.9", 80)), LAN, WAN),
        (tcp(("192.168.1.6", 4000), ("9.9.9.9", 80)), LAN, WAN),
        (tcp(("2001:db8:1::9", 4000), ("64:ff9b::808:808", 80)), LAN, WAN),
    ];
    let bound = flows.map(|(original, input, output)| {
        (original, lead(&nat, &original, input, output).unwrap().reversed())
    });
    let mut audit = Audit::default();
    // Every part once.
    let mut audited = |live: &[(Tuple, Tuple)]| -> u64 {
        let part = |_| {
            let mut look = nat.look(&audit);
            live.iter().for_each(|(original, reply)| look.count(original, reply));
            look.finish(&mut audit, 0, |_| {})
        };
        (0..8).map(part).sum()
    };
    for _ in 0..3 {
        assert_eq!(audited(&bound), 0);
    }
    // Not counted, for they have just ended, and released before the next look.
    assert_eq!(audited(&[bound[0], bound[2]]), 0);
    let (host, six) = (&bound[1], &bound[3]);
    release(&nat, &host.0, &host.1.reversed());
    release(&nat, &six.0, &six.1.reversed());
    let again = |(original, input, output): (Tuple, u16, u16)| lead(&nat, &original, input, output).unwrap();
    assert_eq!((again(flows[1]), again(flows[3])), (host.1.reversed(), six.1.reversed()));
    assert_eq!(audited(&[bound[0], bound[2], bound[3]]), 0, "one that has ended just now, again");
    assert_eq!(audited(&bound), 0);
    // The first and the third have ended, and nobody said so.
    let live = [bound[1], bound[3]];
    assert_eq!((audited(&live), nat.len()), (0, 3));
    assert_eq!((audited(&live), nat.len()), (2, 2));
    assert_eq!(audited(&live), 0);
    release(&nat, &bound[1].0, &bound[1].1.reversed());
    release(&nat, &bound[3].0, &bound[3].1.reversed());
    assert!(nat.is_empty());
}

#[test]
fn flows_survive_a_restart_with_their_mappings() {
    let before = nat(EVERYTHING);
    let flows = [
        (tcp(("192.168.1.5", 4000), ("8.8.8.8", 80)), LAN, WAN),
        (tcp(("192.168.1.6", 4000), ("8.8.8.8", 80)), LAN, WAN),
        (tuple(protocol::ICMP, ("192.168.1.6", 4000), ("8.8.8.8", 4000)), LAN, WAN),
        (tcp(("192.168.1.7", 1), ("203.0.113.1", 4000)), LAN, LAN),
        (tcp(("10.0.0.1", 4000), ("8.8.8.8", 80)), LAN, PPP),
        (tcp(("100.64.1.1", 4000), ("8.8.8.8", 80)), LAN, WAN),
        (tcp(("8.8.8.8", 4000), ("203.0.113.1", 443)), WAN, LAN),
        (tcp(("10.1.0.3", 5), ("8.8.8.8", 80)), LAN, WAN),
        (tcp(("2001:db8:1::9", 4000), ("64:ff9b::808:808", 80)), LAN, WAN),
    ];
    let bound = flows.map(|(original, input, output)| {
        (original, lead(&before, &original, input, output).unwrap().reversed())
    });
    let shown = |nat: &Nat| {
        let mut all = Vec::new();
        nat.each_mapping(|mapping| all.push(format!("{mapping:?}")));
        all.sort();
        all
    };
    let after = nat(EVERYTHING);
    for (original, reply) in &bound {
        assert!(after.restore(original, reply, NOW), "{original}");
    }
    assert_eq!(shown(&after), shown(&before));
    // One whose port has become another's is not taken up.
    let (original, reply) = bound[0];
    let stolen = Tuple { source: octets("192.168.1.99".parse().unwrap()), ..original };
    assert!(!after.restore(&stolen, &reply, NOW));
    for (original, reply) in bound {
        release(&after, &original, &reply.reversed());
    }
    assert!(after.is_empty());
}

#[test]
fn what_is_logged_names_both_endpoints() {
    let nat = nat(EVERYTHING);
    let original = tcp(("192.168.1.5", 4000), ("8.8.8.8", 80));
    let binding = nat.bind(&original, None, [LAN, WAN], NOW).unwrap().unwrap();
    assert_eq!(
        binding.record.unwrap().to_string(),
        "nat made time=5000000000 rule=\"home\" table=0 protocol=6 inside=192.168.1.5 inside-port=4000 \
         outside=203.0.113.1 outside-port=4000"
    );
    assert_eq!(binding.rules, [None, Some(1)]);
    let mut shown = Vec::new();
    nat.each_mapping(|mapping| shown.push(mapping));
    assert_eq!((shown[0].rule.as_deref(), shown[0].flows, shown[0].since), (Some("home"), 1, 5));
    let mut logged = Vec::new();
    nat.release_tuples(&original, &binding.reply, NOW, &mut |record| logged.push(record));
    assert!(logged.len() == 1 && logged[0].to_string().starts_with("nat ended "));
}

#[test]
fn of_deterministic_blocks_only_the_arithmetic_is_logged() {
    let text: crate::Text = toml::from_str(&("log = true\n".to_owned() + EVERYTHING)).unwrap();
    let lines = text.check().unwrap().log_lines();
    assert_eq!(
        lines,
        [
            "deterministic-nat sequential inside=100.64.0.0/22 outside=198.51.100.0-198.51.100.63 first-port=1024 block-size=2016 \
          blocks-per-address=32 rule=\"carrier\""
        ]
    );
    let nat = nat(EVERYTHING);
    let original = tcp(("100.64.0.1", 4000), ("8.8.8.8", 80));
    let binding = nat.bind(&original, None, [LAN, WAN], NOW).unwrap().unwrap();
    assert_eq!((binding.rules, binding.record), ([None, Some(4)], None));
    let mut logged = Vec::new();
    nat.release_tuples(&original, &binding.reply, NOW, &mut |record| logged.push(record));
    assert_eq!(logged, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Any flows, opened and ended in any order: no two share a reply, answers lead back, and in
    /// the end nothing is held.
    #[test]
    fn flows_come_and_go(steps in proptest::collection::vec((0usize..12, 0usize..10, 0u16..4, 0usize..4, 0usize..4, any::<bool>(), any::<usize>()), 1..300)) {
        const SOURCES: [&str; 12] = [
            "192.168.1.5", "192.168.1.6", "192.168.1.10", "172.16.0.1", "172.16.0.2", "100.64.0.1", "100.64.0.2",
            "10.1.0.1", "8.8.8.8", "9.9.9.9", "2001:db8:1::9", "fd00:1:2::1",
        ];
        const DESTINATIONS: [&str; 10] = [
            "8.8.8.8", "203.0.113.1", "203.0.113.7", "203.0.113.40", "203.0.113.65", "203.0.113.90", "10.9.0.1",
            "64:ff9b::808:808", "64:ff9b::203.0.113.100", "2001:db8::5",
        ];
        let nat = nat(&EVERYTHING.replace("private = true", "private = true\nhairpin = true"));
        let mut flows: HashMap<Tuple, Tuple> = HashMap::new();
        for (source, destination, port, protocol, ports, open, which) in steps {
            if !open {
                if let Some(original) = flows.keys().nth(which % flows.len().max(1)).copied() {
                    release(&nat, &original, &flows.remove(&original).unwrap());
                }
                continue;
            }
            let (from, to) = (SOURCES[source], DESTINATIONS[destination]);
            if from.contains(':') != to.contains(':') {
                continue;
            }
            let protocol = [protocol::TCP, protocol::UDP, protocol::ESP, if from.contains(':') { protocol::ICMP6 } else { protocol::ICMP }][protocol];
            let (source_port, destination_port) = match protocol {
                protocol::ESP => (0, 0),
                protocol::ICMP | protocol::ICMP6 => (2000 + port, 2000 + port),
                _ => (2000 + port, [443, 2000, 2001, 80][which % 4]),
            };
            let original = tuple(protocol, (from, source_port), (to, destination_port));
            let (input, output) = ([WAN, LAN, LAN, LAN][ports], [LAN, WAN, PPP, LAN][ports]);
            if flows.contains_key(&original) {
                continue;
            }
            if let Ok(leaving) = lead(&nat, &original, input, output) {
                if flows.values().any(|other| *other == leaving) || flows.contains_key(&leaving.reversed()) {
                    // The flow table would refuse it.
                    release(&nat, &original, &leaving);
                    continue;
                }
                flows.insert(original, leaving);
            }
        }
        for (original, leaving) in flows {
            release(&nat, &original, &leaving);
        }
        let mut left = Vec::new();
        nat.each_mapping(|mapping| left.push(mapping));
        prop_assert!(left.is_empty(), "{:?}", left);
    }
}

#[test]
fn a_flow_loses_an_address_that_its_port_has_no_more() {
    let nat = nat(EVERYTHING);
    let original = tcp(("192.168.1.5", 4000), ("8.8.8.8", 80));
    let leaving = lead(&nat, &original, LAN, WAN).unwrap();
    let esp = tuple(protocol::ESP, ("192.168.1.5", 0), ("8.8.8.8", 0));
    let esp_leaving = lead(&nat, &esp, LAN, WAN).unwrap();
    let lost = |[began, now]: [u16; 2]| {
        [(original, leaving), (esp, esp_leaving)]
            .map(|(original, leaving)| nat.has_lost(&original, &leaving, LAN, [began, now]))
    };
    assert_eq!((lost([WAN, WAN]), lost([WAN, PPP])), ([false; 2], [true; 2]));
    // What a pool gave, and what was never translated, depends on no port.
    let pooled = Nat::new();
    install(&pooled, "[[rule]]\nname = \"p\"\ntype = \"source\"\npool = \"198.51.100.7\"\nout = \"wan0\"\n");
    let other = lead(&pooled, &original, LAN, WAN).unwrap();
    assert_ne!(other.source, original.source);
    assert!(!pooled.has_lost(&original, &other, LAN, [WAN, PPP]));
    assert!(!nat.has_lost(&original, &original, LAN, [WAN, PPP]));
    let rules = toml::from_str::<Text>(EVERYTHING).unwrap().check().unwrap();
    let mut changed = ports();
    let mut change = |addresses: &[&str]| {
        changed[0].addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        nat.install(&rules, &changed, |word, name| word == name)
    };
    // One more in front of it, and then without it.
    assert!(!change(&["203.0.113.9", "fe80::1", "203.0.113.1", "2001:db8:ffff::1"]));
    assert_eq!(lost([WAN, WAN]), [false; 2]);
    assert!(change(&["203.0.113.9", "fe80::1", "2001:db8:ffff::1"]));
    assert_eq!(lost([WAN, WAN]), [true; 2]);
    // After a restart no rule gives what the flow has.
    let anew = Nat::new();
    anew.install(&rules, &changed, |word, name| word == name);
    assert!(anew.restore(&original, &leaving.reversed(), NOW));
    assert!(anew.has_lost(&original, &leaving, LAN, [WAN, WAN]));
    // It is another flow then, by the new address.
    release(&nat, &original, &leaving);
    assert_eq!(lead(&nat, &original, LAN, WAN), Ok(tcp(("203.0.113.9", 4000), ("8.8.8.8", 80))));
}
