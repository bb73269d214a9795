//! Even gaps between packets, with Click's arithmetic.
//!
//! Within each second of wall time, by the microsecond, as many events are due as the rate says;
//! who is behind may act. One who was not asked for a while catches up on at most a second. A gap
//! is kept in 4096ths of a microsecond, rounded down.

/// Binary digits of a gap below the microsecond.
const SHIFT: u32 = 12;
const SECOND: i64 = 1_000_000_000;
/// Most events a second.
pub(super) const MOST: u32 = 1_000_000 << SHIFT;

/// An even rate of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct GapRate {
    rate: u32,
    gap: u32,
    /// Events of this second.
    count: i32,
    /// The second, since 1970; `None`: nobody has asked yet.
    second: Option<i64>,
}

impl GapRate {
    /// `rate` events a second; at most [`MOST`].
    pub(super) fn new(rate: u32) -> GapRate {
        let rate = rate.min(MOST);
        GapRate { rate, gap: gap(rate), count: 0, second: None }
    }

    /// Events a second.
    pub(super) fn rate(&self) -> u32 {
        self.rate
    }

    /// Takes another rate at `wall`, nanoseconds since 1970.
    pub(super) fn change(&mut self, rate: u32, wall: i64) {
        let rate = rate.min(MOST);
        if self.rate != rate {
            (self.rate, self.gap) = (rate, gap(rate));
            if self.second.is_some() && rate != 0 {
                self.count = (shifted(wall) / self.gap) as i32;
            }
        }
    }

    /// Begins anew.
    pub(super) fn reset(&mut self) {
        self.second = None;
    }

    /// Whether an event is due at `wall`, nanoseconds since 1970.
    pub(super) fn is_due(&mut self, wall: i64) -> bool {
        let (second, passed) = (wall.div_euclid(SECOND), shifted(wall));
        let due = passed / self.gap;
        match self.second {
            None => {
                self.second = Some(second);
                // Half a gap in, the first one is for the next.
                self.count = due as i32 + i32::from(passed - due * self.gap > self.gap / 2);
            }
            Some(before) if second > before => {
                self.second = Some(second);
                if self.count > 0 {
                    self.count = self.count.wrapping_sub(self.rate as i32);
                }
            }
            Some(_) => {}
        }
        due as i32 >= self.count
    }

    /// Notes events that were made, or bytes that were sent.
    pub(super) fn note(&mut self, events: u32) {
        self.count = self.count.saturating_add_unsigned(events);
    }

    /// When the next event is due, in nanoseconds since 1970, or a little before; `None`: never, or
    /// not known.
    pub(super) fn next(&self) -> Option<i64> {
        let second = self.second.filter(|_| self.rate != 0)?;
        let count = i64::from(self.count.max(0));
        let (more, count) = (count / i64::from(self.rate), count % i64::from(self.rate));
        // The gap is rounded down: not earlier than the first microsecond in which `is_due` finds
        // it.
        let microseconds = (count * i64::from(self.gap) + (1 << SHIFT) - 1) >> SHIFT;
        Some((second + more) * SECOND + microseconds * 1000)
    }
}

fn gap(rate: u32) -> u32 {
    MOST.checked_div(rate).unwrap_or(MOST + 1)
}

/// The microseconds of the present second, shifted.
fn shifted(wall: i64) -> u32 {
    ((wall.rem_euclid(SECOND) / 1000) as u32) << SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(mut rate: GapRate, from: i64, nanoseconds: i64) -> u32 {
        let (mut now, mut count) = (from, 0);
        while now < from + nanoseconds {
            while rate.is_due(now) {
                rate.note(1);
                count += 1;
            }
            let next = rate.next().unwrap_or(i64::MAX);
            assert!(next > now, "the next one is due later: {next} {now}");
            now = next;
        }
        count
    }

    #[test]
    fn events_are_as_many_as_the_rate_says() {
        for rate in [1, 3, 250, 1000, 1001, 77_777] {
            let count = events(GapRate::new(rate), 1_000_000_000 * SECOND, 10 * SECOND);
            assert!((10 * rate..=10 * rate + 10).contains(&count), "{rate}: {count}");
        }
    }

    #[test]
    fn nothing_a_second_is_one_at_the_beginning() {
        let mut rate = GapRate::new(0);
        assert!(rate.is_due(0));
        rate.note(1);
        assert!(!rate.is_due(999_999_999) && rate.next().is_none());
    }

    #[test]
    fn a_changed_rate_holds_from_now_on() {
        let mut rate = GapRate::new(10);
        rate.is_due(0);
        rate.note(1);
        rate.change(1000, 100_000_000);
        assert!(rate.is_due(100_000_000));
        rate.note(1);
        assert_eq!((rate.is_due(100_900_000), rate.is_due(101_000_000)), (false, true));
        rate.reset();
        assert!(rate.next().is_none());
    }

    proptest! {
        #[test]
        fn any_rate_at_any_time(rates: Vec<u32>, times: Vec<i64>, noted: u32) {
            let mut rate = GapRate::new(0);
            for (new, time) in rates.iter().zip(&times) {
                rate.change(*new, *time);
                rate.is_due(*time);
                rate.note(noted);
                let _ = rate.next();
            }
        }
    }
}
