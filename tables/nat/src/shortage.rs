//! Hosts for whose flows there was no mapping, until somebody says so in the log.
//!
//! Who meets them is a worker, as often as packets come, so it only counts: by rule, host and
//! reason, for so many of them at a time. What comes while another counts, or when there are more,
//! is counted as of others.

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use crate::addresses::address;
use crate::{Nat, Refusal};

/// Hosts that are told apart between two looks.
const HOSTS: usize = 64;

/// A host that has been refused flows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shortage {
    /// The name of the rule.
    pub rule: String,
    /// The host.
    pub host: IpAddr,
    /// [`Refusal::Exhausted`], [`Refusal::HostLimit`] or [`Refusal::TableFull`].
    pub why: Refusal,
    /// How many flows.
    pub flows: u64,
}

/// Those since the last look.
#[derive(Debug)]
pub(crate) struct Shortages {
    known: Mutex<Vec<Known>>,
    others: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    scope: u32,
    host: [u8; 16],
    why: Refusal,
    flows: u64,
}

impl Default for Shortages {
    fn default() -> Shortages {
        Shortages { known: Mutex::new(Vec::with_capacity(HOSTS)), others: AtomicU64::new(0) }
    }
}

impl Shortages {
    /// Counts a flow that was refused. Waits for nobody.
    pub fn note(&self, scope: u32, host: [u8; 16], why: Refusal) {
        if let Ok(mut known) = self.known.try_lock() {
            let same = |one: &&mut Known| (one.scope, one.host, one.why) == (scope, host, why);
            if let Some(one) = known.iter_mut().find(same) {
                one.flows += 1;
                return;
            }
            if known.len() < HOSTS {
                known.push(Known { scope, host, why, flows: 1 });
                return;
            }
        }
        self.others.fetch_add(1, Relaxed);
    }
}

impl Nat {
    /// Hosts that were refused flows since the last time, and how many flows of others were.
    pub fn shortages(&self) -> (Vec<Shortage>, u64) {
        let set = self.ruleset();
        let mut known = self.shortages.known.lock().unwrap_or_else(PoisonError::into_inner);
        let told = known.drain(..).map(|Known { scope, host, why, flows }| {
            let rule = set.by_scope.get(&scope).map(|at| set.rules[*at].rule.name.clone());
            Shortage { rule: rule.unwrap_or_default(), host: address(&host), why, flows }
        });
        (told.collect(), self.shortages.others.swap(0, Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::headers::mapped;

    #[test]
    fn hosts_are_told_apart_as_far_as_there_is_room() {
        let nat = Nat::new();
        for host in 0..=99 {
            nat.shortages.note(1, mapped([10, 0, 0, host]), Refusal::Exhausted);
            nat.shortages.note(1, mapped([10, 0, 0, 1]), Refusal::HostLimit);
        }
        let (told, others) = nat.shortages();
        assert_eq!((told.len(), others), (HOSTS, 100 - (HOSTS as u64 - 1)));
        assert_eq!(
            (told[1].host, told[1].why, told[1].flows),
            ([10, 0, 0, 1].into(), Refusal::HostLimit, 100)
        );
        assert_eq!(nat.shortages(), (vec![], 0));
    }
}
