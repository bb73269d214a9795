//! The mirror port: copies of what passes ports, sent out by an interface.
//!
//! It is one of those who want copies (`copies.rs`), with a thread that sends what it gets by a
//! packet socket. The packets themselves never wait for it: copies that come faster than they can
//! be taken or sent, or find the interface down, are lost and counted. Packets of the interface
//! that it sends by are not copied, or each copy would be copied again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use config::{MirrorPort as Plan, Router};
use graph::Registry;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use port::copies::{MOST, Want};
use port::{PacketSocket, SocketOptions};
use tracing::{error, info, warn};

use super::copies::Ports;
use super::forwarding::Forwarding;
use super::section::{Change, Section};
use crate::control::status::{MirrorPortStatus, SeenPacket};
use crate::control::{Feed, Next};
use crate::service::tcpdump;

/// How often the thread looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// How long an interface that is not there is left alone.
const RETRY: Duration = Duration::from_secs(1);

/// What runs.
pub(crate) struct MirrorPort {
    plan: Plan,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Nobody wants it any more.
    over: AtomicBool,
    up: AtomicBool,
    sent: AtomicU64,
    bytes: AtomicU64,
    missed: AtomicU64,
    down: AtomicU64,
    slow: AtomicU64,
    too_long: AtomicU64,
}

impl Drop for MirrorPort {
    fn drop(&mut self) {
        self.counts.over.store(true, Relaxed);
    }
}

/// `[mirror]`: the mirror port that runs, and one that will.
#[derive(Default)]
pub(crate) struct Mirroring {
    running: Option<MirrorPort>,
    prepared: Option<Option<Prepared>>,
}

/// A mirror port whose thread waits until it is told to begin; when nobody can tell it any more, it
/// ends.
struct Prepared {
    port: MirrorPort,
    begin: Sender<()>,
}

impl Mirroring {
    /// Begins with what the configuration says, at the start.
    pub(super) fn begin(&mut self, forwarding: &mut Forwarding) {
        let Some(plan) = forwarding.router.mirror.clone() else { return };
        match prepare(plan, forwarding) {
            Ok(prepared) => self.running = Some(prepared.begin()),
            Err(wrong) => error!("nothing is mirrored: {wrong}"),
        }
    }

    pub(crate) fn status(&self) -> Option<MirrorPortStatus> {
        let MirrorPort { plan, counts } = self.running.as_ref()?;
        let count = |count: &AtomicU64| count.load(Relaxed);
        Some(MirrorPortStatus {
            to: plan.to.clone(),
            up: counts.up.load(Relaxed),
            filter: plan.filter.clone(),
            sent: count(&counts.sent),
            bytes: count(&counts.bytes),
            missed: count(&counts.missed),
            down: count(&counts.down),
            slow: count(&counts.slow),
            too_long: count(&counts.too_long),
        })
    }
}

impl Section for Mirroring {
    fn check(router: &Router, _: &Registry) -> Result<Vec<String>, String> {
        if let Some(plan) = &router.mirror {
            tcpdump::compile(&plan.filter).map_err(|wrong| format!("[mirror] filter: {wrong}"))?;
        }
        Ok(Vec::new())
    }

    fn effects(&self, change: &Change) -> Vec<String> {
        match (change.differs(|router| &router.mirror), &change.after.mirror) {
            (false, _) => Vec::new(),
            (true, Some(plan)) => vec![format!("[mirror]: packets are copied to {}", plan.to)],
            (true, None) => vec!["[mirror]: no packet is copied any more".to_owned()],
        }
    }

    fn prepare(&mut self, change: &mut Change, forwarding: &mut Forwarding) -> Result<(), String> {
        let running = self.running.as_ref().map(|port| &port.plan);
        self.prepared = match change.after.mirror.clone() {
            plan if plan.as_ref() == running => None,
            Some(plan) => Some(Some(prepare(plan, forwarding)?)),
            None => Some(None),
        };
        Ok(())
    }

