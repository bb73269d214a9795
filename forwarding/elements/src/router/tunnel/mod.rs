//! IP tunnels: how a packet gets a tunnel's header, and how it loses it, byte for byte as in Linux
//! (RFC 2003, 2473, 2784, 2890, 4213, 6040, 7348, 7676).
//!
//! A packet that leaves by a tunnel is looked up, judged and changed as one that leaves by any
//! other interface. Last, where its link header is written, the tunnel's stands in front of it, and
//! the way to the other end is its way from then on. That there is such a way, and that the packet
//! fits into it, is asked before anything is changed ([`carries`]): what does not is Linux's,
//! whole, which fragments or answers.
//!
//! A packet that comes in by a tunnel is for this machine, until its header is taken off: then it
//! has come in by the tunnel's interface, and goes through the router once more. What is not as it
//! should be is Linux's, as it came.

mod header;
mod open;
mod vxlan;

pub(super) use open::open;
pub(super) use vxlan::open_stranger;

use std::net::IpAddr;

use abi::Count;
use fib::{
    AdjacencyId, AdjacencyWord, HopKind, Hops, InterfaceFlags, LONGEST_HEADER, NextHopId, TunnelWord, View,
};
use port::Packet;
use wire::{checksum, ethernet, flow_hash, ipv4, ipv6, protocol};

use header::{Inner, header4, header6};

use super::rewrite::Source;
use super::tunnel_rules::{Outer, TunnelRules};
use super::{ETHERNET, SENDS};

/// The two bits of explicit congestion notification (RFC 3168, 5), and their values.
const ECN: u8 = 3;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// The next hop of a tunnel's end.
#[inline(always)]
fn next_hop(view: &View, end: IpAddr) -> NextHopId {
    match end {
        IpAddr::V4(end) => view.lookup4(end.into()),
        IpAddr::V6(end) => view.lookup6(end.into()),
    }
}

/// The way of a tunnel's packets to its other end; a flow stays on its path. None where that is by
/// another tunnel, or only Linux knows it.
#[inline(always)]
fn way_of(view: &View, tunnel: &TunnelWord, hash: u32) -> Option<(AdjacencyId, AdjacencyWord)> {
    let hops = view.hops();
    let hop = hops.hop(next_hop(view, tunnel.remote()));
    if hop.kind() != HopKind::Forward {
        return None;
    }
    let path = hops.select(hop, hash);
    let way = hops.adjacency(path);
    let sends = hops.interface(way.interface()).flags().contains(SENDS);
    (way.resolved() && sends).then_some((path, way))
}

/// Bytes of the longest packet with its header on this way.
#[inline(always)]
fn longest(tunnel: &TunnelWord, way: AdjacencyWord) -> usize {
    way.mtu().min(tunnel.path_mtu()) as usize
}

/// How a packet leaves by a tunnel.
#[derive(Clone, Copy)]
pub(super) struct Passage {
    tunnel: TunnelWord,
    path: AdjacencyId,
    way: AdjacencyWord,
}

/// A packet that may leave by a tunnel.
pub(super) struct Wanted {
    /// 4 or 6.
    pub version: u8,
    /// Bytes, from the network header on.
    pub length: usize,
    /// Of its flow.
    pub hash: u32,
    /// What Linux looks for in it before it sends it in IPv6: an extension header, which may limit
    /// tunnels, or the source.
    pub source: Option<[u8; 16]>,
    /// It lies in one piece.
    pub whole: bool,
}

impl Wanted {
    /// A packet of so many bytes that begins with these.
    #[inline(always)]
    pub(super) fn of(network: &[u8], length: usize, hash: u32) -> Wanted {
        let version = network.first().map_or(0, |first| first >> 4);
        let plain = network.first_chunk::<{ ipv6::HEADER }>().filter(|header| !is_extension(header[6]));
        let source = plain.and_then(|header| header[8..24].try_into().ok());
        let whole = network.len() >= length;
        Wanted { version, length, hash, source: source.filter(|_| version == 6), whole }
    }

    /// Whether only Linux can do what is to be done besides: a packet with extension headers may
    /// say how many tunnels it enters (RFC 2473, 4.1.1), one from the other end is not sent there,
    /// and one in pieces has no sum here.
    #[inline(always)]
    fn is_odd(&self, tunnel: &TunnelWord) -> bool {
        let over = tunnel.over_ipv6() && self.version == 6;
        let odd = over && self.source.is_none_or(|source| tunnel.remote() == IpAddr::from(source));
        // A frame in VXLAN is nothing that Linux looks into.
        let odd = odd && !tunnel.is_vxlan();
        odd || tunnel.sums()[1] && !self.whole
    }
}

