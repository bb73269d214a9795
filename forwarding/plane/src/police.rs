//! How much a worker hands to Linux: what the driver's policing does for what goes there straight
//! (`forwarding/bpf/police.h`), for what workers punt. A flood of packets that only Linux can
//! complete must not become a flood of system calls.
//!
//! Each port has its own buckets: a flood that comes in by one starves nothing that comes in by
//! another. Each worker has an equal share of a class's rate, so that nothing is shared that
//! workers write.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fib::PortId;
use wire::Class;

/// The limits, set by the control thread.
#[derive(Debug, Default)]
pub struct Limits {
    /// Nanoseconds a packet, and how many of them may be saved; 0 = no limit.
    classes: [(AtomicU64, AtomicU64); Class::COUNT],
}

impl Limits {
    /// Limits a class to `rate` packets a second, `burst` at once, over `workers` workers. Rate 0 =
    /// no limit.
    pub fn set(&self, class: Class, rate: u32, burst: u32, workers: usize) {
        let interval = (1_000_000_000 * workers as u64).checked_div(u64::from(rate)).unwrap_or(0);
        let (kept, tolerance) = &self.classes[class as usize];
        tolerance.store(interval * u64::from(burst).div_ceil(workers.max(1) as u64), Relaxed);
        kept.store(interval, Relaxed);
    }
}

/// A worker's use of its share: the generic cell rate algorithm, like the driver's.
#[derive(Debug, Default)]
pub struct Police {
    /// When each class's bucket is empty again, by port.
    arrivals: Vec<[u64; Class::COUNT]>,
}

impl Police {
    /// Whether a packet of this class that came in by this port may pass at this time, nanoseconds.
    pub fn allows(&mut self, limits: &Limits, port: PortId, class: Class, now: u64) -> bool {
        let (interval, tolerance) = &limits.classes[class as usize];
        let (interval, tolerance) = (interval.load(Relaxed), tolerance.load(Relaxed));
        if interval == 0 {
            return true;
        }
        let port = usize::from(port.0);
        if self.arrivals.len() <= port {
            self.arrivals.resize(port + 1, [0; Class::COUNT]);
        }
        let arrival = &mut self.arrivals[port][class as usize];
        let next = (*arrival).max(now);
        if next - now > tolerance.saturating_sub(interval) {
            return false;
        }
        *arrival = next + interval;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate() {
        let (limits, mut police) = (Limits::default(), Police::default());
        limits.set(Class::Icmp, 1000, 10, 2);
        let mut passed = |from: u64, to: u64, step: u64| {
            (from..to)
                .step_by(step as usize)
                .filter(|now| police.allows(&limits, PortId(1), Class::Icmp, *now))
                .count()
        };
        // This worker's half: a burst of 5, then 500 a second.
        assert_eq!(passed(0, 1000, 1), 5);
        let second = passed(1_000_000, 1_001_000_000, 10_000);
        assert!((499..=501).contains(&second), "{second}");
        assert!(police.allows(&limits, PortId(1), Class::Rest, 0), "another class has no limit");
        assert!(police.allows(&limits, PortId(0), Class::Icmp, 1_001_000_000), "another port has its own");
    }
}
