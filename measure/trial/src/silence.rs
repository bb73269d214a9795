//! Whether the device still carries anything.
//!
//! A device that dies in the middle of a trial, or between two, loses everything from then on with
//! its links up. Taken for a loss, that would be a figure of nothing. So where nothing came back
//! from some point on until the end, a few small frames follow when it is over: one that was only
//! overloaded, or carries none of this size, carries those.

use std::time::Duration;

use traffic::Report;

use crate::{DeviceError, Frames, Modifiers, Offered, Pattern};

/// A silence of less than this part of the load is none, nor one of less than so many seconds.
const PART: f64 = 0.02;
const SECONDS: f64 = 0.005;
/// The few small frames: a second, and for how many seconds.
const RATE: f64 = 1000.0;
const LENGTH: f64 = 0.05;
/// How often they are sent, and how long is waited between: what was overloaded may have to come to
/// itself.
pub(crate) const TRIES: u32 = 10;
pub(crate) const PAUSE: Duration = Duration::from_millis(300);

/// Seconds from the start of a trial, from which on nothing of this stream came back by one of the
/// ports.
pub(crate) fn begins(reports: &[Report], stream: &str) -> Option<f64> {
    let silent = |report: &Report| {
        let until = report.streams.iter().find(|one| one.name == stream)?.arrived_until?;
        let rest = 1.0 - until;
        let is_silent = until == 0.0 || rest > PART && rest * report.seconds > SECONDS;
        is_silent.then_some(until * report.seconds)
    };
    reports.iter().filter_map(silent).min_by(f64::total_cmp)
}

/// The few small frames, of so many bytes, in the place of a load.
pub(crate) fn probe(offered: &Offered, least: u16) -> Offered {
    Offered {
        frames: Frames::fixed(least),
        rate: RATE.min(offered.rate),
        seconds: LENGTH,
        pattern: Pattern::Constant,
        modifiers: Modifiers::default(),
        ..offered.clone()
    }
}

/// Which of the reports have none of them.
pub(crate) fn missing(reports: &[Report], stream: &str) -> Vec<usize> {
    let none = |report: &Report| {
        let mut streams = report.streams.iter().filter(|one| one.name == stream);
        !streams.any(|one| one.received.is_some_and(|received| received.packets != 0))
    };
    reports.iter().enumerate().filter(|(_, report)| none(report)).map(|(number, _)| number).collect()
}

/// What is told when none did; by which ports, where others carry on.
pub(crate) fn gone(since: f64, by: &[&str]) -> DeviceError {
    let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
    let what = if since > 0.0 {
        format!(
            "nothing came back{by} from {since:.1} s after the start on, nor any of the few small frames after it: the device, or the way to \
             it, is gone"
        )
    } else {
        format!(
            "not one frame came back{by}, nor any of the few small ones after it: is the device there, does it know the way to the hosts, \
             and are its addresses right?"
        )
    };
    DeviceError::Failed(format!("{what} (the trial does not count)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use traffic::StreamReport;

    #[test]
    fn a_silence_lasts_until_the_end_and_for_more_than_a_moment() {
        let begins = |seconds: f64, until: &[Option<f64>]| {
            let report = |&arrived_until: &Option<f64>| {
                let stream =
                    StreamReport { name: "test".to_owned(), arrived_until, ..StreamReport::default() };
                Report { seconds, streams: vec![stream], ..Report::default() }
            };
            super::begins(&until.iter().map(report).collect::<Vec<_>>(), "test")
        };
        assert_eq!(begins(1.0, &[Some(1.0), Some(0.99)]), None);
        assert_eq!(begins(2.0, &[Some(1.0), Some(0.5)]), Some(1.0));
        assert_eq!(begins(1.0, &[Some(0.0)]), Some(0.0));
        // More than a fiftieth of the load, and than five milliseconds: in seconds from the start.
        assert_eq!((begins(10.0, &[Some(0.985)]), begins(10.0, &[Some(0.975)])), (None, Some(9.75)));
        assert_eq!((begins(0.125, &[Some(0.97)]), begins(0.125, &[Some(0.875)])), (None, Some(0.109375)));
        assert_eq!(begins(1.0, &[None]), None, "nothing was sent");
        // The end of a burst that found its queue full is no silence; a burst that vanished whole
        // is one.
        assert_eq!(begins(0.002, &[Some(0.5)]), None);
        assert_eq!(begins(0.002, &[Some(0.0)]), Some(0.0));
    }

    #[test]
    fn the_ports_by_which_nothing_comes_are_named_where_others_carry_on() {
        let report = |packets| {
            let received = Some(traffic::Count { packets, bytes: 64 * packets });
            let stream = StreamReport { name: "test".to_owned(), received, ..StreamReport::default() };
            Report { streams: vec![stream], ..Report::default() }
        };
        assert_eq!(missing(&[report(0), report(3), report(0)], "test"), [0, 2]);
        let told = |since, by: &[&str]| gone(since, by).to_string();
        assert!(told(0.0, &["eth2"]).contains("not one frame came back by eth2, nor"));
        assert!(told(0.5, &[]).contains("nothing came back from 0.5 s"));
    }
}
