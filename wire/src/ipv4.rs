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

/// A packet whose header is whole: version 4, header length at least 20 bytes and within the bytes given, total length
/// at least the header length. The total length may exceed the bytes given; the checksum is not judged.
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

    /// The header of a packet with `payload` bytes behind it, checksum included. A total length beyond 65,535 is
    /// stated as 65,535.
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

/// Option types (RFC 791, 3.1), with the copied flag where it is set.
pub mod option {
    /// End of the list.
    pub const END: u8 = 0;
    /// No operation.
    pub const NOP: u8 = 1;
    /// The flag: copied into every fragment.
    pub const COPIED: u8 = 0x80;
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

    proptest! {
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
