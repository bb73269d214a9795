//! What is read.

use axum::http::header::ACCEPT;
use bytes::Bytes;
use candidate::{Document, changes, unified};
use serde_json::json;

use super::edit;
use super::gate::{Asked, JSON, Out, Reply};
use super::problem::{Kind, Problem, busy};
use super::request_threads::ApiContext;
use crate::control::status::FlowQuery;
use crate::control::{Compared, PAGE, RouteQuery, Text};
use crate::subject::{self, Config};

/// The running configuration.
pub(super) fn running(context: &ApiContext) -> Result<Config, Problem> {
    context.answer.ask::<Config>().map_err(busy)
}

/// The document that a covered text is.
fn document(text: &str) -> Result<Document, Problem> {
    Document::parse(text).map_err(|error| Kind::Failed.because(error.to_string()))
}

pub(super) fn config(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let config = running(context)?;
    let wanted = asked.header(ACCEPT);
    let reply = match wanted.contains("toml") || wanted.starts_with("text/plain") {
        true => Reply::whole("application/toml", config.text),
        false => Reply::json(&document(&config.text)?.tree().json())?,
    };
    Ok(reply.tagged(context.etag(&config.raw)))
}

pub(super) fn part(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let config = running(context)?;
    let found = edit::at(&document(&config.text)?.tree(), &asked.path)?;
    Ok(Reply::json(&found)?.tagged(context.etag(&config.raw)))
}

pub(super) fn history(context: &ApiContext, _: &Asked) -> Result<Reply, Problem> {
    Reply::json(&context.answer.history().map_err(busy)?)
}

pub(super) fn expect(context: &ApiContext, _: &Asked) -> Result<Reply, Problem> {
    Reply::json(&context.answer.expect().map_err(busy)?)
}

pub(super) fn compare(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let which = |name: &str, default: Text| match asked.query.get(name).map(String::as_str) {
        None => Ok(default),
        Some("running") => Ok(Text::Running),
        Some("disk") => Ok(Text::Disk),
        Some(number) => number.parse().map(Text::Revision).map_err(|_| {
            Kind::Malformed.because(format!("{name} is running, disk, or the number of a revision"))
        }),
    };
    let texts = [which("from", Text::Running)?, which("to", Text::Disk)?];
    let compared = context.answer.compare(&texts).map_err(|error| Kind::Absent.because(error))?;
    let Compared { names: [from, to], texts: [before, after] } = compared;
    let lines = changes(&document(&before)?.tree(), &document(&after)?.tree());
    if asked.header(ACCEPT).starts_with("text/plain") {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        return Ok(Reply::whole("text/plain; charset=utf-8", text));
    }
    let diff = unified([&from, &to], [&before, &after]);
    Reply::json(&json!({ "from": from, "to": to, "lines": lines, "diff": diff }))
}

pub(super) fn subjects(_: &ApiContext, _: &Asked) -> Result<Reply, Problem> {
    let own = [
        ("routes", "Routes, as they come"),
        ("flows", "The flow table, and flows in it"),
        ("expect", "The sentences of [expect], and whether each holds now"),
    ];
    let all = subject::ALL.iter().map(|entry| (entry.name, entry.about)).chain(own);
    Reply::json(&all.map(|(name, about)| json!({ "name": name, "about": about })).collect::<Vec<_>>())
}

pub(super) fn subject(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let name = asked.path.join("/");
    let entry = subject::named(&name).or_else(|| subject::asked(&name)).ok_or_else(|| {
        let near = notation::near(&name, subject::ALL.iter().map(|entry| entry.name));
        let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
        Kind::Absent.because(format!("there is no subject {name:?}{near}")).cure("GET /v1/show names them")
    })?;
    let answered = context.answer.subject(entry).map_err(busy)?;
    let json = entry.json(answered, &context.rates).map_err(busy)?;
    Ok(Reply::whole(JSON, json.get().to_owned()))
}

pub(super) fn routes(_: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    let query = RouteQuery {
        within: asked.read("within")?,
        address: asked.read("address")?,
        vrf: asked.read("vrf")?,
        limit: asked.read("limit")?,
    };
    let (mut left, mut last, mut begun, mut over) = (query.limit.unwrap_or(u64::MAX), None, false, false);
    let pages = move |context: &ApiContext| {
        if over {
            return Ok(None);
        }
        let want = left.min(PAGE as u64) as usize;
        let page = context.answer.routes(&query, last.as_ref(), want)?;
        let mut text = String::new();
        for route in page.iter().take(want) {
            text += if begun { ",\n" } else { "[\n" };
            begun = true;
            text += &serde_json::to_string(route).map_err(|error| error.to_string())?;
        }
        left -= page.len().min(want) as u64;
        over = page.len() < want || left == 0;
        if over {
            text += if begun { "\n]\n" } else { "[]\n" };
        }
        last = page.into_iter().last();
        Ok(Some(Bytes::from(text)))
    };
    Ok(Reply { status: 200, media: JSON, etag: None, body: Out::Pages(Box::new(pages)) })
}

/// The flows that are meant.
pub(super) fn selected(asked: &Asked) -> Result<FlowQuery, Problem> {
    let host = match asked.query.get("host") {
        None => None,
        Some(text) => {
            let prefix = text.parse().or_else(|_| text.parse::<std::net::IpAddr>().map(Into::into));
            Some(prefix.map_err(|_| Kind::Malformed.because(format!("host cannot be {text:?}")))?)
        }
    };
    Ok(FlowQuery {
        host,
        port: asked.read("port")?,
        protocol: asked.read("protocol")?,
        limit: asked.read("limit")?,
        ..FlowQuery::default()
    })
}

pub(super) fn flows(context: &ApiContext, asked: &Asked) -> Result<Reply, Problem> {
    Reply::json(&context.answer.flows(&selected(asked)?).map_err(busy)?)
}

pub(super) fn events(context: &ApiContext, _: &Asked) -> Result<Reply, Problem> {
    let (events, first) = context.events.subscribe(context)?;
    Ok(Reply { status: 200, media: "text/event-stream", etag: None, body: Out::Events(events, first) })
}
