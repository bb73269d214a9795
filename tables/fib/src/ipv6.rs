//! IPv6 longest-prefix match: two direct levels, then trees of cache lines.
//!
//! The first 16 bits index the root, the next 12 a direct node where there are prefixes longer than
//! 16 bits. Below, what is left of the address is taken in windows of 32 bits. A window's prefixes
//! cut its key space into ranges, and the ranges are the leaves of a B+-tree whose every node is
//! one cache line:
//!
//! ```text
//! line:   end 0 | end 1 | ... | end 7 | word 0 | word 1 | ... | word 7      (16 words of 32 bits)
//! ```
//!
//! The key belongs to the first range whose `end` (the last key in it) is not below the key; its
//! word is a route, a line of the same window, or (`NEXT`) the first line of the next window, for a
//! single key that has longer prefixes. Counting the ends below the key is one SIMD comparison, or
//! three steps of binary search in eBPF.
//!
//! Updates: a changed route word is stored in place. A changed set of ends makes a new line, and
//! the word that points to it is stored when the line is complete; a line that overflows becomes
//! two, as in any B-tree. An update therefore writes a few cache lines however large the table is,
//! and the old lines are reused after a grace period.
//!
//! Measured against others (240,000 routes; cycles a lookup at 2.6 GHz, batches of 64; 65,536
//! addresses / 8 M different ones, one pass; Sapphire Rapids, huge pages):
//!
//! | design | warm / cold | memory |
//! |---|---|---|
//! | this: 16 + 12 bits direct, then lines | 28 / 42 | 9 MB |
//! | 16 + 8 bits direct, then lines | 32 / 58 | 2 MB less |
//! | 16 + 14 bits direct, then lines | 28 / 48 | 4 MB more |
//! | trie of 16 + 8 + 8 + 8 + 8 bits (DIR-24-8 carried on) | 37-41 / 52-59 | 197 MB |
//!
//! A lookup here reads 1.7 lines on average. Fewer direct bits mean more lines, more of them push
//! the lines out of the second cache.
//!
//! Layout of `fib6`, in words: the root at 0, then the roots of the tables beside this one
//! (`beside.rs`), then direct nodes, then lines. A pointer counts lines of 16 words from the start
//! of the array.

pub(crate) mod lookup;

use crate::grace::{Grace, Retired};
use crate::memory::{Capacity, Pair};
use crate::routes::Routes;
use abi::fib::{LINE as INDEX, NEXT, ROOTS, TABLES};

use crate::word::{Change, POINTER, length};
use crate::{FibError, NextHopId};
use arrayvec::ArrayVec;
use std::sync::atomic::{AtomicU32, Ordering};

const ROOT_BITS: u32 = 16;
const DIRECT_BITS: u32 = 12;
const TOP_BITS: u32 = ROOT_BITS + DIRECT_BITS;
const DIRECT: usize = 1 << DIRECT_BITS;
/// Where direct nodes begin: behind the root, and the roots of the tables beside this one.
const DIRECTS_AT: usize = ROOTS as usize + 2 * TABLES as usize;
const LINE: usize = 16;
const RANGES: usize = 8;
/// Lines that one update may need: both edges of a range, in four windows, each split once a level.
const RESERVE: usize = 160;
/// A window's tree that has become higher is built anew.
const MAX_HEIGHT: usize = 8;
/// Adjacent lines that hold no more than this together become one.
const MERGED: usize = 6;

/// Words of the array.
pub(crate) fn words(capacity: &Capacity) -> usize {
    lines_at(capacity) + lines(capacity) * LINE
}

/// Networks of 16 bits with longer prefixes.
fn directs(capacity: &Capacity) -> usize {
    (capacity.ipv6 / 1024).max(64)
}

fn lines_at(capacity: &Capacity) -> usize {
    DIRECTS_AT + directs(capacity) * DIRECT
}

/// A full table takes a line for each two or three routes; hosts' own routes take more.
fn lines(capacity: &Capacity) -> usize {
    capacity.ipv6 * 3 / 4 + 16_384
}

