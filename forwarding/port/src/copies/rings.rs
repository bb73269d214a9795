//! The way of copies to user space: a perf ring for each processor.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::DriverError;
use crate::bpf::map::Mapping;
use crate::bpf::sys::{self, Shape};

use super::code::HEAD;

/// Bytes of each ring, a power of two.
const BYTES: usize = 1 << 21;
/// The same where there are so many processors that it would be too much.
const FEW_BYTES: usize = 1 << 19;
const MANY: usize = 16;
const PAGE: usize = 4096;
/// In the ring's first page (`struct perf_event_mmap_page`): where the kernel has written to, and
/// where we have read to.
const WRITTEN: usize = 1024;
const READ: usize = 1032;
const SAMPLE: u32 = 9;
const LOST: u32 = 2;
/// `BPF_MAP_TYPE_PERF_EVENT_ARRAY`.
const PERF_EVENT_ARRAY: u32 = 4;

/// The rings. Who reads them is woken by nobody: to wake somebody for each packet would be paid by
/// the packets.
pub struct Rings {
    map: OwnedFd,
    rings: Vec<Ring>,
    scratch: Vec<u8>,
}

struct Ring {
    // Before the descriptor that it maps.
    memory: Mapping,
    _event: OwnedFd,
}

/// A copy of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Copied<'a> {
    /// When, by the clock that runs since the machine was started ([`crate::clock`]), nanoseconds.
    pub time: u64,
    /// Who wants it: a bit for each slot.
    pub slots: u32,
    /// The interface.
    pub ifindex: u32,
    /// Bytes of the frame.
    pub length: u32,
    /// Whether it was leaving.
    pub outgoing: bool,
    /// The frame's first bytes.
    pub bytes: &'a [u8],
}

impl Rings {
    /// A ring for each processor that is online.
    pub fn new() -> Result<Rings, DriverError> {
        let failed = |what: &str| DriverError::io(format!("cannot {what} to copy packets by"));
        let list = |name: &str| {
            let text = fs::read_to_string(format!("/sys/devices/system/cpu/{name}"));
            text.map(|text| processors(&text)).map_err(failed("count processors"))
        };
        let (online, possible) = (list("online")?, list("possible")?);
        let entries = possible.last().map_or(1, |last| last + 1);
        let shape = Shape { kind: PERF_EVENT_ARRAY, key: 4, value: 4, entries, flags: 0 };
        let map = sys::map_create("copies", shape).map_err(failed("make a map"))?;
        let bytes = if online.len() > MANY { FEW_BYTES } else { BYTES };
        let mut rings = Vec::new();
        for cpu in online {
            let event = open(cpu, bytes as u32 / 2).map_err(|error| match error.raw_os_error() {
                // Debian's kernels know a level that no capability of ours lifts.
                Some(libc::EACCES) => failed(
                    "open a perf event (`sysctl -w kernel.perf_event_paranoid=2` lets the daemon)",
                )(error),
                _ => failed("open a perf event")(error),
            })?;
            let memory = Mapping::new(event.as_fd(), PAGE + bytes).map_err(failed("map a perf ring"))?;
            sys::map_update(map.as_fd(), &cpu.to_ne_bytes(), &event.as_raw_fd().to_ne_bytes())
                .map_err(failed("write a map"))?;
            rings.push(Ring { memory, _event: event });
        }
        Ok(Rings { map, rings, scratch: Vec::new() })
    }

