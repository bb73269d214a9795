//! Fragments of IPv6 packets that came as IPv4.

use wire::{ipv6, protocol};

use crate::header64::FRAGMENT_HEADER;

/// An IPv6 packet in fragments that fit `mtu` (at least 1,280), as a translator must make them of
/// an IPv4 packet that may be fragmented (RFC 7915, 4): IPv6 routers behind it will not. What is a
/// fragment already becomes smaller ones, with its own identification. `each` is given the headers
/// of a fragment and its data. False, and nothing done, for a packet with other extension headers
/// or one that fits.
pub fn fragment6(ip: &[u8], mtu: usize, id: u32, mut each: impl FnMut(&[u8; 48], &[u8])) -> bool {
    let Some((fixed, mut payload)) = ip.split_first_chunk::<{ ipv6::HEADER }>() else { return false };
    let extended =
        matches!(fixed[6], protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS);
    if fixed[0] >> 4 != 6 || extended || ip.len() <= mtu {
        return false;
    }
    let mut fragment = [fixed[6], 0, 0, 0, 0, 0, 0, 0];
    fragment[4..].copy_from_slice(&id.to_be_bytes());
    if fixed[6] == protocol::FRAGMENT {
        let Some((own, rest)) = payload.split_first_chunk::<FRAGMENT_HEADER>() else { return false };
        (fragment, payload) = (*own, rest);
    }
    let (begins, more) = (u16::from_be_bytes([fragment[2], fragment[3]]) & !7, fragment[3] & 1);
    let size = (mtu.max(ipv6::MINIMUM_MTU) - ipv6::HEADER - FRAGMENT_HEADER) & !7;
    let last = payload.len().div_ceil(size).saturating_sub(1);
    for (n, part) in payload.chunks(size).enumerate() {
        let mut header = [0; ipv6::HEADER + FRAGMENT_HEADER];
        header[..ipv6::HEADER].copy_from_slice(fixed);
        header[4..6].copy_from_slice(&((FRAGMENT_HEADER + part.len()) as u16).to_be_bytes());
        header[6] = protocol::FRAGMENT;
        header[ipv6::HEADER..].copy_from_slice(&fragment);
        let more = if n < last { 1 } else { u16::from(more) };
        let word = begins.wrapping_add((n * size) as u16) | more;
        header[42..44].copy_from_slice(&word.to_be_bytes());
        each(&header, part);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The pieces of a packet, and those of its pieces.
    fn pieces(ip: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let done = fragment6(ip, mtu, 7, |header, data| found.push([&header[..], data].concat()));
        if done { found } else { vec![ip.to_vec()] }
    }

    proptest! {
        #[test]
        fn what_is_put_together_again_is_what_it_was(
            payload in proptest::collection::vec(any::<u8>(), 1..9000), first in 1280usize..3000, second in 1280usize..3000,
        ) {
            let repr = ipv6::Repr { next_header: protocol::UDP, ..ipv6::Repr::new(1u128.into(), 2u128.into()) };
            let packet = [&repr.header(payload.len())[..], &payload].concat();
            let all: Vec<Vec<u8>> = pieces(&packet, first).iter().flat_map(|piece| pieces(piece, second)).collect();
            if let [whole] = &all[..] {
                prop_assert_eq!(whole, &packet);
                return Ok(());
            }
            let mut together = Vec::new();
            for (n, piece) in all.iter().enumerate() {
                prop_assert!(piece.len() <= second.max(first.min(second)));
                let headers = wire::Headers::parse(piece).unwrap();
                prop_assert_eq!((headers.fragment_id, headers.protocol), (7, protocol::UDP));
                let word = u16::from_be_bytes([piece[42], piece[43]]);
                prop_assert_eq!(usize::from(word & !7), together.len());
                prop_assert_eq!(word & 1 == 1, n + 1 < all.len());
                together.extend_from_slice(&piece[48..]);
            }
            prop_assert_eq!(together, payload);
        }
    }
}
