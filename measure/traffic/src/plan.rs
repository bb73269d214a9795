//! A stream compiled.
//!
//! Everything that can be known before the first packet is: the headers' bytes, the order of sizes
//! with what each changes in lengths and checksums, the payload. Flow *k* is a function of *k*
//! alone: [`Plan::header`] makes its header whenever somebody wants it, on any core, with checksums
//! that lack only what the size adds. So packets are made by copying a header of 64 bytes or some
//! more and adding a few numbers, here ([`crate::maker`]) as in the kernel
//! (`forwarding/bpf/traffic.c`), from the same plan.
//!
//! Which flow packet *n* of a stream belongs to: there are [`Stream::flows`] slots, used in turn. A
//! slot's flow has [`Stream::flow_length`] packets, then flow *k* + [`Stream::flows`] takes its
//! place. Slots begin at different points of their flow's life, so that new flows come evenly and
//! not all at once.

use wire::{Mac, checksum, protocol};

use crate::TrafficError;
use crate::contradiction::{self, Wrong};
use crate::range::{Loaded, Macs, Order, Ports, Range};
use crate::size::{FCS, SMALLEST};
use crate::stamp::{STAMP, sum};
use crate::stream::{Extension, MOST_FLOWS, Protocol, Stream};

/// Longest header, with the stamp: two tags, eight labels, IPv6 with eight extension headers, TCP.
pub const LONGEST_HEADER: usize = 192;
const MOST_LABELS: usize = 8;
const MOST_EXTENSIONS: usize = 4;
/// Salts of the random ranges.
const SALTS: [u64; 6] = [0x51, 0x52, 0x53, 0x54, 0x55, 0x56];

/// A stream compiled. See the module's text.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The stream, with its name.
    pub stream: Stream,
    /// A frame of the largest size, without what belongs to a flow or a size.
    frame: Vec<u8>,
    /// Where the IP header is.
    l3: usize,
    /// Where the upper layer's header is.
    l4: usize,
    /// Where the payload is.
    payload: usize,
    /// Where the upper layer's checksum is; `None` without one.
    check: Option<usize>,
    source: Loaded,
    destination: Loaded,
    macs: [Macs; 2],
    sizes: Vec<Size>,
}

/// What a size changes. Sums are as they lie in memory, to be added to those in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the frame without check sequence.
    pub frame: u16,
    /// The length that the IP header states, as it lies in memory.
    pub ip: u16,
    /// The length that a UDP header states, as it lies in memory; 0 for others.
    pub udp: u16,
    /// What it adds to the sum of an IPv4 header.
    pub l3_sum: u16,
    /// What it adds to the sum of the upper layer.
    pub l4_sum: u16,
    /// The sum of the payload behind the stamp.
    pub fill_sum: u16,
}

/// MAC addresses and mark of a trial, for what a stream leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The sending port's address.
    pub source: Option<Mac>,
    /// The receiving port's address.
    pub destination: Option<Mac>,
}

impl Ends {
    /// Addresses that stand for ports which have none.
    pub const NONE: Ends = Ends { source: None, destination: None };
}

/// The source ports of flows of which nothing else is said.
const PORTS_OF_FLOWS: Ports = Range { first: 1024, last: 65_535, order: Order::Counting };

/// The stream; with source ports that count where several flows are wanted and nothing is said of
/// how they differ.
fn with_ports(stream: &Stream, source: &Loaded, destination: &Loaded) -> Stream {
    let mut stream = stream.clone();
    let several = stream.flows > 1 || stream.flow_length != 0;
    let unsaid = stream.source_port == Stream::default().source_port;
    if several && unsaid && contradiction::different(&stream, source, destination) == 1 {
        stream.source_port = PORTS_OF_FLOWS;
    }
    stream
}

