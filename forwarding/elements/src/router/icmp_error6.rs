//! IcmpError6: tells the sender why its packet went no further (RFC 4443)
//!
//! Group: router
//! Usage: `IcmpError6`
//! Ports: any number of inputs, 2 outputs; push
//!
//! As `IcmpError4`, with the rules of IPv6: the answer quotes as much as fits 1280 bytes (2.4 (c));
//! none is sent about ICMPv6 errors and redirects (2.4 (e)); "packet too big" is not limited,
//! unless Linux's settings say so. The source is an address of the interface that the packet came
//! in by (2.2 (d)). As in Linux an unreachable route is answered like no route at all, the traffic
//! class is 0 and the hop limit 64, and the flow label is a hash of the flow (RFC 6437).
//!
//! Inputs:
//! - one for each error to be told, in the order of `wire::IcmpError`: 0 is time exceeded. In the
//!   standard router the outputs of that name lead there
//!
//! Outputs:
//! - 0: answers, with their next hop
//! - 1: packets that Linux is to answer

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::context::SharedContext;
use super::router_context::{context_of, on_tables};
use super::{is_crossing, told_mtu};
use fib::View;
use graph::arguments::Blame;
use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{IcmpError, checksum, flow_hash6, icmp6, ipv6, protocol};

use super::limit::{Destinations, Total};
use super::steer::Reader;
use super::tunnel_rules::TunnelRules;
use super::way_back::{Back, back, is_by_rules};
use super::{ETHERNET, Family, IcmpPolicy, RouterContext, Sources, V6};

/// The class `IcmpError6`.
pub const CLASS: Class = Class {
    name: "IcmpError6",
    ports: "-/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("icmp_error6.rs"),
    make: |arguments, setup| {
        if setup.inputs > IcmpError::ALL.len() {
            arguments.wrong(Blame::Element, "there are not so many errors");
        }
        let tunnels = TunnelRules::of(setup);
        on_tables(arguments, setup, |s| IcmpError6::new(s, context_of(setup), tunnels))
    },
};

const REPLY: usize = 0;
const LINUX: usize = 1;

const HEADERS: usize = ipv6::HEADER + icmp6::HEADER;

/// Answers IPv6 packets with ICMPv6 errors. Inputs: [`IcmpError`]s. Outputs: `reply`, with
/// adjacency and output port set, for [`Rewrite`](super::Rewrite); `linux`. Drops the packets
/// answered, by the reason that the input stands for; counts answers suppressed by limits as
/// `icmp_limited`.
pub struct IcmpError6 {
    view: View,
    rules: Reader,
    tunnels: TunnelRules,
    sources: Arc<Sources>,
    policy: Arc<IcmpPolicy>,
    total: Total,
    destinations: Destinations,
}

/// What becomes of a packet.
enum Answer {
    Reply(Packet),
    Suppressed,
    None,
    Linux,
}

impl IcmpError6 {
    /// Answers by these tables, addresses and settings, about packets that are noted in a context.
    fn new(router: &RouterContext, context: Option<SharedContext>, tunnels: TunnelRules) -> IcmpError6 {
        let (total, destinations) = (Total::new(), Destinations::new());
        let RouterContext { view, sources, icmp: policy, steering, .. } = router.clone();
        let rules = Reader::new(steering).noted(context);
        IcmpError6 { view, rules, tunnels, sources, policy, total, destinations }
    }

    fn answer(&mut self, packet: &Packet, error: IcmpError, now: u64) -> Answer {
        if !may_be_answered(packet) {
            return Answer::None;
        }
        let by_rules = is_by_rules(&self.view, packet);
        // Linux knows nothing of the flow of a packet that is translated here.
        if by_rules && error.is_known_to_linux() && !self.rules.is_translated(packet) {
            return Answer::Linux;
        }
        let (settings, kind) = (self.policy.get(), error.icmp6());
        let (limited, limits) = (settings.limits6(kind.0), settings.limits[1]);
        if limited && !self.total.allows(now, limits) {
            return Answer::Suppressed;
        }
        let to = V6::source(packet);
        let id = match by_rules {
            true => self.rules.way_back(&self.view, packet.input, 0, IpAddr::V6(to.into())),
            false => self.view.lookup_from(packet.input, IpAddr::V6(to.into())),
        };
        let way = match back(&self.view, id, 6, flow_hash6(0, to, protocol::ICMP6, 0), &mut self.tunnels) {
            Back::Way(way) => way,
            Back::Linux => return Answer::Linux,
            Back::None => return Answer::None,
        };
        let by_linux = error.is_known_to_linux() && !is_crossing(packet);
        if way.sourced && by_linux {
            return Answer::Linux;
        }
        let source = self.sources.source6(packet.input, Ipv6Addr::from(to));
        let Some(source) = source else { return Answer::Linux };
        if limited && !self.destinations.allows(now, to, limits.interval) {
            return Answer::Suppressed;
        }
        let word = match error {
            IcmpError::TooBig => told_mtu(&self.view, packet).max(ipv6::MINIMUM_MTU as u32),
            _ => 0,
        };
        let header = ipv6::Repr {
            next_header: protocol::ICMP6,
            flow_label: flow_hash6(source.to_bits(), to, protocol::ICMP6, 0) & 0xf_ffff,
            ..ipv6::Repr::new(source, Ipv6Addr::from(to))
        };
        let Some(mut reply) = message(packet, &header, kind, word) else { return Answer::None };
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
fn message(packet: &Packet, header: &ipv6::Repr, kind: (u8, u8), word: u32) -> Option<Packet> {
    let mut buffer = [0; ETHERNET + ipv6::MINIMUM_MTU];
    let (front, quote) = buffer.split_at_mut(ETHERNET + HEADERS);
    let length = icmp6::HEADER + super::quote(packet, quote);
    let front = &mut front[ETHERNET..];
    front[..ipv6::HEADER].copy_from_slice(&header.header(length));
    let icmp = &mut front[ipv6::HEADER..];
    (icmp[0], icmp[1]) = kind;
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
        IcmpError::ALL.len()
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["reply", "linux"]
    }

    fn push(&mut self, input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let error = IcmpError::ALL[input];
        let now = cx.now();
        for packet in batch.drain() {
            match self.answer(&packet, error, now) {
                Answer::Linux if error.is_known_to_linux() => {
                    cx.emit(LINUX, packet);
                    continue;
                }
                Answer::Reply(reply) => cx.emit(REPLY, reply),
                Answer::Suppressed => cx.count_suppressed(),
                Answer::None | Answer::Linux => {}
            }
            cx.drop(packet, error.reason());
        }
    }
}
