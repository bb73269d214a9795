//! The log at work: from workers' queues to every way out.
//!
//! ```text
//! worker --Sender--> lane --+                       +--> line --> collector's thread
//! worker --Sender--> lane --+--> thread "flowlog" --+--> line --> collector's thread
//!                            (names, batches)       +--> line --> files' thread --> sealer's thread
//! ```
//!
//! The thread in the middle never waits for anybody, so what the core leaves in its lane is gone
//! from it within 50 ms.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::output::{Output, StartError, Wanted};
use crate::queue::{Lane, Sender};
use crate::record::{Name, Record};
use crate::settings::Plan;
use crate::tally::Count;

/// How often lanes are looked at.
const ROUND: Duration = Duration::from_millis(50);
/// Records of a batch.
const BATCH: usize = 1024;
/// How often losses are told of in the log.
const REPORT: Duration = Duration::from_secs(60);

/// Names of interfaces by their index, for records that come without.
#[derive(Debug, Default)]
pub struct Names(RwLock<HashMap<u32, Name>>);

impl Names {
    /// These are all that there are.
    pub fn set<'n>(&self, names: impl IntoIterator<Item = (u32, &'n str)>) {
        let names = names.into_iter().map(|(index, name)| (index, Name::new(name))).collect();
        *self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = names;
    }

    /// The name of this one; empty: not known.
    pub fn get(&self, index: u32) -> Name {
        let names = self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        names.get(&index).copied().unwrap_or_default()
    }

    /// Fills in what a record leaves out.
    pub fn fill(&self, record: &mut Record) {
        for interface in [&mut record.input, &mut record.output] {
            if interface.name.is_empty() && interface.index != 0 {
                interface.name = self.get(interface.index);
            }
        }
    }
}

/// What went through the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Flows that workers offered.
    pub offered: u64,
    /// Of these, not chosen by sampling.
    pub unsampled: u64,
    /// Of these, lost because a worker's queue was full.
    pub lost: u64,
    /// Taken from workers' queues, and given to every way out.
    pub taken: u64,
    /// Ways out. `parquet` counts what was sealed of what `files` wrote.
    pub outputs: Vec<Count>,
}

/// The flow log. Dropped, it writes and sends what waits, and ends.
#[derive(Debug)]
pub struct FlowLog {
    shared: Arc<Shared>,
    plan: Plan,
    thread: Option<JoinHandle<()>>,
    /// Ways out of earlier plans that still write and send what waits.
    ending: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    lanes: Mutex<Vec<Arc<Lane>>>,
    outputs: Mutex<Vec<Output>>,
    names: Arc<Names>,
    taken: AtomicU64,
    /// Offered, unsampled and lost of lanes that are gone.
    gone: [AtomicU64; 3],
    /// Lost by ways out that are gone.
    ended: AtomicU64,
    /// Of all that was lost, told of in the log.
    told: AtomicU64,
    stop: AtomicBool,
}

impl FlowLog {
    /// Starts as planned. What cannot be reached yet is tried again; only files must be there.
    pub fn start(plan: Plan) -> Result<FlowLog, StartError> {
        let shared = Arc::new(Shared::default());
        let work = Arc::clone(&shared);
        let thread = thread::Builder::new().name("flowlog".to_owned()).spawn(move || work.run())?;
        let before = Plan { collectors: Vec::new(), files: None, ..plan };
        let mut log = FlowLog { shared, plan: before, thread: Some(thread), ending: Vec::new() };
        log.change(plan)?;
        Ok(log)
    }

    /// Goes on as this plan says, without losing what waits. Ways out that stay as they were are
    /// not touched, and files in the same directory go on by the other settings; what ends writes
    /// and sends what waits beside us. The size of workers' queues holds for those made from now
    /// on. After an error all is as it was.
    pub fn change(&mut self, plan: Plan) -> Result<(), StartError> {
        let directory = |plan: &Plan| plan.files.as_ref().map(|files| files.directory.clone());
        if directory(&plan) != directory(&self.plan) {
            // It may be one that its last writer has not let go of: that was a moment ago, else
            // nobody waits.
            self.ending.drain(..).for_each(ended);
        }
        self.ending.retain(|thread| !thread.is_finished());
        let sample = plan.sample;
        let collectors = plan.collectors.iter().cloned().map(|to| Wanted::Collector(to, sample));
        let wanted = collectors.chain(plan.files.clone().map(Wanted::Files)).collect::<Vec<_>>();
        let fresh = {
            let outputs = self.shared.outputs();
            let fresh =
                wanted.iter().filter(|wanted| !outputs.iter().any(|output| output.goes_on_as(wanted)));
            let tally = |wanted: &Wanted| {
                outputs.iter().map(|output| output.line.tally()).find(|tally| tally.name() == wanted.name())
            };
            fresh.map(|wanted| (wanted.clone(), tally(wanted).cloned())).collect::<Vec<_>>()
        };
        let fresh = fresh.into_iter().map(|(wanted, tally)| Output::start(wanted, tally));
        let fresh = fresh.collect::<Result<Vec<_>, _>>()?;
        for lane in self.shared.lanes().iter() {
            lane.one_in.store(sample, Relaxed);
        }
        self.plan = plan;
        let go = {
            // In one step: whoever gives meets either the old ones or the new ones.
            let mut outputs = self.shared.outputs();
            let (mut stay, go) = std::mem::take(&mut *outputs)
                .into_iter()
                .partition::<Vec<_>, _>(|output| wanted.iter().any(|wanted| output.goes_on_as(wanted)));
            stay.iter_mut().for_each(|output| wanted.iter().for_each(|wanted| output.follow(wanted)));
            stay.extend(fresh);
            *outputs = stay;
            go
        };
        self.end(go);
        Ok(())
    }

