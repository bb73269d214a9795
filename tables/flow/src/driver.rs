//! The table as the driver's program has it as well (`forwarding/bpf/flows.h`).
//!
//! What a worker does for the packet of a flow that is open and decided is little, and costs far
//! less than to bring the packet to it where that means a copy. So the program in the driver may do
//! it, in the same entries: then the arrays lie in mmapable bpf arrays, and there is no copy that
//! could be out of date. What it costs:
//!
//! - 4 KiB pages, as bpf arrays are, instead of huge ones: some more misses of the TLB a lookup.
//! - Counts are added by locked instructions, since worker and program may carry packets of one
//!   direction at the same time, and a side's TCP numbers go up by exchange. Both only here: a
//!   table of the workers' own does neither.
//! - Nobody waits for the program before an entry is used again: a grace period of the kernel's
//!   takes tens of milliseconds, on a busy machine seconds, and a flood of new flows would find the
//!   table full meanwhile. So the program compares the key once more when it has read all it wants,
//!   before it changes anything. What it counts in the very moment in which a flow's account is
//!   made is in no account.

use abi::flow::Door;

use crate::hash::Hash;
use fib::Region;
use std::any::Any;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Memory that the driver's program reads and writes: mappings of the bpf arrays of the same names.
pub struct DriverMemory {
    /// The parts of entries that are read at every packet.
    pub hot: Region,
    /// Those that are written.
    pub cold: Region,
    /// Buckets.
    pub buckets: Region,
    /// What the lookup needs: [`Door::BYTES`].
    pub door: Region,
    /// ns of the monotonic clock when the table's clock was 0.
    pub origin: u64,
    /// Keeps the mappings alive; dropped with the table.
    pub owner: Box<dyn Any + Send + Sync>,
}

impl DriverMemory {
    /// Bytes of what the lookup needs.
    pub const DOOR: usize = size_of::<Door>();

    /// Lets the program look up: it finds nothing before.
    pub(crate) fn open(&self, hash: &Hash, buckets: usize) {
        assert!(self.door.bytes() >= Self::DOOR);
        // SAFETY: page-aligned, large enough, mapped as long as `self`, and made of atomics.
        let door = unsafe { self.door.base().cast::<Door>().as_ref() };
        door.origin.store(self.origin, Relaxed);
        let (keys, keys4, finish) = hash.secret();
        door.keys.iter().zip(keys).for_each(|(to, from)| to.store(from, Relaxed));
        door.keys4.iter().zip(keys4).for_each(|(to, from)| to.store(from, Relaxed));
        door.finish.iter().zip(finish).for_each(|(to, from)| to.store(from, Relaxed));
        door.buckets.store(buckets as u32, Release);
    }
}
