//! Tests: flows through the rules, as a router leads them; in `lasting`, what becomes of them as
//! time goes on.

mod lasting;

use std::collections::HashMap;

use flow::Tuple;
use proptest::prelude::*;
use wire::protocol;

use crate::text::EVERYTHING;
use crate::{Audit, Clamp, Expectation, Nat, Port, Refusal, Shortage, Text, octets};

const WAN: u16 = 1;
const LAN: u16 = 2;
const PPP: u16 = 3;
const NOW: u64 = 5_000_000_000;

fn ports() -> Vec<Port> {
    let port = |number, name: &str, addresses: &[&str]| Port {
        number,
        name: name.to_owned(),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
    };
    vec![
        port(WAN, "wan0", &["fe80::1", "203.0.113.1", "2001:db8:ffff::1"]),
        port(LAN, "lan0", &["192.168.1.1"]),
        port(PPP, "ppp0", &[]),
    ]
}

fn nat(rules: &str) -> Nat {
    let nat = Nat::new();
    install(&nat, rules);
    nat
}

fn install(nat: &Nat, rules: &str) {
    let rules = toml::from_str::<Text>(rules).unwrap().check().unwrap();
    nat.install(&rules, &ports(), |word, name| word == name || word == "ppp*" && name.starts_with("ppp"));
}

fn tuple(protocol: u8, from: (&str, u16), to: (&str, u16)) -> Tuple {
    let address = |text: &str| octets(text.parse().unwrap());
    Tuple {
        source: address(from.0),
        destination: address(to.0),
        source_port: from.1,
        destination_port: to.1,
        protocol,
        table: 0,
    }
}

fn tcp(from: (&str, u16), to: (&str, u16)) -> Tuple {
    tuple(protocol::TCP, from, to)
}

/// What a new flow says as it leaves.
fn lead(nat: &Nat, original: &Tuple, input: u16, output: u16) -> Result<Tuple, Refusal> {
    let destination = nat.destination(original, input)?;
    let binding = nat.bind(original, destination.as_ref(), [input, output], NOW)?;
    binding.iter().for_each(|binding| nat.count(binding));
    Ok(binding.map_or(*original, |binding| binding.reply.reversed()))
}

fn release(nat: &Nat, original: &Tuple, leaving: &Tuple) {
    nat.release_tuples(original, &leaving.reversed(), NOW, &mut |_| {});
}

#[test]
fn masquerading_maps_an_endpoint_once_for_all_destinations() {
    let nat = nat(EVERYTHING);
    let first = tcp(("192.168.1.5", 4000), ("8.8.8.8", 80));
    let second = tcp(("192.168.1.5", 4000), ("9.9.9.9", 443));
    let out = lead(&nat, &first, LAN, WAN).unwrap();
    assert_eq!(out, tcp(("203.0.113.1", 4000), ("8.8.8.8", 80)));
    assert_eq!(lead(&nat, &second, LAN, WAN), Ok(tcp(("203.0.113.1", 4000), ("9.9.9.9", 443))));
    // Another host with the same port gets another.
    let third = tcp(("192.168.1.6", 4000), ("8.8.8.8", 80));
    let other = lead(&nat, &third, LAN, WAN).unwrap();
    assert!(other.source == out.source && other.source_port != 4000);
    assert_eq!(nat.len(), 2);
    release(&nat, &first, &out);
    assert_eq!(nat.len(), 2, "another flow of the mapping lives");
    release(&nat, &second, &tcp(("203.0.113.1", 4000), ("9.9.9.9", 443)));
    assert_eq!(nat.len(), 1);
    // What is exempt, and what does not leave by the port, stays.
    let vpn = tcp(("192.168.1.5", 4000), ("10.9.9.9", 80));
    assert_eq!(lead(&nat, &vpn, LAN, WAN), Ok(vpn));
    assert_eq!(lead(&nat, &first, LAN, LAN), Ok(first));
    let shown = &nat.rules()[1];
    assert_eq!((&shown.name[..], shown.flows, shown.mappings), ("home", 3, 2));
}