    /// Has these write and send what waits, beside us: a large file takes seconds.
    fn end(&mut self, go: Vec<Output>) {
        if go.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let end = move || shared.end(go);
        match thread::Builder::new().name("flowlog-end".to_owned()).spawn(end) {
            Ok(thread) => self.ending.push(thread),
            // They have ended with the closure.
            Err(error) => tracing::warn!("flow log: cannot start a thread: {error}"),
        }
    }

    /// An end for one thread of the core to leave its flows at.
    pub fn sender(&self) -> Sender {
        let (sender, lane) = Sender::new(self.plan.queue, self.plan.sample);
        self.shared.lanes().push(lane);
        sender
    }

    /// Names of interfaces, to be kept true by whoever knows them.
    pub fn names(&self) -> &Arc<Names> {
        &self.shared.names
    }

    /// What it has done so far.
    pub fn status(&self) -> Status {
        let mut status = Status { taken: self.shared.taken.load(Relaxed), ..Status::default() };
        let lanes = self.shared.lanes();
        let total = |gone: usize, of: fn(&Lane) -> &AtomicU64| {
            self.shared.gone[gone].load(Relaxed)
                + lanes.iter().map(|lane| of(lane).load(Relaxed)).sum::<u64>()
        };
        status.offered = total(0, |lane| &lane.offered);
        status.unsampled = total(1, |lane| &lane.unsampled);
        status.lost = total(2, |lane| &lane.lost);
        drop(lanes);
        for output in self.shared.outputs().iter() {
            status.outputs.push(output.line.tally().count());
            status.outputs.extend(output.files.as_ref().map(|files| files.sealed.count()));
        }
        status
    }
}

impl Drop for FlowLog {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("flow log: its thread panicked");
        }
        self.ending.drain(..).for_each(ended);
        let outputs = std::mem::take(&mut *self.shared.outputs());
        self.shared.end(outputs);
        // What could not be written or sent to the last.
        self.shared.report();
    }
}

