//! The receiving end of a ring: frames become packets of this thread's pool, by one copy.
//!
//! One copy, and not none: a chunk of packet memory begins with a header that this program believes, and a peer that could
//! write there could lead it anywhere; and a frame that changes after it was checked is no checked frame. For short frames the
//! copy costs little: the line must come over from the other core in any case, and what is written lands in a chunk that
//! was used just before.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use fib::PortId;

use super::ring::{Buffers, Descriptor, Ring, copy, prefetch};
use crate::packet::{CHUNK, HEADROOM, Packet};
use crate::{MAX_SEGMENTS, QueueCounters};

/// Descriptors ahead of which a buffer's first line is asked for.
const AHEAD: u16 = 12;
/// Bytes of a frame at least: its Ethernet header.
const SHORTEST: usize = 14;
/// Bytes of a packet's segment at most.
const ROOM: usize = CHUNK - HEADROOM;

/// A ring that is emptied here.
pub(super) struct Incoming {
    ring: Ring,
    buffers: Buffers,
    /// We are the client: the head is ours, and gives buffers.
    client: bool,
    /// The next descriptor to be looked at.
    next: u16,
    /// Up to where they were filled, as last read.
    filled: u16,
    /// The peer's counter told nonsense: nothing more is believed.
    broken: bool,
}

impl Incoming {
    /// As the client all buffers are given to the peer.
    pub(super) fn new(ring: Ring, buffers: Buffers, client: bool) -> Incoming {
        ring.ask_for_interrupts(false);
        let mut incoming = Incoming { ring, buffers, client, next: 0, filled: 0, broken: false };
        if client {
            (0..incoming.ring.size()).for_each(|index| incoming.offer(index));
        }
        incoming.publish();
        incoming
    }

    /// The ring, to ask for interrupts.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Descriptors filled, as far as the peer has shown.
    #[inline]
    fn ready(&mut self, wanted: u16, counters: &mut QueueCounters) -> u16 {
        let known = self.filled.wrapping_sub(self.next);
        if known >= wanted || self.broken {
            return known;
        }
        let theirs = self.counter().load(Ordering::Acquire);
        let ready = theirs.wrapping_sub(self.next);
        if ready > self.ring.size() {
            self.broken = true;
            counters.corrupt += 1;
            return known;
        }
        self.filled = theirs;
        ready
    }

    #[inline(always)]
    fn counter(&self) -> &std::sync::atomic::AtomicU16 {
        if self.client { self.ring.tail() } else { self.ring.head() }
    }

    /// Whether something is there.
    pub(super) fn waiting(&self) -> bool {
        !self.broken && self.counter().load(Ordering::Acquire) != self.next
    }

    #[inline]
    pub(super) fn receive(
        &mut self,
        into: &mut Vec<Packet>,
        quota: usize,
        port: PortId,
        counters: &mut QueueCounters,
    ) -> usize {
        let ready = self.ready(quota.min(usize::from(u16::MAX)) as u16, counters);
        if ready == 0 {
            return 0;
        }
        let before = into.len();
        let until = self.next.wrapping_add(ready);
        let most = quota.min(usize::from(ready));
        into.reserve(most);
        for index in (0..ready.min(AHEAD)).map(|ahead| self.next.wrapping_add(ahead)) {
            self.ask_for(index);
        }
        while self.next != until && into.len() - before < most {
            let ahead = self.next.wrapping_add(AHEAD);
            if until.wrapping_sub(ahead) as i16 > 0 {
                self.ask_for(ahead);
            }
            let descriptor = self.ring.read(self.next);
            let length = descriptor.length as usize;
            let plain = !descriptor.more() && (SHORTEST..=ROOM).contains(&length);
            let Some(from) = self.buffers.place(self.next, descriptor).filter(|_| plain) else {
                match self.chain(until.wrapping_sub(self.next)) {
                    Chain::Packet(packet, used) => self.take(packet, used, into, port, counters),
                    Chain::Corrupt(used) => {
                        counters.corrupt += 1;
                        self.give_back(used);
                    }
                    Chain::Wait => break,
                }
                continue;
            };
            let Some(mut packet) = Packet::blank(length) else { break };
            // SAFETY: `place` found all bytes of the descriptor inside the peer's memory, and the packet has as many.
            unsafe { copy(from.as_ptr(), packet.data_mut().as_mut_ptr(), length) };
            self.take(packet, 1, into, port, counters);
        }
        self.publish();
        let received = into.len() - before;
        counters.rx_packets += received as u64;
        received
    }

