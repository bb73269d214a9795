//! The keyed hash: an attacker who chooses addresses and ports, but does not know the key, gains
//! nothing.
//!
//! NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway: "UMAC: Fast and Secure Message
//! Authentication", CRYPTO 1999): over pairs of 32-bit words, the sum of (m1 + k1)(m2 + k2) in 64
//! bits. Two different messages collide with a chance of 2^-32 over the choice of the key, whatever
//! the messages (theorem 4.2 there). That says nothing of single bits of the sum, so a
//! multiplication with a secret odd number and the finisher of MurmurHash3 spread them.
//!
//! Two multiplications for IPv4, five for IPv6, none of more than 64 bits: it can be written in
//! eBPF as well. SipHash, of std's tables, costs several times that.

use crate::key::Key;
use std::hash::{BuildHasher, RandomState};

/// The secret of one table.
pub(crate) struct Hash {
    keys: [u32; 10],
    keys4: [u32; 4],
    finish: [u64; 2],
}

/// Where a key may stand, and what it is recognised by there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spot(u64);

/// The bits of a hash that are its tag.
const TAG: u64 = 0xff << 32;

impl Spot {
    #[cfg(test)]
    pub(crate) fn new(first: u32, second: u32) -> Spot {
        Spot::of(u64::from(second) << 32 | u64::from(first))
    }

    /// 0 is no tag: it marks what is free.
    #[inline(always)]
    fn of(hash: u64) -> Spot {
        Spot(hash | u64::from(hash & TAG == 0) << 32)
    }

    /// Two numbers that choose a bucket each: the high bits count.
    #[inline(always)]
    pub(crate) fn halves(self) -> [u32; 2] {
        [self.0 as u32, (self.0 >> 32) as u32]
    }

    /// 1 to 255.
    #[inline(always)]
    pub(crate) fn tag(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// Three more bits.
    #[inline(always)]
    pub(crate) fn more(self) -> u32 {
        self.0 as u32 & 7
    }
}

impl Hash {
    /// A new secret, from the system's randomness by way of std's hash state.
    pub(crate) fn new() -> Hash {
        let state = RandomState::new();
        let word = |index: usize| state.hash_one(index);
        Hash {
            keys: std::array::from_fn(|index| word(index) as u32),
            keys4: std::array::from_fn(|index| word(16 + index) as u32),
            finish: [word(32), word(33) | 1],
        }
    }

    /// What the driver's program must know to find what is found here.
    pub(crate) fn secret(&self) -> ([u32; 10], [u32; 4], [u64; 2]) {
        (self.keys, self.keys4, self.finish)
    }

    #[inline(always)]
    pub(crate) fn spot(&self, key: &Key) -> Spot {
        if key.is_ipv4() {
            return self.spread(self.sum4(key.addresses[0], key.ports, key.meta));
        }
        let k = &self.keys;
        let start = nh(0, [k[8], k[9]], key.ports, key.meta);
        let sum = (0..4).fold(start, |sum, i| {
            let word = key.addresses[i];
            nh(sum, [k[2 * i], k[2 * i + 1]], (word >> 32) as u32, word as u32)
        });
        self.spread(sum)
    }

    /// The same of a plain packet's key, by its parts.
    #[inline(always)]
    pub(crate) fn spot4(&self, (ends, ports, meta): (u64, u32, u32)) -> Spot {
        self.spread(self.sum4(ends, ports, meta))
    }

    #[inline(always)]
    fn sum4(&self, ends: u64, ports: u32, meta: u32) -> u64 {
        let k = &self.keys4;
        nh(nh(0, [k[0], k[1]], (ends >> 32) as u32, ends as u32), [k[2], k[3]], ports, meta)
    }

    #[inline(always)]
    fn spread(&self, sum: u64) -> Spot {
        let x = sum ^ self.finish[0];
        let x = (x ^ x >> 32).wrapping_mul(self.finish[1]);
        let x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        Spot::of(x ^ x >> 32)
    }
}

/// A step of NH.
#[inline(always)]
fn nh(sum: u64, keys: [u32; 2], first: u32, second: u32) -> u64 {
    let product = u64::from(first.wrapping_add(keys[0])) * u64::from(second.wrapping_add(keys[1]));
    sum.wrapping_add(product)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tuple;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Keys as an attacker would choose them: counting, one bit each, sums that stay the same.
    fn keys() -> Vec<Vec<Key>> {
        let tuple4 = |source: u32, destination: u32, from: u16, to: u16| {
            let address = |a: u32| Ipv4Addr::from(a).to_ipv6_mapped().octets();
            Key::of(&Tuple {
                source: address(source),
                destination: address(destination),
                source_port: from,
                destination_port: to,
                protocol: 6,
                table: 0,
            })
        };
        let tuple6 = |source: u128, destination: u128| {
            let address = |a: u128| Ipv6Addr::from(a).octets();
            Key::of(&Tuple {
                source: address(source),
                destination: address(destination),
                source_port: 1,
                destination_port: 2,
                protocol: 17,
                table: 7,
            })
        };
        let base = 0x2001_0db8_u128 << 96;
        vec![
            (0..65_536).map(|i| tuple4(0x0a00_0000 + i, 0xc000_0201, 1000, 80)).collect(),
            (0..65_536u32).map(|i| tuple4(0x0a00_0001, 0xc000_0201, i as u16, 80)).collect(),
            (0..65_536u32).map(|i| tuple4(0x0a00_0000 + i, 0xc0ff_ffff - i, 1000, 80)).collect(),
            (0..65_536u32).map(|i| tuple4(i << 16, 0xffff_ffff, (i >> 8) as u16, i as u16)).collect(),
            (0..65_536u128).map(|i| tuple6(base | i << 64, base | 1)).collect(),
            (0..65_536u128).map(|i| tuple6(base | i << 32 | i, base | 1)).collect(),
        ]
    }

    #[test]
    fn chosen_keys_fill_buckets_as_chance_would() {
        for keys in keys() {
            let hash = Hash::new();
            // 1,024 buckets of 64 keys on average each, chosen by either half; 256 tags of 256.
            let (mut halves, mut tags) = ([[0u32; 1024]; 2], [0u32; 256]);
            for key in &keys {
                let spot = hash.spot(key);
                for (counts, half) in halves.iter_mut().zip(spot.halves()) {
                    counts[(half >> 22) as usize] += 1;
                }
                tags[usize::from(spot.tag())] += 1;
            }
            // Chi-squared with 1,023 degrees of freedom has a standard deviation of 45; nine of
            // them are never seen.
            for counts in halves {
                let chi: f64 = counts.iter().map(|&count| (f64::from(count) - 64.0).powi(2) / 64.0).sum();
                assert!((620.0..1430.0).contains(&chi), "{chi}");
            }
            assert!(tags[2..].iter().all(|&count| (128..400).contains(&count)), "{tags:?}");
        }
    }

    #[test]
    fn each_table_has_its_own_secret() {
        let key = keys()[0][0];
        let spots: Vec<Spot> = (0..4).map(|_| Hash::new().spot(&key)).collect();
        assert!(spots.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
