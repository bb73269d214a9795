//! The table as the driver's program has it as well (`bpf/flows.h`).
//!
//! What a worker does for the packet of a flow that is open and decided is little, and costs far less than to bring the packet
//! to it where that means a copy. So the program in the driver may do it, in the same entries: then the arrays lie in mmapable
//! bpf arrays, and there is no copy that could be out of date. What it costs:
//!
//! - 4 KiB pages, as bpf arrays are, instead of huge ones: some more misses of the TLB a lookup.
//! - Counts are added by locked instructions, since worker and program may carry packets of one direction at the same time, and
//!   a side's TCP numbers go up by exchange. Both only here: a table of the workers' own does neither.
//! - Who ends flows waits for the kernel's RCU as for one more worker: membarrier(2) returns after a grace period. That takes
//!   tens of milliseconds, so a thread of its own waits.

use crate::grace::Epochs;
use crate::hash::Hash;
use fib::Region;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often is looked whether anything has ended.
const LOOK: Duration = Duration::from_millis(5);

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

/// `struct flow_door` in `bpf/flows.h`.
#[repr(C)]
pub(crate) struct Door {
    origin: AtomicU64,
    finish: [AtomicU64; 2],
    keys: [AtomicU32; 10],
    keys4: [AtomicU32; 4],
    buckets: AtomicU32,
    pad: AtomicU32,
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

/// The thread that waits for the driver in the name of its program.
pub(crate) struct Keeper {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Takes a place among the workers.
    pub(crate) fn start(epochs: &Arc<Epochs>, place: usize) -> std::io::Result<Keeper> {
        let over = Arc::new(AtomicBool::new(false));
        let (epochs, end) = (epochs.clone(), over.clone());
        let thread = std::thread::Builder::new().name("flow-grace".into()).spawn(move || {
            let mut seen = epochs.epoch();
            epochs.announce(place, seen);
            while !end.load(Relaxed) {
                let now = epochs.epoch();
                if now == seen {
                    std::thread::park_timeout(LOOK);
                    continue;
                }
                // What the program began to look at before this epoch, it has left when this returns.
                fib::wait_for_driver();
                seen = now;
                epochs.announce(place, seen);
            }
        })?;
        Ok(Keeper { over, thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It panics nowhere.
            let _ = thread.join();
        }
    }
}
