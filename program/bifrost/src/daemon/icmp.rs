//! Which ICMP errors Linux would send: its sysctls, of which it does not tell when they change. So
//! they are read once a second.

use std::fs::read_to_string;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use elements::router::{IcmpLimits, IcmpSettings};

use super::forwarding::Forwarding;

/// How often they are read.
const EVERY: Duration = Duration::from_secs(1);

/// What was read last, and when.
#[derive(Default)]
pub(crate) struct Icmp {
    settings: IcmpSettings,
    read: Option<Instant>,
}

impl Icmp {
    /// Puts in force what the operator wants of Linux, if that has changed.
    pub(super) fn follow(&mut self, forwarding: &Forwarding) {
        let now = Instant::now();
        if self.read.is_some_and(|read| now < read + EVERY) {
            return;
        }
        self.read = Some(now);
        let settings = settings(|name| read_to_string(format!("/proc/sys/net/{name}")).ok());
        if settings != self.settings {
            self.settings = settings;
            forwarding.plane.set_icmp(settings);
            tracing::info!("Linux's settings of ICMP errors have changed, and hold here as well");
        }
    }
}

/// The settings by what `read` has of each; what is not there is as Linux has it by default.
fn settings(read: impl Fn(&str) -> Option<String>) -> IcmpSettings {
    let number = |name| read(name).and_then(|text| text.trim().parse::<u32>().ok());
    let default = IcmpSettings::default();
    let [four, six] = default.limits;
    let rate = number("ipv4/icmp_msgs_per_sec").unwrap_or(four.rate);
    let burst = number("ipv4/icmp_msgs_burst").unwrap_or(four.burst);
    let interval = |name, default| number(name).map_or(default, |ms| u64::from(ms) * 1_000_000);
    IcmpSettings {
        limits: [
            IcmpLimits { rate, burst, interval: interval("ipv4/icmp_ratelimit", four.interval) },
            IcmpLimits { rate, burst, interval: interval("ipv6/icmp/ratelimit", six.interval) },
        ],
        mask4: number("ipv4/icmp_ratemask").unwrap_or(default.mask4),
        mask6: read("ipv6/icmp/ratemask").and_then(|text| bits(&text)).unwrap_or(default.mask6),
        inbound: number("ipv4/icmp_errors_use_inbound_ifaddr").map_or(default.inbound, |wanted| wanted != 0),
    }
}

/// A list of numbers up to 255, as the kernel writes it: `0-1,3-127`.
fn bits(text: &str) -> Option<[u64; 4]> {
    let mut bits = [0u64; 4];
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let numbers: RangeInclusive<u8> = first.parse().ok()?..=last.parse().ok()?;
        numbers.for_each(|number| bits[usize::from(number / 64)] |= 1 << (number % 64));
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_has_by_default_is_our_default() {
        assert_eq!(settings(|_| None), IcmpSettings::default());
        let linux = |name: &str| {
            let value = match name {
                "ipv4/icmp_msgs_per_sec" => "1000",
                "ipv4/icmp_msgs_burst" => "50",
                "ipv4/icmp_ratelimit" => "1000",
                "ipv4/icmp_ratemask" => "6168",
                "ipv4/icmp_errors_use_inbound_ifaddr" => "0",
                "ipv6/icmp/ratelimit" => "100",
                "ipv6/icmp/ratemask" => "0-1,3-127",
                _ => return None,
            };
            Some(format!("{value}\n"))
        };
        assert_eq!(settings(linux), IcmpSettings::default());
    }

    #[test]
    fn lists_of_numbers_are_read() {
        assert_eq!(bits("\n"), Some([0; 4]));
        assert_eq!(bits("0,63-64,255\n"), Some([1 | 1 << 63, 1, 0, 1 << 63]));
        assert_eq!(bits("256"), None);
        assert_eq!(bits("1-"), None);
    }
}
