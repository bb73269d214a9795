//! What the driver's program needs for flows that are offloaded to it (`forwarding/bpf/flows.h`):
//! the flow table's arrays, and the verdicts.
//!
//! The arrays are made when there is a table to lie in them, which may be long after the ports were
//! taken; only then the programs for them are loaded, and put where the others go on to
//! them.
//!
//! *Verdicts* are what the rules came to, a word each, which flows' decisions name by number. When
//! the rules change they begin anew in the other half, so that what a processor is just counting
//! for the old ones is still counted there; the word before them says which rules are in force, and
//! with one store of it nothing is offloaded by the old ones any more.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use abi::Step;
pub use abi::driver::VerdictCount as Counted;
use abi::driver::{BLOCK, SECOND_HALF};
use abi::flow::verdict::{DSCP, KNOWN, NEW};
use fib::{InterfaceId, Region};

use super::{Driver, counters, map_array};
use crate::bpf::map::Mapping;
use crate::bpf::object;
use crate::{DriverError, clock};

/// Verdicts of one generation of the rules that the program knows: half of them all.
pub const VERDICTS: usize = abi::driver::VERDICTS / 2;

/// Words of the map: which rules are in force, whether flows are translated, and the first verdict.
const FORCE: usize = offset_of!(abi::driver::Verdicts, force) / 8;
const TRANSLATES: usize = offset_of!(abi::driver::Verdicts, translates) / 8;
const FIRST: usize = offset_of!(abi::driver::Verdicts, word) / 8;

/// What the packets of a flow's direction come to; they are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadedVerdict {
    /// The port that they leave by.
    pub output: InterfaceId,
    /// The flow has not been answered yet; else it has.
    pub unanswered: bool,
    /// The code point that they get.
    pub dscp: Option<u8>,
}

impl OffloadedVerdict {
    fn word(self) -> u64 {
        let dscp = self.dscp.map_or(0, |dscp| DSCP | u64::from(dscp & 0x3f) << 16);
        KNOWN | if self.unanswered { NEW } else { 0 } | dscp | u64::from(self.output.0)
    }
}

/// Which of the two halves verdicts are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Half {
    /// The first one.
    #[default]
    First,
    /// The other one.
    Second,
}

impl Half {
    /// The other one.
    pub fn other(self) -> Half {
        match self {
            Half::First => Half::Second,
            Half::Second => Half::First,
        }
    }
}

/// The verdicts as the program knows them. Written by whoever keeps the rules.
pub struct Verdicts {
    words: Mapping,
    counts: OwnedFd,
}

impl Verdicts {
    /// Flows whose words are of this generation (18 bits, not 0) are offloaded from now on by
    /// verdicts of this half, which knows none yet; all others are not.
    pub fn begin(&self, generation: u32, half: Half) {
        // Who still reads the words of this half is at most a packet behind.
        (0..VERDICTS).for_each(|number| self.word(FIRST + place(half, number)).store(0, Ordering::Relaxed));
        let half = if half == Half::Second { SECOND_HALF } else { 0 };
        self.word(FORCE).store(half | u64::from(generation), Ordering::Release);
    }

    /// Whether translated flows are offloaded; at first they are not.
    pub fn translate(&self, on: bool) {
        self.word(TRANSLATES).store(u64::from(on), Ordering::Release);
    }

    /// Makes a verdict known. One beyond [`VERDICTS`] is not: its flows are not offloaded.
    pub fn add(&self, half: Half, number: usize, verdict: OffloadedVerdict) {
        if number < VERDICTS {
            self.word(FIRST + place(half, number)).store(verdict.word(), Ordering::Release);
        }
    }

