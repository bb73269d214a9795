//! Reading an element's arguments, one after the other.
//!
//! Click's rules. A piece that begins with a word of letters, digits and `_:.?!` and goes on behind
//! a space may be a keyword argument; whether it is one is known when its keyword is asked for. Of
//! several with the same keyword the last counts. What is asked for by position takes the next
//! piece that isn't a keyword argument, as long as no keyword argument was read before it; an
//! argument that must be there takes the next piece even when it looks like a keyword argument.
//! What nobody asked for is a mistake.

use super::{Argument, Scope};
use crate::language::{FlatElement, Piece, Report, Span, split_arguments, split_words};

/// Arguments were wrong; the report says which and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arguments are wrong")]
pub struct Refused;

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Nobody has asked for it; it doesn't look like a keyword argument.
    Positional,
    /// Nobody has asked for it; its first bytes, this many, look like a keyword.
    Keyword(usize),
    /// It was read by position.
    TakenByPosition,
    /// It was read by keyword, or overridden by a later one.
    TakenByKeyword,
}

/// How an argument may be given.
#[derive(Clone, Copy)]
struct Way {
    positional: bool,
    mandatory: bool,
    /// The first with the keyword counts, and later ones stay.
    first: bool,
}

/// The arguments of one element. Every mistake lands in the report with its place.
pub struct Arguments<'a> {
    configuration: String,
    pieces: Vec<Piece>,
    marks: Vec<Mark>,
    /// Keywords that were asked for.
    asked: Vec<String>,
    /// Those that were found, by the piece that was read for them.
    found: Vec<(String, usize)>,
    scope: Scope<'a>,
    report: &'a mut Report,
    /// Where the element is declared, for mistakes that are in no piece.
    declaration: Option<Span>,
    /// Where the configuration begins in a text, when it stands there as it is.
    start: Option<Span>,
    mistakes: usize,
}

