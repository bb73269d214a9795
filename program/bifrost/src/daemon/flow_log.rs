//! The flow log beside the control thread: accounts that workers left become records there, with
//! what only the control thread knows (names of interfaces, next hops), and go to the log's own
//! threads.
//!
//! Workers leave accounts in a queue of 65,536; the control thread takes them every 100 ms, at most
//! [`TURN`] between two looks at netlink, and goes on at once when there were more. What found the
//! queue full is counted by the workers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::control::status::{FlowLogOutput, FlowLogStatus, FlowQuery};
use fib::{HopKind, NextHopId, Tables, View};
use flow::{Account, End, Table};
use flowlog::record::{Interface, Name};
use flowlog::settings::Plan;
use flowlog::{Accounts, FlowLog, Record, Sender, StartError};
use mirror::Mirror;
use plane::Plane;
use tracing::{info, warn};

use super::flows::wanted;
use super::forwarding::Forwarding;
use super::section::{Change, Section};
use super::sharing::Sharing;

/// Accounts taken in a row, between two looks at netlink.
const TURN: usize = 8192;
/// Entries of the flow table looked at before others may free theirs.
const STEP: u32 = 4096;
/// Entries of the flow table in a page of living flows.
const PAGE: u32 = 65_536;
/// How far the calendar may be off before what is logged follows it.
const SLACK: u64 = 1_000_000;
/// How often it is said that flows ended which nobody logged.
const REPORT: Duration = Duration::from_secs(60);

/// The log, and what it knows of the flows that it has told of.
pub(crate) struct Log {
    log: FlowLog,
    sender: Sender,
    plan: Plan,
    accounts: Arc<Mutex<Accounts>>,
    epoch: u64,
    missed: Missed,
}

/// A change of the flow log of which nothing can be refused any more.
enum LogChange {
    /// It goes by another plan; this was its plan before.
    Other(Plan),
    /// It begins.
    Begins(Box<Log>),
    /// It is not wanted any more.
    Ends,
}

/// How many flows had ended that no worker could report, when that was said last.
struct Missed {
    said: Instant,
    then: u64,
}

impl Missed {
    /// How many more there are, when it is time to say so.
    fn more(&mut self, now: u64, last: bool) -> Option<u64> {
        if now == self.then || self.said.elapsed() < REPORT && !last {
            return None;
        }
        self.said = Instant::now();
        Some(now.saturating_sub(std::mem::replace(&mut self.then, now)))
    }
}

/// What an output has counted.
pub(super) fn output(count: flowlog::tally::Count) -> FlowLogOutput {
    FlowLogOutput {
        name: count.name,
        given: count.given,
        records: count.records,
        units: count.units,
        bytes: count.bytes,
        lost: count.lost.iter().map(|(loss, records)| (loss.name().to_owned(), *records)).collect(),
        faults: count.faults,
        last_fault: count.last_fault,
    }
}

/// The interfaces, by their numbers.
pub(super) fn interfaces(plane: &Plane) -> Vec<Interface> {
    let mut interfaces = Vec::new();
    for (name, id) in plane.interface_names() {
        let index = plane.place(id).map_or(0, |(_, interface, _)| interface.ifindex);
        let at = usize::from(id.0);
        interfaces.resize(interfaces.len().max(at + 1), Interface::default());
        interfaces[at] = Interface { index, name: Name::new(name) };
    }
    interfaces
}

/// Puts interfaces in the place of their ports' numbers (plus one, for 0 is none).
fn named(mut record: Record, interfaces: &[Interface]) -> Record {
    for interface in [&mut record.input, &mut record.output] {
        let port = interface.index.checked_sub(1);
        *interface = port.and_then(|port| interfaces.get(port as usize)).copied().unwrap_or_default();
    }
    record
}

fn number(port: u16) -> u32 {
    u32::from(port) + 1
}

/// When the flow table's clock was 0, ns since 1970.
fn epoch() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    now.saturating_sub(graph::steady_now())
}

pub(super) fn log_mapping(record: nat::Record) {
    let time = epoch().saturating_add(record.time);
    info!(target: "nat", "{}", nat::Record { time, ..record });
}

