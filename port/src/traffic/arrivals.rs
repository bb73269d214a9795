//! What arrives of streams, judged by a program in the driver (`bpf/tally.c`).

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::words::{Buckets, TIMES, Words};
use crate::bpf::{object, sys};
use crate::driver::{XDP_GENERIC, XDP_NATIVE, sum_per_cpu, why_not_native};
use crate::{Attachment, DriverError};

/// Words of `struct seen`, of its window, and before that.
const HEAD: usize = 16;
const WINDOW: usize = 4096 / 2;
const SEEN: usize = HEAD + WINDOW + 2 * TIMES;
/// Most lanes times queues: 200 MB.
const MOST: usize = 4096;

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalsOptions {
    /// The trial's number, which stands at the front of a payload.
    pub mark: u16,
    /// Lanes: numbers from 0 on that stand behind it.
    pub lanes: u16,
    /// Receive queues of the interface.
    pub queues: u32,
    /// What to add to a time of the sender's clock for one of ours, nanoseconds.
    pub offset: i64,
}

/// A program on an interface that judges and drops what it receives, while this lives.
pub struct Arrivals {
    seen: Words,
    foreign: OwnedFd,
    lanes: usize,
    queues: usize,
    attachment: Attachment,
    _link: OwnedFd,
}

/// What arrived of a lane by one queue.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Frames.
    pub packets: u64,
    /// Their bytes, with check sequence.
    pub bytes: u64,
    /// Frames whose payload was changed.
    pub corrupt: u64,
    /// When the first and the last arrived, nanoseconds of the monotonic clock.
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// Frames, each counted once.
    pub unique: u64,
    /// Copies.
    pub duplicates: u64,
    /// Frames that came after one sent later.
    pub reordered: u64,
    /// Among them those too late to know more.
    pub late: u64,
    /// Largest extent (RFC 4737), and the sum of all.
    pub extent: u64,
    /// See `extent`.
    pub extents: u64,
    /// The number after the highest.
    pub next: u64,
    /// RFC 3550's jitter, nanoseconds.
    pub jitter: f64,
    /// From due to arrival.
    pub latency: Buckets,
    /// Between latencies of packets one after the other.
    pub variation: Buckets,
}

impl Arrivals {
    /// Attaches it to an interface of this thread's network namespace: in the driver, and if that cannot, in the stack.
    pub fn attach(ifindex: u32, options: &ArrivalsOptions) -> Result<Arrivals, DriverError> {
        let object = object::tally()?;
        let lanes = usize::from(options.lanes.max(1));
        let queues = (options.queues.max(1) as usize).min((MOST / lanes).max(1));
        let (mut maps, mut seen) = (HashMap::new(), None);
        for (name, map) in &object.maps {
            let entries = match name.as_str() {
                "seen" => lanes * queues,
                "foreign" => 1,
                _ => continue,
            };
            let fd = object::create(name, map, Some(entries as u32))?;
            if name == "seen" {
                let bytes = entries * map.value_size() as usize;
                seen = Some(Words::new(fd.as_fd(), bytes).map_err(DriverError::io("map seen"))?);
            }
            maps.insert(name.clone(), fd);
        }
        let missing = |name: &str| DriverError::NoMap { name: name.to_owned() };
        let seen = seen.ok_or_else(|| missing("seen"))?;
        for at in 0..lanes * queues {
            Buckets::clear(&seen, at * SEEN + HEAD + WINDOW);
            Buckets::clear(&seen, at * SEEN + HEAD + WINDOW + TIMES);
        }
        let mark = u32::from(options.mark.to_be()).to_ne_bytes();
        let (lanes32, queues32) = ((lanes as u32).to_ne_bytes(), (queues as u32).to_ne_bytes());
        let offset = options.offset.to_ne_bytes();
        let constants = HashMap::from([
            ("MARK", (&mark[..], true)),
            ("LANES", (&lanes32[..], true)),
            ("QUEUES", (&queues32[..], true)),
            ("OFFSET", (&offset[..], true)),
        ]);
        let program = object::load(object, "tally", constants, &maps)?;
        let failed = |source| DriverError::Attach { ifindex, source };
        let link = |flags| sys::link_create(program.as_fd(), ifindex, sys::ATTACH_XDP, flags);
        let (link, attachment) = match link(XDP_NATIVE) {
            Ok(link) => (link, Attachment { native: true, why: None }),
            Err(error) => {
                let why = Some(why_not_native(error).map_err(failed)?);
                (link(XDP_GENERIC).map_err(failed)?, Attachment { native: false, why })
            }
        };
        let foreign = maps.remove("foreign").ok_or_else(|| missing("foreign"))?;
        Ok(Arrivals { seen, foreign, lanes, queues, attachment, _link: link })
    }

    /// How it is attached.
    pub fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// What arrived of each lane, queue by queue.
    pub fn seen(&self) -> Vec<Vec<Seen>> {
        let lane =
            |lane| (0..self.queues).map(|queue| self.read((lane * self.queues + queue) * SEEN)).collect();
        (0..self.lanes).map(lane).collect()
    }

    /// Frames, and their bytes with check sequence, that were none of the lanes'.
    pub fn foreign(&self) -> io::Result<[u64; 2]> {
        sum_per_cpu(self.foreign.as_fd())
    }

    fn read(&self, at: usize) -> Seen {
        let word = |i: usize| self.seen.get(at + i);
        if word(0) == 0 {
            return Seen::default();
        }
        Seen {
            packets: word(0),
            bytes: word(1),
            corrupt: word(2),
            first: word(3),
            last: word(4),
            unique: word(5),
            duplicates: word(6),
            reordered: word(7),
            late: word(8),
            extent: word(9),
            extents: word(10),
            next: word(11),
            jitter: word(15) as f64 / 16.0,
            latency: Buckets::read(&self.seen, at + HEAD + WINDOW),
            variation: Buckets::read(&self.seen, at + HEAD + WINDOW + TIMES),
        }
    }
}
