//! A request: who sent it, what it may, its body, and its answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use config::{Role, Token};
use http_body::Frame;
use tokio::sync::{Semaphore, broadcast, mpsc};
use tokio::time::{sleep, timeout};

use super::Shared;
use super::listen::From;
use super::problem::{Kind, Problem};
use super::request_threads::ApiContext;
use super::routes::{ROUTES, Route};
use crate::control::{LONGEST_REQUEST, MAX_REQUEST, Who};

/// How long a wrong token has to wait for its answer.
const WRONG: Duration = Duration::from_secs(1);
/// How long a body may take.
const BODY: Duration = Duration::from_secs(30);
/// Bodies that are read at once.
const BODIES: usize = 4;
/// What is said to who listens to events, when nothing happens for so long.
const ALIVE: Duration = Duration::from_secs(15);

/// What was asked for.
pub(super) struct Asked {
    /// The parts of the path behind the route's own.
    pub path: Vec<String>,
    pub query: BTreeMap<String, String>,
    pub head: HeaderMap,
    pub body: Bytes,
    pub who: Who,
    pub from: String,
}

impl Asked {
    /// Whether a parameter is there and not `false`.
    pub fn flag(&self, name: &str) -> bool {
        self.query.get(name).is_some_and(|value| value != "false")
    }

    pub fn header(&self, name: header::HeaderName) -> &str {
        self.head.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// A parameter that is read.
    pub fn read<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.query.get(name) else { return Ok(None) };
        let wrong = || Kind::Malformed.because(format!("{name} cannot be {text:?}"));
        text.parse().map(Some).map_err(|_| wrong())
    }
}

/// An answer.
pub(super) struct Reply {
    pub status: u16,
    pub media: &'static str,
    pub etag: Option<String>,
    pub body: Out,
}

/// Pages, one after the other, until there is none.
pub(super) type Pages = Box<dyn FnMut(&ApiContext) -> Result<Option<Bytes>, String> + Send>;

pub(super) enum Out {
    Whole(Bytes),
    Pages(Pages),
    Events(broadcast::Receiver<Bytes>, Bytes),
}

pub(super) const JSON: &str = "application/json";

impl Reply {
    pub fn json(value: &impl serde::Serialize) -> Result<Reply, Problem> {
        let body = serde_json::to_vec(value).map_err(|error| Kind::Failed.because(error.to_string()))?;
        Ok(Reply::whole(JSON, body))
    }

    pub fn whole(media: &'static str, body: impl Into<Bytes>) -> Reply {
        Reply { status: 200, media, etag: None, body: Out::Whole(body.into()) }
    }

    pub fn tagged(self, etag: String) -> Reply {
        Reply { etag: Some(etag), ..self }
    }
}

/// All routes of the table.
pub(super) fn app(shared: Arc<Shared>) -> Router {
    let bodies = Arc::new(Semaphore::new(BODIES));
    let mut app = Router::new();
    for route in &ROUTES {
        let (shared, bodies) = (shared.clone(), bodies.clone());
        let handler = move |Extension(From(from)): Extension<From>, request: Request| async move {
            answer(&shared, &bodies, route, from, request).await.unwrap_or_else(IntoResponse::into_response)
        };
        let method = MethodFilter::try_from(
            axum::http::Method::from_bytes(route.method.as_bytes()).unwrap_or_default(),
        );
        app = app.route(route.path, on(method.unwrap_or(MethodFilter::GET), handler));
    }
    app.fallback(|request: Request| async move {
        let path = request.uri().path();
        let known = ROUTES.iter().map(|route| route.path);
        let near =
            notation::near(path, known).map_or(String::new(), |near| format!("; did you mean {near}?"));
        let cure = "GET /v1/openapi.json tells what there is";
        Kind::Absent.because(format!("there is nothing at {path:?}{near}")).cure(cure)
    })
    .method_not_allowed_fallback(|request: Request| async move {
        Kind::Method.because(format!("{} is not for {:?}", request.method(), request.uri().path()))
    })
}

async fn answer(
    shared: &Arc<Shared>,
    bodies: &Semaphore,
    route: &'static Route,
    from: SocketAddr,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let token = token(shared, &parts.headers).await?;
    if token.role < route.role {
        let detail = format!("{} is {}; this is for {}", token.name, token.role.word(), route.role.word());
        return Err(Kind::Role.because(detail));
    }
    shared.note(&token.name);
    let path = path(route, parts.uri.path())?;
    let query = query(route, parts.uri.query().unwrap_or_default())?;
    let body = if route.bodies.is_empty() {
        Bytes::new()
    } else {
        let longest = if token.role == Role::Admin { LONGEST_REQUEST } else { MAX_REQUEST };
        let _turn = bodies.acquire().await;
        match timeout(BODY, to_bytes(body, longest)).await {
            Err(_) => return Err(Kind::Slow.because(format!("a body may take {} s", BODY.as_secs()))),
            Ok(Err(_)) => return Err(Kind::Length.because(format!("a body has at most {longest} bytes"))),
            Ok(Ok(body)) => body,
        }
    };
    let who = Who { user: Some(token.name), login: None };
    let asked = Asked { path, query, head: parts.headers, body, who, from: from.ip().to_string() };
    let reply =
        shared.request_threads.ask(route.writes(), move |context| (route.act)(context, &asked)).await??;
    sent(shared, reply).await
}

