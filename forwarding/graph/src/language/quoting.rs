//! Quotes, escapes and comments in configuration strings.
//!
//! A configuration is a list of arguments between commas. Commas inside `'...'`, `"..."` and
//! `\<...>` are no separators; in double quotes a backslash escapes as in C. What an argument means
//! is not known here.

use std::ops::Range;

use super::lexer::is_space;

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its text without surrounding space; a comment inside it has become one space.
    pub text: String,
    /// The bytes of the configuration that it stands in, first to last sign.
    pub range: Range<usize>,
}

/// Separates a configuration into its arguments at the commas. An empty last argument is none.
pub fn split_arguments(configuration: &str) -> Vec<Piece> {
    let length = configuration.len();
    let mut pieces = Vec::new();
    let mut position = 0;
    while position < length {
        let (piece, end) = argument(configuration, position, true);
        if !piece.text.is_empty() || end < length {
            pieces.push(piece);
        }
        position = end + 1;
    }
    pieces
}

/// Takes the surrounding space and the comments out of a text.
pub fn uncomment(text: &str) -> String {
    argument(text, 0, false).0.text
}

/// The argument that begins at a byte, and where it ends: at a comma if they separate, or at the
/// end of the text.
fn argument(text: &str, from: usize, commas: bool) -> (Piece, usize) {
    let bytes = text.as_bytes();
    let begin = skip_space_and_comments(bytes, from);
    let mut at = begin;
    let (mut left, mut right) = (begin, begin);
    let mut joined = String::new();
    let mut after_comment = false;
    while at < bytes.len() {
        match bytes[at] {
            byte if is_space(byte) => {
                at += 1;
                continue;
            }
            b'/' if begins_comment(bytes, at) => {
                at = skip_comment(bytes, at);
                after_comment = true;
                continue;
            }
            b',' if commas => break,
            _ => {}
        }
        if after_comment {
            joined.push_str(text.get(left..right).unwrap_or(""));
            joined.push(' ');
            left = at;
            after_comment = false;
        }
        at = skip_sign(bytes, at);
        right = at;
    }
    joined.push_str(text.get(left..right).unwrap_or(""));
    (Piece { text: joined, range: begin.min(right)..right }, at)
}

/// Separates a text into words at the spaces outside of quotes.
pub fn split_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some((word, after)) = first_word(rest) {
        words.push(word);
        rest = after;
    }
    words
}

/// The first word of a text and what follows it, or nothing where there is only space.
pub fn first_word(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let begin = skip_space_and_comments(bytes, 0);
    let mut end = begin;
    while end < bytes.len() && !is_space(bytes[end]) && !begins_comment(bytes, end) {
        end = skip_sign(bytes, end);
    }
    let rest = skip_space_and_comments(bytes, end);
    if begin == end { None } else { Some((text.get(begin..end)?, text.get(rest..)?)) }
}

/// Removes one level of quotes and expands the escapes. The result is bytes: `\<ff>` is any byte.
pub fn unquote(text: &str) -> Vec<u8> {
    let text = uncomment(text);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], quote) {
            (sign @ (b'"' | b'\''), None) => quote = Some(sign),
            (sign, Some(open)) if sign == open => quote = None,
            (b'\\', Some(b'"')) if at + 1 < bytes.len() => {
                at = unescape(bytes, at, &mut out);
                continue;
            }
            (b'\\', None) if bytes.get(at + 1) == Some(&b'<') => {
                at = unescape(bytes, at, &mut out);
                continue;
            }
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    out
}

