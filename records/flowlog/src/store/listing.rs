//! Which files there are, and from when.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use chrono::{DateTime, NaiveDateTime};

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Where it is.
    pub path: PathBuf,
    /// When it was begun, ns since 1970: no record that came earlier is in it.
    pub begun: u64,
    /// When it was last written to, ns since 1970; 0: not known.
    pub changed: u64,
    /// Its bytes.
    pub size: u64,
    /// A journal, not Parquet.
    pub journal: bool,
}

const FORMAT: &str = "flows-%Y%m%dT%H%M%S%.6fZ";

/// The name, without its ending, of a file begun now.
pub fn stem(now: u64) -> String {
    DateTime::from_timestamp_nanos(now as i64).format(FORMAT).to_string()
}

/// When a file of this name was begun, ns since 1970.
pub fn begun(stem: &str) -> Option<u64> {
    let time = NaiveDateTime::parse_from_str(stem, FORMAT).ok()?;
    u64::try_from(time.and_utc().timestamp_nanos_opt()?).ok()
}

/// Every file of the log in this directory, the oldest first. A journal that is sealed already is
/// left out.
pub fn list(directory: &Path) -> io::Result<Vec<LogFile>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let journal = match path.extension().and_then(OsStr::to_str) {
            Some("parquet") => false,
            Some("journal") => true,
            _ => continue,
        };
        let Some(begun) = path.file_stem().and_then(OsStr::to_str).and_then(begun) else { continue };
        // It may be gone since: sealed, or too old.
        let Ok(facts) = path.metadata() else { continue };
        // A pipe or a device would have one wait for ever.
        if !facts.is_file() {
            continue;
        }
        let changed = facts.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let changed = changed.map_or(0, |since| since.as_nanos() as u64);
        files.push(LogFile { path, begun, changed, size: facts.len(), journal });
    }
    files.sort_by(|a, b| (a.begun, a.journal, &a.path).cmp(&(b.begun, b.journal, &b.path)));
    files.dedup_by(|later, earlier| later.begun == earlier.begun && later.journal && !earlier.journal);
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_when_it_was_begun() {
        let now = 1_763_747_100_123_456_000;
        let name = stem(now);
        assert_eq!(name, "flows-20251121T174500.123456Z");
        assert_eq!(begun(&name), Some(now));
        assert_eq!([begun("flows-"), begun("flows-20251321T174500.123456Z"), begun("")], [None; 3]);
    }

    #[test]
    fn a_sealed_journal_is_not_listed() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (stem(1_000_000_000), stem(2_000_000_000));
        for name in [
            format!("{first}.parquet"),
            format!("{first}.journal"),
            format!("{second}.journal"),
            format!("{second}.parquet.part"),
            "other.parquet".to_owned(),
        ] {
            std::fs::write(directory.path().join(name), "x").unwrap();
        }
        let pipe = directory.path().join(stem(3_000_000_000) + ".journal");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let folder = directory.path().join(stem(4_000_000_000) + ".parquet");
        std::fs::create_dir(folder).unwrap();
        let files = list(directory.path()).unwrap();
        let kinds = files.iter().map(|file| (file.begun, file.journal)).collect::<Vec<_>>();
        assert_eq!(kinds, [(1_000_000_000, false), (2_000_000_000, true)]);
    }
}
