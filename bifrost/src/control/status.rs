//! What Bifrost says about itself. Field names and the words of each enumeration are the documented,
//! stable JSON names (`docs/json.md`): add freely, rename never.
//!
//! Counters count from the start of the daemon and only grow. Fields documented as *derived* are filled
//! in by the server from two successive samples of the counters; an implementation of
//! [`Answer`](super::Answer) leaves them at their default.

use std::net::IpAddr;

pub use super::copies::{MirrorPortStatus, SeenPacket};
pub use super::flow_log::{FlowLogOutput, FlowLogStatus, SflowStatus};
pub use super::flows::{
    FilterChain, FilterRule, FlowEnds, FlowEntry, FlowOrder, FlowQuery, FlowTable, Flows, NatMapping,
    NatPool, NatRule, NatTaken, Translation,
};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Which program is answering.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The release, such as `0.1.0`.
    pub version: String,
    /// Process number of the daemon.
    pub pid: u32,
    /// Seconds since the daemon was ready.
    pub uptime_seconds: u64,
    /// The configuration file in use; absent when ports were named on the command line.
    pub configuration: Option<String>,
}

/// The path that a packet takes through the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Forwarded by the program in the driver.
    Express,
    /// Forwarded by a worker's graph.
    Worker,
    /// Handed to Linux: for this machine, or what only Linux can complete.
    Linux,
}

impl Lane {
    /// The JSON name.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Express => "express",
            Lane::Worker => "worker",
            Lane::Linux => "linux",
        }
    }
}

/// Packets and bytes; bytes are frame bytes without preamble, FCS and gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Frame bytes.
    pub bytes: u64,
}

impl std::ops::Add for Traffic {
    type Output = Traffic;
    fn add(self, other: Traffic) -> Traffic {
        Traffic {
            packets: self.packets.saturating_add(other.packets),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Traffic by the lane that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    /// By the program in the driver.
    pub express: Traffic,
    /// By the workers.
    pub worker: Traffic,
    /// By Linux.
    pub linux: Traffic,
}

impl Lanes {
    /// The lanes together.
    pub fn total(&self) -> Traffic {
        self.express + self.worker + self.linux
    }
}

/// A rate over about the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Packets a second.
    pub packets_per_second: f64,
    /// Bits a second of frame bytes (no preamble, FCS or gap).
    pub bits_per_second: f64,
}

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
    /// The lane that plain transit arriving here takes (`express` or `worker`; `linux` while not attached).
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
    /// The route is for packets of this type of service only (`0x10`); Linux decides about the prefix.
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

/// One neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Interface.
    pub dev: String,
    /// Hardware address, when known.
    pub mac: Option<String>,
    /// Linux's name for its state: `reachable`, `stale`, `failed`, ...
    pub state: String,
    /// The plane's tables have an entry for it.
    pub programmed: bool,
}

/// Packets dropped at one place for one reason. Only counts above zero are listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DropCount {
    /// Port they arrived by, where counted by port.
    pub port: Option<String>,
    /// Lane that dropped them.
    pub lane: Lane,
    /// Element that dropped them (worker lane).
    pub element: Option<String>,
    /// Why: a name of `docs/drops.md`.
    pub reason: String,
    /// How many.
    pub packets: u64,
    /// Derived: drops a second.
    #[serde(default)]
    pub per_second: f64,
}

/// What a worker is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// Polling its queues.
    Polling,
    /// Nothing to do: asleep until a packet comes.
    #[default]
    Asleep,
    /// It failed; the supervisor is starting it again and Linux has its ports.
    Restarting,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Number, from 0.
    pub index: usize,
    /// Processor core that it is pinned to.
    pub core: usize,
    /// Polling, asleep or restarting.
    pub state: WorkerState,
    /// Queues that it owns, `eth0/0`.
    pub queues: Vec<String>,
    /// Packets received.
    pub packets: u64,
    /// Batches that were not empty.
    pub batches: u64,
    /// Rounds over its queues, empty ones included.
    pub polls: u64,
    /// Times it was woken from sleep.
    pub wakeups: u64,
    /// Times the supervisor started it again.
    pub restarts: u64,
    /// Nanoseconds spent on packets (rounds that found some).
    pub busy_ns: u64,
    /// Derived: share of the last second spent on packets, 0 to 1.
    #[serde(default)]
    pub load: f64,
    /// Derived: packets a second.
    #[serde(default)]
    pub packets_per_second: f64,
    /// Derived: packets a batch over the last second.
    #[serde(default)]
    pub batch_average: f64,
}

/// One element of the graph. The express lane appears as the element that it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Its name in the graph, unique.
    pub name: String,
    /// Its class, such as `DecrementTtl4`.
    pub class: String,
    /// Its arguments, as text.
    #[serde(default)]
    pub configuration: String,
    /// Its inputs.
    #[serde(default)]
    pub inputs: Vec<GraphPort>,
    /// Its outputs.
    #[serde(default)]
    pub outputs: Vec<GraphPort>,
    /// Packets that entered.
    pub packets: u64,
    /// Batches that entered.
    pub batches: u64,
    /// Mean cost since measuring began; absent while not measured.
    pub cycles_per_packet: Option<f64>,
    /// Packets that it dropped.
    pub drops: u64,
    /// Where its outputs go.
    pub edges: Vec<GraphEdge>,
}

