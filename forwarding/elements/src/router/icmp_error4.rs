//! IcmpError4: tells the sender why its packet went no further (RFC 792, RFC 1122, RFC 1812, 4.3)
//!
//! Group: router
//! Usage: `IcmpError4`
//! Ports: any number of inputs, 2 outputs; push
//!
//! The answer is the one Linux would send. It leaves by the route to the sender, from the address
//! that Linux would take there (`Sources`; of the interface that the packet came in by, where
//! `icmp_errors_use_inbound_ifaddr` is set); it quotes as much of the packet as fits 576 bytes; TOS
//! is the packet's with precedence "internetwork control" (RFC 1812, 4.3.2.5), TTL 64. None is sent
//! about ICMP errors and about fragments but the first (4.3.2.7); multicast, broadcast and sources
//! that are no host never come here. Rates are limited, except for "fragmentation needed", without
//! which path MTU discovery would stall.
//!
//! If the way back is not at hand (the sender's neighbour entry is unresolved, or the port is not
//! Bifrost's), the packet itself leaves by `linux`, untouched: Linux then answers. So it does where
//! the route names a source (`ip route ... src`), unless only this router knows what became of the
//! packet (it would have gone into the other family, or there was no port left for it). If there is
//! no way back at all, there is no answer.
//!
//! Inputs:
//! - one for each error to be told, in the order of `wire::IcmpError`: 0 is time exceeded. In the
//!   standard router the outputs of that name lead there
//!
//! Outputs:
//! - 0: answers, with their next hop
//! - 1: packets that Linux is to answer

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::context::SharedContext;
use super::router_context::{context_of, on_tables};
use super::{is_crossing, told_mtu};
use fib::View;
use graph::arguments::Blame;
use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{IcmpError, checksum, flow_hash4, icmp4, ipv4, protocol};

use super::limit::{Destinations, Total};
use super::steer::Reader;
use super::tunnel_rules::TunnelRules;
use super::way_back::{Back, back, is_by_rules};
use super::{ETHERNET, IcmpPolicy, RouterContext, Sources, network, u16_at, u32_at};

/// The class `IcmpError4`.
pub const CLASS: Class = Class {
    name: "IcmpError4",
    ports: "-/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("icmp_error4.rs"),
    make: |arguments, setup| {
        if setup.inputs > IcmpError::ALL.len() {
            arguments.wrong(Blame::Element, "there are not so many errors");
        }
        let tunnels = TunnelRules::of(setup);
        on_tables(arguments, setup, |s| IcmpError4::new(s, context_of(setup), tunnels))
    },
};

const REPLY: usize = 0;
const LINUX: usize = 1;

/// Bytes of an ICMP error at most, from the IP header on.
const LARGEST: usize = 576;
const HEADERS: usize = ipv4::HEADER + icmp4::HEADER;

/// Answers IPv4 packets with ICMP errors. Inputs: [`IcmpError`]s. Outputs: `reply`, with adjacency
/// and output port set, for [`Rewrite`](super::Rewrite); `linux`. Drops the packets answered, by
/// the reason that the input stands for; counts answers suppressed by limits as `icmp_limited`.
pub struct IcmpError4 {
    view: View,
    rules: Reader,
    tunnels: TunnelRules,
    sources: Arc<Sources>,
    policy: Arc<IcmpPolicy>,
    total: Total,
    destinations: Destinations,
    /// Identification of the next answer: unique for a while, as answers may be fragmented on their
    /// way.
    id: u16,
}

/// What becomes of a packet.
enum Answer {
    Reply(Packet),
    Suppressed,
    None,
    Linux,
}

impl IcmpError4 {
    /// Answers by these tables, addresses and settings, about packets that are noted in a context.
    fn new(router: &RouterContext, context: Option<SharedContext>, tunnels: TunnelRules) -> IcmpError4 {
        let (total, destinations) = (Total::new(), Destinations::new());
        let RouterContext { view, sources, icmp: policy, steering, .. } = router.clone();
        let rules = Reader::new(steering).noted(context);
        // Different from worker to worker, whose elements are at different addresses.
        let id = (Arc::as_ptr(&sources) as usize >> 4) as u16;
        IcmpError4 { view, rules, tunnels, sources, policy, total, destinations, id }
    }

