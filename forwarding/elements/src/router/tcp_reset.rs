//! TcpReset: tells the sender of a TCP segment that nobody listens (RFC 9293, 3.5.2)
//!
//! Group: router
//! Usage: `TcpReset`
//! Ports: 1 input, 2 outputs; push
//!
//! The answer to what the filter rejects with a reset. It comes from the address and port that the
//! segment was sent to, as if the host there had refused the connection: with the sequence number
//! that the segment expects, or acknowledging it when it expects none. A reset, a fragment, and
//! what is not TCP is not answered.
//!
//! Outputs:
//! - 0: answers, with their next hop
//! - 1: segments that Linux is to answer, since the way back is not at hand

use std::net::IpAddr;

use super::router_context::on_tables;
use fib::View;
use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{Fragment, Headers, Reason, checksum, flow_hash4, flow_hash6, ipv4, ipv6, protocol, tcp};

use super::family::{Family, V4, V6};
use super::steer::Reader;
use super::tunnel_rules::TunnelRules;
use super::way_back::{Back, back, is_by_rules};
use super::{ETHERNET, RouterContext};

/// The class `TcpReset`.
pub const CLASS: Class = Class {
    name: "TcpReset",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("tcp_reset.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| TcpReset::new(s, TunnelRules::of(setup))),
};

const REPLY: usize = 0;
const LINUX: usize = 1;

/// Answers TCP segments with resets. Outputs: `reply`, with adjacency and output port set; `linux`.
/// Drops what it answered.
pub struct TcpReset {
    view: View,
    rules: Reader,
    tunnels: TunnelRules,
}

impl TcpReset {
    fn new(router: &RouterContext, tunnels: TunnelRules) -> TcpReset {
        TcpReset { view: router.view.clone(), rules: Reader::new(router.steering.clone()), tunnels }
    }

    fn way(&mut self, packet: &Packet, version: u8) -> Back {
        let (from, to, hash) = if version == 4 {
            let (from, to) = (V4::destination(packet), V4::source(packet));
            (from.into(), IpAddr::V4(to.into()), flow_hash4(0, to, protocol::TCP, 0))
        } else {
            let (from, to) = (V6::destination(packet), V6::source(packet));
            (from, IpAddr::V6(to.into()), flow_hash6(0, to, protocol::TCP, 0))
        };
        let id = match is_by_rules(&self.view, packet) {
            true => self.rules.way_back(&self.view, packet.input, from, to),
            false => self.view.lookup_from(packet.input, to),
        };
        back(&self.view, id, version, hash, &mut self.tunnels)
    }
}

/// The reset that answers a segment, as an Ethernet frame whose header is yet to be written. `None`
/// when it is not to be answered, or there is no packet memory.
fn reset(packet: &Packet, headers: &Headers) -> Option<Packet> {
    if headers.protocol != protocol::TCP || headers.fragment != Fragment::Whole {
        return None;
    }
    let segment = packet.network().get(usize::from(headers.transport)..)?;
    let segment =
        tcp::Segment::parse(segment).ok().filter(|segment| segment.flags() & tcp::flag::RST == 0)?;
    let (sequence, acknowledgement, flags) = if segment.flags() & tcp::flag::ACK != 0 {
        (segment.acknowledgement(), 0, tcp::flag::RST)
    } else {
        let data =
            usize::from(headers.length).checked_sub(usize::from(headers.transport) + segment.header_len())?;
        let controls = segment.flags() & (tcp::flag::SYN | tcp::flag::FIN);
        let consumed = data as u32 + controls.count_ones();
        (0, segment.sequence().wrapping_add(consumed), tcp::flag::RST | tcp::flag::ACK)
    };
    let mut frame = [0; ETHERNET + ipv6::HEADER + tcp::HEADER];
    let mut answer = [0; tcp::HEADER];
    answer[..2].copy_from_slice(&segment.destination().to_be_bytes());
    answer[2..4].copy_from_slice(&segment.source().to_be_bytes());
    answer[4..8].copy_from_slice(&sequence.to_be_bytes());
    answer[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
    answer[12..14].copy_from_slice(&[((tcp::HEADER / 4) << 4) as u8, flags]);
    let at = if headers.version == 4 {
        let (from, to) = (V4::destination(packet), V4::source(packet));
        let header = ipv4::Repr { protocol: protocol::TCP, ..ipv4::Repr::new(from.into(), to.into()) };
        frame[ETHERNET..][..ipv4::HEADER].copy_from_slice(&header.header(tcp::HEADER));
        let sum = checksum::pseudo4(from, to, protocol::TCP, tcp::HEADER as u16).with(&answer).finish();
        answer[16..18].copy_from_slice(&sum.to_be_bytes());
        ETHERNET + ipv4::HEADER
    } else {
        let (from, to) = (V6::destination(packet), V6::source(packet));
        let header = ipv6::Repr { next_header: protocol::TCP, ..ipv6::Repr::new(from.into(), to.into()) };
        frame[ETHERNET..][..ipv6::HEADER].copy_from_slice(&header.header(tcp::HEADER));
        let sum = checksum::pseudo6(from, to, protocol::TCP, tcp::HEADER as u32).with(&answer).finish();
        answer[16..18].copy_from_slice(&sum.to_be_bytes());
        ETHERNET + ipv6::HEADER
    };
    frame[at..][..tcp::HEADER].copy_from_slice(&answer);
    let mut reply = Packet::new(&frame[..at + tcp::HEADER])?;
    reply.input = packet.input;
    reply.set_network(ETHERNET as isize);
    Some(reply)
}

impl Element for TcpReset {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["reply", "linux"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.drain() {
            let headers = Headers::quoted(packet.network());
            let answer = headers.ok().and_then(|headers| Some((reset(&packet, &headers)?, headers.version)));
            if let Some((mut reply, version)) = answer {
                match self.way(&packet, version) {
                    Back::Way(way) => {
                        way.take(&self.view, &mut reply);
                        cx.emit(REPLY, reply);
                    }
                    Back::Linux => {
                        cx.emit(LINUX, packet);
                        continue;
                    }
                    Back::None => {}
                }
            }
            cx.drop(packet, Reason::Filtered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;

    fn segment(flags: u8, data: usize) -> Packet {
        let mut bytes = vec![0; 14];
        let header = ipv4::Repr {
            protocol: protocol::TCP,
            ..ipv4::Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
        };
        bytes.extend(header.header(tcp::HEADER + data));
        bytes.extend([0x30, 0x39, 0, 80, 0, 0, 0, 100, 0, 0, 0, 200, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        bytes.resize(bytes.len() + data, 7);
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_network(14);
        packet
    }

    fn answer(flags: u8, data: usize) -> Option<(u16, u32, u32, u8)> {
        let packet = segment(flags, data);
        let reply = reset(&packet, &Headers::parse(packet.network()).unwrap())?;
        let headers = Headers::parse(reply.network()).unwrap();
        let bytes = &reply.network()[20..];
        let sum = checksum::pseudo4(0x0a00_0002, 0x0a00_0001, protocol::TCP, 20).with(bytes).finish();
        assert_eq!((sum, headers.source_port, headers.destination_port), (0, 80, 12345));
        let answer = tcp::Segment::parse(bytes).unwrap();
        Some((headers.length, answer.sequence(), answer.acknowledgement(), answer.flags()))
    }

    #[test]
    fn a_reset_has_the_number_that_the_sender_expects() {
        Pool::heap(8).install();
        use tcp::flag::{ACK, FIN, RST, SYN};
        assert_eq!(answer(SYN, 0), Some((40, 0, 101, RST | ACK)));
        assert_eq!(answer(FIN, 5), Some((40, 0, 106, RST | ACK)));
        assert_eq!(answer(ACK, 5), Some((40, 200, 0, RST)));
        assert_eq!(answer(RST, 0), None);
    }
}
