//! What is to stay true of a router, whatever is changed: sentences about packets, and whether they
//! hold by a filter, by the translation of destinations, and by routes.
//!
//! ```text
//!   [expect] ── sentence ──> all of its packets ── walk ──> parts, each with its fate ── judge ──> holds, or a packet
//!                                (space)        chains, aims, routes                                of which it does not
//! ```
//!
//! A sentence is about every packet that it describes, however many: they are followed as sets
//! ([`space`]), which rules and routes cut into parts. Nothing is tried at random. What is said is
//! said of packets that begin a flow.

mod ground;
mod judge;
mod numbers;
mod sentence;
mod space;
#[cfg(test)]
mod tests;
mod walk;
mod witness;

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use ground::{Aim, Ground, Lead, Routes, Target, To};
pub use judge::{Breach, Judge, Judgement};
pub use sentence::{Fate, Sentence};

use crate::language::Words;
use crate::mistake::{Hint, Mistakes, Page};
use crate::model::{Filter, Place};

impl Sentence {
    /// Reads the section `[expect]`. `file` and `text` are the whole file that it is part of, for
    /// messages; `filter` is what sets are looked for in, `None` where it could not be read.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn read_toml(
        file: &str,
        text: &str,
        section: &DeTable,
        filter: Option<&Filter>,
    ) -> Result<Vec<Sentence>, Mistakes> {
        let mut page = Page::new(file, text);
        let mut sentences = Vec::new();
        for (key, value) in section {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("sentences", DeValue::Array(items)) => {
                    items.iter().for_each(|item| read_value(&mut page, item, filter, &mut sentences));
                }
                ("sentences", _) => read_value(&mut page, value, filter, &mut sentences),
                (name, _) => {
                    let hint = Hint::near(name, ["sentences"]).or_expected("sentences");
                    page.wrong(key.span(), format!("[expect] has no key {name:?}"), hint);
                }
            }
        }
        if page.found.is_empty() { Ok(sentences) } else { Err(Mistakes(page.found)) }
    }

    /// Reads sentences, one a line.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn read(file: &str, text: &str, filter: &Filter) -> Result<Vec<Sentence>, Mistakes> {
        let mut page = Page::new(file, text);
        let mut sentences = Vec::new();
        read_lines(&mut page, text, &|at| at, Some(filter), &mut sentences);
        if page.found.is_empty() { Ok(sentences) } else { Err(Mistakes(page.found)) }
    }
}

fn read_value(
    page: &mut Page,
    value: &Spanned<DeValue>,
    filter: Option<&Filter>,
    sentences: &mut Vec<Sentence>,
) {
    let DeValue::String(text) = value.get_ref() else {
        return page.wrong(value.span(), "this is no text", Hint::expected("sentences, one a line"));
    };
    let at = value.span();
    // A text without escapes stands in the file as it is, so its mistakes can be shown exactly.
    let inside =
        page.text.get(at.clone()).and_then(|raw| raw.find(text.as_ref())).map(|found| at.start + found);
    let place = move |part: Range<usize>| match inside {
        Some(start) => start + part.start..start + part.end,
        None => at.clone(),
    };
    read_lines(page, text, &place, filter, sentences);
}

fn read_lines(
    page: &mut Page,
    text: &str,
    place: &dyn Fn(Range<usize>) -> Range<usize>,
    filter: Option<&Filter>,
    sentences: &mut Vec<Sentence>,
) {
    let file: Arc<str> = page.file.into();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let words = Words::of(line, |at| place(start + at.start..start + at.end));
        start += line.len();
        let Some(whole) = words.whole() else { continue };
        let said = line.split('#').next().unwrap_or_default();
        let written = Place { file: file.clone(), line: page.line_of(whole.start) };
        let Some(read) = sentence::sentence(page, said, words.apart('>'), written, filter) else { continue };
        let twin = sentences.iter().find(|known| known.says_as(&read)).map(|twin| twin.place.line);
        match twin {
            Some(line) => page.wrong(whole, format!("the same is said on line {line}"), Hint::none()),
            None => sentences.push(read),
        }
    }
}
