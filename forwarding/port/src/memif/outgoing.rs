//! The sending end of a ring: frames are copied into its buffers, and shown to the peer a batch at
//! a time.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering, fence};

use super::bell::SharedBell;
use super::ring::{Buffers, Descriptor, Ring, copy, prefetch_to_write};
use crate::{Packet, QueueCounters};

/// Packets ahead of which a buffer's first line is asked for.
const AHEAD: u16 = 16;

/// A ring that is filled here.
pub(super) struct Outgoing<B> {
    ring: Ring,
    buffers: B,
    /// The next descriptor to be filled.
    next: u16,
    /// Up to where they may be filled, as last read.
    limit: u16,
    /// As many as ever were free at once.
    most: u16,
    /// To wake the peer up by.
    bell: SharedBell,
    /// The peer's counter told nonsense, or a buffer that it gave is none: nothing more is
    /// believed.
    broken: bool,
}

/// What became of a packet.
enum Sent {
    /// In so many descriptors.
    In(u16),
    /// Not yet: the ring is full.
    Full,
    /// It never will be.
    Never,
}

impl<B: Buffers> Outgoing<B> {
    pub(super) fn new(ring: Ring, buffers: B, bell: SharedBell) -> Outgoing<B> {
        let limit = if B::OURS { ring.size() } else { 0 };
        let outgoing = Outgoing { ring, buffers, next: 0, limit, most: limit, bell, broken: false };
        outgoing.counter().store(0, Ordering::Release);
        outgoing
    }

    /// Ours: up to where descriptors were filled.
    #[inline(always)]
    fn counter(&self) -> &AtomicU16 {
        if B::OURS { self.ring.head() } else { self.ring.tail() }
    }

    /// Descriptors that may be filled.
    #[inline(always)]
    fn room(&mut self, wanted: u16, counters: &mut QueueCounters) -> u16 {
        let known = self.limit.wrapping_sub(self.next);
        if known >= wanted || self.broken {
            return known;
        }
        let limit = self.given();
        let room = limit.wrapping_sub(self.next);
        if room > self.ring.size() {
            self.broken = true;
            counters.corrupt += 1;
            return known;
        }
        self.limit = limit;
        self.most = self.most.max(room);
        room
    }

    /// Up to where they may be filled, as the peer says now.
    #[inline(always)]
    fn given(&self) -> u16 {
        if B::OURS {
            self.ring.tail().load(Ordering::Acquire).wrapping_add(self.ring.size())
        } else {
            self.ring.head().load(Ordering::Acquire)
        }
    }

    /// Bytes of a frame at most: all buffers together, if they are as long as the one that is
    /// filled next; `None` where that one is not known.
    pub(super) fn longest(&self) -> Option<u64> {
        // Before a client gives the first one, its descriptors say what it will give.
        let known = self.most == 0 || self.given() != self.next;
        let length = known.then(|| self.buffers.empty(*self.ring, self.next).length)?;
        (length != 0).then(|| u64::from(length) * u64::from(self.ring.size()))
    }

    /// Buffers that were filled and have not been given back. A client may keep a few back although
    /// it has emptied them.
    pub(super) fn untaken(&self) -> u16 {
        self.most.saturating_sub(self.given().wrapping_sub(self.next))
    }

    #[cold]
    fn has_more_room(&mut self, counters: &mut QueueCounters) -> bool {
        let known = self.limit.wrapping_sub(self.next);
        known != self.ring.size() && self.room(self.ring.size(), counters) > known
    }