/// How an input or output of an element works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphPort {
    /// Packets are pulled through it; otherwise they are pushed.
    pub pull: bool,
    /// The element would do either.
    pub agnostic: bool,
}

/// One connection of the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphEdge {
    /// Name of the output, such as `expired`.
    pub output: String,
    /// Name of the node that it leads to.
    pub to: String,
    /// Input of that node.
    pub input: usize,
    /// Number of the output.
    #[serde(default)]
    pub number: usize,
    /// Packets that took it.
    #[serde(default)]
    pub packets: u64,
}

/// The classifier in the driver: what goes to this machine, and how it is policed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassifierStatus {
    /// Addresses of this machine that it knows.
    pub local_addresses: u64,
    /// The policing classes, most important first.
    pub classes: Vec<ClassStatus>,
}

/// One policing class of packets handed to Linux.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// `routing`, `management`, `icmp`, `rest` or `unresolved`.
    pub class: String,
    /// Packets a second let through.
    pub rate: u64,
    /// Packets let through at once.
    pub burst: u64,
    /// Packets let through so far.
    pub passed: u64,
    /// Packets over the limit, dropped.
    pub dropped: u64,
}

/// Routes of one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginCount {
    /// `kernel`, `static`, `bgp`, ...
    pub origin: String,
    /// IPv4 routes.
    pub ipv4: u64,
    /// IPv6 routes.
    pub ipv6: u64,
}

/// The configuration in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Where it was read; `None` when the ports were named on the command line.
    pub file: Option<String>,
    /// The file as it was read then, its secrets covered.
    pub text: String,
}

/// How well the plane's tables follow Linux's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MirrorStatus {
    /// Where routes come from: `netlink` or `netlink+fpm`.
    pub source: String,
    /// Everything that was read is in the plane's tables.
    pub synced: bool,
    /// Interfaces known.
    pub links: u64,
    /// Addresses known.
    pub addresses: u64,
    /// Neighbours known.
    pub neighbours: u64,
    /// Next-hop objects known.
    pub next_hop_objects: u64,
    /// Routes by origin.
    pub routes: Vec<OriginCount>,
    /// Routes in tables that Bifrost does not use.
    pub unused_tables: Vec<UnusedTable>,
    /// IPv4 policy rules beyond Linux's defaults, which Bifrost does not follow.
    pub rules_ipv4: u64,
    /// The same, IPv6.
    pub rules_ipv6: u64,
    /// The first of them, as `ip rule` writes them, their family before: `ipv4 100: from 10.0.0.0/8 lookup 77`.
    pub rules: Vec<String>,
    /// What packets forwarded by Linux pass, and packets forwarded by Bifrost do not: chains of nftables (`inet filter forward`),
    /// tables of legacy iptables (`iptables filter`), filters of `tc` (`tc ingress eth0 (bpf)`), IPsec policies (`xfrm policy fwd
    /// 10.0.0.0/8 to 192.0.2.0/24`).
    pub filters: Vec<String>,
    /// Queueing disciplines that shape what Linux sends by ports, and not what Bifrost does: `tbf on eth0`.
    #[serde(default)]
    pub shapers: Vec<String>,
    /// Routes for some packets only, by source or type of service: what goes to their prefixes is left to Linux.
    #[serde(default)]
    pub restricted_routes: u64,
    /// Whether what these could touch is left to Linux; else it passes them by, as configured.
    #[serde(default)]
    pub filters_respected: bool,
    /// The same of policy rules.
    #[serde(default)]
    pub rules_respected: bool,
    /// Why Linux does not have the router's own filter and translation, which are to hold when the plane is gone; `null` while it has.
    pub filter_refused: Option<String>,
    /// How often Linux was given them again, because somebody had changed or removed its copy.
    #[serde(default)]
    pub filter_restored: u64,
    /// Netlink and FPM messages read.
    pub messages: u64,
    /// Times a netlink socket overflowed and everything was read again.
    pub overruns: u64,
    /// Routes that did not fit the plane's tables, left to Linux.
    pub not_programmed: u64,
    /// The comparison of the plane with Linux.
    pub audit: AuditStatus,
    /// The connection of FRR's zebra, when configured.
    pub fpm: Option<FpmStatus>,
}

/// Routes of a table that Bifrost does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedTable {
    /// Linux's table number.
    pub table: u32,
    /// Its routes.
    pub routes: u64,
}

/// The continuous comparison of the plane's tables with Linux's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditStatus {
    /// Whole passes done.
    pub passes: u64,
    /// Differences found so far.
    pub differences: u64,
    /// Differences repaired so far.
    pub repaired: u64,
    /// Seconds since the last whole pass ended; absent before the first.
    pub last_pass_seconds_ago: Option<u64>,
}

/// The FPM connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FpmStatus {
    /// Address listened on.
    pub listen: String,
    /// A zebra is connected.
    pub connected: bool,
    /// Connections so far.
    pub connections: u64,
    /// Frames applied.
    pub frames: u64,
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
    /// What was decided there, in a word or a few: `for transit`, `203.0.113.0/24`, `dropped: ttl_expired`.
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
