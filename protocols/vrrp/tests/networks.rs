//! Networks of routers in memory: never two active on a healthy link beyond the bound, never none,
//! whatever happened before.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use chance::Random;
use proptest::prelude::*;
use vrrp::{Action, Advertisement, Set, Settings, State, Time, Version};

const INTERVAL: Duration = Duration::from_millis(10);

/// How the link is.
#[derive(Clone, Copy)]
struct Link {
    /// Frames lost, per cent.
    loss: usize,
    /// Longest delay.
    delay: Duration,
}

const HEALTHY: Link = Link { loss: 0, delay: Duration::from_millis(1) };

struct Network {
    now: Time,
    routers: Vec<Set>,
    priorities: Vec<u8>,
    /// Which part of the link each is on, for each member.
    parts: Vec<Vec<u8>>,
    alive: Vec<bool>,
    link: Link,
    /// What is under way, by when it arrives: to whom, which member, from whom, its priority.
    flying: BTreeMap<(Time, u64), (usize, usize, usize, u8)>,
    sent: u64,
    random: Random,
}

fn address(router: usize) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, 10 + router as u8).into()
}

impl Network {
    fn new(priorities: &[u8], members: usize, preempt: bool, seed: u64) -> Network {
        let settings = |priority| Settings { interval: INTERVAL, preempt, ..Settings::new(priority) };
        let set = |priority: &u8| Set::new(vec![settings(*priority); members]);
        let count = priorities.len();
        Network {
            now: Time::ZERO,
            routers: priorities.iter().map(set).collect(),
            priorities: priorities.to_vec(),
            parts: vec![vec![0; members]; count],
            alive: vec![false; count],
            link: HEALTHY,
            flying: BTreeMap::new(),
            sent: 0,
            random: Random(seed),
        }
    }

    fn send(&mut self, from: usize, actions: Vec<Action>) {
        for action in actions {
            let Action::Advertise { member, priority } = action else { continue };
            for to in (0..self.routers.len()).filter(|to| *to != from) {
                let apart = self.parts[from][member] != self.parts[to][member];
                if apart || self.random.chance(self.link.loss) {
                    continue;
                }
                let most = self.link.delay.as_micros() as usize;
                let delay = Duration::from_micros(self.random.below(most.max(1)) as u64 + 1);
                self.sent += 1;
                self.flying.insert((self.now + delay, self.sent), (to, member, from, priority));
            }
        }
    }

    fn begin(&mut self, router: usize) {
        self.alive[router] = true;
        for member in 0..self.parts[router].len() {
            let actions = self.routers[router].set_able(member, true, self.priorities[router], self.now);
            self.send(router, actions);
        }
    }

    /// As kill -9 does it: nothing is said.
    fn kill(&mut self, router: usize) {
        let members = self.parts[router].len();
        for member in 0..members {
            self.routers[router].set_able(member, false, 0, self.now);
        }
        self.alive[router] = false;
    }

    fn active(&self) -> Vec<usize> {
        let active = |router: &usize| self.routers[*router].state() == State::Active;
        (0..self.routers.len()).filter(active).collect()
    }

    fn answering(&self) -> usize {
        self.routers.iter().filter(|router| router.answers()).count()
    }

    /// The next thing that happens, if it does before `until`; false: it does not.
    fn step(&mut self, until: Time) -> bool {
        let arrives = self.flying.keys().next().map(|(at, _)| *at);
        let wakes = self.routers.iter().filter_map(Set::next).min();
        let Some(at) = arrives.into_iter().chain(wakes).min().filter(|at| *at <= until) else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(at);
        if arrives == Some(at) {
            let Some((_, (to, member, from, priority))) = self.flying.pop_first() else { return false };
            if self.alive[to] {
                let addresses = vec![IpAddr::from([192, 0, 2, 1])];
                let (version, interval) = (Version::Three, INTERVAL);
                let it = Advertisement { version, id: 1, priority, interval, addresses };
                let actions = self.routers[to].hear(member, &it, address(from), address(to), self.now);
                self.send(to, actions);
            }
        } else {
            for router in 0..self.routers.len() {
                let actions = self.routers[router].pass(self.now);
                self.send(router, actions);
            }
        }
        true
    }

    /// Lets time pass; says for how long in one piece there was none that answers, and for how long
    /// more than one.
    fn run(&mut self, time: Duration) -> (Duration, Duration) {
        let until = self.now + time;
        let (mut none, mut many) = (Duration::ZERO, Duration::ZERO);
        let (mut none_now, mut many_now) = (Duration::ZERO, Duration::ZERO);
        loop {
            let (before, answering, active) = (self.now, self.answering(), self.active().len());
            let more = self.step(until);
            let passed = self.now - before;
            none_now = if answering == 0 { none_now + passed } else { Duration::ZERO };
            many_now = if active > 1 { many_now + passed } else { Duration::ZERO };
            (none, many) = (none.max(none_now), many.max(many_now));
            if !more {
                return (none, many);
            }
        }
    }
}

/// As long as a backup waits, at most.
const PATIENCE: Duration = Duration::from_millis(42);
/// Frames take a millisecond; two directions.
const WAY: Duration = Duration::from_millis(2);