    fn apply(&mut self, _: &Change, _: &mut Forwarding) {
        if let Some(prepared) = self.prepared.take() {
            self.running = prepared.map(Prepared::begin);
        }
    }

    fn abort(&mut self, forwarding: &mut Forwarding) {
        self.prepared = None;
        forwarding.watches.sweep(&mut forwarding.plane);
    }
}

impl Prepared {
    fn begin(self) -> MirrorPort {
        // Its thread waits for nothing else.
        let _ = self.begin.send(());
        info!("packets are mirrored to {}", self.port.plan.to);
        self.port
    }
}

/// A mirror port that could begin. On an error nothing has changed.
fn prepare(plan: Plan, forwarding: &mut Forwarding) -> Result<Prepared, String> {
    let filter = tcpdump::compile(&plan.filter).map_err(|wrong| format!("[mirror] filter: {wrong}"))?;
    let (incoming, outgoing) = (plan.incoming, plan.outgoing);
    let want = Want { slot: 0, filter, ports: Vec::new(), incoming, outgoing, snap: MOST };
    let ports = Ports { of: plan.ports.clone(), except: Some(plan.to.clone()) };
    let feed = forwarding.copy_to(ports, want).map_err(|wrong| format!("[mirror]: {wrong}"))?;
    let counts = Arc::new(Counts::default());
    let mut copier = Copier { to: plan.to.clone(), socket: None, tried: None, counts: counts.clone() };
    let (begin, begins) = channel();
    let run = move || {
        if begins.recv().is_ok() {
            copier.run(&feed);
        }
    };
    thread::Builder::new()
        .name("mirror-port".to_owned())
        .spawn(run)
        .map_err(|error| format!("[mirror]: no thread to send by: {error}"))?;
    Ok(Prepared { port: MirrorPort { plan, counts }, begin })
}

/// The thread.
struct Copier {
    to: String,
    socket: Option<PacketSocket>,
    /// When the interface was last looked for.
    tried: Option<Instant>,
    counts: Arc<Counts>,
}

impl Copier {
    fn run(&mut self, feed: &Feed<SeenPacket>) {
        self.look();
        while !self.counts.over.load(Relaxed) {
            match feed.next(LOOK) {
                Next::Item(packet) => self.send(&packet.frame),
                Next::Nothing => self.look(),
                Next::Over => return,
            }
            self.counts.missed.store(feed.missed(), Relaxed);
        }
    }

    /// Opens the interface, if it is time to try.
    fn look(&mut self) {
        if self.socket.is_some() || self.tried.is_some_and(|tried| tried.elapsed() < RETRY) {
            return;
        }
        let first = self.tried.replace(Instant::now()).is_none();
        let options = SocketOptions { send_only: true, ..SocketOptions::default() };
        let opened = if_nametoindex(self.to.as_str())
            .map_err(io::Error::from)
            .and_then(|ifindex| PacketSocket::open(ifindex, options));
        match opened {
            Ok(socket) => self.socket = Some(socket),
            Err(error) if first => {
                warn!("{}, which packets are mirrored to: {error}; it is tried again", self.to)
            }
            Err(_) => {}
        }
        self.counts.up.store(self.socket.is_some(), Relaxed);
    }

    fn send(&mut self, frame: &[u8]) {
        self.look();
        let sent = match &self.socket {
            Some(socket) => socket.send(frame),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        let Err(error) = sent else {
            self.counts.up.store(true, Relaxed);
            self.counts.sent.fetch_add(1, Relaxed);
            self.counts.bytes.fetch_add(frame.len() as u64, Relaxed);
            return;
        };
        let count = match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOBUFS | Errno::EAGAIN) => &self.counts.slow,
            Some(Errno::EMSGSIZE) => &self.counts.too_long,
            _ => {
                // Down, or gone: perhaps another one of the name comes.
                self.socket = None;
                self.counts.up.store(false, Relaxed);
                &self.counts.down
            }
        };
        count.fetch_add(1, Relaxed);
    }
}
