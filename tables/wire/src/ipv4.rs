//! IPv4 (RFC 791).

use std::net::Ipv4Addr;

use crate::{ParseError, checksum, require, u16_at, u32_at};

/// Bytes of the header without options.
pub const HEADER: usize = 20;
/// The flag "don't fragment" in the word of flags and fragment offset.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// The flag "more fragments".
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// The bits of the fragment offset, which counts units of 8 bytes.
pub const FRAGMENT_OFFSET: u16 = 0x1fff;

/// A packet whose header is whole: version 4, header length at least 20 bytes and within the bytes
/// given, total length at least the header length. The total length may exceed the bytes given; the
/// checksum is not judged.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8]);

impl<'a> Packet<'a> {
    /// Checks what the accessors rely on.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        require("IPv4", bytes, HEADER)?;
        if bytes[0] >> 4 != 4 {
            return Err(ParseError::Malformed { what: "IPv4", field: "version" });
        }
        let header = usize::from(bytes[0] & 15) * 4;
        if header < HEADER {
            return Err(ParseError::Malformed { what: "IPv4", field: "header length" });
        }
        require("IPv4", bytes, header)?;
        if usize::from(u16_at(bytes, 2)) < header {
            return Err(ParseError::Malformed { what: "IPv4", field: "total length" });
        }
        Ok(Packet(bytes))
    }

    /// Bytes of the header with its options: 20 to 60.
    pub fn header_len(&self) -> usize {
        usize::from(self.0[0] & 15) * 4
    }

    /// The header with its options.
    pub fn header(&self) -> &'a [u8] {
        &self.0[..self.header_len()]
    }

    /// The options, with their padding.
    pub fn options(&self) -> &'a [u8] {
        &self.0[HEADER..self.header_len()]
    }

    /// Type of service: DSCP and ECN.
    pub fn tos(&self) -> u8 {
        self.0[1]
    }

    /// Total length as the header states it.
    pub fn total_len(&self) -> u16 {
        u16_at(self.0, 2)
    }

    /// Identification.
    pub fn id(&self) -> u16 {
        u16_at(self.0, 4)
    }

    /// The word of flags and fragment offset.
    pub fn fragment(&self) -> u16 {
        u16_at(self.0, 6)
    }

    /// Fragment offset in bytes.
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragment() & FRAGMENT_OFFSET) * 8
    }

    /// Whether the packet may not be fragmented.
    pub fn dont_fragment(&self) -> bool {
        self.fragment() & DONT_FRAGMENT != 0
    }

    /// Whether later fragments follow.
    pub fn more_fragments(&self) -> bool {
        self.fragment() & MORE_FRAGMENTS != 0
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.0[8]
    }

    /// Upper layer protocol.
    pub fn protocol(&self) -> u8 {
        self.0[9]
    }

    /// Header checksum as it stands.
    pub fn checksum(&self) -> u16 {
        u16_at(self.0, 10)
    }

    /// Whether the header adds up.
    pub fn checksum_ok(&self) -> bool {
        checksum::verify(self.header())
    }

    /// Source address.
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32_at(self.0, 12))
    }

    /// Destination address.
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32_at(self.0, 16))
    }

    /// What follows the header, up to the total length or to the end of the bytes.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..usize::from(self.total_len()).min(self.0.len())]
    }
}

