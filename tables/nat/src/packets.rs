//! Packets for tests: of every protocol, both families, whole and in fragments, and their checksums
//! from scratch.

use proptest::prelude::*;
use wire::checksum::{self, pseudo4, pseudo6};
use wire::headers::unmapped;
use wire::{Fragment, Headers, icmp4, icmp6, ipv4, ipv6, protocol};

/// What a packet is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    pub version: u8,
    pub protocol: u8,
    pub source: [u8; 16],
    pub destination: [u8; 16],
    pub ports: [u16; 2],
    pub payload: Vec<u8>,
    /// UDP of IPv4 without checksum.
    pub bare: bool,
    /// IPv4 options or IPv6 destination options in front.
    pub options: bool,
    pub ttl: u8,
    pub tos: u8,
}

const PROTOCOLS: [u8; 8] = [
    protocol::TCP,
    protocol::UDP,
    protocol::UDP_LITE,
    protocol::DCCP,
    protocol::SCTP,
    protocol::ICMP,
    protocol::TCP,
    protocol::GRE,
];

/// An address of a family, from any bytes.
pub fn address(version: u8, octets: [u8; 16]) -> [u8; 16] {
    match version {
        4 => wire::headers::mapped([octets[0], octets[1], octets[2], octets[3]]),
        _ => {
            let mut octets = octets;
            octets[0] = 0x20;
            octets
        }
    }
}

/// Any plan of one of the versions.
pub fn plan(versions: &'static [u8]) -> impl Strategy<Value = Plan> {
    let addresses = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<[u16; 2]>());
    let payload = proptest::collection::vec(any::<u8>(), 0..100);
    let kind = (proptest::sample::select(versions), proptest::sample::select(&PROTOCOLS[..]));
    let flags = (any::<bool>(), any::<bool>(), any::<u8>(), any::<u8>());
    (addresses, payload, kind, flags).prop_map(|((source, destination, ports), payload, kind, flags)| {
        let (version, protocol) = kind;
        let (bare, options, ttl, tos) = flags;
        let protocol = if version == 6 && protocol == protocol::ICMP { protocol::ICMP6 } else { protocol };
        let ports = if matches!(protocol, protocol::ICMP | protocol::ICMP6) { [ports[0]; 2] } else { ports };
        Plan {
            version,
            protocol,
            source: address(version, source),
            destination: address(version, destination),
            ports,
            payload,
            bare: bare && version == 4,
            options,
            ttl,
            tos,
        }
    })
}

impl Plan {
    /// The upper layer with its checksum.
    fn upper(&self) -> Vec<u8> {
        let [source, destination] = self.ports.map(u16::to_be_bytes);
        let ports = [source, destination].concat();
        let (mut upper, at) = match self.protocol {
            protocol::TCP => {
                ([&ports[..], &[0, 0, 0, 1, 0, 0, 0, 2, 0x50, 16, 1, 0, 0, 0, 0, 0]].concat(), 16)
            }
            protocol::UDP => {
                let length = (8 + self.payload.len() as u16).to_be_bytes();
                ([&ports[..], &length, &[0, 0]].concat(), 6)
            }
            protocol::UDP_LITE => ([&ports[..], &[0, 0, 0, 0]].concat(), 6),
            protocol::DCCP => ([&ports[..], &[3, 0, 0, 0, 4, 0, 0, 1]].concat(), 6),
            protocol::SCTP => ([&ports[..], &[9, 9, 9, 9, 0, 0, 0, 0]].concat(), 8),
            protocol::ICMP => ([&[8, 0, 0, 0], &source[..], &[0, 1]].concat(), 2),
            protocol::ICMP6 => ([&[128, 0, 0, 0], &source[..], &[0, 1]].concat(), 2),
            _ => (vec![0, 0, 8, 0], 0),
        };
        upper.extend_from_slice(&self.payload);
        match self.protocol {
            protocol::GRE => {}
            protocol::SCTP => {
                let sum = crc32c::crc32c(&upper).to_le_bytes();
                upper[at..at + 4].copy_from_slice(&sum);
            }
            protocol::UDP if self.bare => {}
            other => {
                let sum = self.pseudo(upper.len()).with(&upper).finish();
                let stated = matches!(other, protocol::UDP | protocol::UDP_LITE);
                let sum = if stated { wire::udp::stated(sum) } else { sum };
                upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            }
        }
        upper
    }

    fn pseudo(&self, length: usize) -> checksum::Sum {
        pseudo(self.source, self.destination, self.protocol, length)
    }

    /// The packet.
    pub fn packet(&self) -> Vec<u8> {
        let upper = self.upper();
        self.around(self.protocol, &upper, 0, false)
    }

    /// The packet in fragments of `size` bytes, a multiple of 8.
    pub fn fragments(&self, size: usize) -> Vec<Vec<u8>> {
        let upper = self.upper();
        let last = upper.len().div_ceil(size) - 1;
        let parts = upper.chunks(size).enumerate();
        parts.map(|(n, part)| self.around(self.protocol, part, n * size / 8, n < last)).collect()
    }

