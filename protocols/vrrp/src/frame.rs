//! Frames: advertisements in their link headers, and what tells hosts at which link address the
//! router is.
//!
//! All of them are sent from the virtual router's link address, so that switches learn where it is.

use std::net::{IpAddr, Ipv6Addr};

use wire::neighbour::{self, ADVERTISEMENT, ALL_NODES, OVERRIDE, ROUTER, SOLICITATION, SOLICITED, group_mac};
use wire::{Mac, arp, ethernet, ipv4, ipv6};

use crate::packet::{self, Advertisement, HOPS};

/// The link address of a virtual router (RFC 9568, 7.3).
pub fn virtual_mac(id: u8, ipv6: bool) -> Mac {
    Mac([0, 0, 0x5e, 0, if ipv6 { 2 } else { 1 }, id])
}

/// An advertisement to all routers of the family, from this address of the interface's.
pub fn advertisement(it: &Advertisement, source: IpAddr) -> Vec<u8> {
    let to = packet::group(source);
    let payload = packet::emit(it, source, to);
    let from = virtual_mac(it.id, source.is_ipv6());
    match (source, to) {
        (IpAddr::V4(source), IpAddr::V4(to)) => {
            let header = ipv4::Repr {
                // Internetwork control, as other routing protocols.
                tos: 0xc0,
                ttl: HOPS,
                protocol: crate::PROTOCOL,
                ..ipv4::Repr::new(source, to)
            };
            let [_, b, c, d] = to.octets();
            let link = ethernet::Repr {
                destination: Mac([1, 0, 0x5e, b & 0x7f, c, d]),
                source: from,
                ether_type: ethernet::IPV4,
            };
            [&link.header()[..], &header.header(payload.len()), &payload].concat()
        }
        (IpAddr::V6(source), IpAddr::V6(to)) => {
            in_ipv6(from, group_mac(to), source, to, crate::PROTOCOL, &payload)
        }
        _ => Vec::new(),
    }
}

fn in_ipv6(
    from: Mac,
    to_mac: Mac,
    source: Ipv6Addr,
    to: Ipv6Addr,
    next_header: u8,
    payload: &[u8],
) -> Vec<u8> {
    let header =
        ipv6::Repr { traffic_class: 0xc0, next_header, hop_limit: HOPS, ..ipv6::Repr::new(source, to) };
    let link = ethernet::Repr { destination: to_mac, source: from, ether_type: ethernet::IPV6 };
    [&link.header()[..], &header.header(payload.len()), payload].concat()
}

/// Tells every host on the link that the address is at the virtual router's link address: a
/// gratuitous ARP request, or an unsolicited neighbour advertisement.
pub fn announcement(id: u8, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => {
            let mac = virtual_mac(id, false);
            let it = arp::Repr {
                operation: arp::REQUEST,
                sender_mac: mac,
                sender: address,
                target_mac: Mac::ZERO,
                target: address,
            };
            in_arp(mac, Mac::BROADCAST, &it)
        }
        IpAddr::V6(address) => is_at(virtual_mac(id, true), address, None),
    }
}

fn in_arp(from: Mac, to: Mac, it: &arp::Repr) -> Vec<u8> {
    let link = ethernet::Repr { destination: to, source: from, ether_type: ethernet::ARP };
    [&link.header()[..], &it.emit()].concat()
}

/// Says that an address is at the virtual router's link address, to one host or to all.
fn is_at(mac: Mac, target: Ipv6Addr, to: Option<(Mac, Ipv6Addr)>) -> Vec<u8> {
    let (to_mac, to_address) = to.unwrap_or((group_mac(ALL_NODES), ALL_NODES));
    let answers = if to.is_some() { SOLICITED } else { 0 };
    neighbour::Message {
        from_mac: mac,
        to_mac,
        from: target,
        to: to_address,
        kind: ADVERTISEMENT,
        flags: ROUTER | OVERRIDE | answers,
        target,
        link: Some(mac),
    }
    .emit()
}

/// Who asks where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The address.
    pub target: IpAddr,
    /// Who asks: none, while it does not have it itself.
    asks: IpAddr,
    /// His link address.
    at: Mac,
}

/// The question that a frame is, if it is one.
pub fn question(bytes: &[u8]) -> Option<Question> {
    let frame = ethernet::Frame::parse(bytes).ok()?;
    match frame.ether_type() {
        ethernet::ARP => {
            let it = arp::Repr::parse(frame.payload()).ok()?;
            let (target, asks) = (it.target.into(), it.sender.into());
            (it.operation == arp::REQUEST).then_some(Question { target, asks, at: it.sender_mac })
        }
        ethernet::IPV6 => {
            let it = neighbour::Message::parse(bytes)?;
            let (target, asks) = (it.target.into(), it.from.into());
            (it.kind == SOLICITATION).then_some(Question { target, asks, at: it.from_mac })
        }
        _ => None,
    }
}

