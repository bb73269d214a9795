//! When may memory that was made invisible be used again? When no reader can still hold an index to
//! it.
//!
//! *Workers* announce quiescent states (QSBR): between two batches a worker holds no index, and
//! says so by copying the writer's epoch into its own word: one load and one store a batch. What
//! was retired before epoch e is free once every worker that is online has announced e.
//!
//! *The driver's program* runs inside an RCU read section; membarrier(MEMBARRIER_CMD_GLOBAL)
//! returns after a full RCU grace period. That takes tens of milliseconds, so a thread of its own
//! waits, and the writer never does unless it is out of memory. Kernels with nohz_full refuse the
//! call; then a second is let pass instead, which is a few hundred thousand times what the program
//! runs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A worker's word while it reads nothing.
const OFFLINE: u64 = u64::MAX;

/// Something to reuse after a grace period.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Retired {
    Block4(u32),
    Line6(u32),
    Direct6(u32),
    Buckets { base: u32, log2: u8 },
    NextHop(u32),
    Adjacency(u32),
    Tags(u32),
    Tunnel(u32),
}

/// The part that readers touch.
pub(crate) struct Epochs {
    now: AtomicU64,
    workers: Mutex<Vec<Arc<Seen>>>,
}

/// One worker's last announcement, on a cache line of its own.
#[repr(align(128))]
struct Seen(AtomicU64);

impl Epochs {
    pub(crate) fn new() -> Epochs {
        Epochs { now: AtomicU64::new(1), workers: Mutex::new(Vec::new()) }
    }

    pub(crate) fn register(self: &Arc<Self>) -> Reader {
        let seen = Arc::new(Seen(AtomicU64::new(OFFLINE)));
        self.workers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(seen.clone());
        let reader = Reader { epochs: self.clone(), seen };
        reader.online();
        reader
    }

    /// The epoch that every online worker has reached.
    fn reached(&self) -> u64 {
        let workers = self.workers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        workers.iter().map(|seen| seen.0.load(Ordering::SeqCst)).min().unwrap_or(OFFLINE)
    }
}

/// A worker's registration as others see it.
#[derive(Clone)]
pub struct Presence(Arc<Seen>);

impl Presence {
    /// The worker's thread never runs again: nobody need wait for it.
    pub fn end(&self) {
        self.0.0.store(OFFLINE, Ordering::SeqCst);
    }
}

/// A worker's registration: what keeps memory that it may be reading from being used again. It
/// begins online.
pub struct Reader {
    epochs: Arc<Epochs>,
    seen: Arc<Seen>,
}

impl Reader {
    /// The registration as others see it.
    pub fn presence(&self) -> Presence {
        Presence(self.seen.clone())
    }

    /// Between two batches: this worker holds nothing it read from the tables.
    #[inline]
    pub fn quiescent(&self) {
        self.seen.0.store(self.epochs.now.load(Ordering::Acquire), Ordering::Release);
    }

    /// Before sleeping: the writer need not wait for this worker until [`online`](Self::online).
    pub fn offline(&self) {
        self.seen.0.store(OFFLINE, Ordering::Release);
    }

    /// After sleeping, before the first lookup.
    pub fn online(&self) {
        self.seen.0.store(self.epochs.now.load(Ordering::SeqCst), Ordering::SeqCst);
        // The announcement must be visible before the first index is read.
        fence(Ordering::SeqCst);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut workers = self.epochs.workers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        workers.retain(|seen| !Arc::ptr_eq(seen, &self.seen));
    }
}

/// The writer's part: what waits, and since when.
pub(crate) struct Grace {
    epochs: Arc<Epochs>,
    driver: Option<DriverGrace>,
    /// Retired since the last epoch began.
    open: Vec<Retired>,
    /// Retired before the epoch that stands beside it.
    closed: VecDeque<(u64, Vec<Retired>)>,
}

impl Grace {
    pub(crate) fn new(epochs: Arc<Epochs>, driver: bool) -> Grace {
        Grace { epochs, driver: driver.then(DriverGrace::new), open: Vec::new(), closed: VecDeque::new() }
    }

    pub(crate) fn retire(&mut self, item: Retired) {
        self.open.push(item);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.closed.is_empty()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.open.len()
    }