#[test]
fn two_routers_give_out_halves_and_know_each_others() {
    let halves = ["lower", "upper"].map(|half| nat(&format!("half = \"{half}\"\n{EVERYTHING}")));
    let mut given = std::collections::HashSet::new();
    for host in 1..200 {
        for (at, nat) in halves.iter().enumerate() {
            let source = format!("192.168.1.{host}");
            // Of ports that all would keep, half may not be.
            let original = tcp((&source, 4000 + 40_000 * (host % 2) + at as u16), ("8.8.8.8", 80));
            let out = lead(nat, &original, LAN, WAN).unwrap();
            assert!(given.insert(out.source_port), "{} was given out twice", out.source_port);
            assert_eq!(at == 0, out.source_port <= 33_279, "{}", out.source_port);
            // What the other one gave out is the host's here as well, for later flows too.
            let other = &halves[1 - at];
            assert!(other.restore(&original, &out.reversed(), NOW));
            let later = lead(other, &tcp((&source, original.source_port), ("9.9.9.9", 1)), LAN, WAN).unwrap();
            assert_eq!(later.source_port, out.source_port);
        }
    }
}

#[test]
fn identifiers_of_queries_are_mapped_like_ports() {
    let nat = nat(EVERYTHING);
    let ping = tuple(protocol::ICMP, ("192.168.1.5", 7), ("8.8.8.8", 7));
    let out = lead(&nat, &ping, LAN, WAN).unwrap();
    assert!(out.source_port == out.destination_port && out.source_port >= 1024);
    release(&nat, &ping, &out);
    assert!(nat.is_empty());
    // Protocols without ports keep what they have.
    let esp = tuple(protocol::ESP, ("192.168.1.5", 0), ("8.8.8.8", 0));
    assert_eq!(lead(&nat, &esp, LAN, WAN), Ok(tuple(protocol::ESP, ("203.0.113.1", 0), ("8.8.8.8", 0))));
}

#[test]
fn forwards_lead_to_targets_and_hairpins_come_back_by_the_router() {
    let nat = nat(EVERYTHING);
    let call = |client, port| tcp((client, 999), ("203.0.113.1", port));
    let to = lead(&nat, &call("8.8.8.8", 443), WAN, LAN).unwrap();
    assert!(
        [octets("192.168.1.10".parse().unwrap()), octets("192.168.1.11".parse().unwrap())]
            .contains(&to.destination)
    );
    assert_eq!((to.destination_port, to.source), (8443, octets("8.8.8.8".parse().unwrap())));
    assert_eq!(lead(&nat, &call("8.8.8.8", 443), WAN, LAN), Ok(to), "a client stays with its target");
    assert_eq!(lead(&nat, &call("8.8.8.8", 444), WAN, LAN), Ok(call("8.8.8.8", 444)));
    // From the target's own port: the answer must come by way of the router, so it sees the outside
    // address.
    let inside = call("192.168.1.20", 443);
    let hairpin = lead(&nat, &inside, LAN, LAN).unwrap();
    assert_eq!((hairpin.source, hairpin.destination_port), (octets("203.0.113.1".parse().unwrap()), 8443));
    assert_eq!(nat.len(), 1);
    release(&nat, &inside, &hairpin);
    assert!(nat.is_empty());
    // Ranges move, one target after the other would be taken.
    let udp = tuple(protocol::UDP, ("8.8.8.8", 9), ("203.0.113.7", 2001));
    assert_eq!(lead(&nat, &udp, WAN, LAN), Ok(tuple(protocol::UDP, ("8.8.8.8", 9), ("192.168.1.12", 3001))));
    let six = tcp(("2001:db8:77::1", 9), ("2001:db8::5", 8080));
    assert_eq!(lead(&nat, &six, WAN, LAN), Ok(tcp(("2001:db8:77::1", 9), ("2001:db8:1::5", 80))));
}

