//! The table against the plainest model of it: a list of flows and a loop.

use flow::{
    Account, Direction, End, Hit, Inserted, Key, Opening, Phase, Refused, Settings, State, Table, Timeouts,
    Tracked, Tuple, Worker,
};
use proptest::prelude::*;
use std::time::Duration;
use wire::headers::mapped;
use wire::{Headers, protocol};

const SECOND: u64 = 1_000_000_000;

/// No timeout is near a multiple of 50 s, which is how time passes here.
fn settings() -> Settings {
    let seconds = Duration::from_secs;
    Settings {
        memory: 4 << 20,
        translation: true,
        timeouts: Timeouts {
            udp: seconds(125),
            udp_stream: seconds(325),
            icmp: seconds(75),
            other: seconds(625),
            active: None,
            ..Timeouts::default()
        },
        ..Settings::default()
    }
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    original: Tuple,
    reply: Tuple,
    phase: Phase,
    last: u64,
    packets: [u64; 2],
    bytes: [u64; 2],
}

impl Flow {
    fn direction_of(&self, tuple: &Tuple) -> Option<Direction> {
        if *tuple == self.original || tuple.reversed() == self.reply {
            Some(Direction::Original)
        } else if *tuple == self.reply || tuple.reversed() == self.original {
            Some(Direction::Reply)
        } else {
            None
        }
    }

