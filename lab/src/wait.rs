use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{LabError, Result};

/// Waits until `condition` gives a value, and no longer than `limit`. It is asked every few
/// milliseconds.
///
/// `Err` from the condition means "not yet, and this is what I saw instead"; the last one is part
/// of the error.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> std::result::Result<T, String>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let last = match condition() {
            Ok(value) => return Ok(value),
            Err(seen) => seen,
        };
        if start.elapsed() > limit {
            return Err(LabError::Timeout { what: what.to_owned(), after: limit, last });
        }
        thread::sleep(Duration::from_millis(5));
    }
}
