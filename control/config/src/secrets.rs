//! Secrets of a configuration, covered before anybody is shown it.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A secret that the router uses. No message has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The secret itself, for whoever it is for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Keys whose values nobody is to read, wherever they stand.
const SECRET: [&str; 7] =
    ["key", "secret", "password", "area_password", "domain_password", "private_key", "preshared_key"];
/// Where a `private_key` is no secret, but the file that has it.
const NAMES_FILES: &str = "api";
/// What is shown in the place of a secret.
const COVER: &str = "\"***\"";
/// The same for a secret that is not the one compared with.
const OTHER: &str = "\"*** another\"";

/// The text with each secret's value replaced by `"***"`.
pub fn covered(text: &str) -> String {
    replaced(text, |_| COVER)
}

/// Both texts, covered. A secret of `after` that `before` does not have is told to be another one:
/// else nobody would see that it changes.
pub fn covered_both(before: &str, after: &str) -> [String; 2] {
    let known: Vec<&str> = places(before).into_iter().map(|at| &before[at]).collect();
    [covered(before), replaced(after, |secret| if known.contains(&secret) { COVER } else { OTHER })]
}

/// Whether a key of this name has a secret.
pub fn is_secret(key: &str) -> bool {
    SECRET.contains(&key)
}

/// Whether a text is what is shown in the place of a secret.
pub fn is_cover(text: &str) -> bool {
    text == COVER.trim_matches('"')
}

/// Whether a value is what is shown in the place of one.
pub(crate) fn is_covered(value: &str) -> bool {
    value == COVER || value == OTHER
}

fn replaced(text: &str, by: impl Fn(&str) -> &'static str) -> String {
    let mut covered = text.to_owned();
    for at in places(text).into_iter().rev() {
        covered.replace_range(at.clone(), by(&text[at]));
    }
    covered
}

/// Where secrets stand in a text, in order. In what is not TOML every line that looks like one is.
pub(crate) fn places(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    match DeTable::parse(text) {
        Ok(root) => {
            for (key, value) in root.get_ref().iter() {
                match value.get_ref() {
                    DeValue::Table(table) => in_table(table, key.get_ref() == NAMES_FILES, &mut found),
                    _ => in_pair(key.get_ref(), value, &mut found),
                }
            }
        }
        Err(_) => in_lines(text, &mut found),
    }
    found.retain(|at| text.get(at.clone()).is_some());
    found.sort_by_key(|at| at.start);
    found
}

fn in_lines(text: &str, found: &mut Vec<Range<usize>>) {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let secret = SECRET.iter().filter_map(|key| line.find(key)).min();
        let value = secret.and_then(|at| Some(at + line[at..].find('=')? + 1));
        found.extend(value.map(|at| start + at..start + line.trim_end().len()));
        start += line.len();
    }
    found.retain(|at| !at.is_empty());
}

fn in_table(table: &DeTable<'_>, names_files: bool, found: &mut Vec<Range<usize>>) {
    let of_file = |key: &str| names_files && key == "private_key";
    table.iter().filter(|(key, _)| !of_file(key.get_ref())).for_each(|(key, value)| {
        in_pair(key.get_ref(), value, found);
    });
}

fn in_pair(key: &str, value: &Spanned<DeValue<'_>>, found: &mut Vec<Range<usize>>) {
    match is_secret(key) && !matches!(value.get_ref(), DeValue::Table(_)) {
        true => found.push(value.span()),
        false => in_value(value, found),
    }
}

fn in_value(value: &Spanned<DeValue<'_>>, found: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Table(table) => in_table(table, false, found),
        DeValue::Array(array) => array.iter().for_each(|value| in_value(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Key, Shape, What};

    const TEXT: &str = "# a comment\n[paths]\nkey = \"0123456789\" # mine\n[[port]]\nname = \"m0\"\n\
                        memif = { socket = \"/s\", secret = 'x' }\n\
                        [api]\nprivate_key = \"api.key\"\n";

    #[test]
    fn nothing_but_secrets_is_covered() {
        let expected = TEXT.replace("\"0123456789\"", COVER).replace("'x'", COVER);
        assert_eq!(covered(TEXT), expected);
        let [before, after] = covered_both(TEXT, &TEXT.replace("'x'", "'y'"));
        assert_eq!(
            (&before, after),
            (&expected, expected.replace("secret = \"***\"", "secret = \"*** another\""))
        );
    }

    /// Whether all secrets among these keys are covered; those that are not.
    fn bare(keys: &[Key]) -> Vec<&'static str> {
        let of = |key: &Key| match &key.shape {
            Shape::Text(What::Secret | What::Hidden) if !is_secret(key.name) => vec![key.name],
            Shape::Table(keys) | Shape::Inline(keys) => bare(keys),
            Shape::Named { keys, .. } | Shape::Listed { keys, .. } => bare(keys),
            _ => Vec::new(),
        };
        keys.iter().flat_map(of).collect()
    }

    #[test]
    fn every_secret_of_the_schema_is_covered() {
        assert_eq!(bare(crate::schema::ROOT), Vec::<&str>::new());
    }

    #[test]
    fn keys_of_wireguard_are_covered_wherever_they_stand() {
        const KEYS: &str = "[interface.api]\nprivate_key = \"abc\"\npeer.a = { preshared_key = 'x' }\n\
                            [interface.wg0.peer.b]\npublic_key = \"def\"\npreshared_key.file = \"psk\"\n";
        let expected = KEYS.replace("\"abc\"", COVER).replace("'x'", COVER);
        assert_eq!(covered(KEYS), expected);
    }

    #[test]
    fn what_is_not_toml_hides_no_secret() {
        for broken in ["[[port]\n", "x = \n", "\"\"\"\n"] {
            let covered = covered(&format!("{broken}{TEXT}"));
            assert!(!covered.contains("0123") && !covered.contains("'x'"), "{covered}");
            assert!(covered.contains("# a comment"), "{covered}");
        }
    }
}