fn ended(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("flow log: the thread that ends what is not wanted any more panicked");
    }
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Vec<Arc<Lane>>> {
        // Whoever panicked with it had at most pushed or removed.
        self.lanes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn outputs(&self) -> MutexGuard<'_, Vec<Output>> {
        self.outputs.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn run(&self) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut reported = Instant::now();
        loop {
            // Looked at first: what was pushed before the end is still taken.
            let last = self.stop.load(Relaxed);
            let busy = self.round(&mut batch);
            if last {
                return;
            }
            if reported.elapsed() >= REPORT {
                self.report();
                reported = Instant::now();
            }
            if !busy {
                thread::sleep(ROUND);
            }
        }
    }

    /// Takes all that waits, at most a queue's worth of each lane; true: a lane was so full that
    /// the next round should follow at once.
    fn round(&self, batch: &mut Vec<Record>) -> bool {
        let mut busy = false;
        let lanes = self.lanes().clone();
        for lane in &lanes {
            let full = lane.records.capacity();
            let mut taken = 0;
            while taken < full {
                let Some(mut record) = lane.records.pop() else { break };
                taken += 1;
                self.names.fill(&mut record);
                batch.push(record);
                if batch.len() == BATCH {
                    self.give(batch);
                }
            }
            busy |= taken > full / 4;
        }
        self.give(batch);
        drop(lanes);
        self.retire();
        busy
    }

    fn give(&self, batch: &mut Vec<Record>) {
        if batch.is_empty() {
            return;
        }
        let shared: Arc<[Record]> = batch.as_slice().into();
        batch.clear();
        self.taken.fetch_add(shared.len() as u64, Relaxed);
        for output in self.outputs().iter() {
            output.line.give(&shared);
        }
    }

    /// Forgets lanes whose sender is gone, but not what they counted.
    fn retire(&self) {
        self.lanes().retain(|lane| {
            let kept = Arc::strong_count(lane) > 1 || !lane.records.is_empty();
            if !kept {
                for (gone, counter) in self.gone.iter().zip([&lane.offered, &lane.unsampled, &lane.lost]) {
                    gone.fetch_add(counter.load(Relaxed), Relaxed);
                }
            }
            kept
        });
    }

    /// Ends these, which write and send what waits; what they have lost is remembered.
    fn end(&self, outputs: Vec<Output>) {
        for output in outputs {
            let tally = Arc::clone(output.line.tally());
            drop(output);
            // Else another counts on.
            if Arc::strong_count(&tally) == 1 {
                self.ended.fetch_add(tally.count().lost(), Relaxed);
            }
        }
    }

    /// Says what was lost since it was last said.
    fn report(&self) {
        let queues =
            self.gone[2].load(Relaxed) + self.lanes().iter().map(|lane| lane.lost.load(Relaxed)).sum::<u64>();
        let counts = self.outputs().iter().map(|output| output.line.tally().count()).collect::<Vec<_>>();
        let ended = self.ended.load(Relaxed);
        let lost = queues + ended + counts.iter().map(Count::lost).sum::<u64>();
        // While a way out ends, its losses are nowhere for a moment.
        let since = lost.saturating_sub(self.told.fetch_max(lost, Relaxed));
        if since == 0 {
            return;
        }
        let mut parts = vec![format!("the log's queue {queues}")];
        for count in counts.iter().filter(|count| count.lost() > 0) {
            let fault = count.last_fault.as_ref().map(|fault| format!(" ({fault})")).unwrap_or_default();
            parts.push(format!("{} {}{fault}", count.name, count.lost()));
        }
        if ended > 0 {
            parts.push(format!("outputs that have ended {ended}"));
        }
        tracing::warn!("flow log: {since} records lost in the last minute; in all: {}", parts.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::path::Path;

    use super::*;
    use crate::record::Interface;
    use crate::samples::records;
    use crate::settings::{CollectorSettings, FilesSettings, Settings};
    use crate::store::columns::Wanted;
    use crate::store::listing::list;
    use crate::store::read::{Reader, Span};
    use crate::tools::wait;

    fn settings(directory: &Path) -> Settings {
        let files = FilesSettings { directory: Some(directory.to_owned()), ..FilesSettings::default() };
        Settings { files: Some(files), ..Settings::default() }
    }

    fn read(directory: &Path) -> Vec<Record> {
        let (mut all, mut some) = (Vec::new(), Vec::new());
        for file in list(directory).unwrap() {
            let mut reader = Reader::open(&file.path, Wanted::ALL, Span::ALWAYS).unwrap();
            while reader.next(&mut some).unwrap() {
                all.extend_from_slice(&some);
            }
        }
        all
    }

    #[test]
    fn what_workers_leave_comes_out_with_names_and_every_record_is_accounted_for() {
        let directory = tempfile::tempdir().unwrap();
        let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = collector.local_addr().unwrap().to_string();
        let mut settings = settings(directory.path());
        settings.collectors = vec![CollectorSettings { address, ..CollectorSettings::default() }];
        let log = FlowLog::start(settings.check().unwrap()).unwrap();
        log.names().set([(7, "lan7"), (8, "wan8")]);
        let workers = (0..3).map(|worker| {
            let mut sender = log.sender();
            std::thread::spawn(move || {
                for mut record in records(5000) {
                    record.flow += worker * 5000;
                    record.input = Interface { index: 7, ..Interface::default() };
                    record.output = Interface { index: 8, ..Interface::default() };
                    assert!(sender.push(record));
                }
            })
        });
        workers.collect::<Vec<_>>().into_iter().for_each(|worker| worker.join().unwrap());
        wait("all is taken", || log.status().taken == 15_000);
        wait("all is written and sent", || {
            log.status().outputs.iter().take(2).all(|count| count.records + count.lost() == 15_000)
        });
        let status = log.status();
        assert_eq!((status.offered, status.unsampled, status.lost), (15_000, 0, 0));
        drop(log);
        let mut found = read(directory.path());
        found.sort_by_key(|record| record.flow);
        assert_eq!(
            found.iter().map(|record| record.flow).collect::<Vec<_>>(),
            (0..15_000).collect::<Vec<_>>()
        );
        assert!(found.iter().all(|r| r.input.name.as_str() == "lan7" && r.output.name.as_str() == "wan8"));
    }

    #[test]
    fn sampling_takes_whole_flows_and_a_full_queue_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let plan = Settings { sample: 10, ..settings(directory.path()) }.check().unwrap();
        let log = FlowLog::start(plan).unwrap();
        let mut sender = log.sender();
        for flow in 0..20_000 {
            let taken = [0, 1, 2].map(|slice| sender.push(Record { flow, slice, ..records(1)[0] }));
            assert!(taken == [true; 3] || taken == [false; 3]);
        }
        let status = log.status();
        assert_eq!((status.offered, status.lost), (60_000, 0));
        let sampled = status.offered - status.unsampled;
        assert!((5400..6600).contains(&sampled), "{sampled} of 6000");
        drop(log);
        // Nobody takes from this one any more.
        for flow in 0..2_000_000 {
            sender.push(Record { flow, ..records(1)[0] });
        }
        assert!(!sender.push(Record { flow: 0, ..records(1)[0] }) || !sender.wants(0));
    }

    #[test]
    fn a_change_of_plan_loses_nothing_and_keeps_what_stays() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut log = FlowLog::start(settings(first.path()).check().unwrap()).unwrap();
        let mut sender = log.sender();
        let records = records(3000);
        records[..1000].iter().for_each(|record| assert!(sender.push(*record)));
        wait("they are taken", || log.status().taken == 1000);
        // The same directory, with other settings: its lock is free again by then.
        let mut other = settings(first.path());
        other.files.as_mut().unwrap().rotate = Some("1h".to_owned());
        log.change(other.check().unwrap()).unwrap();
        records[1000..2000].iter().for_each(|record| assert!(sender.push(*record)));
        wait("they are taken", || log.status().taken == 2000);
        log.change(settings(second.path()).check().unwrap()).unwrap();
        records[2000..].iter().for_each(|record| assert!(sender.push(*record)));
        drop(log);
        assert!(read(first.path()) == records[..2000] && read(second.path()) == records[2000..]);
        let taken = FlowLog::start(settings(Path::new("/proc/flows")).check().unwrap());
        assert!(taken.unwrap_err().to_string().starts_with("flow log: /proc/flows"));
    }

    #[test]
    fn records_that_come_while_the_plan_changes_get_out_once() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let plan = |directory: &Path, rotate: &str| {
            let mut settings = settings(directory);
            settings.files.as_mut().unwrap().rotate = Some(rotate.to_owned());
            settings.check().unwrap()
        };
        let mut log = FlowLog::start(plan(first.path(), "1h")).unwrap();
        let mut sender = log.sender();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let worker = std::thread::spawn(move || {
            let (mut flow, any) = (0, records(1)[0]);
            while !stopped.load(Relaxed) {
                (flow..flow + 200).for_each(|flow| assert!(sender.push(Record { flow, ..any })));
                flow += 200;
                std::thread::sleep(Duration::from_millis(2));
            }
            flow
        });
        for _ in 0..4 {
            let plans = [(&first, "2h"), (&second, "2h"), (&second, "1h"), (&first, "1h")];
            for (directory, rotate) in plans {
                std::thread::sleep(Duration::from_millis(60));
                log.change(plan(directory.path(), rotate)).unwrap();
            }
        }
        stop.store(true, Relaxed);
        let pushed = worker.join().unwrap();
        drop(log);
        let mut found = [read(first.path()), read(second.path())].concat();
        found.sort_by_key(|record| record.flow);
        assert!(found.iter().map(|record| record.flow).eq(0..pushed), "{} of {pushed}", found.len());
        // At most one file each time that a directory was taken: other settings end none.
        assert!(list(first.path()).unwrap().len() + list(second.path()).unwrap().len() <= 9);
    }

    #[test]
    fn what_is_lost_by_an_output_that_ends_is_told_of_too() {
        let nobody = "127.0.0.1:1".to_owned();
        let dead = |domain| {
            let transport = Some("tcp".to_owned());
            let (address, queue) = (nobody.clone(), Some(1024));
            let collector = CollectorSettings { address, transport, queue, domain, ..Default::default() };
            Settings { collectors: vec![collector], ..Settings::default() }.check().unwrap()
        };
        let mut log = FlowLog::start(dead(None)).unwrap();
        let mut sender = log.sender();
        let mut push = |records: &[Record]| records.iter().for_each(|record| assert!(sender.push(*record)));
        let records = records(6000);
        push(&records[..4000]);
        wait("the queue is full", || log.status().outputs[0].lost() > 1000);
        wait("all are taken", || log.status().taken == 4000);
        // The same one with another domain counts on.
        log.change(dead(Some(7))).unwrap();
        push(&records[4000..]);
        wait("all are taken", || log.status().taken == 6000);
        assert_eq!(log.status().outputs[0].given, 6000);
        log.shared.report();
        assert!((1000..=6000).contains(&log.shared.told.load(Relaxed)));
        log.change(Settings::default().check().unwrap()).unwrap();
        log.shared.report();
        let shared = Arc::clone(&log.shared);
        drop(log);
        assert_eq!((shared.ended.load(Relaxed), shared.told.load(Relaxed)), (6000, 6000));
    }
}
