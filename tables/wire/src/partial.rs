//! Partial checksums: those that a sender left to its NIC, where there was none to finish them.
//!
//! Linux leaves the checksums of TCP, UDP and SCTP to the device that a packet leaves by. A veth, a
//! TAP and their like have no wire, so they hand such packets on as they are, with a note beside
//! them (CHECKSUM_PARTIAL) that tells the next stack to trust them or to finish the sum. A program
//! in the driver and its sockets see the bytes alone: a field that holds the sum of the
//! pseudo-header, and of SCTP nothing. Forwarded so, every packet is thrown away by whoever
//! receives it, and only ping works.
//!
//! By its bytes such a packet can be told: a checksum that is right equals the sum of its
//! pseudo-header once in 65,536 packets, and then to finish it writes what stood there. So who
//! receives from such a device asks [`find`] about each frame, and who finds one finishes it. The
//! sums of packets that cross real wires are never touched: one that was damaged there must stay
//! so.
//!
//! Tunnels that begin at the sender leave the sum of the packet inside to the device; there is one
//! such sum in a frame at most. What is looked into: IPv4 and IPv6 in either, GRE, VXLAN and
//! Geneve, behind up to two VLAN tags.

use crate::{Fragment, Headers, ethernet, protocol, u16_at, u32_at};

/// Packets in packets that are looked into.
const DEPTH: usize = 3;
/// The destination ports of VXLAN (RFC 7348), and of it as Linux has it by default, and of Geneve
/// (RFC 8926).
const TUNNELS: [u16; 3] = [4789, 8472, 6081];
const GENEVE: u16 = 6081;
/// The type of a frame in GRE, and in Geneve.
const BRIDGED: u16 = 0x6558;
/// IEEE 802.1ad.
const SERVICE_TAG: u16 = 0x88a8;
/// IPv4 and IPv6 as upper layers.
const IN_IP: [u8; 2] = [4, 41];

/// Where a checksum is to be finished; bytes count from the beginning of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// The first byte that it is over.
    pub start: usize,
    /// Behind the last one: where the packet ends as it states.
    pub end: usize,
    /// The first byte of the field itself.
    pub field: usize,
    /// How it is computed.
    pub kind: ChecksumKind,
}

/// A kind of checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    /// That of the Internet (RFC 1071): its field holds the sum of the pseudo-header, and counts. 2
    /// bytes.
    Internet,
    /// CRC32c (RFC 9260, Appendix A): its field holds 0. 4 bytes, the lowest first.
    Crc32c,
}

/// Finds a partial checksum in a frame, of which the bytes may end anywhere behind its headers.
pub fn find(frame: &[u8]) -> Option<Partial> {
    in_frame(frame, 0, DEPTH)
}

/// In the Ethernet frame that begins here.
fn in_frame(frame: &[u8], start: usize, depth: usize) -> Option<Partial> {
    let mut at = start + 12;
    for _ in 0..3 {
        let kind = u16_at(frame.get(at..at + 2)?, 0);
        match kind {
            ethernet::VLAN | SERVICE_TAG => at += 4,
            _ => return in_type(frame, at + 2, kind, depth),
        }
    }
    None
}

/// In the packet of this type that begins here.
fn in_type(frame: &[u8], start: usize, kind: u16, depth: usize) -> Option<Partial> {
    match kind {
        ethernet::IPV4 | ethernet::IPV6 => in_ip(frame, start, depth.checked_sub(1)?),
        BRIDGED => in_frame(frame, start, depth.checked_sub(1)?),
        _ => None,
    }
}

/// In the IP packet that begins here.
fn in_ip(frame: &[u8], start: usize, depth: usize) -> Option<Partial> {
    let ip = frame.get(start..)?;
    // Cut short or not: what is asked for below must be there.
    let headers = Headers::quoted(ip).ok()?;
    // Who fragments a packet finishes it.
    if headers.fragment != Fragment::Whole {
        return None;
    }
    let transport = usize::from(headers.transport);
    let (at, length) = (start + transport, usize::from(headers.length).checked_sub(transport)?);
    let upper = frame.get(at..)?;
    let sum = |field: usize| {
        let stored = u16_at(upper.get(field..field + 2)?, 0);
        let partial =
            Partial { start: at, end: at + length, field: at + field, kind: ChecksumKind::Internet };
        (length >= field + 2 && stored == headers.pseudo(length).fold()).then_some(partial)
    };
    match headers.protocol {
        protocol::TCP => sum(16),
        protocol::UDP => sum(6).or_else(|| in_datagram(frame, at, headers.destination_port, depth)),
        protocol::SCTP => {
            let partial = Partial { start: at, end: at + length, field: at + 8, kind: ChecksumKind::Crc32c };
            (length >= 12 && u32_at(upper.get(8..12)?, 0) == 0).then_some(partial)
        }
        protocol::GRE => in_gre(frame, at, depth),
        inner if IN_IP.contains(&inner) => in_ip(frame, at, depth.checked_sub(1)?),
        _ => None,
    }
}

