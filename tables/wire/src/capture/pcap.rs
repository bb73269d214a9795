//! pcap: a header of 24 bytes, then each packet behind a header of 16.

use super::{CaptureError, Record, link};

/// Bytes of a file's header.
pub const HEADER: usize = 24;
/// Bytes of a packet's header, without what a variant adds.
pub const RECORD: usize = 16;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// A variant of Linux of old, with 8 bytes more for each packet.
const MODIFIED: u32 = 0xa1b2_cd34;
const MAJOR: u16 = 2;
const MINOR: u16 = 4;
/// The bits of a link type; those above them tell of check sequences, which the frames may have at
/// their ends.
const LINK: u32 = 0x03ff_ffff;
/// Whether the highest four bits say how long check sequences are, in units of two bytes.
const FCS_IS_KNOWN: u32 = 0x0400_0000;
/// Raw IP as some systems number it.
const RAW_OF_HOST: u32 = 12;

/// What a file's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    big_endian: bool,
    nanoseconds: bool,
    minor: u16,
    /// Bytes of the check sequence that each packet ends with.
    fcs: u32,
    /// Bytes between a packet's header and its bytes.
    pub extra: usize,
    /// What packets begin with.
    pub link: u32,
}

/// A packet's header as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// What it says of the packet.
    pub record: Record,
    /// Bytes of the packet that are in the file.
    pub captured: usize,
    /// Bytes behind them that are none of the packet's: of a check sequence, for one.
    pub surplus: usize,
}

impl Header {
    /// Reads a file's header.
    ///
    /// # Errors
    /// When it is of another kind of file, or of another version.
    pub fn parse(bytes: &[u8; HEADER]) -> Result<Header, CaptureError> {
        let word = |big_endian, at| word(bytes, at, big_endian);
        let known = |magic: u32| [MICROSECONDS, NANOSECONDS, MODIFIED].contains(&magic);
        let big_endian = !known(word(false, 0));
        let magic = word(big_endian, 0);
        if !known(magic) {
            return Err(CaptureError::BadMagic);
        }
        let versions = word(big_endian, 4);
        let (first, second) = ((versions >> 16) as u16, versions as u16);
        let (major, minor) = if big_endian { (first, second) } else { (second, first) };
        if major != MAJOR {
            return Err(CaptureError::Version(major));
        }
        let told = word(big_endian, 20);
        let link = match told & LINK {
            RAW_OF_HOST => link::RAW,
            link => link,
        };
        let fcs = if told & FCS_IS_KNOWN == 0 { 0 } else { (told >> 28) * 2 };
        let extra = if magic == MODIFIED { 8 } else { 0 };
        Ok(Header { big_endian, nanoseconds: magic == NANOSECONDS, minor, fcs, extra, link })
    }

    /// Reads a packet's header.
    ///
    /// # Errors
    /// When the lengths cannot be true.
    pub fn record(&self, bytes: &[u8; RECORD]) -> Result<RecordHeader, CaptureError> {
        let word = |at| word(bytes, at, self.big_endian);
        let unit = if self.nanoseconds { 1 } else { 1000 };
        // Without sign: they last until 2106.
        let seconds = i64::from(word(0));
        let time = seconds * 1_000_000_000 + i64::from(word(4)) * unit;
        // Up to version 2.2, and in some files of 2.3, the two lengths are the other way round.
        let (mut captured, mut length) = (word(8), word(12));
        if self.minor < 3 || (self.minor == 3 && captured > length) {
            (captured, length) = (length, captured);
        }
        if captured as usize > super::MOST {
            return Err(CaptureError::BadRecord);
        }
        let length = length.saturating_sub(self.fcs);
        // Some programs say a byte more than there was.
        let surplus = captured.saturating_sub(length);
        let record = Record { time, length, link: self.link };
        Ok(RecordHeader { record, captured: (captured - surplus) as usize, surplus: surplus as usize })
    }
}

