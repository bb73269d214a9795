//! ICMPv6 (RFC 4443): types and codes, and the fixed eight bytes.

use crate::{ParseError, require, u16_at, u32_at};

/// Bytes of the fixed header.
pub const HEADER: usize = 8;

/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Type: packet too big; the word is the MTU.
pub const PACKET_TOO_BIG: u8 = 2;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Type: echo request.
pub const ECHO: u8 = 128;
/// Type: echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type: redirect (RFC 4861).
pub const REDIRECT: u8 = 137;

/// Codes of [`UNREACHABLE`].
pub mod unreachable {
    /// No route to destination.
    pub const NO_ROUTE: u8 = 0;
    /// Communication administratively prohibited.
    pub const PROHIBITED: u8 = 1;
    /// Beyond scope of source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// Address unreachable.
    pub const ADDRESS: u8 = 3;
    /// Nobody at the destination takes the port.
    pub const PORT: u8 = 4;
}

/// Whether the type is an error, about which no error is ever sent (RFC 4443, 2.4 (e)).
pub fn is_error(icmp_type: u8) -> bool {
    icmp_type < 128
}

/// A message with its fixed header whole.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    /// Checks that the header is there.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, ParseError> {
        require("ICMPv6", bytes, HEADER)?;
        Ok(Message(bytes))
    }

    /// Type.
    pub fn icmp_type(&self) -> u8 {
        self.0[0]
    }

    /// Code.
    pub fn code(&self) -> u8 {
        self.0[1]
    }

    /// Checksum as it stands, over pseudo-header and message.
    pub fn checksum(&self) -> u16 {
        u16_at(self.0, 2)
    }

    /// The second word: identifier and sequence number, or MTU.
    pub fn word(&self) -> u32 {
        u32_at(self.0, 4)
    }

    /// What follows the fixed header: in errors, the packet they are about.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_rfc_4443_has_them() {
        let bytes = [2, 0, 0xab, 0xcd, 0, 0, 5, 0, 0x60];
        let message = Message::parse(&bytes).unwrap();
        assert_eq!((message.icmp_type(), message.code(), message.checksum()), (PACKET_TOO_BIG, 0, 0xabcd));
        assert_eq!((message.word(), message.payload()), (1280, &[0x60][..]));
        assert!(Message::parse(&bytes[..7]).is_err());
        assert!(is_error(4) && !is_error(ECHO));
    }
}
