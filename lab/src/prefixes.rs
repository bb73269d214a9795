//! Route tables like those of the Internet, the same ones at every run.
//!
//! The lengths are mixed as in the global BGP tables, and prefixes cluster as they do there: most
//! longer ones lie inside a shorter one. Beside them are those that only the network itself knows:
//! customers' subnets, links, and hosts (loopbacks, members of an exchange, blackholes) by the ten
//! thousand, most of them in few networks. Structures for longest-prefix match live or die by
//! exactly these properties.

use std::collections::HashSet;

use ipnet::{Ipv4Net, Ipv6Net};

/// Length and share, in parts of their sum. The shorter ones come first, so that longer ones can
/// lie inside them.
const MIX4: &[(u8, u32)] = &[
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
    (22, 10000),
    (23, 10000),
    (24, 60000),
    (25, 150),
    (26, 200),
    (27, 200),
    (28, 250),
    (29, 350),
    (30, 400),
    (31, 300),
    (32, 1600),
];
const MIX6: &[(u8, u32)] = &[
    (28, 500),
    (29, 3000),
    (30, 500),
    (32, 13000),
    (33, 2000),
    (34, 1000),
    (35, 1000),
    (36, 5000),
    (37, 1000),
    (38, 1000),
    (39, 1000),
    (40, 9000),
    (41, 1000),
    (42, 2000),
    (43, 1000),
    (44, 12000),
    (45, 2000),
    (46, 3000),
    (47, 3000),
    (48, 46000),
    (52, 200),
    (56, 800),
    (60, 200),
    (64, 1000),
    (127, 300),
    (128, 1500),
];
/// The longest that networks tell each other.
const GLOBAL: [u8; 2] = [24, 48];
/// Longer ones lie in so many networks of the last length that is told: half of the customers'
/// subnets, nearly all links and hosts.
const INNER: usize = 256;
/// The least length of a link.
const LINK: [u8; 2] = [30, 127];
/// The first 16 bits of the blocks that the registries give IPv6 addresses from.
const BLOCKS6: &[u16] = &[
    0x2001, 0x2400, 0x2401, 0x2402, 0x2403, 0x2404, 0x2405, 0x2406, 0x2407, 0x2600, 0x2601, 0x2602, 0x2603,
    0x2604, 0x2605, 0x2606, 0x2607, 0x2800, 0x2801, 0x2803, 0x2804, 0x2806, 0x2a00, 0x2a01, 0x2a02, 0x2a03,
    0x2a04, 0x2a05, 0x2a06, 0x2a07, 0x2a09, 0x2a0a, 0x2a0b, 0x2a0c, 0x2a0d, 0x2a0e, 0x2a0f, 0x2a10, 0x2a11,
    0x2a12, 0x2a13, 0x2a14, 0x2c0e, 0x2c0f,
];

/// `count` different IPv4 prefixes of unicast addresses, in a random order; none inside 10.0.0.0/8,
/// 127.0.0.0/8 or the documentation blocks, which are left to the labs' own links.
pub fn ipv4(count: usize, random: &mut Random) -> Vec<Ipv4Net> {
    let mut seen = HashSet::with_capacity(count);
    let mut routes: Vec<(u32, u8)> = Vec::with_capacity(count);
    let mut global = 0;
    for (length, want) in shares(MIX4, count) {
        let want = want.min((1usize << length) * 7 / 10);
        let mut made = 0;
        while made < want {
            let bits = random.next() as u32;
            let address = if length > 16 && (length > GLOBAL[0] || random.chance(70)) {
                let (around, shorter) = routes[surrounding(routes.len(), global, inner(length, 0), random)];
                if shorter >= length {
                    continue;
                }
                around | bits >> shorter
            } else {
                bits
            } & mask4(length);
            if usable4(address, length) && seen.insert((address, length)) {
                routes.push((address, length));
                made += 1;
            }
        }
        if length <= GLOBAL[0] {
            global = routes.len();
        }
    }
    random.shuffle(&mut routes);
    routes.into_iter().filter_map(|(address, length)| Ipv4Net::new(address.into(), length).ok()).collect()
}

/// `count` different global IPv6 prefixes, in a random order; none inside 2001:db8::/32, which is
/// left to the labs.
pub fn ipv6(count: usize, random: &mut Random) -> Vec<Ipv6Net> {
    let mut seen = HashSet::with_capacity(count);
    let mut routes: Vec<(u128, u8)> = Vec::with_capacity(count);
    let mut global = 0;
    for (length, want) in shares(MIX6, count) {
        let mask = u128::MAX << (128 - length);
        let mut made = 0;
        while made < want {
            let random_bits = u128::from(random.next()) << 64 | u128::from(random.next());
            let bits = if length > 32 && (length > GLOBAL[1] || random.chance(85)) {
                let (around, shorter) = routes[surrounding(routes.len(), global, inner(length, 1), random)];
                if shorter >= length {
                    continue;
                }
                around | random_bits >> shorter
            } else {
                u128::from(BLOCKS6[random.below(BLOCKS6.len())]) << 112 | random_bits >> 16
            } & mask;
            if bits >> 96 != 0x2001_0db8 && seen.insert((bits, length)) {
                routes.push((bits, length));
                made += 1;
            }
        }
        if length <= GLOBAL[1] {
            global = routes.len();
        }
    }
    random.shuffle(&mut routes);
    routes.into_iter().filter_map(|(bits, length)| Ipv6Net::new(bits.into(), length).ok()).collect()
}

