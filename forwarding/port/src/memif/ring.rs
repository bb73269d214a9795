//! A ring of descriptors in shared memory, and the buffers that they tell of.
//!
//! ```text
//! 0        4       6      64      128          bytes
//! | cookie | flags | head | tail  | descriptors, 16 bytes each: flags, region, length, offset, metadata |
//! ```
//!
//! Head and tail are free-running 16-bit counters; entry `i` lies at `i & mask`. The client's side
//! moves the head, the server's the tail. On the way to the server the head says what was filled
//! and the tail what is free again. On the way to the client the head says which buffers the client
//! offers and the tail which of them the server has filled.
//!
//! Everything here may be changed by the peer at any moment, so it is read by atomics, once, and
//! checked after it was read.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::region::Region;

/// What a ring begins with.
const COOKIE: u32 = 0x3E3_1F20;
/// Bytes in front of the descriptors.
const HEADER: usize = 128;
const DESCRIPTOR: usize = 16;
/// In the ring's flags: whoever receives polls, and wants no interrupts.
const NO_INTERRUPTS: u16 = 1;
/// In a descriptor's flags: the frame goes on in the next one.
const MORE: u16 = 1;

/// Bytes of a ring of so many descriptors.
pub(super) const fn bytes_of(log2: u8) -> usize {
    HEADER + (DESCRIPTOR << log2)
}

/// A ring. Whoever holds it holds its memory.
pub(super) struct Ring {
    place: Place,
    memory: Arc<[Region]>,
}

/// Where a ring is; good as long as the ring is held. Loops copy it, for what stands behind a
/// reference is read anew after each write to shared memory.
#[derive(Clone, Copy)]
pub(super) struct Place {
    base: NonNull<u8>,
    mask: u16,
}

// SAFETY: shared memory that is reached by atomics only.
unsafe impl Send for Ring {}

impl Deref for Ring {
    type Target = Place;

    #[inline(always)]
    fn deref(&self) -> &Place {
        &self.place
    }
}

/// One buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    flags: u16,
    region: u16,
    pub(super) length: u32,
    offset: u32,
}

impl Descriptor {
    const NONE: Descriptor = Descriptor { flags: 0, region: 0, length: 0, offset: 0 };

    /// Whether the frame goes on in the next one.
    #[inline(always)]
    pub(super) fn more(&self) -> bool {
        self.flags & MORE != 0
    }
}

impl Ring {
    /// The ring of `1 << log2` descriptors at a place in the memory; `None` when it is not inside,
    /// or not at a multiple of 8.
    pub(super) fn at(memory: &Arc<[Region]>, region: u16, offset: u32, log2: u8) -> Option<Ring> {
        if log2 > 15 || !offset.is_multiple_of(8) {
            return None;
        }
        let base = memory.get(usize::from(region))?.at(offset, bytes_of(log2) as u32)?;
        Some(Ring { place: Place { base, mask: (1 << log2) - 1 }, memory: memory.clone() })
    }

    /// The buffers that its descriptors tell of, as long as the ring is held.
    pub(super) fn theirs(&self) -> Theirs {
        Theirs(NonNull::from(&*self.memory))
    }
}

impl Place {
    /// How many descriptors.
    #[inline(always)]
    pub(super) fn size(&self) -> u16 {
        self.mask + 1
    }

    #[inline(always)]
    fn short(&self, at: usize) -> &AtomicU16 {
        // SAFETY: in the ring's header, which is inside its memory, at an even place of a mapping
        // whose pages are aligned.
        unsafe { self.base.add(at).cast().as_ref() }
    }

    #[inline(always)]
    pub(super) fn head(&self) -> &AtomicU16 {
        self.short(6)
    }

    #[inline(always)]
    pub(super) fn tail(&self) -> &AtomicU16 {
        self.short(64)
    }

    fn cookie(&self) -> &AtomicU32 {
        // SAFETY: as in `short`; it stands at the front, at a multiple of 8.
        unsafe { self.base.cast().as_ref() }
    }

    /// Makes it an empty ring.
    pub(super) fn begin(&self) {
        self.head().store(0, Ordering::Relaxed);
        self.tail().store(0, Ordering::Relaxed);
        self.short(4).store(0, Ordering::Relaxed);
        self.cookie().store(COOKIE, Ordering::Release);
    }

    /// Whether it begins as a ring does.
    pub(super) fn is_one(&self) -> bool {
        self.cookie().load(Ordering::Acquire) == COOKIE
    }

