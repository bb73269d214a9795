//! Streams sent by XDP live frames (`forwarding/bpf/generate.c`).
//!
//! What they consist of is compiled by whoever asks ([`StreamLane`]); here it becomes maps of a
//! program that the kernel runs on frame after frame. One program is one thread's: it runs for as
//! long as [`Streams::run`] is not interrupted by a signal.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

pub use abi::traffic::Size as StreamSize;
use abi::traffic::{BATCH_MOST, DRAWS, HEADERS, LANES_MOST, Lane, Live, Size, flag};

use super::words::{Buckets, TIMES, Words, word_of};
use crate::DriverError;
use crate::bpf::{object, sys};

/// Most streams of a program.
pub const MOST_LANES: usize = LANES_MOST as usize;
/// Most bytes of a frame without check sequence: what a page has room for beside the kernel's own.
pub const MOST_FRAME: usize = 3400;
/// Words of [`Lane`] and of [`Size`].
const LANE: usize = size_of::<Lane>() / 8;
const SIZE: usize = size_of::<Size>() / 8;

/// A stream, as the program wants it. Offsets are from the front of the frame, times in 1/65,536
/// ns; sums and lengths are as they lie in memory.
#[derive(Clone, Debug)]
pub struct StreamLane {
    /// IPv6.
    pub six: bool,
    /// UDP.
    pub udp: bool,
    /// Where the upper layer's checksum is; `None`: not to be completed.
    pub check: Option<usize>,
    /// Whether there is a stamp at the payload.
    pub stamp: bool,
    /// Where IP header, upper layer's header and payload begin.
    pub layers: [usize; 3],
    /// Sum of the stamp's mark and lane.
    pub names: u64,
    /// Sizes, over and over. With more than one, headers lack lengths and the sums in them are to
    /// be completed.
    pub sizes: Vec<StreamSize>,
    /// The headers of its flows: `slots` of each generation, each in `lines` cache lines.
    pub headers: Vec<u8>,
    /// Cache lines of a header, 1 to 3, the same for all lanes of a program.
    pub lines: usize,
    /// Bytes to be written anew in each frame: of the longest header of all lanes, for frames go
    /// round among them.
    pub length: usize,
    /// Flows at a time.
    pub slots: usize,
    /// Generations of them that there are headers for; then the first ones come again.
    pub generations: usize,
    /// Packets of a flow; 0: it never ends.
    pub life: u32,
    /// The flow of the first slot, and the step to that of the next: where in their lives they
    /// begin.
    pub stagger: (u64, u64),
    /// Whether it has due times.
    pub paced: bool,
    /// Whether gaps are drawn at random.
    pub random: bool,
    /// When the first packet is due, after the start.
    pub due: u64,
    /// Packets at most.
    pub count: u64,
    /// Packets of a burst and the pause after it; 0 without bursts.
    pub burst: (u32, u64),
    /// A frame of the largest size.
    pub frame: Vec<u8>,
}

/// What was sent of a lane.
#[derive(Clone, Debug, Default)]
pub struct StreamSent {
    /// Packets.
    pub packets: u64,
    /// Their bytes, with check sequence.
    pub bytes: u64,
    /// When the first and the last left, nanoseconds of the monotonic clock.
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// When the next one is due, in 1/65,536 ns after the start.
    pub due: u64,
    /// Frames that could not get their size.
    pub unsent: u64,
}

/// A program that sends streams: these, and then others that it has room for.
pub struct Streams {
    program: OwnedFd,
    frame: Vec<u8>,
    batch: u32,
    live: Words,
    lanes: Words,
    sizes: Words,
    headers: Words,
    departures: Words,
    count: usize,
}

impl Streams {
    /// Loads a program for these streams (1 to [`MOST_LANES`]), which sends `batch` (1 to 64)
    /// frames together. `draws` are 4,096 random factors of gaps, in 1/65,536.
    pub fn new(lanes: &[StreamLane], draws: &[u32], batch: u32) -> Result<Streams, DriverError> {
        let lanes = &lanes[..lanes.len().min(MOST_LANES)];
        let (count, sizes, headers) = room(lanes);
        let object = object::generate()?;
        let entries = |name: &str| match name {
            "lanes" => Some(count),
            "sizes" => Some(sizes),
            "departures" => Some(2 * count),
            "headers" => Some(headers.div_ceil(HEADERS)),
            "live" | "draws" => Some(1),
            _ => None,
        };
        let mut maps = HashMap::new();
        let mut words = HashMap::new();
        for (name, map) in &object.maps {
            let Some(entries) = entries(name) else { continue };
            let fd = object::create(name, map, Some(entries.max(1) as u32))?;
            let bytes = entries.max(1) * map.value_size() as usize;
            let mapped = Words::new(fd.as_fd(), bytes).map_err(DriverError::io(format!("map {name}")))?;
            words.insert(name.clone(), mapped);
            maps.insert(name.clone(), fd);
        }
        let mut take =
            |name: &str| words.remove(name).ok_or_else(|| DriverError::NoMap { name: name.to_owned() });
        let table: Vec<u8> = draws.iter().take(DRAWS).flat_map(|draw| draw.to_ne_bytes()).collect();
        take("draws")?.write(0, &table);
        let lanes32 = (count as u32).to_ne_bytes();
        let mut streams = Streams {
            live: take("live")?,
            lanes: take("lanes")?,
            sizes: take("sizes")?,
            headers: take("headers")?,
            departures: take("departures")?,
            frame: Vec::new(),
            batch: 1,
            count,
            program: object::load(
                object,
                "generate",
                HashMap::from([("LANES", (&lanes32[..], true))]),
                &maps,
            )?,
        };
        streams.fill(lanes, batch);
        Ok(streams)
    }

