//! # Mtu4: does the packet fit the path? (IPv4)
//!
//! Group: router
//! Usage: `Mtu4`
//! Ports: 1 input, 3 outputs; push
//!
//! In front of the decrement of TTL or hop limit, because the answer quotes the packet as it came.
//! A packet that is at the end of its time as well passes, so that it is answered with time
//! exceeded, as in Linux.
//!
//! Outputs:
//! - 0: fits
//! - 1: to be fragmented
//! - 2: too big, and not to be fragmented
//!
//! # Mtu6: does the packet fit the path? (IPv6)
//!
//! Group: router
//! Usage: `Mtu6`
//! Ports: 1 input, 2 outputs; push
//!
//! As [Mtu4], for IPv6.
//!
//! Outputs:
//! - 0: fits
//! - 1: too big

use super::router_context::on_tables;
use fib::View;
use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{IcmpError, ipv4, ipv6};

use super::{network, u16_at, way_mtu};

/// The class `Mtu4`.
pub const MTU4: Class = Class {
    name: "Mtu4",
    ports: "1/3",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("mtu.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| Mtu4::new(s.view.clone())),
};

/// The class `Mtu6`.
pub const MTU6: Class = Class {
    name: "Mtu6",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("mtu.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| Mtu6::new(s.view.clone())),
};

const FITS: usize = 0;
/// The outputs' names in IPv4.
pub(super) const OUTPUTS4: [&str; 3] = ["fits", "fragment", IcmpError::TooBig.name()];
/// The outputs' names in IPv6.
pub(super) const OUTPUTS6: [&str; 2] = ["fits", IcmpError::TooBig.name()];

/// Compares IPv4 packets with the MTU of their adjacency. Outputs: `fits`, `fragment`, `too_big`
/// (and not to be fragmented).
pub struct Mtu4 {
    view: View,
}

/// Compares IPv6 packets with the MTU of their adjacency, which counts as 1280 at least: a route of
/// less would be a black hole, as hosts send so much whatever they are told (RFC 8201, 4). Outputs:
/// `fits`, `too_big`.
pub struct Mtu6 {
    view: View,
}

impl Mtu4 {
    const FRAGMENT: usize = 1;
    const TOO_BIG: usize = 2;

    /// Reads the adjacencies' MTU from the tables.
    pub fn new(view: View) -> Mtu4 {
        Mtu4 { view }
    }
}

impl Mtu6 {
    const TOO_BIG: usize = 1;

    /// Reads the adjacencies' MTU from the tables.
    pub fn new(view: View) -> Mtu6 {
        Mtu6 { view }
    }
}

/// The packets that are larger than their path's MTU, as bits.
#[inline(always)]
fn larger(view: &View, packets: &[Packet], minimum: usize) -> u64 {
    let (hops, mut larger) = (view.hops(), 0);
    for (index, packet) in packets.iter().enumerate() {
        let mtu = way_mtu(&hops, packet).map_or(usize::MAX, |mtu| mtu as usize).max(minimum);
        // Rare, so a branch costs less than bits put together.
        if packet.total_len() - packet.l3() > mtu {
            larger |= 1 << index;
        }
    }
    larger
}

impl Element for Mtu4 {
    fn class(&self) -> &'static str {
        "Mtu4"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &OUTPUTS4
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let larger = larger(&self.view, batch.packets(), 0);
        batch.take(larger, |_, packet| {
            let output = match network::<20>(&packet) {
                Some(header) if header[8] <= 1 => FITS,
                Some(header) if u16_at(header, 6) & ipv4::DONT_FRAGMENT != 0 => Mtu4::TOO_BIG,
                _ => Mtu4::FRAGMENT,
            };
            cx.emit(output, packet);
        });
        cx.emit_batch(FITS, batch);
    }
}

impl Element for Mtu6 {
    fn class(&self) -> &'static str {
        "Mtu6"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &OUTPUTS6
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let larger = larger(&self.view, batch.packets(), ipv6::MINIMUM_MTU);
        batch.take(larger, |_, packet| {
            let expired = network::<40>(&packet).is_some_and(|header| header[7] <= 1);
            cx.emit(if expired { FITS } else { Mtu6::TOO_BIG }, packet);
        });
        cx.emit_batch(FITS, batch);
    }
}
