//! What other programs say in JSON.

use std::collections::HashMap;

use config::schema::{Key, ROOT, Shape, find};
use config::secrets::{is_cover, is_secret};
use serde_json::Value;

use crate::tree::Tree;

/// What of a JSON value no configuration can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", if .place.is_empty() { "/" } else { .place })]
pub struct JsonError {
    /// Where it stands (a JSON pointer, RFC 6901).
    pub place: String,
    /// What is wrong.
    pub what: &'static str,
}

impl Tree {
    /// The same in TOML's terms.
    ///
    /// # Errors
    /// `null`, or a number that TOML does not have.
    pub fn of_json(value: &Value) -> Result<Tree, JsonError> {
        read(value, "")
    }

    /// Changes it by a merge patch (RFC 7396): `null` removes.
    ///
    /// # Errors
    /// As [`Tree::of_json`]; then part of it may be done already.
    pub fn merge(&mut self, patch: &Value) -> Result<(), JsonError> {
        merge(self, patch, "")
    }

    /// Puts the secrets of another tree where this one has what is shown in their place.
    pub fn uncover(&mut self, known: &Tree) {
        uncover(self, known, Some(ROOT));
    }
}

fn below(place: &str, key: &str) -> String {
    format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn read(value: &Value, place: &str) -> Result<Tree, JsonError> {
    let wrong = |what| JsonError { place: place.to_owned(), what };
    Ok(match value {
        Value::Null => return Err(wrong("null is no value here")),
        Value::Bool(flag) => Tree::Flag(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Tree::Number(number),
            None if number.is_f64() => Tree::Other(number.to_string()),
            None => return Err(wrong("this number is too large")),
        },
        Value::String(text) => Tree::Text(text.clone()),
        Value::Array(list) => {
            let items = list.iter().enumerate().map(|(at, item)| read(item, &below(place, &at.to_string())));
            Tree::List(items.collect::<Result<_, _>>()?)
        }
        Value::Object(object) => {
            let pairs = object.iter().map(|(key, value)| Ok((key.clone(), read(value, &below(place, key))?)));
            Tree::Table(pairs.collect::<Result<_, _>>()?)
        }
    })
}

fn merge(tree: &mut Tree, patch: &Value, place: &str) -> Result<(), JsonError> {
    let Value::Object(patch) = patch else {
        *tree = read(patch, place)?;
        return Ok(());
    };
    if !matches!(tree, Tree::Table(_)) {
        *tree = Tree::Table(Vec::new());
    }
    let Tree::Table(pairs) = tree else { return Ok(()) };
    for (key, value) in patch {
        let at = pairs.iter().position(|(name, _)| name == key);
        match (value, at) {
            (Value::Null, Some(at)) => drop(pairs.remove(at)),
            (Value::Null, None) => {}
            (value, Some(at)) => merge(&mut pairs[at].1, value, &below(place, key))?,
            (value, None) => {
                let mut new = Tree::Table(Vec::new());
                merge(&mut new, value, &below(place, key))?;
                pairs.push((key.clone(), new));
            }
        }
    }
    Ok(())
}

fn uncover(tree: &mut Tree, known: &Tree, keys: Option<&'static [Key]>) {
    let Tree::Table(pairs) = tree else { return };
    for (name, value) in pairs {
        let Some(known) = known.get(name) else { continue };
        let shape = keys.and_then(|keys| find(keys, name)).map(|key| &key.shape);
        match (shape, &mut *value) {
            (_, Tree::Text(text)) if is_secret(name) && is_cover(text) => *value = known.clone(),
            (Some(Shape::Named { keys, .. }), Tree::Table(named)) => {
                for (name, value) in named {
                    if let Some(known) = known.get(name) {
                        uncover(value, known, Some(keys));
                    }
                }
            }
            (Some(Shape::Listed { by, keys, .. }), Tree::List(list)) if !by.is_empty() => {
                let Tree::List(known) = known else { continue };
                let known: HashMap<&str, &Tree> =
                    known.iter().rev().filter_map(|one| Some((one.get(by)?.text()?, one))).collect();
                for one in list {
                    let same = one.get(by).and_then(Tree::text).and_then(|value| known.get(value).copied());
                    same.into_iter().for_each(|known| uncover(one, known, Some(keys)));
                }
            }
            (Some(Shape::Table(keys) | Shape::Inline(keys)), value) => uncover(value, known, Some(keys)),
            (_, value) => uncover(value, known, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_is_that_of_the_rfc() {
        // RFC 7396, appendix A, without those whose result is or has null.
        for (before, patch, after) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!("bar"), json!("bar")),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            let mut tree = Tree::of_json(&before).unwrap();
            tree.merge(&patch).unwrap();
            assert_eq!(tree.json(), after, "{before} {patch}");
        }
        let mut tree = Tree::Table(Vec::new());
        let error = tree.merge(&json!({"a/b":{"c":[1, null]}})).unwrap_err();
        assert_eq!(error.to_string(), "/a~1b/c/1: null is no value here");
        assert!(tree.merge(&json!({"a": u64::MAX})).is_err());
    }

    #[test]
    fn a_secret_that_was_not_seen_stays() {
        let known = json!({"paths": {"key": "k"}, "port": [
            {"name": "a", "memif": {"socket": "/a", "secret": "s"}}, {"name": "b", "memif": {"secret": "t"}}]});
        let seen = json!({"paths": {"key": "***"}, "port": [
            {"name": "b", "memif": {"secret": "***"}}, {"name": "a", "memif": {"secret": "new"}},
            {"name": "c", "memif": {"secret": "***"}}]});
        let mut tree = Tree::of_json(&seen).unwrap();
        tree.uncover(&Tree::of_json(&known).unwrap());
        assert_eq!(
            tree.json(),
            json!({"paths": {"key": "k"}, "port": [{"name": "b", "memif": {"secret": "t"}},
                {"name": "a", "memif": {"secret": "new"}}, {"name": "c", "memif": {"secret": "***"}}]})
        );
    }
}
