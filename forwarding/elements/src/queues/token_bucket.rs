//! A token bucket with Click's arithmetic, so that it gives out a packet at the very millisecond at
//! which Click's does.
//!
//! Time passes in ticks of a millisecond. The level is kept as a fraction of the capacity in 32
//! bits; how much of it one token is, and how much a tick adds, are whole numbers, rounded down.
//! What is lost by that makes a bucket for 100 tokens a second of capacity 1 give one every 11 ms,
//! not 10, and that is what Click's users have.

/// Ticks in a second.
const FREQUENCY: u32 = 1000;
/// Nanoseconds of a tick.
pub(crate) const TICK: u64 = 1_000_000_000 / FREQUENCY as u64;

/// Tokens that become more as time passes, up to a capacity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    /// What a tick adds; 0: nothing ever.
    per_tick: u32,
    /// What a token is.
    scale: u32,
    ticks_to_fill: u32,
    level: u32,
    /// The tick up to which it was filled; `None`: it never was, and will be full.
    filled: Option<u64>,
}

impl TokenBucket {
    /// A bucket that is full when it is filled first. With rate or capacity 0 it stays empty.
    pub(crate) fn new(rate: u32, capacity: u32) -> TokenBucket {
        let (rate, capacity) = if capacity == 0 { (0, u32::MAX) } else { (rate, capacity) };
        // A tick's worth must fit.
        let capacity = capacity.max(rate.div_ceil(FREQUENCY)).max(1);
        let scale = u32::MAX / capacity;
        let added = u64::from(rate) * u64::from(scale) / u64::from(FREQUENCY);
        let per_tick = if rate == 0 { 0 } else { u32::try_from(added).unwrap_or(u32::MAX).max(1) };
        let ticks_to_fill = if per_tick == 0 { u32::MAX } else { u32::MAX.div_ceil(per_tick) };
        TokenBucket { per_tick, scale, ticks_to_fill, level: 0, filled: None }
    }

    /// Takes another rate and capacity, and stays as full as it is.
    pub(crate) fn change(&mut self, rate: u32, capacity: u32) {
        *self = TokenBucket::new(rate, capacity).as_full_as(self);
    }

    /// The same bucket, as full as another one.
    pub(crate) fn as_full_as(self, other: &TokenBucket) -> TokenBucket {
        TokenBucket { level: other.level, filled: other.filled, ..self }
    }

    /// Leaves exactly that many tokens in it, as far as they fit.
    pub(crate) fn set(&mut self, tokens: u32) {
        self.level = tokens.saturating_mul(self.scale);
    }

    /// Tokens a second, as far as the arithmetic keeps them.
    pub(crate) fn rate(&self) -> u32 {
        let rate = u64::from(self.per_tick / 2) + u64::from(self.per_tick) * u64::from(FREQUENCY);
        u32::try_from(rate / u64::from(self.scale)).unwrap_or(u32::MAX)
    }

    /// Adds what has come together by `now`, steady nanoseconds.
    pub(crate) fn fill(&mut self, now: u64) {
        let tick = now / TICK;
        let passed = self.filled.map_or(u64::MAX, |filled| tick.saturating_sub(filled));
        self.filled = Some(tick);
        if self.per_tick == 0 {
            return;
        }
        self.level = if passed >= u64::from(self.ticks_to_fill) {
            u32::MAX
        } else {
            let added = passed * u64::from(self.per_tick);
            u32::try_from(u64::from(self.level) + added).unwrap_or(u32::MAX)
        };
    }

    /// Whether there are that many tokens.
    pub(crate) fn contains(&self, tokens: u32) -> bool {
        tokens.checked_mul(self.scale).is_some_and(|share| share <= self.level)
    }

    /// Takes tokens out, as many as there are.
    pub(crate) fn remove(&mut self, tokens: u32) {
        self.level = self.level.saturating_sub(tokens.saturating_mul(self.scale));
    }

    /// How many ticks must pass until there are that many; `None`: it will never be.
    pub(crate) fn ticks_until(&self, tokens: u32) -> Option<u32> {
        let share = tokens.checked_mul(self.scale)?;
        match share.checked_sub(self.level) {
            None | Some(0) => Some(0),
            Some(missing) => (self.per_tick != 0).then(|| missing.div_ceil(self.per_tick)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How many single tokens come out in `milliseconds`, taken as soon as they are there.
    fn taken(mut bucket: TokenBucket, milliseconds: u64) -> u32 {
        let (mut now, mut count) = (5 * TICK, 0);
        let end = now + milliseconds * TICK;
        loop {
            bucket.fill(now);
            while bucket.contains(1) {
                bucket.remove(1);
                count += 1;
            }
            now += u64::from(bucket.ticks_until(1).unwrap_or(u32::MAX)) * TICK;
            if now > end {
                return count;
            }
        }
    }

    #[test]
    fn it_gives_out_what_clicks_does() {
        assert_eq!(taken(TokenBucket::new(2, 1), 10_000), 20);
        assert_eq!(taken(TokenBucket::new(2, 50), 10_000), 69);
        assert_eq!(taken(TokenBucket::new(100, 1), 10_000), 910);
        assert_eq!(taken(TokenBucket::new(100, 2), 10_000), 1001);
        assert_eq!(taken(TokenBucket::new(0, 10), 10_000), 0);
        assert_eq!(taken(TokenBucket::new(10, 0), 10_000), 0);
    }

    #[test]
    fn a_changed_bucket_stays_as_full_as_it_is() {
        let mut bucket = TokenBucket::new(1000, 100);
        bucket.fill(0);
        bucket.remove(50);
        bucket.change(1000, 10);
        assert!(bucket.contains(4) && !bucket.contains(6));
        assert_eq!(bucket.ticks_until(11), None);
    }

    proptest! {
        #[test]
        fn it_keeps_to_its_rate(rate: u32, capacity: u32, step in 1u64..5_000_000_000, tokens: u32) {
            let mut bucket = TokenBucket::new(rate, capacity);
            prop_assert!(bucket.rate() <= rate.saturating_add(rate / 2).saturating_add(FREQUENCY));
            for round in 0..50 {
                bucket.fill(round * step);
                prop_assert!(rate == 0 || capacity == 0 || bucket.ticks_until(1).is_some());
                prop_assert_eq!(bucket.contains(tokens), bucket.ticks_until(tokens) == Some(0));
                bucket.remove(tokens);
            }
        }
    }
}
