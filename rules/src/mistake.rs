//! What is wrong with a rule, shown where it stands.
//!
//! A text is read to its end whatever is wrong with it, and all mistakes are told at once, each with its line and a caret.
//! Shape and wording are those of `router.toml`'s own mistakes.

use std::fmt;
use std::ops::Range;

/// One mistake, or one thing that is hardly meant. Displays as
///
/// ```text
/// web.rules:3:12: there is no set "@bogon"
///   |
/// 3 | drop from @bogon
///   |           ^^^^^^
///   = perhaps meant: "@bogons"
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
        let text: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {}", text.trim_end())?;
        write!(f, "{gutter} | {}{}", " ".repeat(self.column.saturating_sub(1)), "^".repeat(self.width))?;
        if let Some(expected) = &self.expected {
            write!(f, "\n{gutter} = expected: {expected}")?;
        }
        if let Some(meant) = &self.meant {
            write!(f, "\n{gutter} = perhaps meant: {meant}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong: at least one mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in &self.0 {
            writeln!(f, "{mistake}\n")?;
        }
        match self.0.len() {
            1 => write!(f, "1 mistake"),
            n => write!(f, "{n} mistakes"),
        }
    }
}

/// How many mistakes are kept: a text that is no rule list at all has one in every line.
const MOST: usize = 200;

/// A text being read, and what has been found wrong with it so far.
pub(crate) struct Page<'t> {
    pub file: &'t str,
    pub text: &'t str,
    /// Where each line begins.
    lines: Vec<usize>,
    pub found: Vec<Mistake>,
}

/// What goes with a message.
#[derive(Debug, Default)]
pub(crate) struct Hint {
    pub expected: Option<String>,
    pub meant: Option<String>,
}

impl Hint {
    pub fn none() -> Hint {
        Hint::default()
    }

    pub fn expected(what: impl Into<String>) -> Hint {
        Hint { expected: Some(what.into()), meant: None }
    }

    /// The known word nearest to one.
    pub fn near<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Hint {
        let word = word.to_lowercase();
        let nearest = known.into_iter().map(|known| (strsim::damerau_levenshtein(&word, known), known)).min();
        let allowed = (word.chars().count() / 3).clamp(1, 3);
        let meant =
            nearest.filter(|(distance, _)| *distance <= allowed).map(|(_, known)| format!("{known:?}"));
        Hint { expected: None, meant }
    }

    pub fn or_expected(mut self, what: impl Into<String>) -> Hint {
        self.expected = Some(what.into());
        self
    }
}

impl<'t> Page<'t> {
    pub fn new(file: &'t str, text: &'t str) -> Page<'t> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Page { file, text, lines: std::iter::once(0).chain(ends).collect(), found: Vec::new() }
    }

    /// Line of this byte, from 1.
    pub fn line_of(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// Notes a mistake.
    pub fn wrong(&mut self, at: Range<usize>, message: impl Into<String>, hint: Hint) {
        if self.found.len() < MOST {
            let mistake = self.at(at, message, hint);
            self.found.push(mistake);
        }
    }

    /// A mistake at a place.
    pub fn at(&self, at: Range<usize>, message: impl Into<String>, hint: Hint) -> Mistake {
        let (start, end) = (self.boundary(at.start), self.boundary(at.end));
        let line = self.line_of(start);
        let line_start = self.lines[line - 1];
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |newline| start + newline);
        let meant = &self.text[start..end.clamp(start, line_end)];
        Mistake {
            file: self.file.to_owned(),
            line,
            column: 1 + self.text[line_start..start].chars().count(),
            text: self.text[line_start..line_end].to_owned(),
            width: meant.trim_end().chars().count().max(1),
            message: message.into(),
            expected: hint.expected,
            meant: hint.meant,
        }
    }

    /// The nearest place at or before `at` where a character begins.
    fn boundary(&self, at: usize) -> usize {
        (0..=at.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}
