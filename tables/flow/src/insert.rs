//! How a flow comes into the table.
//!
//! Its entry is written first and made live; then the first bucket of its key is locked, and if no
//! live flow has that key it gets a slot. Of two workers who insert the same flow, in whichever
//! direction, one finds the other's. A translated flow gets its second slot after that: no answer
//! can come before its first packet has gone out.

use crate::entry::{ALIAS, ALIAS_PHASE, REPLY_IN_ALIAS, Route, State as Word, clock};
use crate::index::{Locked, Place};
use crate::key::Key;
use crate::own::Own;
use crate::tcp::Connection;
use crate::worker::{Hit, Inserted};
use crate::{Direction, End, Phase, Refused, Table, Tuple};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// A flow to be put into the table.
pub(crate) struct Start {
    pub(crate) original: Tuple,
    pub(crate) reply: Option<Tuple>,
    pub(crate) word: Word,
    pub(crate) connection: Option<Connection>,
    pub(crate) route: Route,
    pub(crate) start: u64,
    pub(crate) last: u32,
    pub(crate) packets: [u64; 2],
    pub(crate) bytes: [u64; 2],
    /// Whether it takes the place of a connection that is over.
    pub(crate) reopens: bool,
}

/// What became of an entry and one of its keys.
enum Linked {
    Put(Place),
    Exists(Hit),
    Full,
}

/// An entry, one of its keys, and what it is when it is live.
struct Link<'a> {
    entry: u32,
    /// The flow that the key is of: its own slots are no room for it.
    flow: u32,
    key: &'a Key,
    word: u32,
    weak: bool,
    reopens: bool,
    tick: u32,
}

pub(crate) fn begin(table: &Table, own: &mut Own, start: &Start, tick: u32) -> Result<Inserted, Refused> {
    let key = Key::of(&start.original);
    let reply = start.reply.filter(|reply| *reply != start.original.reversed());
    let reply = reply.map(|reply| (reply, Key::of(&reply)));
    let here = reply.filter(|(_, reply)| reply.is_ipv4() && key.is_ipv4()).map(|(_, reply)| reply);
    let alias = match reply {
        Some(_) if here.is_none() => Some(own.allocate(table).ok_or(Refused::Full)?),
        _ => None,
    };
    let Some(entry) = own.allocate(table) else {
        own.free.extend(alias);
        return Err(Refused::Full);
    };
    write(table, entry, start, &key, here.as_ref(), alias);
    let weak = !start.word.phase().is_some_and(Phase::is_strong);
    let flow = Link { entry, flow: entry, key: &key, word: start.word.0, weak, reopens: start.reopens, tick };
    let place = match link(table, own, &flow) {
        Linked::Put(place) => place,
        Linked::Exists(hit) => {
            // It never was live, so nobody has seen it.
            own.free.extend(alias.into_iter().chain([entry]));
            return Ok(Inserted::Existing(hit));
        }
        Linked::Full => {
            own.retire(table, entry);
            return Err(Refused::Full);
        }
    };
    if let Some((tuple, key)) = &reply {
        let answer = match alias {
            None => Link { key, reopens: false, ..flow },
            Some(alias) => {
                write_alias(table, alias, entry, key, start.route.word);
                Link { entry: alias, key, word: ALIAS_PHASE, reopens: false, ..flow }
            }
        };
        let refused = match link(table, own, &answer) {
            Linked::Put(_) => None,
            Linked::Exists(_) => Some(Refused::ReplyInUse(*tuple)),
            Linked::Full => Some(Refused::Full),
        };
        if let Some(refused) = refused {
            // Nobody is told of a flow that never was.
            table.memory.hot()[entry as usize].state.store(0, Release);
            own.retire(table, entry);
            return Err(refused);
        }
    }
    Ok(Inserted::New(Hit { entry, place, direction: Direction::Original, translated: reply.is_some() }))
}

fn write(table: &Table, entry: u32, start: &Start, key: &Key, reply: Option<&Key>, alias: Option<u32>) {
    let (hot, cold) = (&table.memory.hot()[entry as usize], &table.memory.cold()[entry as usize]);
    let kind = if alias.is_some() { REPLY_IN_ALIAS } else { 0 };
    hot.set_key(key, kind | start.route.upper, reply);
    hot.route.store(alias.unwrap_or(start.route.word), Relaxed);
    hot.decisions.iter().for_each(|decision| decision.store(0, Relaxed));
    hot.start.store(start.start << 16, Relaxed);
    cold.last.store(start.last, Relaxed);
    cold.set_counts(start.packets, start.bytes);
    if let Some(connection) = &start.connection {
        for (side, value) in connection.sides.iter().enumerate() {
            cold.set_side(side, value);
        }
    }
}

fn write_alias(table: &Table, alias: u32, main: u32, key: &Key, route: u32) {
    let hot = &table.memory.hot()[alias as usize];
    hot.set_key(key, ALIAS, None);
    hot.decisions[0].store(main, Relaxed);
    hot.route.store(route, Relaxed);
}

/// Puts an entry that is written into the index, unless its key is there.
fn link(table: &Table, own: &mut Own, link: &Link<'_>) -> Linked {
    let (hot, key) = (table.memory.hot(), link.key);
    let spot = table.hash.spot(key);
    let locked = Locked::new(table.memory.buckets(), spot);
    for which in 0..2 {
        let bucket = locked.buckets[which];
        for slot in bucket.candidates(spot) {
            let Some(other) = bucket.entry(slot, spot) else { continue };
            let Some(hit) = table.hit(other, Place::new(locked.numbers[which], slot), key) else { continue };
            if !(link.reopens && end_over(table, own, hit.entry)) {
                return Linked::Exists(hit);
            }
        }
    }
    let state = &hot[link.entry as usize].state;
    state.store(link.word, Release);
    let place = locked.put(spot, link.entry, link.weak).or_else(|| {
        make_room(table, own, &locked, link);
        locked.put(spot, link.entry, link.weak)
    });
    match place {
        Some(place) => Linked::Put(place),
        None => {
            state.store(0, Release);
            Linked::Full
        }
    }
}

/// Ends a connection that is over.
fn end_over(table: &Table, own: &mut Own, entry: u32) -> bool {
    match table.memory.hot()[entry as usize].state().phase() {
        Some(Phase::Finished) => own.end(table, entry, End::Fin),
        Some(Phase::Reset) => own.end(table, entry, End::Rst),
        _ => false,
    }
}

/// Empties a slot of two buckets that are full: of a weak flow, or else of one that has been idle
/// for long enough.
#[cold]
fn make_room(table: &Table, own: &mut Own, locked: &Locked<'_>, link: &Link<'_>) {
    let pressed = table.limits.pressed.load(Relaxed);
    for hinted in [true, false] {
        for bucket in locked.buckets {
            for (slot, entry, _) in bucket.occupied().filter(|(_, _, weak)| *weak == hinted) {
                if entry == link.flow {
                    continue;
                }
                let hot = &table.memory.hot()[entry as usize];
                let may_go = match hot.state().phase() {
                    // Ended, and its owner has not come to empty the slot.
                    None => !hot.is_live(),
                    Some(phase) => {
                        let last = table.memory.cold()[entry as usize].last.load(Relaxed);
                        let may_go = !phase.is_strong() || clock::idle(link.tick, last) > pressed;
                        may_go && own.end(table, entry, End::Evicted)
                    }
                };
                if may_go && bucket.clear(slot, entry) {
                    return;
                }
            }
        }
    }
    table.counts(own.place).ignored.add(1);
}
