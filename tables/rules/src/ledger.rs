//! What rules remember from one compilation to the next: counters, last hits, and the state of
//! their rates.
//!
//! The compiled filter is thrown away with every change; what its rules have seen is not. A rule is
//! the same rule when it has the same name, or, unnamed, when the same line stands in the same
//! chain (the second of two equal lines is the second). Each gets a slot; slots lie in blocks that
//! never move, which old and new compilations share, so no count is lost in between. Every worker
//! has blocks of its own: a counter has one writer, and counting is three plain stores into one
//! cache line.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::meter::Meter;
use crate::model::{Filter, Log, Rate, RateMatch, RuleId};

/// Slots of a block.
const BLOCK: usize = 1024;

/// What one worker has seen of a rule.
#[derive(Debug, Default)]
#[repr(align(32))]
struct Cell {
    packets: AtomicU64,
    bytes: AtomicU64,
    last: AtomicU64,
}

type Block = [Cell; BLOCK];

/// How often a rule matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Packets.
    pub packets: u64,
    /// Bytes of these packets, with their IP headers.
    pub bytes: u64,
    /// When the last one came, on the monotonic clock, in nanoseconds; 0: none did.
    pub last: u64,
}

/// By which a rule is known again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Named(String),
    /// A hash of the chain's name and of the line's content, and which of equal ones. (Two lines in
    /// 2^64 would swap counts.)
    Line(u64, usize),
}

struct Entry {
    slot: u32,
    meter: Option<Arc<Meter>>,
    /// What the meter measures: it is kept while that stays.
    rates: Rates,
}

type Rates = (Option<RateMatch>, Option<Rate>, Option<Log>);

/// The memory of all rules, held by whoever changes the filter.
pub struct Ledger {
    entries: HashMap<Identity, Entry>,
    /// Slots that no rule has any more.
    free: Vec<u32>,
    slots: u32,
    /// By worker, its blocks.
    blocks: Vec<Vec<Arc<Block>>>,
}

/// The memory of the rules of one filter, in the order of [`Filter::rules`].
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    slots: Vec<u32>,
    meters: Vec<Option<Arc<Meter>>>,
    blocks: Vec<Vec<Arc<Block>>>,
}

impl Ledger {
    /// An empty one for so many workers.
    pub fn new(workers: usize) -> Ledger {
        Ledger {
            entries: HashMap::new(),
            free: Vec::new(),
            slots: 0,
            blocks: vec![Vec::new(); workers.max(1)],
        }
    }

    /// The memory of a filter's rules: of those known already what they had, of new ones nothing
    /// yet. What rules had that are no longer there is forgotten.
    pub fn open(&mut self, filter: &Filter) -> Accounts {
        let mut before = std::mem::take(&mut self.entries);
        let mut equal: HashMap<u64, usize> = HashMap::new();
        let hash = BuildHasherDefault::<DefaultHasher>::default();
        let mut accounts = Accounts::default();
        for (chain, rule) in filter.rules() {
            let identity = match &rule.name {
                Some(name) => Identity::Named(name.clone()),
                None => {
                    let content = hash.hash_one((&chain.name, &rule.matches, &rule.effects, &rule.verdict));
                    let mut which = 0;
                    if self.entries.contains_key(&Identity::Line(content, 0)) {
                        let equals = equal.entry(content).or_insert(0);
                        *equals += 1;
                        which = *equals;
                    }
                    Identity::Line(content, which)
                }
            };
            let rates = (rule.matches.rate, rule.effects.police, rule.effects.log);
            let entry = match before.remove(&identity) {
                Some(entry) if entry.rates == rates => entry,
                other => {
                    let slot = other.map_or_else(|| self.new_slot(), |entry| entry.slot);
                    Entry { slot, meter: Meter::of(rule).map(Arc::new), rates }
                }
            };
            accounts.slots.push(entry.slot);
            accounts.meters.push(entry.meter.clone());
            self.entries.insert(identity, entry);
        }
        // Only now: workers that have the old filter still count in slots of rules that are gone,
        // and a rule that is new here should not begin with their counts.
        self.free.extend(before.into_values().map(|entry| entry.slot));
        accounts.blocks.clone_from(&self.blocks);
        accounts
    }

