//! From words to a place in a document.

use config::schema::{self, Key, ROOT, Shape, What};

use crate::document::EditError;
use crate::words::{Word, quote};

/// A step on the way to a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A key of a table, and what is made under it where it is not there.
    Key(String, Make),
    /// A table of a list.
    Element {
        /// The key by which they are told apart.
        by: &'static str,
        /// What that one has; empty: those without.
        value: String,
        /// Which of those that have it, from 1.
        nth: usize,
    },
}

/// What is made where nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// A table with a header of its own.
    Table,
    /// A table in a line.
    Inline,
    /// A list of tables with headers.
    Tables,
    /// A list of tables in a line.
    Inlines,
    /// A value.
    Value,
}

/// What stands at a place, as far as words have led.
#[derive(Clone, Copy, Debug)]
pub enum Spot {
    /// A table with these keys.
    Keys(&'static [Key]),
    /// A table of names; each leads to a table with these keys.
    Names(What, &'static [Key]),
    /// A table of names; each has such a value.
    Map(What, &'static Shape),
    /// A list of tables.
    Elements {
        /// The key by which they are told apart.
        by: &'static str,
        /// Their keys.
        keys: &'static [Key],
    },
    /// A value.
    Value(&'static Shape),
    /// What no key is known of.
    Unknown,
}

impl Spot {
    pub(crate) fn of(shape: &'static Shape) -> (Spot, Make) {
        match shape {
            Shape::Table(keys) => (Spot::Keys(keys), Make::Table),
            Shape::Inline(keys) => (Spot::Keys(keys), Make::Inline),
            Shape::Named { names, keys } => (Spot::Names(*names, keys), Make::Table),
            Shape::Map { names, value } => (Spot::Map(*names, value), Make::Table),
            Shape::Listed { by, keys, inline } => {
                (Spot::Elements { by, keys }, if *inline { Make::Inlines } else { Make::Tables })
            }
            _ => (Spot::Value(shape), Make::Value),
        }
    }
}

/// Where words lead.
#[derive(Clone, Debug)]
pub struct Path {
    /// The way through the document.
    pub(crate) steps: Vec<Step>,
    /// What stands there.
    pub spot: Spot,
    /// How many of the words lead there; those behind are a value, or a sign.
    pub used: usize,
}

impl Path {
    /// Follows words through the keys, as far as a value or the sign `=`.
    ///
    /// # Errors
    /// A word that is no key.
    pub fn follow(words: &[Word]) -> Result<Path, EditError> {
        Path::through(words, words.iter().any(|word| word.is("=")))
    }

    /// The same, where words that are no key lead somewhere as well.
    pub(crate) fn unknown_too(words: &[Word]) -> Option<Path> {
        Path::through(words, true).ok()
    }

    fn through(words: &[Word], assigned: bool) -> Result<Path, EditError> {
        let mut path = Path { steps: Vec::new(), spot: Spot::Keys(ROOT), used: 0 };
        for word in words {
            if word.is("=") {
                break;
            }
            match path.spot {
                Spot::Keys(keys) => match named(keys, word) {
                    Ok(key) => {
                        let (spot, make) = Spot::of(&key.shape);
                        path.steps.push(Step::Key(key.name.to_owned(), make));
                        path.spot = spot;
                    }
                    // What nobody knows can be said all the same, if its end is marked.
                    Err(_) if assigned => path.unknown(&word.text),
                    Err(error) => return Err(path.wrong(error, words)),
                },
                Spot::Names(_, keys) => {
                    path.steps.push(Step::Key(word.text.clone(), Make::Table));
                    path.spot = Spot::Keys(keys);
                }
                Spot::Map(_, shape) => {
                    let (spot, make) = Spot::of(shape);
                    path.steps.push(Step::Key(word.text.clone(), make));
                    path.spot = spot;
                }
                Spot::Elements { by, keys } => {
                    let (value, nth) = element(&word.text);
                    path.steps.push(Step::Element { by, value: value.to_owned(), nth });
                    path.spot = Spot::Keys(keys);
                }
                Spot::Value(_) => break,
                Spot::Unknown => path.unknown(&word.text),
            }
            path.used += 1;
        }
        Ok(path)
    }

    fn unknown(&mut self, word: &str) {
        self.steps.push(Step::Key(word.to_owned(), Make::Table));
        self.spot = Spot::Unknown;
    }

    /// Says where a word stood that is no key.
    fn wrong(&self, error: EditError, words: &[Word]) -> EditError {
        match error {
            EditError::NoKey { word, meant, .. } => {
                let place = words[..self.used].iter().map(|word| quote(&word.text)).collect::<Vec<_>>();
                EditError::NoKey { word, meant, place: place.join(" ") }
            }
            other => other,
        }
    }

    /// The words that lead there, whole.
    pub(crate) fn canonical(&self) -> Vec<String> {
        let word = |step: &Step| match step {
            Step::Key(name, _) => quote(name),
            Step::Element { value, nth, .. } => quote(&element_word(value, *nth)),
        };
        self.steps.iter().map(word).collect()
    }
}

/// The key that a word means: by its name, with `-` for `_`, or by a beginning that no other has.
pub(crate) fn named(keys: &'static [Key], word: &Word) -> Result<&'static Key, EditError> {
    // In quotes it is as it stands: the key of a document that nobody knows may be the beginning of
    // one that is known.
    let text = if word.quoted { word.text.clone() } else { word.text.replace('-', "_") };
    if let Some(key) = schema::find(keys, &text) {
        return Ok(key);
    }
    let begins = |key: &&Key| !word.quoted && !text.is_empty() && key.name.starts_with(&text);
    let mut begun = keys.iter().filter(begins);
    match (begun.next(), begun.next()) {
        (Some(key), None) => Ok(key),
        (Some(one), Some(other)) => {
            let all = [one, other].into_iter().chain(begun).map(|key| key.name).collect::<Vec<_>>();
            Err(EditError::Ambiguous { word: word.text.clone(), all: all.join(", ") })
        }
        _ => {
            let near = notation::near(&text, keys.iter().map(|key| key.name)).map(str::to_owned);
            Err(EditError::NoKey { word: word.text.clone(), meant: near, place: String::new() })
        }
    }
}

/// What a word says of a table of a list: the value of its key, and which of those that have it.
fn element(word: &str) -> (&str, usize) {
    let numbered = word.rsplit_once('#').and_then(|(value, number)| {
        let plain = number.bytes().all(|digit| digit.is_ascii_digit()) && !number.starts_with('0');
        Some((value, number.parse().ok().filter(|_| plain)?))
    });
    numbered.unwrap_or((word, 1))
}

/// The word for one of the tables of a list.
pub(crate) fn element_word(value: &str, nth: usize) -> String {
    match nth {
        1 if !value.is_empty() && element(value) == (value, 1) => value.to_owned(),
        nth => format!("{value}#{nth}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::split;
    use proptest::prelude::*;

    fn steps(line: &str) -> Result<(Vec<String>, usize), String> {
        let path = Path::follow(&split(line).unwrap()).map_err(|error| error.to_string())?;
        Ok((path.canonical(), path.used))
    }

    #[test]
    fn words_lead_through_sections_names_and_lists() {
        let (words, used) = steps("interface eth0 addresses 192.0.2.1/24").unwrap();
        assert_eq!((words.join(" ").as_str(), used), ("interface eth0 addresses", 3));
        assert_eq!(steps("route 10.0.0.0/8 vi 192.0.2.1").unwrap().0.join(" "), "route 10.0.0.0/8 via");
        assert_eq!(steps("policy route_map out #1 match tag").unwrap().1, 6);
        assert_eq!(steps("port eth0 zero-copy").unwrap().0.join(" "), "port eth0 zero_copy");
        assert_eq!(steps("nat clamp #2 mss").unwrap().0.join(" "), "nat clamp #2 mss");
        assert_eq!(steps("new thing = 1").unwrap(), (vec!["new".into(), "thing".into()], 2));
        assert!(steps("interfaec").unwrap_err().contains("\"interface\""));
        assert!(steps("m").unwrap_err().contains("memory, mirror, metrics"));
        assert!(steps("rou").unwrap_err().contains("route, routing"));
        assert!(steps("port eth0 lnae x").unwrap_err().contains("port eth0"));
    }

    proptest! {
        #[test]
        fn the_word_of_an_element_leads_to_it(value in "[a#0-9]{0,6}|\\PC*", nth in 1..9usize) {
            let word = element_word(&value, nth);
            prop_assert_eq!(element(&word), (value.as_str(), nth));
        }
    }
}
