//! The log of a run: what was planned, and then a line for each trial, on the disk before the next one begins.
//!
//! A run that was interrupted is taken up by being told what its log has: the searches are plain arithmetic, so they ask for
//! the same trials again, and get their answers from the log until it is used up. What is asked for must be what stands
//! there; anything else means that log and run do not belong together.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

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
    file: File,
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
    /// Begins a log in this directory, which is made when it is not there. `now` is in seconds of Unix.
    pub fn begin(directory: &Path, device: &Description, plan: &Plan, now: u64) -> Result<Log, LogError> {
        let path = directory.join(FILE);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => LogError::Exists { path: path.clone() },
            _ => LogError::Io { path: path.clone(), error },
        };
        std::fs::create_dir_all(directory).map_err(failed)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
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

    /// Takes up the log in this directory. Its plan and device must be these; a last line that was cut off in the middle of
    /// writing is dropped.
    pub fn resume(directory: &Path, device: &Description, plan: &Plan) -> Result<Log, LogError> {
        let path = directory.join(FILE);
        let failed = |error| LogError::Io { path: path.clone(), error };
        let broken =
            |line, what: &dyn ToString| LogError::Broken { path: path.clone(), line, what: what.to_string() };
        let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        let mut bytes = Vec::new();
        (&file).take(LARGEST).read_to_end(&mut bytes).map_err(failed)?;
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
