//! Two routers with tables and address translation of their own, and a way between them that loses,
//! repeats and turns around what it carries: in the end both have the same flows, and say so.

use std::collections::BTreeMap;
use std::sync::Arc;

use chance::Random;
use flow::{
    Account, End, Inserted, Key as FlowKey, Opening, Phase, Settings, Table, Timeouts, Tuple, Worker,
};
use nat::{Nat, Port, Text};
use proptest::prelude::*;
use sharing::{Dropped, Epoch, Here, Key, Sharer, State};
use wire::Headers;

const MILLI: u64 = 1_000_000;
const LAN: u16 = 0;
const WAN: u16 = 1;
const RULES: &str =
    "[[rule]]\nname = \"pool\"\ntype = \"source\"\nout = \"wan\"\npool = \"203.0.113.16/30\"\n";

fn key(text: &str) -> Key {
    text.repeat(4).parse().unwrap()
}

struct Router {
    worker: Worker,
    nat: Arc<Nat>,
    here: Here,
    sharer: Sharer,
}

/// What a router has of a flow: how answers come, and by which interfaces.
type Flows = BTreeMap<Tuple, (Tuple, [u16; 2])>;

impl Router {
    fn new(epoch: u8, names: &[&str], now: u64) -> Router {
        let table = Table::new(&Settings { memory: 4 << 20, ..Settings::default() }).unwrap();
        let nat = Nat::new();
        let port = |(number, name): (usize, &&str)| Port {
            number: number as u16,
            name: (*name).to_owned(),
            addresses: Vec::new(),
        };
        let ports: Vec<Port> = names.iter().enumerate().map(port).collect();
        let rules = toml::from_str::<Text>(RULES).unwrap().check().unwrap();
        nat.install(&rules, &ports, |word, name| word == name);
        let nat = Arc::new(nat);
        let worker = table.worker().unwrap();
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let here = Here::new(&table, Some(nat.clone()), Timeouts::default(), names).unwrap();
        let sharer = Sharer::new(&key("0123456789abcdef"), Epoch([epoch; 16]), now);
        Router { worker, nat, here, sharer }
    }

    /// A packet from a host behind `lan`, or an answer to it. Whether it was let through.
    fn forward(&mut self, packet: &[u8], ports: [u16; 2], now: u64) -> bool {
        let headers = Headers::parse(packet).unwrap();
        let original = Tuple::of(&headers, 0);
        if let Some(hit) = self.worker.find(&FlowKey::of(&original)) {
            return !matches!(
                self.worker.track(&hit, &headers, packet, now, || true),
                flow::Tracked::Is(flow::State::Invalid)
            );
        }
        if ports[0] != LAN {
            return false;
        }
        let Ok(binding) = self.nat.bind(&original, None, ports, now) else { return false };
        let reply = binding.map(|binding| binding.reply);
        let opening = Opening { headers: &headers, ip: packet, original, reply, ports, mark: 0 };
        match self.worker.insert(&opening, now) {
            Ok(Inserted::New(_)) => true,
            _ => {
                let reply = reply.unwrap_or(original.reversed());
                self.nat.release_tuples(&original, &reply, now, &mut |_| {});
                false
            }
        }
    }

    fn step(&mut self, now: u64) {
        let mut ended: Vec<Account> = Vec::new();
        self.worker.maintain(now, &mut |account| ended.push(*account));
        for account in ended.iter().filter(|account| account.end != End::Slice) {
            self.nat.release(account, now, |_| {});
            self.sharer.ended(&account.original, now);
        }
        self.sharer.step(now, &mut self.here);
    }

    fn flows(&self) -> Flows {
        let (mut flows, mut next) = (Flows::new(), Some(0));
        while let Some(from) = next {
            next = self.worker.flows(from, 4096, 0, &mut |_, account| {
                let over = matches!(account.phase, Phase::Finished | Phase::Reset);
                let untold =
                    matches!(account.phase, Phase::Opening | Phase::Unreplied) && !account.is_translated();
                if !over && !untold {
                    flows.insert(account.original, (account.reply, account.ports));
                }
            });
        }
        flows
    }