#[test]
fn targets_take_turns() {
    let nat = nat(
        "[[rule]]\nname = \"x\"\ntype = \"destination\"\nin = \"wan0\"\nto = [\"10.0.0.1\", \"10.0.0.2\"]\nspread = \"round-robin\"\n",
    );
    let call = |port| tcp(("8.8.8.8", port), ("203.0.113.1", 80));
    let hosts: Vec<u8> =
        (0..4).map(|port| lead(&nat, &call(port), WAN, LAN).unwrap().destination[15]).collect();
    assert_eq!(hosts, [1, 2, 1, 2]);
}

#[test]
fn prefixes_are_mapped_both_ways() {
    let nat = nat(EVERYTHING);
    let out = tcp(("10.1.0.3", 5), ("8.8.8.8", 80));
    assert_eq!(lead(&nat, &out, LAN, WAN), Ok(tcp(("203.0.113.67", 5), ("8.8.8.8", 80))));
    let call = tcp(("8.8.8.8", 5), ("203.0.113.67", 80));
    assert_eq!(lead(&nat, &call, WAN, LAN), Ok(tcp(("8.8.8.8", 5), ("10.1.0.3", 80))));
    assert_eq!(lead(&nat, &call, LAN, LAN), Ok(call), "without hairpin");
    let hairpin = tcp(("10.1.0.90", 5), ("203.0.113.90", 80));
    assert_eq!(lead(&nat, &hairpin, LAN, LAN), Ok(tcp(("203.0.113.90", 5), ("10.1.0.90", 80))));
    // NPTv6, with the numbers of its own tests.
    let out = tcp(("fd00:1:2:1::9", 5), ("2001:db8:77::1", 80));
    let sent = lead(&nat, &out, LAN, WAN).unwrap();
    assert!(sent.source[..6] == [0x20, 1, 0x0d, 0xb8, 0, 9] && sent.source[8..] == out.source[8..]);
    let back = Tuple { source: sent.destination, destination: sent.source, ..out };
    assert_eq!(lead(&nat, &back, WAN, LAN).unwrap().destination, out.source);
    let edge = tcp(("fd00:1:2:ffff::9", 5), ("2001:db8:77::1", 80));
    assert_eq!(lead(&nat, &edge, LAN, WAN), Err(Refusal::NoPrefix));
    assert!(nat.is_empty());
}

#[test]
fn a_carriers_subscriber_has_its_block() {
    let nat = nat(&EVERYTHING.replace("mappings = 1000", ""));
    for port in 0..2016 {
        let out = lead(&nat, &tcp(("100.64.0.33", port), ("8.8.8.8", 80)), LAN, WAN).unwrap();
        assert_eq!(out.source, octets("198.51.100.1".parse().unwrap()));
        assert!((3040..=5055).contains(&out.source_port));
    }
    let more = tcp(("100.64.0.33", 60_000), ("8.8.8.8", 80));
    assert_eq!(lead(&nat, &more, LAN, WAN), Err(Refusal::Exhausted));
    assert_eq!(nat.rules()[4].exhausted, 1);
    assert!(lead(&nat, &tcp(("100.64.0.34", 60_000), ("8.8.8.8", 80)), LAN, WAN).is_ok());
}

#[test]
fn a_pools_host_has_its_share() {
    let nat = nat(EVERYTHING);
    let to = |host, port| lead(&nat, &tcp((host, port), ("8.8.8.8", 80)), LAN, PPP);
    (0..1000).for_each(|port| assert!(to("10.0.0.1", port).is_ok()));
    assert_eq!((to("10.0.0.1", 1000), nat.rules()[2].limited), (Err(Refusal::HostLimit), 1));
    assert_eq!((to("10.0.0.2", 1), nat.rules()[2].refused), (Err(Refusal::TableFull), 1));
    // Masquerading by a port without address.
    let nat = self::nat("[[rule]]\nname = \"x\"\ntype = \"masquerade\"\nout = \"ppp0\"\n");
    assert_eq!(lead(&nat, &tcp(("10.0.0.1", 1), ("8.8.8.8", 80)), LAN, PPP), Err(Refusal::NoAddress));
    assert_eq!(nat.rules()[0].refused, 1);
}

