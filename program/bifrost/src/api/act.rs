//! What is done without a change of the configuration.

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::json;

use super::gate::{Asked, Reply};
use super::problem::{Kind, Problem, busy};
use super::request_threads::ApiContext;
use super::{read, write};

/// Members of a set that come and go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    #[serde(default)]
    add: Vec<IpNet>,
    #[serde(default)]
    remove: Vec<IpNet>,
}

pub(super) fn clear_flows(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let ended = context.answer.clear_flows(&read::selected(asked)?).map_err(busy)?;
    Reply::json(&json!({ "count": ended }))
}

pub(super) fn set(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let members: Members = serde_json::from_value(write::value(asked)?).map_err(|error| {
        Kind::Malformed.because(error.to_string()).cure("{\"add\": [...], \"remove\": [...]}")
    })?;
    let changed = context.answer.change_set(&asked.path.join("/"), &members.add, &members.remove);
    Reply::json(&json!({ "count": changed.map_err(|error| Kind::Absent.because(error))? }))
}

pub(super) fn handover(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    done(context.answer.redundancy(&asked.path.join("/"), !asked.flag("back")))
}

pub(super) fn restart(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    done(context.answer.restart(&asked.path.join("/")))
}

/// What came of it, in words.
fn done(done: Result<String, String>) -> Result<Reply, Problem> {
    Reply::json(&json!({ "done": done.map_err(|error| Kind::Conflict.because(error))? }))
}
