//! Another configuration for the router that runs.
//!
//! `bifrost check`, the start and a reload judge a file by the same code ([`examine`]), and a reload does so beside the
//! control thread, for a file may lie where it takes long to read. On the control thread all that can still be refused
//! comes first (a collector that cannot be reached by a socket, a directory, memory, an element of the graph that cannot
//! begin), and is undone when something after it is refused: what follows cannot be. So a refused reload changes nothing.
//!
//! One reload at a time: the next waits for its turn, and reads the file when that has come.

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use config::Router;
use graph::Registry;
use tracing::{error, info, warn};

use super::control::{Control, Door};
use super::sflow::Sflow;
use super::{settings, verdict::examine};

/// Where configurations come from, for whoever wants to read one.
#[derive(Clone)]
pub(super) struct Reloading {
    /// Absent when the ports were named on the command line.
    pub file: Option<PathBuf>,
    pub registry: Registry,
    /// Held by the reload that is going on.
    pub turn: Arc<Mutex<()>>,
}

impl Reloading {
    /// Reads and judges the file, then has it put in force; says what came of it. Takes as long as both do.
    pub(super) fn reload(&self, door: &Door) -> Result<String, String> {
        // Whoever panicked with it left nothing half done: that is the control thread's.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let unchanged = |wrong: String| format!("the configuration stays as it is: {wrong}");
        let file =
            self.file.as_ref().ok_or("nothing to read again: the ports were named on the command line")?;
        let router = Router::open(file).map_err(|mistakes| unchanged(mistakes.to_string()))?;
        let warnings = examine(&router, &self.registry).map_err(unchanged)?;
        for warning in warnings.lines() {
            warn!("{warning}");
        }
        let (sender, answer) = sync_channel(1);
        let job = Box::new(move |control: &mut Control| {
            // Nobody waits any more: the answer goes nowhere.
            let _ = sender.send(control.reload(router));
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
        let begun = thread.spawn(move || match reloading.reload(&door) {
            Ok(done) => info!("{done}"),
            Err(wrong) => error!("{wrong}"),
        });
        if let Err(error) = begun {
            error!("the configuration stays as it is: no thread to read it: {error}");
        }
    }

    /// Puts a configuration in force, and says what came of it. On an error all is as it was.
    fn reload(&mut self, router: Router) -> Result<String, String> {
        let translated = self.plane.policy().translates();
        self.change(&router).map_err(|wrong| format!("the configuration stays as it is: {wrong}"))?;
        self.change_flows(&router);
        let waits = waiting(&self.router, &router);
        let waits = match waits.as_slice() {
            [] => String::new(),
            waits => format!("; at the next start only: {}", waits.join(", ")),
        };
        if !waits.is_empty() {
            warn!("the configuration is read again{waits}");
        }
        self.router.ports = router.ports;
        self.router.police = router.police;
        (self.router.linux_filter, self.router.linux_rules) = (router.linux_filter, router.linux_rules);
        self.router.graph = router.graph;
        self.router.filter = router.filter;
        self.router.flow_log = router.flow_log;
        self.router.sflow = router.sflow;
        self.router.mirror = router.mirror;
        self.router.nat = router.nat;
        if self.plane.policy().translates() && !translated {
            let local = self.mirror.model().addresses().map(|address| address.net.addr()).collect();
            self.tell_local(local, false);
        }
        self.tell_nat();
        self.tell_nftables();
        let changed = self.change_ports();
        self.apply_limits();
        changed.map_err(|error| error.to_string())?;
        Ok(format!("configuration read again: {}{waits}", self.status_line()))
    }

    /// All that can be refused. On an error nothing has changed.
    fn change(&mut self, router: &Router) -> Result<(), String> {
        let timeouts = router.flow.unwrap_or_default().timeouts;
        timeouts.check().map_err(|error| error.to_string())?;
        let sflow = match &router.sflow {
            Some(plan) if self.sflow.as_ref().is_none_or(|sflow| sflow.plan() != plan) => Some(Some(
                Sflow::start(plan.clone()).map_err(|error| format!("cannot start sFlow: {error}"))?,
            )),
            None if self.sflow.is_some() => Some(None),
            _ => None,
        };
        let log = self.prepare_flow_log(router.flow_log.clone())?;
        let sampling = sflow.as_ref().unwrap_or(&self.sflow).as_ref().map(Sflow::sampling);
        let (hooks, policy) = (settings::hooks(&router.graph), settings::policy(router, sampling));
        // Before the rest, as it can be undone.
        if let Err(wrong) = self.change_mirror_port(router.mirror.clone()) {
            self.abandon_flow_log(log);
            return Err(wrong);
        }
        if let Err(error) = self.plane.change(hooks, policy, &mut self.tables) {
            self.abandon_flow_log(log);
            self.begin_mirror_port();
            return Err(error.to_string());
        }
        self.watches.follow(&mut self.plane);
        self.adopt_flow_log(log);
        if let Some(sflow) = sflow {
            self.sflow = sflow;
        }
        Ok(())
    }

    /// How long flows live, and which begin in mid-stream: for those there are as well.
    fn change_flows(&mut self, router: &Router) {
        let flow::Settings { timeouts, pickup, .. } = router.flow.unwrap_or_default();
        if let Some(table) = self.plane.policy().table()
            && let Err(error) = table.configure(&timeouts, pickup)
        {
            // They were checked.
            error!("flows keep the timeouts that they had: {error}");
        }
        if self.router.flow.is_some() || router.flow.is_some() {
            let before = self.router.flow.unwrap_or_default();
            self.router.flow = Some(flow::Settings { timeouts, pickup, ..before });
        }
    }
}

/// What of the configuration has changed and waits for the next start.
fn waiting(before: &Router, after: &Router) -> Vec<&'static str> {
    let flow = |router: &Router| router.flow.unwrap_or_default();
    let changed = [
        ("[workers]", before.workers != after.workers),
        ("[memory]", before.memory != after.memory),
        ("[tables]", before.tables != after.tables),
        ("[paths]", before.paths != after.paths),
        ("[fpm]", before.fpm != after.fpm),
        ("[audit]", before.audit != after.audit),
        ("[metrics]", before.metrics != after.metrics),
        ("[log]", before.log != after.log),
        ("[flow] memory and fragments", flow(before) != flow(after)),
        ("[flow] ftp", before.ftp_off != after.ftp_off),
    ];
    changed.into_iter().filter_map(|(section, changed)| changed.then_some(section)).collect()
}
