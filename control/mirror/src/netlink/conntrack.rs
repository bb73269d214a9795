//! `IPCTNL_MSG_CT_NEW`: a connection that Linux's conntrack is to know (`conntrack -I`).
//!
//! Numbers in attributes are in network byte order (`linux/netfilter/nfnetlink_conntrack.h`).

use super::request::{attribute, message};
use super::{IPV4, IPV6};
use std::net::IpAddr;
use std::time::Duration;
use wire::protocol;

/// `IPCTNL_MSG_CT_NEW` of `NFNL_SUBSYS_CTNETLINK`.
const NEW: u16 = 1 << 8;
const NESTED: u16 = 0x8000;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_PROTOINFO: u16 = 4;
const CTA_NAT_SRC: u16 = 6;
const CTA_TIMEOUT: u16 = 7;
const CTA_NAT_DST: u16 = 13;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
const CTA_PROTO_ICMP_ID: u16 = 4;
const CTA_PROTO_ICMPV6_ID: u16 = 7;
const CTA_PROTOINFO_TCP: u16 = 1;
const CTA_PROTOINFO_TCP_STATE: u16 = 1;
const CTA_PROTOINFO_TCP_FLAGS_ORIGINAL: u16 = 4;
const CTA_PROTOINFO_TCP_FLAGS_REPLY: u16 = 5;
const CTA_NAT_V4_MINIP: u16 = 1;
const CTA_NAT_V6_MINIP: u16 = 4;
const CTA_NAT_PROTO: u16 = 3;
const CTA_PROTONAT_PORT_MIN: u16 = 1;
const CTA_PROTONAT_PORT_MAX: u16 = 2;
/// `IPS_SEEN_REPLY`, `IPS_ASSURED`, `IPS_CONFIRMED`.
const SEEN_REPLY: u32 = 1 << 1;
const ASSURED: u32 = 1 << 2;
const CONFIRMED: u32 = 1 << 3;
/// `TCP_CONNTRACK_ESTABLISHED`, `TCP_CONNTRACK_FIN_WAIT`.
const ESTABLISHED: u8 = 3;
const FIN_WAIT: u8 = 4;
/// `IP_CT_TCP_FLAG_BE_LIBERAL`, as a value and as the bits that it is about: nobody knows what the
/// ends have sent so far, so no segment is out of their windows.
const LIBERAL: [u8; 2] = [8, 8];
/// Types of echo requests and replies, of ICMP and ICMPv6.
const ECHO: [[u8; 2]; 2] = [[8, 0], [128, 129]];

/// What packets of one direction say. An ICMP query has its identifier as both ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Where they come from.
    pub source: IpAddr,
    /// Where they go.
    pub destination: IpAddr,
    /// The ports.
    pub ports: [u16; 2],
}

/// A connection that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// TCP, UDP, UDP-Lite, SCTP, DCCP, or the echo of ICMP or ICMPv6.
    pub protocol: u8,
    /// As its first packet came.
    pub original: Direction,
    /// As answers come: the reversed original, or something else where it is translated.
    pub reply: Direction,
    /// It was answered.
    pub answered: bool,
    /// One side of a TCP connection has sent all that it will.
    pub closing: bool,
    /// How long it lives without another packet.
    pub lives: Duration,
}

impl Direction {
    fn reversed(self) -> Direction {
        let Direction { source, destination, ports: [from, to] } = self;
        Direction { source: destination, destination: source, ports: [to, from] }
    }
}

fn nested(body: &mut Vec<u8>, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    fill(&mut inner);
    attribute(body, NESTED | kind, &inner);
}

fn address(body: &mut Vec<u8>, kind: u16, address: IpAddr) {
    match address {
        IpAddr::V4(address) => attribute(body, kind, &address.octets()),
        IpAddr::V6(address) => attribute(body, kind, &address.octets()),
    }
}

impl Connection {
    /// The message that has Linux know it; `None` where Linux has no such connections: what is
    /// translated into the other family, and other protocols.
    pub fn message(&self) -> Option<Vec<u8>> {
        let Direction { source, destination, .. } = self.original;
        let ends = [source, destination, self.reply.source, self.reply.destination];
        let one_family = ends.iter().all(|end| end.is_ipv4() == source.is_ipv4());
        let icmp = if source.is_ipv4() { protocol::ICMP } else { protocol::ICMP6 };
        if !one_family || !(protocol::has_ports(self.protocol) || self.protocol == icmp) {
            return None;
        }
        let family = if source.is_ipv4() { IPV4 } else { IPV6 };
        let mut body = vec![family, 0, 0, 0];
        self.tuple(&mut body, CTA_TUPLE_ORIG, self.original, 0);
        self.tuple(&mut body, CTA_TUPLE_REPLY, self.original.reversed(), 1);
        let status = CONFIRMED | if self.answered { SEEN_REPLY | ASSURED } else { 0 };
        attribute(&mut body, CTA_STATUS, &status.to_be_bytes());
        let seconds = u32::try_from(self.lives.as_secs()).unwrap_or(u32::MAX).max(1);
        attribute(&mut body, CTA_TIMEOUT, &seconds.to_be_bytes());
        if self.protocol == protocol::TCP {
            nested(&mut body, CTA_PROTOINFO, |body| {
                nested(body, CTA_PROTOINFO_TCP, |body| {
                    let state = if self.closing { FIN_WAIT } else { ESTABLISHED };
                    attribute(body, CTA_PROTOINFO_TCP_STATE, &[state]);
                    attribute(body, CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, &LIBERAL);
                    attribute(body, CTA_PROTOINFO_TCP_FLAGS_REPLY, &LIBERAL);
                });
            });
        }
        // Linux makes the other direction of it itself.
        let Direction { source: to, destination: from, ports: [to_port, from_port] } = self.reply;
        let [own_port, other_port] = self.original.ports;
        // A query has one identifier, which its source chooses.
        let by_port = self.protocol != icmp && to_port != other_port;
        if to != destination || by_port {
            nat(&mut body, CTA_NAT_DST, to, to_port);
        }
        if from != source || from_port != own_port {
            nat(&mut body, CTA_NAT_SRC, from, from_port);
        }
        Some(message(NEW, libc::NLM_F_REQUEST | libc::NLM_F_CREATE, &body))
    }

