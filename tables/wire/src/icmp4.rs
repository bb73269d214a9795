//! ICMP (RFC 792, RFC 1122, RFC 1812): types and codes, and the fixed eight bytes.

use crate::{ParseError, require, u16_at, u32_at};

/// Bytes of the fixed header.
pub const HEADER: usize = 8;

/// Type: echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Type: source quench (deprecated, RFC 6633).
pub const SOURCE_QUENCH: u8 = 4;
/// Type: redirect.
pub const REDIRECT: u8 = 5;
/// Type: echo request.
pub const ECHO: u8 = 8;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;

/// Codes of [`UNREACHABLE`].
pub mod unreachable {
    /// Net unreachable.
    pub const NET: u8 = 0;
    /// Host unreachable.
    pub const HOST: u8 = 1;
    /// Nobody at the destination takes the protocol.
    pub const PROTOCOL: u8 = 2;
    /// Nobody at the destination takes the port.
    pub const PORT: u8 = 3;
    /// Fragmentation needed and DF set; the next hop's MTU is in the last 16 bits of the header
    /// (RFC 1191).
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Communication administratively prohibited (RFC 1812, 5.2.7.1).
    pub const PROHIBITED: u8 = 13;
}

/// Code of [`REDIRECT`]: for the host.
pub const REDIRECT_HOST: u8 = 1;

/// Whether the type counts as an error, about which no error is ever sent (RFC 1812, 4.3.2.7). As
/// in Linux only echo, timestamp, information and address mask count as queries; router discovery
/// and unknown types as errors.
pub fn is_error(icmp_type: u8) -> bool {
    !matches!(icmp_type, ECHO_REPLY | ECHO | 13..=18)
}

/// A message with its fixed header whole.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    /// Checks that the header is there.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, ParseError> {
        require("ICMP", bytes, HEADER)?;
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

    /// Checksum as it stands, over the whole message.
    pub fn checksum(&self) -> u16 {
        u16_at(self.0, 2)
    }

    /// The second word: identifier and sequence number, MTU, or gateway.
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
    fn fields_are_where_rfc_792_has_them() {
        let bytes = [3, 4, 0x12, 0x34, 0, 0, 0x05, 0xdc, 0x45];
        let message = Message::parse(&bytes).unwrap();
        assert_eq!((message.icmp_type(), message.code(), message.checksum()), (3, 4, 0x1234));
        assert_eq!((message.word(), message.payload()), (1500, &[0x45][..]));
        assert!(Message::parse(&bytes[..7]).is_err());
    }

    #[test]
    fn queries_are_no_errors() {
        assert!([3, 4, 5, 9, 11, 12, 42, 200].into_iter().all(is_error));
        assert!(![0, 8, 13, 14].into_iter().any(is_error));
    }
}
