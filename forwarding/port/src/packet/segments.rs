//! Packets larger than a chunk: a chain of segments.
//!
//! Each segment's header names the next one; how many follow the first is in the handle, so a
//! packet of one segment, as nearly all are, never reads a header.

use std::ptr::NonNull;

use super::{ANNOTATED, CHUNK, HEADROOM, Header, MAX_SEGMENTS, Packet};
use crate::pool;

impl Packet {
    /// Segments after the first.
    #[inline(always)]
    pub(super) fn more(&self) -> u8 {
        self.tail & !ANNOTATED
    }

    /// Bytes in all segments.
    #[inline]
    pub fn total_len(&self) -> usize {
        if self.more() == 0 { self.len as usize } else { self.segments().map(<[u8]>::len).sum() }
    }

    /// Number of segments, at least 1.
    #[inline]
    pub fn segment_count(&self) -> usize {
        1 + self.more() as usize
    }

    /// The segments' bytes in order.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = self.base;
        let mut left = self.more();
        let rest = std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            left -= 1;
            // SAFETY: `more` says that `at` has a successor, which is ours and within its chunk.
            unsafe {
                let header = at.cast::<Header>().as_ptr();
                at = NonNull::new_unchecked((*header).next);
                let segment = &*at.cast::<Header>().as_ptr();
                let bytes = at.as_ptr().add(segment.head as usize);
                Some(std::slice::from_raw_parts(bytes, segment.len as usize))
            }
        });
        std::iter::once(self.data()).chain(rest)
    }

    /// All bytes in one piece, for the slow paths (capture, punt, ICMP quotes).
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.total_len());
        self.segments().for_each(|segment| bytes.extend_from_slice(segment));
        bytes
    }

    /// Cuts the packet, with all its segments, to at most `total` bytes; segments left empty are
    /// given back.
    pub fn truncate(&mut self, total: usize) {
        if total <= self.len as usize {
            self.len = total as u16;
            self.cut_after(self.base, 0);
            return;
        }
        let mut left = total - self.len as usize;
        let mut at = self.base;
        for kept in 0..self.more() {
            if left == 0 {
                self.cut_after(at, kept);
                return;
            }
            // SAFETY: `more` says that `at` has a successor, and all segments are ours.
            unsafe {
                at = NonNull::new_unchecked((*at.cast::<Header>().as_ptr()).next);
                let header = &mut *at.cast::<Header>().as_ptr();
                header.len = header.len.min(left.min(CHUNK) as u16);
                left -= header.len as usize;
            }
        }
    }

    /// Gives back the segments behind `last`, which is the one with `kept` segments before it.
    pub(super) fn cut_after(&mut self, last: NonNull<u8>, kept: u8) {
        let mut at = last;
        for i in kept..self.more() {
            // SAFETY: `more` says that `at` has a successor; it is ours, and read before it is
            // given back.
            unsafe {
                let next = NonNull::new_unchecked((*at.cast::<Header>().as_ptr()).next);
                if i > kept {
                    pool::give(at);
                }
                at = next;
            }
        }
        if self.more() > kept {
            // SAFETY: the last segment is ours, and no longer in the chain.
            unsafe { pool::give(at) };
        }
        self.tail = kept | self.tail & ANNOTATED;
    }

    /// Lengthens the first segment by `n` bytes at its end (contents undefined) and returns them;
    /// `None` when the chunk has no room or more segments follow.
    pub fn extend(&mut self, n: usize) -> Option<&mut [u8]> {
        let end = self.head as usize + self.len as usize;
        if self.more() != 0 || n > CHUNK - end {
            return None;
        }
        let old = self.len as usize;
        self.len += n as u16;
        Some(&mut self.data_mut()[old..])
    }

    /// Puts `segment` behind the last segment. Gives it back when the packet would have more than
    /// [`MAX_SEGMENTS`].
    pub fn append(&mut self, segment: Packet) -> Result<(), Packet> {
        if self.segment_count() + segment.segment_count() > MAX_SEGMENTS {
            return Err(segment);
        }
        let mut last = self.base;
        for _ in 0..self.more() {
            // SAFETY: `more` says that `last` has a successor.
            last = unsafe { NonNull::new_unchecked((*last.cast::<Header>().as_ptr()).next) };
        }
        // SAFETY: both are chunks that we own; their headers are ours to write.
        unsafe {
            (*last.cast::<Header>().as_ptr()).next = segment.base.as_ptr();
            let header = &mut *segment.base.cast::<Header>().as_ptr();
            header.head = segment.head;
            header.len = segment.len;
        }
        self.tail += 1 + segment.more();
        std::mem::forget(segment);
        Ok(())
    }

    /// A second packet with the same bytes, headers in front of them and annotations, from this
    /// thread's pool.
    pub fn duplicate(&self) -> Option<Packet> {
        let headers = [self.network_offset(), self.link_offset(), self.transport_offset()];
        let front = headers.into_iter().flatten().min().unwrap_or(0).min(0).unsigned_abs();
        let room = (CHUNK - HEADROOM).saturating_sub(self.len());
        let front = front.min(room);
        let mut copy = Packet::new(self.bytes_from(self.head - front as u16))?;
        copy.pull(front);
        for segment in self.segments().skip(1) {
            copy.append(Packet::new(segment)?).ok()?;
        }
        copy.input = self.input;
        copy.output = self.output;
        copy.next_hop = self.next_hop;
        copy.adjacency = self.adjacency;
        copy.destination = self.destination;
        copy.paint = self.paint;
        if let Some(offset) = self.network_offset() {
            copy.set_network(offset);
        }
        if self.tail & ANNOTATED != 0 {
            *copy.annotations_mut() = self.annotations().clone();
            copy.set_link(self.link_offset());
            copy.set_transport(self.transport_offset());
        }
        Some(copy)
    }

    /// Gives up the handle: its segments as (chunk, head, len), first to last. The caller owns
    /// them.
    #[inline]
    pub(crate) fn into_segments(self, mut each: impl FnMut(NonNull<u8>, u16, u16)) {
        each(self.base, self.head, self.len);
        let mut at = self.base;
        for _ in 0..self.more() {
            // SAFETY: `more` says that `at` has a successor, and all segments are ours.
            unsafe {
                at = NonNull::new_unchecked((*at.cast::<Header>().as_ptr()).next);
                let header = &*at.cast::<Header>().as_ptr();
                each(at, header.head, header.len);
            }
        }
        std::mem::forget(self);
    }
}
