//! A session as this machine takes part in it (RFC 5880, section 6).
//!
//! Whoever holds it tells it what comes ([`Session::hear`]) and that time has passed
//! ([`Session::pass`]), and does what comes back. [`Session::next`] says when something is due.
//!
//! Timers change by a poll: the new ones are told with the bit "poll" until the other end answers
//! with "final". Until then whatever would make one end think that the other is gone stays as it
//! was (section 6.8.3).
//!
//! A session may have been up before, by whoever had it until now under the same number. So a new
//! one listens for a moment before it says anything. If the other end says that it is up and names
//! this session, it has heard this end just now: the session goes on as up, and nobody goes down.

use std::time::Duration;

use chance::Random;

use crate::packet::{Control, Diagnostic, State};

/// Since some moment in the past.
pub type Time = Duration;

/// While a session is not up, packets are a second apart at least (section 6.8.3).
const SLOW: u32 = 1_000_000;
/// See [`Session::listens`].
const LONGEST_LISTENING: Duration = Duration::from_secs(1);

/// What is configured. Intervals are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// This end's number for the session; 1 and up.
    pub id: u32,
    /// The shortest interval at which this end sends.
    pub min_tx: u32,
    /// The shortest interval at which it hears.
    pub min_rx: u32,
    /// How many intervals may pass without a packet, 1 and up.
    pub multiplier: u8,
    /// It does not begin.
    pub passive: bool,
    /// It is switched off.
    pub shutdown: bool,
    /// It goes on when the control plane does not.
    pub independent: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this.
    Send(Control),
    /// Tell whoever asked for the session: its state, or what the other end says of itself, is
    /// another.
    Tell,
}

/// What the other end has said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// Its number for the session; 0: not known.
    pub id: u32,
    /// Its state.
    pub state: State,
    /// Why it left the state up.
    pub diagnostic: Diagnostic,
    /// It goes on when its control plane does not.
    pub independent: bool,
    /// While both are up it wants to hear nothing but answers.
    pub demand: bool,
    /// How many intervals may pass without a packet from it.
    pub multiplier: u8,
    /// Microseconds between its packets, at least.
    pub min_tx: u32,
    /// Microseconds between packets to it, at least; 0: it wants none.
    pub min_rx: u32,
    /// The same of echo packets.
    pub min_echo_rx: u32,
}

impl Other {
    /// Of whom nothing is known (section 6.8.1).
    const UNKNOWN: Other = Other {
        id: 0,
        state: State::Down,
        diagnostic: Diagnostic::NONE,
        independent: false,
        demand: false,
        multiplier: 0,
        min_tx: 0,
        min_rx: 1,
        min_echo_rx: 0,
    };
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Session {
    settings: Settings,
    state: State,
    diagnostic: Diagnostic,
    other: Other,
    /// New timers are told, and not yet acknowledged.
    polling: bool,
    /// The intervals that count until they are: to send, and to hear.
    until_final: Option<(u32, u32)>,
    sends_at: Option<Time>,
    sent_at: Time,
    expires_at: Option<Time>,
    /// Until then it says nothing, and may turn out to be up already.
    listens_until: Option<Time>,
    random: Random,
}

impl Session {
    /// A session that begins now. `random` spreads the packets of several.
    pub fn new(settings: Settings, now: Time, random: Random) -> Session {
        let state = if settings.shutdown { State::AdminDown } else { State::Down };
        let diagnostic = if settings.shutdown { Diagnostic::ADMIN_DOWN } else { Diagnostic::NONE };
        let mut session = Session {
            settings,
            state,
            diagnostic,
            other: Other::UNKNOWN,
            polling: false,
            until_final: None,
            sends_at: None,
            sent_at: now,
            expires_at: None,
            listens_until: None,
            random,
        };
        let listens = now + session.listens();
        session.listens_until = Some(listens);
        session.sends_at = session.interval().map(|_| listens);
        session
    }

