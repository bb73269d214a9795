//! Plain packets: whole ones of TCP and UDP, of flows that are under way and that they leave as they are.
//!
//! [`track`](Worker::track) takes any packet, says what it is to its flow, and changes both. Who has a short way for what is plain and
//! leaves everything else to others must know beforehand what a packet will be, and nothing may be changed, or counted twice,
//! when it turns out not to be plain after all. So here are the parts of it: to look and foresee ([`look4`](Worker::look4)), and to
//! take into account ([`pass_datagram`](Worker::pass_datagram), [`pass_segment`](Worker::pass_segment)), which does nothing
//! unless it is as was foreseen.

use crate::entry::{Hot, TRANSLATED, clock};
use crate::hash::{Hash, Spot};
use crate::index::Place;
use crate::key::Key;
use crate::key4::Key4;
use crate::leaving4::Leaving4;
use crate::lookup::{Candidate, bits, find};
use crate::tcp::Segment;
use crate::{BATCH, Direction, Hit, Phase, State, Tracked, Worker};
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

/// A flow that was looked up for a plain packet, and what that packet will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prospect {
    entry: u32,
    place: Place,
    /// What the caller has noted for the packet's direction: [`Worker::decision`].
    pub decision: u32,
    direction: Direction,
    /// Whether the flow is translated.
    pub translated: bool,
    /// What the packet will be to it.
    pub state: State,
}

impl Prospect {
    /// What a packet that goes this way in a flow will be; false if that would change the flow, or it has ended.
    #[inline(always)]
    fn foresee(&mut self, entry: u32, place: Place, direction: Direction, meta: u32, hot: &Hot) -> bool {
        let state = PROSPECTS[direction as usize][hot.state().number()];
        let decision = hot.decisions[direction as usize].load(Relaxed);
        let translated = meta & TRANSLATED != 0;
        let known = state.unwrap_or(State::Invalid);
        *self = Prospect { entry, place, decision, direction, translated, state: known };
        state.is_some()
    }

    /// Nothing that was looked up.
    pub const NONE: Prospect = Prospect {
        entry: 0,
        place: Place::NONE,
        decision: 0,
        direction: Direction::Original,
        translated: false,
        state: State::Invalid,
    };

    /// The flow.
    #[inline(always)]
    pub fn hit(&self) -> Hit {
        let Prospect { entry, place, direction, translated, .. } = *self;
        Hit { entry, place, direction, translated }
    }
}

impl Worker {
    /// Looks up up to [`BATCH`] keys, and says of those found (bits) what the next plain packet will be; flows that it would
    /// change are none of them. Asks for what is written when such packets are taken. Counts nothing: what is met this way
    /// and taken is counted by [`passed`](Worker::passed).
    #[inline]
    pub fn look4(&self, keys: &[Key4], prospects: &mut [Prospect; BATCH]) -> u64 {
        let way = |key: &Key4, hot: &Hot, meta: u32| hot.way4(key, meta);
        self.look_by(keys, |hash, key| hash.spot4(key), way, Key4::key, prospects)
    }

    /// As [`look4`](Worker::look4), by any keys.
    #[inline]
    pub fn look(&self, keys: &[Key], prospects: &mut [Prospect; BATCH]) -> u64 {
        let way = |key: &Key, hot: &Hot, meta: u32| hot.way(key, meta);
        self.look_by(keys, Hash::spot, way, |key| *key, prospects)
    }

    #[inline(always)]
    fn look_by<K>(
        &self,
        keys: &[K],
        spot_of: impl Fn(&Hash, &K) -> Spot,
        way: impl Fn(&K, &Hot, u32) -> (bool, Direction),
        key_of: impl Fn(&K) -> Key,
        prospects: &mut [Prospect; BATCH],
    ) -> u64 {
        let table = &*self.table;
        let mut spots = [Spot::default(); BATCH];
        let mut candidates = [Candidate::default(); BATCH];
        let keys = &keys[..keys.len().min(BATCH)];
        for (spot, key) in spots.iter_mut().zip(keys) {
            *spot = spot_of(&table.hash, key);
            table.ask(*spot);
        }
        find(table, &spots[..keys.len()], &mut candidates);
        let (hot, mut found, mut others) = (table.memory.hot(), 0, 0);
        for (index, ((key, &(place, entry)), prospect)) in
            keys.iter().zip(&candidates).zip(prospects.iter_mut()).enumerate()
        {
            let hot = &hot[entry as usize];
            table.memory.prefetch_cold(entry);
            let meta = hot.meta.load(Relaxed);
            let (is_its, direction) = way(key, hot, meta);
            found |= u64::from(is_its & prospect.foresee(entry, place, direction, meta, hot)) << index;
            others |= u64::from(!is_its & (entry != 0)) << index;
        }
        for index in bits(others) {
            let hit = table.search(&key_of(&keys[index]), spots[index], &mut 0);
            found |= u64::from(hit.is_some_and(|hit| self.foresee(hit, &mut prospects[index]))) << index;
        }
        found
    }

    #[cold]
    fn foresee(&self, hit: Hit, prospect: &mut Prospect) -> bool {
        let Hit { entry, place, direction, translated } = hit;
        self.table.memory.prefetch_cold(entry);
        let meta = if translated { TRANSLATED } else { 0 };
        prospect.foresee(entry, place, direction, meta, &self.table.memory.hot()[entry as usize])
    }

    /// Takes a packet of UDP into account as [`track`](Worker::track) does; so many bytes with its IP header.
    #[inline(always)]
    pub fn pass_datagram(&mut self, hit: &Prospect, length: u16, now: u64) {
        let cold = &self.table.memory.cold()[hit.entry as usize];
        self.table.count(cold, hit.direction as usize, length);
        cold.last.store(clock::tick(now), Relaxed);
    }

    /// The same of a segment of TCP, given from its own header on. False, and nothing done, if it is not plain.
    #[inline(always)]
    pub fn pass_segment(&mut self, hit: &Prospect, segment: &[u8], length: u16, now: u64) -> bool {
        let memory = &self.table.memory;
        let (hot, cold) = (&memory.hot()[hit.entry as usize], &memory.cold()[hit.entry as usize]);
        let Some(segment) = Segment::read(segment, segment.len() as u32) else { return false };
        self.track_open(hit.direction, hot, cold, &segment, length, now)
            == Some(Tracked::Is(State::Established))
    }

    /// What a packet of TCP or UDP of a translated IPv4 flow says as it leaves, as [`leaving`](Worker::leaving) has it. `None` where
    /// the flow is of the other family on a side.
    #[inline(always)]
    pub fn leaving4(&self, flow: &Prospect) -> Option<Leaving4> {
        self.table.memory.hot()[flow.entry as usize].leaving4(flow.direction)
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