/// What a mistake is about: a keyword, or a piece that [`Arguments::rest`] gave.
#[derive(Clone, Debug)]
pub enum Blame<'b> {
    /// The argument with this keyword, however it was given.
    Keyword(&'b str),
    /// A piece.
    Piece(&'b Piece),
    /// The element as it stands there.
    Element,
}

impl<'b> From<&'b str> for Blame<'b> {
    fn from(keyword: &'b str) -> Blame<'b> {
        Blame::Keyword(keyword)
    }
}

impl<'b> From<&'b Piece> for Blame<'b> {
    fn from(piece: &'b Piece) -> Blame<'b> {
        Blame::Piece(piece)
    }
}

impl<'a> Arguments<'a> {
    /// The arguments in a configuration that stands in no text, such as what is written to a
    /// handler.
    pub fn new(configuration: &str, scope: Scope<'a>, report: &'a mut Report) -> Arguments<'a> {
        let pieces = split_arguments(configuration);
        let marks = pieces.iter().map(|piece| mark(&piece.text)).collect();
        Arguments {
            configuration: configuration.to_owned(),
            pieces,
            marks,
            asked: Vec::new(),
            found: Vec::new(),
            scope,
            report,
            declaration: None,
            start: None,
            mistakes: 0,
        }
    }

    /// The arguments of an element of a configuration.
    pub fn of(element: &FlatElement, scope: Scope<'a>, report: &'a mut Report) -> Arguments<'a> {
        Arguments {
            declaration: Some(element.at),
            start: element.configuration_at,
            ..Arguments::new(&element.configuration, scope, report)
        }
    }

    /// An argument that must be there, by position or keyword. `None`: a mistake was noted.
    pub fn mandatory<T: Argument>(&mut self, keyword: &str) -> Option<T> {
        self.mandatory_with(keyword, T::parse)
    }

    /// An argument that may be there, by position or keyword.
    pub fn optional<T: Argument>(&mut self, keyword: &str) -> Option<T> {
        self.optional_with(keyword, T::parse)
    }

    /// An argument that may be there, by keyword.
    pub fn keyword<T: Argument>(&mut self, keyword: &str) -> Option<T> {
        self.keyword_with(keyword, T::parse)
    }

    /// An argument that must be there, by keyword. `None`: a mistake was noted.
    pub fn mandatory_keyword<T: Argument>(&mut self, keyword: &str) -> Option<T> {
        self.read(keyword, Way { positional: false, mandatory: true, first: false }, T::parse)
    }

    /// As [`Arguments::mandatory`], for what no type says: `parse` reads the text, and its error is
    /// Click's message.
    pub fn mandatory_with<T>(
        &mut self,
        keyword: &str,
        parse: impl FnOnce(&str, &Scope<'_>) -> Result<T, String>,
    ) -> Option<T> {
        self.read(keyword, Way { positional: true, mandatory: true, first: false }, parse)
    }

    /// As [`Arguments::optional`], for what no type says.
    pub fn optional_with<T>(
        &mut self,
        keyword: &str,
        parse: impl FnOnce(&str, &Scope<'_>) -> Result<T, String>,
    ) -> Option<T> {
        self.read(keyword, Way { positional: true, mandatory: false, first: false }, parse)
    }

    /// As [`Arguments::keyword`], for what no type says.
    pub fn keyword_with<T>(
        &mut self,
        keyword: &str,
        parse: impl FnOnce(&str, &Scope<'_>) -> Result<T, String>,
    ) -> Option<T> {
        self.read(keyword, Way { positional: false, mandatory: false, first: false }, parse)
    }

    /// Sets aside what was read by keyword: arguments by position count as if it were not there, so
    /// it may stand in front of them.
    pub fn set_keywords_aside(&mut self) {
        for mark in &mut self.marks {
            if *mark == Mark::TakenByKeyword {
                *mark = Mark::TakenByPosition;
            }
        }
    }

    /// Every argument with this keyword, in their order.
    pub fn all<T: Argument>(&mut self, keyword: &str) -> Vec<T> {
        let way = Way { positional: false, mandatory: false, first: true };
        let mut values = Vec::new();
        while let Some((piece, skip)) = self.find(keyword, way) {
            values.extend(self.parse(keyword, piece, skip, T::parse));
        }
        values
    }

    /// Whether an argument was read for this keyword, or is there with this keyword to be read.
    pub fn given(&self, keyword: &str) -> bool {
        self.found.iter().any(|(found, _)| found == keyword)
            || (0..self.pieces.len()).any(|piece| self.has_keyword(piece, keyword))
    }

    /// All pieces that nobody has asked for yet, for elements with lists, whatever they look like.
    pub fn rest(&mut self) -> Vec<Piece> {
        let mut rest = Vec::new();
        for (piece, mark) in self.pieces.iter().zip(&mut self.marks) {
            if matches!(mark, Mark::Positional | Mark::Keyword(_)) {
                *mark = Mark::TakenByPosition;
                rest.push(piece.clone());
            }
        }
        rest
    }

    /// As [`Arguments::rest`], each with its words.
    pub fn rest_words(&mut self) -> Vec<(Piece, Vec<String>)> {
        let words = |piece: &Piece| split_words(&piece.text).into_iter().map(str::to_owned).collect();
        self.rest().into_iter().map(|piece| (piece.clone(), words(&piece))).collect()
    }

    /// All pieces, read or not.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The configuration as it was written.
    pub fn configuration(&self) -> &str {
        &self.configuration
    }

    /// The names as the element sees them.
    pub fn scope(&self) -> Scope<'a> {
        self.scope
    }

    /// Notes a mistake that the element found in the argument with a keyword (which then stands
    /// before the message), in a piece, or in the element as a whole.
    pub fn wrong<'b>(&mut self, about: impl Into<Blame<'b>>, message: impl AsRef<str>) {
        let (at, message) = self.place(about.into(), message.as_ref());
        self.report.error(at, message);
        self.mistakes += 1;
    }

    /// As [`Arguments::wrong`], for what is strange and works nevertheless.
    pub fn strange<'b>(&mut self, about: impl Into<Blame<'b>>, message: impl AsRef<str>) {
        let (at, message) = self.place(about.into(), message.as_ref());
        self.report.warning(at, message);
    }

    /// Says something while the element is made, with its place and name in front.
    pub fn say(&mut self, class: &str, message: &str) {
        let lines = message.lines().map(|line| format!("\n  {line}")).collect::<String>();
        let name = self.scope.element();
        self.report.say(self.declaration, format!("While configuring '{name} :: {class}':{lines}"));
    }

    /// Reads `text`, which is part of `piece`, as a type; a mistake is noted with `piece`'s place.
    pub fn parse_part<T: Argument>(&mut self, piece: &Piece, text: &str) -> Option<T> {
        T::parse(text, &self.scope).map_err(|message| self.wrong(piece, format!("'{text}': {message}"))).ok()
    }

    /// Notes what nobody asked for.
    ///
    /// # Errors
    /// When any mistake was noted.
    pub fn finish(&mut self) -> Result<(), Refused> {
        let mut extra = None;
        for at in 0..self.pieces.len() {
            let piece = self.pieces[at].clone();
            match self.marks[at] {
                Mark::Positional => extra = extra.or(Some(piece)),
                Mark::Keyword(length) => self.unknown(&piece, &piece.text[..length]),
                Mark::TakenByPosition | Mark::TakenByKeyword => {}
            }
        }
        if let Some(piece) = extra {
            self.wrong(&piece, "too many arguments");
        }
        if self.mistakes == 0 { Ok(()) } else { Err(Refused) }
    }

    fn unknown(&mut self, piece: &Piece, keyword: &str) {
        self.wrong(piece, format!("{keyword}: unknown argument"));
        let like = |asked: &&String| strsim::damerau_levenshtein(asked, &keyword.to_uppercase());
        if let Some(nearest) =
            self.asked.iter().min_by_key(like).filter(|nearest| like(nearest) <= keyword.len() / 3)
        {
            self.report.note(self.span(piece), format!("did you mean '{nearest}'?"));
        }
    }

    fn read<T>(
        &mut self,
        keyword: &str,
        way: Way,
        parse: impl FnOnce(&str, &Scope<'_>) -> Result<T, String>,
    ) -> Option<T> {
        let found = self.find(keyword, way);
        match found {
            Some((piece, skip)) if !self.pieces[piece].text.is_empty() => {
                self.parse(keyword, piece, skip, parse)
            }
            _ => {
                if way.mandatory {
                    self.wrong(keyword, "required argument missing");
                }
                None
            }
        }
    }

    fn parse<T>(
        &mut self,
        keyword: &str,
        piece: usize,
        skip: usize,
        parse: impl FnOnce(&str, &Scope<'_>) -> Result<T, String>,
    ) -> Option<T> {
        self.found.push((keyword.to_owned(), piece));
        let text = &self.pieces[piece].text[skip..];
        parse(text, &self.scope).map_err(|message| self.wrong(keyword, message)).ok()
    }

    /// The piece for a keyword, and how many of its bytes are in front of the value.
    fn find(&mut self, keyword: &str, way: Way) -> Option<(usize, usize)> {
        if !self.asked.iter().any(|asked| asked == keyword) {
            self.asked.push(keyword.to_owned());
        }
        let position = (self.marks.iter().position(|&mark| mark != Mark::TakenByPosition))
            .filter(|&at| way.positional && self.marks[at] != Mark::TakenByKeyword);
        let mut got = None;
        for at in 0..self.pieces.len() {
            if self.has_keyword(at, keyword) && !(way.first && got.is_some()) {
                self.marks[at] = Mark::TakenByKeyword;
                got = Some(at);
            }
        }
        // The piece in this position is taken for it, but a keyword argument counts more.
        if let Some(at) = position
            && (self.marks[at] == Mark::Positional
                || (got.is_none() && way.mandatory && self.marks[at] != Mark::TakenByKeyword))
        {
            self.marks[at] = Mark::TakenByPosition;
            if got.is_none() {
                return Some((at, 0));
            }
        }
        got.map(|at| {
            let value = self.pieces[at].text[keyword.len()..].trim_start_matches(is_space);
            (at, self.pieces[at].text.len() - value.len())
        })
    }

    /// Whether a piece that nobody has asked for has this keyword.
    fn has_keyword(&self, piece: usize, keyword: &str) -> bool {
        self.marks[piece] == Mark::Keyword(keyword.len()) && self.pieces[piece].text.starts_with(keyword)
    }

    fn place(&self, about: Blame<'_>, message: &str) -> (Option<Span>, String) {
        match about {
            Blame::Keyword(keyword) => {
                let piece = self.found.iter().rev().find(|(found, _)| found == keyword);
                let at = piece.map_or(self.declaration, |&(_, piece)| self.span(&self.pieces[piece]));
                (at, format!("{keyword}: {message}"))
            }
            Blame::Piece(piece) => (self.span(piece), message.to_owned()),
            Blame::Element => (self.declaration, message.to_owned()),
        }
    }

    fn span(&self, piece: &Piece) -> Option<Span> {
        let Some(start) = self.start else { return self.declaration };
        let byte =
            |at: usize| start.start.saturating_add(u32::try_from(at).unwrap_or(u32::MAX)).min(start.end);
        Some(Span { text: start.text, start: byte(piece.range.start), end: byte(piece.range.end) })
    }
}

/// Whether a piece looks like a keyword argument: a word, space, and something behind it.
pub(super) fn mark(text: &str) -> Mark {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let later = |byte: u8| byte.is_ascii_alphanumeric() || b"_:.?!".contains(&byte);
    let length = text.bytes().take_while(|&byte| later(byte)).count();
    let behind = &text[length..];
    let value = behind.trim_start_matches(is_space);
    let keyword = text.bytes().next().is_some_and(first) && value.len() < behind.len() && !value.is_empty();
    if keyword { Mark::Keyword(length) } else { Mark::Positional }
}

/// C's `isspace`.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t'..='\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Names, Raw};
    use crate::language::Texts;
    use proptest::prelude::*;

    /// What an element with two positional arguments, the second optional, and one keyword reads,
    /// and what was wrong.
    fn read(configuration: &str) -> (Option<String>, Option<u32>, Option<bool>, Vec<String>) {
        let (names, mut report) = (Names::new(), Report::new());
        let mut arguments = Arguments::new(configuration, Scope::new(&names, "e"), &mut report);
        let data = arguments.mandatory("DATA");
        let limit = arguments.optional("LIMIT");
        let stop = arguments.keyword("STOP");
        let ok = arguments.finish().is_ok();
        let messages: Vec<String> = report.messages().iter().map(|message| message.message.clone()).collect();
        assert_eq!(ok, messages.is_empty());
        (data, limit, stop, messages)
    }

    fn good(configuration: &str, data: &str, limit: Option<u32>, stop: Option<bool>) {
        assert_eq!(read(configuration), (Some(data.to_owned()), limit, stop, vec![]), "{configuration}");
    }

    #[test]
    fn arguments_are_given_by_position_and_by_keyword() {
        good("x", "x", None, None);
        good("x, 3", "x", Some(3), None);
        good("x, 3, STOP true", "x", Some(3), Some(true));
        good("x, STOP true, LIMIT 3", "x", Some(3), Some(true));
        good("LIMIT 3, DATA x", "x", Some(3), None);
        good("LIMIT 3, LIMIT 4, DATA x", "x", Some(4), None);
        // By position and by keyword: the keyword counts.
        good("x, DATA y", "y", None, None);
        good("DATA\n  x", "x", None, None);
    }

    fn bad(configuration: &str, messages: &[&str]) {
        assert_eq!(read(configuration).3, messages, "{configuration}");
    }

    #[test]
    fn mistakes_are_said_in_clicks_words() {
        bad("", &["DATA: required argument missing"]);
        bad("LIMIT 3", &["DATA: parse error"]);
        bad("STOP 1, LIMIT 3", &["DATA: parse error"]);
        bad("x, y", &["LIMIT: invalid number"]);
        bad("x, -1, STOP maybe", &["LIMIT: invalid number", "STOP: parse error"]);
        bad("x, 3, true, 5", &["too many arguments"]);
        bad(
            "x, LIMT 3, FOO 4",
            &["LIMT: unknown argument", "did you mean 'LIMIT'?", "FOO: unknown argument"],
        );
        bad("x, stop 1", &["stop: unknown argument", "did you mean 'STOP'?"]);
        bad("x, STOP true, 3", &["too many arguments"]);
        bad(", 3", &["DATA: required argument missing"]);
    }

    #[test]
    fn what_must_be_there_may_look_like_a_keyword_argument() {
        let (names, mut report) = (Names::new(), Report::new());
        let mut arguments = Arguments::new("ip proto udp, KEEP 1", Scope::new(&names, "e"), &mut report);
        assert_eq!(arguments.mandatory("FILTER"), Some(Raw("ip proto udp".to_owned())));
        assert!(arguments.given("KEEP") && arguments.given("FILTER") && !arguments.given("OTHER"));
        assert_eq!(arguments.mandatory_keyword("KEEP"), Some(1u8));
        assert_eq!(arguments.mandatory_keyword::<u8>("OTHER"), None);
        assert_eq!(arguments.finish(), Err(Refused));
        assert_eq!(report.messages()[0].message, "OTHER: required argument missing");
    }

    #[test]
    fn lists_take_the_rest_and_all() {
        let (names, mut report) = (Names::new(), Report::new());
        let mut arguments = Arguments::new(
            "12/0800, HANDLER a, allow tcp, HANDLER b, -",
            Scope::new(&names, "e"),
            &mut report,
        );
        assert_eq!(arguments.all::<String>("HANDLER"), ["a".to_owned(), "b".to_owned()]);
        let rest: Vec<Vec<String>> = arguments.rest_words().into_iter().map(|(_, words)| words).collect();
        assert_eq!(rest, [vec!["12/0800"], vec!["allow", "tcp"], vec!["-"]]);
        assert_eq!(arguments.rest(), []);
        assert_eq!(arguments.finish(), Ok(()));
    }

    #[test]
    fn mistakes_show_their_place() {
        let mut texts = Texts::new();
        let source = "q :: Queue(x, FOO 1);";
        let text = texts.add("f", source);
        let (names, mut report) = (Names::new(), Report::new());
        let element = FlatElement {
            name: "q".to_owned(),
            class: "Queue".to_owned(),
            configuration: "x, FOO 1".to_owned(),
            at: Span { text, start: 0, end: 1 },
            class_at: Span { text, start: 5, end: 10 },
            configuration_at: Some(Span { text, start: 11, end: 19 }),
        };
        let mut arguments = Arguments::of(&element, Scope::new(&names, "q"), &mut report);
        let _: Option<u32> = arguments.optional("CAPACITY");
        arguments.wrong(Blame::Element, "is full");
        assert_eq!(arguments.finish(), Err(Refused));
        let said = report.render(&texts);
        assert!(said.contains("f:1:12: error: CAPACITY: invalid number"), "{said}");
        assert!(said.contains("f:1:15: error: FOO: unknown argument"), "{said}");
        assert!(said.contains("f:1:1: error: is full"), "{said}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(configuration in r#"([A-Z]{0,5} ?["'x0-9ä/*\\<>]{0,5},? ?){0,6}"#) {
            read(&configuration);
            let (names, mut report) = (Names::new(), Report::new());
            let mut arguments = Arguments::new(&configuration, Scope::new(&names, "e"), &mut report);
            let _: Vec<u8> = arguments.all("A");
            arguments.rest();
            prop_assert!(arguments.finish().is_ok() || report.has_errors());
        }
    }
}
