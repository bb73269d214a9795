//! Another configuration for the router that runs.
//!
//! `bifrost check`, the start and a reload judge a file by the same code ([`examine`]), and a
//! reload does so beside the control thread, for a file may lie where it takes long to read. On the
//! control thread it becomes one step ([`section`]): what can still be refused (a collector that
//! cannot be reached by a socket, a directory, memory, an element of the graph that cannot begin)
//! is prepared first. So a refused reload changes nothing.
//!
//! One reload at a time: the next waits for its turn, and reads the file when that has come.

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use config::Router;
use graph::Registry;
use tracing::{error, info, warn};

use super::control::{Control, Door};
use super::section::{self, Change};
use super::verdict::examine;

/// Where configurations come from, for whoever wants to read one.
#[derive(Clone)]
pub(crate) struct Reloading {
    /// Absent when the ports were named on the command line.
    pub file: Option<PathBuf>,
    pub registry: Registry,
    /// Held by the reload that is going on.
    pub turn: Arc<Mutex<()>>,
}

impl Reloading {
    /// Reads and judges the file, then has it put in force, or only (a dry run) says what that
    /// would do; says what came of it. Takes as long as both do.
    pub(super) fn reload(&self, door: &Door, dry_run: bool) -> Result<String, String> {
        // Whoever panicked with it left nothing half done: that is the control thread's.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let file =
            self.file.as_ref().ok_or("nothing to read again: the ports were named on the command line")?;
        let router = Router::open(file).map_err(|mistakes| unchanged(mistakes.to_string()))?;
        let warnings = examine(&router, &self.registry).map_err(unchanged)?;
        for warning in warnings.lines() {
            warn!("{warning}");
        }
        let (sender, answer) = sync_channel(1);
        let job = Box::new(move |control: &mut Control| {
            let done = if dry_run { control.dry_run(router) } else { control.reload(router) };
            // Nobody waits any more: the answer goes nowhere.
            let _ = sender.send(done);
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
        let (reloading, door) = (self.reloading.clone(), self.door());
        let thread = std::thread::Builder::new().name("reload".to_owned());
        let begun = thread.spawn(move || match reloading.reload(&door, false) {
            Ok(done) => info!("{done}"),
            Err(wrong) => error!("{wrong}"),
        });
        if let Err(error) = begun {
            error!("the configuration stays as it is: no thread to read it: {error}");
        }
    }

    /// Puts a configuration in force, and says what came of it. On an error all is as it was.
    fn reload(&mut self, router: Router) -> Result<String, String> {
        let (change, waits) = self.change_to(router);
        section::put_in_force(&mut self.parts.sections(), change, &mut self.forwarding).map_err(unchanged)?;
        let waits = waiting(&waits);
        if !waits.is_empty() {
            warn!("the configuration is read again{waits}");
        }
        Ok(format!("configuration read again: {}{waits}", self.forwarding.status_line()))
    }

    /// What putting a configuration in force would do, a line each.
    fn dry_run(&mut self, router: Router) -> Result<String, String> {
        let (change, waits) = self.change_to(router);
        let mut effects = section::effects(&self.parts.sections(), &change);
        effects.extend(waits.iter().map(|section| format!("{section}: it changes at the next start only")));
        Ok(if effects.is_empty() { "nothing would change".to_owned() } else { effects.join("\n") })
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

fn unchanged(wrong: String) -> String {
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
