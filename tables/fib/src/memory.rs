//! Where the words live: the worker's copy, the driver's, and how large each array is.
//!
//! The worker's copy is one [`Mapping`] in huge pages. The driver's arrays belong to `port`, which
//! creates the bpf maps with [`Sizes`] and hands over their mappings.

use crate::interface::TAG_BYTES;
use crate::tunnel::{END_BYTES, HOST_BYTES, TUNNEL_BYTES};
use crate::word::MAX_NEXT_HOPS;
use crate::{FibError, Mapping};
use std::any::Any;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A bpf array's value: a bpf array rounds each value up to 8 bytes, so words come in blocks.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Ports at most.
pub(crate) const PORTS: usize = 256;

/// How much the tables can hold. What does not fit is refused, typed, and stays with Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// IPv4 routes.
    pub ipv4: usize,
    /// IPv6 routes.
    pub ipv6: usize,
    /// Next hops, and as many adjacencies; at most 4,194,304.
    pub next_hops: usize,
}

impl Default for Capacity {
    /// Room for a full Internet table of 2026 and five years of its growth.
    fn default() -> Self {
        Capacity { ipv4: 1_500_000, ipv6: 500_000, next_hops: 131_072 }
    }
}

impl Capacity {
    /// Bytes of each array, all multiples of 4096: create the bpf maps with `bytes / 4096` entries
    /// of 4096 bytes.
    pub fn sizes(&self) -> Sizes {
        let blocks = |bytes: usize| bytes.next_multiple_of(BLOCK_BYTES);
        Sizes {
            rest4: crate::ipv4::rest(self),
            fib4: blocks(crate::ipv4::words(self) * 4),
            fib6: blocks(crate::ipv6::words(self) * 4),
            nexthops: blocks(self.next_hop_words() * 8),
            buckets: blocks(self.bucket_words() * 4),
            adjacencies: blocks(self.next_hop_words() * 16),
            used: blocks(self.next_hop_words() * 4),
            interfaces: blocks(crate::InterfaceId::COUNT * 32),
            tags: TAG_BYTES,
        }
    }

    /// Ids run from 1 (0 means none), so one more than there are next hops.
    pub(crate) fn next_hop_words(&self) -> usize {
        self.next_hops + 1
    }

    /// On average 4 buckets a next hop: most have one path, and those need none.
    pub(crate) fn bucket_words(&self) -> usize {
        (self.next_hops * 4)
            .next_multiple_of(crate::forward::MAX_BUCKETS)
            .max(64 * crate::forward::MAX_BUCKETS)
    }
}

/// Bytes of each array, and how the first is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Sizes {
    /// Bits of an address that the first level of `fib4` does not look at: `FIB4_REST` in
    /// `forwarding/bpf/maps.h`.
    pub rest4: u32,
    pub fib4: usize,
    pub fib6: usize,
    pub nexthops: usize,
    pub buckets: usize,
    pub adjacencies: usize,
    pub used: usize,
    pub interfaces: usize,
    pub tags: usize,
}

impl Sizes {
    fn total(&self) -> usize {
        let forward = self.nexthops + self.buckets + self.adjacencies + self.used;
        self.fib4 + self.fib6 + forward + self.interfaces + self.tags
    }
}

/// A mapped stretch of zeroed memory.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region is only an address and a length; all access goes through atomics.
unsafe impl Send for Region {}

impl Region {
    /// # Safety
    /// `base` must be page-aligned and point to `bytes` bytes of zeroed, readable and writable
    /// memory that nothing but `Tables` (and readers of single words) writes for as long as the
    /// region's owner lives.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize) -> Region {
        Region { base, bytes }
    }

    /// Where it begins.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The driver's copy: the mappings of the mmapable bpf arrays of the same names.
pub struct DriverMemory {
    /// IPv4 longest-prefix match.
    pub fib4: Region,
    /// IPv6 longest-prefix match.
    pub fib6: Region,
    /// Next-hop words.
    pub nexthops: Region,
    /// Adjacencies of next hops with several paths.
    pub buckets: Region,
    /// Adjacencies.
    pub adjacencies: Region,
    /// Marks of adjacencies in use.
    pub used: Region,
    /// Interfaces.
    pub interfaces: Region,
    /// Blocks of tags.
    pub tags: Region,
    /// Keeps the mappings alive; dropped with the tables.
    pub owner: Box<dyn Any + Send>,
}

impl DriverMemory {
    pub(crate) fn bytes(&self) -> usize {
        let forward = [self.nexthops, self.buckets, self.adjacencies, self.used];
        let rest = [self.fib4, self.fib6, self.interfaces, self.tags];
        forward.iter().chain(&rest).map(|region| region.bytes).sum()
    }
}

/// Bytes the tables take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident bytes of the worker's copy.
    pub worker_bytes: usize,
    /// Bytes of the driver's arrays (all of them: the kernel allocates them whole); 0 without a
    /// driver.
    pub driver_bytes: usize,
    /// The writer's bookkeeping.
    pub writer_bytes: usize,
}

/// One array of words inside a mapping that outlives it.
pub(crate) struct Array<T> {
    base: NonNull<T>,
    len: usize,
}

// SAFETY: `T` is an atomic word (see `Word`), and the mapping outlives the array (`Arrays`).
unsafe impl<T: Word> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Word> Sync for Array<T> {}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Array<T> {}

/// Atomic words, valid when zero.
pub(crate) trait Word: Sync {
    type Value: Copy;
    fn store_release(&self, value: Self::Value);
}

