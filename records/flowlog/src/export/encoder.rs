//! Records into messages: IPFIX (RFC 7011, section 3) or NetFlow 9 packets (RFC 3954, section 5).
//!
//! A template is announced when the first record of its shape appears, and again by time and by
//! number of messages, for over UDP a collector may have missed it or may have been started after
//! us. With the templates go the options: the sampling interval and the interfaces' names.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::fields::{Dialect, Field, Flow, Shape, fields};
use crate::record::{Name, Record};

/// Number of the options template for the sampling interval.
const SAMPLING: u16 = 320;
/// Number of the options template for interface names.
const INTERFACES: u16 = 321;
/// Set header (IPFIX), FlowSet header (NetFlow 9).
const SET_HEADER: usize = 4;
/// How long before its start an exporter of NetFlow 9 says that it started, in seconds.
const EARLIER: u64 = 3600;

/// A whole message, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Records of the log in it: a record that is told as two flows is counted once.
    pub records: usize,
}

/// How messages are made.
#[derive(Clone, Debug)]
pub struct Style {
    /// IPFIX or NetFlow 9.
    pub dialect: Dialect,
    /// Largest message in bytes.
    pub limit: usize,
    /// Observation domain (IPFIX), source id (NetFlow 9).
    pub domain: u32,
    /// One flow in so many is told of.
    pub sampling: u32,
    /// After how long templates are announced again; absent: never (over TCP once is enough).
    pub refresh: Option<Duration>,
    /// After how many messages.
    pub refresh_messages: u32,
}

/// Makes messages of records.
#[derive(Debug)]
pub struct Encoder {
    style: Style,
    /// From when NetFlow 9 counts its times, ns since 1970.
    clock: u64,
    /// IPFIX: data records so far; NetFlow 9: packets so far. Without those of the message being
    /// made.
    sequence: u32,
    shapes: BTreeMap<Shape, Vec<Field>>,
    names: BTreeMap<u32, Name>,
    announced: Option<Instant>,
    since: u32,
    /// The message being made; empty: none.
    bytes: Vec<u8>,
    /// Where its open set begins, and that set's number.
    open: Option<(usize, u16)>,
    /// Data records in it (the sequence counts these).
    data: u32,
    /// Data records and templates in it (NetFlow 9 counts these).
    items: u16,
    /// Records of the log that it ends.
    records: usize,
    scratch: Vec<u8>,
}

impl Encoder {
    /// A new session: nothing announced, sequence at 0. `now` is ns since 1970.
    pub fn new(style: Style, now: u64) -> Encoder {
        // A whole second, as headers have it, and long enough ago that flows older than this
        // exporter have their times.
        let clock = (now / 1_000_000_000).saturating_sub(EARLIER) * 1_000_000_000;
        Encoder {
            style,
            clock,
            sequence: 0,
            shapes: BTreeMap::new(),
            names: BTreeMap::new(),
            announced: None,
            since: 0,
            bytes: Vec::new(),
            open: None,
            data: 0,
            items: 0,
            records: 0,
            scratch: Vec::new(),
        }
    }

    /// Adds a record; messages that are full go to `out`. `now` is ns since 1970.
    pub fn add(&mut self, record: &Record, now: u64, out: &mut Vec<Message>) {
        self.refresh(now, out);
        let mut news = false;
        for interface in [record.input, record.output] {
            let known = self.names.get(&interface.index);
            if interface.index != 0 && !interface.name.is_empty() && known != Some(&interface.name) {
                self.names.insert(interface.index, interface.name);
                news = true;
            }
        }
        if news {
            self.tell_interfaces(now, out);
        }
        let two = !matches!(self.style.dialect, Dialect::Ipfix { biflow: true, .. });
        self.add_flow(&Flow::forward(record), now, out);
        if two && let Some(reply) = Flow::reply(record) {
            self.add_flow(&reply, now, out);
        }
        self.records += 1;
    }

