//! Up to 64 packets on their way together.
//!
//! 64, because then any subset of a batch is a `u64`: an element decides about all packets in one
//! loop, notes the exceptions as bits, and in the usual case, no exceptions, passes the whole batch
//! on by exchanging two pointers ([`Context::emit_batch`](crate::Context::emit_batch)). No packet
//! handle is copied on that way. A batch never grows: its memory is taken when it is made.

use port::{Packet, Queue};

/// Most packets in a batch.
pub const BATCH: usize = 64;

/// Up to [`BATCH`] packets, in order.
pub struct Batch {
    /// Capacity for [`BATCH`] or more; never longer than that.
    packets: Vec<Packet>,
}

impl Batch {
    /// An empty batch. Allocates: make batches before packets flow.
    pub fn new() -> Batch {
        Batch { packets: Vec::with_capacity(BATCH) }
    }

    /// How many packets there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// How many more there is room for.
    #[inline]
    pub fn room(&self) -> usize {
        BATCH - self.packets.len().min(BATCH)
    }

    /// Adds a packet at the end, or gives it back when the batch is full.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.packets.len() >= BATCH {
            return Err(packet);
        }
        self.packets.push(packet);
        Ok(())
    }

    /// Receives up to `quota` packets, as far as there is room, and returns how many came.
    pub fn receive(&mut self, queue: &mut dyn Queue, quota: usize) -> usize {
        let room = self.room();
        queue.receive(&mut self.packets, quota.min(room))
    }

    /// Takes packets from an iterator while there is room; whatever it has beyond that stays its
    /// own business.
    #[inline]
    pub fn fill(&mut self, packets: impl Iterator<Item = Packet>) {
        let room = self.room();
        self.packets.extend(packets.take(room));
    }

    /// The packets, in order.
    #[inline]
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// The packets, in order, to change.
    #[inline]
    pub fn packets_mut(&mut self) -> &mut [Packet] {
        &mut self.packets
    }

    /// Takes all packets out, in order.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.packets.drain(..)
    }

    /// Takes out the packets whose bits are set in `which` (bit i: the packet at index i), in
    /// order, and tells each with the index it had. The others close up, in order.
    #[inline]
    pub fn take(&mut self, which: u64, mut each: impl FnMut(usize, Packet)) {
        if which == 0 {
            return;
        }
        let mut left = which;
        for packet in self.taken(which) {
            each(left.trailing_zeros() as usize, packet);
            left &= left - 1;
        }
    }

    /// Takes out the packets whose bits are set, in order.
    #[inline]
    pub(crate) fn taken(&mut self, which: u64) -> impl Iterator<Item = Packet> + '_ {
        let mut left = which;
        self.packets.extract_if(.., move |_| {
            let chosen = left & 1 != 0;
            left >>= 1;
            chosen
        })
    }

    /// Adds packets for which there is room.
    #[inline]
    pub(crate) fn extend(&mut self, packets: impl Iterator<Item = Packet>) {
        self.packets.extend(packets);
        debug_assert!(self.packets.len() <= BATCH);
    }

    /// Moves all packets behind those of `packets`. Where there are none the two change places, and
    /// no packet is copied.
    #[inline]
    pub(crate) fn append_to(&mut self, packets: &mut Vec<Packet>) {
        if packets.is_empty() && packets.capacity() >= BATCH {
            std::mem::swap(packets, &mut self.packets);
        } else {
            packets.append(&mut self.packets);
        }
    }

    /// The set of all packets: as many low bits as there are packets.
    #[inline]
    pub fn mask(&self) -> u64 {
        debug_assert!(self.packets.len() <= BATCH);
        if self.packets.is_empty() { 0 } else { u64::MAX >> (BATCH - self.packets.len()) }
    }

    /// Moves packets of `from` to the end while there is room. Into an empty batch all go at once,
    /// without being copied.
    #[inline]
    pub fn append(&mut self, from: &mut Batch) {
        if self.is_empty() {
            std::mem::swap(self, from);
        } else if from.len() <= self.room() {
            self.packets.append(&mut from.packets);
        } else {
            let count = self.room().min(from.len());
            self.packets.extend(from.packets.drain(..count));
        }
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.packets).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;
    use proptest::prelude::*;

    fn batch(count: usize) -> Batch {
        let mut batch = Batch::new();
        for index in 0..count {
            batch.push(Packet::new(&[index as u8]).unwrap()).unwrap();
        }
        batch
    }

    fn numbers(batch: &Batch) -> Vec<usize> {
        batch.packets().iter().map(|packet| usize::from(packet.data()[0])).collect()
    }

    #[test]
    fn the_65th_packet_is_given_back() {
        Pool::heap(65).install();
        let mut full = batch(64);
        assert_eq!(full.push(Packet::new(&[9]).unwrap()).unwrap_err().data(), [9]);
        assert_eq!((full.len(), full.room(), full.mask()), (64, 0, u64::MAX));
        assert_eq!(batch(0).mask(), 0);
    }

    proptest! {
        #[test]
        fn take_splits_in_order(count in 0usize..=64, which: u64) {
            Pool::heap(64).install();
            let mut batch = batch(count);
            let which = which & batch.mask();
            let mut taken = Vec::new();
            batch.take(which, |index, packet| taken.push((index, usize::from(packet.data()[0]))));
            let expected = |set: bool| (0..count).filter(move |i| (which >> i & 1 != 0) == set).collect::<Vec<_>>();
            prop_assert_eq!(taken, expected(true).into_iter().map(|i| (i, i)).collect::<Vec<_>>());
            prop_assert_eq!(numbers(&batch), expected(false));
        }
    }
}
