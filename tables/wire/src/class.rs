//! Policing classes: what a packet handed to Linux is about, so that a flood of one kind cannot
//! starve another.
//!
//! `forwarding/bpf/` classifies the same way; this copy serves the worker lane and `explain`.

use std::net::IpAddr;

use abi::{Class, is_management, is_routing, protocol};

use crate::{ethernet, ipv4, ipv6, u16_at};

/// The class of a frame for Linux, from its Ethernet header on. `local` says which addresses are
/// this machine's; without it, the packet is known to be for this machine. Never
/// [`Class::Unresolved`].
pub fn class_of_frame(frame: &[u8], local: Option<&dyn Fn(IpAddr) -> bool>) -> Class {
    let Ok(view) = ethernet::Frame::parse(frame) else { return Class::Rest };
    let (mut ether_type, mut packet) = (view.ether_type(), view.payload());
    for _ in 0..TAGS {
        if !matches!(ether_type, ethernet::VLAN | ethernet::QINQ) {
            break;
        }
        let Some((tag, behind)) = packet.split_at_checked(4) else { return Class::Rest };
        (ether_type, packet) = (u16_at(tag, 2), behind);
    }
    match ether_type {
        ethernet::IPV4 => of_ipv4(packet, local),
        ethernet::IPV6 => of_ipv6(packet, local),
        ethernet::ARP => Class::Neighbour,
        _ => Class::Routing,
    }
}

/// Tags behind which is looked.
const TAGS: usize = 2;

/// What hides behind more extension headers than these is none of those that are treated apart.
const EXTENSIONS: usize = 4;

