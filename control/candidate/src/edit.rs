//! Lines that change a document.

use config::schema::Shape;
use toml_edit::{DocumentMut, Item, TableLike, Value};

use crate::comments;
use crate::document::{Document, EditError, find};
use crate::place::{Path, Spot, Step};
use crate::tree::Tree;
use crate::value::{Change, change, counts};
use crate::way::{enter, enter_from, remove};
use crate::words::{Word, quote, split};
use crate::written::{lines_value, push, value_of};

/// The commands that change a document.
pub(crate) const COMMANDS: [(&str, &str); 6] = [
    ("set", "gives a key a value, or a list one more"),
    ("delete", "removes a value, one of a list, or a section with all that is in it"),
    ("insert", "moves one of a list, or a new rule, to another place among the others"),
    ("copy", "makes a section or an entry of a list again, by another name"),
    ("rename", "gives a section or an entry of a list another name"),
    ("annotate", "writes a comment above a key or a section"),
];

impl Document {
    /// Changes it by a line, whose path begins behind the words of `above`.
    ///
    /// # Errors
    /// Why it stays as it is.
    pub fn run(&mut self, above: &[String], line: &str) -> Result<(), EditError> {
        let given = split(line)?;
        let Some(command) = given.first() else { return Ok(()) };
        let name = match COMMANDS.iter().find(|(name, _)| *name == command.text) {
            Some((name, _)) => *name,
            None => {
                let meant = notation::near(&command.text, COMMANDS.map(|(name, _)| name)).map(str::to_owned);
                return Err(EditError::NoCommand { word: command.text.clone(), meant });
            }
        };
        // The same line with the whole path, so that words stand where they are said to.
        let rest = line.get(command.at.end..).unwrap_or_default();
        let above: Vec<String> = above.iter().map(|word| quote(word)).collect();
        let whole = if above.is_empty() { rest.to_owned() } else { format!("{} {rest}", above.join(" ")) };
        let words = split(&whole)?;
        match name {
            "set" => self.set(&whole, &words),
            "delete" => self.delete(&whole, &words),
            "insert" => self.insert(&whole, &words),
            "copy" | "rename" => self.duplicate(&words, name == "rename"),
            _ => self.annotate(&words),
        }
    }

    /// The words of a path, whole: what `edit` goes to.
    ///
    /// # Errors
    /// What is no path to a section.
    pub fn section(&self, above: &[String], words: &[Word]) -> Result<Vec<String>, EditError> {
        let line: Vec<String> =
            above.iter().chain(words.iter().map(|word| &word.text)).map(|word| quote(word)).collect();
        let all = split(&line.join(" "))?;
        let path = Path::follow(&all)?;
        match path.spot {
            _ if path.used < all.len() => Err(EditError::Surplus { word: all[path.used].text.clone() }),
            Spot::Value(_) | Spot::Unknown => Err(EditError::NoSection(path.canonical().join(" "))),
            _ => Ok(split(&path.canonical().join(" "))?.into_iter().map(|word| word.text).collect()),
        }
    }

    fn set(&mut self, line: &str, words: &[Word]) -> Result<(), EditError> {
        let path = Path::follow(words)?;
        let rest = &words[path.used..];
        if path.steps.is_empty() {
            return Err(EditError::NoValue { expected: "a key".to_owned() });
        }
        let mut document = self.open();
        if let Some(sign) = rest.first().filter(|word| word.is("=")) {
            let text = line.get(sign.at.end..).unwrap_or_default().trim();
            let value: Value = text.parse().map_err(|error: toml_edit::TomlError| {
                EditError::Toml(error.to_string().trim_end().to_owned())
            })?;
            self.put(&mut document, &path, value)?;
            return self.close(document);
        }
        match path.spot {
            Spot::Value(shape) => {
                let change = change(shape, line, rest)?;
                self.apply(&mut document, &path, change)?;
            }
            // A section that is there says something even without keys.
            Spot::Keys(_) if rest.is_empty() => {
                enter(document.as_table_mut(), &path.steps, true)?;
                show(&mut document, &path.steps)?;
            }
            Spot::Elements { .. } | Spot::Names(..) | Spot::Map(..) => {
                return Err(EditError::NoValue { expected: "which one: its name".to_owned() });
            }
            _ => return Err(EditError::NoValue { expected: "a value: = and what it is in TOML".to_owned() }),
        }
        self.close(document)
    }

