//! Why there is no answer: `application/problem+json` (RFC 9457).

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::control::{Refusal, Why};

/// What a kind is called, its status, what it says of itself, and what helps.
type Row = (Kind, &'static str, u16, &'static str, &'static str);

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Malformed,
    Token,
    Role,
    Absent,
    Method,
    Slow,
    Conflict,
    Length,
    Media,
    Changed,
    Wrong,
    Refused,
    Locked,
    Failed,
    Busy,
}

/// All kinds: the words of the answer, and of the OpenAPI document.
pub(super) const KINDS: [Row; 15] = [
    (Kind::Malformed, "malformed", 400, "the request makes no sense", "see /v1/openapi.json"),
    (
        Kind::Token,
        "token",
        401,
        "no known token",
        "send Authorization: Bearer TOKEN; `bifrost token` makes one",
    ),
    (Kind::Role, "role", 403, "the token may not do this", "use a token of the role that is named"),
    (Kind::Absent, "absent", 404, "there is no such thing", "GET what is above it"),
    (Kind::Method, "method", 405, "this cannot be done here", "see /v1/openapi.json"),
    (Kind::Slow, "slow", 408, "the request did not arrive in time", "send it again"),
    (Kind::Conflict, "conflict", 409, "another change is in the way", "see /v1/history, then send it again"),
    (Kind::Length, "length", 413, "the body is too long", "send less, or several changes"),
    (Kind::Media, "media", 415, "the body is of an unknown type", "say it by Content-Type"),
    (
        Kind::Changed,
        "changed",
        412,
        "another configuration runs by now",
        "GET it again, and make the change anew",
    ),
    (Kind::Wrong, "wrong", 422, "the configuration is wrong", "mend what `mistakes` tells"),
    (Kind::Refused, "refused", 422, "the router does not take the configuration", "see `detail`"),
    (Kind::Locked, "locked", 423, "somebody has locked the configuration", "wait, or ask who has it"),
    (Kind::Failed, "failed", 500, "it could not be done", "see `detail`, and the router's log"),
    (Kind::Busy, "busy", 503, "the router is busy", "try again in a second"),
];

impl Kind {
    fn row(self) -> &'static Row {
        const ROWS: &[Row] = &KINDS;
        // Each kind has its row: a test says so.
        ROWS.iter().find(|row| row.0 == self).unwrap_or(&ROWS[0])
    }

    /// A problem of this kind.
    pub fn because(self, detail: impl Into<String>) -> Problem {
        let cure = self.row().4.to_owned();
        Problem { kind: self, detail: detail.into(), cure, mistakes: Vec::new(), etag: None }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Problem {
    kind: Kind,
    /// In words.
    pub detail: String,
    /// What helps.
    pub cure: String,
    /// Where the configuration is wrong.
    mistakes: Vec<Place>,
    /// What runs instead.
    etag: Option<String>,
}

/// The same as it is told.
#[derive(Serialize)]
struct Told<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    cure: &'a str,
    #[serde(skip_serializing_if = "<[Place]>::is_empty")]
    mistakes: &'a [Place],
}

/// A mistake in a configuration.
#[derive(Debug, Serialize)]
struct Place {
    line: usize,
    column: usize,
    text: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meant: Option<String>,
}

impl Problem {
    /// With something else that helps.
    pub fn cure(self, cure: impl Into<String>) -> Problem {
        Problem { cure: cure.into(), ..self }
    }

    /// With its place in front.
    pub fn at(self, place: impl std::fmt::Display) -> Problem {
        Problem { detail: format!("{place}: {}", self.detail), ..self }
    }

    /// With what runs instead.
    pub fn tagged(self, etag: String) -> Problem {
        Problem { etag: Some(etag), ..self }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let kind = match refusal.why {
            Why::Wrong => Kind::Wrong,
            Why::Refused => Kind::Refused,
            Why::Locked => Kind::Locked,
            Why::Changed | Why::Waits | Why::ByHand => Kind::Conflict,
            Why::Absent => Kind::Absent,
            Why::Failed => Kind::Failed,
        };
        let mut problem = kind.because(refusal.message);
        match refusal.why {
            Why::Waits => {
                problem.cure = "POST /v1/confirm keeps it, POST /v1/rollback takes it back".to_owned()
            }
            Why::ByHand => problem.cure = "commit the file first; ?force=true overwrites it".to_owned(),
            _ => {}
        }
        problem.mistakes = (refusal.mistakes.into_iter())
            .map(|mistake| Place {
                line: mistake.line,
                column: mistake.column,
                // A line may have a secret: it is covered as it is everywhere.
                text: config::secrets::covered(&mistake.text),
                message: mistake.message,
                expected: mistake.expected,
                meant: mistake.meant,
            })
            .collect();
        problem
    }
}

/// What the daemon could not say.
pub(super) fn busy(error: String) -> Problem {
    Kind::Busy.because(error)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (_, name, status, title, _) = *self.kind.row();
        let told = Told {
            r#type: format!("urn:bifrost:problem:{name}"),
            title,
            status,
            detail: &self.detail,
            cure: &self.cure,
            mistakes: &self.mistakes,
        };
        let body = serde_json::to_vec(&told).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let head = response.headers_mut();
        head.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == 401 {
            head.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"bifrost\""));
            head.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if status == 503 {
            head.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some(etag) = self.etag.and_then(|etag| HeaderValue::from_str(&etag).ok()) {
            head.insert(header::ETAG, etag);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_says_what_helps() {
        for (kind, name, status, _, cure) in KINDS {
            let problem = kind.because("why");
            assert!(problem.cure == cure && problem.into_response().status().as_u16() == status, "{name}");
            assert!((400..600).contains(&status) && !cure.is_empty());
            assert_eq!(kind.row().0, kind);
        }
        let wrong = Refusal { mistakes: Vec::new(), ..Why::Waits.because("revision 8 waits") };
        assert!(Problem::from(wrong).cure.contains("/v1/confirm"));
    }
}