fn of_ipv4(packet: &[u8], local: Option<&dyn Fn(IpAddr) -> bool>) -> Class {
    let Some(header) = packet.first_chunk::<{ ipv4::HEADER }>() else { return Class::Rest };
    let (number, ttl) = (header[9], header[8]);
    let [source, destination] =
        [12, 16].map(|at| [header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let group = destination[0] >> 4 == 14;
    if group && destination[..3] != [224, 0, 0] && !matches!(number, protocol::IGMP | protocol::PIM) {
        return Class::Transit;
    }
    let link = |address: [u8; 4]| address[..2] == [169, 254];
    let linux = group || destination == [255; 4] || link(source) || link(destination);
    if local.is_some_and(|local| !linux && !local(IpAddr::from(destination))) {
        return Class::Transit;
    }
    let upper = packet.get(usize::from(header[0] & 15) * 4..).unwrap_or_default();
    let first = u16_at(header, 6) & 0x1fff == 0;
    of_upper(number, ttl, if first { upper } else { &[] })
}

fn of_ipv6(packet: &[u8], local: Option<&dyn Fn(IpAddr) -> bool>) -> Class {
    let Some((header, mut upper)) = packet.split_first_chunk::<{ ipv6::HEADER }>() else {
        return Class::Rest;
    };
    let (mut number, hops) = (header[6], header[7]);
    let address = |at: usize| -> [u8; 16] { std::array::from_fn(|byte| header[at + byte]) };
    let (source, destination) = (address(8), address(24));
    let group = destination[0] == 0xff;
    if group && destination[1] & 15 > 2 && !matches!(number, protocol::HOP_BY_HOP | protocol::ICMP6) {
        return Class::Transit;
    }
    let link = |address: [u8; 16]| address[0] == 0xfe && address[1] & 0xc0 == 0x80;
    let linux = group || link(source) || link(destination);
    if local.is_some_and(|local| !linux && !local(IpAddr::from(destination))) {
        return Class::Transit;
    }
    for _ in 0..EXTENSIONS {
        let bytes = match number {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                upper.get(1).map(|length| (usize::from(*length) + 1) * 8)
            }
            protocol::AUTHENTICATION => upper.get(1).map(|length| (usize::from(*length) + 2) * 4),
            protocol::FRAGMENT => Some(8),
            _ => break,
        };
        let (Some(bytes), Some(extension)) = (bytes, upper.get(..8)) else { return Class::Rest };
        let later = number == protocol::FRAGMENT && u16_at(extension, 2) & 0xfff8 != 0;
        number = extension[0];
        upper = upper.get(bytes..).unwrap_or_default();
        if later {
            upper = &[];
            break;
        }
    }
    of_upper(number, hops, upper)
}

/// `payload` is empty where the packet does not show it (later fragments).
fn of_upper(number: u8, ttl: u8, payload: &[u8]) -> Class {
    match number {
        protocol::OSPF | protocol::PIM | protocol::IGMP | protocol::EIGRP | protocol::RSVP => Class::Routing,
        // RFC 9568, 5.1.1.3.
        protocol::VRRP if ttl == 255 => Class::Routing,
        protocol::ICMP => Class::Icmp,
        protocol::ICMP6 => match payload.first() {
            // Neighbour discovery (RFC 4861, 6.1 and 7.1).
            Some(133..=137) if ttl == 255 => Class::Neighbour,
            // Multicast listener discovery (RFC 2710, RFC 9777).
            Some(130..=132 | 143) => Class::Routing,
            _ => Class::Icmp,
        },
        protocol::TCP | protocol::UDP if payload.len() >= 4 => {
            let [source, destination] = [u16_at(payload, 0), u16_at(payload, 2)];
            // Of UDP only the port that it goes to says what it is; a connection of TCP may have
            // begun at either end.
            let either = number == protocol::TCP;
            if is_routing(number, ttl, destination) || either && is_routing(number, ttl, source) {
                Class::Routing
            } else if is_management(number, ttl, source) || is_management(number, ttl, destination) {
                Class::Management
            } else {
                Class::Rest
            }
        }
        _ => Class::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mac;

    fn v4(number: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let repr = ipv4::Repr { protocol: number, ttl, ..ipv4::Repr::new(source, destination) };
        framed(ethernet::IPV4, &[&repr.header(payload.len())[..], payload].concat())
    }

    fn v6(next_header: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
        let repr = ipv6::Repr { next_header, hop_limit, ..ipv6::Repr::new(source, destination) };
        framed(ethernet::IPV6, &[&repr.header(payload.len())[..], payload].concat())
    }

    fn framed(ether_type: u16, packet: &[u8]) -> Vec<u8> {
        let header = ethernet::Repr { destination: Mac::BROADCAST, source: Mac::ZERO, ether_type };
        [&header.header()[..], packet].concat()
    }

    fn class(frame: &[u8]) -> Class {
        class_of_frame(frame, None)
    }

    #[test]
    fn each_class_has_its_protocols() {
        let ports = |a: u16, b: u16| [a.to_be_bytes(), b.to_be_bytes()].concat();
        let behind = |next: u8, payload: &[u8]| [&[next, 0, 5, 2, 0, 0, 1, 0], payload].concat();
        let cases = [
            (v4(protocol::OSPF, 1, &[]), Class::Routing),
            (v4(protocol::VRRP, 255, &[]), Class::Routing),
            (v4(protocol::VRRP, 254, &[]), Class::Rest),
            (v4(protocol::TCP, 64, &ports(40_000, 179)), Class::Routing),
            (v4(protocol::TCP, 64, &ports(179, 40_000)), Class::Routing),
            (v4(protocol::UDP, 255, &ports(49_152, 3784)), Class::Routing),
            (v4(protocol::UDP, 254, &ports(49_152, 3784)), Class::Rest),
            (v4(protocol::UDP, 64, &ports(520, 40_000)), Class::Rest),
            (v4(protocol::TCP, 255, &ports(49_152, 3784)), Class::Rest),
            (v4(protocol::TCP, 64, &ports(5000, 22)), Class::Management),
            (v4(protocol::UDP, 64, &ports(53, 5000)), Class::Management),
            (v4(protocol::ICMP, 64, &[8, 0]), Class::Icmp),
            (v4(protocol::UDP, 64, &ports(5000, 5001)), Class::Rest),
            (v4(protocol::UDP, 64, &[1, 2]), Class::Rest),
            (v6(protocol::ICMP6, 255, &[135, 0, 0, 0]), Class::Neighbour),
            (v6(protocol::ICMP6, 64, &[135, 0, 0, 0]), Class::Icmp),
            (v6(protocol::ICMP6, 64, &[128, 0, 0, 0]), Class::Icmp),
            (v6(protocol::HOP_BY_HOP, 1, &behind(protocol::ICMP6, &[143])), Class::Routing),
            (v6(protocol::DESTINATION_OPTIONS, 1, &behind(protocol::OSPF, &[])), Class::Routing),
            (v6(protocol::TCP, 64, &ports(1, 830)), Class::Management),
            (vec![], Class::Rest),
        ];
        for (frame, expected) in cases {
            assert_eq!(class(&frame), expected, "{frame:02x?}");
        }
    }

    #[test]
    fn what_is_not_ip_keeps_the_router_connected() {
        assert_eq!(class(&framed(ethernet::ARP, &[])), Class::Neighbour);
        assert_eq!(class(&framed(0x88cc, &[])), Class::Routing);
        assert_eq!(class(&[0; 5]), Class::Rest);
    }

    #[test]
    fn what_is_not_for_this_machine_is_transit() {
        let local = |address: IpAddr| address == IpAddr::from([10, 0, 0, 9]);
        let ping = v4(protocol::ICMP, 64, &[8, 0]);
        assert_eq!(class_of_frame(&ping, Some(&local)), Class::Transit);
        let mut mine = ping;
        mine[33] = 9;
        assert_eq!(class_of_frame(&mine, Some(&local)), Class::Icmp);
        let tagged = |packet: &[u8]| framed(ethernet::VLAN, &[&[0, 7, 8, 0][..], &packet[14..]].concat());
        assert_eq!(class_of_frame(&tagged(&mine), Some(&local)), Class::Icmp);
        mine[33] = 8;
        assert_eq!(class_of_frame(&tagged(&mine), Some(&local)), Class::Transit);
        mine[30..34].copy_from_slice(&[239, 1, 1, 1]);
        assert_eq!(class(&mine), Class::Transit, "multicast that is routed");
        mine[30..34].copy_from_slice(&[224, 0, 0, 1]);
        assert_eq!(class(&mine), Class::Icmp, "multicast that is not");
    }
}
