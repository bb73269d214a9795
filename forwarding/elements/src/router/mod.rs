//! The elements of the standard router, in the order of a packet's way (for IPv6 the same with 6
//! for 4, and without `Fragment4`: routers do not fragment IPv6):
//!
//! | element | outputs | what it does |
//! |---|---|---|
//! | `Sample`, `Sampled` | `out` | one packet in N, for sFlow: as it came in, and where it left |
//! | [`FastPath`] | `rest`, `out`, `opened` | the whole way of plain packets, where nothing else stands in it |
//! | [`FlowPath`] | `rest`, `out` | the same of plain packets whose flow is known and judged |
//! | [`RulesPath`] | `rest`, `out` | the same of plain packets that rules only accept, where no flows are known |
//! | [`Classify`] | `ipv4`, `ipv6`, `other` | by EtherType; what is not addressed to the port is `other` |
//! | [`CheckIpHeader4`] | `valid`, `linux`, `local` | drops invalid and martian packets; options and multicast are Linux's |
//! | [`Track`] | `tracked` | reads the headers for the filter, finds the flow |
//! | [`Filter`] | `pass`, and one for each way to tell the sender | the rules of `[filter]`; lets flows begin |
//! | [`Lookup4`] | `forward`, `local`, `linux`, `no_route`, `unreachable`, `prohibit` | route, path, output port |
//! | [`ReversePath4`] | `valid` | drops what does not come from where it should |
//! | [`Redirect`] | `forward`, `linux` | what leaves by its input port: lets Linux see some, which tells the sender |
//! | [`Translate64`] | `same`, `translated`, `expired`, `too_big` | NAT64: headers of the other family |
//! | [`Mtu4`] | `fits`, `fragment`, `too_big` | compares with the path's MTU |
//! | [`Fragment4`] | `fragments` | RFC 791 |
//! | [`DecrementTtl4`] | `forward`, `expired` | TTL and checksum |
//! | [`ClampMss`] | `out` | the segment size that TCP hosts tell each other |
//! | [`Ftp`] | `out` | what control connections of FTP announce |
//! | [`Translate`] | `translated` | the addresses and ports that `[nat]` gives |
//! | `OptionsSwitch` | `plain`, `options` | where flows are tracked: IPv4 options and hop-by-hop headers, which are Linux's |
//! | `TranslatedSwitch` | `plain`, `translated` | on the way to Linux: what is to be translated first |
//! | [`Rewrite`] | `out` | the Ethernet header of the next hop |
//! | [`Transmit`] | | to the output port |
//! | [`IcmpError4`] | `reply`, `linux` | answers; an input per kind of error; its `reply` leads to `Rewrite` |
//! | [`TcpReset`] | `reply`, `linux` | answers of the filter to TCP |
//! | [`OpenTunnels`] | `opened`, `rest` | takes the headers of IP tunnels off |
//! | [`Multicast`] | `out`, `linux` | a copy of packets to groups for each interface that wants them |
//! | [`Punt`] | | hands to Linux |
//!
//! Until [`DecrementTtl4`] no element changes a byte (padding behind the packet is cut off), so
//! that up to there any packet can still be handed to Linux whole.
//!
//! Elements read the tables through [`fib::View`], and the router's own addresses from [`Sources`].

mod beside;
mod check_ip_header4;
mod check_ip_header6;
mod clamp_mss;
mod classify;
mod columns;
mod context;
mod decrement_ttl;
mod enter;
mod family;
mod fast_path;
mod filter;
mod flow_path;
mod fragment4;
mod ftp;
mod icmp_error4;
mod icmp_error6;
mod icmp_settings;
mod intact;
mod leave;
mod limit;
mod lookup;
mod mtu;
mod multicast;
mod offload;
mod open_tunnels;
mod options_switch;
mod own;
mod plain;
mod plain4;
mod plain6;
mod punt;
mod redirect;
mod reverse_path;
mod rewrite;
mod router_context;
mod rulebook;
mod rules_path;
mod sample;
mod sources;
pub mod standard;
pub mod steer;
mod steered;
mod stranger;
mod tcp_reset;
mod track;
mod translate;
mod translate64;
mod translated_switch;
mod transmit;
mod tunnel;
mod tunnel_rules;
mod way_back;
mod wide;

pub use check_ip_header4::CheckIpHeader4;
pub use check_ip_header6::CheckIpHeader6;
pub use clamp_mss::ClampMss;
pub use classify::Classify;
pub use context::{Ended, SharedContext};
pub use decrement_ttl::{DecrementTtl4, DecrementTtl6};
pub use family::{Family, V4, V6};
pub use fast_path::FastPath;
pub use filter::Filter;
pub use flow_path::FlowPath;
pub use fragment4::Fragment4;
pub use ftp::{ControlConnections, Ftp};
pub use icmp_error4::IcmpError4;
pub use icmp_error6::IcmpError6;
pub use icmp_settings::{IcmpPolicy, IcmpSettings};
pub use limit::IcmpLimits;
pub use lookup::{Lookup, Lookup4, Lookup6};
pub use mtu::{Mtu4, Mtu6};
pub use multicast::Multicast;
pub use open_tunnels::OpenTunnels;
pub use punt::Punt;
pub use redirect::Redirect;
pub use reverse_path::{ReversePath, ReversePath4, ReversePath6};
pub use rewrite::Rewrite;
pub use router_context::RouterContext;
pub use rulebook::{Logged, Rulebook};
pub use rules_path::RulesPath;
pub use sample::Sampling;
pub use sources::Sources;
pub use steer::Steering;
pub use tcp_reset::TcpReset;
pub use track::Track;
pub use translate::Translate;
pub use translate64::Translate64;
pub use transmit::Transmit;
pub use tunnel_rules::{Barred, Outer};