    /// `way`: 0 as the first packet, 1 as the answer.
    fn tuple(&self, body: &mut Vec<u8>, kind: u16, says: Direction, way: usize) {
        let six = says.source.is_ipv6();
        nested(body, kind, |body| {
            nested(body, CTA_TUPLE_IP, |body| {
                let first = if six { CTA_IP_V6_SRC } else { CTA_IP_V4_SRC };
                address(body, first, says.source);
                address(body, first + 1, says.destination);
            });
            nested(body, CTA_TUPLE_PROTO, |body| {
                attribute(body, CTA_PROTO_NUM, &[self.protocol]);
                let [from, to] = says.ports.map(u16::to_be_bytes);
                if protocol::has_ports(self.protocol) {
                    attribute(body, CTA_PROTO_SRC_PORT, &from);
                    attribute(body, CTA_PROTO_DST_PORT, &to);
                } else {
                    let id = if six { CTA_PROTO_ICMPV6_ID } else { CTA_PROTO_ICMP_ID };
                    attribute(body, id, &from);
                    attribute(body, id + 1, &[ECHO[usize::from(six)][way]]);
                    attribute(body, id + 2, &[0]);
                }
            });
        });
    }
}

/// That a source or destination becomes this one.
fn nat(body: &mut Vec<u8>, kind: u16, to: IpAddr, port: u16) {
    nested(body, kind, |body| {
        let first = if to.is_ipv6() { CTA_NAT_V6_MINIP } else { CTA_NAT_V4_MINIP };
        // The least and the greatest.
        address(body, first, to);
        address(body, first + 1, to);
        nested(body, CTA_NAT_PROTO, |body| {
            attribute(body, CTA_PROTONAT_PORT_MIN, &port.to_be_bytes());
            attribute(body, CTA_PROTONAT_PORT_MAX, &port.to_be_bytes());
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{attributes, attributes_after};
    use std::collections::BTreeSet;

    fn connection() -> Connection {
        let [source, destination] = ["10.1.0.2", "192.0.2.9"].map(|end| end.parse().unwrap());
        let original = Direction { source, destination, ports: [4000, 443] };
        let reply = original.reversed();
        let lives = Duration::from_secs(600);
        Connection { protocol: protocol::TCP, original, reply, answered: true, closing: false, lives }
    }

    fn kinds(connection: &Connection) -> Option<BTreeSet<u16>> {
        let message = connection.message()?;
        Some(attributes_after(&message[16..], 4)?.map(|(kind, _)| kind & !NESTED).collect())
    }

    #[test]
    fn what_is_not_translated_says_so() {
        let plain = [CTA_TUPLE_ORIG, CTA_TUPLE_REPLY, CTA_STATUS, CTA_PROTOINFO, CTA_TIMEOUT];
        assert_eq!(kinds(&connection()), Some(plain.into()));
        let masqueraded = Direction { destination: "203.0.113.1".parse().unwrap(), ..connection().reply };
        let masqueraded = Connection { reply: masqueraded, ..connection() };
        let with = |kind: u16| plain.into_iter().chain([kind]).collect();
        assert_eq!(kinds(&masqueraded), Some(with(CTA_NAT_SRC)));
        let forwarded = Direction { ports: [8443, 4000], ..connection().reply };
        assert_eq!(kinds(&Connection { reply: forwarded, ..connection() }), Some(with(CTA_NAT_DST)));
        let other_port = Direction { ports: [443, 4001], ..connection().reply };
        assert_eq!(kinds(&Connection { reply: other_port, ..connection() }), Some(with(CTA_NAT_SRC)));
    }

    #[test]
    fn linux_has_no_others() {
        let other = Direction { source: "2001:db8::1".parse().unwrap(), ..connection().reply };
        assert_eq!(kinds(&Connection { reply: other, ..connection() }), None);
        assert_eq!(kinds(&Connection { protocol: protocol::GRE, ..connection() }), None);
        assert_eq!(kinds(&Connection { protocol: protocol::ICMP6, ..connection() }), None);
    }

    #[test]
    fn an_echo_has_one_identifier() {
        let query = Direction { ports: [77, 77], ..connection().original };
        let reply =
            Direction { destination: "203.0.113.1".parse().unwrap(), ports: [78, 78], ..query.reversed() };
        let echo = Connection { protocol: protocol::ICMP, original: query, reply, ..connection() };
        let kinds = kinds(&echo).unwrap();
        assert!(
            kinds.contains(&CTA_NAT_SRC) && !kinds.contains(&CTA_NAT_DST) && !kinds.contains(&CTA_PROTOINFO)
        );
        let message = echo.message().unwrap();
        let (_, nat) = attributes_after(&message[16..], 4)
            .unwrap()
            .find(|(kind, _)| kind & !NESTED == CTA_NAT_SRC)
            .unwrap();
        let (_, ports) = attributes(nat).find(|(kind, _)| kind & !NESTED == CTA_NAT_PROTO).unwrap();
        assert!(attributes(ports).all(|(_, port)| port == 78u16.to_be_bytes()));
    }
}
