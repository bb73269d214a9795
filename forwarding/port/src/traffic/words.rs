//! Maps of 64-bit words, mapped into our memory, that a program in the kernel reads and writes
//! meanwhile.

use std::io;
use std::os::fd::BorrowedFd;

use abi::traffic::{BUCKETS, SUB, Times};

use crate::bpf::map::Mapping;

/// The number of a field's first word in a layout.
macro_rules! word_of {
    ($layout:ty, $field:ident) => {
        std::mem::offset_of!($layout, $field) / 8
    };
}
pub(super) use word_of;

/// The words of a map.
pub(super) struct Words {
    mapping: Mapping,
    words: usize,
}

// SAFETY: every access is a volatile load or store of one aligned word, which no other thread or
// program can tear.
unsafe impl Sync for Words {}

impl Words {
    /// A mmapable array with `bytes` bytes in all.
    pub(super) fn new(map: BorrowedFd, bytes: usize) -> io::Result<Words> {
        let words = bytes / 8;
        Ok(Words { mapping: Mapping::new(map, bytes.next_multiple_of(4096))?, words })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.words
    }

    /// Makes all of them 0.
    pub(super) fn clear(&self) {
        (0..self.words).for_each(|at| self.set(at, 0));
    }

    /// The word at an index; 0 beyond the end.
    pub(super) fn get(&self, at: usize) -> u64 {
        if at >= self.words {
            return 0;
        }
        // SAFETY: inside the mapping, and aligned: it begins at a page.
        unsafe { self.mapping.base().cast::<u64>().add(at).read_volatile() }
    }

    /// Writes the word at an index; nothing beyond the end.
    pub(super) fn set(&self, at: usize, word: u64) {
        if at < self.words {
            // SAFETY: as in `get`.
            unsafe { self.mapping.base().cast::<u64>().add(at).write_volatile(word) }
        }
    }

    /// Writes bytes from the word at an index on, as far as there is room; what is missing of the
    /// last word is 0.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        for (i, part) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.set(at + i, u64::from_ne_bytes(word));
        }
    }
}

/// Times that a program counted in buckets (`forwarding/bpf/times.h`), nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// Values and how often each was seen: the middle of its bucket, which is 1/64 of its power of
    /// two wide.
    pub counts: Vec<(u64, u64)>,
    /// Sum of all values.
    pub sum: u64,
    /// Smallest; meaningless without values.
    pub min: u64,
    /// Largest.
    pub max: u64,
}

/// Words of [`Times`].
pub(super) const TIMES: usize = size_of::<Times>() / 8;

impl Buckets {
    pub(super) fn read(words: &Words, at: usize) -> Buckets {
        let bucket = |i: usize| {
            Some((middle(i), words.get(at + word_of!(Times, bucket) + i))).filter(|(_, count)| *count != 0)
        };
        Buckets {
            counts: (0..BUCKETS).filter_map(bucket).collect(),
            sum: words.get(at + word_of!(Times, sum)),
            min: words.get(at + word_of!(Times, min)),
            max: words.get(at + word_of!(Times, max)),
        }
    }

    /// Makes room for values: nothing yet.
    pub(super) fn clear(words: &Words, at: usize) {
        words.set(at + word_of!(Times, min), u64::MAX);
    }
}

/// The middle of a bucket.
fn middle(index: usize) -> u64 {
    if index < 1 << SUB {
        return index as u64;
    }
    let shift = (index >> SUB) - 1;
    let low = ((1 << SUB) + (index as u64 & ((1 << SUB) - 1))) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_an_64th_wide() {
        for index in 1..BUCKETS {
            let (last, this) = (middle(index - 1), middle(index));
            assert!(this > last && (this - last) as f64 <= 1.0_f64.max(this as f64 / 60.0), "{index}");
        }
        assert_eq!((middle(63), middle(64), middle(128)), (63, 64, 129));
    }
}
