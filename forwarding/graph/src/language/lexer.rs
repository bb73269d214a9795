//! Words and signs of the language.
//!
//! The language has two modes. Between elements it is made of tokens; inside an element's
//! parentheses everything up to the closing parenthesis is the element's configuration, in which
//! quotes, comments and `\<48 65>` data may hide parentheses, and whose meaning is the element's
//! own business. Only the parser knows which parenthesis it is at, so the lexer makes tokens on
//! demand, and [`Lexer::configuration`] reads the other mode.

use super::report::{Span, Texts};
use super::tree::{Comment, Configuration};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `queue`, `a/b`, `Counter@3`, `17`.
    Word,
    /// `$x`
    Variable,
    /// `->`
    Arrow,
    /// `=>`
    DoubleArrow,
    /// `::`
    DoubleColon,
    /// `||`
    DoubleBar,
    /// `...`
    Dots,
    ElementClass,
    Require,
    Provide,
    Define,
    /// Any other character.
    Sign(char),
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    pub at: Span,
    /// Where the token before it ended.
    before: u32,
}

/// How a configuration ended.
pub(super) enum Ending {
    /// At its parenthesis.
    Closed,
    /// Not at all: the text ended first. The span is what stayed open: the parenthesis or the last
    /// quote.
    Open(Span),
}

pub(super) struct Lexer<'t> {
    source: &'t str,
    text: u32,
    position: usize,
    last_end: u32,
    /// Every comment between tokens so far, in order.
    pub comments: Vec<Comment>,
    /// Lines that begin with `#` and are no line directive.
    pub bad_directives: Vec<Span>,
    /// Everything before this was searched for comments already; the parser may look at a token
    /// twice.
    searched: usize,
}

/// The white space of C's `isspace`.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@'
}

