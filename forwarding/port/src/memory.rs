//! The packet memory of all workers and ports: one mapping, cut into a slice for each worker.
//!
//! A frame that a worker received on one port it sends on another by its descriptor; the bytes stay
//! where they are. Frames of a worker's sockets never leave its slice, so no two threads ever write
//! the same memory or the same free list. A socket that several threads use
//! ([`Memory::open_for_all`]) has the whole memory: each thread receives into frames of its own
//! slice, and sends those of any, which then come home to the slice that they are of.

use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use fib::PortId;

use crate::packet::CHUNK;
use crate::pool::{Pool, Region, Slice, Span};
use crate::{Xsk, XskError, XskOptions};

const HUGE: usize = 2 << 20;

/// Whether to ask for huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Those that are set aside (`vm.nr_hugepages`), and else transparent ones.
    #[default]
    Auto,
    /// Those that are set aside, or fail.
    On,
    /// Ordinary pages.
    Off,
}

/// Why there is no packet memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The kernel has no such memory.
    #[error("cannot map {bytes} bytes of packet memory: {source}{}", if *.huge { "; set vm.nr_hugepages, or hugepages = \"auto\"" } else { "" })]
    Map {
        /// Bytes asked for.
        bytes: usize,
        /// Whether only huge pages would do.
        huge: bool,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no such slice.
    #[error("there is packet memory for {slices} workers, not for worker {worker}")]
    NoSlice {
        /// The worker asked for.
        worker: usize,
        /// How many there are.
        slices: usize,
    },
    /// The slice is in use.
    #[error("the packet memory of worker {worker} is in use by another thread")]
    InUse {
        /// The worker asked for.
        worker: usize,
    },
}

/// The packet memory of all workers.
pub struct Memory {
    mapping: Arc<Mapping>,
    /// Each made when somebody first asks for it: until then its pages cost nothing.
    slices: Vec<OnceLock<Arc<Slice>>>,
    /// Frames of a slice.
    frames: usize,
    huge: bool,
    why: Option<String>,
}

