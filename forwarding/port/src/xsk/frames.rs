//! Which chunks the kernel has, and how its descriptors become packets again.
//!
//! Chunks that the kernel has are marked in a bitmap. A descriptor counts only if its chunk is
//! marked and its bytes are inside it; so whatever a driver writes into a ring, a chunk never gets
//! two owners, and no byte outside the packet memory is touched.

use std::ptr::NonNull;

use fib::PortId;

use crate::packet::{CHUNK, HEADER, Packet};
use crate::pool::{self, Span};

/// The chunks that one socket's kernel side has. Dropped, they are all home.
pub(super) struct Frames {
    span: Span,
    /// A bit for each chunk: the kernel has it.
    leased: Vec<u64>,
    /// The packet whose last segment is not here yet, and whether it is beyond repair.
    partial: Option<Packet>,
    broken: bool,
    /// Descriptors, or packets of several, that made no sense.
    pub(super) corrupt: u64,
}

impl Frames {
    pub(super) fn new(span: Span) -> Frames {
        let words = (span.bytes() / CHUNK).div_ceil(64);
        Frames { leased: vec![0; words], span, partial: None, broken: false, corrupt: 0 }
    }

    #[inline]
    fn offset(&self, at: *const u8) -> usize {
        (at as usize).wrapping_sub(self.span.base().as_ptr() as usize)
    }

    /// Marks a chunk as leased; its offset, or `None` if it is not of this memory. The caller owned
    /// it, and no more does.
    #[inline]
    pub(super) fn lease(&mut self, chunk: NonNull<u8>) -> Option<u64> {
        let offset = self.offset(chunk.as_ptr());
        if offset >= self.span.bytes() {
            return None;
        }
        let index = offset / CHUNK;
        self.leased[index / 64] |= 1 << (index % 64);
        Some(offset as u64)
    }

    /// The chunk around `address` and the place in it, if it was leased; it is not any more, and
    /// the caller's.
    #[inline]
    fn take_back(&mut self, address: u64) -> Option<(NonNull<u8>, usize)> {
        let chunk = self.span.chunk_at(address)?;
        let index = address as usize / CHUNK;
        let (word, bit) = (&mut self.leased[index / 64], 1 << (index % 64));
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        Some((chunk, address as usize % CHUNK))
    }

    /// The frame at `address` was sent: home with it.
    #[inline]
    pub(super) fn sent(&mut self, address: u64) {
        match self.take_back(address) {
            // SAFETY: it was leased, so it is ours again, and nobody else's.
            Some((chunk, _)) => unsafe { pool::give(chunk) },
            None => self.corrupt += 1,
        }
    }

    /// A frame was received by `port`, or a segment of one; the packet, when it is complete.
    #[inline]
    pub(super) fn received(&mut self, descriptor: &libc::xdp_desc, port: PortId) -> Option<Packet> {
        let segment = self.segment(descriptor, port);
        let more = descriptor.options & libc::XDP_PKT_CONTD != 0;
        if more || self.partial.is_some() || self.broken || segment.is_none() {
            self.assemble(segment, more)
        } else {
            segment
        }
    }

    #[inline]
    fn segment(&mut self, descriptor: &libc::xdp_desc, port: PortId) -> Option<Packet> {
        let (chunk, head) = self.take_back(descriptor.addr)?;
        let len = descriptor.len as usize;
        if head < HEADER || len > CHUNK - head {
            // SAFETY: it was leased, so it is ours again.
            unsafe { pool::give(chunk) };
            return None;
        }
        // SAFETY: as above; the bounds were just checked.
        let mut packet = unsafe { Packet::from_raw(chunk, head as u16, len as u16) };
        packet.input = port.interface();
        Some(packet)
    }

    /// Adds a segment to the packet in the making; the packet, when this was its last.
    fn assemble(&mut self, segment: Option<Packet>, more: bool) -> Option<Packet> {
        let joined = match (self.partial.take(), segment) {
            (None, segment) => segment,
            (Some(mut packet), Some(segment)) => packet.append(segment).ok().map(|()| packet),
            (Some(_), None) => None,
        };
        if joined.is_none() && !self.broken {
            self.broken = true;
            self.corrupt += 1;
        }
        let packet = joined.filter(|_| !self.broken);
        if more {
            self.partial = packet;
            return None;
        }
        self.broken = false;
        packet
    }

    /// Whether all segments are of this memory.
    #[inline]
    pub(super) fn is_home(&self, packet: &Packet) -> bool {
        let inside = |bytes: &[u8]| self.offset(bytes.as_ptr()) < self.span.bytes();
        if packet.segment_count() == 1 { inside(packet.data()) } else { packet.segments().all(inside) }
    }

