//! TCP (RFC 9293): what a router reads of it.

use crate::{ParseError, require, u16_at, u32_at};

/// Bytes of the header without options.
pub const HEADER: usize = 20;

/// The flags of a segment, as bits of [`Segment::flags`].
pub mod flag {
    /// The sender is finished.
    pub const FIN: u8 = 1;
    /// The connection opens.
    pub const SYN: u8 = 2;
    /// The connection is reset.
    pub const RST: u8 = 4;
    /// Deliver at once.
    pub const PSH: u8 = 8;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 16;
    /// The congestion window was reduced (RFC 3168, 6.1.2).
    pub const CWR: u8 = 128;
}

/// A segment whose header is whole.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a>(&'a [u8]);

impl<'a> Segment<'a> {
    /// Checks what the accessors rely on.
    pub fn parse(bytes: &'a [u8]) -> Result<Segment<'a>, ParseError> {
        require("TCP", bytes, HEADER)?;
        let header = usize::from(bytes[12] >> 4) * 4;
        if header < HEADER {
            return Err(ParseError::Malformed { what: "TCP", field: "data offset" });
        }
        require("TCP", bytes, header)?;
        Ok(Segment(bytes))
    }

    /// Bytes of the header with its options: 20 to 60.
    pub fn header_len(&self) -> usize {
        usize::from(self.0[12] >> 4) * 4
    }

    /// Source port.
    pub fn source(&self) -> u16 {
        u16_at(self.0, 0)
    }

    /// Destination port.
    pub fn destination(&self) -> u16 {
        u16_at(self.0, 2)
    }

    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        u32_at(self.0, 4)
    }

    /// Acknowledgement number.
    pub fn acknowledgement(&self) -> u32 {
        u32_at(self.0, 8)
    }

    /// The flags; see [`flag`].
    pub fn flags(&self) -> u8 {
        self.0[13]
    }

    /// The data.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[usize::from(self.0[12] >> 4) * 4..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_rfc_9293_has_them() {
        let mut bytes = [0; 25];
        bytes[..14].copy_from_slice(&[
            0,
            22,
            0x9c,
            0x40,
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            2,
            0x60,
            flag::SYN | flag::ACK,
        ]);
        bytes[24] = 7;
        let segment = Segment::parse(&bytes).unwrap();
        assert_eq!((segment.source(), segment.destination()), (22, 40_000));
        assert_eq!((segment.sequence(), segment.acknowledgement()), (1, 2));
        assert_eq!((segment.flags(), segment.payload()), (0x12, &[7][..]));
        bytes[12] = 0x70;
        assert!(Segment::parse(&bytes).is_err());
        bytes[12] = 0x40;
        assert!(Segment::parse(&bytes).is_err());
    }
}
