//! ICMPPingSource: sends ICMP echo requests, and keeps account of the replies.
//!
//! Group: icmp
//! Usage: `ICMPPingSource(SRC, DST [, INTERVAL, IDENTIFIER, DATA, LIMIT, ACTIVE, VERBOSE, STOP])`
//! Ports: 0 or 1 input, 1 output; input push, output agnostic
//!
//! Sends a request every `INTERVAL`, or on a pull output whenever one is asked for. Their sequence
//! numbers begin with 1. Replies that are led to the input are reported, a line each, and give the
//! statistics that `ping` gives; they are printed when the run ends, too. Identifier and sequence
//! number are in this machine's byte order.
//!
//! - `SRC` (IPv4 address): who asks
//! - `DST` (IPv4 address): who is asked
//! - `INTERVAL` (time): default 1 second
//! - `IDENTIFIER` (number to 65535): default 0
//! - `DATA` (string): what the requests carry; default nothing
//! - `LIMIT` (number): how many requests to send; default -1: without end
//! - `ACTIVE` (boolean): whether to send; default true
//! - `VERBOSE` (boolean): whether to print reports; default true
//! - `STOP` (boolean): whether to stop the run after the last; default false
//!
//! Handlers:
//! - `active`, `src`, `dst` (read, write): the arguments
//! - `limit`, `interval` (write): the arguments
//! - `count` (read): how many requests were sent
//! - `reset_counts` (write): sets all counts to 0
//! - `summary` (read): requests, replies, loss and round-trip times; these and the following only
//!   with an input
//! - `rtt_min`, `rtt_avg`, `rtt_max` (read): round-trip times in seconds
//!
//! See also: [ICMPPingEncap], [ICMPPingResponder]
//!
//! # ICMPSendPings: the old name of ICMPPingSource.
//!
//! Group: icmp
//! Usage: `ICMPSendPings(SRC, DST [, INTERVAL, IDENTIFIER, DATA, LIMIT, ACTIVE, VERBOSE, STOP])`
//! Ports: 0 or 1 input, 1 output; input push, output agnostic
//!
//! See [ICMPPingSource].
//!
//! See also: [ICMPPingSource]

use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Bytes, Refused, Seconds, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{checksum, icmp4, ipv4, protocol};

pub const CLASS: Class = Class {
    name: "ICMPPingSource",
    ports: "0-1/1",
    processing: "h/a",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("icmp_ping_source.rs"),
    make,
};

/// The class `ICMPSendPings`.
pub const OLD_NAME: Class = Class { name: "ICMPSendPings", ..CLASS };

/// Time to live of requests, as Click's.
const TTL: u8 = 200;

struct IcmpPingSource {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    /// Nanoseconds.
    interval: u64,
    identifier: u16,
    data: Vec<u8>,
    /// Negative: without end.
    limit: i32,
    active: bool,
    verbose: bool,
    stop: bool,
    count: i32,
    /// When the timer was to expire last.
    due: u64,
    replies: Option<Replies>,
    /// The element as its reports call it, once it works.
    declaration: String,
}

/// What is known of replies.
struct Replies {
    received: u64,
    duplicates: u64,
    /// Round-trip times in microseconds.
    least: u32,
    most: u32,
    sum: u64,
    squares: u64,
    /// When the request of each sequence number was sent (nanoseconds since 1970); negative: it was
    /// answered. 0: never.
    sent: Vec<i64>,
}

impl Replies {
    fn new() -> Replies {
        let sent = vec![0; 1 << 16];
        Replies { received: 0, duplicates: 0, least: 0, most: 0, sum: 0, squares: 0, sent }
    }

    /// Notes a reply; its round-trip time, 0 when it is not known, or `None` when nobody asked for
    /// it.
    fn note(&mut self, sequence: u16, at: i64) -> Option<u32> {
        let sent = self.sent.get_mut(usize::from(sequence)).filter(|sent| **sent != 0)?;
        self.duplicates += u64::from(*sent < 0);
        let time = if at == 0 { 0 } else { (at.saturating_sub(sent.saturating_abs()) / 1000) as u32 };
        *sent = -sent.saturating_abs();
        if at != 0 {
            let first = self.received == 0;
            self.least = if first { time } else { self.least.min(time) };
            self.most = if first { time } else { self.most.max(time) };
            self.sum = self.sum.wrapping_add(time.into());
            self.squares = self.squares.wrapping_add(u64::from(time).wrapping_mul(time.into()));
        }
        self.received += 1;
        Some(time)
    }

    fn average(&self) -> u64 {
        self.sum / self.received.max(1)
    }