#[test]
fn no_host_takes_all_ports_unless_it_may() {
    let rule = "[[rule]]\nname = \"m\"\ntype = \"masquerade\"\nout = \"wan0\"\n";
    let to = |nat: &Nat, host, port| lead(nat, &tcp((host, port), ("8.8.8.8", 80)), LAN, WAN).err();
    let short =
        |host: &str, why, flows| Shortage { rule: "m".to_owned(), host: host.parse().unwrap(), why, flows };
    let nat = self::nat(rule);
    (0..8192).for_each(|port| assert_eq!(to(&nat, "10.0.0.1", port), None));
    (0..3).for_each(|_| assert_eq!(to(&nat, "10.0.0.1", 9000), Some(Refusal::HostLimit)));
    assert_eq!(to(&nat, "10.0.0.2", 9000), None);
    assert_eq!(nat.shortages(), (vec![short("10.0.0.1", Refusal::HostLimit, 3)], 0));
    let nat = self::nat(&format!("{rule}host_limit = 0\n"));
    (1024..=65_535).for_each(|port| assert_eq!(to(&nat, "10.0.0.1", port), None));
    assert_eq!(to(&nat, "10.0.0.2", 9000), Some(Refusal::Exhausted));
    assert_eq!(nat.shortages(), (vec![short("10.0.0.2", Refusal::Exhausted, 1)], 0));
}

#[test]
fn what_is_for_nobody_in_a_pool_goes_no_further() {
    let nat = nat(EVERYTHING);
    let call = |to, input| lead(&nat, &tcp(("9.9.9.9", 5), (to, 4000)), input, LAN).err();
    for pooled in ["203.0.113.40", "198.51.100.9", "203.0.113.100"] {
        assert_eq!(call(pooled, WAN), Some(Refusal::Nobody), "{pooled}");
    }
    // A gap in a pool, the router itself, and a pool that is not outside this port.
    for other in ["203.0.113.41", "203.0.113.1", "203.0.113.17"] {
        assert_eq!(call(other, WAN), None, "{other}");
    }
    assert_eq!(call("203.0.113.17", PPP), Some(Refusal::Nobody));
    assert_eq!(call("203.0.113.40", LAN), None, "from inside it is on its way out");
    assert!(nat.gives_out(&octets("203.0.113.40".parse().unwrap()), WAN));
}

#[test]
fn what_has_no_ports_leaves_by_the_address_of_its_host() {
    let nat = nat("[[rule]]\nname = \"x\"\ntype = \"source\"\nout = \"wan0\"\npool = \"203.0.113.16/28\"\n");
    let mut addresses = std::collections::HashSet::new();
    for host in 1..50 {
        let host = format!("10.0.0.{host}");
        let esp = tuple(protocol::ESP, (&host, 0), ("8.8.8.8", 0));
        let before = lead(&nat, &esp, LAN, WAN).unwrap();
        let keys = lead(&nat, &tuple(protocol::UDP, (&host, 500), ("8.8.8.8", 500)), LAN, WAN).unwrap();
        assert_eq!([before.source, lead(&nat, &esp, LAN, WAN).unwrap().source], [keys.source; 2]);
        addresses.insert(keys.source);
    }
    assert!(addresses.len() > 8, "hosts are spread over the pool");
}

