//! Where a packet's network header is, and what stands there.
//!
//! The place is noted once, by whoever reads the link's header, and counted from the front of the
//! chunk: it stays right when bytes are added to or taken from the front.

use super::{CHUNK, HEADER, Packet};

impl Packet {
    /// Says that the network header begins `offset` bytes behind the front; negative: in front of
    /// it. False, and nothing done, when that is outside the chunk.
    #[inline]
    pub fn set_network(&mut self, offset: isize) -> bool {
        let place = self.place_of(offset);
        self.network = place.unwrap_or(self.network);
        place.is_some()
    }

    /// Says that the network header begins behind the first `N` bytes, and gives these; `None`, and
    /// nothing done, when there are fewer.
    #[inline(always)]
    pub fn split_link<const N: usize>(&mut self) -> Option<&[u8; N]> {
        if usize::from(self.len) < N {
            return None;
        }
        self.network = self.head + N as u16;
        self.data().first_chunk()
    }

    /// The `N` bytes from the network header on, for whoever knows already that the packet has so
    /// many: it is not asked again. What it does not have is whatever lies behind it in its chunk.
    /// `None` while nobody has said where that header is, or where the chunk ends before.
    #[inline(always)]
    pub fn window<const N: usize>(&self) -> Option<&[u8; N]> {
        let place = self.window_place::<N>()?;
        // SAFETY: the bytes are behind the chunk's header and within the chunk, as just found,
        // which is ours; packet memory is zeroed when it is made.
        Some(unsafe { &*self.base.as_ptr().add(place).cast() })
    }

    /// As [`Packet::window`], to change.
    #[inline(always)]
    pub fn window_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let place = self.window_place::<N>()?;
        // SAFETY: as in `window`, and we are borrowed mutably.
        Some(unsafe { &mut *self.base.as_ptr().add(place).cast() })
    }

    #[inline(always)]
    fn window_place<const N: usize>(&self) -> Option<usize> {
        const { assert!(N <= CHUNK - HEADER) };
        let place = usize::from(self.network);
        // One comparison: 0, not known, is far beyond.
        (place.wrapping_sub(HEADER) <= CHUNK - HEADER - N).then_some(place)
    }

    /// Forgets where the network header is.
    #[inline]
    pub fn clear_network(&mut self) {
        self.network = 0;
    }

    /// Bytes from the front to the network header, negative when the front is behind it; `None`
    /// while nobody has said. It stays where it is when bytes are added to or removed from the
    /// front.
    #[inline]
    pub fn network_offset(&self) -> Option<isize> {
        self.offset_of(self.network)
    }

    /// Bytes from the front to the network header; 0 when it is not behind the front, or nobody has
    /// said.
    #[inline(always)]
    pub fn l3(&self) -> usize {
        usize::from(self.network.saturating_sub(self.head))
    }

    /// The bytes of the first segment from the network header on; none while nobody has said where
    /// that is.
    #[inline(always)]
    pub fn network(&self) -> &[u8] {
        self.bytes_from(self.network)
    }

    /// The bytes of the first segment from the network header on, to change.
    #[inline(always)]
    pub fn network_mut(&mut self) -> &mut [u8] {
        self.bytes_from_mut(self.network)
    }

    /// The bytes from `place` in the chunk to the end of the first segment; none for place 0, not
    /// known.
    #[inline(always)]
    pub(crate) fn bytes_from(&self, place: u16) -> &[u8] {
        let length = if place == 0 { 0 } else { (self.head + self.len).saturating_sub(place) };
        debug_assert!(place == 0 || place as usize >= HEADER && place as usize <= CHUNK);
        // SAFETY: `place` is 0, and no byte is read, or within the bytes behind the chunk's header
        // (`place_of` gives out no others), and `head + len <= CHUNK`; the chunk is ours.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(place as usize), length as usize) }
    }

    /// As [`Packet::bytes_from`], to change.
    #[inline(always)]
    pub(crate) fn bytes_from_mut(&mut self, place: u16) -> &mut [u8] {
        let length = self.bytes_from(place).len();
        // SAFETY: as in `bytes_from`, and we are borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(place as usize), length) }
    }

    /// Where in the chunk the byte is that lies `offset` behind the front; `None` when that is
    /// outside.
    #[inline]
    pub(crate) fn place_of(&self, offset: isize) -> Option<u16> {
        let at = self.head as isize + offset;
        (at >= HEADER as isize && at <= CHUNK as isize).then_some(at as u16)
    }

    /// How far behind the front a place in the chunk is; `None` for 0, not known.
    #[inline]
    pub(crate) fn offset_of(&self, place: u16) -> Option<isize> {
        (place != 0).then(|| place as isize - self.head as isize)
    }
}
