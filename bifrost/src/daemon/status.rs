//! What the control thread says of ports, workers, drops, the graph and the classifier.

use std::time::Duration;

use crate::control::status::{Lane as LaneName, *};
use plane::meter::State;
use port::driver::Count;
use port::{DriverCounters, Lane};
use wire::{Class, Mac, Reason};

use super::forwarding::Forwarding;
use super::settings;

/// How long the elements are timed after somebody asked for the graph: it costs two clock reads an element and batch.
const MEASURED: Duration = Duration::from_secs(10);
/// The name under which the express lane appears in the graph.
const EXPRESS: &str = "express";

impl Forwarding {
    pub(super) fn port_statuses(&self) -> Vec<PortStatus> {
        self.known_ports().map(|port| self.port_status(port)).collect()
    }

    fn port_status(&self, port: &plane::port::Port) -> PortStatus {
        let driver = self.plane.driver_counters(port);
        let sockets = self.plane.queue_counters(port);
        let lane = port.lane();
        let mut status = PortStatus {
            name: port.name.clone(),
            index: port.id.0,
            redirect_target: port.target,
            lane: Some(LaneName::Linux),
            received: match &port.shared {
                None => received(&driver),
                // No program in a driver sees what comes by shared memory: workers take all of it.
                Some(_) => Lanes {
                    worker: Traffic { packets: sockets.rx_packets, bytes: sockets.rx_bytes },
                    ..received(&driver)
                },
            },
            sent: Lanes {
                express: traffic(self.plane.express_sent(port)),
                worker: Traffic { packets: sockets.tx_packets, bytes: sockets.tx_bytes },
                linux: Traffic::default(),
            },
            drops: driver.lane(Lane::Drop).packets
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
            status.lane = Some(if lane.express { LaneName::Express } else { LaneName::Worker });
            let sends = match (port.target, &port.shared) {
                (true, _) => "",
                (false, None) => "; the driver takes no redirected frames, so workers send by it",
                (false, Some(_)) => "; only workers send into shared memory",
            };
            let left = port.interface.as_ref().map_or([false; 2], |interface| interface.left_to_linux);
            if left == [true; 2] {
                status.lane = Some(LaneName::Linux);
            }
            status.lane_reason = Some(match left {
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

    pub(super) fn drops(&self) -> Vec<DropCount> {
        let mut drops = Vec::new();
        let mut note = |port: Option<&str>, lane, element: Option<&str>, reason: Reason, packets| {
            if packets > 0 {
                drops.push(DropCount {
                    port: port.map(str::to_owned),
                    lane,
                    element: element.map(str::to_owned),
                    reason: reason.name().to_owned(),
                    packets,
                    per_second: 0.0,
                });
            }
        };
        for port in self.known_ports() {
            let counters = self.plane.driver_counters(port);
            for reason in Reason::ALL {
                note(Some(&port.name), LaneName::Express, None, reason, counters.reasons[reason as usize]);
            }
            let sockets = self.plane.queue_counters(port);
            let name = Some(port.name.as_str());
            // The kernel dropped these on their way into the worker's ring.
            note(
                name,
                LaneName::Worker,
                Some("ring"),
                Reason::ReceiveFull,
                sockets.rx_ring_full + sockets.rx_dropped,
            );
            note(name, LaneName::Worker, Some("ring"), Reason::NoBuffer, sockets.rx_no_frame);
            note(name, LaneName::Worker, Some("ring"), Reason::CorruptRing, sockets.corrupt);
        }
        let members = self.plane.crew().members();
        for (index, node) in self.plane.crew().description().nodes.iter().enumerate() {
            for reason in Reason::ALL {
                let of = |counters: &graph::GraphCounters| {
                    counters.node(graph::NodeId(index)).map_or(0, |node| node.dropped(reason))
                };
                let packets = members.iter().map(|member| of(&member.counters)).sum();
                note(None, LaneName::Worker, Some(&node.name), reason, packets);
            }
        }
        for member in members {
            let meter = &member.meter;
            note(None, LaneName::Worker, Some("out"), Reason::TransmitFull, meter.transmit_full.value());
            note(None, LaneName::Worker, Some("linux"), Reason::PuntFailed, meter.punt_failed.value());
            for class in Class::ALL {
                let packets = meter.policed[class as usize].value();
                note(None, LaneName::Worker, Some("linux"), policed(class), packets);
            }
        }
        drops
    }

    pub(super) fn workers(&self) -> Vec<WorkerStatus> {
        let members = self.plane.crew().members().iter().enumerate();
        members
            .map(|(index, member)| {
                let queues = self.plane.ports().iter().flat_map(|port| {
                    let open = port.taken.iter().flat_map(|taken| &taken.queues);
                    open.filter(|queue| queue.worker == index)
                        .map(|queue| format!("{}/{}", port.name, queue.queue))
                });
                let meter = &member.meter;
                WorkerStatus {
                    index,
                    core: member.core,
                    state: match meter.state() {
                        State::Polling => WorkerState::Polling,
                        State::Asleep => WorkerState::Asleep,
                        State::Failed => WorkerState::Restarting,
                    },
                    queues: queues.collect(),
                    packets: meter.packets.value(),
                    batches: meter.batches.value(),
                    polls: meter.rounds.value(),
                    wakeups: meter.wakeups.value(),
                    restarts: member.restarts,
                    busy_ns: meter.busy_ns.value(),
                    ..WorkerStatus::default()
                }
            })
            .collect()
    }

    /// The express lane first: packets meet it first. Elements are timed while somebody asks.
    pub(super) fn graph(&mut self) -> Vec<GraphNode> {
        self.measure(MEASURED);
        let crew = self.plane.crew();
        let description = crew.description();
        let totals = self.plane.ports().iter().map(|port| self.plane.driver_counters(port)).fold(
            (0, 0, 0),
            |(packets, drops, workers), counters| {
                let drop = counters.lane(Lane::Drop).packets;
                (
                    packets
                        + counters.lane(Lane::Express).packets
                        + counters.lane(Lane::Worker).packets
                        + drop,
                    drops + drop,
                    workers + counters.lane(Lane::Worker).packets,
                )
            },
        );
        let entry = description.nodes.first().map(|node| node.name.clone()).unwrap_or_default();
        let mut nodes = vec![GraphNode {
            name: EXPRESS.to_owned(),
            class: "ExpressLane".to_owned(),
            outputs: vec![GraphPort::default()],
            packets: totals.0,
            batches: totals.0,
            cycles_per_packet: None,
            drops: totals.1,
            edges: vec![GraphEdge {
                output: "worker".to_owned(),
                to: entry,
                packets: totals.2,
                ..GraphEdge::default()
            }],
            ..GraphNode::default()
        }];
        for node in &description.nodes {
            let counters: Vec<_> =
                crew.members().iter().filter_map(|member| member.counters.node(node.id)).collect();
            let measured: u64 = counters.iter().map(|node| node.measured_packets()).sum();
            let cycles: u64 = counters.iter().map(|node| node.cycles()).sum();
            let edges = description.edges.iter().filter(|edge| edge.from == node.id);
            let ports: Vec<GraphPort> = (node.inputs.iter().chain(&node.outputs).enumerate())
                .map(|(place, flow)| GraphPort {
                    pull: *flow == graph::Flow::Pull,
                    agnostic: node.agnostic.get(place).copied().unwrap_or_default(),
                })
                .collect();
            let (inputs, outputs) = ports.split_at(node.inputs.len());
            nodes.push(GraphNode {
                name: node.name.clone(),
                class: node.class.to_owned(),
                configuration: node.configuration.clone(),
                inputs: inputs.to_vec(),
                outputs: outputs.to_vec(),
                packets: counters.iter().map(|node| node.packets()).sum(),
                batches: counters.iter().map(|node| node.batches()).sum(),
                cycles_per_packet: (measured > 0).then(|| cycles as f64 / measured as f64),
                drops: counters.iter().map(|node| dropped(node)).sum(),
                edges: edges
                    .map(|edge| GraphEdge {
                        output: description.output_name(edge),
                        number: edge.output,
                        to: description.nodes[edge.to.0].name.clone(),
                        input: edge.input,
                        packets: counters.iter().map(|node| node.output(edge.output)).sum(),
                    })
                    .collect(),
            });
        }
        nodes
    }

    pub(super) fn classifier(&self) -> ClassifierStatus {
        let ports: Vec<_> = self.plane.ports().iter().map(|port| self.plane.driver_counters(port)).collect();
        let members = self.plane.crew().members();
        let punted = |class: Class| -> u64 {
            let nodes = members.iter().flat_map(|member| member.counters.nodes());
            nodes.map(|(_, node)| node.punted(class)).sum()
        };
        let refused = |class: Class| -> u64 {
            members.iter().map(|member| member.meter.policed[class as usize].value()).sum()
        };
        let classes = settings::police(&self.router).into_iter().map(|(class, rate, burst)| ClassStatus {
            class: class.name().to_owned(),
            rate,
            burst,
            passed: ports.iter().map(|port| port.passed[class as usize]).sum::<u64>()
                + punted(class).saturating_sub(refused(class)),
            dropped: ports.iter().map(|port| port.policed[class as usize]).sum::<u64>() + refused(class),
        });
        ClassifierStatus {
            local_addresses: self.mirror.model().addresses().count() as u64,
            classes: classes.collect(),
        }
    }
}

/// Packets that a node dropped. An answer that a limit suppressed is no packet: the one it was about counts for itself.
fn dropped(node: &graph::NodeCounters) -> u64 {
    Reason::ALL
        .into_iter()
        .filter(|reason| *reason != Reason::IcmpLimited)
        .map(|reason| node.dropped(reason))
        .sum()
}

/// Why a port's transit is Linux's.
const LEFT_TO_LINUX: &str =
    "Linux forwards, as its own filter or policy rules could touch what arrives (show mirror)";

fn traffic(count: Count) -> Traffic {
    Traffic { packets: count.packets, bytes: count.bytes }
}

pub(super) fn received(driver: &DriverCounters) -> Lanes {
    Lanes {
        express: traffic(driver.lane(Lane::Express)),
        worker: traffic(driver.lane(Lane::Worker)),
        linux: traffic(driver.lane(Lane::Pass)),
    }
}

fn policed(class: Class) -> Reason {
    match class {
        Class::Routing => Reason::PolicedRouting,
        Class::Management => Reason::PolicedManagement,
        Class::Icmp => Reason::PolicedIcmp,
        Class::Rest => Reason::PolicedRest,
        Class::Unresolved => Reason::PolicedUnresolved,
        Class::Transit => Reason::PolicedTransit,
        Class::Neighbour => Reason::PolicedNeighbour,
    }
}

/// Line rate in Mbit/s, where Linux knows it.
fn speed(name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
    text.trim().parse().ok().filter(|speed| *speed != u32::MAX)
}
