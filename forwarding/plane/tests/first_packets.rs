//! Packets of one flow that come at once, before there is a flow, go where the first of them goes:
//! resolvers ask for two records from one socket.

mod instance;

use std::net::Ipv4Addr;

use instance::{IN, Instance, NEIGHBOUR, OUR, OUT, tables};
use plane::PolicySettings;
use port::Pool;
use wire::{Mac, ethernet, ipv4, protocol};

/// Hosts inside, by the last byte of their addresses.
const HOSTS: [u8; 3] = [2, 3, 4];

fn mac(host: u8) -> Mac {
    Mac([2, 0, 0, 0, 9, host])
}

/// A datagram from outside to the address that is led to the hosts in turn.
fn datagram(port: u16) -> Vec<u8> {
    let link = ethernet::Repr { destination: OUR, source: NEIGHBOUR, ether_type: ethernet::IPV4 };
    let (from, to) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(192, 0, 2, 1));
    let ip = ipv4::Repr { protocol: protocol::UDP, ..ipv4::Repr::new(from, to) };
    let upper = [&port.to_be_bytes()[..], &53u16.to_be_bytes(), &[0, 8, 0, 0]].concat();
    [&link.header()[..], &ip.header(upper.len()), &upper].concat()
}

#[test]
fn go_where_the_first_of_them_goes() {
    Pool::heap(256).install();
    let hosts = HOSTS.map(|host| (mac(host), format!("10.1.0.{host}/32")));
    let tables = tables(&hosts.each_ref().map(|(mac, prefix)| (IN, *mac, prefix.as_str())));
    let to = HOSTS.map(|host| format!("10.1.0.{host}:53"));
    let rule = serde_json::json!({
        "name": "resolvers", "type": "destination", "in": "outside", "protocol": "udp",
        "destination": "192.0.2.1/32", "ports": "53", "to": to, "spread": "round-robin",
    });
    let rules = serde_json::from_value::<nat::Text>(serde_json::json!({ "rule": [rule] })).unwrap();
    let settings = PolicySettings { nat: Some(rules.check().unwrap()), ..PolicySettings::default() };
    let (mut instance, _policy) = Instance::start(&tables, settings, 1);

    let mut reached = [0; HOSTS.len()];
    for round in 0..12u16 {
        // Two flows, one among the other.
        let sent = instance.pass(OUT, &[0, 1, 0, 1, 1, 0].map(|port| datagram(4000 + 2 * round + port)));
        assert_eq!(sent.len(), 6);
        for (port, frame) in sent {
            let host = frame[33];
            assert_eq!((port, &frame[..6], &frame[30..33]), (IN, &mac(host).0[..], &[10, 1, 0][..]));
            reached[usize::from(host) - 2] += 1;
        }
        instance.maintain();
    }
    // Each flow takes its turn once.
    assert_eq!(reached, [24; 3]);
}
