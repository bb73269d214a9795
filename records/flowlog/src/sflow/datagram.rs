//! Samples into datagrams, bounded by size.

use std::net::IpAddr;

use flow::sample::{Fate, Sample};

/// header_protocol: Ethernet.
const ETHERNET: u32 = 1;
/// The frame checksum that the driver took off.
const STRIPPED: u32 = 4;
/// An ifindex that fits a source id (24 bits).
const LARGEST_INDEX: u32 = 0x00ff_ffff;

/// Counters of one interface, as the format's generic interface counters (if_counters) have them. A
/// number of 32 bits that is not known is `u32::MAX`, one of 64 bits `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Its ifindex.
    pub index: u32,
    /// IANA's ifType; 6: Ethernet.
    pub kind: u32,
    /// Bits a second; 0: not known.
    pub speed: u64,
    /// Full duplex.
    pub full_duplex: bool,
    /// Administratively up.
    pub admin_up: bool,
    /// Its link is up.
    pub oper_up: bool,
    /// Promiscuous.
    pub promiscuous: bool,
    /// Received.
    pub input: DirectionCounters,
    /// Packets of unknown protocols.
    pub input_unknown_protocols: u32,
    /// Sent.
    pub output: DirectionCounters,
}

/// One direction's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounters {
    /// Bytes.
    pub bytes: u64,
    /// Packets for one receiver.
    pub unicast: u32,
    /// Packets for a group.
    pub multicast: u32,
    /// Packets for all.
    pub broadcast: u32,
    /// Dropped.
    pub discards: u32,
    /// Broken.
    pub errors: u32,
}

/// Where a sample comes from, and how much it stands for.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// ifindex of the port.
    pub input: u32,
    /// Which sample of this port, from 1.
    pub sequence: u32,
    /// One in so many.
    pub rate: u32,
    /// Packets that could have been sampled so far.
    pub pool: u32,
    /// Samples that were dropped so far.
    pub drops: u32,
}

/// Puts samples into datagrams.
#[derive(Debug)]
pub struct Datagrams {
    agent: IpAddr,
    limit: usize,
    sequence: u32,
    samples: u32,
    bytes: Vec<u8>,
}

impl Datagrams {
    /// For this agent; a datagram has at most `limit` bytes (at least 512).
    pub fn new(agent: IpAddr, limit: usize) -> Datagrams {
        Datagrams { agent, limit: limit.max(512), sequence: 0, samples: 0, bytes: Vec::new() }
    }

    /// Adds a sampled packet.
    pub fn packet(&mut self, source: Source, sample: &Sample, uptime: u32, out: &mut Vec<Vec<u8>>) {
        let mut body = Vec::with_capacity(400);
        words(&mut body, &[source.sequence, index(source.input), source.rate, source.pool, source.drops]);
        let output = match sample.fate {
            Fate::Forwarded(port) => index(port),
            Fate::Dropped => 0x4000_0000,
            Fate::Local => 0x3fff_ffff,
            Fate::Unknown => 0,
        };
        let switched = sample.input_vlan != 0 || sample.output_vlan != 0;
        // To a collector zeros are a default route on the link, not that nobody looked.
        let known = sample.next_hop.is_some() || sample.source_prefix != 0 || sample.destination_prefix != 0;
        let routed = known && matches!(sample.fate, Fate::Forwarded(_));
        words(&mut body, &[index(source.input), output, 1 + u32::from(switched) + u32::from(routed)]);

        let header = sample.header();
        let padded = header.len().next_multiple_of(4);
        words(&mut body, &[1, 16 + padded as u32, ETHERNET, sample.length + STRIPPED, STRIPPED]);
        words(&mut body, &[header.len() as u32]);
        body.extend(header);
        body.resize(body.len() + padded - header.len(), 0);
        if switched {
            // extended_switch: VLAN and priority, in and out.
            let (input, output) = (u32::from(sample.input_vlan), u32::from(sample.output_vlan));
            words(&mut body, &[1001, 16, input, 0, output, 0]);
        }
        if routed {
            // extended_router: next hop, bits of the prefixes.
            let hop = sample.next_hop.unwrap_or(IpAddr::from([0; 4]));
            words(&mut body, &[1002, if hop.is_ipv4() { 16 } else { 28 }]);
            address(&mut body, hop);
            words(&mut body, &[u32::from(sample.source_prefix), u32::from(sample.destination_prefix)]);
        }
        self.put(1, &body, uptime, out);
    }

    /// Adds an interface's counters; `sequence` counts from 1 for each interface.
    pub fn counters(
        &mut self,
        sequence: u32,
        counters: &InterfaceCounters,
        uptime: u32,
        out: &mut Vec<Vec<u8>>,
    ) {
        let mut body = Vec::with_capacity(108);
        words(&mut body, &[sequence, index(counters.index), 1, 1, 88]);
        words(&mut body, &[counters.index, counters.kind]);
        body.extend(counters.speed.to_be_bytes());
        let duplex = if counters.full_duplex { 1 } else { 2 };
        let status = u32::from(counters.admin_up) | u32::from(counters.oper_up) << 1;
        words(&mut body, &[duplex, status]);
        let direction = |body: &mut Vec<u8>, of: &DirectionCounters| {
            body.extend(of.bytes.to_be_bytes());
            words(body, &[of.unicast, of.multicast, of.broadcast, of.discards, of.errors]);
        };
        direction(&mut body, &counters.input);
        words(&mut body, &[counters.input_unknown_protocols]);
        direction(&mut body, &counters.output);
        words(&mut body, &[u32::from(counters.promiscuous)]);
        self.put(2, &body, uptime, out);
    }

    /// Ends the datagram being made, if there is one.
    pub fn flush(&mut self, out: &mut Vec<Vec<u8>>) {
        if self.samples == 0 {
            return;
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        let at = self.header_length();
        bytes[at - 4..at].copy_from_slice(&self.samples.to_be_bytes());
        self.samples = 0;
        out.push(bytes);
    }

    fn header_length(&self) -> usize {
        if self.agent.is_ipv4() { 28 } else { 40 }
    }

    fn put(&mut self, format: u32, body: &[u8], uptime: u32, out: &mut Vec<Vec<u8>>) {
        if self.samples > 0 && self.bytes.len() + 8 + body.len() > self.limit {
            self.flush(out);
        }
        if self.samples == 0 {
            self.sequence = self.sequence.wrapping_add(1);
            words(&mut self.bytes, &[5]);
            address(&mut self.bytes, self.agent);
            words(&mut self.bytes, &[0, self.sequence, uptime, 0]);
        }
        words(&mut self.bytes, &[format, body.len() as u32]);
        self.bytes.extend(body);
        self.samples += 1;
    }
}

/// An interface that the format has no number for is told as unknown (0).
fn index(index: u32) -> u32 {
    if index > LARGEST_INDEX { 0 } else { index }
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend(word.to_be_bytes());
    }
}

fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(four) => {
            words(out, &[1]);
            out.extend(four.octets());
        }
        IpAddr::V6(six) => {
            words(out, &[2]);
            out.extend(six.octets());
        }
    }
}
