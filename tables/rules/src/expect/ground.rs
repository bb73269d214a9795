//! What is known around a filter: interfaces, where destinations are translated to, and routes.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::numbers::Numbers;
use super::space::{Axis, Space, is_of, numbers_of, with_ports};
use super::walk::Came;
use crate::model::{Family, Interface, List};

/// What is known around a filter.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    /// Interfaces that packets may come and leave by. Others go by their places here.
    pub interfaces: Vec<String>,
    /// Those that packets come in by where a sentence does not say it.
    pub inputs: Vec<usize>,
    /// Those at which rules for what leaves are asked.
    pub outputs: Vec<usize>,
    /// How destinations are translated: the first that is for a packet decides.
    pub aims: Vec<Aim>,
    /// The router's own addresses.
    pub own: Vec<IpAddr>,
    /// Where packets go; `None`: nobody knows.
    pub routes: Option<Routes>,
}

/// A rule that may translate destinations.
#[derive(Clone, Debug)]
pub struct Aim {
    /// What it is called.
    pub rule: String,
    /// The interfaces that packets come by; `None`: all.
    pub input: Option<Vec<usize>>,
    /// Their source; empty: all.
    pub source: Vec<IpNet>,
    /// Their destination; empty: all.
    pub destination: Vec<IpNet>,
    /// Their protocol; empty: all.
    pub protocols: Vec<u8>,
    /// Their source ports; empty: all.
    pub source_ports: Vec<RangeInclusive<u16>>,
    /// Their destination ports; empty: all.
    pub ports: Vec<RangeInclusive<u16>>,
    /// What becomes of the destination.
    pub to: To,
}

/// What becomes of a destination.
#[derive(Clone, Debug)]
pub enum To {
    /// It stays as it is, and no other rule is asked.
    Itself,
    /// It becomes one of these.
    Targets(Vec<Target>),
    /// Something that is not followed here: what that is.
    Unfollowed(&'static str),
}

/// Where packets are led.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address, or the prefix whose host part is kept.
    pub net: IpNet,
    /// The ports: one for all, or a range as wide as the rule's; `None`: unchanged.
    pub ports: Option<RangeInclusive<u16>>,
}

/// Where packets to an address go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lead {
    /// To the router itself.
    Here,
    /// Out by one of these interfaces.
    By(Vec<usize>),
    /// Nowhere: what ends them there.
    Nowhere(String),
}

/// Destinations with where they go; `None`: no route leads there.
pub(super) type Divided<'r> = (Option<&'r Lead>, Numbers);

/// Routes, each prefix with where it leads.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    leads: Vec<Lead>,
    /// Of IPv4 and of IPv6, in order: disjoint ranges with the prefix that decides there, and its
    /// lead.
    ranges: [Vec<(u128, u128, IpNet, usize)>; 2],
}

impl Routes {
    /// Of routes with one lead for each prefix.
    pub fn new(routes: impl IntoIterator<Item = (IpNet, Lead)>) -> Routes {
        let mut known = std::collections::HashMap::new();
        let mut leads = Vec::new();
        let mut lists: [Vec<(u128, u128, IpNet, usize)>; 2] = Default::default();
        for (prefix, lead) in routes {
            let number = *known.entry(lead).or_insert_with_key(|lead| {
                leads.push(lead.clone());
                leads.len() - 1
            });
            let (first, last) = numbers_of(&prefix);
            lists[usize::from(!prefix.addr().is_ipv4())].push((first, last, prefix, number));
        }
        Routes { leads, ranges: lists.map(flat) }
    }

    /// What the address of this number is led by.
    pub(super) fn prefix_of(&self, family: Family, number: u128) -> Option<IpNet> {
        let ranges = &self.ranges[family as usize];
        let at = ranges.partition_point(|(_, last, ..)| *last < number);
        ranges.get(at).filter(|(first, ..)| *first <= number).map(|(_, _, prefix, _)| *prefix)
    }

    /// Destinations by where they go; what no route leads anywhere has none.
    pub(super) fn divide(&self, family: Family, destinations: &Numbers) -> Vec<Divided<'_>> {
        let ranges = &self.ranges[family as usize];
        let mut by_lead: Vec<Vec<(u128, u128)>> = vec![Vec::new(); self.leads.len()];
        let mut covered = Vec::new();
        for (first, last) in destinations.ranges() {
            let begin = ranges.partition_point(|(_, end, ..)| end < first);
            for (start, end, _, lead) in ranges[begin..].iter().take_while(|(start, ..)| start <= last) {
                let part = (*start.max(first), *end.min(last));
                by_lead[*lead].push(part);
                covered.push(part);
            }
        }
        let lost = destinations.without(&Numbers::of(covered));
        let led = self.leads.iter().zip(by_lead).map(|(lead, parts)| (Some(lead), Numbers::of(parts)));
        led.chain([(None, lost)]).filter(|(_, numbers)| !numbers.is_empty()).collect()
    }
}

/// A range that is not at its end yet: where what it still has begins, if it has anything.
struct Open {
    begin: Option<u128>,
    last: u128,
    prefix: IpNet,
    lead: usize,
}

