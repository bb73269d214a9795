//! The way to a place in a document as it is written: followed, made, and removed.

use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use crate::comments;
use crate::document::{EditError, index, written_value};
use crate::place::{Make, Step};

/// A table, and whether it stands in a line.
type Entered<'t> = (&'t mut dyn TableLike, bool);

/// The table at the end of steps; made where it is not there, if that is wanted.
pub(crate) fn enter<'t>(
    table: &'t mut Table,
    steps: &[Step],
    make: bool,
) -> Result<Option<&'t mut dyn TableLike>, EditError> {
    Ok(enter_from(table, steps, make, false)?.map(|(table, _)| table))
}

/// The same from any table; `in_line` says whether that one stands in a line.
pub(crate) fn enter_from<'t>(
    table: &'t mut dyn TableLike,
    steps: &[Step],
    make: bool,
    in_line: bool,
) -> Result<Option<Entered<'t>>, EditError> {
    let Some((step, rest)) = steps.split_first() else { return Ok(Some((table, in_line))) };
    let Step::Key(name, how) = step else {
        return Err(EditError::Cannot("that leads nowhere".to_owned()));
    };
    if !table.contains_key(name) {
        if !make {
            return Ok(None);
        }
        table.insert(name, made(*how, in_line));
    }
    let Some(item) = table.get_mut(name) else { return Ok(None) };
    let in_line = in_line || item.is_value();
    match rest.split_first() {
        Some((Step::Element { by, value, nth }, rest)) => {
            let Some(element) = element(item, by, value, *nth, make)? else { return Ok(None) };
            enter_from(element, rest, make, in_line)
        }
        _ => match item.as_table_like_mut() {
            Some(inner) => enter_from(inner, rest, make, in_line),
            None => Err(EditError::NoSection(name.clone())),
        },
    }
}

/// One of a list of tables; made as the next one where it is not there, if that is wanted.
fn element<'t>(
    item: &'t mut Item,
    by: &str,
    value: &str,
    nth: usize,
    make: bool,
) -> Result<Option<&'t mut dyn TableLike>, EditError> {
    let gap = |found: usize| EditError::Gap {
        word: crate::place::element_word(value, nth),
        next: crate::place::element_word(value, found + 1),
    };
    match item {
        Item::ArrayOfTables(list) => {
            let at = match index(list.iter().map(|table| written_value(table, by)), value, nth) {
                Ok(at) => at,
                Err(_) if !make => return Ok(None),
                Err(found) if found + 1 != nth => return Err(gap(found)),
                Err(_) => {
                    let mut table = Table::new();
                    if !value.is_empty() {
                        table.insert(by, toml_edit::value(value));
                    }
                    list.push(table);
                    list.len() - 1
                }
            };
            Ok(list.get_mut(at).map(|table| table as &mut dyn TableLike))
        }
        Item::Value(Value::Array(list)) => {
            let values = list.iter().map(|one| match one.as_inline_table() {
                Some(table) => written_value(table, by),
                // What is no table is none of these.
                None => "\u{0}".to_owned(),
            });
            let at = match index(values, value, nth) {
                Ok(at) => at,
                Err(_) if !make => return Ok(None),
                Err(found) if found + 1 != nth => return Err(gap(found)),
                Err(_) => {
                    let mut table = toml_edit::InlineTable::new();
                    if !value.is_empty() {
                        table.insert(by, value.into());
                    }
                    list.push(Value::InlineTable(table));
                    list.len() - 1
                }
            };
            Ok(list.get_mut(at).and_then(Value::as_inline_table_mut).map(|table| table as &mut dyn TableLike))
        }
        _ => Err(EditError::Cannot("that is no list of sections".to_owned())),
    }
}

/// What is made where nothing is: inside a line everything stands in that line.
pub(crate) fn made(how: Make, in_line: bool) -> Item {
    match how {
        Make::Tables if !in_line => Item::ArrayOfTables(toml_edit::ArrayOfTables::new()),
        Make::Tables | Make::Inlines => Item::Value(Value::Array(toml_edit::Array::new())),
        Make::Table | Make::Value if !in_line => {
            let mut table = Table::new();
            // A header comes with the first value.
            table.set_implicit(true);
            Item::Table(table)
        }
        _ => Item::Value(Value::InlineTable(toml_edit::InlineTable::new())),
    }
}

