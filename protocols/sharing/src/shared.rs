//! A flow as it is told of.
//!
//! What the other router needs to go on with it, and no more: no decision of rules, which it makes
//! itself, and no figures, for each router accounts for what it carries. An IPv4 TCP connection
//! through address translation takes 58 bytes or so.

use flow::tcp::Side;
use flow::{Phase, Tuple};
use wire::headers::{mapped, unmapped};
use wire::protocol;

use crate::bytes::{Reader, put_short};

/// A flow. Interfaces are the sender's numbers on the way, and one's own elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// As its first packet came.
    pub original: Tuple,
    /// As answers come.
    pub reply: Tuple,
    /// How far it is.
    pub phase: Phase,
    /// What both ends have sent, of TCP.
    pub tcp: Option<[Side; 2]>,
    /// The interfaces that its first packet came and left by.
    pub ports: [u16; 2],
    /// The mark that rules gave it.
    pub mark: u8,
    /// Milliseconds since its last packet.
    pub idle: u64,
    /// Milliseconds since its first.
    pub age: u64,
    /// Whether the sender has seen packets of it.
    pub carried: bool,
}

const IPV6: u8 = 1;
const TRANSLATED: u8 = 2;
const REPLY_IPV6: u8 = 4;
const CARRIED: u8 = 8;
const KNOWN: u8 = IPV6 | TRANSLATED | REPLY_IPV6 | CARRIED;

impl Flow {
    /// Whether its addresses or ports are translated.
    pub fn is_translated(&self) -> bool {
        self.reply != self.original.reversed()
    }

    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(!self.original.is_ipv4(), IPV6)
            | flag(self.is_translated(), TRANSLATED)
            | flag(!self.reply.is_ipv4(), REPLY_IPV6)
            | flag(self.carried, CARRIED);
        bytes.extend([flags, self.phase as u8, self.mark]);
        put_tuple(bytes, &self.original);
        if self.is_translated() {
            put_tuple(bytes, &self.reply);
        }
        for port in self.ports {
            put_short(bytes, port.into());
        }
        put_short(bytes, self.idle);
        put_short(bytes, self.age);
        for side in self.tcp.iter().flatten() {
            bytes.extend_from_slice(&side.end.to_be_bytes());
            bytes.extend_from_slice(&side.ack.to_be_bytes());
            bytes.extend_from_slice(&side.window.to_be_bytes());
            bytes.extend([side.scale, side.flags]);
        }
    }

    /// `None`: this is no flow.
    pub(crate) fn take(reader: &mut Reader<'_>) -> Option<Flow> {
        let [flags, phase, mark] = reader.array()?;
        let original = take_tuple(reader, flags & IPV6 != 0)?;
        let reply = match flags & TRANSLATED != 0 {
            true => take_tuple(reader, flags & REPLY_IPV6 != 0)?,
            false => original.reversed(),
        };
        let mut port = || reader.short().and_then(|port| u16::try_from(port).ok());
        let ports = [port()?, port()?];
        let (idle, age) = (reader.short()?, reader.short()?);
        let is_tcp = original.protocol == protocol::TCP;
        let tcp = if is_tcp { Some([take_side(reader)?, take_side(reader)?]) } else { None };
        let phase = *Phase::ALL.iter().find(|known| **known as u8 == phase)?;
        let carried = flags & CARRIED != 0;
        let flow = Flow { original, reply, phase, tcp, ports, mark, idle, age, carried };
        // One way to say each thing, so that what is read is what was written.
        let plain = flags & !KNOWN == 0
            && flow.is_translated() == (flags & TRANSLATED != 0)
            && flow.reply.is_ipv4() == (flags & REPLY_IPV6 == 0)
            && flow.original.is_ipv4() == (flags & IPV6 == 0);
        (plain && is_tcp == phase_is_tcp(phase) && is_tcp == (reply.protocol == protocol::TCP))
            .then_some(flow)
    }
}

fn phase_is_tcp(phase: Phase) -> bool {
    !matches!(phase, Phase::Unreplied | Phase::Replied | Phase::Stream)
}

fn put_tuple(bytes: &mut Vec<u8>, tuple: &Tuple) {
    bytes.push(tuple.protocol);
    match (unmapped(&tuple.source), unmapped(&tuple.destination)) {
        (Some(source), Some(destination)) => {
            bytes.extend_from_slice(&source);
            bytes.extend_from_slice(&destination);
        }
        _ => {
            bytes.extend_from_slice(&tuple.source);
            bytes.extend_from_slice(&tuple.destination);
        }
    }
    bytes.extend_from_slice(&tuple.source_port.to_be_bytes());
    bytes.extend_from_slice(&tuple.destination_port.to_be_bytes());
}

fn take_tuple(reader: &mut Reader<'_>, ipv6: bool) -> Option<Tuple> {
    let protocol = reader.u8()?;
    let (source, destination) = match ipv6 {
        true => (reader.array()?, reader.array()?),
        false => (mapped(reader.array()?), mapped(reader.array()?)),
    };
    let (source_port, destination_port) = (reader.u16()?, reader.u16()?);
    Some(Tuple { source, destination, source_port, destination_port, protocol, table: 0 })
}

fn take_side(reader: &mut Reader<'_>) -> Option<Side> {
    let (end, ack, window) = (reader.u32()?, reader.u32()?, reader.u16()?);
    let [scale, flags] = reader.array()?;
    // As the table keeps it: four bits.
    (scale < 16).then_some(Side { end, ack, window, scale, flags })
}