impl Plan {
    /// Compiles a stream (not one that replays a file).
    pub fn new(stream: &Stream, ends: Ends) -> Result<Plan, TrafficError> {
        let wrong = |field: &'static str, reason: String| TrafficError::Stream {
            stream: stream.name.clone(),
            field,
            reason,
        };
        let addresses =
            |field, source| TrafficError::Addresses { stream: stream.name.clone(), field, source };
        if stream.flows == 0 || stream.flows > MOST_FLOWS {
            return Err(wrong("flows", format!("{} is outside 1 to {MOST_FLOWS}", stream.flows)));
        }
        let source = stream.source.load().map_err(|error| addresses("source", error))?;
        let destination = stream.destination.load().map_err(|error| addresses("destination", error))?;
        if source.version() != destination.version() {
            return Err(wrong(
                "destination",
                format!(
                    "is IPv{}, the source is IPv{}: make both the same",
                    destination.version(),
                    source.version()
                ),
            ));
        }
        let stream = &with_ports(stream, &source, &destination);
        contradiction::made(stream, &source, &destination).map_err(|(field, reason)| wrong(field, reason))?;
        let own = |mac: Option<Mac>, number: u8| Range::of(mac.unwrap_or(Mac([2, 0, 0, 0, 0, number])));
        let macs = [
            stream.destination_mac.unwrap_or(own(ends.destination, 2)),
            stream.source_mac.unwrap_or(own(ends.source, 1)),
        ];
        let six = source.version() == 6;
        let mut headers = link(stream, six).map_err(|(field, reason)| wrong(field, reason))?;
        let l3 = headers.len();
        network(stream, six, &mut headers).map_err(|(field, reason)| wrong(field, reason))?;
        let l4 = headers.len();
        let check = upper(stream, six, &mut headers).map_err(|(field, reason)| wrong(field, reason))?;
        let payload = headers.len();
        let needed = (payload + if stream.stamp { STAMP } else { 0 }) as u32 + FCS;
        let smallest = stream.size.smallest();
        if smallest < needed {
            let what = if stream.stamp { "headers and stamp" } else { "headers" };
            return Err(wrong(
                "size",
                format!(
                    "{smallest} is too small: {what} take {needed} bytes with the check sequence; make frames larger{}",
                    if stream.stamp { ", or go without stamp" } else { "" }
                ),
            ));
        }
        let largest = (stream.size.largest() - FCS) as usize;
        let mut frame = headers;
        frame.extend_from_slice(&stream.fill.bytes(largest)[payload..]);
        if stream.stamp {
            frame[payload..payload + STAMP].fill(0);
        }
        let mut plan = Plan {
            stream: stream.clone(),
            frame,
            l3,
            l4,
            payload,
            check: check.map(|at| l4 + at),
            source,
            destination,
            macs,
            sizes: Vec::new(),
        };
        plan.sizes = stream.size.cycle().into_iter().map(|size| plan.size(size - FCS)).collect();
        Ok(plan)
    }

    /// The least size of a stream's frames, with the check sequence: what its headers and stamp
    /// take.
    pub fn least(stream: &Stream) -> Result<u32, TrafficError> {
        let wrong = |(field, reason)| TrafficError::Stream { stream: stream.name.clone(), field, reason };
        let field = "source";
        let source = stream.source.load();
        let six = source.map(|source| source.version() == 6).map_err(|source| TrafficError::Addresses {
            stream: stream.name.clone(),
            field,
            source,
        })?;
        let mut headers = link(stream, six).map_err(wrong)?;
        network(stream, six, &mut headers).map_err(wrong)?;
        upper(stream, six, &mut headers).map_err(wrong)?;
        let stamp = if stream.stamp { STAMP } else { 0 };
        Ok(((headers.len() + stamp) as u32 + FCS).max(SMALLEST))
    }

    /// Bytes of headers, and of the stamp where there is one.
    pub fn header_len(&self) -> usize {
        self.payload + if self.stream.stamp { STAMP } else { 0 }
    }

    /// A frame of the largest size, to be written over by headers.
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Where IP header, upper layer's header and payload begin.
    pub fn layers(&self) -> [usize; 3] {
        [self.l3, self.l4, self.payload]
    }

    /// Where the upper layer's checksum is.
    pub fn check(&self) -> Option<usize> {
        self.check
    }

    /// Whether it is IPv6.
    pub fn is_six(&self) -> bool {
        self.source.version() == 6
    }

    /// The order of sizes, over and over.
    pub fn sizes(&self) -> &[Size] {
        &self.sizes
    }

    /// Writes the header of flow `k` over the first bytes of a frame ([`Plan::header_len`] at
    /// least), with mark and lane of the stamp. Where checksums belong stand sums, not
    /// complemented, without what the size adds; lengths are missing.
    #[inline]
    pub fn header(&self, k: u64, mark: u16, lane: u16, into: &mut [u8]) {
        let length = self.header_len();
        into[..length].copy_from_slice(&self.frame[..length]);
        into[..6].copy_from_slice(&self.macs[0].value(k, SALTS[0]).0);
        into[6..12].copy_from_slice(&self.macs[1].value(k, SALTS[1]).0);
        let (l3, l4) = (self.l3, self.l4);
        let ip = if self.is_six() {
            into[l3 + 8..l3 + 24].copy_from_slice(&self.source.v6(k, SALTS[2]).octets());
            into[l3 + 24..l3 + 40].copy_from_slice(&self.destination.v6(k, SALTS[3]).octets());
            checksum::Sum::new().with(&into[l3 + 8..l3 + 40])
        } else {
            into[l3 + 12..l3 + 16].copy_from_slice(&self.source.v4(k, SALTS[2]).octets());
            into[l3 + 16..l3 + 20].copy_from_slice(&self.destination.v4(k, SALTS[3]).octets());
            let sum = checksum::Sum::new().with(&into[l3..l3 + 20]).fold();
            into[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
            checksum::Sum::new().with(&into[l3 + 12..l3 + 20])
        };
        let source = self.stream.source_port.value(k, SALTS[4]);
        if self.stream.protocol == Protocol::Icmp {
            into[l4 + 4..l4 + 6].copy_from_slice(&source.to_be_bytes());
        } else {
            let destination = self.stream.destination_port.value(k, SALTS[5]);
            into[l4..l4 + 2].copy_from_slice(&source.to_be_bytes());
            into[l4 + 2..l4 + 4].copy_from_slice(&destination.to_be_bytes());
        }
        if let Some(check) = self.check {
            // ICMP for IPv4 is the only one without pseudo-header.
            let pseudo = match (self.stream.protocol, self.is_six()) {
                (Protocol::Icmp, false) => checksum::Sum::new(),
                (_, six) => ip.with_u16(number_of(self.stream.protocol, six).into()),
            };
            let sum = pseudo.with(&into[l4..self.payload]).fold();
            into[check..check + 2].copy_from_slice(&sum.to_be_bytes());
        }
        if self.stream.stamp {
            into[self.payload..self.payload + 2].copy_from_slice(&mark.to_be_bytes());
            into[self.payload + 2..self.payload + 4].copy_from_slice(&lane.to_be_bytes());
        }
    }

    /// Completes a header, as [`Plan::header`] left it, for a size.
    #[inline(always)]
    pub fn complete(&self, header: &mut [u8], size: &Size) {
        let add = |header: &mut [u8], at: usize, more: u16| {
            let sum = u16::from_ne_bytes([header[at], header[at + 1]]);
            !crate::stamp::fold(u64::from(sum) + u64::from(more))
        };
        if self.is_six() {
            header[self.l3 + 4..self.l3 + 6].copy_from_slice(&size.ip.to_ne_bytes());
        } else {
            header[self.l3 + 2..self.l3 + 4].copy_from_slice(&size.ip.to_ne_bytes());
            let sum = add(header, self.l3 + 10, size.l3_sum);
            header[self.l3 + 10..self.l3 + 12].copy_from_slice(&sum.to_ne_bytes());
        }
        if self.stream.protocol == Protocol::Udp {
            header[self.l4 + 4..self.l4 + 6].copy_from_slice(&size.udp.to_ne_bytes());
        }
        if let Some(check) = self.check {
            let sum = add(header, check, size.l4_sum);
            let sum = if self.stream.protocol == Protocol::Udp { wire::udp::stated(sum) } else { sum };
            header[check..check + 2].copy_from_slice(&sum.to_ne_bytes());
        }
    }

    /// What frames of `frame` bytes change.
    fn size(&self, frame: u32) -> Size {
        let end = frame as usize;
        let upper = (end - self.l4) as u16;
        let ip = if self.is_six() { end - self.l3 - 40 } else { end - self.l3 };
        let is_udp = self.stream.protocol == Protocol::Udp;
        let udp = if is_udp { upper.to_be() } else { 0 };
        let mut l4_sum = checksum::Sum::new();
        if self.stream.protocol != Protocol::Icmp || self.is_six() {
            l4_sum = l4_sum.with_u16(upper);
        }
        if is_udp {
            l4_sum = l4_sum.with_u16(upper);
        }
        let mut fill_sum = 0;
        if self.stream.stamp {
            // A stamp makes the payload's sum all ones, which add nothing.
            fill_sum = sum(&self.frame[self.payload + STAMP..end]);
        } else {
            l4_sum = l4_sum.with(&self.frame[self.payload..end]);
        }
        Size {
            frame: frame as u16,
            ip: (ip as u16).to_be(),
            udp,
            l3_sum: (ip as u16).to_be(),
            l4_sum: l4_sum.fold().to_be(),
            fill_sum,
        }
    }
}

