//! What time it is.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970-01-01 UTC.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}
