//! Flows shared between two routers: each has the other's before it needs them.
//!
//! ```text
//! flow table --audit, what began, what ended--> book: news --parcels--> datagrams, sealed
//!                                                 |                        |
//!                                               sums <----- compared ----- | ------> the peer's
//! flow table <--put, renewed, ended-- parcels in order <---- datagrams, opened
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `sharer`, `status` | one router's part: when it looks, what it says of itself |
//! | `telling` | what is told to the other router |
//! | `hearing` | what is heard from it, and what becomes of that here |
//! | `contest` | flows whose packets have passed both routers |
//! | `book` | what was told and heard, and the sums that both have of it |
//! | `table` | the flow table, mappings and interfaces, as sharing needs them |
//! | `shared`, `message` | a flow as it is told of; all messages |
//! | `link` | two routers that have found each other |
//! | `stream`, `window` | what was lost comes again; nothing counts twice |
//! | `seal`, `key` | datagrams that only the key opens |
//!
//! No sockets and no clock are in here: whole conversations are tried in memory, on real tables.
//!
//! # What is told
//!
//! A flow is told of when it matters: when it is translated, or was answered. Then: other states, a
//! sign of life each quarter of its patience, and its end. TCP's numbers are not told again and
//! again. A connection that goes on at the other router is taken up as after a restart: each side
//! says where it is with its next segment, and until both have nothing is compared. For the same
//! reason a connection that closes is told of as open. Figures are not told either: each router
//! accounts for what it has carried.
//!
//! Who begins, and whom it concerns, is told within a step of 25 ms; an end, when the flow log
//! hears of it. All else is found by an audit that goes through the table all the time, a small
//! part in each step.
//!
//! # How it is known to be right
//!
//! Parcels come in order, each once. So the sender can say, in the midst of them, what all that it
//! has told of a slice (a 256th) of the flows comes to: how many, and the sum of a number that each
//! of them has. The receiver has the same sum of what it holds by then, *and that is what its audit
//! finds in the table*, or asks for the slice anew. Every slice is compared each ten seconds. The
//! transfer when two routers meet is nothing else: all 256 slices, told as if they had been asked
//! for.
//!
//! A partition is no event: parcels wait, and news wait where they are, in the tables. Only a start
//! of a router begins a session.
//!
//! # Whose a flow is
//!
//! That router's by which its packets pass. Nobody has to say which router is active, and nothing
//! changes hands at a takeover: packets come, and the flow is told of by the one that they come to.
//! What only a router that is gone had carried is told of by the other one, when a new one comes.
//!
//! Packets may come to one router, to the other, and back: within a moment, when routers change, or
//! each direction by one of them. Each of the two tells of the flow then, and neither may compare
//! numbers with those that passed before at the other one. `contest` sees to that, and to that one
//! of them lets the flow go when no more packets come to it.

mod book;
mod bytes;
mod contest;
mod hearing;
mod key;
mod link;
mod message;
mod seal;
mod shared;
mod sharer;
mod status;
mod stream;
mod table;
mod telling;
mod window;

pub use key::{Key, KeyError};
pub use seal::{Epoch, LONGEST};
pub use shared::Flow;
pub use sharer::{ALONE, Sharer};
pub use status::{Figures, State, Status};
pub use table::Here;

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dropped {
    /// It is no datagram of this protocol, or says what cannot be.
    Malformed,
    /// It is of another version of the protocol.
    Version,
    /// Its seal is broken: it was made with another key, or changed on the way.
    Seal,
    /// It has come before, or is of a session that is over.
    Replayed,
    /// This router sent it itself.
    Own,
    /// It came from another address than the peer's.
    Stranger,
}

impl Dropped {
    /// Every reason.
    pub const ALL: [Dropped; 6] = [
        Dropped::Malformed,
        Dropped::Version,
        Dropped::Seal,
        Dropped::Replayed,
        Dropped::Own,
        Dropped::Stranger,
    ];

    /// The name shown to operators.
    pub const fn name(self) -> &'static str {
        match self {
            Dropped::Malformed => "malformed",
            Dropped::Version => "version",
            Dropped::Seal => "seal",
            Dropped::Replayed => "replayed",
            Dropped::Own => "own",
            Dropped::Stranger => "stranger",
        }
    }
}

/// Reads bytes as a datagram, as one that opens, and as a parcel. For fuzzing.
pub fn fuzz(bytes: &[u8]) {
    use message::Message;
    // Invariant: it is a key.
    let Ok(key) = "0123456789abcdef".repeat(4).parse::<Key>() else { return };
    let mut link = link::Link::new(&key, Epoch([1; 16]));
    let _ = link.hear(bytes, 0);
    let body = &bytes[..bytes.len().min(seal::BODY)];
    let _ = link.hear(&seal::Seal::new(&key).close(Epoch([2; 16]), 1, body), 0);
    if let Some(messages) = Message::all(bytes) {
        let mut again = Vec::new();
        messages.iter().for_each(|message| message.put(&mut again));
        assert_eq!(Message::all(&again), Some(messages));
    }
}
