//! A document that says something else as a whole: what stays is not touched, with its comments and
//! its place; what comes is written behind what is of its kind.

use std::collections::HashMap;

use config::schema::{Key, ROOT, Shape, find};
use toml_edit::{Array, ArrayOfTables, InlineTable, Item, Table, TableLike, Value};

use crate::comments;
use crate::document::{Document, EditError};
use crate::tree::Tree;
use crate::way::stays;
use crate::written::{lines_value, push, value_of};

impl Document {
    /// Makes it say this, and leaves all that says so already as it is written.
    ///
    /// # Errors
    /// What cannot be written down; then it stays as it is.
    pub fn be(&mut self, after: &Tree) -> Result<(), EditError> {
        let before = self.tree();
        if before.same(after) {
            return Ok(());
        }
        if !matches!(after, Tree::Table(_)) {
            return Err(EditError::Cannot("a configuration is a table".to_owned()));
        }
        let mut document = self.open();
        let mut work = Work { text: self.text(), left: Vec::new(), reordered: false };
        work.table(document.as_table_mut(), Below::Keys(ROOT), [&before, after], 0, false);
        let Work { left, reordered, .. } = work;
        for (position, comments) in left {
            comments::leave(&mut document, position, &comments);
        }
        let mut made = self.clone();
        if reordered {
            made.renumbered(document)?
        } else {
            made.close(document)?
        }
        if !made.tree().same(after) {
            return Err(EditError::Cannot("that cannot be written down".to_owned()));
        }
        *self = made;
        Ok(())
    }
}