/// A range: the last key in it, and its word.
type Entry = (u32, u32);
/// What takes the place of one entry of a line.
type Entries = ArrayVec<Entry, 16>;

/// The keys of one window that a change is about.
#[derive(Clone, Copy)]
struct Target {
    /// The prefix, from the window's first bit on, left-aligned.
    rest: u128,
    /// Its length, from the window's first bit on.
    length: u8,
    /// Bits of the address before the window.
    start: u8,
    change: Change,
}

impl Target {
    /// First and last key.
    fn keys(&self) -> (u32, u32) {
        let key = (self.rest >> 96) as u32;
        let low = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
        (key & !low, key | low)
    }

    /// The same prefix, seen from the next window. It is longer than this one.
    fn next(&self) -> Target {
        Target { rest: self.rest << 32, length: self.length - 32, start: self.start + 32, ..*self }
    }

    /// Appends a range, joining it to the one before when one prefix (or none at all) decides both.
    /// Ranges of different prefixes stay apart even when their words are equal: so removing a
    /// prefix never has to cut a range in two.
    fn push(&self, entries: &mut Entries, (end, word): Entry) {
        if let Some(last) = entries.last_mut()
            && last.1 == word
            && word & POINTER == 0
        {
            let bits = length(word).saturating_sub(self.start);
            let differing = last.0 ^ last.0.wrapping_add(1);
            if word == 0 || bits == 0 || differing.checked_shr(32 - u32::from(bits.min(32))) == Some(0) {
                last.0 = end;
                return;
            }
        }
        entries.push((end, word));
    }
}

/// Equal pieces of an array: given out, taken back.
struct Pool {
    first: u32,
    next: u32,
    end: u32,
    step: u32,
    free: Vec<u32>,
}

impl Pool {
    /// `count` pieces of `step` lines from line `first` on.
    fn new(first: usize, count: usize, step: usize) -> Pool {
        let (first, step) = (first as u32, step as u32);
        Pool { first, next: first, end: first + count as u32 * step, step, free: Vec::new() }
    }

    fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let piece = self.next;
            (piece < self.end).then(|| {
                self.next += self.step;
                piece
            })
        })
    }

    fn left(&self) -> usize {
        self.free.len() + ((self.end - self.next) / self.step) as usize
    }

    fn count(&self) -> usize {
        ((self.end - self.first) / self.step) as usize
    }
}

/// The writer.
pub(crate) struct Table {
    words: Pair<AtomicU32>,
    pub(crate) routes: Routes<u128>,
    limit: usize,
    lines: Pool,
    directs: Pool,
    /// Prefixes longer than 16 bits in each direct node: at 0 it is given back.
    members: Vec<u32>,
}

impl Table {
    pub(crate) fn new(words: Pair<AtomicU32>, capacity: &Capacity) -> Table {
        let directs = directs(capacity);
        Table {
            words,
            routes: Routes::new(),
            limit: capacity.ipv6,
            lines: Pool::new(lines_at(capacity) / LINE, lines(capacity), 1),
            directs: Pool::new(DIRECTS_AT / LINE, directs, DIRECT / LINE),
            members: vec![0; directs],
        }
    }

    /// Inserts or replaces; says what was there.
    pub(crate) fn insert(
        &mut self,
        prefix: u128,
        length: u8,
        id: NextHopId,
        grace: &mut Grace,
    ) -> Result<Option<NextHopId>, FibError> {
        let old = self.routes.get(prefix, length);
        if old == Some(id) {
            return Ok(old);
        }
        if old.is_none() && self.routes.len() >= self.limit {
            return Err(FibError::Full { table: "IPv6", limit: self.limit, unit: "routes" });
        }
        self.has_room()?;
        let change = Change::insert(length, id);
        if u32::from(length) > ROOT_BITS {
            let at = (prefix >> (128 - ROOT_BITS)) as usize;
            if self.load(at) & POINTER == 0 {
                self.new_direct(at)?;
            }
            if old.is_none() {
                let number = self.direct_number(at);
                self.members[number] += 1;
            }
        }
        self.change(prefix, length, change, grace);
        self.routes.insert(prefix, length, id);
        Ok(old)
    }

