//! What is wrong with a list of rules.
//!
//! A text is read to its end whatever is wrong with it, and all mistakes are told at once, each
//! with its line and a caret.

use std::fmt;
use std::ops::{Deref, Range};

pub(crate) use notation::Hint;
pub use notation::Mistake;

/// Everything that is wrong: at least one mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        notation::list(f, &self.0)
    }
}

/// How many mistakes are kept: a text that is no rule list at all has one in every line.
const MOST: usize = 200;

/// A text being read, and what has been found wrong with it so far.
pub(crate) struct Page<'t> {
    page: notation::Page<'t>,
    pub found: Vec<Mistake>,
}

impl<'t> Deref for Page<'t> {
    type Target = notation::Page<'t>;

    fn deref(&self) -> &notation::Page<'t> {
        &self.page
    }
}

impl<'t> Page<'t> {
    pub fn new(file: &'t str, text: &'t str) -> Page<'t> {
        Page { page: notation::Page::new(file, text), found: Vec::new() }
    }

    /// Notes a mistake.
    pub fn wrong(&mut self, at: Range<usize>, message: impl Into<String>, hint: Hint) {
        if self.found.len() < MOST {
            let mistake = self.at(at, message, hint);
            self.found.push(mistake);
        }
    }
}