/// Who asks. A wrong token waits for its answer.
async fn token(shared: &Shared, head: &HeaderMap) -> Result<Token, Problem> {
    let shown = head.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    let Some(shown) = shown else {
        return Err(Kind::Token.because("the request has no token"));
    };
    if let Some(token) = shared.who(shown) {
        return Ok(token);
    }
    shared.figures.refused_tokens.fetch_add(1, Relaxed);
    sleep(WRONG).await;
    Err(Kind::Token.because("nobody has this token"))
}

/// The parts of a path behind those of the route.
fn path(route: &Route, path: &str) -> Result<Vec<String>, Problem> {
    let own = route.path.find('{').unwrap_or(route.path.len());
    let rest = path.get(own..).unwrap_or_default();
    let parts = rest.split('/').filter(|part| !part.is_empty());
    parts.map(|part| decoded(part, false)).collect()
}

/// The parameters, all of which the route has.
fn query(route: &Route, query: &str) -> Result<BTreeMap<String, String>, Problem> {
    let mut found = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
        let (name, value) = (decoded(name, true)?, decoded(value, true)?);
        let known = || route.query.iter().map(|known| known.name);
        if !known().any(|known| known == name) {
            let near = notation::near(&name, known());
            let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            let cure = match route.query.is_empty() {
                true => "it has none".to_owned(),
                false => format!("it has: {}", known().collect::<Vec<_>>().join(", ")),
            };
            return Err(Kind::Malformed
                .because(format!("there is no parameter {name:?} here{near}"))
                .cure(cure));
        }
        if found.insert(name.clone(), value).is_some() {
            return Err(Kind::Malformed.because(format!("the parameter {name:?} is there twice")));
        }
    }
    Ok(found)
}

/// Without `%XX`, and in a query with spaces for `+`.
fn decoded(text: &str, plus: bool) -> Result<String, Problem> {
    let wrong = || Kind::Malformed.because(format!("{text:?} is no text in UTF-8, with % before two digits"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                high.zip(low).map(|(high, low)| (high * 16 + low) as u8).ok_or_else(wrong)?
            }
            b'+' if plus => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

async fn sent(shared: &Arc<Shared>, reply: Reply) -> Result<Response, Problem> {
    let body = match reply.body {
        Out::Whole(bytes) => Body::from(bytes),
        Out::Pages(mut pages) => {
            // The first page tells whether there is an answer.
            let first = shared
                .request_threads
                .ask(false, move |context| pages(context).map(|page| (page, pages)))
                .await?;
            let (mut page, mut pages) = first.map_err(super::problem::busy)?;
            let (sender, receiver) = mpsc::channel(1);
            let shared = shared.clone();
            tokio::spawn(async move {
                while let Some(bytes) = page {
                    if sender.send(bytes).await.is_err() {
                        return;
                    }
                    match shared
                        .request_threads
                        .ask(false, move |context| pages(context).map(|page| (page, pages)))
                        .await
                    {
                        Ok(Ok((next, more))) => (page, pages) = (next, more),
                        // What was begun and cannot be ended is cut off, and is no JSON.
                        _ => return,
                    }
                }
            });
            Body::new(Stream(receiver))
        }
        Out::Events(events, first) => {
            let (sender, receiver) = mpsc::channel(1);
            tokio::spawn(tell(events, first, sender));
            Body::new(Stream(receiver))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
    let head = response.headers_mut();
    head.insert(header::CONTENT_TYPE, HeaderValue::from_static(reply.media));
    head.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(etag) = reply.etag.and_then(|etag| HeaderValue::from_str(&etag).ok()) {
        head.insert(header::ETAG, etag);
    }
    Ok(response)
}

/// Passes events on, until the client is gone.
async fn tell(mut events: broadcast::Receiver<Bytes>, first: Bytes, to: mpsc::Sender<Bytes>) {
    let mut next = first;
    while to.send(next).await.is_ok() {
        next = tokio::select! {
            () = to.closed() => return,
            () = sleep(ALIVE) => Bytes::from_static(b": alive\n\n"),
            event = events.recv() => match event {
                Ok(event) => event,
                Err(broadcast::error::RecvError::Lagged(missed)) => super::events::missed(missed),
                Err(broadcast::error::RecvError::Closed) => return,
            },
        };
    }
}

/// A body that comes piece by piece.
struct Stream(mpsc::Receiver<Bytes>);

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(method: &str, path: &str) -> &'static Route {
        ROUTES.iter().find(|route| route.method == method && route.path == path).unwrap()
    }

    #[test]
    fn paths_and_parameters_are_read_or_refused() {
        let object = route("PUT", "/v1/config/{*path}");
        let parts = |text| path(object, text).map_err(|problem| problem.detail);
        assert_eq!(parts("/v1/config/route/10.0.0.0%2F8").unwrap(), ["route", "10.0.0.0/8"]);
        assert_eq!(parts("/v1/config/nat/rule/a+b/").unwrap(), ["nat", "rule", "a+b"]);
        assert!(parts("/v1/config/%ff").is_err() && parts("/v1/config/%4").is_err());
        let commit = route("POST", "/v1/commit");
        let read = |text| query(commit, text).map_err(|problem| (problem.detail, problem.cure));
        assert_eq!(read("check&comment=a+b%21").unwrap()["comment"], "a b!");
        assert_eq!(read("check").unwrap()["check"], "true");
        let (detail, cure) = read("confirm=5").unwrap_err();
        assert!(detail.contains("\"confirmed\"") && cure.contains("comment"), "{detail} {cure}");
        assert!(read("check&check").unwrap_err().0.contains("twice"));
    }
}
