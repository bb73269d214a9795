//! What is said of a flow to others: when it ends, when it has lived for another active timeout,
//! when it is shown.

use crate::{End, Phase, Tuple};
use serde::{Deserialize, Serialize};

/// A flow's figures. Of pairs, the first is of the original direction, the second of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Tells it from every other flow of this table that lives at the same time.
    pub id: u32,
    /// As the first packet came.
    pub original: Tuple,
    /// As answers come: the reversed original, unless the flow is translated, or leaves by an
    /// interface that another table routes.
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
    /// The port its first packet came by, and the one it left by; [`NO_PORT`](crate::NO_PORT) where
    /// not known.
    pub ports: [u16; 2],
    /// The mark that rules gave it.
    pub mark: u8,
    /// Why this account is given; [`End::Slice`] also for a flow that is only shown.
    pub end: End,
}

impl Account {
    /// Whether its addresses or ports are translated.
    pub fn is_translated(&self) -> bool {
        !self.reply.says_the_same(&self.original.reversed())
    }

    /// Whether its destination is translated.
    pub fn has_dnat(&self) -> bool {
        self.original.has_dnat(&self.reply)
    }
}