    /// Its translated flows, by the address and port that they have outside.
    fn outside(&self) -> BTreeMap<(u8, [u8; 16], u16), Tuple> {
        let flows = self.flows().into_iter();
        let translated = flows.filter(|(original, (reply, _))| original.reversed() != *reply);
        translated
            .map(|(original, (reply, _))| {
                ((reply.protocol, reply.destination, reply.destination_port), original)
            })
            .collect()
    }

    fn end(&mut self, original: &Tuple) -> bool {
        let hit = self.worker.find(&FlowKey::of(original));
        hit.is_some_and(|hit| self.worker.end(&hit, End::Flushed))
    }

    /// The first reply tuple of a flow.
    fn reply(&mut self, original: &Tuple) -> Option<Tuple> {
        let hit = self.worker.find(&FlowKey::of(original))?;
        Some(self.worker.reply(&hit))
    }
}

/// A packet between two endpoints; TCP where there are flags.
fn packet(tuple: &Tuple, tcp: Option<(u8, u32, u32)>) -> Vec<u8> {
    let (source, destination) = (&tuple.source[12..], &tuple.destination[12..]);
    let (protocol, length) = if tcp.is_some() { (6, 40) } else { (17, 28) };
    let mut bytes = vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, protocol, 0, 0];
    bytes.extend_from_slice(source);
    bytes.extend_from_slice(destination);
    bytes.extend_from_slice(&tuple.source_port.to_be_bytes());
    bytes.extend_from_slice(&tuple.destination_port.to_be_bytes());
    match tcp {
        None => bytes.extend([0, 8, 0, 0]),
        Some((flags, sequence, acknowledgement)) => {
            bytes.extend_from_slice(&sequence.to_be_bytes());
            bytes.extend_from_slice(&acknowledgement.to_be_bytes());
            bytes.extend([0x50, flags, 0x10, 0, 0, 0, 0, 0]);
        }
    }
    bytes
}

/// The endpoints of host `host`'s flow `number`; hosts above 100 are not translated, for they call
/// hosts inside.
fn original(host: u8, number: u16, tcp: bool) -> Tuple {
    Tuple {
        source: wire::headers::mapped([10, 0, 0, host]),
        destination: wire::headers::mapped([198, 51, 100, 1 + (number % 7) as u8]),
        source_port: 1024 + number,
        destination_port: 443,
        protocol: if tcp { 6 } else { 17 },
        table: 0,
    }
}

/// The way between two routers.
struct Way {
    random: Random,
    loss: usize,
    cut: bool,
    /// When, to which, what.
    going: Vec<(u64, usize, Vec<u8>)>,
}

struct World {
    routers: [Router; 2],
    way: Way,
    now: u64,
    epochs: u8,
}

impl World {
    fn new(seed: u64, loss: usize) -> World {
        let now = 1 << 40;
        // What is number 1 here is number 0 there.
        let routers = [Router::new(1, &["lan", "wan"], now), Router::new(2, &["lan", "wan", "more"], now)];
        World {
            routers,
            way: Way { random: Random(seed), loss, cut: false, going: Vec::new() },
            now,
            epochs: 2,
        }
    }

    fn pass(&mut self, millis: u64) {
        let until = self.now + millis * MILLI;
        while self.now < until {
            self.now += 5 * MILLI;
            for (at, router) in self.routers.iter_mut().enumerate() {
                router.step(self.now);
                while let Some(datagram) = router.sharer.next(self.now, &mut router.here) {
                    let way = &mut self.way;
                    for _ in 0..1 + usize::from(way.loss > 0 && way.random.chance(5)) {
                        if !way.cut && !way.random.chance(way.loss) {
                            let late = if way.loss > 0 { way.random.below(30) as u64 } else { 1 };
                            way.going.push((self.now + late * MILLI, 1 - at, datagram.clone()));
                        }
                    }
                }
            }
            let (due, later) =
                std::mem::take(&mut self.way.going).into_iter().partition(|(at, ..)| *at <= self.now);
            self.way.going = later;
            let due: Vec<(u64, usize, Vec<u8>)> = due;
            for (_, to, datagram) in due {
                let router = &mut self.routers[to];
                router.sharer.hear(&datagram, self.now, &mut router.here);
            }
        }
    }

