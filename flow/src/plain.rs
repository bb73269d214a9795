//! Plain packets: whole ones of TCP and UDP, of flows that are under way and that they leave as they are.
//!
//! [`track`](Worker::track) takes any packet, says what it is to its flow, and changes both. Who has a short way for what is plain and
//! leaves everything else to others must know beforehand what a packet will be, and nothing may be changed, or counted twice,
//! when it turns out not to be plain after all. So here are the parts of it: to look ([`look`](Worker::look)), to foresee
//! ([`prospect`](Worker::prospect)), and to take into account ([`pass_datagram`](Worker::pass_datagram),
//! [`pass_segment`](Worker::pass_segment)), which does nothing unless it is as was foreseen.

use crate::entry::clock;
use crate::key::Key;
use crate::lookup::lookup;
use crate::tcp::Segment;
use crate::{Direction, Hit, Phase, State, Tracked, Worker};
use std::sync::atomic::Ordering::Relaxed;

/// By direction and phase, what a plain packet will be.
const PROSPECTS: [[Option<State>; 16]; 2] = {
    let mut prospects = [[None; 16]; 2];
    let mut side = 0;
    while side < 2 {
        prospects[side][Phase::Open as usize] = Some(State::Established);
        prospects[side][Phase::Stream as usize] = Some(State::Established);
        side += 1;
    }
    prospects[Direction::Original as usize][Phase::Unreplied as usize] = Some(State::New);
    prospects[Direction::Reply as usize][Phase::Replied as usize] = Some(State::Established);
    prospects
};

impl Key {
    /// The key of a whole IPv4 packet of TCP or UDP.
    #[inline(always)]
    pub fn of_ports4(addresses: [[u8; 4]; 2], ports: [u16; 2], protocol: u8) -> Key {
        Key::of4(addresses.map(u32::from_be_bytes), ports.map(u32::from), u32::from(protocol), false)
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
        let word = self.table.memory.hot()[hit.entry as usize].state();
        PROSPECTS[hit.direction as usize][word.number()]
    }

    /// Takes a packet of UDP into account as [`track`](Worker::track) does; so many bytes with its IP header.
    #[inline(always)]
    pub fn pass_datagram(&mut self, hit: &Hit, length: u16, now: u64) {
        let cold = &self.table.memory.cold()[hit.entry as usize];
        self.table.count(cold, hit.direction as usize, length);
        cold.last.store(clock::tick(now), Relaxed);
    }

    /// The same of a segment of TCP, given from its own header on. False, and nothing done, if it is not plain.
    #[inline(always)]
    pub fn pass_segment(&mut self, hit: &Hit, segment: &[u8], length: u16, now: u64) -> bool {
        let memory = &self.table.memory;
        let (hot, cold) = (&memory.hot()[hit.entry as usize], &memory.cold()[hit.entry as usize]);
        let Some(segment) = Segment::read(segment, segment.len() as u32) else { return false };
        self.track_open(hit, hot, cold, &segment, length, now) == Some(Tracked::Is(State::Established))
    }

    /// What a packet of TCP or UDP of a translated IPv4 flow says as it leaves, as [`leaving`](Worker::leaving) has it: source and
    /// destination, and both their ports, in the order of headers. `None` where the flow is of the other family on a side.
    #[inline(always)]
    pub fn leaving4(&self, hit: &Hit) -> Option<([u8; 8], [u8; 4])> {
        let (addresses, ports) = self.table.memory.hot()[hit.entry as usize].leaving4(hit.direction)?;
        Some((addresses.to_be_bytes(), ports.to_be_bytes()))
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
