//! The daemon: one control thread between Linux, the operator and the plane.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | starting and stopping |
//! | `control.rs` | the control thread's loop, and what it owns |
//! | `forwarding.rs` | what forwards, and what it forwards by |
//! | `settings.rs` | `router.toml`'s words into the plane's |
//! | `verdict.rs` | whether a configuration can be put in force |
//! | `section.rs` | how a change of several sections becomes one step |
//! | `reload.rs` | another configuration for the router that runs |
//! | `commit.rs` | the same with the file and the history, and the way back |
//! | `ports.rs` | `[[port]]`: which interfaces to take, and keeping the plane told about them |
//! | `interfaces.rs` | those of Linux's interfaces that lie on ports, or are made of them |
//! | `bridges.rs` | which hosts are behind each member of a bridge, or end of a VXLAN |
//! | `own/` | `[interface.NAME]`, `[[route]]`: Linux is made as the file says |
//! | `upgrade/` | another process takes over, or this one does |
//! | `served.rs` | `[service.*]`, `[system]`: other daemons are told what the file says |
//! | `rules.rs` | `[graph]`, `[filter]`, `[nat]` |
//! | `flow_table.rs` | `[flow]` |
//! | `sflow.rs` | `[sflow]` |
//! | `api.rs` | `[api]`: where programs are listened to |
//! | `questions.rs` | answers for the control socket, asked of the control thread |
//! | `routes.rs` | those of routes and neighbours; what can be shown as a whole is in `subject/` |
//! | `fallback.rs` | the same filter and translation in Linux |
//! | `handover.rs` | flows, handed to Linux at a stop |
//! | `nft.rs` | the program that loads them |
//! | `firewall.rs` | Linux's own firewall, adopted |
//! | `foreign.rs` | what Linux does to packets and the plane does not |
//! | `steering.rs` | Linux's routing rules, given to the workers |
//! | `multicast.rs` | Linux's multicast routes, given to the workers |
//! | `icmp.rs` | which ICMP errors Linux would send |
//! | `peers.rs` | who speaks routing protocols, for the driver |
//! | `flow_log.rs` | `[flow_log]`: flows that ended |
//! | `flows.rs` | flows and the filter, and what its rules want in the log |
//! | `nat_audit.rs` | mappings of address translation against the flow table |
//! | `nat_shortage.rs` | hosts that address translation had no mapping for, in the log |
//! | `explain.rs` | what would happen to a packet |
//! | `copies.rs` | copies of what passes ports, for those who watch |
//! | `mirror_port.rs` | `[mirror]`: such copies, sent out by an interface |
//! | `bfd/` | `[bfd]`: BFD sessions of FRR's are run here |
//! | `discovery/` | `[discovery.NAME]`: hosts are told of this router |
//! | `dhcp_relay/` | `[dhcp_relay.NAME]`: DHCP is passed to servers elsewhere |
//! | `redundancy/` | `[vrrp.NAME]`: addresses that this router has together with others |
//! | `sharing/` | `[sharing]`: flows that two routers have together |
//! | `tracked.rs`, `pings.rs` | what sections depend on: whether it is there now, whether hosts answer |
//! | `groups.rs`, `orders.rs` | what those parts share: being in groups, the way to a thread |
//! | `watch.rs` | trace and capture: observers in the workers' graphs |
//!
//! The order at the start matters: Linux's tables are read whole before the first port is taken, so
//! that from the moment a packet can reach the plane, the plane knows all that Linux knows. Until
//! then, and from the moment that the daemon stops or dies, Linux forwards.

mod absent;
pub(crate) mod api;
pub(crate) mod bfd;
mod bridges;
mod commit;
mod control;
mod copies;
mod dhcp_relay;
mod discovery;
pub(crate) mod expect;
pub(crate) mod explain;
pub(crate) mod fallback;
pub(crate) mod firewall;
pub(crate) mod flow_file;
mod flow_log;
mod flow_state;
mod flow_table;
mod flows;
mod forecast;
pub(crate) mod foreign;
mod forwarding;
mod groups;
mod handover;
mod icmp;
pub(crate) mod interfaces;
pub(crate) mod ip;
mod lock;
mod mirror_port;
mod multicast;
mod nat_audit;
mod nat_shortage;
mod nft;
mod orders;
pub(crate) mod own;
mod peers;
mod pings;
pub(crate) mod ports;
mod questions;
mod redundancy;
mod reload;
mod routes;
pub(crate) mod routing;
mod rules;
mod section;
pub(crate) mod served;
pub(crate) mod settings;
mod sflow;
mod sharing;
mod steering;
mod tracked;
pub(crate) mod tunnels;
mod upgrade;
mod verdict;
mod watch;

