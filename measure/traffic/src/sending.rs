//! The sending half of a trial: streams compiled, shared out among cores, and sent by queues or by
//! the kernel.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ::port::clock::now;

use crate::contradiction;
use crate::lane::{Lane, Sent};
use crate::live::{self, Program};
use crate::maker::{Maker, Part};
use crate::plan::{Ends, Plan};
use crate::port::{Kind, install_pool};
use crate::replay::Frames;
use crate::schedule::Schedule;
use crate::size::{Part as SizePart, Sizes};
use crate::source::{self, Post, Time};
use crate::stream::MOST_STREAMS;
use crate::{Port, Stream, TrafficError};

/// From the preparation's end to the first packet: threads start meanwhile.
const LEAD: u64 = 20_000_000;

/// Due times are numbers of 64 bits in 1/65,536 ns: 78 hours.
const LONGEST: Duration = Duration::from_secs(72 * 3600);

/// What is to be sent.
pub(crate) struct Orders<'a> {
    pub(crate) streams: &'a [Stream],
    pub(crate) from: &'a Port,
    pub(crate) ends: Ends,
    pub(crate) mark: u16,
    pub(crate) duration: Option<Duration>,
    pub(crate) count: Option<u64>,
    pub(crate) cores: &'a [usize],
    pub(crate) line: Option<f64>,
}

/// Streams that are ready to be sent.
pub(crate) struct Prepared {
    cores: Vec<Core>,
    /// The stream of each lane.
    pub(crate) owners: Vec<usize>,
    duration: Option<Duration>,
    from: Port,
}

struct Core {
    number: Option<usize>,
    /// Numbers of its lanes.
    lanes: Vec<usize>,
    work: Work,
}

enum Work {
    Queue(Vec<Lane>),
    Live(Arc<Program>),
}

/// A stream compiled, or read.
enum Content {
    Made(Arc<Plan>, Sizes),
    Replayed(Arc<Frames>, Sizes),
}

/// Compiles streams, shares them out, and loads programs. Nothing is sent.
pub(crate) fn prepare(orders: &Orders<'_>) -> Result<Prepared, TrafficError> {
    let streams = named(orders.streams)?;
    if orders.duration.is_some_and(|duration| duration > LONGEST) {
        return Err(TrafficError::TooLong);
    }
    let live = matches!(orders.from.kind(), Kind::Live(_));
    let contents: Vec<Content> =
        streams.iter().map(|stream| content(stream, orders.ends, live)).collect::<Result<_, _>>()?;
    let plans = || {
        contents.iter().filter_map(|content| match content {
            Content::Made(plan, _) => Some(plan),
            Content::Replayed(..) => None,
        })
    };
    let length = plans().map(|plan| plan.header_len()).max().unwrap_or(0);
    // In the kernel frames go round among the streams, with the payloads that they have.
    if live
        && let Some(first) = plans().next()
        && let Some(odd) = plans().find(|plan| plan.stream.fill != first.stream.fill)
    {
        let reason = "live frames have one fill for all streams; give all the same, or send by AF_XDP (xsk:)";
        return Err(TrafficError::Stream {
            stream: odd.stream.name.clone(),
            field: "fill",
            reason: reason.to_owned(),
        });
    }
    let all = orders.cores.len().max(1);
    let mut prepared = Prepared {
        cores: Vec::new(),
        owners: Vec::new(),
        duration: orders.duration,
        from: orders.from.clone(),
    };
    let line = orders.line.or(orders.from.line());
    for core in 0..all {
        let (mut numbers, mut lanes, mut kernel) = (Vec::new(), Vec::new(), Vec::new());
        for (owner, (stream, content)) in streams.iter().zip(&contents).enumerate() {
            let of = match content {
                Content::Made(..) => all.min(stream.flows as usize),
                Content::Replayed(..) => 1,
            };
            if core >= of {
                continue;
            }
            let number = prepared.owners.len();
            let part = Part { mark: orders.mark, lane: number as u16, index: core as u32, of: of as u32 };
            let count = orders.count.map(|count| (count + of as u64 - 1 - core as u64) / of as u64);
            let (Content::Made(_, sizes) | Content::Replayed(_, sizes)) = content;
            let schedule =
                Schedule::new(stream.rate, stream.pattern, sizes, line, (core, of)).map_err(|error| {
                    TrafficError::Stream {
                        stream: stream.name.clone(),
                        field: "rate",
                        reason: error.to_string(),
                    }
                })?;
            match content {
                Content::Made(plan, _) if live => {
                    kernel.push(live::lane(plan, part, &schedule, count, length)?)
                }
                Content::Made(plan, _) => {
                    lanes.push(Lane::made(Maker::new(plan.clone(), part), schedule, count));
                }
                Content::Replayed(frames, _) => {
                    let (speed, loops) = (stream.speed(), stream.replay_loops.unwrap_or(1));
                    lanes.push(Lane::replayed(frames.clone(), schedule, speed, loops, count));
                }
            }
            prepared.owners.push(owner);
            numbers.push(number);
        }
        if numbers.is_empty() {
            continue;
        }
        let work = match orders.from.kind() {
            Kind::Live(interface) => Work::Live(Arc::new(Program::new(interface, &kernel)?)),
            Kind::Queues(..) => Work::Queue(lanes),
        };
        prepared.cores.push(Core { number: orders.cores.get(core).copied(), lanes: numbers, work });
    }
    // Only a peer that is there says how much it takes.
    orders.from.connected()?;
    for (stream, content) in streams.iter().zip(&contents) {
        let (field, fits) = match content {
            Content::Made(plan, _) => ("size", orders.from.takes(plan.frame())),
            Content::Replayed(frames, _) => {
                ("replay", frames.all().try_for_each(|frame| orders.from.takes(frame)))
            }
        };
        fits.map_err(|reason| TrafficError::Stream { stream: stream.name.clone(), field, reason })?;
    }
    Ok(prepared)
}

