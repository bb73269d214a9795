//! Checksums after a change (RFC 1624): the sum of what is new and of the complement of what was
//! there, applied to as many checksums as cover it.
//!
//! Like [`wire::checksum::Sum`] it is kept unfolded, of native-endian words; a 16-bit word counts
//! alike in either half of a 32-bit one. What changes must begin at an even place of what the
//! checksum covers.

/// What a checksum must learn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delta(u64);

impl Delta {
    /// Nothing changed.
    #[inline(always)]
    pub const fn new() -> Delta {
        Delta(0)
    }

    /// Writes `new` over `place`, and notes it.
    #[inline(always)]
    pub fn write<const N: usize>(&mut self, place: &mut [u8; N], new: &[u8; N]) {
        const { assert!(N.is_multiple_of(2)) };
        self.take(place);
        self.add(new);
        *place = *new;
    }

    /// These bytes came; an odd last one counts as if followed by zero.
    #[inline(always)]
    pub fn add(&mut self, new: &[u8]) {
        let (words, rest) = new.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(u32::from_ne_bytes(*word));
        }
        let (halves, rest) = rest.as_chunks::<2>();
        for half in halves {
            self.0 += u64::from(u16::from_ne_bytes(*half));
        }
        if let [last] = rest {
            self.0 += u64::from(u16::from_ne_bytes([*last, 0]));
        }
    }

    /// These bytes went.
    #[inline(always)]
    pub fn take(&mut self, old: &[u8]) {
        let (words, rest) = old.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(!u32::from_ne_bytes(*word));
        }
        let (halves, rest) = rest.as_chunks::<2>();
        for half in halves {
            self.0 += u64::from(!u16::from_ne_bytes(*half));
        }
        if let [last] = rest {
            self.0 += u64::from(!u16::from_ne_bytes([*last, 0]));
        }
    }

    /// And what another has noted.
    #[inline(always)]
    pub fn merge(&mut self, other: Delta) {
        self.0 += other.0;
    }

    /// The checksum that was `checksum`.
    #[inline(always)]
    pub fn apply(self, checksum: [u8; 2]) -> [u8; 2] {
        let sum = self.0 + u64::from(!u16::from_ne_bytes(checksum));
        let sum = (sum >> 32) + (sum & 0xffff_ffff);
        let sum = (sum >> 32) + (sum & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        (!(sum as u16)).to_ne_bytes()
    }

    /// As [`Delta::apply`], where 0 says that there is no checksum (UDP): it stays, and never comes
    /// about.
    #[inline(always)]
    pub fn apply_stated(self, checksum: [u8; 2]) -> [u8; 2] {
        match (checksum, self.apply(checksum)) {
            ([0, 0], _) => [0, 0],
            (_, [0, 0]) => [0xff, 0xff],
            (_, new) => new,
        }
    }
}