    /// Puts a value at a place, whatever is there.
    fn put(&self, document: &mut DocumentMut, path: &Path, mut value: Value) -> Result<(), EditError> {
        let Some((last, way)) = path.steps.split_last() else {
            return Err(EditError::Cannot("the configuration is no value".to_owned()));
        };
        match last {
            Step::Key(name, _) => {
                let absent = || EditError::Absent(path.canonical().join(" "));
                let table = enter(document.as_table_mut(), way, true)?.ok_or_else(absent)?;
                if let Some(Item::Value(old)) = table.get_mut(name) {
                    *value.decor_mut() = old.decor().clone();
                    *old = value;
                    return Ok(());
                }
                // A section gives way, and leaves its comments.
                if table.contains_key(name) {
                    remove(document, self.text(), &path.steps)?;
                }
                let root = document.as_table_mut();
                let (table, in_line) = enter_from(root, way, true, false)?.ok_or_else(absent)?;
                value.decor_mut().clear();
                table.insert(name, Item::Value(value));
                if in_line {
                    table.fmt();
                }
                Ok(())
            }
            Step::Element { .. } => {
                Err(EditError::Cannot("give its keys values, or the whole list one".to_owned()))
            }
        }
    }

    fn apply(&self, document: &mut DocumentMut, path: &Path, change: Change) -> Result<(), EditError> {
        let Some((Step::Key(name, _), way)) = path.steps.split_last() else {
            return Err(EditError::Cannot("that has no value".to_owned()));
        };
        let tree = self.tree();
        let old = find(&tree, &path.steps);
        let value = match change {
            Change::Be(tree) => value_of(&tree),
            Change::Line(line) => match old {
                None => lines_value(&format!("{line}\n")),
                Some(Tree::Text(text)) => {
                    if counts(&line) && text.lines().any(|other| other.trim() == line.trim()) {
                        return Ok(());
                    }
                    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                    lines_value(&format!("{text}{gap}{line}\n"))
                }
                Some(Tree::List(_)) => value_of(&Tree::Text(format!("{line}\n"))),
                Some(_) => return Err(EditError::NoSection(name.clone())),
            },
            Change::Join(items) | Change::JoinOr(items) if matches!(old, Some(Tree::List(_))) => {
                return self.join(document, path, &items);
            }
            Change::Join(items) => {
                if let Some(other) = old {
                    return Err(EditError::Cannot(format!(
                        "it is no list, but {}: delete it first",
                        other.literal()
                    )));
                }
                value_of(&Tree::List(items.into_iter().map(Tree::Text).collect()))
            }
            Change::JoinOr(mut items) => {
                if let Some(text) = old.and_then(Tree::text) {
                    if items.iter().all(|item| item == text) {
                        return Ok(());
                    }
                    items.retain(|item| item != text);
                    items.insert(0, text.to_owned());
                }
                match items.as_slice() {
                    [one] => value_of(&Tree::Text(one.clone())),
                    _ => value_of(&Tree::List(items.into_iter().map(Tree::Text).collect())),
                }
            }
        };
        let list_of_lines = matches!(old, Some(Tree::List(_)));
        if list_of_lines && matches!(path.spot, Spot::Value(Shape::Lines(_))) {
            // Rules in a list of texts: one more text.
            let Some(table) = enter(document.as_table_mut(), way, true)? else { return Ok(()) };
            if let Some(list) = table.get_mut(name).and_then(Item::as_array_mut) {
                push(list, value);
            }
            return Ok(());
        }
        self.put(document, path, value)
    }

    /// Adds to a list what it does not have.
    fn join(&self, document: &mut DocumentMut, path: &Path, items: &[String]) -> Result<(), EditError> {
        let Some((Step::Key(name, _), way)) = path.steps.split_last() else { return Ok(()) };
        let Some(table) = enter(document.as_table_mut(), way, true)? else { return Ok(()) };
        let Some(list) = table.get_mut(name).and_then(Item::as_array_mut) else { return Ok(()) };
        for item in items {
            if !list.iter().any(|other| other.as_str() == Some(item)) {
                push(list, item.as_str().into());
            }
        }
        Ok(())
    }

