//! How a packet loses a tunnel's header.

use std::net::IpAddr;

use abi::Count;
use fib::{Ends, HopKind, Hops, InterfaceFlags, InterfaceId, TableId, TunnelWord, View};
use port::Packet;
use wire::{checksum, ethernet, ipv4, ipv6, protocol};

use super::header::limit_option;
use super::{CE, ECN, ECT_0, ECT_1, next_hop, vxlan};
use crate::router::reverse_path::comes_from;
use crate::router::tunnel_rules::Outer;
use crate::router::{ETHERNET, V4, V6, cut_to, u16_at, u32_at};

/// GRE: a checksum follows, a key does. No other flag is the plane's (RFC 2784, 2.1; RFC 2890, 2).
const SUM: u16 = 0x8000;
const KEY: u16 = 0x2000;

/// A packet for this machine that came in by a tunnel.
pub(super) struct Enclosed {
    pub tunnel: TunnelWord,
    pub ends: Ends,
    pub protocol: u8,
    /// Type of service of the header in front, and bytes with what is inside.
    pub tos: u8,
    pub total: usize,
    /// Bytes of all that stands in front of what is inside, and the type of that.
    pub length: usize,
    pub ether_type: u16,
}

/// What is said by the IP header of a packet that may be in a tunnel: its ends, the protocol, where
/// that begins, its type of service, and its bytes.
pub(super) struct Front {
    pub ends: [IpAddr; 2],
    pub protocol: u8,
    pub upper: usize,
    pub tos: u8,
    pub total: usize,
}

impl Front {
    pub fn of(bytes: &[u8]) -> Option<Front> {
        match bytes.first()? >> 4 {
            4 => Front::of4(bytes.first_chunk()?),
            _ => Front::of6(bytes, bytes.first_chunk()?),
        }
    }

    fn of4(header: &[u8; ipv4::HEADER]) -> Option<Front> {
        // Fragments are put together by Linux.
        if header[0] != 0x45 || u16_at(header, 6) & 0x3fff != 0 {
            return None;
        }
        let address = |at| IpAddr::from(u32_at(header, at).to_be_bytes());
        let (ends, total) = ([address(12), address(16)], usize::from(u16_at(header, 2)));
        Some(Front { ends, protocol: header[9], upper: ipv4::HEADER, tos: header[1], total })
    }

    fn of6(bytes: &[u8], header: &[u8; ipv6::HEADER]) -> Option<Front> {
        let (mut protocol, mut upper) = (header[6], ipv6::HEADER);
        if protocol == protocol::DESTINATION_OPTIONS {
            let option = bytes.get(upper..)?.first_chunk::<8>()?;
            if *option != limit_option(option[0], option[4]) {
                return None;
            }
            (protocol, upper) = (option[0], upper + option.len());
        }
        let address = |at: usize| Some(IpAddr::from(*header[at..].first_chunk::<16>()?));
        let ends = [address(8)?, address(24)?];
        let (tos, total) = ((u16_at(header, 0) >> 4) as u8, ipv6::HEADER + usize::from(u16_at(header, 4)));
        Some(Front { ends, protocol, upper, tos, total })
    }
}

