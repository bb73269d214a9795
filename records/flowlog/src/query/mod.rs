//! `bifrost flows`: what the log has, filtered, added up, and shown.
//!
//! Files are passed over by name and by their row groups' times; of what is left only the columns
//! are read that the question needs. Sums are kept in bounded memory (`sums`). Flows that live come
//! from whoever has the flow table; one that ended while the files were being read is counted once.
//!
//! | file | what is there |
//! |---|---|
//! | `args` | the command line |
//! | `when` | times as people write them |
//! | `filter` | which records are meant |
//! | `read` | records out of files and journals, with progress |
//! | `sums` | by what they are added up |
//! | `shown` | tables, CSV, JSON |

mod args;
mod filter;
mod progress;
mod read;
mod shown;
mod sums;
#[cfg(test)]
mod tests;
mod when;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;

pub use args::Flows;
pub use filter::{Filter, FilterError, Network, Ports, Protocol};
pub use progress::Progress;
pub use read::{Source, Walk};
pub use sums::{By, ByError, Dimension, Measure, Sums, Totals};
pub use when::{When, WhenError};

use crate::clock::now;
use crate::record::Record;
use shown::Form;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// What was asked for cannot be.
    #[error("--since is after --until: nothing lies between them")]
    Backwards,
    /// A directory or a named file cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Nobody takes the answer.
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
}

/// What was done for an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records looked at.
    pub read: u64,
    /// Of these, how many were meant.
    pub matched: u64,
    /// Files read, at least in part.
    pub files: usize,
    /// Files passed over because of their time.
    pub skipped: usize,
    /// Files that could not be read, or not to their end, and why.
    pub warnings: Vec<String>,
    /// Files that have more than could be read.
    pub unread: usize,
    /// Sums may lack something: there were more groups than memory is given to. By so much of the
    /// measure at most.
    pub short_by: u64,
}

/// Answers a question: from files, and from these flows that live. On a terminal, progress is shown
/// on standard error meanwhile; warnings go there afterwards.
pub fn run(
    args: &Flows,
    live: impl IntoIterator<Item = Record>,
    out: &mut dyn Write,
) -> Result<Summary, QueryError> {
    let summary = answer(args, live, now(), &mut Progress::on_terminal(), out)?;
    for warning in &summary.warnings {
        eprintln!("bifrost: {warning}");
    }
    if summary.short_by > 0 {
        let by = summary.short_by;
        eprintln!(
            "bifrost: too many groups to keep them all: a sum may lack up to {by} (--groups keeps more)"
        );
    }
    Ok(summary)
}

/// The same at a given time, with progress shown as the caller says, and nothing written elsewhere.
pub fn answer(
    args: &Flows,
    live: impl IntoIterator<Item = Record>,
    now: u64,
    progress: &mut Progress,
    out: &mut dyn Write,
) -> Result<Summary, QueryError> {
    let filter = args.filter(now)?;
    let mut living: HashMap<(u64, u32), Record> = match args.no_live {
        true => HashMap::new(),
        false => live.into_iter().map(|record| ((record.flow, record.slice), record)).collect(),
    };
    let (form, by) = (args.form(), args.by());
    let wanted = match &by {
        Some(by) => filter.columns().and(by.columns()),
        None => shown::columns(form).and(filter.columns()),
    };
    let mut collected = match by {
        Some(by) if by.dimensions.is_empty() => Collected::Largest(Largest::new(by.measure, args.top())),
        Some(by) => Collected::Sums(Sums::new(by, args.groups, filter.span.since)),
        None => {
            shown::head(form, out)?;
            Collected::All
        }
    };
    let mut walk = Walk::new(args.source(), wanted, filter.span)?;
    let mut records = Vec::new();
    let (mut read, mut matched) = (0, 0);
    while walk.next(&mut records)? {
        progress.show(walk.state());
        read += records.len() as u64;
        for record in &records {
            // It ended after the living were counted.
            if !living.is_empty() {
                living.remove(&(record.flow, record.slice));
            }
            if filter.takes(record) {
                matched += 1;
                collected.add(record, form, out)?;
            }
        }
    }
    progress.clear();
    let mut living = living.into_values().collect::<Vec<_>>();
    living.sort_by_key(|record| (record.end, record.flow, record.slice));
    read += living.len() as u64;
    for record in living.iter().filter(|record| filter.takes(record)) {
        matched += 1;
        collected.add(record, form, out)?;
    }
    let short_by = match collected {
        Collected::All => 0,
        Collected::Largest(largest) => {
            shown::head(form, out)?;
            for record in largest.sorted() {
                shown::flow(form, &record, out)?;
            }
            0
        }
        Collected::Sums(sums) => {
            let short_by = sums.short_by();
            shown::sums(form, sums, args.top, out)?;
            short_by
        }
    };
    out.flush()?;
    let state = walk.state();
    Ok(Summary {
        read,
        matched,
        files: state.files_read,
        skipped: state.files_skipped,
        unread: walk.unread(),
        warnings: walk.warnings(),
        short_by,
    })
}

enum Collected {
    /// Every one is shown as it comes.
    All,
    Largest(Largest),
    Sums(Sums),
}

impl Collected {
    fn add(&mut self, record: &Record, form: Form, out: &mut dyn Write) -> Result<(), QueryError> {
        match self {
            Collected::All => shown::flow(form, record, out)?,
            Collected::Largest(largest) => largest.add(record),
            Collected::Sums(sums) => sums.add(record),
        }
        Ok(())
    }
}

/// The largest records, in twice the memory that they need.
struct Largest {
    measure: Measure,
    keep: usize,
    records: Vec<Record>,
}

impl Largest {
    fn new(measure: Measure, keep: usize) -> Largest {
        Largest { measure, keep, records: Vec::new() }
    }

    fn add(&mut self, record: &Record) {
        self.records.push(*record);
        if self.records.len() >= 2 * self.keep.max(512) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let measure = self.measure;
        let order = |r: &Record| (std::cmp::Reverse(measure.of_record(r)), r.start, r.flow, r.slice);
        self.records.sort_by_key(order);
        self.records.truncate(self.keep);
    }

    fn sorted(mut self) -> Vec<Record> {
        self.cut();
        self.records
    }
}