    /// Chunks that the kernel has.
    pub(super) fn count(&self) -> usize {
        self.leased.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Asks for the first bytes of a frame that will be looked at soon.
    #[inline]
    pub(super) fn prefetch(&self, address: u64) {
        #[cfg(target_arch = "x86_64")]
        if let Some(chunk) = self.span.chunk_at(address) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = chunk.as_ptr().wrapping_add(address as usize % CHUNK);
            // SAFETY: a hint; the processor ignores it where there is nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        for offset in (0..self.span.bytes()).step_by(CHUNK) {
            if let Some((chunk, _)) = self.take_back(offset as u64) {
                // SAFETY: it was leased to a socket that is closed.
                unsafe { pool::give(chunk) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    const CHUNKS: usize = 64;
    const PORT: PortId = PortId(3);

    fn descriptor(addr: u64, len: u32, more: bool) -> libc::xdp_desc {
        libc::xdp_desc { addr, len, options: if more { libc::XDP_PKT_CONTD } else { 0 } }
    }

    fn frames() -> Frames {
        let pool = Pool::heap(CHUNKS);
        let span = pool.slice().span().clone();
        pool.install();
        Frames::new(span)
    }

    fn lease(frames: &mut Frames) -> u64 {
        frames.lease(pool::take().unwrap()).unwrap()
    }

    #[test]
    fn a_descriptor_counts_only_once() {
        let mut frames = frames();
        let at = lease(&mut frames);
        assert_eq!(frames.received(&descriptor(at + 256, 60, false), PORT).unwrap().len(), 60);
        assert!(frames.received(&descriptor(at + 256, 60, false), PORT).is_none());
        frames.sent(at);
        assert_eq!((frames.corrupt, frames.count(), pool::available()), (2, 0, CHUNKS));
    }

    #[test]
    fn bytes_outside_the_chunk_are_refused_and_the_chunk_comes_home() {
        let mut frames = frames();
        for (offset, len) in [(0, 60), (63, 1), (64, 4033), (4095, 2), (256, u32::MAX)] {
            let at = lease(&mut frames);
            assert!(frames.received(&descriptor(at + offset, len, false), PORT).is_none());
            assert_eq!(pool::available(), CHUNKS);
        }
        for address in [(CHUNKS * CHUNK) as u64, u64::MAX, 1 << 63] {
            assert!(frames.received(&descriptor(address, 1, false), PORT).is_none());
        }
        assert_eq!(frames.corrupt, 8);
    }

    #[test]
    fn a_broken_chain_costs_that_packet_and_no_other() {
        let mut frames = frames();
        let parts: Vec<u64> = (0..5).map(|_| lease(&mut frames)).collect();
        assert!(frames.received(&descriptor(parts[0] + 256, 3840, true), PORT).is_none());
        assert!(frames.received(&descriptor(7, 3840, true), PORT).is_none());
        assert!(frames.received(&descriptor(parts[1] + 256, 100, true), PORT).is_none());
        assert!(frames.received(&descriptor(parts[2] + 256, 100, false), PORT).is_none());
        assert_eq!(frames.corrupt, 1);
        assert!(frames.received(&descriptor(parts[3] + 256, 3840, true), PORT).is_none());
        let packet = frames.received(&descriptor(parts[4] + 256, 10, false), PORT).unwrap();
        assert_eq!((packet.total_len(), packet.input), (3850, PORT.interface()));
        drop(packet);
        assert_eq!(pool::available(), CHUNKS);
    }

    #[test]
    fn a_million_hostile_descriptors_lose_no_chunk() {
        let mut frames = frames();
        let mut random = chance::Random(0x9e37_79b9_7f4a_7c15u64);
        let mut random = move || random.next();
        for _ in 0..1_000_000 {
            match random() % 8 {
                0..=3 => {
                    if let Some(chunk) = pool::take() {
                        frames.lease(chunk).unwrap();
                    }
                }
                4 => frames.sent(random() % (CHUNKS * CHUNK) as u64),
                _ => {
                    let address = random() % (CHUNKS * CHUNK + CHUNK) as u64;
                    let received = frames
                        .received(&descriptor(address, random() as u32 % 5000, random() % 4 == 0), PORT);
                    if let Some(packet) = received {
                        assert!(packet.segments().map(<[u8]>::len).sum::<usize>() == packet.total_len());
                    }
                }
            }
        }
        assert!(frames.corrupt > 0);
        drop(frames);
        assert_eq!(pool::available(), CHUNKS);
    }
}
