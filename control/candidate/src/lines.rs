//! Set-lines: a document as the lines that make it, and the lines that make one of another.

use config::schema::{Key, ROOT, Shape, find};

use crate::place::element_word;
use crate::tree::Tree;
use crate::value::words_of;
use crate::words::{quote, quoted};

/// The set-lines that make a document of an empty one.
pub fn lines(document: &Tree) -> Vec<String> {
    let mut lines = Lines::default();
    lines.table("", Some(ROOT), document);
    lines.0
}

/// The lines that make `after` of `before`: what goes, then what comes.
pub fn changes(before: &Tree, after: &Tree) -> Vec<String> {
    let mut changes = Changes::default();
    changes.table("", Some(ROOT), before, after);
    changes.go.extend(changes.come.0);
    changes.go
}

#[derive(Default)]
struct Lines(Vec<String>);

/// A path with one more word.
fn with(path: &str, word: &str) -> String {
    if path.is_empty() { word.to_owned() } else { format!("{path} {word}") }
}

impl Lines {
    fn table(&mut self, path: &str, keys: Option<&'static [Key]>, table: &Tree) {
        let Tree::Table(pairs) = table else { return self.literal(path, table) };
        for (name, value) in pairs {
            let key = keys.and_then(|keys| find(keys, name));
            self.value(&with(path, &key_word(keys, name)), key.map(|key| &key.shape), value);
        }
    }

    /// A table that is there even if it is empty.
    fn whole(&mut self, path: &str, keys: &'static [Key], table: &Tree) {
        match table {
            Tree::Table(pairs) if pairs.is_empty() => self.0.push(format!("set {path}")),
            Tree::Table(_) => self.table(path, Some(keys), table),
            other => self.literal(path, other),
        }
    }

    fn value(&mut self, path: &str, shape: Option<&'static Shape>, value: &Tree) {
        match (shape, value) {
            (Some(Shape::Table(keys) | Shape::Inline(keys)), Tree::Table(_)) => self.whole(path, keys, value),
            (Some(Shape::Named { keys, .. }), Tree::Table(pairs)) if !pairs.is_empty() => {
                for (name, value) in pairs {
                    self.whole(&with(path, &quote(name)), keys, value);
                }
            }
            (Some(Shape::Map { value: shape, .. }), Tree::Table(pairs)) if !pairs.is_empty() => {
                for (name, value) in pairs {
                    self.value(&with(path, &quote(name)), Some(shape), value);
                }
            }
            (Some(Shape::Listed { by, keys, .. }), Tree::List(list)) if is_tables(list) => {
                for (word, rest) in elements(by, list) {
                    self.whole(&with(path, &word), keys, &rest);
                }
            }
            (Some(shape), value) => match words_of(shape, value) {
                Some(words) => self.0.extend(words.into_iter().map(|word| format!("set {path} {word}"))),
                None => self.literal(path, value),
            },
            (None, Tree::Table(pairs)) if !pairs.is_empty() => self.table(path, None, value),
            (None, value) => self.literal(path, value),
        }
    }

    fn literal(&mut self, path: &str, value: &Tree) {
        self.0.push(format!("set {path} = {}", value.literal()));
    }
}

/// The word for a key of a document.
fn key_word(keys: Option<&'static [Key]>, name: &str) -> String {
    match keys {
        Some(keys) if find(keys, name).is_none() => quoted(name),
        _ => quote(name),
    }
}

fn is_tables(list: &[Tree]) -> bool {
    !list.is_empty() && list.iter().all(|one| matches!(one, Tree::Table(_)))
}

/// The tables of a list: the word for each, and what it has besides what the word says.
pub(crate) fn elements(by: &str, list: &[Tree]) -> Vec<(String, Tree)> {
    let of = |table: &Tree| {
        Some(by).filter(|by| !by.is_empty()).and_then(|by| table.get(by)?.text().map(str::to_owned))
    };
    let mut seen: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for table in list {
        // An empty text says no more than none.
        let value = of(table).filter(|value| !value.is_empty());
        let rest = match (table, &value) {
            (Tree::Table(pairs), Some(_)) => {
                Tree::Table(pairs.iter().filter(|(key, _)| key != by).cloned().collect())
            }
            (table, _) => table.clone(),
        };
        let value = value.unwrap_or_default();
        seen.push(value.clone());
        let nth = seen.iter().filter(|other| **other == value).count();
        all.push((quote(&element_word(&value, nth)), rest));
    }
    all
}

#[derive(Default)]
struct Changes {
    go: Vec<String>,
    come: Lines,
}

impl Changes {
    fn table(&mut self, path: &str, keys: Option<&'static [Key]>, before: &Tree, after: &Tree) {
        let (Tree::Table(old), Tree::Table(new)) = (before, after) else { return };
        for (name, _) in old.iter().filter(|(name, _)| after.get(name).is_none()) {
            self.go.push(format!("delete {}", with(path, &key_word(keys, name))));
        }
        for (name, value) in new {
            let shape = keys.and_then(|keys| find(keys, name)).map(|key| &key.shape);
            self.pair(&with(path, &key_word(keys, name)), shape, before.get(name), value);
        }
    }

