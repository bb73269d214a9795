//! How many ICMP errors are sent: in all, and to each destination, as Linux limits its own.
//!
//! Token buckets. The one for all protects the machine (Linux: icmp_msgs_per_sec, icmp_msgs_burst).
//! Those per destination (icmp_ratelimit, and a burst of six times that) live in a table of fixed
//! size, four candidates for each destination, the longest unused one giving way: an attacker with
//! many addresses can push others out of it and so give them a fresh burst, but not get past the
//! limit for all.

/// How many ICMP errors one element may send. The default is Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpLimits {
    /// Errors a second in all; 0 for none.
    pub rate: u32,
    /// How many of them at once.
    pub burst: u32,
    /// Nanoseconds between errors to one destination; 0 for no such limit.
    pub interval: u64,
}

impl IcmpLimits {
    /// Linux's defaults for IPv4: 1000 a second, 50 at once; one a second to each destination.
    pub const V4: IcmpLimits = IcmpLimits { rate: 1000, burst: 50, interval: 1_000_000_000 };
    /// Linux's defaults for IPv6: 1000 a second, 50 at once; ten a second to each destination.
    pub const V6: IcmpLimits = IcmpLimits { rate: 1000, burst: 50, interval: 100_000_000 };

    /// The share of each of `workers` workers.
    pub fn share(self, workers: u32) -> IcmpLimits {
        let workers = workers.max(1);
        IcmpLimits { rate: self.rate.div_ceil(workers), burst: self.burst.div_ceil(workers), ..self }
    }
}

/// At most so many at once to one destination.
const BURST: u64 = 6;
const SETS: usize = 256;
const WAYS: usize = 4;

/// A token bucket in nanoseconds: an event takes `interval`, at most `interval * burst` is saved.
#[derive(Clone, Copy, Default)]
struct Bucket {
    saved: u64,
    last: u64,
}

impl Bucket {
    fn take(&mut self, now: u64, interval: u64, burst: u64) -> bool {
        let most = interval.saturating_mul(burst);
        self.saved = self.saved.saturating_add(now.saturating_sub(self.last)).min(most);
        self.last = now;
        let enough = self.saved >= interval;
        if enough {
            self.saved -= interval;
        }
        enough
    }
}

/// The limit for all.
pub(crate) struct Total {
    bucket: Bucket,
}

impl Total {
    /// Starts with a full burst.
    pub(crate) fn new() -> Total {
        Total { bucket: Bucket { saved: u64::MAX, last: 0 } }
    }

    pub(crate) fn allows(&mut self, now: u64, limits: IcmpLimits) -> bool {
        let Some(interval) = 1_000_000_000u64.checked_div(u64::from(limits.rate)) else { return false };
        self.bucket.take(now, interval, u64::from(limits.burst))
    }
}

/// The limits per destination.
pub(crate) struct Destinations {
    burst: u64,
    /// The key is the destination mixed to 64 bits; 0 is free.
    sets: Box<[[(u64, Bucket); WAYS]]>,
}

impl Destinations {
    /// A burst of six to each destination.
    pub(crate) fn new() -> Destinations {
        Destinations::with_burst(BURST)
    }

    pub(crate) fn with_burst(burst: u64) -> Destinations {
        Destinations { burst, sets: vec![[(0, Bucket::default()); WAYS]; SETS].into_boxed_slice() }
    }

    /// One event to each destination per `interval` nanoseconds; 0 for no such limit.
    pub(crate) fn allows(&mut self, now: u64, destination: u128, interval: u64) -> bool {
        if interval == 0 {
            return true;
        }
        let key = u64::from(wire::flow_hash6(destination, 0, 0, 0)) << 32
            | u64::from(wire::flow_hash6(0, destination, 1, 0))
            | 1;
        let set = &mut self.sets[(key >> 32) as usize % SETS];
        let way = set.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
            let oldest = (0..WAYS).min_by_key(|way| (set[*way].0 != 0, set[*way].1.last)).unwrap_or(0);
            set[oldest] = (key, Bucket { saved: interval.saturating_mul(self.burst), last: now });
            oldest
        });
        set[way].1.take(now, interval, self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_limit_for_all_is_a_burst_and_a_rate() {
        let (mut total, limits) = (Total::new(), IcmpLimits::V4);
        assert_eq!((0..1000).filter(|_| total.allows(5, limits)).count(), 50);
        let second = |i: u64| SECOND + i * SECOND / 10_000;
        assert_eq!((0..10_000u64).filter(|i| total.allows(second(*i), limits)).count(), 1049);
        assert!(!Total::new().allows(SECOND, IcmpLimits { rate: 0, ..limits }));
        assert_eq!(IcmpLimits::V4.share(4), IcmpLimits { rate: 250, burst: 13, interval: SECOND });
    }

    #[test]
    fn each_destination_has_its_own_limit() {
        let mut destinations = Destinations::new();
        let count = |d: &mut Destinations, to, now| (0..100).filter(|_| d.allows(now, to, SECOND)).count();
        assert_eq!(count(&mut destinations, 7, SECOND), 6);
        assert_eq!(count(&mut destinations, 8, SECOND), 6);
        assert_eq!(count(&mut destinations, 7, 3 * SECOND), 2);
        assert_eq!(count(&mut destinations, 7, 300 * SECOND), 6);
        assert!((0..100).all(|_| destinations.allows(300 * SECOND, 7, 0)));
    }

    #[test]
    fn many_destinations_need_no_more_memory() {
        let mut destinations = Destinations::new();
        for to in 0..100_000 {
            assert!(destinations.allows(SECOND, to, SECOND), "a new destination has its burst");
        }
        assert_eq!(destinations.sets.len(), SETS);
    }
}
