//! What the program counted for a port (`struct counters` in `bpf/abi.h`).

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use fib::PortId;
use wire::{Class, Reason};

use crate::bpf::sys;

/// What became of a packet in the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Lane {
    /// Forwarded right there.
    Express = 0,
    /// Handed to the worker.
    Worker = 1,
    /// Left to Linux.
    Pass = 2,
    /// Dropped.
    Drop = 3,
}

impl Lane {
    /// Every lane, in the order of the numbers.
    pub const ALL: [Lane; 4] = [Lane::Express, Lane::Worker, Lane::Pass, Lane::Drop];

    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Lane::Express => "express",
            Lane::Worker => "worker",
            Lane::Pass => "pass",
            Lane::Drop => "drop",
        }
    }
}

/// Packets and their bytes, from the Ethernet header on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes; of a frame in several buffers, those of the first.
    pub bytes: u64,
}

/// Totals of one port since it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverCounters {
    /// By [`Lane`].
    pub lanes: [Count; 4],
    /// Dropped, by [`Reason`].
    pub reasons: [u64; Reason::COUNT],
    /// Handed to Linux, by [`Class`].
    pub passed: [u64; Class::COUNT],
    /// Dropped because over the limit, by [`Class`]; also among the reasons.
    pub policed: [u64; Class::COUNT],
}

impl Default for DriverCounters {
    fn default() -> Self {
        DriverCounters {
            lanes: Default::default(),
            reasons: [0; Reason::COUNT],
            passed: [0; Class::COUNT],
            policed: [0; Class::COUNT],
        }
    }
}

/// Words of `struct counters`.
pub(super) const WORDS: usize = 2 * Lane::ALL.len() + Reason::COUNT + 2 * Class::COUNT;

impl DriverCounters {
    /// Packets and bytes of a lane.
    pub fn lane(&self, lane: Lane) -> Count {
        self.lanes[lane as usize]
    }

    /// Packets dropped for a reason.
    pub fn reason(&self, reason: Reason) -> u64 {
        self.reasons[reason as usize]
    }

    /// What was counted after `before`.
    pub fn since(&self, before: &DriverCounters) -> DriverCounters {
        let (now, then) = (self.words(), before.words());
        DriverCounters::from_words(std::array::from_fn(|i| now[i].wrapping_sub(then[i])))
    }

    fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let lanes = self.lanes.iter().flat_map(|count| [count.packets, count.bytes]);
        let rest = self.reasons.iter().chain(&self.passed).chain(&self.policed).copied();
        words.iter_mut().zip(lanes.chain(rest)).for_each(|(word, value)| *word = value);
        words
    }

    fn from_words(words: [u64; WORDS]) -> DriverCounters {
        let mut next = words.into_iter();
        let mut word = || next.next().unwrap_or(0);
        DriverCounters {
            lanes: std::array::from_fn(|_| Count { packets: word(), bytes: word() }),
            reasons: std::array::from_fn(|_| word()),
            passed: std::array::from_fn(|_| word()),
            policed: std::array::from_fn(|_| word()),
        }
    }
}

/// Sums a port's counters over all CPUs.
pub(super) fn read(map: BorrowedFd, port: PortId) -> io::Result<DriverCounters> {
    sum_entry(map, u32::from(port.0)).map(DriverCounters::from_words)
}

/// Lets a port's counters begin at 0.
pub(super) fn clear(map: BorrowedFd, port: PortId) -> io::Result<()> {
    sys::map_update(map, &u32::from(port.0).to_ne_bytes(), &vec![0; WORDS * 8 * possible_cpus()])
}

/// Sums what was sent by a port over all CPUs (map `sent`).
pub(super) fn read_sent(map: BorrowedFd, port: PortId) -> io::Result<Count> {
    let [packets, bytes] = sum_entry(map, u32::from(port.0))?;
    Ok(Count { packets, bytes })
}

/// Sums entry 0 of a per-CPU array of `N` words over all CPUs.
pub(crate) fn sum_per_cpu<const N: usize>(map: BorrowedFd) -> io::Result<[u64; N]> {
    sum_entry(map, 0)
}

fn sum_entry<const N: usize>(map: BorrowedFd, entry: u32) -> io::Result<[u64; N]> {
    let per_cpu = per_cpu::<N>(map, entry)?;
    Ok(per_cpu
        .into_iter()
        .fold([0; N], |sums, words| std::array::from_fn(|i| sums[i].wrapping_add(words[i]))))
}

/// An entry of a per-CPU array of `N` words, as each CPU has it.
pub(super) fn per_cpu<const N: usize>(map: BorrowedFd, entry: u32) -> io::Result<Vec<[u64; N]>> {
    let mut bytes = vec![0; N * 8 * possible_cpus()];
    sys::map_lookup(map, &entry.to_ne_bytes(), &mut bytes)?;
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("chunks of 8"))).collect();
    Ok(words.chunks_exact(N).map(|words| words.try_into().expect("chunks of N")).collect())
}

/// CPUs that the kernel keeps per-CPU data for.
fn possible_cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| {
        let list = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
        count_cpus(&list)
    })
}

/// The length of a list such as `0-3,8`.
fn count_cpus(list: &str) -> usize {
    let span = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<usize>().ok()? + 1 - first.parse::<usize>().ok()?)
    };
    list.trim().split(',').filter_map(span).sum::<usize>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_counted() {
        for (list, count) in [("0\n", 1), ("0-1\n", 2), ("0-3,8-11\n", 8), ("", 1), ("0,2", 2)] {
            assert_eq!(count_cpus(list), count, "{list:?}");
        }
    }

    #[test]
    fn words_and_counters_are_one() {
        let words = std::array::from_fn(|i| i as u64);
        assert_eq!(DriverCounters::from_words(words).words(), words);
    }
}
