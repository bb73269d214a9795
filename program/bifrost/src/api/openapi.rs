//! The table of routes, as an OpenAPI 3.1 document.

use config::schema::json_schema;
use serde_json::{Map, Value, json};

use super::gate::{Asked, Reply};
use super::problem::{KINDS, Problem};
use super::request_threads::ApiContext;
use super::routes::{Media, ROUTES, Route};

pub(super) fn document(_: &ApiContext, _: &Asked) -> Result<Reply, Problem> {
    Reply::json(&of_routes())
}

fn of_routes() -> Value {
    let mut paths = Map::new();
    for route in &ROUTES {
        let path = route.path.replace("{*path}", "{path}");
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[route.method.to_lowercase()] = operation(route);
    }
    let mut configuration = json_schema();
    // A part of a document has no dialect of its own.
    configuration.as_object_mut().map(|schema| schema.remove("$schema"));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bifrost",
            "version": crate::RELEASE,
            "description": "The interface for programs of a Bifrost router",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": {
                "Configuration": configuration,
                "Committed": {
                    "type": "object",
                    "properties": {
                        "effects": { "type": "array", "items": { "type": "string" } },
                        "revision": { "type": ["integer", "null"] },
                        "done": { "type": "string" },
                    },
                    "required": ["effects", "revision", "done"],
                },
                "Compared": {
                    "type": "object",
                    "properties": {
                        "from": { "type": "string" },
                        "to": { "type": "string" },
                        "lines": { "type": "array", "items": { "type": "string" } },
                        "diff": { "type": "string" },
                    },
                    "required": ["from", "to", "lines", "diff"],
                },
                "Done": {
                    "type": "object",
                    "properties": { "done": { "type": "string" } },
                    "required": ["done"],
                },
                "Ended": {
                    "type": "object",
                    "properties": { "count": { "type": "integer" } },
                    "required": ["count"],
                },
                "Members": {
                    "type": "object",
                    "properties": {
                        "add": { "type": "array", "items": { "type": "string" } },
                        "remove": { "type": "array", "items": { "type": "string" } },
                    },
                    "additionalProperties": false,
                },
                "Problem": problem(),
            },
            "responses": { "Problem": {
                "description": "why there is no answer",
                "content": { "application/problem+json": { "schema": reference("schemas", "Problem") } },
            } },
        },
    })
}

fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = (route.query.iter())
        .map(|parameter| {
            json!({ "name": parameter.name, "in": "query", "description": parameter.about,
                    "schema": { "type": parameter.kind } })
        })
        .collect();
    if route.path.contains("{*path}") {
        parameters.push(json!({ "name": "path", "in": "path", "required": true,
            "description": "names with / between; a / inside of one is %2F", "schema": { "type": "string" } }));
    }
    let answers_configuration = route.path.starts_with("/v1/config") || route.path == "/v1/commit";
    if route.writes() && answers_configuration {
        parameters.push(json!({ "name": "If-Match", "in": "header",
            "description": "the ETag of what was read: refused with 412 where something else runs",
            "schema": { "type": "string" } }));
    }
    let mut operation = json!({
        "operationId": name(route),
        "summary": route.about,
        "description": format!("For tokens of the role {}, and those above it.", route.role.word()),
        "parameters": parameters,
        "responses": {
            "200": { "description": "done", "content": content(route.answers) },
            "default": reference("responses", "Problem"),
        },
    });
    if route.method == "PUT" {
        operation["responses"]["201"] = json!({ "description": "made", "content": content(route.answers) });
    }
    if !route.bodies.is_empty() {
        operation["requestBody"] = json!({ "required": true, "content": content(route.bodies) });
    }
    operation
}

fn content(media: &[Media]) -> Value {
    let of = |media: &Media| {
        let schema = match media.schema {
            "" if media.name.ends_with("json") => json!({ "description": media.about }),
            "" => json!({ "type": "string", "description": media.about }),
            name => reference("schemas", name),
        };
        (media.name.to_owned(), json!({ "schema": schema }))
    };
    Value::Object(media.iter().map(of).collect())
}

/// `put_config_path`.
fn name(route: &Route) -> String {
    let path = route.path.trim_start_matches("/v1/").replace(".json", "");
    let path: String = path.chars().filter(|c| !"{*}".contains(*c)).collect();
    format!("{}_{}", route.method.to_lowercase(), path.replace('/', "_"))
}

fn problem() -> Value {
    let kinds: Vec<String> = KINDS.iter().map(|kind| format!("urn:bifrost:problem:{}", kind.1)).collect();
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": {
            "type": { "type": "string", "enum": kinds },
            "title": text,
            "status": { "type": "integer" },
            "detail": text,
            "cure": text,
            "mistakes": { "type": "array", "items": {
                "type": "object",
                "properties": {
                    "line": { "type": "integer" }, "column": { "type": "integer" }, "text": text,
                    "message": text, "expected": text, "meant": text,
                },
                "required": ["line", "column", "text", "message"],
            } },
        },
        "required": ["type", "title", "status", "detail", "cure"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_told_once_and_each_reference_leads_somewhere() {
        let document = of_routes();
        let operations = |item: &Value| item.as_object().map_or(0, Map::len);
        let told: usize = document["paths"].as_object().unwrap().values().map(operations).sum();
        assert_eq!(told, ROUTES.len());
        let text = document.to_string();
        for (_, rest) in
            text.match_indices("\"$ref\":\"#/").map(|(at, found)| text.split_at(at + found.len()))
        {
            let pointer = format!("/{}", rest.split('"').next().unwrap());
            assert!(document.pointer(&pointer).is_some(), "{pointer}");
        }
        let mut names: Vec<String> = ROUTES.iter().map(name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ROUTES.len());
        assert!(document["components"]["schemas"]["Configuration"]["properties"]["api"].is_object());
    }
}
