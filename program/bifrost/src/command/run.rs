//! `bifrost run`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::service::{LastResort, Notify, Signals, init_log};
use config::{Foreign, Level, PortRule, Router};
use graph::Registry;
use revisions::Store;

use super::Failure;
use super::args::{Output, Run};
use crate::daemon::{self, Predecessor};

/// Where the configuration is when nobody says.
const DEFAULT_FILE: &str = "/etc/bifrost/router.toml";

pub fn run(args: Run, socket: Option<PathBuf>, registry: Registry) -> Result<(), Failure> {
    let predecessor = args.take_over.then(Predecessor::at_standard_input).transpose();
    let predecessor =
        predecessor.map_err(|error| Failure::Io { what: "cannot take over".to_owned(), error })?;
    let ran = serve(args, socket, registry, predecessor.as_ref());
    if let (Err(failure), Some(predecessor)) = (&ran, &predecessor) {
        predecessor.tell_failed(&failure.to_string());
    }
    ran
}

fn serve(
    args: Run,
    socket: Option<PathBuf>,
    registry: Registry,
    predecessor: Option<&Predecessor>,
) -> Result<(), Failure> {
    let (mut router, file, store, notes) = configuration(&args)?;
    if args.check {
        return super::check::report(&router, file.as_deref(), &registry, Output { json: args.json });
    }
    let warnings = daemon::examine(&router, &registry).map_err(Failure::Said)?;
    if let Some(socket) = socket {
        router.control.socket = socket;
    }
    init_log(match router.log.level {
        Level::Error => tracing::Level::ERROR,
        Level::Warn => tracing::Level::WARN,
        Level::Info => tracing::Level::INFO,
        Level::Debug => tracing::Level::DEBUG,
        Level::Trace => tracing::Level::TRACE,
    });
    for warning in notes.iter().map(String::as_str).chain(warnings.lines()) {
        tracing::warn!("{warning}");
    }
    let signals = Signals::install()
        .map_err(|error| Failure::Io { what: "cannot take over the signals".to_owned(), error })?;
    let last_resort = LastResort::install()
        .map_err(|error| Failure::Io { what: "cannot take over the signals".to_owned(), error })?;
    let notify = Notify::from_environment();
    daemon::run(daemon::Start {
        router,
        file,
        store,
        state: args.state,
        registry,
        signals,
        last_resort,
        notify,
        predecessor,
    })
    .map_err(Failure::Said)
}

/// `bifrost bfd`.
pub fn bfd(control: &Path) -> Result<(), Failure> {
    init_log(tracing::Level::INFO);
    let what = || format!("cannot run BFD sessions beside {}", control.display());
    daemon::bfd::process::run(control).map_err(|error| Failure::Io { what: what(), error })
}

/// The checked configuration, the file that it is from, its history, and what is worth a word.
type Configured = (Router, Option<PathBuf>, Option<Arc<Store>>, Vec<String>);

fn configuration(args: &Run) -> Result<Configured, Failure> {
    if !args.ports.is_empty() {
        let ports = args.ports.iter().cloned().map(PortRule::new).collect();
        let linux_filter = match args.linux_filter.as_deref() {
            Some("ignore") => Foreign::Ignore,
            Some("adopt") => Foreign::Adopt,
            _ => Foreign::Respect,
        };
        return Ok((Router { ports, linux_filter, ..Router::default() }, None, None, Vec::new()));
    }
    let file = match &args.config {
        Some(file) => file.clone(),
        None if Path::new(DEFAULT_FILE).exists() => PathBuf::from(DEFAULT_FILE),
        None => {
            return Err(Failure::Said(format!(
                "which ports? There is no {DEFAULT_FILE}: name the ports (`bifrost run eth0 eth1`) or a file \
                 (`bifrost run -c router.toml`)"
            )));
        }
    };
    if args.check {
        let router = Router::open(&file).map_err(|error| Failure::Said(error.to_string()))?;
        return Ok((router, Some(file), None, Vec::new()));
    }
    let store = Arc::new(Store::new(&args.state, &file));
    let (router, notes) = daemon::begin(&file, &store);
    Ok((router.map_err(Failure::Said)?, Some(file), Some(store), notes))
}
