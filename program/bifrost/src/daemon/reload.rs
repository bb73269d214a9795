//! Another configuration for the router that runs.
//!
//! `bifrost check`, the start and a reload judge a file by the same code ([`examine`]), and a
//! reload does so beside the control thread, for a file may lie where it takes long to read. On the
//! control thread it becomes one step ([`section`]): what can still be refused (a collector that
//! cannot be reached by a socket, a directory, memory, an element of the graph that cannot begin)
//! is prepared first. So a refused reload changes nothing.
//!
//! One change at a time: the next waits for its turn, and reads the file when that has come. What
//! a changed file puts in force is a revision as well ([`commit`](super::commit)).

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::Router;
use graph::Registry;
use revisions::{Clock, How, Revision, Store};
use tracing::{error, info, warn};

use super::commit::{Entry, note, note_of_nobody, settle_first};
use super::control::{Control, Door};
use super::lock::Lock;
use super::section::{self, Change};
use super::verdict::examine;
use crate::control::Who;

/// A time that does not come.
pub(super) const NEVER: u64 = u64::MAX;

/// Where configurations come from, for whoever wants to read one.
#[derive(Clone)]
pub(crate) struct Reloading {
    /// Absent when the ports were named on the command line.
    pub file: Option<PathBuf>,
    /// What was in force before.
    pub store: Option<Arc<Store>>,
    pub registry: Registry,
    /// Who alone may commit.
    pub(super) lock: Lock,
    /// Held by the reload or commit that is going on.
    turn: Arc<Mutex<()>>,
    /// When the last revision goes back unless it is confirmed: nanoseconds since the machine was
    /// started.
    pub due: Arc<AtomicU64>,
    /// When the daemon was, in seconds since 1970.
    pub started: u64,
}

impl Reloading {
    pub(super) fn new(file: Option<PathBuf>, store: Option<Arc<Store>>, registry: Registry) -> Reloading {
        let clock = Clock::now().ok();
        let store_is_ours = |store: &&Arc<Store>| store.open(false).unwrap_or(false);
        let wait = store.as_ref().filter(store_is_ours);
        let wait = wait.and_then(|store| Some((store, store.wait().ok()??, clock.as_ref()?)));
        let due = wait.map_or(NEVER, |(store, wait, clock)| {
            // Told by this start of the machine, its clock cannot change it any more.
            let wait = store.wait_on(&wait, clock).unwrap_or(wait);
            warn!("revision {} waits for `bifrost confirm`", wait.revision);
            (clock.since_boot + wait.left(clock)).as_nanos() as u64
        });
        let started = note_of_nobody().time;
        let (lock, turn) = (Lock::default(), Arc::default());
        Reloading { file, store, registry, lock, turn, due: Arc::new(due.into()), started }
    }

    /// One change at a time.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        // Whoever panicked with it left nothing half done: that is the control thread's.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads and judges the file, then has it put in force, or only (a dry run) says what that
    /// would do; says what came of it. Takes as long as both do.
    pub(super) fn reload(&self, door: &Door, dry_run: bool, who: &Who) -> Result<String, String> {
        let _turn = self.turn();
        let file =
            self.file.as_ref().ok_or("nothing to read again: the ports were named on the command line")?;
        let router = Router::open(file).map_err(|mistakes| unchanged(mistakes.to_string()))?;
        let warnings = examine(&router, &self.registry).map_err(unchanged)?;
        for warning in warnings.lines() {
            warn!("{warning}");
        }
        let (_, notes) = self.keeps(door, &router, false)?;
        if dry_run {
            let lines = self.forecast(door, &router)?;
            let mut effects = self.on_control(door, move |control| control.effects(router))?;
            effects.extend(lines);
            effects.extend(notes);
            return Ok(if effects.is_empty() {
                "nothing would change".to_owned()
            } else {
                effects.join("\n")
            });
        }
        notes.iter().for_each(|note| warn!("{note}"));
        // A signal is nobody's.
        if who.user.is_some() {
            self.lock.permits(who).map_err(unchanged)?;
        }
        let running = self.running(door)?;
        let wait = self.store.as_ref().and_then(|store| store.wait().ok()?);
        if let Some(wait) = wait.filter(|_| router.raw != running) {
            return Err(unchanged(settle_first(wait.revision)));
        }
        // Who has no room for a history still reads the file again.
        let note = Revision { how: How::Reload, ..note(who) };
        let done =
            self.put(door, &running, Entry { router, note, wait: None, in_place: true, lenient: true })?;
        Ok(format!("configuration read again: {}", done.status))
    }