    fn lives_for(&self) -> u64 {
        let seconds = match (self.original.protocol, self.phase) {
            (protocol::UDP, Phase::Stream) => 325,
            (protocol::UDP, _) => 125,
            (protocol::ICMP | protocol::ICMP6, _) => 75,
            _ => 625,
        };
        seconds * SECOND
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A packet, and what translation it gets if it opens a flow.
    Packet(Tuple, Option<Tuple>, u16),
    /// Several packets looked up together.
    Batch(Vec<Tuple>),
    /// So often 50 s pass.
    Time(u64),
    /// Somebody ends the flow of this tuple.
    End(Tuple),
}

fn address(number: u8, four: bool) -> [u8; 16] {
    if four {
        mapped([10, 0, 0, number])
    } else {
        [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number]
    }
}

fn tuples() -> impl Strategy<Value = Tuple> {
    let protocols =
        prop_oneof![Just(protocol::UDP), Just(protocol::ICMP), Just(protocol::GRE), Just(protocol::OSPF)];
    (0u8..4, 0u8..4, 0u16..3, 0u16..3, protocols, 0u16..2, any::<bool>()).prop_map(
        |(source, destination, from, to, protocol, table, four)| {
            let (source_port, destination_port) = match protocol {
                protocol::ICMP => (from, from),
                protocol::OSPF => (0, 0),
                _ => (from, to),
            };
            let protocol = if protocol == protocol::ICMP && !four { protocol::ICMP6 } else { protocol };
            Tuple {
                source: address(source, four),
                destination: address(destination, four),
                source_port,
                destination_port,
                protocol,
                table,
            }
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let translation = prop_oneof![3 => Just(None), 1 => tuples().prop_map(Some)];
    let step = prop_oneof![
        20 => (tuples(), translation, 20u16..1500).prop_map(|(tuple, reply, length)| Step::Packet(tuple, reply, length)),
        3 => proptest::collection::vec(tuples(), 1..=64).prop_map(Step::Batch),
        3 => (1u64..5).prop_map(Step::Time),
        1 => tuples().prop_map(Step::End),
    ];
    proptest::collection::vec(step, 1..120)
}

fn headers(tuple: &Tuple, length: u16) -> Headers {
    Headers {
        source: tuple.source,
        destination: tuple.destination,
        version: if tuple.is_ipv4() { 4 } else { 6 },
        protocol: tuple.protocol,
        source_port: tuple.source_port,
        destination_port: tuple.destination_port,
        icmp_type: if tuple.is_ipv4() { 8 } else { 128 },
        length,
        ..Headers::default()
    }
}

/// The table, the model, and what the table has said of flows that ended.
struct Both {
    worker: Worker,
    flows: Vec<Flow>,
    now: u64,
    accounts: Vec<Account>,
    expected: Vec<(Flow, End)>,
}

impl Both {
    fn new() -> Both {
        let table = Table::new(&settings()).unwrap();
        let (now, worker) = (1_000 * SECOND, table.worker().unwrap());
        Both { worker, flows: Vec::new(), now, accounts: Vec::new(), expected: Vec::new() }
    }

    fn maintain(&mut self) {
        let accounts = &mut self.accounts;
        self.worker.maintain(self.now, &mut |account| accounts.push(*account));
    }

    fn agree_on(&self, tuple: &Tuple, hit: Option<Hit>) -> Result<Option<usize>, TestCaseError> {
        let found = self.flows.iter().position(|flow| flow.direction_of(tuple).is_some());
        prop_assert_eq!(found.is_some(), hit.is_some(), "{:?}", tuple);
        if let (Some(index), Some(hit)) = (found, hit) {
            let flow = &self.flows[index];
            prop_assert_eq!(self.worker.original(&hit), flow.original);
            prop_assert_eq!(self.worker.reply(&hit), flow.reply);
            prop_assert_eq!(hit.translated, flow.reply != flow.original.reversed());
            // Should a tuple be both ways at once, the table may say either.
            let mut other = *flow;
            (other.original, other.reply) = (flow.reply, flow.original);
            if flow.direction_of(tuple) != other.direction_of(tuple) || tuple.reversed() != *tuple {
                prop_assert_eq!(Some(hit.direction), flow.direction_of(tuple));
            }
        }
        Ok(found)
    }

    fn packet(&mut self, tuple: &Tuple, reply: Option<Tuple>, length: u16) -> Result<(), TestCaseError> {
        let (headers, ip) = (headers(tuple, length), [0; 40]);
        let hit = self.worker.find(&Key::of(tuple));
        if let Some(index) = self.agree_on(tuple, hit)? {
            let hit = hit.unwrap();
            let flow = &mut self.flows[index];
            flow.phase = match (flow.phase, hit.direction) {
                (Phase::Unreplied, Direction::Reply) => Phase::Replied,
                (Phase::Replied, Direction::Original) => Phase::Stream,
                (phase, _) => phase,
            };
            let state = match (flow.phase, hit.direction) {
                (Phase::Unreplied, _) => State::New,
                _ => State::Established,
            };
            flow.last = self.now;
            flow.packets[hit.direction as usize] += 1;
            flow.bytes[hit.direction as usize] += u64::from(length);
            prop_assert_eq!(self.worker.track(&hit, &headers, &ip, self.now, || true), Tracked::Is(state));
            self.worker.set_decision(&hit, u32::from(length));
            prop_assert_eq!(self.worker.decision(&hit), u32::from(length));
            return Ok(());
        }
        prop_assert_eq!(self.worker.opens(&headers, &ip, || true), State::New);
        let opening = Opening { headers: &headers, ip: &ip, original: *tuple, reply, ports: [3, 4], mark: 5 };
        let wanted = reply.unwrap_or(tuple.reversed());
        let inserted = self.worker.insert(&opening, self.now);
        let own = wanted == *tuple && wanted != tuple.reversed();
        let taken = wanted != tuple.reversed()
            && (own || self.flows.iter().any(|flow| flow.direction_of(&wanted).is_some()));
        if taken {
            prop_assert_eq!(inserted, Err(Refused::ReplyInUse(wanted)));
            return Ok(());
        }
        let Ok(Inserted::New(hit)) = inserted else {
            return Err(TestCaseError::fail(format!("{inserted:?} for {tuple:?}")));
        };
        prop_assert_eq!((self.worker.decision(&hit), self.worker.route(&hit)), (0, ([3, 4], 5)));
        self.flows.push(Flow {
            original: *tuple,
            reply: wanted,
            phase: Phase::Unreplied,
            last: self.now,
            packets: [1, 0],
            bytes: [length.into(), 0],
        });
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Packet(tuple, reply, length) => self.packet(tuple, *reply, *length)?,
            Step::Batch(tuples) => {
                let keys: Vec<Key> = tuples.iter().map(Key::of).collect();
                let mut hits = [None; 64];
                self.worker.lookup(&keys, &mut hits);
                for (tuple, hit) in tuples.iter().zip(hits) {
                    self.agree_on(tuple, hit)?;
                }
            }
            Step::Time(times) => {
                self.now += times * 50 * SECOND - 10 * SECOND;
                for _ in 0..20 {
                    self.now += SECOND / 2;
                    self.maintain();
                }
                let now = self.now;
                let (gone, left) = self.flows.iter().partition(|flow| now - flow.last > flow.lives_for());
                self.flows = left;
                let gone: Vec<Flow> = gone;
                self.expected.extend(gone.into_iter().map(|flow| (flow, End::Idle)));
            }
            Step::End(tuple) => {
                let hit = self.worker.find(&Key::of(tuple));
                if let Some(index) = self.agree_on(tuple, hit)? {
                    let hit = hit.unwrap();
                    prop_assert!(self.worker.end(&hit, End::Flushed));
                    prop_assert!(!self.worker.end(&hit, End::Flushed));
                    self.expected.push((self.flows.swap_remove(index), End::Flushed));
                }
            }
        }
        self.maintain();
        prop_assert_eq!(self.worker.table().counters().size, self.flows.len() as u64);
        Ok(())
    }

    /// Every flow that ended was accounted for once, and rightly; those that are left are shown,
    /// once.
    fn compare_accounts(&mut self) -> Result<(), TestCaseError> {
        self.maintain();
        self.maintain();
        prop_assert_eq!(self.accounts.len(), self.expected.len());
        for (flow, end) in &self.expected {
            let index = self.accounts.iter().position(|account| agrees(account, flow, *end));
            prop_assert!(index.is_some(), "{:?} {:?} not among {:?}", flow, end, self.accounts);
            self.accounts.swap_remove(index.unwrap());
        }
        let (mut shown, mut from) = (Vec::new(), Some(0));
        while let Some(next) = from {
            from = self.worker.flows(next, 7, self.now, &mut |hit, account| shown.push((*hit, *account)));
        }
        prop_assert_eq!(shown.len(), self.flows.len());
        for flow in &self.flows {
            prop_assert!(shown.iter().any(|(_, account)| agrees(account, flow, End::Slice)), "{:?}", flow);
        }
        for (hit, account) in &shown {
            let own = account.reply != account.original.reversed();
            prop_assert_eq!((hit.id(), hit.translated), (account.id, own));
        }
        Ok(())
    }
}

fn agrees(account: &Account, flow: &Flow, end: End) -> bool {
    let last = flow.last.abs_diff(account.last) < 300_000;
    (account.original, account.reply, account.phase) == (flow.original, flow.reply, flow.phase)
        && (account.packets, account.bytes, account.end) == (flow.packets, flow.bytes, end)
        && (account.ports, account.mark) == ([3, 4], 5)
        && last
        && account.start <= account.last
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn answers_as_a_list_and_a_loop_would(steps in steps()) {
        let mut both = Both::new();
        for step in &steps {
            both.step(step)?;
        }
        both.compare_accounts()?;
    }

    /// What is written down and put back goes on as if nothing had been.
    #[test]
    fn flows_outlive_the_program(steps in steps(), later in steps()) {
        let mut both = Both::new();
        for step in &steps {
            both.step(step)?;
        }
        let mut snapshots = Vec::new();
        let now = both.now;
        both.worker.flows(0, u32::MAX, now, &mut |hit, _| snapshots.push(both.worker.snapshot(hit, now)));
        let mut again = Both { flows: both.flows.clone(), now, ..Both::new() };
        for snapshot in &snapshots {
            prop_assert!(matches!(again.worker.restore(snapshot, now), Ok(Inserted::New(_))));
        }
        for step in &later {
            again.step(step)?;
        }
        again.compare_accounts()?;
    }
}
