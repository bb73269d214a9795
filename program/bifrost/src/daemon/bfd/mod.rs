//! `[bfd]`: BFD sessions that FRR wants are run here.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the daemon's part: it says what is wanted, and starts the process |
//! | `reachability.rs` | whom sessions reach: what the process tells at once, and what follows from it |
//! | `process.rs` | the process that runs the sessions |
//! | `thread.rs` | its thread that does |
//! | `live.rs` | a session as that thread has it |
//! | `socket.rs` | its sockets |
//! | `connection.rs` | the way to FRR's bfdd |
//!
//! The protocol is the crate `bfd`. FRR decides which sessions there are, and what is done about
//! their state; bfdd hands them over to a forwarding plane (`bfdd --dplaneaddr`). The thread here
//! has nothing else to do and an urgent priority, so that intervals of 10 ms are kept while FRR or
//! Bifrost itself reads a million routes. And it is in a process of its own, so that a restart of
//! Bifrost ends no session.

mod connection;
mod live;
pub(crate) mod process;
mod reachability;
mod socket;
mod thread;

use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use config::{Bfd as Plan, BfdKeys, Repair};
use tracing::{info, warn};

use super::control::Door;
use super::forwarding::Forwarding;
use super::section::{Change, Section};
use crate::subject::BfdStatus;
use process::Request;
pub(crate) use reachability::Reachability;

/// How often the process is told what is wanted.
const EVERY: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Bfd {
    /// What the process was told last, and when.
    told: Option<(Instant, Option<Plan>)>,
    /// The process, if it was started by this daemon.
    child: Option<Child>,
    /// Hears whom sessions reach.
    watch: Option<JoinHandle<()>>,
}

impl Bfd {
    /// Says what is wanted, when that has changed and from time to time.
    pub(super) fn follow(&mut self, forwarding: &mut Forwarding, door: &Door) {
        follow_gateways(forwarding);
        let plan = &forwarding.router.bfd;
        if self.told.as_ref().is_some_and(|(at, told)| told == plan && at.elapsed() < EVERY) {
            return;
        }
        // Reaped, if it has ended.
        self.child.take_if(|child| !matches!(child.try_wait(), Ok(None)));
        let control = &forwarding.router.control.socket;
        let place = process::place(control);
        let told = match plan {
            Some(Plan { frr, users, peers }) => {
                let (users, peers) = (users.clone(), peers.clone());
                process::tell(&place, &Request::Follow { frr: *frr, users, peers })
            }
            None if self.told.as_ref().is_some_and(|(_, told)| told.is_none()) => Ok(()),
            None => process::tell(&place, &Request::End),
        };
        self.told = Some((Instant::now(), plan.clone()));
        if told.is_ok() && plan.is_some() && self.watch.as_ref().is_none_or(JoinHandle::is_finished) {
            self.watch = watch(&place, door);
        }
        let Err(error) = told else { return };
        match error.kind() {
            // Told again in a second, when it listens.
            ErrorKind::NotFound | ErrorKind::ConnectionRefused if plan.is_some() => self.begin(control),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {}
            _ => warn!("bfd: the process that runs the sessions cannot be told anything: {error}"),
        }
    }

    fn begin(&mut self, control: &Path) {
        if self.child.is_some() {
            return;
        }
        match start(control) {
            Ok(child) => {
                info!("bfd: process {} runs the sessions", child.id());
                self.child = Some(child);
                // It listens in a moment.
                self.told = None;
            }
            Err(error) => warn!("bfd: no session is run here: {error}"),
        }
    }

    /// How the sessions are, asked at its place.
    pub(crate) fn status(&self, forwarding: &Forwarding) -> Result<Option<BfdStatus>, String> {
        let Some(plan) = &forwarding.router.bfd else { return Ok(None) };
        match process::ask(&process::place(&forwarding.router.control.socket)) {
            Ok(status) => Ok(Some(status)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                let trouble = Some("the process that runs the sessions is not there yet".to_owned());
                Ok(Some(BfdStatus { frr: plan.frr.to_string(), trouble, ..BfdStatus::default() }))
            }
            Err(error) => Err(format!("the process that runs BFD does not answer: {error}")),
        }
    }
}

