//! What fields say of a packet that is there.
//!
//! Headers that are cut off, or wrong, are as if they were not there, and the first such thing that
//! was found is kept to be told.

use graph::arguments::offset;
use port::Packet;
use wire::{icmp4, ipv4, protocol, tcp};

use super::{Field, Value};

/// ICMP types that have an identifier and a sequence number.
const SEQUENCED: [u8; 6] = [icmp4::ECHO, icmp4::ECHO_REPLY, 13, 14, 15, 16];

/// A packet as the fields see it.
pub(in super::super) struct View<'a> {
    packet: &'a Packet,
    /// All bytes.
    whole: &'a [u8],
    /// From the IP header on, without what is behind the packet; `None`: there is no right one.
    ip: Option<&'a [u8]>,
    /// From the transport header on, and the protocol it is of.
    transport: &'a [u8],
    transport_at: usize,
    /// Bytes that are not there, but count.
    missing: u32,
    /// The first thing found to be wrong.
    pub bad: Option<String>,
}

impl<'a> View<'a> {
    /// `whole` is all of the packet's bytes. With `extra` its annotation counts that says how much
    /// of it is missing; with `careful` it is bad when more is missing.
    pub fn new(packet: &'a Packet, whole: &'a [u8], extra: bool, careful: bool) -> View<'a> {
        let missing = u32::from_ne_bytes(packet.annotation(offset::EXTRA_LENGTH));
        let mut view = View {
            packet,
            whole,
            ip: None,
            transport: &[],
            transport_at: 0,
            missing: if extra { missing } else { 0 },
            bad: None,
        };
        view.find_ip(missing, careful);
        view
    }

    fn find_ip(&mut self, missing: u32, careful: bool) {
        let Some(at) = self.packet.network_offset() else { return };
        // In front of the data there is no chain of segments.
        let bytes = match usize::try_from(at) {
            Ok(at) => self.whole.get(at..).unwrap_or_default(),
            Err(_) => self.packet.network(),
        };
        let length = bytes.get(2..4).map(|length| usize::from(u16::from_be_bytes([length[0], length[1]])));
        let wrong = match (bytes.first(), length) {
            (None, _) | (_, None) => Some("truncated IP header".to_owned()),
            (Some(first), _) if first >> 4 != 4 => Some(format!("IP version {}", first >> 4)),
            (Some(first), _) if first & 15 < 5 => Some(format!("IP header length {}", first & 15)),
            (Some(first), Some(length)) if length < usize::from(first & 15) * 4 => {
                Some(format!("IP length {length}"))
            }
            _ => None,
        };
        if wrong.is_some() {
            self.bad = wrong;
            return;
        }
        let length = length.unwrap_or_default();
        let ip = &bytes[..bytes.len().min(length)];
        if careful && length > bytes.len() + missing as usize {
            self.bad = Some(format!("truncated IP missing {}", length - bytes.len() - missing as usize));
        }
        // What the header says is all there is to count.
        self.missing = 0;
        self.ip = Some(ip);
        self.transport_at = match self.packet.transport_offset() {
            Some(transport) => usize::try_from(transport - at).unwrap_or_default(),
            None => return,
        };
        self.transport = ip.get(self.transport_at..).unwrap_or_default();
        let offset = self.transport.get(12).map_or(5, |byte| byte >> 4);
        if self.is(protocol::TCP) && offset < 5 {
            self.bad = self.bad.take().or(Some(format!("TCP header length {offset}")));
            self.transport = &[];
        }
    }

    fn header(&self) -> usize {
        self.ip.and_then(|ip| ip.first()).map_or(0, |first| usize::from(first & 15) * 4)
    }

    fn is_first_fragment(&self) -> bool {
        self.ip_word(6).is_none_or(|word| word & ipv4::FRAGMENT_OFFSET == 0)
    }

    fn protocol(&self) -> Option<u8> {
        self.ip.and_then(|ip| ip.get(9)).copied()
    }

    /// Whether there is a transport header of this protocol.
    fn is(&self, protocol: u8) -> bool {
        !self.transport.is_empty() && self.protocol() == Some(protocol) && self.is_first_fragment()
    }

    /// The ICMP type, if it is there.
    pub fn icmp_type(&self) -> Option<u8> {
        self.transport.first().copied().filter(|_| self.is(protocol::ICMP))
    }

    /// Bytes of the IP header; keeps that they are missing.
    fn ip_bytes<const N: usize>(&mut self, at: usize) -> Option<[u8; N]> {
        let bytes = self.ip.and_then(|ip| ip.get(at..)).and_then(<[u8]>::first_chunk).copied();
        if bytes.is_none() {
            let text = if self.ip.is_none() { "no IP header" } else { "truncated IP header capture" };
            self.bad.get_or_insert_with(|| text.to_owned());
        }
        bytes
    }

    fn ip_word(&self, at: usize) -> Option<u16> {
        self.ip?.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }

    /// Bytes of a transport header of one of some protocols; keeps that they are missing.
    fn transport_bytes<const N: usize>(&mut self, of: &[u8], name: &str, at: usize) -> Option<[u8; N]> {
        let known =
            self.protocol().filter(|protocol| of.contains(protocol)).filter(|_| self.is_first_fragment());
        let bytes = known.and_then(|_| self.transport.get(at..)?.first_chunk().copied());
        if bytes.is_none() {
            self.complain(of, name, at + N);
        }
        bytes
    }

    fn complain(&mut self, of: &[u8], name: &str, needed: usize) {
        if self.bad.is_some() {
            return;
        }
        let text = match self.protocol() {
            None => "no IP header".to_owned(),
            // Of another protocol is not wrong.
            Some(protocol) if !of.contains(&protocol) => return,
            Some(_) if !self.is_first_fragment() => format!("fragmented {name} header"),
            Some(_) => {
                let said = usize::from(self.ip_word(2).unwrap_or_default()).saturating_sub(self.header());
                let cut = if said >= needed { " capture" } else { "" };
                format!("truncated {name} header{cut}")
            }
        };
        self.bad = Some(text);
    }

    fn tcp<const N: usize>(&mut self, at: usize) -> Option<[u8; N]> {
        self.transport_bytes(&[protocol::TCP], "TCP", at)
    }

    fn icmp<const N: usize>(&mut self, at: usize) -> Option<[u8; N]> {
        self.transport_bytes(&[protocol::ICMP], "ICMP", at)
    }

    /// A field's value, if the packet has it.
    pub fn get(&mut self, field: Field) -> Option<Value> {
        let time = self.packet.annotations().timestamp;
        let first = i64::from_ne_bytes(self.packet.annotation(offset::FIRST_TIMESTAMP));
        let word = |bytes: Option<[u8; 2]>| bytes.map(|bytes| u64::from(u16::from_be_bytes(bytes)));
        let long = |bytes: Option<[u8; 4]>| bytes.map(|bytes| u64::from(u32::from_be_bytes(bytes)));
        let byte = |bytes: Option<[u8; 1]>| bytes.map(|[byte]| u64::from(byte));
        let note = |place| u64::from(u32::from_ne_bytes(self.packet.annotation(place)));
        let number = match field {
            Field::Nothing => None,
            Field::Timestamp | Field::NanoTimestamp => return Some(Value::Time(time)),
            Field::FirstTimestamp | Field::FirstNanoTimestamp => return Some(Value::Time(first)),
            Field::Seconds => Some(time.div_euclid(1_000_000_000) as u64),
            Field::Microseconds => Some(time.rem_euclid(1_000_000_000) as u64 / 1000),
            Field::AllMicroseconds => Some(time.div_euclid(1000) as u64),
            Field::Count => Some(note(offset::EXTRA_PACKETS) + 1),
            Field::Link | Field::Direction => Some(self.packet.paint.into()),
            Field::Aggregate => Some(note(offset::AGGREGATE)),
            Field::WireLength => Some(self.whole.len() as u64),
            Field::EtherSource | Field::EtherDestination | Field::EtherType => return self.ether(field),
            Field::Source => long(self.ip_bytes(12)),
            Field::Destination => long(self.ip_bytes(16)),
            Field::Tos => byte(self.ip_bytes(1)),
            Field::Dscp => byte(self.ip_bytes(1)).map(|tos| tos >> 2),
            Field::Ecn => byte(self.ip_bytes(1)).map(|tos| tos & 3),
            Field::Ttl => byte(self.ip_bytes(8)),
            Field::Fragment | Field::FragmentOffset => word(self.ip_bytes(6)),
            Field::Id => word(self.ip_bytes(4)),
            Field::Checksum => word(self.ip_bytes(10)),
            Field::Protocol => byte(self.ip_bytes(9)),
            Field::HeaderLength => byte(self.ip_bytes(0)).map(|first| (first & 15) * 4),
            Field::Length => {
                let length = self.ip_word(2).map_or(self.whole.len() as u64, u64::from);
                Some(length + u64::from(self.missing))
            }
            Field::CaptureLength => Some(self.ip.map_or(self.whole.len(), <[u8]>::len) as u64),
            Field::IpOptions => return self.ip_options(),
            Field::SourcePort | Field::DestinationPort => {
                let ported = [protocol::TCP, protocol::UDP, protocol::DCCP, protocol::UDP_LITE];
                word(self.transport_bytes(&ported, "TCP/UDP", if field == Field::SourcePort { 0 } else { 2 }))
            }
            Field::Sequence => long(self.tcp(4)),
            Field::Acknowledgement => long(self.tcp(8)),
            Field::TcpOffset => byte(self.tcp(12)).map(|byte| (byte >> 4) * 4),
            Field::TcpFlags => word(self.tcp(12)).map(|word| word & 0xfff),
            Field::Window => word(self.tcp(14)),
            Field::Urgent => word(self.tcp(18)),
            Field::TcpOptions | Field::TcpOptionsButTimes | Field::TcpSack => return self.tcp_options(),
            Field::UdpLength => word(self.transport_bytes(&[protocol::UDP], "UDP", 4)),
            Field::IcmpType | Field::IcmpTypeName => byte(self.icmp(0)),
            Field::IcmpCode | Field::IcmpCodeName => byte(self.icmp(1)),
            Field::IcmpFlow | Field::IcmpSequence => {
                let [kind] = self.icmp(0)?;
                let at = if field == Field::IcmpFlow { 4 } else { 6 };
                SEQUENCED.contains(&kind).then(|| word(self.icmp(at))).flatten()
            }
            Field::IcmpNextMtu => {
                let [kind, code] = self.icmp(0)?;
                let says = kind == icmp4::UNREACHABLE && code == icmp4::unreachable::FRAGMENTATION_NEEDED;
                says.then(|| word(self.icmp(6))).flatten()
            }
            Field::PayloadLength => Some(self.payload().1 as u64 + u64::from(self.missing)),
            Field::Payload => {
                let (start, length) = self.payload();
                let bytes = self.ip.unwrap_or(self.whole);
                if length > 0 && start >= bytes.len() {
                    return None;
                }
                let end = (start + length).min(bytes.len());
                return Some(Value::Bytes(bytes.get(start..end).unwrap_or_default().to_vec()));
            }
        };
        number.map(Value::Number)
    }

    fn ether(&mut self, field: Field) -> Option<Value> {
        let network = self.packet.network_offset();
        let link = self.packet.link_offset().or((network.is_none_or(|network| network >= 0)).then_some(0));
        let end = network.unwrap_or(self.whole.len() as isize);
        let bytes: Option<&[u8; 14]> = match link {
            Some(link) if end - link == 14 => match usize::try_from(link) {
                Ok(link) => self.whole.get(link..).and_then(<[u8]>::first_chunk),
                Err(_) => self.packet.link().first_chunk(),
            },
            _ => None,
        };
        let Some(bytes) = bytes else {
            self.bad.get_or_insert_with(|| "Ethernet header".to_owned());
            return None;
        };
        let address = |at: usize| [0, 1, 2, 3, 4, 5].map(|byte: usize| bytes[at + byte]);
        Some(match field {
            Field::EtherSource => Value::Ether(address(6)),
            Field::EtherDestination => Value::Ether(address(0)),
            _ => Value::Number(u64::from(u16::from_be_bytes([bytes[12], bytes[13]]))),
        })
    }

    fn ip_options(&mut self) -> Option<Value> {
        let header = self.header();
        let options = self.ip.and_then(|ip| ip.get(ipv4::HEADER.min(header)..header)).map(<[u8]>::to_vec);
        if options.is_none() {
            let text = if self.ip.is_none() { "no IP header" } else { "truncated IP header capture" };
            self.bad.get_or_insert_with(|| text.to_owned());
        }
        options.map(Value::Bytes)
    }

    fn tcp_options(&mut self) -> Option<Value> {
        let [offset] = self.tcp(12)?;
        let length = usize::from(offset >> 4) * 4;
        if length <= tcp::HEADER {
            return Some(Value::Bytes(Vec::new()));
        }
        let Some(options) = self.transport.get(tcp::HEADER..length) else {
            self.complain(&[protocol::TCP], "TCP", length);
            return None;
        };
        Some(Value::Bytes(options.to_vec()))
    }

    /// Where the payload begins, in the IP packet if it is one, and how long it is, there or not.
    fn payload(&self) -> (usize, usize) {
        let Some(length) = self.ip_word(2) else { return (0, self.whole.len()) };
        let transport = if self.transport_at > 0 { self.transport_at } else { self.header() };
        let header = match self.protocol().filter(|_| self.is_first_fragment()) {
            Some(protocol::TCP) => {
                let said = self.transport.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
                said.max(tcp::HEADER)
            }
            Some(protocol::UDP | protocol::UDP_LITE) => 8,
            _ => 0,
        };
        (transport + header, usize::from(length).saturating_sub(transport + header))
    }
}
