//! `[sharing]`: flows that two routers have together.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the control thread's part: what it tells the thread that shares, and asks of it |
//! | `thread.rs` | the thread that does |
//!
//! The protocol is the crate `sharing`, which decides; here are a socket and a clock. The thread
//! reads the flow table beside the workers, and puts flows into it as another worker would. The
//! control thread tells it what it alone knows (interfaces, mappings, timeouts) where that has
//! changed, and which flows have ended: it hears of those for the flow log.

mod thread;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread as threads;
use std::time::Duration;

use config::Router;
use config::Sharing as Plan;
use flow::{Timeouts, Tuple};
use graph::Registry;
use tracing::{error, warn};

use super::forwarding::Forwarding;
use super::orders::{Orders, orders};
use super::section::{Change, Section};
use crate::subject::SharingStatus;
use thread::{Facts, Order, Runner};

/// How long the thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a stop waits until the other router has the last news.
const LAST_NEWS: Duration = Duration::from_millis(500);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Sharing {
    running: Option<Running>,
}

struct Running {
    orders: Orders<Order>,
    plan: Option<Plan>,
    facts: Option<Facts>,
}

impl Sharing {
    /// Tells the thread what is configured, and what is known around it, where that has changed.
    /// Not before the ports are known: flows name them.
    pub(super) fn follow(&mut self, forwarding: &Forwarding) {
        let plan = &forwarding.router.sharing;
        if self.running.is_none() && plan.is_some() {
            match begin(forwarding.flows_are_shared.clone()) {
                Ok(running) => self.running = Some(running),
                Err(error) => return error!("flows are not shared: {error}"),
            }
        }
        let Some(running) = &mut self.running else { return };
        let facts = facts(forwarding);
        let same = match (&running.facts, &facts) {
            (Some(before), Some(now)) => before.is(now),
            (None, None) => true,
            _ => false,
        };
        if !same {
            running.facts.clone_from(&facts);
            running.orders.tell(Order::Facts(facts));
        }
        if running.plan != *plan {
            running.plan.clone_from(plan);
            running.orders.tell(Order::Plan(plan.clone()));
        }
    }

    /// Whether anybody wants to hear of flows that have ended.
    pub(super) fn is_on(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.plan.is_some())
    }

    /// Flows have ended here, oldest first.
    pub(super) fn ended(&self, originals: Vec<Tuple>) {
        if let Some(running) = self.running.as_ref().filter(|_| !originals.is_empty()) {
            running.orders.tell(Order::Ended(originals));
        }
    }

    pub(crate) fn status(&self) -> Result<Option<SharingStatus>, String> {
        let Some(running) = self.running.as_ref().filter(|_| self.is_on()) else { return Ok(None) };
        let answer = running.orders.ask(Order::Status).recv_timeout(PATIENCE);
        answer.map(Some).map_err(|_| "the thread that shares flows does not answer".to_owned())
    }

    /// Tells the last news, and ends the thread.
    pub(super) fn stop(&mut self) {
        let Some(running) = self.running.take().filter(|running| running.plan.is_some()) else { return };
        if running.orders.ask(Order::Stop).recv_timeout(LAST_NEWS).is_err() {
            warn!("sharing: the other router may not have the last news of flows");
        }
    }
}

fn begin(ready: Arc<AtomicBool>) -> io::Result<Running> {
    let (orders, inbox) = orders()?;
    let runner = Runner::new(inbox, ready);
    threads::Builder::new().name("sharing".to_owned()).spawn(move || runner.run())?;
    Ok(Running { orders, plan: None, facts: None })
}

fn facts(forwarding: &Forwarding) -> Option<Facts> {
    let policy = forwarding.plane.policy();
    let table = policy.table()?.clone();
    let timeouts = forwarding.router.flow.map_or_else(Timeouts::default, |flow| flow.timeouts);
    Some(Facts { table, nat: policy.nat().cloned(), timeouts, names: forwarding.interface_names() })
}

impl Forwarding {
    /// Whether this router has the flows that the other one of `[sharing]` could give it.
    pub(super) fn has_flows(&self) -> bool {
        self.router.sharing.is_none() || self.flows_are_shared.load(Relaxed)
    }
}

impl Section for Sharing {
    fn check(router: &Router, _: &Registry) -> Result<Vec<String>, String> {
        let tracks = router.flow.is_some()
            || router.nat.is_some()
            || router.filter.rules().any(|(_, rule)| rule.matches.states.is_some());
        let idle = router.sharing.is_some() && !tracks;
        let warning = "[sharing]: no flows are known that could be shared: [flow], [nat], or a rule of the \
                       filter that asks for a state begins to track them";
        Ok(idle.then(|| warning.to_owned()).into_iter().collect())
    }

    fn effects(&self, change: &Change) -> Vec<String> {
        let effect = match (&change.before.sharing, &change.after.sharing) {
            (before, after) if before == after => return Vec::new(),
            (None, Some(plan)) => format!("flows are shared with {}", plan.peer),
            (Some(_), Some(plan)) => format!("flows are told to {} anew", plan.peer),
            (_, None) => "flows are shared no more; those that are here stay".to_owned(),
        };
        vec![format!("[sharing]: {effect}")]
    }

    fn prepare(&mut self, _: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        Ok(())
    }

    /// The control thread tells the thread of it, as of all other changes.
    fn apply(&mut self, change: &Change, forwarding: &mut Forwarding) {
        if change.before.sharing.is_none() {
            // Who forwards already has its flows. That it shares them now is no reason to resign.
            forwarding.flows_are_shared.store(true, Relaxed);
        }
    }

    fn abort(&mut self, _: &mut Forwarding) {}
}