/// A thread that hears whom sessions reach, until the process ends.
fn watch(place: &Path, door: &Door) -> Option<JoinHandle<()>> {
    let (place, door) = (place.to_owned(), door.clone());
    let run = move || {
        confine::client();
        let ended = reachability::watch(&place, |report| {
            door.hand_in(Box::new(move |control| {
                control.forwarding.reachability.take(report);
                follow_gateways(&mut control.forwarding);
                control.parts.redundancy.follow(&control.forwarding);
            }))
        });
        if let Err(error) = ended {
            warn!("bfd: whom sessions reach is not heard: {error}");
        }
        door.hand_in(Box::new(|control| control.forwarding.reachability.forget()));
    };
    // Tried again with what the process is told next.
    Builder::new().name("bfd-watch".to_owned()).spawn(run).ok()
}

/// Routes do without gateways that are lost.
fn follow_gateways(forwarding: &mut Forwarding) {
    let model = forwarding.mirror.model();
    let gateways = forwarding.reachability.gateways(&forwarding.router.repairs, model);
    let news: Vec<String> = {
        let (before, now) = (&model.gateways.lost, &gateways.lost);
        let lost = now.difference(before).map(|it| format!("the gateway {} is lost", it.address));
        let back =
            before.difference(now).map(|it| format!("the gateway {} is not lost any more", it.address));
        lost.chain(back).collect()
    };
    let concerned = forwarding.mirror.follow_gateways(gateways, &mut forwarding.tables);
    for it in news {
        warn!("bfd: {it}; next hops changed: {concerned}");
    }
}

/// This program again, where no terminal's signals reach it.
fn start(control: &Path) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg("--socket").arg(control).arg("bfd").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}

/// What another file does to the keys of sessions.
fn keys(before: Option<&Plan>, after: Option<&Plan>) -> Vec<String> {
    let of = |plan: Option<&Plan>| plan.map(|plan| plan.peers.clone()).unwrap_or_default();
    let (before, after) = (of(before), of(after));
    let is =
        |one: &BfdKeys, other: &BfdKeys| (one.address, &one.interface) == (other.address, &other.interface);
    let named = |it: &BfdKeys| match &it.interface {
        Some(interface) => format!("[bfd]: sessions with {}%{interface}", it.address),
        None => format!("[bfd]: sessions with {}", it.address),
    };
    let new = after.iter().filter(|it| !before.contains(it)).map(|it| {
        match before.iter().any(|other| is(it, other)) {
            true => format!("{} have other keys", named(it)),
            false => format!("{} are authenticated", named(it)),
        }
    });
    let gone = before.iter().filter(|it| !after.iter().any(|other| is(it, other)));
    new.chain(gone.map(|it| format!("{} are not authenticated any more", named(it)))).collect()
}

impl Section for Bfd {
    fn effects(&self, change: &Change) -> Vec<String> {
        let (before, after) = (&change.before, &change.after);
        let sessions = match (&before.bfd, &after.bfd) {
            (before, after) if before == after => None,
            (Some(before), Some(plan)) if before.has_sessions_of(plan) => None,
            (_, Some(plan)) => Some(format!("[bfd]: sessions of FRR's bfdd at {} are run here", plan.frr)),
            (_, None) => Some("[bfd]: sessions of FRR's are not run any more".to_owned()),
        };
        let of = |from: &[Repair], to: &[Repair], does: &str| {
            let new = to.iter().filter(|repair| !from.contains(repair));
            let says = |it: &Repair| format!("[[repair]]: {} {does} {}", it.gateway, it.backup);
            new.map(says).collect::<Vec<_>>()
        };
        let gone = of(&after.repairs, &before.repairs, "has no backup any more:");
        let new = of(&before.repairs, &after.repairs, "has the backup");
        let keys = keys(before.bfd.as_ref(), after.bfd.as_ref());
        sessions.into_iter().chain(keys).chain(gone).chain(new).collect()
    }

    fn prepare(&mut self, _: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        Ok(())
    }

    /// The control thread follows what is configured, as it does at the start.
    fn apply(&mut self, _: &Change, _: &mut Forwarding) {}

    fn abort(&mut self, _: &mut Forwarding) {}
}
