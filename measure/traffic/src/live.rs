//! Sending and receiving in the kernel, on interfaces that have no zero-copy: a plan becomes maps
//! of `forwarding/bpf/generate.c`, and what `forwarding/bpf/tally.c` counted becomes tallies.

use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use ::port::clock::now;
use ::port::device::{self, XdpFeatures};
use ::port::traffic::{Arrivals, Buckets, Judge, MOST_FRAME, StreamLane, StreamSent, StreamSize, Streams};
use abi::traffic::{BATCH_MOST, PACED_MOST};
use nix::errno::Errno;
use nix::sys::pthread::pthread_kill;
use nix::sys::signal::Signal;

use crate::TrafficError;
use crate::histogram::Times;
use crate::lane::Sent;
use crate::maker::{Part, headers};
use crate::plan::Plan;
use crate::port::{Interface, enter, inside};
use crate::report::Count;
use crate::schedule::{Departures, FRACTION, Schedule, draws};
use crate::sequence::Counts;
use crate::sink::{Arrived, Expected};
use crate::source::Time;
use crate::stream::Protocol;
use crate::tally::Tally;

/// Headers of a stream whose flows end that are made in advance; then its flows come again.
const HEADERS: usize = 1 << 20;
/// A batch has room for what comes due in so many nanoseconds: a sender that is behind catches up
/// in batches, and one that is not hands over what it has as soon as the next packet is not due.
const TOGETHER: f64 = 16_000.0;
/// How often it is looked whether all is sent.
const LOOK: Duration = Duration::from_millis(1);

/// A lane for the kernel; `length` is that of the longest header of all streams.
pub(crate) fn lane(
    plan: &Plan,
    part: Part,
    schedule: &Schedule,
    count: Option<u64>,
    length: usize,
) -> Result<StreamLane, TrafficError> {
    let longest = plan.frame().len();
    if longest > MOST_FRAME {
        return Err(TrafficError::Stream {
            stream: plan.stream.name.clone(),
            field: "size",
            reason: format!(
                "{} bytes are more than live frames can have ({}); make frames smaller, or send by AF_XDP (xsk:)",
                longest + 4,
                MOST_FRAME + 4
            ),
        });
    }
    let flows = u64::from(plan.stream.flows);
    let slots = (flows - u64::from(part.index)).div_ceil(part.of.into()) as usize;
    let generations = if plan.stream.flow_length == 0 { 1 } else { (HEADERS / slots).max(1) };
    let lines = length.div_ceil(64);
    let headers = headers(plan, part, generations, lines);
    let gaps = schedule.gaps();
    let sizes = plan.sizes().iter().enumerate().map(|(at, size)| StreamSize {
        frame: size.frame,
        ip: size.ip,
        udp: size.udp,
        l3_sum: size.l3_sum,
        l4_sum: size.l4_sum,
        fill_sum: size.fill_sum,
        gap: gaps.get(at).copied().unwrap_or(0),
        ..StreamSize::default()
    });
    Ok(StreamLane {
        six: plan.is_six(),
        udp: plan.stream.protocol == Protocol::Udp,
        check: plan.check(),
        stamp: plan.stream.stamp,
        layers: plan.layers(),
        names: part.names(),
        sizes: sizes.collect(),
        headers,
        lines,
        length,
        slots,
        generations,
        life: plan.stream.flow_length,
        stagger: (part.index.into(), part.of.into()),
        paced: schedule.is_paced(),
        random: schedule.is_random(),
        due: schedule.first(),
        count: count.unwrap_or(u64::MAX),
        burst: schedule.burst(),
        frame: plan.frame().to_vec(),
    })
}

/// A program that sends, and what it needs to be read.
pub(crate) struct Program {
    streams: Arc<Streams>,
    /// Whether each lane is paced, and its mean gap in 1/65,536 ns.
    lanes: Vec<(bool, u64)>,
    /// Packets of each at most.
    counts: Vec<u64>,
    /// When it was stopped early: from then on nothing was due.
    stopped: OnceLock<u64>,
}

impl Program {
    pub(crate) fn new(interface: &Interface, lanes: &[StreamLane]) -> Result<Program, TrafficError> {
        let mean = |lane: &StreamLane| {
            let gaps: u64 = lane.sizes.iter().map(|size| size.gap).sum();
            let pause = lane.burst.1.checked_div(lane.burst.0.into()).unwrap_or(0);
            gaps / lane.sizes.len().max(1) as u64 + pause
        };
        let means: Vec<_> = lanes.iter().map(|lane| (lane.paced, mean(lane))).collect();
        let rate = |&(paced, gap): &(bool, u64)| {
            if paced { f64::from(1 << FRACTION) / gap.max(1) as f64 } else { f64::INFINITY }
        };
        let all = means.iter().map(rate).sum::<f64>();
        let paced = lanes.iter().any(|lane| lane.paced);
        let batch = if paced { (all * TOGETHER).clamp(1.0, PACED_MOST.into()) as u32 } else { BATCH_MOST };
        let counts = lanes.iter().map(|lane| lane.count).collect();
        let streams = interface
            .senders
            .take(|streams| streams.change(lanes, batch), || Ok(Streams::new(lanes, &draws(), batch)?))?;
        Ok(Program { streams, lanes: means, counts, stopped: OnceLock::new() })
    }

