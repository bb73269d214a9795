//! Flows that outlive the program: written down as plain values, and put back.

use crate::entry::{Route, State as Word, clock};
use crate::insert::Start;
use crate::tcp::{Connection, Side};
use crate::{Account, Hit, Inserted, Refused, Worker};
use serde::{Deserialize, Serialize};
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
        let Snapshot { account, tcp } = snapshot;
        let connection = tcp.map(|sides| Connection { phase: account.phase, sides, asked: 0 }.resumed());
        let start = Start {
            original: account.original,
            reply: (account.reply != account.original.reversed()).then_some(account.reply),
            word: connection.as_ref().map_or(Word::of(account.phase), Word::of_connection),
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
}
