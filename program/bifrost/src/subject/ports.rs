//! The ports: state, mode, lane and why, packets by lane.

use plane::{Bridging, Plane};
use port::{DriverCounters, Lane as Taken};
use serde::{Deserialize, Serialize};
use wire::Mac;

use super::Subject;
use super::words::{Lane, Lanes, Rate, Traffic, word};
use crate::command::table::{Table, or_dash};
use crate::control::Rates;
use crate::daemon::{Control, Forwarding};
use crate::screen::units::{self, count};

/// Whether an interface can carry packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    /// Administratively up and with carrier.
    Up,
    /// There, but not up.
    Down,
    /// Named in the configuration; no such interface now.
    #[default]
    Absent,
}

/// How the XDP program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In Linux's generic path: slower, works everywhere.
    Generic,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortStatus {
    /// Name of the Linux interface.
    pub name: String,
    /// Bifrost's own number for it.
    pub index: u16,
    /// Linux's number for it; 0 while absent.
    pub ifindex: u32,
    /// Up, down or absent.
    pub state: PortState,
    /// Hardware address, `02:00:00:00:00:01`.
    pub mac: Option<String>,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Line rate in Mbit/s where the driver knows it.
    pub speed_mbps: Option<u32>,
    /// Driver of the interface.
    pub driver: Option<String>,
    /// How the XDP program is attached; absent while it is not.
    pub xdp_mode: Option<XdpMode>,
    /// Why the port did not get the best mode (native, zero-copy); absent when it did.
    pub mode_reason: Option<String>,
    /// The lane that plain transit arriving here takes (`express` or `worker`; `linux` while not
    /// attached).
    pub lane: Option<Lane>,
    /// Why that lane.
    pub lane_reason: Option<String>,
    /// The express lane can send out of this port.
    pub redirect_target: bool,
    /// Receive queues, in order.
    pub queues: Vec<QueueStatus>,
    /// What arrived here, by the lane it took.
    pub received: Lanes,
    /// What left here, by the lane it came by (what Linux sent is not known: 0).
    pub sent: Lanes,
    /// Packets that arrived here and were dropped, for any reason.
    pub drops: u64,
    /// Derived: rates of the counters above.
    pub rates: PortRates,
}

/// Rates of a port's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortRates {
    /// Arriving, all lanes.
    pub received: Rate,
    /// Leaving, all lanes.
    pub sent: Rate,
    /// Drops a second.
    pub drops_per_second: f64,
}

/// One receive queue of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Number of the queue in the device.
    pub queue: u32,
    /// The worker that owns it; absent while nobody does (its packets go to Linux).
    pub worker: Option<usize>,
    /// The driver fills Bifrost's memory directly.
    pub zero_copy: bool,
    /// The socket polls the driver itself (SO_PREFER_BUSY_POLL).
    pub busy_poll: bool,
    /// Packets that the socket received.
    pub received: u64,
    /// Packets that the socket sent.
    pub sent: u64,
    /// Packets that the kernel dropped because the receive ring was full.
    pub ring_full: u64,
    /// Times the fill ring was found empty.
    pub fill_empty: u64,
}

impl Subject for Vec<PortStatus> {
    const NAME: &'static str = "ports";
    const ABOUT: &'static str = "Ports: state, mode, lane and why, packets by lane";

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(statuses(&control.forwarding))
    }

    fn complete(&mut self, rates: &Rates) {
        rates.fill_ports(self);
    }

    fn table(&self) -> String {
        let mut table = Table::new(&[
            "port", "state", "driver", "mode", "lane", ">queues", ">in pps", ">in", ">out pps", ">out",
            ">express", ">worker", ">linux", ">drops",
        ]);
        for port in self {
            let zero_copy = port.queues.iter().any(|queue| queue.zero_copy);
            let mode = port.xdp_mode.map(|mode| word(mode) + if zero_copy { ", zero-copy" } else { "" });
            table.row(vec![
                port.name.clone(),
                word(port.state),
                or_dash(&port.driver),
                or_dash(&mode),
                or_dash(&lanes(port)),
                port.queues.len().to_string(),
                units::packets(port.rates.received.packets_per_second),
                units::bits(port.rates.received.bits_per_second),
                units::packets(port.rates.sent.packets_per_second),
                units::bits(port.rates.sent.bits_per_second),
                count(port.received.express.packets),
                count(port.received.worker.packets),
                count(port.received.linux.packets),
                count(port.drops),
            ]);
        }
        let mut text = table.render();
        for port in self {
            let reasons = [("lane", &port.lane_reason), ("mode", &port.mode_reason)];
            for (what, reason) in
                reasons.into_iter().filter_map(|(what, reason)| Some((what, reason.as_ref()?)))
            {
                text += &format!("{} {what}: {reason}\n", port.name);
            }
        }
        text
    }
}

/// All that are there, or that the configuration waits for.
pub(crate) fn statuses(forwarding: &Forwarding) -> Vec<PortStatus> {
    forwarding.known_ports().map(|port| status(&forwarding.plane, port)).collect()
}

