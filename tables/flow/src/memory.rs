//! The table's memory: three arrays of a size fixed at creation, in one mapping in huge pages, or
//! in bpf arrays that the driver's program reads and writes as well.

use crate::Error;
use crate::driver::DriverMemory;
use crate::entry::{Cold, Hot};
use crate::index::{Bucket, ENTRY, SLOTS};
use fib::Mapping;
use std::any::Any;
use std::ptr::NonNull;

const PAGE: usize = 2 << 20;
/// Keys in ten buckets when the table is full: eight tenths of their slots.
const KEYS_IN_TEN: usize = 8 * SLOTS;

/// The arrays, and what they lie in.
pub(crate) struct Memory {
    hot: NonNull<Hot>,
    buckets: NonNull<Bucket>,
    cold: NonNull<Cold>,
    sizes: Sizes,
    bytes: usize,
    /// Whether the driver's program counts in it as well.
    shared: bool,
    /// Keeps the arrays mapped.
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: all access goes through atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// How many entries and buckets there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Entries of [`HOT`](Sizes::HOT) and [`COLD`](Sizes::COLD) bytes.
    pub entries: usize,
    /// Buckets of [`BUCKET`](Sizes::BUCKET) bytes.
    pub buckets: usize,
}

impl Sizes {
    /// Bytes of the part of an entry that is read at every packet.
    pub const HOT: usize = size_of::<Hot>();
    /// Bytes of the part of an entry that is written at every packet.
    pub const COLD: usize = size_of::<Cold>();
    /// Bytes of a bucket.
    pub const BUCKET: usize = size_of::<Bucket>();

    /// As many entries as fit into `bytes`, and buckets for `keys` keys an entry.
    pub(crate) fn within(bytes: usize, keys: usize) -> Result<Sizes, Error> {
        let usable = bytes / PAGE * PAGE;
        if usable == 0 {
            return Err(Error::TooSmall { bytes, least: PAGE });
        }
        // Ten buckets hold `KEYS_IN_TEN` keys: all sizes are multiplied by that. A bucket is left
        // for rounding up.
        let each = (size_of::<Hot>() + size_of::<Cold>()) * KEYS_IN_TEN + size_of::<Bucket>() * 10 * keys;
        let entries = ((usable - size_of::<Bucket>()) * KEYS_IN_TEN / each).min(ENTRY as usize);
        Ok(Sizes { entries, buckets: (entries * keys * 10).div_ceil(KEYS_IN_TEN) })
    }
}

impl Memory {
    /// As much as fits into `bytes`, with room for `keys` keys an entry.
    pub(crate) fn new(bytes: usize, keys: usize) -> Result<Memory, Error> {
        let sizes = Sizes::within(bytes, keys)?;
        let usable = bytes / PAGE * PAGE;
        let mapping = Mapping::new(usable).map_err(|source| Error::NoMemory { bytes: usable, source })?;
        let (buckets, cold) =
            (sizes.entries * Sizes::HOT, sizes.entries * Sizes::HOT + sizes.buckets * Sizes::BUCKET);
        let base = mapping.base();
        // SAFETY: `within` has made the sizes so that all three arrays are inside the mapping.
        let [buckets, cold] = [buckets, cold].map(|at| unsafe { base.add(at) });
        Ok(Memory {
            hot: base.cast(),
            buckets: buckets.cast(),
            cold: cold.cast(),
            sizes,
            bytes: mapping.bytes(),
            shared: false,
            _owner: Box::new(mapping),
        })
    }

    /// In arrays that the driver's program has as well.
    pub(crate) fn shared(driver: DriverMemory, sizes: Sizes) -> Result<Memory, Error> {
        let DriverMemory { hot, cold, buckets, owner, .. } = driver;
        let fits = hot.bytes() >= sizes.entries * Sizes::HOT
            && cold.bytes() >= sizes.entries * Sizes::COLD
            && buckets.bytes() >= sizes.buckets * Sizes::BUCKET;
        if !fits {
            let least = sizes.entries * (Sizes::HOT + Sizes::COLD) + sizes.buckets * Sizes::BUCKET;
            return Err(Error::TooSmall { bytes: hot.bytes() + cold.bytes() + buckets.bytes(), least });
        }
        Ok(Memory {
            hot: hot.base().cast(),
            buckets: buckets.base().cast(),
            cold: cold.base().cast(),
            sizes,
            bytes: hot.bytes() + cold.bytes() + buckets.bytes(),
            shared: true,
            _owner: owner,
        })
    }

    /// Bytes of the mapping.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the driver's program counts in it as well.
    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Entry 0 is never used: its index stands for none.
    #[inline(always)]
    pub(crate) fn hot(&self) -> &[Hot] {
        // SAFETY: the array is aligned, zeroed at first, has so many elements (see `new` and
        // `shared`), and lives as long as the slice; `Hot` is made of atomics, for which zero and
        // every other value are valid.
        unsafe { std::slice::from_raw_parts(self.hot.as_ptr(), self.sizes.entries) }
    }

    #[inline(always)]
    pub(crate) fn buckets(&self) -> &[Bucket] {
        // SAFETY: as in `hot`.
        unsafe { std::slice::from_raw_parts(self.buckets.as_ptr(), self.sizes.buckets) }
    }

    #[inline(always)]
    pub(crate) fn cold(&self) -> &[Cold] {
        // SAFETY: as in `hot`.
        unsafe { std::slice::from_raw_parts(self.cold.as_ptr(), self.sizes.entries) }
    }
}

/// Asks for the cache line of something that will be wanted soon.
#[inline(always)]
pub(crate) fn prefetch<T>(at: &T) {
    prefetch_at(std::ptr::from_ref(at).cast());
}

/// As [`prefetch`], of an address. Into the second cache: what the first one waits for takes one of
/// its two dozen places, and a batch asks for several times as many lines. Asked for by way of the
/// first, a lookup among a million flows takes half as long again.
#[inline(always)]
pub(crate) fn prefetch_at(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_fits_and_little_is_left() {
        for megabytes in [2usize, 3, 8, 100] {
            for keys in [1, 2] {
                let memory = Memory::new(megabytes << 20, keys).unwrap();
                let used = memory.sizes.entries * 112 + memory.sizes.buckets * 64;
                assert!(memory.bytes() <= megabytes << 20 && used <= memory.bytes());
                assert!(memory.bytes() - used < 512, "{} left", memory.bytes() - used);
                let (hot, cold) = (memory.hot(), memory.cold());
                assert_eq!((hot.len(), cold.len()), (memory.sizes.entries, memory.sizes.entries));
                assert!(hot.last().is_some_and(|hot| !hot.is_live()));
                assert_eq!(cold.last().map(Cold::packets), Some([0, 0]));
            }
        }
        assert!(matches!(Memory::new(1 << 20, 1), Err(Error::TooSmall { .. })));
    }
}