/// The streams, each with a name.
pub(crate) fn named(streams: &[Stream]) -> Result<Vec<Stream>, TrafficError> {
    if streams.is_empty() {
        return Err(TrafficError::NoStreams);
    }
    if streams.len() > MOST_STREAMS {
        return Err(TrafficError::TooManyStreams(streams.len()));
    }
    let name = |(number, stream): (usize, &Stream)| {
        let name =
            if stream.name.is_empty() { format!("stream {}", number + 1) } else { stream.name.clone() };
        Stream { name, ..stream.clone() }
    };
    let streams: Vec<Stream> = streams.iter().enumerate().map(name).collect();
    let mut names = HashSet::new();
    match streams.iter().find(|stream| !names.insert(stream.name.as_str())) {
        Some(Stream { name, .. }) => Err(TrafficError::Stream {
            stream: name.clone(),
            field: "name",
            reason: "another stream has it as well, and figures go by names: give each its own".to_owned(),
        }),
        None => Ok(streams),
    }
}

fn content(stream: &Stream, ends: Ends, live: bool) -> Result<Content, TrafficError> {
    let Some(path) = &stream.replay else {
        return Ok(Content::Made(Arc::new(Plan::new(stream, ends)?), stream.size.clone()));
    };
    let wrong = |field, reason: &str| TrafficError::Stream {
        stream: stream.name.clone(),
        field,
        reason: reason.to_owned(),
    };
    contradiction::replayed(stream).map_err(|(field, reason)| wrong(field, &reason))?;
    if live {
        return Err(wrong("replay", "files cannot be sent by live frames; send by AF_XDP: xsk:INTERFACE"));
    }
    if !(0.0..=1e6).contains(&stream.speed()) {
        return Err(wrong("replay_speed", "is a factor from 0 (at the stream's rate) to 1000000"));
    }
    let frames = Frames::read(&stream.name, path)?;
    let mean = frames.sizes().map(u64::from).sum::<u64>() / frames.len() as u64;
    let mean = (mean as u32).clamp(crate::size::SMALLEST, crate::size::LARGEST);
    let sizes = Sizes::mix(vec![SizePart { first: mean, last: mean, weight: 1 }])
        .map_err(|error| wrong("replay", &error.to_string()))?;
    Ok(Content::Replayed(Arc::new(frames), sizes))
}