    fn summary(&self, count: i32) -> String {
        let answered = self.received - self.duplicates;
        let mut text = format!("{count} packets transmitted, {answered} received");
        if self.duplicates != 0 {
            text += &format!(", +{} duplicates", self.duplicates);
        }
        if count != 0 {
            let lost = i64::from(count) - (self.received + self.duplicates) as i64;
            text += &format!(", {}% packet loss\n", lost * 100 / i64::from(count));
        }
        if let Some(square) = self.squares.checked_div(self.received) {
            let average = self.average();
            let variance = square.saturating_sub(average * average);
            let times = [self.least.into(), average, self.most.into(), variance.isqrt()];
            let [least, average, most, deviation] =
                times.map(|time| format!("{}.{:03}", time / 1000, time % 1000));
            text += &format!("rtt min/avg/max/mdev = {least}/{average}/{most}/{deviation}\n");
        }
        text
    }
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (source, destination) = (args.mandatory("SRC"), args.mandatory("DST"));
    let interval = args.keyword::<Seconds>("INTERVAL");
    let identifier = args.keyword("IDENTIFIER").unwrap_or(0);
    let data = args.keyword::<Bytes>("DATA").map_or(Vec::new(), |data| data.0);
    let limit = args.keyword("LIMIT").unwrap_or(-1);
    let active = args.keyword("ACTIVE").unwrap_or(true);
    let verbose = args.keyword("VERBOSE").unwrap_or(true);
    let stop = args.keyword("STOP").unwrap_or(false);
    let interval = interval.map_or(1_000_000_000, nanoseconds);
    if interval == 0 {
        args.strange("INTERVAL", "so small that it is zero");
    }
    args.finish()?;
    Ok(Box::new(IcmpPingSource {
        source: source.ok_or(Refused)?,
        destination: destination.ok_or(Refused)?,
        interval,
        identifier,
        data,
        limit,
        active,
        verbose,
        stop,
        count: 0,
        due: 0,
        replies: None,
        declaration: String::new(),
    }))
}

/// Click counts whole milliseconds.
fn nanoseconds(time: Seconds) -> u64 {
    time.0.unsigned_abs() / 1_000_000 * 1_000_000
}

impl IcmpPingSource {
    fn may_send(&self) -> bool {
        self.limit < 0 || self.count < self.limit
    }

    /// The next request, counted as sent.
    fn request(&mut self, wall: i64) -> Option<Packet> {
        let number = (self.count % 0xffff + 1) as u16;
        let mut message = vec![0; icmp4::HEADER];
        message[0] = icmp4::ECHO;
        message[4..6].copy_from_slice(&self.identifier.to_ne_bytes());
        message[6..8].copy_from_slice(&number.to_ne_bytes());
        message.extend_from_slice(&self.data);
        let sum = checksum::of(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let header = ipv4::Repr {
            id: number,
            ttl: TTL,
            protocol: protocol::ICMP,
            ..ipv4::Repr::new(self.source, self.destination)
        };
        let bytes = [&header.header(message.len())[..], &message].concat();
        let mut packet = Packet::new(&bytes)?;
        packet.set_network(0);
        packet.set_transport(Some(ipv4::HEADER as isize));
        packet.annotations_mut().timestamp = wall;
        packet.destination = self.destination.octets();
        if let Some(sent) =
            self.replies.as_mut().and_then(|replies| replies.sent.get_mut(usize::from(number)))
        {
            *sent = wall;
        }
        self.count = self.count.wrapping_add(1).max(0);
        Some(packet)
    }

    fn set_timer(&mut self, at: u64, cx: &mut Context<'_>) {
        self.due = at;
        cx.set_timer(0, at);
    }

    /// Begins to send again, if there is something to send and nothing set.
    fn resume(&mut self, after: u64, cx: &mut Context<'_>) {
        if self.may_send() && self.active && cx.timer(0).is_none() && !cx.output_is_pull(0) {
            let at = cx.now() + after;
            self.set_timer(at, cx);
        }
    }

    fn reply(&mut self, packet: &Packet, cx: &mut Context<'_>) {
        let (bytes, Some(replies)) = (packet.network(), &mut self.replies) else { return };
        let Ok(ip) = ipv4::Packet::parse(bytes) else { return };
        let Ok(icmp) = icmp4::Message::parse(bytes.get(ip.header_len()..).unwrap_or_default()) else {
            return;
        };
        let [i0, i1, s0, s1] = icmp.word().to_be_bytes();
        let ours = ip.protocol() == protocol::ICMP
            && icmp.icmp_type() == icmp4::ECHO_REPLY
            && u16::from_ne_bytes([i0, i1]) == self.identifier;
        if !ours {
            return;
        }
        let sequence = u16::from_ne_bytes([s0, s1]);
        let Some(time) = replies.note(sequence, packet.annotations().timestamp) else { return };
        if self.verbose {
            let length = i32::from(ip.total_len()) - (ip.header_len() + icmp4::HEADER) as i32;
            cx.say(&format!(
                "{}: {length} bytes from {}: icmp_seq={sequence} ttl={} time={}.{:03} ms",
                self.declaration,
                ip.source(),
                ip.ttl(),
                time / 1000,
                time % 1000
            ));
        }
    }
}

impl Element for IcmpPingSource {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.declaration = format!("{} :: {}", cx.name(), CLASS.name);
        self.replies = (cx.input_count() > 0).then(Replies::new);
        self.resume(self.interval, cx);
        Ok(())
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        let wall = cx.wall();
        let next = self.due + self.interval;
        let Some(request) = self.request(wall) else {
            // No packet memory now; there may be some the next time.
            return self.set_timer(next, cx);
        };
        cx.emit(0, request);
        if self.may_send() {
            self.set_timer(next, cx);
        } else if self.stop {
            cx.stop();
        }
    }

