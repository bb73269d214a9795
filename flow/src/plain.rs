//! Plain packets: whole ones of TCP and UDP, of flows that are under way and that they leave as they are.
//!
//! [`track`](Worker::track) takes any packet, says what it is to its flow, and changes both. Who has a short way for what is plain and
//! leaves everything else to others must know beforehand what a packet will be, and nothing may be changed, or counted twice,
//! when it turns out not to be plain after all. So here are the parts of it: to look ([`look`](Worker::look)), to foresee
//! ([`prospect`](Worker::prospect)), and to take into account ([`pass`](Worker::pass)), which does nothing unless it is as was foreseen.

use crate::entry::clock;
use crate::key::Key;
use crate::lookup::lookup;
use crate::tcp::Segment;
use crate::{Direction, Hit, Phase, State, Tracked, Tuple, Worker};
use std::sync::atomic::Ordering::Relaxed;
use wire::headers::mapped;
use wire::{Headers, protocol};

impl Key {
    /// The key of a whole IPv4 packet with ports.
    #[inline(always)]
    pub fn of_ports4(
        addresses: [[u8; 4]; 2],
        [source_port, destination_port]: [u16; 2],
        protocol: u8,
    ) -> Key {
        let [source, destination] = addresses.map(mapped);
        Key::of(&Tuple { source, destination, source_port, destination_port, protocol, table: 0 })
    }
}

impl Worker {
    /// As [`lookup`](Worker::lookup), counting nothing: what is met this way and taken is counted by [`passed`](Worker::passed).
    ///
    /// # Panics
    /// If there are more keys than [`BATCH`](crate::BATCH) or than `hits`.
    #[inline]
    pub fn look(&self, keys: &[Key], hits: &mut [Option<Hit>]) {
        lookup(&self.table, keys, hits);
    }

    /// What the next plain packet of this flow and direction will be; `None` if that would change the flow.
    #[inline(always)]
    pub fn prospect(&self, hit: &Hit) -> Option<State> {
        let phase = self.table.memory.hot()[hit.entry as usize].state().phase()?;
        match (phase, hit.direction) {
            (Phase::Open | Phase::Stream, _) | (Phase::Replied, Direction::Reply) => Some(State::Established),
            (Phase::Unreplied, Direction::Original) => Some(State::New),
            _ => None,
        }
    }

    /// Takes a packet into account as [`track`](Worker::track) does. False, and nothing done, if it is not plain.
    #[inline(always)]
    pub fn pass(&mut self, hit: &Hit, headers: &Headers, ip: &[u8], now: u64) -> bool {
        let memory = &self.table.memory;
        let (hot, cold) = (&memory.hot()[hit.entry as usize], &memory.cold()[hit.entry as usize]);
        if headers.protocol != protocol::TCP {
            self.table.count(cold, hit.direction as usize, headers.length);
            cold.last.store(clock::tick(now), Relaxed);
            return true;
        }
        let Some(segment) = Segment::of(headers, ip) else { return false };
        self.track_open(hit, hot, cold, &segment, headers, now) == Some(Tracked::Is(State::Established))
    }

    /// Counts packets that went this way, as looked up and found.
    #[inline]
    pub fn passed(&self, packets: u64) {
        let counts = self.table.counts(self.own.place);
        counts.lookups.add(packets);
        counts.hits.add(packets);
        counts.searches.add(packets);
    }
}
