//! The flow hash: which of several equal paths a packet takes.
//!
//! All packets of a flow must get the same number, in both lanes: `forwarding/bpf/hash.h` is this
//! file in C, bit for bit. A flow is the two addresses and the protocol, and the two ports where
//! every packet of the flow is sure to show them: not in fragments (the later ones have no ports),
//! and in IPv6 only directly behind the fixed header.
//!
//! Nobody outside is to know which numbers it makes, or they would send all their flows by one
//! path, or push others out of a table that is found by it. So there is a key, one for the whole
//! program: it is set before anything is hashed ([`set_flow_key`]), and the driver's programs are
//! loaded with the same. That makes it hard to aim at a path, not to find one: it is no code for
//! secrets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::protocol::has_ports;

static KEY: AtomicU64 = AtomicU64::new(0);

/// The key of the flow hash; 0 until one is set.
#[inline(always)]
pub fn flow_key() -> u64 {
    KEY.load(Relaxed)
}

/// Sets the key of the flow hash, made of a text: before the first packet, for flows change their
/// paths by it.
pub fn set_flow_key(text: &str) {
    let words = text.as_bytes().chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    });
    KEY.store(words.fold(mix(text.len() as u64 + 1), |key, word| mix(key ^ word)), Relaxed);
}

#[inline(always)]
const fn mix(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ x >> 32
}

#[inline(always)]
const fn finish(addresses: u64, protocol: u8, ports: u32) -> u32 {
    let p = (protocol as u64) << 32 | ports as u64;
    (mix(mix(addresses) ^ p) >> 16) as u32
}

/// The hash of an IPv4 flow. `ports` is `source << 16 | destination`, or 0 where there are none.
#[inline(always)]
pub fn flow_hash4(source: u32, destination: u32, protocol: u8, ports: u32) -> u32 {
    hash4(flow_key(), source, destination, protocol, ports)
}

/// The hash of an IPv6 flow; the arguments as in [`flow_hash4`].
#[inline(always)]
pub fn flow_hash6(source: u128, destination: u128, next_header: u8, ports: u32) -> u32 {
    hash6(flow_key(), source, destination, next_header, ports)
}

#[inline(always)]
const fn hash4(key: u64, source: u32, destination: u32, protocol: u8, ports: u32) -> u32 {
    finish(((source as u64) << 32 | destination as u64) ^ key, protocol, ports)
}

/// The key comes first: addresses that come to the same behind it could be computed.
#[inline(always)]
const fn hash6(key: u64, source: u128, destination: u128, next_header: u8, ports: u32) -> u32 {
    let mut a = mix((source >> 64) as u64 ^ key) ^ (source as u64).rotate_left(17);
    a = mix(a) ^ (destination >> 64) as u64;
    a = mix(a) ^ destination as u64;
    finish(a, next_header, ports)
}

/// The hash of a packet that starts at its IP header; 0 for what is neither IPv4 nor IPv6 or is cut
/// short in the fixed header.
#[inline]
pub fn flow_hash(packet: &[u8]) -> u32 {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 => {
            let header = usize::from(packet[0] & 15) * 4;
            let fragment = crate::u16_at(packet, 6) & 0x3fff != 0;
            let ports = ports(packet, header, packet[9], fragment);
            flow_hash4(crate::u32_at(packet, 12), crate::u32_at(packet, 16), packet[9], ports)
        }
        Some(6) if packet.len() >= 40 => {
            let address = |at: usize| {
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&packet[at..at + 16]);
                u128::from_be_bytes(bytes)
            };
            flow_hash6(address(8), address(24), packet[6], ports(packet, 40, packet[6], false))
        }
        _ => 0,
    }
}

#[inline(always)]
fn ports(packet: &[u8], header: usize, protocol: u8, fragment: bool) -> u32 {
    if has_ports(protocol) && !fragment && packet.len() >= header + 4 {
        crate::u32_at(packet, header)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(protocol: u8, fragment: u16) -> [u8; 24] {
        let mut packet = [0; 24];
        packet[0] = 0x45;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
        packet[16..20].copy_from_slice(&[192, 0, 2, 7]);
        packet[20..24].copy_from_slice(&[0x30, 0x39, 0, 53]);
        packet
    }

    #[test]
    fn ports_count_only_where_every_packet_of_the_flow_shows_them() {
        let (source, destination) = (0x0a00_0001, 0xc000_0207);
        assert_eq!(flow_hash(&v4(17, 0)), flow_hash4(source, destination, 17, 0x3039_0035));
        assert_eq!(flow_hash(&v4(17, 0x4000)), flow_hash4(source, destination, 17, 0x3039_0035));
        assert_eq!(flow_hash(&v4(17, 0x2000)), flow_hash4(source, destination, 17, 0));
        assert_eq!(flow_hash(&v4(17, 0x00b9)), flow_hash4(source, destination, 17, 0));
        assert_eq!(flow_hash(&v4(1, 0)), flow_hash4(source, destination, 1, 0));
        assert_eq!(flow_hash(&v4(17, 0)[..23]), flow_hash4(source, destination, 17, 0));
    }

    /// Fixed numbers: routers that share a key choose alike, whatever their version.
    #[test]
    fn fixed_values() {
        assert_eq!(hash4(0, 0x0a00_0001, 0xc000_0207, 17, 0x3039_0035), 0x5f62_a670);
        assert_eq!(hash6(0, 0x2001_0db8 << 96 | 1, 0x2001_0db8 << 96 | 2, 6, 0x01bb_8000), 0x555d_7c22);
    }

    /// Flows that one key sends by one of two paths, another spreads over both.
    #[test]
    fn who_does_not_know_the_key_cannot_choose_the_path() {
        let (mut four, mut six) = (0, 0);
        for flow in 0..40_000u32 {
            let (to, wide) = (0xc633_6400, 0x2001_0db8 << 96);
            if hash4(0, flow, to, 6, flow) & 1 == 0 {
                four += hash4(0x1234_5678_9abc_def0, flow, to, 6, flow) & 1;
            }
            let source = wide | u128::from(flow);
            if hash6(0, source, wide, 6, flow) & 1 == 0 {
                six += hash6(0x1234_5678_9abc_def0, source, wide, 6, flow) & 1;
            }
        }
        assert!((9_500..10_500).contains(&four) && (9_500..10_500).contains(&six), "{four} {six}");
    }

    #[test]
    fn flows_spread_evenly_over_eight_paths() {
        let mut counts = [0u32; 8];
        for flow in 0..80_000u32 {
            counts[(flow_hash4(0x0a00_0000 + flow % 100, 0xc633_6400 + flow / 10_000, 6, flow) & 7)
                as usize] += 1;
        }
        for count in counts {
            assert!((9_500..10_500).contains(&count), "{counts:?}");
        }
    }
}
