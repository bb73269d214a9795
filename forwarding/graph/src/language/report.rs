//! What is wrong with a configuration, and where.
//!
//! A configuration may come from several texts at once: files, texts of the command line, what a
//! requirement brought in. A [`Span`] names the bytes of one of them; a [`Report`] collects
//! everything that is wrong, never only the first thing, and prints each with its source line and a
//! caret. Nothing in here knows what a configuration means.

use std::fmt::Write as _;

use super::lexer::line_directive;

/// How many messages a report keeps. A text that is no configuration at all has thousands.
const MAX_MESSAGES: usize = 200;

/// How many characters of a source line are shown.
const SHOWN: usize = 120;

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

    /// The file and line that a span begins in, for a reader: where line directives say that a
    /// preprocessor took the text from, if there are any.
    pub fn landmark(&self, span: Span) -> (&str, usize) {
        let (line, _) = self.line_of(span);
        let (mut name, mut number) = (self.name(span.text), line);
        if !self.text(span.text).contains('#') {
            return (name, number);
        }
        for (index, text) in self.text(span.text).lines().enumerate().take(line - 1) {
            if let Some((next, file)) = line_directive(text) {
                // The directive tells of the line behind it, which is number index + 2 of this
                // text.
                number = (next + line).saturating_sub(index + 2);
                match file {
                    Some("") => name = self.name(span.text),
                    Some(file) => name = file,
                    None => {}
                }
            }
        }
        (name, number)
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
    /// What an element says of itself.
    Said,
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
    errors: usize,
    /// Messages that were too many to keep.
    dropped: usize,
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

    /// Adds what an element says while it is made, which is not wrong.
    pub fn say(&mut self, at: Option<Span>, message: impl Into<String>) {
        self.add(Severity::Said, at, message.into());
    }

    fn add(&mut self, severity: Severity, at: Option<Span>, message: String) {
        self.errors += usize::from(severity == Severity::Error);
        if severity == Severity::Note && self.dropped > 0 {
            return;
        }
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(Message { severity, at, message });
        } else {
            self.dropped += 1;
        }
    }

    /// Whether there is a message about exactly this place.
    pub fn tells_of(&self, at: Span) -> bool {
        self.messages.iter().any(|message| message.at == Some(at))
    }

    /// Adds a note to the first message about this place, once. Says whether there is such a
    /// message.
    pub fn explain(&mut self, at: Span, message: impl Into<String>) -> bool {
        let Some(found) = self.messages.iter().position(|message| message.at == Some(at)) else {
            return false;
        };
        let message = Message { severity: Severity::Note, at: Some(at), message: message.into() };
        if self.messages.get(found + 1) != Some(&message) {
            self.messages.insert(found + 1, message);
        }
        true
    }

    /// Whether there is an error.
    pub fn has_errors(&self) -> bool {
        self.errors() > 0
    }

    /// How many errors there are.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// What was said, in the order in which it was found.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The messages for a reader, by place: `file:3:14: error: what`, the source line and a caret
    /// under what is meant. Messages without a place come first; a note follows what it explains.
    pub fn render(&self, texts: &Texts) -> String {
        let mut out = String::new();
        for message in self.by_place() {
            message.render(texts, &mut out);
        }
        if self.dropped > 0 {
            let _ = writeln!(out, "and {} more messages", self.dropped);
        }
        out
    }

    /// The messages as Click prints them, one a line, by place: `file:3: what`.
    pub fn render_lines(&self, texts: &Texts) -> String {
        let mut out = String::new();
        for message in self.by_place() {
            if let Some(at) = message.at {
                let (file, line) = texts.landmark(at);
                let _ = write!(out, "{file}:{line}: ");
            }
            let warning = if message.severity == Severity::Warning { "warning: " } else { "" };
            let _ = writeln!(out, "{warning}{}", message.message);
        }
        out
    }

    /// The messages by place, each with its notes.
    fn by_place(&self) -> impl Iterator<Item = &Message> {
        let mut groups: Vec<&[Message]> = Vec::new();
        let mut rest = self.messages.as_slice();
        while !rest.is_empty() {
            let notes = rest[1..].iter().take_while(|message| message.severity == Severity::Note).count();
            let (group, after) = rest.split_at(1 + notes);
            groups.push(group);
            rest = after;
        }
        groups.sort_by_key(|group| group[0].at.map(|at| (at.text, at.start)));
        groups.into_iter().flatten()
    }
}

