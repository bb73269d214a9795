//! From words to values.

use config::schema::{Shape, What};

use crate::document::EditError;
use crate::tree::Tree;
use crate::words::Word;

/// What `set` does with a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// It becomes this.
    Be(Tree),
    /// A list gets these, unless it has them; of none it becomes an empty list.
    Join(Vec<String>),
    /// The same for what may be a text alone.
    JoinOr(Vec<String>),
    /// A text gets this line at its end.
    Line(String),
}

/// What the words behind a path say; `line` is where they stand.
pub(crate) fn change(shape: &Shape, line: &str, words: &[Word]) -> Result<Change, EditError> {
    let one = |what: &str| match words {
        [word] => Ok(word.text.clone()),
        [] => Err(EditError::NoValue { expected: what.to_owned() }),
        [_, next, ..] => Err(EditError::Surplus { word: next.text.clone() }),
    };
    let wrong = |word: &str, expected: String| EditError::Value { word: word.to_owned(), expected };
    Ok(match shape {
        Shape::Word(known) => {
            let word = one(&known.join(", "))?;
            Change::Be(Tree::Text(one_of(known, &word).ok_or_else(|| wrong(&word, known.join(", ")))?))
        }
        Shape::Number { least, most } => {
            let expected = format!("a whole number from {least} to {most}");
            let word = one(&expected)?;
            match number(&word).filter(|number| (least..=most).contains(&number)) {
                Some(number) => Change::Be(Tree::Number(number)),
                None => return Err(wrong(&word, expected)),
            }
        }
        Shape::NumberOr(known) => {
            let expected = format!("a whole number, or {}", known.join(", "));
            let word = one(&expected)?;
            let text = || one_of(known, &word).map(Tree::Text);
            Change::Be(number(&word).map(Tree::Number).or_else(text).ok_or_else(|| wrong(&word, expected))?)
        }
        Shape::Flag => {
            let word = one("true or false")?;
            match one_of(&["true", "false"], &word).as_deref() {
                Some(word) => Change::Be(Tree::Flag(word == "true")),
                None => return Err(wrong(&word, "true or false".to_owned())),
            }
        }
        Shape::FlagOr(what) => match one(what.about())?.as_str() {
            word @ ("true" | "false") => Change::Be(Tree::Flag(word == "true")),
            word => Change::Be(Tree::Text(word.to_owned())),
        },
        Shape::NumberOrText(what) => {
            let word = one(what.about())?;
            Change::Be(
                number(&word)
                    .filter(|number| number.to_string() == word)
                    .map_or(Tree::Text(word), Tree::Number),
            )
        }
        Shape::Text(what) => Change::Be(Tree::Text(text(*what, line, words)?)),
        Shape::Lines(what) => Change::Line(text(*what, line, words)?),
        Shape::List(what) => Change::Join(items(*what, words)?),
        Shape::OneOrMore(what) => Change::JoinOr(items(*what, words)?),
        Shape::Table(_)
        | Shape::Inline(_)
        | Shape::Named { .. }
        | Shape::Map { .. }
        | Shape::Listed { .. } => return Err(EditError::NoValue { expected: "a key".to_owned() }),
    })
}

/// Whole numbers, also with `_` between digits.
fn number(word: &str) -> Option<i64> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    (digits.starts_with(|c: char| c.is_ascii_digit())).then(|| word.replace('_', "").parse().ok())?
}

/// The word that is meant: whole, or by a beginning that no other has.
fn one_of(known: &[&str], word: &str) -> Option<String> {
    if let Some(same) = known.iter().find(|known| **known == word) {
        return Some((*same).to_owned());
    }
    let mut begun = known.iter().filter(|known| !word.is_empty() && known.starts_with(word));
    begun.next().filter(|_| begun.next().is_none()).map(|word| (*word).to_owned())
}

/// A text: a word; or what stands there, as it stands, where texts have several words.
fn text(what: What, line: &str, words: &[Word]) -> Result<String, EditError> {
    match words {
        [word] => Ok(word.text.clone()),
        [] => Err(EditError::NoValue { expected: what.about().to_owned() }),
        [first, .., last] if what.is_sentence() => {
            Ok(line.get(first.at.start..last.at.end).unwrap_or_default().to_owned())
        }
        [_, next, ..] => Err(EditError::Surplus { word: next.text.clone() }),
    }
}

/// The items of a list, with or without brackets.
fn items(what: What, words: &[Word]) -> Result<Vec<String>, EditError> {
    let is_sign = |word: &&Word| ["[", "]", "[]"].iter().any(|sign| word.is(sign));
    let items: Vec<String> =
        words.iter().filter(|word| !is_sign(word)).map(|word| word.text.clone()).collect();
    match words.is_empty() {
        true => Err(EditError::NoValue { expected: format!("{}, or []", what.about()) }),
        false => Ok(items),
    }
}

/// The words, each to be set on a line of its own, that make such a value from nothing; `None`:
/// none do.
pub(crate) fn words_of(shape: &Shape, value: &Tree) -> Option<Vec<String>> {
    use crate::words::{quote, quoted};
    match (shape, value) {
        (Shape::Word(known) | Shape::NumberOr(known), Tree::Text(text)) => {
            known.contains(&text.as_str()).then(|| vec![quote(text)])
        }
        (Shape::Number { least, most }, Tree::Number(number)) => {
            (least..=most).contains(&number).then(|| vec![number.to_string()])
        }
        (Shape::NumberOr(_), Tree::Number(number)) => Some(vec![number.to_string()]),
        (Shape::Flag, Tree::Flag(flag)) => Some(vec![flag.to_string()]),
        (Shape::FlagOr(_), Tree::Flag(flag)) => Some(vec![flag.to_string()]),
        (Shape::FlagOr(_), Tree::Text(text)) => {
            (!["true", "false"].contains(&text.as_str())).then(|| vec![quote(text)])
        }
        (Shape::NumberOrText(_), Tree::Number(number)) => Some(vec![number.to_string()]),
        (Shape::NumberOrText(_), Tree::Text(text)) => text.parse::<i64>().is_err().then(|| vec![quote(text)]),
        (Shape::Text(_), Tree::Text(text)) => Some(vec![quote(text)]),
        (Shape::Lines(_), Tree::Text(text)) => {
            let lines: Vec<&str> = text.strip_suffix('\n')?.split('\n').collect();
            let again = |at: usize| counts(lines[at]) && lines[..at].contains(&lines[at]);
            (!(0..lines.len()).any(again)).then(|| lines.into_iter().map(quoted).collect())
        }
        (Shape::List(_), Tree::List(list)) if list.is_empty() => Some(vec!["[]".to_owned()]),
        (Shape::List(_), Tree::List(list)) => Some(texts(list)?.into_iter().map(quote).collect()),
        (Shape::OneOrMore(_), Tree::Text(text)) => Some(vec![quote(text)]),
        // One alone would become a text.
        (Shape::OneOrMore(_), Tree::List(list)) if list.len() > 1 => {
            Some(texts(list)?.into_iter().map(quote).collect())
        }
        _ => None,
    }
}

/// Whether a line of a text is more than a gap or a comment: those may stand there many times.
pub(crate) fn counts(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// The texts of a list, if they are nothing else and each is there once: one that is there already
/// would not be added again.
fn texts(list: &[Tree]) -> Option<Vec<&str>> {
    let texts: Vec<&str> = list.iter().map(Tree::text).collect::<Option<_>>()?;
    (1..texts.len()).all(|at| !texts[..at].contains(&texts[at])).then_some(texts)
}
