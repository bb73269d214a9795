//! The Prometheus endpoint: `http://LISTEN/metrics`, in Prometheus' text format, or in OpenMetrics
//! for those who ask for it.
//!
//! Every scrape asks the daemon through [`Answer`](crate::control::Answer), as a client of the
//! control socket would. It has a thread of its own with its own small event loop, so that a slow
//! scraper is nobody else's trouble; connections are limited in number and in time. Names are
//! documented in `docs/metrics.md` and stable.

mod format;
mod listen;
mod text;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::Notify;
use tracing::warn;

use crate::control::Answer;

pub use format::Format;
pub use text::render;

/// The endpoint, serving until it is dropped.
pub struct Metrics {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl Metrics {
    /// Begins to serve.
    pub fn start(listen: SocketAddr, answer: Arc<dyn Answer>) -> io::Result<Metrics> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let serve = move || {
            confine::reader();
            let served = runtime.block_on(async move {
                let listener = listen::Bounded::new(tokio::net::TcpListener::from_std(listener)?);
                let app = Router::new().route("/metrics", get(scrape)).with_state(answer);
                tokio::select! {
                    result = async { axum::serve(listener, app).await } => result,
                    () = stopped.notified() => Ok(()),
                }
            });
            if let Err(error) = served {
                warn!("metrics: no longer served: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Metrics { stop, thread: Some(thread), address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn scrape(State(answer): State<Arc<dyn Answer>>, head: HeaderMap) -> Response {
    let asked = head.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(asked);
    match render(&*answer, format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}
