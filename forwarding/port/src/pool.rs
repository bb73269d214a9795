//! This thread's packet memory.
//!
//! Memory is cut into slices, one a worker. A `Slice` owns its chunks for ever; a [`Pool`] is the
//! right to hand them out, held by one thread at a time. While installed, taking and giving a chunk
//! is a push or pop on a stack that only this thread touches: no atomics, and the chunk given last
//! (warm in the cache) is taken first.
//!
//! Whatever happens to a thread, no chunk is handed out twice: chunks come home to the slice's
//! `strays` from any thread (a packet dropped elsewhere, a socket closed after its worker died),
//! and a slice's memory stays mapped while any of them is out.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fib::Mapping;

use crate::packet::{CHUNK, Header};

/// The owner of some bytes of packet memory: it unmaps or frees them when the last slice goes.
pub(crate) trait Region: Send + Sync {}

/// Chunks in a row: the packet memory that a socket is given.
#[derive(Clone)]
pub(crate) struct Span {
    base: NonNull<u8>,
    bytes: usize,
    _region: Arc<dyn Region>,
}

// SAFETY: `base` is only an address here; chunks are reached through their one owner.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// `bytes` bytes of a region, from `base` on.
    ///
    /// # Safety
    /// They are inside the region, and whole chunks.
    pub(crate) unsafe fn new(base: NonNull<u8>, bytes: usize, region: Arc<dyn Region>) -> Span {
        Span { base, bytes, _region: region }
    }

    /// The first byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The chunk that holds the byte at `offset`, if it is here.
    #[inline]
    pub(crate) fn chunk_at(&self, offset: u64) -> Option<NonNull<u8>> {
        let offset = usize::try_from(offset).ok().filter(|&at| at < self.bytes)?;
        // SAFETY: in bounds, as just checked.
        Some(unsafe { self.base.add(offset & !(CHUNK - 1)) })
    }
}

/// A run of chunks that belong together.
pub(crate) struct Slice {
    span: Span,
    chunks: usize,
    leased: AtomicBool,
    /// Chunks that came home by another way than this slice's pool. `waiting` is their number, to
    /// look without the lock.
    strays: Mutex<Vec<NonNull<u8>>>,
    waiting: AtomicUsize,
}

// SAFETY: the strays are owned by the list, which is behind a lock.
unsafe impl Send for Slice {}
// SAFETY: as above.
unsafe impl Sync for Slice {}

impl Slice {
    /// A slice of `chunks` chunks at `base`, with their headers written, all of them home.
    ///
    /// # Safety
    /// `base` is aligned to [`CHUNK`], the bytes are writable, stay valid while `region` lives, and
    /// belong to nobody else.
    pub(crate) unsafe fn new(base: NonNull<u8>, chunks: usize, region: Arc<dyn Region>) -> Arc<Slice> {
        let all: Vec<_> = (0..chunks).rev().map(|i| base.as_ptr().wrapping_add(i * CHUNK)).collect();
        // SAFETY: promised by the caller.
        let span = unsafe { Span::new(base, chunks * CHUNK, region) };
        let slice = Arc::new(Slice {
            span,
            chunks,
            leased: AtomicBool::new(false),
            strays: Mutex::new(all.iter().filter_map(|&at| NonNull::new(at)).collect()),
            waiting: AtomicUsize::new(chunks),
        });
        for at in all {
            // SAFETY: `at` is a chunk inside the slice, which the caller gave us.
            unsafe {
                at.cast::<Header>().write(Header {
                    home: Arc::as_ptr(&slice),
                    next: std::ptr::null_mut(),
                    head: 0,
                    len: 0,
                });
            }
        }
        slice
    }

    /// Where its chunks are.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Takes back a chunk from any thread.
    fn come_home(&self, chunk: NonNull<u8>) {
        let mut strays = self.strays.lock().unwrap_or_else(PoisonError::into_inner);
        strays.push(chunk);
        self.waiting.store(strays.len(), Ordering::Release);
    }
}

/// The right to hand out the chunks of one slice. Install it on the thread that works with it.
pub struct Pool {
    slice: Arc<Slice>,
    free: Vec<NonNull<u8>>,
}

// SAFETY: the free chunks belong to the pool alone.
unsafe impl Send for Pool {}

impl Pool {
    /// A pool of `chunks` chunks of ordinary memory, for tests and tools.
    pub fn heap(chunks: usize) -> Pool {
        let bytes = chunks.max(1) * CHUNK;
        let mapping =
            Mapping::new(bytes).unwrap_or_else(|error| panic!("{bytes} bytes of packet memory: {error}"));
        // SAFETY: the mapping was just made for this slice, is aligned to more than CHUNK, and
        // lives in the Arc.
        let slice = unsafe { Slice::new(mapping.base(), chunks, Arc::new(mapping)) };
        Pool::lease(slice).expect("a new slice has no pool yet")
    }

