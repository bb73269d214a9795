//! A port in memory, for measuring: frames that never end come in, and what goes out is counted,
//! checked or kept.
//!
//! What a program costs depends on where its packets lie. A generator that writes each frame into a
//! small ring of buffers hands over packets that are warm in the cache; frames that lie in more
//! memory than the cache holds come in cold, as from a network card that does not write into it.
//! Both can be had here:
//!
//! - [`Fresh::Always`]: each packet is written when it is received, into one buffer of a ring after
//!   the other. Receiving without doing anything with the packets tells what the writing costs.
//! - [`Fresh::OnRewind`]: all packets were written before, each in its own buffer, and receiving
//!   touches none of them. When the last has been received nothing comes in until
//!   [`Prepared::rewind`].
//!
//! Buffers come home by the [`Sink`]s of a source, and are used in the order in which they did.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fib::PortId;

use crate::{Packet, Queue, QueueCounters};

/// When packets are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// When they are received.
    Always,
    /// All of them when [`Prepared::rewind`] is called.
    OnRewind,
}

/// Packets that came home.
type Home = Arc<Mutex<Vec<Packet>>>;

/// Where packets come from: `write` makes packet number 0, 1, 2, ... of whatever was in the buffer
/// ([`Packet::reset`]).
///
/// It sends as well: as a [`Sink`] of its own.
pub struct Prepared<F> {
    sink: Sink,
    write: F,
    fresh: Fresh,
    /// Those that are here, first the one that is received next.
    ring: VecDeque<Packet>,
    buffers: usize,
    /// The number of the next packet to be written.
    number: u64,
    rx_packets: u64,
    rx_bytes: u64,
}

impl<F: FnMut(u64, &mut Packet) + Send> Prepared<F> {
    /// A source with so many buffers of this thread's pool; `None` when there are not so many. It
    /// and its sinks are used by the same thread, in which the pool stays installed. It begins
    /// rewound.
    pub fn new(port: PortId, buffers: usize, fresh: Fresh, write: F) -> Option<Prepared<F>> {
        let mut prepared = Prepared {
            sink: Sink::new(port, Home::default()),
            write,
            fresh,
            ring: VecDeque::with_capacity(buffers),
            buffers,
            number: 0,
            rx_packets: 0,
            rx_bytes: 0,
        };
        prepared.rewind();
        (prepared.ring.len() == buffers).then_some(prepared)
    }

    /// Another way out, by which buffers come home.
    pub fn sink(&self, port: PortId) -> Sink {
        Sink::new(port, self.sink.home.clone())
    }

    /// What [`Prepared`] itself sends is counted, checked or kept here.
    pub fn own_sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Begins anew with packet number 0: takes home what was sent, and new buffers for those that
    /// did not come. With [`Fresh::OnRewind`] all packets are written.
    pub fn rewind(&mut self) {
        self.collect();
        self.fill(self.buffers);
        self.number = 0;
        if self.fresh == Fresh::OnRewind {
            for (number, packet) in (0..).zip(&mut self.ring) {
                (self.write)(number, packet);
            }
        }
    }

    fn collect(&mut self) {
        self.ring.extend(locked(&self.sink.home).drain(..));
    }

    /// Takes buffers of the pool, for those that were dropped or are kept.
    fn fill(&mut self, wanted: usize) {
        while self.ring.len() < wanted {
            let Some(packet) = Packet::new(&[]) else { return };
            self.ring.push_back(packet);
        }
    }
}

impl<F: FnMut(u64, &mut Packet) + Send> Queue for Prepared<F> {
    fn port(&self) -> PortId {
        self.sink.port
    }

    fn receive(&mut self, into: &mut Vec<Packet>, quota: usize) -> usize {
        if self.fresh == Fresh::Always {
            self.collect();
            self.fill(quota.min(self.buffers));
        }
        let count = quota.min(self.ring.len());
        for packet in self.ring.iter_mut().take(count) {
            if self.fresh == Fresh::Always {
                (self.write)(self.number, packet);
                self.number += 1;
            }
            packet.input = self.sink.port.interface();
            self.rx_bytes += packet.len() as u64;
        }
        // In a second turn: a handle that is moved in the moment when its parts were written costs
        // the processor a dozen cycles.
        into.extend(self.ring.drain(..count));
        self.rx_packets += count as u64;
        count
    }

    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        self.sink.transmit(packets)
    }

    fn kick(&mut self) {}

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> QueueCounters {
        QueueCounters { rx_packets: self.rx_packets, rx_bytes: self.rx_bytes, ..self.sink.counters }
    }
}

/// What a sink does with a packet before the buffer goes home.
enum Fate {
    Counted,
    Checked(Box<dyn FnMut(&Packet) -> bool + Send>),
    Kept(Vec<Packet>),
}

/// Where packets go: takes all.
pub struct Sink {
    port: PortId,
    home: Home,
    fate: Fate,
    wrong: u64,
    counters: QueueCounters,
}

