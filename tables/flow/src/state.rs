//! How far a flow is.

use abi::flow::phase;
use serde::{Deserialize, Serialize};

/// A packet's relation to what went before it, as a filter sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It opens a flow, or belongs to one that has not been answered yet.
    New,
    /// It belongs to a flow that has been seen in both directions.
    Established,
    /// An ICMP error about a packet of a flow.
    Related,
    /// It claims to belong to a flow but cannot: out of the window, flags that contradict each
    /// other, an answer without a question, a segment in mid-stream where those are not picked up.
    Invalid,
}

/// How far a flow is. It decides which timeout holds, and who goes first when the table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Phase {
    /// TCP: SYN sent, not answered with SYN and ACK.
    Opening = 1,
    /// TCP: SYN answered, the answer not acknowledged.
    Answered = 2,
    /// TCP: open.
    Open = phase::OPEN,
    /// TCP: FIN seen from one side or both, not all acknowledged.
    Closing = phase::CLOSING,
    /// TCP: FIN of both sides acknowledged.
    Finished = 5,
    /// TCP: reset.
    Reset = 6,
    /// Others: not answered.
    Unreplied = phase::UNREPLIED,
    /// Others: answered.
    Replied = phase::REPLIED,
    /// Others: answered, and gone on after that.
    Stream = phase::STREAM,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Phase; 9] = [
        Phase::Opening,
        Phase::Answered,
        Phase::Open,
        Phase::Closing,
        Phase::Finished,
        Phase::Reset,
        Phase::Unreplied,
        Phase::Replied,
        Phase::Stream,
    ];

    /// The name shown to operators.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Opening => "opening",
            Phase::Answered => "answered",
            Phase::Open => "open",
            Phase::Closing => "closing",
            Phase::Finished => "finished",
            Phase::Reset => "reset",
            Phase::Unreplied => "unreplied",
            Phase::Replied => "replied",
            Phase::Stream => "stream",
        }
    }

    /// Whether both sides have shown that they want this flow, so that it outlives any number of
    /// new ones. A spoofed source can bring about an answer, but not what follows it.
    pub(crate) const fn is_strong(self) -> bool {
        matches!(self, Phase::Open | Phase::Closing | Phase::Stream)
    }

    /// Whether the connection is over, and waits only for what may still be under way.
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Phase::Finished | Phase::Reset)
    }
}

/// Why a record was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum End {
    /// Not ended: it has lived for another active timeout.
    Slice = 0,
    /// No packet for as long as its phase allows.
    Idle = 1,
    /// TCP: closed by both sides.
    Fin = 2,
    /// TCP: reset.
    Rst = 3,
    /// Made room for another flow.
    Evicted = 4,
    /// By order of the operator or of the program.
    Flushed = 5,
}

impl End {
    /// Every reason.
    pub const ALL: [End; 6] = [End::Slice, End::Idle, End::Fin, End::Rst, End::Evicted, End::Flushed];

    /// The name shown to operators.
    pub const fn name(self) -> &'static str {
        match self {
            End::Slice => "active",
            End::Idle => "idle",
            End::Fin => "fin",
            End::Rst => "rst",
            End::Evicted => "evicted",
            End::Flushed => "flushed",
        }
    }
}
