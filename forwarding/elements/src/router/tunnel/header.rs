//! The headers that workers put in front of packets in tunnels, byte for byte as Linux does.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

use fib::TunnelWord;
use wire::{checksum, ethernet, ipv4, ipv6, protocol};

use super::{CE, ECN, ECT_0};
use crate::router::{u16_at, u32_at};

/// Bytes of the longest header but VXLAN's: IPv6's, an option, and GRE's with all that there is.
const PLAIN: usize = ipv6::HEADER + 8 + 12;

/// The bits of a flow label in the first word of IPv6's header.
const LABEL: u32 = 0xf_ffff;

/// What the header in front of a packet takes from it.
pub struct Inner {
    tos: u8,
    ttl: u8,
    pub dont_fragment: bool,
    /// Flow label; 0: none.
    label: u32,
    pub protocol: u8,
    pub ether_type: u16,
}

impl Inner {
    #[inline(always)]
    pub fn of(header: &[u8; ipv4::HEADER]) -> Inner {
        if header[0] >> 4 == 6 {
            let first = u32_at(header, 0);
            let (tos, label) = ((first >> 20) as u8, first & LABEL);
            let (protocol, ether_type) = (protocol::IPV6, ethernet::IPV6);
            return Inner { tos, ttl: header[7], dont_fragment: false, label, protocol, ether_type };
        }
        let dont_fragment = u16_at(header, 6) & ipv4::DONT_FRAGMENT != 0;
        let (protocol, ether_type) = (protocol::IPIP, ethernet::IPV4);
        Inner { tos: header[1], ttl: header[8], dont_fragment, label: 0, protocol, ether_type }
    }

    /// What of congestion is told in the header in front (RFC 6040, 4.1, but that congestion met
    /// before is not met in the tunnel).
    #[inline(always)]
    fn ecn(&self) -> u8 {
        if self.tos & ECN == CE { ECT_0 } else { self.tos & ECN }
    }
}

thread_local! {
    /// The identification of the last header of this worker, whose first one nobody can guess.
    static ID: Cell<u16> = Cell::new(RandomState::new().build_hasher().finish() as u16);
}

/// The header in front of a packet, in IPv4; `total` bytes are both together.
#[inline(always)]
pub fn header4(tunnel: &TunnelWord, inner: &Inner, total: usize) -> [u8; PLAIN] {
    let mut bytes = [0; PLAIN];
    let kept = tunnel.header();
    bytes[..ipv4::HEADER].copy_from_slice(&kept[..ipv4::HEADER]);
    let id = ID.replace(ID.get().wrapping_add(1));
    let tos = if tunnel.inherits_tos() { inner.tos } else { bytes[1] };
    bytes[1] = tos & !ECN | inner.ecn();
    bytes[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    bytes[4..6].copy_from_slice(&id.to_be_bytes());
    if inner.dont_fragment && !tunnel.ignores_df() {
        bytes[6] |= 0x40;
    }
    bytes[8] = if bytes[8] == 0 { inner.ttl } else { bytes[8] };
    let sum = checksum::of(&bytes[..ipv4::HEADER]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    write_gre(tunnel, &kept[ipv4::HEADER..], inner, &mut bytes[ipv4::HEADER..]);
    bytes
}

/// The header of GRE, which stands behind nothing where there is none: as it is kept, with the type
/// of what is inside, and with room for a sum.
#[inline(always)]
fn write_gre(tunnel: &TunnelWord, kept: &[u8], inner: &Inner, bytes: &mut [u8]) {
    let key = if tunnel.sums()[1] { 8 } else { 4 };
    bytes[..2].copy_from_slice(&kept[..2]);
    bytes[2..4].copy_from_slice(&inner.ether_type.to_be_bytes());
    bytes[key..key + 4].copy_from_slice(&kept[4..8]);
}

/// The same in IPv6. `hash` is of the packet's flow, and its flow label where it has no other.
#[inline(always)]
pub fn header6(tunnel: &TunnelWord, inner: &Inner, total: usize, hash: u32) -> [u8; PLAIN] {
    let mut bytes = [0; PLAIN];
    let kept = tunnel.header();
    bytes[..ipv6::HEADER].copy_from_slice(&kept[..ipv6::HEADER]);
    let (gre, vxlan) = (kept[6] == protocol::GRE, kept[6] == protocol::UDP);
    let first = u32_at(&kept, 0);
    let tos = if tunnel.inherits_tos() { inner.tos } else { (first >> 20) as u8 };
    // Linux tells nothing of congestion in GRE over IPv6, but what is inherited.
    let tos = if gre { tos } else { tos & !ECN | inner.ecn() };
    let label = if tunnel.inherits_label() { inner.label } else { first & LABEL };
    let label = if label == 0 && !vxlan { hash & LABEL } else { label };
    bytes[..4].copy_from_slice(&(6 << 28 | u32::from(tos) << 20 | label).to_be_bytes());
    bytes[4..6].copy_from_slice(&((total - ipv6::HEADER) as u16).to_be_bytes());
    bytes[6] = if gre || vxlan { kept[6] } else { inner.protocol };
    bytes[7] = if bytes[7] == 0 { inner.ttl } else { bytes[7] };
    let mut upper = ipv6::HEADER;
    if let Some(limit) = tunnel.limit() {
        let option = limit_option(bytes[6], limit);
        bytes[upper..upper + 8].copy_from_slice(&option);
        bytes[6] = protocol::DESTINATION_OPTIONS;
        upper += 8;
    }
    write_gre(tunnel, &kept[ipv6::HEADER..], inner, &mut bytes[upper..]);
    bytes
}

/// The extension header that says how many more tunnels a packet may enter, as Linux writes it
/// (RFC 2473, 4.1.1): the option, and two bytes of padding.
pub fn limit_option(next: u8, limit: u8) -> [u8; 8] {
    [next, 0, 4, 1, limit, 1, 1, 0]
}
