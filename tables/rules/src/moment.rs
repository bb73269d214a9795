//! What time it is, as rules ask for it.

use crate::model::Zone;

/// A moment: read once a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds of a clock that never goes back; what rates are measured with.
    pub monotonic: u64,
    /// Seconds since 1970 in universal time.
    pub utc: i64,
    /// Seconds that the machine's time zone is ahead of universal time now.
    pub local_offset: i32,
}

impl Now {
    /// The minute of the day and the day of the week (0 is Monday).
    pub(crate) fn of_day(&self, zone: Zone) -> (u16, u8) {
        let seconds = match zone {
            Zone::Utc => self.utc,
            Zone::Local => self.utc.saturating_add(i64::from(self.local_offset)),
        };
        // 1 January 1970 was a Thursday.
        let weekday = (seconds.div_euclid(86_400) + 3).rem_euclid(7);
        ((seconds.rem_euclid(86_400) / 60) as u16, weekday as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Window;

    #[test]
    fn windows_run_over_midnight_and_know_the_day() {
        // Saturday, 21 November 2026, 23:30 UTC.
        let now = Now { utc: 1_795_303_800, ..Now::default() };
        let window = |minutes, days, zone| Window { minutes, days, zone };
        let night = Some((22 * 60, 6 * 60));
        assert!(window(night, 1 << 5, Zone::Utc).contains(&now));
        assert!(!window(night, 1 << 6, Zone::Utc).contains(&now));
        assert!(!window(Some((8 * 60, 18 * 60)), Window::EVERY_DAY, Zone::Utc).contains(&now));
        let east = Now { local_offset: 3600, ..now };
        assert!(window(night, 1 << 6, Zone::Local).contains(&east));
        assert!(window(None, 1 << 5, Zone::Utc).contains(&east));
        let before = Now { utc: -1, ..Now::default() };
        assert!(window(Some((23 * 60 + 59, 24 * 60)), 1 << 2, Zone::Utc).contains(&before));
    }
}
