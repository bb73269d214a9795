//! What the elements that work alike for IPv4 and IPv6 need to know of each.

use std::net::IpAddr;

use fib::{InterfaceFlags, NextHopId, TableId, View, Walk};
use port::Packet;

use super::{u32_at, u64_at};

/// An IP version: where its addresses are, and which of the tables and flags are its own.
pub trait Family: Send + 'static {
    /// An address as a number.
    type Address: Copy + Default + PartialEq + Send;
    /// Its place where there is something for each of the two.
    const NUMBER: usize;
    /// The class names of its elements: lookup, reverse path, redirect.
    const CLASSES: [&'static str; 3];
    /// The port flag without which nothing is forwarded.
    const FORWARD: InterfaceFlags;
    /// Transit that arrives here is Linux's.
    const LINUX: InterfaceFlags;
    /// The port flag of the strict reverse-path check.
    const STRICT: InterfaceFlags;
    /// The port flag of the loose reverse-path check.
    const LOOSE: InterfaceFlags;

    /// Destination address, of a packet whose header has been checked.
    fn destination(packet: &Packet) -> Self::Address;
    /// Source address, of a packet whose header has been checked.
    fn source(packet: &Packet) -> Self::Address;
    /// An address of this family from 16 bytes, in which an IPv4 address is IPv4-mapped; `None` for
    /// the other family.
    fn address(bytes: [u8; 16]) -> Option<Self::Address>;
    /// The next hop of an address of the other family, in the form of [`Family::address`]; `None`
    /// for this one.
    fn lookup_other(view: &View, bytes: [u8; 16]) -> Option<NextHopId>;
    /// An address, to be looked up in a table beside the main one.
    fn walk(table: TableId, address: Self::Address) -> Walk;
    /// An address as one of either family.
    fn ip(address: Self::Address) -> IpAddr;
    /// The next hops of many addresses.
    fn lookup(view: &View, addresses: &[Self::Address], ids: &mut [NextHopId]);
}

/// IPv4.
pub struct V4;

/// IPv6.
pub struct V6;

impl Family for V4 {
    type Address = u32;
    const NUMBER: usize = 0;
    const CLASSES: [&'static str; 3] = ["Lookup4", "ReversePath4", "Redirect4"];
    const FORWARD: InterfaceFlags = InterfaceFlags::FORWARD4;
    const LINUX: InterfaceFlags = InterfaceFlags::LINUX4;
    const STRICT: InterfaceFlags = InterfaceFlags::RPF4_STRICT;
    const LOOSE: InterfaceFlags = InterfaceFlags::RPF4_LOOSE;

    #[inline(always)]
    fn destination(packet: &Packet) -> u32 {
        packet.window::<20>().map_or(0, |header| u32_at(header, 16))
    }

    #[inline(always)]
    fn source(packet: &Packet) -> u32 {
        packet.window::<20>().map_or(0, |header| u32_at(header, 12))
    }

    #[inline]
    fn address(bytes: [u8; 16]) -> Option<u32> {
        wire::headers::unmapped(&bytes).map(u32::from_be_bytes)
    }

    #[inline]
    fn lookup_other(view: &View, bytes: [u8; 16]) -> Option<NextHopId> {
        V6::address(bytes).map(|address| view.lookup6(address))
    }

    #[inline(always)]
    fn walk(table: TableId, address: u32) -> Walk {
        Walk::ipv4(table, address)
    }

    #[inline]
    fn ip(address: u32) -> IpAddr {
        IpAddr::V4(address.into())
    }

    #[inline(always)]
    fn lookup(view: &View, addresses: &[u32], ids: &mut [NextHopId]) {
        view.lookup4_batch(addresses, ids);
    }
}

impl Family for V6 {
    type Address = u128;
    const NUMBER: usize = 1;
    const CLASSES: [&'static str; 3] = ["Lookup6", "ReversePath6", "Redirect6"];
    const FORWARD: InterfaceFlags = InterfaceFlags::FORWARD6;
    const LINUX: InterfaceFlags = InterfaceFlags::LINUX6;
    const STRICT: InterfaceFlags = InterfaceFlags::RPF6_STRICT;
    const LOOSE: InterfaceFlags = InterfaceFlags::RPF6_LOOSE;

    #[inline(always)]
    fn destination(packet: &Packet) -> u128 {
        packet.window::<40>().map_or(0, |header| address6(header, 24))
    }

    #[inline(always)]
    fn source(packet: &Packet) -> u128 {
        packet.window::<40>().map_or(0, |header| address6(header, 8))
    }

    #[inline]
    fn address(bytes: [u8; 16]) -> Option<u128> {
        let ipv4 = wire::headers::unmapped(&bytes).is_some();
        (!ipv4).then(|| u128::from_be_bytes(bytes))
    }

    #[inline]
    fn lookup_other(view: &View, bytes: [u8; 16]) -> Option<NextHopId> {
        V4::address(bytes).map(|address| view.lookup4(address))
    }

    #[inline(always)]
    fn walk(table: TableId, address: u128) -> Walk {
        Walk::ipv6(table, address)
    }

    #[inline]
    fn ip(address: u128) -> IpAddr {
        IpAddr::V6(address.into())
    }

    #[inline(always)]
    fn lookup(view: &View, addresses: &[u128], ids: &mut [NextHopId]) {
        view.lookup6_batch(addresses, ids);
    }
}

#[inline(always)]
fn address6(header: &[u8; 40], at: usize) -> u128 {
    u128::from(u64_at(header, at)) << 64 | u128::from(u64_at(header, at + 8))
}
