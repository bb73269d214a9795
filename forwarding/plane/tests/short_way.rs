//! Packets of known flows, and packets that rules only accept, take the short way or the long one,
//! and the same becomes of them: every packet, the flows' accounts, the rules' counts.
//!
//! Two routers with the same rules and the same translation, one of which has no short way, get the
//! same packets: handshakes, data, segments out of their window, ends, datagrams, fragments,
//! options, packets that are at the end of their time.

mod instance;

use std::net::{IpAddr, Ipv4Addr};

use elements::router::standard::{self, Stages};
use elements::router::{IcmpPolicy, IcmpSettings, RouterContext, SharedContext, Sources};
use fib::{Adjacency, Capacity, InterfaceEntry, InterfaceFlags, NextHop, Path, PortId, TableId, Tables};
use graph::{Batch, Graph, NodeId, Sinks};
use instance::{IN, Instance, OUT};
use lab::prefixes::Random;
use plane::{Policy, PolicySettings};
use port::{Driver, Packet, Pool};
use rules::{Filter, RuleId};
use wire::tcp::flag::{ACK, FIN, RST, SYN};
use wire::{Mac, checksum, ethernet, ipv4, ipv6, protocol};

const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 1, 2])];
const HOST: Mac = Mac([2, 0, 0, 0, 0, 9]);
/// The router's own, inside.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
/// The outside is reached by another as well.
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 8]);
const INSIDE: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
/// As it appears outside, where it is translated.
const SEEN: &str = "192.0.2.2";
const OUTSIDE: [&str; 2] = ["198.18.0.1", "2001:db8:f::1"];

const RULES: &str = "chain input
accept from 10.1.0.2
chain forward policy drop
drop state invalid name invalid
accept state established,related name known
accept tcp in inside
accept udp in inside
";

/// Rules that ask nothing about flows: some only accept, others do more or look more closely, at
/// every hook.
const STATELESS: &str = "set hosts 10.1.0.2, 198.18.0.1, 2001:db8:1::2
chain input
drop from any to any port 4001 length 140-160 name long
count udp from 2001:db8:1::2 port 1024-1035
chain forward policy drop
accept tcp flags fin/fin name ends
set-dscp af11 accept tcp to any port 1030-1035 name painted
reject tcp to any port 1036-1040
mark 7 from any to any port 1041-1045
accept from any to any port 1041-1045 marked 7 name marked
accept tcp from @hosts to any port !1046-1050 name hosts
accept udp from any port 4001 to any out inside name answers
accept from 10.1.0.0/16, 2001:db8:1::/48 port 1024-1050 to any in inside name inside
jump more
chain more
accept tcp from any port 4001 in !inside
return udp from any port 1051-1055
accept from any
chain output
drop out inside from any to any port 1056-1060
drop out outside from any port 1061-1064
accept out outside name leaves
";

/// Packet memory that the test needs at once.
const CHUNKS: usize = 256;

struct Router {
    graph: Graph,
    entry: NodeId,
    context: SharedContext,
    sinks: Sinks,
    policy: Policy,
}

/// What became of a packet.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    sent: Vec<(PortId, Vec<u8>)>,
    punted: usize,
}

fn tables() -> Tables {
    let mut tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 16 }, None).unwrap();
    let flags =
        InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
    for (port, mac) in [IN, OUT].into_iter().zip(MACS) {
        let entry = InterfaceEntry::of_port(port, u32::from(port.0), 1500, mac.0, flags);
        tables.set_interface(port.interface(), Some(entry)).unwrap();
    }
    let routes = [
        ("10.1.0.0/24", "2001:db8:1::/64", IN, &[HOST][..]),
        ("198.18.0.0/15", "2001:db8:f::/48", OUT, &[HOST, OTHER]),
    ];
    for (four, six, port, by) in routes {
        let mut path = |mac: &Mac| {
            let adjacency = tables
                .add_adjacency(&Adjacency { interface: port.interface(), mtu: 1500, mac: Some(mac.0) })
                .unwrap();
            Path { adjacency, weight: 1 }
        };
        let paths = by.iter().map(&mut path).collect();
        let hop = tables.add_next_hop(&NextHop::Forward(paths)).unwrap();
        tables.insert4(four.parse().unwrap(), hop).unwrap();
        tables.insert6(six.parse().unwrap(), hop).unwrap();
    }
    tables
}

