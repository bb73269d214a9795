//! What is said of flows and of the filter. Names are documented in `docs/json.md` and stable.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Which flows: every one, unless a part says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowQuery {
    /// Only those of which an end, before or after translation, is in this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<IpNet>,
    /// Only those of which an end has this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Only those of this IP protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// In what order.
    pub order: FlowOrder,
    /// So many of them; absent: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// In what order flows are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowOrder {
    /// By bits a second since they began, the fastest first.
    #[default]
    Rate,
    /// By bytes, the largest first.
    Bytes,
    /// By age, the oldest first.
    Age,
}

/// A flow. Of pairs, the first is of the direction of its first packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowEntry {
    /// IP protocol.
    pub protocol: u8,
    /// Where the first packet came from.
    pub source: Option<IpAddr>,
    /// Its port, or identifier of an ICMP query.
    pub source_port: u16,
    /// Where the first packet went to.
    pub destination: Option<IpAddr>,
    /// Its port.
    pub destination_port: u16,
    /// How far it is: `opening`, `answered`, `open`, `closing`, `finished`, `reset`, `unreplied`,
    /// `replied`, `stream`.
    pub phase: String,
    /// Seconds since its first packet.
    pub age_seconds: f64,
    /// Seconds since its last packet.
    pub idle_seconds: f64,
    /// Packets, each way.
    pub packets: [u64; 2],
    /// Bytes of IP packets, each way.
    pub bytes: [u64; 2],
    /// Bits a second since it began, both ways.
    pub bits_per_second: f64,
    /// The port its first packet came by, and the one it left by.
    pub ports: [Option<String>; 2],
    /// What rules marked it with.
    pub mark: u8,
    /// The ends of its first packet as it left, if addresses or ports are translated.
    pub translated: Option<FlowEnds>,
}

/// From where to where packets are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEnds {
    /// Where they come from.
    pub source: Option<IpAddr>,
    /// Their port, or identifier of an ICMP query.
    pub source_port: u16,
    /// Where they go to.
    pub destination: Option<IpAddr>,
    /// Their port.
    pub destination_port: u16,
}

/// The flow table. Counters are since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTable {
    /// Flows it can hold.
    pub capacity: u64,
    /// Flows there are.
    pub size: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Packets looked up.
    pub lookups: u64,
    /// Of those, found.
    pub hits: u64,
    /// Flows that began.
    pub new: u64,
    /// Entries compared.
    pub searches: u64,
    /// Packets that claimed to belong to a flow and did not.
    pub invalid: u64,
    /// Flows removed since they were over.
    pub gc_active: u64,
    /// Flows removed since they were idle.
    pub gc_timed: u64,
    /// Flows removed to make room.
    pub gc_passive: u64,
    /// Flows removed by order.
    pub gc_flushed: u64,
    /// Times that room was sought and nothing could be removed.
    pub gc_ignored: u64,
    /// Flows that found no room.
    pub overflow: u64,
}

/// What is shown of flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    /// The table; absent while flows are not tracked.
    pub table: Option<FlowTable>,
    /// Flows that were asked for, before the limit.
    pub matching: u64,
    /// The first of them.
    pub flows: Vec<FlowEntry>,
}
