//! The log of a run: what was planned, and then a line for each trial, on the disk before the next
//! one begins.
//!
//! A run that was interrupted is taken up by being told what its log has: the searches are plain
//! arithmetic, so they ask for the same trials again, and get their answers from the log until it
//! is used up. What is asked for must be what stands there; anything else means that log and run do
//! not belong together. While a run goes on it has the log for itself: of two that wrote one,
//! neither could be taken up.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Description, Measured, Offered, Plan};

/// The name of the log in its directory.
pub const FILE: &str = "trials.jsonl";
/// The form of the log, in its first line.
const SCHEMA: &str = "bifrost.rfc2544.log/1";
/// More than any log has: a day of trials of a tenth of a second is a tenth of this.
const LARGEST: u64 = 1 << 30;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    schema: String,
    started: u64,
    device: Description,
    plan: Plan,
}

/// Every other line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    offered: Offered,
    measured: Measured,
}

/// An open log.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: Flock<File>,
    /// Trials that the log had when it was opened, the next one first.
    earlier: std::vec::IntoIter<Line>,
    started: u64,
}

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// There is one already.
    #[error("{path} has a run already; take it up with --resume, or name another directory", path = path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A run writes it just now.
    #[error(
        "{path} is written by a run that goes on{}: wait until that has ended, or name another directory",
        holder.map_or(String::new(), |process| format!(" (process {process})")), path = path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process, where that can be known.
        holder: Option<u32>,
    },
    /// It is none.
    #[error("{path}, line {line}: {what}", path = path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Of another run.
    #[error("{path} is of another run and cannot be resumed: {}", differences.join("; "), path = path.display())]
    Different {
        /// The file.
        path: PathBuf,
        /// Each as `plan.times.rest: 0.0 there, 5.0 here`.
        differences: Vec<String>,
    },
    /// The same plan led to other trials.
    #[error("{path} has another trial where {wanted} follows: it was written by another release and cannot be resumed", path = path.display())]
    Strayed {
        /// The file.
        path: PathBuf,
        /// What this run asks for.
        wanted: String,
    },
}

impl Log {
    /// Begins a log in this directory, which is made when it is not there. `now` is in seconds of
    /// Unix.
    pub fn begin(directory: &Path, device: &Description, plan: &Plan, now: u64) -> Result<Log, LogError> {
        let path = directory.join(FILE);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let other = File::open(&path).ok().and_then(|file| alone(file, &path).err());
                other.unwrap_or_else(|| LogError::Exists { path: path.clone() })
            }
            _ => LogError::Io { path: path.clone(), error },
        };
        std::fs::create_dir_all(directory).map_err(failed)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
        let file = alone(file, &path)?;
        let mut log = Log { path: path.clone(), file, earlier: Vec::new().into_iter(), started: now };
        log.write(&Head {
            schema: SCHEMA.to_owned(),
            started: now,
            device: device.clone(),
            plan: plan.clone(),
        })?;
        // The name of the file is to be on the disk as well.
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
        Ok(log)
    }

    /// Takes up the log in this directory. Its plan and device must be these; a last line that was
    /// cut off in the middle of writing is dropped.
    pub fn resume(directory: &Path, device: &Description, plan: &Plan) -> Result<Log, LogError> {
        let path = directory.join(FILE);
        let failed = |error| LogError::Io { path: path.clone(), error };
        let broken =
            |line, what: &dyn ToString| LogError::Broken { path: path.clone(), line, what: what.to_string() };
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        let mut file = alone(file, &path)?;
        let mut bytes = Vec::new();
        (&*file).take(LARGEST).read_to_end(&mut bytes).map_err(failed)?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut lines = bytes[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let head = lines.next().ok_or_else(|| broken(1, &"the log is empty"))?;
        let head: Value = serde_json::from_slice(head).map_err(|error| broken(1, &error))?;
        if head["schema"] != SCHEMA {
            return Err(broken(1, &format!("expected a log of the form {SCHEMA}")));
        }
        let mut differences = Vec::new();
        differ("device", &head["device"], &value(device), &mut differences);
        differ("plan", &head["plan"], &value(plan), &mut differences);
        if !differences.is_empty() {
            return Err(LogError::Different { path, differences });
        }
        let started = head["started"].as_u64().ok_or_else(|| broken(1, &"when it was started is missing"))?;
        let earlier: Vec<Line> = (lines.enumerate())
            .map(|(n, line)| serde_json::from_slice(line).map_err(|error| broken(n + 2, &error)))
            .collect::<Result<_, _>>()?;
        file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok(Log { path, file, earlier: earlier.into_iter(), started })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When the run was first started, in seconds of Unix.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Trials in the log that were not yet asked for.
    pub fn earlier(&self) -> usize {
        self.earlier.len()
    }

    /// What came of this trial earlier, when it was made earlier.
    pub fn recall(&mut self, offered: &Offered) -> Result<Option<Measured>, LogError> {
        match self.earlier.next() {
            None => Ok(None),
            Some(line) if line.offered == *offered => Ok(Some(line.measured)),
            Some(_) => {
                let wanted = format!("{} bytes at {:.0} frames/s", offered.frames, offered.rate);
                Err(LogError::Strayed { path: self.path.clone(), wanted })
            }
        }
    }

    /// Keeps what came of a trial.
    pub fn keep(&mut self, offered: &Offered, measured: &Measured) -> Result<(), LogError> {
        self.write(&Line { offered: offered.clone(), measured: measured.clone() })
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), LogError> {
        let failed = |error| LogError::Io { path: self.path.clone(), error };
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).and_then(|()| self.file.sync_data()).map_err(failed)
    }
}

