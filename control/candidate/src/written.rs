//! Values as they are written into a document.

use toml_edit::{Array, Value};

use crate::tree::Tree;

/// Adds to a list, in the way in which its items stand.
pub(crate) fn push(list: &mut Array, mut value: Value) {
    let last = list.iter().last().and_then(|last| last.decor().prefix()?.as_str().map(str::to_owned));
    match last {
        // One item a line: so is the new one. A comment in front of the last one is not its own.
        Some(before) if before.contains('\n') && list.len() > 1 => {
            let indent = before.rsplit('\n').next().unwrap_or_default();
            value.decor_mut().set_prefix(format!("\n{indent}"));
            value.decor_mut().set_suffix("");
            // What stands behind the last one, as a comment does, stays there.
            let suffix = list.len().checked_sub(1).and_then(|at| list.get_mut(at));
            if let Some(last) = suffix {
                let behind =
                    last.decor().suffix().and_then(|raw| raw.as_str()).unwrap_or_default().to_owned();
                if behind.trim().is_empty() {
                    last.decor_mut().set_suffix("");
                    value.decor_mut().set_suffix(behind);
                }
            }
            list.push_formatted(value);
        }
        _ => list.push(value),
    }
}

/// A value as it is written.
pub(crate) fn value_of(tree: &Tree) -> Value {
    match tree {
        Tree::Text(text) => Value::from(text.as_str()),
        Tree::Number(number) => Value::from(*number),
        Tree::Flag(flag) => Value::from(*flag),
        Tree::Other(_) | Tree::Table(_) => tree.literal().parse().unwrap_or_else(|_| Value::from("")),
        Tree::List(list) => Value::Array(list.iter().map(value_of).collect()),
    }
}

/// A text of several lines as it is written: a line each.
pub(crate) fn lines_value(text: &str) -> Value {
    let plain = |c: char| c == '\n' || c == '\t' || !c.is_control();
    let body = text.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    let written = format!("\"\"\"\n{body}\"\"\"").parse::<Value>().ok();
    let same = written.filter(|value| value.as_str() == Some(text) && text.chars().all(plain));
    same.unwrap_or_else(|| Value::from(text))
}