/// Streams being sent.
pub(crate) struct Sending {
    cores: Vec<Running>,
    lanes: usize,
    pub(crate) time: Time,
    stop: Arc<AtomicBool>,
    from: Port,
    /// Packets that did not fit the port before.
    unfit: u64,
}

struct Running {
    lanes: Vec<usize>,
    figures: Figures,
    thread: Option<JoinHandle<Result<(), TrafficError>>>,
}

enum Figures {
    Post(Arc<Post>),
    Program(Arc<Program>),
}

impl Prepared {
    /// Whether packets are sent by the kernel.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.from.kind(), Kind::Live(_))
    }

    /// Starts to send.
    pub(crate) fn start(self) -> Result<Sending, TrafficError> {
        if let Kind::Live(interface) = self.from.kind() {
            live::check_target(interface)?;
        }
        self.from.ready()?;
        let start = now() + LEAD;
        let end = self.duration.map_or(u64::MAX, |duration| {
            start.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
        });
        let time = Time { start, end };
        let stop = Arc::new(AtomicBool::new(false));
        let (from, unfit) = (self.from.clone(), self.from.unfit());
        let lanes = self.owners.len();
        let mut sending = Sending { cores: Vec::new(), lanes, time, stop: stop.clone(), from, unfit };
        for (index, core) in self.cores.into_iter().enumerate() {
            let (from, stop, number) = (self.from.clone(), stop.clone(), core.number);
            let (figures, work): (_, Box<dyn FnOnce() -> Result<(), TrafficError> + Send>) = match core.work {
                Work::Queue(mut lanes) => {
                    let post = Arc::new(Post::default());
                    let told = post.clone();
                    let work = move || {
                        let Kind::Queues(queues, memory) = from.kind() else { return Ok(()) };
                        live::pin(number)?;
                        install_pool(memory.as_ref())?;
                        let Some(queue) = queues.get(index % queues.len().max(1)) else { return Ok(()) };
                        source::send(queue, &mut lanes, time, &stop, &told).map_err(|error| {
                            TrafficError::Port { port: from.name().to_owned(), reason: error.to_string() }
                        })
                    };
                    (Figures::Post(post), Box::new(work))
                }
                Work::Live(program) => {
                    let runs = program.clone();
                    let work = move || {
                        let Kind::Live(interface) = from.kind() else { return Ok(()) };
                        live::send(interface, &runs, time, number, &stop)
                    };
                    (Figures::Program(program), Box::new(work))
                }
            };
            let thread = thread::Builder::new().name(format!("sender {index}")).spawn(work);
            let thread = Some(thread.map_err(TrafficError::io("starting a thread"))?);
            sending.cores.push(Running { lanes: core.lanes, figures, thread });
        }
        Ok(sending)
    }
}

impl Sending {
    /// What was sent so far, lane by lane.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        let mut all = vec![Sent::default(); self.lanes];
        for core in &self.cores {
            let sent = match &core.figures {
                Figures::Post(post) => post.get(),
                Figures::Program(program) => program.sent(self.time, now()),
            };
            for (sent, &number) in sent.into_iter().zip(&core.lanes) {
                all[number] = sent;
            }
        }
        all
    }

    /// Packets among those that the port took and, for their length, could not send.
    pub(crate) fn unfit(&self) -> u64 {
        self.from.unfit().saturating_sub(self.unfit)
    }

    /// Buffers with what was sent that the port's other end has not emptied.
    pub(crate) fn untaken(&self) -> u64 {
        self.from.untaken()
    }

    /// What stops it when it is set.
    pub(crate) fn stopper(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Whether all threads have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.cores.iter().all(|core| core.thread.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Waits for the end; the first error of any thread.
    pub(crate) fn join(&mut self) -> Result<(), TrafficError> {
        let join = |core: &mut Running| match core.thread.take() {
            Some(thread) => thread.join().unwrap_or(Err(TrafficError::Panicked("sending"))),
            None => Ok(()),
        };
        self.cores.iter_mut().map(join).fold(Ok(()), Result::and)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Its error has been told by `join`, or nobody asks any more.
        let _nobody_asks = self.join();
    }
}
