//! Times as people write them.

use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};

use notation::duration;

/// A time, perhaps told from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So long ago.
    Ago(Duration),
    /// Then, ns since 1970.
    At(u64),
    /// Today, by the local clock.
    Today(NaiveTime),
}

/// What is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a time: write `1h` (ago), `17:30`, `2026-11-21`, `2026-11-21T17:30:00`, `2026-11-21T17:30:00Z` or `@SECONDS`"
)]
pub struct WhenError;

impl FromStr for When {
    type Err = WhenError;

    fn from_str(text: &str) -> Result<When, WhenError> {
        let text = text.trim();
        if text == "now" {
            return Ok(When::Ago(Duration::ZERO));
        }
        if let Some(ago) = duration(text.strip_suffix("ago").map_or(text, str::trim_end)) {
            return Ok(When::Ago(ago));
        }
        if let Some(seconds) = text.strip_prefix('@') {
            let seconds = seconds.parse::<u64>().map_err(|_| WhenError)?;
            return seconds.checked_mul(1_000_000_000).map(When::At).ok_or(WhenError);
        }
        if let Ok(time) = DateTime::parse_from_rfc3339(&text.replacen(' ', "T", 1)) {
            return at(time.timestamp_nanos_opt());
        }
        for format in ["%H:%M", "%H:%M:%S"] {
            if let Ok(time) = NaiveTime::parse_from_str(text, format) {
                return Ok(When::Today(time));
            }
        }
        let text = text.replacen(' ', "T", 1);
        for format in ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S%.f"] {
            if let Ok(time) = NaiveDateTime::parse_from_str(&text, format) {
                return local(time);
            }
        }
        let day = NaiveDate::parse_from_str(&text, "%Y-%m-%d").map_err(|_| WhenError)?;
        local(day.and_time(NaiveTime::MIN))
    }
}

/// By the local clock; of an hour that comes twice the first, of one that does not come what
/// follows it.
fn local(time: NaiveDateTime) -> Result<When, WhenError> {
    let found = Local.from_local_datetime(&time).earliest();
    let found = found.or_else(|| Local.from_local_datetime(&(time + chrono::TimeDelta::hours(1))).earliest());
    at(found.and_then(|time| time.timestamp_nanos_opt()))
}

fn at(nanos: Option<i64>) -> Result<When, WhenError> {
    nanos.and_then(|nanos| u64::try_from(nanos).ok()).map(When::At).ok_or(WhenError)
}

impl When {
    /// In ns since 1970, when it is `now`.
    pub fn at(self, now: u64) -> u64 {
        match self {
            When::Ago(ago) => now.saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX)),
            When::At(time) => time,
            When::Today(time) => {
                let today = Local.timestamp_nanos(now as i64).date_naive();
                match local(today.and_time(time)) {
                    Ok(When::At(time)) => time,
                    _ => now,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_every_way_of_writing_them() {
        const NOW: u64 = 1_795_280_400_000_000_000;
        let at = |text: &str| text.parse::<When>().map(|when| when.at(NOW));
        assert_eq!(at("1h"), Ok(NOW - 3_600_000_000_000));
        assert_eq!(at("90s ago"), Ok(NOW - 90_000_000_000));
        assert_eq!(at("now"), Ok(NOW));
        assert_eq!(at("@1795280400"), Ok(NOW));
        assert_eq!(at("2026-11-21T17:00:00Z"), Ok(NOW));
        assert_eq!(at("2026-11-21 18:00:00.5+01:00"), Ok(NOW + 500_000_000));
        let local =
            Local.with_ymd_and_hms(2026, 11, 21, 9, 30, 0).unwrap().timestamp() as u64 * 1_000_000_000;
        assert_eq!((at("2026-11-21T09:30"), at("2026-11-21 09:30:00")), (Ok(local), Ok(local)));
        let today = Local.timestamp_nanos(NOW as i64).date_naive();
        assert_eq!(at("00:00"), at(&today.to_string()));
        for wrong in ["", "soon", "25:00", "2026-13-01", "@x", "@99999999999999999999", "1y", "-1h"] {
            assert_eq!(at(wrong), Err(WhenError), "{wrong}");
        }
    }
}