    fn delete(&mut self, line: &str, words: &[Word]) -> Result<(), EditError> {
        let tree = self.tree();
        let path = Path::follow(words).or_else(|error| {
            // What nobody knows can be removed all the same.
            let path = Path::unknown_too(words).filter(|path| find(&tree, &path.steps).is_some());
            path.ok_or(error)
        })?;
        let rest = &words[path.used..];
        let place = || path.canonical().join(" ");
        let mut document = self.open();
        if rest.is_empty() {
            if !remove(&mut document, self.text(), &path.steps)? {
                return Err(EditError::Absent(place()));
            }
            return self.close(document);
        }
        // One of several values.
        let Spot::Value(shape) = path.spot else {
            return Err(EditError::Surplus { word: rest[0].text.clone() });
        };
        let absent = |word: &str| EditError::Absent(format!("{} {}", place(), quote(word)));
        let old = find(&tree, &path.steps).ok_or_else(|| EditError::Absent(place()))?;
        let left = match (change(shape, line, rest)?, old) {
            (Change::Be(value), old) if value.same(old) => None,
            (Change::Line(line), Tree::Text(text)) => {
                let at = crate::order::line_index(text, &line).ok_or_else(|| absent(&line))?;
                let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
                lines.remove(at);
                Some(lines_value(&lines.concat()))
                    .filter(|_| lines.iter().any(|line| !line.trim().is_empty()))
            }
            (Change::Join(items) | Change::JoinOr(items), Tree::List(list)) => {
                let has = |item: &String| list.iter().any(|other| other.text() == Some(item));
                if let Some(missing) = items.iter().find(|item| !has(item)) {
                    return Err(absent(missing));
                }
                let Some((Step::Key(name, _), way)) = path.steps.split_last() else { return Ok(()) };
                let Some(table) = enter(document.as_table_mut(), way, false)? else { return Ok(()) };
                let Some(list) = table.get_mut(name).and_then(Item::as_array_mut) else { return Ok(()) };
                list.retain(|other| {
                    !other.as_str().is_some_and(|other| items.iter().any(|item| item == other))
                });
                let alone = list.len() == 1 && matches!(shape, Shape::OneOrMore(_));
                let alone = list.get(0).filter(|_| alone).cloned();
                match (list.is_empty(), alone) {
                    (true, _) => None,
                    (false, Some(alone)) => Some(alone),
                    (false, None) => return self.close(document),
                }
            }
            (Change::JoinOr(items), Tree::Text(text)) if items == [text.clone()] => None,
            _ => return Err(absent(rest.first().map_or("", |word| &word.text))),
        };
        match left {
            Some(value) => self.put(&mut document, &path, value)?,
            None => drop(remove(&mut document, self.text(), &path.steps)?),
        }
        self.close(document)
    }

    fn duplicate(&mut self, words: &[Word], rename: bool) -> Result<(), EditError> {
        let expected =
            || EditError::NoValue { expected: "the path of one, `to`, and another name".to_owned() };
        let to = words.iter().rposition(|word| word.is("to")).ok_or_else(expected)?;
        let [name] = &words[to + 1..] else { return Err(expected()) };
        let path = Path::follow(&words[..to])?;
        if path.used < to {
            return Err(EditError::Surplus { word: words[path.used].text.clone() });
        }
        let Some((last, way)) = path.steps.split_last() else { return Err(expected()) };
        let place = path.canonical().join(" ");
        if find(&self.tree(), &path.steps).is_none() {
            return Err(EditError::Absent(place));
        }
        let mut other = way.to_vec();
        other.push(match last {
            Step::Element { by: "", .. } => {
                return Err(EditError::Cannot(format!("{place} has no name of its own")));
            }
            Step::Element { by, .. } => Step::Element { by, value: name.text.clone(), nth: 1 },
            Step::Key(_, how) => {
                // Only what is named by the operator has another name.
                let (parent, _) = words[..to].split_at(to - 1);
                if !matches!(Path::follow(parent)?.spot, Spot::Names(..) | Spot::Map(..)) {
                    return Err(EditError::Cannot(format!("{place} is no name of yours")));
                }
                Step::Key(name.text.clone(), *how)
            }
        });
        if find(&self.tree(), &other).is_some() {
            return Err(EditError::There(quote(&name.text)));
        }
        let mut document = self.open();
        let root = document.as_table_mut();
        match last {
            Step::Key(from, _) => {
                let Some(table) = enter(root, way, false)? else { return Err(EditError::Absent(place)) };
                double(table, from, &name.text);
                if rename {
                    remove(&mut document, "", &path.steps)?;
                }
            }
            Step::Element { by, .. } => {
                if !rename {
                    crate::order::double(root, &path.steps)?;
                }
                // The copy stands behind: the last of this name is the one to be renamed.
                let steps =
                    if rename { path.steps.clone() } else { crate::order::last_of(&path.steps, root)? };
                let Some(table) = enter(root, &steps, false)? else {
                    return Err(EditError::Absent(place));
                };
                table.insert(by, toml_edit::value(name.text.as_str()));
            }
        }
        self.renumbered(document)
    }

