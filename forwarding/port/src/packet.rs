//! A packet: an owning 32-byte handle on one or more chunks of packet memory.
//!
//! The bytes never move between the ring they arrived on and the ring they leave by; what moves
//! through the graph is this handle, two to a cache line, with the few facts that elements tell
//! each other (where it came in, where it goes, by which next hop).
//!
//! A chunk is [`CHUNK`] bytes, aligned to its size:
//!
//! ```text
//! 0        64            128                  head            head+len        4096
//! | Header | Annotations | headroom, for push | bytes         | tailroom      |
//! ```
//!
//! The header belongs to this crate: it names the slice of memory that the chunk goes home to and,
//! for a packet larger than a chunk, the next segment. The kernel never writes there, because
//! AF_XDP leaves 256 bytes free in front of every frame that it receives.
//!
//! The handle has what forwarding needs. What only some elements tell each other ([`Annotations`])
//! lies in the chunk, and costs nothing until the first of them writes there.
//!
//! Dropping a packet gives its chunks back to this thread's [`Pool`](crate::Pool). A packet dropped
//! on another thread, or after its pool, goes home by the slice's slow path, behind a lock: correct
//! everywhere, fast where it matters.

mod network;
mod segments;

use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::NonNull;

use fib::{AdjacencyId, InterfaceId, NextHopId};

use crate::Annotations;
use crate::pool::{self, Slice};

/// Bytes of a chunk, the unit of packet memory.
pub const CHUNK: usize = 4096;
/// Bytes at the front of each chunk that belong to this crate.
pub(crate) const HEADER: usize = 128;
/// Where in it the annotations are.
const ANNOTATIONS: usize = 64;
/// Where AF_XDP puts the first byte of a received frame, and where [`Packet::new`] does.
pub const HEADROOM: usize = 256;
/// Places, a cache line apart, at which packets that are made here begin. Chunks lie 4 KiB apart,
/// so bytes at the same place of each fall into the same set of the processor's first cache, which
/// has room for eight or twelve of them and not for a batch. Where received frames lie the kernel
/// decides.
const COLOURS: usize = 16;
/// In `Packet::tail`: the annotations in the chunk are this packet's, and not what an earlier one
/// left there.
const ANNOTATED: u8 = 0x80;
/// Most segments that a packet may have; what the kernel allows (MAX_SKB_FRAGS + 1).
pub const MAX_SEGMENTS: usize = 18;
/// Most bytes of a packet made by [`Packet::new`].
pub const MAX_BYTES: usize = MAX_SEGMENTS * (CHUNK - HEADROOM);

/// What stands at the front of every chunk.
#[repr(C)]
pub(crate) struct Header {
    /// The slice that this chunk belongs to; set once, when the slice is made.
    pub(crate) home: *const Slice,
    /// The next segment, meaningful while the handle or the segment before says that there is one.
    pub(crate) next: *mut u8,
    /// Of this segment, when it is not the first.
    pub(crate) head: u16,
    pub(crate) len: u16,
}

const _: () = assert!(size_of::<Header>() <= ANNOTATIONS);
const _: () = assert!(ANNOTATIONS + size_of::<Annotations>() <= HEADER);
const _: () = assert!(ANNOTATIONS.is_multiple_of(align_of::<Annotations>()));
const _: () = assert!(size_of::<Packet>() == 32);

/// A packet with its annotations. Owns its chunks: dropping it returns them.
#[repr(C)]
pub struct Packet {
    base: NonNull<u8>,
    head: u16,
    len: u16,
    /// The interface that it came in by: the port's own until its tags have been looked at.
    pub input: InterfaceId,
    /// The interface that it is to leave by; once its link header is written, the own one of the
    /// port that sends it.
    pub output: InterfaceId,
    /// What the lookup found.
    pub next_hop: NextHopId,
    /// The path chosen among those of the next hop.
    pub adjacency: AdjacencyId,
    /// Click's destination annotation: where the packet goes next, an IPv4 address; zeros while
    /// nobody has said.
    pub destination: [u8; 4],
    /// Where in the chunk the network header begins; 0 while nobody has said.
    network: u16,
    /// Click's paint annotation, free for the graph's elements.
    pub paint: u8,
    /// Segments after the first; above them the bit [`ANNOTATED`].
    tail: u8,
    _owns: PhantomData<*mut u8>,
}

