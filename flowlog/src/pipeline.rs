//! The log at work: from workers' queues to every way out.
//!
//! ```text
//! worker --Sender--> lane --+                       +--> line --> collector's thread
//! worker --Sender--> lane --+--> thread "flowlog" --+--> line --> collector's thread
//!                            (names, batches)       +--> line --> files' thread --> sealer's thread
//! ```
//!
//! The thread in the middle never waits for anybody, so what the core leaves in its lane is gone from it within 50 ms.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::clock::now;
use crate::export::{Datagrams, Dialect, Encoder, STALLED, Stream, Style, payload};
use crate::queue::{Lane, Sender};
use crate::record::{Name, Record};
use crate::settings::{Collector, Files, Plan, Protocol, Transport};
use crate::sink::Line;
use crate::store::{OpenError, Store};
use crate::tally::{Count, Tally};

/// How often lanes are looked at.
const ROUND: Duration = Duration::from_millis(50);
/// Records of a batch.
const BATCH: usize = 1024;
/// How often losses are told of in the log.
const REPORT: Duration = Duration::from_secs(60);
/// Largest message over TCP.
const TCP_MESSAGE: usize = 16_384;
/// After how many messages templates are sent again over UDP, if not by time.
const TEMPLATE_MESSAGES: u32 = 200;

/// Why there is no flow log.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The files.
    #[error("flow log: {0}")]
    Files(#[from] OpenError),
    /// A thread.
    #[error("flow log: cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

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
}

#[derive(Debug, Default)]
struct Shared {
    lanes: Mutex<Vec<Arc<Lane>>>,
    outputs: Mutex<Vec<Output>>,
    names: Arc<Names>,
    taken: AtomicU64,
    /// Offered, unsampled and lost of lanes that are gone.
    gone: [AtomicU64; 3],
    stop: AtomicBool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Collector(Collector, u32),
    Files(Files),
}

#[derive(Debug)]
struct Output {
    wanted: Wanted,
    line: Line,
    sealed: Option<Arc<Tally>>,
}

impl FlowLog {
    /// Starts as planned. What cannot be reached yet is tried again; only files must be there.
    pub fn start(plan: Plan) -> Result<FlowLog, StartError> {
        let shared = Arc::new(Shared::default());
        let work = Arc::clone(&shared);
        let thread = thread::Builder::new().name("flowlog".to_owned()).spawn(move || work.run())?;
        let mut log = FlowLog {
            shared,
            plan: Plan { collectors: Vec::new(), files: None, ..plan },
            thread: Some(thread),
        };
        log.change(plan)?;
        Ok(log)
    }

    /// Goes on as this plan says, without losing what waits. Ways out that stay as they were are not touched. The size
    /// of workers' queues holds for those made from now on. After an error the ways out that could be had are there.
    pub fn change(&mut self, plan: Plan) -> Result<(), StartError> {
        let sample = plan.sample;
        let collectors = plan.collectors.iter().cloned().map(|to| Wanted::Collector(to, sample));
        let wanted = collectors.chain(plan.files.clone().map(Wanted::Files)).collect::<Vec<_>>();
        let (stay, go) = std::mem::take(&mut *self.shared.outputs())
            .into_iter()
            .partition::<Vec<_>, _>(|output| wanted.contains(&output.wanted));
        let have = stay.iter().map(|output| output.wanted.clone()).collect::<Vec<_>>();
        self.shared.outputs().extend(stay);
        // Ends before its successor begins: they may want the same directory. Takes a moment, so not under the lock.
        drop(go);
        for lane in self.shared.lanes().iter() {
            lane.one_in.store(sample, Relaxed);
        }
        self.plan = plan;
        for wanted in wanted.into_iter().filter(|wanted| !have.contains(wanted)) {
            let output = Output::start(wanted)?;
            self.shared.outputs().push(output);
        }
        Ok(())
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
            status.outputs.extend(output.sealed.as_ref().map(|sealed| sealed.count()));
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
        let outputs = std::mem::take(&mut *self.shared.outputs());
        drop(outputs);
    }
}

impl Output {
    fn start(wanted: Wanted) -> Result<Output, StartError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (line, sealed) = match &wanted {
            Wanted::Collector(to, sampling) => {
                let tally = Arc::new(Tally::new(to.to_string()));
                let encoder = Encoder::new(style(to, *sampling), now());
                let line = match to.transport {
                    Transport::Udp => {
                        let sink = Datagrams::new(to.address, to.source, encoder, Arc::clone(&tally));
                        Line::start(sink, "flowlog-udp", to.queue, tally, stop)
                    }
                    Transport::Tcp => {
                        let (to_tally, to_stop) = (Arc::clone(&tally), Arc::clone(&stop));
                        let sink = Stream::new(to.address, encoder, to_tally, to_stop, STALLED);
                        Line::start(sink, "flowlog-tcp", to.queue, tally, stop)
                    }
                };
                (line?, None)
            }
            Wanted::Files(files) => {
                let directory = files.directory.display();
                let tally = Arc::new(Tally::new(format!("files {directory}")));
                let sealed = Arc::new(Tally::new(format!("parquet {directory}")));
                let store = Store::open(files.clone(), Arc::clone(&tally), Arc::clone(&sealed))?;
                (Line::start(store, "flowlog-files", files.queue, tally, stop)?, Some(sealed))
            }
        };
        Ok(Output { wanted, line, sealed })
    }
}

fn style(to: &Collector, sampling: u32) -> Style {
    let udp = to.transport == Transport::Udp;
    Style {
        dialect: match to.protocol {
            Protocol::Ipfix { biflow, times } => Dialect::Ipfix { biflow, times },
            Protocol::NetFlow9 => Dialect::NetFlow9,
        },
        limit: if udp { payload(to.mtu, to.address) } else { TCP_MESSAGE },
        domain: to.domain,
        sampling,
        refresh: udp.then_some(to.templates),
        refresh_messages: TEMPLATE_MESSAGES,
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
        let mut reported = (Instant::now(), 0);
        loop {
            // Looked at first: what was pushed before the end is still taken.
            let last = self.stop.load(Relaxed);
            let busy = self.round(&mut batch);
            self.report(&mut reported, last);
            if last {
                return;
            }
            if !busy {
                thread::sleep(ROUND);
            }
        }
    }

    /// Takes all that waits, at most a queue's worth of each lane; true: a lane was so full that the next round should
    /// follow at once.
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

    /// Says once a minute, and at the end, what was lost since.
    fn report(&self, reported: &mut (Instant, u64), last: bool) {
        if reported.0.elapsed() < REPORT && !last {
            return;
        }
        reported.0 = Instant::now();
        let queues =
            self.gone[2].load(Relaxed) + self.lanes().iter().map(|lane| lane.lost.load(Relaxed)).sum::<u64>();
        let counts = self.outputs().iter().map(|output| output.line.tally().count()).collect::<Vec<_>>();
        let lost = queues + counts.iter().map(Count::lost).sum::<u64>();
        if lost == reported.1 {
            return;
        }
        let since = lost - reported.1;
        reported.1 = lost;
        let mut parts = vec![format!("the log's queue {queues}")];
        for count in counts.iter().filter(|count| count.lost() > 0) {
            let fault = count.last_fault.as_ref().map(|fault| format!(" ({fault})")).unwrap_or_default();
            parts.push(format!("{} {}{fault}", count.name, count.lost()));
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
}
