//! The first words of up to a batch of headers, each in a column: what is asked of one packet is
//! asked of eight at once.
//!
//! Headers lie all over memory, and the question whether one is in order takes forty instructions,
//! most of them on a word or two. So the words are copied side by side (a row for each packet, one
//! load and one store), turned, and the questions asked of columns: loops over 64 numbers each,
//! without branches, that the compiler makes eight steps at once of where the processor can.

use graph::BATCH;

/// Words of a row.
const ROW: usize = 8;

/// Words of headers, as they lie in memory.
pub(super) struct Columns {
    rows: [Row; BATCH],
    /// The same, turned: [`Columns::turn`].
    pub(super) words: [[u32; BATCH]; ROW],
    /// The last word of each header: two more lie between it and its row.
    pub(super) last: [u32; BATCH],
}

/// As bytes, so that it is copied as a whole.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Row([u8; 4 * ROW]);

impl Default for Columns {
    fn default() -> Columns {
        Columns { rows: [Row([0; 4 * ROW]); BATCH], words: [[0; BATCH]; ROW], last: [0; BATCH] }
    }
}

impl Columns {
    /// Bytes of a header from its first word here to its last.
    pub(super) const BYTES: usize = 4 * (ROW + 3);

    /// Copies those of number `n`.
    #[inline(always)]
    pub(super) fn set(&mut self, n: usize, header: &[u8; Columns::BYTES]) {
        let (Some(row), Some(last)) = (header.first_chunk(), header.last_chunk()) else { return };
        self.rows[n % BATCH].0 = *row;
        self.last[n % BATCH] = u32::from_ne_bytes(*last);
    }

    /// Makes columns of the first `count` rows.
    #[inline(always)]
    pub(super) fn turn(&mut self, count: usize) {
        #[cfg(target_arch = "x86_64")]
        if super::wide::is_v3() {
            // SAFETY: the processor has AVX2.
            return unsafe { self.turn_v3(count) };
        }
        self.turn_one_by_one(count);
    }

    fn turn_one_by_one(&mut self, count: usize) {
        for (n, row) in self.rows.iter().enumerate().take(count) {
            for (column, word) in self.words.iter_mut().zip(row.0.as_chunks().0) {
                column[n] = u32::from_ne_bytes(*word);
            }
        }
    }

    /// Eight rows in 24 steps.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn turn_v3(&mut self, count: usize) {
        use std::arch::x86_64::{
            __m256i, _mm256_permute2x128_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64,
            _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
        };
        let (groups, _) = self.rows.as_chunks::<ROW>();
        for (group, rows) in groups.iter().enumerate().take(count.div_ceil(ROW)) {
            // SAFETY: 32 bytes are 256 bits, whatever they are.
            let rows: [__m256i; ROW] = unsafe { std::mem::transmute(*rows) };
            // Words side by side that stand in two rows, then in four, then in eight.
            let four = |k: usize| {
                let (a, b) = (
                    _mm256_unpacklo_epi32(rows[k], rows[k + 1]),
                    _mm256_unpackhi_epi32(rows[k], rows[k + 1]),
                );
                let (c, d) = (
                    _mm256_unpacklo_epi32(rows[k + 2], rows[k + 3]),
                    _mm256_unpackhi_epi32(rows[k + 2], rows[k + 3]),
                );
                [
                    _mm256_unpacklo_epi64(a, c),
                    _mm256_unpackhi_epi64(a, c),
                    _mm256_unpacklo_epi64(b, d),
                    _mm256_unpackhi_epi64(b, d),
                ]
            };
            let (first, second) = (four(0), four(4));
            for k in 0..4 {
                let low = _mm256_permute2x128_si256::<0x20>(first[k], second[k]);
                let high = _mm256_permute2x128_si256::<0x31>(first[k], second[k]);
                for (word, eight) in [(k, low), (k + 4, high)] {
                    // SAFETY: as above.
                    let eight: [u32; ROW] = unsafe { std::mem::transmute(eight) };
                    self.words[word][ROW * group..][..ROW].copy_from_slice(&eight);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_are_what_rows_were(bytes in prop::collection::vec(any::<[u8; Columns::BYTES]>(), 1..=BATCH)) {
            for turn in [Columns::turn, Columns::turn_one_by_one] {
                let mut columns = Columns::default();
                bytes.iter().enumerate().for_each(|(n, header)| columns.set(n, header));
                turn(&mut columns, bytes.len());
                for (n, header) in bytes.iter().enumerate() {
                    let words = columns.words.iter().map(|column| column[n]).chain([columns.last[n]]);
                    let words: Vec<[u8; 4]> = words.map(u32::to_ne_bytes).collect();
                    let (all, _) = header.as_chunks::<4>();
                    prop_assert_eq!(words, [&all[..ROW], &all[ROW + 2..]].concat());
                }
            }
        }
    }
}
