//! From a key to its flow, and what an entry says.

use crate::entry::{self, Match, REPLY_IN_ALIAS, TRANSLATED, clock};
use crate::hash::Spot;
use crate::index::{Bucket, Place, buckets_of};
use crate::key::Key;
use crate::{Account, Direction, End, Hit, Table, Tuple};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

impl Table {
    #[inline(always)]
    pub(crate) fn hit(&self, entry: u32, place: Place, matched: Match, key: &Key) -> Option<Hit> {
        let hot = &self.memory.hot()[entry as usize];
        let translated = hot.meta.load(Relaxed) & TRANSLATED != 0;
        match matched {
            Match::Original { swapped } => {
                let direction = if swapped == key.swapped { Direction::Original } else { Direction::Reply };
                Some(Hit { entry, place, direction, translated })
            }
            Match::Reply { swapped } => {
                let direction = if swapped == key.swapped { Direction::Reply } else { Direction::Original };
                Some(Hit { entry, place, direction, translated })
            }
            Match::Alias { swapped } => {
                let main = hot.decisions[0].load(Relaxed);
                let direction = if swapped == key.swapped { Direction::Reply } else { Direction::Original };
                let live = self.memory.hot()[main as usize].is_live();
                live.then_some(Hit { entry: main, place, direction, translated: true })
            }
        }
    }

    /// Looks at every candidate in both buckets: when the first one was another's.
    #[cold]
    pub(crate) fn search(&self, key: &Key, spot: &Spot, searches: &mut u64) -> Option<Hit> {
        let buckets = self.memory.buckets();
        buckets_of(spot, buckets.len())
            .into_iter()
            .find_map(|bucket| self.search_bucket(&buckets[bucket as usize], bucket, key, spot, searches))
    }

    fn search_bucket(
        &self,
        bucket: &Bucket,
        number: u32,
        key: &Key,
        spot: &Spot,
        searches: &mut u64,
    ) -> Option<Hit> {
        bucket.candidates(spot).find_map(|slot| {
            let entry = bucket.entry(slot, spot)?;
            *searches += 1;
            let matched = self.memory.hot()[entry as usize].matches(key)?;
            self.hit(entry, Place { bucket: number, slot: slot as u8 }, matched, key)
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
