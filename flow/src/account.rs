//! What is said of a flow to others: when it ends, when it has lived for another active timeout, when it is shown.

use crate::{End, Phase, Tuple};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A flow's figures. Of pairs, the first is of the original direction, the second of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Tells it from every other flow of this table that lives at the same time.
    pub id: u32,
    /// As the first packet came.
    pub original: Tuple,
    /// As answers come: the reversed original, unless the flow is translated.
    pub reply: Tuple,
    /// When the flow began, in ns of the clock that the table is given; exact to 128 ns.
    pub start: u64,
    /// When its last packet came, in ns; exact to 262 µs.
    pub last: u64,
    /// Packets since the start.
    pub packets: [u64; 2],
    /// Bytes of IP packets with their headers since the start.
    pub bytes: [u64; 2],
    /// TCP flags seen ([`wire::tcp::flag`]), all packets together.
    pub tcp_flags: [u8; 2],
    /// How far the flow is, or was when it ended.
    pub phase: Phase,
    /// The port its first packet came by, and the one it left by; [`NO_PORT`](crate::NO_PORT) where not known.
    pub ports: [u16; 2],
    /// The mark that rules gave it.
    pub mark: u8,
    /// Why this account is given; [`End::Slice`] also for a flow that is only shown.
    pub end: End,
}

impl Account {
    /// Whether its addresses or ports are translated.
    pub fn is_translated(&self) -> bool {
        self.reply != self.original.reversed()
    }
}

/// Turns the totals of accounts into what was added since the flow's account before: a collector wants each packet counted
/// in one record.
///
/// The table itself keeps totals only. To begin anew at each active timeout would need a baseline in every entry, though few
/// flows live so long, or resetting counters that two workers are writing. And should an account be lost on the way to
/// the collector, the next one makes up for it.
#[derive(Debug, Default)]
pub struct Deltas(HashMap<u32, Before>);

#[derive(Clone, Copy, Debug)]
struct Before {
    start: u64,
    last: u64,
    packets: [u64; 2],
    bytes: [u64; 2],
}

impl Deltas {
    /// The account with packets and bytes, and from when on, of its own time alone; `None` if nothing was added since.
    pub fn of(&mut self, account: &Account) -> Option<Account> {
        let before = match account.end {
            End::Slice => self.0.insert(
                account.id,
                Before {
                    start: account.start,
                    last: account.last,
                    packets: account.packets,
                    bytes: account.bytes,
                },
            ),
            _ => self.0.remove(&account.id),
        };
        // An account of the same id that began at another time was of another flow, whose end got lost.
        let Some(before) = before.filter(|before| before.start == account.start) else {
            return Some(*account);
        };
        let since =
            |now: [u64; 2], before: [u64; 2]| [0, 1].map(|side| now[side].saturating_sub(before[side]));
        let (packets, bytes) = (since(account.packets, before.packets), since(account.bytes, before.bytes));
        let added = packets != [0, 0] || account.end != End::Slice;
        added.then_some(Account { start: before.last, packets, bytes, ..*account })
    }

    /// Flows that are remembered.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