    /// Ends the message being made, if there is one.
    pub fn flush(&mut self, now: u64, out: &mut Vec<Message>) {
        self.close_set();
        if self.bytes.is_empty() {
            return;
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        let seconds = (now / 1_000_000_000) as u32;
        match self.style.dialect {
            Dialect::Ipfix { .. } => {
                let length = (bytes.len() as u16).to_be_bytes();
                bytes[2..4].copy_from_slice(&length);
                bytes[4..8].copy_from_slice(&seconds.to_be_bytes());
                bytes[8..12].copy_from_slice(&self.sequence.to_be_bytes());
                self.sequence = self.sequence.wrapping_add(self.data);
            }
            Dialect::NetFlow9 => {
                // Milliseconds since the start, at the second that the header names: collectors
                // subtract one from the other.
                let at = u64::from(seconds) * 1_000_000_000;
                let uptime = (at.saturating_sub(self.clock) / 1_000_000) as u32;
                bytes[2..4].copy_from_slice(&self.items.to_be_bytes());
                bytes[4..8].copy_from_slice(&uptime.to_be_bytes());
                bytes[8..12].copy_from_slice(&seconds.to_be_bytes());
                bytes[12..16].copy_from_slice(&self.sequence.to_be_bytes());
                self.sequence = self.sequence.wrapping_add(1);
            }
        }
        out.push(Message { bytes, records: self.records });
        self.since = self.since.saturating_add(1);
        (self.data, self.items, self.records) = (0, 0, 0);
    }

    /// Has everything announced again before the next record: the collector may be a new one.
    pub fn forget_announced(&mut self) {
        self.announced = None;
    }

    /// Begins a new transport session (RFC 7011, section 3.1 counts within one): a message half
    /// made is dropped. Returns the records that were in it.
    pub fn restart(&mut self) -> usize {
        let lost = self.records;
        self.bytes.clear();
        self.open = None;
        (self.sequence, self.data, self.items, self.records) = (0, 0, 0, 0);
        self.announced = None;
        lost
    }

    /// Announces everything again when it is time.
    fn refresh(&mut self, now: u64, out: &mut Vec<Message>) {
        let due = match (self.announced, self.style.refresh) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(at), Some(interval)) => {
                at.elapsed() >= interval || self.since >= self.style.refresh_messages
            }
        };
        if !due {
            return;
        }
        (self.announced, self.since) = (Some(Instant::now()), 0);
        for shape in self.shapes.keys().copied().collect::<Vec<_>>() {
            self.announce(shape, now, out);
        }
        self.tell_sampling(now, out);
        self.tell_interfaces(now, out);
    }

    fn add_flow(&mut self, flow: &Flow, now: u64, out: &mut Vec<Message>) {
        let shape = flow.shape();
        if !self.shapes.contains_key(&shape) {
            self.shapes.insert(shape, fields(self.style.dialect, shape));
            self.announce(shape, now, out);
        }
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        for field in &self.shapes[&shape] {
            field.fill(flow, self.clock, &mut body);
        }
        self.put(shape.id(), &body, true, now, out);
        self.scratch = body;
    }

    fn announce(&mut self, shape: Shape, now: u64, out: &mut Vec<Message>) {
        let set = if self.is_ipfix() { 2 } else { 0 };
        let fields = &self.shapes[&shape];
        let mut body = Vec::with_capacity(4 + 4 * fields.len());
        body.extend(shape.id().to_be_bytes());
        body.extend((fields.len() as u16).to_be_bytes());
        for field in fields {
            field.describe(&mut body);
        }
        self.put(set, &body, false, now, out);
    }

    /// Which part of the flows is told of: samplingInterval (34) and samplingAlgorithm (35, 2 is
    /// random). IANA has them as deprecated, and they are the ones that collectors multiply by; for
    /// flows as for packets, the product estimates the traffic.
    fn tell_sampling(&mut self, now: u64, out: &mut Vec<Message>) {
        if self.style.sampling <= 1 {
            return;
        }
        let fields: &[(u16, u16)] = &[(34, 4), (35, 1)];
        let ipfix = self.is_ipfix();
        // observationDomainId is the scope; NetFlow 9 calls it System (1).
        let scope = if ipfix { (149, 4) } else { (1, 4) };
        self.put_options_template(SAMPLING, scope, fields, now, out);
        let mut body = Vec::new();
        body.extend(self.style.domain.to_be_bytes());
        body.extend(self.style.sampling.to_be_bytes());
        body.push(2);
        self.put(SAMPLING, &body, true, now, out);
    }

    /// interfaceName (82) by ingressInterface (10; NetFlow 9's scope Interface is 2), names padded
    /// with zeros.
    fn tell_interfaces(&mut self, now: u64, out: &mut Vec<Message>) {
        if self.names.is_empty() {
            return;
        }
        let scope = if self.is_ipfix() { (10, 4) } else { (2, 4) };
        self.put_options_template(INTERFACES, scope, &[(82, 16)], now, out);
        for (index, name) in self.names.clone() {
            let mut body = Vec::with_capacity(20);
            body.extend(index.to_be_bytes());
            body.extend(name.padded());
            self.put(INTERFACES, &body, true, now, out);
        }
    }

    fn put_options_template(
        &mut self,
        id: u16,
        scope: (u16, u16),
        fields: &[(u16, u16)],
        now: u64,
        out: &mut Vec<Message>,
    ) {
        let ipfix = self.is_ipfix();
        let mut body = Vec::new();
        body.extend(id.to_be_bytes());
        match ipfix {
            true => {
                body.extend((1 + fields.len() as u16).to_be_bytes());
                body.extend(1u16.to_be_bytes());
            }
            // In bytes, not fields.
            false => {
                body.extend(4u16.to_be_bytes());
                body.extend((4 * fields.len() as u16).to_be_bytes());
            }
        }
        for (element, length) in std::iter::once(&scope).chain(fields) {
            body.extend(element.to_be_bytes());
            body.extend(length.to_be_bytes());
        }
        self.put(if ipfix { 3 } else { 1 }, &body, false, now, out);
    }

    /// Appends one record or template to a set of this number, in this message or the next.
    fn put(&mut self, set: u16, body: &[u8], data: bool, now: u64, out: &mut Vec<Message>) {
        let same = self.open.is_some_and(|(_, open)| open == set);
        // Padding to four bytes comes on top.
        let need = body.len() + 3 + if same { 0 } else { SET_HEADER + 3 };
        if !self.bytes.is_empty() && self.bytes.len() + need > self.style.limit {
            self.flush(now, out);
        }
        if self.bytes.is_empty() {
            self.begin();
        }
        if self.open.is_none_or(|(_, open)| open != set) {
            self.close_set();
            self.open = Some((self.bytes.len(), set));
            self.bytes.extend(set.to_be_bytes());
            self.bytes.extend([0, 0]);
        }
        self.bytes.extend(body);
        self.items += 1;
        self.data += u32::from(data);
    }

    fn begin(&mut self) {
        let (version, length) = if self.is_ipfix() { (10u16, 16) } else { (9, 20) };
        self.bytes.extend(version.to_be_bytes());
        self.bytes.resize(length, 0);
        let domain = self.style.domain.to_be_bytes();
        self.bytes[length - 4..].copy_from_slice(&domain);
    }

    fn close_set(&mut self) {
        if let Some((at, _)) = self.open.take() {
            // FlowSets end at a multiple of four bytes (RFC 3954, section 5.3); sets may (RFC 7011,
            // section 3.3.1).
            let length = (self.bytes.len() - at).next_multiple_of(4);
            self.bytes.resize(at + length, 0);
            self.bytes[at + 2..at + 4].copy_from_slice(&(length as u16).to_be_bytes());
        }
    }

    fn is_ipfix(&self) -> bool {
        matches!(self.style.dialect, Dialect::Ipfix { .. })
    }
}
