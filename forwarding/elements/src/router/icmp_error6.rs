//! IcmpError6: tells the sender why its packet went no further (RFC 4443)
//!
//! Group: router
//! Usage: `IcmpError6`
//! Ports: 5 to 10 inputs, 2 outputs; push
//!
//! As `IcmpError4`, with the rules of IPv6: the answer quotes as much as fits 1280 bytes (2.4 (c)); none is sent about
//! ICMPv6 errors and redirects (2.4 (e)); "packet too big" is not limited, unless Linux's settings say so. The source is an address of the interface that the packet came in by
//! (2.2 (d)). As in Linux an unreachable route
//! is answered like no route at all, the traffic class is 0 and the hop limit 64, and the flow label is a hash
//! of the flow (RFC 6437).
//!
//! Inputs, by the error to be told:
//! - 0: time exceeded
//! - 1: no route
//! - 2: unreachable
//! - 3: prohibited
//! - 4: too big
//! - 5 to 8: refused by the filter, which wants it told as port unreachable, host unreachable, no route, or prohibited
//! - 9: no port was left to translate its flow to: address unreachable (RFC 6146, 3.5.1.1)
//!
//! Outputs:
//! - 0: answers, with their next hop
//! - 1: packets that Linux is to answer

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::router_context::on_tables;
use super::{is_crossing, told_mtu};
use fib::View;
use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{Reason, checksum, flow_hash6, icmp6, icmp6::unreachable, ipv6, protocol};

use super::limit::{Destinations, Total};
use super::way_back::{Back, back};
use super::{ETHERNET, Family, IcmpPolicy, Sources, V6};

/// The class `IcmpError6`.
pub const CLASS: Class = Class {
    name: "IcmpError6",
    ports: "5-10/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("icmp_error6.rs"),
    make: |arguments, setup| {
        on_tables(arguments, setup, |s| IcmpError6::new(s.view.clone(), s.sources.clone(), s.icmp.clone()))
    },
};

const REPLY: usize = 0;
const LINUX: usize = 1;

const HEADERS: usize = ipv6::HEADER + icmp6::HEADER;

/// Answers IPv6 packets with ICMPv6 errors. Inputs: [`TIME_EXCEEDED`](Self::TIME_EXCEEDED), [`NO_ROUTE`](Self::NO_ROUTE),
/// [`UNREACHABLE`](Self::UNREACHABLE), [`PROHIBIT`](Self::PROHIBIT), [`TOO_BIG`](Self::TOO_BIG). Outputs: `reply`,
/// with adjacency and output port set, for [`Rewrite`](super::Rewrite); `linux`. Drops the packets answered, by the
/// reason that the input stands for; counts answers suppressed by limits as `icmp_limited`.
pub struct IcmpError6 {
    view: View,
    sources: Arc<Sources>,
    policy: Arc<IcmpPolicy>,
    total: Total,
    destinations: Destinations,
}

/// What an input stands for.
struct Kind {
    icmp_type: u8,
    code: u8,
    reason: Reason,
}

const KINDS: [Kind; 10] = [
    Kind { icmp_type: icmp6::TIME_EXCEEDED, code: 0, reason: Reason::TtlExpired },
    Kind { icmp_type: icmp6::UNREACHABLE, code: unreachable::NO_ROUTE, reason: Reason::NoRoute },
    Kind { icmp_type: icmp6::UNREACHABLE, code: unreachable::NO_ROUTE, reason: Reason::Unreachable },
    Kind { icmp_type: icmp6::UNREACHABLE, code: unreachable::PROHIBITED, reason: Reason::Prohibit },
    Kind { icmp_type: icmp6::PACKET_TOO_BIG, code: 0, reason: Reason::TooBig },
    refused(unreachable::PORT),
    refused(unreachable::ADDRESS),
    refused(unreachable::NO_ROUTE),
    refused(unreachable::PROHIBITED),
    Kind { reason: Reason::PortsExhausted, ..refused(unreachable::ADDRESS) },
];

/// What the filter refused, and how that is told.
const fn refused(code: u8) -> Kind {
    Kind { icmp_type: icmp6::UNREACHABLE, code, reason: Reason::Filtered }
}

/// What becomes of a packet.
enum Answer {
    Reply(Packet),
    Suppressed,
    None,
    Linux,
}

impl IcmpError6 {
    /// Input: hop limit exceeded in transit.
    pub const TIME_EXCEEDED: usize = 0;
    /// Input: no route to destination.
    pub const NO_ROUTE: usize = 1;
    /// Input: an unreachable route.
    pub const UNREACHABLE: usize = 2;
    /// Input: communication with destination administratively prohibited.
    pub const PROHIBIT: usize = 3;
    /// Input: packet too big; the MTU is the one noted, or that of the packet's adjacency.
    pub const TOO_BIG: usize = 4;
    /// Input: refused by the filter, told as port unreachable. Behind it host unreachable, no route, prohibited.
    pub const REFUSED: usize = 5;

