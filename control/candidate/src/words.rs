//! Words of a line, and how they are quoted.
//!
//! `"..."` has TOML's escapes, `'...'` none. A quote inside a word is a letter.

use std::ops::Range;

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// What is meant.
    pub text: String,
    /// It stood in quotes, and is no sign such as `=`.
    pub quoted: bool,
    /// Where it stands.
    pub at: Range<usize>,
}

impl Word {
    /// Whether it is this sign.
    pub fn is(&self, sign: &str) -> bool {
        !self.quoted && self.text == sign
    }
}

/// A line that cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a quote is not closed")]
pub struct WordsError;

/// The words of a line.
///
/// # Errors
/// A quote that is not closed.
pub fn split(line: &str) -> Result<Vec<Word>, WordsError> {
    match split_open(line) {
        (words, false) => Ok(words),
        (_, true) => Err(WordsError),
    }
}

/// The words of a line that is not whole yet, and whether its last word is in a quote that is not
/// closed.
pub fn split_open(line: &str) -> (Vec<Word>, bool) {
    let mut words = Vec::new();
    let mut letters = line.char_indices().peekable();
    let mut open = false;
    while let Some((start, letter)) = letters.next() {
        if letter.is_whitespace() {
            continue;
        }
        let mut text = String::new();
        let quoted = letter == '"' || letter == '\'';
        if quoted {
            open = true;
            while let Some((_, inside)) = letters.next() {
                match inside {
                    _ if inside == letter => {
                        open = false;
                        break;
                    }
                    '\\' if letter == '"' => escape(&mut letters, &mut text),
                    _ => text.push(inside),
                }
            }
        } else {
            text.push(letter);
        }
        while let Some((_, more)) = letters.next_if(|(_, more)| !more.is_whitespace()) {
            text.push(more);
        }
        let end = letters.peek().map_or(line.len(), |(at, _)| *at);
        words.push(Word { text, quoted, at: start..end });
    }
    (words, open)
}

fn escape(letters: &mut std::iter::Peekable<std::str::CharIndices>, text: &mut String) {
    let Some((_, letter)) = letters.next() else { return text.push('\\') };
    let length = match letter {
        '"' | '\\' => return text.push(letter),
        'n' => return text.push('\n'),
        't' => return text.push('\t'),
        'r' => return text.push('\r'),
        'b' => return text.push('\u{8}'),
        'f' => return text.push('\u{c}'),
        'e' => return text.push('\u{1b}'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => {
            text.push('\\');
            return text.push(other);
        }
    };
    let mut digits = String::new();
    while digits.len() < length
        && let Some((_, digit)) = letters.next_if(|(_, digit)| digit.is_ascii_hexdigit())
    {
        digits.push(digit);
    }
    let read = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == length);
    match read.and_then(char::from_u32) {
        Some(meant) => text.push(meant),
        None => *text += &format!("\\{letter}{digits}"),
    }
}

/// A text as a word: in quotes where it needs them.
pub fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:/@*,+%~#-".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { quoted(text) }
}

/// A text in quotes; the same in TOML.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            // What a terminal would act upon, and what ends lines elsewhere.
            c if c.is_control() || c == '\u{2028}' || c == '\u{2029}' => {
                out += &format!("\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(line: &str) -> Vec<String> {
        split(line).unwrap().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_split_at_spaces_and_quotes_hold_them() {
        assert_eq!(texts("  set a  b\tc "), ["set", "a", "b", "c"]);
        assert_eq!(texts(r#"set "a b" 'c "d"' e"f"#), ["set", "a b", "c \"d\"", "e\"f"]);
        assert_eq!(texts(r#""a\n\u00e9\q\u12" x"#), ["a\né\\q\\u12", "x"]);
        assert_eq!(split("\"a"), Err(WordsError));
        assert!(split("= \"=\"").unwrap()[0].is("=") && !split("= \"=\"").unwrap()[1].is("="));
    }

    proptest! {
        #[test]
        fn a_quoted_text_is_one_word(text in any::<String>()) {
            prop_assert_eq!(texts(&quote(&text)), vec![text.clone()]);
            prop_assert_eq!(texts(&format!("a {} b", quoted(&text))), vec!["a".to_owned(), text, "b".to_owned()]);
        }

        #[test]
        fn words_stand_where_they_are_said_to(line in any::<String>()) {
            let (words, _) = split_open(&line);
            for word in words {
                prop_assert!(line.get(word.at.clone()).is_some_and(|raw| !raw.is_empty()));
            }
        }
    }
}
