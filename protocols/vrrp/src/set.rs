//! Who is active: virtual routers that move together have one state (RFC 9568, 6).
//!
//! ```text
//!               all can take part                   all have heard nothing for too long,
//!  Initialize --------------------> Backup             or only of lower priorities
//!      ^                              |  ^  \
//!      |   one cannot any more        |  |   ---------------> Active
//!      +------------------------------+  |                      |
//!      +---------------------------------|----------------------+
//!                                        +-- one heard a better one, or it was released
//! ```
//!
//! A virtual router alone is a set of one, and then this is the RFC's machine. Of several, *all*
//! must have lost their active router before the set takes over, and *one* that meets a better one,
//! or cannot go on, takes all with it: the others say at once that they stop (priority 0). So a set
//! is never half here and half there, and two sets never pull at each other.
//!
//! Who is released goes on until the next one is heard: it *holds*. So a planned handover has no
//! gap, and if nobody takes over, the set is active again without having been away.

use std::net::IpAddr;
use std::time::Duration;

use crate::Version;
use crate::member::{Member, OWNER, Settings};
use crate::packet::{Advertisement, Wrong};

/// A moment: the time since one that all are counted from.
pub type Time = Duration;

/// For so long a kernel may keep a core from the thread that advertises (78 ms were seen). Who then
/// stops to forward loses packets that nobody else would have carried.
const HELD_UP: Duration = Duration::from_millis(200);

/// What a set is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// It does not take part.
    #[default]
    Initialize,
    /// It waits.
    Backup,
    /// It answers for the addresses.
    Active,
}

/// Why a set changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// All can take part now.
    #[error("it can take part")]
    Able,
    /// A member cannot.
    #[error("it cannot take part any more")]
    Unable,
    /// The addresses are this machine's own.
    #[error("the addresses are its own")]
    Owner,
    /// The process before this one was active until now.
    #[error("it goes on for the process before it")]
    GoesOn,
    /// The active one is gone, or never was.
    #[error("nothing was heard of an active router")]
    Silence,
    /// The active one has said that it stops.
    #[error("the active router {0} has stopped")]
    Stopped(IpAddr),
    /// The active one has a lower priority.
    #[error("the active router {0} has the lower priority {1}")]
    Preempted(IpAddr, u8),
    /// Another one is better.
    #[error("router {0} is active, and has priority {1}")]
    Better(IpAddr, u8),
    /// An operator wanted it.
    #[error("it was released")]
    Released,
    /// It was released, and there is no other.
    #[error("it was released, and no other router took over")]
    Alone,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send an advertisement of this priority for a member.
    Advertise {
        /// Number of the member.
        member: usize,
        /// 0: it stops.
        priority: u8,
    },
    /// The state is another one.
    Become(State, Why),
    /// The next one was heard, and what was held is let go.
    LetGo,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Set {
    members: Vec<Member>,
    state: State,
    /// Since when it has been that.
    since: Time,
    /// Until when it goes on although it is not active any more.
    holds: Option<Time>,
    /// It does not take over from anybody who is active.
    released: bool,
    /// It was active in another process until now.
    goes_on: bool,
}

impl Set {
    /// Of these members, none of which can take part yet.
    pub fn new(members: impl IntoIterator<Item = Settings>) -> Set {
        let members = members.into_iter().map(Member::new).collect();
        let (state, since) = (State::Initialize, Time::ZERO);
        Set { members, state, since, holds: None, released: false, goes_on: false }
    }

    /// It is active as soon as all can take part, for another process was until now.
    pub fn go_on(&mut self) {
        self.goes_on = true;
    }

    /// What it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// Since when.
    pub fn since(&self) -> Time {
        self.since
    }

    /// Whether it answers for its addresses: it is active, or holds what it was released from.
    pub fn answers(&self) -> bool {
        self.state == State::Active || self.holds.is_some()
    }

    /// Whether it was released, and has not been active since.
    pub fn is_released(&self) -> bool {
        self.released
    }

