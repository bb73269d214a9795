//! A worker's graph with the driver in front of it, or without.

use std::sync::{Arc, Mutex};

use elements::router::standard::{self, Hooks, Standard};
use elements::router::{IcmpPolicy, IcmpSettings, RouterContext, Sampling, SharedContext, Sources};
use fib::{InterfaceFlags, PortId, Tables};
use flow::sample::Sampler;
use flow::{Account, End, Settings, Tuple};
use graph::{Batch, Clock, Graph, Hand, Manner, NodeId, Sinks, steady_now};
use plane::{Policy, PolicySettings};
use port::Packet;
use rules::{Filter, RuleId};
use wire::{Class, Reason};

use super::tables::{filled, open, rules};
use super::{Front, Hooked, Lane, Outcome, Round, Sample, Stages};
use crate::corpus::{Frame, Hosts, IN, Kind, MACS, OUT, OWN, PRIORITIES, interface, tags};

const NAT: &str = r#"{ "rule": [
    { "name": "four", "type": "one-to-one", "out": "outside", "inside": "10.1.0.0/24", "outside": "192.0.2.0/24" },
    { "name": "six", "type": "one-to-one", "out": "outside", "inside": "2001:db8:1::/64", "outside": "2001:db8:ab::/64" },
    { "name": "web", "type": "destination", "in": "outside", "protocol": "tcp", "ports": "8080",
      "destination": "192.0.3.1", "to": "10.3.0.9:80" },
    { "name": "web6", "type": "destination", "in": "outside", "protocol": "tcp", "ports": "8080",
      "destination": "2001:db8:ac::1", "to": "[2001:db8:3::9]:80" }
] }"#;

/// The hosts of the first two rules.
pub const TRANSLATED: [&str; 2] = ["10.1.0.0/24", "2001:db8:1::/64"];

/// Linux's index of the member by which strangers send.
const MEMBER: u32 = 0x0012_3456;

/// What stands at a hook: an element that changes nothing.
const NOTHING: &str = "input -> Counter -> output";

type Lanes = Arc<Mutex<Vec<Arc<flow::sample::Lane>>>>;

pub struct Router<'a> {
    stages: Stages,
    front: Option<&'a mut Front>,
    tables: Option<Tables>,
    graph: Graph,
    entry: NodeId,
    context: SharedContext,
    sinks: Sinks,
    policy: Policy,
    lanes: Lanes,
    /// What had been counted before.
    dropped: Vec<u64>,
    punted: Vec<u64>,
    transmitted: u64,
    rules: Vec<(u64, u64)>,
}

fn named(name: &str, kind: Kind) -> Vec<u16> {
    match name {
        "inside" => vec![interface(IN, kind).0],
        "outside" => vec![interface(OUT, kind).0],
        _ => Vec::new(),
    }
}