/// Ethernet, tags, labels.
fn link(stream: &Stream, six: bool) -> Result<Vec<u8>, Wrong> {
    let mut headers = vec![0; 12];
    if stream.vlan.len() > 2 {
        return Err(("vlan", "at most two tags: [outer, inner]".to_owned()));
    }
    if stream.vlan_priority > 7 {
        return Err(("vlan_priority", format!("{} is outside 0 to 7", stream.vlan_priority)));
    }
    for (i, &vlan) in stream.vlan.iter().enumerate() {
        if vlan > 4094 {
            return Err(("vlan", format!("{vlan} is outside 0 to 4094")));
        }
        let outer = i == 0 && stream.vlan.len() == 2;
        headers.extend(if outer { 0x88a8u16 } else { 0x8100 }.to_be_bytes());
        headers.extend((u16::from(stream.vlan_priority) << 13 | vlan).to_be_bytes());
    }
    if stream.mpls.len() > MOST_LABELS {
        return Err(("mpls", format!("at most {MOST_LABELS} labels")));
    }
    let ip = if six { wire::ethernet::IPV6 } else { wire::ethernet::IPV4 };
    headers.extend(if stream.mpls.is_empty() { ip } else { 0x8847 }.to_be_bytes());
    for (i, &label) in stream.mpls.iter().enumerate() {
        if label >= 1 << 20 {
            return Err(("mpls", format!("{label} is no label: 0 to {}", (1 << 20) - 1)));
        }
        let bottom = u32::from(i + 1 == stream.mpls.len());
        headers.extend((label << 12 | bottom << 8 | u32::from(stream.ttl)).to_be_bytes());
    }
    Ok(headers)
}