impl Router {
    fn new(tables: &Tables, rules: &str, nat: bool, fast: bool) -> Router {
        let sources = Sources::new();
        sources.set_local4([(TableId::MAIN, OWN)]);
        let router_context = RouterContext {
            icmp: IcmpPolicy::of(IcmpSettings::unlimited()),
            ..RouterContext::new(tables.view(), sources, 1)
        };
        let environment = standard::environment(router_context);
        let mut driver = Driver::new(&Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }.sizes()).unwrap();
        let nat = nat.then(|| {
            let text = r#"{ "rule": [{ "name": "one", "type": "one-to-one", "out": "outside", "inside": "10.1.0.0/24", "outside": "192.0.2.0/24" }] }"#;
            serde_json::from_str::<nat::Text>(text).unwrap().check().unwrap()
        });
        let filter = Filter::read("test", rules, &mut |_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
        let settings = PolicySettings { filter, nat, ..PolicySettings::default() };
        let policy = Policy::new(settings, 1, &mut driver, named).unwrap();
        let stages = Stages { fast, ..policy.stages() };
        let Instance { graph, entry, context, sinks } = Instance::new(environment, &policy, stages);
        Router { graph, entry, context, sinks, policy }
    }

    fn pass(&mut self, frames: &[(PortId, Vec<u8>)]) -> Outcome {
        let mut batch = Batch::new();
        for (input, frame) in frames {
            let mut packet = Packet::new(frame).unwrap();
            packet.input = input.interface();
            batch.push(packet).unwrap();
        }
        self.graph.run(self.entry, &mut batch, &mut self.sinks);
        let mut sent = Vec::new();
        self.sinks.transmit(|port, packets| {
            sent.extend(packets.drain(..).map(|packet| (port, packet.to_vec())));
        });
        // What takes the short way leaves behind what does not.
        sent.sort();
        let punted = self.sinks.punts().count();
        self.context.maintain(graph::steady_now());
        Outcome { sent, punted }
    }

    /// All flows as they stand, without their times, which no two tables share.
    fn flows(&self) -> Vec<String> {
        let worker = self.policy.table().unwrap().worker().unwrap();
        let mut flows = Vec::new();
        worker.flows(0, u32::MAX, graph::steady_now(), &mut |_, account| {
            flows.push(format!(
                "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
                account.original,
                account.reply,
                account.packets,
                account.bytes,
                account.tcp_flags,
                account.phase,
                account.ports
            ));
        });
        worker.offline();
        flows.sort();
        flows
    }

    /// Packets and bytes of every rule.
    fn rules(&self) -> Vec<(u64, u64)> {
        let (compiled, _) = self.policy.book().current();
        let counter = |rule| compiled.accounts().counter(RuleId(rule));
        (0..compiled.accounts().len() as u32)
            .map(counter)
            .map(|counter| (counter.packets, counter.bytes))
            .collect()
    }

    fn short(&self) -> u64 {
        let fast = self.graph.description().find("fast").map(|node| node.id);
        fast.map_or(0, |node| self.graph.counters().node(node).unwrap().output(1))
    }
}

fn named(name: &str) -> Vec<u16> {
    match name {
        "inside" => vec![IN.0],
        "outside" => vec![OUT.0],
        _ => Vec::new(),
    }
}

/// A connection, or a row of datagrams, as its ends see it.
struct Conversation {
    six: bool,
    tcp: bool,
    port: u16,
    /// What each end sends next.
    next: [u32; 2],
    /// Which of the handshake's segments have been sent.
    steps: usize,
    /// It has been ended or begun again: nothing of it takes the short way any more.
    ended: bool,
}

