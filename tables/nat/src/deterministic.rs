//! Blocks of ports by arithmetic alone (RFC 7422): the address outside and the ports of a
//! subscriber follow from its address inside, and the subscriber from address and port, so that a
//! carrier need log nothing.
//!
//! The outside addresses are cut into blocks of `size` ports from `first` on; the n-th address
//! inside has the n-th block: that is RFC 7422, 2's "sequential" assignment.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::addresses::Addresses;

/// An arithmetic that has a block for every address inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deterministic {
    /// The subscribers.
    pub inside: Ipv4Net,
    /// The addresses outside.
    pub outside: Addresses,
    /// The lowest port of the first block.
    pub first: u16,
    /// Ports of a block, at least 1.
    pub size: u16,
}

/// Why there is no such arithmetic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeterministicError {
    /// A block of none, or of more than there are.
    #[error("blocks of {size} ports from {first} on do not fit below 65,536")]
    Size {
        /// Ports of a block.
        size: u16,
        /// The first port.
        first: u16,
    },
    /// The pool is too small.
    #[error(
        "{inside} has {subscribers} addresses, but {addresses} addresses of {blocks} blocks hold only {room}"
    )]
    Room {
        /// The subscribers' prefix.
        inside: Ipv4Net,
        /// Addresses in it.
        subscribers: u64,
        /// Addresses outside.
        addresses: u64,
        /// Blocks of each.
        blocks: u64,
        /// Their product.
        room: u64,
    },
    /// Blocks are of IPv4 only.
    #[error("deterministic blocks are of IPv4 addresses")]
    Family,
}

/// What a subscriber has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// The subscriber.
    pub inside: Ipv4Addr,
    /// Its address outside.
    pub outside: Ipv4Addr,
    /// Its lowest port.
    pub low: u16,
    /// Its highest port.
    pub high: u16,
}

impl Block {
    /// The ports.
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.low..=self.high
    }
}

impl Deterministic {
    /// Checks that every address inside has a block.
    pub fn new(
        inside: Ipv4Net,
        outside: Addresses,
        first: u16,
        size: u16,
    ) -> Result<Deterministic, DeterministicError> {
        let it = Deterministic { inside: inside.trunc(), outside, first, size };
        if size == 0 || it.blocks() == 0 {
            return Err(DeterministicError::Size { size, first });
        }
        if it.outside.ranges().iter().any(|range| range.is_ipv6()) {
            return Err(DeterministicError::Family);
        }
        let subscribers = 1u64 << (32 - inside.prefix_len());
        let (addresses, blocks) = (it.outside.len(), it.blocks());
        let room = addresses.saturating_mul(blocks);
        if subscribers > room {
            return Err(DeterministicError::Room { inside: it.inside, subscribers, addresses, blocks, room });
        }
        Ok(it)
    }

    /// Blocks of each address outside.
    pub fn blocks(&self) -> u64 {
        (65_536 - u64::from(self.first)) / u64::from(self.size.max(1))
    }

    /// The block of a subscriber; `None` for an address that is none.
    pub fn block(&self, inside: Ipv4Addr) -> Option<Block> {
        if !self.inside.contains(&inside) {
            return None;
        }
        let index = u64::from(u32::from(inside) - u32::from(self.inside.network()));
        let outside = self.outside.get4(index / self.blocks())?;
        let low = u64::from(self.first) + index % self.blocks() * u64::from(self.size);
        // Invariant of both: the last block ends below 65,536.
        Some(Block { inside, outside, low: low as u16, high: (low + u64::from(self.size) - 1) as u16 })
    }

    /// Whose block this address and port are in; `None` where there is no subscriber.
    pub fn subscriber(&self, outside: Ipv4Addr, port: u16) -> Option<Block> {
        let address = self.outside.position4(outside)?;
        let block = u64::from(port.checked_sub(self.first)?) / u64::from(self.size);
        if block >= self.blocks() {
            return None;
        }
        let index = u32::try_from(address * self.blocks() + block).ok()?;
        let inside = Ipv4Addr::from(u32::from(self.inside.network()).checked_add(index)?);
        self.block(inside)
    }

    /// The one line to log when the arithmetic begins to hold (RFC 7422, 3): all that is needed to
    /// invert it later.
    pub fn log_line(&self) -> String {
        format!(
            "deterministic-nat sequential inside={} outside={} first-port={} block-size={} blocks-per-address={}",
            self.inside,
            self.outside,
            self.first,
            self.size,
            self.blocks()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(
        inside: &str,
        outside: &str,
        first: u16,
        size: u16,
    ) -> Result<Deterministic, DeterministicError> {
        Deterministic::new(inside.parse().unwrap(), outside.parse().unwrap(), first, size)
    }

    #[test]
    fn blocks_follow_each_other() {
        let it = blocks("100.64.0.0/24", "203.0.113.1-203.0.113.8", 1024, 2016).unwrap();
        assert_eq!(it.blocks(), 32);
        let block = it.block([100, 64, 0, 33].into()).unwrap();
        assert_eq!((block.outside, block.ports()), ([203, 0, 113, 2].into(), 3040..=5055));
        assert_eq!(it.subscriber([203, 0, 113, 2].into(), 3040), Some(block.clone()));
        assert_eq!(it.subscriber([203, 0, 113, 2].into(), 5055), Some(block));
        assert_eq!(it.subscriber([203, 0, 113, 2].into(), 1023), None);
        assert_eq!(it.subscriber([203, 0, 113, 9].into(), 3040), None);
        assert_eq!(it.block([100, 64, 1, 0].into()), None);
        assert_eq!(
            it.log_line(),
            "deterministic-nat sequential inside=100.64.0.0/24 outside=203.0.113.1-203.0.113.8 first-port=1024 \
             block-size=2016 blocks-per-address=32"
        );
    }

    #[test]
    fn a_subscriber_without_a_block_is_refused() {
        assert!(matches!(
            blocks("100.64.0.0/24", "203.0.113.1-203.0.113.7", 1024, 2016),
            Err(DeterministicError::Room { subscribers: 256, room: 224, .. })
        ));
        assert!(matches!(
            blocks("100.64.0.0/32", "203.0.113.1", 1024, 0),
            Err(DeterministicError::Size { .. })
        ));
        assert!(blocks("100.64.0.0/32", "203.0.113.1", 60_000, 6000).is_err());
        assert_eq!(blocks("100.64.0.0/32", "2001:db8::1", 1024, 64), Err(DeterministicError::Family));
    }

    proptest! {
        #[test]
        fn no_two_share_a_port_and_both_ways_agree(length in 20u8..=32, first: u16, size in 1u16.., a: u32, b: u32) {
            let inside = Ipv4Net::new([100, 64, 0, 0].into(), length).unwrap();
            if let Ok(it) = Deterministic::new(inside, "203.0.112.0/23, 198.51.100.7".parse().unwrap(), first, size) {
                let host = |n: u32| Ipv4Addr::from(u32::from(inside.network()) | n & u32::from(inside.hostmask()));
                let (a, b) = (it.block(host(a)).unwrap(), it.block(host(b)).unwrap());
                prop_assert_eq!(a.ports().count(), usize::from(size));
                prop_assert!(a.low >= first);
                prop_assert!(a.inside == b.inside || a.outside != b.outside || a.high < b.low || b.high < a.low);
                prop_assert_eq!(it.subscriber(a.outside, a.low), Some(a.clone()));
                prop_assert_eq!(it.subscriber(a.outside, a.high), Some(a));
            }
        }
    }
}