    /// How long it listens before it begins: the other end would not miss packets of a session that
    /// is up for longer.
    fn listens(&self) -> Duration {
        let Settings { min_tx, multiplier, shutdown, .. } = self.settings;
        let intervals = if shutdown { 0 } else { u32::from(multiplier).saturating_sub(1) };
        (Duration::from_micros(min_tx.into()) * intervals).min(LONGEST_LISTENING)
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Why it last left the state up.
    pub fn diagnostic(&self) -> Diagnostic {
        self.diagnostic
    }

    /// What the other end says.
    pub fn other(&self) -> &Other {
        &self.other
    }

    /// What is configured.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// When something is due; none: nothing, until something is heard.
    pub fn next(&self) -> Option<Time> {
        [self.sends_at, self.expires_at].into_iter().flatten().min()
    }

    /// Microseconds between packets to the other end, before they are spread; none: none are sent.
    pub fn interval(&self) -> Option<u32> {
        let silent = self.settings.passive && self.other.id == 0
            || self.other.min_rx == 0
            || self.other.demand && self.state == State::Up && self.other.state == State::Up && !self.polling;
        let own = self.until_final.map_or(self.min_tx(), |(interval, _)| interval);
        (!silent).then_some(own.max(self.other.min_rx))
    }

    /// How long nothing may be heard (section 6.8.4).
    pub fn detection_time(&self) -> Duration {
        let own = self.until_final.map_or(self.settings.min_rx, |(_, interval)| interval);
        let interval = own.max(self.other.min_tx);
        Duration::from_micros(u64::from(interval)) * u32::from(self.other.multiplier)
    }

    /// What this end says of how it sends.
    fn min_tx(&self) -> u32 {
        if self.state == State::Up { self.settings.min_tx } else { self.settings.min_tx.max(SLOW) }
    }

    /// Changes what is configured. The number stays the same.
    pub fn set(&mut self, settings: Settings, now: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        let before = std::mem::replace(&mut self.settings, settings);
        if before.shutdown != settings.shutdown {
            let (state, why) = match settings.shutdown {
                true => (State::AdminDown, Diagnostic::ADMIN_DOWN),
                false => (State::Down, Diagnostic::NONE),
            };
            self.become_(state, why);
            self.send(now, &mut actions);
            actions.push(Action::Tell);
        } else if self.state == State::Up
            && (before.min_tx, before.min_rx) != (settings.min_tx, settings.min_rx)
        {
            // Slower to send, or quicker to hear: not before the other end knows.
            let (sends, hears) = self.until_final.unwrap_or((before.min_tx, before.min_rx));
            self.until_final = Some((sends.min(settings.min_tx), hears.max(settings.min_rx)));
            self.polling = true;
            self.send(now, &mut actions);
        }
        self.again(now);
        actions
    }

    /// Something was heard that is for this session.
    pub fn hear(&mut self, control: &Control, now: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        let before = (self.state, self.other);
        self.other = Other {
            id: control.mine,
            state: control.state,
            diagnostic: control.diagnostic,
            independent: control.independent,
            demand: control.demand,
            multiplier: control.multiplier,
            min_tx: control.min_tx,
            min_rx: control.min_rx,
            min_echo_rx: control.min_echo_rx,
        };
        if self.state == State::AdminDown {
            return actions;
        }
        if control.is_final {
            (self.polling, self.until_final) = (false, None);
        }
        let resumes =
            self.listens_until.is_some_and(|until| now < until) && control.yours == self.settings.id;
        match (self.state, control.state) {
            (State::Down, State::Up) if resumes => self.become_(State::Up, Diagnostic::NONE),
            (State::Down, State::Down) => self.become_(State::Init, Diagnostic::NONE),
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                self.become_(State::Up, Diagnostic::NONE);
                // From a second apart to what is configured.
                self.polling = true;
            }
            (State::Init, State::AdminDown) | (State::Up, State::AdminDown | State::Down) => {
                self.become_(State::Down, Diagnostic::NEIGHBOUR_DOWN);
            }
            _ => {}
        }
        self.expires_at = Some(now + self.detection_time());
        let changed = self.state != before.0;
        if control.poll {
            actions.push(Action::Send(Control { poll: false, is_final: true, ..self.control() }));
        }
        if changed {
            self.listens_until = None;
            self.send(now, &mut actions);
        }
        if changed || told(&self.other) != told(&before.1) {
            actions.push(Action::Tell);
        }
        self.again(now);
        actions
    }

