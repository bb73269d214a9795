//! The same description as a JSON Schema, for editors and other programs.

use serde_json::{Map, Value, json};

use super::{Key, ROOT, Shape, What};

/// The JSON Schema (draft 2020-12) of `router.toml`.
pub fn json_schema() -> Value {
    let mut schema = table(ROOT, false);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "router.toml".into();
    schema["description"] = "the configuration of a Bifrost router".into();
    schema
}

/// An object with these keys.
fn table(keys: &[Key], whole: bool) -> Value {
    let mut properties = Map::new();
    for key in keys {
        let mut of_key = value(&key.shape);
        of_key["description"] = key.about.into();
        // Defaults are numbers, words and lists of words: the same in JSON.
        if let Ok(default) = serde_json::from_str::<Value>(key.default) {
            of_key["default"] = default;
        }
        properties.insert(key.name.to_owned(), of_key);
    }
    let mut object = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    let needed: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    // A file without a port may be meant so, which is said by another key.
    if whole && !needed.is_empty() {
        object["required"] = needed.into();
    }
    object
}

fn value(shape: &Shape) -> Value {
    let items = |types: &[&str]| json!({ "type": "array", "items": { "type": types } });
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    match shape {
        Shape::Table(keys) | Shape::Inline(keys) => table(keys, true),
        Shape::Named { keys, .. } => json!({ "type": "object", "additionalProperties": table(keys, true) }),
        Shape::Map { value: each, .. } => {
            let each = match each {
                // A set of addresses may lie in a file of its own.
                Shape::List(What::Prefix) => json!({ "anyOf": [value(each), {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": { "file": { "type": "string" } },
                    "required": ["file"],
                }] }),
                each => value(each),
            };
            json!({ "type": "object", "additionalProperties": each })
        }
        Shape::Listed { keys, .. } => json!({ "type": "array", "items": table(keys, true) }),
        Shape::Word(words) => json!({ "type": "string", "enum": words }),
        Shape::Number { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Shape::NumberOr(words) => json!({ "anyOf": [{ "type": "integer" }, { "enum": words }] }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::FlagOr(_) => json!({ "type": ["boolean", "string"] }),
        Shape::NumberOrText(_) => json!({ "type": ["integer", "string"] }),
        Shape::Text(What::Cores) => {
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "integer" } }] })
        }
        Shape::Text(What::Secret) => json!({ "anyOf": [{ "type": "string" }, {
            "type": "object",
            "additionalProperties": false,
            "properties": { "file": { "type": "string" }, "env": { "type": "string" } },
            "minProperties": 1,
            "maxProperties": 1,
        }] }),
        Shape::Text(_) => json!({ "type": "string" }),
        Shape::List(What::Network | What::Origin) => items(&["string", "object"]),
        Shape::List(What::Number) => items(&["integer", "string"]),
        Shape::List(_) => texts,
        Shape::Lines(_) | Shape::OneOrMore(_) => json!({ "anyOf": [{ "type": "string" }, texts] }),
    }
}
