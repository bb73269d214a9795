//! A trial: streams sent out of one port and received by another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ::port::clock::now;

use crate::assembly::{self, Facts};
use crate::control::{Control, Remote};
use crate::lane::Sent;
use crate::outage::{Broken, Outage};
use crate::plan::Ends;
use crate::receiving::Receiving;
use crate::sending::{self, Orders, Sending};
use crate::sink::{Arrived, Expected};
use crate::{Port, Report, Stream, TrafficError};

/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(2);

/// Streams, where they are sent and received, and for how long.
///
/// ```no_run
/// # fn main() -> Result<(), traffic::TrafficError> {
/// use std::time::Duration;
/// use traffic::{Port, Stream, Trial};
///
/// let stream = Stream { rate: "1Mpps".parse().expect("a rate"), ..Stream::default() };
/// let trial = Trial {
///     streams: vec![stream],
///     to: Some(Port::open("veth1@sink", false)?),
///     duration: Some(Duration::from_secs(10)),
///     ..Trial::new(Port::open("veth0@source", false)?)
/// };
/// println!("{:?}", trial.run()?.loss_ratio());
/// # Ok(())
/// # }
/// ```
///
/// Trials in both directions, or over several pairs of ports, are several trials started together:
/// a [`Port`] is a handle that may be cloned, and may send in one trial and receive in another at
/// the same time.
#[derive(Clone)]
pub struct Trial {
    /// What is sent; 1 to [`MOST_STREAMS`](crate::stream::MOST_STREAMS).
    pub streams: Vec<Stream>,
    /// Where it is sent.
    pub from: Port,
    /// Where it arrives; nothing is known of what arrives without it.
    pub to: Option<Port>,
    /// A sink on another machine, in place of `to`.
    pub control: Option<Control>,
    /// How long packets are sent; until [`Running::stop`] when neither this nor `count` is given.
    pub duration: Option<Duration>,
    /// Packets of each stream at most.
    pub count: Option<u64>,
    /// Cores that send, each its part of every stream's flows; one thread on any core when empty.
    pub cores: Vec<usize>,
    /// The core that receives, where packets are received by a thread; any when not given.
    pub sink_core: Option<usize>,
    /// How long to wait for stragglers after the last packet was sent.
    pub drain: Duration,
    /// What the line carries, in bits a second, for rates in percent; what the port says when not
    /// given.
    pub line: Option<f64>,
}

impl Trial {
    /// No streams yet, out of this port, for ever; stragglers are waited for for 200 ms.
    pub fn new(from: Port) -> Trial {
        Trial {
            streams: Vec::new(),
            from,
            to: None,
            control: None,
            duration: None,
            count: None,
            cores: Vec::new(),
            sink_core: None,
            drain: Duration::from_millis(200),
            line: None,
        }
    }

    /// Runs it to its end.
    pub fn run(self) -> Result<Report, TrafficError> {
        self.start()?.wait()
    }

    /// Starts it and returns as soon as packets may leave.
    ///
    /// # Errors
    /// Anything wrong with a stream, a port or the kernel; nothing has been sent then.
    pub fn start(self) -> Result<Running, TrafficError> {
        let mark = fresh_mark();
        let remote = self.control.as_ref().map(Remote::connect).transpose()?;
        let there = remote.as_ref().and_then(Remote::mac);
        let ends = Ends {
            source: self.from.mac(),
            destination: there.or_else(|| self.to.as_ref().and_then(Port::mac)),
        };
        let prepared = sending::prepare(&Orders {
            streams: &self.streams,
            from: &self.from,
            ends,
            mark,
            duration: self.duration,
            count: self.count,
            cores: &self.cores,
            line: self.line,
        })?;
        let names = sending::named(&self.streams)?;
        let owners = prepared.owners.clone();
        let expected = Expected { mark, lanes: owners.len() as u16, offset: 0 };
        let receiving = match (remote, &self.to) {
            (Some(mut remote), _) => {
                let names = names.iter().map(|stream| stream.name.clone()).collect();
                remote.prepare(mark, expected.lanes, names)?;
                Some(Receiving::remote(remote))
            }
            (None, Some(to)) => Some(Receiving::start(to, expected, self.sink_core)?),
            (None, None) => None,
        };
        let facts = Facts {
            streams: names,
            owners,
            sender: if prepared.is_live() { "live frames" } else { "queue" }.to_owned(),
            receiver: receiving.as_ref().map(Receiving::means),
        };
        let sending = prepared.start()?;
        let stop = sending.stopper();
        let shared = Arc::new(Shared {
            sending: Mutex::new(sending),
            receiving,
            facts,
            count: self.count,
            outage: OnceLock::new(),
            ended: Mutex::new(None),
        });
        let (works, drain) = (shared.clone(), self.drain);
        let ports = Outage::new([Some(self.from), self.to].into_iter().flatten());
        let thread = thread::Builder::new().name("trial".to_owned());
        let thread = thread.spawn(move || works.finish(drain, ports));
        let thread = thread.map_err(TrafficError::io("starting a thread"))?;
        Ok(Running { shared, stop, thread: Some(thread) })
    }
}

/// A number that the trial before did not have.
pub(crate) fn fresh_mark() -> u16 {
    (crate::random::mix(now() ^ u64::from(std::process::id()) << 40) >> 48) as u16
}

/// A trial under way. Dropping it stops it.
pub struct Running {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), TrafficError>>>,
}

