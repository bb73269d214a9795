//! Secrets of a configuration, covered before anybody is shown it.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys whose values nobody is to read, wherever they stand.
const SECRET: [&str; 2] = ["key", "secret"];

/// The text with each secret's value replaced by `"***"`.
pub(crate) fn covered(text: &str, root: &DeTable<'_>) -> String {
    let mut found = Vec::new();
    in_table(root, &mut found);
    found.sort_by_key(|at| at.start);
    let mut covered = text.to_owned();
    for at in found.into_iter().rev() {
        if text.get(at.clone()).is_some() {
            covered.replace_range(at, "\"***\"");
        }
    }
    covered
}

fn in_table(table: &DeTable<'_>, found: &mut Vec<Range<usize>>) {
    for (key, value) in table.iter() {
        if SECRET.contains(&key.get_ref().as_ref()) && !matches!(value.get_ref(), DeValue::Table(_)) {
            found.push(value.span());
        } else {
            in_value(value, found);
        }
    }
}

fn in_value(value: &Spanned<DeValue<'_>>, found: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Table(table) => in_table(table, found),
        DeValue::Array(array) => array.iter().for_each(|value| in_value(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_secrets_is_covered() {
        let text = "# a comment\n[paths]\nkey = \"0123456789\" # mine\n[[port]]\nname = \"m0\"\nmemif = { socket = \"/s\", secret = 'x' }\n";
        let (root, errors) = DeTable::parse_recoverable(text);
        assert!(errors.is_empty());
        let covered = covered(text, root.get_ref());
        assert_eq!(covered, text.replace("\"0123456789\"", "\"***\"").replace("'x'", "\"***\""));
    }
}
