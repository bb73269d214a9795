//! What a carrier must be able to say later: who had which address and port, and when (RFC 6888,
//! REQ-12; RFC 7422).

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use crate::addresses::address;
use crate::mapping::Mapping;

/// What happened to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// It was made.
    Made,
    /// Its last flow has ended.
    Ended,
}

/// A mapping that was made or has ended. Of deterministic blocks none need be kept
/// ([`Deterministic::log_line`](crate::Deterministic::log_line)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// When, in ns of the caller's clock.
    pub time: u64,
    /// What.
    pub event: Event,
    /// By which rule; empty if that is gone.
    pub rule: String,
    /// The routing table of the host.
    pub table: u16,
    /// Protocol number; 1 for ICMPv6 as well.
    pub protocol: u8,
    /// The host.
    pub inside: IpAddr,
    /// Its port or identifier.
    pub inside_port: u16,
    /// What stands for it outside.
    pub outside: IpAddr,
    /// Its port or identifier outside.
    pub outside_port: u16,
}

impl Record {
    pub(crate) fn new(mapping: &Mapping, event: Event, time: u64, rule: String) -> Record {
        Record {
            time,
            event,
            rule,
            table: mapping.inside.table,
            protocol: mapping.inside.class.protocol(),
            inside: address(&mapping.inside.endpoint.address),
            inside_port: mapping.inside.endpoint.port,
            outside: address(&mapping.outside.address),
            outside_port: mapping.outside.port,
        }
    }
}

/// One line, with `key=value` in a fixed order.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = if self.event == Event::Made { "made" } else { "ended" };
        let Record { time, rule, table, protocol, inside, inside_port, outside, outside_port, .. } = self;
        write!(f, "nat {event} time={time} rule={rule:?} table={table} protocol={protocol} ")?;
        write!(f, "inside={inside} inside-port={inside_port} outside={outside} outside-port={outside_port}")
    }
}
