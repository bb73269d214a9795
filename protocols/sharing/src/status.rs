//! What there is to say of sharing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Dropped;

/// How two routers stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The peer has not been heard since the start.
    Alone,
    /// Flows that there were before are on their way.
    Joining,
    /// Each has what the other has told.
    Shared,
    /// The last comparison found differences.
    Differs,
    /// The peer is not heard any more.
    Silent,
}

impl State {
    /// Every state.
    pub const ALL: [State; 5] = [State::Alone, State::Joining, State::Shared, State::Differs, State::Silent];

    /// The name shown to operators.
    pub const fn name(self) -> &'static str {
        match self {
            State::Alone => "alone",
            State::Joining => "joining",
            State::Shared => "shared",
            State::Differs => "differs",
            State::Silent => "silent",
        }
    }
}

/// How it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// How the two stand to each other.
    pub state: State,
    /// Nanoseconds since the peer was heard.
    pub heard: Option<u64>,
    /// Nanoseconds for which the oldest news has waited that the peer does not have.
    pub lag: u64,
    /// Its numbers.
    pub figures: Figures,
    /// Datagrams that were dropped, by reason.
    pub dropped: BTreeMap<Dropped, u64>,
}

/// Flows, comparisons and datagrams, in numbers. All from `sessions` on count up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Flows of which there is news to tell.
    pub waiting: u64,
    /// Flows that are carried here and that the peer was told of.
    pub told: u64,
    /// Flows that the peer carries and that are here.
    pub held: u64,
    /// Slices of 256 that the peer has told whole.
    pub joined: u64,
    /// Slices of 256 that differed when they were compared last.
    pub differing: u64,
    /// Flows by which they did, at least.
    pub missing: u64,
    /// How often one of the two has met the other anew.
    pub sessions: u64,
    /// Slices compared; each again every ten seconds.
    pub compared: u64,
    /// Slices that were told anew, for they differed.
    pub repaired: u64,
    /// Flows of the peer's that found no place here: their translation is another flow's, or there
    /// is no room.
    pub refused: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received and believed.
    pub received: u64,
    /// Parcels that were lost on the way and sent again.
    pub resent: u64,
}
