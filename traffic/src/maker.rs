//! Packets of a lane: a stream's part of one sending core.
//!
//! Every flow has its header ready in one to three cache lines, complete with checksums where all frames have one size. A packet is a
//! copy of that, the rest of the payload behind it, and the stamp; where sizes change, lengths and checksums are completed by additions
//! ([`Plan::complete`]). Headers lie in the order in which they are used, so that the processor fetches the next ones by itself.

use std::sync::Arc;

use ::port::Packet;

use crate::plan::{Plan, Size};
use crate::stamp::{self, STAMP};

/// Most bytes of a frame that has room in one piece of a chunk, wherever it begins.
const ONE_PIECE: usize = 2048;

/// A cache line of a header.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Makes the packets of a lane, one after the other.
pub struct Maker {
    plan: Arc<Plan>,
    mark: u16,
    lane: u16,
    /// Headers of the flows, so many lines each.
    headers: Vec<Line>,
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

impl Maker {
    /// Headers are made now.
    pub fn new(plan: Arc<Plan>, part: Part) -> Maker {
        let lines = plan.header_len().div_ceil(64);
        let flows = u64::from(plan.stream.flows);
        let first = u64::from(part.index);
        let slots = ((flows - first).div_ceil(u64::from(part.of))) as usize;
        let mut names = [0; 4];
        names[..2].copy_from_slice(&part.mark.to_be_bytes());
        names[2..].copy_from_slice(&part.lane.to_be_bytes());
        let mut maker = Maker {
            mark: part.mark,
            lane: part.lane,
            headers: vec![Line([0; 64]); slots * lines],
            lines,
            slots,
            slot: 0,
            lives: Vec::new(),
            size: 0,
            sequence: 0,
            names: u64::from(u32::from_ne_bytes(names)),
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
        let lines = &mut self.headers[slot * self.lines..(slot + 1) * self.lines];
        let mut bytes = [0; 192];
        let whole = self.plan.frame();
        let length = whole.len().min(64 * self.lines);
        bytes[..length].copy_from_slice(&whole[..length]);
        self.plan.header(flow, self.mark, self.lane, &mut bytes);
        if let [size] = self.plan.sizes() {
            self.plan.complete(&mut bytes, size);
        }
        for (line, part) in lines.iter_mut().zip(bytes.as_chunks().0) {
            line.0 = *part;
        }
    }

    /// The next packet, due at `time` (nanoseconds); `None` when this thread's pool is empty.
    #[inline]
    pub fn make(&mut self, time: u64) -> Option<Packet> {
        match self.lines {
            1 => self.make_of::<1>(time),
            2 => self.make_of::<2>(time),
            _ => self.make_of::<3>(time),
        }
    }

    #[inline(always)]
    fn make_of<const LINES: usize>(&mut self, time: u64) -> Option<Packet> {
        let plan = &*self.plan;
        let size: Size = plan.sizes()[self.size];
        let frame = usize::from(size.frame);
        let header = &self.headers[self.slot * LINES..][..LINES];
        let mut packet = if frame <= ONE_PIECE {
            let mut packet = Packet::new(&[])?;
            let bytes = packet.extend(frame.max(64 * LINES))?;
            for (to, line) in bytes.as_chunks_mut().0.iter_mut().zip(header) {
                *to = line.0;
            }
            if frame > 64 * LINES {
                bytes[64 * LINES..].copy_from_slice(&plan.frame()[64 * LINES..frame]);
            } else if frame < 64 * LINES {
                packet.truncate(frame);
            }
            packet
        } else {
            let mut packet = Packet::new(&plan.frame()[..frame])?;
            for (to, line) in packet.data_mut().as_chunks_mut().0.iter_mut().zip(header) {
                *to = line.0;
            }
            packet
        };
        let bytes = packet.data_mut();
        if plan.sizes().len() != 1 {
            plan.complete(bytes, &size);
            self.size = if self.size + 1 == plan.sizes().len() { 0 } else { self.size + 1 };
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
        Some(packet)
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
