//! When each packet is due, and how far from that packets left.
//!
//! A schedule is fixed before the first packet: due times are sums of gaps in 1/65,536 ns, so that
//! a rate is met to some parts in ten million whatever happens in between. A sender that falls
//! behind catches up as fast as it can, and what it sends then carries the times at which it was
//! due.

use crate::histogram::Times;
use crate::random::Random;
use crate::rate::{NoLine, Pattern, Rate};
use crate::size::Sizes;

/// Bits of a time behind the nanosecond.
pub const FRACTION: u32 = 16;
/// Draws that random gaps are made of.
pub const DRAWS: usize = 4096;

/// The gaps of a stream, on one of its cores.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// From each packet of the cycle of sizes to the next, in 1/65,536 ns; empty: as fast as it
    /// goes.
    gaps: Vec<u64>,
    at: usize,
    rhythm: Rhythm,
    due: u64,
}

#[derive(Clone, Debug)]
enum Rhythm {
    Constant,
    Poisson { draws: Vec<u32>, random: Random },
    Burst { packets: u32, left: u32, gap: u64 },
}

impl Schedule {
    /// The schedule of lane `part` of `parts` that share a stream: each has its part of the
    /// packets, between those of the others.
    pub fn new(
        rate: Rate,
        pattern: Pattern,
        sizes: &Sizes,
        line: Option<f64>,
        (part, parts): (usize, usize),
    ) -> Result<Schedule, NoLine> {
        let fixed = |nanoseconds: f64| (nanoseconds * f64::from(1 << FRACTION)).round() as u64;
        let mut gaps = Vec::new();
        let mut due = 0;
        let bursts = matches!(pattern, Pattern::Burst { .. });
        let cycle = sizes.cycle();
        for &size in &cycle {
            match rate.gap(size, line)? {
                Some(gap) => gaps.push(fixed(gap * parts as f64)),
                None if bursts => gaps.push(0),
                None => {}
            }
        }
        if let Some(&gap) = gaps.first() {
            due = gap / parts as u64 * part as u64;
        }
        let rhythm = match pattern {
            Pattern::Constant => Rhythm::Constant,
            Pattern::Poisson => Rhythm::Poisson { draws: draws(), random: Random(part as u64) },
            // Bursts are whole on each core, and as many times rarer.
            Pattern::Burst { packets, gap } => {
                let gap = fixed(gap.as_nanos() as f64 * parts as f64);
                if gaps.iter().all(|&gap| gap == 0) {
                    due = gap / parts as u64 * part as u64;
                }
                Rhythm::Burst { packets, left: packets, gap }
            }
        };
        Ok(Schedule { gaps, at: 0, rhythm, due })
    }

    /// Whether packets have due times at all.
    pub fn is_paced(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// When the next packet is due, in nanoseconds after the start; 0 when it is not paced.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due >> FRACTION
    }

    /// It was made; the next one is looked at.
    #[inline]
    pub fn advance(&mut self) {
        let Some(&gap) = self.gaps.get(self.at) else { return };
        self.at = if self.at + 1 == self.gaps.len() { 0 } else { self.at + 1 };
        self.due += match &mut self.rhythm {
            Rhythm::Constant => gap,
            Rhythm::Poisson { draws, random } => {
                let draw = draws[(random.next() >> 32) as usize % DRAWS];
                ((u128::from(gap) * u128::from(draw)) >> 16) as u64
            }
            Rhythm::Burst { packets, left, gap: pause } => {
                *left -= 1;
                if *left == 0 {
                    *left = *packets;
                    gap + *pause
                } else {
                    gap
                }
            }
        };
    }

    /// Gaps of the cycle, in 1/65,536 ns, for who counts them elsewhere.
    pub fn gaps(&self) -> &[u64] {
        &self.gaps
    }

    /// The first packet's due time, in 1/65,536 ns after the start.
    pub fn first(&self) -> u64 {
        self.due
    }

    /// Packets of a burst and the pause after it, in 1/65,536 ns; (0, 0) without bursts.
    pub fn burst(&self) -> (u32, u64) {
        match self.rhythm {
            Rhythm::Burst { packets, gap, .. } => (packets, gap),
            _ => (0, 0),
        }
    }

    /// Whether gaps are drawn at random.
    pub fn is_random(&self) -> bool {
        matches!(self.rhythm, Rhythm::Poisson { .. })
    }
}

