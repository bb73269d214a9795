//! What came out of a trial.

use serde::{Deserialize, Serialize};

use crate::histogram::Distribution;

/// What came out of a trial, or of its part so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seconds from the first packet's due time to the end of sending.
    pub seconds: f64,
    /// Stream by stream.
    pub streams: Vec<StreamReport>,
    /// Frames that reached the sink and carry no stamp of these streams (ARP, other traffic,
    /// replayed frames).
    pub foreign: Count,
    /// Frames that were lost at the sink's own port, of these streams or not: none of them is the
    /// device's fault.
    #[serde(default)]
    pub missed: u64,
    /// How packets were sent: `queue` or `live frames`.
    pub sender: String,
    /// How they were received: `queue`, `program in the driver`, or nothing where there was no
    /// sink.
    pub receiver: Option<String>,
    /// What broke while it ran: a port whose link went down, or whose peer left, and when. Nothing
    /// that was lost then is the device's fault.
    #[serde(default)]
    pub interrupted: Option<String>,
    /// How well the two ends' clocks agree, in nanoseconds either way; latencies are not known
    /// better. 0 on one machine.
    pub clock_uncertainty: u64,
    /// What the reader of the figures should know.
    pub notes: Vec<String>,
}

/// Frames and their bytes, with the frame check sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Frames.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    /// With another one added.
    pub fn plus(self, other: Count) -> Count {
        Count { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }

    /// Bits on the wire: with preamble and gap.
    pub fn layer1_bits(self) -> u64 {
        8 * (self.bytes + self.packets * u64::from(crate::size::LAYER1))
    }
}

/// What became of a stream. Everything that needs a sink is `None` without one, or for streams
/// without stamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// Its name.
    pub name: String,
    /// Frames that were due in the time, by the schedule; those sent, for a stream without one.
    pub offered: u64,
    /// Frames that the port took.
    pub sent: Count,
    /// Frames a second that the port took.
    pub sent_rate: f64,
    /// Frames that arrived, with duplicates and corrupt ones.
    pub received: Option<Count>,
    /// Frames a second that arrived, between the first and the last.
    pub received_rate: Option<f64>,
    /// Frames sent that never arrived.
    pub lost: Option<u64>,
    /// That as a part of what was sent, 0 to 1.
    pub loss_ratio: Option<f64>,
    /// Until when frames were lost or changed: where the last one of them was among those sent, 0
    /// (none was) to 1. Not known where frames of the stream arrived by several receive queues.
    #[serde(default)]
    pub lost_until: Option<f64>,
    /// Until when frames arrived: where the last one that did was among those sent, 0 (none did) to
    /// 1.
    #[serde(default)]
    pub arrived_until: Option<f64>,
    /// Frames that arrived more than once: the copies.
    pub duplicates: Option<u64>,
    /// Frames whose payload was changed on the way.
    pub corrupt: Option<u64>,
    /// Order (RFC 4737).
    pub reordering: Option<Reordering>,
    /// From the time a packet was due to its arrival, in nanoseconds: corrected for coordinated
    /// omission.
    pub latency: Option<Distribution>,
    /// Difference of latency between a packet and the one that arrived before it, without sign, in
    /// nanoseconds (RFC 3393, one-way IPDV with consecutive packets).
    pub delay_variation: Option<Distribution>,
    /// The smoothed jitter at the end, in nanoseconds (RFC 3550, 6.4.1); the largest of a stream's
    /// parts.
    pub jitter: Option<f64>,
    /// How far gaps between packets that left were from those of the schedule, without sign, in
    /// nanoseconds; of a stream with a rate. Packets that are handed over together left with no gap
    /// between them.
    pub spacing: Option<Distribution>,
    /// How late packets left, after they were due, in nanoseconds.
    pub lateness: Option<Distribution>,
}

/// Order of arrival (RFC 4737), within each of the receive queues that frames came by: among those
/// there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reordering {
    /// Frames that came after one that was sent later (section 3).
    pub packets: u64,
    /// That as a part of those received, duplicates left out, 0 to 1 (section 4.1).
    pub ratio: f64,
    /// How many arrivals back the first one is that was sent later (reordering extent, section
    /// 4.2): the most.
    pub extent: u64,
    /// The extent on average, over reordered frames.
    pub mean_extent: f64,
    /// Among them those so late (beyond [`crate::sequence::WINDOW`]) that it is not known whether
    /// they came before; their extent is not counted.
    pub late: u64,
    /// The receive queues that frames came by.
    #[serde(default)]
    pub queues: usize,
}

impl Report {
    /// Sum of what was due.
    pub fn offered(&self) -> u64 {
        self.streams.iter().map(|stream| stream.offered).sum()
    }

    /// Sum of what the port took.
    pub fn sent(&self) -> Count {
        self.streams.iter().fold(Count::default(), |sum, stream| sum.plus(stream.sent))
    }

    /// Sum of what arrived of the streams; `None` without a sink.
    pub fn received(&self) -> Option<Count> {
        let received = self.streams.iter().filter_map(|stream| stream.received);
        self.receiver.as_ref().map(|_| received.fold(Count::default(), Count::plus))
    }

    /// Sum of what is missing; `None` without a sink.
    pub fn lost(&self) -> Option<u64> {
        self.receiver.as_ref().map(|_| self.streams.iter().filter_map(|stream| stream.lost).sum())
    }

    /// What is missing as a part of what was sent, 0 to 1; `None` without a sink.
    pub fn loss_ratio(&self) -> Option<f64> {
        let stamped = self.streams.iter().filter(|stream| stream.lost.is_some());
        let sent: u64 = stamped.map(|stream| stream.sent.packets).sum();
        self.lost().map(|lost| if sent == 0 { 0.0 } else { lost as f64 / sent as f64 })
    }

    /// Frames a second that the port took.
    pub fn sent_rate(&self) -> f64 {
        self.streams.iter().map(|stream| stream.sent_rate).sum()
    }
}