/// Something that can happen to a network.
#[derive(Clone, Debug)]
enum Event {
    Kill(usize),
    Begin(usize),
    Release(usize),
    Resume(usize),
    Part(usize, usize, u8),
    Lose(usize),
    Slow(u64),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..3usize).prop_map(Event::Kill),
        (0..3usize).prop_map(Event::Begin),
        (0..3usize).prop_map(Event::Release),
        (0..3usize).prop_map(Event::Resume),
        (0..3usize, 0..2usize, 0..2u8).prop_map(|(router, member, part)| Event::Part(router, member, part)),
        (0..60usize).prop_map(Event::Lose),
        (1..30u64).prop_map(Event::Slow),
        (1..200u64).prop_map(Event::Wait),
    ]
}

impl Network {
    fn happen(&mut self, event: &Event) {
        let count = self.routers.len();
        match *event {
            Event::Kill(router) => self.kill(router % count),
            Event::Begin(router) => self.begin(router % count),
            Event::Release(router) => {
                let mut actions = Vec::new();
                let router = router % count;
                self.routers[router].release(self.now, &mut actions);
                self.send(router, actions);
            }
            Event::Resume(router) => self.routers[router % count].resume(),
            Event::Part(router, member, part) => {
                let members = self.parts[0].len();
                self.parts[router % count][member % members] = part;
            }
            Event::Lose(loss) => self.link.loss = loss,
            Event::Slow(delay) => self.link.delay = Duration::from_millis(delay),
            Event::Wait(time) => drop(self.run(Duration::from_millis(time))),
        }
    }

    fn heal(&mut self) {
        self.link = HEALTHY;
        self.parts.iter_mut().flatten().for_each(|part| *part = 0);
        self.flying.clear();
        (0..self.routers.len()).for_each(|router| {
            self.routers[router].resume();
            self.begin(router);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Two or three routers, one or two interfaces that move together, and anything at all: once
    /// the link is healthy, exactly one is active within the bound, and stays it.
    #[test]
    fn whatever_happened_a_healthy_link_has_exactly_one(
        events in prop::collection::vec(event(), 0..30),
        priorities in prop::collection::vec(1..=255u8, 2..=3),
        members in 1..=2usize,
        preempt: bool,
        seed: u64,
    ) {
        let mut network = Network::new(&priorities, members, preempt, seed);
        events.iter().for_each(|event| network.happen(event));
        network.heal();
        // Those that are active meet, or all wait; with preemption the best may come after that.
        network.run(PATIENCE * 2 + INTERVAL * 2);
        prop_assert_eq!(network.active().len(), 1, "{:?}", network.active());
        let (none, many) = network.run(Duration::from_secs(2));
        prop_assert_eq!((none, many), (Duration::ZERO, Duration::ZERO));
        if preempt {
            let best = *priorities.iter().max().unwrap();
            prop_assert_eq!(priorities[network.active()[0]], best);
        }
    }

    /// On a healthy link the active one is killed again and again, and comes back: no gap is longer
    /// than a backup's patience, and two are never active for longer than an interval.
    #[test]
    fn a_killed_router_leaves_a_gap_of_a_backups_patience(
        priorities in prop::collection::vec(1..=254u8, 2..=3),
        members in 1..=2usize,
        preempt: bool,
        seed: u64,
        times in prop::collection::vec(100..300u64, 1..10),
    ) {
        let mut network = Network::new(&priorities, members, preempt, seed);
        network.heal();
        network.run(Duration::from_secs(1));
        for time in times {
            let killed = network.active()[0];
            network.kill(killed);
            let (none, many) = network.run(Duration::from_millis(time));
            prop_assert!(none <= PATIENCE + WAY && many <= INTERVAL + WAY, "{none:?} {many:?}");
            network.begin(killed);
            let (none, many) = network.run(Duration::from_millis(time));
            prop_assert!(none == Duration::ZERO && many <= INTERVAL + WAY, "{none:?} {many:?}");
        }
    }

    /// Released by an operator: somebody answers at every moment.
    #[test]
    fn a_planned_handover_has_no_gap(
        priorities in prop::collection::vec(1..=254u8, 2..=3),
        members in 1..=2usize,
        preempt: bool,
        seed: u64,
    ) {
        let mut network = Network::new(&priorities, members, preempt, seed);
        network.heal();
        network.run(Duration::from_secs(1));
        for _ in 0..10 {
            let from = network.active()[0];
            network.happen(&Event::Release(from));
            let (none, many) = network.run(Duration::from_millis(200));
            prop_assert!(none == Duration::ZERO && many <= INTERVAL + WAY, "{none:?} {many:?}");
            prop_assert!(network.active() != [from]);
            network.happen(&Event::Resume(from));
            let (none, many) = network.run(Duration::from_millis(200));
            prop_assert!(none == Duration::ZERO && many <= INTERVAL + WAY, "{none:?} {many:?}");
        }
    }

    /// The link of one of two interfaces is pulled: both move.
    #[test]
    fn interfaces_of_a_set_move_together(seed: u64, member in 0..2usize) {
        let mut network = Network::new(&[200, 100], 2, true, seed);
        network.heal();
        network.run(Duration::from_secs(1));
        prop_assert_eq!(network.active(), [0]);
        let actions = network.routers[0].set_able(member, false, 200, network.now);
        network.send(0, actions);
        let (none, many) = network.run(Duration::from_millis(200));
        prop_assert!(none <= PATIENCE + WAY && many == Duration::ZERO);
        prop_assert_eq!(network.active(), [1]);
    }
}

/// The bound, from the numbers of the RFC: three intervals and the skew of the lowest priority.
#[test]
fn patience_is_three_intervals_and_a_skew() {
    assert!(PATIENCE >= INTERVAL * 3 + INTERVAL * 255 / 256);
}
