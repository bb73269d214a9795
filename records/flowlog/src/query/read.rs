//! Records out of all files that can matter, one chunk after the other.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::QueryError;
use crate::record::Record;
use crate::store::LOCK;
use crate::store::columns::Wanted;
use crate::store::journal::{self, JournalError};
use crate::store::listing::{LogFile, list};
use crate::store::read::{Reader, Span};

/// A clock may be set back while files are written: so much later than its successor's beginning,
/// or than it was last written to, may a file's last record be, in ns.
const SLACK: u64 = 3_600_000_000_000;

/// Where records are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The router's directory.
    Directory(PathBuf),
    /// These files.
    Files(Vec<PathBuf>),
}

/// How far a walk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Files in all.
    pub files: usize,
    /// Read, or being read.
    pub files_read: usize,
    /// Passed over by their time.
    pub files_skipped: usize,
    /// Bytes of files that are done.
    pub bytes: u64,
    /// Bytes of all.
    pub bytes_in_all: u64,
}

/// Goes through files, the oldest first.
#[derive(Debug)]
pub struct Walk {
    files: std::vec::IntoIter<LogFile>,
    wanted: Wanted,
    span: Span,
    open: Option<Open>,
    state: State,
    /// Bytes of the open file, and records of it seen so far, of how many.
    current: (u64, u64, u64),
    warnings: Vec<String>,
    unread: usize,
    strict: bool,
}

#[derive(Debug)]
enum Open {
    Parquet(Reader, PathBuf),
    Journal(journal::Reader<BufReader<File>>, PathBuf, u64),
}

impl Walk {
    /// Begins. A directory that is not there has no files; a named file must be there.
    pub fn new(source: Source, wanted: Wanted, span: Span) -> Result<Walk, QueryError> {
        let io = |path: &Path, error| QueryError::Io { path: path.to_owned(), error };
        let strict = matches!(source, Source::Files(_));
        let mut files = match source {
            Source::Directory(directory) => match list(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                files => files.map_err(|error| io(&directory, error))?,
            },
            Source::Files(paths) => {
                let file = |path: PathBuf| {
                    let size = path.metadata().map_err(|error| io(&path, error))?.len();
                    let journal = path.extension() == Some(OsStr::new("journal"));
                    Ok(LogFile { path, begun: 0, changed: 0, size, journal })
                };
                // All files of a directory are named where a shell wrote the names: this one is no
                // log.
                let logs = paths.into_iter().filter(|path| path.file_name() != Some(OsStr::new(LOCK)));
                logs.map(file).collect::<Result<Vec<_>, QueryError>>()?
            }
        };
        let mut state = State { files: files.len(), ..State::default() };
        if !strict {
            // All of a file's records ended before its successor began, if that came after it:
            // where a clock was set back, files stand here among those of the time before, and what
            // says so is when they were written. One written before it was begun may hold any time.
            let end = |file: &LogFile, next: &LogFile| match file.changed < file.begun {
                true => u64::MAX,
                false => next.begun.max(file.changed).saturating_add(SLACK),
            };
            let ends = files.windows(2).map(|pair| end(&pair[0], &pair[1]));
            let ends = ends.chain([u64::MAX]).collect::<Vec<_>>();
            let mut ends = ends.into_iter();
            files.retain(|_| ends.next().is_none_or(|end| end >= span.since));
            state.files_skipped = state.files - files.len();
        }
        state.bytes_in_all = files.iter().map(|file| file.size).sum();
        let (current, warnings) = ((0, 0, 0), Vec::new());
        let files = files.into_iter();
        Ok(Walk { files, wanted, span, open: None, state, current, warnings, unread: 0, strict })
    }

    /// How far it is.
    pub fn state(&self) -> State {
        let (bytes, seen, of) = self.current;
        let part = (bytes as f64 * seen as f64 / of.max(1) as f64) as u64;
        State { bytes: self.state.bytes + part.min(bytes), ..self.state }
    }

    /// Files that have more than could be read. A journal whose end is torn is none of them: that
    /// end was never whole.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// Files that could not be read, or not to their end.
    pub fn warnings(self) -> Vec<String> {
        self.warnings
    }

    /// Puts the next records into `out`, in place of what was there; false: that was all. Damaged
    /// files are noted and left.
    pub fn next(&mut self, out: &mut Vec<Record>) -> Result<bool, QueryError> {
        loop {
            let (ended, warning) = match &mut self.open {
                None => match self.files.next() {
                    None => return Ok(false),
                    Some(file) => {
                        self.open_file(file)?;
                        continue;
                    }
                },
                Some(Open::Parquet(reader, path)) => match reader.next(out) {
                    Ok(more) => {
                        self.current.1 += out.len() as u64;
                        (!more, None)
                    }
                    Err(error) => {
                        out.clear();
                        self.unread += 1;
                        (true, Some(format!("{}: {error}", path.display())))
                    }
                },
                Some(Open::Journal(reader, path, size)) => {
                    out.clear();
                    let result = reader.next(out);
                    self.current.1 = reader.position();
                    match result {
                        Ok(more) => (!more, None),
                        // Being written: what stands behind the last block is the next one, half
                        // there.
                        Err(JournalError::Torn { at }) if at >= *size => (true, None),
                        Err(error) => {
                            self.unread += usize::from(!matches!(error, JournalError::Torn { .. }));
                            (true, Some(format!("{}: {error}", path.display())))
                        }
                    }
                }
            };
            self.warnings.extend(warning);
            if !ended {
                return Ok(true);
            }
            self.open = None;
            self.state.bytes += self.current.0;
            self.current = (0, 0, 0);
        }
    }

    fn open_file(&mut self, file: LogFile) -> Result<(), QueryError> {
        self.state.files_read += 1;
        let LogFile { mut path, mut size, mut journal, .. } = file;
        if journal {
            match journal::Reader::open(&path) {
                Ok(reader) => {
                    self.current = (size, 0, size);
                    self.open = Some(Open::Journal(reader, path, size));
                    return Ok(());
                }
                // Sealed since the files were listed.
                Err(JournalError::Io(error)) if error.kind() == io::ErrorKind::NotFound && !self.strict => {
                    path.set_extension("parquet");
                    size = path.metadata().map_or(size, |facts| facts.len());
                    journal = false;
                }
                Err(error) => {
                    self.fail(&path, size, error);
                    return Ok(());
                }
            }
        }
        debug_assert!(!journal);
        match Reader::open(&path, self.wanted, self.span) {
            Ok(reader) => {
                self.current = (size, 0, reader.rows());
                self.open = Some(Open::Parquet(reader, path));
            }
            Err(error) => self.fail(&path, size, error),
        }
        Ok(())
    }

    fn fail(&mut self, path: &Path, size: u64, error: impl std::fmt::Display) {
        self.state.bytes += size;
        self.unread += 1;
        self.warnings.push(format!("{}: {error}", path.display()));
    }
}
