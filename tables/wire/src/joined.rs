//! Joined segments: TCP longer than any wire brings.
//!
//! Linux hands TCP from stack to stack in pieces of up to 64 KiB: a sender leaves it to its NIC to
//! cut them (TSO), a receiver joins what belongs together (GRO), and where no wire is between,
//! nobody cuts. Beside such a packet goes how long its segments are; the bytes do not say. Who has
//! the bytes alone can cut them as long as a wire would have let them be: [`cut`]. Where the way
//! ahead is narrower than that wire and the sender knew, segments come out longer than it meant
//! them to be; such senders must cut them themselves.
//!
//! Datagrams that are left to a NIC (UDP_SEGMENT) cannot be cut so: where one ends and the next
//! begins is in no byte of them.

use crate::tcp::{self, flag};
use crate::{Fragment, Headers, ethernet, ipv4, protocol, u16_at, u32_at};

/// Cuts a frame with a TCP segment into such whose IP packets are no longer than `mtu` bytes, as
/// Linux would (tcp_gso_segment): identification and sequence number go on, FIN and PSH stay with
/// the last, CWR with the first (RFC 3168, 6.1.2), and every checksum is right. Each is given out
/// in turn. False, and none is, if it is no such frame.
pub fn cut(frame: &[u8], mtu: usize, mut each: impl FnMut(&[u8])) -> bool {
    let Some((headers, header, data)) = read(frame) else { return false };
    let transport = ethernet::HEADER + usize::from(headers.transport);
    let longest = (mtu + ethernet::HEADER).saturating_sub(header.len());
    if longest == 0 {
        return false;
    }
    let last = data.len().div_ceil(longest).saturating_sub(1);
    for (number, piece) in data.chunks(longest).enumerate() {
        let mut segment = [header, piece].concat();
        let (link, upper) = segment.split_at_mut(transport);
        set_length(&mut link[ethernet::HEADER..], upper.len(), number as u16);
        let sequence = u32_at(upper, 4).wrapping_add((number * longest) as u32);
        upper[4..8].copy_from_slice(&sequence.to_be_bytes());
        if number != last {
            upper[13] &= !(flag::FIN | flag::PSH);
        }
        if number != 0 {
            upper[13] &= !flag::CWR;
        }
        upper[16..18].fill(0);
        let sum = headers.pseudo(upper.len()).with(upper).finish();
        upper[16..18].copy_from_slice(&sum.to_be_bytes());
        each(&segment);
    }
    true
}

/// What the headers of a TCP segment with data say, their bytes, and the data.
fn read(frame: &[u8]) -> Option<(Headers, &[u8], &[u8])> {
    let kind = u16_at(frame.get(12..ethernet::HEADER)?, 0);
    let ip = frame.get(ethernet::HEADER..)?;
    let headers = Headers::parse(ip).ok()?;
    let is_ip = kind == if headers.version == 4 { ethernet::IPV4 } else { ethernet::IPV6 };
    if !is_ip || headers.protocol != protocol::TCP || headers.fragment != Fragment::Whole {
        return None;
    }
    let upper = ip.get(usize::from(headers.transport)..usize::from(headers.length))?;
    let (_, data) = upper.split_at_checked(tcp::Segment::parse(upper).ok()?.header_len())?;
    // What is behind the packet is no part of it.
    let front = ethernet::HEADER + usize::from(headers.length) - data.len();
    (!data.is_empty()).then_some((headers, &frame[..front], data))
}