    /// Has something done on the control thread, however long it takes.
    pub(super) fn on_control<T: Send + 'static>(
        &self,
        door: &Door,
        work: impl FnOnce(&mut Control) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let (sender, answer) = sync_channel(1);
        let job = Box::new(move |control: &mut Control| {
            // Nobody waits any more: the answer goes nowhere.
            let _ = sender.send(work(control));
        });
        let stopping = || "the daemon is stopping".to_owned();
        if !door.hand_in(job) {
            return Err(stopping());
        }
        answer.recv().unwrap_or_else(|_| Err(stopping()))
    }
}

impl Control {
    /// Reloads as a client would, and logs what came of it.
    pub(super) fn reload_beside(&self) {
        self.beside("reload", |reloading, door| reloading.reload(door, false, &Who::default()));
    }

    /// Goes back, where a revision was not confirmed in time, and logs what came of it.
    pub(super) fn go_back_if_due(&self) {
        if self.reloading.is_due() {
            // Not twice.
            self.reloading.due.store(NEVER, Relaxed);
            self.beside("go-back", Reloading::go_back);
        }
    }

    fn beside(&self, name: &str, change: fn(&Reloading, &Door) -> Result<String, String>) {
        let (reloading, door) = (self.reloading.clone(), self.door());
        let thread = std::thread::Builder::new().name(name.to_owned());
        let begun = thread.spawn(move || match change(&reloading, &door) {
            Ok(done) => info!("{done}"),
            Err(wrong) => error!("{wrong}"),
        });
        if let Err(error) = begun {
            error!("the configuration stays as it is: no thread to change it: {error}");
        }
    }

    /// Puts a configuration in force, and says how the router is then. `point` commits what is
    /// beside it. On an error all is as it was.
    pub(super) fn reload<T>(
        &mut self,
        router: Router,
        mut beside: T,
        point: impl FnOnce(&mut T) -> Result<(), String>,
    ) -> Result<(T, String), String> {
        let (change, waits) = self.change_to(router);
        let point = || point(&mut beside);
        section::put_in_force(&mut self.parts.sections(), change, &mut self.forwarding, point)
            .map_err(unchanged)?;
        let waits = waiting(&waits);
        if !waits.is_empty() {
            warn!("another configuration is in force{waits}");
        }
        Ok((beside, format!("{}{waits}", self.forwarding.status_line())))
    }

    /// What putting a configuration in force would do, a line each.
    pub(super) fn effects(&mut self, router: Router) -> Result<Vec<String>, String> {
        let (change, waits) = self.change_to(router);
        let mut effects = section::effects(&self.parts.sections(), &change);
        effects.extend(waits.iter().map(|section| format!("{section}: it changes at the next start only")));
        Ok(effects)
    }

    /// The change from what is in force, and what of it waits for the next start.
    fn change_to(&self, router: Router) -> (Change, Vec<&'static str>) {
        let before = &self.forwarding.router;
        let tracked = self.forwarding.plane.policy().table().is_some();
        let after = in_force(before, &router, tracked);
        let waits = differing(&after, &router);
        (Change::new(before, after), waits)
    }
}

pub(super) fn unchanged(wrong: String) -> String {
    format!("the configuration stays as it is: {wrong}")
}

fn waiting(sections: &[&str]) -> String {
    match sections {
        [] => String::new(),
        sections => format!("; at the next start only: {}", sections.join(", ")),
    }
}

/// What of a configuration can be in force before the next start. While flows are `tracked`, their
/// table stays as it is.
fn in_force(before: &Router, after: &Router, tracked: bool) -> Router {
    let Router { workers, memory, tables, paths, fpm, audit, control, metrics, log, .. } = before.clone();
    let mut router =
        Router { workers, memory, tables, paths, fpm, audit, control, metrics, log, ..after.clone() };
    if tracked && (before.flow.is_some() || after.flow.is_some()) {
        let flow::Settings { timeouts, pickup, .. } = after.flow.unwrap_or_default();
        router.flow = Some(flow::Settings { timeouts, pickup, ..before.flow.unwrap_or_default() });
        router.ftp_off = before.ftp_off;
    }
    router
}

/// The sections that differ and can be in force only after a start.
fn differing(now: &Router, wanted: &Router) -> Vec<&'static str> {
    let flow = |router: &Router| router.flow.unwrap_or_default();
    let differ = [
        ("[workers]", now.workers != wanted.workers),
        ("[memory]", now.memory != wanted.memory),
        ("[tables]", now.tables != wanted.tables),
        ("[paths]", now.paths != wanted.paths),
        ("[fpm]", now.fpm != wanted.fpm),
        ("[audit]", now.audit != wanted.audit),
        ("[metrics]", now.metrics != wanted.metrics),
        ("[log]", now.log != wanted.log),
        ("[flow] memory and fragments", flow(now) != flow(wanted)),
        ("[flow] ftp", now.ftp_off != wanted.ftp_off),
    ];
    differ.into_iter().filter_map(|(section, differs)| differs.then_some(section)).collect()
}
