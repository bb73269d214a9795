//! What can be asked for: one table, from which the server, its checks and the OpenAPI document are
//! made.

use config::Role;
use config::Role::{Admin, Operator, Viewer};

use super::gate::{Asked, Reply};
use super::problem::Problem;
use super::request_threads::ApiContext;
use super::{act, openapi, read, write};

/// A row of the table.
pub(super) struct Route {
    pub method: &'static str,
    /// `{*path}` stands for the rest.
    pub path: &'static str,
    /// Who may ask for it, at least.
    pub role: Role,
    /// What it is for.
    pub about: &'static str,
    pub query: &'static [Parameter],
    /// Bodies that it takes.
    pub bodies: &'static [Media],
    /// What it answers with.
    pub answers: &'static [Media],
    pub act: fn(&ApiContext, &Asked) -> Result<Reply, Problem>,
}

impl Route {
    /// Whether it belongs to the thread that writes.
    pub fn writes(&self) -> bool {
        self.method != "GET"
    }
}

/// A parameter.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub name: &'static str,
    /// `boolean`, `integer` or `string`.
    pub kind: &'static str,
    pub about: &'static str,
}

/// A type of a body.
pub(super) struct Media {
    pub name: &'static str,
    pub about: &'static str,
    /// What it has, as a schema is called in the document; empty: nothing to be said.
    pub schema: &'static str,
}

const fn parameter(name: &'static str, kind: &'static str, about: &'static str) -> Parameter {
    Parameter { name, kind, about }
}

const fn media(name: &'static str, about: &'static str, schema: &'static str) -> Media {
    Media { name, about, schema }
}

const JSON: &str = super::gate::JSON;
const TOML: &str = "application/toml";
/// Lines as `compare` prints them.
const LINES: &str = "text/plain";
/// RFC 7396.
const PATCH: &str = "application/merge-patch+json";
const STREAM: &str = "text/event-stream";

const COMMITTING: &[Parameter] = &[
    parameter("check", "boolean", "only say what would change"),
    parameter("confirmed", "string", "go back unless it is confirmed: minutes, or a time such as 90s"),
    parameter("comment", "string", "what the history says of it"),
    parameter("base", "integer", "the revision that it was made from: refused if something else runs"),
    parameter("force", "boolean", "do it even if the file was changed by hand, or something else runs"),
];
const COMMITTED: &[Media] = &[media(JSON, "what came of it", "Committed")];
const FLOWS: &[Parameter] = &[
    parameter("host", "string", "an address or a prefix, at either end"),
    parameter("port", "integer", "a port, at either end"),
    parameter("protocol", "integer", "a protocol's number"),
    parameter("limit", "integer", "so many at most"),
];

