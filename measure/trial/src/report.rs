//! What a run found, as it is written to a file: the schema `bifrost.rfc2544/1`.
//!
//! Names here are the names in JSON; they stay. Rates are frames a second **a sending port** unless
//! a name says otherwise (RFC 2544 section 26 counts by port), times are seconds, latencies
//! nanoseconds, ratios parts of one.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::search::{Bounds, Longest};
use crate::{Description, Frames, Latency, Plan, Test};

/// The schema of a report.
pub const SCHEMA: &str = "bifrost.rfc2544/1";
/// No report is larger.
const LARGEST: u64 = 64 << 20;

/// What a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The release of Bifrost that measured.
    pub release: String,
    /// What this run is called beside others.
    pub name: String,
    /// When it was started, in seconds of Unix.
    pub started: u64,
    /// How long the trials took, in seconds, without pauses between sessions.
    pub seconds: f64,
    /// Trials made.
    pub trials: u32,
    /// What was tested, by whom.
    pub device: Description,
    /// The machine that measured: name and value, in the order in which to show them.
    pub machine: Vec<(String, String)>,
    /// What was measured, how.
    pub plan: Plan,
    /// Ports that sent at once.
    pub senders: u32,
    /// Throughput, by size.
    pub throughput: Vec<Throughput>,
    /// Latency, by size and load.
    pub latency: Vec<LatencyAt>,
    /// Loss against load, by size.
    pub loss: Vec<LossCurve>,
    /// Bursts, by size.
    pub back_to_back: Vec<BackToBack>,
    /// Recovery from overload, by size.
    pub recovery: Vec<Recovery>,
    /// Reset.
    pub reset: Vec<Reset>,
    /// What a reader must know of these figures.
    pub notes: Vec<Note>,
}

/// Throughput at a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Sizes.
    pub frames: Frames,
    /// Frames a second that fill the line.
    pub line_rate: f64,
    /// What was found for each loss ratio, the smallest first.
    pub goals: Vec<Bounds>,
    /// Trials it took.
    pub trials: u32,
}

impl Throughput {
    /// The highest load of which nothing is lost.
    pub fn rate(&self) -> Option<f64> {
        self.goals.iter().find(|goal| goal.loss == 0.0).and_then(|goal| goal.lower)
    }
}

/// Latency at a size and load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyAt {
    /// Sizes.
    pub frames: Frames,
    /// The load as a part of the throughput.
    pub load: f64,
    /// The load.
    pub rate: f64,
    /// Part of the frames lost meanwhile.
    pub loss: f64,
    /// Averages of the repetitions.
    pub latency: Latency,
    /// Repetitions.
    pub repetitions: u32,
}

/// Loss against load at a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossCurve {
    /// Sizes.
    pub frames: Frames,
    /// Frames a second that fill the line.
    pub line_rate: f64,
    /// From the full load down.
    pub points: Vec<LossPoint>,
}

/// Loss at a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// The load.
    pub rate: f64,
    /// Part of it lost.
    pub loss: f64,
    /// Frames a second that came back, of all ports.
    pub forwarded: f64,
}

/// The longest bursts at a size (RFC 9004).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    /// Sizes.
    pub frames: Frames,
    /// Frames a second in a burst.
    pub line_rate: f64,
    /// Frames of the longest burst.
    pub longest: Longest,
    /// Seconds that the line takes for it: the implied buffer time.
    pub implied: f64,
    /// Less what was forwarded meanwhile: the corrected buffer time.
    pub corrected: f64,
}

/// Recovery from overload at a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Sizes.
    pub frames: Frames,
    /// The overload: 110 % of the throughput, or the line.
    pub overload: f64,
    /// The load after it: half of that.
    pub reduced: f64,
    /// Part lost in the whole trial.
    pub loss: f64,
    /// Mean seconds until the last loss.
    pub mean: f64,
    /// The shortest.
    pub min: f64,
    /// The longest.
    pub max: f64,
    /// Repetitions.
    pub repetitions: u32,
}

/// A reset (RFC 6201).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reset {
    /// Sizes.
    pub frames: Frames,
    /// The load.
    pub rate: f64,
    /// Frames lost.
    pub lost: u64,
    /// Seconds that the lost frames come to at this load (section 3: frame-loss method).
    pub by_loss: f64,
    /// Seconds without any frame (time-stamp method), where the tester knows.
    pub by_gap: Option<f64>,
}

/// What a reader must know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Of which test; of all when there is none.
    pub test: Option<Test>,
    /// At which size; at all when there is none.
    pub frames: Option<Frames>,
    /// As a sentence.
    pub text: String,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.test, &self.frames) {
            (Some(test), Some(frames)) => write!(f, "{test}, {frames}: {}", self.text),
            (Some(test), None) => write!(f, "{test}: {}", self.text),
            (None, Some(frames)) => write!(f, "{frames}: {}", self.text),
            (None, None) => f.write_str(&self.text),
        }
    }
}

/// Why there is no report in a file.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The system.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It is no report.
    #[error("{path} is no report of `bifrost rfc2544 --json`: {what}", path = path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Where and why.
        what: String,
    },
}

impl Report {
    /// As JSON.
    pub fn json(&self) -> String {
        // Plain structures always have a form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// From a file.
    pub fn open(path: &Path) -> Result<Report, ReportError> {
        let io = |error| ReportError::Io { path: path.to_owned(), error };
        let form = |what: String| ReportError::Form { path: path.to_owned(), what };
        if std::fs::metadata(path).map_err(io)?.len() > LARGEST {
            return Err(form("it is larger than any report".to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        let report: Report = serde_json::from_str(&text).map_err(|error| form(error.to_string()))?;
        if report.schema != SCHEMA {
            return Err(form(format!("its schema is `{}`, expected {SCHEMA}", report.schema)));
        }
        Ok(report)
    }
}
