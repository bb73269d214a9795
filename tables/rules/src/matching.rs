//! What is known of a packet beside its headers, and what may be remembered of a rule's answer.
//!
//! A match has three parts ([`Test`](crate::matches::Test)). The *constant* part is the same for
//! all packets of one direction of a flow while its state is the same: addresses, ports, protocol,
//! interfaces, state. The *momentary* part differs from packet to packet but follows from the
//! packet: flags, ICMP types, length, fragment. The *circumstances* do not follow from it: the mark
//! and the code point that earlier rules may have set, the time, the rate.

use wire::{Fragment, Headers, protocol};

use crate::model::*;
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
    /// The destination of its flow is translated.
    pub dnat: bool,
    /// Its mark so far.
    pub mark: u32,
}

/// The address sets of a filter, by number.
pub(crate) type Sets = [(String, Set)];

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

impl Match {
    /// Whether it asks for more than its constant part.
    pub(crate) fn varies(&self) -> bool {
        self.asks_for_moment() || self.asks_for_circumstances()
    }
}

impl Rule {
    /// Whether what it does, or whether it does it, may differ between packets of one direction of
    /// a flow.
    pub fn varies(&self) -> bool {
        let Effects { count, police, log, mark: _, dscp: _ } = &self.effects;
        self.matches.varies() || *count || police.is_some() || log.is_some()
    }
}