    /// A connection that is opened, or a datagram with its answer, at one of the routers.
    fn open(&mut self, at: usize, host: u8, number: u16, tcp: bool) -> bool {
        let (router, now) = (&mut self.routers[at], self.now);
        let original = original(host, number, tcp);
        let ports = if host > 100 { [LAN, LAN] } else { [LAN, WAN] };
        let first = packet(&original, tcp.then_some((2, 1000, 0)));
        if !router.forward(&first, ports, now) {
            return false;
        }
        let Some(reply) = router.reply(&original) else { return false };
        let answer = packet(&reply, tcp.then_some((0x12, 5000, 1001)));
        let last = packet(&original, tcp.then_some((0x10, 1001, 5001)));
        router.forward(&answer, [WAN, LAN], now) && router.forward(&last, ports, now)
    }

    /// Data of an open flow, both ways, by way of a router: from where it was to where it is then.
    /// The server speaks first, or the client. Whether all passed.
    fn talk(
        &mut self,
        at: usize,
        (host, number, tcp): (u8, u16, bool),
        [was, is]: [u32; 2],
        server: bool,
    ) -> bool {
        let (router, now) = (&mut self.routers[at], self.now);
        let original = original(host, number, tcp);
        let Some(reply) = router.reply(&original) else { return false };
        let segment = |own: u32, other: u32| tcp.then_some((0x18, own, other));
        let (asked, answered) = if server { (is, was) } else { (was, is) };
        let ask = packet(&original, segment(1001 + is, 5001 + asked));
        let answer = packet(&reply, segment(5001 + is, 1001 + answered));
        let mut pass = [(&ask, [LAN, WAN]), (&answer, [WAN, LAN])];
        if server {
            pass.reverse();
        }
        pass.into_iter().all(|(packet, ports)| router.forward(packet, ports, now))
    }

    /// A router begins anew, with its table or without.
    fn restart(&mut self, at: usize, keeps: bool) {
        self.epochs += 1;
        let names: &[&str] = if at == 0 { &["lan", "wan"] } else { &["lan", "wan", "more"] };
        let fresh = Router::new(self.epochs, names, self.now);
        match keeps {
            true => self.routers[at].sharer = fresh.sharer,
            false => self.routers[at] = fresh,
        }
    }

    fn assert_equal(&mut self) {
        self.way.loss = 0;
        self.way.cut = false;
        for _ in 0..60 {
            self.pass(5000);
            let done = self.routers.iter().all(|it| it.sharer.status(self.now).state == State::Shared);
            if done && self.routers[0].flows() == self.routers[1].flows() {
                break;
            }
        }
        let [one, two] = self.routers.each_ref().map(Router::flows);
        let [here, there] = self.routers.each_ref().map(|router| router.sharer.status(self.now));
        assert_eq!(one, two, "{here:#?} {there:#?}");
        assert_eq!((here.state, there.state), (State::Shared, State::Shared), "{here:#?} {there:#?}");
        assert_eq!(
            (here.figures.told, there.figures.told),
            (there.figures.held, here.figures.held),
            "{here:#?} {there:#?}"
        );
        assert!(
            here.figures.told + there.figures.told >= one.len() as u64,
            "{} flows: {here:#?} {there:#?}",
            one.len()
        );
    }
}

