//! Plain packets: whole ones of TCP and UDP, of flows that are under way and that they leave as
//! they are.
//!
//! [`track`](Worker::track) takes any packet, says what it is to its flow, and changes both. Who
//! has a short way for what is plain and leaves everything else to others must know beforehand what
//! a packet will be, and nothing may be changed, or counted twice, when it turns out not to be
//! plain after all. So here are the parts of it: to look and foresee ([`look4`](Worker::look4)),
//! and to take into account ([`pass_datagrams`](Worker::pass_datagrams),
//! [`pass_segment`](Worker::pass_segment)), which does nothing unless it is as was foreseen. What
//! is known of a batch stands in columns, and what can be asked of all of it at once is.

use crate::entry::{Hot, REPLY_HERE, REPLY_SWAPPED, SWAPPED, TRANSLATED, clock};
use crate::hash::Spot;
use crate::index::Place;
use crate::key::Key;
use crate::key4::Keys4;
use crate::leaving4::Leavings4;
use crate::lookup::find;
use crate::tcp::Segment;
use crate::{BATCH, Direction, Hit, Phase, State, Tracked, Worker};
use std::sync::atomic::Ordering::Relaxed;
use wire::which::{bits, lowest, numbers, which};

/// What is known of the flows of plain packets that were looked up, in columns, and what those
/// packets will be to them.
pub struct Prospects {
    entries: [u32; BATCH],
    pub(crate) faces: Faces,
    /// What the caller has noted for the packets' directions: [`Worker::decision`].
    pub decided: [u32; BATCH],
    /// The packets that are replies: bits.
    replies: u64,
    /// Those whose flow is translated.
    pub translated: u64,
    /// Those that will be [`State::New`]; all others will be [`State::Established`].
    pub new: u64,
}

/// What entries say of themselves, in columns.
pub(crate) struct Faces {
    /// The first word of their addresses.
    pub(crate) ends: [u64; BATCH],
    pub(crate) ports: [u32; BATCH],
    pub(crate) metas: [u32; BATCH],
    states: [u32; BATCH],
    decisions: [[u32; BATCH]; 2],
}

impl Default for Faces {
    fn default() -> Faces {
        let words = [0; BATCH];
        Faces { ends: [0; BATCH], ports: words, metas: words, states: words, decisions: [words; 2] }
    }
}

impl Default for Prospects {
    fn default() -> Prospects {
        let (words, faces) = ([0; BATCH], Faces::default());
        Prospects { entries: words, faces, decided: words, replies: 0, translated: 0, new: 0 }
    }
}

impl Prospects {
    /// The flow of a packet.
    #[inline(always)]
    pub fn hit(&self, n: usize) -> Hit {
        let (entry, direction) = self.flow(n);
        Hit { entry, place: Place::NONE, direction, translated: self.translated >> (n % BATCH) & 1 != 0 }
    }

    #[inline(always)]
    fn flow(&self, n: usize) -> (u32, Direction) {
        (self.entries[n % BATCH], Direction::reply_if(self.replies >> (n % BATCH) & 1 != 0))
    }

    /// Of these flows (bits), those that a plain packet does not change; `turned`: whether a packet
    /// is a reply, but for those of which it is `told` whether they are `replies`.
    #[inline(always)]
    fn foresee(&mut self, found: u64, turned: &[u8; BATCH], told: u64, replies: u64) -> u64 {
        let mut flags = [[0u8; BATCH]; 4];
        for n in 0..BATCH {
            let (meta, phase) = (self.faces.metas[n], self.faces.states[n] & 15);
            let is = |wanted: Phase| phase == wanted as u32;
            let steady = is(Phase::Open) | is(Phase::Stream);
            let known = [meta & TRANSLATED != 0, steady, is(Phase::Unreplied), is(Phase::Replied)];
            for (flags, known) in flags.iter_mut().zip(known) {
                flags[n] = u8::from(known);
            }
            let [original, reply] = self.faces.decisions.each_ref().map(|column| column[n]);
            self.decided[n] = original ^ (original ^ reply) & 0u32.wrapping_sub(u32::from(turned[n]));
        }
        for n in numbers(told) {
            self.decided[n] = self.faces.decisions[(replies >> n & 1) as usize][n];
        }
        let [translated, steady, unreplied, replied] = flags.each_ref().map(bits);
        let replies = bits(turned) & !told | replies;
        (self.replies, self.translated, self.new) = (replies, translated, unreplied & !replies);
        found & (steady | self.new | replied & replies)
    }
}

