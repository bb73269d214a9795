//! Set-lines on what a document says: thousands of them cost no more than the tree, where a
//! document is read and written for each.

use config::schema::Shape;
use toml_edit::Value;

use crate::document::{EditError, find, index, value_of};
use crate::place::{Make, Path, Spot, Step, element_word};
use crate::tree::Tree;
use crate::value::{Change, change, counts};
use crate::words::{Word, quote, split};

impl Tree {
    /// Changes it by a line that begins with `set` or `delete`; an empty one, or a comment, does
    /// nothing.
    ///
    /// # Errors
    /// What is wrong with the line; then the way to its place may be there.
    pub fn run(&mut self, line: &str) -> Result<(), EditError> {
        let words = split(line)?;
        let Some((command, words)) = words.split_first() else { return Ok(()) };
        match command.text.as_str() {
            _ if command.text.starts_with('#') => Ok(()),
            "set" => self.set(line, words),
            "delete" => self.unset(line, words),
            _ => {
                let meant = notation::near(&command.text, ["set", "delete"]).map(str::to_owned);
                Err(EditError::NoCommand { word: command.text.clone(), meant })
            }
        }
    }

    /// Puts a value at a place, whatever is there; whether something was.
    ///
    /// # Errors
    /// What leads nowhere, or is told apart by another name than it has.
    pub fn put(&mut self, path: &Path, value: Tree) -> Result<bool, EditError> {
        let Some((last, way)) = path.steps.split_last() else {
            return Err(EditError::Cannot("the configuration is no value".to_owned()));
        };
        let was = find(self, &path.steps).is_some();
        match last {
            Step::Key(name, _) => {
                let Some(Tree::Table(pairs)) = self.enter(way, true)? else {
                    return Err(EditError::Absent(path.canonical().join(" ")));
                };
                match pairs.iter_mut().find(|(key, _)| key == name) {
                    Some((_, old)) => *old = value,
                    None => pairs.push((name.clone(), value)),
                }
            }
            Step::Element { by, value: id, .. } => {
                let Tree::Table(mut pairs) = value else {
                    return Err(EditError::Cannot(format!("{} is a table", path.canonical().join(" "))));
                };
                match pairs.iter().find(|(key, _)| key == by) {
                    Some((_, other)) if other.text() != Some(id) => {
                        let other = other.literal();
                        return Err(EditError::Cannot(format!(
                            "{by} is {other} here, but {id:?} in the path"
                        )));
                    }
                    None if !id.is_empty() => pairs.insert(0, ((*by).to_owned(), Tree::Text(id.clone()))),
                    _ => {}
                }
                if let Some(old) = self.enter(&path.steps, true)? {
                    *old = Tree::Table(pairs);
                }
            }
        }
        Ok(was)
    }

    /// Removes what stands at a place; whether something did.
    pub fn remove(&mut self, path: &Path) -> bool {
        remove(self, &path.steps)
    }

    /// What stands at a place.
    pub fn at(&self, path: &Path) -> Option<&Tree> {
        find(self, &path.steps)
    }

    fn enter(&mut self, steps: &[Step], make: bool) -> Result<Option<&mut Tree>, EditError> {
        let Some((step, rest)) = steps.split_first() else { return Ok(Some(self)) };
        match (step, self) {
            (Step::Key(name, how), Tree::Table(pairs)) => {
                let at = match pairs.iter().position(|(key, _)| key == name) {
                    Some(at) => at,
                    None if !make => return Ok(None),
                    None => {
                        let list = matches!(how, Make::Tables | Make::Inlines);
                        let new = if list { Tree::List(Vec::new()) } else { Tree::Table(Vec::new()) };
                        pairs.push((name.clone(), new));
                        pairs.len() - 1
                    }
                };
                pairs[at].1.enter(rest, make)
            }
            (Step::Element { by, value, nth }, Tree::List(list)) => {
                let at = match index(list.iter().map(|table| value_of(table, by)), value, *nth) {
                    Ok(at) => at,
                    Err(_) if !make => return Ok(None),
                    Err(found) if found + 1 != *nth => {
                        let (word, next) = (element_word(value, *nth), element_word(value, found + 1));
                        return Err(EditError::Gap { word, next });
                    }
                    Err(_) => {
                        let id = ((*by).to_owned(), Tree::Text(value.clone()));
                        list.push(Tree::Table(Some(id).filter(|_| !value.is_empty()).into_iter().collect()));
                        list.len() - 1
                    }
                };
                list[at].enter(rest, make)
            }
            (Step::Key(name, _), _) => Err(EditError::NoSection(name.clone())),
            (Step::Element { .. }, _) => Err(EditError::Cannot("that is no list of sections".to_owned())),
        }
    }

    fn set(&mut self, line: &str, words: &[Word]) -> Result<(), EditError> {
        let path = Path::follow(words)?;
        let rest = &words[path.used..];
        if path.steps.is_empty() {
            return Err(EditError::NoValue { expected: "a key".to_owned() });
        }
        if let Some(sign) = rest.first().filter(|word| word.is("=")) {
            let text = line.get(sign.at.end..).unwrap_or_default().trim();
            let value: Value = text.parse().map_err(|error: toml_edit::TomlError| {
                EditError::Toml(error.to_string().trim_end().to_owned())
            })?;
            if matches!(path.steps.last(), Some(Step::Element { .. })) {
                let expected = "give its keys values, or the whole list one";
                return Err(EditError::Cannot(expected.to_owned()));
            }
            return self.put(&path, Tree::of_value(&value)).map(drop);
        }
        match path.spot {
            Spot::Value(shape) => {
                let change = change(shape, line, rest)?;
                let Some((Step::Key(name, _), way)) = path.steps.split_last() else {
                    return Err(EditError::Cannot("that has no value".to_owned()));
                };
                // A long list is gone through once.
                let Some(Tree::Table(pairs)) = self.enter(way, true)? else {
                    return Err(EditError::NoSection(path.canonical().join(" ")));
                };
                match pairs.iter_mut().find(|(key, _)| key == name) {
                    Some((_, old)) => *old = changed(Some(old), change)?,
                    None => pairs.push((name.clone(), changed(None, change)?)),
                }
                Ok(())
            }
            Spot::Keys(_) if rest.is_empty() => self.enter(&path.steps, true).map(drop),
            Spot::Elements { .. } | Spot::Names(..) | Spot::Map(..) => {
                Err(EditError::NoValue { expected: "which one: its name".to_owned() })
            }
            _ => Err(EditError::NoValue { expected: "a value: = and what it is in TOML".to_owned() }),
        }
    }