use sflow::Sflow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::control::{Access, Answer, Server};
use crate::metrics::Metrics;
use crate::service::{LastResort, Notify, Signals, Stop};
use config::{Machine, Router};
use fib::Tables;
use mirror::Mirror;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use plane::Plane;
use port::Driver;
use tracing::{info, warn};

pub use commit::begin;
pub(crate) use commit::digest;
pub(crate) use control::Control;
pub(crate) use forwarding::Forwarding;
use questions::Questions;
use reload::Reloading;
use revisions::Store;
use services::tool;
pub use upgrade::Predecessor;
pub use verdict::examine;

/// What the daemon is started with.
pub struct Start<'a> {
    /// The checked configuration; its control socket is already the one that the command line asked
    /// for.
    pub router: Router,
    /// The file that it was read from; absent when ports were named on the command line.
    pub file: Option<PathBuf>,
    /// What was in force before; absent likewise.
    pub store: Option<Arc<Store>>,
    /// Where the daemon keeps what is its own.
    pub state: PathBuf,
    /// The classes of elements that the graph's hooks can name.
    pub registry: graph::Registry,
    /// Signals of this process, taken over before any thread was started.
    pub signals: Signals,
    /// Who ends the process if this does not.
    pub last_resort: LastResort,
    /// The service manager.
    pub notify: Notify,
    /// The process that this one takes over from.
    pub predecessor: Option<&'a Predecessor>,
}

/// The word of the command line by which a process takes over from the one that starts it.
const TAKE_OVER: &str = "--take-over";