    /// Removes; says what was there.
    pub(crate) fn remove(&mut self, prefix: u128, length: u8, grace: &mut Grace) -> Option<NextHopId> {
        let old = self.routes.remove(prefix, length)?;
        let below = self.routes.covering(prefix, length);
        self.change(prefix, length, Change::remove(length, below), grace);
        if u32::from(length) > ROOT_BITS {
            let at = (prefix >> (128 - ROOT_BITS)) as usize;
            let number = self.direct_number(at);
            self.members[number] -= 1;
            if self.members[number] == 0 {
                // The last longer prefix: its trees have collapsed, and what is below it holds for
                // all 16 bits.
                let direct = self.load(at) & INDEX;
                self.words.store(at, below);
                grace.retire(Retired::Direct6(direct));
            }
        }
        Some(old)
    }

    /// Whether an insertion is sure to find the lines that it needs.
    pub(crate) fn has_room(&self) -> Result<(), FibError> {
        if self.lines.left() < 2 * RESERVE {
            return Err(FibError::Full { table: "IPv6", limit: self.lines.count(), unit: "lines" });
        }
        Ok(())
    }

    /// Applies a change to a table beside this one, which is windows from the first bit on; `root`
    /// is the word that stands for it.
    pub(crate) fn change_beside(
        &mut self,
        root: usize,
        prefix: u128,
        length: u8,
        change: Change,
        grace: &mut Grace,
    ) {
        let word = self.load(root);
        let new = self.edit_window(word, Target { rest: prefix, length, start: 0, change }, grace);
        self.store_changed(root, word, new);
    }

    /// Gives back what was retired.
    pub(crate) fn free_line(&mut self, line: u32) {
        self.lines.free.push(line);
    }

    /// Gives back what was retired.
    pub(crate) fn free_direct(&mut self, direct: u32) {
        self.directs.free.push(direct);
    }

    /// Whether a removal is sure to find the lines that it needs before it gives back others.
    pub(crate) fn can_remove(&self) -> bool {
        self.lines.left() >= RESERVE
    }

    pub(crate) fn bytes(&self) -> usize {
        self.routes.bytes()
            + (self.lines.free.capacity() + self.directs.free.capacity() + self.members.capacity()) * 4
    }

    fn direct_number(&self, at: usize) -> usize {
        ((self.load(at) & INDEX) - self.directs.first) as usize / (DIRECT / LINE)
    }

    fn new_direct(&mut self, at: usize) -> Result<(), FibError> {
        let Some(direct) = self.directs.take() else {
            let unit = "networks of 16 bits with longer prefixes";
            return Err(FibError::Full { table: "IPv6", limit: self.directs.count(), unit });
        };
        let above = self.load(at);
        for i in 0..DIRECT {
            self.words.store(direct as usize * LINE + i, above);
        }
        self.words.store(at, POINTER | direct);
        Ok(())
    }

    /// Applies a change to all words that the prefix decides.
    fn change(&mut self, prefix: u128, length: u8, change: Change, grace: &mut Grace) {
        let bits = u32::from(length);
        let root = (prefix >> (128 - ROOT_BITS)) as usize;
        if bits <= ROOT_BITS {
            return self.cover_slots(root..root + (1 << (ROOT_BITS - bits)), change);
        }
        let first = (self.load(root) & INDEX) as usize * LINE;
        let slot = first + (prefix >> (128 - TOP_BITS)) as usize % DIRECT;
        if bits <= TOP_BITS {
            return self.cover_slots(slot..slot + (1 << (TOP_BITS - bits)), change);
        }
        let start = TOP_BITS as u8;
        let target = Target { rest: prefix << TOP_BITS, length: length - start, start, change };
        let word = self.load(slot);
        let new = self.edit_window(word, target, grace);
        self.store_changed(slot, word, new);
    }