/// In what a datagram to this port carries.
fn in_datagram(frame: &[u8], at: usize, port: u16, depth: usize) -> Option<Partial> {
    if !TUNNELS.contains(&port) {
        return None;
    }
    let header = frame.get(at + 8..at + 16)?;
    if port == GENEVE {
        let options = usize::from(header[0] & 63) * 4;
        return in_type(frame, at + 16 + options, u16_at(header, 2), depth);
    }
    in_type(frame, at + 16, BRIDGED, depth)
}

/// In what GRE carries (RFC 2784, 2890).
fn in_gre(frame: &[u8], at: usize, depth: usize) -> Option<Partial> {
    let header = frame.get(at..at + 4)?;
    let flags = header[0];
    // Another version, or routing (RFC 1701), is not that.
    if header[1] & 7 != 0 || flags & 0x40 != 0 {
        return None;
    }
    let words = 1 + [0x80, 0x20, 0x10].iter().filter(|flag| flags & **flag != 0).count();
    in_type(frame, at + 4 * words, u16_at(header, 2), depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checksum, ipv4};
    use proptest::prelude::*;

    /// An upper layer's packet, and where its checksum stands in it.
    fn upper(protocol: u8, data: &[u8]) -> (Vec<u8>, usize) {
        let mut bytes = [0x30, 0x39, 0, 80].to_vec();
        let field = match protocol {
            protocol::TCP => {
                bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
                16
            }
            protocol::UDP => {
                bytes.extend(((8 + data.len()) as u16).to_be_bytes());
                bytes.extend([0, 0]);
                6
            }
            _ => {
                bytes.extend([1, 2, 3, 4, 0, 0, 0, 0]);
                8
            }
        };
        bytes.extend(data);
        (bytes, field)
    }

    fn ip4(protocol: u8, upper: &[u8]) -> Vec<u8> {
        let repr = ipv4::Repr {
            tos: 0,
            id: 0,
            fragment: 0,
            ttl: 64,
            protocol,
            source: [10, 1, 0, 2].into(),
            destination: [203, 0, 113, 2].into(),
        };
        [&repr.header(upper.len()), upper].concat()
    }

    fn ip6(protocol: u8, upper: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((upper.len() as u16).to_be_bytes());
        bytes.extend([protocol, 64]);
        bytes.extend((1..=32).map(|byte| byte * 7));
        [&bytes, upper].concat()
    }

    fn frame(kind: u16, packet: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        bytes.extend(kind.to_be_bytes());
        [&bytes, packet].concat()
    }

    /// A packet as a sender leaves it to its device, with its type.
    fn partial(version: u8, protocol: u8, data: &[u8]) -> (u16, Vec<u8>) {
        let (mut bytes, field) = upper(protocol, data);
        let wrap = |upper: &[u8]| if version == 4 { ip4(protocol, upper) } else { ip6(protocol, upper) };
        let kind = if version == 4 { ethernet::IPV4 } else { ethernet::IPV6 };
        if protocol != protocol::SCTP {
            let ip = wrap(&bytes);
            let sum = Headers::quoted(&ip).unwrap().pseudo(bytes.len()).fold();
            bytes[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        }
        (kind, wrap(&bytes))
    }

    /// The same frame finished, if something was to be.
    fn finished(frame: &[u8]) -> Option<Vec<u8>> {
        let found = find(frame)?;
        let mut frame = frame.to_vec();
        assert_eq!(found.kind, ChecksumKind::Internet);
        let sum = checksum::of(&frame[found.start..found.end]);
        frame[found.field..found.field + 2].copy_from_slice(&sum.to_be_bytes());
        Some(frame)
    }

    /// Whether the upper layer's checksum of a packet that has `behind` bytes in front is right.
    fn is_right(frame: &[u8], behind: usize) -> bool {
        let headers = Headers::parse(&frame[behind..]).unwrap();
        let upper = &frame[behind + usize::from(headers.transport)..];
        headers.pseudo(upper.len()).with(upper).fold() == 0xffff
    }

    /// What Linux 6.18 sent into a veth for `connect` from 10.1.0.2 to 203.0.113.2, port 80.
    #[test]
    fn a_syn_of_linux_is_finished() {
        let syn = [
            0x45, 0x00, 0x00, 0x3c, 0x99, 0x81, 0x40, 0x00, 0x40, 0x06, 0x5b, 0x35, 0x0a, 0x01, 0x00, 0x02,
            0xcb, 0x00, 0x71, 0x02, 0xaf, 0x8e, 0x00, 0x50, 0x5d, 0x49, 0x5c, 0x8a, 0x00, 0x00, 0x00, 0x00,
            0xa0, 0x02, 0xfa, 0xf0, 0x46, 0x34, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a,
            0x57, 0xa6, 0x0c, 0xa0, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x0a,
        ];
        let frame = frame(ethernet::IPV4, &syn);
        assert!(!is_right(&frame, 14));
        assert!(is_right(&finished(&frame).unwrap(), 14));
    }

    proptest! {
        #[test]
        fn what_was_left_is_finished_and_what_is_right_stays(
            version in prop_oneof![Just(4u8), Just(6)],
            protocol in prop_oneof![Just(protocol::TCP), Just(protocol::UDP)],
            data in prop::collection::vec(any::<u8>(), 0..60),
            padding in 0usize..9,
        ) {
            let (kind, packet) = partial(version, protocol, &data);
            let whole = frame(kind, &packet);
            let mut padded = whole.clone();
            padded.resize(whole.len() + padding, 0xee);
            let after = finished(&padded).unwrap();
            prop_assert!(is_right(&after[..whole.len()], 14));
            // Once in 65,536 it looks as if it were not, and becomes what it was.
            prop_assert_eq!(finished(&after).unwrap_or_else(|| after.clone()), after);
        }

        #[test]
        fn it_is_found_in_tunnels_and_behind_tags(
            versions in (prop_oneof![Just(4u8), Just(6)], prop_oneof![Just(4u8), Just(6)]),
            protocol in prop_oneof![Just(protocol::TCP), Just(protocol::UDP), Just(protocol::SCTP)],
            data in prop::collection::vec(any::<u8>(), 0..30),
            tunnel in 0usize..9,
        ) {
            let (kind, inner) = partial(versions.0, protocol, &data);
            let bridged = frame(kind, &inner);
            let typed = |flags: u8, kind: u16, rest: &[u8], inner: &[u8]| {
                [&[flags, 0], &kind.to_be_bytes()[..], rest, inner].concat()
            };
            let datagram = |port: u16, header: &[u8], inner: &[u8]| {
                let length = (8 + header.len() + inner.len()) as u16;
                let ends = [[0x30, 0x39], port.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat();
                (protocol::UDP, [&ends, header, inner].concat())
            };
            let (outer, body) = match tunnel {
                0 => (if versions.0 == 4 { 4 } else { 41 }, inner.clone()),
                1 => (protocol::GRE, typed(0, kind, &[], &inner)),
                2 => (protocol::GRE, typed(0xb0, kind, &[1; 12], &inner)),
                3 => (protocol::GRE, typed(0x20, BRIDGED, &[1; 4], &bridged)),
                4 => datagram(4789, &[8, 0, 0, 0, 0, 0, 7, 0], &bridged),
                5 => datagram(6081, &[2, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 1, 1, 1, 1, 1, 1, 1], &bridged),
                6 => datagram(6081, &[[0, 0], kind.to_be_bytes(), [0, 0], [7, 0]].concat(), &inner),
                _ => (0, inner.clone()),
            };
            let whole = match (tunnel, versions.1) {
                (7, _) => frame(ethernet::VLAN, &[&[0, 7][..], &kind.to_be_bytes(), &inner].concat()),
                (8, _) => {
                    let tags = [&[0, 7, 0x81, 0, 0, 8][..], &kind.to_be_bytes(), &inner].concat();
                    frame(SERVICE_TAG, &tags)
                }
                (_, 4) => frame(ethernet::IPV4, &ip4(outer, &body)),
                _ => frame(ethernet::IPV6, &ip6(outer, &body)),
            };
            let found = find(&whole).unwrap();
            let header = if versions.0 == 4 { 20 } else { 40 };
            prop_assert_eq!((found.start, found.end), (whole.len() - inner.len() + header, whole.len()));
            match protocol {
                protocol::SCTP => prop_assert_eq!((found.kind, found.field), (ChecksumKind::Crc32c, found.start + 8)),
                _ => prop_assert!(is_right(&finished(&whole).unwrap(), whole.len() - inner.len())),
            }
        }

        #[test]
        fn fragments_and_empty_checksums_stay(word in 1u16..0x4000, data in prop::collection::vec(any::<u8>(), 8..30)) {
            let (_, mut packet) = partial(4, protocol::UDP, &data);
            packet[6..8].copy_from_slice(&word.to_be_bytes());
            prop_assert_eq!(find(&frame(ethernet::IPV4, &packet)), None);
            packet[6..8].fill(0);
            packet[26..28].fill(0);
            prop_assert_eq!(find(&frame(ethernet::IPV4, &packet)), None);
        }

        #[test]
        fn what_is_found_is_in_the_packet(
            mut bytes in prop::collection::vec(any::<u8>(), 0..120),
            start in prop::collection::vec(any::<(u8, u8)>(), 0..6),
        ) {
            let (kind, packet) = partial(4, protocol::UDP, &bytes);
            bytes = frame(kind, &packet);
            for (place, value) in start {
                let place = usize::from(place) % bytes.len();
                bytes[place] = value;
            }
            for end in 0..bytes.len() {
                if let Some(found) = find(&bytes[..end]) {
                    prop_assert!(found.start < found.field && found.field + 2 <= end.min(found.end));
                }
            }
        }
    }
}
