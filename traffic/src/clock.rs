//! The clock of stamps and schedules: the kernel's monotonic one, which programs in the kernel read as well.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started.
#[inline]
pub fn now() -> u64 {
    // It fails only for clocks that the kernel does not have, and this one it always has.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
