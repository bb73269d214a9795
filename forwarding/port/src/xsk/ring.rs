//! The four rings of an AF_XDP socket: single producer, single consumer, shared with the kernel.
//!
//! The kernel's side is `net/xdp/xsk_queue.h`. Producer and consumer are free-running 32-bit
//! counters; entry `i` lives at `i & mask`. What the other side writes is read with acquire, what
//! we write is published with release. Copies of both counters are kept here, so the shared cache
//! lines are touched once a batch.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// One ring, mapped. `T` is an address or a descriptor: plain numbers.
pub(super) struct Ring<T> {
    mapping: (NonNull<u8>, usize),
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Our own counter: the producer's on rings that we fill, the consumer's on rings that we
    /// empty.
    own: u32,
    /// The other side's, as last read.
    other: u32,
}

// SAFETY: the mapping is only reached through this value.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps a ring of `size` entries (a power of two) of a socket.
    pub(super) fn map(
        socket: BorrowedFd,
        at: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Ring<T>> {
        assert!(size.is_power_of_two());
        let bytes = offsets.desc as usize + size as usize * std::mem::size_of::<T>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), at) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mmap gave address 0"))?;
        // SAFETY: the kernel placed these inside the mapping, aligned.
        unsafe {
            Ok(Ring {
                mapping: (base, bytes),
                producer: base.add(offsets.producer as usize).cast(),
                consumer: base.add(offsets.consumer as usize).cast(),
                flags: base.add(offsets.flags as usize).cast(),
                entries: base.add(offsets.desc as usize).cast(),
                size,
                own: 0,
                other: 0,
            })
        }
    }

    /// Address and bytes of the mapping.
    pub(super) fn span(&self) -> (usize, usize) {
        (self.mapping.0.as_ptr() as usize, self.mapping.1)
    }

    /// Whether the kernel asks to be woken up for this ring.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: inside the mapping.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// On a ring that we fill: room for at least `wanted` entries? Returns the room, which may be
    /// more.
    #[inline]
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        if self.size - self.taken() < wanted {
            // SAFETY: inside the mapping.
            self.other = unsafe { self.consumer.as_ref() }.load(Ordering::Acquire);
        }
        self.size - self.taken()
    }

    /// Entries between the counters; whatever the other side wrote, at most `size`.
    #[inline]
    fn taken(&self) -> u32 {
        self.own.wrapping_sub(self.other).min(self.size)
    }

    /// On a ring that we fill: writes an entry, seen by the kernel after [`Ring::submit`]. The
    /// caller knows of room.
    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        // SAFETY: the index is masked to the ring's size. The kernel reads the entry only after
        // `submit`.
        unsafe { self.entries.add((self.own & (self.size - 1)) as usize).write(entry) };
        self.own = self.own.wrapping_add(1);
    }

    /// Shows the kernel what was pushed.
    #[inline]
    pub(super) fn submit(&mut self) {
        // SAFETY: inside the mapping.
        unsafe { self.producer.as_ref() }.store(self.own, Ordering::Release);
    }

    /// On a ring that we fill: entries that the kernel has not taken yet.
    #[inline]
    pub(super) fn pending(&mut self) -> u32 {
        // SAFETY: inside the mapping.
        self.other = unsafe { self.consumer.as_ref() }.load(Ordering::Acquire);
        self.taken()
    }

    /// On a ring that we empty: entries ready to be read, at most `wanted`.
    #[inline]
    pub(super) fn ready(&mut self, wanted: u32) -> u32 {
        if self.other.wrapping_sub(self.own) < wanted {
            // SAFETY: inside the mapping.
            self.other = unsafe { self.producer.as_ref() }.load(Ordering::Acquire);
        }
        self.other.wrapping_sub(self.own).min(self.size).min(wanted)
    }

    /// On a ring that we empty: the entry `ahead` places on. Only below what [`Ring::ready`] said
    /// does it mean anything.
    #[inline]
    pub(super) fn peek(&self, ahead: u32) -> T {
        let index = self.own.wrapping_add(ahead) & (self.size - 1);
        // SAFETY: the index is masked to the ring's size; any bits are a valid T (plain numbers).
        unsafe { self.entries.add(index as usize).read() }
    }

    /// On a ring that we empty: gives `count` entries back to the kernel.
    #[inline]
    pub(super) fn release(&mut self, count: u32) {
        self.own = self.own.wrapping_add(count);
        // SAFETY: inside the mapping.
        unsafe { self.consumer.as_ref() }.store(self.own, Ordering::Release);
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, and unreachable from now on.
        unsafe { libc::munmap(self.mapping.0.as_ptr().cast(), self.mapping.1) };
    }
}