    fn unset(&mut self, line: &str, words: &[Word]) -> Result<(), EditError> {
        let path = Path::follow(words).or_else(|error| {
            let path = Path::unknown_too(words).filter(|path| find(self, &path.steps).is_some());
            path.ok_or(error)
        })?;
        let rest = &words[path.used..];
        let place = || path.canonical().join(" ");
        if rest.is_empty() {
            return if remove(self, &path.steps) { Ok(()) } else { Err(EditError::Absent(place())) };
        }
        let Spot::Value(shape) = path.spot else {
            return Err(EditError::Surplus { word: rest[0].text.clone() });
        };
        let absent = |word: &str| EditError::Absent(format!("{} {}", place(), quote(word)));
        let old = find(self, &path.steps).ok_or_else(|| EditError::Absent(place()))?;
        let left = match (change(shape, line, rest)?, old) {
            (Change::Be(value), old) if value.same(old) => None,
            (Change::Line(line), Tree::Text(text)) => {
                let at = crate::order::line_index(text, &line).ok_or_else(|| absent(&line))?;
                let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
                lines.remove(at);
                let some = lines.iter().any(|line| !line.trim().is_empty());
                some.then(|| Tree::Text(lines.concat()))
            }
            (Change::Join(items) | Change::JoinOr(items), Tree::List(list)) => {
                let has = |item: &String| list.iter().any(|other| other.text() == Some(item));
                if let Some(missing) = items.iter().find(|item| !has(item)) {
                    return Err(absent(missing));
                }
                let stays = |other: &&Tree| !items.iter().any(|item| other.text() == Some(item));
                let mut left: Vec<Tree> = list.iter().filter(stays).cloned().collect();
                match left.len() {
                    0 => None,
                    1 if matches!(shape, Shape::OneOrMore(_)) => left.pop(),
                    _ => Some(Tree::List(left)),
                }
            }
            (Change::JoinOr(items), Tree::Text(text)) if items == [text.clone()] => None,
            _ => return Err(absent(rest.first().map_or("", |word| &word.text))),
        };
        match left {
            Some(value) => self.put(&path, value).map(drop),
            None => {
                remove(self, &path.steps);
                Ok(())
            }
        }
    }
}

/// What a value becomes.
fn changed(old: Option<&Tree>, change: Change) -> Result<Tree, EditError> {
    Ok(match (change, old) {
        (Change::Be(tree), _) => tree,
        (Change::Line(line), None) => Tree::Text(format!("{line}\n")),
        (Change::Line(line), Some(Tree::Text(text))) => {
            if counts(&line) && text.lines().any(|other| other.trim() == line.trim()) {
                return Ok(Tree::Text(text.clone()));
            }
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            Tree::Text(format!("{text}{gap}{line}\n"))
        }
        (Change::Line(line), Some(Tree::List(list))) => {
            Tree::List(list.iter().cloned().chain([Tree::Text(format!("{line}\n"))]).collect())
        }
        (Change::Join(items) | Change::JoinOr(items), Some(Tree::List(list))) => {
            let mut list = list.clone();
            for item in items {
                if !list.iter().any(|other| other.text() == Some(&item)) {
                    list.push(Tree::Text(item));
                }
            }
            Tree::List(list)
        }
        (Change::Join(items), None) => Tree::List(items.into_iter().map(Tree::Text).collect()),
        (Change::JoinOr(mut items), old @ (None | Some(Tree::Text(_)))) => {
            if let Some(text) = old.and_then(Tree::text) {
                items.retain(|item| item != text);
                items.insert(0, text.to_owned());
            }
            match items.len() {
                1 => Tree::Text(items.remove(0)),
                _ => Tree::List(items.into_iter().map(Tree::Text).collect()),
            }
        }
        (_, Some(other)) => {
            let other = other.literal();
            return Err(EditError::Cannot(format!("it is {other}: delete it first")));
        }
    })
}

fn remove(tree: &mut Tree, steps: &[Step]) -> bool {
    let Some((step, rest)) = steps.split_first() else { return false };
    match (step, tree) {
        (Step::Key(name, _), Tree::Table(pairs)) => {
            let Some(at) = pairs.iter().position(|(key, _)| key == name) else { return false };
            if rest.is_empty() {
                pairs.remove(at);
                return true;
            }
            let removed = remove(&mut pairs[at].1, rest);
            // A list without anything is none.
            if removed && rest.len() == 1 && matches!(&pairs[at].1, Tree::List(list) if list.is_empty()) {
                pairs.remove(at);
            }
            removed
        }
        (Step::Element { by, value, nth }, Tree::List(list)) => {
            let Ok(at) = index(list.iter().map(|table| value_of(table, by)), value, *nth) else {
                return false;
            };
            if rest.is_empty() {
                list.remove(at);
                return true;
            }
            remove(&mut list[at], rest)
        }
        _ => false,
    }
}
