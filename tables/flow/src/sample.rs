//! One packet in N: which packets are sampled, and what is kept of them.
//!
//! A worker has a [`Sampler`] for each port that packets come in by. To pass a packet that is no
//! sample costs it a subtraction; a sample is copied into a bounded queue, which whoever tells of
//! samples empties (sFlow, in the flow log). How many packets lie between two samples is random,
//! uniform from 1 to 2N - 1 (mean N), so that traffic with a period of its own is still sampled
//! fairly.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use chance::Random;
use crossbeam_queue::ArrayQueue;

/// Most bytes that are kept of a packet.
pub const HEADER: usize = 256;
/// Samples that may wait for the agent: a second's worth at 10 Mpps and one in 10,000.
const WAITING: usize = 1024;

/// What became of a sampled packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It left by this ifindex.
    Forwarded(u32),
    /// It was dropped.
    Dropped,
    /// It was for this machine.
    Local,
    /// It was sampled before that was known.
    Unknown,
}

/// One packet in N.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    header: [u8; HEADER],
    kept: u16,
    /// Bytes of the whole frame, without its checksum.
    pub length: u32,
    /// What became of it.
    pub fate: Fate,
    /// VLAN it came in by; 0: none.
    pub input_vlan: u16,
    /// VLAN it left by; 0: none.
    pub output_vlan: u16,
    /// Its gateway; absent: on the link itself, or not known.
    pub next_hop: Option<IpAddr>,
    /// Bits of the route's prefix for its source; 0: not looked up.
    pub source_prefix: u8,
    /// Bits of the route's prefix that it followed.
    pub destination_prefix: u8,
}

impl Sample {
    /// A frame from its Ethernet header on; at most `keep` bytes of it are kept, and never more
    /// than [`HEADER`].
    pub fn of(frame: &[u8], keep: usize, fate: Fate) -> Sample {
        let kept = frame.len().min(keep).min(HEADER);
        let mut header = [0; HEADER];
        header[..kept].copy_from_slice(&frame[..kept]);
        Sample {
            header,
            kept: kept as u16,
            length: frame.len() as u32,
            fate,
            input_vlan: 0,
            output_vlan: 0,
            next_hop: None,
            source_prefix: 0,
            destination_prefix: 0,
        }
    }

    /// What was kept.
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.kept)]
    }
}

/// What a sampler shares with whoever tells of its samples.
#[derive(Debug)]
pub struct Lane {
    /// ifindex of the port.
    pub input: u32,
    /// Samples, oldest first.
    pub samples: ArrayQueue<Sample>,
    /// Packets that could have been sampled.
    pub seen: AtomicU64,
    /// Samples that found the queue full.
    pub lost: AtomicU64,
}

/// Chooses packets of one port on one worker.
#[derive(Debug)]
pub struct Sampler {
    lane: Arc<Lane>,
    one_in: u32,
    keep: usize,
    /// Packets still to be passed over.
    skip: u32,
    random: Random,
}

impl Sampler {
    /// Samples one packet in `one_in` of those that come in by ifindex `input`, and keeps `keep`
    /// bytes of each.
    pub fn new(input: u32, one_in: u32, keep: usize, seed: u64) -> (Sampler, Arc<Lane>) {
        let lane = Arc::new(Lane {
            input,
            samples: ArrayQueue::new(WAITING),
            seen: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        let mut sampler =
            Sampler { lane: Arc::clone(&lane), one_in: one_in.max(1), keep, skip: 0, random: Random(seed) };
        sampler.skip = sampler.gap();
        (sampler, lane)
    }

    /// The place of the next sample among so many packets that came in, if there is one; call again
    /// with those behind it:
    ///
    /// ```ignore
    /// let mut from = 0;
    /// while let Some(at) = sampler.pick(batch.len() - from) {
    ///     sampler.keep(&batch[from + at], Fate::Unknown);
    ///     from += at + 1;
    /// }
    /// ```
    #[inline]
    pub fn pick(&mut self, packets: usize) -> Option<usize> {
        let seen = self.lane.seen.load(Relaxed);
        if self.skip as usize >= packets {
            self.skip -= packets as u32;
            self.lane.seen.store(seen + packets as u64, Relaxed);
            return None;
        }
        let at = self.skip as usize;
        self.lane.seen.store(seen + at as u64 + 1, Relaxed);
        self.skip = self.gap();
        Some(at)
    }

    /// The packet that was picked, with no more said about it.
    pub fn keep(&mut self, frame: &[u8], fate: Fate) {
        self.push(Sample::of(frame, self.keep, fate));
    }

    /// Bytes to keep of a packet.
    pub fn header(&self) -> usize {
        self.keep
    }

    /// The packet that was picked. When the queue is full it is counted as dropped, as the format
    /// has it.
    pub fn push(&mut self, sample: Sample) {
        if self.lane.samples.push(sample).is_err() {
            self.lane.lost.store(self.lane.lost.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Packets to pass over before the next sample: 0 to 2N - 2.
    fn gap(&mut self) -> u32 {
        let random = self.random.next() >> 32;
        let range = 2 * u64::from(self.one_in) - 1;
        ((random * range) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_in_n_on_average_and_all_are_seen() {
        let (mut sampler, lane) = Sampler::new(2, 100, 128, 7);
        let mut picked = 0;
        for _ in 0..20_000 {
            let mut from = 0;
            while let Some(at) = sampler.pick(64 - from) {
                assert!(from + at < 64);
                picked += 1;
                from += at + 1;
            }
        }
        assert_eq!(lane.seen.load(Relaxed), 20_000 * 64);
        assert!((12_300..13_300).contains(&picked), "{picked} of 12,800");
    }

    #[test]
    fn every_packet_when_n_is_one_and_what_does_not_fit_is_counted() {
        let (mut sampler, lane) = Sampler::new(2, 1, 128, 7);
        for _ in 0..2 * WAITING {
            assert_eq!(sampler.pick(1), Some(0));
            sampler.keep(&[0; 300], Fate::Unknown);
        }
        assert_eq!(lane.lost.load(Relaxed), WAITING as u64);
        assert_eq!(lane.samples.pop().unwrap().header().len(), 128);
    }
}