/// What Linux walks over (`ipv6_ext_hdr`).
fn is_extension(number: u8) -> bool {
    use protocol::{AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
    matches!(number, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS | AUTHENTICATION)
}

/// How a packet can leave by an adjacency that is on a tunnel. Of a longer one than the tunnel's
/// MTU the answer is for one as long: what is longer never leaves by it.
#[inline(always)]
pub(super) fn passage(view: &View, adjacency: AdjacencyWord, wanted: &Wanted) -> Option<Passage> {
    let hops = view.hops();
    let tunnel = hops.tunnel(adjacency.interface())?;
    let up = hops.interface(adjacency.interface()).flags().contains(InterfaceFlags::UP);
    let right = tunnel.carries(wanted.version) && !wanted.is_odd(&tunnel);
    let (path, way) = way_of(view, &tunnel, wanted.hash).filter(|_| up && right)?;
    let most = longest(&tunnel, way);
    // Into so narrow a way Linux sends 6in4 in fragments after all.
    let six_in_four = !tunnel.over_ipv6() && tunnel.protocol(wanted.version) == protocol::IPV6;
    let narrow = six_in_four && most < ipv6::MINIMUM_MTU + ipv4::HEADER;
    let fits = !narrow && wanted.length.min(adjacency.mtu() as usize) + tunnel.length() <= most;
    fits.then_some(Passage { tunnel, path, way })
}

/// Whether there is a [`passage`], and rules let what passes it leave.
#[cold]
#[inline(never)]
pub(super) fn carries(
    view: &View,
    adjacency: AdjacencyWord,
    wanted: &Wanted,
    rules: &mut TunnelRules,
) -> bool {
    let passage = passage(view, adjacency, wanted);
    passage.is_some_and(|passage| {
        rules.let_pass(&Outer::sent(&passage.tunnel, wanted.version, passage.way.interface()))
    })
}

/// The same of a packet, from its network header on.
#[inline(always)]
pub(super) fn carries_packet(
    view: &View,
    adjacency: AdjacencyWord,
    packet: &Packet,
    rules: &mut TunnelRules,
) -> bool {
    let network = packet.network();
    let length = packet.total_len() - packet.l3();
    carries(view, adjacency, &Wanted::of(network, length, flow_hash(network)), rules)
}

/// Bytes of the longest header, and of the link header in front of it with two tags.
pub(super) const LONGEST: usize = LONGEST_HEADER + ETHERNET + 8;

/// Puts the header of its output, which is a tunnel, in front of a packet, and leads it on to the
/// other end. False where it cannot go there any more. `now` in steady nanoseconds.
#[inline(never)]
pub(super) fn enclose(view: &View, packet: &mut Packet, rules: &mut TunnelRules, now: u64) -> bool {
    let Some(tunnel) = view.hops().tunnel(packet.output) else { return false };
    let Some((path, way)) = way_of(view, &tunnel, flow_hash(packet.network())) else { return false };
    let version = packet.network().first().map_or(0, |first| first >> 4);
    let outer = Outer::sent(&tunnel, version, way.interface());
    let enclosed = Passage { tunnel, path, way }.enclose(view, packet);
    enclosed && rules.let_out(&outer, packet.total_len() - packet.l3(), now)
}

impl Passage {
    /// See [`enclose`]. False, and nothing done, where it cannot.
    #[inline(always)]
    pub(super) fn enclose(&self, view: &View, packet: &mut Packet) -> bool {
        let (hops, tunnel) = (view.hops(), &self.tunnel);
        let network = packet.network();
        let Some(header) = network.first_chunk::<{ ipv4::HEADER }>() else { return false };
        let (inner, length, l3) = (Inner::of(header), tunnel.length(), packet.l3());
        let total = packet.total_len() - l3 + length;
        if l3 + packet.headroom() < length + ETHERNET || total > longest(tunnel, self.way) {
            return false;
        }
        if tunnel.is_vxlan() {
            return vxlan::enclose(*self, view, packet, inner);
        }
        let bytes = match tunnel.over_ipv6() {
            false => header4(tunnel, &inner, total),
            true => header6(tunnel, &inner, total, flow_hash(network)),
        };
        let Some(front) = self.put_in_front(&hops, packet, &bytes[..length]) else { return false };
        if tunnel.sums()[1] {
            let upper = length - tunnel.gre_length();
            let sum = checksum::of(&front[upper..]);
            front[upper + 4..upper + 6].copy_from_slice(&sum.to_be_bytes());
        }
        self.lead(&hops, packet);
        true
    }

    /// Puts a header in front of a packet, and room for a link header in front of that: the packet
    /// with the header. `None`, and the packet is lost, without that room.
    #[inline(always)]
    fn put_in_front<'p>(
        &self,
        hops: &Hops<'_>,
        packet: &'p mut Packet,
        header: &[u8],
    ) -> Option<&'p mut [u8]> {
        hops.count_sent(self.tunnel.interface(), Count { packets: 1, bytes: packet.len() as u64 });
        let l3 = packet.l3();
        if !packet.pull(l3) || packet.push(header.len() + ETHERNET).is_none() {
            return None;
        }
        let front = &mut packet.data_mut()[ETHERNET..];
        front[..header.len()].copy_from_slice(header);
        Some(front)
    }

    /// Leads a packet that has its header to the other end.
    #[inline(always)]
    fn lead(&self, hops: &Hops<'_>, packet: &mut Packet) {
        packet.set_network(ETHERNET as isize);
        hops.mark_used(self.path);
        (packet.adjacency, packet.output) = (self.path, self.way.interface());
    }

    /// Writes the link header of a packet that has been enclosed.
    #[inline(always)]
    pub(super) fn address(&self, hops: &Hops<'_>, packet: &mut Packet) -> bool {
        let source = Source::of(hops, packet.output);
        let ether_type = if self.tunnel.over_ipv6() { ethernet::IPV6 } else { ethernet::IPV4 };
        source.head(packet, self.way, ether_type)
    }
}