#[inline(always)]
fn enclosed(hops: &Hops<'_>, packet: &Packet) -> Option<Enclosed> {
    let bytes = packet.network();
    let Front { ends: [remote, local], protocol, upper, tos, total } = Front::of(bytes)?;
    // What is behind it is no part of it. Of one in pieces this is the first.
    let bytes = bytes.get(..total).unwrap_or(bytes);
    let (ether_type, length, key, sums) = match protocol {
        protocol::IPIP => (ethernet::IPV4, upper, None, false),
        protocol::IPV6 => (ethernet::IPV6, upper, None, false),
        protocol::GRE => {
            let gre = bytes.get(upper..)?.first_chunk::<4>()?;
            let (flags, sums) = (u16_at(gre, 0), u16_at(gre, 0) & SUM != 0);
            let behind = upper + if sums { 8 } else { 4 };
            let key = || bytes.get(behind..)?.first_chunk().map(|key| u32::from_be_bytes(*key));
            match flags & !SUM {
                0 => (u16_at(gre, 2), behind, None, sums),
                KEY => (u16_at(gre, 2), behind + 4, Some(key()?), sums),
                _ => return None,
            }
        }
        _ => return None,
    };
    let ends = Ends::of(local, remote, protocol, key);
    let tunnel = hops.tunnel_at(&ends)?;
    let version = bytes.get(length)? >> 4;
    let whole = match (ether_type, version) {
        (ethernet::IPV4, 4) => bytes.len() >= length + ipv4::HEADER,
        (ethernet::IPV6, 6) => bytes.len() >= length + ipv6::HEADER,
        _ => false,
    };
    let enclosed = Enclosed { tunnel, ends, protocol, tos, total, length, ether_type };
    let in_pieces = bytes.len() < total;
    let right = tunnel.sums()[0] == sums && (!sums || !in_pieces && checksum::verify(&bytes[upper..]));
    (whole && right && tunnel.carries(version)).then_some(enclosed)
}

/// Whether what comes from a tunnel's other end may come in by an interface.
fn may_come(view: &View, ends: &Ends, input: InterfaceId) -> bool {
    let back = next_hop(view, ends.remote);
    match ends.remote {
        IpAddr::V4(_) => comes_from::<V4>(view, back, input),
        // Linux takes nothing from its own address.
        IpAddr::V6(_) => view.hop(back).kind() != HopKind::Local && comes_from::<V6>(view, back, input),
    }
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
/// come in by that from then on, as a frame of Ethernet, to no address where it was none. False,
/// and nothing done, where it did not, or Linux is to see it as it is. `takes` says whether rules
/// let it pass, which has so many bytes.
#[inline(never)]
pub fn open(view: &View, packet: &mut Packet, takes: impl FnOnce(&Outer, usize) -> bool) -> bool {
    // Apart, so that what others need does not depend on it.
    if vxlan::may_be(packet.network()) {
        return vxlan::open(view, packet, takes);
    }
    match enclosed(&view.hops(), packet) {
        Some(enclosed) => enclosed.take_out(view, packet, takes),
        None => false,
    }
}

impl Enclosed {
    /// See [`open`].
    #[inline(always)]
    pub fn take_out(
        self,
        view: &View,
        packet: &mut Packet,
        takes: impl FnOnce(&Outer, usize) -> bool,
    ) -> bool {
        let hops = view.hops();
        let Enclosed { tunnel, ends, protocol, tos: outer, total, length, ether_type } = self;
        let up = hops.interface(tunnel.interface()).flags().contains(InterfaceFlags::UP);
        // Longer than its wire allows: packets that Linux has joined and knows how to part.
        let joined = packet.total_len() - packet.l3() > hops.interface(packet.input).mtu() as usize;
        if !up
            || joined
            || hops.link(packet.input).table() != TableId::MAIN
            || !may_come(view, &ends, packet.input)
        {
            return false;
        }
        let at = packet.l3() + length;
        if at < ETHERNET || !cut_to(packet, total) {
            return false;
        }
        let bytes = &packet.data()[at..];
        let tos = if ether_type == ethernet::IPV6 { bytes[0] << 4 | bytes[1] >> 4 } else { bytes[1] };
        let Some(ecn) = congestion(outer, tos) else { return false };
        if !takes(&Outer::received(&ends, protocol, packet.input), total) {
            return false;
        }
        let bytes = &mut packet.data_mut()[at..];
        if ecn != tos & ECN {
            mark(bytes, ether_type, ecn);
        }
        packet.input = tunnel.interface();
        packet.pull(at - ETHERNET);
        // Of VXLAN it is the frame that it was.
        if protocol != protocol::UDP {
            packet.data_mut()[..12].fill(0);
            packet.data_mut()[12..ETHERNET].copy_from_slice(&ether_type.to_be_bytes());
        }
        packet.clear_network();
        hops.count_received(packet.input, Count { packets: 1, bytes: packet.len() as u64 });
        true
    }
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
