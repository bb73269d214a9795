//! The forwarding core's end of the log: a bounded queue without locks for each worker.
//!
//! To log a flow costs the core one comparison (sampling), one copy of about 250 bytes into memory,
//! and one compare-and-swap that nobody contends; no call into the kernel, for the log's thread
//! looks by itself. A full queue costs a counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crossbeam_queue::ArrayQueue;

use crate::record::Record;

/// One worker's queue.
#[derive(Debug)]
pub(crate) struct Lane {
    pub records: ArrayQueue<Record>,
    pub offered: AtomicU64,
    pub unsampled: AtomicU64,
    pub lost: AtomicU64,
    /// Log one flow in so many; changed by whoever configures the log.
    pub one_in: AtomicU32,
}

/// Where one worker leaves the flows that ended. Made by [`crate::FlowLog::sender`]; one for each
/// thread.
#[derive(Debug)]
pub struct Sender {
    lane: Arc<Lane>,
}

impl Sender {
    pub(crate) fn new(capacity: usize, one_in: u32) -> (Sender, Arc<Lane>) {
        let lane = Arc::new(Lane {
            records: ArrayQueue::new(capacity.max(1)),
            offered: AtomicU64::new(0),
            unsampled: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            one_in: AtomicU32::new(one_in.max(1)),
        });
        (Sender { lane: Arc::clone(&lane) }, lane)
    }

    /// Whether this flow is one of those to be logged: ask before a record is put together at some
    /// cost.
    ///
    /// Sampling chooses flows by their number, so that either all slices of a flow are logged or
    /// none.
    #[inline]
    pub fn wants(&self, flow: u64) -> bool {
        let one_in = u64::from(self.lane.one_in.load(Relaxed));
        one_in <= 1 || mixed(flow).is_multiple_of(one_in)
    }

    /// Logs a flow. False: it was not chosen by sampling, or the queue is full; both are counted.
    #[inline]
    pub fn push(&mut self, record: Record) -> bool {
        // Only whoever has the sender writes these: a load and a store will do.
        let bump = |counter: &AtomicU64| counter.store(counter.load(Relaxed) + 1, Relaxed);
        bump(&self.lane.offered);
        if !self.wants(record.flow) {
            bump(&self.lane.unsampled);
            return false;
        }
        let taken = self.lane.records.push(record).is_ok();
        if !taken {
            bump(&self.lane.lost);
        }
        taken
    }
}

/// Spreads numbers that count up (the finalizer of SplitMix64: Steele, Lea and Flood, 2014).
fn mixed(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
