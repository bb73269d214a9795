//! The monotonic clock as programs in the kernel read it (`bpf_ktime_get_ns`).
//!
//! In a time namespace, as a container may have one, a process reads that clock shifted, and the
//! programs do not: the shift is taken out again.

use std::sync::LazyLock;

use nix::time::{ClockId, clock_gettime};

/// What a time namespace adds to the clock here, in nanoseconds. A process stays in its own for as
/// long as it runs.
static SHIFT: LazyLock<i64> =
    LazyLock::new(|| std::fs::read_to_string("/proc/self/timens_offsets").map_or(0, |text| shift(&text)));

/// Nanoseconds since the machine started.
#[inline]
pub fn now() -> u64 {
    // It fails only for clocks that the kernel does not have, and this one it always has.
    let here = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64);
    here.wrapping_add_signed(-*SHIFT)
}

/// The monotonic clock's line among the offsets of time_namespaces(7): its name, seconds,
/// nanoseconds. None shifts nothing.
fn shift(offsets: &str) -> i64 {
    let line = offsets.lines().find_map(|line| line.trim().strip_prefix("monotonic"));
    let mut numbers =
        line.into_iter().flat_map(str::split_whitespace).map(|number| number.parse::<i64>().ok());
    let mut number = || numbers.next().flatten().unwrap_or(0);
    number().saturating_mul(1_000_000_000).saturating_add(number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shift_is_that_of_the_monotonic_clock() {
        assert_eq!(
            shift("monotonic       86400         7\nboottime           12         0\n"),
            86_400_000_000_007
        );
        assert_eq!(
            shift("monotonic          -2 500000000\nboottime            0         0\n"),
            -1_500_000_000
        );
        for text in ["", "boottime 5 0", "monotonic", "monotonic x y"] {
            assert_eq!(shift(text), 0, "{text}");
        }
    }
}