/// Exponentially distributed factors with mean 1, in 1/65,536: the middle of each 4,096th of the
/// distribution.
pub fn draws() -> Vec<u32> {
    let raw: Vec<f64> = (0..DRAWS).map(|i| -((i as f64 + 0.5) / DRAWS as f64).ln()).collect();
    let mean = raw.iter().sum::<f64>() / DRAWS as f64;
    raw.into_iter().map(|draw| (draw / mean * 65_536.0).round() as u32).collect()
}

/// How far packets left from their schedule.
#[derive(Clone, Debug, Default)]
pub struct Departures {
    /// Differences between gaps that were and those that should have been, without sign.
    pub spacing: Times,
    /// From due to gone.
    pub lateness: Times,
    last: Option<(u64, u64)>,
}

impl Departures {
    /// What was counted elsewhere.
    pub(crate) fn counted(spacing: Times, lateness: Times) -> Departures {
        Departures { spacing, lateness, last: None }
    }

    /// A packet that was due at one time left at another, both in nanoseconds. Packets that leave
    /// together have the same time.
    #[inline]
    pub fn left(&mut self, due: u64, left: u64) {
        if let Some((last_due, last_left)) = self.last {
            self.spacing.record((left - last_left).abs_diff(due - last_due));
        }
        self.lateness.record(left.saturating_sub(due));
        self.last = Some((due, left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(rate: &str, pattern: &str, sizes: &str, count: usize, part: (usize, usize)) -> Vec<u64> {
        let (rate, pattern) = (rate.parse().unwrap(), pattern.parse().unwrap());
        let mut schedule = Schedule::new(rate, pattern, &sizes.parse().unwrap(), None, part).unwrap();
        let mut next = || {
            let due = schedule.due();
            schedule.advance();
            due
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn constant_gaps_add_up_exactly() {
        let dues = dues("3Mpps", "constant", "64", 3_000_001, (0, 1));
        assert_eq!(dues[0], 0);
        assert!(dues[3_000_000].abs_diff(1_000_000_000) < 100, "{}", dues[3_000_000]);
    }

    #[test]
    fn at_a_bit_rate_gaps_are_as_long_as_frames() {
        let dues = dues("8Gbps", "constant", "imix", 1_200_001, (0, 1));
        // 12 frames have 7 x 64 + 4 x 594 + 1518 bytes and 20 more each.
        let nanoseconds = 100_000 * (7 * 84 + 4 * 614 + 1538);
        assert!(dues[1_200_000].abs_diff(nanoseconds) < 100, "{}", dues[1_200_000]);
    }

    #[test]
    fn random_gaps_have_the_mean_and_spread_of_their_distribution() {
        let dues = dues("1Mpps", "poisson", "64", 1_000_001, (0, 1));
        let gaps: Vec<f64> = dues.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean - 1000.0).abs() < 5.0, "{mean}");
        assert!((deviation - 1000.0).abs() < 10.0, "{deviation}");
    }

    #[test]
    fn bursts_are_followed_by_their_gap() {
        let dues = dues("max", "burst 3 gap 1us", "64", 7, (0, 1));
        assert_eq!(dues, [0, 0, 0, 1000, 1000, 1000, 2000]);
        let spaced = self::dues("10Mpps", "burst 2 gap 1us", "64", 5, (0, 1));
        assert_eq!(spaced, [0, 100, 1200, 1300, 2400]);
    }

    #[test]
    fn parts_interleave() {
        let mut all: Vec<u64> =
            [0, 1].into_iter().flat_map(|part| dues("1Mpps", "constant", "64", 3, (part, 2))).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1000, 2000, 3000, 4000, 5000]);
    }

    #[test]
    fn departures_know_gaps_and_lateness() {
        let mut departures = Departures::default();
        [(0, 10), (100, 110), (200, 260), (300, 260)]
            .into_iter()
            .for_each(|(due, left)| departures.left(due, left));
        let spacing = departures.spacing.distribution().unwrap();
        assert_eq!((spacing.count, spacing.min, spacing.max), (3, 0, 100));
        let lateness = departures.lateness.distribution().unwrap();
        assert_eq!((lateness.count, lateness.min, lateness.max), (4, 0, 60));
    }
}
