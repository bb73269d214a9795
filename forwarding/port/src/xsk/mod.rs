//! AF_XDP: one socket per (port, queue), owned by one worker.
//!
//! Four rings carry frames by their address in the packet memory, of which a worker's socket has
//! the worker's slice:
//!
//! ```text
//! pool --fill--> kernel --rx--> graph --tx--> kernel --completion--> pool
//! ```
//!
//! A frame received here and sent by another port comes home by *that* port's completion ring. What
//! the kernel has is booked (`frames`): its descriptors are believed only as far as they fit, and
//! when the socket closes, all comes home.
//!
//! Waking the kernel costs a system call, so it is done once a round ([`Queue::kick`]), and only
//! when a ring asks for it.

mod frames;
mod partial;
mod ring;
mod socket;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fib::PortId;

use crate::packet::Packet;
use crate::pool::{self, Pool, Span};
use crate::{Queue, QueueCounters, Recall};
use frames::Frames;
use partial::Partial;
use ring::Ring;

pub use socket::{BusyPoll, XskError, XskMode, XskOptions, ZeroCopy};

/// Most system calls in a round to send what waits; each sends 32 packets or more.
const SENDS_A_ROUND: usize = 16;
/// Chunks that a refill leaves in the pool.
const RESERVE: usize = 64;

/// An AF_XDP socket on one queue of one port.
pub struct Xsk {
    port: PortId,
    mode: XskMode,
    receives: bool,
    /// Frames that the kernel has to receive into, and may have.
    receiving: u32,
    frames_at_most: u32,
    partial: Option<Partial>,
    counters: QueueCounters,
    /// Not being dropped.
    open: Arc<AtomicBool>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    socket: OwnedFd,
    // Last, because fields drop in order: the kernel lets go of the socket once its descriptor and
    // the mappings of its rings are gone, and only then may the chunks go home.
    frames: Frames,
}

impl Xsk {
    /// Opens a socket on a queue, with the memory of `pool`; the thread that works with it must
    /// have that pool installed. It receives nothing before [`Queue::kick`] has given it frames,
    /// and before the driver's program sends it packets (`Driver::set_socket`).
    pub fn open(
        port: PortId,
        ifindex: u32,
        queue: u32,
        pool: &Pool,
        options: &XskOptions,
    ) -> Result<Xsk, XskError> {
        Xsk::with_span(port, ifindex, queue, pool.slice().span(), options)
    }

    pub(crate) fn with_span(
        port: PortId,
        ifindex: u32,
        queue: u32,
        span: &Span,
        options: &XskOptions,
    ) -> Result<Xsk, XskError> {
        let failed = |step| move |source| XskError { ifindex, queue, step, source };
        let size = options.ring.next_power_of_two();
        let (socket, at) = socket::open(span, size).map_err(|(step, source)| failed(step)(source))?;
        let fd = socket.as_fd();
        let fill_at = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let completion_at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let fill = Ring::map(fd, fill_at, &at.fr, size).map_err(failed("map a ring"))?;
        let completion = Ring::map(fd, completion_at, &at.cr, size).map_err(failed("map a ring"))?;
        let rx = Ring::map(fd, libc::XDP_PGOFF_RX_RING, &at.rx, size).map_err(failed("map a ring"))?;
        let tx = Ring::map(fd, libc::XDP_PGOFF_TX_RING, &at.tx, size).map_err(failed("map a ring"))?;
        let mode = socket::bind(&socket, ifindex, queue, options).map_err(failed("bind"))?;
        Ok(Xsk {
            port,
            mode,
            receives: options.receive,
            receiving: 0,
            frames_at_most: options.frames,
            partial: options.partial.map(Partial::new),
            counters: QueueCounters::default(),
            open: Arc::new(AtomicBool::new(true)),
            fill,
            completion,
            rx,
            tx,
            socket,
            frames: Frames::new(span.clone()),
        })
    }

    /// What it got, and why not better.
    pub fn mode(&self) -> &XskMode {
        &self.mode
    }

    /// One that was opened to send only is given frames to receive into as well, from the next kick
    /// on; `partial` as in [`XskOptions`].
    pub fn receive_too(&mut self, partial: Option<u32>) {
        (self.receives, self.partial) = (true, partial.map(Partial::new));
    }

    /// Segments handed to [`Queue::transmit`] that the kernel has not taken yet.
    pub fn unsent(&mut self) -> usize {
        self.tx.pending() as usize
    }

    /// Whether the kernel has no frame left to receive into, for want of packet memory: nothing
    /// more arrives until a kick finds some.
    pub fn starves(&mut self) -> bool {
        self.receives && self.fill.pending() == 0
    }

    /// Chunks that the kernel has.
    pub fn leased(&self) -> usize {
        self.frames.count()
    }

