//! Records for tests: every kind there is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::record::{Counts, Endpoints, ICMP, ICMP6, Interface, Key, Name, Reason, Record, TCP, UDP};

/// 2026-11-21 17:00:00.123456789 UTC.
pub const NOON: u64 = 1_795_280_400_123_456_789;

/// The n-th of a fixed series in which every kind appears.
pub fn record(n: u64) -> Record {
    let six = n % 4 == 1;
    let four = |last: u8, net: u8| IpAddr::V4(Ipv4Addr::new(198, 18, net, last));
    let long = |last: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
    let low = (n % 200) as u8;
    let protocol = match (n % 5, six) {
        (0, true) => ICMP6,
        (0, false) => ICMP,
        (1 | 2, _) => TCP,
        _ => UDP,
    };
    let icmp = matches!(protocol, ICMP | ICMP6);
    let key = Key {
        source: if six { long(u16::from(low)) } else { four(low, 0) },
        destination: if six { long(0x100 + u16::from(low)) } else { four(low, 1) },
        source_port: 1024 + (n % 60_000) as u16,
        destination_port: if icmp { 1024 + (n % 60_000) as u16 } else { [443, 53, 22][(n % 3) as usize] },
        protocol,
        icmp_type: match protocol {
            ICMP => 8,
            ICMP6 => 128,
            _ => 0,
        },
        icmp_code: 0,
        table: (n % 2) as u32 * 254,
    };
    let translated = n.is_multiple_of(3).then(|| Endpoints {
        source: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)),
        // NAT64 when the key is of IPv6.
        destination: if six { four(low, 1) } else { key.destination },
        source_port: 40_000 + (n % 10_000) as u16,
        destination_port: key.destination_port,
    });
    let start = NOON + n * 1_000_003;
    let flags = |flags| if protocol == TCP { flags } else { 0 };
    Record {
        flow: n,
        slice: (n % 3) as u32,
        key,
        start,
        end: start + (n % 50) * 100_000_007,
        forward: Counts { packets: 1 + n % 100, bytes: 64 * (1 + n % 100), tcp_flags: flags(0x1b) },
        reply: match n % 7 {
            0 => Counts::default(),
            _ => Counts { packets: 2 + n % 100, bytes: 1500 * (2 + n % 100), tcp_flags: flags(0x13) },
        },
        reason: [
            Some(Reason::Idle),
            Some(Reason::Active),
            Some(Reason::End),
            Some(Reason::Forced),
            Some(Reason::Resources),
        ][(n % 5) as usize],
        input: Interface { index: 2, name: Name::new("lan0") },
        output: Interface { index: 3, name: Name::new("wan0") },
        next_hop: match n % 4 {
            0 => Some(four(254, 1)),
            1 => Some(long(0xffff)),
            2 => Some("fe80::1".parse().unwrap()),
            _ => None,
        },
        translated,
        source_as: if n.is_multiple_of(2) { 64_500 } else { 0 },
        destination_as: 4_200_000_000 + (n % 10) as u32,
    }
}

/// The first of the series.
pub fn records(count: u64) -> Vec<Record> {
    (0..count).map(record).collect()
}
