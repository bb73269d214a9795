//! Mappings held against the flow table: after a restart, and when ends of flows were lost on the way.
//!
//! A mapping lives as long as its flows, and learns of their ends by a queue that is bounded. What is lost there
//! would hold a port for ever. So now and then the flows are counted; a mapping that has more flows on its books than
//! there are, twice in a row and both times the same, gives up those that are too many. (Once is no proof: a flow is
//! bound before it is in the table, and ends before its mapping knows.)

use std::collections::HashMap;

use flow::Tuple;

use crate::binding::endpoints;
use crate::mapping::{Endpoint, Inside, Mapping, Pool, Wanted};
use crate::nat::Nat;
use crate::space::Class;

/// What the last audit found odd.
#[derive(Debug, Default)]
pub struct Audit {
    /// Flows on the books, and flows that there are.
    suspects: HashMap<(Endpoint, Class), (u32, u32)>,
}

impl Nat {
    /// Compares mappings with the live flows, each with its original and its reply tuple, and gives up what two
    /// audits in a row agree is held for nobody. Some seconds should lie between two, and the queue of ended flows be
    /// drained. Returns how many flows were given up.
    pub fn audit(&self, audit: &mut Audit, live: impl IntoIterator<Item = (Tuple, Tuple)>) -> u64 {
        let set = self.ruleset();
        let mut counted: HashMap<(Endpoint, Class), u32> = HashMap::new();
        for (original, reply) in live {
            let Some(class) = Class::of(original.protocol) else { continue };
            for (outside, _) in endpoints(&set, &original, &reply).into_iter().flatten() {
                *counted.entry((outside, class)).or_default() += 1;
            }
        }
        for mapping in self.expected().mappings() {
            *counted.entry((mapping.outside, mapping.inside.class)).or_default() += 1;
        }
        let before = std::mem::take(&mut audit.suspects);
        let mut given_up = Vec::new();
        self.mappings().each(|mapping| {
            let key = (mapping.outside, mapping.inside.class);
            let found = (mapping.flows, counted.get(&key).copied().unwrap_or(0));
            if found.0 <= found.1 {
                return;
            }
            if before.get(&key) == Some(&found) {
                given_up.push((*mapping, found.0 - found.1));
            } else {
                audit.suspects.insert(key, found);
            }
        });
        let mut sum = 0;
        for (mapping, flows) in given_up {
            self.mappings().give_up(&mapping, flows);
            sum += u64::from(flows);
        }
        sum
    }

    /// Takes up a flow that lived before a restart: its mapping is what it was, if a rule still gives it and nobody
    /// has it. False if not: the flow is better forgotten, for its port may become another's.
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
            // Not an address that ports are given out of: one to one, a forward, or not translated on this side.
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
                self.mappings().give_up(&mapping, 1);
            }
        }
        restored
    }
}
