//! A packet made of what a line says.
//!
//! Fields are put in by their order: what a header is made for comes before what depends on it.
//! Headers that nobody asked for are not made, and what nobody said is 0, except an IP header's
//! version and length, its TTL (100) and its protocol.

use std::net::Ipv4Addr;

use graph::arguments::offset;
use port::Packet;
use wire::{checksum, icmp4, ipv4, protocol, tcp};

use super::{Field, Value};

/// Addresses and ports of packets that don't say theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Flow {
    pub source: Ipv4Addr,
    pub source_port: u16,
    pub destination: Ipv4Addr,
    pub destination_port: u16,
}

/// ICMP types that have an identifier and a sequence number.
const SEQUENCED: [u8; 6] = [icmp4::ECHO, icmp4::ECHO_REPLY, 13, 14, 15, 16];
/// The longest header, of IP and of TCP.
const LONGEST: usize = 60;
const TTL: u8 = 100;
/// The most that options and payload may make of a packet.
const MOST: usize = 65_535;

/// A packet in the making.
pub(in super::super) struct Draft {
    protocol: u8,
    flow: Option<Flow>,
    link: Option<[u8; 14]>,
    /// It is not of another protocol than IP.
    is_ip: bool,
    /// From the IP header on, if there is one; else all of it.
    bytes: Vec<u8>,
    has_ip: bool,
    icmp_type: Option<u8>,
    icmp_code: Option<u8>,
    said_ip_header: bool,
    said_tcp_header: bool,
    /// The length that the IP header is to say; 0: not said.
    length: usize,
    /// The length with the link header; 0: not said.
    wire_length: usize,
    time: i64,
    first_time: i64,
    count: u32,
    paint: u8,
    aggregate: u32,
}

/// What became of it: a packet's bytes, and what is noted on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Made {
    pub bytes: Vec<u8>,
    /// Where the IP header begins, if there is one.
    pub ip: Option<usize>,
    pub time: i64,
    pub first_time: i64,
    /// Bytes that are not there, but count.
    pub missing: u32,
    /// How many packets it stands for, at least 1.
    pub count: u32,
    paint: u8,
    aggregate: u32,
}

impl Draft {
    pub fn new(protocol: u8, flow: Option<Flow>, aggregate: u32) -> Draft {
        Draft {
            protocol,
            flow,
            link: None,
            is_ip: true,
            bytes: Vec::new(),
            has_ip: false,
            icmp_type: None,
            icmp_code: None,
            said_ip_header: false,
            said_tcp_header: false,
            length: 0,
            wire_length: 0,
            time: 0,
            first_time: 0,
            count: 1,
            paint: 0,
            aggregate,
        }
    }

    /// The ICMP type that was put in.
    pub fn icmp_type(&self) -> Option<u8> {
        self.icmp_type
    }

    /// Bytes of the IP header.
    fn header(&self) -> usize {
        self.bytes.first().map_or(0, |first| usize::from(first & 15) * 4)
    }

    /// The length that the IP packet is to have; 0: not said.
    fn wanted(&self) -> usize {
        let link = if self.link.is_some() { 14 } else { 0 };
        if self.length != 0 { self.length } else { self.wire_length.saturating_sub(link) }
    }

    fn is_first_fragment(&self) -> bool {
        self.word(6) & ipv4::FRAGMENT_OFFSET == 0
    }