    #[inline(always)]
    fn ask_for(&self, index: u16) {
        if let Some(place) = self.buffers.place(index, self.ring.read(index)) {
            prefetch(place);
        }
    }

    #[inline(always)]
    fn take(
        &mut self,
        mut packet: Packet,
        used: u16,
        into: &mut Vec<Packet>,
        port: PortId,
        counters: &mut QueueCounters,
    ) {
        packet.input = port;
        counters.rx_bytes += packet.total_len() as u64;
        into.push(packet);
        self.give_back(used);
    }

    /// A frame that lies in several buffers or fills several segments, or is none, of the descriptors that are ready.
    #[cold]
    fn chain(&self, ready: u16) -> Chain {
        let last = (0..ready).find(|ahead| !self.ring.read(self.next.wrapping_add(*ahead)).more());
        let Some(last) = last else {
            // A whole ring without an end will have none.
            return if ready == self.ring.size() { Chain::Corrupt(ready) } else { Chain::Wait };
        };
        let mut assembly = Assembly::default();
        for ahead in 0..=last {
            let index = self.next.wrapping_add(ahead);
            let descriptor = self.ring.read(index);
            let length = descriptor.length as usize;
            let Some(place) = self.buffers.place(index, descriptor) else {
                return Chain::Corrupt(last + 1);
            };
            if assembly.length + length > MAX_SEGMENTS * ROOM {
                return Chain::Corrupt(last + 1);
            }
            // SAFETY: `place` found all bytes of the descriptor inside the memory.
            if unsafe { assembly.add(place, length) }.is_none() {
                return Chain::Wait;
            }
        }
        if assembly.length < SHORTEST {
            return Chain::Corrupt(last + 1);
        }
        assembly.finish().map_or(Chain::Wait, |packet| Chain::Packet(packet, last + 1))
    }

    /// The buffers of so many descriptors are free again, for the peer to see at the next [`Incoming::publish`].
    #[inline(always)]
    fn give_back(&mut self, count: u16) {
        if self.client {
            (0..count).for_each(|ahead| self.offer(self.next.wrapping_add(ahead)));
        }
        self.next = self.next.wrapping_add(count);
    }

    /// Writes a buffer of ours into the ring, empty.
    #[inline(always)]
    fn offer(&self, index: u16) {
        if let Buffers::Own { bytes, .. } = &self.buffers {
            let empty = Descriptor::new(0, 0, 0, false);
            self.ring.write(index, self.buffers.describe(index, empty, *bytes, false));
        }
    }

    #[inline(always)]
    fn publish(&mut self) {
        if self.client {
            self.ring.head().store(self.next.wrapping_add(self.ring.size()), Ordering::Release);
        } else {
            self.ring.tail().store(self.next, Ordering::Release);
        }
    }
}

/// What became of several descriptors.
enum Chain {
    Packet(Packet, u16),
    Corrupt(u16),
    /// For the rest of the frame, or for packet memory.
    Wait,
}

/// A packet in the making.
#[derive(Default)]
struct Assembly {
    packet: Option<Packet>,
    /// The segment that is being filled, not yet part of the packet.
    open: Option<Packet>,
    length: usize,
}

impl Assembly {
    /// Adds bytes. `None` without packet memory.
    ///
    /// # Safety
    /// There are `length` bytes at `from`.
    unsafe fn add(&mut self, from: NonNull<u8>, length: usize) -> Option<()> {
        let mut done = 0;
        while done < length {
            if self.open.as_ref().is_none_or(|open| open.tailroom() == 0) {
                self.close();
                let mut fresh = Packet::blank(ROOM)?;
                fresh.truncate(0);
                self.open = Some(fresh);
            }
            let Some(open) = &mut self.open else { return None };
            let part = open.tailroom().min(length - done);
            let to = open.extend(part)?;
            // SAFETY: within the bytes at `from`, and the segment was lengthened by as many.
            unsafe { copy(from.as_ptr().add(done), to.as_mut_ptr(), part) };
            done += part;
        }
        self.length += length;
        Some(())
    }

    fn close(&mut self) {
        if let Some(segment) = self.open.take() {
            match &mut self.packet {
                None => self.packet = Some(segment),
                // Nobody adds more than a packet's segments hold.
                Some(packet) => drop(packet.append(segment)),
            }
        }
    }

    fn finish(mut self) -> Option<Packet> {
        self.close();
        self.packet
    }
}