fn status(plane: &Plane, port: &plane::port::Port) -> PortStatus {
    let driver = plane.driver_counters(port);
    let sockets = plane.queue_counters(port);
    let lane = port.lane();
    let mut status = PortStatus {
        name: port.name.clone(),
        index: port.id.0,
        redirect_target: port.target,
        lane: Some(Lane::Linux),
        received: match &port.shared {
            None => received(&driver),
            // No program in a driver sees what comes by shared memory: workers take all of it.
            Some(_) => Lanes {
                worker: Traffic { packets: sockets.rx_packets, bytes: sockets.rx_bytes },
                ..received(&driver)
            },
        },
        sent: Lanes {
            express: plane.express_sent(port).into(),
            worker: Traffic { packets: sockets.tx_packets, bytes: sockets.tx_bytes },
            linux: Traffic::default(),
        },
        drops: driver.lane(Taken::Drop).packets
            + sockets.rx_ring_full
            + sockets.rx_no_frame
            + sockets.rx_dropped,
        ..PortStatus::default()
    };
    if let Some(interface) = &port.interface {
        status.ifindex = interface.ifindex;
        status.state = if interface.up { PortState::Up } else { PortState::Down };
        status.mac = Some(Mac(interface.mac).to_string());
        status.mtu = interface.mtu;
        status.speed_mbps = speed(&port.name);
    }
    if let Some(refused) = &port.refused {
        status.mode_reason = Some(format!("not taken: {refused}"));
    }
    let Some(taken) = &port.taken else { return status };
    status.driver = Some(taken.driver.clone()).filter(|driver| !driver.is_empty());
    status.xdp_mode = Some(if taken.attachment.native { XdpMode::Native } else { XdpMode::Generic });
    status.mode_reason = Some(taken.why.join("; ")).filter(|why| !why.is_empty());
    if let Some(lane) = lane {
        status.lane = Some(if lane.express { Lane::Express } else { Lane::Worker });
        let sends = match (port.target, &port.shared) {
            (true, _) => "",
            (false, None) => "; the driver takes no redirected frames, so workers send by it",
            (false, Some(_)) => "; only workers send into shared memory",
        };
        let bridging = port.own().map_or(Bridging::No, |own| own.bridge);
        let left = port.own().map_or([false; 2], |interface| interface.left_to_linux);
        if left == [true; 2] && bridging != Bridging::Member {
            status.lane = Some(Lane::Linux);
        }
        status.lane_reason = Some(match left {
            [true, true] if bridging == Bridging::Member => {
                format!("{}{sends}; what has no tag is Linux's, which bridges it", lane.why)
            }
            // The member itself has nothing of Linux's.
            [true, true]
                if port.interface.as_ref().is_some_and(|own| own.left_to_linux != left)
                    && bridging == Bridging::No =>
            {
                format!("{} has it in reserve: Linux drops what comes by it", port.own_name())
            }
            [false, false] => format!("{}{sends}", lane.why),
            [true, true] => LEFT_TO_LINUX.to_owned(),
            [true, false] => format!("IPv4: {LEFT_TO_LINUX}; IPv6: {}{sends}", lane.why),
            [false, true] => format!("IPv4: {}{sends}; IPv6: {LEFT_TO_LINUX}", lane.why),
        });
    }
    status.queues = (0..taken.device_queues)
        .map(|queue| match taken.queues.iter().find(|open| open.queue == queue) {
            None => QueueStatus { queue, ..QueueStatus::default() },
            Some(open) => {
                let counters = open.meter.read();
                QueueStatus {
                    queue,
                    worker: Some(open.worker),
                    zero_copy: open.zero_copy,
                    busy_poll: open.busy_poll,
                    received: counters.rx_packets,
                    sent: counters.tx_packets,
                    ring_full: counters.rx_ring_full,
                    fill_empty: counters.rx_no_frame,
                }
            }
        })
        .collect();
    status
}

/// Why a port's transit is Linux's.
const LEFT_TO_LINUX: &str =
    "Linux forwards, as its own filter or routing rules could touch what arrives (show mirror)";

pub(crate) fn received(driver: &DriverCounters) -> Lanes {
    Lanes {
        express: driver.lane(Taken::Express).into(),
        worker: driver.lane(Taken::Worker).into(),
        linux: driver.lane(Taken::Pass).into(),
    }
}

/// Line rate in Mbit/s, where Linux knows it.
fn speed(name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
    text.trim().parse().ok().filter(|speed| *speed != u32::MAX)
}

/// The port's lane, and the other one where at least one in a hundred packets takes it: flows that
/// a worker has decided go on in the driver, and the driver leaves to workers what it cannot do.
fn lanes(port: &PortStatus) -> Option<String> {
    let lane = port.lane?;
    let Lanes { express, worker, linux } = port.received;
    let hundredth = (express.packets + worker.packets + linux.packets).div_ceil(100).max(1);
    let other = match lane {
        Lane::Worker => (Lane::Express, express.packets),
        Lane::Express => (Lane::Worker, worker.packets),
        Lane::Linux => return Some(lane.name().to_owned()),
    };
    Some(match other {
        (other, packets) if packets >= hundredth => format!("{}+{}", lane.name(), other.name()),
        _ => lane.name().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lane_is_what_packets_take() {
        let shown = |lane, express: u64, worker: u64| {
            let traffic = |packets| Traffic { packets, bytes: 0 };
            let received = Lanes { express: traffic(express), worker: traffic(worker), ..Lanes::default() };
            lanes(&PortStatus { lane, received, ..PortStatus::default() })
        };
        assert_eq!(shown(None, 0, 0), None);
        for (lane, express, worker, said) in [
            (Lane::Worker, 0, 0, "worker"),
            (Lane::Worker, 0, 1_000, "worker"),
            (Lane::Worker, 999_000, 1_000, "worker+express"),
            (Lane::Worker, 1, 1_000, "worker"),
            (Lane::Express, 1_000_000, 12, "express"),
            (Lane::Express, 90, 10, "express+worker"),
            (Lane::Linux, 5, 5, "linux"),
        ] {
            assert_eq!(shown(Some(lane), express, worker).as_deref(), Some(said), "{express} {worker}");
        }
    }
}
