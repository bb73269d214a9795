//! Two machines agree on a trial: the sink listens on TCP, the generator connects.
//!
//! What is said is JSON, a message a line. The generator begins with the token that both have from
//! their operators; who has another, or talks nonsense, is told so and hung up on. Before that a
//! peer can have 4 kB and two seconds of the sink's time, beside others that are heard meanwhile,
//! and there is one generator at a time. Nothing is encrypted: the token keeps strangers and
//! mistakes out, not somebody who reads the wire.
//!
//! ```text
//! generator                         sink
//! hello(token)              ------>
//!                           <------ welcome(mac)
//! clock                     ------>              some times: whose answer was fastest says how the clocks differ
//!                           <------ clock(now)
//! prepare(mark, lanes, ...) ------>
//!                           <------ ready
//! progress                  ------>              while packets are sent
//!                           <------ arrived
//! finish                    ------>
//!                           <------ arrived
//! ```
//!
//! One-way latency between two machines is as good as the agreement of their clocks. It is measured
//! before and after: half of the fastest round trip, and what the clocks drifted meanwhile, is how
//! far latencies may be off ([`Report::clock_uncertainty`](crate::Report::clock_uncertainty)).

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use ::port::clock::now;
use serde::{Deserialize, Serialize};
use wire::Mac;

pub use crate::outage::Broken;
use crate::outage::Outage;
use crate::port::PEER;
use crate::receiving::Receiving;
use crate::report::Count;
use crate::sink::{Arrived, Expected};
use crate::tally::{PackedTally, Tally};
use crate::{Port, TrafficError};

/// Bytes of a message: of a stranger, and of who has shown the token.
const STRANGER: usize = 4096;
const FRIEND: usize = 64 << 20;
/// How long a stranger has to show the token, and how many are heard at once: the others wait in
/// the kernel's queue.
const PATIENCE: Duration = Duration::from_secs(2);
const STRANGERS: usize = 64;
/// How long a generator may be silent: it asks for progress all the time.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a sink may take to be reached, and to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Readings of the other clock: so many, or fewer where they would take longer than this, but some
/// in any case.
const READINGS: usize = 32;
const READING: Duration = Duration::from_secs(1);
const FEWEST: usize = 4;
/// Lanes at most: the numbers that a stamp has room for are far more than a sink's memory.
const LANES: u16 = 4096;
/// Letters of a token at least.
const TOKEN: usize = 8;

/// Where a sink listens, and the token.
#[derive(Clone)]
pub struct Control {
    /// `host:port`.
    pub address: String,
    /// What both sides know.
    pub token: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    Hello { version: u32, token: String },
    Clock,
    Prepare { mark: u16, lanes: u16, offset: i64, names: Vec<String> },
    Progress,
    Finish,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Reply {
    Refused(String),
    Welcome { mac: Option<[u8; 6]> },
    Clock { now: u64 },
    Ready { means: String },
    Arrived { lanes: Vec<PackedTally>, foreign: Count, missed: u64, broken: Option<Broken> },
}

const VERSION: u32 = 3;

/// Reads a token from the text of a file: its first line, at least eight letters.
pub fn token(text: &str) -> Result<String, TrafficError> {
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < TOKEN || token.len() > 1024 {
        let what = format!(
            "a token is the first line of its file, {TOKEN} to 1024 letters; make one by: openssl rand -hex 16"
        );
        return Err(TrafficError::Control(what));
    }
    Ok(token.to_owned())
}

/// Messages over a connection.
struct Line {
    stream: BufReader<TcpStream>,
    /// Bytes of a message at most.
    most: usize,
    /// How long a message may take to come, from when it is waited for to its end.
    silence: Duration,
}

impl Line {
    fn new(stream: TcpStream, most: usize, silence: Duration) -> std::io::Result<Line> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(silence))?;
        Ok(Line { stream: BufReader::new(stream), most, silence })
    }

    fn send(&mut self, message: &impl Serialize) -> Result<(), String> {
        let mut text = serde_json::to_string(message).map_err(|error| error.to_string())?;
        text.push('\n');
        self.stream.get_mut().write_all(text.as_bytes()).map_err(|error| error.to_string())
    }

    /// The next message. `None` when the peer has hung up.
    fn next<T: for<'a> Deserialize<'a>>(&mut self) -> Result<Option<T>, String> {
        let (until, most) = (Instant::now() + self.silence, self.most);
        let mut text = Vec::new();
        while !text.ends_with(b"\n") {
            let part = self.part(until)?;
            if part.is_empty() && text.is_empty() {
                return Ok(None);
            }
            let length = part.iter().position(|byte| *byte == b'\n').map_or(part.len(), |end| end + 1);
            if length == 0 || text.len() + length > most {
                return Err("a message that is too long, or cut off".to_owned());
            }
            text.extend_from_slice(&part[..length]);
            self.stream.consume(length);
        }
        serde_json::from_slice(&text).map(Some).map_err(|_| "a message that makes no sense".to_owned())
    }

    /// What has come, at least a byte unless the peer has hung up. Who sends a byte now and then
    /// does not put off the end.
    fn part(&mut self, until: Instant) -> Result<&[u8], String> {
        let late = || "no word for too long".to_owned();
        if self.stream.buffer().is_empty() {
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            let left = left.ok_or_else(late)?;
            self.stream.get_ref().set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
        }
        self.stream.fill_buf().map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => late(),
            _ => error.to_string(),
        })
    }
}

