//! Leaves: rules that are compared with a packet, eight at once.
//!
//! A tree ends where eight rules or fewer are left. Comparing them one after the other means
//! guessing, packet for packet, which one will hold, and every wrong guess costs as much as
//! comparing all of them. So a leaf lies in columns: first the first word of all its rules, then
//! the second and so on, and a packet's word is compared with a column at a time, by AVX2 where the
//! processor has it. What comes out is a bit for each rule that holds. Columns are as long as the
//! leaf has rules, so that a leaf of one rule is one cache line; what is read behind a column's end
//! is not looked at. A leaf of more than eight rules (only lists that nothing parts make them) goes
//! on in the next eight.
//!
//! | words | |
//! |---|---|
//! | 1 | head: how many rules; which of them are plain; whether the leaf goes on behind them |
//! | for each word of the key but the ports | a column of values, a column of masks |
//! | ports | a column of first ports, a column of how many follow; the source's in the lower halves |
//! | steps | a column: step, and above it what else the rule needs ([`kind`]) |

use super::BATCH;
use super::program::MOST_STEPS;
use super::region::{Key, Keys};
use super::tree::{Entry, kind};

/// Rules that are compared at once.
pub(super) const TOGETHER: usize = 8;

const COUNT: u32 = 0xff;
const PLAIN: u32 = 8;
const GOES_ON: u32 = 1 << 16;
/// Where a step's word has its [`kind`].
const KIND: u32 = 24;
const _: () = assert!(MOST_STEPS < 1 << KIND);

/// All leaves of a forest. Each is named by the place where it begins; none is 0.
#[derive(Clone, Debug)]
pub(super) struct Leaves<const W: usize>(Vec<u32>);

/// Up to eight rules.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a> {
    /// From the head on, as long as a leaf can be.
    words: &'a [u32],
    head: u32,
}

impl<const W: usize> Leaves<W> {
    const COLUMNS: usize = 2 * (W - 1) + 3;
    /// Words of a leaf of eight.
    const MOST: usize = 1 + TOGETHER * Self::COLUMNS;

    pub fn new() -> Leaves<W> {
        Leaves(vec![0])
    }

    /// Writes a leaf of some rules, at least one; where it begins.
    pub fn push(&mut self, rules: &[&Entry<W>]) -> u32 {
        let begin = self.0.len();
        let mut rest = rules;
        while !rest.is_empty() {
            let (these, behind) = rest.split_at(rest.len().min(TOGETHER));
            let mut head = these.len() as u32 | if behind.is_empty() { 0 } else { GOES_ON };
            for (lane, rule) in these.iter().enumerate() {
                head |= u32::from(rule.kind & kind::MORE == 0) << (PLAIN + lane as u32);
            }
            self.0.push(head);
            for word in Self::compared() {
                self.0.extend(these.iter().map(|rule| rule.value[word]));
                self.0.extend(these.iter().map(|rule| rule.mask[word]));
            }
            let pair = |[source, destination]: [u16; 2]| u32::from(source) | u32::from(destination) << 16;
            self.0.extend(these.iter().map(|rule| pair(rule.first)));
            self.0.extend(these.iter().map(|rule| pair(rule.more)));
            self.0.extend(these.iter().map(|rule| rule.step | (rule.kind & kind::MORE) << KIND));
            rest = behind;
        }
        begin as u32
    }

    /// What is read behind the last leaf must be there.
    pub fn finish(&mut self) {
        self.0.resize(self.0.len() + Self::MOST, 0);
        self.0.shrink_to_fit();
    }

    pub fn bytes(&self) -> usize {
        self.0.capacity() * 4
    }

    #[inline(always)]
    pub fn leaf(&self, at: u32) -> Leaf<'_> {
        let words = &self.0[at as usize..][..Self::MOST];
        Leaf { words, head: words[0] }
    }

    /// The words of a key that have columns of values and masks, in their order: of ports, ranges
    /// say all.
    fn compared() -> impl Iterator<Item = usize> {
        (0..W).filter(|word| *word != Key::<W>::PORTS)
    }
}

impl Leaf<'_> {
    /// How many rules.
    #[inline(always)]
    pub fn count(&self) -> usize {
        ((self.head & COUNT) as usize).min(TOGETHER)
    }

    /// Of some rules (bits), those that ask for nothing but their regions.
    #[inline(always)]
    pub fn plain(&self, rules: u32) -> u32 {
        self.head >> PLAIN & 0xff & rules
    }

    /// Whether it goes on.
    #[inline(always)]
    pub fn goes_on(&self) -> bool {
        self.head & GOES_ON != 0
    }

    /// Where the next eight of this leaf are, which begins at `at`, if it goes on.
    #[inline(always)]
    pub fn behind<const W: usize>(&self, at: u32) -> u32 {
        at + 1 + (self.head & COUNT) * Leaves::<W>::COLUMNS as u32
    }

    /// The step of a rule, and bits of [`kind`].
    #[inline(always)]
    pub fn step<const W: usize>(&self, rule: usize) -> (u32, u32) {
        let word = self.column(Leaves::<W>::COLUMNS - 1)[rule % TOGETHER];
        (word & ((1 << KIND) - 1), word >> KIND)
    }

    #[inline(always)]
    fn column(&self, number: usize) -> &[u32] {
        &self.words[1 + number * self.count()..][..TOGETHER]
    }

    /// Which rules' regions hold a packet, as bits: the plain way.
    #[inline(always)]
    pub fn holding<const W: usize>(&self, key: &Key<W>) -> u32 {
        let ports = key.0[Key::<W>::PORTS];
        let ranges = 2 * (W - 1);
        (0..self.count()).fold(0, |bits, rule| {
            let mut differs = 0;
            for (n, word) in Leaves::<W>::compared().enumerate() {
                differs |= (key.0[word] ^ self.column(2 * n)[rule]) & self.column(2 * n + 1)[rule];
            }
            let (first, more) = (self.column(ranges)[rule], self.column(ranges + 1)[rule]);
            let source = (ports as u16).wrapping_sub(first as u16) <= more as u16;
            let destination =
                ((ports >> 16) as u16).wrapping_sub((first >> 16) as u16) <= (more >> 16) as u16;
            bits | u32::from((differs == 0) & source & destination) << rule
        })
    }

    /// As [`Leaf::holding`], all rules together, of a packet of a batch.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    #[inline]
    pub fn holding_avx2<const W: usize>(&self, keys: &Keys<W>, who: usize) -> u32 {
        use std::arch::x86_64::*;
        let column = |number: usize| {
            // SAFETY: a column is eight words, and the load asks for no alignment.
            unsafe { _mm256_loadu_si256(self.column(number).as_ptr().cast()) }
        };
        let ranges = 2 * (W - 1);
        let spread = |word: usize| _mm256_set1_epi32(keys.column(word)[who % BATCH] as i32);
        // How far behind the first port it is, less what may follow: nothing where it is inside.
        let behind = _mm256_sub_epi16(spread(Key::<W>::PORTS), column(ranges));
        let mut differs = _mm256_subs_epu16(behind, column(ranges + 1));
        for (n, word) in Leaves::<W>::compared().enumerate() {
            let differs_here = _mm256_xor_si256(spread(word), column(2 * n));
            differs = _mm256_or_si256(differs, _mm256_and_si256(differs_here, column(2 * n + 1)));
        }
        let holds = _mm256_cmpeq_epi32(differs, _mm256_setzero_si256());
        _mm256_movemask_ps(_mm256_castsi256_ps(holds)) as u32 & ((1 << self.count()) - 1)
    }
}
