//! One (port, queue): where packets come from and go to.

use std::io;
use std::os::fd::BorrowedFd;

use fib::PortId;

use crate::{Packet, Recall};

/// A receive and transmit queue of one port, owned by one worker. Nothing here blocks.
pub trait Queue: Send {
    /// The port that this is a queue of.
    fn port(&self) -> PortId;

    /// Appends up to `quota` received packets, with [`Packet::input`] set, and returns their
    /// number.
    fn receive(&mut self, into: &mut Vec<Packet>, quota: usize) -> usize;

    /// Takes what fits from the front, leaves the rest, and returns the number taken. They may wait
    /// until [`Queue::kick`].
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize;

    /// To be called once a round: sends what waits, takes home what was sent, gives the device room
    /// to receive.
    fn kick(&mut self);

    /// Writes out what waits in memory, where a port keeps what was sent.
    ///
    /// # Errors
    /// What was taken since the port was opened is not all where it belongs.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Readable when there is something to receive: to sleep on. Only after [`Queue::kick`].
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Bytes of a frame at most, where the other end says how much it takes.
    fn longest(&self) -> Option<u64> {
        None
    }

    /// Buffers with frames that were taken here and that the other end has not emptied: when the
    /// queue is closed, they are lost.
    fn untaken(&self) -> u64 {
        0
    }

    /// What closes the queue should its worker hang, where something can.
    fn recall(&self) -> Option<Recall> {
        None
    }

    /// Totals since the queue was opened.
    fn counters(&self) -> QueueCounters;
}

/// Totals of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets handed to the device.
    pub tx_packets: u64,
    /// Bytes handed to the device.
    pub tx_bytes: u64,
    /// Packets that the kernel dropped because our receive ring was full.
    pub rx_ring_full: u64,
    /// Packets that the kernel dropped because we had given it no free frame.
    pub rx_no_frame: u64,
    /// Other packets that the kernel dropped on the way to us.
    pub rx_dropped: u64,
    /// Descriptors from the kernel or a peer that made no sense (out of the memory, a broken chain,
    /// or more than there are).
    pub corrupt: u64,
    /// Descriptors of ours that the kernel refused.
    pub tx_invalid: u64,
    /// System calls made to wake the kernel up.
    pub wakeups: u64,
}

impl QueueCounters {
    /// Packets that the kernel dropped on the way to us, for whatever reason.
    pub fn lost(&self) -> u64 {
        self.rx_ring_full + self.rx_no_frame + self.rx_dropped
    }
}
