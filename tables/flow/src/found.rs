//! From a key to its flow, and what an entry says.

use crate::entry::{ALIAS, REPLY_IN_ALIAS, REPLY_SWAPPED, Route, SWAPPED, TRANSLATED, clock};
use crate::hash::Spot;
use crate::index::{Place, buckets_of};
use crate::key::Key;
use crate::{Account, Direction, End, Hit, Table, Tuple};
use std::sync::atomic::Ordering::Relaxed;

impl Table {
    /// The flow of an entry, if this is one of its keys. Which way a packet goes: on the original
    /// tuple, or on the reverse of the reply, the original way.
    pub(crate) fn hit(&self, entry: u32, place: Place, key: &Key) -> Option<Hit> {
        let hot = &self.memory.hot()[entry as usize];
        let meta = hot.meta.load(Relaxed);
        let (is_its, direction) = hot.way(key, meta);
        let hit = Hit { entry, place, direction, translated: meta & TRANSLATED != 0 };
        if is_its { Some(hit) } else { self.hit_by_reply(entry, place, key) }
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

    /// Looks at every candidate in both buckets: when the first one was another's, or the key is
    /// that of a reply.
    #[inline(never)]
    pub(crate) fn search(&self, key: &Key, spot: Spot, searches: &mut u64) -> Option<Hit> {
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

    pub(crate) fn route_of(&self, entry: u32) -> ([u16; 2], u8) {
        let memory = self.memory.hot();
        let hot = &memory[entry as usize];
        let (meta, word) = (hot.meta.load(Relaxed), hot.route.load(Relaxed));
        let in_alias = meta & REPLY_IN_ALIAS != 0;
        Route::read(if in_alias { memory[word as usize].route.load(Relaxed) } else { word }, meta)
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
            tcp_flags: [0, 1].map(|side| word.flags(side)),
            phase: word.last_phase(),
            ports,
            mark,
            end,
        }
    }
}
