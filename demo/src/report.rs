//! What is printed where there is no terminal.

use std::time::Duration;

use lab::PingStatistics;

use crate::sample::Sample;

/// One line for one second.
pub fn line(elapsed: Duration, sample: &Sample) -> String {
    let outcome = &sample.outcome;
    let pings: usize = outcome.pings.iter().map(|ping| ping.sent).sum();
    let lost: usize = outcome.pings.iter().map(PingStatistics::lost).sum();
    let plane = match &sample.snapshot {
        Ok(snapshot) => {
            let rate: f64 = snapshot.ports.iter().map(|port| port.rates.received.packets_per_second).sum();
            let drops: f64 = snapshot.ports.iter().map(|port| port.rates.drops_per_second).sum();
            let share = snapshot.shares;
            format!(
                "{:>8} packets/s  express {:5.1} %  worker {:5.1} %  kernel {:5.1} %  drops {drops:.0}/s",
                grouped(rate as usize),
                share.express * 100.0,
                share.worker * 100.0,
                share.linux * 100.0
            )
        }
        Err(why) => format!("Bifrost does not answer: {why}"),
    };
    let up = sample.sessions.iter().filter(|(_, state, _)| state == "Established").count();
    format!(
        "{:>4} s  {plane}  BGP {up}/{} up  ping {lost} of {pings} lost  TCP {:.0} Mb/s",
        elapsed.as_secs(),
        sample.sessions.len(),
        outcome.megabits
    )
}

/// A number with its thousands apart: 200,000.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands_are_apart() {
        let shown: Vec<String> = [0, 7, 999, 1000, 1_234_567].map(super::grouped).to_vec();
        assert_eq!(shown, ["0", "7", "999", "1,000", "1,234,567"]);
    }
}