    /// Says, as who receives, whether to be woken up.
    pub(super) fn ask_for_interrupts(&self, ask: bool) {
        self.short(4).store(if ask { 0 } else { NO_INTERRUPTS }, Ordering::Relaxed);
    }

    /// Whether who receives wants to be woken up.
    #[inline(always)]
    pub(super) fn wants_interrupts(&self) -> bool {
        self.short(4).load(Ordering::Relaxed) & NO_INTERRUPTS == 0
    }

    #[inline(always)]
    fn words(&self, index: u16) -> &[AtomicU64; 2] {
        let at = HEADER + DESCRIPTOR * usize::from(index & self.mask);
        // SAFETY: the index is masked to the ring's size, and the ring is inside its memory, at a
        // multiple of 8.
        unsafe { self.base.add(at).cast().as_ref() }
    }

    #[inline(always)]
    pub(super) fn read(&self, index: u16) -> Descriptor {
        let [first, second] = self.words(index);
        let (first, second) = (first.load(Ordering::Relaxed), second.load(Ordering::Relaxed));
        Descriptor {
            flags: first as u16,
            region: (first >> 16) as u16,
            length: (first >> 32) as u32,
            offset: second as u32,
        }
    }

    #[inline(always)]
    pub(super) fn write(&self, index: u16, descriptor: Descriptor) {
        let Descriptor { flags, region, length, offset } = descriptor;
        let [first, second] = self.words(index);
        let word = u64::from(flags) | u64::from(region) << 16 | u64::from(length) << 32;
        first.store(word, Ordering::Relaxed);
        second.store(u64::from(offset), Ordering::Relaxed);
    }
}

/// The buffers of a ring. The two kinds are types, and not values, so that the loops over frames
/// know which.
pub(super) trait Buffers: Copy {
    /// Ours: then we are the client, and move the head.
    const OURS: bool;

    /// Where the buffer of a descriptor is, with all the bytes that it says; `None` when they are
    /// not all in a buffer.
    fn place(&self, index: u16, descriptor: Descriptor) -> Option<NonNull<u8>>;

    /// Where the buffer of a descriptor begins, for a hint.
    fn near(&self, ring: Place, index: u16) -> Option<NonNull<u8>>;

    /// A free buffer's descriptor.
    fn empty(&self, ring: Place, index: u16) -> Descriptor;

    /// The descriptor of a buffer, free until now, with `length` bytes.
    fn describe(&self, index: u16, empty: Descriptor, length: u32, more: bool) -> Descriptor;
}

/// Buffers of ours, in the memory that the ring beside them holds: one for each descriptor, in
/// order. What the descriptors say of their place is not looked at.
#[derive(Clone, Copy)]
pub(super) struct Own {
    pub(super) base: NonNull<u8>,
    /// Bytes from one to the next.
    pub(super) stride: u32,
    /// Bytes of one.
    pub(super) bytes: u32,
    /// Where the first is in region 0.
    pub(super) offset: u32,
    /// The ring's.
    pub(super) mask: u16,
}

// SAFETY: an address in shared memory, which the ring beside it holds.
unsafe impl Send for Own {}

impl Own {
    #[inline(always)]
    fn buffer(&self, index: u16) -> NonNull<u8> {
        let at = self.stride as usize * usize::from(index & self.mask);
        // SAFETY: there are as many buffers as the mask has numbers.
        unsafe { self.base.add(at) }
    }
}

impl Buffers for Own {
    const OURS: bool = true;

    #[inline(always)]
    fn place(&self, index: u16, descriptor: Descriptor) -> Option<NonNull<u8>> {
        if descriptor.length <= self.bytes { Some(self.buffer(index)) } else { None }
    }

    #[inline(always)]
    fn near(&self, _: Place, index: u16) -> Option<NonNull<u8>> {
        Some(self.buffer(index))
    }

    #[inline(always)]
    fn empty(&self, _: Place, index: u16) -> Descriptor {
        self.describe(index, Descriptor::NONE, self.bytes, false)
    }

    #[inline(always)]
    fn describe(&self, index: u16, _: Descriptor, length: u32, more: bool) -> Descriptor {
        let offset = self.offset + self.stride * u32::from(index & self.mask);
        Descriptor { flags: u16::from(more) * MORE, region: 0, length, offset }
    }
}

/// The peer's buffers, in the memory that the ring beside them holds: where the descriptors say.
#[derive(Clone, Copy)]
pub(super) struct Theirs(NonNull<[Region]>);

// SAFETY: regions that others share as well, which the ring beside it holds.
unsafe impl Send for Theirs {}

impl Buffers for Theirs {
    const OURS: bool = false;

