//! What a port counted in all its lives: its program and its sockets start at nothing each time it
//! is taken.

use fib::{Count, InterfaceId, Traffic};
use port::{Driver, DriverCounters, Lane, QueueCounters};

use crate::plane::Plane;
use crate::port::Port;
use crate::worker_pool::WorkerPool;

impl Plane {
    /// What the port's program counted, in all its lives.
    pub fn driver_counters(&self, port: &Port) -> DriverCounters {
        let now = self.driver.counters(port.id).unwrap_or_default();
        plus(&port.before, &now)
    }

    /// What the port's sockets counted, in all their lives.
    pub fn queue_counters(&self, port: &Port) -> QueueCounters {
        let open = port.taken.iter().flat_map(|taken| &taken.queues);
        open.fold(port.queues_before, |total, queue| sum(&total, &queue.meter.read()))
    }

    /// What came in by the port, whoever had it then, and what workers and the express lane sent by
    /// it.
    pub(crate) fn port_traffic(&self, port: &Port) -> Traffic {
        let (driver, queues, express) =
            (self.driver_counters(port), self.queue_counters(port), self.express_sent(port));
        let all = Lane::ALL.map(|lane| driver.lane(lane));
        let received = match &port.shared {
            None => all.into_iter().fold(Count::default(), |total, lane| add(&total, &lane)),
            // There is no driver.
            Some(_) => Count { packets: queues.rx_packets, bytes: queues.rx_bytes },
        };
        let sent = Count { packets: queues.tx_packets, bytes: queues.tx_bytes };
        Traffic { received, sent: add(&sent, &express) }
    }

    /// What the express lane sent by the port.
    pub fn express_sent(&self, port: &Port) -> port::driver::Count {
        self.driver.sent(port.id).unwrap_or_default()
    }
}

/// What has ever passed a logical interface of this number on a port. The driver sees all that
/// comes in; a port in shared memory has none, and of what is in tunnels it knows nothing.
pub(crate) fn passed(driver: &Driver, workers: &WorkerPool, id: InterfaceId, port: Option<&Port>) -> Traffic {
    let driver = driver.traffic(id).unwrap_or_default();
    let counts = workers.handles().iter().map(|worker| worker.interfaces.read(id));
    let workers = counts.fold(Traffic::default(), |total, more| both(&total, &more));
    let by_workers = port.is_none_or(|port| port.shared.is_some());
    let received = if by_workers { workers.received } else { driver.received };
    Traffic { received, sent: add(&driver.sent, &workers.sent) }
}

pub(crate) fn both(a: &Traffic, b: &Traffic) -> Traffic {
    Traffic { received: add(&a.received, &b.received), sent: add(&a.sent, &b.sent) }
}

pub(crate) fn since(now: &Traffic, before: &Traffic) -> Traffic {
    let less = |now: &Count, before: &Count| Count {
        packets: now.packets.saturating_sub(before.packets),
        bytes: now.bytes.saturating_sub(before.bytes),
    };
    Traffic { received: less(&now.received, &before.received), sent: less(&now.sent, &before.sent) }
}

fn add(a: &Count, b: &Count) -> Count {
    Count { packets: a.packets + b.packets, bytes: a.bytes + b.bytes }
}

pub(crate) fn plus(a: &DriverCounters, b: &DriverCounters) -> DriverCounters {
    let mut total = *a;
    for lane in Lane::ALL {
        total.lanes[lane as usize].packets += b.lanes[lane as usize].packets;
        total.lanes[lane as usize].bytes += b.lanes[lane as usize].bytes;
    }
    total.reasons.iter_mut().zip(b.reasons).for_each(|(a, b)| *a += b);
    total.passed.iter_mut().zip(b.passed).for_each(|(a, b)| *a += b);
    total.policed.iter_mut().zip(b.policed).for_each(|(a, b)| *a += b);
    total
}

pub(crate) fn sum(a: &QueueCounters, b: &QueueCounters) -> QueueCounters {
    QueueCounters {
        rx_packets: a.rx_packets + b.rx_packets,
        rx_bytes: a.rx_bytes + b.rx_bytes,
        tx_packets: a.tx_packets + b.tx_packets,
        tx_bytes: a.tx_bytes + b.tx_bytes,
        rx_ring_full: a.rx_ring_full + b.rx_ring_full,
        rx_no_frame: a.rx_no_frame + b.rx_no_frame,
        rx_dropped: a.rx_dropped + b.rx_dropped,
        corrupt: a.corrupt + b.corrupt,
        tx_invalid: a.tx_invalid + b.tx_invalid,
        wakeups: a.wakeups + b.wakeups,
    }
}
