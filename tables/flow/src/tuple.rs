//! What identifies a flow.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use wire::{Headers, protocol};

/// A flow as one side sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tuple {
    /// Source address; IPv4 as IPv4-mapped IPv6.
    pub source: [u8; 16],
    /// Destination address; IPv4 as IPv4-mapped IPv6.
    pub destination: [u8; 16],
    /// Source port. ICMP queries have their identifier in both; GRE has the high half of its key;
    /// others 0.
    pub source_port: u16,
    /// Destination port. ICMP queries have their identifier in both; GRE has the low half of its
    /// key; others 0.
    pub destination_port: u16,
    /// Of the upper layer.
    pub protocol: u8,
    /// The routing table (VRF) that the packet came by, below 4,096; 0 is the main one.
    pub table: u16,
}

impl Tuple {
    /// The tuple of a packet. A later fragment has no ports.
    ///
    /// The SPIs of ESP and AH are left out: each end chooses its own (RFC 4303, 2.1), so that with
    /// them no answer would ever be recognised as one.
    #[inline]
    pub fn of(headers: &Headers, table: u16) -> Tuple {
        let spi = matches!(headers.protocol, protocol::ESP | protocol::AUTHENTICATION);
        Tuple {
            source: headers.source,
            destination: headers.destination,
            source_port: if spi { 0 } else { headers.source_port },
            destination_port: if spi { 0 } else { headers.destination_port },
            protocol: headers.protocol,
            table,
        }
    }

    /// As the other side sends it. A GRE key is the same both ways (RFC 2890, 2.1).
    #[inline]
    pub fn reversed(&self) -> Tuple {
        let (source_port, destination_port) = if self.protocol == protocol::GRE {
            (self.source_port, self.destination_port)
        } else {
            (self.destination_port, self.source_port)
        };
        Tuple { source: self.destination, destination: self.source, source_port, destination_port, ..*self }
    }

    /// Whether the packets of both say the same, whichever table routes them.
    pub fn says_the_same(&self, other: &Tuple) -> bool {
        *self == Tuple { table: self.table, ..*other }
    }

    /// Whether answers like `reply` come from somewhere else than this packet calls. (An ICMP query
    /// has one identifier, which is its sender's.)
    pub fn has_dnat(&self, reply: &Tuple) -> bool {
        let ports = wire::protocol::has_ports(self.protocol) && self.destination_port != reply.source_port;
        ports || self.destination != reply.source
    }

    /// Whether both addresses are IPv4.
    #[inline]
    pub fn is_ipv4(&self) -> bool {
        wire::headers::unmapped(&self.source).is_some()
            && wire::headers::unmapped(&self.destination).is_some()
    }

    /// Source address.
    pub fn source_address(&self) -> IpAddr {
        Ipv6Addr::from(self.source).to_canonical()
    }

    /// Destination address.
    pub fn destination_address(&self) -> IpAddr {
        Ipv6Addr::from(self.destination).to_canonical()
    }
}

impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (self.source_address(), self.destination_address());
        if self.source_port == 0 && self.destination_port == 0 {
            return write!(f, "{source} -> {destination} protocol {}", self.protocol);
        }
        let (from, to) = (self.source_port, self.destination_port);
        write!(f, "{source} port {from} -> {destination} port {to} protocol {}", self.protocol)
    }
}

/// Which way a packet of a flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Direction {
    /// As the first packet went.
    Original = 0,
    /// The other way.
    Reply = 1,
}

impl Direction {
    #[inline(always)]
    pub(crate) fn reply_if(reply: bool) -> Direction {
        if reply { Direction::Reply } else { Direction::Original }
    }

    /// The other one.
    #[inline]
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Original => Direction::Reply,
            Direction::Reply => Direction::Original,
        }
    }
}