impl Conversation {
    /// Its next packet: which end sends it, and the packet from its IP header on.
    fn packet(&mut self, nat: bool, random: &mut Random) -> (usize, Vec<u8>) {
        let mut from = random.below(2);
        let mut upper = Vec::new();
        let data = vec![7; [0, 1, 100, 1000][random.below(4)]];
        if self.tcp {
            let mut flags = ACK;
            match self.steps {
                0 => (from, flags) = (0, SYN),
                1 => (from, flags) = (1, SYN | ACK),
                2 => from = 0,
                _ => match random.below(200) {
                    0 => flags = FIN | ACK,
                    1 => flags = RST | ACK,
                    2 => flags = SYN,
                    _ => {}
                },
            }
            self.ended |= self.steps > 2 && flags != ACK;
            self.steps += 1;
            let mut sequence = self.next[from];
            let ack = if flags == SYN { 0 } else { self.next[1 - from] };
            if self.steps > 3 && random.below(20) == 0 {
                sequence = sequence.wrapping_add([0x4000_0000, u32::MAX - 5000, 100][random.below(3)]);
            }
            upper.extend([sequence, ack].iter().flat_map(|word| word.to_be_bytes()));
            // Now and then one that says to begin with its data too early, or beyond its end.
            let offset = if random.below(40) == 0 { [0x40, 0xf0][random.below(2)] } else { 0x50 };
            upper.extend([offset, flags, 0xff, 0xff, 0, 0, 0, 0]);
            let data = if flags & (SYN | RST) == 0 { &data[..] } else { &[] };
            upper.extend(data);
            let more = data.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
            if sequence == self.next[from] {
                self.next[from] = sequence.wrapping_add(more);
            }
        } else {
            from = if self.steps == 0 { 0 } else { from };
            self.steps += 1;
            upper.extend((8 + data.len() as u16).to_be_bytes());
            upper.extend([0, 0]);
            upper.extend(data);
        }
        let mut ports = [self.port, 4001];
        let family = usize::from(self.six);
        let mut hosts = [INSIDE[family], OUTSIDE[family]];
        if from == 1 {
            ports.reverse();
            hosts.reverse();
            if nat && !self.six {
                hosts[1] = SEEN;
            }
        }
        let upper = [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes(), &upper].concat();
        (from, packet(hosts, if self.tcp { protocol::TCP } else { protocol::UDP }, upper, random))
    }
}

/// A packet with a right checksum (datagrams over IPv4 now and then with none), and now and then
/// with something odd about it.
fn packet(hosts: [&str; 2], protocol: u8, mut upper: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let at = if protocol == protocol::TCP { 16 } else { 6 };
    let ttl = if random.below(50) == 0 { 1 } else { 64 };
    match hosts.map(|host| host.parse().unwrap()) {
        [IpAddr::V4(source), IpAddr::V4(destination)] => {
            let pseudo = checksum::pseudo4(source.into(), destination.into(), protocol, upper.len() as u16);
            if protocol == protocol::TCP || random.below(4) != 0 {
                let sum = !pseudo.with(&upper).fold();
                upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            }
            let fragment = [ipv4::MORE_FRAGMENTS, 0x0010, ipv4::DONT_FRAGMENT][random.below(3)];
            let fragment = if random.below(50) == 0 { fragment } else { 0 };
            let repr = ipv4::Repr { ttl, protocol, fragment, ..ipv4::Repr::new(source, destination) };
            [&repr.header(upper.len())[..], &upper].concat()
        }
        [IpAddr::V6(source), IpAddr::V6(destination)] => {
            let (from, to) = (source.to_bits(), destination.to_bits());
            let sum = !checksum::pseudo6(from, to, protocol, upper.len() as u32).with(&upper).fold();
            upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            let repr = ipv6::Repr::new(source, destination);
            if random.below(50) == 0 {
                // Behind options for the destination.
                let options = [protocol, 0, 1, 4, 0, 0, 0, 0];
                let repr = ipv6::Repr { hop_limit: ttl, next_header: 60, ..repr };
                return [&repr.header(upper.len() + 8)[..], &options, &upper].concat();
            }
            let repr = ipv6::Repr { hop_limit: ttl, next_header: protocol, ..repr };
            [&repr.header(upper.len())[..], &upper].concat()
        }
        _ => unreachable!("both of one family"),
    }
}

