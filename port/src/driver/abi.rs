//! Compares the numbers in `bpf/abi.h` with those here.

use std::collections::HashMap;

use fib::{HopKind, PortFlags};
use wire::{Class, Reason};

use super::places::PORTS;
use super::{Lane, MAX_DIVERTS, MAX_PORTS, MAX_QUEUES, PLACES, VERDICTS};

const HEADER: &str = include_str!("../../../bpf/abi.h");

/// The constants of `enum name`, in lower case without their prefix.
fn constants(name: &str, prefix: &str) -> HashMap<String, u64> {
    let (_, rest) = HEADER.split_once(&format!("enum {name} {{")).unwrap();
    let (body, _) = rest.split_once("};").unwrap();
    let mut next = 0;
    let mut found = HashMap::new();
    for line in body.lines().filter_map(|line| line.split("/*").next().unwrap().trim().strip_suffix(',')) {
        let (constant, value) = line.split_once(" = ").unwrap_or((line, ""));
        next = value.parse().unwrap_or(next);
        if let Some(constant) = constant.strip_prefix(prefix) {
            found.insert(constant.to_lowercase(), next);
        }
        next += 1;
    }
    found
}

fn define(name: &str) -> u64 {
    let line = HEADER.lines().find_map(|line| line.strip_prefix(&format!("#define {name} "))).unwrap();
    line.parse().unwrap()
}

#[test]
fn reasons_are_the_same_on_both_sides() {
    let reasons = constants("reason", "REASON_");
    assert_eq!(reasons.len(), Reason::COUNT);
    Reason::ALL.iter().for_each(|reason| assert_eq!(reasons[reason.name()], *reason as u64));
}

#[test]
fn classes_and_lanes_are_the_same_on_both_sides() {
    let classes = constants("police_class", "CLASS_");
    assert_eq!(classes.len(), Class::COUNT);
    Class::ALL.iter().for_each(|class| assert_eq!(classes[class.name()], *class as u64));
    let lanes = constants("lane", "LANE_");
    assert_eq!(lanes.len(), Lane::ALL.len());
    Lane::ALL.iter().for_each(|lane| assert_eq!(lanes[lane.name()], *lane as u64));
}

#[test]
fn port_flags_and_kinds_are_the_same_on_both_sides() {
    let flags = constants("port_flag", "PORT_");
    assert_eq!(flags.len(), PortFlags::all().iter_names().count());
    PortFlags::all()
        .iter_names()
        .for_each(|(name, flag)| assert_eq!(flags[&name.to_lowercase()], u64::from(flag.bits())));
    let kinds = constants("kind", "KIND_");
    for (name, kind) in [
        ("none", HopKind::None),
        ("forward", HopKind::Forward),
        ("local", HopKind::Local),
        ("glean", HopKind::Glean),
        ("blackhole", HopKind::Blackhole),
        ("unreachable", HopKind::Unreachable),
        ("prohibit", HopKind::Prohibit),
        ("punt", HopKind::Punt),
    ] {
        assert_eq!(kinds[name], kind as u64);
    }
}

#[test]
fn limits_are_the_same_on_both_sides() {
    assert_eq!(define("MAX_PORTS"), u64::from(MAX_PORTS));
    assert_eq!(define("MAX_QUEUES"), u64::from(MAX_QUEUES));
    assert_eq!(define("PLACES"), u64::from(PLACES));
    assert_eq!(define("PORTS_A_PLACE"), PORTS as u64);
    assert_eq!(define("DIVERTS"), MAX_DIVERTS as u64);
    assert_eq!(define("VERDICTS"), 2 * VERDICTS as u64);
}