    /// The priority of a member at this moment.
    pub fn priority(&self, member: usize) -> u8 {
        self.members[member].priority
    }

    /// Who a member heard last, and its priority.
    pub fn heard(&self, member: usize) -> Option<(IpAddr, u8)> {
        self.members[member].heard
    }

    /// How long after an advertisement a member that is active still forwards: three intervals, as
    /// long as others believe it, and [`HELD_UP`] at least.
    pub fn lease(&self, member: usize) -> Duration {
        let Settings { interval, .. } = self.members[member].settings;
        (interval * 3).max(HELD_UP)
    }

    /// Whether all can take part.
    fn can(&self) -> bool {
        self.members.iter().all(Member::can)
    }

    /// When [`Set::pass`] has something to do next.
    pub fn next(&self) -> Option<Time> {
        let due = match self.state {
            State::Initialize => None,
            State::Backup => self.members.iter().map(|member| member.down_at).max(),
            State::Active => self.members.iter().map(|member| member.advertise_at).min(),
        };
        due.filter(|at| *at < Time::MAX)
    }

    /// A member can take part, or cannot; with this priority, 0: it cannot.
    pub fn set_able(&mut self, member: usize, able: bool, priority: u8, now: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        let was = &mut self.members[member];
        (was.able, was.priority) = (able, priority);
        match (self.state, self.can()) {
            (State::Initialize, true) => self.begin(now, &mut actions),
            (State::Active, false) => {
                self.stop_members(None, &mut actions);
                self.enter(State::Initialize, Why::Unable, now, &mut actions);
            }
            (State::Backup, false) => self.enter(State::Initialize, Why::Unable, now, &mut actions),
            _ => {}
        }
        actions
    }

    /// A member heard an advertisement, which is for it; `own`: the address that it speaks from.
    pub fn hear(
        &mut self,
        member: usize,
        it: &Advertisement,
        from: IpAddr,
        own: IpAddr,
        now: Time,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        // Its own, come back by a loop; or a machine that has the same address, which nothing here
        // can help.
        if from == own {
            return actions;
        }
        match self.state {
            State::Initialize => {}
            State::Backup => self.hear_as_backup(member, it, from, now, &mut actions),
            State::Active => self.hear_as_active(member, it, from, own, now, &mut actions),
        }
        actions
    }

    fn hear_as_backup(
        &mut self,
        member: usize,
        it: &Advertisement,
        from: IpAddr,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let waits = now < self.since + self.members[member].settings.preempt_delay;
        let may_preempt = self.members[member].settings.preempt && !waits && !self.released;
        let it_is = &mut self.members[member];
        it_is.heard = Some((from, it.priority));
        if it.priority == 0 {
            it_is.down_at = it_is.down_at.min(now + it_is.skew());
            return;
        }
        if it_is.settings.version == Version::Three {
            it_is.interval = it.interval;
        }
        if it.priority >= it_is.priority || !may_preempt {
            it_is.refresh(now);
        }
        if self.holds.take().is_some() {
            self.members.iter_mut().for_each(|other| other.refresh(now));
            actions.push(Action::LetGo);
        }
    }

    fn hear_as_active(
        &mut self,
        member: usize,
        it: &Advertisement,
        from: IpAddr,
        own: IpAddr,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let is = &mut self.members[member];
        is.heard = Some((from, it.priority));
        let better = it.priority > is.priority || it.priority == is.priority && from > own;
        if it.priority > 0 && better {
            if is.settings.version == Version::Three {
                is.interval = it.interval;
            }
            self.stop_members(Some(member), actions);
            self.enter(State::Backup, Why::Better(from, it.priority), now, actions);
        } else {
            // It is told at once, and not only when its turn comes, that it is not alone.
            is.advertise_at = now + is.settings.interval;
            actions.push(Action::Advertise { member, priority: is.priority });
        }
    }