    fn answer(&mut self, packet: &Packet, error: IcmpError, now: u64) -> Answer {
        let Some(header) = network::<20>(packet).filter(|_| may_be_answered(packet)) else {
            return Answer::None;
        };
        let by_rules = is_by_rules(&self.view, packet);
        // Linux knows nothing of the flow of a packet that is translated here.
        if by_rules && error.is_known_to_linux() && !self.rules.is_translated(packet) {
            return Answer::Linux;
        }
        let (settings, kind) = (self.policy.get(), error.icmp4());
        let (limited, limits) = (settings.limits4(kind.0, kind.1), settings.limits[0]);
        if limited && !self.total.allows(now, limits) {
            return Answer::Suppressed;
        }
        let to = u32_at(header, 12);
        let id = match by_rules {
            true => self.rules.way_back(&self.view, packet.input, 0, IpAddr::V4(to.into())),
            false => self.view.lookup_from(packet.input, IpAddr::V4(to.into())),
        };
        let way = match back(&self.view, id, 4, flow_hash4(0, to, protocol::ICMP, 0), &mut self.tunnels) {
            Back::Way(way) => way,
            Back::Linux => return Answer::Linux,
            Back::None => return Answer::None,
        };
        let by_linux = error.is_known_to_linux() && !is_crossing(packet);
        if way.sourced && !settings.inbound && by_linux {
            return Answer::Linux;
        }
        let from = if settings.inbound { packet.input } else { way.port };
        let source = self.sources.source4(from, Ipv4Addr::from(to));
        let Some(source) = source else { return Answer::Linux };
        if limited && !self.destinations.allows(now, u128::from(to), limits.interval) {
            return Answer::Suppressed;
        }
        let word = match error {
            IcmpError::TooBig => told_mtu(&self.view, packet),
            _ => 0,
        };
        let header = ipv4::Repr {
            tos: header[1] & 0x1e | 0xc0,
            id: self.id,
            protocol: protocol::ICMP,
            ..ipv4::Repr::new(source, Ipv4Addr::from(to))
        };
        let Some(mut reply) = message(packet, &header, kind, word, way.mtu) else { return Answer::None };
        self.id = self.id.wrapping_add(1);
        way.take(&self.view, &mut reply);
        Answer::Reply(reply)
    }
}

/// Whether the RFCs allow an error about this packet.
fn may_be_answered(packet: &Packet) -> bool {
    let bytes = packet.network();
    let Ok(ip) = ipv4::Packet::parse(bytes) else { return false };
    let about_error = ip.protocol() == protocol::ICMP
        && bytes.get(ip.header_len()).is_none_or(|icmp_type| icmp4::is_error(*icmp_type));
    ip.fragment_offset() == 0 && !about_error
}

/// The error about `packet`, without its link header. `None` when there is no packet memory, or the
/// way back has no room for anything.
fn message(packet: &Packet, header: &ipv4::Repr, kind: (u8, u8), word: u32, mtu: usize) -> Option<Packet> {
    let mut buffer = [0; ETHERNET + LARGEST];
    let room = LARGEST.min(mtu).checked_sub(HEADERS).filter(|room| *room > ipv4::HEADER)?;
    let (front, quote) = buffer.split_at_mut(ETHERNET + HEADERS);
    let quoted = super::quote(packet, &mut quote[..room]);
    let front = &mut front[ETHERNET..];
    front[..ipv4::HEADER].copy_from_slice(&header.header(icmp4::HEADER + quoted));
    let icmp = &mut front[ipv4::HEADER..];
    (icmp[0], icmp[1]) = kind;
    icmp[4..8].copy_from_slice(&word.to_be_bytes());
    let sum = checksum::of(&buffer[ETHERNET + ipv4::HEADER..ETHERNET + HEADERS + quoted]);
    buffer[ETHERNET + ipv4::HEADER + 2..][..2].copy_from_slice(&sum.to_be_bytes());
    let mut reply = Packet::new(&buffer[..ETHERNET + HEADERS + quoted])?;
    reply.input = packet.input;
    reply.set_network(ETHERNET as isize);
    debug_assert_eq!(network::<20>(&reply).map(|header| u16_at(header, 2)), Some((HEADERS + quoted) as u16));
    Some(reply)
}

impl Element for IcmpError4 {
    fn class(&self) -> &'static str {
        "IcmpError4"
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