struct Shared {
    sending: Mutex<Sending>,
    receiving: Option<Receiving>,
    facts: Facts,
    /// Packets of each stream at most.
    count: Option<u64>,
    /// What broke first of its ports.
    outage: OnceLock<String>,
    /// When sending ended, and what came of it.
    ended: Mutex<Option<Ended>>,
}

struct Ended {
    at: u64,
    sent: Vec<Sent>,
    /// Buffers that the sending port's other end had not emptied then.
    untaken: u64,
    arrived: Option<Arrived>,
}

impl Shared {
    /// Whether the time of a trial that has sent everything is not over: there are streams of which
    /// more would come after it.
    fn lasts(&self) -> bool {
        let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let end = sending.time.end;
        if end == u64::MAX || now() >= end || sending.stopper().load(Ordering::Relaxed) {
            return false;
        }
        let mut sent = vec![0; self.facts.streams.len()];
        self.facts
            .owners
            .iter()
            .zip(sending.sent())
            .for_each(|(&owner, lane)| sent[owner] += lane.sent.packets);
        let mut streams = self.facts.streams.iter().zip(sent);
        streams.any(|(stream, sent)| stream.replay.is_none() && self.count.is_none_or(|count| sent < count))
    }

    /// Notes a port that has broken, if it is the first.
    fn broke(&self, broken: Option<&Broken>, start: u64) {
        if let Some(Broken { port, why }) = broken {
            self.outage.get_or_init(|| {
                let after = now().saturating_sub(start) as f64 / 1e9;
                format!("port {port} broke {after:.1} s after the start: {why}")
            });
        }
    }

    /// Waits for the end of sending, and for stragglers.
    fn finish(&self, drain: Duration, mut ports: Outage) -> Result<(), TrafficError> {
        let sending = || self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let start = sending().time.start;
        let (mut lost, mut result) = (Ok(()), None);
        loop {
            if result.is_none() && sending().is_over() {
                result = Some(sending().join());
            }
            if result.as_ref().is_some_and(|result| result.is_err() || !self.lasts()) {
                break;
            }
            self.broke(ports.look(), start);
            // What nobody receives any more need not be sent.
            if lost.is_ok()
                && let Some(receiving) = &self.receiving
            {
                lost = receiving.check();
                match &lost {
                    Ok(()) => self.broke(receiving.broken().as_ref(), start),
                    Err(_) => sending().stopper().store(true, Ordering::Relaxed),
                }
            }
            thread::sleep(LOOK);
        }
        let (sent, at, untaken) = {
            let sending = sending();
            let sent = sending.sent();
            // By its count, or stopped, it ended with the last packet.
            let last = sent.iter().map(|sent| sent.last).max().unwrap_or(0).max(sending.time.start);
            let at = if now() >= sending.time.end { sending.time.end } else { last };
            (sent, at, sending.untaken())
        };
        let packets: u64 = sent.iter().map(|sent| sent.sent.packets).sum();
        let ended = || self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        *ended() = Some(Ended { at, sent, untaken, arrived: None });
        result.unwrap_or(Ok(())).and(lost)?;
        let Some(receiving) = &self.receiving else { return Ok(()) };
        let began = Instant::now();
        while began.elapsed() < drain {
            let arrived: u64 = receiving.arrived().lanes.iter().map(|lane| lane.order.unique).sum();
            if arrived >= packets {
                break;
            }
            thread::sleep(LOOK);
        }
        let stopped = receiving.stop();
        // Stragglers as well have to get through.
        self.broke(ports.look_now(), start);
        self.broke(receiving.broken().as_ref(), start);
        if let Some(ended) = ended().as_mut() {
            ended.arrived = Some(receiving.arrived());
        }
        stopped
    }
}

impl Running {
    /// How it stands.
    pub fn report(&self) -> Report {
        let shared = &self.shared;
        let ended = shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, unfit) = {
            let sending = shared.sending.lock().unwrap_or_else(PoisonError::into_inner);
            (sending.time.start, sending.unfit())
        };
        let receiving = || shared.receiving.as_ref().map(Receiving::arrived);
        let (at, sent, arrived) = match &*ended {
            Some(ended) => (ended.at, ended.sent.clone(), ended.arrived.clone().or_else(receiving)),
            None => {
                let sent = shared.sending.lock().unwrap_or_else(PoisonError::into_inner).sent();
                (now(), sent, receiving())
            }
        };
        let uncertainty = shared.receiving.as_ref().map_or(0, Receiving::clock_uncertainty);
        let outage = shared.outage.get().cloned();
        let mut report = assembly::report(&shared.facts, (start, at), &sent, arrived.as_ref(), outage);
        if unfit != 0 {
            let what = "packets are longer than the port can send (than all buffers of a memif's ring together): they never left";
            report.notes.push(format!("{unfit} {what}, and count as lost"));
        }
        let untaken = ended.as_ref().map_or(0, |ended| ended.untaken);
        if untaken != 0 {
            report.notes.push(format!(
                "{untaken} of the buffers that were sent have not been given back by the other end: it may not have taken what is in them"
            ));
        }
        Report { clock_uncertainty: uncertainty, ..report }
    }

    /// Whether everything has been sent and received.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it early: nothing more is sent.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Result<Report, TrafficError> {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or(Err(TrafficError::Panicked("the trial")))?;
        }
        Ok(self.report())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // Nobody waits for the report any more.
            let _nobody_asks = thread.join();
        }
    }
}