    fn word(&self, at: usize) -> u16 {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_be_bytes(*bytes))
    }

    /// Writes bytes at a place; what is not there yet is made.
    fn set(&mut self, at: usize, bytes: &[u8]) {
        if self.bytes.len() < at + bytes.len() {
            self.bytes.resize(at + bytes.len(), 0);
        }
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Makes the IP header, unless there is one. False when it can't be, or is of another protocol.
    fn make_ip(&mut self, protocol: Option<u8>) -> bool {
        if !self.is_ip {
            return false;
        }
        if !self.has_ip {
            self.has_ip = true;
            self.bytes = vec![0; ipv4::HEADER];
            self.bytes[0] = 0x45;
            self.bytes[8] = TTL;
            self.bytes[9] = self.protocol;
            if let Some(flow) = self.flow {
                self.set(12, &flow.source.octets());
                self.set(16, &flow.destination.octets());
            }
        }
        let own = self.bytes[9];
        protocol.is_none_or(|protocol| own == 0 || own == protocol)
    }

    /// Makes the transport header of an IP packet, as far as the packet is to be so long. False
    /// when it has none: it is a later fragment.
    fn make_transport(&mut self) -> bool {
        if !self.is_first_fragment() {
            return false;
        }
        let header = self.header();
        let there = self.bytes.len().saturating_sub(header);
        if there >= 8 {
            return true;
        }
        let mut length = match self.bytes[9] {
            protocol::TCP => tcp::HEADER,
            protocol::UDP | protocol::UDP_LITE => 8,
            protocol::DCCP => 12,
            protocol::ICMP => icmp4::HEADER,
            _ => return true,
        };
        let wanted = self.wanted();
        if wanted > 0 {
            length = length.min(wanted.saturating_sub(header));
        }
        if there < length {
            self.bytes.resize(header + length.max(4), 0);
            if self.bytes[9] == protocol::TCP && length >= 13 {
                self.bytes[header + 12] = 0x50;
            }
            if let Some(flow) = self.flow {
                self.set(header, &flow.source_port.to_be_bytes());
                self.set(header + 2, &flow.destination_port.to_be_bytes());
            }
            self.bytes.truncate(header + length);
        }
        true
    }

    /// Makes IP and transport header, and says whether there is one, of one of these protocols.
    fn has_header_of(&mut self, protocols: &[u8]) -> bool {
        self.make_ip(None) && self.make_transport() && protocols.contains(&self.bytes[9])
    }

    /// Makes the IP header so long; the new bytes are 0, the end of options.
    fn lengthen_ip(&mut self, length: usize) {
        let (old, length) = (self.header(), length.next_multiple_of(4).min(LONGEST));
        if length > old {
            self.bytes.splice(old..old, std::iter::repeat_n(0, length - old));
        }
        self.bytes[0] = 0x40 | (length / 4) as u8;
    }

    /// Makes the TCP header so long.
    fn lengthen_tcp(&mut self, length: usize) {
        let at = self.header();
        if self.bytes.len() < at + tcp::HEADER {
            self.bytes.resize(at + tcp::HEADER, 0);
        }
        let old = (usize::from(self.bytes[at + 12] >> 4) * 4).max(tcp::HEADER);
        let length = length.next_multiple_of(4).min(LONGEST);
        if length > old {
            let place = (at + old).min(self.bytes.len());
            self.bytes.splice(place..place, std::iter::repeat_n(0, length - old));
        }
        self.bytes[at + 12] = ((length / 4) as u8 * 16) | (self.bytes[at + 12] & 15);
    }

    /// Puts a field in. What doesn't fit to what is there already is left out.
    pub fn put(&mut self, field: Field, value: &Value) {
        match value {
            Value::Time(time) => match field {
                Field::FirstTimestamp | Field::FirstNanoTimestamp => self.first_time = *time,
                _ => self.time = *time,
            },
            Value::Ether(address) => {
                let at = if field == Field::EtherSource { 6 } else { 0 };
                self.link()[at..at + 6].copy_from_slice(address);
            }
            Value::Bytes(bytes) => self.put_bytes(field, bytes),
            Value::Number(number) => self.put_number(field, *number),
        }
    }

    fn link(&mut self) -> &mut [u8; 14] {
        self.link.get_or_insert_with(|| {
            let mut link = [0; 14];
            link[12..].copy_from_slice(&[8, 0]);
            link
        })
    }

    fn put_bytes(&mut self, field: Field, bytes: &[u8]) {
        match field {
            Field::IpOptions if self.make_ip(None) => {
                self.said_ip_header = true;
                self.lengthen_ip((ipv4::HEADER + bytes.len()).max(self.header()));
                let room = self.header() - ipv4::HEADER;
                self.set(ipv4::HEADER, &bytes[..bytes.len().min(room)]);
            }
            Field::TcpOptions | Field::TcpOptionsButTimes | Field::TcpSack
                if self.make_ip(Some(protocol::TCP)) && self.make_transport() =>
            {
                self.said_tcp_header = true;
                if !bytes.is_empty() {
                    self.lengthen_tcp(tcp::HEADER + bytes.len());
                    let at = self.header() + tcp::HEADER;
                    self.set(at, &bytes[..bytes.len().min(LONGEST - tcp::HEADER)]);
                }
            }
            Field::Payload => {
                self.make_all();
                if !bytes.is_empty() {
                    let start = self.make_room(bytes.len());
                    self.set(start, bytes);
                }
            }
            _ => {}
        }
    }

    /// IP and transport header, where they can be.
    fn make_all(&mut self) {
        if self.make_ip(None) {
            self.make_transport();
        }
    }

    /// Where the payload begins, so that as much as is said fits between it and the packet's end:
    /// options that are not known make up for the rest.
    fn make_room(&mut self, payload: usize) -> usize {
        let start = self.payload_start();
        if !self.has_ip || self.wanted() == 0 {
            self.length = start + payload;
            return start;
        }
        let mut rest = self.wanted().saturating_sub(start + payload) / 4 * 4;
        let header = self.header();
        let is_tcp = self.bytes[9] == protocol::TCP && self.is_first_fragment();
        if rest > 0 && is_tcp && !self.said_tcp_header && self.bytes.get(header + 12) == Some(&0x50) {
            let more = rest.min(LONGEST - tcp::HEADER);
            self.lengthen_tcp(tcp::HEADER + more);
            rest -= more;
        }
        if rest > 0 && !self.said_ip_header && header == ipv4::HEADER {
            self.lengthen_ip(ipv4::HEADER + rest.min(LONGEST - ipv4::HEADER));
        }
        self.payload_start()
    }

    fn payload_start(&self) -> usize {
        if !self.has_ip {
            return 0;
        }
        let header = self.header();
        if !self.is_first_fragment() {
            return header;
        }
        header
            + match self.bytes[9] {
                protocol::TCP => {
                    let said = self.bytes.get(header + 12).map_or(0, |byte| usize::from(byte >> 4) * 4);
                    said.max(tcp::HEADER)
                }
                protocol::UDP | protocol::UDP_LITE => 8,
                _ => 0,
            }
    }

    fn put_number(&mut self, field: Field, number: u64) {
        let word = (number as u16).to_be_bytes();
        let long = (number as u32).to_be_bytes();
        match field {
            Field::Seconds => {
                let fraction = self.time.rem_euclid(1_000_000_000);
                self.time = (number as i64).saturating_mul(1_000_000_000).saturating_add(fraction);
            }
            Field::Microseconds => {
                let seconds = self.time - self.time.rem_euclid(1_000_000_000);
                self.time = seconds.saturating_add(number as i64 * 1000);
            }
            Field::AllMicroseconds => {
                self.time = i64::try_from(number).unwrap_or(i64::MAX).saturating_mul(1000);
            }
            Field::Count => self.count = (number as u32).max(1),
            Field::Link | Field::Direction => self.paint = number as u8,
            Field::Aggregate => self.aggregate = number as u32,
            Field::WireLength => self.wire_length = (number as usize).min(MOST + 14),
            Field::EtherType => {
                self.link()[12..].copy_from_slice(&word);
                self.is_ip &= matches!(number, 0x0800 | 0x86dd);
            }
            Field::UdpLength if self.has_header_of(&[0, protocol::UDP, protocol::UDP_LITE]) => {
                self.set(self.header() + 4, &word);
            }
            Field::SourcePort | Field::DestinationPort
                if self.has_header_of(&[
                    0,
                    protocol::TCP,
                    protocol::UDP,
                    protocol::DCCP,
                    protocol::UDP_LITE,
                ]) =>
            {
                let at = if field == Field::SourcePort { 0 } else { 2 };
                self.set(self.header() + at, &word);
            }
            Field::PayloadLength => {
                self.make_all();
                self.make_room((number as usize).min(MOST));
            }
            Field::Sequence
            | Field::Acknowledgement
            | Field::Window
            | Field::Urgent
            | Field::TcpOffset
            | Field::TcpFlags => self.put_tcp(field, number),
            Field::IcmpType
            | Field::IcmpTypeName
            | Field::IcmpCode
            | Field::IcmpCodeName
            | Field::IcmpFlow
            | Field::IcmpSequence
            | Field::IcmpNextMtu => self.put_icmp(field, number),
            Field::Nothing | Field::CaptureLength => {}
            _ if !self.make_ip(None) => {}
            Field::Source => self.set(12, &long),
            Field::Destination => self.set(16, &long),
            Field::Tos => self.bytes[1] = number as u8,
            Field::Dscp => self.bytes[1] = self.bytes[1] & 3 | (number as u8) << 2,
            Field::Ecn => self.bytes[1] = self.bytes[1] & !3 | number as u8 & 3,
            Field::Ttl => self.bytes[8] = number as u8,
            Field::Fragment | Field::FragmentOffset => self.set(6, &word),
            Field::Id => self.set(4, &word),
            Field::Checksum => self.set(10, &word),
            Field::Protocol => self.bytes[9] = number as u8,
            Field::HeaderLength => {
                self.said_ip_header = true;
                self.lengthen_ip((number as usize).max(self.header()));
            }
            Field::Length => self.length = (number as usize).min(MOST),
            _ => {}
        }
    }

    fn put_tcp(&mut self, field: Field, number: u64) {
        if !self.make_ip(Some(protocol::TCP)) || !self.make_transport() {
            return;
        }
        let at = self.header();
        match field {
            Field::Sequence => self.set(at + 4, &(number as u32).to_be_bytes()),
            Field::Acknowledgement => self.set(at + 8, &(number as u32).to_be_bytes()),
            Field::TcpFlags => {
                let high = self.bytes.get(at + 12).map_or(0x50, |byte| byte & 0xf0);
                self.set(at + 12, &[high | (number >> 8) as u8 & 15, number as u8]);
            }
            Field::Window => self.set(at + 14, &(number as u16).to_be_bytes()),
            Field::Urgent => self.set(at + 18, &(number as u16).to_be_bytes()),
            _ => self.lengthen_tcp((number as usize).max(tcp::HEADER)),
        }
    }

    fn put_icmp(&mut self, field: Field, number: u64) {
        if !self.make_ip(Some(protocol::ICMP)) || !self.make_transport() {
            return;
        }
        let (at, word) = (self.header(), (number as u16).to_be_bytes());
        self.bytes.resize(self.bytes.len().max(at + icmp4::HEADER), 0);
        let sequenced = self.icmp_type.is_none_or(|kind| SEQUENCED.contains(&kind));
        match field {
            Field::IcmpType | Field::IcmpTypeName => {
                let kind = number as u8;
                self.icmp_type = Some(kind);
                self.bytes[at] = kind;
                // Three times behind the header.
                if matches!(kind, 13 | 14) {
                    self.bytes.resize(self.bytes.len().max(at + icmp4::HEADER + 12), 0);
                }
            }
            Field::IcmpCode | Field::IcmpCodeName => {
                self.icmp_code = Some(number as u8);
                self.bytes[at + 1] = number as u8;
            }
            Field::IcmpFlow if sequenced => self.set(at + 4, &word),
            Field::IcmpSequence if sequenced => self.set(at + 6, &word),
            Field::IcmpNextMtu
                if self.icmp_type.is_none_or(|kind| kind == icmp4::UNREACHABLE)
                    && self.icmp_code.is_none_or(|code| code == icmp4::unreachable::FRAGMENTATION_NEEDED) =>
            {
                self.set(at + 6, &word);
            }
            _ => {}
        }
    }

    /// The packet. With `checksums` it has all its bytes and right checksums; else it is as long as
    /// what is known of it.
    pub fn finish(mut self, checksums: bool) -> Made {
        if self.flow.is_some() {
            self.make_ip(None);
        }
        if self.has_ip {
            self.make_transport();
            self.finish_ip(checksums);
        }
        let link = self.link.map_or(0, |link| link.len());
        let ip = self.has_ip.then_some(link);
        let wanted = match (self.length, self.wire_length) {
            (0, wire) => wire,
            (length, _) => link + length,
        };
        let bytes: Vec<u8> = self.link.into_iter().flatten().chain(self.bytes).collect();
        Made {
            missing: wanted.saturating_sub(bytes.len()) as u32,
            bytes,
            ip,
            time: self.time,
            first_time: self.first_time,
            count: self.count,
            paint: self.paint,
            aggregate: self.aggregate,
        }
    }

    fn finish_ip(&mut self, checksums: bool) {
        let mut length = self.wanted().min(MOST);
        if length == 0 {
            length = self.bytes.len();
        }
        self.set(2, &(length as u16).to_be_bytes());
        let header = self.header();
        let is_udp = self.bytes[9] == protocol::UDP && self.is_first_fragment();
        if is_udp && self.bytes.len() >= header + 6 && self.word(header + 4) == 0 {
            self.set(header + 4, &(length.saturating_sub(header) as u16).to_be_bytes());
        }
        if !checksums {
            return;
        }
        self.bytes.resize(self.bytes.len().max(length), 0);
        ipv4::set_checksum(&mut self.bytes[..header]);
        if self.word(6) & (ipv4::FRAGMENT_OFFSET | ipv4::MORE_FRAGMENTS) == 0 {
            self.set_transport_checksum(header);
        }
    }

    fn set_transport_checksum(&mut self, header: usize) {
        let kind = self.bytes[9];
        let at = header
            + match kind {
                protocol::TCP => 16,
                protocol::UDP => 6,
                protocol::ICMP => 2,
                _ => return,
            };
        if self.bytes.len() < at + 2 {
            return;
        }
        self.set(at, &[0, 0]);
        let transport = &self.bytes[header..];
        let address = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| self.bytes[at + byte]));
        let sum = match kind {
            protocol::ICMP => checksum::of(transport),
            _ => {
                let pseudo = checksum::pseudo4(address(12), address(16), kind, transport.len() as u16);
                pseudo.with(transport).finish()
            }
        };
        // None is said by 0, so 0 is said by its complement (RFC 768).
        let sum = if kind == protocol::UDP && sum == 0 { 0xffff } else { sum };
        self.set(at, &sum.to_be_bytes());
    }
}