#[test]
fn connections_go_on_at_the_other_router() {
    let mut world = World::new(1, 0);
    world.pass(1000);
    let flow = |number: u16| (1 + (number % 50) as u8, number, !number.is_multiple_of(3));
    for (host, number, tcp) in (0..200).map(flow) {
        assert!(world.open(0, host, number, tcp));
    }
    world.pass(300);
    // Most have gone on for long since they were told of.
    for step in 1..200 {
        (0..200).for_each(|number| {
            assert!(world.talk(0, flow(number), [step * 1000 - 1000, step * 1000], false))
        });
    }
    world.pass(3000);
    world.way.cut = true;
    world.pass(2000);
    assert_eq!(world.routers[1].sharer.status(world.now).state, State::Silent);
    for number in 0..200 {
        assert!(world.talk(1, flow(number), [199_000, 200_000], number % 2 == 0), "{number}");
        assert!(world.talk(1, flow(number), [200_000, 201_000], number % 4 == 0), "{number}");
    }
    world.restart(0, false);
    world.assert_equal();
    let [one, two] = world.routers.each_ref().map(|router| router.sharer.status(world.now));
    assert_eq!((one.figures.held, two.figures.told, one.figures.told), (200, 200, 0));
    // And back.
    (0..200).for_each(|number| assert!(world.talk(0, flow(number), [201_000, 202_000], true), "{number}"));
    world.assert_equal();
    let [one, two] = world.routers.each_ref().map(|router| router.sharer.status(world.now));
    assert_eq!((one.figures.told, two.figures.held, two.figures.told), (200, 200, 0));
    // Ends as well.
    for (host, number, tcp) in (0..150).map(flow) {
        assert!(world.routers[0].end(&original(host, number, tcp)));
    }
    world.pass(1000);
    assert_eq!(world.routers[1].flows().len(), 50);
    world.assert_equal();
    for router in &world.routers {
        assert_eq!(router.nat.len(), 50, "mappings end with their flows");
    }
}

/// How many flows each router tells of.
fn told(world: &World) -> [u64; 2] {
    world.routers.each_ref().map(|router| router.sharer.status(world.now).figures.told)
}

/// Whichever of the two has the lower epoch.
#[test]
fn connections_go_on_however_often_routers_change() {
    for older in [0, 1] {
        let mut world = World::new(7, 0);
        world.restart(1 - older, false);
        world.pass(1000);
        (0..50).for_each(|number| assert!(world.open(0, 1, number, true)));
        world.pass(300);
        let mut sent = 0;
        // Each has many windows by one router, and goes over to the other one between two
        // packets: now and then before that one has heard of the last ones.
        for (turn, pause) in [5, 60, 100, 700, 60, 3000, 50, 20_000, 400, 5].into_iter().enumerate() {
            let at = turn % 2;
            for step in 0..50 {
                let (was, is) = (sent, sent + 2000);
                sent = is;
                for number in 0..50 {
                    let talks = world.talk(at, (1, number, true), [was, is], number % 3 == step % 3);
                    assert!(talks || step == 0, "{number} at {at}, step {step} of turn {turn}");
                    if !talks {
                        world.pass(400);
                        assert!(world.talk(at, (1, number, true), [was, is], true), "again");
                    }
                }
            }
            world.pass(pause);
        }
        world.assert_equal();
        // Now one of them alone.
        world.talk(1, (1, 0, true), [sent, sent + 1], false);
        world.pass(30_000);
        let told = told(&world);
        assert_eq!(told[0] + told[1], 50, "{told:?}, whose epoch is lower: {older}");
    }
}

#[test]
fn windows_are_compared_again_when_the_other_router_is_gone() {
    let mut world = World::new(9, 0);
    world.pass(1000);
    let flow = (1, 0, true);
    assert!(world.open(0, flow.0, flow.1, flow.2));
    world.pass(300);
    assert!(world.talk(1, flow, [0, 2000], false));
    world.pass(60);
    world.way.cut = true;
    for step in 1..100 {
        assert!(world.talk(0, flow, [step * 2000, step * 2000 + 2000], step % 2 == 0), "{step}");
        world.pass(20);
    }
    world.pass(5000);
    let forged = packet(&original(1, 0, true), Some((0x18, 9_000_000, 5001 + 200_000)));
    assert!(!world.routers[0].forward(&forged, [LAN, WAN], world.now));
    assert!(world.talk(0, flow, [200_000, 201_000], false));
}

