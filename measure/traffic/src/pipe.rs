//! The port `memory`: what is sent there is received there, in this process. As long as nobody has
//! asked for anything it takes all and keeps nothing.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::port::{Packet, Queue, QueueCounters};
use fib::PortId;

/// Packets on their way at most; a full pipe takes no more.
const LENGTH: usize = 1024;

/// Both ends of a pipe.
#[derive(Clone, Default)]
pub struct Pipe(Arc<Mutex<Contents>>);

#[derive(Default)]
struct Contents {
    packets: VecDeque<Packet>,
    counters: QueueCounters,
    /// Somebody has asked for packets.
    heard: bool,
}

impl Pipe {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue for Pipe {
    fn port(&self) -> PortId {
        PortId::NONE
    }

    fn receive(&mut self, into: &mut Vec<Packet>, quota: usize) -> usize {
        let mut contents = self.contents();
        contents.heard = true;
        let count = quota.min(contents.packets.len());
        let before = into.len();
        into.extend(contents.packets.drain(..count));
        contents.counters.rx_packets += count as u64;
        contents.counters.rx_bytes +=
            into[before..].iter().map(|packet| packet.total_len() as u64).sum::<u64>();
        count
    }

    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let mut contents = self.contents();
        if !contents.heard {
            contents.packets.clear();
        }
        let count = packets.len().min(LENGTH.saturating_sub(contents.packets.len()));
        contents.counters.tx_packets += count as u64;
        contents.counters.tx_bytes +=
            packets[..count].iter().map(|packet| packet.total_len() as u64).sum::<u64>();
        contents.packets.extend(packets.drain(..count));
        count
    }

    fn kick(&mut self) {}

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> QueueCounters {
        self.contents().counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pipe_takes_no_more_and_keeps_the_order() {
        ::port::Pool::heap(2 * LENGTH).install();
        let mut pipe = Pipe::default();
        pipe.receive(&mut Vec::new(), 1);
        let mut packets: Vec<_> =
            (0..LENGTH as u32 + 5).filter_map(|i| Packet::new(&i.to_be_bytes())).collect();
        assert_eq!((pipe.transmit(&mut packets), packets.len()), (LENGTH, 5));
        let mut received = Vec::new();
        assert_eq!(pipe.clone().receive(&mut received, 10), 10);
        assert_eq!((pipe.transmit(&mut packets), packets.len()), (5, 0));
        pipe.receive(&mut received, usize::MAX);
        assert!(received.iter().zip(0u32..).all(|(packet, i)| packet.data() == i.to_be_bytes()));
        assert_eq!((received.len(), pipe.counters().rx_packets), (LENGTH + 5, LENGTH as u64 + 5));
    }

    #[test]
    fn without_a_listener_it_is_never_full() {
        ::port::Pool::heap(2 * LENGTH).install();
        let mut pipe = Pipe::default();
        for _ in 0..10 {
            let mut packets: Vec<_> = (0..LENGTH).filter_map(|_| Packet::new(&[0])).collect();
            assert_eq!((pipe.transmit(&mut packets), packets.len()), (LENGTH, 0));
        }
        assert_eq!(pipe.counters().tx_packets, 10 * LENGTH as u64);
    }
}
