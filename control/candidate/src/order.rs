//! The order of what stands in lists: rules, routes, lines, addresses.

use config::schema::Shape;
use toml_edit::{ArrayOfTables, Item, Table, Value};

use crate::document::{Document, EditError, find, index, written_value};
use crate::edit::unplaced;
use crate::place::{Path, Spot, Step};
use crate::tree::Tree;
use crate::value::{Change, change, counts};
use crate::way::enter;
use crate::words::Word;
use crate::written::{lines_value, value_of};

/// Where something goes.
enum Goal<'w> {
    First,
    Last,
    Before(&'w [Word]),
    After(&'w [Word]),
}

const EXPECTED: &str = "what, then `first`, `last`, or `before` or `after` and another one";

impl Document {
    /// `insert PATH WHAT first|last`, `insert PATH WHAT before|after OTHER`.
    pub(crate) fn insert(&mut self, line: &str, words: &[Word]) -> Result<(), EditError> {
        let expected = || EditError::NoValue { expected: EXPECTED.to_owned() };
        let (what, goal) = match words.split_last() {
            Some((last, rest)) if last.is("first") => (rest, Goal::First),
            Some((last, rest)) if last.is("last") => (rest, Goal::Last),
            _ => {
                let at = words
                    .iter()
                    .rposition(|word| word.is("before") || word.is("after"))
                    .ok_or_else(expected)?;
                let other = &words[at + 1..];
                let before = words[at].is("before");
                (&words[..at], if before { Goal::Before(other) } else { Goal::After(other) })
            }
        };
        let path = Path::follow(what)?;
        match path.spot {
            Spot::Value(Shape::Lines(_)) => self.insert_line(line, &path, &what[path.used..], goal),
            Spot::Value(Shape::List(_) | Shape::OneOrMore(_)) => {
                self.insert_item(&path, &what[path.used..], goal)
            }
            Spot::Keys(_)
                if path.used == what.len() && matches!(path.steps.last(), Some(Step::Element { .. })) =>
            {
                self.insert_table(&path, goal)
            }
            _ => Err(expected()),
        }
    }

    fn insert_line(&mut self, line: &str, path: &Path, what: &[Word], goal: Goal) -> Result<(), EditError> {
        let shape = Shape::Lines(config::schema::What::Rule);
        let text_of = |words: &[Word]| match change(&shape, line, words)? {
            Change::Line(text) => Ok(text),
            _ => Err(EditError::NoValue { expected: EXPECTED.to_owned() }),
        };
        let new = text_of(what)?;
        let tree = self.tree();
        let old = match find(&tree, &path.steps) {
            None => "",
            Some(Tree::Text(text)) => text,
            Some(_) => {
                return Err(EditError::Cannot("these are lists of rules: set them by = in TOML".to_owned()));
            }
        };
        let mut lines: Vec<String> = old.lines().map(str::to_owned).collect();
        let moved = line_index(old, &new).map(|at| lines.remove(at));
        let new = moved.unwrap_or(new);
        let rest = lines.join("\n");
        let place = |words: &[Word]| {
            let other = text_of(words)?;
            line_index(&rest, &other).ok_or(EditError::Absent(other))
        };
        let at = match goal {
            Goal::First => 0,
            Goal::Last => lines.len(),
            Goal::Before(words) => place(words)?,
            Goal::After(words) => place(words)? + 1,
        };
        lines.insert(at, new);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.value(path, lines_value(&text))
    }

    fn insert_item(&mut self, path: &Path, what: &[Word], goal: Goal) -> Result<(), EditError> {
        let [new] = what else { return Err(EditError::NoValue { expected: EXPECTED.to_owned() }) };
        let tree = self.tree();
        let mut list: Vec<Tree> = match find(&tree, &path.steps) {
            None => Vec::new(),
            Some(Tree::List(list)) => list.clone(),
            Some(one) => vec![one.clone()],
        };
        list.retain(|item| item.text() != Some(&new.text));
        let place = |words: &[Word]| match words {
            [other] => {
                let at = list.iter().position(|item| item.text() == Some(&other.text));
                at.ok_or_else(|| EditError::Absent(other.text.clone()))
            }
            _ => Err(EditError::NoValue { expected: EXPECTED.to_owned() }),
        };
        let at = match goal {
            Goal::First => 0,
            Goal::Last => list.len(),
            Goal::Before(words) => place(words)?,
            Goal::After(words) => place(words)? + 1,
        };
        list.insert(at, Tree::Text(new.text.clone()));
        let alone = list.len() == 1 && matches!(path.spot, Spot::Value(Shape::OneOrMore(_)));
        let value = if alone { list.swap_remove(0) } else { Tree::List(list) };
        self.value(path, value_of(&value))
    }

    fn value(&mut self, path: &Path, mut value: Value) -> Result<(), EditError> {
        let Some((Step::Key(name, _), way)) = path.steps.split_last() else { return Ok(()) };
        let mut document = self.open();
        let Some(table) = enter(document.as_table_mut(), way, true)? else { return Ok(()) };
        match table.get_mut(name) {
            Some(Item::Value(old)) => {
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            _ => drop(table.insert(name, Item::Value(value))),
        }
        self.close(document)
    }

    fn insert_table(&mut self, path: &Path, goal: Goal) -> Result<(), EditError> {
        let mut document = self.open();
        let absent = || EditError::Absent(path.canonical().join(" "));
        let (Step::Element { by, value, nth }, Step::Key(name, _), way) =
            split(&path.steps).ok_or_else(absent)?
        else {
            return Err(absent());
        };
        let Some(table) = enter(document.as_table_mut(), way, false)? else { return Err(absent()) };
        let item = table.get_mut(name).ok_or_else(absent)?;
        let values: Vec<String> = match &*item {
            Item::ArrayOfTables(list) => list.iter().map(|table| written_value(table, by)).collect(),
            Item::Value(Value::Array(list)) => {
                let of = |one: &Value| {
                    one.as_inline_table().map_or("\u{0}".to_owned(), |one| written_value(one, by))
                };
                list.iter().map(of).collect()
            }
            _ => return Err(absent()),
        };
        let from = index(values.iter(), value, *nth).map_err(|_| absent())?;
        let place = |words: &[Word]| -> Result<usize, EditError> {
            let [other] = words else { return Err(EditError::NoValue { expected: EXPECTED.to_owned() }) };
            let whole: Vec<Word> = path_words(path, &other.text);
            match Path::follow(&whole)?.steps.last() {
                Some(Step::Element { value, nth, .. }) => {
                    index(values.iter(), value, *nth).map_err(|_| EditError::Absent(other.text.clone()))
                }
                _ => Err(absent()),
            }
        };
        let to = match goal {
            Goal::First => 0,
            Goal::Last => values.len(),
            Goal::Before(words) => place(words)?,
            Goal::After(words) => place(words)? + 1,
        };
        // Its own place is gone when it is put in.
        let to = if from < to { to - 1 } else { to };
        match item {
            Item::ArrayOfTables(list) => {
                let table = list.get(from).cloned().unwrap_or_default();
                list.remove(from);
                list.insert(to, table);
            }
            Item::Value(Value::Array(list)) => {
                let value = list.remove(from);
                list.insert(to, value);
            }
            _ => return Err(absent()),
        }
        self.renumbered(document)
    }
}

/// An element, the key of its list, and the way there.
fn split(steps: &[Step]) -> Option<(&Step, &Step, &[Step])> {
    let (element, rest) = steps.split_last()?;
    let (list, way) = rest.split_last()?;
    Some((element, list, way))
}

/// The words of a path to another one of the same list.
fn path_words(path: &Path, other: &str) -> Vec<Word> {
    let mut words = path.canonical();
    words.pop();
    words.push(crate::words::quote(other));
    crate::words::split(&words.join(" ")).unwrap_or_default()
}

/// Which line of a text is meant: by what it says, or by `#N`, which counts rules alone.
pub(crate) fn line_index(text: &str, meant: &str) -> Option<usize> {
    let meant = meant.trim();
    if let Some(number) = meant.strip_prefix('#').and_then(|number| number.parse::<usize>().ok()) {
        let mut rules = text.lines().enumerate().filter(|(_, line)| counts(line));
        return rules.nth(number.checked_sub(1)?).map(|(at, _)| at);
    }
    text.lines().position(|line| line.trim() == meant)
}

/// Makes a table of a list again, at the end of the list.
pub(crate) fn double(root: &mut Table, steps: &[Step]) -> Result<(), EditError> {
    let absent = || EditError::Absent("such an entry".to_owned());
    let (Step::Element { by, value, nth }, Step::Key(name, _), way) = split(steps).ok_or_else(absent)? else {
        return Err(absent());
    };
    let Some(table) = enter(root, way, false)? else { return Err(absent()) };
    match table.get_mut(name) {
        Some(Item::ArrayOfTables(list)) => {
            let at = found(list, by, value, *nth).ok_or_else(absent)?;
            let mut copy = list.get(at).cloned().unwrap_or_default();
            unplaced(&mut copy);
            list.push(copy);
        }
        Some(Item::Value(Value::Array(list))) => {
            let of =
                |one: &Value| one.as_inline_table().map_or("\u{0}".to_owned(), |one| written_value(one, by));
            let at = index(list.iter().map(of), value, *nth).map_err(|_| absent())?;
            let mut copy = list.get(at).cloned().ok_or_else(absent)?;
            copy.decor_mut().clear();
            list.push(copy);
        }
        _ => return Err(absent()),
    }
    Ok(())
}

fn found(list: &ArrayOfTables, by: &str, value: &str, nth: usize) -> Option<usize> {
    index(list.iter().map(|table| written_value(table, by)), value, nth).ok()
}

/// The steps to the last one of the same value.
pub(crate) fn last_of(steps: &[Step], root: &mut Table) -> Result<Vec<Step>, EditError> {
    let absent = || EditError::Absent("such an entry".to_owned());
    let (Step::Element { by, value, .. }, Step::Key(name, _), way) = split(steps).ok_or_else(absent)? else {
        return Err(absent());
    };
    let Some(table) = enter(root, way, false)? else { return Err(absent()) };
    let count = match table.get(name) {
        Some(Item::ArrayOfTables(list)) => {
            list.iter().filter(|one| written_value(*one, by) == *value).count()
        }
        Some(Item::Value(Value::Array(list))) => list
            .iter()
            .filter_map(Value::as_inline_table)
            .filter(|one| written_value(*one, by) == *value)
            .count(),
        _ => 0,
    };
    let mut steps = steps.to_vec();
    steps.pop();
    steps.push(Step::Element { by, value: value.clone(), nth: count });
    Ok(steps)
}