    /// Time has passed.
    pub fn pass(&mut self, now: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.expires_at.is_some_and(|at| at <= now) {
            self.expires_at = None;
            self.other = Other { diagnostic: self.other.diagnostic, ..Other::UNKNOWN };
            if matches!(self.state, State::Init | State::Up) {
                self.become_(State::Down, Diagnostic::EXPIRED);
                self.send(now, &mut actions);
                actions.push(Action::Tell);
            }
            self.again(now);
        }
        if self.sends_at.is_some_and(|at| at <= now) {
            self.listens_until = None;
            self.send(now, &mut actions);
        }
        actions
    }

    fn become_(&mut self, state: State, why: Diagnostic) {
        (self.state, self.polling, self.until_final) = (state, false, None);
        // What it was down for stays known when it is up again.
        if why != Diagnostic::NONE {
            self.diagnostic = why;
        } else if state == State::Up {
            self.diagnostic = Diagnostic::NONE;
        }
    }

    fn control(&self) -> Control {
        Control {
            state: self.state,
            diagnostic: self.diagnostic,
            poll: self.polling,
            is_final: false,
            independent: self.settings.independent,
            demand: false,
            multiplier: self.settings.multiplier,
            mine: self.settings.id,
            yours: self.other.id,
            min_tx: self.min_tx(),
            min_rx: self.settings.min_rx,
            min_echo_rx: 0,
        }
    }

    fn send(&mut self, now: Time, actions: &mut Vec<Action>) {
        if self.interval().is_none() {
            self.sends_at = None;
            return;
        }
        actions.push(Action::Send(self.control()));
        self.sent_at = now;
        self.sends_at = self.due();
    }

    /// When the next packet is due: after 75 to 100 % of the interval, and not after more than 90 %
    /// where the other end waits for no more than one (section 6.8.7).
    fn due(&mut self) -> Option<Time> {
        let interval = self.interval()?;
        let span = if self.settings.multiplier == 1 { 15 } else { 25 };
        let percent = 75_000 + self.random.below(span * 1000) as u64;
        Some(self.sent_at + Duration::from_micros(u64::from(interval) * percent / 100_000))
    }

