//! Whether what was on its way through the workers at a moment is through.
//!
//! Packets wait in rings, and are judged by what holds when they are taken out. A worker takes them
//! in the order in which they came, some from each queue a round. So after enough rounds nothing
//! is left of what was there; and one that sleeps has found nothing at all. How long that takes is
//! not known beforehand: on a busy machine a worker may wait for its core for seconds.

use port::LONGEST_RING;

use crate::meter::State;
use crate::worker::LEAST;
use crate::worker_pool::{WorkerHandle, WorkerPool};

/// Rounds that empty any ring, even where a port has so many queues that each has the least quota.
const ROUNDS: u64 = (LONGEST_RING / LEAST) as u64;

/// The rounds that each worker had made at a moment.
#[derive(Debug)]
pub struct InFlight(Vec<u64>);

impl WorkerPool {
    /// What is on its way now. Workers that sleep are woken to look at it.
    pub fn in_flight(&self) -> InFlight {
        let rounds = self.handles().iter().map(|handle| handle.meter.rounds.value()).collect();
        self.handles().iter().for_each(WorkerHandle::summon);
        InFlight(rounds)
    }

    /// Whether all of it has left the workers, or is lost with one that is gone.
    pub fn has_landed(&self, in_flight: &InFlight) -> bool {
        self.handles().iter().zip(&in_flight.0).all(|(handle, before)| {
            // In this order: who sleeps then has made these rounds before, the last one in vain.
            let rounds = handle.meter.rounds.value() - before;
            let sleeps = handle.meter.state() == State::Asleep;
            handle.is_gone() || is_through(rounds, sleeps)
        })
    }
}

/// Whether a worker has taken all that was there so many rounds ago. The first may have begun
/// before that.
fn is_through(rounds: u64, sleeps: bool) -> bool {
    rounds > if sleeps { 1 } else { ROUNDS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_had_begun_is_not_enough_and_a_sleeper_has_nothing() {
        assert!(!is_through(0, true) && !is_through(1, true) && is_through(2, true));
        assert!(!is_through(2, false) && !is_through(ROUNDS, false) && is_through(ROUNDS + 1, false));
    }
}