fn locked(accounts: &Mutex<Accounts>) -> MutexGuard<'_, Accounts> {
    // Whoever panicked with it left at most one flow's sums behind.
    accounts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Log {
    pub(super) fn start(plan: Plan) -> Result<Log, StartError> {
        let log = FlowLog::start(plan.clone())?;
        let (sender, epoch) = (log.sender(), epoch());
        let missed = Missed { said: Instant::now(), then: 0 };
        Ok(Log { log, sender, plan, accounts: Arc::new(Mutex::new(Accounts::new(epoch))), epoch, missed })
    }

    /// As [`Accounts::take_up`].
    pub(super) fn take_up(&self, account: &Account) {
        locked(&self.accounts).take_up(account);
    }

    /// Goes on by another plan. One that cannot be had changes nothing.
    fn change(&mut self, plan: Plan) -> Result<(), StartError> {
        self.log.change(plan.clone())?;
        if plan.queue != self.plan.queue {
            self.sender = self.log.sender();
        }
        self.plan = plan;
        Ok(())
    }

    /// Says once a minute, and at the end, how many flows ended that the workers had no room to
    /// report.
    fn warn_of_missed(&mut self, now: u64, last: bool) {
        if let Some(more) = self.missed.more(now, last) {
            warn!(
                "flow log: {more} flows ended in the last minute that are not logged, for too many ended at a time; {now} in all"
            );
        }
    }

    fn status(&self, missed: u64) -> FlowLogStatus {
        let status = self.log.status();
        FlowLogStatus {
            directory: self.plan.files.as_ref().map(|files| files.directory.clone()),
            sample: self.plan.sample,
            missed,
            offered: status.offered,
            unsampled: status.unsampled,
            lost: status.lost,
            taken: status.taken,
            remembered: locked(&self.accounts).remembered() as u64,
            outputs: status.outputs.into_iter().map(output).collect(),
        }
    }

    /// Records that wait for the log's thread.
    fn waiting(&self) -> u64 {
        let status = self.log.status();
        status.offered.saturating_sub(status.unsampled + status.lost + status.taken)
    }
}

/// What one turn of logging needs beside the log.
struct Turn<'c> {
    sender: &'c mut Sender,
    accounts: MutexGuard<'c, Accounts>,
    interfaces: Vec<Interface>,
    ways: Ways<'c>,
}

impl Turn<'_> {
    fn log(&mut self, account: &Account) {
        let Some(record) = self.accounts.record(account, number) else { return };
        // What sampling leaves out is not looked up.
        if !self.sender.wants(record.flow) {
            self.sender.push(record);
            return;
        }
        let mut record = named(record, &self.interfaces);
        record.next_hop = self.ways.gateway(&record);
        self.sender.push(record);
    }
}

/// Gateways by next hop of the tables and interface, as they are during one turn.
struct Ways<'c> {
    mirror: &'c Mirror,
    tables: &'c Tables,
    /// Absent when the tables do not lead to the ports any more: then each flow is looked up in
    /// Linux's routes.
    view: Option<View>,
    known: HashMap<(NextHopId, u32), Option<IpAddr>>,
}

impl Ways<'_> {
    /// The gateway of the way that the forward direction takes now; of several by one interface,
    /// none is named.
    fn gateway(&mut self, record: &Record) -> Option<IpAddr> {
        let output = record.output;
        let to = record.translated.map_or(record.key.destination, |behind| behind.destination);
        if output.index == 0 || record.key.table != 0 {
            return None;
        }
        let (mirror, tables) = (self.mirror, self.tables);
        let look = || {
            let routes = mirror.routes_for(tables, mirror.model().vrf_of(record.input.index), to.into());
            let best = routes.iter().find(|route| route.best)?;
            let mut ways = best.ways.iter().filter(|way| way.device == output.name.as_str());
            let way = ways.next()?;
            way.gateway.filter(|_| ways.next().is_none())
        };
        let Some(view) = &self.view else { return look() };
        let table = mirror.table_of(record.input.index).unwrap_or_default();
        let id = view.lookup(table, to);
        match view.hop(id).kind() {
            HopKind::Forward => *self.known.entry((id, output.index)).or_insert_with(look),
            // Shared by routes that have nothing else in common.
            _ => look(),
        }
    }
}

/// `[flow_log]`: the log that runs, one that will, and one that ends.
#[derive(Default)]
pub(crate) struct Logging {
    running: Option<Log>,
    prepared: Option<LogChange>,
    /// One that is not wanted any more, while it writes and sends what waits.
    ending: Option<JoinHandle<()>>,
}

