//! Compares the numbers in `bpf/abi.h`, and those of `bpf/flows.h` that are this crate's, with those here. The others of
//! `flows.h` are compared in `flow/src/header.rs` and `elements/src/router/rulebook.rs`.

#[path = "../../../bpf/header.rs"]
mod header;

use std::collections::BTreeMap;

use fib::{HopKind, PortFlags};
use header::Header;
use wire::{Class, Reason, protocol};

use super::places::PORTS;
use super::{Lane, MAX_DIVERTS, MAX_PORTS, MAX_QUEUES, PLACES, VERDICTS, flows};

fn abi() -> Header {
    Header::read(include_str!("../../../bpf/abi.h"))
}

fn flows() -> Header {
    Header::read(include_str!("../../../bpf/flows.h"))
}

fn named<'a>(numbers: impl IntoIterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    numbers.into_iter().map(|(name, number)| (name.to_lowercase(), number)).collect()
}

#[test]
fn reasons_classes_and_lanes_are_the_same_on_both_sides() {
    let header = abi();
    let reasons = Reason::ALL.iter().map(|reason| (reason.name(), *reason as u64));
    assert_eq!(header.family("REASON_"), named(reasons));
    let classes = Class::ALL.iter().map(|class| (class.name(), *class as u64));
    assert_eq!(header.family("CLASS_"), named(classes));
    let lanes = Lane::ALL.iter().map(|lane| (lane.name(), *lane as u64));
    assert_eq!(header.family("LANE_"), named(lanes));
    let counts = ["REASONS", "CLASSES", "LANES"].map(|name| header.0[name]);
    assert_eq!(counts, [Reason::COUNT, Class::COUNT, Lane::ALL.len()].map(|count| count as u64));
}

#[test]
fn port_flags_and_kinds_are_the_same_on_both_sides() {
    let header = abi();
    let all = PortFlags::all();
    let flags = all.iter_names().map(|(name, flag)| (name, u64::from(flag.bits())));
    assert_eq!(header.family("PORT_"), named(flags));
    let kinds = [
        ("none", HopKind::None),
        ("forward", HopKind::Forward),
        ("local", HopKind::Local),
        ("glean", HopKind::Glean),
        ("blackhole", HopKind::Blackhole),
        ("unreachable", HopKind::Unreachable),
        ("prohibit", HopKind::Prohibit),
        ("punt", HopKind::Punt),
    ];
    assert_eq!(header.family("KIND_"), named(kinds.map(|(name, kind)| (name, kind as u64))));
}

#[test]
fn limits_are_the_same_on_both_sides() {
    let limits = [
        ("MAX_PORTS", u64::from(MAX_PORTS)),
        ("MAX_QUEUES", u64::from(MAX_QUEUES)),
        ("NO_PORT", u64::from(fib::PortId::NONE.0)),
        ("PLACES", u64::from(PLACES)),
        ("PORTS_A_PLACE", PORTS as u64),
        ("MAX_PEERS", super::peers::MOST as u64),
        ("DIVERTS", MAX_DIVERTS as u64),
        ("VERDICTS", 2 * VERDICTS as u64),
    ];
    let header = abi();
    for (name, limit) in limits {
        assert_eq!(header.0[name], limit, "{name}");
    }
    // Whoever adds one says here what it is on this side.
    let known = ["REASON", "CLASS", "LANE", "PORT_", "KIND_", "BUCKET"];
    let others = header.0.keys().filter(|name| !known.iter().any(|known| name.starts_with(known)));
    assert_eq!(others.count(), limits.len());
}

#[test]
fn verdicts_of_flows_and_protocols_are_the_same_on_both_sides() {
    let header = flows();
    let bits = [("known", flows::KNOWN), ("new", flows::NEW), ("dscp", flows::DSCP)];
    assert_eq!(header.family("VERDICT_"), named(bits));
    let protocols = [
        ("icmp", protocol::ICMP),
        ("tcp", protocol::TCP),
        ("udp", protocol::UDP),
        ("gre", protocol::GRE),
        ("esp", protocol::ESP),
        ("icmp6", protocol::ICMP6),
    ];
    let protocols = protocols.map(|(name, number)| (name, u64::from(number)));
    assert_eq!(header.family("PROTOCOL_"), named(protocols));
    // Whoever adds others says here where they are compared, or that they are C's alone.
    let compared = ["VERDICT_", "PROTOCOL_", "FLOW_", "PHASE_", "DECISION_"];
    let own = [
        "LOW_BITS",
        "REST_BITS",
        "CANDIDATES",
        "TCP_FIN",
        "UNTRANSLATED",
        "TRANSLATED",
        "UNKNOWN",
        "ECHO4_REPLY",
        "ECHO4",
        "ECHO6",
        "ECHO6_REPLY",
    ];
    for name in header.0.keys() {
        let known = compared.iter().any(|prefix| name.starts_with(prefix)) || own.contains(&name.as_str());
        assert!(known, "{name}");
    }
}