impl Faces {
    /// Takes down those of an entry.
    #[inline(always)]
    pub(crate) fn note(&mut self, n: usize, hot: &Hot) {
        self.ends[n] = hot.addresses[0].load(Relaxed);
        (self.ports[n], self.metas[n]) = (hot.ports.load(Relaxed), hot.meta.load(Relaxed));
        self.states[n] = hot.state().0;
        for (column, decision) in self.decisions.iter_mut().zip(&hot.decisions) {
            column[n] = decision.load(Relaxed);
        }
    }
}

impl Worker {
    /// Looks up keys, and says of those found (bits) what the next plain packet will be; flows that
    /// it would change are none of them. Asks for what is written when such packets are taken.
    /// Counts nothing: what is met this way and taken is counted by [`passed`](Worker::passed).
    #[inline(always)]
    pub fn look4(&self, keys: &Keys4, spots: &Spots, prospects: &mut Prospects) -> u64 {
        let its = |faces: &Faces, _: &[u32; BATCH]| keys.are(faces);
        let is_reply = |n: usize, hot: &Hot, meta: u32| hot.has_reply4(keys.parts(n), meta);
        self.look_by(spots, keys.swapped(), its, is_reply, |n| keys.key(n), prospects)
    }

    /// As [`look4`](Worker::look4), by up to [`BATCH`] keys of any kind.
    #[inline(always)]
    pub fn look(&self, keys: &[Key], spots: &Spots, prospects: &mut Prospects) -> u64 {
        let mut swapped = [0; BATCH];
        swapped.iter_mut().zip(keys).for_each(|(swapped, key)| *swapped = u8::from(key.swapped));
        let hot = self.table.memory.hot();
        let its = |faces: &Faces, entries: &[u32; BATCH]| {
            let both = keys.iter().zip(entries).zip(&faces.metas).enumerate();
            both.fold(0, |its, (n, ((key, entry), meta))| {
                its | u64::from(hot[*entry as usize].is_flow_of(key, *meta)) << n
            })
        };
        self.look_by(spots, &swapped, its, |_, _, _| false, |n| keys[n], prospects)
    }

    /// Asks for where the keys may be found, some time before.
    #[inline(always)]
    pub fn ask4(&self, keys: &Keys4, spots: &mut Spots) {
        for n in 0..BATCH {
            spots.all[n] = self.table.hash.spot4(keys.parts(n));
        }
        self.ask_for(keys.count(), spots);
    }

    /// As [`ask4`](Worker::ask4), for keys of any kind.
    #[inline(always)]
    pub fn ask(&self, keys: &[Key], spots: &mut Spots) {
        for (spot, key) in spots.all.iter_mut().zip(keys) {
            *spot = self.table.hash.spot(key);
        }
        self.ask_for(keys.len(), spots);
    }

    #[inline(always)]
    fn ask_for(&self, count: usize, spots: &mut Spots) {
        spots.count = count.min(BATCH);
        let table = &*self.table;
        spots.all[..spots.count].iter().for_each(|spot| table.ask(*spot));
    }

