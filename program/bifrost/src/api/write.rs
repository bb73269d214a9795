//! What changes the configuration: each request is a candidate and its commit.

use axum::http::header::{CONTENT_TYPE, IF_MATCH};
use serde::Serialize;
use serde_json::json;

use super::edit::Edit;
use super::gate::{Asked, Reply};
use super::problem::{Kind, Problem};
use super::read::running;
use super::request_threads::ApiContext;
use crate::command::minutes;
use crate::control::{CommitRequest, LockWish, Text, Why};
use crate::daemon::digest;
use crate::subject::Config;

/// How often an edit is made anew of what came meanwhile.
const ATTEMPTS: usize = 5;
/// Longest comment.
const COMMENT: usize = 1000;

/// What came of a commit.
#[derive(Serialize)]
struct Done<'a> {
    /// What changes, a line each.
    effects: &'a [String],
    /// The number in the history; none after a check, or where no text changed.
    revision: Option<u64>,
    /// In words; empty after a check.
    done: &'a str,
}

pub(super) fn commit(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let text = || {
        std::str::from_utf8(&asked.body)
            .map_err(|error| Kind::Malformed.because(format!("the body is no text in UTF-8: {error}")))
    };
    let edit = match media(asked) {
        "application/toml" | "text/toml" => Edit::Whole(text()?.to_owned()),
        "application/merge-patch+json" | "application/json" => Edit::Merge(value(asked)?),
        "text/plain" => Edit::Lines(text()?.to_owned()),
        other => return Err(unknown(other, "application/toml, application/merge-patch+json or text/plain")),
    };
    put_in_force(context, asked, edit)
}

pub(super) fn put(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    match media(asked) {
        "application/json" => put_in_force(context, asked, Edit::Put(asked.path.clone(), value(asked)?)),
        other => Err(unknown(other, "application/json")),
    }
}

pub(super) fn delete(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    put_in_force(context, asked, Edit::Delete(asked.path.clone()))
}

pub(super) fn rollback(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let to = asked.read("to")?.map_or(Text::Before, Text::Revision);
    is_matched(context, asked, &running(context)?.raw)?;
    let committed = context.answer.commit(&order(asked, to)?, &asked.who)?;
    done(context, asked, committed, false)
}

pub(super) fn confirm(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let done = context.answer.confirm(&asked.who).map_err(|error| Kind::Conflict.because(error))?;
    Reply::json(&json!({ "done": done }))
}

pub(super) fn reload(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let done = context.answer.reload(asked.flag("check"), &asked.who);
    Reply::json(&json!({ "done": done.map_err(|error| Kind::Refused.because(error))? }))
}

pub(super) fn lock_status(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    locked(context, asked, LockWish::Show)
}

pub(super) fn lock(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    locked(context, asked, if asked.flag("take") { LockWish::Take } else { LockWish::Hold })
}

pub(super) fn unlock(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    locked(context, asked, LockWish::Release)
}

fn locked(context: &ApiContext, asked: &Asked, wish: LockWish) -> Result<Reply, Problem> {
    let status = context.answer.lock(wish, Some(&asked.from), &asked.who);
    Reply::json(&status.map_err(|error| Kind::Locked.because(error).cure("?take=true takes it"))?)
}

/// The type of the body, without its parameters.
fn media(asked: &Asked) -> &str {
    asked.header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
}

fn unknown(media: &str, known: &str) -> Problem {
    Kind::Media
        .because(format!("a body of type {media:?} is not known here"))
        .cure(format!("Content-Type: {known}"))
}

pub(super) fn value(asked: &Asked) -> Result<serde_json::Value, Problem> {
    serde_json::from_slice(&asked.body)
        .map_err(|error| Kind::Malformed.because(format!("the body is no JSON: {error}")))
}

/// Refuses what was made of another configuration than the one that runs.
fn is_matched(context: &ApiContext, asked: &Asked, raw: &str) -> Result<(), Problem> {
    let wanted = asked.header(IF_MATCH);
    let etag = context.etag(raw);
    let matches = |one: &str| one.trim() == "*" || one.trim() == etag;
    if asked.head.contains_key(IF_MATCH) && !wanted.split(',').any(matches) {
        let newest = context.answer.history().ok().and_then(|history| history.revisions.into_iter().next());
        let came = newest.map_or(String::new(), |newest| {
            let user = newest.user.map_or(String::new(), |user| format!(" by {user}"));
            format!(": revision {} came{user}", newest.number)
        });
        return Err(Kind::Changed.because(format!("If-Match does not name what runs{came}")).tagged(etag));
    }
    Ok(())
}

fn order(asked: &Asked, what: Text) -> Result<CommitRequest, Problem> {
    let confirmed = asked.query.get("confirmed").map(|text| minutes(text)).transpose();
    let confirmed = confirmed.map_err(|wrong| Kind::Malformed.because(format!("confirmed: {wrong}")))?;
    let comment = asked.query.get("comment").cloned().unwrap_or_default();
    if comment.chars().count() > COMMENT {
        return Err(Kind::Malformed.because(format!("a comment has at most {COMMENT} letters")));
    }
    Ok(CommitRequest {
        what,
        check: asked.flag("check"),
        base: asked.read("base")?,
        running: None,
        force: asked.flag("force"),
        confirmed,
        comment,
        from: Some(asked.from.clone()),
        made_from: None,
    })
}

fn put_in_force(context: &ApiContext, asked: &Asked, edit: Edit) -> Result<Reply, Problem> {
    let replaces = matches!(edit, Edit::Whole(_));
    let matched = asked.head.contains_key(IF_MATCH);
    for attempt in 1.. {
        let Config { raw, file, .. } = running(context)?;
        is_matched(context, asked, &raw)?;
        let edited = edit.of(&raw)?;
        // The name of what it becomes: rules know where they stand.
        let name = file.unwrap_or_else(|| "request".to_owned());
        let what = Text::File { name, text: edited.text };
        let mut order = order(asked, what)?;
        // What an edit was made of must run still; and what the client has seen.
        order.running = (matched || !replaces).then(|| digest(&raw));
        match context.answer.commit(&order, &asked.who) {
            Ok(committed) => return done(context, asked, committed, edited.made),
            Err(refusal) if refusal.why == Why::Changed && order.base.is_none() => {
                if matched {
                    return Err(Kind::Changed.because(refusal.message));
                }
                if replaces || attempt >= ATTEMPTS {
                    return Err(refusal.into());
                }
            }
            Err(refusal) => return Err(refusal.into()),
        }
    }
    Err(Kind::Conflict.because("other changes come too fast"))
}

fn done(
    context: &ApiContext,
    asked: &Asked,
    committed: crate::control::Committed,
    made: bool,
) -> Result<Reply, Problem> {
    let done = Done { effects: &committed.effects, revision: committed.revision, done: &committed.done };
    let reply = Reply::json(&done)?;
    let reply = Reply { status: if made && !asked.flag("check") { 201 } else { 200 }, ..reply };
    Ok(reply.tagged(context.etag(&running(context)?.raw)))
}
