//! One argument of a configuration replaced, as Click's handlers for single arguments do it.

use super::reading::{Mark, mark};
use crate::language::split_arguments;

/// The configuration with another value for an argument. What gives it by keyword goes, and the new
/// one stands at the end with its keyword; else it stands at its position, if that is there.
pub(crate) fn replace(configuration: &str, position: Option<usize>, keyword: &str, value: &str) -> String {
    let mut texts: Vec<String> = split_arguments(configuration).into_iter().map(|piece| piece.text).collect();
    let is_it = |text: &String| mark(text) == Mark::Keyword(keyword.len()) && text.starts_with(keyword);
    let count = texts.len();
    texts.retain(|text| !is_it(text));
    let place = position.filter(|_| texts.len() == count).and_then(|position| texts.get_mut(position));
    match place.filter(|text| mark(text) == Mark::Positional) {
        Some(place) => value.clone_into(place),
        None => texts.push(format!("{keyword} {value}")),
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_replaced_where_it_stands() {
        let with = |configuration| replace(configuration, Some(1), "SRC", "x");
        assert_eq!(with("1, a, 3"), "1, x, 3");
        assert_eq!(with("1, DST b, SRC a"), "1, DST b, SRC x");
        assert_eq!(with("SRC a, SRC b, 3"), "3, SRC x");
        assert_eq!(with("1"), "1, SRC x");
        assert_eq!(with("1, TTL 3"), "1, TTL 3, SRC x");
        assert_eq!(with(""), "SRC x");
        assert_eq!(replace("1, a", None, "SRC", "x"), "1, a, SRC x");
    }
}