    fn annotate(&mut self, words: &[Word]) -> Result<(), EditError> {
        let Some((comment, words)) = words.split_last() else {
            return Err(EditError::NoValue { expected: "a path, and a comment in quotes".to_owned() });
        };
        let path = Path::follow(words)?;
        if path.used < words.len() {
            return Err(EditError::Surplus { word: words[path.used].text.clone() });
        }
        let Some((last, way)) = path.steps.split_last() else {
            return Err(EditError::NoValue { expected: "a path, and a comment in quotes".to_owned() });
        };
        let place = path.canonical().join(" ");
        let mut document = self.open();
        let root = document.as_table_mut();
        let on_header = |table: &mut toml_edit::Table| {
            let own =
                table.decor().prefix().and_then(toml_edit::RawString::as_str).unwrap_or("\n").to_owned();
            table.decor_mut().set_prefix(comments::annotated(&own, &comment.text));
        };
        match last {
            Step::Key(name, _) => {
                let Some(table) = enter(root, way, false)? else { return Err(EditError::Absent(place)) };
                let header = match table.get_mut(name) {
                    None => return Err(EditError::Absent(place)),
                    Some(Item::Table(table)) if !table.is_implicit() && !table.is_dotted() => {
                        on_header(table);
                        true
                    }
                    Some(Item::Value(_)) => false,
                    Some(_) => return Err(EditError::Cannot(format!("{place} has no line of its own"))),
                };
                if let (false, Some(mut key)) = (header, table.key_mut(name)) {
                    let own = comments::before(key.leaf_decor());
                    key.leaf_decor_mut().set_prefix(comments::annotated(&own, &comment.text));
                }
            }
            Step::Element { .. } => {
                let (Some(Step::Element { by, value, nth }), Some((Step::Key(name, _), way))) =
                    (path.steps.last(), way.split_last())
                else {
                    return Err(EditError::Absent(place));
                };
                let Some(table) = enter(root, way, false)? else { return Err(EditError::Absent(place)) };
                let Some(Item::ArrayOfTables(list)) = table.get_mut(name) else {
                    return Err(EditError::Cannot(format!("{place} has no line of its own")));
                };
                let values = list.iter().map(|table| crate::document::written_value(table, by));
                let at = crate::document::index(values, value, *nth).map_err(|_| EditError::Absent(place))?;
                list.get_mut(at).into_iter().for_each(on_header);
            }
        }
        // In a list or a table in a line a comment may not stand.
        self.close(document).map_err(|error| match error {
            EditError::Toml(_) => EditError::Cannot("no comment can stand there".to_owned()),
            other => other,
        })
    }

    /// Takes over a document whose tables stand in another order.
    pub(crate) fn renumbered(&mut self, mut document: DocumentMut) -> Result<(), EditError> {
        let mut next = 0;
        comments::each_table_mut(document.as_table_mut(), &mut |table| {
            next += 1;
            table.set_position(Some(next));
        });
        self.close(document)
    }
}

/// Makes an entry of a table again, by another name.
fn double(table: &mut dyn TableLike, from: &str, to: &str) {
    let Some(item) = table.get(from) else { return };
    let mut copy = item.clone();
    if let Item::Table(table) = &mut copy {
        unplaced(table);
    }
    table.insert(to, copy);
}

/// A table that has no place in the file yet.
pub(crate) fn unplaced(table: &mut toml_edit::Table) {
    table.set_position(None);
    comments::each_table_mut(table, &mut |inner| inner.set_position(None));
}

/// Has a table written that is there without a key.
fn show(document: &mut DocumentMut, steps: &[Step]) -> Result<(), EditError> {
    let Some((Step::Key(name, _), way)) = steps.split_last() else { return Ok(()) };
    let table = enter(document.as_table_mut(), way, false)?;
    if let Some(Item::Table(table)) = table.and_then(|table| table.get_mut(name)) {
        table.set_implicit(false);
    }
    Ok(())
}
