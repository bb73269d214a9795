//! What is wrong with a text, shown where it stands.

use std::fmt;
use std::ops::Range;

/// One mistake, or one thing that is hardly meant. Displays as
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
        let text = printable(&self.text);
        writeln!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {}", text.trim_end())?;
        write!(f, "{gutter} | {}", carets(self.column.saturating_sub(1), self.width))?;
        if let Some(expected) = &self.expected {
            write!(f, "\n{gutter} = expected: {expected}")?;
        }
        if let Some(meant) = &self.meant {
            write!(f, "\n{gutter} = perhaps meant: {meant}")?;
        }
        Ok(())
    }
}

/// A line with one column a character, so that carets stand where they should.
pub fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The line below it, with carets behind so many characters.
pub fn carets(behind: usize, width: usize) -> String {
    " ".repeat(behind) + &"^".repeat(width.max(1))
}

/// Writes mistakes one below the other, and how many they are.
pub fn list(f: &mut fmt::Formatter<'_>, mistakes: &[Mistake]) -> fmt::Result {
    for mistake in mistakes {
        writeln!(f, "{mistake}\n")?;
    }
    match mistakes.len() {
        1 => write!(f, "1 mistake"),
        n => write!(f, "{n} mistakes"),
    }
}

/// What goes with a message.
#[derive(Debug, Default)]
pub struct Hint {
    /// What would be right.
    pub expected: Option<String>,
    /// What was perhaps meant.
    pub meant: Option<String>,
}

impl Hint {
    /// Nothing.
    pub fn none() -> Hint {
        Hint::default()
    }

    /// What would be right.
    pub fn expected(what: impl Into<String>) -> Hint {
        Hint { expected: Some(what.into()), meant: None }
    }

    /// The known word nearest to one.
    pub fn near<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Hint {
        Hint { expected: None, meant: near(word, known).map(|known| format!("{known:?}")) }
    }

    /// And what would be right.
    pub fn or_expected(mut self, what: impl Into<String>) -> Hint {
        self.expected = Some(what.into());
        self
    }
}

/// The known word nearest to this one, if it is near enough to be meant.
pub fn near<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
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

/// A text that is read, by its lines.
pub struct Page<'t> {
    /// The file, as it was named.
    pub file: &'t str,
    /// What stands in it.
    pub text: &'t str,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'t> Page<'t> {
    /// A text of this name.
    pub fn new(file: &'t str, text: &'t str) -> Page<'t> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Page { file, text, lines: std::iter::once(0).chain(ends).collect() }
    }

    /// Line of this byte, from 1.
    pub fn line_of(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// Where a line (from 1) begins; behind the last one, where the text ends.
    pub fn start_of(&self, line: usize) -> usize {
        self.lines.get(line.saturating_sub(1)).copied().unwrap_or(self.text.len())
    }

    /// A mistake in these bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_shown_where_it_stands() {
        let page = Page::new("a.toml", "x = 1\n\tä = \"expres\"\n");
        let hint = Hint::near("expres", ["auto", "express"]).or_expected("a lane");
        let said = page.at(12..20, "no lane", hint).to_string();
        let shown = "a.toml:2:6: no lane\n  |\n2 |  ä = \"expres\"\n  |      ^^^^^^^^\n  = expected: a lane\n  \
                     = perhaps meant: \"express\"";
        assert_eq!(said, shown);
        assert_eq!((page.start_of(2), page.start_of(9)), (6, page.text.len()));
        assert_eq!(page.at(900..901, "behind the end", Hint::none()).line, 3);
    }
}