    /// Takes what there is, processor after processor; how many copies were lost since the last
    /// time.
    pub fn read(&mut self, mut each: impl FnMut(Copied<'_>)) -> u64 {
        let mut lost = 0;
        for ring in &self.rings {
            let written = ring.number(WRITTEN).load(Ordering::Acquire);
            let mut at = ring.number(READ).load(Ordering::Relaxed);
            while at < written {
                let mut header = [0; 8];
                ring.copy(at, &mut header);
                let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
                let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
                if size < header.len() {
                    // The kernel writes no such record; nothing behind it can be found.
                    at = written;
                    break;
                }
                self.scratch.resize(size - header.len(), 0);
                ring.copy(at + header.len() as u64, &mut self.scratch);
                match kind {
                    SAMPLE => copied(&self.scratch).into_iter().for_each(&mut each),
                    LOST => lost += number(&self.scratch, 8).map_or(0, u64::from_ne_bytes),
                    _ => {}
                }
                at += size as u64;
            }
            ring.number(READ).store(at, Ordering::Release);
        }
        lost
    }
}

/// The map by which programs find them, for [`Driver::copy_packets`](crate::Driver::copy_packets).
impl AsFd for Rings {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Ring {
    fn number(&self, at: usize) -> &AtomicU64 {
        // SAFETY: inside the first page of the mapping and aligned; kernel and we share it by
        // atomic loads and stores.
        unsafe { &*self.memory.base().as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Bytes from a position on, round the ring's end.
    fn copy(&self, at: u64, to: &mut [u8]) {
        let bytes = self.memory.bytes() - PAGE;
        let at = at as usize & (bytes - 1);
        let first = to.len().min(bytes - at);
        // SAFETY: both parts are inside the mapping, and the kernel writes no byte of them until
        // `READ` has passed it.
        unsafe {
            let data = self.memory.base().as_ptr().add(PAGE);
            std::ptr::copy_nonoverlapping(data.add(at), to.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, to.as_mut_ptr().add(first), to.len() - first);
        }
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// A record of `code.rs`: the size, the head, the frame, and padding.
fn copied(record: &[u8]) -> Option<Copied<'_>> {
    let size = u32::from_ne_bytes(number(record, 0)?) as usize;
    let raw = record.get(4..4 + size)?;
    let word = |at| number(raw, at).map(u32::from_ne_bytes);
    let length = word(16)?;
    let bytes = raw.get(HEAD..)?;
    Some(Copied {
        time: u64::from_ne_bytes(number(raw, 0)?),
        slots: word(8)?,
        ifindex: word(12)?,
        length,
        outgoing: word(20)? != 0,
        bytes: &bytes[..bytes.len().min(length as usize)],
    })
}

/// A perf event that only programs write to.
fn open(cpu: u32, watermark: u32) -> io::Result<OwnedFd> {
    /// The first version of `struct perf_event_attr`.
    #[repr(C)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        period: u64,
        sample: u64,
        read: u64,
        flags: u64,
        wakeup: u32,
        breakpoint: u32,
        config1: u64,
    }
    let attributes = Attributes {
        kind: 1, // PERF_TYPE_SOFTWARE
        size: size_of::<Attributes>() as u32,
        config: 10, // PERF_COUNT_SW_BPF_OUTPUT
        period: 1,
        sample: 1 << 10, // PERF_SAMPLE_RAW
        read: 0,
        flags: 1 << 14, // watermark
        wakeup: watermark,
        breakpoint: 0,
        config1: 0,
    };
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // SAFETY: the kernel reads the attributes, which live through the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, cpu, -1, CLOSE_ON_EXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// The numbers of `0-3,8`.
fn processors(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_by_ranges() {
        assert_eq!(processors("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(processors("0\n"), [0]);
    }

    #[test]
    fn a_record_that_is_cut_is_none() {
        let mut record = 28u32.to_ne_bytes().to_vec();
        record.extend(7u64.to_ne_bytes());
        for word in [1u32, 2, 60, 1, 0xaabb_ccdd] {
            record.extend(word.to_ne_bytes());
        }
        let found = copied(&record).unwrap();
        assert_eq!((found.time, found.slots, found.ifindex, found.length), (7, 1, 2, 60));
        assert!(found.outgoing && found.bytes == 0xaabb_ccddu32.to_ne_bytes());
        (0..record.len()).for_each(|length| assert!(copied(&record[..length]).is_none(), "{length}"));
    }
}
