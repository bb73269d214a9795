//! Route tables as the Internet has them: its mix of prefix lengths, and its clustering (70 % of the longer IPv4
//! prefixes, 85 % of the IPv6 ones, lie inside a shorter one). Deterministic.

use crate::random::Random;
use ipnet::{Ipv4Net, Ipv6Net};
use std::collections::HashSet;

/// Parts in 100,000 of each length.
const MIX4: &[(u8, usize)] = &[
    (8, 2),
    (9, 5),
    (10, 30),
    (11, 60),
    (12, 200),
    (13, 300),
    (14, 400),
    (15, 500),
    (16, 2000),
    (17, 1500),
    (18, 2000),
    (19, 3000),
    (20, 5000),
    (21, 5000),
    (22, 10_000),
    (23, 10_000),
    (24, 60_000),
];

/// Parts in 1,080 of each length.
const MIX6: &[(u8, usize)] = &[
    (28, 5),
    (29, 30),
    (30, 5),
    (32, 130),
    (33, 20),
    (34, 10),
    (35, 10),
    (36, 50),
    (37, 10),
    (38, 10),
    (39, 10),
    (40, 90),
    (41, 10),
    (42, 20),
    (43, 10),
    (44, 120),
    (45, 20),
    (46, 30),
    (47, 30),
    (48, 460),
];

/// The first 16 bits of what the registries have given out.
const ALLOCATED6: &[u16] = &[
    0x2001, 0x2400, 0x2401, 0x2402, 0x2403, 0x2404, 0x2405, 0x2406, 0x2407, 0x2600, 0x2601, 0x2602, 0x2603,
    0x2604, 0x2605, 0x2606, 0x2607, 0x2800, 0x2801, 0x2803, 0x2804, 0x2806, 0x2a00, 0x2a01, 0x2a02, 0x2a03,
    0x2a04, 0x2a05, 0x2a06, 0x2a07, 0x2a09, 0x2a0a, 0x2a0b, 0x2a0c, 0x2a0d, 0x2a0e, 0x2a0f, 0x2a10, 0x2a11,
    0x2a12, 0x2a13, 0x2a14, 0x2c0e, 0x2c0f,
];

/// About `count` IPv4 prefixes, in random order.
pub fn ipv4(count: usize, random: &mut Random) -> Vec<Ipv4Net> {
    let total: usize = MIX4.iter().map(|(_, parts)| parts).sum();
    let mut seen = HashSet::new();
    let mut routes: Vec<(u32, u8)> = Vec::new();
    for &(length, parts) in MIX4 {
        // Not more than 80 % of all networks of a length.
        let wanted = (count * parts / total).min((1 << length) * 4 / 5);
        let mut made = 0;
        while made < wanted {
            let bits = random.next() as u32;
            let address = if length > 16 && random.chance(70) {
                let (around, shorter) = routes[random.below(routes.len())];
                if shorter >= length {
                    continue;
                }
                around | bits >> shorter
            } else {
                bits
            } >> (32 - length)
                << (32 - length);
            let usable = matches!(address >> 24, 1..=223) && !matches!(address >> 24, 10 | 127);
            if usable && seen.insert((address, length)) {
                routes.push((address, length));
                made += 1;
            }
        }
    }
    random.shuffle(&mut routes);
    // Invariant: lengths are at most 24.
    routes.into_iter().map(|(address, length)| Ipv4Net::new_assert(address.into(), length)).collect()
}

/// About `count` IPv6 prefixes, in random order.
pub fn ipv6(count: usize, random: &mut Random) -> Vec<Ipv6Net> {
    let total: usize = MIX6.iter().map(|(_, parts)| parts).sum();
    let mut seen = HashSet::new();
    let mut routes: Vec<(u128, u8)> = Vec::new();
    for &(length, parts) in MIX6 {
        let mut made = 0;
        while made < count * parts / total {
            let bits = u128::from(random.next()) << 64;
            let address = if length > 32 && random.chance(85) {
                let (around, shorter) = routes[random.below(routes.len())];
                if shorter >= length {
                    continue;
                }
                around | bits >> shorter
            } else {
                let top = ALLOCATED6[random.below(ALLOCATED6.len())];
                u128::from(top) << 112 | bits >> 16
            } >> (128 - length)
                << (128 - length);
            if seen.insert((address, length)) {
                routes.push((address, length));
                made += 1;
            }
        }
    }
    random.shuffle(&mut routes);
    // Invariant: lengths are at most 48.
    routes.into_iter().map(|(address, length)| Ipv6Net::new_assert(address.into(), length)).collect()
}

/// An address inside a prefix.
pub fn inside4(net: Ipv4Net, random: &mut Random) -> u32 {
    net.network().to_bits() | random.next() as u32 & net.hostmask().to_bits()
}

/// An address inside a prefix.
pub fn inside6(net: Ipv6Net, random: &mut Random) -> u128 {
    let host = u128::from(random.next()) << 64 | u128::from(random.next());
    net.network().to_bits() | host & net.hostmask().to_bits()
}