/// What the keys of a table are.
#[derive(Clone, Copy)]
enum Below {
    Keys(&'static [Key]),
    Names(&'static [Key]),
    Map(&'static Shape),
    Unknown,
}

/// What stands under one of them.
#[derive(Clone, Copy)]
enum Child {
    Shape(&'static Shape),
    Keys(&'static [Key]),
    Unknown,
}

impl Below {
    fn child(self, name: &str) -> Child {
        match self {
            Below::Keys(keys) => find(keys, name).map_or(Child::Unknown, |key| Child::Shape(&key.shape)),
            Below::Names(keys) => Child::Keys(keys),
            Below::Map(shape) => Child::Shape(shape),
            Below::Unknown => Child::Unknown,
        }
    }
}

impl Child {
    fn below(self) -> Below {
        match self {
            Child::Keys(keys) => Below::Keys(keys),
            Child::Shape(Shape::Table(keys) | Shape::Inline(keys)) => Below::Keys(keys),
            Child::Shape(Shape::Named { keys, .. }) => Below::Names(keys),
            Child::Shape(Shape::Map { value, .. }) => Below::Map(value),
            _ => Below::Unknown,
        }
    }

    /// Of a list: what its tables are told apart by, their keys, and whether they stand in a line.
    fn listed(self) -> (&'static str, Below, bool) {
        match self {
            Child::Shape(Shape::Listed { by, keys, inline }) => (by, Below::Keys(keys), *inline),
            _ => ("", Below::Unknown, true),
        }
    }
}

struct Work<'t> {
    text: &'t str,
    /// Comments that stay, and behind which position.
    left: Vec<(isize, String)>,
    /// Tables stand in another order than they did.
    reordered: bool,
}

impl Work<'_> {
    /// `at` is the position of the table, or of the last one above it.
    fn table(
        &mut self,
        table: &mut dyn TableLike,
        below: Below,
        [before, after]: [&Tree; 2],
        at: isize,
        in_line: bool,
    ) {
        let (Tree::Table(old), Tree::Table(new)) = (before, after) else { return };
        let known: HashMap<&str, &Tree> = old.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let wanted: HashMap<&str, &Tree> = new.iter().map(|(name, value)| (name.as_str(), value)).collect();
        for (name, _) in old.iter().filter(|(name, _)| !wanted.contains_key(name.as_str())) {
            self.remove(table, name, at);
        }
        for (name, value) in new {
            let child = below.child(name);
            match known.get(name.as_str()) {
                Some(before) if before.same(value) => {}
                Some(before) if self.inside(table, name, child, [before, value], at, in_line) => {}
                was => {
                    if was.is_some() {
                        self.remove(table, name, at);
                    }
                    table.insert(name, written(child, value, in_line));
                    if in_line {
                        table.fmt();
                    }
                }
            }
        }
    }

    /// Changes what stands there without replacing it, if that can be.
    fn inside(
        &mut self,
        table: &mut dyn TableLike,
        name: &str,
        child: Child,
        [before, after]: [&Tree; 2],
        at: isize,
        in_line: bool,
    ) -> bool {
        match (table.get_mut(name), before, after) {
            (Some(Item::Table(inner)), Tree::Table(_), Tree::Table(pairs)) => {
                let at = inner.position().unwrap_or(at);
                self.table(inner, child.below(), [before, after], at, in_line);
                if pairs.is_empty() {
                    inner.set_implicit(false);
                }
                true
            }
            (Some(Item::Value(Value::InlineTable(inner))), Tree::Table(_), Tree::Table(_)) => {
                self.table(inner, child.below(), [before, after], at, true);
                true
            }
            (Some(Item::ArrayOfTables(list)), Tree::List(old), Tree::List(new))
                if !new.is_empty() && new.iter().all(|one| matches!(one, Tree::Table(_))) =>
            {
                self.tables(list, child, old, new);
                true
            }
            (Some(Item::Value(Value::Array(list))), Tree::List(old), Tree::List(new)) => {
                self.array(list, child, old, new);
                true
            }
            (Some(Item::Value(old)), _, after) => {
                let Item::Value(mut value) = written(child, after, true) else { return false };
                *value.decor_mut() = old.decor().clone();
                *old = value;
                true
            }
            _ => false,
        }
    }

    fn tables(&mut self, list: &mut ArrayOfTables, child: Child, before: &[Tree], after: &[Tree]) {
        let (by, below, _) = child.listed();
        let places: HashMap<(String, usize), usize> =
            ids(by, before).into_iter().enumerate().map(|(at, id)| (id, at)).collect();
        let mut old: Vec<Option<Table>> = std::mem::take(list).into_iter().map(Some).collect();
        let (mut last, mut new) = (None, false);
        for (id, wanted) in ids(by, after).into_iter().zip(after) {
            let kept = places.get(&id).and_then(|at| Some((*at, old.get_mut(*at)?.take()?)));
            match kept {
                Some((at, mut table)) => {
                    self.reordered |= new || last.is_some_and(|last| last > at);
                    last = Some(at);
                    if !before[at].same(wanted) {
                        let position = table.position().unwrap_or(0);
                        self.table(&mut table, below, [&before[at], wanted], position, false);
                    }
                    list.push(table);
                }
                None => {
                    new = true;
                    list.push(table_of(below, wanted));
                }
            }
        }
        let mut heads: Vec<_> = old.iter().flatten().flat_map(comments::heads).collect();
        heads.sort();
        self.leave(stays(heads, |before| self.is_top(before)));
    }

    fn array(&mut self, list: &mut Array, child: Child, before: &[Tree], after: &[Tree]) {
        let (by, below, _) = child.listed();
        let places: HashMap<(String, usize), usize> =
            ids(by, before).into_iter().enumerate().map(|(at, id)| (id, at)).collect();
        let mut old: Vec<Option<Value>> = list.iter().cloned().map(Some).collect();
        list.clear();
        for (id, wanted) in ids(by, after).into_iter().zip(after) {
            let kept = places.get(&id).and_then(|at| Some((*at, old.get_mut(*at)?.take()?)));
            match kept {
                Some((at, mut value)) => {
                    if let (Value::InlineTable(table), false) = (&mut value, before[at].same(wanted)) {
                        self.table(table, below, [&before[at], wanted], 0, true);
                    }
                    if list.is_empty() && value.decor().prefix().and_then(|raw| raw.as_str()) == Some(" ") {
                        value.decor_mut().set_prefix("");
                    }
                    list.push_formatted(value);
                }
                None => push(list, inline(below, wanted)),
            }
        }
    }

    fn remove(&mut self, table: &mut dyn TableLike, name: &str, at: isize) {
        let own = table.key(name).map(|key| comments::before(key.leaf_decor())).unwrap_or_default();
        let next = table.iter().skip_while(|(key, _)| *key != name).skip(1);
        let next = next.filter(|(_, item)| item.is_value()).map(|(key, _)| key.to_owned()).next();
        let left = match table.remove(name) {
            Some(Item::Value(_)) => {
                let left = comments::apart(&own, self.is_top(&own));
                match next.and_then(|next| table.key_mut(&next)) {
                    Some(mut key) if !left.is_empty() => {
                        let own = comments::before(key.leaf_decor());
                        key.leaf_decor_mut().set_prefix(format!("{left}{own}"));
                        return;
                    }
                    _ => (at, left),
                }
            }
            Some(Item::Table(table)) => stays(comments::heads(&table), |before| self.is_top(before)),
            Some(Item::ArrayOfTables(list)) => {
                let mut heads: Vec<_> = list.iter().flat_map(comments::heads).collect();
                heads.sort();
                stays(heads, |before| self.is_top(before))
            }
            _ => return,
        };
        self.leave(left);
    }

    fn leave(&mut self, (position, comments): (isize, String)) {
        if !comments.is_empty() {
            self.left.push((position, comments));
        }
    }

    fn is_top(&self, before: &str) -> bool {
        !before.is_empty() && self.text.starts_with(before)
    }
}

/// What tells each of a list from the others.
fn ids(by: &str, list: &[Tree]) -> Vec<(String, usize)> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let id = |one: &Tree| match one {
        Tree::Table(_) => {
            let value = Some(by).filter(|by| !by.is_empty()).and_then(|by| one.get(by)?.text());
            value.unwrap_or_default().to_owned()
        }
        other => other.literal(),
    };
    let mut numbered = |id: String| {
        let nth = seen.entry(id.clone()).or_default();
        *nth += 1;
        (id, *nth)
    };
    list.iter().map(|one| numbered(id(one))).collect()
}

/// What is made where nothing is.
fn written(child: Child, tree: &Tree, in_line: bool) -> Item {
    let in_line = in_line || matches!(child, Child::Shape(Shape::Inline(_)));
    match (tree, child) {
        (Tree::Table(_), _) if !in_line => Item::Table(table_of(child.below(), tree)),
        (Tree::List(list), Child::Shape(Shape::Listed { inline: false, .. }))
            if !in_line && !list.is_empty() && list.iter().all(|one| matches!(one, Tree::Table(_))) =>
        {
            let (_, below, _) = child.listed();
            let mut tables = ArrayOfTables::new();
            list.iter().for_each(|one| tables.push(table_of(below, one)));
            Item::ArrayOfTables(tables)
        }
        (Tree::List(list), _) => {
            let (_, below, _) = child.listed();
            Item::Value(Value::Array(list.iter().map(|one| inline(below, one)).collect()))
        }
        (Tree::Text(text), Child::Shape(Shape::Lines(_))) if text.contains('\n') => {
            Item::Value(lines_value(text))
        }
        (tree, child) => Item::Value(inline(child.below(), tree)),
    }
}

fn table_of(below: Below, tree: &Tree) -> Table {
    let mut table = Table::new();
    let Tree::Table(pairs) = tree else { return table };
    for (name, value) in pairs {
        table.insert(name, written(below.child(name), value, false));
    }
    // A header that says nothing is left out.
    table.set_implicit(!pairs.is_empty() && table.iter().all(|(_, item)| !item.is_value()));
    table
}

fn inline(below: Below, tree: &Tree) -> Value {
    match tree {
        Tree::Table(pairs) => {
            let mut table = InlineTable::new();
            for (name, value) in pairs {
                table.insert(name, inline(below.child(name).below(), value));
            }
            Value::InlineTable(table)
        }
        Tree::List(list) => Value::Array(list.iter().map(|one| inline(Below::Unknown, one)).collect()),
        other => value_of(other),
    }
}