/// Writes into an IP header how long its upper layer is, and of IPv4 by how much its identification
/// differs.
fn set_length(ip: &mut [u8], upper: usize, number: u16) {
    if ip[0] >> 4 == 6 {
        let length = ip.len() - 40 + upper;
        ip[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        return;
    }
    let length = ip.len() + upper;
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    let id = u16_at(ip, 4).wrapping_add(number);
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ipv4::set_checksum(ip);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use proptest::prelude::*;

    /// A frame of this version, with so many bytes of options in its TCP header.
    fn frame(version: u8, options: usize, flags: u8, data: &[u8]) -> Vec<u8> {
        let header = 20 + options;
        let mut upper = vec![1; header];
        (upper[12], upper[13]) = ((header as u8 / 4) << 4, flags);
        upper[4..8].copy_from_slice(&(u32::MAX - 100).to_be_bytes());
        upper.extend(data);
        let mut bytes = vec![2; 12];
        if version == 4 {
            let repr = ipv4::Repr::new([10, 1, 0, 2].into(), [10, 2, 0, 2].into());
            let repr = ipv4::Repr { protocol: protocol::TCP, id: 0xffff, ..repr };
            bytes.extend(ethernet::IPV4.to_be_bytes());
            bytes.extend(repr.header(upper.len()));
        } else {
            // Behind destination options.
            bytes.extend(ethernet::IPV6.to_be_bytes());
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend((upper.len() as u16 + 8).to_be_bytes());
            bytes.extend([protocol::DESTINATION_OPTIONS, 64]);
            bytes.extend((1..=32).map(|byte| byte * 7));
            bytes.extend([protocol::TCP, 0, 1, 4, 0, 0, 0, 0]);
        }
        bytes.extend(upper);
        bytes
    }

    proptest! {
        #[test]
        fn what_is_cut_is_what_was_joined(
            version in prop_oneof![Just(4u8), Just(6)],
            options in 0usize..=10,
            data in prop::collection::vec(any::<u8>(), 1..5000),
            mtu in 200usize..1600,
            flags: u8,
            padding in 0usize..9,
        ) {
            let mut frame = frame(version, options * 4, flags, &data);
            frame.resize(frame.len() + padding, 0xee);
            let mut segments = Vec::new();
            prop_assert!(cut(&frame, mtu, |segment| segments.push(segment.to_vec())));
            let (mut together, last) = (Vec::new(), segments.len() - 1);
            for (number, segment) in segments.iter().enumerate() {
    let (headers, _, piece) = read(segment).unwrap();
                prop_assert!(segment.len() - 14 <= mtu);
                prop_assert!(number == last || segment.len() - 14 == mtu);
                let upper = &segment[14 + usize::from(headers.transport)..];
                prop_assert_eq!(headers.pseudo(upper.len()).with(upper).fold(), 0xffff);
                prop_assert_eq!(u32_at(upper, 4), (u32::MAX - 100).wrapping_add(together.len() as u32));
                let kept = |flag: u8, there: bool| if there { flags & flag } else { 0 };
                let others = flags & !(flag::FIN | flag::PSH | flag::CWR);
                let ends = flag::FIN | flag::PSH;
                prop_assert_eq!(upper[13], others | kept(ends, number == last) | kept(flag::CWR, number == 0));
                if version == 4 {
                    prop_assert!(checksum::verify(&segment[14..34]));
                    prop_assert_eq!(headers.fragment_id, u32::from(0xffff_u16.wrapping_add(number as u16)));
                }
                together.extend_from_slice(piece);
            }
            prop_assert_eq!(together, data);
        }

        #[test]
        fn whatever_it_is_it_is_cut_or_refused(
            data in prop::collection::vec(any::<u8>(), 0..200),
            version in prop_oneof![Just(4u8), Just(6)],
            changes in prop::collection::vec(any::<(u8, u8)>(), 0..6),
            mtu in 0usize..300,
        ) {
            let mut frame = frame(version, 0, 0, &data);
            for (place, value) in changes {
                let place = usize::from(place) % frame.len();
                frame[place] = value;
            }
            for end in 0..=frame.len() {
                let mut count = 0;
                let is_cut = cut(&frame[..end], mtu, |_| count += 1);
                prop_assert_eq!(is_cut, count > 0);
            }
        }
    }

    #[test]
    fn datagrams_and_fragments_are_not() {
        let whole = frame(4, 0, 0, &[7; 3000]);
        for (place, value) in [(23, protocol::UDP), (20, 0x20), (12, 0x81)] {
            let mut other = whole.clone();
            other[place] = value;
            assert!(!cut(&other, 1500, |_| panic!("{place}")));
        }
        assert!(!cut(&frame(4, 0, 0, &[]), 1500, |_| panic!("no data")));
        assert!(!cut(&whole, 40, |_| panic!("no room")));
    }
}
