//! Tunnels beside rules: what is in them is judged and translated as what any interface carries,
//! and their own packets are the plane's only where rules let them pass as they are.

mod instance;

use std::net::{IpAddr, Ipv4Addr};

use fib::{
    Adjacency, Capacity, Gre, InterfaceEntry, InterfaceFlags, NextHop, Over, Path, Payload, PortId, TableId,
    Tables, Tags, Tunnel, Vxlan,
};
use instance::{IN, Instance, NEIGHBOUR, OUR, OUT, TUNNEL, named, tables};
use plane::{Policy, PolicySettings};
use port::{Driver, Pool};
use rules::{Filter, RuleId};
use wire::{checksum, ethernet, ipv4, protocol};

const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const REMOTE: Ipv4Addr = Ipv4Addr::new(198, 18, 7, 7);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
/// The router's address in the tunnel, and a host at its other end.
const INNER: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 9);

/// The address of a VXLAN, and that of a host in it.
const VXLAN_MAC: [u8; 6] = [2, 0, 0, 0, 7, 1];
const STRANGER: [u8; 6] = [2, 0, 0, 0, 7, 9];

/// What came of a packet.
#[derive(Debug, PartialEq)]
enum Fate {
    Sent(PortId, Vec<u8>),
    /// Linux has it, with these bytes.
    Linux(Vec<u8>),
    Dropped,
}

struct Router {
    instance: Instance,
    policy: Policy,
    driver: Driver,
    tables: Tables,
}

fn settings(rules: &str, nat: &str) -> PolicySettings {
    let filter = Filter::read("test", rules, &mut |_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
    let nat = (!nat.is_empty()).then(|| serde_json::from_str::<nat::Text>(nat).unwrap().check().unwrap());
    PolicySettings { filter, nat, ..PolicySettings::default() }
}

impl Router {
    /// With a tunnel of GRE by the outside port.
    fn new(rules: &str, nat: &str) -> Router {
        Router::with(Payload::Gre { enters: Gre::PLAIN, leaves: Gre::PLAIN }, rules, nat)
    }

    /// With a tunnel of this kind.
    fn with(payload: Payload, rules: &str, nat: &str) -> Router {
        Pool::heap(256).install();
        let mut tables = tables(&[(IN, NEIGHBOUR, "10.1.0.0/24"), (OUT, NEIGHBOUR, "198.18.0.0/15")]);
        let (local, remote) = (LOCAL, REMOTE);
        let over = Over::Ipv4 { local, remote, dont_fragment: true, ignore_df: false };
        let tunnel = Tunnel { payload, ttl: 64, tos: Some(0), over };
        let flags = InterfaceFlags::UP | InterfaceFlags::FORWARD4;
        let entry = InterfaceEntry {
            ifindex: TUNNEL.0.into(),
            mtu: 1400,
            mac: if payload.vxlan().is_some() { VXLAN_MAC } else { [0; 6] },
            flags,
            port: PortId::NONE,
            tags: Tags::Tunnel(tunnel),
            table: TableId::MAIN,
            priorities: fib::Priorities::default(),
        };
        tables.set_interface(TUNNEL, Some(entry)).unwrap();
        let adjacency = Adjacency { interface: TUNNEL, mtu: 1400, mac: Some([0; 6]) };
        let adjacency = tables.add_adjacency(&adjacency).unwrap();
        let hop = tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
        tables.insert4("172.16.0.0/16".parse().unwrap(), hop).unwrap();
        let own = tables.add_next_hop(&NextHop::Local).unwrap();
        for address in [LOCAL, INNER] {
            tables.insert4(format!("{address}/32").parse().unwrap(), own).unwrap();
        }
        let (instance, policy) = Instance::start(&tables, settings(rules, nat), 1);
        let driver = Driver::new(&Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }.sizes()).unwrap();
        let router = Router { instance, policy, driver, tables };
        router.translate();
        router
    }

    fn translate(&self) {
        let ports = [(IN.0, "inside", vec![]), (OUT.0, "outside", vec![IpAddr::V4(LOCAL)])];
        let ports = ports.into_iter().chain([(TUNNEL.0, "tunnel", vec![IpAddr::V4(INNER)])]);
        let port = |(number, name, addresses): (u16, &str, _)| nat::Port {
            number,
            name: name.to_owned(),
            addresses,
        };
        self.policy.translate(&ports.map(port).collect::<Vec<_>>());
    }

    /// Other rules, in the same graph.
    fn change(&mut self, rules: &str) {
        let prepared = self.policy.prepare(settings(rules, ""), &mut self.driver, named).unwrap();
        self.policy.adopt(prepared);
        self.translate();
    }

    fn pass(&mut self, input: PortId, ip: &[u8]) -> Fate {
        let link = ethernet::Repr { destination: OUR, source: NEIGHBOUR, ether_type: ethernet::IPV4 };
        let mut sent = self.instance.pass(input, &[[&link.header()[..], ip].concat()]);
        let mut punted = self.instance.sinks.punts().map(|(packet, ..)| packet.to_vec()).collect::<Vec<_>>();
        self.instance.maintain();
        assert!(sent.len() + punted.len() <= 1);
        match (sent.pop(), punted.pop()) {
            (Some((port, frame)), _) => Fate::Sent(port, frame[14..].to_vec()),
            (_, Some(frame)) => Fate::Linux(frame[14..].to_vec()),
            _ => Fate::Dropped,
        }
    }

    /// How many packets the rule of this name has counted.
    fn counted(&self, name: &str) -> u64 {
        let (compiled, _) = self.policy.book().current();
        let named = |(_, rule): (_, &rules::Rule)| rule.name.as_deref() == Some(name);
        let number = compiled.filter().rules().position(named).unwrap();
        compiled.accounts().counter(RuleId(number as u32)).packets
    }
}

