//! A line as words, with their places; lists go on behind a comma.

use std::ops::Range;

use crate::mistake::{Hint, Page};

/// A word and where it stands in the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word<'t> {
    pub text: &'t str,
    pub at: Range<usize>,
}

/// The words of one line, being read from left to right.
pub(crate) struct Words<'t> {
    words: Vec<Word<'t>>,
    next: usize,
    /// What stands behind `#`.
    pub comment: Option<&'t str>,
    /// Behind the last word.
    end: usize,
}

impl<'t> Words<'t> {
    /// Splits a line. `place` says which bytes of the page some bytes of the line are.
    pub fn of(line: &'t str, place: impl Fn(Range<usize>) -> Range<usize>) -> Words<'t> {
        let mut words = Vec::new();
        let mut comment = None;
        let mut at = 0;
        while let Some(start) = line[at..].find(|c: char| !c.is_whitespace()).map(|skip| at + skip) {
            if let Some(text) = line[start..].strip_prefix('#') {
                comment = Some(text.trim()).filter(|text| !text.is_empty());
                break;
            }
            let end =
                line[start..].find(|c: char| c.is_whitespace() || c == '#').map_or(line.len(), |n| start + n);
            words.push(Word { text: &line[start..end], at: place(start..end) });
            at = end;
        }
        let end = words.last().map_or_else(|| place(0..0).start, |word: &Word| word.at.end);
        Words { words, next: 0, comment, end }
    }

    /// The same with each of these letters as a word of its own.
    pub fn apart(mut self, letter: char) -> Words<'t> {
        let split = |Word { text, at }: Word<'t>| {
            // A word that was written with escapes has one place for all of its parts.
            let exact = at.len() == text.len();
            let mut parts = Vec::new();
            let mut start = 0;
            while start < text.len() {
                let rest = &text[start..];
                let length = match rest.find(letter) {
                    Some(0) => letter.len_utf8(),
                    Some(before) => before,
                    None => rest.len(),
                };
                let place = if exact { at.start + start..at.start + start + length } else { at.clone() };
                parts.push(Word { text: &rest[..length], at: place });
                start += length;
            }
            parts
        };
        self.words = self.words.into_iter().flat_map(split).collect();
        self
    }

    /// Where all of its words stand.
    pub fn whole(&self) -> Option<Range<usize>> {
        Some(self.words.first()?.at.start..self.words.last()?.at.end)
    }

    /// The next word.
    pub fn take(&mut self) -> Option<Word<'t>> {
        let word = self.words.get(self.next).cloned();
        self.next += usize::from(word.is_some());
        word
    }

    /// The next word, which stays.
    pub fn peek(&self) -> Option<&'t str> {
        self.words.get(self.next).map(|word| word.text)
    }

    /// The same with its place.
    pub fn peek_word(&self) -> Option<Word<'t>> {
        self.words.get(self.next).cloned()
    }

    /// Goes back by a word.
    pub fn back(&mut self) {
        self.next = self.next.saturating_sub(1);
    }

    /// Takes the next word if it is this one.
    pub fn take_if(&mut self, text: &str) -> bool {
        let is = self.peek() == Some(text);
        self.next += usize::from(is);
        is
    }

    /// The next word, or a mistake that says what should stand here.
    pub fn need(&mut self, page: &mut Page, what: &str, expected: &str) -> Option<Word<'t>> {
        let word = self.take();
        if word.is_none() {
            page.wrong(
                self.end.saturating_sub(1)..self.end,
                format!("{what} is missing"),
                Hint::expected(expected),
            );
        }
        word
    }

    /// A list: whether it is turned round, and its items.
    pub fn list(&mut self, page: &mut Page, what: &str, expected: &str) -> Option<(bool, Vec<Word<'t>>)> {
        let first = self.need(page, what, expected)?;
        let (not, first) = match first.text.strip_prefix('!') {
            Some("") => (true, self.need(page, what, expected)?),
            Some(text) => (true, Word { text, at: first.at.start + 1..first.at.end.max(first.at.start + 1) }),
            None => (false, first),
        };
        let mut items = Vec::new();
        let mut word = first;
        loop {
            let mut at = word.at.start;
            for text in word.text.split(',') {
                if !text.is_empty() {
                    items.push(Word { text, at: at..at + text.len() });
                }
                at += text.len() + 1;
            }
            let goes_on = word.text.ends_with(',') || self.peek().is_some_and(|next| next.starts_with(','));
            match goes_on.then(|| self.take()).flatten() {
                Some(next) => word = next,
                None => break,
            }
        }
        if items.is_empty() {
            page.wrong(word.at, format!("{what} is missing"), Hint::expected(expected));
            return None;
        }
        Some((not, items))
    }
}
