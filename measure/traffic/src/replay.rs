//! Frames of a capture file, sent as they are.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use ::port::{CHUNK, HEADROOM, MAX_SEGMENTS, Packet};
use wire::capture::{CaptureError, Reader};

use crate::TrafficError;
use crate::size::FCS;

/// Most bytes of frames that are kept in memory.
const MOST: usize = 2 << 30;
/// Bytes of a frame at most: what a packet holds.
const LONGEST: usize = MAX_SEGMENTS * (CHUNK - HEADROOM);
/// Link type of Ethernet.
const ETHERNET: u32 = 1;

/// The frames of a file with their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frames {
    /// Bytes of all frames, one after the other.
    bytes: Vec<u8>,
    /// Where each ends, and when it comes, nanoseconds after the first.
    frames: Vec<(usize, u64)>,
}

impl Frames {
    /// Reads a file whole.
    pub fn read(stream: &str, path: &Path) -> Result<Frames, TrafficError> {
        let wrong = |reason: String| TrafficError::Stream {
            stream: stream.to_owned(),
            field: "replay",
            reason: format!("{}: {reason}", path.display()),
        };
        let failed = |source: CaptureError| TrafficError::Replay { path: path.to_owned(), source };
        let file = File::open(path).map_err(|error| failed(error.into()))?;
        let mut reader = Reader::new(BufReader::new(file)).map_err(failed)?;
        let (mut frames, mut bytes) = (Frames::default(), Vec::new());
        let mut first = None;
        while let Some(record) = reader.next(&mut bytes).map_err(failed)? {
            let number = frames.frames.len() + 1;
            if record.link != ETHERNET {
                let link = wire::capture::link::name(record.link);
                return Err(wrong(format!(
                    "packet {number} is of link type {link}; only Ethernet frames can be sent"
                )));
            }
            if bytes.len() < record.length as usize {
                return Err(wrong(format!(
                    "of packet {number} the file has {} of {} bytes; capture it whole (tcpdump -s 0)",
                    bytes.len(),
                    record.length
                )));
            }
            if bytes.len() > LONGEST {
                return Err(wrong(format!(
                    "packet {number} has {} bytes, and none of more than {LONGEST} can be sent; leave it out (editcap)",
                    bytes.len()
                )));
            }
            if frames.bytes.len() + bytes.len() > MOST {
                return Err(wrong(format!("more than {} GiB of frames; split it (editcap)", MOST >> 30)));
            }
            let first = *first.get_or_insert(record.time);
            let time = u64::try_from(record.time.saturating_sub(first)).unwrap_or(0);
            // A file out of order is sent in its own order.
            let last = frames.frames.last().map_or(0, |&(_, time)| time);
            frames.bytes.extend_from_slice(&bytes);
            frames.frames.push((frames.bytes.len(), time.max(last)));
        }
        if reader.is_cut() {
            Err(wrong(format!(
                "it was cut off in the middle of packet {}; write what is whole to another file (editcap)",
                frames.frames.len() + 1
            )))
        } else if frames.frames.is_empty() {
            Err(wrong("there are no packets in it".to_owned()))
        } else {
            Ok(frames)
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// When frame `at` comes, nanoseconds after the first.
    pub fn time(&self, at: usize) -> u64 {
        self.frames[at].1
    }

    /// From the first frame to where the first of the next round belongs: as far behind the last as
    /// frames are apart on average.
    pub fn span(&self) -> u64 {
        let last = self.time(self.len() - 1);
        match last {
            // Frames without times of their own come a microsecond apart.
            0 => 1000 * self.len() as u64,
            _ => last + last / (self.len() as u64 - 1).max(1),
        }
    }

    /// Bytes of frame `at` without check sequence.
    pub fn frame(&self, at: usize) -> &[u8] {
        let begin = if at == 0 { 0 } else { self.frames[at - 1].0 };
        &self.bytes[begin..self.frames[at].0]
    }

    /// All frames, without check sequence.
    pub fn all(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.frame(at))
    }

    /// Sizes of all frames with check sequence.
    pub fn sizes(&self) -> impl Iterator<Item = u32> + '_ {
        self.all().map(|frame| frame.len() as u32 + FCS)
    }

    /// Frame `at`; `None` when this thread's pool is empty.
    pub fn packet(&self, at: usize) -> Option<Packet> {
        Packet::new(self.frame(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_cut_off_is_refused() {
        let path = std::env::temp_dir().join(format!("bifrost-cut-{}.pcap", std::process::id()));
        let mut file = wire::capture::pcap::header(true, 65_535, ETHERNET).to_vec();
        file.extend(wire::capture::pcap::record(true, 0, 60, 60));
        file.extend([0; 60]);
        std::fs::write(&path, [&file[..], &[0; 7]].concat()).unwrap();
        let refused = Frames::read("s", &path).unwrap_err().to_string();
        assert!(refused.contains("in the middle of packet 2"), "{refused}");
        std::fs::write(&path, file).unwrap();
        assert_eq!(Frames::read("s", &path).unwrap().len(), 1);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_frame_that_no_packet_holds_is_refused() {
        let path = std::env::temp_dir().join(format!("bifrost-longest-{}.pcap", std::process::id()));
        let read = |length: usize| {
            let mut file = wire::capture::pcap::header(true, 262_144, ETHERNET).to_vec();
            file.extend(wire::capture::pcap::record(true, 0, length as u32, length as u32));
            file.extend(vec![0; length]);
            std::fs::write(&path, file).unwrap();
            Frames::read("s", &path)
        };
        let frames = read(LONGEST).unwrap();
        let refused = read(LONGEST + 1).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        ::port::Pool::heap(MAX_SEGMENTS).install();
        assert_eq!(frames.packet(0).unwrap().total_len(), LONGEST);
        assert!(refused.contains(&format!("packet 1 has {} bytes", LONGEST + 1)), "{refused}");
    }

    #[test]
    fn rounds_follow_each_other_as_frames_do() {
        let span = |times: &[u64]| {
            Frames { bytes: Vec::new(), frames: times.iter().map(|&time| (0, time)).collect() }.span()
        };
        assert_eq!(span(&[0, 10_000, 20_000]), 30_000);
        assert_eq!(span(&[0, 100, 200, 300]), 400, "captured at 10 Mpps");
        assert_eq!((span(&[0]), span(&[0, 0, 0])), (1000, 3000));
    }
}
