//! The table's memory: one mapping, three arrays, of a size fixed at creation.

use crate::Error;
use crate::entry::{Cold, Hot};
use crate::index::{Bucket, ENTRY, SLOTS};
use fib::Mapping;

const PAGE: usize = 2 << 20;
/// Keys in ten buckets when the table is full: eight tenths of their slots.
const KEYS_IN_TEN: usize = 8 * SLOTS;

/// The mapping and how it is divided.
pub(crate) struct Memory {
    mapping: Mapping,
    entries: usize,
    buckets: usize,
}

impl Memory {
    /// As many entries as fit into `bytes`, and buckets for `keys` keys an entry.
    pub(crate) fn new(bytes: usize, keys: usize) -> Result<Memory, Error> {
        let usable = bytes / PAGE * PAGE;
        if usable == 0 {
            return Err(Error::TooSmall { bytes });
        }
        // Ten buckets hold `KEYS_IN_TEN` keys: all sizes are multiplied by that. A bucket is left for rounding up.
        let each = (size_of::<Hot>() + size_of::<Cold>()) * KEYS_IN_TEN + size_of::<Bucket>() * 10 * keys;
        let entries = ((usable - size_of::<Bucket>()) * KEYS_IN_TEN / each).min(ENTRY as usize);
        let buckets = (entries * keys * 10).div_ceil(KEYS_IN_TEN);
        let mapping = Mapping::new(usable).map_err(|source| Error::NoMemory { bytes: usable, source })?;
        Ok(Memory { mapping, entries, buckets })
    }

    /// Bytes of the mapping.
    pub(crate) fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// Entry 0 is never used: its index stands for none.
    #[inline(always)]
    pub(crate) fn hot(&self) -> &[Hot] {
        // SAFETY: the mapping is aligned, zeroed at first, large enough for all three arrays (see `new`), and lives as long
        // as the slice; `Hot` is made of atomics, for which zero and every other value are valid.
        unsafe { std::slice::from_raw_parts(self.mapping.base().cast::<Hot>().as_ptr(), self.entries) }
    }

    #[inline(always)]
    pub(crate) fn buckets(&self) -> &[Bucket] {
        let at = self.entries * size_of::<Hot>();
        // SAFETY: as in `hot`; what comes before is a multiple of 64 bytes.
        unsafe {
            std::slice::from_raw_parts(self.mapping.base().add(at).cast::<Bucket>().as_ptr(), self.buckets)
        }
    }

    #[inline(always)]
    pub(crate) fn cold(&self) -> &[Cold] {
        let at = self.entries * size_of::<Hot>() + self.buckets * size_of::<Bucket>();
        // SAFETY: as in `hot`; what comes before is a multiple of 64 bytes.
        unsafe {
            std::slice::from_raw_parts(self.mapping.base().add(at).cast::<Cold>().as_ptr(), self.entries)
        }
    }

    /// Asks for a cold part, which may lie across two lines.
    #[inline(always)]
    pub(crate) fn prefetch_cold(&self, entry: u32) {
        let cold = &self.cold()[entry as usize];
        prefetch(&cold.last);
        prefetch(&cold.numbers[1]);
    }
}

/// Asks for the cache line of something that will be wanted soon.
#[inline(always)]
pub(crate) fn prefetch<T>(at: &T) {
    prefetch_at(std::ptr::from_ref(at).cast());
}

/// As [`prefetch`], of an address.
#[inline(always)]
pub(crate) fn prefetch_at(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
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
                let used = memory.entries * 112 + memory.buckets * 64;
                assert!(memory.bytes() <= megabytes << 20 && used <= memory.bytes());
                assert!(memory.bytes() - used < 512, "{} left", memory.bytes() - used);
                let (hot, cold) = (memory.hot(), memory.cold());
                assert_eq!((hot.len(), cold.len()), (memory.entries, memory.entries));
                assert!(hot.last().is_some_and(|hot| !hot.is_live()));
                assert_eq!(cold.last().map(Cold::packets), Some([0, 0]));
            }
        }
        assert!(matches!(Memory::new(1 << 20, 1), Err(Error::TooSmall { .. })));
    }
}