    #[inline(always)]
    fn look_by(
        &self,
        spots: &Spots,
        swapped: &[u8; BATCH],
        its: impl Fn(&Faces, &[u32; BATCH]) -> u64,
        is_reply: impl Fn(usize, &Hot, u32) -> bool,
        key_of: impl Fn(usize) -> Key,
        prospects: &mut Prospects,
    ) -> u64 {
        let (table, spots) = (&*self.table, &spots.all[..spots.count.min(BATCH)]);
        let Prospects { entries, faces, .. } = prospects;
        find(table, spots, entries, |_, _, _| ());
        let (hot, memory) = (table.memory.hot(), table.memory.cold());
        for (n, entry) in entries.iter().enumerate().take(spots.len()) {
            memory[*entry as usize].prefetch();
            faces.note(n, &hot[*entry as usize]);
        }
        let asked = lowest(spots.len());
        let found = its(faces, entries) & asked;
        // A packet is a reply if its source is the higher end and that of the flow's first packet
        // is not, or the other way round.
        let turned = std::array::from_fn(|n| u8::from(faces.metas[n] & SWAPPED != 0) ^ swapped[n]);
        // Keys of translated replies, and those whose first candidate was another's.
        let (mut told, mut replies) = (0, 0);
        for n in numbers(!found & asked & which(|n| entries[n] != 0)) {
            let (entry, meta) = (entries[n] as usize, faces.metas[n]);
            let direction = if is_reply(n, &hot[entry], meta) {
                Direction::reply_if((meta & REPLY_SWAPPED != 0) == (swapped[n] != 0))
            } else if let Some(hit) = table.search(&key_of(n), spots[n], &mut 0) {
                entries[n] = hit.entry;
                memory[hit.entry as usize].prefetch();
                faces.note(n, &hot[hit.entry as usize]);
                hit.direction
            } else {
                continue;
            };
            told |= 1 << n;
            replies |= u64::from(direction == Direction::Reply) << n;
        }
        prospects.foresee(found | told, &turned, told, replies)
    }

    /// Takes packets of UDP (bits) into account as [`track`](Worker::track) does; so many bytes
    /// each with their IP headers.
    #[inline(always)]
    pub fn pass_datagrams(&mut self, prospects: &Prospects, these: u64, lengths: &[u32; BATCH], now: u64) {
        let (memory, shared) = (self.table.memory.cold(), self.table.memory.is_shared());
        let tick = clock::tick(now);
        for n in numbers(these) {
            let (entry, direction) = prospects.flow(n);
            let (cold, length) = (&memory[entry as usize], lengths[n] as u16);
            if shared {
                cold.count_shared(direction as usize, length);
            } else {
                cold.count(direction as usize, length);
            }
            cold.last.store(tick, Relaxed);
        }
    }

    /// The same of a segment of TCP, given from its own header on. False, and nothing done, if it
    /// is not plain.
    #[inline(always)]
    pub fn pass_segment(
        &mut self,
        prospects: &Prospects,
        n: usize,
        segment: &[u8],
        length: u16,
        now: u64,
    ) -> bool {
        let (memory, (entry, direction)) = (&self.table.memory, prospects.flow(n));
        let (hot, cold) = (&memory.hot()[entry as usize], &memory.cold()[entry as usize]);
        let Some(segment) = Segment::read(segment, segment.len() as u32) else { return false };
        self.track_open(direction, hot, cold, &segment, length, now) == Some(Tracked::Is(State::Established))
    }

    /// What packets of translated flows (bits) say as they leave, as [`leaving`](Worker::leaving)
    /// has it; those that are of IPv4 on both sides. Of others it does not matter what stands there
    /// then.
    #[inline(always)]
    pub fn leave4(&self, prospects: &Prospects, these: u64, leavings: &mut Leavings4) -> u64 {
        let hot = self.table.memory.hot();
        for n in numbers(these) {
            leavings.note(n, &hot[prospects.entries[n] as usize]);
        }
        leavings.turn(&prospects.faces, prospects.replies);
        these & which(|n| prospects.faces.metas[n] & REPLY_HERE != 0)
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

/// Where the keys of a batch may stand.
pub struct Spots {
    count: usize,
    all: [Spot; BATCH],
}

impl Default for Spots {
    fn default() -> Spots {
        Spots { count: 0, all: [Spot::default(); BATCH] }
    }
}
