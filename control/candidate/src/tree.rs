//! What a document says, without its looks.

use toml_edit::{Item, TableLike, Value};

use crate::words::quoted;

/// A value, a list or a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `true` or `false`.
    Flag(bool),
    /// A date or a number with a fraction, as it is printed.
    Other(String),
    /// A list, also one of tables.
    List(Vec<Tree>),
    /// A table, in the order of the document.
    Table(Vec<(String, Tree)>),
}

impl Tree {
    /// Whether both say the same. The order of a table's keys says nothing.
    pub fn same(&self, other: &Tree) -> bool {
        match (self, other) {
            (Tree::List(a), Tree::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
            (Tree::Table(a), Tree::Table(b)) => {
                a.len() == b.len() && a.iter().all(|(key, a)| other.get(key).is_some_and(|b| a.same(b)))
            }
            _ => self == other,
        }
    }

    /// What a table has under a key.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        match self {
            Tree::Table(table) => table.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// In TOML, in a line.
    pub fn literal(&self) -> String {
        match self {
            Tree::Text(text) => quoted(text),
            Tree::Number(number) => number.to_string(),
            Tree::Flag(flag) => flag.to_string(),
            Tree::Other(text) => text.clone(),
            Tree::List(list) => {
                format!("[{}]", list.iter().map(Tree::literal).collect::<Vec<_>>().join(", "))
            }
            Tree::Table(table) if table.is_empty() => "{}".to_owned(),
            Tree::Table(table) => {
                let pairs = table.iter().map(|(key, value)| format!("{} = {}", quoted(key), value.literal()));
                format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// As JSON. Dates, and numbers that JSON does not have, are texts.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Tree::Text(text) => text.as_str().into(),
            Tree::Number(number) => (*number).into(),
            Tree::Flag(flag) => (*flag).into(),
            Tree::Other(text) => match text.parse::<f64>().ok().and_then(serde_json::Number::from_f64) {
                Some(number) => number.into(),
                None => text.as_str().into(),
            },
            Tree::List(list) => list.iter().map(Tree::json).collect(),
            Tree::Table(table) => serde_json::Value::Object(
                table.iter().map(|(key, value)| (key.clone(), value.json())).collect(),
            ),
        }
    }

    pub(crate) fn of_item(item: &Item) -> Tree {
        match item {
            Item::None => Tree::Table(Vec::new()),
            Item::Value(value) => Tree::of_value(value),
            Item::Table(table) => Tree::of_table(table),
            Item::ArrayOfTables(list) => Tree::List(list.iter().map(|table| Tree::of_table(table)).collect()),
        }
    }

    pub(crate) fn of_table(table: &dyn TableLike) -> Tree {
        // A table that is only on the way to others, and leads to none any more, is not written.
        let is_there = |item: &Item| match item {
            Item::Table(table) => !(table.is_implicit() && is_bare(table)),
            Item::ArrayOfTables(list) => !list.is_empty(),
            item => !item.is_none(),
        };
        let pairs = table.iter().filter(|(_, item)| is_there(item));
        Tree::Table(pairs.map(|(key, item)| (key.to_owned(), Tree::of_item(item))).collect())
    }

    pub(crate) fn of_value(value: &Value) -> Tree {
        match value {
            Value::String(text) => Tree::Text(text.value().clone()),
            Value::Integer(number) => Tree::Number(*number.value()),
            Value::Boolean(flag) => Tree::Flag(*flag.value()),
            Value::Float(_) | Value::Datetime(_) => {
                let mut bare = value.clone();
                bare.decor_mut().clear();
                Tree::Other(bare.to_string().trim().to_owned())
            }
            Value::Array(list) => Tree::List(list.iter().map(Tree::of_value).collect()),
            Value::InlineTable(table) => Tree::of_table(table),
        }
    }
}

/// Whether nothing of it would be written.
fn is_bare(table: &toml_edit::Table) -> bool {
    table.iter().all(|(_, item)| match item {
        Item::Table(inner) => inner.is_implicit() && is_bare(inner),
        Item::ArrayOfTables(list) => list.is_empty(),
        item => item.is_none(),
    })
}