/// Makes something of a frame's headers other than it should be.
fn damage(frame: &mut [u8], random: &mut Random) {
    let (link, ip) = frame.split_at_mut(14);
    let bit = 1 << random.below(8);
    match random.below(5) {
        0 => link[random.below(6)] ^= bit,
        1 | 2 => ip[random.below(20)] ^= bit,
        // An address of which there are none, or that is the router's own.
        3 => {
            let odd = [[0, 1], [127, 0], [169, 254], [169, 253], [224, 0], [255, 255]][random.below(6)];
            ip[12 + 4 * random.below(2)..][..2].copy_from_slice(&odd);
        }
        _ => ip[12..16].copy_from_slice(&OWN.octets()),
    }
    if ip[0] >> 4 == 4 && random.below(3) != 0 {
        ipv4::set_checksum(&mut ip[..20]);
    }
}

/// Two routers, of which the first has a short way, and what is sent through both.
struct Trial {
    routers: [Router; 2],
    nat: bool,
    conversations: Vec<Conversation>,
    /// Ports of those that begin.
    ports: std::iter::Cycle<std::ops::Range<u16>>,
    random: Random,
    sent: u64,
    lost: usize,
}

impl Trial {
    fn new(tables: &Tables, rules: &str, nat: bool, ports: std::ops::Range<u16>, seed: u64) -> Trial {
        let routers = [true, false].map(|fast| Router::new(tables, rules, nat, fast));
        let random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let (ports, conversations) = (ports.cycle(), Vec::new());
        let mut trial = Trial { routers, nat, conversations, ports, random, sent: 0, lost: 0 };
        trial.conversations = (0..16).map(|_| trial.begun()).collect();
        trial
    }

    fn begun(&mut self) -> Conversation {
        let Trial { random, ports, .. } = self;
        let next = [random.next() as u32, random.next() as u32];
        let six = random.below(3) == 0;
        Conversation {
            six,
            tcp: random.below(3) != 0,
            port: ports.next().unwrap(),
            next,
            steps: 0,
            ended: false,
        }
    }

    /// The next packet of one of the conversations, as it comes in.
    fn frame(&mut self, begin: usize) -> (PortId, Vec<u8>) {
        let which = self.random.below(self.conversations.len());
        self.frame_of(which, begin)
    }

    fn frame_of(&mut self, which: usize, begin: usize) -> (PortId, Vec<u8>) {
        // Of those that have ended not much follows, or most packets would be theirs.
        let begin = if self.conversations[which].ended { begin.min(20) } else { begin };
        if self.random.below(begin) == 0 {
            self.conversations[which] = self.begun();
        }
        let (from, ip) = self.conversations[which].packet(self.nat, &mut self.random);
        let ether_type = if ip[0] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
        let link = ethernet::Repr { destination: MACS[from], source: HOST, ether_type };
        let mut frame = [&link.header()[..], &ip].concat();
        if self.random.below(40) == 0 {
            damage(&mut frame, &mut self.random);
        }
        if self.random.below(2) == 0 {
            // As on the wire.
            frame.resize(frame.len().max(60), 0);
        }
        ([IN, OUT][from], frame)
    }

    fn pass(&mut self, frames: &[(PortId, Vec<u8>)]) {
        let outcomes = self.routers.each_mut().map(|router| router.pass(frames));
        assert_eq!(outcomes[0], outcomes[1], "{frames:?}");
        self.sent += outcomes[0].sent.len() as u64;
        self.lost += frames.len().saturating_sub(outcomes[0].sent.len());
    }

    /// Puts other rules in force: no verdict holds any more.
    fn change(&mut self, rules: &str) {
        assert_eq!(self.routers[0].rules(), self.routers[1].rules());
        let filter = Filter::read("test", rules, &mut |_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
        for router in &mut self.routers {
            let settings = PolicySettings { filter: filter.clone(), ..router.policy.settings().clone() };
            let mut driver = Driver::new(&Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }.sizes()).unwrap();
            let prepared = router.policy.prepare(settings, &mut driver, named).unwrap();
            router.policy.adopt(prepared);
        }
    }

    /// And so many in a hundred took the short way.
    fn ends_alike(&self, percent: u64) {
        let [fast, slow] = &self.routers;
        assert_eq!(fast.rules(), slow.rules());
        let (short, sent) = (fast.short(), self.sent);
        assert!(slow.short() == 0 && short * 100 > sent * percent, "{short} of {sent} took the short way");
        assert!(self.lost > 500, "{}", self.lost);
    }
}

