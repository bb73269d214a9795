//! From a key to its flow, and what an entry says.

use crate::entry::{self, ALIAS, REPLY_IN_ALIAS, REPLY_SWAPPED, SWAPPED, TRANSLATED, clock};
use crate::hash::Spot;
use crate::index::{Place, buckets_of};
use crate::key::Key;
use crate::memory::{prefetch, prefetch_at};
use crate::{Account, BATCH, Direction, End, Hit, Table, Tuple};
use std::hint::select_unpredictable;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The hit of a key that is in the entry as its flow's original.
#[inline(always)]
fn flow_of(entry: u32, place: Place, key: &Key, meta: u32) -> Hit {
    let direction = Direction::reply_if((meta & SWAPPED != 0) != key.swapped);
    Hit { entry, place, direction, translated: meta & TRANSLATED != 0 }
}

impl Table {
    /// Looks up up to [`BATCH`] keys; returns how many were found, and how many entries were compared.
    #[inline]
    pub(crate) fn lookup(&self, keys: &[Key], hits: &mut [Option<Hit>]) -> (u64, u64) {
        let (hot, buckets) = (self.memory.hot(), self.memory.buckets());
        let mut spots = [Spot::default(); BATCH];
        let mut candidates = [(Place::default(), 0u32); BATCH];
        let (spots, candidates) = (&mut spots[..keys.len()], &mut candidates[..keys.len()]);
        let hits = &mut hits[..keys.len()];
        for (key, spot) in keys.iter().zip(spots.iter_mut()) {
            *spot = self.hash.spot(key);
            prefetch(&buckets[buckets_of(*spot, buckets.len())[0] as usize]);
        }
        // Whether a key is in its first bucket is as good as random, so this does not branch on it either.
        let mut second = 0u64;
        for (index, (spot, candidate)) in spots.iter().zip(candidates.iter_mut()).enumerate() {
            let [first, other] = buckets_of(*spot, buckets.len());
            let (slot, entry) = buckets[first as usize].first(*spot);
            let here = std::ptr::from_ref(&hot[entry as usize]).cast::<u8>();
            let there = std::ptr::from_ref(&buckets[other as usize]).cast::<u8>();
            prefetch_at(select_unpredictable(entry != 0, here, there));
            second |= u64::from(entry == 0) << index;
            *candidate = (Place::new(first, slot), entry);
        }
        while second != 0 {
            let index = second.trailing_zeros() as usize;
            second &= second - 1;
            let other = buckets_of(spots[index], buckets.len())[1];
            let (slot, entry) = buckets[other as usize].first(spots[index]);
            prefetch(&hot[entry as usize]);
            candidates[index] = (Place::new(other, slot), entry);
        }
        let (mut found, mut searches) = (0, 0);
        for (index, (hit, key)) in hits.iter_mut().zip(keys).enumerate() {
            let (place, entry) = candidates[index];
            let meta = hot[entry as usize].meta.load(Relaxed);
            searches += u64::from(entry != 0);
            if hot[entry as usize].is_flow_of(key, meta) {
                // Written where it stays: taken from hand to hand in parts, it costs as much as all the rest.
                *hit = Some(flow_of(entry, place, key, meta));
            } else {
                *hit = if entry == 0 { None } else { self.search(key, spots[index], &mut searches) };
            }
            found += u64::from(hit.is_some());
        }
        (found, searches)
    }

    /// The flow of an entry, if this is one of its keys. Which way a packet goes: on the original tuple, or on the reverse of
    /// the reply, the original way.
    pub(crate) fn hit(&self, entry: u32, place: Place, key: &Key) -> Option<Hit> {
        let hot = &self.memory.hot()[entry as usize];
        let meta = hot.meta.load(Relaxed);
        if hot.is_flow_of(key, meta) {
            Some(flow_of(entry, place, key, meta))
        } else {
            self.hit_by_reply(entry, place, key)
        }
    }

    /// As [`hit`](Table::hit), for the key of a translated flow's reply.
    fn hit_by_reply(&self, entry: u32, place: Place, key: &Key) -> Option<Hit> {
        let hot = &self.memory.hot()[entry as usize];
        let meta = hot.meta.load(Relaxed);
        let (entry, swapped) = if hot.has_reply(key, meta) {
            (entry, meta & REPLY_SWAPPED != 0)
        } else if meta & ALIAS != 0 && hot.has_key(key, meta) && hot.is_live() {
            (hot.decisions[0].load(Relaxed), meta & SWAPPED != 0)
        } else {
            return None;
        };
        let direction = Direction::reply_if(swapped == key.swapped);
        let hit = Hit { entry, place, direction, translated: true };
        self.memory.hot()[entry as usize].is_live().then_some(hit)
    }

    /// Looks at every candidate in both buckets: when the first one was another's, or the key is that of a reply.
    #[inline(never)]
    fn search(&self, key: &Key, spot: Spot, searches: &mut u64) -> Option<Hit> {
        let buckets = self.memory.buckets();
        buckets_of(spot, buckets.len()).into_iter().find_map(|number| {
            let bucket = &buckets[number as usize];
            bucket.candidates(spot).find_map(|slot| {
                let entry = bucket.entry(slot, spot)?;
                *searches += 1;
                self.hit(entry, Place::new(number, slot), key)
            })
        })
    }

    pub(crate) fn reply_of(&self, entry: u32) -> Tuple {
        let memory = self.memory.hot();
        let hot = &memory[entry as usize];
        let reply = if hot.meta.load(Relaxed) & REPLY_IN_ALIAS != 0 {
            Some(memory[hot.route.load(Relaxed) as usize].key())
        } else {
            hot.reply_here()
        };
        reply.map_or_else(|| hot.key().tuple().reversed(), |key| key.tuple())
    }

    pub(crate) fn route_word(&self, entry: u32) -> &AtomicU32 {
        let memory = self.memory.hot();
        let hot = &memory[entry as usize];
        if hot.meta.load(Relaxed) & REPLY_IN_ALIAS != 0 {
            &memory[hot.route.load(Relaxed) as usize].route
        } else {
            &hot.route
        }
    }

    pub(crate) fn route_of(&self, entry: u32) -> ([u16; 2], u8) {
        entry::from_route(self.route_word(entry).load(Relaxed))
    }

    /// What there is to say of a flow.
    pub(crate) fn account(&self, entry: u32, now: u64, end: End) -> Account {
        let (hot, cold) = (&self.memory.hot()[entry as usize], &self.memory.cold()[entry as usize]);
        let word = hot.state();
        let start = clock::start(now, hot.start.load(Relaxed) >> 16);
        let (ports, mark) = self.route_of(entry);
        Account {
            id: entry,
            original: hot.key().tuple(),
            reply: self.reply_of(entry),
            start,
            last: clock::last(now, cold.last.load(Relaxed)).max(start),
            packets: cold.packets(),
            bytes: cold.bytes(),
            tcp_flags: word.flags(),
            phase: word.last_phase(),
            ports,
            mark,
            end,
        }
    }
}
