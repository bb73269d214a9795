//! Mappings held against the flow table, a part of them at a time, by a thread beside the control
//! thread: what ended and was never heard of must not hold a port for ever ([`nat::Audit`]).

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flow::Table;
use nat::{Audit, Nat, Record};
use tracing::warn;

use super::flow_log::log_mapping;
use super::forwarding::Forwarding;

/// Between the looks at two parts, at least.
const EVERY: Duration = Duration::from_secs(2);
/// Entries of the flow table looked at before others may free theirs.
const STEP: u32 = 4096;

/// The audit, and the thread that is at it.
pub(crate) struct NatAudit {
    /// Flows given up so far.
    pub(crate) repaired: u64,
    /// Here while no thread is at work.
    audit: Audit,
    thread: Option<JoinHandle<Looked>>,
    next: Instant,
}

/// What a look at one part came to.
struct Looked {
    audit: Audit,
    repaired: u64,
    records: Vec<Record>,
    took: Duration,
}

impl NatAudit {
    pub(super) fn new() -> NatAudit {
        NatAudit { repaired: 0, audit: Audit::default(), thread: None, next: Instant::now() + EVERY }
    }
}

/// Counts every flow that lives for a part of the mappings.
fn look(nat: &Nat, table: &Arc<Table>, mut audit: Audit) -> Looked {
    let (begun, now) = (Instant::now(), graph::steady_now());
    let (mut repaired, mut records) = (0, Vec::new());
    // Without a place among the workers there is another chance soon.
    if let Ok(worker) = table.worker() {
        let mut look = nat.look(&audit);
        let mut next = Some(0);
        while let Some(from) = next {
            worker.online();
            next = worker.flows(from, STEP, now, &mut |_, account| {
                if account.is_translated() {
                    look.count(&account.original, &account.reply);
                }
            });
            worker.offline();
        }
        repaired = look.finish(&mut audit, now, |record| records.push(record));
    }
    Looked { audit, repaired, records, took: begun.elapsed() }
}

impl NatAudit {
    /// Has the next part of the mappings looked at, if it is time again; takes what the last look
    /// came to.
    pub(super) fn go_on(&mut self, forwarding: &Forwarding) {
        let policy = forwarding.plane.policy();
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished())
            && let Ok(looked) = thread.join()
        {
            self.audit = looked.audit;
            // A table of millions takes its time: at most a twentieth of one core.
            self.next = Instant::now() + EVERY.max(20 * looked.took);
            self.repaired += looked.repaired;
            if looked.repaired > 0 {
                warn!("{} flows that ended without a word are given up by their mappings", looked.repaired);
            }
            if policy.settings().nat.as_ref().is_some_and(|rules| rules.log) {
                looked.records.into_iter().for_each(log_mapping);
            }
        }
        let (Some(nat), Some(table)) = (policy.bindings(), policy.table()) else { return };
        if self.thread.is_some() || Instant::now() < self.next || nat.is_empty() {
            return;
        }
        let (nat, table, books) = (nat.clone(), table.clone(), std::mem::take(&mut self.audit));
        let thread = std::thread::Builder::new().name("nat-audit".to_owned());
        self.thread = thread.spawn(move || look(&nat, &table, books)).ok();
        self.next = Instant::now() + EVERY;
    }
}