    fn cover_slots(&mut self, slots: std::ops::Range<usize>, change: Change) {
        for at in slots {
            let word = self.load(at);
            let new = if (at >> ROOT_BITS) == 0 && word & POINTER != 0 {
                let first = (word & INDEX) as usize * LINE;
                self.cover_slots(first..first + DIRECT, change);
                word
            } else {
                self.cover(word, change)
            };
            self.store_changed(at, word, new);
        }
    }

    /// Applies a change to everything below a word that the prefix covers whole, and says what the
    /// word is now. All of it happens in place: two ranges side by side that were of different
    /// prefixes remain so.
    fn cover(&self, word: u32, change: Change) -> u32 {
        if word & POINTER == 0 {
            return change.apply(word);
        }
        let words = (word & INDEX) as usize * LINE + RANGES;
        for at in words..words + RANGES {
            let word = self.load(at);
            self.store_changed(at, word, self.cover(word, change));
        }
        word
    }

    /// Applies a change to a part of a window, and says which word stands for the window now.
    fn edit_window(&mut self, word: u32, target: Target, grace: &mut Grace) -> u32 {
        let word = if self.height(word, target) > MAX_HEIGHT { self.rebuild(word, grace) } else { word };
        let entries = self.edit(word, 0, u32::MAX, target, grace);
        match entries[..] {
            [(_, word)] => word,
            _ => POINTER | self.new_line(&entries),
        }
    }

    /// Applies a change to the keys `low..=high`, which `word` stands for: what stands for them
    /// now.
    fn edit(&mut self, word: u32, low: u32, high: u32, target: Target, grace: &mut Grace) -> Entries {
        let (from, to) = target.keys();
        let mut entries = Entries::new();
        let new = if target.length > 32 && word & (POINTER | NEXT) != POINTER {
            let inner = self.edit_window(word & !NEXT, target.next(), grace);
            if inner & POINTER != 0 { inner | NEXT } else { inner }
        } else if target.length <= 32 && from <= low && high <= to {
            self.cover(word, target.change)
        } else if word & POINTER != 0 {
            return self.edit_line(word & INDEX, low, high, target, grace);
        } else {
            target.change.apply(word)
        };
        if new != word && from > low {
            entries.push((from - 1, word));
        }
        if new != word && to < high {
            entries.push((to, new));
            entries.push((high, word));
        } else {
            entries.push((high, new));
        }
        entries
    }

    fn edit_line(&mut self, line: u32, low: u32, high: u32, target: Target, grace: &mut Grace) -> Entries {
        let before = self.entries(line, high);
        let (from, to) = target.keys();
        let mut after = Entries::new();
        let mut start = low;
        for &(end, word) in &before {
            if end < from || start > to {
                target.push(&mut after, (end, word));
            } else if target.length <= 32 && from <= start && end <= to {
                target.push(&mut after, (end, self.cover(word, target.change)));
            } else {
                for entry in self.edit(word, start, end, target, grace) {
                    target.push(&mut after, entry);
                }
            }
            start = end.wrapping_add(1);
        }
        if after.iter().map(|entry| entry.0).eq(before.iter().map(|entry| entry.0)) {
            for (i, (old, new)) in before.iter().zip(&after).enumerate() {
                self.store_changed(line as usize * LINE + RANGES + i, old.1, new.1);
            }
            return Entries::from_iter([(high, POINTER | line)]);
        }
        self.merge_neighbours(&mut after, target, grace);
        grace.retire(Retired::Line6(line));
        match after[..] {
            [only] => Entries::from_iter([only]),
            _ => self.new_lines(&after, RANGES).into_iter().collect(),
        }
    }

    /// Makes one line of two adjacent ones that are nearly empty.
    fn merge_neighbours(&mut self, entries: &mut Entries, target: Target, grace: &mut Grace) {
        let line = |entry: Entry| (entry.1 & (POINTER | NEXT) == POINTER).then_some(entry.1 & INDEX);
        let mut i = 0;
        while i + 1 < entries.len() {
            if let (Some(left), Some(right)) = (line(entries[i]), line(entries[i + 1])) {
                let mut both = Entries::new();
                for entry in
                    self.entries(left, entries[i].0).into_iter().chain(self.entries(right, entries[i + 1].0))
                {
                    target.push(&mut both, entry);
                }
                if both.len() <= MERGED {
                    entries[i + 1].1 = POINTER | self.new_line(&both);
                    entries.remove(i);
                    grace.retire(Retired::Line6(left));
                    grace.retire(Retired::Line6(right));
                    continue;
                }
            }
            i += 1;
        }
    }