pub(super) static ROUTES: [Route; 24] = [
    Route {
        method: "GET",
        path: "/v1/config",
        role: Viewer,
        about: "The running configuration, its secrets covered",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "as JSON", "Configuration"), media(TOML, "as it is written", "")],
        act: read::config,
    },
    Route {
        method: "GET",
        path: "/v1/config/{*path}",
        role: Viewer,
        about: "A part of the running configuration",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "what stands there", "")],
        act: read::part,
    },
    Route {
        method: "PUT",
        path: "/v1/config/{*path}",
        role: Admin,
        about: "What stands there becomes this, or is made; all else stays",
        query: COMMITTING,
        bodies: &[media(JSON, "what shall stand there", "")],
        answers: COMMITTED,
        act: write::put,
    },
    Route {
        method: "DELETE",
        path: "/v1/config/{*path}",
        role: Admin,
        about: "Removes what stands there",
        query: COMMITTING,
        bodies: &[],
        answers: COMMITTED,
        act: write::delete,
    },
    Route {
        method: "POST",
        path: "/v1/commit",
        role: Admin,
        about: "Changes the configuration: candidate and commit in one, whole or not at all",
        query: COMMITTING,
        bodies: &[
            media(TOML, "a whole configuration", ""),
            media(PATCH, "what changes (RFC 7396)", "Configuration"),
            media(JSON, "the same", "Configuration"),
            media(LINES, "lines such as: set route 192.0.2.0/24 via 198.51.100.1", ""),
        ],
        answers: COMMITTED,
        act: write::commit,
    },
    Route {
        method: "POST",
        path: "/v1/confirm",
        role: Admin,
        about: "Keeps the revision that waits for that",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "what came of it", "Done")],
        act: write::confirm,
    },
    Route {
        method: "POST",
        path: "/v1/rollback",
        role: Admin,
        about: "Goes back to the revision before, or to another",
        query: &[
            parameter("to", "integer", "a revision; without it the one before"),
            COMMITTING[0],
            COMMITTING[1],
            COMMITTING[2],
            COMMITTING[4],
        ],
        bodies: &[],
        answers: COMMITTED,
        act: write::rollback,
    },
    Route {
        method: "POST",
        path: "/v1/reload",
        role: Admin,
        about: "Reads the router's file again, and the files that it names",
        query: &[COMMITTING[0]],
        bodies: &[],
        answers: &[media(JSON, "what came of it", "Done")],
        act: write::reload,
    },
    Route {
        method: "GET",
        path: "/v1/history",
        role: Viewer,
        about: "The configurations that were in force: when, by whom, from where, and why",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "the history", "")],
        act: read::history,
    },
    Route {
        method: "GET",
        path: "/v1/compare",
        role: Viewer,
        about: "What changes from one configuration to another, its secrets covered",
        query: &[
            parameter("from", "string", "running (the default), disk, or a revision"),
            parameter("to", "string", "disk (the default), running, or a revision"),
        ],
        bodies: &[],
        answers: &[media(JSON, "as a diff and as lines", "Compared"), media(LINES, "as lines", "")],
        act: read::compare,
    },
    Route {
        method: "GET",
        path: "/v1/lock",
        role: Viewer,
        about: "Who has locked the configuration",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "who has it", "")],
        act: write::lock_status,
    },
    Route {
        method: "POST",
        path: "/v1/lock",
        role: Admin,
        about: "Locks the configuration for a minute: who has the lock commits, and nobody else",
        query: &[parameter("take", "boolean", "even if somebody else has it")],
        bodies: &[],
        answers: &[media(JSON, "who has it", "")],
        act: write::lock,
    },
    Route {
        method: "DELETE",
        path: "/v1/lock",
        role: Admin,
        about: "Gives the lock back",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "who has it", "")],
        act: write::unlock,
    },
    Route {
        method: "GET",
        path: "/v1/show",
        role: Viewer,
        about: "What can be shown",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "names, and what each is about", "")],
        act: read::subjects,
    },
    Route {
        method: "GET",
        path: "/v1/show/{*path}",
        role: Viewer,
        about: "A subject of `bifrost show`, with the JSON of its --json",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "see docs/json.md", "")],
        act: read::subject,
    },
    Route {
        method: "GET",
        path: "/v1/show/routes",
        role: Viewer,
        about: "Routes, as they come",
        query: &[
            parameter("within", "string", "a prefix"),
            parameter("address", "string", "an address: its longest match"),
            parameter("vrf", "string", "of this VRF's table"),
            parameter("limit", "integer", "so many at most"),
        ],
        bodies: &[],
        answers: &[media(JSON, "a list", "")],
        act: read::routes,
    },
    Route {
        method: "GET",
        path: "/v1/show/flows",
        role: Viewer,
        about: "The flow table, and flows in it",
        query: FLOWS,
        bodies: &[],
        answers: &[media(JSON, "see docs/json.md", "")],
        act: read::flows,
    },
    Route {
        method: "GET",
        path: "/v1/show/expect",
        role: Viewer,
        about: "The sentences of [expect], and whether each holds now",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "see docs/json.md", "")],
        act: read::expect,
    },
    Route {
        method: "DELETE",
        path: "/v1/flows",
        role: Operator,
        about: "Ends the flows that are selected; without a selection all",
        query: FLOWS,
        bodies: &[],
        answers: &[media(JSON, "how many", "Ended")],
        act: act::clear_flows,
    },
    Route {
        method: "POST",
        path: "/v1/set/{*path}",
        role: Operator,
        about: "Changes the members of an address set, until the configuration is read again",
        query: &[],
        bodies: &[media(JSON, "prefixes that come, and that go", "Members")],
        answers: &[media(JSON, "how many it has then", "Ended")],
        act: act::set,
    },
    Route {
        method: "POST",
        path: "/v1/handover/{*path}",
        role: Operator,
        about: "Hands a virtual router over to another router",
        query: &[parameter("back", "boolean", "takes part as before instead")],
        bodies: &[],
        answers: &[media(JSON, "what came of it", "Done")],
        act: act::handover,
    },
    Route {
        method: "POST",
        path: "/v1/restart/{*path}",
        role: Operator,
        about: "Has a daemon start anew: a service of the file's, or frr",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "what came of it", "Done")],
        act: act::restart,
    },
    Route {
        method: "GET",
        path: "/v1/events",
        role: Viewer,
        about: "What happens, as it happens: commits, ports, interfaces, redundancy, the mirror",
        query: &[],
        bodies: &[],
        answers: &[media(STREAM, "server-sent events", "")],
        act: read::events,
    },
    Route {
        method: "GET",
        path: "/v1/openapi.json",
        role: Viewer,
        about: "This document",
        query: &[],
        bodies: &[],
        answers: &[media(JSON, "OpenAPI 3.1", "")],
        act: openapi::document,
    },
];