    /// What nobody can see any more. Never waits.
    pub(crate) fn collect(&mut self) -> Vec<Retired> {
        // One membarrier serves all that was retired while the one before it ran.
        if !self.open.is_empty() && self.closed.len() < 2 {
            let epoch = self.epochs.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.closed.push_back((epoch, std::mem::take(&mut self.open)));
            if let Some(driver) = &self.driver {
                driver.request(epoch);
            }
        }
        let driver = self.driver.as_ref().map_or(OFFLINE, DriverGrace::reached);
        let mut free = Vec::new();
        while let Some((epoch, items)) = self.closed.front_mut() {
            if *epoch > driver || *epoch > self.epochs.reached() {
                break;
            }
            free.append(items);
            self.closed.pop_front();
        }
        free
    }

    /// As [`collect`](Self::collect), but gives readers up to `patience` to pass. For when memory
    /// has run out.
    pub(crate) fn collect_within(&mut self, patience: Duration) -> Vec<Retired> {
        let deadline = Instant::now() + patience;
        let mut free = self.collect();
        while !self.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(50));
            free.append(&mut self.collect());
        }
        free
    }

    /// Everything that waits, at once. For when memory has run out and a reader has been silent for
    /// so long that it must be dead: should it live, it may read a stale answer, but never outside
    /// its array (see the crate's essay).
    pub(crate) fn collect_anyway(&mut self) -> Vec<Retired> {
        let mut free = std::mem::take(&mut self.open);
        self.closed.drain(..).for_each(|(_, mut items)| free.append(&mut items));
        free
    }

    pub(crate) fn bytes(&self) -> usize {
        let items: usize = self.closed.iter().map(|(_, items)| items.capacity()).sum();
        (items + self.open.capacity()) * size_of::<Retired>()
    }
}

/// The thread that waits for the kernel's grace periods.
struct DriverGrace {
    requests: Option<Sender<u64>>,
    reached: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl DriverGrace {
    fn new() -> DriverGrace {
        let (requests, wanted) = channel::<u64>();
        let reached = Arc::new(AtomicU64::new(0));
        let done = reached.clone();
        let thread = std::thread::Builder::new().name("fib-grace".into()).spawn(move || {
            while let Ok(mut epoch) = wanted.recv() {
                epoch = wanted.try_iter().last().unwrap_or(epoch);
                wait_for_driver();
                done.store(epoch, Ordering::Release);
            }
        });
        // Without the thread nothing is ever reused: the tables fill up sooner, but stay right.
        DriverGrace { requests: Some(requests), reached, thread: thread.ok() }
    }

    fn request(&self, epoch: u64) {
        if let Some(requests) = &self.requests {
            // Fails only when the thread could not be started (see `new`).
            let _ = requests.send(epoch);
        }
    }

    fn reached(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }
}

impl Drop for DriverGrace {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until every program in the driver that runs now has ended: tens of milliseconds.
pub fn wait_for_driver() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: takes no pointers.
    if unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) } != 0 {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_reused_while_a_worker_may_see_it() {
        let epochs = Arc::new(Epochs::new());
        let mut grace = Grace::new(epochs.clone(), false);
        let (one, two) = (epochs.register(), epochs.register());
        grace.retire(Retired::Line6(7));
        assert!(grace.collect().is_empty());
        one.quiescent();
        assert!(grace.collect().is_empty());
        two.quiescent();
        assert!(matches!(grace.collect()[..], [Retired::Line6(7)]));
    }

    #[test]
    fn a_sleeping_or_gone_worker_holds_nothing_up() {
        let epochs = Arc::new(Epochs::new());
        let mut grace = Grace::new(epochs.clone(), false);
        let (asleep, gone) = (epochs.register(), epochs.register());
        asleep.offline();
        grace.retire(Retired::Line6(1));
        assert!(grace.collect().is_empty());
        drop(gone);
        assert_eq!(grace.collect().len(), 1);
        asleep.online();
        grace.retire(Retired::Line6(2));
        assert!(grace.collect().is_empty());
    }

    #[test]
    fn a_worker_that_never_runs_again_holds_nothing_up() {
        let epochs = Arc::new(Epochs::new());
        let mut grace = Grace::new(epochs.clone(), false);
        let stuck = epochs.register();
        grace.retire(Retired::Line6(1));
        assert!(grace.collect().is_empty());
        stuck.presence().end();
        assert_eq!(grace.collect().len(), 1);
    }

    #[test]
    fn the_driver_is_waited_for_by_the_kernels_grace_period() {
        let mut grace = Grace::new(Arc::new(Epochs::new()), true);
        grace.retire(Retired::Block4(3));
        assert_eq!(grace.collect_within(Duration::from_secs(5)).len(), 1);
    }
}
