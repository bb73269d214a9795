//! What is wrong with a configuration, and where.
//!
//! A configuration may come from several texts at once: files, texts of the command line, what a requirement brought
//! in. A [`Span`] names the bytes of one of them; a [`Report`] collects everything that is wrong, never only the first
//! thing, and prints each with its source line and a caret. Nothing in here knows what a configuration means.

use std::fmt::Write as _;

/// A place in a text: which of the [`Texts`] and which bytes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The text's number in [`Texts`].
    pub text: u32,
    /// The first byte.
    pub start: u32,
    /// One past the last byte; not before `start`.
    pub end: u32,
}

impl Span {
    /// From the beginning of `self` to the end of `other`, which stands later in the same text.
    pub fn to(self, other: Span) -> Span {
        Span { text: self.text, start: self.start, end: other.end.max(self.start) }
    }
}

/// The texts that spans point into: files, texts of the command line, required archives.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    texts: Vec<(String, String)>,
}

/// Where a byte of a text is found by a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl Texts {
    /// No texts.
    pub fn new() -> Texts {
        Texts::default()
    }

    /// Adds a text under the name that messages call it by, and says its number.
    pub fn add(&mut self, name: &str, text: &str) -> u32 {
        self.texts.push((name.to_owned(), text.to_owned()));
        (self.texts.len() - 1) as u32
    }

    /// The name of a text; empty for a number that was never given out.
    pub fn name(&self, text: u32) -> &str {
        self.texts.get(text as usize).map_or("", |(name, _)| name)
    }

    /// A whole text; empty for a number that was never given out.
    pub fn text(&self, text: u32) -> &str {
        self.texts.get(text as usize).map_or("", |(_, text)| text)
    }

    /// The bytes of a span; empty where it leaves its text.
    pub fn at(&self, span: Span) -> &str {
        self.text(span.text).get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// The line and column of a span's beginning.
    pub fn position(&self, span: Span) -> Position {
        let (line, start) = self.line_of(span);
        let before = self.text(span.text).get(start..span.start as usize).unwrap_or("");
        Position { line, column: before.chars().count() + 1 }
    }

    /// The number of the line that a span begins in, from 1, and the line's first byte.
    fn line_of(&self, span: Span) -> (usize, usize) {
        let text = self.text(span.text).as_bytes();
        let before = &text[..text.len().min(span.start as usize)];
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        (before.iter().filter(|&&byte| byte == b'\n').count() + 1, start)
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot run.
    Error,
    /// It runs, though hardly as meant.
    Warning,
    /// Said to explain the message before it.
    Note,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How bad it is.
    pub severity: Severity,
    /// Where; `None` where no text is to blame.
    pub at: Option<Span>,
    /// What is wrong, in one line.
    pub message: String,
}

/// Everything that is wrong, collected.
#[derive(Clone, Debug, Default)]
pub struct Report {
    messages: Vec<Message>,
}

impl Report {
    /// Nothing is wrong yet.
    pub fn new() -> Report {
        Report::default()
    }

    /// Adds something with which the configuration cannot run.
    pub fn error(&mut self, at: Option<Span>, message: impl Into<String>) {
        self.add(Severity::Error, at, message.into());
    }

    /// Adds something that is hardly meant, though it can run.
    pub fn warning(&mut self, at: Option<Span>, message: impl Into<String>) {
        self.add(Severity::Warning, at, message.into());
    }

    /// Adds what explains the message before; it stays with that one.
    pub fn note(&mut self, at: Option<Span>, message: impl Into<String>) {
        self.add(Severity::Note, at, message.into());
    }

    fn add(&mut self, severity: Severity, at: Option<Span>, message: String) {
        self.messages.push(Message { severity, at, message });
    }

    /// Whether there is an error.
    pub fn has_errors(&self) -> bool {
        self.errors() > 0
    }

    /// How many errors there are.
    pub fn errors(&self) -> usize {
        self.messages.iter().filter(|message| message.severity == Severity::Error).count()
    }

    /// What was said, in the order in which it was found.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The messages for a reader, by place: `file:3:14: error: what`, the source line and a caret under what is meant.
    /// Messages without a place come first; a note follows what it explains.
    pub fn render(&self, texts: &Texts) -> String {
        let mut groups: Vec<&[Message]> = Vec::new();
        let mut rest = self.messages.as_slice();
        while !rest.is_empty() {
            let notes = rest[1..].iter().take_while(|message| message.severity == Severity::Note).count();
            let (group, after) = rest.split_at(1 + notes);
            groups.push(group);
            rest = after;
        }
        groups.sort_by_key(|group| group[0].at.map(|at| (at.text, at.start)));
        let mut out = String::new();
        for message in groups.into_iter().flatten() {
            message.render(texts, &mut out);
        }
        out
    }
}

impl Message {
    fn render(&self, texts: &Texts, out: &mut String) {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let Some(at) = self.at else {
            let _ = writeln!(out, "{severity}: {}", self.message);
            return;
        };
        let Position { line, column } = texts.position(at);
        let _ = writeln!(out, "{}:{line}:{column}: {severity}: {}", texts.name(at.text), self.message);

        let (_, start) = texts.line_of(at);
        let source = texts.text(at.text).get(start..).unwrap_or("").lines().next().unwrap_or("");
        if source.is_empty() {
            return;
        }
        let within = (at.start as usize).saturating_sub(start).min(source.len());
        let end = (at.end as usize).saturating_sub(start).clamp(within, source.len());
        // A tab stays a tab under a tab, so that the caret stands where the reader's terminal puts the text.
        let indent: String = source
            .get(..within)
            .unwrap_or("")
            .chars()
            .map(|character| if character == '\t' { '\t' } else { ' ' })
            .collect();
        let carets = source.get(within..end).unwrap_or("").chars().count().max(1);
        let number = line.to_string();
        let _ = writeln!(out, "  {number} | {source}");
        let _ = writeln!(out, "  {:width$} | {indent}{}", "", "^".repeat(carets), width = number.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_their_place_in_the_order_of_the_text() {
        let mut texts = Texts::new();
        let text = texts.add("router.click", "Idle -> x;\n\tQueu(3) -> Discard;\n");
        let mut report = Report::new();
        report.error(Some(Span { text, start: 12, end: 16 }), "unknown element class 'Queu'");
        report.note(Some(Span { text, start: 12, end: 16 }), "did you mean 'Queue'?");
        report.warning(Some(Span { text, start: 8, end: 9 }), "'x' is used once");
        report.error(None, "no elements");
        assert_eq!(
            report.render(&texts),
            "error: no elements\n\
             router.click:1:9: warning: 'x' is used once\n  1 | Idle -> x;\n    |         ^\n\
             router.click:2:2: error: unknown element class 'Queu'\n  2 | \tQueu(3) -> Discard;\n    | \t^^^^\n\
             router.click:2:2: note: did you mean 'Queue'?\n  2 | \tQueu(3) -> Discard;\n    | \t^^^^\n"
        );
        assert_eq!(report.errors(), 2);
    }

    #[test]
    fn a_span_outside_its_text_is_no_panic() {
        let mut texts = Texts::new();
        let text = texts.add("t", "äö");
        let mut report = Report::new();
        for (start, end) in [(1, 2), (0, 99), (99, 100), (4, 4), (3, 1)] {
            report.error(Some(Span { text, start, end }), "wrong");
        }
        report.error(Some(Span { text: 7, start: 0, end: 1 }), "wrong");
        assert_eq!(report.render(&texts).matches("error: wrong").count(), 6);
    }
}
