//! `[api]`: the interface for programs, HTTPS and JSON on the same transactions as
//! `bifrost commit`.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the server: its threads, and what it serves with now |
//! | `tls.rs` | the certificate, and one that is made here |
//! | `listen.rs` | connections: so many, each for so long |
//! | `gate.rs` | a request: who sent it, what it may, its body, its answer |
//! | `routes.rs` | the table of what can be asked: role, parameters, bodies |
//! | `request_threads.rs` | threads that ask the daemon, and what they know |
//! | `read.rs`, `write.rs`, `act.rs` | what the table leads to |
//! | `edit.rs` | a body into a configuration |
//! | `events.rs` | what happens, as it happens |
//! | `openapi.rs` | the table, as an OpenAPI document |
//! | `problem.rs` | why there is no answer |
//!
//! ```text
//!   client ══ TLS ══► listen ──► gate ──► request_threads ──► dyn Answer ──► control thread
//!                     one thread, which can open    three threads, without
//!                     no file and run nothing       capabilities
//! ```
//!
//! Bytes of strangers are read by a thread that may do nothing but talk; who has shown a token is
//! served by others, which ask the daemon as the control socket's clients do. All are of low
//! priority, and nothing here is waited for by whoever forwards.

mod act;
mod edit;
mod events;
mod gate;
mod listen;
mod openapi;
mod problem;
mod read;
mod request_threads;
mod routes;
pub(crate) mod tls;
mod token;
mod write;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use config::Token;
use rustls::ServerConfig;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::warn;

use crate::control::{Answer, Rates};
use request_threads::RequestThreads;

pub(crate) use token::{hash_of, new as new_token};

/// How much less urgent its threads are than others.
const NICE: i32 = 10;

/// What it serves with.
pub(crate) struct Plan {
    /// Where it listens.
    pub listeners: Vec<std::net::TcpListener>,
    /// What it shows to clients.
    pub tls: Arc<ServerConfig>,
    /// Who may use it.
    pub tokens: Vec<Token>,
}

/// The server. It listens nowhere until it is told where.
pub(crate) struct Server {
    orders: UnboundedSender<Option<Plan>>,
    shared: Arc<Shared>,
}

/// What all connections have in common.
struct Shared {
    request_threads: RequestThreads,
    tokens: RwLock<Arc<Vec<Token>>>,
    figures: Figures,
    connection_limit: listen::ConnectionLimit,
}

/// What is counted.
#[derive(Default)]
struct Figures {
    requests: AtomicU64,
    refused_tokens: AtomicU64,
    refused_connections: AtomicU64,
    /// By the token's name: requests, and when the last one came, in seconds since 1970.
    used: Mutex<HashMap<String, (u64, u64)>>,
}

/// The same, to be shown.
#[derive(Default)]
pub(crate) struct Counts {
    pub connections: u64,
    pub requests: u64,
    pub refused_tokens: u64,
    pub refused_connections: u64,
    pub used: HashMap<String, (u64, u64)>,
}

impl Server {
    /// Begins.
    pub fn start(answer: Arc<dyn Answer>, rates: Arc<Rates>) -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let shared = Arc::new(Shared {
            request_threads: RequestThreads::start(answer, rates)?,
            tokens: RwLock::default(),
            figures: Figures::default(),
            connection_limit: listen::ConnectionLimit::default(),
        });
        let (orders, inbox) = unbounded_channel();
        let serving = shared.clone();
        std::thread::Builder::new().name("api".to_owned()).spawn(move || {
            less_urgent();
            confine::reader();
            runtime.block_on(serve(inbox, serving));
        })?;
        Ok(Server { orders, shared })
    }

    /// Serves with this from now on; with none, nobody.
    pub fn follow(&self, plan: Option<Plan>) {
        let tokens = plan.as_ref().map(|plan| plan.tokens.clone()).unwrap_or_default();
        *self.shared.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
        // A thread that is gone serves nobody.
        let _ = self.orders.send(plan);
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        let figures = &self.shared.figures;
        Counts {
            connections: self.shared.connection_limit.taken() as u64,
            requests: figures.requests.load(Relaxed),
            refused_tokens: figures.refused_tokens.load(Relaxed),
            refused_connections: figures.refused_connections.load(Relaxed),
            used: figures.used.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl Shared {
    /// Who has this token.
    fn who(&self, token: &str) -> Option<Token> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone();
        let hash = hash_of(token);
        tokens.iter().find(|known| known.hash == hash).cloned()
    }

    fn note(&self, name: &str) {
        self.figures.requests.fetch_add(1, Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut used = self.figures.used.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = used.entry(name.to_owned()).or_default();
        *entry = (entry.0 + 1, now);
    }
}

/// A thread that may wait for others.
fn less_urgent() {
    if let Err(error) = rustix::process::nice(NICE) {
        warn!("api: its thread is as urgent as others: {error}");
    }
}

async fn serve(mut inbox: UnboundedReceiver<Option<Plan>>, shared: Arc<Shared>) {
    let app = gate::app(shared.clone());
    let mut listening = Vec::new();
    while let Some(plan) = inbox.recv().await {
        // Connections that are there go on; each of their requests is judged anew.
        listening.drain(..).for_each(|task: tokio::task::JoinHandle<()>| task.abort());
        let Some(plan) = plan else { continue };
        for listener in plan.listeners {
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => {
                    let accept = listen::accept(listener, plan.tls.clone(), app.clone(), shared.clone());
                    listening.push(tokio::spawn(accept));
                }
                Err(error) => warn!("api: {error}"),
            }
        }
    }
}

/// An address, ready to be listened on.
pub(crate) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