impl Memory {
    /// Memory for `workers` workers with `frames` frames of [`CHUNK`] bytes each.
    pub fn new(workers: usize, frames: usize, huge: HugePages) -> Result<Memory, MemoryError> {
        let (workers, frames) = (workers.max(1), frames.max(1));
        let bytes = (workers * frames * CHUNK).next_multiple_of(HUGE);
        let failed = |huge| move |source| MemoryError::Map { bytes, huge, source };
        let mut why = None;
        let reserved = match huge {
            HugePages::Off => None,
            HugePages::On => Some(Mapping::new(bytes, libc::MAP_HUGETLB).map_err(failed(true))?),
            HugePages::Auto => Mapping::new(bytes, libc::MAP_HUGETLB)
                .inspect_err(|error| {
                    why = Some(format!("no {} huge pages are set aside: {error}", bytes / HUGE));
                })
                .ok(),
        };
        let is_huge = reserved.is_some();
        let mapping = match reserved {
            Some(mapping) => mapping,
            None => Mapping::new(bytes, 0).map_err(failed(false))?,
        };
        if !is_huge && huge == HugePages::Auto {
            // SAFETY: advice about our own mapping. Refused where there are no transparent huge
            // pages: then it is slower.
            unsafe { libc::madvise(mapping.base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        let slices = (0..workers).map(|_| OnceLock::new()).collect();
        Ok(Memory { mapping: Arc::new(mapping), slices, frames, huge: is_huge, why })
    }

    fn slice(&self, worker: usize) -> Option<&Arc<Slice>> {
        let (mapping, frames) = (&self.mapping, self.frames);
        let slice = || {
            let at = worker * frames * CHUNK;
            // SAFETY: slice `worker` of the mapping, page-aligned, inside it, made once, and given
            // to nobody else; the slice keeps the mapping alive.
            unsafe { Slice::new(mapping.base.add(at), frames, mapping.clone()) }
        };
        self.slices.get(worker).map(|place| place.get_or_init(slice))
    }

    /// The pool of a worker; to be installed on its thread. A worker that ended has given its pool
    /// back.
    pub fn pool(&self, worker: usize) -> Result<Pool, MemoryError> {
        let slice = self.slice(worker).ok_or(MemoryError::NoSlice { worker, slices: self.slices.len() })?;
        Pool::lease(slice.clone()).ok_or(MemoryError::InUse { worker })
    }

    /// New memory for a worker in the place of what a thread has that hangs, and its pool. The old
    /// one is never used again.
    pub fn renew(&mut self, worker: usize) -> Result<Pool, MemoryError> {
        let slices = self.slices.len();
        let place = self.slices.get_mut(worker).ok_or(MemoryError::NoSlice { worker, slices })?;
        let bytes = (self.frames * CHUNK).next_multiple_of(HUGE);
        let mapping = match self.huge.then(|| Mapping::new(bytes, libc::MAP_HUGETLB)) {
            Some(Ok(mapping)) => mapping,
            // No more are set aside: slower is better than not at all.
            _ => Mapping::new(bytes, 0).map_err(|source| MemoryError::Map { bytes, huge: false, source })?,
        };
        let mapping = Arc::new(mapping);
        // SAFETY: the mapping was just made for this slice, is page-aligned, and lives in the Arc.
        let slice = unsafe { Slice::new(mapping.base, self.frames, mapping.clone()) };
        *place = OnceLock::from(slice.clone());
        Pool::lease(slice).ok_or(MemoryError::InUse { worker })
    }

    /// Opens a socket for a worker whose pool is installed on its own thread already: opening takes
    /// a while, and the worker forwards meanwhile. As [`Xsk::open`] otherwise.
    pub fn open(
        &self,
        worker: usize,
        port: PortId,
        ifindex: u32,
        queue: u32,
        options: &XskOptions,
    ) -> Result<Xsk, XskError> {
        let slice = self.slice(worker).ok_or_else(|| XskError {
            ifindex,
            queue,
            step: "find the worker's memory",
            source: std::io::ErrorKind::NotFound.into(),
        })?;
        Xsk::with_span(port, ifindex, queue, slice.span(), options)
    }

    /// Opens a socket that any thread with a pool of this memory may use, one at a time. As
    /// [`Xsk::open`] otherwise.
    pub fn open_for_all(
        &self,
        port: PortId,
        ifindex: u32,
        queue: u32,
        options: &XskOptions,
    ) -> Result<Xsk, XskError> {
        // SAFETY: all slices, which are whole chunks inside the mapping.
        let span = unsafe { Span::new(self.mapping.base, self.bytes(), self.mapping.clone()) };
        Xsk::with_span(port, ifindex, queue, &span, options)
    }

    /// Whether it is in pages that were set aside as huge, and if not, why.
    pub fn huge_pages(&self) -> (bool, Option<&str>) {
        (self.huge, self.why.as_deref())
    }

    /// Frames of each worker.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.slices.len() * self.frames * CHUNK
    }
}

struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address range; the chunks in it are reached through their owners.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Region for Mapping {}

impl Mapping {
    fn new(bytes: usize, flags: libc::c_int) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap gave address 0"))?;
        Ok(Mapping { base, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; the last slice is gone, and with it every chunk.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;
    use crate::pool::available;

    #[test]
    fn a_workers_memory_is_its_own_until_its_thread_ends() {
        let memory = Memory::new(2, 8, HugePages::Auto).unwrap();
        assert_eq!(memory.bytes(), 2 * 8 * CHUNK);
        let pool = memory.pool(0).unwrap();
        assert!(matches!(memory.pool(0), Err(MemoryError::InUse { worker: 0 })));
        assert!(matches!(memory.pool(2), Err(MemoryError::NoSlice { .. })));
        let left_over = std::thread::spawn(move || {
            pool.install();
            Packet::new(b"outlives its worker").unwrap()
        })
        .join()
        .unwrap();
        memory.pool(0).unwrap().install();
        assert_eq!(available(), 7);
        assert_eq!(left_over.data(), b"outlives its worker");
        drop(left_over);
        assert_eq!(available(), 8);
    }

    #[test]
    fn memory_that_is_lost_is_replaced_and_never_met_again() {
        let mut memory = Memory::new(2, 8, HugePages::Off).unwrap();
        let lost = memory.pool(1).unwrap();
        let span = (lost.slice().span().base().as_ptr() as usize, lost.slice().span().bytes());
        let fresh = memory.renew(1).unwrap();
        assert_eq!(fresh.available(), 8);
        let base = fresh.slice().span().base().as_ptr() as usize;
        assert!(base >= span.0 + span.1 || base + span.1 <= span.0);
        assert!(matches!(memory.pool(1), Err(MemoryError::InUse { worker: 1 })));
        assert!(matches!(memory.renew(2), Err(MemoryError::NoSlice { .. })));
        drop(lost);
    }

    #[test]
    fn no_huge_pages_is_an_error_only_where_they_are_demanded() {
        let bytes = 1usize << 50;
        let error = Memory::new(1, bytes / CHUNK, HugePages::On).err().unwrap();
        assert!(error.to_string().contains("nr_hugepages"), "{error}");
    }
}