impl<'a> Router<'a> {
    /// Behind a driver if the lane has one.
    pub fn new(stages: Stages, front: &'a mut Front, sources: &Arc<Sources>) -> Router<'a> {
        let lanes = Lanes::default();
        let kind = stages.kind;
        let named = |name: &str| named(name, kind);
        let policy = Policy::new(settings(&stages, &lanes), 1, &mut front.driver, named).unwrap();
        let front = (!matches!(stages.lane, Lane::Elements | Lane::Short)).then_some(front);
        let own = front.is_none().then(|| filled(None, kind));
        let tables = own.as_ref().or(front.as_ref().map(|front| &front.tables)).unwrap();
        let icmp = IcmpPolicy::of(IcmpSettings::unlimited());
        let router_context = RouterContext { icmp, ..RouterContext::new(tables.view(), sources.clone(), 1) };
        if kind.ruled {
            router_context.steering.change(rules());
        }
        let mut environment = standard::environment(router_context);
        policy.share(&mut environment);
        let port = |(port, name): (fib::PortId, &str)| nat::Port {
            number: interface(port, kind).0,
            name: name.to_owned(),
            addresses: Vec::new(),
        };
        policy.translate(&[(IN, "inside"), (OUT, "outside")].map(port));
        let context = policy.context(0).unwrap();
        environment.share(context.clone());
        let nothing = NOTHING.to_owned();
        let hooks = match stages.hooks {
            Hooked::Nothing => Hooks::default(),
            Hooked::Within => Hooks { prerouting: nothing.clone(), forward: nothing, ..Hooks::default() },
            Hooked::Behind => Hooks { postrouting: nothing.clone(), punt: nothing, ..Hooks::default() },
        };
        let wanted = standard::Stages { fast: stages.lane != Lane::Elements, ..policy.stages() };
        let program = standard::program(&hooks, &wanted, &elements::registry(), &environment).unwrap();
        // What waits for a timer waits for nobody here.
        let manner = Manner { clock: Clock::simulated(0), ..Manner::default() };
        let Standard { graph, entry } = Standard::of(program.instantiate(&environment, manner).unwrap());
        let mut sinks = Sinks::new();
        [IN, OUT].into_iter().for_each(|port| sinks.open(port));
        let (dropped, punted) = (vec![0; Reason::COUNT], vec![0; Class::COUNT]);
        let mut router = Router {
            stages,
            front,
            tables: own,
            graph,
            entry,
            context,
            sinks,
            policy,
            lanes,
            dropped,
            punted,
            transmitted: 0,
            rules: Vec::new(),
        };
        router.rules = router.counted();
        router
    }

    /// Whether plain packets go by the driver here, as the plane has it.
    pub fn has_lane(&self) -> bool {
        let Stages { hooks, lane, .. } = self.stages;
        let hooked = hooks != Hooked::Nothing || self.policy.stages().see_transit();
        match lane {
            // Where nothing depends on flows, strangers are Linux's.
            Lane::Classified | Lane::Express | Lane::Offloaded
                if self.are_strangers() && !self.policy.depends_on_flows() =>
            {
                false
            }
            Lane::Elements | Lane::Short | Lane::Classified => true,
            Lane::Express => !hooked,
            Lane::Offloaded => hooks == Hooked::Nothing && self.policy.offloads(),
        }
    }

    fn are_strangers(&self) -> bool {
        self.stages.kind.bridge == Some(Hosts::Strangers)
    }

    /// Sends all frames, then ends all flows.
    pub fn run(&mut self, frames: &[Frame], reverse_path: InterfaceFlags) -> Round {
        match (&mut self.front, &mut self.tables) {
            (Some(front), _) => {
                let mut flags = reverse_path;
                flags.set(InterfaceFlags::TRACKED, self.policy.depends_on_flows());
                front.open(self.stages.lane, flags);
            }
            (None, tables) => {
                tables.iter_mut().for_each(|tables| open(tables, reverse_path, self.stages.kind))
            }
        }
        let mut round = Round { outcomes: Vec::new(), samples: Vec::new(), accounts: None, taken: 0 };
        let short = self.short();
        for frame in frames {
            let driven = self.front.as_mut().and_then(|front| front.pass(frame));
            let by_driver = driven.is_some();
            round.taken += u64::from(driven.as_ref().is_some_and(|outcome| !outcome.sent.is_empty()));
            let mut outcome = driven.unwrap_or_else(|| self.work(frame));
            if self.stages.kind.tagged {
                untag(&mut outcome, frame.input);
            }
            let now = self.counted();
            let counted = now.iter().zip(&self.rules).map(|(now, then)| (now.0 - then.0, now.1 - then.1));
            let some = counted.enumerate().filter(|(_, count)| *count != (0, 0));
            outcome.rules = some.map(|(rule, (packets, bytes))| (rule, packets, bytes)).collect();
            self.rules = now;
            outcome.linux.iter_mut().for_each(|(.., bytes)| cut(bytes));
            outcome.sent.iter_mut().for_each(|(_, bytes)| unnumber(bytes));
            outcome.sent.sort();
            round.outcomes.push(outcome);
            let samples = self.samples();
            round.samples.push((!by_driver).then_some(samples));
        }
        round.taken += self.short() - short;
        round.accounts = self.policy.table().is_some().then(|| self.end_flows());
        round
    }

    /// What becomes of a frame in the graph.
    fn work(&mut self, frame: &Frame) -> Outcome {
        let now = self.graph.now().max(steady_now());
        self.graph.jump(now);
        let mut batch = Batch::new();
        let mut packet = Packet::new(&frame.bytes).unwrap();
        let strange = self.are_strangers() && mark_stranger(packet.data_mut(), frame.input);
        packet.input = frame.input.interface();
        batch.push(packet).unwrap();
        self.graph.run(self.entry, &mut batch, &mut self.sinks);
        while self.graph.work(&mut self.sinks) {}
        while let Some(next) = self.graph.next_event() {
            self.graph.jump(next);
            self.graph.work(&mut self.sinks);
        }
        let mut outcome = Outcome::default();
        let sent = &mut outcome.sent;
        self.sinks.transmit(|port, packets| {
            sent.extend(packets.drain(..).map(|packet| (port, packet.to_vec())));
        });
        let punts = self.sinks.punts();
        outcome.linux = punts.map(|(packet, class, hand)| (class, hand, packet.to_vec())).collect();
        self.count(&mut outcome, &frame.name);
        if strange {
            let taught = outcome.linux.remove(0);
            let tags = tags(frame.input, self.stages.kind).bytes();
            let frame = [&frame.bytes[..12], &tags, &[0x88, 0xb6]].concat();
            assert_eq!(taught, (Class::Neighbour, Hand::Learn(MEMBER), frame));
        }
        self.context.maintain(self.graph.now());
        outcome
    }

    /// Compares what the graph has counted with what has left it.
    fn count(&mut self, outcome: &mut Outcome, name: &str) {
        let counters = self.graph.counters();
        for (reason, before) in Reason::ALL.into_iter().zip(&mut self.dropped) {
            let count = counters.dropped(reason);
            if count != *before {
                outcome.dropped.push((reason, count - *before));
            }
            *before = count;
        }
        for (class, before) in Class::ALL.into_iter().zip(&mut self.punted) {
            let count: u64 = counters.nodes().map(|(_, node)| node.punted(class)).sum();
            let seen = outcome.linux.iter().filter(|(of, ..)| *of == class).count() as u64;
            assert_eq!(count - *before, seen, "{name}: counted as {class:?} by {}", self.stages);
            *before = count;
        }
        let transmitted: u64 = counters.nodes().map(|(_, node)| node.transmitted()).sum();
        let seen = outcome.sent.len() as u64;
        assert_eq!(transmitted - self.transmitted, seen, "{name}: counted as sent by {}", self.stages);
        self.transmitted = transmitted;
    }

    /// Packets and bytes of every rule.
    fn counted(&self) -> Vec<(u64, u64)> {
        let book = self.policy.book();
        book.fold();
        let (compiled, _) = book.current();
        let counter = |rule| compiled.accounts().counter(RuleId(rule));
        let all = (0..compiled.accounts().len() as u32).map(counter);
        all.map(|counter| (counter.packets, counter.bytes)).collect()
    }

    fn short(&self) -> u64 {
        let fast = self.graph.description().find("fast").map(|node| node.id);
        fast.map_or(0, |node| self.graph.counters().node(node).unwrap().output(1))
    }

    fn samples(&self) -> Vec<Sample> {
        let lanes = self.lanes.lock().unwrap();
        let all = lanes.iter().flat_map(|lane| std::iter::from_fn(|| lane.samples.pop()));
        all.map(|sample| (sample.header().to_vec(), sample.length, format!("{:?}", sample.fate))).collect()
    }

    /// Ends all flows; the accounts of these, and of those that have ended by themselves.
    fn end_flows(&mut self) -> Vec<String> {
        let mut hits = Vec::new();
        let mut worker = self.policy.table().unwrap().worker().unwrap();
        worker.flows(0, u32::MAX, self.graph.now(), &mut |hit, _| hits.push(*hit));
        for hit in &hits {
            worker.end(hit, End::Flushed);
        }
        drop(worker);
        let (mut accounts, mut idle) = (Vec::new(), 0);
        while idle < 100 {
            self.context.maintain(self.graph.now());
            idle += 1;
            while let Some(account) = self.policy.ended().unwrap().accounts.pop() {
                accounts.push(told(&account, self.stages.kind));
                idle = 0;
            }
        }
        accounts.sort();
        accounts
    }
}

/// An account without its times and its number, which no two tables share; with the ports' numbers
/// for those of their interfaces.
fn told(account: &Account, kind: Kind) -> String {
    let Account { original, reply, packets, bytes, tcp_flags, phase, ports, mark, .. } = account;
    let first = interface(PortId(0), kind).0;
    let ports = ports.map(|id| if id == flow::NO_PORT { id } else { id - first });
    let ends = |tuple: &Tuple| {
        let (from, to) = (tuple.source_address(), tuple.destination_address());
        format!("[{from}]:{} > [{to}]:{}", tuple.source_port, tuple.destination_port)
    };
    let tuples = format!("{} {}, answered {}", original.protocol, ends(original), ends(reply));
    format!("{tuples}, packets {packets:?}, bytes {bytes:?}, {phase:?}, {tcp_flags:?}, {ports:?}, {mark}")
}

/// Takes the tags off what left with those of its interface and the right priorities, and off what
/// Linux got as it came.
fn untag(outcome: &mut Outcome, input: PortId) {
    let off = |port: PortId, bytes: &mut Vec<u8>, leaves: bool| {
        let mut tags = tags(port, Kind { tagged: true, ..Kind::default() }).bytes();
        let packet = bytes.get(12 + tags.len()..).unwrap_or_default();
        for (tag, priorities) in tags.chunks_mut(4).zip(PRIORITIES.0).filter(|_| leaves) {
            let class = if packet.starts_with(&[8, 0]) { packet[3] >> 3 & 3 } else { 0 };
            tag[2] |= priorities[usize::from(class)] << 5;
        }
        if bytes.get(12..12 + tags.len()) == Some(&tags[..]) {
            bytes.drain(12..12 + tags.len());
        }
    };
    outcome.sent.iter_mut().for_each(|(port, bytes)| off(*port, bytes, true));
    outcome.linux.iter_mut().for_each(|(.., bytes)| off(input, bytes, false));
}

/// Marks a frame as the driver does on the way to a worker whose sender Linux does not know;
/// whether it is one to be routed.
fn mark_stranger(frame: &mut [u8], input: PortId) -> bool {
    let Some(header) = frame.first_chunk_mut::<14>() else { return false };
    let routed = matches!(header[12..], [8, 0] | [0x86, 0xdd]);
    if !routed || header[..6] != MACS[usize::from(input != IN)].0 {
        return false;
    }
    header[0] ^= abi::driver::STRANGER;
    header[2..6].copy_from_slice(&MEMBER.to_be_bytes());
    true
}

/// Takes the number out of an answer of the router's own over IPv4, once its checksum has been
/// looked at: answers are numbered as they come.
fn unnumber(frame: &mut [u8]) {
    let Some(ip) = frame.get_mut(14..34).filter(|ip| ip[0] == 0x45) else { return };
    let source = std::net::Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
    if OWN.iter().any(|own| own[0] == source.to_string()) {
        assert!(wire::checksum::verify(ip), "{ip:02x?}");
        ip[4..6].fill(0);
        ip[10..12].fill(0);
    }
}

/// Cuts off what stands behind a packet: Linux does so as well.
fn cut(frame: &mut Vec<u8>) {
    let length = match frame.get(12..20) {
        Some([8, 0, _, _, high, low, ..]) => usize::from(u16::from_be_bytes([*high, *low])),
        Some([0x86, 0xdd, _, _, _, _, high, low]) => 40 + usize::from(u16::from_be_bytes([*high, *low])),
        _ => return,
    };
    if length >= 20 {
        frame.truncate(14 + length);
    }
}

fn settings(stages: &Stages, lanes: &Lanes) -> PolicySettings {
    let Stages { rules, nat, sampling, lane, .. } = *stages;
    let filter = Filter::read("test", rules.text, &mut |_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
    let states = filter.rules().any(|(_, rule)| rule.matches.states.is_some());
    let small = Settings { memory: 8 << 20, ..Settings::default() };
    let lanes = lanes.clone();
    let sampling = sampling.then(|| {
        Sampling::new(move |ifindex| {
            let (sampler, lane) = Sampler::new(ifindex, 1, 128, 1);
            lanes.lock().unwrap().push(lane);
            sampler
        })
    });
    PolicySettings {
        filter,
        flows: (rules.known || states || nat).then_some(small),
        nat: nat.then(|| serde_json::from_str::<nat::Text>(NAT).unwrap().check().unwrap()),
        sampling,
        offload: lane == Lane::Offloaded,
        ..PolicySettings::default()
    }
}
