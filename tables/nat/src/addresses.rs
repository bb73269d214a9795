//! Addresses of a pool: `203.0.113.1`, `203.0.113.0/28`, `203.0.113.1-203.0.113.14`, several of
//! them after commas.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use wire::headers::{mapped, unmapped};

/// An address in the one shape that [`wire::Headers`] and [`flow::Tuple`] have for both families.
pub fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => mapped(address.octets()),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The address of that shape as it is written.
pub fn address(octets: &[u8; 16]) -> IpAddr {
    match unmapped(octets) {
        Some(address) => IpAddr::from(address),
        None => IpAddr::from(*octets),
    }
}

/// Addresses of one family without gaps, in the shape of [`octets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    first: u128,
    last: u128,
}

impl Range {
    /// The lowest address.
    pub fn first(&self) -> IpAddr {
        address(&self.first.to_be_bytes())
    }

    /// The highest address.
    pub fn last(&self) -> IpAddr {
        address(&self.last.to_be_bytes())
    }

    /// Whether the addresses are IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.first().is_ipv6()
    }

    fn len(&self) -> u64 {
        u64::try_from(self.last - self.first).unwrap_or(u64::MAX).saturating_add(1)
    }
}

/// Ranges of addresses that do not overlap, in the order they were written; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Addresses(Vec<Range>);

/// Why a text names no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressesError {
    /// Neither address, prefix nor range.
    #[error("{0:?} is neither an address, nor a prefix, nor a range of addresses")]
    Syntax(String),
    /// The last address is below the first, or of the other family.
    #[error("{0:?} does not run from a lower to a higher address of one family")]
    Backwards(String),
    /// Two ranges have an address in common.
    #[error("{0} and {1} have addresses in common")]
    Overlap(Range, Range),
}

impl Addresses {
    /// One address.
    pub fn one(address: IpAddr) -> Addresses {
        let number = u128::from_be_bytes(octets(address));
        Addresses(vec![Range { first: number, last: number }])
    }

    /// The ranges.
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// How many addresses; `u64::MAX` where there are more.
    pub fn len(&self) -> u64 {
        self.0.iter().fold(0, |sum, range| sum.saturating_add(range.len()))
    }

    /// Never: there is at least one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The address at a position, from 0.
    pub fn get(&self, mut position: u64) -> Option<[u8; 16]> {
        for range in &self.0 {
            if position < range.len() {
                return Some((range.first + u128::from(position)).to_be_bytes());
            }
            position -= range.len();
        }
        None
    }

    /// The position of an address.
    pub fn position(&self, address: &[u8; 16]) -> Option<u64> {
        let (number, mut before) = (u128::from_be_bytes(*address), 0u64);
        for range in &self.0 {
            if (range.first..=range.last).contains(&number) {
                return u64::try_from(number - range.first).ok()?.checked_add(before);
            }
            before = before.saturating_add(range.len());
        }
        None
    }

    pub(crate) fn get4(&self, position: u64) -> Option<Ipv4Addr> {
        unmapped(&self.get(position)?).map(Ipv4Addr::from)
    }

    pub(crate) fn position4(&self, address: Ipv4Addr) -> Option<u64> {
        self.position(&mapped(address.octets()))
    }
}

impl FromStr for Range {
    type Err = AddressesError;

    fn from_str(text: &str) -> Result<Range, AddressesError> {
        let syntax = || AddressesError::Syntax(text.to_owned());
        let number = |address: IpAddr| u128::from_be_bytes(octets(address));
        if let Some((first, last)) = text.split_once('-') {
            let first: IpAddr = first.trim().parse().map_err(|_| syntax())?;
            let last: IpAddr = last.trim().parse().map_err(|_| syntax())?;
            if first.is_ipv4() != last.is_ipv4() || first > last {
                return Err(AddressesError::Backwards(text.to_owned()));
            }
            return Ok(Range { first: number(first), last: number(last) });
        }
        if let Ok(net) = text.parse::<IpNet>() {
            return Ok(Range { first: number(net.network()), last: number(net.broadcast()) });
        }
        let one: IpAddr = text.parse().map_err(|_| syntax())?;
        Ok(Range { first: number(one), last: number(one) })
    }
}

impl FromStr for Addresses {
    type Err = AddressesError;

    fn from_str(text: &str) -> Result<Addresses, AddressesError> {
        let ranges: Vec<Range> = text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>()?;
        let mut sorted = ranges.clone();
        sorted.sort();
        match sorted.windows(2).find(|pair| pair[0].last >= pair[1].first) {
            Some(pair) => Err(AddressesError::Overlap(pair[0], pair[1])),
            None => Ok(Addresses(ranges)),
        }
    }
}

impl TryFrom<String> for Addresses {
    type Error = AddressesError;

    fn try_from(text: String) -> Result<Addresses, AddressesError> {
        text.parse()
    }
}

impl From<Addresses> for String {
    fn from(addresses: Addresses) -> String {
        addresses.to_string()
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first()),
            false => write!(f, "{}-{}", self.first(), self.last()),
        }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.0.iter().enumerate() {
            write!(f, "{}{range}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_counted_and_found() {
        let it: Addresses = "203.0.113.8/30, 192.0.2.1 ,198.51.100.5-198.51.100.6".parse().unwrap();
        assert_eq!(it.to_string(), "203.0.113.8-203.0.113.11, 192.0.2.1, 198.51.100.5-198.51.100.6");
        assert_eq!(it.len(), 7);
        assert_eq!(it.get4(4), Some([192, 0, 2, 1].into()));
        assert_eq!(it.get(7), None);
        assert_eq!(it.position4([198, 51, 100, 6].into()), Some(6));
        assert_eq!(it.position4([198, 51, 100, 7].into()), None);
        assert_eq!("::/0".parse::<Addresses>().unwrap().len(), u64::MAX);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("", "\"\" is neither"),
            ("1.2.3", "\"1.2.3\" is neither"),
            ("1.2.3.4-1.2.3.3", "does not run"),
            ("1.2.3.4-::5", "does not run"),
            ("10.0.0.0/8, 10.1.1.1", "have addresses in common"),
        ] {
            let error = text.parse::<Addresses>().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9a-f:./, -]{0,40}") {
            if let Ok(addresses) = text.parse::<Addresses>() {
                prop_assert_eq!(addresses.to_string().parse::<Addresses>(), Ok(addresses));
            }
        }
    }
}