impl Sink {
    fn new(port: PortId, home: Home) -> Sink {
        Sink { port, home, fate: Fate::Counted, wrong: 0, counters: QueueCounters::default() }
    }

    /// From now on packets are only counted, as at first.
    pub fn count(&mut self) {
        self.fate = Fate::Counted;
    }

    /// From now on each packet is looked at; those that are not right count as wrong.
    pub fn check(&mut self, right: impl FnMut(&Packet) -> bool + Send + 'static) {
        self.fate = Fate::Checked(Box::new(right));
    }

    /// From now on packets are kept, until [`Sink::take`].
    pub fn keep(&mut self) {
        self.fate = Fate::Kept(Vec::new());
    }

    /// The packets kept so far. Dropped, their buffers go to the pool.
    pub fn take(&mut self) -> Vec<Packet> {
        match &mut self.fate {
            Fate::Kept(packets) => std::mem::take(packets),
            _ => Vec::new(),
        }
    }

    /// Packets that were not right.
    pub fn wrong(&self) -> u64 {
        self.wrong
    }
}

impl Queue for Sink {
    fn port(&self) -> PortId {
        self.port
    }

    fn receive(&mut self, _: &mut Vec<Packet>, _: usize) -> usize {
        0
    }

    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let count = packets.len();
        self.counters.tx_packets += count as u64;
        self.counters.tx_bytes += packets.iter().map(|packet| packet.total_len() as u64).sum::<u64>();
        match &mut self.fate {
            Fate::Counted => {}
            Fate::Checked(right) => {
                self.wrong += packets.iter().map(|packet| u64::from(!right(packet))).sum::<u64>();
            }
            Fate::Kept(kept) => kept.append(packets),
        }
        locked(&self.home).append(packets);
        count
    }

    fn kick(&mut self) {}

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }
}

fn locked(home: &Home) -> MutexGuard<'_, Vec<Packet>> {
    home.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    const FRAME: usize = 60;

    fn source(buffers: usize, fresh: Fresh) -> Prepared<impl FnMut(u64, &mut Packet)> {
        let write = |number: u64, packet: &mut Packet| {
            packet.reset(FRAME);
            packet.data_mut()[..8].copy_from_slice(&number.to_be_bytes());
        };
        Prepared::new(PortId(1), buffers, fresh, write).unwrap()
    }

    fn number(packet: &Packet) -> u64 {
        u64::from_be_bytes(*packet.data().first_chunk().unwrap())
    }

    #[test]
    fn a_ring_goes_round_for_ever() {
        Pool::heap(100).install();
        let mut source = source(64, Fresh::Always);
        let mut sink = source.sink(PortId(2));
        let mut next = 0;
        sink.check(move |packet| {
            next += 1;
            packet.input == fib::InterfaceId(1) && packet.len() == FRAME && number(packet) == next - 1
        });
        let (mut packets, mut places) = (Vec::new(), Vec::new());
        for round in 0..1000 {
            assert_eq!(source.receive(&mut packets, 32), 32);
            places.extend(packets.iter().map(|packet| packet.data().as_ptr() as usize / crate::CHUNK));
            // Somebody drops one now and then, and prepends something.
            assert!(packets[0].prepend(b"x") && packets[0].pull(1));
            assert_eq!(sink.transmit(&mut packets), 32);
            if round == 0 {
                assert_eq!(source.counters().rx_bytes, 32 * FRAME as u64);
            }
        }
        assert_eq!(
            (sink.wrong(), sink.counters().tx_packets, source.counters().rx_packets),
            (0, 32_000, 32_000)
        );
        assert_eq!((&places[..64], crate::pool::available()), (&places[64..128], 36));
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 64);
        for _ in 0..100 {
            source.receive(&mut packets, 32);
            packets.clear();
        }
        assert_eq!(source.counters().rx_packets, 35_200);
    }

    #[test]
    fn what_lies_prepared_comes_once() {
        Pool::heap(100).install();
        let mut source = source(64, Fresh::OnRewind);
        let mut sink = source.sink(PortId(2));
        sink.keep();
        for round in 0..3 {
            let (mut packets, mut count) = (Vec::new(), 0);
            while source.receive(&mut packets, 24) > 0 {
                packets.iter_mut().for_each(|packet| packet.data_mut()[8..].fill(round));
                count += sink.transmit(&mut packets);
            }
            let kept = sink.take();
            assert_eq!((count, kept.len()), (64, 64));
            assert!((0..).zip(&kept).all(|(expected, packet)| number(packet) == expected));
            drop(kept);
            assert_eq!(source.receive(&mut packets, 24), 0);
            source.rewind();
        }
        sink.count();
        let mut packets = Vec::new();
        source.receive(&mut packets, 64);
        source.own_sink().check(|packet| number(packet) != 7);
        assert_eq!((source.transmit(&mut packets), source.own_sink().wrong()), (64, 1));
        assert_eq!((source.receive(&mut packets, 64), sink.take().len()), (0, 0));
        assert!(Prepared::new(PortId(0), 101, Fresh::Always, |_, _: &mut Packet| ()).is_none());
    }
}
