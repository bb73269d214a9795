//! Network prefix translation for IPv6 (RFC 6296): one prefix for another, without state and
//! without ports.
//!
//! The difference between the sums of the two prefixes is added to one word of the address, so that
//! the sum of the whole address stays as it was: no checksum above IP changes, and every protocol
//! passes. Up to 48 bits that word is the subnet number (bits 48 to 63); with longer prefixes it is
//! the first word of the interface identifier that is not 0xffff. 0 and 0xffff are one number in
//! ones' complement: an address with 0xffff in the word cannot be translated back, so it is not
//! translated at all.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

/// A pair of prefixes, both at most 64 bits long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Pair", into = "Pair")]
pub struct Nptv6 {
    inside: Ipv6Net,
    outside: Ipv6Net,
    /// Sum of the inside prefix less sum of the outside prefix, ones' complement.
    adjustment: u16,
}

#[derive(Serialize, Deserialize)]
struct Pair {
    inside: Ipv6Net,
    outside: Ipv6Net,
}

/// Why two prefixes cannot be translated into each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nptv6Error {
    /// The sum must be mended somewhere behind the prefix.
    #[error("{0}: NPTv6 takes prefixes of at most 64 bits")]
    TooLong(Ipv6Net),
    /// Nothing would be translated.
    #[error("inside and outside are both {0}")]
    Same(Ipv6Net),
}

/// Why one address is not translated. Its packet is dropped, and counted; nobody is told, as RFC
/// 6296, 3.2 and 3.5, would have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untranslatable {
    /// Not in the prefix.
    #[error("not in the prefix")]
    Outside,
    /// Every word that could take the adjustment is 0xffff.
    #[error("no word of the address can take the adjustment")]
    AllOnes,
    /// The interface identifier is zero, or would become zero: the subnet-router anycast address
    /// (RFC 4291, 2.6.1).
    #[error("the interface identifier is zero on one of the sides")]
    Anycast,
}

fn sum(address: Ipv6Addr) -> u16 {
    wire::checksum::Sum::new().with(&address.octets()).fold()
}

/// Ones' complement addition; a result of 0xffff is written as 0 (RFC 6296, 3.2).
fn add(a: u16, b: u16) -> u16 {
    let sum = u32::from(a) + u32::from(b);
    match (sum + (sum >> 16)) as u16 {
        0xffff => 0,
        sum => sum,
    }
}

impl Nptv6 {
    /// Of two prefixes; the shorter is extended with zeros to the length of the longer (RFC 6296,
    /// 3.7).
    pub fn new(inside: Ipv6Net, outside: Ipv6Net) -> Result<Nptv6, Nptv6Error> {
        let length = inside.prefix_len().max(outside.prefix_len());
        for net in [inside, outside] {
            if net.prefix_len() > 64 {
                return Err(Nptv6Error::TooLong(net));
            }
        }
        // Invariant: at most 64.
        let extended = |net: Ipv6Net| Ipv6Net::new_assert(net.network(), length);
        let (inside, outside) = (extended(inside), extended(outside));
        if inside == outside {
            return Err(Nptv6Error::Same(inside));
        }
        let adjustment = add(sum(inside.network()), !sum(outside.network()));
        Ok(Nptv6 { inside, outside, adjustment })
    }

    /// The prefix inside.
    pub fn inside(&self) -> Ipv6Net {
        self.inside
    }

    /// The prefix outside.
    pub fn outside(&self) -> Ipv6Net {
        self.outside
    }

    /// The address outside of one inside.
    pub fn outward(&self, address: [u8; 16]) -> Result<[u8; 16], Untranslatable> {
        translate(address, self.inside, self.outside, self.adjustment)
    }

    /// The address inside of one outside.
    pub fn inward(&self, address: [u8; 16]) -> Result<[u8; 16], Untranslatable> {
        translate(address, self.outside, self.inside, !self.adjustment)
    }
}

fn translate(
    address: [u8; 16],
    from: Ipv6Net,
    to: Ipv6Net,
    adjustment: u16,
) -> Result<[u8; 16], Untranslatable> {
    if !from.contains(&Ipv6Addr::from(address)) {
        return Err(Untranslatable::Outside);
    }
    let host = u128::from_be_bytes(address) & u128::from(from.hostmask());
    let mut octets = (u128::from(to.network()) | host).to_be_bytes();
    let candidates = if from.prefix_len() <= 48 { 3..4 } else { 4..8 };
    let word_of =
        |octets: &[u8; 16], word: usize| u16::from_be_bytes([octets[2 * word], octets[2 * word + 1]]);
    let word = candidates
        .into_iter()
        .find(|word| word_of(&address, *word) != 0xffff)
        .ok_or(Untranslatable::AllOnes)?;
    let adjusted = add(word_of(&octets, word), adjustment);
    octets[2 * word..2 * word + 2].copy_from_slice(&adjusted.to_be_bytes());
    // RFC 6296, 3.7.
    if from.prefix_len() > 48 && [&address, &octets].iter().any(|side| side[8..] == [0; 8]) {
        return Err(Untranslatable::Anycast);
    }
    Ok(octets)
}

