//! What is wrong with a file, shown where it stands.

use std::fmt;
use std::ops::Range;

/// One mistake. Displays as
///
/// ```text
/// router.toml:3:8: lane cannot be "expres"
///   |
/// 3 | lane = "expres"
///   |        ^^^^^^^^
///   = expected: "auto", "express" or "worker"
///   = perhaps meant: "express"
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The line as it stands there.
    pub text: String,
    /// Characters of it that are meant, from 1.
    pub width: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub expected: Option<String>,
    /// What was perhaps meant.
    pub meant: Option<String>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        // One column a character, so that the caret stands where it should.
        let text: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {}", text.trim_end())?;
        write!(f, "{gutter} | {}{}", " ".repeat(self.column - 1), "^".repeat(self.width))?;
        if let Some(expected) = &self.expected {
            write!(f, "\n{gutter} = expected: {expected}")?;
        }
        if let Some(meant) = &self.meant {
            write!(f, "\n{gutter} = perhaps meant: {meant}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a file: at least one mistake, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in &self.0 {
            writeln!(f, "{mistake}\n")?;
        }
        match self.0.len() {
            1 => write!(f, "1 mistake; nothing was changed"),
            n => write!(f, "{n} mistakes; nothing was changed"),
        }
    }
}

/// A file being read: its text and what has been found wrong with it so far.
pub(crate) struct Page<'t> {
    pub file: &'t str,
    pub text: &'t str,
    found: Vec<(usize, Mistake)>,
    /// Lines that are not TOML: what the reader makes of them is not worth a second message.
    broken: Vec<usize>,
}

/// What goes with a message.
#[derive(Default)]
pub(crate) struct Hint {
    pub expected: Option<String>,
    pub meant: Option<String>,
}

impl Hint {
    pub fn expected(what: impl Into<String>) -> Hint {
        Hint { expected: Some(what.into()), meant: None }
    }
}

impl<'t> Page<'t> {
    pub fn new(file: &'t str, text: &'t str) -> Page<'t> {
        Page { file, text, found: Vec::new(), broken: Vec::new() }
    }

    /// Line of this byte, from 1.
    pub fn line_of(&self, at: usize) -> usize {
        1 + self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|b| **b == b'\n').count()
    }

    /// Notes that the text is not TOML here.
    pub fn broken(&mut self, at: Range<usize>, message: impl Into<String>) {
        let line = self.line_of(at.start);
        // One message a line: what follows the first comes of it.
        if !self.broken.contains(&line) {
            self.add(at, message.into(), Hint::default());
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

    /// The header of the section that this line stands in could not be read: the line is not where it seems.
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
        let (start, end) = (self.boundary(at.start), self.boundary(at.end));
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |newline| start + newline);
        let meant = &self.text[start..end.clamp(start, line_end)];
        let mistake = Mistake {
            file: self.file.to_owned(),
            line: self.line_of(start),
            column: 1 + self.text[line_start..start].chars().count(),
            text: self.text[line_start..line_end].to_owned(),
            width: meant.trim_end().chars().count().max(1),
            message,
            expected: hint.expected,
            meant: hint.meant,
        };
        self.found.push((start, mistake));
    }

    /// Takes over what was found by the reader of a language inside this file, or in a file that it names.
    pub fn adopt(&mut self, at: usize, found: rules::Mistakes) {
        for rules::Mistake { file, line, column, text, width, message, expected, meant } in found.0 {
            let at = if file == self.file { self.start_of(line) } else { at };
            self.found.push((at, Mistake { file, line, column, text, width, message, expected, meant }));
        }
    }

    /// Where a line begins.
    fn start_of(&self, line: usize) -> usize {
        self.text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum()
    }

    /// The nearest place at or before `at` where a character begins.
    fn boundary(&self, at: usize) -> usize {
        (0..=at.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
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

/// The known word nearest to this one, if it is near enough to be meant.
pub(crate) fn near<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_lowercase();
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let distance = |known: &str| {
        // `queue` for `queues`, `hop` for `next_hops`: what is left out at an end is easily meant.
        let part = word.len() >= 3 && (known.starts_with(&word) || word.starts_with(known));
        if part { 1 } else { strsim::damerau_levenshtein(&word, known) }
    };
    let nearest = known.into_iter().map(|known| (distance(known), known)).min()?;
    (nearest.0 <= allowed).then_some(nearest.1)
}