#[test]
fn directions_may_go_by_different_routers() {
    let mut world = World::new(8, 0);
    world.pass(1000);
    (0..50).for_each(|number| assert!(world.open(0, 1, number, true)));
    world.pass(300);
    for step in 0..400u32 {
        for number in 0..50 {
            let original = original(1, number, true);
            let reply = world.routers[0].reply(&original).unwrap();
            let (was, is) = (step * 2000, step * 2000 + 2000);
            let ask = packet(&original, Some((0x18, 1001 + is, 5001 + was)));
            let answer = packet(&reply, Some((0x18, 5001 + is, 1001 + is)));
            assert!(world.routers[0].forward(&ask, [LAN, WAN], world.now), "step {step}, {number}");
            assert!(world.routers[1].forward(&answer, [WAN, LAN], world.now), "step {step}, {number}");
        }
        world.pass(60);
    }
    assert_eq!(told(&world), [50, 50]);
    world.assert_equal();
    world.pass(10_000);
    assert_eq!(told(&world).iter().sum::<u64>(), 50, "{:?}", told(&world));
}

#[test]
fn what_is_lost_here_is_found_and_told_anew() {
    let mut world = World::new(2, 0);
    world.pass(1000);
    (0..300).for_each(|number| assert!(world.open(0, 7, number, true)));
    world.pass(2000);
    assert_eq!(world.routers[1].flows().len(), 300);
    for number in 0..40 {
        assert!(world.routers[1].end(&original(7, number, true)));
    }
    world.pass(11_000);
    let status = world.routers[1].sharer.status(world.now);
    assert!(status.figures.repaired > 0, "{status:#?}");
    world.assert_equal();
    assert_eq!(world.routers[1].flows().len(), 300);
}

#[test]
fn a_translation_that_is_taken_is_waited_for_and_then_told_to_differ() {
    let mut world = World::new(3, 0);
    // Both give out the same port before they meet.
    world.way.cut = true;
    assert!(world.open(0, 1, 5, false));
    let reply = world.routers[0].reply(&original(1, 5, false)).unwrap();
    let host = (2..60).find(|host| {
        assert!(world.open(1, *host, 5, false));
        let other = world.routers[1].reply(&original(*host, 5, false)).unwrap();
        let taken =
            (other.destination, other.destination_port) == (reply.destination, reply.destination_port);
        if !taken {
            world.routers[1].end(&original(*host, 5, false));
            world.pass(20);
        }
        taken
    });
    let host = host.expect("four addresses");
    world.pass(500);
    world.way.cut = false;
    world.pass(15_000);
    for router in &world.routers {
        let status = router.sharer.status(world.now);
        assert_eq!(
            (status.state, status.figures.differing, status.figures.missing),
            (State::Differs, 1, 1),
            "{status:#?}"
        );
        assert!(status.figures.refused > 0);
    }
    // One of the two ends.
    assert!(world.routers[1].end(&original(host, 5, false)));
    world.assert_equal();
    assert_eq!(world.routers[1].flows().len(), 1);
}

#[test]
fn nobody_without_the_key_is_believed() {
    let mut world = World::new(4, 0);
    world.pass(1000);
    assert!(world.open(0, 1, 1, true));
    world.pass(500);
    let now = world.now;
    let router = &mut world.routers[1];
    let mut liar = Router::new(9, &["lan", "wan"], now);
    liar.sharer = Sharer::new(&key("fedcba9876543210"), Epoch([9; 16]), now);
    let lie = liar.sharer.next(now, &mut liar.here).unwrap();
    for cut in 0..lie.len() {
        router.sharer.hear(&lie[..cut], now, &mut router.here);
    }
    router.sharer.hear(&lie, now, &mut router.here);
    let status = router.sharer.status(now);
    assert_eq!(status.state, State::Shared);
    assert_eq!(status.dropped.values().sum::<u64>(), lie.len() as u64 + 1);
    assert!(status.dropped[&Dropped::Seal] > 0 && status.dropped[&Dropped::Malformed] > 0);
}