/// What a listening sink has to tell.
#[derive(Debug)]
pub enum Event {
    /// A peer was refused, and why.
    Refused(String, String),
    /// A generator of this address begins a trial of these streams.
    Begins(String, Vec<String>),
    /// What came of it.
    Ended {
        /// Lanes put together.
        tally: Box<Tally>,
        /// What was none of theirs.
        foreign: Count,
        /// Frames that were lost at the port.
        missed: u64,
        /// What interrupted it, if it is no whole trial.
        interrupted: Option<String>,
    },
    /// The generator went between two trials, and not as it should.
    Lost(String),
}

/// Serves generators by a port until stopped, one at a time.
pub fn serve(
    listener: &TcpListener,
    token: &str,
    to: &Port,
    stop: &AtomicBool,
    tell: impl Fn(Event) + Send + Sync,
) -> Result<(), TrafficError> {
    listener.set_nonblocking(true).map_err(TrafficError::io("listening"))?;
    let (busy, strangers) = (AtomicBool::new(false), AtomicUsize::new(0));
    let current: Mutex<Option<TcpStream>> = Mutex::new(None);
    let (busy, strangers, current, tell) = (&busy, &strangers, &current, &tell);
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            let room = strangers.load(Ordering::Acquire) < STRANGERS;
            let Some((stream, peer)) = room.then(|| listener.accept().ok()).flatten() else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            strangers.fetch_add(1, Ordering::AcqRel);
            scope.spawn(move || {
                let peer = peer.to_string();
                let _ = stream.set_nonblocking(false);
                let admitted = admit(stream, token, to, busy);
                strangers.fetch_sub(1, Ordering::AcqRel);
                match admitted {
                    Err(why) => tell(Event::Refused(peer, why)),
                    Ok(mut line) => {
                        *lock(current) = line.stream.get_ref().try_clone().ok();
                        session(&mut line, to, &peer, stop, tell);
                        busy.store(false, Ordering::Release);
                    }
                }
            });
        }
        if let Some(stream) = lock(current).take() {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Hears a stranger out.
fn admit(stream: TcpStream, token: &str, to: &Port, busy: &AtomicBool) -> Result<Line, String> {
    let mut line = Line::new(stream, STRANGER, PATIENCE).map_err(|error| error.to_string())?;
    let refused = |line: &mut Line, why: &str| {
        // Who is gone need not hear it.
        let _ = line.send(&Reply::Refused(why.to_owned()));
        Err(why.to_owned())
    };
    match line.next::<Request>() {
        Ok(Some(Request::Hello { version: VERSION, token: shown })) => {
            if !same(shown.as_bytes(), token.as_bytes()) {
                return refused(&mut line, "another token than the sink's");
            }
        }
        Ok(Some(Request::Hello { version, .. })) => {
            return refused(
                &mut line,
                &format!("version {version} of the protocol; the sink speaks {VERSION}"),
            );
        }
        Ok(Some(_)) => return refused(&mut line, "the token comes first"),
        Ok(None) => return Err("hung up without a word".to_owned()),
        Err(why) => return refused(&mut line, &why),
    }
    if busy.swap(true, Ordering::Acquire) {
        return refused(&mut line, "the sink is serving another generator");
    }
    let mac = to.mac().map(|mac| mac.0);
    line.send(&Reply::Welcome { mac }).inspect_err(|_| busy.store(false, Ordering::Release))?;
    (line.most, line.silence) = (FRIEND, SILENCE);
    Ok(line)
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// A generator that has shown the token.
fn session(line: &mut Line, to: &Port, peer: &str, stop: &AtomicBool, tell: &impl Fn(Event)) {
    let mut trial = None;
    let end = converse(line, to, peer, tell, &mut trial);
    match (trial, end) {
        (None, Ok(())) => {}
        (None, Err(why)) => tell(Event::Lost(why)),
        (Some(trial), _) if stop.load(Ordering::Relaxed) => trial.cut("the sink was ended", tell),
        (Some(trial), Ok(())) => trial.cut("the generator went", tell),
        (Some(trial), Err(why)) => trial.cut(&format!("the generator is lost: {why}"), tell),
    }
}

/// A trial under way, at the sink.
struct Watched {
    receiving: Receiving,
    outage: Outage,
}

impl Watched {
    /// Tells what has come of it. It must have been stopped.
    fn ended(&self, arrived: &Arrived, interrupted: Option<String>, tell: &impl Fn(Event)) {
        let mut sum = Tally::default();
        arrived.lanes.iter().for_each(|lane| sum.add(lane));
        let Arrived { foreign, missed, .. } = *arrived;
        tell(Event::Ended { tally: Box::new(sum), foreign, missed, interrupted });
    }

    /// Ends it before its time.
    fn cut(self, why: &str, tell: &impl Fn(Event)) {
        // What came until then is told all the same.
        let _ = self.receiving.stop();
        self.ended(&self.receiving.arrived(), Some(format!("{why} in the middle of the trial")), tell);
    }
}

/// Answers a generator until it hangs up.
fn converse(
    line: &mut Line,
    to: &Port,
    peer: &str,
    tell: &impl Fn(Event),
    trial: &mut Option<Watched>,
) -> Result<(), String> {
    while let Some(request) = line.next::<Request>()? {
        let reply = match request {
            Request::Hello { .. } => Reply::Refused("the token has been shown".to_owned()),
            Request::Clock => Reply::Clock { now: now() },
            Request::Prepare { lanes, .. } if lanes > LANES => {
                Reply::Refused(format!("{lanes} lanes are more than {LANES}"))
            }
            Request::Prepare { mark, lanes, offset, names } => {
                // The one before must have let go of the port.
                if let Some(before) = trial.take() {
                    before.cut("the generator began another", tell);
                }
                match Receiving::start(to, Expected { mark, lanes, offset }, None) {
                    Ok(receiving) => {
                        tell(Event::Begins(peer.to_owned(), names));
                        let means = receiving.means();
                        let mut outage = Outage::new([to.clone()]);
                        outage.look_now();
                        *trial = Some(Watched { receiving, outage });
                        Reply::Ready { means }
                    }
                    Err(error) => Reply::Refused(error.to_string()),
                }
            }
            Request::Progress | Request::Finish => match trial {
                None => Reply::Refused("nothing has been prepared".to_owned()),
                Some(watched) => {
                    let finish = matches!(request, Request::Finish);
                    if finish {
                        watched.receiving.stop().map_err(|error| error.to_string())?;
                    }
                    let arrived = watched.receiving.arrived();
                    let broken = watched.outage.look_now().cloned();
                    if finish {
                        let interrupted = broken.as_ref().map(Broken::to_string);
                        watched.ended(&arrived, interrupted, tell);
                        *trial = None;
                    }
                    let lanes = arrived.lanes.iter().map(PackedTally::from).collect();
                    Reply::Arrived { lanes, foreign: arrived.foreign, missed: arrived.missed, broken }
                }
            },
        };
        line.send(&reply)?;
    }
    Ok(())
}

/// A sink on another machine.
pub(crate) struct Remote {
    line: Mutex<Line>,
    mac: Option<Mac>,
    means: String,
    /// What to add to our clock for the sink's, and how far off that may be, in nanoseconds.
    clock: (i64, u64),
    last: Mutex<(u64, Arrived)>,
    /// Its port, once that has broken.
    broken: OnceLock<Broken>,
    /// Why it cannot be asked any more.
    lost: OnceLock<String>,
}

/// Connects to `host:port`, by any of its addresses.
fn reach(address: &str) -> Result<TcpStream, String> {
    let addresses = address.to_socket_addrs().map_err(|error| format!("{error}; write HOST:PORT"))?;
    let mut why = "it has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, ANSWER) {
            Ok(stream) => return Ok(stream),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// How old what is known of progress may be, in nanoseconds.
const FRESH: u64 = 200_000_000;

impl Remote {
    /// Connects, shows the token and compares clocks.
    pub(crate) fn connect(control: &Control) -> Result<Remote, TrafficError> {
        let failed = |why: String| TrafficError::Control(format!("the sink at {}: {why}", control.address));
        let stream = reach(&control.address).map_err(failed)?;
        let line = Line::new(stream, FRIEND, ANSWER).map_err(|error| failed(error.to_string()))?;
        let mut remote = Remote {
            line: Mutex::new(line),
            mac: None,
            means: String::new(),
            clock: (0, 0),
            last: Mutex::new((0, Arrived::default())),
            broken: OnceLock::new(),
            lost: OnceLock::new(),
        };
        match remote.ask(&Request::Hello { version: VERSION, token: control.token.clone() })? {
            Reply::Welcome { mac } => remote.mac = mac.map(Mac),
            _ => return Err(failed("an answer that makes no sense".to_owned())),
        }
        remote.clock = remote.compare()?;
        Ok(remote)
    }

    fn ask(&self, request: &Request) -> Result<Reply, TrafficError> {
        let mut line = lock(&self.line);
        let reply = match self.lost.get() {
            // What comes late would be the answer to another question.
            Some(why) => Err(why.clone()),
            None => line.send(request).and_then(|()| line.next()?.ok_or_else(|| "it hung up".to_owned())),
        };
        match reply {
            Ok(Reply::Refused(why)) => Err(TrafficError::Control(format!("the sink refuses: {why}"))),
            Ok(reply) => Ok(reply),
            Err(why) => {
                let why = self.lost.get_or_init(|| why);
                Err(TrafficError::Control(format!("the sink is lost: {why}")))
            }
        }
    }

    /// How long answers are waited for from now on.
    fn patience(&self, time: Duration) {
        lock(&self.line).silence = time;
    }

    /// The sink's clock against ours: the fastest answer says it best.
    fn compare(&self) -> Result<(i64, u64), TrafficError> {
        let mut best = (0, u64::MAX);
        let began = now();
        for reading in 0..READINGS {
            let before = now();
            if reading >= FEWEST && before > began + READING.as_nanos() as u64 {
                break;
            }
            let Reply::Clock { now: theirs } = self.ask(&Request::Clock)? else {
                return Err(TrafficError::Control(
                    "the sink answers something else than it was asked".to_owned(),
                ));
            };
            let after = now();
            let half = (after - before) / 2;
            if half < best.1 {
                best = (theirs.wrapping_sub(before + half) as i64, half);
            }
        }
        Ok(best)
    }

    /// The sink's Ethernet address.
    pub(crate) fn mac(&self) -> Option<Mac> {
        self.mac
    }

    /// How it receives, in words.
    pub(crate) fn means(&self) -> &str {
        &self.means
    }

    /// Tells it what to look for.
    pub(crate) fn prepare(&mut self, mark: u16, lanes: u16, names: Vec<String>) -> Result<(), TrafficError> {
        let request = Request::Prepare { mark, lanes, offset: self.clock.0, names };
        // The sink may have to wait for its port.
        self.patience(ANSWER + PEER);
        if let Reply::Ready { means } = self.ask(&request)? {
            self.means = means;
        }
        self.patience(ANSWER);
        Ok(())
    }

    /// What arrived so far, as far as it is known: [`Remote::ask_again`] keeps it fresh.
    pub(crate) fn arrived(&self) -> Arrived {
        lock(&self.last).1.clone()
    }

    /// Its port, if that has broken, as far as it is known.
    pub(crate) fn broken(&self) -> Option<Broken> {
        self.broken.get().cloned()
    }

    /// Asks how it stands, when that has not been asked for a while. So each side knows that the
    /// other is there.
    pub(crate) fn ask_again(&self) -> Result<(), TrafficError> {
        let at = lock(&self.last).0;
        if at + FRESH > now() {
            return Ok(());
        }
        self.fetch(&Request::Progress, now()).map(drop)
    }

    /// The end: how far the clocks may be off, and what arrived.
    pub(crate) fn finish(&self) -> Result<u64, TrafficError> {
        let (offset, half) = self.compare()?;
        self.fetch(&Request::Finish, u64::MAX - FRESH)?;
        Ok(self.clock.1.max(half) + offset.abs_diff(self.clock.0))
    }

    fn fetch(&self, request: &Request, valid: u64) -> Result<Arrived, TrafficError> {
        let Reply::Arrived { lanes, foreign, missed, broken } = self.ask(request)? else {
            return Err(TrafficError::Control(
                "the sink answers something else than it was asked".to_owned(),
            ));
        };
        if let Some(Broken { port, why }) = broken {
            self.broken.get_or_init(|| Broken { port: format!("{port} of the sink"), why });
        }
        let arrived = Arrived { lanes: lanes.iter().map(Tally::from).collect(), foreign, missed };
        *lock(&self.last) = (valid, arrived.clone());
        Ok(arrived)
    }
}

/// A sink that listens by itself, for programs that do nothing else meanwhile.
pub fn listen(address: &str) -> Result<TcpListener, TrafficError> {
    TcpListener::bind(address).map_err(TrafficError::io(format!("listening on {address}")))
}

/// Keeps [`Control`] from showing its token by mistake.
impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Control({})", self.address)
    }
}

/// Where a fuzzer comes in: a line of a generator's, and one of a sink's.
#[doc(hidden)]
pub fn fuzz(line: &[u8]) {
    let _ = serde_json::from_slice::<Request>(line);
    if let Ok(Reply::Arrived { lanes, .. }) = serde_json::from_slice(line) {
        let mut sum = Tally::default();
        lanes.iter().map(Tally::from).for_each(|lane| sum.add(&lane));
    }
}