/// IP without addresses and lengths.
fn network(stream: &Stream, six: bool, headers: &mut Vec<u8>) -> Result<(), Wrong> {
    if stream.dscp > 63 {
        return Err(("dscp", format!("{} is outside 0 to 63", stream.dscp)));
    }
    let upper = number_of(stream.protocol, six);
    let tos = stream.dscp << 2;
    if !six {
        if !stream.extension_headers.is_empty() {
            return Err((
                "extension_headers",
                "are for IPv6: give IPv6 addresses, or none of these".to_owned(),
            ));
        }
        // Not fragmented and not to be (RFC 6864, 4.1: then the identification may be anything).
        headers.extend([0x45, tos, 0, 0, 0, 0, 0x40, 0, stream.ttl, upper, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        return Ok(());
    }
    let extensions = &stream.extension_headers;
    if extensions.len() > MOST_EXTENSIONS {
        return Err(("extension_headers", format!("at most {MOST_EXTENSIONS}")));
    }
    if extensions.iter().skip(1).any(|extension| *extension == Extension::HopByHop) {
        return Err(("extension_headers", "hop-by-hop options come first (RFC 8200, 4.1)".to_owned()));
    }
    let number = |extension: &Extension| match extension {
        Extension::HopByHop => protocol::HOP_BY_HOP,
        Extension::Destination => 60,
        Extension::Routing => protocol::ROUTING,
        Extension::Fragment => protocol::FRAGMENT,
    };
    let following = extensions.iter().map(number).chain([upper]).collect::<Vec<_>>();
    headers.extend([0x60 | tos >> 4, tos << 4, 0, 0, 0, 0, following[0], stream.ttl]);
    headers.extend([0; 32]);
    for (extension, &next) in extensions.iter().zip(&following[1..]) {
        headers.extend(match extension {
            // PadN over the six bytes.
            Extension::HopByHop | Extension::Destination => [next, 0, 1, 4, 0, 0, 0, 0],
            Extension::Routing => [next, 0, 253, 0, 0, 0, 0, 0],
            Extension::Fragment => [next, 0, 0, 0, 0, 0, 0, 1],
        });
    }
    Ok(())
}

/// UDP, TCP or ICMP without ports and lengths; where in it the checksum is.
fn upper(stream: &Stream, six: bool, headers: &mut Vec<u8>) -> Result<Option<usize>, Wrong> {
    match stream.protocol {
        Protocol::Udp => {
            if six && !stream.udp_checksum {
                return Err(("udp_checksum", "must be there over IPv6 (RFC 8200, 8.1)".to_owned()));
            }
            headers.extend([0; 8]);
            Ok(stream.udp_checksum.then_some(6))
        }
        Protocol::Tcp => {
            headers.extend([
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                1,
                0,
                0,
                0,
                1,
                0x50,
                stream.tcp_flags.0,
                0xff,
                0xff,
                0,
                0,
                0,
                0,
            ]);
            Ok(Some(16))
        }
        Protocol::Icmp => {
            headers.extend([if six { 128 } else { 8 }, 0, 0, 0, 0, 0, 0, 1]);
            Ok(Some(2))
        }
    }
}

fn number_of(protocol: Protocol, six: bool) -> u8 {
    match (protocol, six) {
        (Protocol::Udp, _) => protocol::UDP,
        (Protocol::Tcp, _) => protocol::TCP,
        (Protocol::Icmp, false) => protocol::ICMP,
        (Protocol::Icmp, true) => protocol::ICMP6,
    }
}