#[test]
fn a_router_is_ready_when_it_has_what_there_is() {
    let mut world = World::new(5, 0);
    let ready = |world: &World| world.routers.each_ref().map(|router| router.sharer.is_ready());
    assert_eq!(ready(&world), [false; 2]);
    world.way.cut = true;
    world.pass(6000);
    assert_eq!(ready(&world), [true; 2], "nobody else is there");
    world.way.cut = false;
    (0..2000).for_each(|number| assert!(world.open(0, 101, number, true)));
    world.restart(1, false);
    world.pass(50);
    assert_eq!(ready(&world), [true, false], "who has flows has them");
    world.pass(3000);
    assert_eq!(ready(&world), [true; 2]);
    assert_eq!(world.routers[1].flows().len(), 2000);
}

#[test]
fn what_came_and_went_without_the_peer_does_not_wait() {
    let mut world = World::new(6, 0);
    world.pass(1000);
    assert!(world.open(0, 1, 0, true));
    world.pass(500);
    world.way.cut = true;
    world.pass(2000);
    for round in 0..20 {
        for number in 1..100 {
            // The same ones again in every second round.
            let number = number + round % 2 * round * 100;
            assert!(world.open(0, 101, number, true));
            world.pass(30);
            assert!(world.routers[0].end(&original(101, number, true)));
        }
    }
    (1..100).for_each(|number| assert!(world.open(0, 101, number, true)));
    world.pass(6000);
    let status = world.routers[0].sharer.status(world.now);
    assert_eq!(status.state, State::Silent);
    assert!(status.figures.waiting <= 100, "{status:#?}");
    world.assert_equal();
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize, u8, u16, bool),
    Talk(usize, u8, u16, bool),
    End(usize, u8, u16, bool),
    Restart(usize, bool),
    Cut(bool),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flow = || (0..2usize, prop_oneof![0..4u8, 101..103u8], 0..12u16, any::<bool>());
    let step = prop_oneof![
        8 => flow().prop_map(|(at, host, number, tcp)| Step::Open(at, host, number, tcp)),
        6 => flow().prop_map(|(at, host, number, tcp)| Step::Talk(at, host, number, tcp)),
        3 => flow().prop_map(|(at, host, number, tcp)| Step::End(at, host, number, tcp)),
        1 => (0..2usize, any::<bool>()).prop_map(|(at, keeps)| Step::Restart(at, keeps)),
        1 => any::<bool>().prop_map(Step::Cut),
        6 => (1..2000u64).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("SHARING_CASES").map_or(32, |cases| cases.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever happens to flows, routers and the way, in the end both have the same; but for what
    /// cannot be: two flows of which each has the other's translation.
    #[test]
    fn both_have_the_same_in_the_end(seed: u64, loss in 0usize..40, steps in steps()) {
        let mut world = World::new(seed, loss);
        let mut sent = 0;
        for step in steps {
            match step {
                Step::Open(at, host, number, tcp) => drop(world.open(at, host, number, tcp)),
                Step::Talk(at, host, number, tcp) => {
                    sent += 100;
                    world.talk(at, (host, number, tcp), [sent - 100, sent], sent % 200 == 0);
                }
                Step::End(at, host, number, tcp) => drop(world.routers[at].end(&original(host, number, tcp))),
                Step::Restart(at, keeps) => world.restart(at, keeps),
                Step::Cut(cut) => world.way.cut = cut,
                Step::Pass(millis) => world.pass(millis),
            }
        }
        // Of two flows with one translation one has to end.
        world.way.cut = false;
        world.pass(3000);
        let [one, two] = world.routers.each_ref().map(Router::outside);
        for (at, original) in &two {
            let source = |original: &Tuple| (original.source, original.source_port);
            if one.get(at).is_some_and(|other| source(other) != source(original)) {
                world.routers[1].end(original);
            }
        }
        // The same flow with two translations.
        let (one, two) = (world.routers[0].flows(), world.routers[1].flows());
        for (original, (reply, _)) in &two {
            if one.get(original).is_some_and(|(other, _)| other != reply) {
                world.routers[1].end(original);
            }
        }
        world.assert_equal();
    }
}
