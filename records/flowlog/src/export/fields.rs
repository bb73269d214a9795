//! Templates: which elements a record of a given shape has, and how they are filled.

use std::net::IpAddr;

use crate::record::{Counts, Endpoints, ICMP, ICMP6, Interface, Record};
use crate::settings::Times;

/// Private enterprise number that marks the reverse of an IANA element (RFC 5103, section 6.1).
const REVERSE: u32 = 29_305;
/// Seconds between 1900, where NTP's time begins, and 1970.
const NTP_EPOCH: u64 = 2_208_988_800;

/// What a dialect of templates has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// IPFIX, RFC 7011.
    Ipfix {
        /// One record for both directions.
        biflow: bool,
        /// Which elements carry times.
        times: Times,
    },
    /// NetFlow version 9, RFC 3954.
    NetFlow9,
}

/// What decides a record's template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// The key's addresses are of IPv6.
    six: bool,
    /// It is translated, into IPv6 or not.
    translated: Option<bool>,
    /// The next hop is of IPv6.
    hop_six: bool,
}

impl Shape {
    /// The template's number: 256 to 267.
    pub fn id(self) -> u16 {
        let translated = match self.translated {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        };
        256 + u16::from(self.six) + 2 * u16::from(self.hop_six) + 4 * translated
    }
}

/// One direction of a record, as it arrives at the router; `back` is the other.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'r> {
    record: &'r Record,
    reply: bool,
    from: Endpoints,
    translated: Option<Endpoints>,
    counts: Counts,
    back: Counts,
    input: Interface,
    output: Interface,
    next_hop: Option<IpAddr>,
    source_as: u32,
    destination_as: u32,
    icmp_type: u8,
}

