//! IPv4 addresses inside IPv6 addresses (RFC 6052).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

/// A prefix behind which IPv4 addresses are embedded: 32, 40, 48, 56, 64 or 96 bits long, its bits
/// 64 to 71 zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Ipv6Net", into = "Ipv6Net")]
pub struct Prefix64 {
    octets: [u8; 16],
    length: u8,
}

/// Why a prefix cannot hold IPv4 addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Prefix64Error {
    /// RFC 6052, 2.2 knows six lengths.
    #[error("{0}: its length must be 32, 40, 48, 56, 64 or 96 (RFC 6052, 2.2)")]
    Length(Ipv6Net),
    /// Bits 64 to 71 must be zero.
    #[error("{0}: its bits 64 to 71 must be zero (RFC 6052, 2.2)")]
    ReservedBits(Ipv6Net),
    /// Not a prefix at all.
    #[error("{0:?} is no IPv6 prefix")]
    Syntax(String),
}

impl Prefix64 {
    /// 64:ff9b::/96, the well-known prefix.
    pub const WELL_KNOWN: Prefix64 =
        Prefix64 { octets: [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], length: 96 };

    /// The prefix as a network.
    pub fn net(&self) -> Ipv6Net {
        // Invariant: one of six lengths, all below 129.
        Ipv6Net::new_assert(Ipv6Addr::from(self.octets), self.length)
    }

    /// Where the four bytes of the IPv4 address are: one after the other, byte 8 left out.
    #[inline]
    fn places(&self) -> [usize; 4] {
        let mut at = usize::from(self.length / 8);
        [(); 4].map(|()| {
            at += usize::from(at == 8);
            at += 1;
            at - 1
        })
    }

    /// The IPv6 address that stands for an IPv4 address; the suffix is zero.
    #[inline]
    pub fn embed(&self, address: [u8; 4]) -> [u8; 16] {
        let mut octets = self.octets;
        for (place, byte) in self.places().into_iter().zip(address) {
            octets[place] = byte;
        }
        octets
    }

    /// The IPv4 address that an IPv6 address stands for; `None` outside the prefix, or with bits 64
    /// to 71 not zero. The suffix is ignored (RFC 6052, 2.2).
    #[inline]
    pub fn extract(&self, address: &[u8; 16]) -> Option<[u8; 4]> {
        let length = usize::from(self.length / 8);
        let inside = address[..length] == self.octets[..length] && address[8] == 0;
        inside.then(|| self.places().map(|place| address[place]))
    }

    /// Whether the prefix may stand for this address: the well-known one may not for such as are
    /// not global (RFC 6052, 3.1).
    pub fn may_hold(&self, address: [u8; 4]) -> bool {
        *self != Prefix64::WELL_KNOWN || is_global(address)
    }
}

/// Blocks of the IANA special-purpose registry (RFC 6890) that are not globally reachable, and
/// multicast and class E.
const NOT_GLOBAL: [([u8; 4], u8); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Whether an IPv4 address is reachable from everywhere.
pub fn is_global(address: [u8; 4]) -> bool {
    let address = Ipv4Addr::from(address);
    !NOT_GLOBAL.iter().any(|(net, length)| Ipv4Net::new_assert((*net).into(), *length).contains(&address))
}

impl TryFrom<Ipv6Net> for Prefix64 {
    type Error = Prefix64Error;

    fn try_from(net: Ipv6Net) -> Result<Prefix64, Prefix64Error> {
        let (octets, length) = (net.network().octets(), net.prefix_len());
        if !matches!(length, 32 | 40 | 48 | 56 | 64 | 96) {
            return Err(Prefix64Error::Length(net));
        }
        if octets[8] != 0 {
            return Err(Prefix64Error::ReservedBits(net));
        }
        Ok(Prefix64 { octets, length })
    }
}

impl From<Prefix64> for Ipv6Net {
    fn from(prefix: Prefix64) -> Ipv6Net {
        prefix.net()
    }
}

impl FromStr for Prefix64 {
    type Err = Prefix64Error;

    fn from_str(text: &str) -> Result<Prefix64, Prefix64Error> {
        let net: Ipv6Net = text.parse().map_err(|_| Prefix64Error::Syntax(text.to_owned()))?;
        net.try_into()
    }
}

impl fmt::Display for Prefix64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.net().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The table of RFC 6052, 2.4: 192.0.2.33 behind prefixes of every length.
    #[test]
    fn examples_of_rfc_6052() {
        for (prefix, address) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::/96", "64:ff9b::192.0.2.33"),
        ] {
            let prefix: Prefix64 = prefix.parse().unwrap();
            let address: Ipv6Addr = address.parse().unwrap();
            assert_eq!(Ipv6Addr::from(prefix.embed([192, 0, 2, 33])), address);
            assert_eq!(prefix.extract(&address.octets()), Some([192, 0, 2, 33]));
        }
        assert!("2001:db8::/33".parse::<Prefix64>().is_err());
        assert!("2001:db8:0:0:100::/96".parse::<Prefix64>().is_err());
        assert_eq!("64:ff9b::/96".parse(), Ok(Prefix64::WELL_KNOWN));
    }

    #[test]
    fn the_well_known_prefix_holds_global_addresses_only() {
        assert!(!Prefix64::WELL_KNOWN.may_hold([10, 1, 2, 3]));
        assert!(Prefix64::WELL_KNOWN.may_hold([8, 8, 8, 8]));
        assert!("64:ff9b:1::/96".parse::<Prefix64>().unwrap().may_hold([10, 1, 2, 3]));
    }

    proptest! {
        #[test]
        fn what_is_embedded_comes_out(octets: [u8; 16], address: [u8; 4], which in 0usize..6) {
            let length = [32, 40, 48, 56, 64, 96][which];
            let mut octets = octets;
            octets[8] = 0;
            let prefix = Prefix64::try_from(Ipv6Net::new(octets.into(), length).unwrap()).unwrap();
            let embedded = prefix.embed(address);
            prop_assert_eq!(prefix.extract(&embedded), Some(address));
            prop_assert_eq!(embedded[8], 0);
            prop_assert!(prefix.net().contains(&Ipv6Addr::from(embedded)));
            let _ = prefix.extract(&octets);
        }
    }
}