    /// Lines from the window's root down to the changed keys.
    fn height(&self, mut word: u32, target: Target) -> usize {
        let (from, _) = target.keys();
        let mut height = 0;
        while word & (POINTER | NEXT) == POINTER {
            let base = (word & INDEX) as usize * LINE;
            let range = (0..RANGES).take_while(|i| self.load(base + i) < from).count();
            word = self.load(base + RANGES + range.min(RANGES - 1));
            height += 1;
        }
        height
    }

    /// Builds a window's tree anew, as low as it can be. Leaves it alone when lines are short.
    fn rebuild(&mut self, word: u32, grace: &mut Grace) -> u32 {
        let (mut entries, mut lines) = (Vec::new(), Vec::new());
        self.collect(word, u32::MAX, &mut entries, &mut lines);
        if self.lines.left() < RESERVE + entries.len() / 4 {
            return word;
        }
        lines.into_iter().for_each(|line| grace.retire(Retired::Line6(line)));
        while entries.len() > 1 {
            // A place is left free in each line, so that the next few updates need no split.
            entries = self.new_lines(&entries, RANGES - 1);
        }
        entries.first().map_or(0, |entry| entry.1)
    }

    fn collect(&self, word: u32, high: u32, entries: &mut Vec<Entry>, lines: &mut Vec<u32>) {
        if word & (POINTER | NEXT) != POINTER {
            return entries.push((high, word));
        }
        lines.push(word & INDEX);
        for (end, word) in self.entries(word & INDEX, high) {
            self.collect(word, end, entries, lines);
        }
    }

    /// The entries of a line whose last key is `high`.
    fn entries(&self, line: u32, high: u32) -> Entries {
        let base = line as usize * LINE;
        let mut entries = Entries::new();
        for i in 0..RANGES {
            let end = self.load(base + i);
            entries.push((end, self.load(base + RANGES + i)));
            if end == high {
                break;
            }
        }
        entries
    }

    /// Spreads entries evenly over as few lines of up to `fill` as will hold them.
    fn new_lines(&mut self, entries: &[Entry], fill: usize) -> Vec<Entry> {
        let count = entries.len().div_ceil(fill);
        let mut rest = entries;
        (0..count)
            .rev()
            .map(|lines_after| {
                let (these, others) = rest.split_at(rest.len().div_ceil(lines_after + 1));
                rest = others;
                match these {
                    [only] => *only,
                    _ => (these[these.len() - 1].0, POINTER | self.new_line(these)),
                }
            })
            .collect()
    }

    /// A line of 2 to 8 entries.
    fn new_line(&mut self, entries: &[Entry]) -> u32 {
        // Invariant: `insert`, `rebuild` and the caller of `remove` check the reserve.
        let line = self.lines.take().expect("an update takes at most RESERVE lines");
        let base = line as usize * LINE;
        for i in 0..RANGES {
            // Beyond the last entry: ends that no key exceeds.
            let (end, word) = entries.get(i).copied().unwrap_or((u32::MAX, 0));
            self.words.store(base + i, end);
            self.words.store(base + RANGES + i, word);
        }
        line
    }

    fn store_changed(&self, at: usize, old: u32, new: u32) {
        if old != new {
            self.words.store(at, new);
        }
    }