fn udp(from: Ipv4Addr, to: Ipv4Addr, ttl: u8) -> Vec<u8> {
    let upper = [&4000u16.to_be_bytes()[..], &4000u16.to_be_bytes(), &[0, 12, 0, 0, 1, 2, 3, 4]].concat();
    let header = ipv4::Repr { protocol: protocol::UDP, ttl, ..ipv4::Repr::new(from, to) };
    [&header.header(upper.len())[..], &upper].concat()
}

/// In the tunnel's header.
fn enclosed(from: Ipv4Addr, to: Ipv4Addr, inner: &[u8]) -> Vec<u8> {
    let header = ipv4::Repr { protocol: protocol::GRE, ..ipv4::Repr::new(from, to) };
    [&header.header(inner.len() + 4)[..], &[0, 0, 8, 0], inner].concat()
}

/// What was sent by the outside port in the tunnel's header.
fn inside_of(fate: &Fate) -> &[u8] {
    let Fate::Sent(OUT, packet) = fate else { panic!("{fate:?}") };
    assert_eq!(
        (packet[9], &packet[12..16], &packet[16..20]),
        (protocol::GRE, &LOCAL.octets()[..], &REMOTE.octets()[..])
    );
    &packet[24..]
}

const STATEFUL: &str = "chain input policy drop
accept state established
accept gre from 198.18.7.7 to 192.0.2.1 in outside name headers
accept in inside
accept in tunnel
chain forward policy drop
accept state established
accept in inside out tunnel
";

#[test]
fn what_is_in_them_is_judged() {
    let mut router = Router::new(STATEFUL, "");
    let stranger = enclosed(REMOTE, LOCAL, &udp(FAR, HOST, 64));
    assert_eq!(router.pass(OUT, &stranger), Fate::Dropped, "it was opened, and no rule lets it begin a flow");
    let fate = router.pass(IN, &udp(HOST, FAR, 64));
    assert_eq!(inside_of(&fate), udp(HOST, FAR, 63));
    assert_eq!(router.pass(OUT, &stranger), Fate::Sent(IN, udp(FAR, HOST, 63)), "an answer");
    assert_eq!(router.counted("headers"), 0, "what is established comes in by another rule");
    let expired = router.pass(OUT, &enclosed(REMOTE, LOCAL, &udp(FAR, HOST, 1)));
    assert_ne!(expired, Fate::Dropped);
    // What only Linux can have is its as it came.
    let for_itself = enclosed(Ipv4Addr::new(198, 18, 7, 8), LOCAL, &udp(FAR, HOST, 64));
    assert_eq!(router.pass(OUT, &for_itself), Fate::Linux(for_itself), "no end of the tunnel");
}

