//! Hosts behind the ends of VXLANs from which Linux learns: those that it knows. One word each,
//! found by its hash within a few places; one that finds no place stays unknown, so Linux's.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::InterfaceId;
use crate::memory::{Array, WorkerMemory};

/// Places, and how many of them one host may stand in.
const PLACES: usize = 65_536;
const PROBES: usize = 8;
/// Bytes of all of them.
pub(crate) const HOST_BYTES: usize = PLACES * 8;

/// Who writes them.
pub(crate) struct Hosts(Array<AtomicU64>);

impl Hosts {
    pub(crate) fn new(worker: &WorkerMemory) -> Hosts {
        Hosts(worker.arrays.hosts)
    }

    /// Says whether a host is known behind an interface. False where there is no room for it.
    pub(crate) fn set(&mut self, id: InterfaceId, mac: [u8; 6], known: bool) -> bool {
        let word = word(id, mac);
        let there = places(word).find(|at| self.0[*at].load(Ordering::Relaxed) == word);
        match (there, known) {
            (Some(at), false) => self.0[at].store(0, Ordering::Relaxed),
            (None, true) => {
                let free = places(word).find(|at| self.0[*at].load(Ordering::Relaxed) == 0);
                let Some(at) = free else { return false };
                self.0[at].store(word, Ordering::Relaxed);
            }
            _ => {}
        }
        true
    }
}

/// Never 0: no interface that is a tunnel has the number 0.
fn word(id: InterfaceId, mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    let [high, low] = id.0.to_be_bytes();
    u64::from_be_bytes([high, low, a, b, c, d, e, f])
}

fn places(word: u64) -> impl Iterator<Item = usize> {
    let mixed = (word ^ word >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let first = (mixed >> 40) as usize;
    (0..PROBES).map(move |n| (first + n) % PLACES)
}

#[inline]
pub(super) fn is_known(words: &[AtomicU64], id: InterfaceId, mac: [u8; 6]) -> bool {
    let word = word(id, mac);
    places(word).any(|at| words.get(at).is_some_and(|at| at.load(Ordering::Relaxed) == word))
}
