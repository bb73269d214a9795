//! The receiving end of a ring: frames become packets of this thread's pool, by one copy.
//!
//! One copy, and not none: a chunk of packet memory begins with a header that this program
//! believes, and a peer that could write there could lead it anywhere; and a frame that changes
//! after it was checked is no checked frame. For short frames the copy costs little: the line must
//! come over from the other core in any case, and what is written lands in a chunk that was used
//! just before.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use fib::PortId;

use super::ring::{Buffers, Ring, copy, prefetch};
use crate::packet::{CHUNK, HEADROOM, Packet};
use crate::{MAX_SEGMENTS, QueueCounters};

/// Descriptors ahead of which a buffer's first line is asked for.
const AHEAD: u16 = 16;
/// Bytes of a frame at least: its Ethernet header.
const SHORTEST: usize = 14;
/// Bytes of a packet's segment at most.
const ROOM: usize = CHUNK - HEADROOM;

/// A ring that is emptied here.
pub(super) struct Incoming<B> {
    ring: Ring,
    buffers: B,
    /// The next descriptor to be looked at.
    next: u16,
    /// Up to where they were filled, as last read.
    filled: u16,
}

impl<B: Buffers> Incoming<B> {
    /// Buffers of ours are all given to the peer.
    pub(super) fn new(ring: Ring, buffers: B) -> Incoming<B> {
        ring.ask_for_interrupts(false);
        let incoming = Incoming { ring, buffers, next: 0, filled: 0 };
        incoming.begin();
        incoming
    }

    /// Gives the peer all of the ring, from the next descriptor on.
    fn begin(&self) {
        if B::OURS {
            (0..self.ring.size()).for_each(|ahead| self.offer(self.next.wrapping_add(ahead)));
        }
        self.publish();
    }

    /// The ring, to ask for interrupts.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Descriptors filled, as far as the peer has shown.
    #[inline(always)]
    fn ready(&mut self, wanted: u16, counters: &mut QueueCounters) -> u16 {
        let known = self.filled.wrapping_sub(self.next);
        if known >= wanted {
            return known;
        }
        let theirs = self.counter().load(Ordering::Acquire);
        let ready = theirs.wrapping_sub(self.next);
        if ready > self.ring.size() {
            self.overrun(theirs, counters);
            return 0;
        }
        self.filled = theirs;
        ready
    }

    /// The peer filled more than there was room for, as DPDK does where a frame of several buffers
    /// does not just fit. Which frames it wrote over nobody knows: all are gone, and the ring
    /// begins anew from where it is.
    #[cold]
    fn overrun(&mut self, theirs: u16, counters: &mut QueueCounters) {
        let ends = (0..self.ring.size()).filter(|index| !self.ring.read(*index).more());
        counters.corrupt += ends.count() as u64;
        (self.next, self.filled) = (theirs, theirs);
        self.begin();
    }

    /// The peer's counter.
    #[inline(always)]
    fn counter(&self) -> &AtomicU16 {
        if B::OURS { self.ring.tail() } else { self.ring.head() }
    }

    /// Whether something is there.
    pub(super) fn waiting(&self) -> bool {
        self.counter().load(Ordering::Acquire) != self.next
    }

    /// Takes up to `quota` frames out.
    #[inline(always)]
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
        let until = self.next.wrapping_add(ready);
        let most = quota.min(usize::from(ready));
        into.reserve(most);
        for ahead in 0..ready.min(AHEAD) {
            self.ask_for(self.next.wrapping_add(ahead));
        }
        let (ring, buffers) = (*self.ring, self.buffers);
        let (mut next, mut received, mut bytes) = (self.next, 0, 0);
        while next != until && received < most {
            let ahead = next.wrapping_add(AHEAD);
            if until.wrapping_sub(ahead) as i16 > 0
                && let Some(place) = buffers.near(ring, ahead)
            {
                prefetch(place);
            }
            let descriptor = ring.read(next);
            let length = descriptor.length as usize;
            let plain = !descriptor.more() && (SHORTEST..=ROOM).contains(&length);
            if let Some(from) = buffers.place(next, descriptor).filter(|_| plain) {
                let Some((base, place)) = Packet::blank_place(length) else { break };
                // SAFETY: `place` found all bytes of the descriptor inside the peer's memory, and
                // behind `place` there are as many.
                unsafe { copy(from.as_ptr(), base.as_ptr().add(usize::from(place)), length) };
                // SAFETY: chunk and place are those that were just given, and room for `most`
                // packets was made.
                unsafe {
                    let mut packet = Packet::from_raw(base, place, length as u16);
                    packet.input = port.interface();
                    into.as_mut_ptr().add(into.len()).write(packet);
                    into.set_len(into.len() + 1);
                }
                if B::OURS {
                    ring.write(next, buffers.empty(ring, next));
                }
                bytes += length as u64;
                received += 1;
                next = next.wrapping_add(1);
                continue;
            }
            self.next = next;
            let used = match self.chain(until.wrapping_sub(next)) {
                Chain::Packet(mut packet, used) => {
                    packet.input = port.interface();
                    bytes += packet.total_len() as u64;
                    received += 1;
                    into.push(packet);
                    used
                }
                Chain::Corrupt(used) => {
                    counters.corrupt += 1;
                    used
                }
                Chain::Wait => break,
            };
            for _ in 0..used {
                self.unmark();
                self.give_back();
            }
            next = self.next;
        }
        self.next = next;
        self.publish();
        counters.rx_packets += received as u64;
        counters.rx_bytes += bytes;
        received
    }

    #[inline(always)]
    fn ask_for(&self, index: u16) {
        if let Some(place) = self.buffers.near(*self.ring, index) {
            prefetch(place);
        }
    }

    /// A frame that lies in several buffers or fills several segments, or is none, of the
    /// descriptors that are ready.
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

    /// Takes the mark of a chain out of the next descriptor: DPDK does not when it sends a short
    /// frame there the next time, which would go on in the frame behind it.
    fn unmark(&self) {
        let descriptor = self.ring.read(self.next);
        self.ring.write(self.next, self.buffers.describe(self.next, descriptor, descriptor.length, false));
    }

    /// The next descriptor's buffer is free again, for the peer to see at the next
    /// [`Incoming::publish`].
    fn give_back(&mut self) {
        if B::OURS {
            self.offer(self.next);
        }
        self.next = self.next.wrapping_add(1);
    }

    /// Writes a buffer of ours into the ring, empty.
    #[inline(always)]
    fn offer(&self, index: u16) {
        self.ring.write(index, self.buffers.empty(*self.ring, index));
    }

    #[inline(always)]
    fn publish(&self) {
        match B::OURS {
            true => self.ring.head().store(self.next.wrapping_add(self.ring.size()), Ordering::Release),
            false => self.ring.tail().store(self.next, Ordering::Release),
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
