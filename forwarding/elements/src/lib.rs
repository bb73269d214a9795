//! The element library, one element a file.
//!
//! | folder | what is there |
//! |---|---|
//! | [`router`] | the standard router's own elements, on the plane's tables |
//! | [`traffic`] | sources and sinks: made packets, files, devices |
//! | [`basic`] | classifying, counting, printing, painting, switching, changing lengths |
//! | [`control`] | scripts, messages, names |
//! | [`queues`] | queues, schedulers, shapers, meters |
//! | [`ethernet`] | Ethernet, ARP, VLAN |
//! | [`ip`] | IPv4 |
//! | [`icmp`] | ICMP |
//! | [`transport`] | TCP and UDP |
//! | [`ip6`] | IPv6, neighbour discovery |
//! | [`decision`] | no elements: the programs of those that decide by a packet's bytes |
//!
//! All but the first have the names, arguments, ports, handlers and printed forms of Click's
//! elements. The head of each file documents its element in a form of its own (`graph::reference`).

pub mod basic;
pub mod control;
pub mod decision;
pub mod ethernet;
pub mod examples;
pub mod icmp;
pub mod ip;
pub mod ip6;
pub mod queues;
pub mod router;
pub mod traffic;
pub mod transport;

use graph::{Class, Registry};

/// Every class of the library, by folder.
pub const CLASSES: &[&[&Class]] = &[
    basic::CLASSES,
    control::CLASSES,
    ethernet::CLASSES,
    icmp::CLASSES,
    ip::CLASSES,
    ip6::CLASSES,
    queues::CLASSES,
    router::CLASSES,
    traffic::CLASSES,
    transport::CLASSES,
];

/// A registry with every class of the library.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    for classes in CLASSES {
        registry.add(classes);
    }
    registry
}
