//! The log's word about hosts that address translation had no mapping for: a line a minute for
//! each, and so many lines a minute in all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nat::{Refusal, Shortage};
use tracing::warn;

use super::forwarding::Forwarding;

const MINUTE: Duration = Duration::from_secs(60);
/// Lines a minute.
const LINES: usize = 20;

/// What has been said lately, and what has not.
#[derive(Default)]
pub(super) struct Told {
    /// Who was refused flows, by which rule and why: how many since the last line, and when that
    /// was.
    hosts: HashMap<(String, IpAddr, Refusal), (u64, Option<Instant>)>,
    /// Flows of hosts that are told apart no more.
    others: u64,
    others_told: Option<Instant>,
}

impl Told {
    /// Takes what was refused; the lines that are due.
    fn take(&mut self, (short, others): (Vec<Shortage>, u64), now: Instant) -> Vec<String> {
        self.others += others;
        for Shortage { rule, host, why, flows } in short {
            self.hosts.entry((rule, host, why)).or_default().0 += flows;
        }
        let recent = |told: &Option<Instant>| told.is_some_and(|told| now.duration_since(told) < MINUTE);
        self.hosts.retain(|_, (flows, told)| *flows > 0 || recent(told));
        let mut room = LINES.saturating_sub(self.hosts.values().filter(|(_, told)| recent(told)).count());
        let mut lines = Vec::new();
        self.hosts.retain(|(rule, host, why), (flows, told)| {
            if *flows == 0 || recent(told) {
                return true;
            }
            if room == 0 {
                self.others += *flows;
                return false;
            }
            room -= 1;
            let why = match why {
                Refusal::HostLimit => "it has as many mappings as host_limit lets it have",
                Refusal::TableFull => "there are as many mappings as [nat] mappings allows",
                _ => "no port is free",
            };
            lines.push(format!("rule {rule}: {host} was refused {flows} new flows: {why}"));
            (*flows, *told) = (0, Some(now));
            true
        });
        if self.others > 0 && !recent(&self.others_told) {
            lines.push(format!("{} new flows of other hosts were refused", self.others));
            (self.others, self.others_told) = (0, Some(now));
        }
        lines
    }
}

impl Told {
    /// Says which hosts there was no mapping for.
    pub(super) fn tell(&mut self, forwarding: &Forwarding) {
        if let Some(nat) = forwarding.plane.policy().nat() {
            let lines = self.take(nat.shortages(), Instant::now());
            lines.iter().for_each(|line| warn!(target: "nat", "{line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(host: u8, flows: u64) -> Shortage {
        let host = [192, 168, 0, host].into();
        Shortage { rule: "home".to_owned(), host, why: Refusal::HostLimit, flows }
    }

    #[test]
    fn each_host_has_a_line_a_minute() {
        let (mut told, now) = (Told::default(), Instant::now());
        let line = "rule home: 192.168.0.7 was refused 3 new flows: it has as many mappings as host_limit lets it have";
        assert_eq!(told.take((vec![short(7, 3)], 0), now), [line]);
        assert!(told.take((vec![short(7, 4)], 0), now + MINUTE / 2).is_empty());
        let later = told.take((vec![short(7, 5)], 0), now + MINUTE);
        assert!(later.len() == 1 && later[0].contains("refused 9 new flows"), "{later:?}");
        assert!(told.take((vec![], 0), now + 2 * MINUTE).is_empty() && told.hosts.is_empty());
    }

    #[test]
    fn a_thousand_hosts_have_twenty_lines_and_one_for_the_rest() {
        let (mut told, now) = (Told::default(), Instant::now());
        let all = |flows| (0..=255).map(|host| short(host, flows)).collect();
        let lines = told.take((all(1), 10), now);
        assert_eq!(lines.len(), LINES + 1);
        assert_eq!(lines[LINES], format!("{} new flows of other hosts were refused", 256 - LINES + 10));
        assert!(told.take((all(1), 10), now + MINUTE / 2).is_empty());
        assert_eq!(told.take((vec![], 0), now + MINUTE).len(), LINES + 1);
    }
}