impl<'r> Flow<'r> {
    /// The direction of the first packet.
    pub fn forward(record: &'r Record) -> Flow<'r> {
        let key = &record.key;
        Flow {
            record,
            reply: false,
            from: Endpoints {
                source: key.source,
                destination: key.destination,
                source_port: key.source_port,
                destination_port: key.destination_port,
            },
            translated: record.translated,
            counts: record.forward,
            back: record.reply,
            input: record.input,
            output: record.output,
            next_hop: record.next_hop,
            source_as: record.source_as,
            destination_as: record.destination_as,
            icmp_type: key.icmp_type,
        }
    }

    /// The other direction, when something came by it.
    pub fn reply(record: &'r Record) -> Option<Flow<'r>> {
        if record.reply.packets == 0 {
            return None;
        }
        let forward = Flow::forward(record);
        let turned = |ends: Endpoints| Endpoints {
            source: ends.destination,
            destination: ends.source,
            source_port: ends.destination_port,
            destination_port: ends.source_port,
        };
        // What an echo, timestamp or echo of ICMPv6 is answered with.
        let icmp_type = match (record.key.protocol, record.key.icmp_type) {
            (ICMP, 8) => 0,
            (ICMP, 13) => 14,
            (ICMP6, 128) => 129,
            (_, other) => other,
        };
        Some(Flow {
            reply: true,
            from: turned(forward.translated.unwrap_or(forward.from)),
            translated: forward.translated.map(|_| turned(forward.from)),
            counts: forward.back,
            back: forward.counts,
            input: forward.output,
            output: forward.input,
            next_hop: None,
            source_as: forward.destination_as,
            destination_as: forward.source_as,
            icmp_type,
            ..forward
        })
    }

    /// Which template it needs.
    pub fn shape(&self) -> Shape {
        let translated = self.translated.map(|ends| ends.source.is_ipv6());
        let six = self.from.source.is_ipv6();
        let hop_six = self.next_hop.map_or(translated.unwrap_or(six), |hop| hop.is_ipv6());
        Shape { six, translated, hop_six }
    }

    fn is_icmp(&self) -> bool {
        self.record.key.is_icmp()
    }

    fn icmp(&self) -> u64 {
        if self.is_icmp() { u64::from(self.icmp_type) << 8 | u64::from(self.record.key.icmp_code) } else { 0 }
    }
}

/// An element of a template: its number, how many bytes, and what fills it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// IANA's number, which NetFlow 9 shares as far as it goes.
    pub element: u16,
    /// Bytes.
    pub length: u16,
    reverse: bool,
    value: fn(&Flow, Clock) -> Value,
}

/// From when NetFlow 9 counts its times, ns since 1970.
pub type Clock = u64;

enum Value {
    Number(u64),
    Address(IpAddr),
}

const fn field(element: u16, length: u16, value: fn(&Flow, Clock) -> Value) -> Field {
    Field { element, length, reverse: false, value }
}

/// The elements of a template.
pub fn fields(dialect: Dialect, shape: Shape) -> Vec<Field> {
    use Value::{Address, Number};
    let ipfix = matches!(dialect, Dialect::Ipfix { .. });
    let mut all = Vec::with_capacity(36);
    match dialect {
        Dialect::Ipfix { times: Times::Milliseconds, .. } => all.extend([
            field(152, 8, |flow, _| Number(flow.record.start / 1_000_000)), // flowStartMilliseconds
            field(153, 8, |flow, _| Number(flow.record.end / 1_000_000)),   // flowEndMilliseconds
        ]),
        Dialect::Ipfix { times: Times::Nanoseconds, .. } => all.extend([
            field(156, 8, |flow, _| Number(ntp(flow.record.start))), // flowStartNanoseconds
            field(157, 8, |flow, _| Number(ntp(flow.record.end))),   // flowEndNanoseconds
        ]),
        Dialect::NetFlow9 => all.extend([
            field(22, 4, |flow, clock| Number(uptime(flow.record.start, clock))), // FIRST_SWITCHED
            field(21, 4, |flow, clock| Number(uptime(flow.record.end, clock))),   // LAST_SWITCHED
        ]),
    }
    all.extend(match shape.six {
        false => [
            field(8, 4, |flow, _| Address(flow.from.source)), // sourceIPv4Address
            field(12, 4, |flow, _| Address(flow.from.destination)), // destinationIPv4Address
        ],
        true => [
            field(27, 16, |flow, _| Address(flow.from.source)), // sourceIPv6Address
            field(28, 16, |flow, _| Address(flow.from.destination)), // destinationIPv6Address
        ],
    });
    all.extend([
        field(7, 2, |flow, _| Number(if flow.is_icmp() { 0 } else { u64::from(flow.from.source_port) })),
        field(11, 2, |flow, _| match flow.is_icmp() {
            true => Number(flow.icmp()),
            false => Number(u64::from(flow.from.destination_port)),
        }),
        field(4, 1, |flow, _| Number(u64::from(flow.record.key.protocol))), // protocolIdentifier
        field(6, 1, |flow, _| Number(u64::from(flow.counts.tcp_flags))),    // tcpControlBits, RFC 7125
        // icmpTypeCodeIPv6 or IPv4; NetFlow 9 has one for both.
        field(if shape.six && ipfix { 139 } else { 32 }, 2, |flow, _| Number(flow.icmp())), // icmpTypeCode
        field(2, 8, |flow, _| Number(flow.counts.packets)), // packetDeltaCount
        field(1, 8, |flow, _| Number(flow.counts.bytes)),   // octetDeltaCount
        field(10, 4, |flow, _| Number(u64::from(flow.input.index))), // ingressInterface
        field(14, 4, |flow, _| Number(u64::from(flow.output.index))), // egressInterface
        field(16, 4, |flow, _| Number(u64::from(flow.source_as))), // bgpSourceAsNumber
        field(17, 4, |flow, _| Number(u64::from(flow.destination_as))), // bgpDestinationAsNumber
        match shape.hop_six {
            false => field(15, 4, |flow, _| Address(flow.next_hop.unwrap_or(IpAddr::from([0; 4])))), // ipNextHopIPv4Address
            true => field(62, 16, |flow, _| Address(flow.next_hop.unwrap_or(IpAddr::from([0; 16])))), // ipNextHopIPv6Address
        },
        field(234, 4, |flow, _| Number(u64::from(flow.record.key.table))), // ingressVRFID
        // flowEndReason; a flow that lives is told of because its time was due.
        field(136, 1, |flow, _| Number(flow.record.reason.map_or(2, |reason| reason as u64))),
    ]);
    if let Some(six) = shape.translated {
        all.extend(match six {
            false => [field(225, 4, behind_source), field(226, 4, behind_destination)], // postNAT...IPv4Address
            true => [field(281, 16, behind_source), field(282, 16, behind_destination)], // postNAT...IPv6Address
        });
        all.extend([
            // postNAPTSourceTransportPort, postNAPTDestinationTransportPort
            field(227, 2, |flow, _| Number(flow.translated.map_or(0, |ends| u64::from(ends.source_port)))),
            field(228, 2, |flow, _| {
                Number(flow.translated.map_or(0, |ends| u64::from(ends.destination_port)))
            }),
        ]);
    }
    if ipfix {
        all.extend([
            field(148, 8, |flow, _| Number(flow.record.flow)), // flowId
            field(239, 1, |flow, _| Number(if flow.reply { 2 } else { 1 })), // biflowDirection
        ]);
    }
    if let Dialect::Ipfix { biflow: true, .. } = dialect {
        let reverse = |element, length, value| Field { reverse: true, ..field(element, length, value) };
        all.extend([
            reverse(2, 8, |flow, _| Number(flow.back.packets)),
            reverse(1, 8, |flow, _| Number(flow.back.bytes)),
            reverse(6, 1, |flow, _| Number(u64::from(flow.back.tcp_flags))),
        ]);
    }
    all
}

fn behind_source(flow: &Flow, _: Clock) -> Value {
    Value::Address(flow.translated.map_or(flow.from.source, |ends| ends.source))
}

fn behind_destination(flow: &Flow, _: Clock) -> Value {
    Value::Address(flow.translated.map_or(flow.from.destination, |ends| ends.destination))
}

/// Milliseconds after `clock`, as 32 bits that wrap around (RFC 3954, section 8).
fn uptime(time: u64, clock: Clock) -> u64 {
    (time.saturating_sub(clock) / 1_000_000) & 0xffff_ffff
}

/// dateTimeNanoseconds (RFC 7011, section 6.1.10): seconds since 1900 and a fraction of 2^-32 s.
fn ntp(time: u64) -> u64 {
    let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
    let fraction = (rest << 32).div_ceil(1_000_000_000);
    ((seconds + NTP_EPOCH) & 0xffff_ffff) << 32 | fraction.min(0xffff_ffff)
}

impl Field {
    /// Its place in a template.
    pub fn describe(&self, out: &mut Vec<u8>) {
        let bit = if self.reverse { 0x8000 } else { 0 };
        out.extend((self.element | bit).to_be_bytes());
        out.extend(self.length.to_be_bytes());
        if self.reverse {
            out.extend(REVERSE.to_be_bytes());
        }
    }

    /// Its place in a record.
    pub fn fill(&self, flow: &Flow, clock: Clock, out: &mut Vec<u8>) {
        match (self.value)(flow, clock) {
            Value::Number(number) => out.extend(&number.to_be_bytes()[8 - usize::from(self.length)..]),
            Value::Address(IpAddr::V4(four)) if self.length == 4 => out.extend(four.octets()),
            Value::Address(IpAddr::V6(six)) if self.length == 16 => out.extend(six.octets()),
            // A record whose two ends are of different families: nothing that could be told of it.
            Value::Address(_) => out.resize(out.len() + usize::from(self.length), 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntp_time_keeps_nanoseconds() {
        let time = 1_700_000_000_123_456_789;
        let value = ntp(time);
        let back = ((value & 0xffff_ffff) * 1_000_000_000) >> 32;
        assert_eq!((value >> 32) - NTP_EPOCH, 1_700_000_000);
        assert_eq!(back, 123_456_789);
    }
}