/// How many in a hundred of this length, of a family, lie in the inner networks; `None`: it is told
/// to others, and lies anywhere.
fn inner(length: u8, family: usize) -> Option<usize> {
    (length > GLOBAL[family]).then_some(if length < LINK[family] { 50 } else { 97 })
}

/// Which of the routes a new one lies in: of `all`, the first `global` are known everywhere, in the
/// order of their lengths.
fn surrounding(all: usize, global: usize, inner: Option<usize>, random: &mut Random) -> usize {
    match inner {
        Some(percent) if random.chance(percent) => global - 1 - random.below(INNER.min(global)),
        Some(_) => random.below(global),
        None => random.below(all),
    }
}

/// How many of each length; the rest of the division goes to the most frequent one.
fn shares(mix: &[(u8, u32)], count: usize) -> Vec<(u8, usize)> {
    let total: usize = mix.iter().map(|&(_, parts)| parts as usize).sum();
    let mut shares: Vec<_> =
        mix.iter().map(|&(length, parts)| (length, count * parts as usize / total)).collect();
    let given: usize = shares.iter().map(|(_, n)| n).sum();
    if let Some((_, most)) = shares.iter_mut().max_by_key(|(_, n)| *n) {
        *most += count - given;
    }
    shares
}

fn mask4(length: u8) -> u32 {
    u32::MAX << (32 - length)
}

fn usable4(address: u32, length: u8) -> bool {
    let first = address >> 24;
    let reserved =
        [(0xC000_0200, 24), (0xC633_6400, 24), (0xCB00_7100, 24), (0xC612_0000, 15), (0xA9FE_0000, 16)];
    let overlaps = |&(base, n): &(u32, u8)| (address ^ base) & mask4(length.min(n)) == 0;
    (1..=223).contains(&first) && first != 10 && first != 127 && !reserved.iter().any(overlaps)
}

/// An address inside a prefix, as a number.
pub fn inside4(net: Ipv4Net, random: &mut Random) -> u32 {
    net.network().to_bits() | random.next() as u32 & net.hostmask().to_bits()
}

/// An address inside a prefix, as a number.
pub fn inside6(net: Ipv6Net, random: &mut Random) -> u128 {
    let host = u128::from(random.next()) << 64 | u128::from(random.next());
    net.network().to_bits() | host & net.hostmask().to_bits()
}

pub use chance::Random;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_as_many_different_prefixes_as_asked_for_and_the_same_ones_again() {
        let (v4, v6) = (ipv4(100_000, &mut Random(1)), ipv6(50_000, &mut Random(1)));
        assert_eq!(v4.iter().collect::<HashSet<_>>().len(), 100_000);
        assert_eq!(v6.iter().collect::<HashSet<_>>().len(), 50_000);
        assert_eq!((v4[99], v6[99]), (ipv4(100_000, &mut Random(1))[99], ipv6(50_000, &mut Random(1))[99]));
        assert!(v4.iter().all(|p| p.trunc() == *p) && v6.iter().all(|p| p.trunc() == *p));
    }

    #[test]
    fn hosts_and_links_are_among_them_most_in_few_networks() {
        let nets = ipv4(1_000_000, &mut Random(1));
        let hosts: Vec<&Ipv4Net> = nets.iter().filter(|net| net.prefix_len() > 24).collect();
        assert!((25_000..40_000).contains(&hosts.len()), "{}", hosts.len());
        let mut homes: Vec<u32> = hosts.iter().map(|net| net.network().to_bits() >> 8).collect();
        homes.sort_unstable();
        homes.dedup();
        assert!((5_000..9_000).contains(&homes.len()), "{}", homes.len());
        let long = |net: &&Ipv6Net| net.prefix_len() > 64;
        assert!(ipv6(240_000, &mut Random(1)).iter().filter(long).count() > 3000);
    }

    #[test]
    fn leaves_the_labs_own_addresses_alone() {
        let kept: Vec<Ipv4Net> =
            ["10.0.0.0/8", "192.0.2.0/24", "198.18.0.0/15"].map(|p| p.parse().unwrap()).to_vec();
        let clash = |p: &Ipv4Net| kept.iter().any(|k| k.contains(p) || p.contains(k));
        assert!(!ipv4(200_000, &mut Random(2)).iter().any(clash));
    }
}
