//! Flows that outlive the program: written down as plain values, and put back, here or in another
//! router.

use crate::entry::{Route, State as Word, clock};
use crate::insert::Start;
use crate::tcp::{Connection, Side};
use crate::{Account, Hit, Inserted, Key, Phase, Refused, Worker};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use wire::protocol;

/// All of a flow but the decisions of the caller, who makes them anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What is said of it to others as well. Should the clock begin anew with the program, `start`
    /// and `last` are to be moved by the difference.
    pub account: Account,
    /// What both ends have sent, of TCP.
    pub tcp: Option<[Side; 2]>,
}

impl Worker {
    /// Writes a flow down.
    pub fn snapshot(&self, hit: &Hit, now: u64) -> Snapshot {
        let memory = &self.table.memory;
        let account = self.table.account(hit.id(), now, crate::End::Slice);
        let word = memory.hot()[hit.entry as usize].state();
        let sides = memory.cold()[hit.entry as usize].connection(word, account.phase).sides;
        Snapshot { account, tcp: (account.original.protocol == protocol::TCP).then_some(sides) }
    }

    /// Puts a flow back. What it did meanwhile nobody has seen: an open connection goes on wherever
    /// its ends say.
    pub fn restore(&mut self, snapshot: &Snapshot, now: u64) -> Result<Inserted, Refused> {
        let Snapshot { account, .. } = snapshot;
        let (word, connection) = snapshot.resumed();
        let start = Start {
            original: account.original,
            reply: (account.reply != account.original.reversed()).then_some(account.reply),
            word,
            connection,
            route: Route::new(account.ports, account.mark),
            start: clock::to_start(account.start),
            last: clock::tick(account.last),
            packets: account.packets,
            bytes: account.bytes,
            reopens: false,
        };
        self.begin(start, now)
    }

    /// The flow in an entry, if one lives there. As with lookups, [`maintain`](Worker::maintain) or
    /// [`offline`](Worker::offline) must follow before long.
    pub fn flow_at(&self, entry: u32) -> Option<Hit> {
        let hot = self.table.memory.hot().get(entry as usize)?;
        hot.state().phase().map(|_| self.hit_of(entry))
    }

    /// Brings a flow up to what is known of it elsewhere, where its packets pass. One that has
    /// ended stays so: false.
    pub fn renew(&mut self, hit: &Hit, snapshot: &Snapshot) -> bool {
        // Its place in the index, for the hint.
        let Some(hit) = self.find(&Key::of(&self.original(hit))).filter(|found| found.id() == hit.id())
        else {
            return false;
        };
        let (word, connection) = snapshot.resumed();
        let memory = &self.table.memory;
        let (hot, cold) = (&memory.hot()[hit.entry as usize], &memory.cold()[hit.entry as usize]);
        let lives = |now| Word(now).phase().map(|_| word.0);
        if hot.state.fetch_update(AcqRel, Acquire, lives).is_err() {
            return false;
        }
        for (side, value) in connection.iter().flat_map(|connection| connection.sides.iter().enumerate()) {
            cold.set_side(side, value);
        }
        self.touch(&hit, snapshot.account.last);
        self.hint(&hit, !word.phase().is_some_and(Phase::is_strong));
        true
    }

    /// Has connections of TCP say anew where they are, for segments of them may have passed
    /// elsewhere: those in the next `count` entries, from this one on, the first time from 0.
    /// Returns where to go on, or `None` at the end.
    pub fn resume(&mut self, from: u32, count: u32, now: u64) -> Option<u32> {
        let mut found = Vec::new();
        let next = self.flows(from, count, now, &mut |hit, account| {
            if account.original.protocol == protocol::TCP {
                found.push(*hit);
            }
        });
        for hit in found {
            let snapshot = self.snapshot(&hit, now);
            self.renew(&hit, &snapshot);
        }
        next
    }

    /// There was a packet of a flow at this time, which passed elsewhere.
    pub fn touch(&self, hit: &Hit, last: u64) {
        let known = &self.table.memory.cold()[hit.entry as usize].last;
        let tick = clock::tick(last);
        if clock::idle(tick, known.load(Relaxed)) > 0 {
            known.store(tick, Relaxed);
        }
    }
}

