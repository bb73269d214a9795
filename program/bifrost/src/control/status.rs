//! What Bifrost says about itself. Field names and the words of each enumeration are the
//! documented, stable JSON names (`docs/json.md`): add freely, rename never.
//!
//! Counters count from the start of the daemon and only grow. Fields documented as *derived* are
//! filled in by the server from two successive samples of the counters; an implementation of
//! [`Answer`](super::Answer) leaves them at their default.

use std::net::IpAddr;

pub use super::copies::SeenPacket;
pub use super::flows::{FlowEnds, FlowEntry, FlowOrder, FlowQuery, FlowTable, Flows};
pub use crate::subject::{
    AuditStatus, ClassStatus, ClassifierStatus, Config, DropCount, FilterChain, FilterRule, FlowLogOutput,
    FlowLogStatus, FpmStatus, GraphEdge, GraphNode, GraphPort, InterfaceStatus, Lane, Lanes,
    MirrorPortStatus, MirrorStatus, NatMapping, NatPool, NatRule, NatTaken, Neighbour, OriginCount,
    PortRates, PortState, PortStatus, QueueStatus, Rate, SflowStatus, Traffic, Translation, UnusedTable,
    Version, WorkerState, WorkerStatus, XdpMode,
};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// What a route does with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteKind {
    /// Send it to a next hop.
    #[default]
    Forward,
    /// The destination is on a link of ours: each host has its own adjacency.
    Connected,
    /// An address of this machine.
    Local,
    /// Drop silently.
    Blackhole,
    /// Drop and say host unreachable.
    Unreachable,
    /// Drop and say administratively prohibited.
    Prohibit,
    /// Linux forwards it (an interface not ours, an encapsulation, a full table).
    Linux,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteEntry {
    /// Destination.
    pub prefix: IpNet,
    /// Who made it: `kernel`, `static`, `bgp`, `bird`, ...
    pub origin: String,
    /// Linux's table number (254 main, 255 local).
    pub table: u32,
    /// Lower wins among routes to one prefix.
    pub metric: u32,
    /// The route is for packets from there only; Linux decides about the prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpNet>,
    /// The route is for packets of this type of service only (`0x10`); Linux decides about the
    /// prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tos: Option<String>,
    /// What it does.
    pub kind: RouteKind,
    /// Where to; empty unless `forward` or `connected`.
    pub next_hops: Vec<NextHop>,
    /// It is the one that wins for its prefix.
    pub selected: bool,
    /// The plane's table holds it.
    pub programmed: bool,
}

/// One next hop of a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NextHop {
    /// Gateway; absent when the destination is on the link.
    pub via: Option<IpAddr>,
    /// Interface.
    pub dev: String,
    /// Share among the next hops, from 1.
    pub weight: u16,
    /// Hardware address of the neighbour, once resolved.
    pub mac: Option<String>,
    /// The plane can send to it now.
    pub resolved: bool,
}

/// The router at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Packets that arrived on all ports, by the lane they took.
    pub lanes: Lanes,
    /// Routes by origin.
    pub routes: Vec<OriginCount>,
    /// The plane's tables hold what Linux's do, as far as is known.
    pub synced: bool,
}

/// One sample of all that the live screen shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Milliseconds since the daemon's server started.
    pub at_ms: u64,
    /// Lanes and routes.
    pub summary: Summary,
    /// Ports with rates.
    pub ports: Vec<PortStatus>,
    /// Workers with loads.
    pub workers: Vec<WorkerStatus>,
    /// Drops, most frequent first, at most 16.
    pub drops: Vec<DropCount>,
    /// Derived: shares of the packets of the last second, by lane.
    pub shares: Shares,
}

/// Shares of packets by lane, each 0 to 1; all 0 when nothing arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Express lane.
    pub express: f64,
    /// Worker lane.
    pub worker: f64,
    /// Linux.
    pub linux: f64,
}

impl Shares {
    /// Shares of these counts.
    pub fn of(lanes: &Lanes) -> Shares {
        let total = lanes.total().packets;
        if total == 0 {
            return Shares::default();
        }
        let share = |t: Traffic| t.packets as f64 / total as f64;
        Shares { express: share(lanes.express), worker: share(lanes.worker), linux: share(lanes.linux) }
    }
}

/// One step of the way that a packet would take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Where: `port`, `classifier`, an element's name, `transmit`, ...
    pub step: String,
    /// What was decided there, in a word or a few: `for transit`, `203.0.113.0/24`, `dropped:
    /// ttl_expired`.
    pub decision: String,
    /// Why, or with what: the route, the adjacency, the reason. May be empty.
    pub detail: String,
}

/// One step that a real packet took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceStep {
    /// Number of the packet in this trace, from 1.
    pub packet: u64,
    /// Nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Worker that has it.
    pub worker: usize,
    /// Port that it arrived by.
    pub input: String,
    /// Element that it enters; for the last step, where it ended (`transmit`, `punt`, `drop`).
    pub element: String,
    /// The packet as it is there: `198.18.0.9 > 203.0.113.7 udp 4000:53 ttl 64 len 60`.
    pub packet_summary: String,
    /// What became of it, in the last step: `sent by eth1`, `dropped: ttl_expired`; else absent.
    pub fate: Option<String>,
}

/// One captured packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CapturedPacket {
    /// Nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Port that it arrived by.
    pub input: String,
    /// Element that it was entering.
    pub element: String,
    /// Its whole length as a frame, bytes.
    pub length: u32,
    /// The frame from the Ethernet header, cut at the snap length; hexadecimal in JSON.
    #[serde(with = "super::hex")]
    pub frame: Vec<u8>,
}