    /// Takes other streams in the place of those that it had, as if it were new. False when it
    /// cannot: they are more or fewer, or need more room. Must not run meanwhile.
    pub fn change(&mut self, lanes: &[StreamLane], batch: u32) -> bool {
        let lanes = &lanes[..lanes.len().min(MOST_LANES)];
        let (count, sizes, headers) = room(lanes);
        let fits =
            count == self.count && sizes * SIZE <= self.sizes.len() && headers <= self.headers.len() * 8;
        if fits {
            self.fill(lanes, batch);
        }
        fits
    }

    fn fill(&mut self, lanes: &[StreamLane], batch: u32) {
        [&self.live, &self.lanes, &self.departures].into_iter().for_each(Words::clear);
        self.frame.clear();
        self.batch = batch.clamp(1, BATCH_MOST);
        self.live.set(word_of!(Live, batch), self.batch.into());
        let (mut size_at, mut header_at) = (0, 0);
        for (number, lane) in lanes.iter().enumerate() {
            let stride = stride(lane);
            let flag = |set: bool, bit: u64| if set { bit } else { 0 };
            let told = Lane {
                flags: flag(lane.six, flag::SIX)
                    | flag(lane.udp, flag::UDP)
                    | flag(lane.check.is_some(), flag::CHECK)
                    | flag(lane.stamp, flag::STAMP)
                    | flag(lane.sizes.len() > 1, flag::SIZES)
                    | flag(lane.paced, flag::PACED)
                    | flag(lane.random, flag::RANDOM),
                headers: header_at / stride as u64,
                stride: u64::from(stride.ilog2()),
                slots: lane.slots.max(1) as u64,
                generations: lane.generations.max(1) as u64,
                life: lane.life.into(),
                stagger_first: lane.stagger.0,
                stagger_step: lane.stagger.1,
                sizes: size_at as u64,
                cycle: lane.sizes.len().max(1) as u64,
                l3: lane.layers[0] as u64,
                l4: lane.layers[1] as u64,
                check: lane.check.unwrap_or(0) as u64,
                payload: lane.layers[2] as u64,
                names: lane.names,
                burst: lane.burst.0.into(),
                pause: lane.burst.1,
                due: lane.due,
                left: lane.count,
                // A seed of its own for each.
                random: lane.names.wrapping_mul(0x9E37_79B9_7F4A_7C15),
                length: lane.length as u64,
                ..Lane::default()
            };
            self.lanes.write(number * LANE, &told.bytes());
            for size in &lane.sizes {
                self.sizes.write(size_at * SIZE, &size.bytes());
                size_at += 1;
            }
            for header in lane.headers.chunks(lane.lines.clamp(1, 3) * 64) {
                self.headers.write(header_at as usize / 8, header);
                header_at += stride as u64;
            }
            header_at = header_at.next_multiple_of(HEADERS as u64);
            Buckets::clear(&self.departures, 2 * number * TIMES);
            Buckets::clear(&self.departures, (2 * number + 1) * TIMES);
            if lane.frame.len() > self.frame.len() {
                self.frame.clone_from(&lane.frame);
            }
        }
    }

    /// When packets are sent: from `start` to before `end`, nanoseconds of the monotonic clock.
    /// Told an earlier end while it runs, it sends what is due before that and is over.
    pub fn schedule(&self, start: u64, end: u64) {
        self.live.set(word_of!(Live, start), start);
        self.live.set(word_of!(Live, end), end);
    }

    /// Sends out of an interface of this thread's network namespace; until a signal comes, or after
    /// some four billion frames.
    pub fn run(&self, ifindex: u32) -> io::Result<()> {
        // A batch that an interrupt cut off is none any more.
        self.live.set(word_of!(Live, position), u64::from(self.batch));
        let run = sys::Run {
            data: &self.frame,
            ifindex,
            queue: 0,
            repeat: u32::MAX,
            live: true,
            batch: self.batch,
        };
        match sys::prog_run(self.program.as_fd(), &run, &mut Vec::new()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result.map(drop),
        }
    }

    /// Whether all has been sent.
    pub fn is_over(&self) -> bool {
        self.live.get(word_of!(Live, over)) != 0
    }

    /// What was sent of each lane.
    pub fn sent(&self) -> Vec<StreamSent> {
        let lane = |number: usize| {
            macro_rules! word {
                ($field:ident) => {
                    self.lanes.get(number * LANE + word_of!(Lane, $field))
                };
            }
            StreamSent {
                due: word!(due),
                packets: word!(packets),
                bytes: word!(bytes),
                first: word!(first),
                last: word!(last),
                unsent: word!(unsent),
            }
        };
        (0..self.count).map(lane).collect()
    }

    /// Of a lane: how far gaps were from what they should have been, and how late packets left.
    pub fn departures(&self, lane: usize) -> [Buckets; 2] {
        [2 * lane, 2 * lane + 1].map(|at| Buckets::read(&self.departures, at * TIMES))
    }
}

/// What streams need: lanes, sizes, and bytes of headers.
fn room(lanes: &[StreamLane]) -> (usize, usize, usize) {
    let headers = |lane: &StreamLane| lane.headers.len() / (lane.lines.clamp(1, 3) * 64) * stride(lane);
    (
        lanes.len().max(1),
        lanes.iter().map(|lane| lane.sizes.len()).sum(),
        lanes.iter().map(|lane| headers(lane).next_multiple_of(HEADERS)).sum(),
    )
}

/// Bytes from a header to the next: so that none lies across two blocks.
fn stride(lane: &StreamLane) -> usize {
    if lane.lines <= 1 { 64 } else { 256 }
}
