//! The flow table's memory, and the words in it.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

constants! {
    words, "FLOW_";
    /// Slots of a bucket.
    SLOTS: usize = 12;
    /// The bits of a slot that are the entry's index.
    ENTRY: u32 = (1 << 28) - 1;
    /// In `meta`: the addresses are IPv6.
    V6: u32 = 1 << 8;
    /// In `meta`: the original tuple's source is the higher end.
    SWAPPED: u32 = 1 << 9;
    /// In `meta`: the reply's key is in the upper addresses.
    REPLY_HERE: u32 = 1 << 10;
    /// In `meta`: the reply's key is in an alias.
    REPLY_IN_ALIAS: u32 = 1 << 11;
    /// In `meta`: the source of the reply is the higher end.
    REPLY_SWAPPED: u32 = 1 << 12;
    /// In `meta`: whose reply this is stands in `decisions[0]`.
    ALIAS: u32 = 1 << 13;
    /// The bits of `meta` that are the key's.
    KEY_BITS: u32 = 0x0fff_00ff | V6;
    /// Either of the two ways to be translated.
    TRANSLATED: u32 = REPLY_HERE | REPLY_IN_ALIAS;
    /// The phase of an entry that is an alias.
    ALIAS_PHASE: u32 = 10;
    /// The least that lower bounds of TCP's window allow (van Rooij: MAXACKWINDOW).
    SLACK: u32 = 66_000;
}

/// Phases of flows that are offloaded to the driver.
pub mod phase {
    constants! {
        phases, "PHASE_";
        /// TCP: open.
        OPEN: u8 = 3;
        /// TCP: FIN seen from one side or both, not all acknowledged.
        CLOSING: u8 = 4;
        /// Others: not answered.
        UNREPLIED: u8 = 7;
        /// Others: answered.
        REPLIED: u8 = 8;
        /// Others: answered, and gone on after that.
        STREAM: u8 = 9;
    }
}
pub(crate) use phase::phases;

/// What a verdict's word says: the code point from bit 16 on, below it the port that packets leave
/// by.
pub mod verdict {
    constants! {
        verdicts, "VERDICT_";
        /// There is one.
        KNOWN: u64 = 1 << 63;
        /// The flow has not been answered yet; else it has.
        NEW: u64 = 1 << 24;
        /// There is a code point.
        DSCP: u64 = 1 << 25;
    }
}
pub(crate) use verdict::verdicts;

/// What a flow's word of a direction is made of.
pub mod decision {
    constants! {
        decisions, "DECISION_";
        /// Bits that are the verdict's number; the generation of the rules is above.
        NUMBER: u32 = 14;
    }
}
pub(crate) use decision::decisions;

layouts! {
    layouts;

    /// The part of an entry that is read at every packet.
    #[derive(Default)]
    #[align(64)]
    pub struct Hot as "flow_hot" {
        /// Of the key; see the flow table.
        addresses: [AtomicU64; 4],
        /// Of the key.
        ports: AtomicU32,
        /// Of the key, and how the reply is found.
        meta: AtomicU32,
        /// The phase, window scales, TCP's flags.
        state: AtomicU32,
        /// Where the flow goes, or its alias.
        route: AtomicU32,
        /// What the rules came to, of each direction.
        decisions: [AtomicU32; 2],
        /// When it began.
        start: AtomicU64,
    }

    /// The part that is written at every packet.
    #[derive(Default)]
    #[align(16)]
    pub struct Cold as "flow_cold" {
        /// When the last packet came.
        last: AtomicU32,
        /// TCP's largest windows.
        windows: [AtomicU16; 2],
        /// Packets of each direction.
        packets: [AtomicU32; 2],
        /// Bytes, and the packets' upper bits.
        volume: [AtomicU64; 2],
        /// TCP's ends and acknowledgements.
        numbers: [AtomicU64; 2],
    }

    /// A bucket of the index, one cache line.
    #[derive(Default)]
    #[align(64)]
    pub struct Bucket as "flow_bucket" {
        /// Tags of the first eight slots.
        eight: AtomicU64,
        /// Tags of the other four.
        four: AtomicU32,
        /// Who inserts holds it.
        lock: AtomicU32,
        /// Entries, and more of their tags.
        slots: [AtomicU32; SLOTS],
    }

    /// What the driver's lookup needs.
    pub struct Door as "flow_door" {
        /// ktime at which the table's clock was 0.
        origin: AtomicU64,
        /// Of the hash.
        finish: [AtomicU64; 2],
        /// Of the hash.
        keys: [AtomicU32; 10],
        /// Of the hash, for IPv4.
        keys4: [AtomicU32; 4],
        /// How many there are; 0: no table yet.
        buckets: AtomicU32,
        /// Nothing.
        pad: AtomicU32,
    }
}
