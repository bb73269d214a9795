//! Policing classes: what a packet handed to Linux is about, so that a flood of one kind cannot starve another.
//!
//! `bpf/` classifies the same way; this copy serves the worker lane and `explain`.

use std::fmt;

use crate::{ethernet, ipv4, ipv6, protocol, u16_at};

/// What a packet handed to Linux is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// What keeps the router connected: routing protocols, VRRP, BFD, ARP, neighbour discovery, LLDP and other non-IP.
    Routing = 0,
    /// How it is managed: SSH, SNMP, NETCONF, DNS, NTP, DHCP, RADIUS, TACACS+, HTTP(S).
    Management = 1,
    /// ICMP and ICMPv6, neighbour discovery excepted.
    Icmp = 2,
    /// Everything else for this machine.
    Rest = 3,
    /// Transit that Linux shall complete: unresolved neighbours, IPv4 options, ports that are not Bifrost's.
    Unresolved = 4,
}

impl Class {
    /// How many classes there are.
    pub const COUNT: usize = 5;

    /// Every class, in the order of the numbers.
    pub const ALL: [Class; Class::COUNT] =
        [Class::Routing, Class::Management, Class::Icmp, Class::Rest, Class::Unresolved];

    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Routing => "routing",
            Class::Management => "management",
            Class::Icmp => "icmp",
            Class::Rest => "rest",
            Class::Unresolved => "unresolved",
        }
    }

    /// The class of a frame for this machine, from its Ethernet header on. Never [`Class::Unresolved`], which says
    /// that the packet is not for this machine.
    pub fn of_frame(frame: &[u8]) -> Class {
        let Ok(view) = ethernet::Frame::parse(frame) else { return Class::Rest };
        match view.ether_type() {
            ethernet::IPV4 | ethernet::IPV6 => Class::of_packet(view.payload()),
            _ => Class::Routing,
        }
    }

    /// The class of a packet for this machine, from its IP header on.
    pub fn of_packet(packet: &[u8]) -> Class {
        match packet.first().map(|byte| byte >> 4) {
            Some(4) => match ipv4::Packet::parse(packet) {
                Ok(ip) if ip.fragment_offset() == 0 => of_upper(ip.protocol(), ip.payload()),
                Ok(ip) => of_upper(ip.protocol(), &[]),
                Err(_) => Class::Rest,
            },
            Some(6) => match ipv6::Packet::parse(packet) {
                Ok(ip) => {
                    let upper = ip.upper_layer();
                    let start =
                        if upper.later_fragment { packet.len() } else { upper.offset.min(packet.len()) };
                    of_upper(upper.protocol, &packet[start..])
                }
                Err(_) => Class::Rest,
            },
            _ => Class::Rest,
        }
    }
}

/// `payload` is empty where the packet does not show it (later fragments).
fn of_upper(number: u8, payload: &[u8]) -> Class {
    match number {
        protocol::OSPF
        | protocol::PIM
        | protocol::VRRP
        | protocol::IGMP
        | protocol::EIGRP
        | protocol::RSVP => Class::Routing,
        protocol::ICMP => Class::Icmp,
        protocol::ICMP6 => match payload.first() {
            // Neighbour discovery (RFC 4861) and multicast listener discovery (RFC 2710, RFC 9777).
            Some(130..=137 | 143) => Class::Routing,
            _ => Class::Icmp,
        },
        protocol::TCP | protocol::UDP if payload.len() >= 4 => {
            let ports = [u16_at(payload, 0), u16_at(payload, 2)];
            let any = |is: fn(u8, u16) -> bool| ports.iter().any(|port| is(number, *port));
            if any(is_routing) {
                Class::Routing
            } else if any(is_management) {
                Class::Management
            } else {
                Class::Rest
            }
        }
        _ => Class::Rest,
    }
}

/// BGP, LDP; RIP, RIPng, BFD (single hop, echo, multihop, on LAGs: RFC 5881, 5883, 7130; seamless BFD 7784 is not).
fn is_routing(number: u8, port: u16) -> bool {
    matches!(port, 179 | 646)
        || number == protocol::UDP && matches!(port, 520 | 521 | 3784 | 3785 | 4784 | 6784)
}

fn is_management(number: u8, port: u16) -> bool {
    match port {
        22 | 80 | 443 | 830 => number == protocol::TCP,
        49 | 53 | 161 | 162 => true,
        67 | 68 | 123 | 546 | 547 | 1812 | 1813 => number == protocol::UDP,
        _ => false,
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mac;

    fn v4(number: u8, payload: &[u8]) -> Vec<u8> {
        let repr =
            ipv4::Repr { protocol: number, ..ipv4::Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()) };
        [&repr.header(payload.len())[..], payload].concat()
    }

    fn v6(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
        let repr = ipv6::Repr { next_header, ..ipv6::Repr::new(source, destination) };
        [&repr.header(payload.len())[..], payload].concat()
    }

    #[test]
    fn each_class_has_its_protocols() {
        let ports = |a: u16, b: u16| [a.to_be_bytes(), b.to_be_bytes()].concat();
        let cases = [
            (v4(protocol::OSPF, &[]), Class::Routing),
            (v4(protocol::TCP, &ports(40_000, 179)), Class::Routing),
            (v4(protocol::TCP, &ports(179, 40_000)), Class::Routing),
            (v4(protocol::UDP, &ports(49_152, 3784)), Class::Routing),
            (v4(protocol::TCP, &ports(49_152, 3784)), Class::Rest),
            (v4(protocol::TCP, &ports(5000, 22)), Class::Management),
            (v4(protocol::UDP, &ports(53, 5000)), Class::Management),
            (v4(protocol::ICMP, &[8, 0]), Class::Icmp),
            (v4(protocol::UDP, &ports(5000, 5001)), Class::Rest),
            (v4(protocol::UDP, &[1, 2]), Class::Rest),
            (v6(protocol::ICMP6, &[135, 0, 0, 0]), Class::Routing),
            (v6(protocol::ICMP6, &[128, 0, 0, 0]), Class::Icmp),
            (v6(protocol::HOP_BY_HOP, &[protocol::ICMP6, 0, 5, 2, 0, 0, 1, 0, 143]), Class::Routing),
            (v6(protocol::TCP, &ports(1, 830)), Class::Management),
            (vec![], Class::Rest),
        ];
        for (packet, class) in cases {
            assert_eq!(Class::of_packet(&packet), class, "{packet:02x?}");
        }
    }

    #[test]
    fn what_is_not_ip_keeps_the_router_connected() {
        let header =
            ethernet::Repr { destination: Mac::BROADCAST, source: Mac::ZERO, ether_type: ethernet::ARP };
        assert_eq!(Class::of_frame(&header.header()), Class::Routing);
        assert_eq!(Class::of_frame(&[0; 5]), Class::Rest);
    }
}