impl Message {
    fn render(&self, texts: &Texts, out: &mut String) {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
            Severity::Said => {
                if let Some((file, line)) = self.at.map(|at| texts.landmark(at)) {
                    let _ = write!(out, "{file}:{line}: ");
                }
                let _ = writeln!(out, "{}", self.message);
                return;
            }
        };
        let Some(at) = self.at else {
            let _ = writeln!(out, "{severity}: {}", self.message);
            return;
        };
        let (file, line) = texts.landmark(at);
        let column = texts.position(at).column;
        let _ = writeln!(out, "{file}:{line}:{column}: {severity}: {}", self.message);

        let (_, start) = texts.line_of(at);
        let source = texts.text(at.text).get(start..).unwrap_or("").lines().next().unwrap_or("");
        if source.is_empty() {
            return;
        }
        // A long line is shown from a little before what is meant.
        let hidden = if source.len() > SHOWN { (column - 1).saturating_sub(SHOWN / 3) } else { 0 };
        let shown: String = source.chars().skip(hidden).take(SHOWN).collect();
        // A tab stays a tab under a tab, so that the caret stands where the reader's terminal puts
        // the text.
        let before = shown.chars().take(column - 1 - hidden);
        let indent: String = before.map(|character| if character == '\t' { '\t' } else { ' ' }).collect();
        let meant = texts.at(at).lines().next().unwrap_or("").chars().take(SHOWN).count();
        let carets = meant.min(shown.chars().count().saturating_sub(column - 1 - hidden)).max(1);
        let number = line.to_string();
        let _ = writeln!(out, "  {number} | {shown}");
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
    fn line_directives_name_the_place_a_text_was_taken_from() {
        let mut texts = Texts::new();
        let text = texts.add("a.click", "x\n# 100 \"b.click\"\ny\nz\n#line 3 \"\"\nw");
        let landmark = |start| texts.landmark(Span { text, start, end: start + 1 });
        assert_eq!(landmark(0), ("a.click", 1));
        let of = |sign| landmark(texts.text(text).find(sign).map_or(0, |at| at as u32));
        assert_eq!(of("y"), ("b.click", 100));
        assert_eq!(of("z"), ("b.click", 101));
        assert_eq!(of("w"), ("a.click", 3));
    }

    #[test]
    fn a_flood_of_messages_is_kept_short_and_counted() {
        let mut texts = Texts::new();
        let text = texts.add("t", &")".repeat(100_000));
        let mut report = Report::new();
        for start in 0..100_000 {
            report.error(Some(Span { text, start, end: start + 1 }), "wrong");
            report.note(None, "why");
        }
        assert_eq!(report.errors(), 100_000);
        assert!(report.render(&texts).len() < 100_000);
    }

    #[test]
    fn an_explanation_goes_to_the_message_about_its_place() {
        let mut texts = Texts::new();
        let text = texts.add("t", "Queu -> Idle");
        let mut report = Report::new();
        let at = Span { text, start: 0, end: 4 };
        assert!(!report.explain(at, "did you mean 'Queue'?"));
        report.error(Some(at), "undeclared element 'Queu'");
        report.error(Some(Span { start: 8, ..at }), "other");
        assert!(report.explain(at, "did you mean 'Queue'?"));
        assert_eq!(
            report.render_lines(&texts),
            "t:1: undeclared element 'Queu'\nt:1: did you mean 'Queue'?\nt:1: other\n"
        );
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