    /// The interval may be another: what is due is due earlier, or not at all.
    fn again(&mut self, now: Time) {
        let due = self.due();
        self.sends_at = match (self.sends_at, due) {
            (Some(at), Some(due)) => Some(at.min(due.max(now))),
            (_, due) => due.map(|due| due.max(now)),
        };
    }
}

/// What whoever asked for the session wants to know of the other end.
fn told(other: &Other) -> (u32, Diagnostic, bool, bool, u8, [u32; 3]) {
    let Other { id, diagnostic, independent, demand, multiplier, min_tx, min_rx, min_echo_rx, .. } = *other;
    (id, diagnostic, independent, demand, multiplier, [min_tx, min_rx, min_echo_rx])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn settings(id: u32) -> Settings {
        Settings {
            id,
            min_tx: 10_000,
            min_rx: 10_000,
            multiplier: 3,
            passive: false,
            shutdown: false,
            independent: true,
        }
    }

    /// Two ends, and a link that takes a tenth of a millisecond and may be cut.
    struct Pair {
        ends: [Session; 2],
        under_way: Vec<(Time, usize, Control)>,
        now: Time,
        cut: [bool; 2],
        /// When each end last told that something had changed, and its state then.
        told: [Vec<(Time, State)>; 2],
        sent: [Vec<Time>; 2],
    }

    impl Pair {
        fn new(one: Settings, two: Settings) -> Pair {
            let end = |settings, seed| Session::new(settings, Time::ZERO, Random(seed));
            Pair {
                ends: [end(one, 1), end(two, 2)],
                under_way: Vec::new(),
                now: Time::ZERO,
                cut: [false; 2],
                told: [Vec::new(), Vec::new()],
                sent: [Vec::new(), Vec::new()],
            }
        }

        fn act(&mut self, end: usize, actions: Vec<Action>) {
            for action in actions {
                match action {
                    Action::Send(control) => {
                        self.sent[end].push(self.now);
                        if !self.cut[end] {
                            // What is sent is what is read.
                            let read = crate::packet::parse(&control.emit()).unwrap().control;
                            assert_eq!(read, control);
                            self.under_way.push((self.now + MILLI / 10, 1 - end, read));
                        }
                    }
                    Action::Tell => self.told[end].push((self.now, self.ends[end].state())),
                }
            }
        }

        fn run(&mut self, time: Duration) {
            let end = self.now + time;
            loop {
                let arrives = self.under_way.iter().map(|(at, ..)| *at).min();
                let due = self.ends.iter().filter_map(Session::next).min();
                let Some(next) = [arrives, due].into_iter().flatten().min().filter(|at| *at <= end) else {
                    break;
                };
                self.now = self.now.max(next);
                for end in 0..2 {
                    let actions = self.ends[end].pass(self.now);
                    self.act(end, actions);
                }
                while let Some(at) = self.under_way.iter().position(|(at, ..)| *at <= self.now) {
                    let (_, to, control) = self.under_way.remove(at);
                    let yours = control.yours;
                    assert!(yours == 0 || yours == self.ends[to].settings().id);
                    let actions = self.ends[to].hear(&control, self.now);
                    self.act(to, actions);
                }
            }
            self.now = end;
        }

        fn states(&self) -> [State; 2] {
            [self.ends[0].state(), self.ends[1].state()]
        }

        fn set(&mut self, end: usize, settings: Settings) {
            let actions = self.ends[end].set(settings, self.now);
            self.act(end, actions);
        }
    }

    fn up(one: Settings, two: Settings) -> Pair {
        let mut pair = Pair::new(one, two);
        pair.run(Duration::from_secs(4));
        assert_eq!(pair.states(), [State::Up; 2]);
        pair
    }

    #[test]
    fn both_come_up_and_send_at_the_intervals_agreed_on() {
        let mut pair = up(settings(1), Settings { min_rx: 50_000, ..settings(2) });
        assert!(pair.ends.iter().all(|end| !end.polling && end.diagnostic() == Diagnostic::NONE));
        let before = [pair.sent[0].len(), pair.sent[1].len()];
        pair.run(Duration::from_secs(10));
        let gaps = |end: usize| pair.sent[end][before[end]..].windows(2).map(|two| two[1] - two[0]);
        // The first is held to what the second can hear.
        assert!(gaps(0).all(|gap| (MILLI * 75 / 2..=MILLI * 50).contains(&gap)));
        assert!(gaps(1).all(|gap| (MILLI * 75 / 10..=MILLI * 10).contains(&gap)));
        assert_eq!(pair.ends[1].detection_time(), MILLI * 150);
        assert_eq!(pair.ends[0].detection_time(), MILLI * 30);
        assert_eq!(pair.states(), [State::Up; 2]);
    }

    #[test]
    fn silence_is_detected_in_time_and_in_one_direction_by_both() {
        for cut in [[true, true], [true, false]] {
            let mut pair = up(settings(1), settings(2));
            (pair.told, pair.cut) = ([Vec::new(), Vec::new()], cut);
            let began = pair.now;
            pair.run(Duration::from_millis(200));
            let (at, state) = pair.told[1][0];
            assert_eq!(state, State::Down);
            assert!(at - began >= MILLI * 20 && at - began <= MILLI * 31, "{:?}", at - began);
            assert_eq!(pair.ends[1].diagnostic(), Diagnostic::EXPIRED);
            // Who is still heard tells the other.
            let (at, state) = pair.told[0][0];
            assert!(state == State::Down && at - began <= MILLI * 32, "{cut:?}: {:?}", at - began);
            let why = if cut[1] { Diagnostic::EXPIRED } else { Diagnostic::NEIGHBOUR_DOWN };
            assert_eq!(pair.ends[0].diagnostic(), why);
            pair.cut = [false; 2];
            pair.run(Duration::from_secs(4));
            assert_eq!(pair.states(), [State::Up; 2]);
        }
    }

    #[test]
    fn timers_change_by_a_poll_and_nobody_goes_down() {
        let mut pair = up(settings(1), settings(2));
        for (min_tx, min_rx) in [(300_000, 10_000), (5_000, 5_000), (10_000, 400_000), (50_000, 1_000)] {
            pair.told = [Vec::new(), Vec::new()];
            pair.set(0, Settings { min_tx, min_rx, ..settings(1) });
            assert!(pair.ends[0].polling);
            pair.run(Duration::from_secs(3));
            assert!(!pair.ends[0].polling);
            assert_eq!(pair.states(), [State::Up; 2]);
            assert!(pair.told.iter().flatten().all(|(_, state)| *state == State::Up));
            assert_eq!(pair.ends[0].interval(), Some(min_tx.max(10_000)));
            assert_eq!(pair.ends[1].interval(), Some(min_rx.max(10_000)));
        }
    }

    #[test]
    fn until_the_other_end_knows_it_is_waited_for_as_before() {
        let session = |min_tx, min_rx| {
            let mut pair = up(Settings { min_tx: 20_000, min_rx: 50_000, ..settings(1) }, settings(2));
            let asked = pair.ends[0].set(Settings { min_tx, min_rx, ..settings(1) }, pair.now);
            assert!(matches!(asked[..], [Action::Send(Control { poll: true, .. })]));
            let last = Control { is_final: true, ..pair.ends[1].control() };
            let before = (pair.ends[0].interval(), pair.ends[0].detection_time());
            let _ = pair.ends[0].hear(&last, pair.now);
            (before, (pair.ends[0].interval(), pair.ends[0].detection_time()))
        };
        // Slower to send and quicker to hear; then the other way round, which does no harm at once.
        assert_eq!(session(90_000, 10_000), ((Some(20_000), MILLI * 150), (Some(90_000), MILLI * 30)));
        assert_eq!(session(10_000, 90_000), ((Some(10_000), MILLI * 270), (Some(10_000), MILLI * 270)));
    }

    #[test]
    fn who_is_switched_off_says_so_at_once() {
        let mut pair = up(settings(1), settings(2));
        pair.told = [Vec::new(), Vec::new()];
        let began = pair.now;
        pair.set(0, Settings { shutdown: true, ..settings(1) });
        pair.run(MILLI);
        assert_eq!(pair.states(), [State::AdminDown, State::Down]);
        assert!(pair.told[1][0].0 - began < MILLI);
        assert_eq!(pair.ends[1].other().state, State::AdminDown);
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.states(), [State::AdminDown, State::Down]);
        pair.set(0, settings(1));
        pair.run(Duration::from_secs(4));
        assert_eq!(pair.states(), [State::Up; 2]);
    }