// SAFETY: a packet is the only owner of its chunks, and its drop finds the right way home from any
// thread (the thread's pool if that is its home, else the slice's locked list).
unsafe impl Send for Packet {}
// SAFETY: `&Packet` gives only shared reads of the bytes.
unsafe impl Sync for Packet {}

/// Where `len` bytes, at most [`CHUNK`] - [`HEADROOM`], begin in a chunk: by its number, as far as
/// there is room.
#[inline(always)]
fn place_in(base: NonNull<u8>, len: usize) -> u16 {
    let colour = base.as_ptr() as usize / CHUNK % COLOURS;
    let place = HEADROOM + 64 * colour;
    if place + len <= CHUNK { place as u16 } else { HEADROOM as u16 }
}

impl Packet {
    /// A packet with these bytes in memory of this thread's pool, with at least [`HEADROOM`] in
    /// front. `None` when the thread has no pool, the pool is empty, or it would take more than
    /// [`MAX_SEGMENTS`] chunks.
    pub fn new(bytes: &[u8]) -> Option<Packet> {
        const ROOM: usize = CHUNK - HEADROOM;
        let (first, mut rest) = bytes.split_at(bytes.len().min(ROOM));
        let mut packet = Packet::blank(first.len())?;
        packet.data_mut().copy_from_slice(first);
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.len().min(ROOM));
            let base = pool::take()?;
            // SAFETY: as above.
            let mut segment = unsafe { Packet::from_raw(base, HEADROOM as u16, part.len() as u16) };
            segment.data_mut().copy_from_slice(part);
            packet.append(segment).ok()?;
            rest = after;
        }
        Some(packet)
    }

    /// A packet of one segment of `len` bytes (at most [`CHUNK`] - [`HEADROOM`]; what they are is
    /// undefined) in memory of this thread's pool, if there is any.
    #[inline(always)]
    pub fn blank(len: usize) -> Option<Packet> {
        let len = len.min(CHUNK - HEADROOM);
        let (base, place) = Packet::blank_place(len)?;
        // SAFETY: the chunk was just taken, so it is ours, and the place leaves room for `len`
        // bytes.
        Some(unsafe { Packet::from_raw(base, place, len as u16) })
    }

    /// A chunk of this thread's pool, if there is any, and where `len` bytes, at most [`CHUNK`] -
    /// [`HEADROOM`], begin in it: for [`Packet::from_raw`].
    #[inline(always)]
    pub(crate) fn blank_place(len: usize) -> Option<(NonNull<u8>, u16)> {
        let base = pool::take()?;
        Some((base, place_in(base, len)))
    }

    /// Makes it a new packet in the same memory: one segment of `len` bytes (at most [`CHUNK`] -
    /// [`HEADROOM`]; what they are is undefined), nothing known about it.
    pub fn reset(&mut self, len: usize) {
        self.cut_after(self.base, 0);
        let len = len.min(CHUNK - HEADROOM);
        // SAFETY: the chunk is ours; the old handle, which has no other segments, is forgotten and
        // not dropped.
        let fresh = unsafe { Packet::from_raw(self.base, place_in(self.base, len), len as u16) };
        std::mem::forget(std::mem::replace(self, fresh));
    }

    /// Takes ownership of a chunk.
    ///
    /// # Safety
    /// `base` is the start of a chunk of a [`Slice`] that nobody else owns, its header is in
    /// place, and `HEADER <= head`, `head + len <= CHUNK`.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(base: NonNull<u8>, head: u16, len: u16) -> Packet {
        debug_assert!(head as usize >= HEADER && head as usize + len as usize <= CHUNK);
        Packet {
            base,
            head,
            len,
            input: InterfaceId::NONE,
            output: InterfaceId::NONE,
            next_hop: NextHopId(0),
            adjacency: AdjacencyId(0),
            destination: [0; 4],
            network: 0,
            paint: 0,
            tail: 0,
            _owns: PhantomData,
        }
    }

    /// The bytes of the first segment.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: `head + len <= CHUNK` always holds, and the chunk is ours.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.head as usize), self.len as usize) }
    }

    /// The bytes of the first segment.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`, and we are borrowed mutably.
        unsafe {
            std::slice::from_raw_parts_mut(self.base.as_ptr().add(self.head as usize), self.len as usize)
        }
    }

    /// Bytes behind the first segment that [`Packet::extend`] may still add; 0 when more segments
    /// follow.
    #[inline]
    pub fn tailroom(&self) -> usize {
        if self.more() != 0 { 0 } else { CHUNK - self.head as usize - self.len as usize }
    }

    /// Whether anything is noted about it beyond this handle.
    #[inline(always)]
    pub(crate) fn is_annotated(&self) -> bool {
        self.tail & ANNOTATED != 0
    }

    /// What elements have noted about this packet; all zero while none has.
    #[inline]
    pub fn annotations(&self) -> &Annotations {
        if self.tail & ANNOTATED == 0 {
            return &Annotations::NONE;
        }
        // SAFETY: the place is inside the chunk's header, which is ours, aligned (asserted above),
        // and was written by `annotations_mut` for this packet.
        unsafe { &*self.base.as_ptr().add(ANNOTATIONS).cast() }
    }

    /// What elements have noted about this packet, to change.
    #[inline]
    pub fn annotations_mut(&mut self) -> &mut Annotations {
        // SAFETY: the place is inside the chunk's header, which is ours, and aligned (asserted
        // above).
        unsafe {
            let annotations = self.base.as_ptr().add(ANNOTATIONS).cast::<Annotations>();
            if self.tail & ANNOTATED == 0 {
                annotations.write(Annotations::NONE);
                self.tail |= ANNOTATED;
            }
            &mut *annotations
        }
    }

    /// The `N` bytes from the front on, for whoever asks later how many of them are the packet's:
    /// what it does not have is whatever lies behind it in its chunk. `None` where the chunk ends
    /// before.
    #[inline(always)]
    pub fn front<const N: usize>(&self) -> Option<&[u8; N]> {
        const { assert!(N <= CHUNK - HEADER) };
        let place = usize::from(self.head);
        if place > CHUNK - N {
            return None;
        }
        // SAFETY: the bytes are within the chunk, as just found, which is ours; packet memory is
        // zeroed when it is made.
        Some(unsafe { &*self.base.as_ptr().add(place).cast() })
    }

    /// Bytes in the first segment.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the first segment is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that [`Packet::push`] may still prepend.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.head as usize - HEADER
    }

    /// Makes room for `n` bytes in front and returns them (contents undefined), or `None` when
    /// there is not that much headroom. A packet just received has at least 128.
    #[inline]
    pub fn push(&mut self, n: usize) -> Option<&mut [u8]> {
        if n > self.headroom() {
            return None;
        }
        self.head -= n as u16;
        self.len += n as u16;
        Some(&mut self.data_mut()[..n])
    }

    /// Puts `bytes` in front. False, and nothing done, without headroom for them.
    #[inline(always)]
    pub fn prepend<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        if N > self.headroom() {
            return false;
        }
        self.head -= N as u16;
        self.len += N as u16;
        // SAFETY: the N bytes from `head` on are behind the chunk's header, as just checked, and in
        // front of where the packet began; the chunk is ours.
        unsafe { self.base.as_ptr().add(self.head as usize).cast::<[u8; N]>().write(*bytes) };
        true
    }

    /// Removes `n` bytes from the front of the first segment; `false`, and nothing done, if it has
    /// fewer.
    #[inline]
    pub fn pull(&mut self, n: usize) -> bool {
        if n > self.len as usize {
            return false;
        }
        self.head += n as u16;
        self.len -= n as u16;
        true
    }

    /// Cuts off what the first segment has behind its first `n` bytes, if there is any: no branch.
    #[inline(always)]
    pub fn cut(&mut self, n: u16) {
        self.len = self.len.min(n);
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        if self.more() != 0 {
            self.cut_after(self.base, 0);
        }
        // SAFETY: the chunk is ours, and we are going.
        unsafe { pool::give(self.base) };
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Packet({} bytes in {} segments, in {}",
            self.total_len(),
            self.segment_count(),
            self.input.0
        )?;
        write!(f, ", out {})", self.output.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn bytes_survive_push_pull_and_truncate() {
        Pool::heap(4).install();
        let mut packet = Packet::new(b"payload").unwrap();
        packet.push(4).unwrap().copy_from_slice(b"head");
        assert_eq!(packet.data(), b"headpayload");
        assert!(packet.pull(2));
        packet.truncate(4);
        assert_eq!(packet.data(), b"adpa");
        assert!(!packet.pull(5));
        packet.extend(2).unwrap().copy_from_slice(b"!!");
        assert_eq!(packet.data(), b"adpa!!");
    }

    #[test]
    fn a_window_ends_with_the_chunk() {
        Pool::heap(1).install();
        let mut packet = Packet::blank(CHUNK - HEADROOM).unwrap();
        assert!(packet.window::<20>().is_none(), "nobody has said where the network header is");
        assert!(packet.pull(CHUNK - HEADROOM - 20) && packet.set_network(0));
        packet.window_mut::<20>().unwrap()[19] = 7;
        assert_eq!((packet.network().len(), packet.window::<20>().unwrap()[19]), (20, 7));
        assert!(packet.set_network(1) && packet.window::<20>().is_none());
        assert!(packet.split_link::<21>().is_none());
        assert_eq!(packet.split_link::<19>().unwrap().len(), 19);
        assert_eq!((packet.network(), packet.window::<1>()), (&[7][..], Some(&[7])));
    }

    #[test]
    fn headroom_ends_before_the_header() {
        Pool::heap(1).install();
        let mut packet = Packet::new(b"x").unwrap();
        assert!(packet.headroom() >= 128);
        assert!(packet.push(packet.headroom() + 1).is_none());
        assert!(packet.push(packet.headroom()).is_some());
        drop(packet);
        assert!(Packet::new(b"y").is_some(), "the chunk's header is intact");
    }

    #[test]
    fn a_long_packet_is_a_chain_and_all_of_it_comes_home() {
        Pool::heap(8).install();
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
        for cut in [20_000, 19_999, 3840, 3841, 3839, 7680, 100, 0] {
            let mut packet = Packet::new(&bytes).unwrap();
            assert_eq!(packet.segment_count(), 6);
            packet.truncate(cut);
            assert_eq!(packet.to_vec(), &bytes[..cut]);
            assert_eq!(packet.total_len(), cut);
            assert_eq!(packet.segment_count(), cut.div_ceil(CHUNK - HEADROOM).max(1));
            let left = pool::available();
            assert_eq!(left, 8 - packet.segment_count());
            drop(packet);
            assert_eq!(pool::available(), 8);
        }
    }

    #[test]
    fn an_empty_pool_gives_nothing_and_keeps_what_it_has() {
        Pool::heap(2).install();
        assert!(Packet::new(&[0; 10_000]).is_none());
        assert_eq!(pool::available(), 2);
        let both = (Packet::new(b"1").unwrap(), Packet::new(b"2").unwrap());
        assert!(Packet::new(b"3").is_none());
        drop(both);
        assert_eq!(pool::available(), 2);
    }

    #[test]
    fn a_packet_dropped_on_another_thread_comes_home() {
        Pool::heap(1).install();
        let packet = Packet::new(b"far").unwrap();
        std::thread::spawn(move || drop(packet)).join().unwrap();
        assert_eq!(Packet::new(b"near").unwrap().data(), b"near");
    }

    #[test]
    fn a_packet_outlives_its_pool() {
        let packet = std::thread::spawn(|| {
            Pool::heap(1).install();
            Packet::new(b"alive").unwrap()
        });
        let packet = packet.join().unwrap();
        assert_eq!(packet.data(), b"alive");
    }

    #[test]
    fn a_duplicate_is_equal_and_separate() {
        Pool::heap(4).install();
        let mut packet = Packet::new(b"same").unwrap();
        packet.input = InterfaceId(3);
        packet.paint = 7;
        let mut copy = packet.duplicate().unwrap();
        assert_eq!((copy.input, copy.paint), (InterfaceId(3), 7));
        copy.data_mut()[0] = b'S';
        assert_eq!(packet.data(), b"same");
    }
}