    fn pull(&mut self, _: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let wall = cx.wall();
        while batch.len() < quota {
            if !self.may_send() {
                if self.stop {
                    cx.stop();
                }
                return;
            }
            let Some(request) = self.request(wall) else { return };
            if batch.push(request).is_err() {
                return;
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.packets() {
            self.reply(packet, cx);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let both = ["active", "src", "dst"].map(Handler::read_write);
        let write = ["limit", "interval", "reset_counts"].map(Handler::write);
        let replies: &[&str] =
            if self.replies.is_some() { &["summary", "rtt_min", "rtt_avg", "rtt_max"] } else { &[] };
        let replies = replies.iter().map(|name| Handler::read(*name));
        both.into_iter().chain([Handler::read("count")]).chain(write).chain(replies).collect()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match (handler, &self.replies) {
            ("active", _) => unparse::boolean(self.active).to_owned(),
            ("src", _) => self.source.to_string(),
            ("dst", _) => self.destination.to_string(),
            ("count", _) => self.count.to_string(),
            ("summary", Some(replies)) => replies.summary(self.count),
            ("rtt_min", Some(replies)) => unparse::decimal(replies.least.into(), 6),
            ("rtt_avg", Some(replies)) => unparse::decimal(replies.average(), 6),
            ("rtt_max", Some(replies)) => unparse::decimal(replies.most.into(), 6),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "active" => {
                self.active = cx.argument(value)?;
                if !self.active {
                    cx.clear_timer(0);
                } else if cx.timer(0).is_none() && !cx.output_is_pull(0) {
                    let now = cx.now();
                    self.set_timer(now, cx);
                }
            }
            "src" => self.source = cx.argument(value)?,
            "dst" => self.destination = cx.argument(value)?,
            "limit" => {
                self.limit =
                    cx.argument(value).map_err(|_| HandlerError::refused("'limit' should be integer"))?;
                self.resume(self.interval, cx);
            }
            "interval" => {
                let interval = cx.argument::<Seconds>(value);
                let wrong = |_| HandlerError::refused("'interval' should be an interval");
                self.interval = nanoseconds(interval.map_err(wrong)?);
            }
            "reset_counts" => {
                self.count = 0;
                self.replies = self.replies.take().map(|_| Replies::new());
                self.resume(self.interval, cx);
            }
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}

/// The run ends: that is when `ping` sums up.
impl Drop for IcmpPingSource {
    fn drop(&mut self) {
        if let Some(replies) = self.replies.as_ref().filter(|_| self.verbose) {
            for line in replies.summary(self.count).lines() {
                eprintln!("{}: {line}", self.declaration);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sums_up_as_ping_does() {
        let mut replies = Replies::new();
        assert_eq!(replies.summary(0), "0 packets transmitted, 0 received");
        replies.sent[1..=3].fill(1_000_000);
        assert_eq!(replies.note(1, 2_000_000), Some(1000));
        assert_eq!(replies.note(2, 4_001_000), Some(3001));
        assert_eq!(replies.note(7, 4_001_000), None);
        assert_eq!(
            replies.summary(4),
            "4 packets transmitted, 2 received, 50% packet loss\nrtt min/avg/max/mdev = 1.000/2.000/3.001/1.001\n"
        );
        assert_eq!(replies.note(1, 0), Some(0));
        assert_eq!((replies.received, replies.duplicates), (3, 1));
    }
}