    /// What was sent of each lane until `now`, with how far from its schedule.
    pub(crate) fn sent(&self, time: Time, now: u64) -> Vec<Sent> {
        let until = now.min(time.end).min(self.stopped.get().copied().unwrap_or(u64::MAX));
        let elapsed = until.saturating_sub(time.start);
        let lane = |(number, sent): (usize, StreamSent)| {
            let (paced, gap) = self.lanes[number];
            let behind = elapsed.saturating_sub(sent.due >> FRACTION);
            let missed = if paced && gap > 0 { (behind << FRACTION) / gap } else { 0 };
            let missed = missed.min(self.counts[number].saturating_sub(sent.packets));
            let [spacing, lateness] = self.streams.departures(number);
            let departures = Departures::counted(times(&spacing), times(&lateness));
            Sent {
                offered: sent.packets + missed,
                sent: Count { packets: sent.packets, bytes: sent.bytes },
                departures,
                first: sent.first,
                last: sent.last,
            }
        };
        self.streams.sent().into_iter().enumerate().map(lane).collect()
    }
}

/// Sends until all is sent, the time is over, or a stop.
pub(crate) fn send(
    interface: &Interface,
    program: &Arc<Program>,
    time: Time,
    core: Option<usize>,
    stop: &AtomicBool,
) -> Result<(), TrafficError> {
    wake_by_signal()?;
    program.streams.schedule(time.start, time.end);
    let (interface, runs) = (interface.clone(), program.clone());
    let runner = thread::Builder::new().name("live frames".to_owned()).spawn(move || {
        enter(interface.namespace.as_deref())?;
        pin(core)?;
        while !runs.streams.is_over() {
            runs.streams.run(interface.ifindex).map_err(TrafficError::io("sending live frames"))?;
        }
        Ok(())
    });
    let runner = runner.map_err(TrafficError::io("starting a thread"))?;
    loop {
        thread::sleep(LOOK);
        if runner.is_finished() {
            break;
        }
        // An end that comes early: what was due before it still leaves.
        if stop.load(Ordering::Relaxed) && program.stopped.get().is_none() {
            let end = now().min(time.end);
            program.streams.schedule(time.start, end);
            program.stopped.get_or_init(|| end);
        }
        if program.streams.is_over() {
            // What waits in its last batch is accounted for first. It may have ended meanwhile,
            // which is as good.
            thread::sleep(LOOK);
            let _may_be_gone = pthread_kill(runner.as_pthread_t(), Signal::SIGURG);
        }
    }
    runner.join().unwrap_or(Err(TrafficError::Panicked("sending live frames")))
}

/// A signal that does nothing but end the system call that a thread is in.
fn wake_by_signal() -> Result<(), TrafficError> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    let register = || {
        let nobody_looks = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGURG, nobody_looks)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    DONE.get_or_init(register)
        .clone()
        .map_err(|error| TrafficError::io("a signal's handler")(std::io::Error::other(error)))
}

/// Keeps this thread on a core.
pub(crate) fn pin(core: Option<usize>) -> Result<(), TrafficError> {
    use nix::sched::{CpuSet, sched_setaffinity};
    let Some(core) = core else { return Ok(()) };
    let mut set = CpuSet::new();
    let pinned = set.set(core).and_then(|()| sched_setaffinity(nix::unistd::Pid::from_raw(0), &set));
    pinned.map_err(|error| match error {
        Errno::EINVAL => TrafficError::NoCore(core),
        error => TrafficError::io(format!("core {core}"))(error.into()),
    })
}

/// Whether frames that are sent into an interface arrive anywhere.
pub(crate) fn check_target(interface: &Interface) -> Result<(), TrafficError> {
    let features = inside(interface.namespace.as_deref(), || device::xdp_features(interface.ifindex))??;
    if features.contains(XdpFeatures::REDIRECT_TARGET) {
        return Ok(());
    }
    let reason = "frames sent into it would vanish: its driver takes none just now. A veth takes them while its other end polls: \
                  receive there (--sink), attach an XDP program there, or turn GRO on there while both ends are up (ethtool -K PEER gro on)";
    Err(TrafficError::Live { interface: interface.name.clone(), reason: reason.to_owned() })
}

/// A program that receives.
pub(crate) fn receive(interface: &Interface, expected: Expected) -> Result<Arrivals, TrafficError> {
    let Expected { mark, lanes, offset } = expected;
    let queues = interface.queues;
    let judge =
        interface.judges.take(|judge| judge.suits(lanes, queues), || Ok(Judge::load(lanes, queues)?))?;
    let attach = || Arrivals::attach(judge, interface.ifindex, mark, offset);
    Ok(inside(interface.namespace.as_deref(), attach)??)
}

/// What it saw.
pub(crate) fn arrived(arrivals: &Arrivals) -> Arrived {
    let mut lanes = Vec::new();
    for queues in arrivals.seen() {
        let (mut tally, mut next) = (Tally::default(), 0);
        for (queue, seen) in (0..).zip(queues) {
            next = seen.next.max(next);
            tally.add(&Tally {
                received: Count { packets: seen.packets, bytes: seen.bytes },
                corrupt: seen.corrupt,
                order: Counts {
                    unique: seen.unique,
                    duplicates: seen.duplicates,
                    reordered: seen.reordered,
                    late: seen.late,
                    extent: seen.extent,
                    extents: seen.extents,
                    next: seen.next,
                    lost_until: Some(seen.lost_until),
                },
                queues: (seen.packets != 0).then_some(queue).into_iter().collect(),
                latency: times(&seen.latency),
                variation: times(&seen.variation),
                jitter: seen.jitter,
                first: seen.first,
                last: seen.last,
            });
        }
        // Each queue knows of a part of the lane's numbers.
        tally.order.next = next;
        lanes.push(tally);
    }
    let [packets, bytes] = arrivals.foreign().unwrap_or_default();
    Arrived { lanes, foreign: Count { packets, bytes }, missed: 0 }
}

fn times(buckets: &Buckets) -> Times {
    Times::of_buckets(&buckets.counts, buckets.sum, buckets.min, buckets.max)
}
