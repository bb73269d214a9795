//! What a packet carries for the sink, at the beginning of its payload.
//!
//! ```text
//!  0       2       4       6                       12                      18
//! | mark  | lane  | check | sequence              | time due, ns          |  fill ...
//! ```
//!
//! Eighteen bytes, big-endian: what the smallest frame has left behind Ethernet, IPv4 and UDP. So a
//! sequence number of 48 bits (nine years at 1 Mpps) and a time of 48 bits (78 hours, after which
//! it begins anew; the sink knows its own time and so which round is meant) have to do.
//!
//! `mark` is the trial's own number: stragglers of the trial before are foreign. A *lane* is a
//! stream's part of one sending core, within which sequence numbers count up.
//!
//! `check` makes the payload add up to 0xffff, as an Internet checksum does (RFC 1071): the sink
//! sees a change in any byte, whatever devices on the way did to the checksums of the headers. And
//! as its sum is known before it is made, it changes nothing in the checksum of UDP, TCP or ICMP:
//! that depends on the flow and the size only.

pub use abi::traffic::STAMP;
use abi::traffic::STAMP_BITS as BITS;
/// Largest of them.
pub const LARGEST: u64 = (1 << BITS) - 1;

/// A stamp read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The trial's number.
    pub mark: u16,
    /// Which stream of which core.
    pub lane: u16,
    /// Sequence number within the lane.
    pub sequence: u64,
    /// When it was due: nanoseconds of the sender's monotonic clock, the lower 48 bits.
    pub time: u64,
}

impl Stamp {
    /// The stamp at the beginning of a payload; `None` when it is too short.
    #[inline]
    pub fn read(payload: &[u8]) -> Option<Stamp> {
        let stamp: &[u8; STAMP] = payload.first_chunk()?;
        let number = |at: usize| {
            let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|i| stamp[at + i]);
            u64::from_be_bytes([0, 0, a, b, c, d, e, f])
        };
        Some(Stamp {
            mark: u16::from_be_bytes([stamp[0], stamp[1]]),
            lane: u16::from_be_bytes([stamp[2], stamp[3]]),
            sequence: number(6),
            time: number(12),
        })
    }

    /// Its time in full: the one nearest to `now`.
    #[inline]
    pub fn time_near(&self, now: u64) -> u64 {
        let distance = now.wrapping_sub(self.time) & LARGEST;
        // Up to half of the range back, else ahead.
        if distance <= LARGEST / 2 {
            now.wrapping_sub(distance)
        } else {
            now.wrapping_add(LARGEST + 1 - distance)
        }
    }
}

/// Writes what changes from packet to packet into a stamp whose mark and lane are there. `rest` is
/// the sum, not complemented and as it lies in memory, of the payload without these and without the
/// check.
#[inline(always)]
pub fn write(stamp: &mut [u8; STAMP], sequence: u64, time: u64, rest: u64) {
    let (sequence, time) = (sequence & LARGEST, time & LARGEST);
    let front = sequence << 16 | time >> 32;
    let back = time as u32;
    let halves = front.to_be();
    let words = (halves >> 32) + (halves & 0xffff_ffff) + u64::from(back.to_be());
    let check = !fold(rest + words);
    stamp[4..6].copy_from_slice(&check.to_ne_bytes());
    stamp[6..14].copy_from_slice(&front.to_be_bytes());
    stamp[14..18].copy_from_slice(&back.to_be_bytes());
}

/// A sum of words as they lie in memory, folded to 16 bits.
#[inline(always)]
pub fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

/// The sum of bytes, folded, as it lies in memory.
pub fn sum(bytes: &[u8]) -> u16 {
    wire::checksum::Sum::new().with(bytes).fold().to_be()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_adds_up_and_is_read_again(mark: u16, lane: u16, sequence in 0..=LARGEST, time in 0..=LARGEST, fill in proptest::collection::vec(any::<u8>(), 0..99)) {
            let mut payload = vec![0; STAMP];
            payload[..2].copy_from_slice(&mark.to_be_bytes());
            payload[2..4].copy_from_slice(&lane.to_be_bytes());
            payload.extend(&fill);
            let rest = u64::from(sum(&payload));
            write(payload.first_chunk_mut().unwrap(), sequence, time, rest);
            prop_assert!(wire::checksum::verify(&payload));
            prop_assert_eq!(Stamp::read(&payload), Some(Stamp { mark, lane, sequence, time }));
            let at = usize::try_from(time).unwrap() % payload.len();
            payload[at] ^= 1 << (sequence % 8);
            prop_assert!(!wire::checksum::verify(&payload));
        }

        #[test]
        fn a_time_is_the_nearest(now in LARGEST..u64::MAX / 2, ahead in -1_000_000_000i64..1_000_000_000_000) {
            let then = now.wrapping_add_signed(-ahead);
            let stamp = Stamp { mark: 0, lane: 0, sequence: 0, time: then & LARGEST };
            prop_assert_eq!(stamp.time_near(now), then);
        }
    }
}
