//! ICMP errors are of the flow that they quote a packet of, unless they were damaged on their way.

mod instance;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fib::PortId;
use instance::{IN, Instance, NEIGHBOUR, OUR, OUT, tables};
use plane::PolicySettings;
use port::Pool;
use rules::Filter;
use wire::{checksum, ethernet, icmp4, icmp6, ipv4, ipv6, protocol};

/// A host inside, one outside, a router on the way to that: in both families.
const ENDS: [[IpAddr; 3]; 2] = [
    [
        IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2)),
        IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)),
        IpAddr::V4(Ipv4Addr::new(198, 18, 9, 9)),
    ],
    [
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xf, 0, 0, 0, 0, 1)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xf, 0, 0, 0, 9, 9)),
    ],
];

fn packet(from: IpAddr, to: IpAddr, protocol: u8, upper: &[u8]) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            [&ipv4::Repr { protocol, ..ipv4::Repr::new(from, to) }.header(upper.len())[..], upper].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let repr = ipv6::Repr { next_header: protocol, ..ipv6::Repr::new(from, to) };
            [&repr.header(upper.len())[..], upper].concat()
        }
        _ => unreachable!("both of one family"),
    }
}

/// What a router says of a packet whose time was up.
fn expired(router: IpAddr, quoted: &[u8]) -> Vec<u8> {
    let about = |icmp_type: u8| [&[icmp_type, 0, 0, 0, 0, 0, 0, 0], quoted].concat();
    let (protocol, mut message, pseudo) = match router {
        IpAddr::V4(_) => (protocol::ICMP, about(icmp4::TIME_EXCEEDED), checksum::Sum::new()),
        IpAddr::V6(router) => {
            let to = u128::from_be_bytes(quoted[8..24].try_into().unwrap());
            let length = 8 + quoted.len() as u32;
            let pseudo = checksum::pseudo6(router.to_bits(), to, protocol::ICMP6, length);
            (protocol::ICMP6, about(icmp6::TIME_EXCEEDED), pseudo)
        }
    };
    let sum = pseudo.with(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let to = match router {
        IpAddr::V4(_) => IpAddr::from(<[u8; 4]>::try_from(&quoted[12..16]).unwrap()),
        IpAddr::V6(_) => IpAddr::from(<[u8; 16]>::try_from(&quoted[8..24]).unwrap()),
    };
    packet(router, to, protocol, &message)
}

#[test]
fn are_let_through_if_their_checksum_holds() {
    Pool::heap(64).install();
    let routes =
        [(IN, "10.1.0.0/24"), (IN, "2001:db8:1::/64"), (OUT, "198.18.0.0/15"), (OUT, "2001:db8:f::/48")];
    let tables = tables(&routes.map(|(port, prefix)| (port, NEIGHBOUR, prefix)));
    let rules = "chain forward policy drop\naccept state related\naccept udp in inside\n";
    let filter = Filter::read("test", rules, &mut |_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
    let settings = PolicySettings { filter, ..PolicySettings::default() };
    let (mut instance, _policy) = Instance::start(&tables, settings, 1);
    let mut pass = |input: PortId, ip: &[u8]| {
        let ether_type = if ip[0] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
        let link = ethernet::Repr { destination: OUR, source: NEIGHBOUR, ether_type };
        let sent = instance.pass(input, &[[&link.header()[..], ip].concat()]);
        instance.maintain();
        sent.len() == 1
    };
    for [inside, outside, router] in ENDS {
        let udp = [&4000u16.to_be_bytes()[..], &53u16.to_be_bytes(), &[0, 12, 0, 0, 1, 2, 3, 4]].concat();
        let datagram = packet(inside, outside, protocol::UDP, &udp);
        assert!(pass(IN, &datagram));
        let error = expired(router, &datagram);
        assert!(pass(OUT, &error), "{router}");
        // The type, the checksum itself, the last byte of what is quoted.
        let message = error.len() - datagram.len() - 8;
        for at in [message + 1, message + 2, error.len() - 1] {
            let mut damaged = error.clone();
            damaged[at] ^= 1;
            assert!(!pass(OUT, &damaged), "{router} {at}");
        }
    }
}
