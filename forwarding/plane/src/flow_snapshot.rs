//! A flow that lives, for packets of it that are only thought of.

use std::sync::Arc;

use flow::{Direction, Key, Phase, Snapshot, Table, Tuple, Worker};
use nat::Nat;
use rules::FlowState;
use wire::protocol;

/// A flow, and which way a packet of it goes.
#[derive(Clone, Copy, Debug)]
pub struct FlowSnapshot {
    snapshot: Snapshot,
    direction: Direction,
}

impl FlowSnapshot {
    /// The flow that a packet would belong to: not one of TCP that is over, or that it would open
    /// once more.
    pub(crate) fn of(table: &Arc<Table>, packet: &Tuple) -> Option<FlowSnapshot> {
        let mut worker = table.worker().ok()?;
        let hit = worker.find(&Key::of(packet))?;
        let snapshot = worker.snapshot(&hit, graph::steady_now());
        let begins = match snapshot.account.phase {
            Phase::Opening => hit.direction == Direction::Original,
            phase => matches!(phase, Phase::Finished | Phase::Reset),
        };
        (!begins).then_some(FlowSnapshot { snapshot, direction: hit.direction })
    }

    /// As its first packet went.
    pub fn original(&self) -> Tuple {
        self.snapshot.account.original
    }

    /// Whether its destination is translated.
    pub fn has_dnat(&self) -> bool {
        self.snapshot.account.has_dnat()
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        self.snapshot.account.phase
    }

    /// What the packet says as it leaves.
    pub fn leaving(&self) -> Tuple {
        let account = &self.snapshot.account;
        match self.direction {
            Direction::Original => account.reply.reversed(),
            Direction::Reply => account.original.reversed(),
        }
    }

    /// What the rules call it.
    pub fn state(&self) -> FlowState {
        match (self.phase(), self.direction) {
            (Phase::Unreplied, Direction::Original) => FlowState::New,
            _ => FlowState::Established,
        }
    }

    /// The numbers of the segment that comes next this way: its own and what it acknowledges.
    pub fn numbers(&self) -> Option<[u32; 2]> {
        let sides = self.snapshot.tcp.filter(|_| self.original().protocol == protocol::TCP)?;
        Some([self.direction, self.direction.reversed()].map(|side| sides[side as usize].end))
    }

    /// Puts it into a table of its own, and its translation among these bindings.
    pub(crate) fn put_into(&self, worker: &mut Worker, bindings: &Nat) {
        let (account, now) = (&self.snapshot.account, graph::steady_now());
        if account.is_translated() {
            bindings.restore(&account.original, &account.reply, now);
        }
        // A table that is empty has room.
        let _ = worker.restore(&self.snapshot, now);
    }
}