    fn pair(&mut self, path: &str, shape: Option<&'static Shape>, before: Option<&Tree>, after: &Tree) {
        let Some(before) = before else { return self.come.value(path, shape, after) };
        if before.same(after) {
            return;
        }
        match (shape, before, after) {
            (Some(Shape::Table(keys) | Shape::Inline(keys)), Tree::Table(_), Tree::Table(_)) => {
                self.inner(path, keys, before, after);
            }
            (Some(Shape::Named { keys, .. }), Tree::Table(old), Tree::Table(new)) if !new.is_empty() => {
                for (name, _) in old.iter().filter(|(name, _)| after.get(name).is_none()) {
                    self.go.push(format!("delete {}", with(path, &quote(name))));
                }
                for (name, value) in new {
                    let path = with(path, &quote(name));
                    match before.get(name) {
                        Some(before @ Tree::Table(_)) if matches!(value, Tree::Table(_)) => {
                            self.inner(&path, keys, before, value);
                        }
                        Some(before) if before.same(value) => {}
                        Some(_) => {
                            self.go.push(format!("delete {path}"));
                            self.come.whole(&path, keys, value);
                        }
                        None => self.come.whole(&path, keys, value),
                    }
                }
            }
            (Some(Shape::Map { value: shape, .. }), Tree::Table(old), Tree::Table(new))
                if !new.is_empty() =>
            {
                for (name, _) in old.iter().filter(|(name, _)| after.get(name).is_none()) {
                    self.go.push(format!("delete {}", with(path, &quote(name))));
                }
                for (name, value) in new {
                    self.pair(&with(path, &quote(name)), Some(shape), before.get(name), value);
                }
            }
            (Some(Shape::Listed { by, keys, .. }), Tree::List(old), Tree::List(new))
                if is_tables(old) && is_tables(new) =>
            {
                self.list(path, by, keys, old, new);
            }
            (Some(shape), before, after) => self.leaf(path, shape, before, after),
            (None, Tree::Table(_), Tree::Table(new)) if !new.is_empty() => {
                self.table(path, None, before, after)
            }
            (None, ..) => self.again(path, shape, after),
        }
    }

    /// Two tables of the same keys.
    fn inner(&mut self, path: &str, keys: &'static [Key], before: &Tree, after: &Tree) {
        if !before.same(after) {
            self.table(path, Some(keys), before, after);
        }
    }

    /// Two lists of tables: one by one while those that stay keep their order, else anew.
    fn list(&mut self, path: &str, by: &str, keys: &'static [Key], old: &[Tree], new: &[Tree]) {
        let (old, new) = (elements(by, old), elements(by, new));
        let has = |list: &[(String, Tree)], word: &str| list.iter().any(|(other, _)| other == word);
        let stay: Vec<&String> = old.iter().map(|(word, _)| word).filter(|word| has(&new, word)).collect();
        let kept: Vec<&String> = new.iter().map(|(word, _)| word).take(stay.len()).collect();
        // Numbers move up where one goes: from the last to the first.
        let gone = old.iter().rev().filter(|(word, _)| !has(&new, word));
        if stay != kept {
            self.go.push(format!("delete {path}"));
            for (word, rest) in &new {
                self.come.whole(&with(path, word), keys, rest);
            }
            return;
        }
        self.go.extend(gone.map(|(word, _)| format!("delete {}", with(path, word))));
        for (word, rest) in &new {
            let path = with(path, word);
            match old.iter().find(|(other, _)| other == word) {
                Some((_, before)) => self.inner(&path, keys, before, rest),
                None => self.come.whole(&path, keys, rest),
            }
        }
    }

    /// Two values: by their words where those that stay keep their order, else anew.
    fn leaf(&mut self, path: &str, shape: &'static Shape, before: &Tree, after: &Tree) {
        let several = matches!(shape, Shape::List(_) | Shape::Lines(_));
        let words = (words_of(shape, before), words_of(shape, after));
        let (true, (Some(old), Some(new))) = (several, words) else {
            return self.again(path, Some(shape), after);
        };
        let stay: Vec<&String> = old.iter().filter(|word| new.contains(word)).collect();
        let counted = |list: &[String]| list.iter().all(|word| word != "\"\"" && !word.starts_with("\"#"));
        let empty = [&old, &new].iter().any(|list| list.iter().any(|word| word == "[]"));
        let kept: Vec<&String> = new.iter().take(stay.len()).collect();
        if stay != kept || stay.is_empty() || empty || !counted(&old) || !counted(&new) {
            return self.again(path, Some(shape), after);
        }
        self.go.extend(
            old.iter().filter(|word| !new.contains(word)).map(|word| format!("delete {path} {word}")),
        );
        let come = new.iter().skip(stay.len()).map(|word| format!("set {path} {word}"));
        self.come.0.extend(come);
    }

    fn again(&mut self, path: &str, shape: Option<&'static Shape>, after: &Tree) {
        match shape {
            // What there is one of is replaced.
            Some(
                Shape::Word(_)
                | Shape::Number { .. }
                | Shape::NumberOr(_)
                | Shape::NumberOrText(_)
                | Shape::Flag
                | Shape::FlagOr(_)
                | Shape::Text(_),
            ) => {}
            _ => self.go.push(format!("delete {path}")),
        }
        self.come.value(path, shape, after);
    }
}