    /// What was offloaded by the verdicts with this number in this half since the maps were made; 0
    /// beyond [`VERDICTS`].
    pub fn counted(&self, half: Half, number: usize) -> io::Result<Counted> {
        if number >= VERDICTS {
            return Ok(Counted::default());
        }
        let key = place(half, number) as u32;
        let per_cpu = counters::per_cpu::<{ size_of::<Counted>() / 8 }>(self.counts.as_fd(), key)?;
        Ok(per_cpu.into_iter().fold(Counted::default(), |sum, [packets, bytes, last]| Counted {
            packets: sum.packets + packets,
            bytes: sum.bytes + bytes,
            last: sum.last.max(last),
        }))
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!((index + 1) * 8 <= self.words.bytes());
        // SAFETY: inside the mapping and aligned, as just checked; the program only reads it.
        unsafe { &*self.words.base().as_ptr().cast::<AtomicU64>().add(index) }
    }
}

fn place(half: Half, number: usize) -> usize {
    if half == Half::Second { VERDICTS + number } else { number }
}

impl Driver {
    /// Memory for a flow table that the program reads and writes as well, which it does for ports
    /// with [`fib::InterfaceFlags::FLOWS`]; and the verdicts, of which it knows none. `now` is what
    /// the table's clock says.
    pub fn share_flows(
        &mut self,
        sizes: flow::Sizes,
        now: Duration,
    ) -> Result<(flow::DriverMemory, Arc<Verdicts>), DriverError> {
        let parts = [
            ("flow_hot", sizes.entries, flow::Sizes::HOT),
            ("flow_cold", sizes.entries, flow::Sizes::COLD),
            ("flow_buckets", sizes.buckets, flow::Sizes::BUCKET),
            ("flow_door", 1, flow::DriverMemory::DOOR),
            ("verdict_counts", 2 * VERDICTS, size_of::<Counted>()),
        ];
        for (name, entries, bytes) in parts {
            let map =
                self.loader.object.maps.get(name).ok_or_else(|| DriverError::NoMap { name: name.into() })?;
            // Both sides of `forwarding/bpf/flows.h` are compiled together.
            assert_eq!(map.value_size() as usize, bytes, "{name}: bpf/flows.h and its Rust side differ");
            let made = object::create(name, map, Some(entries as u32))?;
            self.shared.insert(name.to_owned(), made);
        }
        let mut mappings = Vec::new();
        let mut region = |name: &str, bytes: usize| {
            let mapping = map_array(&self.shared, name, bytes.next_multiple_of(BLOCK))?;
            // SAFETY: a shared mapping of a zeroed bpf array that nothing else writes but the
            // program, single words; it lives as long as the owner below.
            let region = unsafe { Region::new(mapping.base(), mapping.bytes()) };
            mappings.push(mapping);
            Ok::<_, DriverError>(region)
        };
        let [hot, cold, buckets, door, _] = parts.map(|(name, entries, bytes)| (name, entries * bytes));
        let (hot, cold) = (region(hot.0, hot.1)?, region(cold.0, cold.1)?);
        let (buckets, door) = (region(buckets.0, buckets.1)?, region(door.0, door.1)?);
        let words =
            map_array(&self.shared, "verdicts", size_of::<abi::driver::Verdicts>().next_multiple_of(BLOCK))?;
        let counts = self.shared.get("verdict_counts").map(OwnedFd::try_clone);
        let counts = counts
            .ok_or_else(|| DriverError::NoMap { name: "verdict_counts".into() })?
            .map_err(DriverError::io("cannot duplicate a map's descriptor"))?;
        let origin = clock::now().saturating_sub(now.as_nanos() as u64);
        let owner = Box::new(mappings);
        for step in [Step::OffloadedIpv4, Step::OffloadedIpv6, Step::SendIpv6] {
            self.loader.add_step(step, &self.shared)?;
        }
        let memory = flow::DriverMemory { hot, cold, buckets, door, origin, owner };
        Ok((memory, Arc::new(Verdicts { words, counts })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_verdicts_are() {
        let verdict = OffloadedVerdict { output: InterfaceId(259), unanswered: true, dscp: Some(46) };
        assert_eq!(verdict.word(), 1 << 63 | 1 << 25 | 1 << 24 | 46 << 16 | 259);
        let verdict = OffloadedVerdict { output: InterfaceId(1), unanswered: false, dscp: None };
        assert_eq!(verdict.word(), 1 << 63 | 1);
    }
}
