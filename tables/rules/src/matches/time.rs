//! `time [HH:MM-HH:MM] [DAYS] utc|local`: when a packet comes.

use std::fmt;

use super::{Condition, Examples, Match, Row, Test};
use crate::language::{Item, Line, Word, bits_of};
use crate::mistake::Hint;
use crate::moment::Now;
use crate::nftables::Sentence;

/// A part of the day, on some days of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Minutes of the day from midnight: the first that belongs, and the first that doesn't; it may
    /// run over midnight.
    pub minutes: Option<(u16, u16)>,
    /// Days that belong: bit 0 is Monday. A window over midnight asks for the day that it is at the
    /// moment.
    pub days: u8,
    /// Whose clock.
    pub zone: Zone,
}

/// Whose clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Zone {
    /// Universal time.
    Utc,
    /// The time of the machine's time zone.
    Local,
}

/// Days, as bits from Monday.
const DAYS: &[&str] = &["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Window {
    /// All days.
    pub const EVERY_DAY: u8 = 0x7f;

    /// Whether a moment is in it.
    pub fn contains(&self, now: &Now) -> bool {
        let (minute, day) = now.of_day(self.zone);
        let in_hours = self.minutes.is_none_or(|(first, end)| {
            if first < end { first <= minute && minute < end } else { minute >= first || minute < end }
        });
        in_hours && self.days & 1 << day != 0
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("time")?;
        if let Some((first, end)) = self.minutes {
            write!(f, " {:02}:{:02}-{:02}:{:02}", first / 60, first % 60, end / 60, end % 60)?;
        }
        if self.days != Window::EVERY_DAY {
            let days = DAYS.iter().enumerate().filter(|(n, _)| self.days & 1 << n != 0);
            let days: Vec<&str> = days.map(|(_, name)| *name).collect();
            write!(f, " {}", days.join(","))?;
        } else if self.minutes.is_none() {
            f.write_str(" mon-sun")?;
        }
        f.write_str(if self.zone == Zone::Utc { " utc" } else { " local" })
    }
}

pub(crate) struct ByTime;

impl Condition for ByTime {
    type Value = Window;

    const WORDS: &'static [&'static str] = &["time"];
    const TEST: Test<Window> = Test::Circumstance(|window, circumstances| window.contains(circumstances.now));
    const MANUAL: Row =
        Some(("`time [HH:MM-HH:MM] [DAYS] utc\\|local`", "`time 22:00-06:00 mon-fri,sun utc`"));
    const EXAMPLES: Examples =
        Examples::Whole(&["time 00:00-12:00 utc", "time 22:00-06:00 mon-fri local", "time sat,sun utc"]);

    fn read(line: &mut Line, at: &Word) -> Option<Window> {
        let expected = "time 22:00-06:00 mon-fri,sun utc";
        let mut window = Window { minutes: None, days: 0, zone: Zone::Utc };
        let mut zone = None;
        while zone.is_none() {
            let Some(text) = line.words.peek() else { break };
            if text == "utc" || text == "local" {
                zone = Some(if text == "utc" { Zone::Utc } else { Zone::Local });
                line.words.take();
            } else if text.contains(':') && window.minutes.is_none() {
                let Some(word) = line.words.take() else { break };
                // What follows is read all the same, and no mistake of its own.
                window.minutes = hours(text).or_else(|| {
                    let message = format!("{text:?} is no part of a day");
                    line.wrong(&word, message, Hint::expected("08:00-18:00"));
                    Some((0, 0))
                });
            } else if DAYS.contains(&text.get(..3).unwrap_or_default()) {
                let list = line.list("the days", "mon, tue-fri", days);
                window.days |= list.map_or(Window::EVERY_DAY, |list| bits_of(&list, Window::EVERY_DAY));
            } else {
                break;
            }
        }
        let Some(zone) = zone else {
            let hint = Hint::expected(format!("utc or local at the end: {expected}"));
            line.wrong(at, "whose time?", hint);
            return None;
        };
        if window.minutes.is_none() && window.days == 0 {
            line.wrong(at, "which time?", Hint::expected(expected));
            return None;
        }
        if window.days == 0 {
            window.days = Window::EVERY_DAY;
        }
        Some(Window { zone, ..window })
    }

    fn print(window: &Window, _: &Match) -> String {
        window.to_string()
    }

    /// In seconds of the day in UTC, which nft takes as they are.
    fn nftables(window: &Window, sentence: &mut Sentence) -> Option<()> {
        if window.zone == Zone::Local {
            return Some(());
        }
        if let Some((first, end)) = window.minutes {
            let second = |minute: u16| u32::from(minute) * 60;
            sentence.say(if first < end {
                format!("meta hour {}-{}", second(first), second(end) - 1)
            } else if end == 0 {
                format!("meta hour {}-86399", second(first))
            } else {
                format!("meta hour != {}-{}", second(end), second(first) - 1)
            });
        }
        if window.days != Window::EVERY_DAY {
            // Linux counts from Sunday.
            let days = (0..7).filter(|day| window.days & 1 << day != 0);
            let days: Vec<String> = days.map(|day| ((day + 1) % 7).to_string()).collect();
            sentence.say(format!("meta day {{ {} }}", days.join(", ")));
        }
        Some(())
    }

    fn inexpressible(window: &Window) -> Option<&'static str> {
        (window.zone == Zone::Local).then_some("local time (it knows no summer time)")
    }
}

fn hours(text: &str) -> Option<(u16, u16)> {
    let minute = |text: &str| {
        let (hour, minute) = text.split_once(':')?;
        let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
        (minute < 60 && (hour < 24 || hour == 24 && minute == 0)).then(|| hour * 60 + minute)
    };
    let (first, end) = text.split_once('-')?;
    let (first, end) = (minute(first)?, minute(end)?);
    (first != end && first < 1440).then_some((first, end))
}

fn days(text: &str) -> Item<u8> {
    let day = |text: &str| DAYS.iter().position(|name| *name == text);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (Some(first), Some(last)) = (day(first), day(last)) else {
        return Err((
            format!("there is no day {text:?}"),
            Hint::expected("mon, tue, wed, thu, fri, sat, sun, and mon-fri"),
        ));
    };
    let length = (last + 7 - first) % 7;
    Ok((0..=length).fold(0, |bits, n| bits | 1 << ((first + n) % 7)))
}
