//! What a port counted in all its lives: its program and its sockets start at nothing each time it is taken.

use port::{DriverCounters, Lane, QueueCounters};

use crate::plane::Plane;
use crate::port::Port;

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

    /// What the express lane sent by the port.
    pub fn express_sent(&self, port: &Port) -> port::driver::Count {
        self.driver.sent(port.id).unwrap_or_default()
    }
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
