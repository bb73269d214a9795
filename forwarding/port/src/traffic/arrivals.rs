//! What arrives of streams, judged by a program in the driver (`forwarding/bpf/tally.c`).

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::traffic::{self as layout, ARRIVED, WINDOW};

use super::words::{Buckets, Words, word_of};
use crate::bpf::{object, sys};
use crate::driver::{XDP_GENERIC, XDP_NATIVE, sum_per_cpu, why_not_native};
use crate::{Attachment, DriverError};

/// Words of [`layout::Seen`].
const SEEN: usize = size_of::<layout::Seen>() / 8;
const NUMBERS: u64 = WINDOW as u64;
/// Most lanes times queues: 200 MB.
const MOST: usize = 4096;

/// A program that judges what an interface receives, for one trial after the other.
pub struct Judge {
    program: OwnedFd,
    seen: Words,
    told: Words,
    foreign: OwnedFd,
    lanes: usize,
    queues: usize,
}

/// A judge at work on an interface, which drops what it has judged, while this lives.
pub struct Arrivals {
    judge: Arc<Judge>,
    /// What was foreign to earlier trials.
    before: [u64; 2],
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
    /// The number after the last one below `next` that has not come by this queue; 0 when all have.
    pub lost_until: u64,
    /// RFC 3550's jitter, nanoseconds.
    pub jitter: f64,
    /// From due to arrival.
    pub latency: Buckets,
    /// Between latencies of packets one after the other.
    pub variation: Buckets,
}

impl Judge {
    /// Loads one for so many lanes (numbers from 0 on that stand behind a trial's mark) and receive
    /// queues of the interface.
    pub fn load(lanes: u16, queues: u32) -> Result<Judge, DriverError> {
        let object = object::tally()?;
        let (lanes, queues) = shape(lanes, queues);
        let (mut maps, mut words) = (HashMap::new(), HashMap::new());
        for (name, map) in &object.maps {
            let entries = match name.as_str() {
                "seen" => lanes * queues,
                "foreign" | "told" => 1,
                _ => continue,
            };
            let fd = object::create(name, map, Some(entries as u32))?;
            if name != "foreign" {
                let bytes = entries * map.value_size() as usize;
                let mapped = Words::new(fd.as_fd(), bytes).map_err(DriverError::io(format!("map {name}")))?;
                words.insert(name.clone(), mapped);
            }
            maps.insert(name.clone(), fd);
        }
        let (lanes32, queues32) = ((lanes as u32).to_ne_bytes(), (queues as u32).to_ne_bytes());
        let constants = HashMap::from([("LANES", (&lanes32[..], true)), ("QUEUES", (&queues32[..], true))]);
        let program = object::load(object, "tally", constants, &maps)?;
        let missing = |name: &str| DriverError::NoMap { name: name.to_owned() };
        Ok(Judge {
            program,
            seen: words.remove("seen").ok_or_else(|| missing("seen"))?,
            told: words.remove("told").ok_or_else(|| missing("told"))?,
            foreign: maps.remove("foreign").ok_or_else(|| missing("foreign"))?,
            lanes,
            queues,
        })
    }

    /// Whether it is one for so many lanes and queues.
    pub fn suits(&self, lanes: u16, queues: u32) -> bool {
        (self.lanes, self.queues) == shape(lanes, queues)
    }

    /// Forgets what it saw, and looks for a trial from now on.
    fn begin(&self, mark: u16, offset: i64) {
        self.told.set(word_of!(layout::Told, mark), u16::from_ne_bytes(mark.to_be_bytes()).into());
        self.told.set(word_of!(layout::Told, offset), offset as u64);
        self.seen.clear();
        for at in 0..self.lanes * self.queues {
            Buckets::clear(&self.seen, at * SEEN + word_of!(layout::Seen, latency));
            Buckets::clear(&self.seen, at * SEEN + word_of!(layout::Seen, variation));
        }
    }
}

/// Lanes and queues that are told apart.
fn shape(lanes: u16, queues: u32) -> (usize, usize) {
    let lanes = usize::from(lanes.max(1));
    (lanes, (queues.max(1) as usize).min((MOST / lanes).max(1)))
}

impl Arrivals {
    /// Has it judge what an interface of this thread's network namespace receives: in the driver,
    /// and if that cannot, in the stack. `mark` is the trial's number, which stands at the front of
    /// a payload; `offset` is to be added to a time of the sender's clock for one of ours,
    /// nanoseconds. No other may use the judge meanwhile.
    pub fn attach(judge: Arc<Judge>, ifindex: u32, mark: u16, offset: i64) -> Result<Arrivals, DriverError> {
        judge.begin(mark, offset);
        let before = sum_per_cpu(judge.foreign.as_fd()).map_err(DriverError::io("map foreign"))?;
        let failed = |source| DriverError::Attach { ifindex, source };
        let link = |flags| sys::link_create(judge.program.as_fd(), ifindex, sys::ATTACH_XDP, flags);
        let (link, attachment) = match link(XDP_NATIVE) {
            Ok(link) => (link, Attachment { native: true, why: None }),
            Err(error) => {
                let why = Some(why_not_native(error).map_err(failed)?);
                (link(XDP_GENERIC).map_err(failed)?, Attachment { native: false, why })
            }
        };
        Ok(Arrivals { judge, before, attachment, _link: link })
    }

    /// How it is attached.
    pub fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// What arrived of each lane, queue by queue.
    pub fn seen(&self) -> Vec<Vec<Seen>> {
        let Judge { lanes, queues, .. } = *self.judge;
        let lane = |lane| (0..queues).map(|queue| self.read((lane * queues + queue) * SEEN)).collect();
        (0..lanes).map(lane).collect()
    }

    /// Frames, and their bytes with check sequence, that were none of the lanes'.
    pub fn foreign(&self) -> io::Result<[u64; 2]> {
        let [packets, bytes] = sum_per_cpu(self.judge.foreign.as_fd())?;
        Ok([packets.saturating_sub(self.before[0]), bytes.saturating_sub(self.before[1])])
    }

    fn read(&self, at: usize) -> Seen {
        let seen = &self.judge.seen;
        macro_rules! word {
            ($field:ident) => {
                seen.get(at + word_of!(layout::Seen, $field))
            };
        }
        if word!(packets) == 0 {
            return Seen::default();
        }
        Seen {
            packets: word!(packets),
            bytes: word!(bytes),
            corrupt: word!(corrupt),
            first: word!(first),
            last: word!(last),
            unique: word!(unique),
            duplicates: word!(duplicates),
            reordered: word!(reordered),
            late: word!(late),
            extent: word!(extent),
            extents: word!(extents),
            next: word!(next),
            lost_until: self.lost_until(at),
            jitter: word!(jitter) as f64 / 16.0,
            latency: Buckets::read(seen, at + word_of!(layout::Seen, latency)),
            variation: Buckets::read(seen, at + word_of!(layout::Seen, variation)),
        }
    }

    /// What has not come of the window's numbers, else what was missing when its words were needed
    /// for others.
    fn lost_until(&self, at: usize) -> u64 {
        let seen = &self.judge.seen;
        let next = seen.get(at + word_of!(layout::Seen, next));
        let has_come = |number: &u64| {
            let place = (number % NUMBERS) as usize;
            let words = seen.get(at + word_of!(layout::Seen, window) + place / 2);
            (words >> (32 * (place % 2))) as u32 == ARRIVED
        };
        let missing = (next.saturating_sub(NUMBERS)..next).rev().find(|number| !has_come(number));
        missing.map_or(seen.get(at + word_of!(layout::Seen, lost_until)), |number| number + 1)
    }
}