/// Linux knows nothing of flows, and cannot be handed a packet of one to learn from.
#[test]
fn linux_learns_of_a_stranger_in_a_vxlan_from_a_frame_that_carries_nothing() {
    let (vni, port, sources) = (7, 4789, (5000, 5100));
    let vxlan = Vxlan { vni, port, sources, sum: false, unsummed: false, learns: true };
    let mut router = Router::with(Payload::Vxlan(vxlan), &STATEFUL.replace("accept gre", "accept udp"), "");
    let enclosed = |inner: &[u8]| {
        let frame = [&VXLAN_MAC[..], &STRANGER, &[8, 0], inner].concat();
        let length = (frame.len() + 16) as u16;
        let udp = [[0x13, 0x88], port.to_be_bytes(), length.to_be_bytes(), [0; 2]].concat();
        let upper = [&udp[..], &[8, 0, 0, 0, 0, 0, 7, 0], &frame].concat();
        let header = ipv4::Repr { protocol: protocol::UDP, ..ipv4::Repr::new(REMOTE, LOCAL) };
        let link = ethernet::Repr { destination: OUR, source: NEIGHBOUR, ether_type: ethernet::IPV4 };
        [&link.header()[..], &header.header(upper.len()), &upper].concat()
    };
    let pass = |router: &mut Router, ip: &[u8]| {
        let sent = router.instance.pass(OUT, &[enclosed(ip)]);
        let punted: Vec<_> = router.instance.sinks.punts().map(|(packet, ..)| packet.to_vec()).collect();
        router.instance.maintain();
        (sent.into_iter().map(|(port, frame)| (port, frame[14..].to_vec())).collect::<Vec<_>>(), punted)
    };
    let answer = udp(FAR, HOST, 64);
    let (sent, punted) = pass(&mut router, &answer);
    assert_eq!((sent.len(), punted.len()), (0, 1), "it is opened, and no rule lets it begin a flow");
    assert!(matches!(router.pass(IN, &udp(HOST, FAR, 64)), Fate::Sent(OUT, _)));
    let (sent, punted) = pass(&mut router, &answer);
    assert_eq!(sent, [(IN, udp(FAR, HOST, 63))]);
    let [lesson] = &punted[..] else { panic!("{punted:?}") };
    assert_eq!(lesson[14 + 20 + 16..], [&VXLAN_MAC[..], &STRANGER, &[0x88, 0xb6]].concat());
    assert_eq!((lesson.len(), &lesson[16..18], &lesson[38..40]), (64, &[0, 50][..], &[0, 30][..]));
    assert!(checksum::verify(&lesson[14..34]));
    let pseudo = checksum::pseudo4(REMOTE.into(), LOCAL.into(), protocol::UDP, 30);
    assert_eq!(pseudo.with(&lesson[34..]).fold(), 0xffff);
    assert!(router.tables.know_host(TUNNEL, STRANGER, true));
    assert_eq!(pass(&mut router, &answer), (vec![(IN, udp(FAR, HOST, 63))], vec![]));
}

#[test]
fn their_own_packets_are_linuxs_where_rules_do_not_let_them_pass_as_they_are() {
    let came = enclosed(REMOTE, LOCAL, &udp(FAR, HOST, 64));
    let leaves = udp(HOST, FAR, 64);
    let input = |rules: &str| {
        format!(
            "chain input policy drop\n{rules}\naccept in inside\naccept in tunnel\nchain forward\naccept state new\n"
        )
    };
    for (rules, is_opened) in [
        ("accept gre", true),
        ("accept state new,established", true),
        ("accept state established", false),
        ("accept gre to 192.0.2.2", false),
        ("accept gre in inside", false),
        ("count accept gre", false),
        ("log accept gre", false),
        ("accept gre ttl 64", false),
        ("drop length 50-60\naccept gre", false),
        ("reject gre", false),
    ] {
        let mut router = Router::new(&input(rules), "");
        let fate = router.pass(OUT, &came);
        match is_opened {
            true => assert_eq!(fate, Fate::Sent(IN, udp(FAR, HOST, 63)), "{rules}"),
            false => assert_eq!(fate, Fate::Linux(came.clone()), "{rules}"),
        }
        assert_eq!(inside_of(&router.pass(IN, &leaves)), udp(HOST, FAR, 63), "{rules}");
    }
    let output = |rules: &str| {
        format!("chain output\naccept state established out tunnel\naccept in inside out tunnel\n{rules}\n")
    };
    for (rules, leaves_here) in [
        ("drop udp", true),
        ("accept gre\ndrop", true),
        ("drop gre out inside", true),
        ("drop gre out outside", false),
        ("accept state established\ndrop gre", false),
        ("set-dscp ef gre", false),
        ("police 10pps gre", false),
    ] {
        let mut router = Router::new(&output(rules), "");
        let fate = router.pass(IN, &leaves);
        match leaves_here {
            true => assert_eq!(inside_of(&fate), udp(HOST, FAR, 63), "{rules}"),
            false => assert_eq!(fate, Fate::Linux(leaves.clone()), "{rules}"),
        }
    }
}