impl Logging {
    pub(super) fn new(running: Option<Log>) -> Logging {
        Logging { running, ..Logging::default() }
    }

    /// The log, where there is one.
    pub(super) fn log(&self) -> Option<&Log> {
        self.running.as_ref()
    }

    /// Takes what workers left of flows that ended: gives back what they had been given, and logs
    /// them. True: there is more.
    pub(super) fn settle(&mut self, forwarding: &Forwarding, sharing: &Sharing) -> bool {
        let Forwarding { plane, mirror, tables, .. } = forwarding;
        let Some(ended) = plane.policy().ended() else { return false };
        let (now, nat) = (graph::steady_now(), plane.policy().bindings());
        let logs = plane.policy().settings().nat.as_ref().is_some_and(|rules| rules.log);
        let told = |record: nat::Record| {
            if logs {
                log_mapping(record);
            }
        };
        std::iter::from_fn(|| ended.made.pop()).take(TURN).for_each(told);
        if let Some(log) = &mut self.running {
            let epoch = epoch();
            if log.epoch.abs_diff(epoch) > SLACK {
                log.epoch = epoch;
                locked(&log.accounts).set_epoch(epoch);
            }
        }
        let waiting = !ended.accounts.is_empty();
        let mut turn = self.running.as_mut().filter(|_| waiting).map(|log| Turn {
            sender: &mut log.sender,
            accounts: locked(&log.accounts),
            interfaces: interfaces(plane),
            ways: Ways { mirror, tables, view: Some(tables.view()), known: HashMap::new() },
        });
        let (mut taken, mut over) = (0, Vec::new());
        while taken < TURN
            && let Some(account) = ended.accounts.pop()
        {
            taken += 1;
            if account.end != End::Slice && sharing.is_on() {
                over.push(account.original);
            }
            if let Some(nat) = nat.filter(|_| account.end != End::Slice) {
                nat.release(&account, now, told);
            }
            if let Some(turn) = &mut turn {
                turn.log(&account);
            }
        }
        sharing.ended(over);
        nat.iter().for_each(|nat| nat.expire(now));
        drop(turn);
        if let Some(log) = &mut self.running {
            log.warn_of_missed(ended.lost.load(Relaxed), false);
        }
        taken == TURN
    }

    /// Waits for a log that ends.
    fn finish(&mut self) {
        if let Some(ending) = self.ending.take()
            && ending.join().is_err()
        {
            warn!("flow log: the thread that ended it panicked");
        }
    }

    /// After the workers have ended: logs the flows that live, for this router will not see their
    /// end. The interfaces are those that the ports had.
    pub(super) fn close(&mut self, forwarding: &Forwarding, sharing: &Sharing, interfaces: &[Interface]) {
        while self.settle(forwarding, sharing) {}
        self.finish();
        let Forwarding { plane, mirror, tables, .. } = forwarding;
        let (Some(mut log), Some(table)) = (self.running.take(), plane.policy().table()) else { return };
        log.warn_of_missed(missed(plane), true);
        let half = log.plan.queue as u64 / 2;
        let mut living = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next {
            next = page(table, from, &mut living).unwrap_or_else(|error| {
                warn!("flow log: flows that live are not logged: {error}");
                None
            });
            for some in living.chunks((half as usize).min(TURN)) {
                // Its thread never waits for anybody, so it does not take long.
                while log.waiting() > half {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let mut turn = Turn {
                    sender: &mut log.sender,
                    accounts: locked(&log.accounts),
                    interfaces: interfaces.to_vec(),
                    ways: Ways { mirror, tables, view: None, known: HashMap::new() },
                };
                some.iter().for_each(|account| turn.log(&Account { end: End::Flushed, ..*account }));
            }
            living.clear();
        }
        let Log { log, sender, .. } = log;
        drop(sender);
        let logged = log.status().offered;
        // Writes and sends what waits.
        drop(log);
        info!("flow log: closed after {logged} records");
    }

    pub(crate) fn status(&self, forwarding: &Forwarding) -> Option<FlowLogStatus> {
        self.running.as_ref().map(|log| log.status(missed(&forwarding.plane)))
    }

    pub(super) fn living(&self, forwarding: &Forwarding) -> Living {
        Living {
            table: forwarding.plane.policy().table().cloned(),
            accounts: self.running.as_ref().map(|log| log.accounts.clone()),
            interfaces: interfaces(&forwarding.plane),
        }
    }
}

impl Section for Logging {
    fn effects(&self, change: &Change) -> Vec<String> {
        let effect = match (&change.before.flow_log, &change.after.flow_log) {
            (Some(before), Some(after)) if before == after => return Vec::new(),
            (None, None) => return Vec::new(),
            (Some(_), Some(_)) => "the log goes on by another plan",
            (None, Some(_)) => "flows are logged",
            (Some(_), None) => "the log ends; what waits is written and sent",
        };
        vec![format!("[flow_log]: {effect}")]
    }