impl Made {
    /// The packet in this thread's memory. `None` when there is none now.
    pub fn packet(&self) -> Option<Packet> {
        let mut packet = Packet::new(&self.bytes)?;
        packet.paint = self.paint;
        if self.time != 0 {
            packet.annotations_mut().timestamp = self.time;
        }
        if self.first_time != 0 {
            packet.set_annotation(offset::FIRST_TIMESTAMP, self.first_time.to_ne_bytes());
        }
        for (place, number) in [
            (offset::AGGREGATE, self.aggregate),
            (offset::EXTRA_PACKETS, self.count - 1),
            (offset::EXTRA_LENGTH, self.missing),
        ] {
            if number != 0 {
                packet.set_annotation(place, number.to_ne_bytes());
            }
        }
        if let Some(ip) = self.ip {
            if ip > 0 {
                packet.set_link(Some(0));
            }
            packet.mark_ip(ip as isize);
            if let Some(address) = self.bytes.get(ip + 16..).and_then(<[u8]>::first_chunk) {
                packet.destination = *address;
            }
        }
        Some(packet)
    }

    /// One packet off a number of them: all as long as each other, but for what the last one is
    /// left with, and as far from each other in time.
    pub fn split(&mut self) -> Made {
        let (count, length) = (self.count, self.bytes.len() as u32);
        let each = (length.saturating_add(self.missing) / count).max(length);
        let mut one = Made { count: 1, missing: each - length, ..self.clone() };
        one.set_length(each);
        if count > 1 {
            if self.first_time != 0 {
                one.time = self.first_time;
                self.first_time += (self.time - self.first_time) / i64::from(count - 1);
                one.first_time = 0;
            }
            let all = length.saturating_add(self.missing).max(each.saturating_mul(count));
            self.missing = (all - each).saturating_sub(length);
        }
        self.count -= 1;
        one
    }

