//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use crate::{Mac, ParseError, require, u16_at};

/// Bytes of an ARP packet for IPv4 over Ethernet.
pub const LENGTH: usize = 28;
/// Operation: who has the target address?
pub const REQUEST: u16 = 1;
/// Operation: the sender has it.
pub const REPLY: u16 = 2;

/// The values of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// [`REQUEST`], [`REPLY`] or another.
    pub operation: u16,
    /// Ethernet address of the sender.
    pub sender_mac: Mac,
    /// IPv4 address of the sender.
    pub sender: Ipv4Addr,
    /// Ethernet address of the target; zero in requests.
    pub target_mac: Mac,
    /// IPv4 address of the target.
    pub target: Ipv4Addr,
}

impl Repr {
    /// Reads an ARP packet, without its Ethernet header.
    pub fn parse(bytes: &[u8]) -> Result<Repr, ParseError> {
        require("ARP", bytes, LENGTH)?;
        if bytes[..6] != [0, 1, 8, 0, 6, 4] {
            return Err(ParseError::Malformed { what: "ARP", field: "address types" });
        }
        let mac = |at: usize| Mac([0, 1, 2, 3, 4, 5].map(|i| bytes[at + i]));
        let ip = |at: usize| Ipv4Addr::from([0, 1, 2, 3].map(|i| bytes[at + i]));
        Ok(Repr {
            operation: u16_at(bytes, 6),
            sender_mac: mac(8),
            sender: ip(14),
            target_mac: mac(18),
            target: ip(24),
        })
    }

    /// The packet as bytes.
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        bytes[6..8].copy_from_slice(&self.operation.to_be_bytes());
        bytes[8..14].copy_from_slice(&self.sender_mac.0);
        bytes[14..18].copy_from_slice(&self.sender.octets());
        bytes[18..24].copy_from_slice(&self.target_mac.0);
        bytes[24..28].copy_from_slice(&self.target.octets());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refuses_other_hardware() {
        let repr = Repr {
            operation: REQUEST,
            sender_mac: Mac([2, 0, 0, 0, 0, 9]),
            sender: [192, 0, 2, 1].into(),
            target_mac: Mac::ZERO,
            target: [192, 0, 2, 2].into(),
        };
        let mut bytes = repr.emit();
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        assert!(Repr::parse(&bytes[..27]).is_err());
        bytes[1] = 6;
        assert!(Repr::parse(&bytes).is_err());
    }
}