#[test]
fn a_change_of_the_rules_holds_for_the_next_packet() {
    let mut router = Router::new(STATEFUL, "");
    let opened = |router: &mut Router| {
        assert_eq!(inside_of(&router.pass(IN, &udp(HOST, FAR, 64))), udp(HOST, FAR, 63));
        router.pass(OUT, &enclosed(REMOTE, LOCAL, &udp(FAR, HOST, 64))) == Fate::Sent(IN, udp(FAR, HOST, 63))
    };
    assert!(opened(&mut router));
    router.change(&STATEFUL.replace("accept gre", "drop gre"));
    assert!(!opened(&mut router));
    router.change(STATEFUL);
    assert!(opened(&mut router));
    router.change(&STATEFUL.replace("accept state established\naccept gre", "accept gre"));
    assert!(opened(&mut router));
    assert_eq!(router.counted("headers"), 1);
}

#[test]
fn without_flows_the_input_chain_sees_their_own_packets_once() {
    let rules = "chain input policy drop\naccept gre name headers\naccept in inside\naccept in tunnel\n";
    let mut router = Router::new(rules, "");
    let came = enclosed(REMOTE, LOCAL, &udp(FAR, HOST, 64));
    assert_eq!(router.pass(OUT, &came), Fate::Sent(IN, udp(FAR, HOST, 63)));
    assert_eq!(router.counted("headers"), 1);
    router.change(&rules.replace("accept gre", "drop gre"));
    assert_eq!(router.pass(OUT, &came), Fate::Dropped);
}

#[test]
fn what_is_in_them_is_translated_and_they_are_not() {
    let masquerade = r#"{ "rule": [ { "name": "home", "type": "masquerade", "out": "tunnel" } ] }"#;
    let mut router = Router::new("", masquerade);
    let fate = router.pass(IN, &udp(HOST, FAR, 64));
    assert_eq!(inside_of(&fate)[12..16], INNER.octets());
    let back = |router: &mut Router, fate: &Fate| {
        let port = u16::from_be_bytes(inside_of(fate)[20..22].try_into().unwrap());
        let mut answer = udp(FAR, INNER, 64);
        answer[22..24].copy_from_slice(&port.to_be_bytes());
        router.pass(OUT, &enclosed(REMOTE, LOCAL, &answer))
    };
    let Fate::Sent(IN, answer) = back(&mut router, &fate) else { panic!("no answer") };
    assert_eq!((&answer[12..16], &answer[16..20]), (&FAR.octets()[..], &HOST.octets()[..]));
    // By the address that they have already.
    let both = masquerade.replace("\"tunnel\"", "[\"tunnel\", \"outside\"]");
    let mut router = Router::new("", &both);
    let fate = router.pass(IN, &udp(HOST, FAR, 64));
    assert_eq!(inside_of(&fate)[12..16], INNER.octets());
    assert!(matches!(back(&mut router, &fate), Fate::Sent(IN, _)));
    // Rules that are for their own packets.
    let pool =
        r#"{ "rule": [ { "name": "own", "type": "source", "out": "outside", "pool": "192.0.2.9" } ] }"#;
    let leaves = udp(HOST, FAR, 64);
    assert_eq!(Router::new("", pool).pass(IN, &leaves), Fate::Linux(leaves.clone()));
    let forward = r#"{ "rule": [ { "name": "in", "type": "destination", "in": "outside", "protocol": "gre",
        "destination": "192.0.2.1", "to": "10.1.0.9" } ] }"#;
    let mut router = Router::new("", forward);
    assert!(matches!(router.pass(IN, &leaves), Fate::Sent(OUT, _)));
    let came = enclosed(REMOTE, LOCAL, &udp(FAR, HOST, 64));
    assert!(matches!(router.pass(OUT, &came), Fate::Sent(IN, packet) if packet[16..20] == [10, 1, 0, 9]));
}