/// Expands the escape at `at`, which is a backslash with something behind it, and says where it
/// ends.
fn unescape(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let after = at + 2;
    match bytes[at + 1] {
        b'\r' if bytes.get(after) == Some(&b'\n') => return after + 1,
        b'\r' | b'\n' => {}
        b'a' => out.push(7),
        b'b' => out.push(8),
        b'f' => out.push(12),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'v' => out.push(11),
        b'0'..=b'7' => {
            let digits = bytes[at + 1..].iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7'));
            let count = digits.clone().count();
            out.push(digits.fold(0u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')));
            return at + 1 + count;
        }
        b'x' => {
            let digits = bytes[after..].iter().map_while(|&byte| hexadecimal(byte));
            let count = digits.clone().count();
            out.push(digits.fold(0u8, |value, digit| value.wrapping_mul(16).wrapping_add(digit)));
            return after + count;
        }
        b'<' => return unescape_data(bytes, after, out),
        byte => out.push(byte),
    }
    after
}

/// Expands what stands behind `\<`: pairs of hexadecimal digits, with spaces and comments anywhere.
fn unescape_data(bytes: &[u8], mut at: usize, out: &mut Vec<u8>) -> usize {
    let mut half = None;
    while at < bytes.len() {
        if bytes[at] == b'>' {
            return at + 1;
        }
        if begins_comment(bytes, at) {
            at = skip_comment(bytes, at);
            continue;
        }
        if let Some(digit) = hexadecimal(bytes[at]) {
            half = match half {
                None => Some(digit),
                Some(high) => {
                    out.push(high * 16 + digit);
                    None
                }
            };
        }
        at += 1;
    }
    bytes.len()
}

fn hexadecimal(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

/// Puts a text into double quotes, so that [`unquote`] gives it back. Bytes beyond ASCII become
/// octal escapes.
pub fn quote(text: impl AsRef<[u8]>) -> String {
    let mut out = String::from("\"");
    escape_into(text.as_ref(), &mut out);
    out.push('"');
    out
}

/// What [`quote`] puts between its quotes.
pub(super) fn escape_into(text: &[u8], out: &mut String) {
    for &byte in text {
        match byte {
            b'\\' | b'"' | b'$' => {
                out.push('\\');
                out.push(byte as char);
            }
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            32..127 => out.push(byte as char),
            _ => {
                out.push('\\');
                for shift in [6, 3, 0] {
                    out.push((b'0' + ((byte >> shift) & 7)) as char);
                }
            }
        }
    }
}

/// The first byte from `at` on that is neither space nor in a comment.
pub(super) fn skip_space_and_comments(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        if is_space(bytes[at]) {
            at += 1;
        } else if begins_comment(bytes, at) {
            at = skip_comment(bytes, at);
        } else {
            break;
        }
    }
    at
}

pub(super) fn begins_comment(bytes: &[u8], at: usize) -> bool {
    bytes.get(at) == Some(&b'/') && matches!(bytes.get(at + 1), Some(b'/' | b'*'))
}

/// The byte behind a comment; a line comment takes its newline with it.
fn skip_comment(bytes: &[u8], at: usize) -> usize {
    let inside = bytes.get(at + 2..).unwrap_or(&[]);
    if bytes[at + 1] == b'*' {
        return inside.windows(2).position(|pair| pair == b"*/").map_or(bytes.len(), |end| at + end + 4);
    }
    match inside.iter().position(|&byte| byte == b'\n' || byte == b'\r') {
        None => bytes.len(),
        Some(end) if inside[end..].starts_with(b"\r\n") => at + end + 4,
        Some(end) => at + end + 3,
    }
}

/// The byte behind what stands at `at`: a quoted string, data, or any other sign.
fn skip_sign(bytes: &[u8], at: usize) -> usize {
    match bytes[at] {
        b'\'' => {
            bytes[at + 1..].iter().position(|&byte| byte == b'\'').map_or(bytes.len(), |end| at + end + 2)
        }
        b'"' => {
            let mut end = at + 1;
            while end < bytes.len() {
                match bytes[end] {
                    b'\\' => end = skip_escape(bytes, end),
                    b'"' => return end + 1,
                    _ => end += 1,
                }
            }
            bytes.len()
        }
        b'\\' if bytes.get(at + 1) == Some(&b'<') => skip_escape(bytes, at),
        _ => at + 1,
    }
}

fn skip_escape(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) != Some(&b'<') {
        let length = if bytes[at + 1..].starts_with(b"\r\n") { 3 } else { 2 };
        return (at + length).min(bytes.len());
    }
    let mut end = at + 2;
    while end < bytes.len() {
        if bytes[end] == b'>' {
            return end + 1;
        }
        end = if begins_comment(bytes, end) { skip_comment(bytes, end) } else { end + 1 };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(configuration: &str) -> Vec<String> {
        split_arguments(configuration).into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn arguments_stand_between_commas_that_nothing_hides() {
        assert_eq!(arguments(" a , b  c ,d"), ["a", "b  c", "d"]);
        assert_eq!(
            arguments(r#""a, b", 'c, d', \<2c , 2c>, "e\", f", (g, h)"#),
            [r#""a, b""#, "'c, d'", "\\<2c , 2c>", r#""e\", f""#, "(g", "h)"]
        );
        assert_eq!(arguments("'\\', a"), ["'\\'", "a"]);
        assert_eq!(arguments("a, 'b, c"), ["a", "'b, c"]);
    }

    #[test]
    fn an_empty_last_argument_is_none() {
        assert_eq!(arguments(""), [""; 0]);
        assert_eq!(arguments(" // nothing\n"), [""; 0]);
        assert_eq!(arguments("a,"), ["a"]);
        assert_eq!(arguments(",a,,"), ["", "a", ""]);
    }

    #[test]
    fn comments_become_one_space() {
        assert_eq!(arguments("a /* , */ b, // c, d\n e // f"), ["a b", "e"]);
        assert_eq!(arguments("a/**/b, \"/* c */\""), ["a b", "\"/* c */\""]);
        assert_eq!(uncomment(" /* a */ b,\tc // d"), "b,\tc");
        assert_eq!(arguments("a /* open"), ["a"]);
    }

    #[test]
    fn pieces_tell_where_they_stand() {
        let text = "  one ,/* x */ two /* y */ three , 'ü' ";
        let there: Vec<&str> = split_arguments(text).into_iter().map(|piece| &text[piece.range]).collect();
        assert_eq!(there, ["one", "two /* y */ three", "'ü'"]);
    }

    #[test]
    fn words_stand_between_spaces_that_nothing_hides() {
        assert_eq!(
            split_words("a  'b c' \"d \\\" e\"f, \\<20 20>/* g */h"),
            ["a", "'b c'", "\"d \\\" e\"f,", "\\<20 20>", "h"]
        );
        assert_eq!(first_word("  a /* b */ c d "), Some(("a", "c d ")));
        assert_eq!(first_word(" // a"), None);
    }

    #[test]
    fn quotes_are_removed_and_escapes_expanded() {
        assert_eq!(unquote(r#""a\tb\"\\\$\101\x42\c" 'd\t'e\t"#), b"a\tb\"\\$ABc d\\te\\t");
        assert_eq!(unquote("\\<48 65 /* 66 */ 6c6C 6f 7>"), b"Hello");
        assert_eq!(unquote("\"a\\\r\nb\\\nc\""), b"abc");
        assert_eq!(unquote("\"\\<ff00>\""), [0xff, 0]);
        assert_eq!(unquote("\"\\777\\x123\""), [0xff, 0x23]);
        assert_eq!(unquote("\"open\\"), b"open\\");
    }

    #[test]
    fn quoted_texts_are_of_printable_characters() {
        assert_eq!(quote("a \"b\"\t$c\n\u{e9}\u{0}"), r#""a \"b\"\t\$c\n\303\251\000""#);
        assert_eq!(quote(""), "\"\"");
    }
}