    /// What the clock brings.
    pub fn pass(&mut self, now: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        match self.state {
            State::Backup if self.members.iter().all(|member| member.down_at <= now) => {
                let why = self.why();
                self.take_over(why, now, &mut actions);
            }
            State::Active => {
                for (number, member) in self.members.iter_mut().enumerate() {
                    if member.advertise_at <= now {
                        // By its own beat, unless that has been missed.
                        let next = member.advertise_at + member.settings.interval;
                        member.advertise_at = if next > now { next } else { now + member.settings.interval };
                        actions.push(Action::Advertise { member: number, priority: member.priority });
                    }
                }
            }
            _ => {}
        }
        actions
    }

    /// Hands over to another router, if there is one; false: it is not active.
    pub fn release(&mut self, now: Time, actions: &mut Vec<Action>) -> bool {
        if self.state != State::Active {
            self.released = true;
            return false;
        }
        self.stop_members(None, actions);
        self.enter(State::Backup, Why::Released, now, actions);
        // The next one waits for less than its interval, which was ours; then its first
        // advertisement comes.
        let patience = self.members.iter().map(|member| 2 * member.interval.max(member.skew())).max();
        let until = now + patience.unwrap_or_default().max(Duration::from_millis(100));
        self.members.iter_mut().for_each(|member| member.down_at = until);
        (self.holds, self.released) = (Some(until), true);
        true
    }

    /// Takes part as before it was released.
    pub fn resume(&mut self) {
        self.released = false;
    }

    /// Whether an advertisement is one for a member with these settings.
    ///
    /// # Errors
    /// Why it is not.
    pub fn judge(&self, member: usize, it: &Advertisement, addresses: &[IpAddr]) -> Result<(), Wrong> {
        let settings = &self.members[member].settings;
        if it.version != settings.version {
            return Err(Wrong::Version);
        }
        // Who owns the addresses knows them better (RFC 3768, 7.1).
        let same = it.addresses.len() == addresses.len()
            && it.addresses.iter().all(|address| addresses.contains(address));
        if !same && it.priority != OWNER {
            return Err(Wrong::Addresses);
        }
        if it.version == Version::Two && it.interval != settings.interval {
            return Err(Wrong::Interval);
        }
        Ok(())
    }

    fn begin(&mut self, now: Time, actions: &mut Vec<Action>) {
        if self.members.iter().all(|member| member.priority == OWNER) && !self.released {
            return self.take_over(Why::Owner, now, actions);
        }
        if std::mem::take(&mut self.goes_on) {
            return self.take_over(Why::GoesOn, now, actions);
        }
        self.enter(State::Backup, Why::Able, now, actions);
    }

    /// Why it takes over, now that it does.
    fn why(&self) -> Why {
        let heard = self.members.iter().filter_map(|member| Some((member.heard?, member.priority)));
        let of = heard.fold(Why::Silence, |why, ((from, its), own)| match its {
            0 => Why::Stopped(from),
            _ if its < own && why == Why::Silence => Why::Preempted(from, its),
            _ => why,
        });
        match of {
            _ if self.holds.is_some() => Why::Alone,
            // An active one of a lower priority that has been silent meanwhile is gone.
            Why::Preempted(..) if self.released => Why::Silence,
            of => of,
        }
    }

    fn take_over(&mut self, why: Why, now: Time, actions: &mut Vec<Action>) {
        self.released = false;
        self.enter(State::Active, why, now, actions);
        for (number, member) in self.members.iter_mut().enumerate() {
            member.advertise_at = now + member.settings.interval;
            member.interval = member.settings.interval;
            actions.push(Action::Advertise { member: number, priority: member.priority });
        }
    }

    /// Every member says that it stops, but the one that met a better one.
    fn stop_members(&self, but: Option<usize>, actions: &mut Vec<Action>) {
        let members = self.members.iter().enumerate();
        let speak = members.filter(|(number, member)| member.able && Some(*number) != but);
        actions.extend(speak.map(|(member, _)| Action::Advertise { member, priority: 0 }));
    }