    /// A slot in which nothing is counted yet.
    fn new_slot(&mut self) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        for blocks in &mut self.blocks {
            if blocks.len() <= slot as usize / BLOCK {
                blocks.push(Arc::new(std::array::from_fn(|_| Cell::default())));
            }
            blocks[slot as usize / BLOCK][slot as usize % BLOCK].clear();
        }
        slot
    }
}

impl Accounts {
    /// How many rules it is for.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it is for none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Counts packets of a rule. A worker counts by its own number (from 0) only.
    #[inline]
    pub fn count(&self, worker: usize, rule: RuleId, packets: u64, bytes: u64, now: u64) {
        let slot = self.slots[rule.0 as usize] as usize;
        let cell = &self.blocks[worker][slot / BLOCK][slot % BLOCK];
        cell.packets.store(cell.packets.load(Relaxed) + packets, Relaxed);
        cell.bytes.store(cell.bytes.load(Relaxed) + bytes, Relaxed);
        cell.last.store(now, Relaxed);
    }

    /// What all workers have counted of a rule.
    pub fn counter(&self, rule: RuleId) -> Counter {
        let slot = self.slots[rule.0 as usize] as usize;
        self.blocks.iter().fold(Counter::default(), |sum, blocks| {
            let cell = &blocks[slot / BLOCK][slot % BLOCK];
            Counter {
                packets: sum.packets + cell.packets.load(Relaxed),
                bytes: sum.bytes + cell.bytes.load(Relaxed),
                last: sum.last.max(cell.last.load(Relaxed)),
            }
        })
    }

    pub(crate) fn meter(&self, rule: RuleId) -> Option<&Meter> {
        self.meters[rule.0 as usize].as_deref()
    }
}

impl Cell {
    fn clear(&self) {
        [&self.packets, &self.bytes, &self.last].into_iter().for_each(|word| word.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        Filter::read("test", text, &mut |_| Err(std::io::ErrorKind::NotFound.into())).expect("a filter")
    }

    #[test]
    fn unchanged_rules_keep_what_they_counted() {
        let mut ledger = Ledger::new(2);
        let first = filter("chain forward\naccept tcp\naccept tcp\ndrop udp name u\ndrop rate over 5pps\n");
        let before = ledger.open(&first);
        for rule in 0..4 {
            before.count(1, RuleId(rule), 10 + u64::from(rule), 1000, 7);
        }
        let second = filter(
            "chain forward\ndrop gre\naccept tcp\nreject udp name u\ndrop rate over 5pps\naccept tcp\n",
        );
        let after = ledger.open(&second);
        before.count(0, RuleId(1), 1, 1, 8);
        let counts: Vec<u64> = (0..5).map(|rule| after.counter(RuleId(rule)).packets).collect();
        assert_eq!(counts, [0, 10, 12, 13, 12]);
        assert_eq!(after.counter(RuleId(4)), Counter { packets: 12, bytes: 1001, last: 8 });
        assert!(std::ptr::eq(
            before.meter(RuleId(3)).expect("it has a rate"),
            after.meter(RuleId(3)).expect("it has a rate")
        ));
        let third = ledger.open(&filter("chain forward\ndrop rate over 6pps\n"));
        assert_eq!(third.counter(RuleId(0)), Counter::default());
    }

    #[test]
    fn slots_come_back() {
        let mut ledger = Ledger::new(1);
        for n in 0..100 {
            let rules: String =
                (0..50).map(|port| format!("drop tcp to any port {}\n", port + n * 50)).collect();
            ledger.open(&filter(&format!("chain input\n{rules}")));
        }
        assert!(ledger.slots <= 100, "{}", ledger.slots);
    }
}
