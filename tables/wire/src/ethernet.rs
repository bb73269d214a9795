//! Ethernet II framing (IEEE 802.3; RFC 894, RFC 2464).

use crate::{Mac, ParseError, require, u16_at};

pub use abi::ethernet::{ARP, IPV4, IPV6, QINQ, VLAN};

/// Bytes of the header without tags.
pub const HEADER: usize = 14;

/// A frame with a whole header.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a>(&'a [u8]);

impl<'a> Frame<'a> {
    /// Checks that the header is there.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, ParseError> {
        require("Ethernet", bytes, HEADER)?;
        Ok(Frame(bytes))
    }

    /// Destination address.
    pub fn destination(&self) -> Mac {
        Mac([self.0[0], self.0[1], self.0[2], self.0[3], self.0[4], self.0[5]])
    }

    /// Source address.
    pub fn source(&self) -> Mac {
        Mac([self.0[6], self.0[7], self.0[8], self.0[9], self.0[10], self.0[11]])
    }

    /// EtherType; below 1536 it is a length (802.3).
    #[inline]
    pub fn ether_type(&self) -> u16 {
        u16_at(self.0, 12)
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER..]
    }
}

/// The values of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub destination: Mac,
    /// Source address.
    pub source: Mac,
    /// EtherType.
    pub ether_type: u16,
}

impl Repr {
    /// The values of a frame's header.
    pub fn of(frame: &Frame<'_>) -> Repr {
        Repr { destination: frame.destination(), source: frame.source(), ether_type: frame.ether_type() }
    }

    /// The header as bytes.
    #[inline]
    pub fn header(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..6].copy_from_slice(&self.destination.0);
        bytes[6..12].copy_from_slice(&self.source.0);
        bytes[12..].copy_from_slice(&self.ether_type.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips() {
        let repr =
            Repr { destination: Mac([2, 0, 0, 0, 0, 1]), source: Mac([2, 0, 0, 0, 0, 2]), ether_type: IPV6 };
        let bytes = [&repr.header()[..], &[7]].concat();
        let frame = Frame::parse(&bytes).unwrap();
        assert_eq!(Repr::of(&frame), repr);
        assert_eq!(frame.payload(), [7]);
        assert!(Frame::parse(&bytes[..13]).is_err());
    }
}