    #[inline(always)]
    fn place(&self, _: u16, descriptor: Descriptor) -> Option<NonNull<u8>> {
        // SAFETY: the ring beside it, of which it came, holds the memory.
        let regions = unsafe { self.0.as_ref() };
        regions.get(usize::from(descriptor.region))?.at(descriptor.offset, descriptor.length)
    }

    #[inline(always)]
    fn near(&self, ring: Place, index: u16) -> Option<NonNull<u8>> {
        self.place(index, ring.read(index))
    }

    #[inline(always)]
    fn empty(&self, ring: Place, index: u16) -> Descriptor {
        ring.read(index)
    }

    #[inline(always)]
    fn describe(&self, _: u16, empty: Descriptor, length: u32, more: bool) -> Descriptor {
        Descriptor { flags: u16::from(more) * MORE, length, ..empty }
    }
}

/// Copies `len` bytes. One in shared memory may change meanwhile: then the copy has the old or the
/// new.
///
/// Frames are short, and calling memcpy costs as much as copying one: in blocks of 64, the last of
/// which overlaps the one before.
///
/// # Safety
/// All bytes are readable at `from` and writable at `to`, and the two do not overlap.
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    const LONG: usize = 512;
    // SAFETY: every block lies within the `len` bytes.
    unsafe {
        if (64..LONG).contains(&len) {
            block::<64>(from, to);
            if len > 64 {
                for at in (64..len - 63).step_by(64) {
                    block::<64>(from.add(at), to.add(at));
                }
                block::<64>(from.add(len - 64), to.add(len - 64));
            }
        } else if (32..64).contains(&len) {
            block::<32>(from.add(len - 32), to.add(len - 32));
            block::<32>(from, to);
        } else {
            std::ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

/// # Safety
/// As of [`copy`], for `N` bytes.
#[inline(always)]
unsafe fn block<const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: promised by the caller; arrays of bytes may lie anywhere.
    unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) };
}

/// Asks for a line that will be read soon.
#[inline(always)]
pub(super) fn prefetch(at: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; the processor ignores it where there is nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks for a line that will be written soon.
#[inline(always)]
pub(super) fn prefetch_to_write(at: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint. Processors that do not know it take it for an instruction that does nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at.as_ptr(), options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HugePages;

    #[test]
    fn a_descriptor_lies_where_others_read_it() {
        let (region, _file) = Region::create(4096, HugePages::Off).unwrap();
        let memory: Arc<[Region]> = Arc::new([region]);
        let ring = Ring::at(&memory, 0, 8, 2).unwrap();
        ring.begin();
        let descriptor = Descriptor { flags: MORE, region: 0x0102, length: 0x0708_090a, offset: 0x0304_0506 };
        ring.write(5, descriptor);
        assert_eq!(ring.read(1), descriptor);
        ring.head().store(0x0b0c, Ordering::Relaxed);
        ring.ask_for_interrupts(false);
        // SAFETY: inside the mapping, and nobody else has it.
        let bytes = unsafe { std::slice::from_raw_parts(memory[0].at(8, 200).unwrap().as_ptr(), 200) };
        assert_eq!(bytes[..8], [0x20, 0x1f, 0xe3, 3, 1, 0, 0x0c, 0x0b]);
        assert_eq!(bytes[144..160], [1, 0, 2, 1, 10, 9, 8, 7, 6, 5, 4, 3, 0, 0, 0, 0]);
    }

    #[test]
    fn a_ring_that_is_not_all_inside_is_none() {
        let (region, _file) = Region::create(4096, HugePages::Off).unwrap();
        let memory: Arc<[Region]> = Arc::new([region]);
        let fits = |region, offset, log2| Ring::at(&memory, region, offset, log2).is_some();
        assert!(fits(0, 0, 7) && fits(0, 4096 - bytes_of(7) as u32, 7));
        assert!(!fits(0, 4096 - bytes_of(7) as u32 + 8, 7) && !fits(0, 0, 8) && !fits(1, 0, 1));
        assert!(!fits(0, 4, 1) && !fits(0, 0, 16) && !fits(0, 0, 255) && !fits(0, u32::MAX - 7, 15));
    }

    #[test]
    fn every_length_is_copied_and_not_a_byte_more() {
        let from: Vec<u8> = (0..3000u32).map(|i| (i % 251) as u8 + 1).collect();
        for len in (0..600).chain([1500, 2047, 2999]) {
            let mut to = vec![0; 3000];
            // SAFETY: both have 3,000 bytes.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr(), len) };
            assert!(to[..len] == from[..len] && to[len..].iter().all(|byte| *byte == 0), "{len}");
        }
    }
}