    #[inline(always)]
    pub(super) fn transmit(&mut self, packets: &mut Vec<Packet>, counters: &mut QueueCounters) -> usize {
        let wanted = packets.len().min(usize::from(self.ring.size()));
        let room = self.room(wanted as u16, counters);
        if room == 0 || self.broken || packets.is_empty() {
            return 0;
        }
        let (before, mut fit) = (self.next, 0);
        let (mut sent, mut bytes) = (0, 0);
        for ahead in 0..room.min(AHEAD) {
            self.ask_for(self.next.wrapping_add(ahead));
        }
        let (ring, buffers) = (*self.ring, self.buffers);
        let (mut next, mut limit) = (self.next, self.limit);
        while let Some(packet) = packets.get(fit) {
            let room = limit.wrapping_sub(next);
            if room > AHEAD
                && let Some(place) = buffers.near(ring, next.wrapping_add(AHEAD))
            {
                prefetch_to_write(place);
            }
            let empty = buffers.empty(ring, next);
            let length = packet.len() as u32;
            let fits = (1..=empty.length).contains(&length) && packet.segment_count() == 1;
            if let Some(to) = buffers.place(next, empty).filter(|_| fits && room != 0) {
                // SAFETY: the buffer has `empty.length` bytes, all inside the memory, and the
                // packet has no more.
                unsafe { copy(packet.data().as_ptr(), to.as_ptr(), packet.len()) };
                ring.write(next, buffers.describe(next, empty, length, false));
                next = next.wrapping_add(1);
                sent += 1;
                bytes += u64::from(length);
                fit += 1;
                continue;
            }
            self.next = next;
            match self.put(packet, counters) {
                Sent::In(used) => {
                    self.next = self.next.wrapping_add(used);
                    sent += 1;
                    bytes += packet.total_len() as u64;
                    fit += 1;
                }
                // It takes several descriptors, and more may be free by now than were asked for.
                Sent::Full if self.has_more_room(counters) => {}
                Sent::Full => break,
                Sent::Never => {
                    counters.tx_invalid += 1;
                    fit += 1;
                }
            }
            (next, limit) = (self.next, self.limit);
        }
        self.next = next;
        drop(packets.drain(..fit));
        counters.tx_packets += sent;
        counters.tx_bytes += bytes;
        if self.next != before {
            self.publish(counters);
        }
        fit
    }

    #[inline(always)]
    fn ask_for(&self, index: u16) {
        if let Some(place) = self.buffers.near(*self.ring, index) {
            prefetch_to_write(place);
        }
    }

    /// A packet of several segments, or one that takes several buffers; or there is no room, or the
    /// buffer is none.
    #[cold]
    fn put(&mut self, packet: &Packet, counters: &mut QueueCounters) -> Sent {
        let room = self.limit.wrapping_sub(self.next);
        if room == 0 || self.broken {
            return Sent::Full;
        }
        let mut used = 0;
        // The buffer that is being filled, as it was read once, and how far it is full.
        let mut open: Option<(Descriptor, NonNull<u8>, u32)> = None;
        for mut bytes in packet.segments() {
            while !bytes.is_empty() {
                let index = self.next.wrapping_add(used);
                let (empty, to, filled) = match open.take() {
                    Some((empty, _, filled)) if filled == empty.length => {
                        self.ring.write(index, self.buffers.describe(index, empty, filled, true));
                        used += 1;
                        continue;
                    }
                    Some(open) => open,
                    None if used == room && room == self.ring.size() => return Sent::Never,
                    None if used == room => return Sent::Full,
                    None => {
                        let empty = self.buffers.empty(*self.ring, index);
                        let place = self.buffers.place(index, empty).filter(|_| empty.length != 0);
                        let Some(to) = place else {
                            self.broken = true;
                            counters.corrupt += 1;
                            return Sent::Full;
                        };
                        (empty, to, 0)
                    }
                };
                let part = bytes.len().min((empty.length - filled) as usize);
                // SAFETY: the buffer has `empty.length` bytes, of which `filled` are, and `part`
                // fit behind them.
                unsafe { copy(bytes.as_ptr(), to.as_ptr().add(filled as usize), part) };
                bytes = &bytes[part..];
                open = Some((empty, to, filled + part as u32));
            }
        }
        let Some((empty, _, filled)) = open else { return Sent::Never };
        let index = self.next.wrapping_add(used);
        self.ring.write(index, self.buffers.describe(index, empty, filled, false));
        Sent::In(used + 1)
    }

    fn publish(&mut self, counters: &mut QueueCounters) {
        self.counter().store(self.next, Ordering::Release);
        // The peer asks for interrupts and then looks once more; here it is the other way round.
        // Without the fence both could miss the other.
        fence(Ordering::SeqCst);
        if self.ring.wants_interrupts() {
            counters.wakeups += 1;
            self.bell.ring();
        }
    }
}
