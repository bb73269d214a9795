//! A document: its text, and what it says.

use toml_edit::{DocumentMut, Item, Table, TableLike};

use crate::place::{Path, Spot, Step};
use crate::tree::Tree;
use crate::words::Word;

/// The text of a configuration, which is TOML at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    text: String,
}

/// Why a document stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is no TOML.
    #[error("this is no TOML: {0}")]
    Toml(String),
    /// The words of a line.
    #[error(transparent)]
    Words(#[from] crate::words::WordsError),
    /// A word that is no command here.
    #[error("there is no command {word:?} here{}", did_you(.meant))]
    NoCommand {
        /// The word.
        word: String,
        /// What was perhaps meant.
        meant: Option<String>,
    },
    /// A word that is no key.
    #[error("{} has no key {word:?}{}", if place.is_empty() { "the configuration" } else { place }, did_you(.meant))]
    NoKey {
        /// The word.
        word: String,
        /// What was perhaps meant.
        meant: Option<String>,
        /// The words that led there.
        place: String,
    },
    /// A beginning that several keys have.
    #[error("{word:?} may be {all}")]
    Ambiguous {
        /// The beginning.
        word: String,
        /// What begins so.
        all: String,
    },
    /// A path without a value.
    #[error("something is missing: {expected}")]
    NoValue {
        /// What.
        expected: String,
    },
    /// A value that a key cannot have.
    #[error("it cannot be {word:?}: expected {expected}")]
    Value {
        /// The value.
        word: String,
        /// What it can be.
        expected: String,
    },
    /// Words behind the end.
    #[error("did not expect {word:?}: quote a text that has spaces")]
    Surplus {
        /// The first of them.
        word: String,
    },
    /// Nothing stands there.
    #[error("there is no {0}")]
    Absent(String),
    /// Something stands there already.
    #[error("{0} is there already")]
    There(String),
    /// A value stands where a table was meant.
    #[error("{0} is no section")]
    NoSection(String),
    /// The numbers of a list have no gaps.
    #[error("the next one is {next}, not {word}")]
    Gap {
        /// What was said.
        word: String,
        /// What comes next.
        next: String,
    },
    /// That cannot be done here.
    #[error("{0}")]
    Cannot(String),
}

fn did_you(word: &Option<String>) -> String {
    word.as_ref().map_or(String::new(), |word| format!("; did you mean {word:?}?"))
}

impl Document {
    /// The document that a text is.
    ///
    /// # Errors
    /// That it is no TOML, and where.
    pub fn parse(text: &str) -> Result<Document, EditError> {
        text.parse::<DocumentMut>()
            .map_err(|error| EditError::Toml(error.to_string().trim_end().to_owned()))?;
        Ok(Document { text: text.to_owned() })
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it says.
    pub fn tree(&self) -> Tree {
        Tree::of_table(self.open().as_table())
    }

    pub(crate) fn open(&self) -> DocumentMut {
        // It was TOML when it came here.
        self.text.parse().unwrap_or_default()
    }

    /// Takes a changed document over, if its text says what it was made to say.
    pub(crate) fn close(&mut self, document: DocumentMut) -> Result<(), EditError> {
        let text = document.to_string();
        let again = Document::parse(&text)?;
        match again.tree().same(&Tree::of_table(document.as_table())) {
            true => {
                self.text = text;
                Ok(())
            }
            false => Err(EditError::Cannot("that cannot be written down".to_owned())),
        }
    }

    /// What stands at a place.
    pub fn at(&self, words: &[Word]) -> Result<Option<Tree>, EditError> {
        let path = Path::follow(words)?;
        Ok(find(&self.tree(), &path.steps).cloned())
    }

    /// The document with nothing but what stands at a place, as it is written.
    pub fn only(&self, words: &[Word]) -> Result<Document, EditError> {
        let path = Path::follow(words)?;
        if path.used < words.len() {
            return Err(EditError::Surplus { word: words[path.used].text.clone() });
        }
        if find(&self.tree(), &path.steps).is_none() {
            return Err(EditError::Absent(path.canonical().join(" ")));
        }
        let mut document = self.open();
        document.set_trailing("");
        keep(document.as_table_mut(), &path.steps);
        let text = document.to_string();
        Document::parse(text.trim_start_matches('\n'))
    }

    /// The names that stand at a place: of sections, of the tables of a list, or of keys.
    pub fn names(&self, path: &Path) -> Vec<String> {
        let tree = self.tree();
        match (find(&tree, &path.steps), path.spot) {
            (Some(Tree::List(list)), Spot::Elements { by, .. }) => {
                crate::lines::elements(by, list).into_iter().map(|(word, _)| word).collect()
            }
            (Some(Tree::Table(pairs)), _) => {
                pairs.iter().map(|(name, _)| crate::words::quote(name)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Follows steps through a tree.
pub(crate) fn find<'t>(tree: &'t Tree, steps: &[Step]) -> Option<&'t Tree> {
    let Some((step, rest)) = steps.split_first() else { return Some(tree) };
    match step {
        Step::Key(name, _) => find(tree.get(name)?, rest),
        Step::Element { by, value, nth } => {
            let Tree::List(list) = tree else { return None };
            let at = index(list.iter().map(|table| value_of(table, by)), value, *nth).ok()?;
            find(&list[at], rest)
        }
    }
}

/// What a table of a list is told apart by; empty: nothing.
pub(crate) fn value_of<'t>(table: &'t Tree, by: &str) -> &'t str {
    Some(by).filter(|by| !by.is_empty()).and_then(|by| table.get(by)?.text()).unwrap_or_default()
}

/// Which of a list is the `nth` with this value; else how many have it.
pub(crate) fn index<V: AsRef<str>>(
    values: impl Iterator<Item = V>,
    value: &str,
    nth: usize,
) -> Result<usize, usize> {
    let mut found = 0;
    for (at, other) in values.enumerate() {
        if other.as_ref() == value {
            found += 1;
            if found == nth {
                return Ok(at);
            }
        }
    }
    Err(found)
}

/// The same of tables as they are written.
pub(crate) fn written_value(table: &dyn TableLike, by: &str) -> String {
    let value =
        Some(by).filter(|by| !by.is_empty()).and_then(|by| table.get(by)?.as_str().map(str::to_owned));
    value.unwrap_or_default()
}

/// Leaves nothing but the way to a place.
fn keep(table: &mut Table, steps: &[Step]) {
    let Some((Step::Key(name, _), rest)) = steps.split_first() else { return };
    table.retain(|key, _| key == name);
    match (table.get_mut(name), rest.split_first()) {
        (Some(Item::Table(inner)), Some(_)) => keep(inner, rest),
        (Some(Item::ArrayOfTables(list)), Some((Step::Element { by, value, nth }, rest))) => {
            let found = index(list.iter().map(|table| written_value(table, by)), value, *nth);
            let mut at = 0;
            list.retain(|_| {
                at += 1;
                Ok(at - 1) == found
            });
            if let Some(table) = list.get_mut(0).filter(|_| !rest.is_empty()) {
                keep(table, rest);
            }
        }
        // What stands in a line is shown whole.
        _ => {}
    }
}
