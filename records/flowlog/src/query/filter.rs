//! Which records are meant.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use abi::protocol;
use ipnet::IpNet;

use crate::record::{Name, Reason, Record};
use crate::store::columns::Wanted;
use crate::store::read::Span;

/// What a record must be. An empty list asks for nothing; of a list with values, one must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Some of it lies in this span.
    pub span: Span,
    /// Either side's address, before or behind translation.
    pub hosts: Vec<IpNet>,
    /// The address of the side that began.
    pub sources: Vec<IpNet>,
    /// The address of the other side.
    pub destinations: Vec<IpNet>,
    /// Either side's port, before or behind translation.
    pub ports: Vec<RangeInclusive<u16>>,
    /// The port of the side that began.
    pub source_ports: Vec<RangeInclusive<u16>>,
    /// The port of the other side.
    pub destination_ports: Vec<RangeInclusive<u16>>,
    /// Protocol number.
    pub protocols: Vec<u8>,
    /// Name of the interface in or out.
    pub interfaces: Vec<Name>,
    /// AS from or to.
    pub systems: Vec<u32>,
    /// VRF or routing table.
    pub tables: Vec<u32>,
    /// Why it ended.
    pub reasons: Vec<Reason>,
}

impl Filter {
    /// Whether this record is meant.
    pub fn takes(&self, record: &Record) -> bool {
        let key = &record.key;
        // ICMP's ports are no ports.
        let port = |ranges: &[RangeInclusive<u16>], port: u16| {
            !key.is_icmp() && ranges.iter().any(|range| range.contains(&port))
        };
        let within = |networks: &[IpNet], address: IpAddr| networks.iter().any(|net| net.contains(&address));
        let translated = record.translated.as_ref();
        let either_host = || {
            within(&self.hosts, key.source)
                || within(&self.hosts, key.destination)
                || translated.is_some_and(|ends| {
                    within(&self.hosts, ends.source) || within(&self.hosts, ends.destination)
                })
        };
        let either_port = || {
            port(&self.ports, key.source_port)
                || port(&self.ports, key.destination_port)
                || translated.is_some_and(|ends| {
                    port(&self.ports, ends.source_port) || port(&self.ports, ends.destination_port)
                })
        };
        self.span.meets(record.start, record.end)
            && (self.protocols.is_empty() || self.protocols.contains(&key.protocol))
            && (self.ports.is_empty() || either_port())
            && (self.source_ports.is_empty() || port(&self.source_ports, key.source_port))
            && (self.destination_ports.is_empty() || port(&self.destination_ports, key.destination_port))
            && (self.hosts.is_empty() || either_host())
            && (self.sources.is_empty() || within(&self.sources, key.source))
            && (self.destinations.is_empty() || within(&self.destinations, key.destination))
            && (self.interfaces.is_empty()
                || self.interfaces.contains(&record.input.name)
                || self.interfaces.contains(&record.output.name))
            && (self.systems.is_empty()
                || self.systems.contains(&record.source_as)
                || self.systems.contains(&record.destination_as))
            && (self.tables.is_empty() || self.tables.contains(&key.table))
            && (self.reasons.is_empty() || record.reason.is_some_and(|reason| self.reasons.contains(&reason)))
    }

    /// The columns that it looks at, and those by which living flows are told from ended ones.
    pub fn columns(&self) -> Wanted {
        let mut wanted =
            Wanted::these(&["start_time", "end_time", "start_nanos", "end_nanos", "flow_id", "slice"]);
        for (asked, columns) in [
            (!self.hosts.is_empty(), &["src_addr", "dst_addr", "nat_src_addr", "nat_dst_addr"][..]),
            (!self.sources.is_empty(), &["src_addr"]),
            (!self.destinations.is_empty(), &["dst_addr"]),
            (!self.ports.is_empty(), &["protocol", "src_port", "dst_port", "nat_src_port", "nat_dst_port"]),
            (!self.source_ports.is_empty(), &["protocol", "src_port"]),
            (!self.destination_ports.is_empty(), &["protocol", "dst_port"]),
            (!self.protocols.is_empty(), &["protocol"]),
            (!self.interfaces.is_empty(), &["in_if_name", "out_if_name"]),
            (!self.systems.is_empty(), &["src_as", "dst_as"]),
            (!self.tables.is_empty(), &["table_id"]),
            (!self.reasons.is_empty(), &["end_reason"]),
        ] {
            if asked {
                wanted = wanted.and(Wanted::these(columns));
            }
        }
        wanted
    }
}

/// What a filter's value is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FilterError(&'static str);

/// An address or a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

impl FromStr for Network {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Network, FilterError> {
        let host = text.parse::<IpAddr>().map(IpNet::from);
        let network = host.or_else(|_| text.parse::<IpNet>());
        network
            .map(|network| Network(network.trunc()))
            .map_err(|_| FilterError("an address or a prefix, such as 198.18.0.9 or 2001:db8::/32"))
    }
}

/// A port, or a range of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(pub RangeInclusive<u16>);

impl FromStr for Ports {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Ports, FilterError> {
        let wrong = FilterError("a port from 0 to 65535, or a range such as 8000-8099");
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Ports(first..=last)),
            _ => Err(wrong),
        }
    }
}

/// A protocol, by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol(pub u8);

impl FromStr for Protocol {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Protocol, FilterError> {
        let number = protocol::number(text).or_else(|| text.parse().ok());
        number
            .map(Protocol)
            .ok_or(FilterError("a protocol: tcp, udp, icmp, icmp6, gre, esp, ..., or a number from 0 to 255"))
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match protocol::name(self.0) {
            Some(name) => f.pad(name),
            None => f.pad(&self.0.to_string()),
        }
    }
}