#[test]
fn nat64_leads_ipv6_hosts_to_ipv4() {
    let nat = nat(EVERYTHING);
    let call = tcp(("2001:db8:1::9", 4000), ("64:ff9b::808:808", 80));
    let out = lead(&nat, &call, LAN, WAN).unwrap();
    assert_eq!(out, tcp(("203.0.113.100", 4000), ("8.8.8.8", 80)));
    let ping = tuple(protocol::ICMP6, ("2001:db8:1::9", 5000), ("64:ff9b::808:808", 5000));
    let sent = lead(&nat, &ping, LAN, WAN).unwrap();
    assert_eq!(sent, tuple(protocol::ICMP, ("203.0.113.100", 5000), ("8.8.8.8", 5000)));
    assert_eq!(nat.len(), 2);
    let counted = || {
        let rule = nat.rules().into_iter().find(|rule| rule.action == "nat64").unwrap();
        (rule.flows, rule.mappings, rule.refused)
    };
    assert_eq!(counted(), (2, 2, 0));
    release(&nat, &call, &out);
    release(&nat, &ping, &sent);
    assert!(nat.is_empty());
    let esp = tuple(protocol::ESP, ("2001:db8:1::9", 0), ("64:ff9b::808:808", 0));
    assert_eq!(lead(&nat, &esp, LAN, WAN), Err(Refusal::Protocol));
    assert_eq!(counted(), (2, 2, 1));
    let round = tcp(("64:ff9b::909:909", 4000), ("64:ff9b::808:808", 80));
    assert_eq!(lead(&nat, &round, LAN, WAN), Err(Refusal::Loop));
    assert_eq!(counted(), (2, 2, 2));
    let strict = self::nat(&EVERYTHING.replace("private = true", ""));
    let private = tcp(("2001:db8:1::9", 4000), ("64:ff9b::a00:1", 80));
    assert_eq!(lead(&strict, &private, LAN, WAN), Err(Refusal::NotGlobal));
    assert!(lead(&nat, &private, LAN, WAN).is_ok());
}

#[test]
fn ipv6_hosts_reach_each_other_by_their_ipv4_endpoints() {
    let rules = "[[rule]]\nname = \"x\"\ntype = \"nat64\"\npool = \"203.0.113.100\"\nprivate = true\nhairpin = true\n\
                 filtering = \"endpoint-independent\"\nfallback = \"open\"\n";
    let nat = nat(rules);
    let first = tcp(("2001:db8:1::1", 1111), ("64:ff9b::808:808", 80));
    let first_out = lead(&nat, &first, LAN, WAN).unwrap();
    let call = tcp(("2001:db8:1::2", 2222), ("64:ff9b::203.0.113.100", 1111));
    let out = lead(&nat, &call, LAN, LAN).unwrap();
    assert_eq!(out, tcp(("64:ff9b::203.0.113.100", 2222), ("2001:db8:1::1", 1111)));
    // From IPv4, everybody may.
    let inward = tcp(("9.9.9.9", 9), ("203.0.113.100", 1111));
    let inward_out = lead(&nat, &inward, WAN, LAN).unwrap();
    assert_eq!(inward_out, tcp(("64:ff9b::909:909", 9), ("2001:db8:1::1", 1111)));
    for (original, leaving) in [(first, first_out), (inward, inward_out), (call, out)] {
        assert!(!nat.is_empty());
        release(&nat, &original, &leaving);
    }
    assert!(nat.is_empty());
}