    fn around(&self, protocol: u8, upper: &[u8], offset: usize, more: bool) -> Vec<u8> {
        let fragment = offset != 0 || more;
        if self.version == 4 {
            let address = |octets| unmapped(octets).unwrap().into();
            let repr = ipv4::Repr {
                tos: self.tos,
                id: 0x1234,
                fragment: offset as u16 | u16::from(more) << 13,
                ttl: self.ttl,
                protocol,
                ..ipv4::Repr::new(address(&self.source), address(&self.destination))
            };
            let options: &[u8] = if self.options { &[7, 7, 4, 0, 0, 0, 0, 0] } else { &[] };
            let mut header = repr.header(upper.len() + options.len()).to_vec();
            header.extend_from_slice(options);
            header[0] = 0x45 + options.len() as u8 / 4;
            ipv4::set_checksum(&mut header);
            return [&header[..], upper].concat();
        }
        let mut next = protocol;
        let mut front = Vec::new();
        if fragment {
            let word = (offset as u16) << 3 | u16::from(more);
            let [a, b] = word.to_be_bytes();
            front = vec![next, 0, a, b, 0, 0, 0x12, 0x34];
            next = protocol::FRAGMENT;
        }
        if self.options {
            front.splice(..0, [next, 0, 1, 4, 0, 0, 0, 0]);
            next = protocol::DESTINATION_OPTIONS;
        }
        let repr = ipv6::Repr {
            traffic_class: self.tos,
            flow_label: 0,
            next_header: next,
            hop_limit: self.ttl,
            ..ipv6::Repr::new(self.source.into(), self.destination.into())
        };
        [&repr.header(front.len() + upper.len())[..], &front, upper].concat()
    }

    /// An ICMP error from `router` that quotes `bytes` of what this plan's packet is, sent to its
    /// source.
    pub fn error(&self, router: [u8; 16], icmp_type: u8, code: u8, bytes: usize) -> Vec<u8> {
        let packet = self.packet();
        let quote = &packet[..bytes.min(packet.len())];
        let protocol = if self.version == 4 { protocol::ICMP } else { protocol::ICMP6 };
        let mut message = [&[icmp_type, code, 0, 0, 0, 0, 5, 0xdc], quote].concat();
        let back =
            Plan { source: router, destination: self.source, protocol, options: false, ..self.clone() };
        let sum = back.pseudo(message.len()).with(&message).finish();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        back.around(protocol, &message, 0, false)
    }
}

fn pseudo(source: [u8; 16], destination: [u8; 16], protocol: u8, length: usize) -> checksum::Sum {
    let number = |octets: &[u8; 16]| unmapped(octets).map(u32::from_be_bytes);
    match (number(&source), number(&destination)) {
        (Some(_), Some(_)) if protocol == protocol::ICMP => checksum::Sum::new(),
        (Some(source), Some(destination)) => pseudo4(source, destination, protocol, length as u16),
        _ => pseudo6(u128::from_be_bytes(source), u128::from_be_bytes(destination), protocol, length as u32),
    }
}

/// Checks the checksums of an upper layer that is whole.
pub fn upper_holds(source: [u8; 16], destination: [u8; 16], protocol: u8, upper: &[u8]) {
    match protocol {
        protocol::GRE => {}
        protocol::SCTP => {
            let mut zeroed = upper.to_vec();
            zeroed[8..12].fill(0);
            assert_eq!(crc32c::crc32c(&zeroed).to_le_bytes(), upper[8..12], "SCTP");
        }
        protocol::UDP if unmapped(&source).is_some() && upper[6..8] == [0, 0] => {}
        _ => {
            let sum = pseudo(source, destination, protocol, upper.len()).with(upper).fold();
            assert_eq!(sum, 0xffff, "checksum of protocol {protocol}");
            let stated = matches!(protocol, protocol::UDP | protocol::UDP_LITE);
            assert!(!stated || upper[6..8] != [0, 0], "a checksum became none");
        }
    }
}

/// Checks every checksum of a packet, and of the packet quoted in it as far as that is there.
pub fn checksums_hold(ip: &[u8]) {
    let headers = Headers::parse(ip).unwrap();
    let transport = usize::from(headers.transport);
    assert_eq!(usize::from(headers.length), ip.len());
    if headers.version == 4 {
        assert!(checksum::verify(&ip[..transport]), "IPv4 header");
    }
    if headers.fragment != Fragment::Whole {
        return;
    }
    upper_holds(headers.source, headers.destination, headers.protocol, &ip[transport..]);
    if let Some(quote) = flow::is_error(&headers).then(|| &ip[transport + icmp4::HEADER..]) {
        let quoted = Headers::quoted(quote).unwrap();
        let upper = usize::from(quoted.transport);
        if quoted.version == 4 {
            assert!(checksum::verify(&quote[..upper]), "quoted IPv4 header");
        }
        if quote.len() == usize::from(quoted.length) {
            upper_holds(quoted.source, quoted.destination, quoted.protocol, &quote[upper..]);
        }
    }
    const { assert!(icmp4::HEADER == icmp6::HEADER) };
}

/// A TCP segment with these flags and options (a multiple of 4 bytes).
pub fn tcp_with_options(version: u8, flags: u8, options: &[u8]) -> Vec<u8> {
    let plan = Plan {
        version,
        protocol: protocol::TCP,
        source: address(version, [10; 16]),
        destination: address(version, [11; 16]),
        ports: [1000, 80],
        payload: options.to_vec(),
        bare: false,
        options: false,
        ttl: 64,
        tos: 0,
    };
    let mut packet = plan.packet();
    let at = if version == 4 { 20 } else { 40 };
    packet[at + 12] = (0x50 + options.len() / 4 * 16) as u8;
    packet[at + 13] = flags;
    packet[at + 16..at + 18].fill(0);
    let sum = plan.pseudo(20 + options.len()).with(&packet[at..]).finish();
    packet[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    packet
}