/// Takes a log for this run alone, until it is closed.
fn alone(file: File, path: &Path) -> Result<Flock<File>, LogError> {
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(file, errno)| match errno {
        Errno::EWOULDBLOCK => LogError::InUse { path: path.to_owned(), holder: holder(&file) },
        errno => LogError::Io { path: path.to_owned(), error: errno.into() },
    })
}

/// Who has a file for itself, as the kernel tells those who can see the process.
fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| holder_of(line, inode))
}

/// The process in a line of /proc/locks, if that is about this file.
fn holder_of(line: &str, inode: u64) -> Option<u32> {
    let mut fields = line.split_whitespace().skip(1);
    let (kind, process, file) = (fields.next()?, fields.nth(2)?, fields.next()?);
    let is_it = kind == "FLOCK" && file.rsplit(':').next()?.parse() == Ok(inode);
    process.parse().ok().filter(|&process| is_it && process != 0)
}

fn value(of: &impl Serialize) -> Value {
    // Plain structures always have a form.
    serde_json::to_value(of).unwrap_or_default()
}

/// Where two values differ, by path.
fn differ(path: &str, there: &Value, here: &Value, differences: &mut Vec<String>) {
    match (there, here) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                differ(&format!("{path}.{key}"), &there[key], &here[key], differences);
            }
        }
        _ if there == here => {}
        _ => differences.push(format!("{path}: {there} there, {here} here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::simulated::Simulated;

    #[test]
    fn a_log_that_a_run_writes_is_left_to_it() {
        let place = std::env::temp_dir().join(format!("trial-alone-{}", std::process::id()));
        let (device, plan) = (Simulated::new(1e6).describe(), Plan::short(0.1));
        let first = Log::begin(&place, &device, &plan, 0).unwrap();
        let refused = [Log::resume(&place, &device, &plan), Log::begin(&place, &device, &plan, 0)];
        for refused in refused {
            let refused = refused.unwrap_err().to_string();
            let who = format!("goes on (process {})", std::process::id());
            assert!(refused.contains(&who), "{refused}");
        }
        drop(first);
        drop(Log::resume(&place, &device, &plan).unwrap());
        assert!(matches!(Log::begin(&place, &device, &plan, 0), Err(LogError::Exists { .. })));
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn lines_about_locks_are_read() {
        let line = "12: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF";
        assert_eq!(holder_of(line, 1234), Some(4711));
        assert_eq!(holder_of(line, 234), None);
        assert_eq!(holder_of("12: -> FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1234), None, "it waits");
        assert_eq!(holder_of("1: POSIX  ADVISORY  WRITE 1 fe:00:1234 0 EOF", 1234), None);
        assert_eq!(holder_of("1: FLOCK  ADVISORY  WRITE 0 fe:00:1234 0 EOF", 1234), None, "hidden from us");
        assert_eq!(holder_of("", 1), None);
    }
}