use fib::InterfaceFlags;
use graph::Class;
use port::Packet;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &fast_path::CLASS,
    &flow_path::CLASS,
    &rules_path::CLASS,
    &classify::CLASS,
    &check_ip_header4::CLASS,
    &check_ip_header6::CLASS,
    &lookup::LOOKUP4,
    &lookup::LOOKUP6,
    &reverse_path::REVERSE_PATH4,
    &reverse_path::REVERSE_PATH6,
    &redirect::REDIRECT4,
    &redirect::REDIRECT6,
    &mtu::MTU4,
    &mtu::MTU6,
    &fragment4::CLASS,
    &decrement_ttl::DECREMENT_TTL4,
    &decrement_ttl::DECREMENT_TTL6,
    &rewrite::CLASS,
    &transmit::CLASS,
    &icmp_error4::CLASS,
    &icmp_error6::CLASS,
    &tcp_reset::CLASS,
    &track::CLASS,
    &filter::CLASS,
    &clamp_mss::CLASS,
    &ftp::CLASS,
    &translate64::CLASS,
    &translate::CLASS,
    &options_switch::CLASS,
    &translated_switch::CLASS,
    &open_tunnels::CLASS,
    &multicast::CLASS,
    &punt::CLASS,
    &sample::SAMPLE,
    &sample::SAMPLED,
];

/// Bytes of the Ethernet header that elements leave in front of the network header.
pub(super) const ETHERNET: usize = wire::ethernet::HEADER;

/// What a port needs to send.
pub(super) const SENDS: InterfaceFlags = InterfaceFlags::UP.union(InterfaceFlags::QUEUE);

/// Asks for the line of a frame's headers.
#[inline(always)]
pub(super) fn prefetch(packet: &Packet) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(packet.data().as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = packet;
}

/// The first `N` bytes of the network header; `None` when the first segment does not have them.
#[inline(always)]
pub(super) fn network<const N: usize>(packet: &Packet) -> Option<&[u8; N]> {
    packet.network().first_chunk()
}

/// The big-endian 16-bit number at `at` of a header.
#[inline(always)]
pub(super) fn u16_at<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

/// The big-endian 32-bit number at `at` of a header.
#[inline(always)]
pub(super) fn u32_at<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// The big-endian 64-bit number at `at` of a header.
#[inline(always)]
pub(super) fn u64_at<const N: usize>(header: &[u8; N], at: usize) -> u64 {
    // Invariant: callers name places within the header; a constant index is checked when this is
    // compiled.
    header[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Cuts off what stands behind a packet of `total` bytes from the network header on. False when
/// there are fewer.
#[inline(always)]
pub(super) fn cut_to(packet: &mut Packet, total: usize) -> bool {
    let total = packet.l3() + total;
    if packet.len() == total && packet.segment_count() == 1 {
        return true;
    }
    let have = packet.total_len();
    if have > total {
        packet.truncate(total);
    }
    have >= total
}

/// For what a packet is dropped that address translation refuses.
pub(super) fn refused(refusal: nat::Refusal) -> wire::Reason {
    use nat::Refusal;
    match refusal {
        Refusal::NoPrefix
        | Refusal::NotGlobal
        | Refusal::Loop
        | Refusal::Protocol
        | Refusal::Nobody
        | Refusal::NoRoom => wire::Reason::Untranslatable,
        Refusal::Exhausted | Refusal::HostLimit | Refusal::TableFull | Refusal::NoAddress | Refusal::Gone => {
            wire::Reason::PortsExhausted
        }
    }
}

/// Where an element notes of a packet which MTU its sender is to be told: 4 bytes, that no other
/// element of the router uses.
const TOLD_MTU: usize = 20;

/// Notes of a packet that would go over into the other family which MTU its sender is to be told,
/// which is not that of its adjacency.
pub(super) fn note_mtu(packet: &mut Packet, mtu: u32) {
    packet.set_annotation(TOLD_MTU, mtu.to_ne_bytes());
}

/// Whether a packet would have gone over into the other family: Linux does not know what became of
/// it.
pub(super) fn is_crossing(packet: &Packet) -> bool {
    packet.annotation(TOLD_MTU) != [0; 4]
}

/// The MTU that the sender of a packet that is too big is to be told.
pub(super) fn told_mtu(view: &fib::View, packet: &Packet) -> u32 {
    match u32::from_ne_bytes(packet.annotation(TOLD_MTU)) {
        0 => way_mtu(&view.hops(), packet).unwrap_or(0),
        noted => noted,
    }
}

/// The MTU of the way that a packet leaves by: its path's, its port's where the neighbour is still
/// to be found, or that of interfaces that are no ports. `None` where only Linux knows the way.
#[inline(always)]
pub(super) fn way_mtu(hops: &fib::Hops<'_>, packet: &Packet) -> Option<u32> {
    let known = |mtu: &u32| *mtu > 0;
    let path = Some(hops.adjacency(packet.adjacency).mtu()).filter(known);
    let port = || Some(hops.interface(packet.output).mtu()).filter(known);
    path.or_else(port).or_else(|| hops.hop(packet.next_hop).foreign_mtu())
}

/// Copies a packet, from its network header on, into `room`, as far as it fits; returns how many
/// bytes that is.
pub(super) fn quote(packet: &Packet, room: &mut [u8]) -> usize {
    let (mut skip, mut at) = (packet.l3(), 0);
    for segment in packet.segments() {
        let part = segment.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(segment.len());
        let length = part.len().min(room.len() - at);
        room[at..at + length].copy_from_slice(&part[..length]);
        at += length;
    }
    at
}
