//! What could follow: for completion, and for help.

use config::schema::{Key, Shape, What};

use crate::document::{Document, EditError};
use crate::place::{Path, Spot};
use crate::words::{quote, split};

/// Something that could follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The word, or how a place for one is shown.
    pub word: String,
    /// What it is, in a line.
    pub about: String,
    /// What kind of word it is the place for; the shell may know some.
    pub place: Option<What>,
}

impl Offer {
    /// A word that can be typed.
    pub fn word(word: impl Into<String>, about: impl Into<String>) -> Offer {
        Offer { word: word.into(), about: about.into(), place: None }
    }

    fn place(what: What) -> Offer {
        Offer { word: what.label().to_owned(), about: what.about().to_owned(), place: Some(what) }
    }
}

/// What could follow the words of a path, of which `above` come first.
pub fn offers(document: &Document, above: &[String], words: &[String]) -> Result<Vec<Offer>, EditError> {
    let line: Vec<String> = above.iter().chain(words).map(|word| quote(word)).collect();
    let words = split(&line.join(" "))?;
    let path = Path::follow(&words)?;
    let there = || document.names(&path).into_iter();
    let is_there = "is there already";
    let rest = words.len() - path.used;
    let mut offers = match path.spot {
        _ if rest > 0 && !matches!(path.spot, Spot::Value(Shape::List(_) | Shape::OneOrMore(_))) => {
            Vec::new()
        }
        Spot::Keys(keys) => keys.iter().map(of_key).collect(),
        Spot::Names(what, _) | Spot::Map(what, _) => {
            let named = there().map(|name| Offer::word(name, is_there));
            named.chain([Offer::place(what)]).collect()
        }
        Spot::Elements { by, keys } => {
            let what = config::schema::find(keys, by).map_or(What::Words, |key| match key.shape {
                Shape::Text(what) => what,
                _ => What::Words,
            });
            let next =
                Offer { word: "#N".to_owned(), about: "by its number, from #1".to_owned(), place: None };
            let new = if by.is_empty() { next } else { Offer::place(what) };
            there().map(|name| Offer::word(name, is_there)).chain([new]).collect()
        }
        Spot::Value(shape) => of_value(shape),
        Spot::Unknown => Vec::new(),
    };
    if offers.is_empty() && rest == 0 {
        offers.push(Offer { word: "=".to_owned(), about: "and a value in TOML".to_owned(), place: None });
    }
    Ok(offers)
}

fn of_key(key: &'static Key) -> Offer {
    let default = if key.default.is_empty() { String::new() } else { format!(" [{}]", key.default) };
    Offer::word(key.name, format!("{}{default}", key.about))
}

fn of_value(shape: &'static Shape) -> Vec<Offer> {
    match shape {
        Shape::Word(words) => words.iter().map(|word| Offer::word(*word, "")).collect(),
        Shape::NumberOr(words) => {
            let number = Offer {
                word: "NUMBER".to_owned(),
                about: "a whole number".to_owned(),
                place: Some(What::Words),
            };
            words.iter().map(|word| Offer::word(*word, "")).chain([number]).collect()
        }
        Shape::Number { least, most } => {
            vec![Offer {
                word: "NUMBER".to_owned(),
                about: format!("a whole number from {least} to {most}"),
                place: Some(What::Words),
            }]
        }
        Shape::Flag => vec![Offer::word("true", ""), Offer::word("false", "")],
        Shape::FlagOr(what) => vec![Offer::word("true", ""), Offer::word("false", ""), Offer::place(*what)],
        Shape::NumberOrText(what) => vec![Offer::place(*what)],
        Shape::Text(what) | Shape::Lines(what) | Shape::List(what) | Shape::OneOrMore(what) => {
            vec![Offer::place(*what)]
        }
        _ => Vec::new(),
    }
}
