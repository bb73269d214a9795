//! When something is sent: now and then to all, more often at first, soon when a host asks, and at
//! once when it has changed.
//!
//! Times are random within bounds, so that routers that came up together do not speak together.
//! What is for all is sent three seconds apart at least, however many hosts ask (RFC 4861, 6.2.6;
//! RFC 1256 has no such rule, and no reason against it).

use std::time::Duration;

use chance::Random;

/// Since any moment in the past.
pub type Time = Duration;

/// Between two of what is for all (`MIN_DELAY_BETWEEN_RAS`).
const APART: Duration = Duration::from_secs(3);
/// How many come soon at first, or when something has changed (`MAX_INITIAL_RTR_ADVERTISEMENTS`),
/// and how soon.
const INITIAL: u32 = 3;
const SOON: Duration = Duration::from_secs(16);
/// Hosts that wait for an answer at most; more are answered together.
const WAITING: usize = 256;

/// Bounds of what is random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The shortest and the longest time between two of what is for all.
    pub interval: [Duration; 2],
    /// The longest that an answer is put off.
    pub answer: Duration,
}

/// See the head of this file. `A` is what tells hosts apart.
#[derive(Debug)]
pub struct Schedule<A> {
    times: Times,
    random: Random,
    last: Option<Time>,
    next: Time,
    /// Still to come soon.
    initial: u32,
    waiting: Vec<(Time, A)>,
}

impl<A: Clone + PartialEq> Schedule<A> {
    /// Begins; the first is sent at once.
    pub fn new(times: Times, now: Time, random: Random) -> Schedule<A> {
        Schedule { times, random, last: None, next: now, initial: INITIAL, waiting: Vec::new() }
    }

    /// What is said has changed: it is told as soon as the rule allows, and often at first.
    pub fn changed(&mut self, now: Time) {
        self.next = self.allowed(now);
        self.initial = INITIAL;
    }

    /// A host asks; `None`: one that has no address to be answered at.
    pub fn asked(&mut self, now: Time, host: Option<A>) {
        let at = now + self.between(Duration::ZERO, self.times.answer);
        match host {
            Some(host) if self.waiting.iter().any(|(_, waiting)| *waiting == host) => {}
            Some(host) if self.waiting.len() < WAITING => self.waiting.push((at, host)),
            _ => self.next = self.next.min(self.allowed(at)),
        }
    }

    /// When something is due.
    pub fn next(&self) -> Time {
        self.waiting.iter().map(|(at, _)| *at).fold(self.next, Time::min)
    }

    /// What is due: hosts that are to be answered, and whether all are told.
    pub fn due(&mut self, now: Time) -> (Vec<A>, bool) {
        let all = self.next <= now;
        if all {
            self.last = Some(now);
            self.initial = self.initial.saturating_sub(1);
            let [least, most] = self.times.interval;
            let wait = self.between(least, most);
            self.next = now + if self.initial > 0 { wait.min(SOON) } else { wait };
        }
        // Who is told with all needs no answer.
        let due: Vec<A> =
            self.waiting.extract_if(.., |(at, _)| all || *at <= now).map(|(_, host)| host).collect();
        (if all { Vec::new() } else { due }, all)
    }

    fn allowed(&self, at: Time) -> Time {
        self.last.map_or(at, |last| at.max(last + APART))
    }

    fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.random.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times {
        interval: [Duration::from_secs(200), Duration::from_secs(600)],
        answer: Duration::from_millis(500),
    };

    fn seconds(number: u64) -> Time {
        Time::from_secs(number)
    }

    fn schedule(seed: u64) -> Schedule<u8> {
        Schedule::new(TIMES, seconds(100), Random(seed))
    }

    #[test]
    fn three_come_soon_and_then_one_now_and_then() {
        let mut schedule = schedule(1);
        let mut last = seconds(100);
        assert_eq!(schedule.next(), last, "the first at once");
        for number in 0..50 {
            let at = schedule.next();
            let since = at - last;
            match number {
                0 => {}
                1 | 2 => assert!(since <= SOON, "{since:?}"),
                _ => assert!((TIMES.interval[0]..=TIMES.interval[1]).contains(&since), "{since:?}"),
            }
            assert_eq!(schedule.due(at), (vec![], true));
            last = at;
        }
        schedule.changed(last + seconds(10));
        assert_eq!(schedule.next(), last + seconds(10), "a change at once");
        assert!(schedule.due(schedule.next()).1);
        schedule.changed(last + seconds(11));
        assert_eq!(schedule.next(), last + seconds(13), "but not too soon after what was said");
    }

    #[test]
    fn who_asks_is_answered_soon_and_once() {
        for seed in 1..100 {
            let mut schedule = schedule(seed);
            schedule.due(seconds(100));
            let now = seconds(101);
            for host in [1, 2, 1] {
                schedule.asked(now, Some(host));
            }
            assert!(schedule.next() >= now && schedule.next() <= now + TIMES.answer);
            let (mut answered, all) = schedule.due(now + TIMES.answer);
            answered.sort_unstable();
            assert_eq!((answered, all), (vec![1, 2], false));
            // Who has no address is told with all, and those who wait are, too.
            schedule.asked(now, None);
            schedule.asked(now + seconds(1), Some(3));
            let at = schedule.next;
            assert!(at >= seconds(103) && at <= seconds(104), "{at:?}");
            assert!(schedule.due(at).1);
            assert!(schedule.waiting.is_empty());
        }
    }

    #[test]
    fn a_flood_of_questions_makes_no_flood_of_answers() {
        let mut schedule: Schedule<u32> = Schedule::new(TIMES, seconds(0), Random(7));
        let mut told = 0;
        for step in 0..100_000 {
            let now = Time::from_millis(step);
            schedule.asked(now, (step % 3 > 0).then_some(step as u32));
            if schedule.next() <= now {
                told += u32::from(schedule.due(now).1);
            }
            assert!(schedule.waiting.len() <= WAITING);
        }
        assert!(told <= 35, "{told} in 100 s");
    }
}
