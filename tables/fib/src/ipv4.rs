//! IPv4 longest-prefix match: DIR-24-8, and DIR-16-8-8 where few routes are to fit.
//!
//! One word for each of the 2^24 networks of 24 bits; where longer prefixes exist, that word names
//! a block of 256 words, one for each address. A lookup is one load, or two.
//!
//! Measured against others (1 M routes; cycles a lookup at 2.6 GHz, batches of 64; 65,536 addresses
//! / 8 M different ones, one pass; Sapphire Rapids, huge pages):
//!
//! | design | warm / cold | memory |
//! |---|---|---|
//! | this: 32-bit first level, a plain loop | 9-12 / 17-20 | 64 MiB |
//! | the same with AVX-512 gathers | 14 / 16 | 64 MiB |
//! | 16-bit first level | 8.5 / 15 | 32 MiB |
//! | DXR (direct on 16, 18 or 20 bits, then binary search) | 94, 77, 50 / 94, 80, 56-83 | 7, 9, 18 MB |
//!
//! The plain loop wins over gathers because the processor runs dozens of its iterations at once.
//! The 16-bit first level is faster still, but can name 32,767 next hops only, and a campus of
//! 30,000 dual-stack hosts alone has 60,000. What is small enough for the second cache (DXR) pays
//! more for its search than it saves in misses. The cost of this design is writing: a prefix of n
//! bits is 2^(24-n) stores, tens of milliseconds for a default route, in which readers see each
//! address change once, at its own moment.
//!
//! A router of a few routes shall not take 64 MiB for them, in each copy. There the first level is
//! one of 2^16 networks of 16 bits, and a word may name a block of 256 words for the next 8 bits,
//! as each of those may again: a load more for what lies behind a longer prefix than 16 bits.
//!
//! Layout of `fib4`, in words: the first level at 0, then blocks of 256 words. A word is a route
//! word (`word::route`), or `POINTER | block`, where `block` counts blocks of 256 words from the
//! start of the array.

pub(crate) mod lookup;

use crate::grace::{Grace, Retired};
use crate::memory::{Capacity, Pair};
use crate::routes::Routes;
use crate::word::{Change, POINTER};
use crate::{FibError, NextHopId};
use std::sync::atomic::{AtomicU32, Ordering};

const BLOCK: usize = 256;
/// Routes up to which the first level is the small one: with more, blocks may take as much as the
/// large one.
const FEW: usize = 32_768;

/// Bits of an address that the first level does not look at: 8 or 16.
pub(crate) fn rest(capacity: &Capacity) -> u32 {
    if capacity.ipv4 <= FEW { 16 } else { 8 }
}

fn first_level(capacity: &Capacity) -> usize {
    1 << (32 - rest(capacity))
}

/// Words of the array: room for one block with longer prefixes than 24 bits for each 128 routes,
/// and 1,024 more; and for each network of 16 bits that routes can be in, where those have blocks.
pub(crate) fn words(capacity: &Capacity) -> usize {
    let networks = if rest(capacity) == 16 { capacity.ipv4 } else { 0 };
    first_level(capacity) + (networks + capacity.ipv4 / 128 + 1024) * BLOCK
}

/// The writer.
pub(crate) struct Table {
    words: Pair<AtomicU32>,
    pub(crate) routes: Routes<u32>,
    limit: usize,
    rest: u32,
    first_block: u32,
    blocks: usize,
    free: Vec<u32>,
    /// Prefixes in each block or below it that are longer than the one of the word that names it:
    /// at 0 the block is given back.
    members: Vec<u32>,
}

/// The word where a prefix begins, on the level where it is made of whole words.
struct Spot {
    at: usize,
    /// Bits of an address that a word there does not look at.
    rest: u32,
}

impl Table {
    pub(crate) fn new(words: Pair<AtomicU32>, capacity: &Capacity) -> Table {
        let first_level = first_level(capacity);
        Table {
            blocks: (words.worker.len() - first_level) / BLOCK,
            words,
            routes: Routes::new(),
            limit: capacity.ipv4,
            rest: rest(capacity),
            first_block: (first_level / BLOCK) as u32,
            free: Vec::new(),
            members: Vec::new(),
        }
    }

