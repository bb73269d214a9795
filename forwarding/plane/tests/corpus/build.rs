//! How frames are made: headers in order, checksums right.

use std::net::IpAddr;

use fib::PortId;
use wire::checksum::{self, Sum};
use wire::{Mac, ethernet, ipv4, ipv6, protocol};

use super::IN;

/// The router's link addresses, inside and outside.
pub const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 1, 2])];
/// The neighbour's, on either side.
pub const HOST: Mac = Mac([2, 0, 0, 0, 0, 9]);
/// Another neighbour's, outside.
pub const OTHER: Mac = Mac([2, 0, 0, 0, 0, 8]);

/// Where the sum of an upper layer's header stands.
fn field(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP => Some(16),
        protocol::UDP | protocol::UDP_LITE => Some(6),
        protocol::ICMP | protocol::ICMP6 => Some(2),
        _ => None,
    }
}

/// The upper layer with its sum, if it has one and is long enough for it.
pub fn summed(hosts: [&str; 2], protocol: u8, mut upper: Vec<u8>) -> Vec<u8> {
    if protocol == protocol::SCTP && upper.len() >= 12 {
        let sum = crc32c(&upper).to_le_bytes();
        upper[8..12].copy_from_slice(&sum);
    }
    let Some(at) = field(protocol).filter(|at| at + 2 <= upper.len()) else { return upper };
    let pseudo = match hosts.map(|host| host.parse().unwrap()) {
        [IpAddr::V4(_), IpAddr::V4(_)] if protocol == protocol::ICMP => Sum::new(),
        [IpAddr::V4(from), IpAddr::V4(to)] => {
            checksum::pseudo4(from.into(), to.into(), protocol, upper.len() as u16)
        }
        [IpAddr::V6(from), IpAddr::V6(to)] => {
            checksum::pseudo6(from.into(), to.into(), protocol, upper.len() as u32)
        }
        _ => unreachable!("both of one family"),
    };
    upper[at..at + 2].fill(0);
    let sum = !pseudo.with(&upper).fold();
    upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    upper
}

/// A packet of either family.
pub fn packet(hosts: [&str; 2], protocol: u8, ttl: u8, upper: Vec<u8>) -> Vec<u8> {
    let upper = summed(hosts, protocol, upper);
    raw(hosts, protocol, ttl, &upper)
}

/// The same, with an upper layer as it is.
pub fn raw(hosts: [&str; 2], protocol: u8, ttl: u8, upper: &[u8]) -> Vec<u8> {
    match hosts.map(|host| host.parse().unwrap()) {
        [IpAddr::V4(from), IpAddr::V4(to)] => {
            let repr = ipv4::Repr { ttl, protocol, ..ipv4::Repr::new(from, to) };
            [&repr.header(upper.len())[..], upper].concat()
        }
        [IpAddr::V6(from), IpAddr::V6(to)] => {
            let repr = ipv6::Repr { hop_limit: ttl, next_header: protocol, ..ipv6::Repr::new(from, to) };
            [&repr.header(upper.len())[..], upper].concat()
        }
        _ => unreachable!("both of one family"),
    }
}

/// The frame of a packet that comes in by this port.
pub fn frame(input: PortId, packet: &[u8]) -> Vec<u8> {
    let ether_type = if packet[0] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
    typed(input, ether_type, packet)
}

/// The same, of another type.
pub fn typed(input: PortId, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let destination = MACS[usize::from(input != IN)];
    let link = ethernet::Repr { destination, source: HOST, ether_type };
    [&link.header()[..], payload].concat()
}

pub fn tcp(ports: [u16; 2], numbers: [u32; 2], flags: u8, data: usize) -> Vec<u8> {
    let mut upper = ports.map(u16::to_be_bytes).concat();
    upper.extend(numbers.map(u32::to_be_bytes).concat());
    upper.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    upper.extend(filling(data));
    upper
}

pub fn udp(ports: [u16; 2], data: usize) -> Vec<u8> {
    let mut upper = ports.map(u16::to_be_bytes).concat();
    upper.extend((8 + data as u16).to_be_bytes());
    upper.extend([0, 0]);
    upper.extend(filling(data));
    upper
}

/// A message of ICMP of either family.
pub fn icmp(kind: u8, code: u8, word: u32, data: &[u8]) -> Vec<u8> {
    [&[kind, code, 0, 0][..], &word.to_be_bytes(), data].concat()
}

pub fn filling(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + length) as u8).collect()
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 != 0 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}