impl Snapshot {
    /// As it goes on: its state, and its connection if it is one.
    fn resumed(&self) -> (Word, Option<Connection>) {
        let phase = self.account.phase;
        let connection = self.tcp.map(|sides| Connection { phase, sides, asked: 0 }.resumed());
        (connection.as_ref().map_or(Word::of(phase), Word::of_connection), connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Side;
    use crate::{End, Settings, Table, Tuple};

    const NOW: u64 = 1 << 40;

    fn snapshot(phase: Phase, tcp: Option<[Side; 2]>, last: u64) -> Snapshot {
        let protocol = if tcp.is_some() { protocol::TCP } else { protocol::UDP };
        let original = Tuple { source_port: 7, destination_port: 80, protocol, ..Tuple::default() };
        let account = Account {
            id: 0,
            original,
            reply: original.reversed(),
            start: NOW,
            last,
            packets: [0; 2],
            bytes: [0; 2],
            tcp_flags: [0; 2],
            phase,
            ports: [0, 1],
            mark: 3,
            end: End::Slice,
        };
        Snapshot { account, tcp }
    }

    #[test]
    fn what_passes_elsewhere_is_followed() {
        let table = Table::new(&Settings { memory: 4 << 20, ..Settings::default() }).unwrap();
        let mut worker = table.worker().unwrap();
        let side = |end| Side { end, ack: 5, window: 100, scale: 7, flags: 0x12 };
        for (first, then, sides) in [
            (Phase::Unreplied, Phase::Stream, None),
            (Phase::Opening, Phase::Open, Some([side(10), side(20)])),
        ] {
            let Ok(Inserted::New(hit)) = worker.restore(&snapshot(first, sides, NOW), NOW) else {
                panic!("there is none yet")
            };
            assert_eq!(worker.flow_at(hit.id()).map(|flow| flow.id()), Some(hit.id()));
            let later = NOW + (1 << 30);
            assert!(worker.renew(&hit, &snapshot(then, sides, later)));
            let after = worker.snapshot(&hit, later);
            assert_eq!((after.account.phase, after.account.last), (then, later));
            assert_eq!(after.tcp, sides.map(|sides| sides.map(|side| Side { window: 0, ..side })));
            worker.touch(&hit, NOW);
            assert_eq!(worker.snapshot(&hit, later).account.last, later, "an older packet is no news");
            worker.touch(&hit, later + (1 << 20));
            assert_eq!(worker.snapshot(&hit, 2 * later).account.last, later + (1 << 20));
            assert!(worker.end(&hit, End::Flushed));
            assert!(!worker.renew(&hit, &snapshot(then, sides, later)));
            assert!(worker.flow_at(hit.id()).is_none());
        }
    }

    #[test]
    fn connections_say_anew_where_they_are() {
        let table = Table::new(&Settings { memory: 4 << 20, ..Settings::default() }).unwrap();
        let mut worker = table.worker().unwrap();
        let side = Side { end: 10, ack: 5, window: 100, scale: 7, flags: 0x12 };
        let mut begun = |phase, tcp| match worker.restore(&snapshot(phase, tcp, NOW), NOW) {
            Ok(Inserted::New(hit)) => hit,
            _ => panic!("there is none yet"),
        };
        let (open, stream) = (begun(Phase::Open, Some([side; 2])), begun(Phase::Stream, None));
        for n in 0..2 {
            table.memory.cold()[open.entry as usize].set_side(n, &side);
        }
        assert_eq!(worker.snapshot(&open, NOW).tcp, Some([side; 2]));
        assert_eq!(worker.resume(0, u32::MAX, NOW), None);
        assert_eq!(worker.snapshot(&open, NOW).tcp, Some([Side { window: 0, ..side }; 2]));
        assert_eq!(worker.snapshot(&stream, NOW).account.phase, Phase::Stream);
        assert_eq!(worker.snapshot(&open, NOW).account.phase, Phase::Open);
    }
}