#[test]
fn what_takes_it_ends_as_if_it_had_not() {
    for (nat, seed) in [(false, 1), (true, 2), (true, 3)] {
        Pool::heap(CHUNKS).install();
        let tables = tables();
        let mut trial = Trial::new(&tables, RULES, nat, 1024..u16::MAX, seed);
        for round in 0..40_000 {
            let frame = trial.frame(500);
            trial.pass(&[frame]);
            if round == 20_000 {
                trial.change(RULES);
            }
        }
        trial.ends_alike(90);
        let [fast, slow] = &trial.routers;
        assert_eq!(fast.flows(), slow.flows());
    }
}

/// Of one flow only one packet is in a batch: those that do not take the short way are overtaken.
#[test]
fn what_takes_it_in_batches_ends_as_if_it_had_not() {
    for (nat, seed) in [(false, 5), (true, 6), (true, 7)] {
        Pool::heap(2 * CHUNKS).install();
        let tables = tables();
        let mut trial = Trial::new(&tables, RULES, nat, 1024..u16::MAX, seed);
        trial.conversations = (0..64).map(|_| trial.begun()).collect();
        for round in 0..2000 {
            let (first, count) = (trial.random.below(64), 1 + trial.random.below(64));
            let frames: Vec<_> = (0..count).map(|n| trial.frame_of((first + n) % 64, 500)).collect();
            trial.pass(&frames);
            if round == 1000 {
                trial.change(RULES);
            }
        }
        trial.ends_alike(90);
        let [fast, slow] = &trial.routers;
        assert_eq!(fast.flows(), slow.flows());
    }
}

/// A verdict holds for the port that it was given for.
#[test]
fn what_leaves_by_another_port_is_judged_anew() {
    Pool::heap(2 * CHUNKS).install();
    let mut tables = tables();
    let rules = RULES.to_owned() + "chain output\ndrop out inside from any to 198.18.0.0/15 name astray\n";
    let mut trial = Trial::new(&tables, &rules, false, 1024..u16::MAX, 8);
    for round in 0..4000 {
        let frame = trial.frame(5000);
        // Those that leave by the port that they came by are Linux's to see.
        let inwards = frame.0 == IN && round > 2000;
        trial.pass(&[if inwards { (OUT, readdressed(frame.1)) } else { frame }]);
        if round == 2000 {
            let before = trial.routers[0].short();
            assert!(before > 1000, "{before}");
            let adjacency = Adjacency { interface: IN.interface(), mtu: 1500, mac: Some(HOST.0) };
            let path = Path { adjacency: tables.add_adjacency(&adjacency).unwrap(), weight: 1 };
            let hop = tables.add_next_hop(&NextHop::Forward(vec![path])).unwrap();
            tables.insert4("198.18.0.0/15".parse().unwrap(), hop).unwrap();
        }
    }
    trial.ends_alike(80);
    let (rules, last) = (trial.routers[0].rules(), trial.routers[0].rules().len() - 1);
    assert!(rules[last].0 > 100, "{rules:?}");
}

/// The same frame to the router's other port.
fn readdressed(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[..6] == MACS[0].0 {
        frame[..6].copy_from_slice(&MACS[1].0);
    }
    frame
}

#[test]
fn what_rules_only_accept_ends_as_if_it_had_not_taken_it() {
    Pool::heap(CHUNKS).install();
    let tables = tables();
    let mut trial = Trial::new(&tables, STATELESS, false, 1024..1070, 4);
    assert!(trial.routers[0].policy.table().is_none(), "no flows are known");
    for round in 0..4000 {
        let count = 1 + trial.random.below(64);
        let frames: Vec<_> = (0..count).map(|_| trial.frame(50)).collect();
        trial.pass(&frames);
        if round == 2000 {
            let counts = trial.routers[0].rules();
            assert!(counts.iter().all(|(packets, _)| *packets > 0), "{counts:?}");
            assert!(trial.routers[0].short() > trial.sent / 2);
            // Rules at one hook only: what others said before is no longer counted.
            trial.change("chain forward policy drop\naccept tcp\naccept udp from any port 4001\n");
        }
    }
    trial.ends_alike(86);
}