fn is_newline(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

impl<'t> Lexer<'t> {
    pub fn new(texts: &'t Texts, text: u32) -> Lexer<'t> {
        Lexer {
            source: texts.text(text),
            text,
            position: 0,
            last_end: 0,
            comments: Vec::new(),
            bad_directives: Vec::new(),
            searched: 0,
        }
    }

    /// The bytes of a span.
    pub fn str(&self, at: Span) -> &'t str {
        self.source.get(at.start as usize..at.end as usize).unwrap_or("")
    }

    /// Goes back to a token's beginning, so that it is the next one.
    pub fn back_to(&mut self, token: Token) {
        self.position = token.at.start as usize;
        self.last_end = token.before;
    }

    /// Where the last token ended that was taken.
    pub fn last_end(&self) -> u32 {
        self.last_end
    }

    fn byte(&self, position: usize) -> u8 {
        self.source.as_bytes().get(position).copied().unwrap_or(0)
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { text: self.text, start: start as u32, end: end as u32 }
    }

    /// The next token.
    pub fn next(&mut self) -> Token {
        self.skip_space();
        let start = self.position;
        let rest = self.source.as_bytes().get(start..).unwrap_or(&[]);
        let (kind, length) = match *rest {
            [] => (Kind::End, 0),
            [first, ..] if is_word(first) => {
                let length = word_length(rest);
                (keyword(&rest[..length]), length)
            }
            [b'$', first, ..] if first.is_ascii_alphanumeric() || first == b'_' => {
                let name = rest[1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
                (Kind::Variable, 1 + name.count())
            }
            [b'-', b'>', ..] => (Kind::Arrow, 2),
            [b'=', b'>', ..] => (Kind::DoubleArrow, 2),
            [b':', b':', ..] => (Kind::DoubleColon, 2),
            [b'|', b'|', ..] => (Kind::DoubleBar, 2),
            [b'.', b'.', b'.', ..] => (Kind::Dots, 3),
            _ => {
                let sign = self.source.get(start..).and_then(|rest| rest.chars().next()).unwrap_or('?');
                (Kind::Sign(sign), sign.len_utf8())
            }
        };
        self.position = start + length;
        let token = Token { kind, at: self.span(start, start + length), before: self.last_end };
        self.last_end = token.at.end;
        token
    }

    /// Skips white space, comments and line directives, keeping the comments.
    fn skip_space(&mut self) {
        loop {
            let start = self.position;
            match self.byte(start) {
                _ if start >= self.source.len() => return,
                byte if is_space(byte) => self.position += 1,
                b'/' if matches!(self.byte(start + 1), b'/' | b'*') => {
                    self.position = skip_comment(self.source.as_bytes(), start);
                    if start >= self.searched {
                        self.comments.push(self.comment(start, self.position));
                        self.searched = self.position;
                    }
                }
                b'#' if self.begins_line(start) => {
                    if !is_line_directive(&self.source[start..]) && start >= self.searched {
                        self.bad_directives.push(self.span(start, start + 1));
                        self.searched = start + 1;
                    }
                    self.position = line_end(self.source.as_bytes(), start);
                }
                _ => return,
            }
        }
    }

    fn begins_line(&self, position: usize) -> bool {
        position == 0 || is_newline(self.byte(position - 1))
    }

    fn comment(&self, start: usize, end: usize) -> Comment {
        let before = self.source[..start].trim_end_matches([' ', '\t']);
        let own_line = before.is_empty() || before.ends_with(['\n', '\r']);
        let text = self.source[start..end].trim_end_matches(['\n', '\r']);
        Comment {
            at: self.span(start, start + text.len()),
            text: text.to_owned(),
            own_line,
            blank_before: self.blank_before(start),
        }
    }

    /// Whether there is an empty line before what stands here.
    pub fn blank_before(&self, position: usize) -> bool {
        let before = self.source.get(..position).unwrap_or("");
        let space = &before[before.trim_end().len()..];
        !before.trim_end().is_empty() && space.matches('\n').count() > 1
    }

    /// Reads the configuration behind the parenthesis at `open`, up to the one that closes it or
    /// the end of the text.
    pub fn configuration(&mut self, open: Token) -> (Configuration, Ending) {
        let bytes = self.source.as_bytes();
        let begin = open.at.end as usize;
        let mut at = begin;
        let mut depth = 1;
        let mut text = String::new();
        let mut copied = begin;
        let mut unclosed = open.at;
        while at < bytes.len() {
            match bytes[at] {
                b'(' => depth += 1,
                b')' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                b'#' if at > begin && self.begins_line(at) => {
                    text.push_str(&self.source[copied..at]);
                    if !is_line_directive(&self.source[at..]) {
                        self.bad_directives.push(self.span(at, at + 1));
                    }
                    at = line_end(bytes, at);
                    copied = at;
                    continue;
                }
                b'/' if matches!(self.byte(at + 1), b'/' | b'*') => {
                    at = skip_comment(bytes, at);
                    continue;
                }
                quote @ (b'\'' | b'"') => {
                    let (end, closed) = skip_quote(bytes, at, quote);
                    if !closed {
                        unclosed = self.span(at, at + 1);
                    }
                    at = end;
                    continue;
                }
                b'\\' if self.byte(at + 1) == b'<' => {
                    at = skip_data(bytes, at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        let end = at.min(bytes.len());
        let verbatim = copied == begin;
        text.push_str(self.source.get(copied..end).unwrap_or(""));
        self.position = end;
        self.searched = self.searched.max(end);
        let ending = if end < bytes.len() { Ending::Closed } else { Ending::Open(unclosed) };
        (Configuration { text, at: self.span(begin, end), verbatim }, ending)
    }

    /// Ends an unclosed configuration with its first line, or the semicolon at the end of it, so
    /// that the lines after it are still read.
    pub fn cut_at_line(&mut self, configuration: &mut Configuration) {
        let begin = configuration.at.start as usize;
        let line = &self.source[begin..line_end(self.source.as_bytes(), begin)];
        let text = line.trim_end().trim_end_matches(';');
        let end = begin + text.len();
        *configuration = Configuration { text: text.to_owned(), at: self.span(begin, end), verbatim: true };
        self.position = end;
        self.last_end = end as u32;
    }
}

/// Letters, digits, `_` and `@`, in parts with single slashes between them.
fn word_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    loop {
        length += bytes[length..].iter().take_while(|&&byte| is_word(byte)).count();
        match bytes[length..] {
            [b'/', next, ..] if is_word(next) => length += 1,
            _ => return length,
        }
    }
}

fn keyword(word: &[u8]) -> Kind {
    match word {
        b"elementclass" => Kind::ElementClass,
        b"require" => Kind::Require,
        b"provide" => Kind::Provide,
        b"define" => Kind::Define,
        _ => Kind::Word,
    }
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take_while(|&&byte| !is_newline(byte)).count()
}

/// The end of the comment that begins here; a line comment ends before its newline.
fn skip_comment(bytes: &[u8], from: usize) -> usize {
    if bytes.get(from + 1) == Some(&b'/') {
        return line_end(bytes, from);
    }
    let inside = bytes.get(from + 2..).unwrap_or(&[]);
    inside.windows(2).position(|pair| pair == b"*/").map_or(bytes.len(), |at| from + 2 + at + 2)
}

/// The end of the `\<48 65>` that begins here.
fn skip_data(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 2;
    while at < bytes.len() {
        match bytes[at] {
            b'>' => return at + 1,
            b'/' if matches!(bytes.get(at + 1), Some(b'/' | b'*')) => at = skip_comment(bytes, at),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of the quoted string that begins here, and whether it was closed.
fn skip_quote(bytes: &[u8], from: usize, quote: u8) -> (usize, bool) {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'"' && bytes.get(at + 1) == Some(&b'<') => at = skip_data(bytes, at),
            b'\\' if quote == b'"' => at += 2,
            byte if byte == quote => return (at + 1, true),
            _ => at += 1,
        }
    }
    (bytes.len(), false)
}

/// A line directive as a preprocessor leaves it, `# 12 "file"` or `#line 12 "file"`: the line
/// number of the next line and, unless it stays the same, the name of the file. An empty name means
/// the text's own.
pub(super) fn line_directive(line: &str) -> Option<(usize, Option<&str>)> {
    let rest = line.strip_prefix('#')?.trim_start_matches([' ', '\t']);
    let rest = match rest.strip_prefix("line") {
        Some(after) if after.starts_with([' ', '\t']) => after.trim_start_matches([' ', '\t']),
        _ => rest,
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = rest[..digits].parse().ok()?;
    let name = rest[digits..].trim_start_matches([' ', '\t']).strip_prefix('"');
    let name = name.map(|name| name.split(['"', '\n', '\r']).next().unwrap_or(""));
    Some((number, name))
}

fn is_line_directive(from: &str) -> bool {
    line_directive(from.split(['\n', '\r']).next().unwrap_or("")).is_some()
}