    fn load(&self, at: usize) -> u32 {
        self.words.worker[at].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grace::Epochs;
    use crate::memory::WorkerMemory;
    use crate::routes::Address;
    use std::sync::Arc;

    const CAPACITY: Capacity = Capacity { ipv4: 1, ipv6: 300_000, next_hops: 10 };

    fn table(memory: &WorkerMemory) -> (Table, Grace) {
        let words = Pair { worker: memory.arrays.fib6, driver: None };
        (Table::new(words, &CAPACITY), Grace::new(Arc::new(Epochs::new()), false))
    }

    fn collect(table: &mut Table, grace: &mut Grace) {
        for item in grace.collect() {
            match item {
                Retired::Line6(line) => table.free_line(line),
                Retired::Direct6(direct) => table.free_direct(direct),
                other => panic!("{other:?} is not of this table"),
            }
        }
    }

    /// A permutation of 0..2^bits.
    fn scrambled(i: u128, bits: u32) -> u128 {
        i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (1 << bits)
    }

    #[test]
    fn everything_removed_leaves_nothing_behind() {
        let memory = WorkerMemory::new(&CAPACITY).unwrap();
        let (mut table, mut grace) = table(&memory);
        let (lines, directs) = (table.lines.left(), table.directs.left());
        // Nested at many depths, across the edges of the windows.
        let prefixes: Vec<(u128, u8)> = (0..20_000u128)
            .flat_map(|i| {
                let bits = 0x2001 << 112 | scrambled(i, 16) << 90 | scrambled(i, 12) << 40 | scrambled(i, 9);
                [17, 29, 48, 60, 61, 64, 92, 93, 124, 128].map(|length| (bits.network(length), length))
            })
            .take(100_000)
            .collect();
        for &(prefix, length) in &prefixes {
            table.insert(prefix, length, NextHopId(1 + u32::from(length) % 3), &mut grace).unwrap();
            collect(&mut table, &mut grace);
        }
        assert!(table.lines.left() < lines);
        for &(prefix, length) in &prefixes {
            table.remove(prefix, length, &mut grace);
            collect(&mut table, &mut grace);
        }
        assert_eq!(table.routes.len(), 0);
        assert_eq!((table.lines.left(), table.directs.left()), (lines, directs));
    }

    #[test]
    fn trees_stay_low_however_they_grow() {
        let memory = WorkerMemory::new(&CAPACITY).unwrap();
        type Order = fn(u128) -> u128;
        let orders: [Order; 3] = [|i| i, |i| (1 << 17) - 1 - i, |i| scrambled(i, 17)];
        let (mut table, mut grace) = table(&memory);
        for order in orders {
            // All in one tree: /56s of one /36, every other one.
            let prefix = |i: u128| 0x2001_0db8 << 96 | order(i) << 73;
            let target = |i| Target {
                rest: prefix(i) << TOP_BITS,
                length: 28,
                start: 28,
                change: Change::remove(56, 0),
            };
            let slot = |table: &Table| {
                let root = table.load((prefix(0) >> 112) as usize);
                table.load((root & INDEX) as usize * LINE + (prefix(0) >> 100) as usize % DIRECT)
            };
            for i in 0..1 << 17 {
                table.insert(prefix(i), 56, NextHopId(1), &mut grace).unwrap();
                collect(&mut table, &mut grace);
            }
            let highest = (0..1 << 17).map(|i| table.height(slot(&table), target(i))).max().unwrap();
            assert!(highest <= MAX_HEIGHT, "{highest}");
            let used = table.lines.count() - table.lines.left();
            assert!(used <= table.routes.len() * 2 / 3, "{used} lines");
            // Built anew, it answers the same in fewer lines.
            let root = slot(&table);
            let rebuilt = table.rebuild(root, &mut grace);
            assert!(table.height(rebuilt, target(5)) <= highest);
            let at = (table.load((prefix(0) >> 112) as usize) & INDEX) as usize * LINE;
            table.words.store(at + (prefix(0) >> 100) as usize % DIRECT, rebuilt);
            collect(&mut table, &mut grace);
            for i in 0..1 << 17 {
                let words = &memory.arrays.fib6;
                assert_eq!(lookup::one(words, lookup::Main(&[prefix(i) | 99])), NextHopId(1));
                assert_eq!(lookup::one(words, lookup::Main(&[prefix(i) + (1 << 72)])), NextHopId::NONE);
            }
            for i in 0..1 << 17 {
                table.remove(prefix(i), 56, &mut grace);
                collect(&mut table, &mut grace);
            }
        }
    }
}