/// The values of a header without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Type of service.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// Flags and fragment offset.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// Upper layer protocol.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Repr {
    /// UDP from `source` to `destination`, TTL 64, the rest zero.
    pub fn new(source: Ipv4Addr, destination: Ipv4Addr) -> Repr {
        Repr { tos: 0, id: 0, fragment: 0, ttl: 64, protocol: crate::protocol::UDP, source, destination }
    }

    /// The values of a packet's header, without its options.
    pub fn of(packet: &Packet<'_>) -> Repr {
        Repr {
            tos: packet.tos(),
            id: packet.id(),
            fragment: packet.fragment(),
            ttl: packet.ttl(),
            protocol: packet.protocol(),
            source: packet.source(),
            destination: packet.destination(),
        }
    }

    /// The header of a packet with `payload` bytes behind it, checksum included. A total length
    /// beyond 65,535 is stated as 65,535.
    pub fn header(&self, payload: usize) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = 0x45;
        bytes[1] = self.tos;
        bytes[2..4].copy_from_slice(&(u16::try_from(HEADER + payload).unwrap_or(u16::MAX)).to_be_bytes());
        bytes[4..6].copy_from_slice(&self.id.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.fragment.to_be_bytes());
        bytes[8] = self.ttl;
        bytes[9] = self.protocol;
        bytes[12..16].copy_from_slice(&self.source.octets());
        bytes[16..20].copy_from_slice(&self.destination.octets());
        let sum = checksum::of(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

/// Decrements the time to live of a header and updates its checksum; false, and nothing done, when
/// it is used up (0 or 1).
#[inline(always)]
pub fn decrement_ttl(header: &mut [u8; HEADER]) -> bool {
    if header[8] <= 1 {
        return false;
    }
    age(header);
    true
}

/// [`decrement_ttl`], for whoever knows that the packet may live on.
#[inline(always)]
pub fn age(header: &mut [u8; HEADER]) {
    header[8] = header[8].wrapping_sub(1);
    // The TTL is the first byte of its word, so the checksum grows by 0x0100, with the carry
    // brought round: in whatever order of bytes.
    let sum = u32::from(u16::from_ne_bytes([header[10], header[11]])) + u32::from(0x0100u16.to_be());
    let sum = sum + u32::from(sum >= 0xffff);
    header[10..12].copy_from_slice(&(sum as u16).to_ne_bytes());
}

/// Writes the checksum of a header with its options, whose length is at least 12 bytes; shorter
/// ones stay as they are.
pub fn set_checksum(header: &mut [u8]) {
    if header.len() < 12 {
        return;
    }
    header[10..12].fill(0);
    let sum = checksum::of(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Options (RFC 791, 3.1). Types have the copied flag where it is set.
pub mod option {
    use std::ops::Range;

    /// End of the list.
    pub const END: u8 = 0;
    /// No operation.
    pub const NOP: u8 = 1;
    /// Record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Internet timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source and record route.
    pub const LOOSE_ROUTE: u8 = 131;
    /// Strict source and record route.
    pub const STRICT_ROUTE: u8 = 137;
    /// The flag: copied into every fragment.
    pub const COPIED: u8 = 0x80;

    /// Where the options are in a header's bytes behind the first 20, without no-operations, up to
    /// the end of the list. An option whose length is wrong ends it with the place of that length.
    pub fn places(options: &[u8]) -> impl Iterator<Item = Result<Range<usize>, usize>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            while options.get(at) == Some(&NOP) {
                at += 1;
            }
            let (start, kind) = (at, *options.get(at)?);
            if kind == END {
                return None;
            }
            let length = options.get(start + 1).map_or(0, |length| usize::from(*length));
            if length < 2 || start + length > options.len() {
                at = options.len();
                return Some(Err(start + 1));
            }
            at += length;
            Some(Ok(start..at))
        })
    }

    /// The last address of a source route that is not at its end yet: where the packet really goes
    /// (RFC 1122, 3.2.1.8 (e)), and what the pseudo-header of its checksum says.
    pub fn route_end(options: &[u8]) -> Option<std::net::Ipv4Addr> {
        let route = places(options)
            .map_while(Result::ok)
            .map(|place| &options[place])
            .find(|option| matches!(option[0], LOOSE_ROUTE | STRICT_ROUTE))?;
        let pointer = usize::from(*route.get(2)?);
        let (_, last) = route.get(3..)?.split_last_chunk::<4>()?;
        // The pointer counts from 1.
        (pointer + 3 <= route.len()).then(|| (*last).into())
    }

    /// Those that every fragment has, one behind the other and padded to a multiple of 4 bytes, and
    /// how many bytes that is. What follows an option whose length is wrong is lost.
    pub fn copied(options: &[u8]) -> ([u8; 40], usize) {
        let (mut list, mut length) = ([END; 40], 0);
        for place in places(options).map_while(Result::ok) {
            let option = &options[place];
            let Some(room) = list.get_mut(length..length + option.len()) else { break };
            if option[0] & COPIED != 0 {
                room.copy_from_slice(option);
                length += option.len();
            }
        }
        (list, length.next_multiple_of(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn header_round_trips() {
        let repr = Repr {
            tos: 0xb8,
            id: 7,
            fragment: DONT_FRAGMENT,
            ..Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
        };
        let bytes = [&repr.header(3)[..], &[1, 2, 3, 0, 0]].concat();
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(Repr::of(&packet), repr);
        assert!(packet.checksum_ok() && packet.dont_fragment() && !packet.more_fragments());
        assert_eq!((packet.total_len(), packet.payload()), (23, &[1, 2, 3][..]));
    }

    #[test]
    fn options_are_found() {
        let places = |options: &[u8]| option::places(options).collect::<Vec<_>>();
        assert_eq!(places(&[1, 7, 3, 4, 1, 130, 2, 0, 9]), [Ok(1..4), Ok(5..7)]);
        assert_eq!(places(&[7, 3, 4, 68, 9, 0, 0]), [Ok(0..3), Err(4)]);
        assert_eq!(places(&[1, 7]), [Err(2)]);
        assert_eq!(places(&[2, 1, 1, 1]), [Err(1)]);
        let (list, length) = option::copied(&[1, 7, 3, 4, 130, 3, 5, 131, 2, 99, 0]);
        assert_eq!(list[..length], [130, 3, 5, 131, 2, 0, 0, 0]);
        // A route of two addresses, with the first, the second and none left.
        for (pointer, end) in [(4, Some([5, 6, 7, 8])), (8, Some([5, 6, 7, 8])), (12, None)] {
            let route = [1, 137, 11, pointer, 1, 2, 3, 4, 5, 6, 7, 8];
            assert_eq!(option::route_end(&route), end.map(Into::into), "{pointer}");
        }
        assert_eq!(option::route_end(&[131, 3, 4, 0]), None);
        assert_eq!(option::route_end(&[131, 2, 1, 1]), None);
    }

    proptest! {
        #[test]
        fn the_checksum_follows_the_ttl(mut header: [u8; 20]) {
            header[0] = 0x45;
            set_checksum(&mut header);
            let before = header;
            if before[8] > 1 {
                prop_assert!(decrement_ttl(&mut header));
                prop_assert_eq!(header[8], before[8] - 1);
                prop_assert!(checksum::verify(&header));
            } else {
                prop_assert!(!decrement_ttl(&mut header));
                prop_assert_eq!(header, before);
            }
        }

        #[test]
        fn any_options_are_walked(options in proptest::collection::vec(any::<u8>(), 0..=40)) {
            let mut end = 0;
            for place in option::places(&options) {
                let (Ok(std::ops::Range { start, .. }) | Err(start)) = place;
                prop_assert!(start >= end);
                end = start + 1;
            }
            let (_, length) = option::copied(&options);
            prop_assert!(length <= 40 && length % 4 == 0);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), version in 0u8..2) {
            let mut bytes = bytes;
            if let (Some(first), 1) = (bytes.first_mut(), version) {
                *first = 0x40 | *first & 15;
            }
            if let Ok(packet) = Packet::parse(&bytes) {
                let _ = (Repr::of(&packet), packet.options(), packet.payload(), packet.checksum_ok(), packet.fragment_offset());
            }
        }
    }
}
