//! UDP (RFC 768).

use crate::{ParseError, checksum::Sum, require, u16_at};

/// Bytes of the header.
pub const HEADER: usize = 8;

/// A datagram with a whole header, whose length field is at least that of the header.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a>(&'a [u8]);

impl<'a> Datagram<'a> {
    /// Checks what the accessors rely on.
    pub fn parse(bytes: &'a [u8]) -> Result<Datagram<'a>, ParseError> {
        require("UDP", bytes, HEADER)?;
        if usize::from(u16_at(bytes, 4)) < HEADER {
            return Err(ParseError::Malformed { what: "UDP", field: "length" });
        }
        Ok(Datagram(bytes))
    }

    /// Source port.
    pub fn source(&self) -> u16 {
        u16_at(self.0, 0)
    }

    /// Destination port.
    pub fn destination(&self) -> u16 {
        u16_at(self.0, 2)
    }

    /// Length of header and data as the header states it.
    pub fn length(&self) -> u16 {
        u16_at(self.0, 4)
    }

    /// Checksum as it stands; 0 is "none" over IPv4.
    pub fn checksum(&self) -> u16 {
        u16_at(self.0, 6)
    }

    /// The data, up to the length or to the end of the bytes.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER..usize::from(self.length()).min(self.0.len())]
    }
}

/// The header of a datagram with its checksum; `pseudo` is the sum of the pseudo-header
/// ([`checksum::pseudo4`](crate::checksum::pseudo4) or [`pseudo6`](crate::checksum::pseudo6)).
pub fn header(source: u16, destination: u16, payload: &[u8], pseudo: Sum) -> [u8; HEADER] {
    let length = u16::try_from(HEADER + payload.len()).unwrap_or(u16::MAX);
    let mut bytes = [0; HEADER];
    bytes[..2].copy_from_slice(&source.to_be_bytes());
    bytes[2..4].copy_from_slice(&destination.to_be_bytes());
    bytes[4..6].copy_from_slice(&length.to_be_bytes());
    let sum = stated(pseudo.with(&bytes).with(payload).finish());
    bytes[6..].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// A checksum as it is written into a header: one of 0 as all ones, which adds up as well, since 0
/// says that there is none.
pub const fn stated(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::pseudo4;

    #[test]
    fn header_adds_up() {
        let payload = b"hello";
        let pseudo = pseudo4(0x0a00_0001, 0x0a00_0002, 17, 13);
        let bytes = [&header(5000, 53, payload, pseudo)[..], payload].concat();
        assert_eq!(pseudo.with(&bytes).fold(), 0xffff);
        let datagram = Datagram::parse(&bytes).unwrap();
        assert_eq!((datagram.source(), datagram.destination(), datagram.length()), (5000, 53, 13));
        assert_eq!(datagram.payload(), payload);
        assert!(Datagram::parse(&[0; 8]).is_err());
    }
}
