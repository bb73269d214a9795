//! Packets of a lane: a stream's part of one sending core.
//!
//! Every flow has its header ready in one to three cache lines, complete with checksums where all
//! frames have one size. A packet is a copy of that, the rest of the payload behind it, and the
//! stamp; where sizes change, lengths and checksums are completed by additions
//! ([`Plan::complete`]). Headers lie in the order in which they are used, so that the processor
//! fetches the next ones by itself.

use std::sync::Arc;

use ::port::Packet;

use crate::plan::{Plan, Size};
use crate::stamp::{self, STAMP};

/// Most bytes of a frame that is made in one piece; longer ones may be chains of chunks.
const ONE_PIECE: usize = 2048;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Makes the packets of a lane, one after the other.
pub struct Maker {
    plan: Arc<Plan>,
    part: Part,
    /// Headers of the flows, so many lines each.
    headers: Vec<u8>,
    /// Where in there the first cache line begins.
    skew: usize,
    lines: usize,
    slots: usize,
    slot: usize,
    /// The flow of each slot, and packets that it has left; empty when flows never end.
    lives: Vec<Life>,
    size: usize,
    sequence: u64,
    /// Sum of mark and lane, as they lie in memory.
    names: u64,
}

#[derive(Clone, Copy)]
struct Life {
    flow: u64,
    left: u32,
}

/// Which part of a stream a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The trial's number.
    pub mark: u16,
    /// The lane's number.
    pub lane: u16,
    /// Which of the stream's lanes.
    pub index: u32,
    /// How many it has; not more than it has flows.
    pub of: u32,
}

impl Part {
    /// Sum of mark and lane as they lie in a stamp.
    pub(crate) fn names(&self) -> u64 {
        let [a, b] = self.mark.to_be_bytes();
        let [c, d] = self.lane.to_be_bytes();
        u64::from(u32::from_ne_bytes([a, b, c, d]))
    }
}

/// The headers of a lane's flows, as many generations of them as are wanted, one after the other,
/// each in so many cache lines.
pub(crate) fn headers(plan: &Plan, part: Part, generations: usize, lines: usize) -> Vec<u8> {
    let flows = u64::from(plan.stream.flows);
    let slots = (flows - u64::from(part.index)).div_ceil(part.of.into());
    let mut bytes = vec![0; slots as usize * generations * lines * LINE];
    let numbers = (0..generations as u64)
        .flat_map(|generation| (0..slots).map(move |slot| (generation, slot)))
        .map(|(generation, slot)| u64::from(part.index) + slot * u64::from(part.of) + generation * flows);
    for (header, flow) in bytes.chunks_exact_mut(lines * LINE).zip(numbers) {
        write(plan, part, flow, header);
    }
    bytes
}

/// Writes a flow's header, complete where all frames have one size.
fn write(plan: &Plan, part: Part, flow: u64, header: &mut [u8]) {
    let whole = plan.frame();
    let length = whole.len().min(header.len());
    header[..length].copy_from_slice(&whole[..length]);
    plan.header(flow, part.mark, part.lane, header);
    if let [size] = plan.sizes() {
        plan.complete(header, size);
    }
}

impl Maker {
    /// Headers are made now.
    pub fn new(plan: Arc<Plan>, part: Part) -> Maker {
        let lines = plan.header_len().div_ceil(LINE);
        let flows = u64::from(plan.stream.flows);
        let first = u64::from(part.index);
        let slots = ((flows - first).div_ceil(u64::from(part.of))) as usize;
        let headers = vec![0; (slots * lines + 1) * LINE];
        let mut maker = Maker {
            skew: headers.as_ptr().align_offset(LINE).min(LINE),
            part,
            headers,
            lines,
            slots,
            slot: 0,
            lives: Vec::new(),
            size: 0,
            sequence: 0,
            names: part.names(),
            plan,
        };
        let length = maker.plan.stream.flow_length;
        for slot in 0..slots {
            let flow = first + slot as u64 * u64::from(part.of);
            maker.begin(slot, flow);
            if length != 0 {
                // The first flow of a slot is somewhere in its life.
                let left = length - (flow % u64::from(length)) as u32;
                maker.lives.push(Life { flow, left });
            }
        }
        maker
    }

    /// Number of the next packet.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Writes a flow's header.
    fn begin(&mut self, slot: usize, flow: u64) {
        let at = self.skew + slot * self.lines * LINE;
        write(&self.plan, self.part, flow, &mut self.headers[at..at + self.lines * LINE]);
    }

    /// Appends the next packet, due at `time` (nanoseconds). False, and nothing done, when this
    /// thread's pool is empty.
    #[inline]
    pub fn make(&mut self, time: u64, into: &mut Vec<Packet>) -> bool {
        match self.lines {
            1 => self.make_of::<1>(time, into),
            2 => self.make_of::<2>(time, into),
            _ => self.make_of::<3>(time, into),
        }
    }

    #[inline(always)]
    fn make_of<const LINES: usize>(&mut self, time: u64, into: &mut Vec<Packet>) -> bool {
        let plan = &*self.plan;
        let sizes = plan.sizes();
        let size: &Size = &sizes[self.size];
        let frame = usize::from(size.frame);
        let made =
            if frame <= ONE_PIECE { Packet::blank(frame) } else { Packet::new(&plan.frame()[..frame]) };
        let Some(packet) = made else { return false };
        // Into its place first and then filled: a handle is written in parts, and moved as a whole
        // it would have to wait for them.
        into.push(packet);
        let Some(packet) = into.last_mut() else { return false };
        let bytes = packet.data_mut();
        let header = &self.headers[self.skew + self.slot * LINES * LINE..][..LINES * LINE];
        if frame >= LINES * LINE {
            for (to, from) in bytes.as_chunks_mut::<LINE>().0.iter_mut().zip(header.as_chunks::<LINE>().0) {
                *to = *from;
            }
            if frame > LINES * LINE && frame <= ONE_PIECE {
                bytes[LINES * LINE..].copy_from_slice(&plan.frame()[LINES * LINE..frame]);
            }
        } else if LINES == 1 {
            overlapping::<32>(bytes, &header[..frame]);
        } else {
            bytes[..frame].copy_from_slice(&header[..frame]);
        }
        if sizes.len() != 1 {
            plan.complete(bytes, size);
            self.size = if self.size + 1 == sizes.len() { 0 } else { self.size + 1 };
        }
        if plan.stream.stamp
            && let Some(stamp) = bytes.get_mut(plan.layers()[2]..).and_then(<[u8]>::first_chunk_mut::<STAMP>)
        {
            stamp::write(stamp, self.sequence, time, self.names + u64::from(size.fill_sum));
        }
        self.sequence += 1;
        if !self.lives.is_empty() {
            self.live();
        }
        self.slot = if self.slot + 1 == self.slots { 0 } else { self.slot + 1 };
        true
    }

    /// The slot's flow has had a packet.
    #[inline]
    fn live(&mut self) {
        let life = &mut self.lives[self.slot];
        life.left -= 1;
        if life.left == 0 {
            life.left = self.plan.stream.flow_length;
            life.flow += u64::from(self.plan.stream.flows);
            let flow = life.flow;
            self.begin(self.slot, flow);
        }
    }
}

/// Copies `N` to `2 N` bytes as two pieces of `N`, which overlap as much as is needed: no call, no
/// loop.
#[inline(always)]
fn overlapping<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}
