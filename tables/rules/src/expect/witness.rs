//! One packet of many, for people: written as `bifrost explain` is asked about it.

use std::fmt::Write;

use wire::protocol;

use super::ground::address;
use super::judge::shows_ports;
use super::numbers::Numbers;
use super::space::Axis;
use super::walk::Part;
use crate::model::Family;

/// A packet, and where it is by then.
pub(super) struct Seen {
    /// In words, as it came.
    pub packet: String,
    /// Where it goes, when that was translated.
    pub destination: u128,
    /// The same with its port, in words.
    pub led: String,
    /// The interface that it leaves by.
    pub output: usize,
}

/// A number of these that a packet would have by itself, or the first.
fn usual(numbers: &Numbers, wanted: &[u128]) -> u128 {
    let first = numbers.ranges().first().map_or(0, |(first, _)| *first);
    wanted.iter().copied().find(|wanted| numbers.has(*wanted)).unwrap_or(first)
}

/// A host: not the number that names the network, where there is another one.
fn host(numbers: &Numbers) -> u128 {
    let ranges = numbers.ranges();
    let several = ranges.iter().find(|(first, last)| first < last).map(|(first, _)| first | 1);
    several.or(ranges.first().map(|(first, _)| *first)).unwrap_or_default()
}

/// The numbers without some, unless none is left.
fn others(numbers: &Numbers, own: &Numbers) -> Numbers {
    let others = numbers.without(own);
    if others.is_empty() { numbers.clone() } else { others }
}

/// One of the packets.
///
/// Rather not from the router's own addresses, for it would not come in.
pub(super) fn of(part: &Part, family: Family, interfaces: &[String], own: &Numbers) -> Seen {
    let at = |axis| part.space.at(axis);
    let destination = host(at(Axis::Destination));
    let icmp = if family == Family::Ipv4 { protocol::ICMP } else { protocol::ICMP6 };
    let usual_protocols = [protocol::TCP, protocol::UDP, icmp].map(u128::from);
    let number = usual(at(Axis::Protocol), &usual_protocols);
    let fragment = usual(at(Axis::Fragment), &[0]);
    let port = usual(at(Axis::DestinationPort), &[]);
    let (came_to, came_port) = match &part.came {
        Some(came) => came.before(destination, port),
        None => (destination, port),
    };
    let (source, to) = (address(family, host(&others(at(Axis::Source), own))), address(family, came_to));
    let name = protocol::name(number as u8).map_or_else(|| number.to_string(), str::to_owned);
    let mut packet = format!("{source} > {to} {name}");
    let ports = shows_ports(number, fragment);
    if ports {
        let _ = write!(packet, " {}:{came_port}", usual(at(Axis::SourcePort), &[40_000]));
    }
    let input = usual(at(Axis::Input), &[]) as usize;
    if let Some(name) = interfaces.get(input).filter(|name| !name.is_empty()) {
        let _ = write!(packet, " in {name}");
    }
    for (axis, word, wanted) in [(Axis::Ttl, "ttl", 64), (Axis::Length, "len", 84)] {
        let value = usual(at(axis), &[wanted]);
        if value != wanted {
            let _ = write!(packet, " {word} {value}");
        }
    }
    let mut remarks = Vec::new();
    let kind = usual(at(Axis::Icmp), &[8 << 8, 128 << 8]);
    if number == u128::from(icmp) && ![8 << 8, 128 << 8].contains(&kind) {
        remarks.push(format!("type {}/{}", kind >> 8, kind & 255));
    }
    let flags = usual(at(Axis::Flags), &[2, 16]);
    if number == u128::from(protocol::TCP) && flags != 2 {
        remarks.push(format!("flags {flags:#04x}"));
    }
    let dscp = usual(at(Axis::Dscp), &[0]);
    remarks.extend((dscp != 0).then(|| format!("dscp {dscp}")));
    remarks.extend(
        ["", "a first fragment", "a later fragment"]
            .get(fragment as usize)
            .filter(|text| !text.is_empty())
            .map(ToString::to_string),
    );
    let state = usual(at(Axis::State), &[0]);
    let states = ["", "established", "related", "invalid", "untracked"];
    remarks.extend(
        states.get(state as usize).filter(|text| !text.is_empty()).map(|text| format!("state {text}")),
    );
    if !remarks.is_empty() {
        let _ = write!(packet, " ({})", remarks.join(", "));
    }
    let there = address(family, destination);
    let led = match ports {
        true => std::net::SocketAddr::new(there, port as u16).to_string(),
        false => there.to_string(),
    };
    Seen { packet, destination, led, output: usual(at(Axis::Output), &[]) as usize }
}