    /// The socket by a second descriptor, to make it known to the driver after the queue went to
    /// its worker.
    pub fn handle(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Gives the kernel frames to receive into, as many as it has room for and may have, but not
    /// the last of ours: answers and fragments need some.
    fn refill(&mut self) {
        let spare = pool::available().saturating_sub(RESERVE);
        let share = self.frames_at_most.saturating_sub(self.receiving);
        let room = (self.fill.room(share) as usize).min(spare);
        let mut added = 0;
        while added < room {
            let Some(chunk) = pool::take() else { break };
            let Some(offset) = self.frames.lease(chunk) else {
                // Of other memory: this thread installed another pool than the socket was opened
                // with. SAFETY: just taken from the pool, and not leased.
                unsafe { pool::give(chunk) };
                break;
            };
            self.fill.push(offset);
            added += 1;
        }
        if added != 0 {
            self.receiving += added as u32;
            self.fill.submit();
        }
    }

    /// Takes home what was sent.
    fn reap(&mut self) {
        let ready = self.completion.ready(u32::MAX);
        for i in 0..ready {
            self.frames.sent(self.completion.peek(i));
        }
        if ready != 0 {
            self.completion.release(ready);
        }
    }

    /// Sends what waits in the ring.
    fn send(&mut self) {
        let mut waiting = self.tx.pending();
        for _ in 0..SENDS_A_ROUND {
            if waiting == 0 || !self.tx.needs_wakeup() {
                return;
            }
            self.counters.wakeups += 1;
            let (fd, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
            // SAFETY: no buffers are passed.
            let sent = unsafe { libc::sendto(fd, std::ptr::null(), 0, flags, std::ptr::null(), 0) };
            if sent >= 0 {
                return;
            }
            match io::Error::last_os_error().raw_os_error() {
                // More is waiting than one call sends, or the completion ring was full.
                Some(libc::EAGAIN | libc::EBUSY) => self.reap(),
                // No memory just now (ENOBUFS), or the interface is down or gone: what waits stays
                // in the ring.
                _ => return,
            }
            let left = self.tx.pending();
            if left == waiting {
                return; // the device takes no more for now
            }
            waiting = left;
        }
    }

    fn wake_receive(&mut self) {
        self.counters.wakeups += 1;
        let (fd, none) = (self.socket.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: no buffers are passed. The result says nothing that the rings do not.
        unsafe {
            libc::recvfrom(fd, none, 0, libc::MSG_DONTWAIT, std::ptr::null_mut(), std::ptr::null_mut())
        };
    }
}

impl Drop for Xsk {
    fn drop(&mut self) {
        self.open.store(false, Ordering::Release);
    }
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Queue for Xsk {
    fn port(&self) -> PortId {
        self.port
    }

    fn receive(&mut self, into: &mut Vec<Packet>, quota: usize) -> usize {
        let before = into.len();
        let waiting = self.partial.as_mut().map_or(0, |partial| partial.give(into, quota));
        // Of these each is one packet, unless it is cut: then there are more, and some may have to
        // wait.
        let ready = self.rx.ready((quota - waiting).min(u32::MAX as usize) as u32);
        for i in 0..ready {
            let descriptor = self.rx.peek(i);
            if i + 4 < ready {
                self.frames.prefetch(self.rx.peek(i + 4).addr);
            }
            if let Some(packet) = self.frames.received(&descriptor, self.port) {
                self.counters.rx_bytes += packet.total_len() as u64;
                match &mut self.partial {
                    Some(partial) => partial.take(packet),
                    None => into.push(packet),
                }
            }
        }
        if ready != 0 {
            self.rx.release(ready);
            self.receiving = self.receiving.saturating_sub(ready);
        }
        if let Some(partial) = &mut self.partial {
            partial.give(into, quota - waiting);
        }
        let received = into.len() - before;
        self.counters.rx_packets += received as u64;
        received
    }

    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let wanted = packets.iter().map(Packet::segment_count).sum::<usize>();
        let mut room = self.tx.room(wanted.min(u32::MAX as usize) as u32) as usize;
        let mut fit = 0;
        for packet in packets.iter() {
            let segments = packet.segment_count();
            if segments > room {
                break;
            }
            room -= segments;
            fit += 1;
        }
        for packet in packets.drain(..fit) {
            let (bytes, mut left) = (packet.total_len(), packet.segment_count());
            if left > 1 && !self.mode.segments || !self.frames.is_home(&packet) {
                // Of other memory, or a chain where the device takes none: it cannot go this way.
                self.counters.tx_invalid += 1;
                continue;
            }
            packet.into_segments(|chunk, head, len| {
                left -= 1;
                // The chunk is of this memory: `is_home` has looked.
                let Some(offset) = self.frames.lease(chunk) else { return };
                let options = if left == 0 { 0 } else { libc::XDP_PKT_CONTD };
                let addr = offset + u64::from(head);
                self.tx.push(libc::xdp_desc { addr, len: u32::from(len), options });
            });
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += bytes as u64;
        }
        if fit != 0 {
            self.tx.submit();
        }
        fit
    }

    fn kick(&mut self) {
        self.reap();
        self.send();
        if !self.receives {
            return;
        }
        self.refill();
        if self.mode.busy_poll || self.fill.needs_wakeup() {
            self.wake_receive();
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn recall(&self) -> Option<Recall> {
        let rings = [self.fill.span(), self.completion.span(), self.rx.span(), self.tx.span()];
        Some(Recall::new(self.socket.as_raw_fd(), rings, self.open.clone()))
    }

    fn counters(&self) -> QueueCounters {
        let mut counters = QueueCounters { corrupt: self.frames.corrupt, ..self.counters };
        counters.rx_no_frame = self.partial.as_ref().map_or(0, Partial::lost);
        // Linux 5.9 and later fill all six; the kernel writes as much as it has.
        let empty = [0u64; 6];
        let kernel = socket::get(&self.socket, libc::XDP_STATISTICS, empty);
        if let Ok([dropped, rx_invalid, tx_invalid, ring_full, no_frame, _]) = kernel {
            // A packet for which there is no frame is counted as dropped, too, except with
            // zero-copy.
            counters.rx_dropped = dropped.saturating_sub(no_frame) + rx_invalid;
            counters.tx_invalid += tx_invalid;
            counters.rx_ring_full = ring_full;
            counters.rx_no_frame += no_frame;
        }
        counters
    }
}