    /// Answers from these addresses, by these settings.
    pub fn new(view: View, sources: Arc<Sources>, policy: Arc<IcmpPolicy>) -> IcmpError6 {
        let (total, destinations) = (Total::new(), Destinations::new());
        IcmpError6 { view, sources, policy, total, destinations }
    }

    fn answer(&mut self, packet: &Packet, kind: &Kind, now: u64) -> Answer {
        if !may_be_answered(packet) {
            return Answer::None;
        }
        let settings = self.policy.get();
        let (limited, limits) = (settings.limits6(kind.icmp_type), settings.limits[1]);
        if limited && !self.total.allows(now, limits) {
            return Answer::Suppressed;
        }
        let to = V6::source(packet);
        let id = self.view.lookup_from(packet.input, IpAddr::V6(to.into()));
        let way = match back(&self.view, id, flow_hash6(0, to, protocol::ICMP6, 0)) {
            Back::Way(way) => way,
            Back::Linux => return Answer::Linux,
            Back::None => return Answer::None,
        };
        let by_linux = kind.reason != Reason::PortsExhausted && !is_crossing(packet);
        if way.sourced && by_linux {
            return Answer::Linux;
        }
        let source = self.sources.source6(packet.input, Ipv6Addr::from(to));
        let Some(source) = source else { return Answer::Linux };
        if limited && !self.destinations.allows(now, to, limits.interval) {
            return Answer::Suppressed;
        }
        let word = match kind.reason {
            Reason::TooBig => told_mtu(&self.view, packet).max(ipv6::MINIMUM_MTU as u32),
            _ => 0,
        };
        let header = ipv6::Repr {
            next_header: protocol::ICMP6,
            flow_label: flow_hash6(source.to_bits(), to, protocol::ICMP6, 0) & 0xf_ffff,
            ..ipv6::Repr::new(source, Ipv6Addr::from(to))
        };
        let Some(mut reply) = error(packet, &header, kind, word) else { return Answer::None };
        way.take(&self.view, &mut reply);
        Answer::Reply(reply)
    }
}

/// Whether RFC 4443, 2.4 (e) allows an error about this packet.
fn may_be_answered(packet: &Packet) -> bool {
    let bytes = packet.network();
    let Ok(ip) = ipv6::Packet::parse(bytes) else { return false };
    let upper = ip.upper_layer();
    if upper.protocol != protocol::ICMP6 || upper.later_fragment {
        return true;
    }
    bytes
        .get(upper.offset)
        .is_some_and(|icmp_type| !icmp6::is_error(*icmp_type) && *icmp_type != icmp6::REDIRECT)
}

/// The error about `packet`, without its link header. `None` when there is no packet memory.
fn error(packet: &Packet, header: &ipv6::Repr, kind: &Kind, word: u32) -> Option<Packet> {
    let mut buffer = [0; ETHERNET + ipv6::MINIMUM_MTU];
    let (front, quote) = buffer.split_at_mut(ETHERNET + HEADERS);
    let length = icmp6::HEADER + super::quote(packet, quote);
    let front = &mut front[ETHERNET..];
    front[..ipv6::HEADER].copy_from_slice(&header.header(length));
    let icmp = &mut front[ipv6::HEADER..];
    (icmp[0], icmp[1]) = (kind.icmp_type, kind.code);
    icmp[4..8].copy_from_slice(&word.to_be_bytes());
    let (source, destination) = (header.source.to_bits(), header.destination.to_bits());
    let message = &mut buffer[ETHERNET + ipv6::HEADER..][..length];
    let sum = checksum::pseudo6(source, destination, protocol::ICMP6, length as u32).with(message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut reply = Packet::new(&buffer[..ETHERNET + ipv6::HEADER + length])?;
    reply.input = packet.input;
    reply.set_network(ETHERNET as isize);
    Some(reply)
}

impl Element for IcmpError6 {
    fn class(&self) -> &'static str {
        "IcmpError6"
    }

    fn inputs(&self) -> usize {
        KINDS.len()
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["reply", "linux"]
    }

    fn push(&mut self, input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let kind = &KINDS[input];
        let now = cx.now();
        for packet in batch.drain() {
            match self.answer(&packet, kind, now) {
                // Linux would let pass what there is no port for.
                Answer::Linux if kind.reason != Reason::PortsExhausted => {
                    cx.emit(LINUX, packet);
                    continue;
                }
                Answer::Reply(reply) => cx.emit(REPLY, reply),
                Answer::Suppressed => cx.count_suppressed(),
                Answer::None | Answer::Linux => {}
            }
            cx.drop(packet, kind.reason);
        }
    }
}