#[test]
fn who_may_call_a_mapping_is_as_the_rule_says() {
    let nat = nat(EVERYTHING);
    let first = tcp(("192.168.1.5", 4000), ("8.8.8.8", 80));
    let out = lead(&nat, &first, LAN, WAN).unwrap();
    let stranger = tcp(("9.9.9.9", 5), ("203.0.113.1", 4000));
    assert_eq!(lead(&nat, &stranger, WAN, LAN), Ok(stranger), "address and port dependent");
    // Hosts inside may, and are called by their outside endpoint.
    let inside = tcp(("192.168.1.6", 4001), ("203.0.113.1", 4000));
    let hairpin = lead(&nat, &inside, LAN, LAN).unwrap();
    assert_eq!(hairpin, tcp(("203.0.113.1", 4001), ("192.168.1.5", 4000)));
    release(&nat, &first, &out);
    assert_eq!(nat.len(), 2, "the hairpin holds both");
    release(&nat, &inside, &hairpin);
    assert!(nat.is_empty());
    // The pool "two" lets everybody.
    let open = tcp(("172.16.0.5", 4000), ("8.8.8.8", 80));
    let out = lead(&nat, &open, LAN, WAN).unwrap();
    let call = tcp(("9.9.9.9", 5), ("203.0.113.1", out.source_port));
    let call = Tuple { destination: out.source, ..call };
    let led = lead(&nat, &call, WAN, LAN).unwrap();
    assert_eq!((led.destination, led.destination_port), (open.source, 4000));
    let destination = nat.destination(&call, WAN).unwrap();
    release(&nat, &open, &out);
    release(&nat, &call, &led);
    assert!(nat.is_empty());
    assert_eq!(nat.bind(&call, destination.as_ref(), [WAN, LAN], NOW), Err(Refusal::Gone));
}

#[test]
fn what_is_only_thought_of_meets_the_mappings_that_live() {
    let nat = nat(EVERYTHING);
    let host = tcp(("172.16.0.5", 4000), ("8.8.8.8", 80));
    let out = lead(&nat, &host, LAN, WAN).unwrap();
    let think = |tuple: &Tuple, input, output| lead(&nat.for_dry_run(tuple), tuple, input, output);
    // Everybody may call a mapping of this rule.
    let call = Tuple { destination: out.source, ..tcp(("9.9.9.9", 5), ("203.0.113.1", out.source_port)) };
    let led = think(&call, WAN, LAN).unwrap();
    assert_eq!((led.destination, led.destination_port), (host.source, 4000));
    let elsewhere = Tuple { destination_port: 443, ..host };
    let thought = think(&elsewhere, LAN, WAN).unwrap();
    assert_eq!((thought.source, thought.source_port), (out.source, out.source_port));
    // A new host gets the address that it would be given.
    for last in 1..30 {
        let new = tcp((&format!("10.0.0.{last}"), 4000), ("8.8.8.8", 80));
        let thought = think(&new, LAN, PPP).unwrap();
        assert_eq!(lead(&nat, &new, LAN, PPP).unwrap().source, thought.source);
    }
    assert_eq!((nat.len(), nat.rules()[2].flows, nat.rules()[3].flows), (30, 29, 1));
    // A host that has its share.
    let to = |port| tcp(("10.0.0.1", port), ("8.8.8.8", 80));
    let nat = self::nat(&EVERYTHING.replace("mappings = 1000", ""));
    (0..1000).for_each(|port| assert!(lead(&nat, &to(port), LAN, PPP).is_ok()));
    let thought = nat.for_dry_run(&to(1000));
    assert_eq!(lead(&thought, &to(1000), LAN, PPP), Err(Refusal::HostLimit));
    assert!(lead(&nat.for_dry_run(&to(7)), &Tuple { destination_port: 81, ..to(7) }, LAN, PPP).is_ok());
}

#[test]
fn forwarded_ports_are_never_given_out() {
    let nat = nat(
        "[[rule]]\nname = \"f\"\ntype = \"destination\"\nin = \"wan0\"\nprotocol = \"tcp\"\nports = \"1024-65000\"\nto = \"10.0.0.1\"\n\
         [[rule]]\nname = \"m\"\ntype = \"masquerade\"\nout = \"wan0\"\n",
    );
    for port in 0..535 {
        let out = lead(&nat, &tcp(("10.0.0.2", 2000 + port), ("8.8.8.8", 80)), LAN, WAN).unwrap();
        assert!(out.source_port > 65_000);
    }
    assert_eq!(lead(&nat, &tcp(("10.0.0.2", 1), ("8.8.8.8", 80)), LAN, WAN), Err(Refusal::Exhausted));
    assert_eq!(nat.pools()[0].taken[&protocol::TCP], 65_000 - 1023 + 535);
}
