//! A line being read, as those see it who read a part of it.

use std::ops::Range;

use super::item::{Item, burst_of, rate_of};
use super::words::{Word, Words};
use crate::matches::{Side, Unknown};
use crate::mistake::{Hint, Page};
use crate::model::*;

const RATE: &str = "a rate: 100pps, 5kpps, 10Mbit";

/// A name that a rule uses, and where.
pub(crate) struct Used {
    pub name: String,
    pub at: Range<usize>,
}

/// What a rule needs from elsewhere.
#[derive(Default)]
pub(crate) struct Uses {
    pub chains: Vec<Used>,
    pub sets: Vec<Used>,
    /// Where it asks for what not every hook knows.
    pub unknown: Vec<(Range<usize>, Unknown)>,
}

/// A line being read.
pub(crate) struct Line<'p, 't, 'd> {
    pub page: &'p mut Page<'d>,
    pub words: Words<'t>,
    pub rule: Rule,
    pub uses: Uses,
    /// The address that was named last.
    pub side: Option<Side>,
    /// Something was wrong. (The page does not keep all mistakes.)
    pub failed: bool,
}

impl<'t> Line<'_, 't, '_> {
    /// Says what is wrong about a word.
    pub fn wrong(&mut self, word: &Word, message: impl Into<String>, hint: Hint) {
        self.page.wrong(word.at.clone(), message, hint);
        self.failed = true;
    }

    /// The next word; `None`, and a mistake, when there is none.
    pub fn need(&mut self, what: &str, expected: &str) -> Option<Word<'t>> {
        let word = self.words.need(self.page, what, expected);
        self.failed |= word.is_none();
        word
    }

    /// The words of a list, and whether it is turned round.
    pub fn items(&mut self, what: &str, expected: &str) -> Option<(bool, Vec<Word<'t>>)> {
        let items = self.words.list(self.page, what, expected);
        self.failed |= items.is_none();
        items
    }

    /// The items of a list, each read by `read`.
    pub fn list<T>(
        &mut self,
        what: &str,
        expected: &str,
        mut read: impl FnMut(&str) -> Item<T>,
    ) -> Option<List<T>> {
        let (not, words) = self.items(what, expected)?;
        let mut items = Vec::new();
        for word in &words {
            match read(word.text) {
                Ok(item) => items.push(item),
                Err((message, hint)) => {
                    let expected = hint.expected.clone().unwrap_or_else(|| expected.to_owned());
                    self.wrong(word, message, hint.or_expected(expected));
                }
            }
        }
        (!items.is_empty()).then_some(List { not, items })
    }

    /// `100pps burst 20`, `10Mbit burst 64kB`.
    pub fn rate(&mut self) -> Option<Rate> {
        let word = self.need("the rate", RATE)?;
        let mut rate = match rate_of(word.text) {
            Ok((per_second, unit)) => Rate::new(per_second, unit),
            Err(message) => {
                self.wrong(&word, message, Hint::expected(RATE));
                return None;
            }
        };
        if self.words.take_if("burst") {
            let expected = match rate.unit {
                Unit::Packets => "a number of packets, from 1",
                Unit::Bits => "a number of bytes, from 1: 15000B, 64kB, 1MB",
            };
            let word = self.need("the burst", expected)?;
            match burst_of(word.text, rate.unit) {
                Some(burst) => rate.burst = burst,
                None => {
                    let message = format!("{:?} is no burst of this rate", word.text);
                    self.wrong(&word, message, Hint::expected(expected));
                }
            }
        }
        Some(rate)
    }
}