impl TryFrom<Pair> for Nptv6 {
    type Error = Nptv6Error;

    fn try_from(pair: Pair) -> Result<Nptv6, Nptv6Error> {
        Nptv6::new(pair.inside, pair.outside)
    }
}

impl From<Nptv6> for Pair {
    fn from(nptv6: Nptv6) -> Pair {
        Pair { inside: nptv6.inside, outside: nptv6.outside }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> [u8; 16] {
        text.parse::<Ipv6Addr>().unwrap().octets()
    }

    fn pair(inside: &str, outside: &str) -> Nptv6 {
        Nptv6::new(inside.parse().unwrap(), outside.parse().unwrap()).unwrap()
    }

    #[test]
    fn example_of_rfc_6296() {
        let nptv6 = pair("fd01:203:405::/48", "2001:db8:1::/48");
        let (inside, outside) = (address("fd01:203:405:1::1234"), address("2001:db8:1:d550::1234"));
        assert_eq!(nptv6.outward(inside), Ok(outside));
        assert_eq!(nptv6.inward(outside), Ok(inside));
    }

    #[test]
    fn special_cases() {
        let short = pair("fd01:203:405::/48", "2001:db8:1::/48");
        assert_eq!(short.outward(address("fd01:203:405:ffff::1")), Err(Untranslatable::AllOnes));
        assert_eq!(short.outward(address("fd01:203:406::1")), Err(Untranslatable::Outside));
        let long = pair("fd00:0:0:1::/64", "2001:db8:0:1::/64");
        assert_eq!(long.outward(address("fd00:0:0:1:ffff:ffff:ffff:ffff")), Err(Untranslatable::AllOnes));
        // The first word is all ones, so the second takes the adjustment: fd00 - (2001 + 0db8) =
        // cf46, around.
        assert_eq!(
            long.outward(address("fd00:0:0:1:ffff:0:0:1")).map(Ipv6Addr::from),
            Ok("2001:db8:0:1:ffff:cf47:0:1".parse().unwrap())
        );
        // Zero on either side: what left from there could not be called back.
        let zeros = [long.inward(address("2001:db8:0:1:cf47::")), long.inward(address("2001:db8:0:1::"))];
        assert_eq!(zeros, [Err(Untranslatable::Anycast); 2]);
        assert_eq!(long.outward(address("fd00:0:0:1::")), Err(Untranslatable::Anycast));
        assert!(short.outward(address("fd01:203:405:1::")).is_ok(), "the identifier stays as it is");
        assert!(Nptv6::new("fd00::/65".parse().unwrap(), "2001:db8::/48".parse().unwrap()).is_err());
        // The shorter prefix counts as if it were as long as the other.
        assert_eq!(pair("fd00::/40", "2001:db8:1::/48").inside(), "fd00::/48".parse().unwrap());
    }

    proptest! {
        #[test]
        fn sums_stay_and_the_way_back_leads_home(inside: [u8; 16], outside: [u8; 16], host: [u8; 16], length in 1u8..=64) {
            let net = |octets: [u8; 16]| Ipv6Net::new(octets.into(), length).unwrap().trunc();
            if let Ok(nptv6) = Nptv6::new(net(inside), net(outside)) {
                let host = u128::from_be_bytes(host) & u128::from(nptv6.inside().hostmask());
                let address = (u128::from(nptv6.inside().network()) | host).to_be_bytes();
                match nptv6.outward(address) {
                    Ok(out) => {
                        prop_assert!(nptv6.outside().contains(&Ipv6Addr::from(out)));
                        // Equal as ones' complement numbers: both forms of zero are one.
                        prop_assert_eq!(sum(address.into()) % 0xffff, sum(out.into()) % 0xffff);
                        prop_assert_eq!(nptv6.inward(out), Ok(address));
                    }
                    Err(error) => prop_assert_ne!(error, Untranslatable::Outside),
                }
            }
        }
    }
}
