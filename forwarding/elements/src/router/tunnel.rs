//! IP tunnels: how a packet gets a tunnel's header, and how it loses it, byte for byte as in Linux
//! (RFC 2003, 2784, 2890, 4213, 6040).
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

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

use fib::{AdjacencyId, AdjacencyWord, Ends, HopKind, Hops, InterfaceFlags, TableId, TunnelWord, View};
use port::Packet;
use wire::{checksum, ethernet, flow_hash, ipv4, ipv6, protocol};

use super::reverse_path::comes_from;
use super::rewrite::Source;
use super::tunnel_rules::{Outer, TunnelRules};
use super::{ETHERNET, SENDS, V4, cut_to, u16_at, u32_at};

/// Bytes of an outer header without options.
const OUTER: usize = ipv4::HEADER;
/// GRE: a key follows. No other flag is the plane's (RFC 2784, 2.1; RFC 2890, 2).
const KEY: u16 = 0x2000;
/// The two bits of explicit congestion notification (RFC 3168, 5), and their values.
const ECN: u8 = 3;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// The way of a tunnel's packets to its other end; a flow stays on its path. None where that is by
/// another tunnel, or only Linux knows it.
#[inline(always)]
fn way_of(view: &View, tunnel: &TunnelWord, hash: u32) -> Option<(AdjacencyId, AdjacencyWord)> {
    let hops = view.hops();
    let hop = hops.hop(view.lookup4(tunnel.remote()));
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
pub(super) struct Passage {
    tunnel: TunnelWord,
    path: AdjacencyId,
    way: AdjacencyWord,
}

/// How a packet of this version and length, of a flow with this hash, can leave by an adjacency
/// that is on a tunnel. Of a longer one than the tunnel's MTU the answer is for one as long: what
/// is longer never leaves by it.
#[inline(always)]
pub(super) fn passage(
    view: &View,
    adjacency: AdjacencyWord,
    version: u8,
    length: usize,
    hash: u32,
) -> Option<Passage> {
    let hops = view.hops();
    let tunnel = hops.tunnel(adjacency.interface())?;
    let up = hops.interface(adjacency.interface()).flags().contains(InterfaceFlags::UP);
    let right = match tunnel.protocol() {
        protocol::IPIP => version == 4,
        protocol::IPV6 => version == 6,
        _ => true,
    };
    let (path, way) = way_of(view, &tunnel, hash).filter(|_| up && right)?;
    let most = longest(&tunnel, way);
    // Into so narrow a way Linux sends 6in4 in fragments after all.
    let narrow = tunnel.protocol() == protocol::IPV6 && most < ipv6::MINIMUM_MTU + OUTER;
    let fits = !narrow && length.min(adjacency.mtu() as usize) + tunnel.length() <= most;
    fits.then_some(Passage { tunnel, path, way })
}

/// Whether there is a [`passage`], and rules let what passes it leave.
#[cold]
#[inline(never)]
pub(super) fn carries(
    view: &View,
    adjacency: AdjacencyWord,
    version: u8,
    length: usize,
    hash: u32,
    rules: &mut TunnelRules,
) -> bool {
    let passage = passage(view, adjacency, version, length, hash);
    passage.is_some_and(|passage| rules.let_pass(&Outer::sent(&passage.tunnel, passage.way.interface())))
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
    let version = network.first().map_or(0, |first| first >> 4);
    carries(view, adjacency, version, packet.total_len() - packet.l3(), flow_hash(network), rules)
}

/// What the header in front of a packet takes from it.
struct Inner {
    tos: u8,
    ttl: u8,
    dont_fragment: bool,
    ether_type: u16,
}

impl Inner {
    #[inline(always)]
    fn of(header: &[u8; OUTER]) -> Inner {
        if header[0] >> 4 == 6 {
            let tos = header[0] << 4 | header[1] >> 4;
            return Inner { tos, ttl: header[7], dont_fragment: false, ether_type: ethernet::IPV6 };
        }
        let dont_fragment = u16_at(header, 6) & ipv4::DONT_FRAGMENT != 0;
        Inner { tos: header[1], ttl: header[8], dont_fragment, ether_type: ethernet::IPV4 }
    }
}

/// Bytes of the longest header, and of the link header in front of it.
pub(super) const LONGEST: usize = 64;

thread_local! {
    /// The identification of the last header of this worker, whose first one nobody can guess.
    static ID: Cell<u16> = Cell::new(RandomState::new().build_hasher().finish() as u16);
}

/// Puts the header of its output, which is a tunnel, in front of a packet, and leads it on to the
/// other end. False where it cannot go there any more. `now` in steady nanoseconds.
#[inline(never)]
pub(super) fn enclose(view: &View, packet: &mut Packet, rules: &mut TunnelRules, now: u64) -> bool {
    let Some(tunnel) = view.hops().tunnel(packet.output) else { return false };
    let Some((path, way)) = way_of(view, &tunnel, flow_hash(packet.network())) else { return false };
    let outer = Outer::sent(&tunnel, way.interface());
    let enclosed = Passage { tunnel, path, way }.enclose(view, packet);
    enclosed && rules.let_out(&outer, packet.total_len() - packet.l3(), now)
}

impl Passage {
    /// See [`enclose`]. False, and nothing done, where it cannot.
    #[inline(always)]
    pub(super) fn enclose(&self, view: &View, packet: &mut Packet) -> bool {
        let (hops, tunnel) = (view.hops(), &self.tunnel);
        let Some(header) = packet.network().first_chunk::<OUTER>() else { return false };
        let (inner, length, l3) = (Inner::of(header), tunnel.length(), packet.l3());
        let total = packet.total_len() - l3 + length;
        if l3 + packet.headroom() < length + ETHERNET || total > longest(tunnel, self.way) {
            return false;
        }
        let id = ID.replace(ID.get().wrapping_add(1));
        let mut bytes = tunnel.header();
        let tos = if bytes[1] & 1 != 0 { inner.tos } else { bytes[1] };
        // RFC 6040, 4.1, but that congestion met before is not met in the tunnel.
        bytes[1] = tos & !ECN | if inner.tos & ECN == CE { ECT_0 } else { inner.tos & ECN };
        bytes[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        bytes[4..6].copy_from_slice(&id.to_be_bytes());
        if inner.dont_fragment && !tunnel.ignores_df() {
            bytes[6] |= 0x40;
        }
        bytes[8] = if bytes[8] == 0 { inner.ttl } else { bytes[8] };
        let sum = checksum::of(&bytes[..OUTER]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes[22..24].copy_from_slice(&inner.ether_type.to_be_bytes());
        hops.count_sent(tunnel.interface(), packet.len());
        // There is room, as just seen.
        if !packet.pull(l3) || packet.push(length + ETHERNET).is_none() {
            return false;
        }
        let front = &mut packet.data_mut()[ETHERNET..];
        front[..OUTER].copy_from_slice(&bytes[..OUTER]);
        front[OUTER..length].copy_from_slice(&bytes[OUTER..length]);
        packet.set_network(ETHERNET as isize);
        hops.mark_used(self.path);
        (packet.adjacency, packet.output) = (self.path, self.way.interface());
        true
    }

    /// Writes the link header of a packet that has been enclosed.
    #[inline(always)]
    pub(super) fn address(&self, hops: &Hops<'_>, packet: &mut Packet) -> bool {
        let source = Source::of(hops, packet.output);
        let Some(front) = packet.data_mut().first_chunk_mut::<ETHERNET>() else { return false };
        source.write(front, self.way, ethernet::IPV4) && source.tag(packet)
    }
}

/// Which tunnel a packet for this machine came in by, and its ends; what is in it, and how many
/// bytes before that.
fn enclosed(hops: &Hops<'_>, packet: &Packet) -> Option<(TunnelWord, Ends, u16, usize)> {
    let bytes = packet.network();
    let header = bytes.first_chunk::<OUTER>()?;
    // Fragments are put together by Linux.
    if header[0] != 0x45 || u16_at(header, 6) & 0x3fff != 0 {
        return None;
    }
    let (ether_type, length, key) = match header[9] {
        protocol::IPIP => (ethernet::IPV4, OUTER, None),
        protocol::IPV6 => (ethernet::IPV6, OUTER, None),
        protocol::GRE => {
            let gre = bytes.get(OUTER..)?.first_chunk::<4>()?;
            let key = || bytes.get(OUTER + 4..)?.first_chunk().map(|key| u32::from_be_bytes(*key));
            match u16_at(gre, 0) {
                0 => (u16_at(gre, 2), OUTER + 4, None),
                KEY => (u16_at(gre, 2), OUTER + 8, Some(key()?)),
                _ => return None,
            }
        }
        _ => return None,
    };
    let ends = Ends { remote: u32_at(header, 12), local: u32_at(header, 16), protocol: header[9], key };
    let tunnel = hops.tunnel_at(&ends)?;
    let version = bytes.get(length)? >> 4;
    let whole = match (ether_type, version) {
        (ethernet::IPV4, 4) => bytes.len() >= length + ipv4::HEADER,
        (ethernet::IPV6, 6) => bytes.len() >= length + ipv6::HEADER,
        _ => false,
    };
    whole.then_some((tunnel, ends, ether_type, length))
}

/// What becomes of the congestion bits of a packet whose tunnel's header is taken off, as Linux has
/// it (RFC 6040, 4.2): `None` drops it.
fn congestion(outer: u8, inner: u8) -> Option<u8> {
    match (inner & ECN, outer & ECN) {
        (0, CE) => None,
        (0, _) => Some(0),
        (_, CE) => Some(CE),
        (ECT_0, ECT_1) => Some(ECT_1),
        (inner, _) => Some(inner),
    }
}

/// Takes the header off a packet for this machine that came in by a tunnel of the plane's: it has
/// come in by that from then on, as a frame of Ethernet to no address. False, and nothing done,
/// where it did not, or Linux is to see it as it is. `takes` says whether rules let it pass, which
/// has so many bytes.
#[inline(never)]
pub(super) fn open(view: &View, packet: &mut Packet, takes: impl FnOnce(&Outer, usize) -> bool) -> bool {
    let hops = view.hops();
    let Some((tunnel, ends, ether_type, length)) = enclosed(&hops, packet) else { return false };
    let Some(header) = packet.network().first_chunk::<OUTER>() else { return false };
    let up = hops.interface(tunnel.interface()).flags().contains(InterfaceFlags::UP);
    // Longer than its wire allows: several packets that Linux has joined, and knows how to part.
    let joined = packet.total_len() - packet.l3() > hops.interface(packet.input).mtu() as usize;
    if !up
        || joined
        || hops.link(packet.input).table() != TableId::MAIN
        || !comes_from::<V4>(view, view.lookup4(u32_at(header, 12)), packet.input)
    {
        return false;
    }
    let (outer, total) = (header[1], usize::from(u16_at(header, 2)));
    let at = packet.l3() + length;
    if at < ETHERNET || !cut_to(packet, total) {
        return false;
    }
    let bytes = &packet.data()[at..];
    let tos = if ether_type == ethernet::IPV6 { bytes[0] << 4 | bytes[1] >> 4 } else { bytes[1] };
    let Some(ecn) = congestion(outer, tos) else { return false };
    if !takes(&Outer::received(&ends, packet.input), total) {
        return false;
    }
    let bytes = &mut packet.data_mut()[at..];
    if ecn != tos & ECN {
        mark(bytes, ether_type, ecn);
    }
    packet.input = tunnel.interface();
    packet.pull(at - ETHERNET);
    packet.data_mut()[..12].fill(0);
    packet.data_mut()[12..ETHERNET].copy_from_slice(&ether_type.to_be_bytes());
    packet.clear_network();
    hops.count_received(packet.input, packet.len());
    true
}

/// Writes the congestion bits of an IP header, which has others.
#[cold]
fn mark(header: &mut [u8], ether_type: u16, ecn: u8) {
    if ether_type == ethernet::IPV6 {
        header[1] = header[1] & 0xcf | ecn << 4;
        return;
    }
    // RFC 1624, over whatever sum there is, right or wrong.
    let (old, new) = (header[1], header[1] & !ECN | ecn);
    header[1] = new;
    let sum = u16::from_be_bytes([header[10], header[11]]);
    let more = if new > old { !u16::from(new - old) } else { u16::from(old - new) };
    let (sum, carry) = sum.overflowing_add(more);
    header[10..12].copy_from_slice(&sum.wrapping_add(u16::from(carry)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_is_told_as_linux_tells_it() {
        // Rows: the packet inside; columns: the tunnel's header.
        let all = [0, 1, 2, 3].map(|inner| [0, 1, 2, 3].map(|outer| congestion(outer, inner)));
        assert_eq!(all[0], [Some(0), Some(0), Some(0), None]);
        assert_eq!(all[1], [Some(1), Some(1), Some(1), Some(3)]);
        assert_eq!(all[2], [Some(2), Some(1), Some(2), Some(3)]);
        assert_eq!(all[3], [Some(3); 4]);
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        for tos in 0..=255u8 {
            for ecn in 0..4 {
                let mut header = [0x45, tos, 0, 60, 0x12, 0x34, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
                let sum = checksum::of(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                if tos & ECN != ecn {
                    mark(&mut header, ethernet::IPV4, ecn);
                }
                assert_eq!(header[1], tos & !ECN | ecn);
                assert!(checksum::verify(&header), "{tos} {ecn}");
            }
        }
    }
}
