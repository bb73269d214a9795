//! A part of the space of all packets of a family: a set of numbers for each thing that rules can
//! ask for. What is in two of them is one again, and what is left of one without another is a few
//! that have nothing in common; so what becomes of all packets is followed exactly, and never by
//! trying some.

use ipnet::IpNet;
use wire::protocol;

use super::numbers::Numbers;
use crate::matches::fragment;
use crate::model::*;
use crate::set::Set;

/// What rules ask for. Each is an axis of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Addresses as numbers, of IPv4 with 32 bits.
    Source,
    Destination,
    SourcePort,
    DestinationPort,
    Protocol,
    /// Type and code, of ICMP or ICMPv6.
    Icmp,
    Flags,
    Length,
    Ttl,
    Dscp,
    /// 0: whole, 1: the first, 2: a later one.
    Fragment,
    /// Interfaces, by their places in a list.
    Input,
    Output,
    /// States, by the places of their bits.
    State,
}

/// All axes.
const AXES: usize = 14;

/// A part of the space.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Space {
    axes: [Numbers; AXES],
}

/// What an axis has at all.
fn all(axis: Axis, family: Family) -> Numbers {
    let last = match axis {
        Axis::Source | Axis::Destination if family == Family::Ipv4 => u128::from(u32::MAX),
        Axis::Source | Axis::Destination => u128::MAX,
        Axis::SourcePort | Axis::DestinationPort | Axis::Icmp | Axis::Length => u128::from(u16::MAX),
        Axis::Input | Axis::Output => u128::from(u32::MAX),
        Axis::Protocol | Axis::Flags | Axis::Ttl => 255,
        Axis::Dscp => 63,
        Axis::Fragment => 2,
        Axis::State => 4,
    };
    Numbers::span(0, last)
}

const EACH: [Axis; AXES] = [
    Axis::Source,
    Axis::Destination,
    Axis::SourcePort,
    Axis::DestinationPort,
    Axis::Protocol,
    Axis::Icmp,
    Axis::Flags,
    Axis::Length,
    Axis::Ttl,
    Axis::Dscp,
    Axis::Fragment,
    Axis::Input,
    Axis::Output,
    Axis::State,
];

impl Space {
    /// All packets of a family.
    pub fn all(family: Family) -> Space {
        Space { axes: EACH.map(|axis| all(axis, family)) }
    }

    /// What an axis has here.
    pub fn at(&self, axis: Axis) -> &Numbers {
        &self.axes[axis as usize]
    }

    /// The same with these on an axis, whatever it had.
    pub fn with(mut self, axis: Axis, numbers: Numbers) -> Space {
        self.axes[axis as usize] = numbers;
        self
    }

    /// Leaves what is also among these.
    pub fn narrow(&mut self, axis: Axis, numbers: &Numbers) {
        let own = &mut self.axes[axis as usize];
        *own = own.and(numbers);
    }

    /// Whether no packet is in it.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(Numbers::is_empty)
    }

    /// What is in both, if anything is.
    pub fn and(&self, other: &Space) -> Option<Space> {
        if self.axes.iter().zip(&other.axes).any(|(own, other)| own.is_apart(other)) {
            return None;
        }
        let mut both = self.clone();
        for (own, other) in both.axes.iter_mut().zip(&other.axes) {
            *own = own.and(other);
        }
        Some(both)
    }

    /// What of it is not in the other, in parts that have nothing in common.
    pub fn without(&self, other: &Space, mut part: impl FnMut(Space)) {
        if self.axes.iter().zip(&other.axes).any(|(own, other)| own.is_apart(other)) {
            return part(self.clone());
        }
        let mut rest = self.clone();
        for (axis, taken) in EACH.into_iter().zip(&other.axes) {
            let outside = rest.at(axis).without(taken);
            if !outside.is_empty() {
                part(rest.clone().with(axis, outside));
            }
            rest.narrow(axis, taken);
        }
    }
}

/// The numbers of a prefix.
pub(crate) fn numbers_of(net: &IpNet) -> (u128, u128) {
    match net {
        IpNet::V4(net) => (u32::from(net.network()).into(), u32::from(net.broadcast()).into()),
        IpNet::V6(net) => (net.network().into(), net.broadcast().into()),
    }
}

/// Whether a prefix is of a family.
pub(crate) fn is_of(net: &IpNet, family: Family) -> bool {
    net.addr().is_ipv4() == (family == Family::Ipv4)
}

/// What a match is read with: sets, and interfaces by their places.
pub(crate) struct Names<'n> {
    /// Of the filter.
    pub sets: &'n [(String, Set)],
    /// The interfaces that packets may come and leave by.
    pub interfaces: &'n [String],
}

