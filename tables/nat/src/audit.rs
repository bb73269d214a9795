//! Mappings held against the flow table: after a restart, and when ends of flows were lost on the
//! way.
//!
//! A mapping lives as long as its flows, and learns of their ends by a queue that is bounded. What
//! is lost there would hold a port for ever. So now and then the flows are counted, for a part of
//! the mappings at a time. More flows on a mapping's books than there are is no proof by itself:
//! some may have ended, and their mapping not know yet. But those it will have heard of when its
//! part is looked at again; what the books have too many of then as well, beyond what was released
//! in between, nobody will ever release.
//!
//! The books are copied before the flows are counted, and a flow is bound before it is in the
//! table: so whatever begins or ends meanwhile makes the difference smaller, or is released before
//! the next look.

use std::collections::HashMap;
use std::sync::Arc;

use flow::Tuple;

use crate::binding::endpoints;
use crate::compiled::Ruleset;
use crate::mapping::{Endpoint, Inside, Mapping, Pool, SHARDS, Wanted};
use crate::nat::Nat;
use crate::record::{Event, Record};
use crate::space::Class;

/// Parts of the mappings, looked at in turn: none of them holds many.
const PARTS: usize = 8;

/// Whose flows are counted.
type Key = (Endpoint, Class);

/// How far the audit is, and what it found odd.
#[derive(Debug, Default)]
pub struct Audit {
    next: usize,
    suspects: [HashMap<Key, Suspect>; PARTS],
}

/// A mapping with more flows on its books than there were.
#[derive(Debug)]
struct Suspect {
    /// Tells it from a later one with the same endpoint.
    since: u32,
    excess: u32,
    /// What had been released of it.
    released: u32,
}

/// A look at a part of the mappings.
pub struct Look<'n> {
    nat: &'n Nat,
    set: Arc<Ruleset>,
    books: Vec<Mapping>,
    counted: HashMap<Key, u32>,
}

impl Nat {
    /// Begins to look at the next part of the mappings. Every flow that lives is then to be
    /// [counted](Look::count). Between two looks at the same part (eight calls) there should be
    /// some seconds, in which ended flows come to be released.
    pub fn look(&self, audit: &Audit) -> Look<'_> {
        let each = SHARDS / PARTS;
        let books = self.mappings().of_shards(audit.next * each..(audit.next + 1) * each);
        let key = |mapping: &Mapping| (mapping.outside, mapping.inside.class);
        let mut counted: HashMap<Key, u32> = books.iter().map(|mapping| (key(mapping), 0)).collect();
        for mapping in self.expected().mappings() {
            counted.entry(key(&mapping)).and_modify(|flows| *flows += 1);
        }
        Look { nat: self, set: self.ruleset(), books, counted }
    }

    /// Takes up a flow that lived before a restart: its mapping is what it was, if a rule still
    /// gives it and nobody has it. False if not: the flow is better forgotten, for its port may
    /// become another's.
    pub fn restore(&self, original: &Tuple, reply: &Tuple, now: u64) -> bool {
        let set = self.ruleset();
        let Some(class) = Class::of(original.protocol) else { return true };
        let [source, destination] = endpoints(&set, original, reply);
        let mut held: Vec<Mapping> = Vec::new();
        let restored = [source, destination].into_iter().flatten().all(|(outside, endpoint)| {
            if let Some(mapping) = self.mappings().join(&outside, class, &endpoint) {
                held.push(mapping);
                return true;
            }
            if self.mappings().is_reserved(&outside, class) {
                return true;
            }
            let scope = set.rules.iter().find(|compiled| compiled.gives(&set, &endpoint, &outside));
            let scope = scope.map(|compiled| compiled.scope(&outside.address));
            // Not an address that ports are given out of: one to one, a forward, or not translated
            // on this side.
            let Some(scope) = scope else { return true };
            let inside = Inside { endpoint, class, table: original.table, scope };
            let wanted = Wanted {
                pool: Pool::One(outside.address),
                ports: outside.port..=outside.port,
                paired: false,
                host_limit: None,
            };
            match self.mappings().acquire(&inside, &wanted, (now / 1_000_000_000) as u32) {
                Ok((mapping, _)) => {
                    held.push(mapping);
                    mapping.outside == outside
                }
                Err(_) => false,
            }
        });
        if !restored {
            for mapping in held {
                self.mappings().release(&mapping.outside, class, &mapping.inside.endpoint);
            }
        }
        restored
    }
}

impl Look<'_> {
    /// There is a flow with these tuples.
    pub fn count(&mut self, original: &Tuple, reply: &Tuple) {
        let Some(class) = Class::of(original.protocol) else { return };
        for (outside, _) in endpoints(&self.set, original, reply).into_iter().flatten() {
            self.counted.entry((outside, class)).and_modify(|flows| *flows += 1);
        }
    }

    /// Gives up flows that are on the books and nowhere else; how many that were. What to log is
    /// handed to `log`; `now` in ns.
    pub fn finish(self, audit: &mut Audit, now: u64, mut log: impl FnMut(Record)) -> u64 {
        let Look { nat, set, books, counted } = self;
        let suspects = &mut audit.suspects[audit.next];
        audit.next = (audit.next + 1) % PARTS;
        let before = std::mem::take(suspects);
        let mut sum = 0;
        for mapping in books {
            let key = (mapping.outside, mapping.inside.class);
            let found = counted.get(&key).copied().unwrap_or(0);
            let Some(excess) = mapping.flows.checked_sub(found).filter(|excess| *excess > 0) else {
                continue;
            };
            let earlier = before.get(&key).filter(|earlier| earlier.since == mapping.since);
            let lost = earlier.map_or(0, |earlier| {
                excess.min(earlier.excess.saturating_sub(mapping.released.wrapping_sub(earlier.released)))
            });
            for _ in 0..lost {
                let left = nat.mappings().release(&mapping.outside, key.1, &mapping.inside.endpoint);
                if let Some(ended) = left.filter(|left| left.flows == 0) {
                    nat.record(&set, &ended, Event::Ended, now).map(&mut log);
                }
            }
            sum += u64::from(lost);
            if excess > lost {
                let released = mapping.released.wrapping_add(lost);
                suspects.insert(key, Suspect { since: mapping.since, excess: excess - lost, released });
            }
        }
        sum
    }
}
