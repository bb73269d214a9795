//! VXLAN (RFC 7348): a packet leaves as a frame of Ethernet in UDP, and comes in as one. Byte for
//! byte as in Linux, but for UDP's source port, which each sender chooses for each flow.

use fib::{AdjacencyWord, Ends, Hops, LONGEST_HEADER, TunnelWord, View};
use port::{Packet, pool};
use wire::{checksum, ethernet, flow_hash, ipv4, ipv6, protocol};

use super::Passage;
use super::header::{Inner, header4, header6};
use super::open::{Enclosed, Front};
use crate::router::rewrite::Source;
use crate::router::stranger::{NOTHING, RESERVE};
use crate::router::tunnel_rules::Outer;
use crate::router::{ETHERNET, u16_at, u32_at};

/// The first word of VXLAN's header: there is a number, and nothing else (RFC 7348, 5).
const NUMBERED: u32 = 0x0800_0000;
/// Bytes of a header of UDP, and of VXLAN's.
const UDP: usize = 8;
const VXLAN: usize = 8;

/// Bytes of the header of IP.
fn upper(tunnel: &TunnelWord) -> usize {
    if tunnel.over_ipv6() { ipv6::HEADER } else { ipv4::HEADER }
}

/// See [`Passage::enclose`].
#[cold]
#[inline(never)]
pub(super) fn enclose(passage: Passage, view: &View, packet: &mut Packet, inner: Inner) -> bool {
    let (hops, tunnel) = (view.hops(), &passage.tunnel);
    let (to, hash) = (hops.adjacency(packet.adjacency), flow_hash(packet.network()));
    let length = tunnel.length();
    let total = packet.total_len() - packet.l3() + length;
    let bytes = headers(&hops, tunnel, (inner, to), total, hash);
    let Some(front) = passage.put_in_front(&hops, packet, &bytes[..length]) else { return false };
    if tunnel.sums()[1] {
        write_sum(front, upper(tunnel));
    }
    passage.lead(&hops, packet);
    true
}

/// The headers in front of a packet: IP's, UDP's but for its checksum, VXLAN's, and that of a frame
/// to this adjacency. `total` are the bytes of all, `hash` is of the packet's flow.
fn headers(
    hops: &Hops<'_>,
    tunnel: &TunnelWord,
    (mut inner, to): (Inner, AdjacencyWord),
    total: usize,
    hash: u32,
) -> [u8; LONGEST_HEADER] {
    let mut bytes = [0; LONGEST_HEADER];
    // Routers do not fragment IPv6, which VXLAN takes for a wish.
    inner.dont_fragment |= inner.protocol == protocol::IPV6;
    let upper = upper(tunnel);
    let plain = match tunnel.over_ipv6() {
        false => header4(tunnel, &inner, total),
        true => header6(tunnel, &inner, total, hash),
    };
    bytes[..upper].copy_from_slice(&plain[..upper]);
    let ((vni, port), udp) = (tunnel.vxlan().unwrap_or_default(), &mut bytes[upper..]);
    udp[..2].copy_from_slice(&source_port(tunnel, hash).to_be_bytes());
    udp[2..4].copy_from_slice(&port.to_be_bytes());
    udp[4..6].copy_from_slice(&((total - upper) as u16).to_be_bytes());
    udp[UDP..UDP + 4].copy_from_slice(&NUMBERED.to_be_bytes());
    udp[UDP + 4..UDP + VXLAN].copy_from_slice(&(vni << 8).to_be_bytes());
    if let Some(frame) = udp[UDP + VXLAN..].first_chunk_mut::<ETHERNET>() {
        Source::of(hops, tunnel.interface()).write(frame, to, inner.ether_type);
    }
    bytes
}

/// One of the ports that a VXLAN's packets come from; a flow stays at its.
fn source_port(tunnel: &TunnelWord, hash: u32) -> u16 {
    let (first, end) = tunnel.sources();
    let mixed = hash ^ hash << 16;
    let count = u64::from(end.saturating_sub(first));
    first.wrapping_add(((u64::from(mixed) * count) >> 32) as u16)
}

/// Writes the checksum of UDP, whose header is there, in a packet of IP.
fn write_sum(packet: &mut [u8], upper: usize) {
    let pseudo = pseudo(packet, upper);
    let Some(udp) = packet.get_mut(upper..).filter(|udp| udp.len() >= UDP) else { return };
    // 0 would say that there is none (RFC 768).
    let sum = match pseudo.with(udp).finish() {
        0 => 0xffff,
        sum => sum,
    };
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
}

/// What UDP's checksum has from the IP header in front of it, in a packet that is whole.
fn pseudo(packet: &[u8], upper: usize) -> checksum::Sum {
    let addresses = if upper == ipv4::HEADER { 12..20 } else { 8..40 };
    let sum = checksum::Sum::new().with(packet.get(addresses).unwrap_or_default());
    sum.with_u16(protocol::UDP.into()).with_u16((packet.len() - upper) as u16)
}