/// Why the daemon ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The plane.
    #[error(transparent)]
    Plane(#[from] plane::PlaneError),
    /// The programs in the driver.
    #[error(transparent)]
    Driver(#[from] port::DriverError),
    /// The tables.
    #[error(transparent)]
    Tables(#[from] fib::FibError),
    /// Netlink or FPM.
    #[error(transparent)]
    Mirror(#[from] mirror::MirrorError),
    /// The flow log.
    #[error(transparent)]
    FlowLog(#[from] flowlog::StartError),
    /// What the process may do.
    #[error(transparent)]
    Confine(#[from] confine::ConfineError),
    /// The control socket.
    #[error(transparent)]
    Server(#[from] crate::control::ServerError),
    /// The metrics' address.
    #[error("cannot serve metrics on {listen}: {error}")]
    Metrics {
        /// The address.
        listen: std::net::SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// A port that another process handed over.
    #[error("it cannot go on with {0}")]
    Lost(String),
    /// The system.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What it said.
        error: std::io::Error,
    },
}

/// Who may speak with FRR's daemons.
const FRR: &str = "frrvty";

/// Runs until a signal says stop. An error is a sentence for the operator.
pub fn run(start: Start<'_>) -> Result<(), String> {
    serve(start).map_err(|error| error.to_string())
}

fn serve(start: Start<'_>) -> Result<(), DaemonError> {
    let Start { router, file, store, state, registry, mut signals, last_resort, notify, predecessor } = start;
    // Before any thread is started, for each has what its maker has.
    confine::join(FRR);
    confine::process()?;
    let reloading = Reloading::new(file, store, registry);
    let mut control = make(router, &reloading, signals.stop(), predecessor.is_some())?;
    let answer: Arc<dyn Answer> = Arc::new(Questions::new(control.door(), reloading));
    if let Some(predecessor) = predecessor {
        control.read_beside()?;
        if signals.stop().is_asked() {
            return Ok(());
        }
        let (ports, active) = predecessor.make_way()?;
        control.forwarding.plane.inherit(ports);
        control.parts.redundancy.go_on(active);
        control.forwarding.pings.go_on();
    }
    // Before anything is taken: a second daemon, or an address that is not to be had, ends here.
    // Questions wait.
    let access = {
        let socket = &control.forwarding.router.control;
        Access {
            socket: socket.socket.clone(),
            mode: socket.mode,
            group: socket.group.clone(),
            operate_group: socket.operate_group.clone(),
            read_group: socket.read_group.clone(),
        }
    };
    let mut server = match predecessor {
        None => Some(Server::start(&access, answer.clone())?),
        // Clients find the other one as long as this one may fail.
        Some(_) => None,
    };
    let measured = control.forwarding.router.metrics;
    let serve_metrics = || {
        let start = |metrics: &config::Metrics| {
            Metrics::start(metrics.listen, answer.clone())
                .map_err(|error| DaemonError::Metrics { listen: metrics.listen, error })
        };
        measured.as_ref().map(start).transpose()
    };
    let mut metrics = serve_metrics()?;
    let loaded = match predecessor {
        None => control.load(&notify),
        Some(_) => control.load(&Notify::silent()),
    };
    let lost = control.forwarding.plane.lost().map_or(Ok(()), |port| Err(DaemonError::Lost(port)));
    let stopped = signals.stop().is_asked();
    let ready = loaded.and(lost).and_then(|()| match predecessor {
        Some(predecessor) if !stopped => {
            server = Some(Server::replace(&access, answer.clone())?);
            predecessor.tell_done()
        }
        _ => Ok(()),
    });
    let result = match ready {
        // Told to stop before it was ready.
        Ok(()) if stopped => Ok(false),
        Ok(()) => {
            let status = control.forwarding.status_line();
            info!("ready: {status}; control socket {}", access.socket.display());
            notify.ready(&status);
            if let Some(server) = &server {
                control.parts.api.begin(&control.forwarding.router, state, answer.clone(), server.rates());
            }
            go_on(&mut control, &mut signals, &notify, &mut metrics, serve_metrics)
        }
        Err(error) => Err(error),
    };
    last_resort.begun();
    let is_succeeded = matches!(result, Ok(true));
    if !is_succeeded {
        notify.stopping();
    }
    // Else the threads of clients would wait for what is not going to come, and their end for them.
    control.close();
    drop((server, metrics));
    if is_succeeded {
        // The other process has it all: nothing is given back.
        std::mem::forget(control);
        return Ok(());
    }
    control.stop();
    info!("stopped: Linux forwards");
    result.map(drop)
}

/// All that forwards; nothing is taken yet. `beside`: another process forwards meanwhile.
fn make(router: Router, reloading: &Reloading, stop: Stop, beside: bool) -> Result<Control, DaemonError> {
    let online = Machine::this().cores.0;
    let cores = router.workers.cores_among(&online);
    keep_off(&cores, &online);

    wire::set_flow_key(&settings::flow_key(&router.paths));
    let capacity = settings::capacity(&router.tables);
    let mut driver = Driver::new(&capacity.sizes())?;
    driver.prepare()?;
    let tables = Tables::new(capacity, Some(driver.table_memory()?))?;
    let sflow = router.sflow.clone().map(Sflow::start).transpose();
    let sflow = sflow.map_err(|error| DaemonError::System { what: "cannot start sFlow", error })?;
    let sampling = sflow.as_ref().map(Sflow::sampling);
    let settings = settings::plane(&router, &cores, reloading.registry.clone(), sampling);
    let plane = Plane::start(&settings, driver, tables.view())?;
    let mirror = Mirror::new(settings::mirror(&router, beside))?;
    Control::new(Forwarding::new(router, plane, mirror, tables, stop), reloading.clone(), sflow)
}

/// Runs until a signal says stop, or another process has taken over: true.
fn go_on(
    control: &mut Control,
    signals: &mut Signals,
    notify: &Notify,
    metrics: &mut Option<Metrics>,
    serve_metrics: impl Fn() -> Result<Option<Metrics>, DaemonError>,
) -> Result<bool, DaemonError> {
    while let Some(successor) = control.run(signals, notify)? {
        // It serves them itself.
        *metrics = None;
        if let Some(process) = control.hand_over(successor) {
            notify.successor(process);
            return Ok(true);
        }
        *metrics = serve_metrics().inspect_err(|error| warn!("{error}")).ok().flatten();
    }
    Ok(false)
}

/// Keeps this thread, and those that it will start, off the workers' cores, if that leaves any.
fn keep_off(cores: &[usize], online: &[usize]) {
    let rest: Vec<usize> = online.iter().copied().filter(|core| !cores.contains(core)).collect();
    if rest.is_empty() {
        warn!("workers run on every core: control shares one with them, and may be late under load");
        return;
    }
    let mut set = CpuSet::new();
    let kept = rest
        .iter()
        .try_for_each(|core| set.set(*core))
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    if let Err(error) = kept {
        warn!("control cannot be kept off the workers' cores: {error}");
    }
}