/// The answer of a virtual router.
pub fn answer(id: u8, question: &Question) -> Vec<u8> {
    match (question.target, question.asks) {
        (IpAddr::V4(target), IpAddr::V4(asks)) => {
            let mac = virtual_mac(id, false);
            let it = arp::Repr {
                operation: arp::REPLY,
                sender_mac: mac,
                sender: target,
                target_mac: question.at,
                target: asks,
            };
            in_arp(mac, question.at, &it)
        }
        (IpAddr::V6(target), IpAddr::V6(asks)) => {
            // Who is about to take the address for himself has none yet: everybody is told (RFC
            // 4861, 7.2.4).
            let to = (!asks.is_unspecified()).then_some((question.at, asks));
            is_at(virtual_mac(id, true), target, to)
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use std::time::Duration;
    use wire::neighbour::solicited_node;

    const HOST: Mac = Mac([2, 0, 0, 0, 0, 9]);

    #[test]
    fn a_question_by_arp_is_answered_with_the_virtual_address() {
        let ask = arp::Repr {
            operation: arp::REQUEST,
            sender_mac: HOST,
            sender: [192, 0, 2, 9].into(),
            target_mac: Mac::ZERO,
            target: [192, 0, 2, 1].into(),
        };
        let asked = question(&in_arp(HOST, Mac::BROADCAST, &ask)).unwrap();
        assert_eq!(asked.target, IpAddr::from([192, 0, 2, 1]));
        let answer = answer(5, &asked);
        assert_eq!(answer[..12], [2, 0, 0, 0, 0, 9, 0, 0, 0x5e, 0, 1, 5]);
        let said = arp::Repr::parse(&answer[14..]).unwrap();
        assert_eq!(
            (said.operation, said.sender, said.sender_mac),
            (arp::REPLY, ask.target, virtual_mac(5, false))
        );
        assert_eq!((said.target, said.target_mac), (ask.sender, HOST));
        // An answer is no question.
        assert_eq!(question(&answer), None);
    }

    #[test]
    fn a_solicitation_is_answered_to_who_asked_or_to_all() {
        let target: Ipv6Addr = "2001:db8::1".parse().unwrap();
        let ask = |source: Ipv6Addr| {
            let to = solicited_node(target);
            let link = (!source.is_unspecified()).then_some(HOST);
            let (kind, from, to_mac) = (SOLICITATION, source, group_mac(to));
            neighbour::Message { from_mac: HOST, to_mac, from, to, kind, flags: 0, target, link }.emit()
        };
        let host: Ipv6Addr = "fe80::9".parse().unwrap();
        for (source, to, flags) in [(host, host, 0xe0), (Ipv6Addr::UNSPECIFIED, ALL_NODES, 0xa0)] {
            let answer = answer(5, &question(&ask(source)).unwrap());
            let packet = ipv6::Packet::parse(&answer[14..]).unwrap();
            assert_eq!((packet.source(), packet.destination(), packet.hop_limit()), (target, to, 255));
            let message = packet.payload();
            assert_eq!(
                (message[0], message[4], &message[8..24]),
                (ADVERTISEMENT, flags, &target.octets()[..])
            );
            assert_eq!(message[24..], [2, 1, 0, 0, 0x5e, 0, 2, 5]);
            assert!(neighbour::Message::parse(&answer).is_some(), "it is whole");
        }
        let mut broken = ask(host);
        *broken.last_mut().unwrap() ^= 1;
        assert_eq!(question(&broken), None);
    }

    #[test]
    fn advertisements_go_to_their_group_from_the_virtual_link_address() {
        for (from, mac) in [("192.0.2.2", [1, 0, 0x5e, 0, 0, 18]), ("fe80::2", [0x33, 0x33, 0, 0, 0, 0x12])] {
            let source: IpAddr = from.parse().unwrap();
            let it = Advertisement {
                version: Version::Three,
                id: 9,
                priority: 1,
                interval: Duration::from_millis(10),
                addresses: vec![source],
            };
            let frame = advertisement(&it, source);
            assert_eq!((&frame[..6], &frame[6..12]), (&mac[..], &virtual_mac(9, source.is_ipv6()).0[..]));
            let (payload, hops) = match source {
                IpAddr::V4(_) => (&frame[34..], ipv4::Packet::parse(&frame[14..]).unwrap().ttl()),
                IpAddr::V6(_) => (&frame[54..], ipv6::Packet::parse(&frame[14..]).unwrap().hop_limit()),
            };
            assert_eq!(packet::parse(payload, source, packet::group(source), hops), Ok(it));
        }
    }
}