/// Whether a packet for this machine may be one of VXLAN.
#[inline(always)]
pub(super) fn may_be(network: &[u8]) -> bool {
    let protocol = match network.first().map(|first| first >> 4) {
        Some(4) => network.get(9),
        _ => network.get(6),
    };
    protocol == Some(&protocol::UDP)
}

/// See [`super::open`].
#[cold]
#[inline(never)]
pub(super) fn open(view: &View, packet: &mut Packet, takes: impl FnOnce(&Outer, usize) -> bool) -> bool {
    let hops = view.hops();
    let known = enclosed(&hops, packet).filter(|(is, sender)| is_known(&hops, &is.tunnel, *sender));
    known.is_some_and(|(enclosed, _)| enclosed.take_out(view, packet, takes))
}

/// The same of a packet from a host that Linux does not know, and is to learn of: from the packet
/// that comes with it, which carries nothing. `None`, and nothing done, where it is no such packet.
///
/// Where transit depends on flows it is not Linux's, which knows nothing of these (as with
/// [`crate::router::stranger`]).
#[cold]
#[inline(never)]
pub(in crate::router) fn open_stranger(
    view: &View,
    packet: &mut Packet,
    takes: impl FnOnce(&Outer, usize) -> bool,
) -> Option<Packet> {
    let hops = view.hops();
    let (enclosed, sender) = enclosed(&hops, packet)?;
    if is_known(&hops, &enclosed.tunnel, sender) || pool::available() <= RESERVE {
        return None;
    }
    let lesson = lesson(packet, &enclosed)?;
    enclosed.take_out(view, packet, takes).then_some(lesson)
}

/// A packet as this one, with a frame from the same host in which is nothing.
fn lesson(packet: &Packet, enclosed: &Enclosed) -> Option<Packet> {
    let (length, upper) = (enclosed.length, upper(&enclosed.tunnel));
    let front = packet.l3().checked_sub(ETHERNET)?;
    let mut frame: Vec<u8> = packet.data().get(front..)?.get(..ETHERNET + length)?.to_vec();
    let last = frame.len() - 2;
    frame[last..].copy_from_slice(&NOTHING.to_be_bytes());
    let network = &mut frame[ETHERNET..];
    match upper {
        ipv4::HEADER => {
            network[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            network[10..12].fill(0);
            let sum = checksum::of(&network[..upper]);
            network[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        _ => network[4..6].copy_from_slice(&((length - upper) as u16).to_be_bytes()),
    }
    network[upper + 4..upper + 6].copy_from_slice(&((length - upper) as u16).to_be_bytes());
    network[upper + 6..upper + 8].fill(0);
    write_sum(network, upper);
    let mut lesson = Packet::new(&frame)?;
    lesson.input = packet.input;
    Some(lesson)
}

/// Whether Linux knows a host where it sends from, if it learns.
fn is_known(hops: &Hops<'_>, tunnel: &TunnelWord, sender: [u8; 6]) -> bool {
    !tunnel.learns() || hops.knows_host(tunnel.interface(), sender)
}

/// A packet of VXLAN: a frame to the interface, and the host that it is from.
fn enclosed(hops: &Hops<'_>, packet: &Packet) -> Option<(Enclosed, [u8; 6])> {
    let bytes = packet.network();
    let Front { ends: [remote, local], protocol, upper, tos, total } = Front::of(bytes)?;
    let bytes = bytes.get(..total).unwrap_or(bytes);
    let udp = bytes.get(upper..).filter(|_| protocol == protocol::UDP)?;
    let headers = udp.first_chunk::<{ UDP + VXLAN + ETHERNET }>()?;
    let (port, udp_length, sum) = (u16_at(headers, 2), usize::from(u16_at(headers, 4)), u16_at(headers, 6));
    // What is reserved is 0.
    if u32_at(headers, UDP) != NUMBERED || headers[UDP + 7] != 0 || udp_length != total - upper {
        return None;
    }
    let vni = u32_at(headers, UDP + 4) >> 8;
    let ends = Ends { port, ..Ends::of(local, remote, protocol, Some(vni)) };
    let tunnel = hops.tunnel_at(&ends)?;
    let frame = headers.last_chunk::<ETHERNET>()?;
    let own = hops.interface(tunnel.interface()).mac();
    let sender = *frame[6..].first_chunk::<6>()?;
    let length = upper + headers.len();
    let (ether_type, version) = (u16_at(frame, 12), bytes.get(length)? >> 4);
    let whole = match (ether_type, version) {
        (ethernet::IPV4, 4) => bytes.len() >= length + ipv4::HEADER,
        (ethernet::IPV6, 6) => bytes.len() >= length + ipv6::HEADER,
        _ => false,
    };
    // Linux drops what it has sent itself.
    let theirs = sender != own && sender[0] & 1 == 0;
    let right = match sum {
        0 => !tunnel.sums()[0],
        _ => bytes.len() == total && pseudo(bytes, upper).with(udp).fold() == 0xffff,
    };
    let ours = whole && frame[..6] == own && theirs && right;
    ours.then_some((Enclosed { tunnel, ends, protocol, tos, total, length, ether_type }, sender))
}
