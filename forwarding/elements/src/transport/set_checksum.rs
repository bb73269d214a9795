//! # SetTCPChecksum: sets the checksums of TCP segments.
//!
//! Group: transport
//! Usage: `SetTCPChecksum([FIXOFF])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects IPv4 packets with marked headers and TCP in them. Those that are too short for a TCP
//! header, or shorter than they say, are dropped, and told of. Packets of other protocols pass as
//! they are.
//!
//! - `FIXOFF` (boolean): whether to set a header length that can't be right to the nearest that
//!   can. Default false.
//!
//! See also: [CheckTCPHeader], [SetIPChecksum], [SetUDPChecksum]
//!
//! # SetUDPChecksum: sets the checksums of UDP datagrams.
//!
//! Group: transport
//! Usage: `SetUDPChecksum`
//! Ports: 1 input, 1-2 outputs; agnostic, second output push
//!
//! Expects IPv4 packets with marked headers and UDP in them. Fragments, and packets that are
//! shorter than the datagram says, leave by output 1 as they came; when it isn't connected they are
//! dropped, and the first is told of. Packets of other protocols pass as they are.
//!
//! See also: [CheckUDPHeader], [SetIPChecksum], [SetTCPChecksum]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::{Reason, ipv4, protocol, tcp, udp};

use super::{length_behind, sum_behind};

/// See [`SetTcpChecksum`].
pub const SET_TCP_CHECKSUM: Class = Class {
    name: "SetTCPChecksum",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("set_checksum.rs"),
    make: make_tcp,
};
/// See [`SetUdpChecksum`].
pub const SET_UDP_CHECKSUM: Class = Class {
    name: "SetUDPChecksum",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("set_checksum.rs"),
    make: make_udp,
};

fn make_tcp(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let fix_offset = args.optional("FIXOFF").unwrap_or(false);
    args.finish()?;
    Ok(Box::new(SetTcpChecksum { fix_offset }))
}

fn make_udp(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(SetUdpChecksum { told: false }))
}

/// Sets TCP checksums.
struct SetTcpChecksum {
    fix_offset: bool,
}

/// Sets UDP checksums.
struct SetUdpChecksum {
    /// Whether a packet without a checksum was told of.
    told: bool,
}

/// Writes a checksum over `length` bytes behind the IPv4 header, `at` bytes behind it; `stated`
/// says how it is written. `None`, and nothing done, when there are not so many bytes.
fn set(packet: &mut Packet, length: usize, at: usize, stated: impl Fn(u16) -> u16) -> Option<()> {
    let head = ipv4::Packet::parse(packet.network()).ok()?.header_len();
    let place = packet.network_mut().get_mut(head + at..head + at + 2)?;
    place.fill(0);
    let ip = ipv4::Packet::parse(packet.network()).ok()?;
    let sum = stated(sum_behind(packet, &ip, length).finish());
    packet.network_mut().get_mut(head + at..head + at + 2)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

impl SetTcpChecksum {
    /// `None`, and nothing done, when the lengths are wrong.
    fn set(&self, packet: &mut Packet) -> Option<()> {
        let ip = ipv4::Packet::parse(packet.network()).ok()?;
        if ip.protocol() != protocol::TCP {
            return Some(());
        }
        let (head, is_fragment) = (ip.header_len(), ip.more_fragments() || ip.fragment_offset() > 0);
        let length = usize::from(ip.total_len()) - head;
        if length < tcp::HEADER || length > length_behind(packet, &ip) {
            return None;
        }
        let offset = packet.network_mut().get_mut(head + 12)?;
        let stated = usize::from(*offset >> 4) * 4;
        if self.fix_offset && stated < tcp::HEADER {
            *offset = ((tcp::HEADER / 4) as u8) << 4 | *offset & 15;
        } else if self.fix_offset && stated > length && !is_fragment {
            *offset = ((length / 4) as u8) << 4 | *offset & 15;
        }
        set(packet, length, 16, |sum| sum)
    }
}

impl Element for SetTcpChecksum {
    fn class(&self) -> &'static str {
        SET_TCP_CHECKSUM.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut wrong = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            wrong |= u64::from(self.set(packet).is_none()) << index;
        }
        batch.take(wrong, |_, packet| {
            cx.say("SetTCPChecksum: bad lengths");
            cx.drop(packet, Reason::Malformed);
        });
    }
}

impl SetUdpChecksum {
    /// `None`, and nothing done, for fragments and what is too short.
    fn set(packet: &mut Packet) -> Option<()> {
        let ip = ipv4::Packet::parse(packet.network()).ok()?;
        if ip.protocol() != protocol::UDP {
            return Some(());
        }
        let datagram = udp::Datagram::parse(packet.network().get(ip.header_len()..)?).ok()?;
        let length = usize::from(datagram.length());
        if ip.more_fragments() || ip.fragment_offset() > 0 || length_behind(packet, &ip) < length {
            return None;
        }
        set(packet, length, 6, udp::stated)
    }
}

impl Element for SetUdpChecksum {
    fn class(&self) -> &'static str {
        SET_UDP_CHECKSUM.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut wrong = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            wrong |= u64::from(SetUdpChecksum::set(packet).is_none()) << index;
        }
        if wrong == 0 {
            return;
        }
        if cx.has_output(1) {
            return cx.emit_some(1, batch, wrong);
        }
        if !self.told {
            let line = format!("{} :: {}: fragment or short packet", cx.name(), self.class());
            cx.say(&line);
            self.told = true;
        }
        batch.take(wrong, |_, packet| cx.drop(packet, Reason::Malformed));
    }
}
