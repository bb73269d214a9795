//! From a worker that has no queue of the out port to one that has.
//!
//! With as many queues as workers on every port, every worker sends by its own queue and nothing
//! here is used. A port with fewer queues (a one-queue port beside a four-queue one) is served by
//! some of the workers only; the others pass what leaves by it to one of those, as a handle on the
//! packet, through a bounded ring without locks. The chunk goes home to the memory of the worker
//! that it came from by the packet memory's slow path: correct, and only as fast as an unbalanced
//! machine deserves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_queue::ArrayQueue;
use nix::sys::eventfd::{EfdFlags, EventFd};
use port::Packet;

/// Packets that wait for a worker at most.
const ROOM: usize = 1024;

/// Where a worker's colleagues and the control thread leave things for it.
pub struct HandoffQueue {
    packets: ArrayQueue<Packet>,
    asleep: AtomicBool,
    bell: EventFd,
}

impl HandoffQueue {
    /// An empty one.
    pub fn new() -> nix::Result<Arc<HandoffQueue>> {
        Ok(Arc::new(HandoffQueue {
            packets: ArrayQueue::new(ROOM),
            asleep: AtomicBool::new(false),
            bell: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
        }))
    }

    /// Leaves a packet to be sent by its `output`, or gives it back when there is no room.
    pub fn leave(&self, packet: Packet) -> Result<(), Packet> {
        self.packets.push(packet)
    }

    /// Takes the oldest packet.
    pub fn take(&self) -> Option<Packet> {
        self.packets.pop()
    }

    /// Ends the owner's sleep if it sleeps or is about to; to be called after leaving something.
    pub fn ring(&self) {
        // Pairs with `lie_down`: either this sees the sleeper, or the sleeper sees what was left
        // before.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::AcqRel) {
            self.summon();
        }
    }

    /// Ends the owner's sleep, or the one it is about to begin; to be called after sending an
    /// order.
    pub fn summon(&self) {
        // Only fails when it has been rung 2^64 times, and then it is readable anyway.
        let _ = self.bell.write(1);
    }

    /// Says that the owner is about to sleep. It must look once more for packets afterwards.
    pub fn lie_down(&self) {
        self.asleep.store(true, Ordering::Release);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Says that the owner is awake, and silences the bell.
    pub fn get_up(&self) {
        self.asleep.store(false, Ordering::Release);
        // An error means that it was not ringing.
        let _ = self.bell.read();
    }

    /// Whether a packet waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Readable while it rings.
    pub fn bell(&self) -> &EventFd {
        &self.bell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn rings(handoff_queue: &HandoffQueue) -> bool {
        let mut fds = [PollFd::new(handoff_queue.bell().as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).unwrap() == 1
    }

    #[test]
    fn only_a_sleeper_is_rung() {
        let handoff_queue = HandoffQueue::new().unwrap();
        handoff_queue.ring();
        assert!(!rings(&handoff_queue));
        handoff_queue.lie_down();
        handoff_queue.ring();
        assert!(rings(&handoff_queue));
        handoff_queue.get_up();
        assert!(!rings(&handoff_queue));
    }

    #[test]
    fn packets_come_in_order_and_the_full_box_gives_back() {
        port::Pool::heap(ROOM + 1).install();
        let handoff_queue = HandoffQueue::new().unwrap();
        for number in 0..ROOM {
            handoff_queue.leave(Packet::new(&[number as u8]).unwrap()).unwrap();
        }
        assert_eq!(handoff_queue.leave(Packet::new(&[7]).unwrap()).unwrap_err().data(), [7]);
        assert_eq!(handoff_queue.take().unwrap().data(), [0]);
        assert_eq!(handoff_queue.take().unwrap().data(), [1]);
    }
}
