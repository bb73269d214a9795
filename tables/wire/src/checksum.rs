//! The Internet checksum: whole (RFC 1071) and incremental (RFC 1624).
//!
//! Sums are kept unfolded in a `u64` of native-endian 32-bit words: the ones' complement sum does
//! not care about byte order as long as the result is stored the same way it was read (RFC 1071,
//! 2(B)). A packet of 64 KiB cannot overflow it.

/// A running ones' complement sum. Parts may be added in any order; each but the last must have
/// even length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The empty sum.
    pub const fn new() -> Sum {
        Sum(0)
    }

    /// With `bytes` added. An odd last byte counts as if followed by zero.
    #[inline]
    pub fn with(mut self, bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<4>();
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
        self
    }

    /// With the bytes of several parts added as if they were one run. Unlike elsewhere, each may
    /// have any length.
    pub fn with_parts<'a>(mut self, parts: impl IntoIterator<Item = &'a [u8]>) -> Sum {
        let mut odd = false;
        for mut part in parts {
            // Words go on over the border of parts.
            if odd && let Some((first, rest)) = part.split_first() {
                self = self.with(&[0, *first]);
                (odd, part) = (false, rest);
            }
            self = self.with(part);
            odd ^= part.len() % 2 == 1;
        }
        self
    }

    /// With a 16-bit number added as it stands on the wire.
    #[inline]
    pub fn with_u16(self, number: u16) -> Sum {
        Sum(self.0 + u64::from(number.to_be()))
    }

    /// With a 32-bit number added as it stands on the wire.
    #[inline]
    pub fn with_u32(self, number: u32) -> Sum {
        Sum(self.0 + u64::from(number.to_be()))
    }

    /// The folded sum, not complemented, as a number. 0xffff over data that includes its correct
    /// checksum.
    #[inline]
    pub fn fold(self) -> u16 {
        let mut sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        sum = (sum >> 32) + (sum & 0xffff_ffff);
        let mut sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        u16::from_be(sum as u16)
    }

    /// The checksum to store.
    #[inline]
    pub fn finish(self) -> u16 {
        !self.fold()
    }
}

/// The checksum of `bytes`, with the checksum field in them being zero.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::new().with(bytes).finish()
}

/// Whether `bytes`, which include their checksum, add up.
#[inline]
pub fn verify(bytes: &[u8]) -> bool {
    Sum::new().with(bytes).fold() == 0xffff
}

/// Whether an IPv4 header without options adds up: [`verify`] for the one length that every packet
/// has.
#[inline]
pub fn verify_header(header: &[u8; 20]) -> bool {
    let ([a, b], last) = header.as_chunks::<8>() else { return false };
    let last = last.first_chunk().map_or(0, |last| u32::from_ne_bytes(*last));
    // A carry out of 64 bits counts as 1, as one out of 16 does: 0xffff divides 2^64 - 1.
    let (sum, carry) = u64::from_ne_bytes(*a).overflowing_add(u64::from_ne_bytes(*b));
    let (sum, again) = sum.overflowing_add(u64::from(last) + u64::from(carry));
    let sum = sum + u64::from(again);
    // Folding is the remainder by 0xffff, with 0xffff for 0. By the inverse of 0xffff its
    // multiples, and they alone, become small: 1 to 2^64 / 0xffff.
    const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
    const { assert!(INVERSE.wrapping_mul(0xffff) == 1) };
    sum.wrapping_mul(INVERSE).wrapping_sub(1) < u64::MAX / 0xffff
}

/// The new checksum after a 16-bit field changed from `old` to `new` (RFC 1624, equation 3).
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let mut sum = !checksum as u32 + !old as u32 + new as u32;
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    !(sum as u16)
}

/// The sum of the IPv4 pseudo-header (RFC 768, RFC 9293) of an upper layer packet of `length`
/// bytes.
pub fn pseudo4(source: u32, destination: u32, protocol: u8, length: u16) -> Sum {
    Sum::new().with_u32(source).with_u32(destination).with_u16(u16::from(protocol)).with_u16(length)
}

/// The sum of the IPv6 pseudo-header (RFC 8200, 8.1) of an upper layer packet of `length` bytes.
pub fn pseudo6(source: u128, destination: u128, next_header: u8, length: u32) -> Sum {
    Sum::new()
        .with(&source.to_be_bytes())
        .with(&destination.to_be_bytes())
        .with_u32(length)
        .with_u32(u32::from(next_header))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 as its text reads.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().with(&bytes).fold(), 0xddf2);
    }

    proptest! {
        #[test]
        fn whole_equals_naive(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(of(&bytes), naive(&bytes));
        }

        #[test]
        fn a_header_verifies_as_any_bytes_do(mut header: [u8; 20], right: bool) {
            if right {
                header[10..12].fill(0);
                let sum = of(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            prop_assert_eq!(verify_header(&header), verify(&header));
            prop_assert!(!verify_header(&[0; 20]));
        }

        #[test]
        fn parts_equal_whole(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..100) {
            let cut = (2 * cut).min(bytes.len() & !1);
            prop_assert_eq!(Sum::new().with(&bytes[cut..]).with(&bytes[..cut]).finish(), naive(&bytes));
        }

        #[test]
        fn parts_of_any_length_equal_whole(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 0..9)) {
            let sum = Sum::new().with_parts(parts.iter().map(Vec::as_slice));
            prop_assert_eq!(sum.finish(), naive(&parts.concat()));
        }

        #[test]
        fn incremental_equals_whole(mut bytes in proptest::collection::vec(any::<u8>(), 20..=20), new: u16, field in 0usize..5) {
            bytes[0] |= 0x40; // as in any IP header: the sum is not that of all zeroes
            bytes[10..12].fill(0);
            let before = of(&bytes);
            let old = u16::from_be_bytes([bytes[2 * field], bytes[2 * field + 1]]);
            let new = if field == 0 { new | 0x4000 } else { new };
            bytes[2 * field..2 * field + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update(before, old, new), of(&bytes));
        }
    }
}
