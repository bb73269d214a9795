//! What is wrong with a file.

use std::fmt;
use std::ops::{Deref, Range};

pub use notation::Mistake;
pub(crate) use notation::{Hint, near};

/// Everything that is wrong with a file: at least one mistake, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        notation::list(f, &self.0)?;
        f.write_str("; nothing was changed")
    }
}

/// A file being read: its text and what has been found wrong with it so far.
pub(crate) struct Page<'t> {
    page: notation::Page<'t>,
    found: Vec<(usize, Mistake)>,
    /// Lines that are not TOML: what the reader makes of them is not worth a second message.
    broken: Vec<usize>,
}

impl<'t> Deref for Page<'t> {
    type Target = notation::Page<'t>;

    fn deref(&self) -> &notation::Page<'t> {
        &self.page
    }
}

impl<'t> Page<'t> {
    pub fn new(file: &'t str, text: &'t str) -> Page<'t> {
        Page { page: notation::Page::new(file, text), found: Vec::new(), broken: Vec::new() }
    }

    /// Notes that the text is not TOML here.
    pub fn broken(&mut self, at: Range<usize>, message: impl Into<String>) {
        let line = self.line_of(at.start);
        // One message a line: what follows the first comes of it.
        if !self.broken.contains(&line) {
            self.add(at, message.into(), Hint::none());
            self.broken.push(line);
        }
    }

    /// Notes a mistake.
    pub fn wrong(&mut self, at: Range<usize>, message: impl Into<String>, hint: Hint) {
        let line = self.line_of(at.start);
        if !self.broken.contains(&line) && !self.under_broken_header(line) {
            self.add(at, message.into(), hint);
        }
    }

    /// The header of the section that this line stands in could not be read: the line is not where
    /// it seems.
    fn under_broken_header(&self, line: usize) -> bool {
        let header =
            self.text.lines().take(line).enumerate().filter(|(_, text)| text.trim_start().starts_with('['));
        header.last().is_some_and(|(n, _)| self.broken.contains(&(n + 1)))
    }

    /// Notes that something is not there, unless it may be on a line that could not be read.
    pub fn missing(&mut self, at: Range<usize>, message: impl Into<String>, hint: Hint) {
        if self.broken.is_empty() {
            self.add(at, message.into(), hint);
        }
    }

    fn add(&mut self, at: Range<usize>, message: String, hint: Hint) {
        let mistake = self.at(at.clone(), message, hint);
        self.found.push((at.start, mistake));
    }

    /// Takes over what was found by the reader of a language inside this file, or in a file that it
    /// names.
    pub fn adopt(&mut self, at: usize, found: rules::Mistakes) {
        for mistake in found.0 {
            let at = if mistake.file == self.file { self.start_of(mistake.line) } else { at };
            self.found.push((at, mistake));
        }
    }

    /// All that was found, in the order of the file.
    pub fn close(mut self) -> Result<(), Mistakes> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|(at, _)| *at);
        Err(Mistakes(self.found.into_iter().map(|(_, mistake)| mistake).collect()))
    }
}