    fn prepare(&mut self, change: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        self.prepared = match (&mut self.running, change.after.flow_log.clone()) {
            (Some(log), Some(plan)) if plan != log.plan => {
                let before = log.plan.clone();
                log.change(plan).map_err(|error| error.to_string())?;
                Some(LogChange::Other(before))
            }
            (Some(_), None) => Some(LogChange::Ends),
            (None, Some(plan)) => {
                self.finish();
                let log = Log::start(plan).map_err(|error| error.to_string())?;
                Some(LogChange::Begins(Box::new(log)))
            }
            _ => None,
        };
        Ok(())
    }

    fn apply(&mut self, _: &Change, _: &mut Forwarding) {
        match self.prepared.take() {
            None | Some(LogChange::Other(_)) => {}
            Some(LogChange::Begins(log)) => self.running = Some(*log),
            // Beside the control thread, for a large file takes seconds.
            Some(LogChange::Ends) => {
                let Some(log) = self.running.take() else { return };
                self.finish();
                let ending = std::thread::Builder::new().name("flowlog-end".to_owned());
                // Without a thread it has ended by now.
                self.ending = ending.spawn(move || drop(log)).ok();
            }
        }
    }

    fn abort(&mut self, _: &mut Forwarding) {
        if let (Some(LogChange::Other(before)), Some(log)) = (self.prepared.take(), &mut self.running)
            && let Err(error) = log.change(before)
        {
            warn!("flow log: it cannot go back to what it was: {error}");
        }
    }
}

/// Flows that ended and that no worker could report.
fn missed(plane: &Plane) -> u64 {
    plane.policy().ended().map_or(0, |ended| ended.lost.load(Relaxed))
}

/// What telling of living flows needs, so that it can be done beside the control thread.
pub(crate) struct Living {
    table: Option<Arc<Table>>,
    accounts: Option<Arc<Mutex<Accounts>>>,
    interfaces: Vec<Interface>,
}

impl Living {
    /// The next page of flows that live, as the log would tell of them now, and where to go on.
    pub(super) fn page(&self, query: &FlowQuery, from: u32) -> Result<(Vec<Record>, Option<u32>), String> {
        let Some(table) = &self.table else { return Ok((Vec::new(), None)) };
        let mut living = Vec::new();
        let next = page(table, from, &mut living).map_err(|error| error.to_string())?;
        living.retain(|account| wanted(query, account));
        let fresh = || Arc::new(Mutex::new(Accounts::new(epoch())));
        let accounts = self.accounts.clone().unwrap_or_else(fresh);
        let mut records = Vec::with_capacity(living.len());
        // The control thread waits for no more than one step.
        for some in living.chunks(STEP as usize) {
            let accounts = locked(&accounts);
            records
                .extend(some.iter().map(|account| named(accounts.living(account, number), &self.interfaces)));
        }
        Ok((records, next))
    }
}

/// Flows of a page of the table's entries, and where to go on.
fn page(table: &Arc<Table>, from: u32, living: &mut Vec<Account>) -> Result<Option<u32>, flow::Error> {
    let worker = table.worker()?;
    let (mut next, end) = (Some(from), from.saturating_add(PAGE));
    while let Some(from) = next.filter(|from| *from < end) {
        worker.online();
        next = worker.flows(from, STEP, graph::steady_now(), &mut |_, account| living.push(*account));
        worker.offline();
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_nobody_logged_are_told_of_once_a_minute_and_at_the_end() {
        let mut missed = Missed { said: Instant::now(), then: 0 };
        assert_eq!((missed.more(5, false), missed.more(0, true)), (None, None));
        let Some(before) = Instant::now().checked_sub(REPORT) else { return };
        missed.said = before;
        assert_eq!(missed.more(5, false), Some(5));
        assert_eq!(
            (missed.more(9, false), missed.more(9, true), missed.more(9, true)),
            (None, Some(4), None)
        );
    }
}
