//! Whether a match holds, exactly: what the naive evaluator asks for every rule, and the classifier for what its boxes cannot say.
//!
//! A match has three parts. The *constant* part is the same for all packets of one direction of a flow while its state is the
//! same: addresses, ports, protocol, interfaces, state. The *momentary* part differs from packet to packet but follows
//! from the packet: flags, ICMP types, length, fragment. The *circumstances* do not follow from it: the mark and the code point
//! that earlier rules may have set, the time, the rate.

use ipnet::IpNet;
use wire::{Fragment, Headers, protocol};

use crate::model::*;
use crate::moment::Now;
use crate::set::Set;

/// What is known of a packet beside its headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The port it came by.
    pub in_port: u16,
    /// The port it will leave by, once that is known.
    pub out_port: Option<u16>,
    /// The state of its flow.
    pub state: FlowState,
    /// Its mark so far.
    pub mark: u32,
}

/// The address sets of a filter, by number.
pub(crate) type Sets = [(String, Set)];

impl<T> List<T> {
    /// Whether the list holds for what `is` finds.
    #[inline]
    fn holds(&self, is: impl FnMut(&T) -> bool) -> bool {
        self.items.iter().any(is) != self.not
    }
}

/// Whether a packet shows ports that are ports.
#[inline]
pub(crate) fn shows_ports(headers: &Headers) -> bool {
    protocol::has_ports(headers.protocol) && headers.fragment != Fragment::Later
}

/// An address as a number: of 32 bits when it is IPv4.
#[inline]
pub(crate) fn number_of(address: &[u8; 16], version: u8) -> u128 {
    let number = u128::from_be_bytes(*address);
    if version == 4 { number & 0xffff_ffff } else { number }
}

impl List<Address> {
    fn holds_address(&self, address: &[u8; 16], version: u8, sets: &Sets) -> bool {
        let number = number_of(address, version);
        let mut about = false;
        let inside = self.items.iter().any(|item| match item {
            Address::Net(IpNet::V4(net)) if version == 4 => {
                about = true;
                number as u32 & u32::from(net.netmask()) == u32::from(net.network())
            }
            Address::Net(IpNet::V6(net)) if version == 6 => {
                about = true;
                number & u128::from(net.netmask()) == u128::from(net.network())
            }
            Address::Net(_) => false,
            Address::Set { number: set, .. } => {
                about = true;
                let set = &sets[*set].1;
                if version == 4 { set.contains4(number as u32) } else { set.contains6(number) }
            }
        });
        // Turned round, a list is still about the families of its addresses only.
        if self.not { about && !inside } else { inside }
    }
}

impl Match {
    /// The part that is the same for all packets of a flow's direction.
    pub(crate) fn constant(&self, headers: &Headers, context: &Context, sets: &Sets) -> bool {
        self.family.is_none_or(|family| family.version() == headers.version)
            && self.protocols.as_ref().is_none_or(|list| list.holds(|number| *number == headers.protocol))
            && self
                .source
                .as_ref()
                .is_none_or(|list| list.holds_address(&headers.source, headers.version, sets))
            && self
                .destination
                .as_ref()
                .is_none_or(|list| list.holds_address(&headers.destination, headers.version, sets))
            && (self.source_ports.is_none() && self.destination_ports.is_none() || shows_ports(headers))
            && self
                .source_ports
                .as_ref()
                .is_none_or(|list| list.holds(|span| span.contains(headers.source_port)))
            && self
                .destination_ports
                .as_ref()
                .is_none_or(|list| list.holds(|span| span.contains(headers.destination_port)))
            && self
                .in_ports
                .as_ref()
                .is_none_or(|list| list.holds(|interface| interface.numbers.contains(&context.in_port)))
            && self.out_ports.as_ref().is_none_or(|list| {
                context.out_port.is_some_and(|port| list.holds(|interface| interface.numbers.contains(&port)))
            })
            && self.states.is_none_or(|states| states & context.state as u8 != 0)
    }

    /// The part that follows from the packet and may differ from one to the next.
    pub(crate) fn momentary(&self, headers: &Headers) -> bool {
        let shown = headers.fragment != Fragment::Later;
        self.flags
            .as_ref()
            .is_none_or(|list| shown && list.holds(|flags| headers.tcp_flags & flags.mask == flags.set))
            && self.icmp.as_ref().is_none_or(|list| {
                shown && list.holds(|icmp| icmp.holds(headers.icmp_type, headers.icmp_code))
            })
            && self.length.as_ref().is_none_or(|list| list.holds(|span| span.contains(headers.length)))
            && self.fragment.is_none_or(|parts| parts & part_of(headers) != 0)
    }

    /// Mark, code point and time; the rate is its rule's meter's to say.
    pub(crate) fn circumstances(&self, mark: u32, dscp: u8, now: &Now) -> bool {
        self.mark.is_none_or(|wanted| (mark & wanted.mask == wanted.value) != wanted.not)
            && self.dscp.as_ref().is_none_or(|list| list.holds(|number| *number == dscp))
            && self.time.is_none_or(|window| window.contains(now))
    }

    /// Whether it asks for more than its constant part.
    pub(crate) fn varies(&self) -> bool {
        self.asks_for_moment() || self.asks_for_circumstances()
    }

    /// Whether it has a momentary part.
    pub(crate) fn asks_for_moment(&self) -> bool {
        self.flags.is_some() || self.icmp.is_some() || self.length.is_some() || self.fragment.is_some()
    }

    /// Whether it asks for circumstances.
    pub(crate) fn asks_for_circumstances(&self) -> bool {
        self.mark.is_some() || self.dscp.is_some() || self.time.is_some() || self.rate.is_some()
    }
}

impl Rule {
    /// Whether what it does, or whether it does it, may differ between packets of one direction of a flow.
    pub fn varies(&self) -> bool {
        let Effects { count, police, log, mark: _, dscp: _ } = &self.effects;
        self.matches.varies() || *count || police.is_some() || log.is_some()
    }
}

/// Which part of a packet this is, as a bit of [`fragment`].
#[inline]
pub(crate) fn part_of(headers: &Headers) -> u8 {
    match headers.fragment {
        Fragment::Whole => fragment::WHOLE,
        Fragment::First => fragment::FIRST,
        Fragment::Later => fragment::LATER,
    }
}