    /// What the headers say of the length of the packet.
    fn set_length(&mut self, length: u32) {
        let Some(ip) = self.ip else { return };
        let total = (length as usize - ip).min(MOST);
        let header = usize::from(self.bytes[ip] & 15) * 4;
        self.bytes[ip + 2..ip + 4].copy_from_slice(&(total as u16).to_be_bytes());
        let udp = ip + header + 4;
        if self.bytes[ip + 9] == protocol::UDP
            && let Some(place) = self.bytes.get_mut(udp..udp + 2)
        {
            place.copy_from_slice(&(total.saturating_sub(header) as u16).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_was_said_is_made() {
        let nothing = Draft::new(6, None, 0).finish(true);
        assert_eq!((nothing.bytes.len(), nothing.ip), (0, None));
        let mut draft = Draft::new(6, None, 0);
        draft.put(Field::Ttl, &Value::Number(9));
        let made = draft.finish(true);
        assert_eq!((made.bytes.len(), made.bytes[8], made.bytes[9]), (40, 9, 6));
        assert!(checksum::verify(&made.bytes[..20]));
        let mut short = Draft::new(6, None, 0);
        short.put(Field::Length, &Value::Number(20));
        assert_eq!(short.finish(false).bytes.len(), 20);
        let mut long = Draft::new(17, None, 0);
        long.put(Field::Length, &Value::Number(1000));
        let made = long.finish(false);
        assert_eq!((made.bytes.len(), made.missing), (28, 972));
        assert_eq!(made.bytes[24..26], [0x03, 0xd4]);
    }

    #[test]
    fn several_packets_share_the_length_and_the_time() {
        let mut draft = Draft::new(17, None, 0);
        for (field, number) in [(Field::Count, 3), (Field::Length, 300), (Field::AllMicroseconds, 30)] {
            draft.put(field, &Value::Number(number));
        }
        draft.put(Field::FirstTimestamp, &Value::Time(10_000));
        let mut made = draft.finish(false);
        let each: Vec<(i64, u32)> = (0..3)
            .map(|_| made.split())
            .map(|one| (one.time, one.missing + one.bytes.len() as u32))
            .collect();
        assert_eq!(each, [(10_000, 100), (20_000, 100), (30_000, 100)]);
        assert_eq!(made.count, 0);
    }

    proptest! {
        #[test]
        fn any_fields_make_a_packet(
            fields in prop::collection::vec((0..super::super::FIELDS.len(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..50)), 0..8),
            protocol: u8,
            checksums: bool,
        ) {
            let mut draft = Draft::new(protocol, None, 0);
            for (at, number, bytes) in fields {
                let field = super::super::FIELDS[at].1;
                draft.put(field, &Value::Number(number.into()));
                draft.put(field, &Value::Bytes(bytes));
                draft.put(field, &Value::Number(u64::from(number % 100)));
            }
            let mut made = draft.finish(checksums);
            prop_assert!(made.bytes.len() <= 2 * MOST);
            while made.count > 0 && made.count < 50 {
                made.split();
            }
        }
    }
}