/// What a match asks of packets as such. Mark, time, rate and translation are not of the packet,
/// and a code point may be another by then. `None`: no packet of the family matches.
pub(crate) fn space_of(matches: &Match, family: Family, names: &Names) -> Option<Space> {
    let Match {
        family: only,
        protocols,
        source,
        source_ports,
        destination,
        destination_ports,
        icmp,
        flags,
        dscp: _,
        length,
        ttl,
        fragment,
        in_ports,
        out_ports,
        states,
        translated: _,
        mark: _,
        time: _,
        rate: _,
    } = matches;
    if only.is_some_and(|only| only != family) {
        return None;
    }
    let mut space = Space::all(family);
    let number =
        |list: &List<u8>| ranges_of(list, &all(Axis::Protocol, family), |n| (*n).into(), |n| (*n).into());
    protocols.iter().for_each(|list| space.narrow(Axis::Protocol, &number(list)));
    for (axis, list) in [(Axis::Source, source), (Axis::Destination, destination)] {
        if let Some(list) = list {
            space.narrow(axis, &addresses(list, family, axis, names)?);
        }
    }
    for (axis, list) in [(Axis::SourcePort, source_ports), (Axis::DestinationPort, destination_ports)] {
        if let Some(list) = list {
            space.narrow(axis, &spans(list));
            space.narrow(Axis::Protocol, &with_ports());
            space.narrow(Axis::Fragment, &Numbers::span(0, 1));
        }
    }
    if let Some(list) = icmp {
        let item = |icmp: &Icmp| {
            let Icmp { kinds: (first, last), codes } = *icmp;
            (first..=last).map(move |kind| {
                let code = |code: u8| u128::from(u16::from_be_bytes([kind, code]));
                (code(codes.0), code(codes.1))
            })
        };
        let these = Numbers::of(list.items.iter().flat_map(item));
        space.narrow(Axis::Icmp, &turned(these, list.not, &all(Axis::Icmp, family)));
        space.narrow(Axis::Fragment, &Numbers::span(0, 1));
    }
    if let Some(list) = flags {
        let holds = |value: &u8| list.holds(|flags| value & flags.mask == flags.set);
        space.narrow(Axis::Flags, &Numbers::of((0..=255u8).filter(holds).map(|n| (n.into(), n.into()))));
        space.narrow(Axis::Fragment, &Numbers::span(0, 1));
    }
    length.iter().for_each(|list| space.narrow(Axis::Length, &spans(list)));
    ttl.iter().for_each(|list| space.narrow(Axis::Ttl, &spans(list)));
    if let Some(parts) = fragment {
        space.narrow(Axis::Fragment, &parts_of(*parts));
    }
    for (axis, list) in [(Axis::Input, in_ports), (Axis::Output, out_ports)] {
        list.iter().for_each(|list| space.narrow(axis, &interfaces(list, names.interfaces)));
    }
    if let Some(states) = states {
        space.narrow(Axis::State, &bits(*states));
    }
    (!space.is_empty()).then_some(space)
}

/// Protocols that have ports.
pub(crate) fn with_ports() -> Numbers {
    Numbers::of((0..=255u8).filter(|number| protocol::has_ports(*number)).map(|n| (n.into(), n.into())))
}

/// Code points.
pub(crate) fn code_points(list: &List<u8>) -> Numbers {
    ranges_of(list, &Numbers::span(0, 63), |n| (*n).into(), |n| (*n).into())
}

fn parts_of(parts: u8) -> Numbers {
    let places = [(fragment::WHOLE, 0), (fragment::FIRST, 1), (fragment::LATER, 2)];
    Numbers::of(places.into_iter().filter(|(bit, _)| parts & bit != 0).map(|(_, at)| (at, at)))
}

fn bits(bits: u8) -> Numbers {
    Numbers::of((0..8u128).filter(|at| bits >> at & 1 != 0).map(|at| (at, at)))
}

fn turned(these: Numbers, not: bool, all: &Numbers) -> Numbers {
    if not { all.without(&these) } else { these }
}

fn ranges_of<T>(
    list: &List<T>,
    all: &Numbers,
    first: impl Fn(&T) -> u128,
    last: impl Fn(&T) -> u128,
) -> Numbers {
    turned(Numbers::of(list.items.iter().map(|item| (first(item), last(item)))), list.not, all)
}

fn spans(list: &List<Span>) -> Numbers {
    Numbers::of(list.spans().iter().map(|span| (span.first.into(), span.last.into())))
}

/// The addresses of a list; `None` when it is not about the family.
fn addresses(list: &List<Address>, family: Family, axis: Axis, names: &Names) -> Option<Numbers> {
    let (mut about, mut ranges) = (false, Vec::new());
    for item in &list.items {
        match item {
            Address::Net(net) if is_of(net, family) => {
                about = true;
                ranges.push(numbers_of(net));
            }
            Address::Net(_) => {}
            Address::Set { number, .. } => {
                about = true;
                let set = &names.sets.get(*number)?.1;
                match family {
                    Family::Ipv4 => {
                        ranges.extend(set.ranges4().iter().map(|(a, b)| ((*a).into(), (*b).into())))
                    }
                    Family::Ipv6 => ranges.extend(set.ranges6()),
                }
            }
        }
    }
    about.then(|| turned(Numbers::of(ranges), list.not, &all(axis, family)))
}

/// Whether a name is what a rule calls so.
pub(crate) fn is_called(word: &str, name: &str) -> bool {
    word.strip_suffix('*').map_or(word == name, |start| name.starts_with(start))
}

/// The places of the interfaces that a list means.
pub(crate) fn interfaces(list: &List<Interface>, known: &[String]) -> Numbers {
    let meant = |name: &String| list.holds(|item| is_called(&item.name, name));
    Numbers::of((0u128..).zip(known).filter(|(_, name)| meant(name)).map(|(at, _)| (at, at)))
}