    /// Inserts or replaces; says what was there.
    pub(crate) fn insert(
        &mut self,
        prefix: u32,
        length: u8,
        id: NextHopId,
    ) -> Result<Option<NextHopId>, FibError> {
        let old = self.routes.get(prefix, length);
        if old == Some(id) {
            return Ok(old);
        }
        if old.is_none() && self.routes.len() >= self.limit {
            return Err(FibError::Full { table: "IPv4", limit: self.limit, unit: "routes" });
        }
        self.make_room(prefix, length)?;
        let spot = self.find(prefix, length, |table, block, _| {
            table.members[block] += u32::from(old.is_none());
        });
        let count = 1 << (32 - u32::from(length) - spot.rest);
        self.change_words(spot.at, count, Change::insert(length, id));
        self.routes.insert(prefix, length, id);
        Ok(old)
    }

    /// Removes; says what was there.
    pub(crate) fn remove(&mut self, prefix: u32, length: u8, grace: &mut Grace) -> Option<NextHopId> {
        let old = self.routes.remove(prefix, length)?;
        let below = self.routes.covering(prefix, length);
        let mut emptied = None;
        let spot = self.find(prefix, length, |table, block, named_at| {
            table.members[block] -= 1;
            if table.members[block] == 0 {
                emptied.get_or_insert(named_at);
                grace.retire(Retired::Block4(table.first_block + block as u32));
            }
        });
        match emptied {
            // The last longer prefix: what is below it holds for the whole network.
            Some(at) => self.words.store(at, below),
            None => {
                let count = 1 << (32 - u32::from(length) - spot.rest);
                self.change_words(spot.at, count, Change::remove(length, below));
            }
        }
        Some(old)
    }

    /// Walks down to where a prefix is, and calls `visit` for each block on the way, with the word
    /// that names it. All blocks are there.
    fn find(&mut self, prefix: u32, length: u8, mut visit: impl FnMut(&mut Table, usize, usize)) -> Spot {
        let mut spot = Spot { at: (prefix >> self.rest) as usize, rest: self.rest };
        while u32::from(length) > 32 - spot.rest {
            let block = self.load(spot.at) & !POINTER;
            visit(self, (block - self.first_block) as usize, spot.at);
            spot.rest -= 8;
            spot.at = block as usize * BLOCK + (prefix >> spot.rest & 255) as usize;
        }
        spot
    }

    /// Makes the blocks that a prefix needs, or none when there are too few.
    fn make_room(&mut self, prefix: u32, length: u8) -> Result<(), FibError> {
        let mut spot = Spot { at: (prefix >> self.rest) as usize, rest: self.rest };
        while u32::from(length) > 32 - spot.rest {
            let word = self.load(spot.at);
            let block = match word & POINTER {
                0 => {
                    let missing = (u32::from(length) - (32 - spot.rest)).div_ceil(8) as usize;
                    if self.free.len() + self.blocks - self.members.len() < missing {
                        let unit = "blocks of networks with longer prefixes";
                        return Err(FibError::Full { table: "IPv4", limit: self.blocks, unit });
                    }
                    let block = self.new_block();
                    // Aside first, then visible by one store.
                    (0..BLOCK).for_each(|i| self.words.store(block as usize * BLOCK + i, word));
                    self.words.store(spot.at, POINTER | block);
                    block
                }
                _ => word & !POINTER,
            };
            spot.rest -= 8;
            spot.at = block as usize * BLOCK + (prefix >> spot.rest & 255) as usize;
        }
        Ok(())
    }

    /// Gives back what was retired.
    pub(crate) fn free_block(&mut self, block: u32) {
        self.free.push(block);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.routes.bytes() + (self.free.capacity() + self.members.capacity()) * 4
    }

    /// Applies a change to words, and to the blocks under them.
    fn change_words(&self, first: usize, count: usize, change: Change) {
        for (i, at) in self.words.worker[first..first + count].iter().enumerate() {
            let word = at.load(Ordering::Relaxed);
            if word & POINTER != 0 {
                self.change_words((word & !POINTER) as usize * BLOCK, BLOCK, change);
                continue;
            }
            let new = change.apply(word);
            if new != word {
                self.words.store(first + i, new);
            }
        }
    }

    fn load(&self, at: usize) -> u32 {
        self.words.worker[at].load(Ordering::Relaxed)
    }

    /// There is one.
    fn new_block(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.members.push(0);
            self.first_block + self.members.len() as u32 - 1
        })
    }
}
