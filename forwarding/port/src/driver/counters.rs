//! What the program counted for a port (a line of the map `counters`).

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use abi::{Count, DriverCounters, Traffic};
use fib::PortId;

use crate::bpf::sys;

/// Sums a port's counters over all CPUs.
pub(super) fn read(map: BorrowedFd, port: PortId) -> io::Result<DriverCounters> {
    sum_entry(map, u32::from(port.0)).map(DriverCounters::from_words)
}

/// Lets a port's counters begin at 0.
pub(super) fn clear(map: BorrowedFd, port: PortId) -> io::Result<()> {
    sys::map_update(
        map,
        &u32::from(port.0).to_ne_bytes(),
        &vec![0; size_of::<DriverCounters>() * possible_cpus()],
    )
}

/// Sums what was sent by a port over all CPUs (map `sent`).
pub(super) fn read_sent(map: BorrowedFd, port: PortId) -> io::Result<Count> {
    let [packets, bytes] = sum_entry(map, u32::from(port.0))?;
    Ok(Count { packets, bytes })
}

/// Sums what passed a logical interface over all CPUs (map `logical`).
pub(super) fn read_traffic(map: BorrowedFd, at: u16) -> io::Result<Traffic> {
    let [packets, bytes, sent, sent_bytes] = sum_entry(map, u32::from(at))?;
    Ok(Traffic { received: Count { packets, bytes }, sent: Count { packets: sent, bytes: sent_bytes } })
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
}