    /// The pool of a slice, unless another thread has it. Takes what is home; the rest follows.
    pub(crate) fn lease(slice: Arc<Slice>) -> Option<Pool> {
        if slice.leased.swap(true, Ordering::Acquire) {
            return None;
        }
        let mut pool = Pool { free: Vec::with_capacity(slice.chunks), slice };
        pool.collect();
        Some(pool)
    }

    pub(crate) fn slice(&self) -> &Arc<Slice> {
        &self.slice
    }

    /// Makes this the pool that packets of this thread come from and return to, until the thread
    /// ends or installs another.
    pub fn install(self) {
        OWNED.with_borrow_mut(|owned| {
            CURRENT.set(std::ptr::null_mut());
            let pool = owned.insert(Installed(Box::into_raw(Box::new(self))));
            CURRENT.set(pool.0);
        });
    }

    /// Chunks ready to be taken.
    pub fn available(&self) -> usize {
        self.free.len() + self.slice.waiting.load(Ordering::Acquire)
    }

    /// Chunks in all.
    pub fn chunks(&self) -> usize {
        self.slice.chunks
    }

    #[cold]
    fn collect(&mut self) {
        let mut strays = self.slice.strays.lock().unwrap_or_else(PoisonError::into_inner);
        self.free.append(&mut strays);
        self.slice.waiting.store(0, Ordering::Release);
    }

    #[inline]
    fn take(&mut self) -> Option<NonNull<u8>> {
        if self.free.is_empty() && self.slice.waiting.load(Ordering::Acquire) != 0 {
            self.collect();
        }
        self.free.pop()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut strays = self.slice.strays.lock().unwrap_or_else(PoisonError::into_inner);
        strays.append(&mut self.free);
        self.slice.waiting.store(strays.len(), Ordering::Release);
        let out = self.slice.chunks - strays.len();
        drop(strays);
        if out != 0 {
            // Chunks still out name the slice in their header, so it must stay. It is made once per
            // pool that goes with packets out: a worker's end, not an everyday matter.
            std::mem::forget(self.slice.clone());
        }
        self.slice.leased.store(false, Ordering::Release);
    }
}

/// The pool that this thread owns, freed when the thread ends.
struct Installed(*mut Pool);

impl Drop for Installed {
    fn drop(&mut self) {
        if CURRENT.get() == self.0 {
            CURRENT.set(std::ptr::null_mut());
        }
        // SAFETY: made by Box::into_raw in `install`, and freed only here.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

thread_local! {
    /// The installed pool, or null. Apart from `OWNED` because a plain pointer needs no look at the
    /// state of a destructor at each access.
    static CURRENT: Cell<*mut Pool> = const { Cell::new(std::ptr::null_mut()) };
    static OWNED: RefCell<Option<Installed>> = const { RefCell::new(None) };
}

/// Takes a chunk from this thread's pool.
#[inline]
pub(crate) fn take() -> Option<NonNull<u8>> {
    // SAFETY: CURRENT is null or the pool that this thread owns; the reference does not leave this
    // call, and nothing called from it comes back here.
    unsafe { CURRENT.get().as_mut() }?.take()
}

/// Gives a chunk back to where it belongs.
///
/// # Safety
/// `chunk` is a chunk of some slice that the caller owns, and gives up.
#[inline]
pub(crate) unsafe fn give(chunk: NonNull<u8>) {
    // SAFETY: as in `take`.
    if let Some(pool) = unsafe { CURRENT.get().as_mut() } {
        let offset = (chunk.as_ptr() as usize).wrapping_sub(pool.slice.span.base.as_ptr() as usize);
        if offset < pool.slice.span.bytes {
            pool.free.push(chunk);
            return;
        }
    }
    // SAFETY: the header was written when the slice was made, and the slice lives while a chunk is
    // out.
    unsafe { give_elsewhere(chunk) }
}

#[cold]
unsafe fn give_elsewhere(chunk: NonNull<u8>) {
    // SAFETY: promised by the caller, see `give`.
    unsafe { (*(*chunk.cast::<Header>().as_ptr()).home).come_home(chunk) }
}

/// Chunks that this thread's pool has ready; 0 without a pool.
pub fn available() -> usize {
    // SAFETY: as in `take`.
    unsafe { CURRENT.get().as_ref() }.map_or(0, Pool::available)
}

/// Memory of this process alone, in huge pages as that of a router's ports is.
impl Region for Mapping {}
