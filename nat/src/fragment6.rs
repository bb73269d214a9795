//! Fragments of IPv6 packets that came as IPv4.

use wire::{ipv6, protocol};

use crate::header64::FRAGMENT_HEADER;

/// An IPv6 packet in fragments that fit `mtu` (at least 1,280), as a translator must make them of an IPv4 packet that
/// may be fragmented (RFC 7915, 4): IPv6 routers behind it will not. `each` is given the headers of a fragment and
/// its data. False, and nothing done, for a packet with extension headers or one that fits.
pub fn fragment6(ip: &[u8], mtu: usize, id: u32, mut each: impl FnMut(&[u8; 48], &[u8])) -> bool {
    let Some((fixed, payload)) = ip.split_first_chunk::<{ ipv6::HEADER }>() else { return false };
    let extended = matches!(
        fixed[6],
        protocol::HOP_BY_HOP | protocol::ROUTING | protocol::FRAGMENT | protocol::DESTINATION_OPTIONS
    );
    if fixed[0] >> 4 != 6 || extended || ip.len() <= mtu {
        return false;
    }
    let size = (mtu.max(ipv6::MINIMUM_MTU) - ipv6::HEADER - FRAGMENT_HEADER) & !7;
    let last = payload.len().div_ceil(size) - 1;
    for (n, part) in payload.chunks(size).enumerate() {
        let mut header = [0; ipv6::HEADER + FRAGMENT_HEADER];
        header[..ipv6::HEADER].copy_from_slice(fixed);
        header[4..6].copy_from_slice(&((FRAGMENT_HEADER + part.len()) as u16).to_be_bytes());
        header[6] = protocol::FRAGMENT;
        header[40] = fixed[6];
        let word = (n * size) as u16 | u16::from(n < last);
        header[42..44].copy_from_slice(&word.to_be_bytes());
        header[44..48].copy_from_slice(&id.to_be_bytes());
        each(&header, part);
    }
    true
}