/// Nested ranges made disjoint: of each the part in which no smaller one lies.
fn flat(mut list: Vec<(u128, u128, IpNet, usize)>) -> Vec<(u128, u128, IpNet, usize)> {
    list.sort_unstable_by_key(|(first, last, ..)| (*first, u128::MAX - last));
    let mut flat: Vec<(u128, u128, IpNet, usize)> = Vec::with_capacity(list.len());
    let mut open: Vec<Open> = Vec::new();
    let close = |open: &mut Vec<Open>, before: Option<u128>, flat: &mut Vec<_>| {
        while let Some(inner) = open.pop_if(|inner| before.is_none_or(|next| inner.last < next)) {
            let left = inner.begin.filter(|begin| *begin <= inner.last);
            flat.extend(left.map(|begin| (begin, inner.last, inner.prefix, inner.lead)));
            if let Some(outer) = open.last_mut() {
                // Nothing is behind the last address.
                let next = inner.last.checked_add(1);
                outer.begin = outer.begin.zip(next).map(|(begin, next)| begin.max(next));
            }
        }
    };
    for (first, last, prefix, lead) in list {
        close(&mut open, Some(first), &mut flat);
        if let Some(outer) = open.last_mut() {
            let before = outer.begin.filter(|begin| *begin < first);
            flat.extend(before.map(|begin| (begin, first - 1, outer.prefix, outer.lead)));
            outer.begin = outer.begin.map(|begin| begin.max(first));
        }
        open.push(Open { begin: Some(first), last, prefix, lead });
    }
    close(&mut open, None, &mut flat);
    flat
}

impl Ground {
    /// Learns of interfaces that rules and sentences name, whether they are there or not.
    pub fn learn<'n>(&mut self, lists: impl IntoIterator<Item = &'n List<Interface>>) {
        for name in lists.into_iter().flat_map(|list| &list.items).map(|item| &item.name) {
            if !name.ends_with('*') && !self.interfaces.contains(name) {
                self.interfaces.push(name.clone());
                self.outputs.push(self.interfaces.len() - 1);
                // Where nothing is known, packets may come by all of them.
                if self.routes.is_none() {
                    self.inputs.push(self.interfaces.len() - 1);
                }
            }
        }
    }
}

impl Aim {
    /// The packets that it is for.
    pub(super) fn space(&self, family: Family) -> Option<Space> {
        let mut space = Space::all(family);
        if let Some(input) = &self.input {
            space.narrow(Axis::Input, &places(input));
        }
        for (axis, nets) in [(Axis::Source, &self.source), (Axis::Destination, &self.destination)] {
            if !nets.is_empty() {
                let own = nets.iter().filter(|net| is_of(net, family)).map(numbers_of);
                space.narrow(axis, &Numbers::of(own));
            }
        }
        if !self.protocols.is_empty() {
            let protocols = self.protocols.iter().map(|number| (u128::from(*number), u128::from(*number)));
            space.narrow(Axis::Protocol, &Numbers::of(protocols));
        }
        for (axis, ports) in [(Axis::SourcePort, &self.source_ports), (Axis::DestinationPort, &self.ports)] {
            if !ports.is_empty() {
                space.narrow(axis, &Numbers::of(ports.iter().map(span)));
                space.narrow(Axis::Protocol, &with_ports());
            }
        }
        (!space.is_empty()).then_some(space)
    }

    /// Packets that it is for, as they are for each of its targets in turn.
    pub(super) fn led(&self, targets: &[Target], family: Family, space: &Space) -> Vec<(Space, Came)> {
        let of_family = targets.iter().filter(|target| is_of(&target.net, family));
        let led = of_family.map(|target| {
            let (destination, port) = (space.at(Axis::Destination), space.at(Axis::DestinationPort));
            let (to, moved) = match &target.ports {
                None => (port.clone(), Some((0, 0))),
                Some(ports) if ports.start() == ports.end() => (Numbers::of([span(ports)]), None),
                Some(ports) => {
                    let from = self.ports.first().map_or(0, |range| u128::from(*range.start()));
                    let to = u128::from(*ports.start());
                    (port.moved(from, to), Some((from, to)))
                }
            };
            let (first, last) = numbers_of(&target.net);
            let came = Came {
                destination: destination.clone(),
                port: port.clone(),
                rule: self.rule.clone(),
                kept: last - first,
                moved,
            };
            let led = kept(destination, &target.net);
            (space.clone().with(Axis::Destination, led).with(Axis::DestinationPort, to), came)
        });
        led.collect()
    }
}

/// Addresses with the bits of a network in place of their own.
fn kept(destination: &Numbers, net: &IpNet) -> Numbers {
    let (first, last) = numbers_of(net);
    let size = last - first;
    let mut ranges = Vec::new();
    for (begin, end) in destination.ranges() {
        if end - begin >= size {
            return Numbers::span(first, last);
        }
        // The sizes of prefixes are powers of two.
        let (begin, end) = (begin & size, end & size);
        match begin <= end {
            true => ranges.push((first + begin, first + end)),
            false => ranges.extend([(first, first + end), (first + begin, last)]),
        }
    }
    Numbers::of(ranges)
}

/// Interfaces by their places.
pub(super) fn places(places: &[usize]) -> Numbers {
    Numbers::of(places.iter().map(|at| (*at as u128, *at as u128)))
}

fn span(range: &RangeInclusive<u16>) -> (u128, u128) {
    ((*range.start()).into(), (*range.end()).into())
}

/// The address of a number.
pub(super) fn address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::from_bits(number as u32).into(),
        Family::Ipv6 => IpAddr::V6(number.into()),
    }
}