    fn enter(&mut self, state: State, why: Why, now: Time, actions: &mut Vec<Action>) {
        (self.state, self.since, self.holds) = (state, now, None);
        if state == State::Backup {
            self.members.iter_mut().for_each(|member| member.refresh(now));
        }
        if state != State::Backup || why == Why::Able {
            self.members.iter_mut().for_each(|member| member.heard = None);
        }
        actions.push(Action::Become(state, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 3));

    fn ms(time: u64) -> Time {
        Duration::from_millis(time)
    }

    fn settings(priority: u8) -> Settings {
        Settings { interval: ms(10), ..Settings::new(priority) }
    }

    fn says(priority: u8) -> Advertisement {
        Advertisement { version: Version::Three, id: 1, priority, interval: ms(10), addresses: vec![OWN] }
    }

    /// A set of one, able since 0.
    fn alone(settings: Settings) -> Set {
        let mut set = Set::new([settings]);
        set.set_able(0, true, settings.priority, ms(0));
        set
    }

    fn hear(set: &mut Set, priority: u8, at: u64) -> Vec<Action> {
        set.hear(0, &says(priority), OTHER, OWN, ms(at))
    }

    #[test]
    fn who_goes_on_for_another_process_is_active_at_once_and_once() {
        let mut set = Set::new([settings(100), settings(100)]);
        set.go_on();
        assert!(set.set_able(0, true, 100, ms(0)).is_empty());
        let actions = set.set_able(1, true, 100, ms(0));
        assert_eq!(actions[0], Action::Become(State::Active, Why::GoesOn));
        set.set_able(1, false, 0, ms(5));
        set.set_able(1, true, 100, ms(6));
        assert_eq!(set.state(), State::Backup);
    }

    #[test]
    fn a_backup_takes_over_when_nothing_is_heard() {
        let mut set = alone(settings(100));
        assert_eq!(set.state(), State::Backup);
        // Three intervals and 156/256 of one.
        let at = set.next().unwrap();
        assert_eq!(at, ms(30) + ms(10) * 156 / 256);
        assert!(set.pass(at - ms(1)).is_empty());
        assert_eq!(
            set.pass(at),
            [Action::Become(State::Active, Why::Silence), Action::Advertise { member: 0, priority: 100 }]
        );
        assert_eq!(set.next(), Some(at + ms(10)));
    }

    #[test]
    fn an_owner_does_not_wait() {
        assert_eq!(alone(settings(255)).state(), State::Active);
    }

    #[test]
    fn who_says_that_it_stops_is_followed_at_once() {
        let mut set = alone(settings(100));
        hear(&mut set, 200, 5);
        hear(&mut set, 0, 6);
        assert!(set.next().unwrap() < ms(16));
        let at = set.next().unwrap();
        assert_eq!(set.pass(at)[0], Action::Become(State::Active, Why::Stopped(OTHER)));
    }

    #[test]
    fn a_lower_priority_is_preempted_after_the_delay_or_never() {
        let delayed = Settings { preempt_delay: ms(100), ..settings(100) };
        let never = Settings { preempt: false, ..settings(100) };
        for (settings, until) in [(settings(100), 40), (delayed, 140), (never, 1000)] {
            let mut set = alone(settings);
            let mut taken = 1000;
            for at in (5..1000).step_by(5) {
                if set.state() == State::Backup {
                    set.pass(ms(at));
                    hear(&mut set, 50, at);
                    taken = at + 5;
                }
            }
            assert!(taken <= until + 10 && taken + 10 >= until, "{settings:?} {taken}");
        }
    }

    #[test]
    fn of_equals_the_higher_address_stays() {
        let mut set = alone(settings(100));
        set.pass(ms(50));
        let lower = IpAddr::from([192, 0, 2, 1]);
        let answer = set.hear(0, &says(100), lower, OWN, ms(51));
        assert_eq!(answer, [Action::Advertise { member: 0, priority: 100 }]);
        // Its own comes back: no answer, or there would be no end to it.
        assert!(set.hear(0, &says(100), OWN, OWN, ms(52)).is_empty());
        assert_eq!(hear(&mut set, 100, 53), [Action::Become(State::Backup, Why::Better(OTHER, 100))]);
    }

    #[test]
    fn who_is_released_holds_until_the_next_one_is_heard() {
        let mut set = alone(settings(200));
        set.pass(ms(50));
        let mut actions = Vec::new();
        assert!(set.release(ms(60), &mut actions));
        assert_eq!(
            actions,
            [Action::Advertise { member: 0, priority: 0 }, Action::Become(State::Backup, Why::Released)]
        );
        assert!(set.answers() && set.state() == State::Backup);
        assert_eq!(hear(&mut set, 100, 70), [Action::LetGo]);
        assert!(!set.answers() && set.is_released());
        // It does not take it back, but it is there when the other one dies.
        for at in (80..1000).step_by(10) {
            set.pass(ms(at));
            hear(&mut set, 100, at);
        }
        assert_eq!(set.state(), State::Backup);
        set.pass(ms(1100));
        assert!(set.state() == State::Active && !set.is_released());
    }

    #[test]
    fn who_is_released_and_alone_goes_on() {
        let mut set = alone(settings(200));
        set.pass(ms(50));
        set.release(ms(60), &mut Vec::new());
        let at = set.next().unwrap();
        assert!(set.answers());
        assert_eq!(set.pass(at)[0], Action::Become(State::Active, Why::Alone));
    }

    #[test]
    fn a_set_moves_as_one() {
        let mut set = Set::new([settings(100), settings(100)]);
        set.set_able(0, true, 100, ms(0));
        assert_eq!(set.state(), State::Initialize);
        set.set_able(1, true, 100, ms(0));
        // One is still heard: the other alone does not take over.
        for at in (0..500).step_by(5) {
            set.hear(1, &says(200), OTHER, OWN, ms(at));
            assert!(set.pass(ms(at)).is_empty());
        }
        let taken = set.pass(ms(600));
        assert_eq!(taken.len(), 3);
        // One meets a better one: the other says that it stops.
        let yields = set.hear(1, &says(200), OTHER, OWN, ms(610));
        let stops = Action::Advertise { member: 0, priority: 0 };
        assert_eq!(yields, [stops, Action::Become(State::Backup, Why::Better(OTHER, 200))]);
        set.pass(ms(700));
        assert_eq!(set.state(), State::Active);
        // The link of one is pulled: only the other can still speak.
        let falls = set.set_able(1, false, 100, ms(710));
        assert_eq!(falls, [stops, Action::Become(State::Initialize, Why::Unable)]);
        assert!(!set.answers() && set.next().is_none());
    }

    #[test]
    fn a_priority_that_falls_is_told_at_the_next_advertisement() {
        let mut set = alone(settings(200));
        set.pass(ms(50));
        set.set_able(0, true, 50, ms(55));
        assert_eq!(set.pass(ms(60)), [Action::Advertise { member: 0, priority: 50 }]);
        assert_eq!(hear(&mut set, 100, 61), [Action::Become(State::Backup, Why::Better(OTHER, 100))]);
        // To 0: it stops by itself.
        set.pass(ms(200));
        assert_eq!(set.state(), State::Active);
        let stops = set.set_able(0, true, 0, ms(210));
        assert_eq!(stops[0], Action::Advertise { member: 0, priority: 0 });
    }

    #[test]
    fn what_is_advertised_must_be_what_is_configured() {
        let set = alone(settings(100));
        let judge = |it: Advertisement| set.judge(0, &it, &[OWN]);
        assert_eq!(judge(says(1)), Ok(()));
        assert_eq!(judge(Advertisement { addresses: vec![OTHER], ..says(1) }), Err(Wrong::Addresses));
        assert_eq!(judge(Advertisement { addresses: vec![OTHER], ..says(255) }), Ok(()));
        assert_eq!(judge(Advertisement { version: Version::Two, ..says(1) }), Err(Wrong::Version));
        let two = Set::new([Settings { version: Version::Two, ..settings(1) }]);
        let slow = Advertisement { version: Version::Two, interval: ms(1000), ..says(1) };
        assert_eq!(two.judge(0, &slow, &[OWN]), Err(Wrong::Interval));
    }
}