    #[test]
    fn a_session_that_was_up_goes_on_in_other_hands() {
        for passive in [false, true] {
            let settings = |id| Settings { passive: passive && id == 1, ..settings(id) };
            let mut pair = up(settings(1), settings(2));
            pair.told = [Vec::new(), Vec::new()];
            let mut sent = None;
            for round in 0..20 {
                pair.ends[0] = Session::new(settings(1), pair.now, Random(round));
                pair.run(Duration::from_millis(100));
                assert_eq!(pair.states(), [State::Up; 2], "{:?}", pair.told);
                let now = pair.sent[0].len();
                assert!(sent.is_none_or(|before| now - before >= 9), "it sends");
                sent = Some(now);
            }
            assert!(pair.told[1].is_empty(), "{:?}", pair.told[1]);
        }
    }

    #[test]
    fn what_is_up_by_another_number_is_not_gone_on_with() {
        let mut pair = up(settings(1), settings(2));
        pair.ends[0] = Session::new(settings(3), pair.now, Random(1));
        let stale = Control { yours: 1, ..pair.ends[1].control() };
        let _ = pair.ends[0].hear(&stale, pair.now);
        assert_eq!(pair.ends[0].state(), State::Down);
        // And not later than the other end would have missed it.
        let late = Control { yours: 3, ..stale };
        let _ = pair.ends[0].hear(&late, pair.now + MILLI * 20);
        assert_eq!(pair.ends[0].state(), State::Down);
    }