impl Word for AtomicU32 {
    type Value = u32;
    fn store_release(&self, value: u32) {
        self.store(value, Ordering::Release)
    }
}

impl Word for AtomicU64 {
    type Value = u64;
    fn store_release(&self, value: u64) {
        self.store(value, Ordering::Release)
    }
}

impl<T: Word> Deref for Array<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `base` is page-aligned and maps `len` words, zeroed at first, for the life of the
        // owner (`Arrays`).
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

/// Asks for a cache line, whatever the address: into the second cache. On its way to the first a
/// line takes one of that cache's two dozen places, and a batch asks for several times as many.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

impl<T> Array<T> {
    const NONE: Array<T> = Array { base: NonNull::dangling(), len: 0 };

    /// Asks for the cache line of a word that will be wanted soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch(self.base.as_ptr().wrapping_add(index));
    }
}

/// An array in both copies. Reads come from the worker's.
#[derive(Clone, Copy)]
pub(crate) struct Pair<T> {
    pub(crate) worker: Array<T>,
    pub(crate) driver: Option<Array<T>>,
}

impl<T: Word> Pair<T> {
    /// Stores to both copies, after everything stored before.
    pub(crate) fn store(&self, index: usize, value: T::Value) {
        self.worker[index].store_release(value);
        if let Some(driver) = &self.driver {
            driver[index].store_release(value);
        }
    }
}

/// All arrays of one copy.
#[derive(Clone, Copy)]
pub(crate) struct Arrays {
    pub(crate) fib4: Array<AtomicU32>,
    pub(crate) fib6: Array<AtomicU32>,
    pub(crate) nexthops: Array<AtomicU64>,
    pub(crate) buckets: Array<AtomicU32>,
    pub(crate) adjacencies: Array<AtomicU64>,
    pub(crate) used: Array<AtomicU32>,
    pub(crate) interfaces: Array<AtomicU64>,
    pub(crate) tags: Array<AtomicU32>,
    /// Workers' alone.
    pub(crate) tunnels: Array<AtomicU64>,
    /// Workers' alone.
    pub(crate) ends: Array<AtomicU32>,
    /// Workers' alone.
    pub(crate) hosts: Array<AtomicU64>,
}

impl Arrays {
    /// The driver's copy. The caller keeps `memory.owner`.
    pub(crate) fn of_driver(memory: &DriverMemory, sizes: &Sizes) -> Result<Arrays, FibError> {
        fn checked<T>(name: &'static str, region: &Region, wanted: usize) -> Result<Array<T>, FibError> {
            if region.bytes != wanted {
                return Err(FibError::DriverSize { name, found: region.bytes, wanted });
            }
            Ok(Array { base: region.base.cast(), len: wanted / size_of::<T>() })
        }
        Ok(Arrays {
            fib4: checked("fib4", &memory.fib4, sizes.fib4)?,
            fib6: checked("fib6", &memory.fib6, sizes.fib6)?,
            nexthops: checked("nexthops", &memory.nexthops, sizes.nexthops)?,
            buckets: checked("buckets", &memory.buckets, sizes.buckets)?,
            adjacencies: checked("adjacencies", &memory.adjacencies, sizes.adjacencies)?,
            used: checked("used", &memory.used, sizes.used)?,
            interfaces: checked("interfaces", &memory.interfaces, sizes.interfaces)?,
            tags: checked("tags", &memory.tags, sizes.tags)?,
            tunnels: Array::NONE,
            ends: Array::NONE,
            hosts: Array::NONE,
        })
    }
}

/// The worker's copy, and the mapping it lives in.
pub(crate) struct WorkerMemory {
    pub(crate) arrays: Arrays,
    /// See [`crate::ipv4::rest`].
    pub(crate) rest4: u32,
    mapping: Mapping,
}

impl WorkerMemory {
    pub(crate) fn new(capacity: &Capacity) -> Result<WorkerMemory, FibError> {
        if capacity.next_hop_words() > MAX_NEXT_HOPS {
            return Err(FibError::TooManyNextHops(capacity.next_hops));
        }
        let sizes = capacity.sizes();
        let bytes = sizes.total() + TUNNEL_BYTES + END_BYTES + HOST_BYTES;
        let mapping = Mapping::new(bytes).map_err(|source| FibError::NoMemory { bytes, source })?;
        fn array<T>(next: &mut NonNull<u8>, bytes: usize) -> Array<T> {
            let at = *next;
            // SAFETY: the sum of all sizes is within the mapping.
            *next = unsafe { at.add(bytes) };
            Array { base: at.cast(), len: bytes / size_of::<T>() }
        }
        let next = &mut mapping.base();
        let arrays = Arrays {
            fib4: array(next, sizes.fib4),
            fib6: array(next, sizes.fib6),
            nexthops: array(next, sizes.nexthops),
            buckets: array(next, sizes.buckets),
            adjacencies: array(next, sizes.adjacencies),
            used: array(next, sizes.used),
            interfaces: array(next, sizes.interfaces),
            tags: array(next, sizes.tags),
            tunnels: array(next, TUNNEL_BYTES),
            ends: array(next, END_BYTES),
            hosts: array(next, HOST_BYTES),
        };
        Ok(WorkerMemory { arrays, rest4: crate::ipv4::rest(capacity), mapping })
    }

    /// Bytes that are in memory now.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.mapping.resident_bytes()
    }
}