fn word(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

/// A file's header, to be written in this machine's byte order.
pub fn header(nanoseconds: bool, snap: u32, link: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let magic = if nanoseconds { NANOSECONDS } else { MICROSECONDS };
    bytes[..4].copy_from_slice(&magic.to_ne_bytes());
    bytes[4..6].copy_from_slice(&MAJOR.to_ne_bytes());
    bytes[6..8].copy_from_slice(&MINOR.to_ne_bytes());
    bytes[16..20].copy_from_slice(&snap.to_ne_bytes());
    bytes[20..24].copy_from_slice(&link.to_ne_bytes());
    bytes
}

/// A packet's header, to be written in this machine's byte order. `time` is in nanoseconds since
/// 1970; one before that, or after 2106, is as near as the format has it.
pub fn record(nanoseconds: bool, time: i64, captured: u32, length: u32) -> [u8; RECORD] {
    let time = time.clamp(0, i64::from(u32::MAX) * 1_000_000_000 + 999_999_999);
    let fraction = (time % 1_000_000_000) as u32;
    let fraction = if nanoseconds { fraction } else { fraction / 1000 };
    let mut bytes = [0; RECORD];
    bytes[..4].copy_from_slice(&((time / 1_000_000_000) as u32).to_ne_bytes());
    bytes[4..8].copy_from_slice(&fraction.to_ne_bytes());
    bytes[8..12].copy_from_slice(&captured.to_ne_bytes());
    bytes[12..].copy_from_slice(&length.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_told_of_check_sequences_is_no_other_link_type() {
        let link = |told: u32| Header::parse(&header(true, 2000, told)).unwrap().link;
        assert_eq!((link(0x2400_0001), link(0xfc00_0001), link(0x0200_0001)), (1, 1, 0x0200_0001));
    }

    #[test]
    fn check_sequences_are_no_part_of_packets() {
        let parts = |told: u32, captured, length| {
            let file = Header::parse(&header(true, 2000, told)).unwrap();
            let read = file.record(&record(true, 0, captured, length)).unwrap();
            (read.captured, read.surplus, read.record.length)
        };
        assert_eq!(parts(0x2400_0001, 64, 64), (60, 4, 60));
        assert_eq!(parts(0x2400_0001, 62, 64), (60, 2, 60), "cut in its check sequence");
        assert_eq!(parts(0x2400_0001, 50, 64), (50, 0, 60));
        assert_eq!(parts(0x2400_0001, 3, 3), (0, 3, 0));
        assert_eq!((parts(0x2000_0001, 64, 64), parts(0x0400_0001, 64, 64)), ((64, 0, 64), (64, 0, 64)));
    }

    #[test]
    fn times_last_until_2106() {
        let file = Header::parse(&header(true, 2000, link::ETHERNET)).unwrap();
        let kept = |time| file.record(&record(true, time, 60, 60)).unwrap().record.time;
        let late = 4_000_000_000_123_456_789;
        assert_eq!(kept(late), late, "in 2096");
        assert_eq!((kept(-1), kept(i64::MAX)), (0, 4_294_967_295_999_999_999));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(seconds: u32, fraction in 0u32..1_000_000_000, captured in 0u32..9000, more in 0u32..9) {
            let time = i64::from(seconds) * 1_000_000_000 + i64::from(fraction);
            for nanoseconds in [false, true] {
                let file = Header::parse(&header(nanoseconds, 2000, link::ETHERNET)).unwrap();
                let read = file.record(&record(nanoseconds, time, captured, captured + more)).unwrap();
                let time = if nanoseconds { time } else { time - time.rem_euclid(1000) };
                let expected = Record { time, length: captured + more, link: link::ETHERNET };
                prop_assert_eq!((read.record, read.captured, read.surplus), (expected, captured as usize, 0));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: [u8; HEADER], magic in 0usize..4, packet: [u8; RECORD]) {
            let mut bytes = bytes;
            if magic < 3 {
                bytes[..4].copy_from_slice(&[MICROSECONDS, NANOSECONDS, MODIFIED][magic].to_be_bytes());
                bytes[4..6].copy_from_slice(&MAJOR.to_be_bytes());
            }
            if let Ok(file) = Header::parse(&bytes) && let Ok(read) = file.record(&packet) {
                prop_assert!(read.captured + read.surplus <= crate::capture::MOST);
            }
        }
    }
}
