//! What the generator's and the sink's programs share with user space: `forwarding/bpf/generate.c`,
//! `forwarding/bpf/tally.c`.

use crate::c;

/// The header `traffic_facts.h`, which `forwarding/bpf/times.h` includes.
pub fn facts() -> String {
    c::header(&[numbers(), flags(), layouts()])
}

constants! {
    numbers, "";
    /// Bytes of a block of headers.
    HEADERS: usize = 4096;
    /// Random factors of gaps.
    DRAWS: usize = 4096;
    /// Frames of a batch, at most.
    BATCH_MOST: u32 = 64;
    /// The same where packets have due times; more take the verifier too long.
    PACED_MOST: u32 = 32;
    /// Streams of a program, at most.
    LANES_MOST: u32 = 256;
    /// log2 of the buckets of times per power of two.
    SUB: usize = 6;
    /// Buckets of times.
    BUCKETS: usize = 2304;
    /// Numbers of a stream's window.
    WINDOW: usize = 4096;
    /// The window's word of a number that has come.
    ARRIVED: u32 = u32::MAX;
    /// Bytes of the stamp at the front of a payload.
    STAMP: usize = 18;
    /// Bits of its times and sequence numbers.
    STAMP_BITS: u32 = 48;
}

/// What is special about a lane.
pub mod flag {
    constants! {
        flags, "LANE_";
        /// IPv6.
        SIX: u64 = 1;
        /// UDP.
        UDP: u64 = 2;
        /// The upper layer's checksum is to be completed.
        CHECK: u64 = 4;
        /// There is a stamp.
        STAMP: u64 = 8;
        /// Several sizes: lengths and checksums are to be completed.
        SIZES: u64 = 16;
        /// It has due times.
        PACED: u64 = 32;
        /// Gaps are drawn at random.
        RANDOM: u64 = 64;
    }
}
use flag::flags;

/// A word that only the program uses, and that the kernel's verifier is not to follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Volatile(u64);

impl c::Field for Volatile {
    fn declare(name: &str) -> String {
        format!("volatile __u64 {name}")
    }

    fn write(&self, to: &mut [u8]) {
        c::Field::write(&self.0, to);
    }
}

layouts! {
    layouts;

    /// A stream. Times are in 1/65,536 ns.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Lane as "lane" {
        /// What is special about it.
        flags: u64,
        /// The number of its first header.
        headers: u64,
        /// log2 of the bytes from a header to the next.
        stride: u64,
        /// Flows at a time.
        slots: u64,
        /// Generations of them that there are headers for.
        generations: u64,
        /// Packets of a flow; 0: it never ends.
        life: u64,
        /// Where in its life the first slot's flow begins.
        stagger_first: u64,
        /// The step from there to the next slot's.
        stagger_step: u64,
        /// The number of its first size.
        sizes: u64,
        /// How many sizes.
        cycle: u64,
        /// Where the IP header begins.
        l3: u64,
        /// Where the upper layer's begins.
        l4: u64,
        /// Where the upper layer's checksum is.
        check: u64,
        /// Where the payload begins.
        payload: u64,
        /// The sum of the stamp's mark and lane.
        names: u64,
        /// Packets of a burst; 0 without.
        burst: u64,
        /// The pause after it.
        pause: u64,
        /// Kept: when the next packet is due.
        due: u64,
        /// Kept: packets that are left.
        left: u64,
        /// Kept: the next slot.
        slot: u64,
        /// Kept: how often all slots have been sent.
        round: u64,
        /// Kept: the next size.
        size: u64,
        /// Kept: the next packet's number.
        sequence: u64,
        /// Kept: the state of the random numbers.
        random: u64,
        /// Kept: packets of this burst.
        in_burst: u64,
        /// Kept: packets sent.
        packets: u64,
        /// Kept: their bytes.
        bytes: u64,
        /// Kept: when the first left.
        first: u64,
        /// Kept: when the last left.
        last: u64,
        /// Kept: when the last was due.
        last_due: u64,
        /// Kept: when its batch left.
        last_left: u64,
        /// Kept: frames that could not get their size.
        unsent: u64,
        /// Bytes of the longest header of all lanes, for frames go round among them.
        length: u64,
    }

    /// What frames of a size are.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Size as "size" {
        /// Bytes of the frame without check sequence.
        frame: u16,
        /// The length in the IP header.
        ip: u16,
        /// The length in a UDP header.
        udp: u16,
        /// What it adds to the sum of an IPv4 header.
        l3_sum: u16,
        /// What it adds to the sum of the upper layer.
        l4_sum: u16,
        /// The sum of the payload behind the stamp.
        fill_sum: u16,
        /// Nothing.
        pad: [u16; 2],
        /// From a frame of this size to the next.
        gap: u64,
    }

    /// A run. Times are nanoseconds of the monotonic clock.
    pub struct Live as "live" {
        /// When it begins.
        start: u64,
        /// When it ends.
        end: u64,
        /// Whether all has been sent.
        over: u64,
        /// The clock when it was last read.
        now: u64,
        /// Frames of this batch.
        position: u64,
        /// Those of them that wait to leave.
        pending: u64,
        /// The lane whose turn it was.
        cursor: u64,
        /// Frames of a batch, as the kernel was told.
        batch: u64,
        /// When those that wait were due.
        due: [u64; BATCH_MOST as usize],
        /// Their lanes.
        lane: [u64; BATCH_MOST as usize],
        /// Of the search for the next lane: the verifier would try every order of lanes.
        earliest: Volatile,
        /// As before.
        paced: Volatile,
        /// As before.
        free: Volatile,
        /// As before.
        after: Volatile,
    }

    /// Times counted in buckets, nanoseconds.
    pub struct Times as "times" {
        /// Of all.
        sum: u64,
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
        /// How many.
        count: u64,
        /// By size.
        bucket: [u64; BUCKETS],
    }

    /// A trial.
    pub struct Told as "told" {
        /// Its number as it lies in a packet.
        mark: u64,
        /// What to add to the sender's clock, in two's complement.
        offset: u64,
    }

    /// What arrived of a lane by a queue. Times are nanoseconds of the monotonic clock.
    pub struct Seen as "seen" {
        /// Frames.
        packets: u64,
        /// Their bytes, with check sequence.
        bytes: u64,
        /// Frames whose payload was changed.
        corrupt: u64,
        /// When the first arrived.
        first: u64,
        /// When the last arrived.
        last: u64,
        /// Frames, each counted once.
        unique: u64,
        /// Copies.
        duplicates: u64,
        /// Frames that came after one sent later.
        reordered: u64,
        /// Among them those too late to know more.
        late: u64,
        /// Largest extent (RFC 4737).
        extent: u64,
        /// The sum of all extents.
        extents: u64,
        /// The number after the highest.
        next: u64,
        /// Frames of this queue, modulo what a window's word holds.
        arrivals: u64,
        /// Whether there is a latency to compare with.
        timed: u64,
        /// That latency.
        last_latency: u64,
        /// In 1/16 ns, as RFC 3550, A.8 keeps it.
        jitter: u64,
        /// The number after the last one known to be lost.
        lost_until: u64,
        /// A word for each of the last numbers.
        window: [u32; WINDOW],
        /// From due to arrival.
        latency: Times,
        /// Between latencies of packets one after the other.
        variation: Times,
    }
}