    #[test]
    fn who_is_passive_waits_to_be_asked() {
        let passive = |id| Settings { passive: true, ..settings(id) };
        let mut pair = Pair::new(passive(1), passive(2));
        pair.run(Duration::from_secs(60));
        assert!(pair.sent.iter().all(Vec::is_empty));
        up(passive(1), settings(2));
    }

    #[test]
    fn who_wants_to_hear_nothing_hears_nothing_but_answers() {
        let mut pair = up(settings(1), settings(2));
        let asks = Control { demand: true, ..pair.ends[1].control() };
        let _ = pair.ends[0].hear(&asks, pair.now);
        assert_eq!((pair.ends[0].interval(), pair.ends[0].sends_at), (None, None));
        let polls = Control { poll: true, ..asks };
        let actions = pair.ends[0].hear(&polls, pair.now);
        assert!(matches!(actions[..], [Action::Send(Control { is_final: true, poll: false, .. })]));
        let no_rx = Control { min_rx: 0, demand: false, ..asks };
        let _ = pair.ends[0].hear(&no_rx, pair.now);
        assert_eq!(pair.ends[0].interval(), None);
    }

    /// A packet: state, poll, final, demand, multiplier, intervals to send and to hear; and the
    /// microseconds before it.
    type Any = (u8, bool, bool, bool, u8, u32, u32, u64);

    fn any_packet() -> impl Strategy<Value = Any> {
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        let times = (0u32..3_000_000, 0u32..3_000_000, 0u64..2_000_000);
        let packet = (0u8..4, flags, 1u8..5, times);
        packet.prop_map(|(state, (poll, last, demand), multiplier, (tx, rx, micros))| {
            (state, poll, last, demand, multiplier, tx, rx, micros)
        })
    }

    proptest! {
        /// Whatever comes, whenever: nobody is up who was not told so by one who hears, and what is
        /// due is never long ago.
        #[test]
        fn no_packet_makes_it_up_alone(
            heard in proptest::collection::vec(any_packet(), 1..60),
        ) {
            let mut session = Session::new(settings(9), Time::ZERO, Random(3));
            let mut now = Time::ZERO;
            for (state, poll, is_final, demand, multiplier, min_tx, min_rx, micros) in heard {
                let state = State::ALL[usize::from(state)];
                let until = now + Duration::from_micros(micros);
                while let Some(at) = session.next().filter(|at| *at <= until) {
                    now = now.max(at);
                    session.pass(now);
                    prop_assert!(session.next().is_none_or(|next| next > now));
                }
                now = until;
                let before = session.state();
                let fresh = session.listens_until.is_some_and(|until| now < until);
                let control = Control {
                    state, poll, is_final: is_final && !poll, demand, multiplier, min_tx, min_rx,
                    diagnostic: Diagnostic::NONE, independent: false, mine: 5, yours: 9, min_echo_rx: 0,
                };
                session.hear(&control, now);
                if session.state() == State::Up && before != State::Up {
                    let usual =
                        matches!((before, state), (State::Down, State::Init) | (State::Init, State::Init | State::Up));
                    prop_assert!(usual || fresh && (before, state) == (State::Down, State::Up));
                }
                prop_assert!(state != State::AdminDown || session.state() == State::Down);
                prop_assert!(session.expires_at.is_some_and(|at| at >= now));
            }
        }

        #[test]
        fn losses_below_the_multiplier_make_nobody_go_down(seed in any::<u64>()) {
            let mut pair = up(settings(1), settings(2));
            let mut random = Random(seed);
            for _ in 0..200 {
                // Of three packets in a row one arrives.
                pair.cut = [random.chance(50), random.chance(50)];
                pair.run(MILLI * 9);
                pair.cut = [false; 2];
                pair.run(MILLI * 10);
                prop_assert_eq!(pair.states(), [State::Up; 2]);
            }
        }
    }
}