/// Removes what stands at a place, and leaves comments that stand apart from it. Whether there was
/// something.
pub(crate) fn remove(document: &mut DocumentMut, text: &str, steps: &[Step]) -> Result<bool, EditError> {
    let Some((last, way)) = steps.split_last() else {
        return Err(EditError::Cannot("say what; `load replace` puts another file in its place".to_owned()));
    };
    let at_the_top = |before: &str| !before.is_empty() && text.starts_with(before);
    let (after, comments) = match last {
        Step::Key(name, _) => {
            let root = document.as_table_mut();
            let Some(table) = enter(root, way, false)? else { return Ok(false) };
            if !table.contains_key(name) {
                return Ok(false);
            }
            let own = table.key(name).map(|key| comments::before(key.leaf_decor())).unwrap_or_default();
            let next = table.iter().skip_while(|(key, _)| key != name).skip(1);
            let next = next.filter(|(_, item)| item.is_value()).map(|(key, _)| key.to_owned()).next();
            match table.remove(name) {
                Some(Item::Value(_)) => {
                    let stays = comments::apart(&own, at_the_top(&own));
                    match next.and_then(|next| table.key_mut(&next)) {
                        Some(mut key) if !stays.is_empty() => {
                            let own = comments::before(key.leaf_decor());
                            key.leaf_decor_mut().set_prefix(format!("{stays}{own}"));
                            return Ok(true);
                        }
                        _ => (position(document, way), stays),
                    }
                }
                Some(Item::Table(table)) => stays(comments::heads(&table), at_the_top),
                Some(Item::ArrayOfTables(list)) => {
                    let mut heads: Vec<_> = list.iter().flat_map(comments::heads).collect();
                    heads.sort();
                    stays(heads, at_the_top)
                }
                _ => return Ok(false),
            }
        }
        Step::Element { by, value, nth } => {
            let Some((Step::Key(name, _), way)) = way.split_last() else { return Ok(false) };
            let root = document.as_table_mut();
            let Some(table) = enter(root, way, false)? else { return Ok(false) };
            let (found, empty) = match table.get_mut(name) {
                Some(Item::ArrayOfTables(list)) => {
                    match index(list.iter().map(|table| written_value(table, by)), value, *nth) {
                        Ok(at) => {
                            let found = stays(comments::heads(&list.remove(at)), at_the_top);
                            (found, list.is_empty())
                        }
                        Err(_) => return Ok(false),
                    }
                }
                Some(Item::Value(Value::Array(list))) => {
                    let values = list.iter().map(|one| {
                        one.as_inline_table().map_or("\u{0}".to_owned(), |one| written_value(one, by))
                    });
                    match index(values, value, *nth) {
                        Ok(at) => {
                            list.remove(at);
                            ((0, String::new()), list.is_empty())
                        }
                        Err(_) => return Ok(false),
                    }
                }
                _ => return Ok(false),
            };
            if empty {
                table.remove(name);
            }
            found
        }
    };
    comments::leave(document, after, &comments);
    Ok(true)
}

/// Where removed tables stood, and the comments of theirs that stay.
pub(crate) fn stays(heads: Vec<(isize, String)>, at_the_top: impl Fn(&str) -> bool) -> (isize, String) {
    let after = heads.first().map_or(isize::MAX, |(at, _)| *at);
    let comments = heads.iter().map(|(_, before)| comments::apart(before, at_the_top(before))).collect();
    (after, comments)
}

/// The position of the table at the end of steps, or of the last one above it.
fn position(document: &DocumentMut, steps: &[Step]) -> isize {
    let mut at = 0;
    let mut item = Some(document.as_item());
    for step in steps {
        item = match (step, item) {
            (Step::Key(name, _), Some(item)) => item.get(name),
            (Step::Element { by, value, nth }, Some(Item::ArrayOfTables(list))) => {
                let found = index(list.iter().map(|table| written_value(table, by)), value, *nth).ok();
                at = found.and_then(|at| list.get(at)?.position()).unwrap_or(at);
                return at;
            }
            _ => None,
        };
        at = item.and_then(Item::as_table).and_then(Table::position).unwrap_or(at);
    }
    at
}
