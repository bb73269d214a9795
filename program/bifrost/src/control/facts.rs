//! What a filter looks at in a packet, and how a packet is shown in one line.

use std::fmt;
use std::net::IpAddr;

use wire::{ipv4, ipv6};

use super::words::Protocol;

/// The facts of one IP packet that a [`Filter`](super::Filter) can ask for. Displays in the
/// language of filters: `198.18.0.9 > 203.0.113.7 udp 4000:53 ttl 64 len 60 df`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol above IP (behind extension headers).
    pub protocol: Protocol,
    /// Source and destination port, where the packet shows them.
    pub ports: Option<(u16, u16)>,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Length of the IP packet that its header states, bytes.
    pub length: u32,
    /// IPv4's don't-fragment bit.
    pub dont_fragment: bool,
    /// A fragment other than the first.
    pub later_fragment: bool,
}

impl Facts {
    /// Reads an IPv4 or IPv6 packet from its first byte on; `None` where there is no such header.
    pub fn read(packet: &[u8]) -> Option<Facts> {
        match packet.first()? >> 4 {
            4 => Facts::of_v4(packet),
            6 => Facts::of_v6(packet),
            _ => None,
        }
    }

    fn of_v4(bytes: &[u8]) -> Option<Facts> {
        let packet = ipv4::Packet::parse(bytes).ok()?;
        let protocol = Protocol(packet.protocol());
        let later_fragment = packet.fragment_offset() != 0;
        Some(Facts {
            source: packet.source().into(),
            destination: packet.destination().into(),
            protocol,
            ports: ports(protocol, later_fragment, bytes, packet.header_len()),
            ttl: packet.ttl(),
            length: u32::from(packet.total_len()),
            dont_fragment: packet.dont_fragment(),
            later_fragment,
        })
    }

    fn of_v6(bytes: &[u8]) -> Option<Facts> {
        let packet = ipv6::Packet::parse(bytes).ok()?;
        let upper = packet.upper_layer();
        let protocol = Protocol(upper.protocol);
        Some(Facts {
            source: packet.source().into(),
            destination: packet.destination().into(),
            protocol,
            ports: ports(protocol, upper.later_fragment, bytes, upper.offset),
            ttl: packet.hop_limit(),
            length: 40 + u32::from(packet.payload_len()),
            dont_fragment: false,
            later_fragment: upper.later_fragment,
        })
    }
}

fn ports(protocol: Protocol, later_fragment: bool, bytes: &[u8], at: usize) -> Option<(u16, u16)> {
    if later_fragment || !protocol.has_ports() {
        return None;
    }
    let ports = bytes.get(at..at.checked_add(4)?)?;
    Some((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {}", self.source, self.destination, self.protocol)?;
        if let Some((source, destination)) = self.ports {
            write!(f, " {source}:{destination}")?;
        }
        write!(f, " ttl {} len {}", self.ttl, self.length)?;
        if self.dont_fragment {
            f.write_str(" df")?;
        }
        if self.later_fragment {
            f.write_str(" fragment")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_shown_in_one_line() {
        let mut packet =
            ipv4::Repr::new("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()).header(4).to_vec();
        packet[6] = 0x40;
        packet[8] = 9;
        packet[9] = 17;
        packet.extend([0x0f, 0xa0, 0, 53]);
        let facts = Facts::read(&packet).unwrap();
        assert_eq!(facts.to_string(), "10.0.0.1 > 10.0.0.2 udp 4000:53 ttl 9 len 24 df");
        packet[7] = 1;
        assert_eq!(Facts::read(&packet).unwrap().ports, None);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut random = chance::Random(7);
        for round in 0..200_000u32 {
            let mut bytes = [0u8; 96];
            random.fill(&mut bytes);
            bytes[0] = bytes[0] & 0x0f | if round % 2 == 0 { 0x40 } else { 0x60 };
            Facts::read(&bytes[..round as usize % 97]);
        }
    }
}
