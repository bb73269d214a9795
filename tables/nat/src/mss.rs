//! The maximum segment size that TCP hosts tell each other, held down to what fits the way (RFC
//! 9293, 3.7.1).
//!
//! Where the path MTU is smaller than the hosts' links (PPPoE, tunnels, NAT64) and somebody drops
//! the ICMP errors that would say so, connections hang. SYN and SYN/ACK pass here anyway, so the
//! option in them is lowered. It is never raised, and none is added: without it a host takes 536 or
//! 1220 bytes, which fit.

use serde::{Deserialize, Serialize};
use wire::{Fragment, Headers, ipv4, ipv6, protocol, tcp};

use crate::delta::Delta;

/// The largest segment that a clamp lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clamp {
    /// What fits the MTU of the port that the packet leaves by (and of the one it came by,
    /// whichever is less).
    Path,
    /// This many bytes.
    #[serde(untagged)]
    To(u16),
}

impl Clamp {
    /// The limit for a packet of this version on a path of this MTU.
    pub fn limit(self, version: u8, mtu: u16) -> u16 {
        let headers = tcp::HEADER + if version == 4 { ipv4::HEADER } else { ipv6::HEADER };
        match self {
            // 536 and 1220 are what a host may always send (RFC 9293, 3.7.1): an MTU that small is
            // not believed.
            Clamp::Path => mtu.saturating_sub(headers as u16).max(if version == 4 { 536 } else { 1220 }),
            Clamp::To(limit) => limit,
        }
    }
}

/// Lowers the option of a SYN or SYN/ACK to `limit`; whether there was something to lower. `ip`
/// begins at the IP header that `headers` were read from.
#[inline]
pub fn clamp_mss(ip: &mut [u8], headers: &Headers, limit: u16) -> bool {
    let syn = headers.protocol == protocol::TCP && headers.tcp_flags & tcp::flag::SYN != 0;
    syn && headers.fragment != Fragment::Later && clamp(ip, usize::from(headers.transport), limit)
}

#[cold]
fn clamp(ip: &mut [u8], transport: usize, limit: u16) -> bool {
    let Some(segment) = ip.get_mut(transport..) else { return false };
    let Ok(length) = tcp::Segment::parse(segment).map(|parsed| parsed.header_len()) else { return false };
    let Some(at) = mss_at(&segment[tcp::HEADER..length]).map(|at| at + tcp::HEADER) else { return false };
    let old = [segment[at], segment[at + 1]];
    if u16::from_be_bytes(old) <= limit {
        return false;
    }
    let new = limit.to_be_bytes();
    segment[at..at + 2].copy_from_slice(&new);
    let mut delta = Delta::new();
    // At an odd place the two bytes lie in two words of the sum, which comes to the same as being
    // swapped.
    let turn = |[a, b]: [u8; 2]| if at % 2 == 1 { [b, a] } else { [a, b] };
    delta.take(&turn(old));
    delta.add(&turn(new));
    let checksum = delta.apply([segment[16], segment[17]]);
    segment[16..18].copy_from_slice(&checksum);
    true
}

/// Where in the options the value of the maximum segment size is.
fn mss_at(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(kind) = options.get(at) {
        match kind {
            0 => return None,
            1 => at += 1,
            kind => {
                let length = usize::from(*options.get(at + 1)?);
                if *kind == 2 && length == 4 && at + 4 <= options.len() {
                    return Some(at + 2);
                }
                // A length below 2 would not lead on.
                at += length.max(2);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{checksums_hold, tcp_with_options};
    use proptest::prelude::*;

    #[test]
    fn the_option_is_lowered_where_it_stands() {
        for options in
            [&[2, 4, 0x05, 0xb4][..], &[1, 2, 4, 0x05, 0xb4, 1, 1, 1], &[3, 3, 7, 2, 4, 5, 0xb4, 0]]
        {
            for version in [4, 6] {
                let mut packet = tcp_with_options(version, tcp::flag::SYN, options);
                let headers = Headers::parse(&packet).unwrap();
                assert!(!clamp_mss(&mut packet.clone(), &headers, 1460));
                assert!(clamp_mss(&mut packet, &headers, 1380));
                assert!(packet.windows(4).any(|w| w == [2, 4, 0x05, 0x64]));
                checksums_hold(&packet);
            }
        }
        let mut packet = tcp_with_options(4, tcp::flag::ACK, &[2, 4, 0x05, 0xb4]);
        let headers = Headers::parse(&packet).unwrap();
        assert!(!clamp_mss(&mut packet, &headers, 500));
        assert_eq!(Clamp::Path.limit(4, 1492), 1452);
        assert_eq!(Clamp::Path.limit(6, 1500), 1440);
        assert_eq!(Clamp::Path.limit(6, 1000), 1220);
    }

    proptest! {
        #[test]
        fn any_options_are_walked(options in proptest::collection::vec(any::<u8>(), 0..10), limit: u16) {
            let mut options = options;
            options.resize(options.len().next_multiple_of(4), 1);
            let mut packet = tcp_with_options(4, tcp::flag::SYN, &options);
            let headers = Headers::parse(&packet).unwrap();
            clamp_mss(&mut packet, &headers, limit);
            checksums_hold(&packet);
        }
    }
}
