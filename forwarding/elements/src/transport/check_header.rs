//! # CheckTCPHeader: checks TCP headers.
//!
//! Group: transport
//! Usage: `CheckTCPHeader([keywords VERBOSE, DETAILS])`
//! Ports: 1 input, 1-2 outputs; agnostic, second output push
//!
//! Expects IPv4 packets with marked headers, as CheckIPHeader leaves them. Checks that each carries
//! TCP, is as long as it says and has a whole TCP header in it, and that the checksum adds up. What
//! is right leaves by output 0; what is wrong by output 1, or is dropped when that isn't connected;
//! the first one is told of.
//!
//! - `VERBOSE` (boolean): tells of every wrong packet, not only the first. Default false.
//! - `DETAILS` (boolean): counts wrong packets by what was wrong. Default false.
//!
//! Handlers:
//! - `drops` (read): how many packets were wrong
//! - `drop_details` (read): how many for each reason; only with `DETAILS`
//!
//! See also: [CheckIPHeader], [CheckUDPHeader], [CheckICMPHeader], [SetTCPChecksum]
//!
//! # CheckUDPHeader: checks UDP headers.
//!
//! Group: transport
//! Usage: `CheckUDPHeader([keywords VERBOSE, DETAILS])`
//! Ports: 1 input, 1-2 outputs; agnostic, second output push
//!
//! As [CheckTCPHeader], for UDP. A checksum of 0 means that there is none, and is right.
//!
//! - `VERBOSE` (boolean): tells of every wrong packet, not only the first. Default false.
//! - `DETAILS` (boolean): counts wrong packets by what was wrong. Default false.
//!
//! Handlers:
//! - `drops` (read): how many packets were wrong
//! - `drop_details` (read): how many for each reason; only with `DETAILS`
//!
//! See also: [CheckIPHeader], [CheckTCPHeader], [CheckICMPHeader], [SetUDPChecksum]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, ipv4, protocol, tcp, udp};

use super::{length_behind, sum_behind};

/// See [`CheckHeader`].
pub const CHECK_TCP_HEADER: Class = Class {
    name: "CheckTCPHeader",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("check_header.rs"),
    make: |args, _| make(args, Protocol::Tcp),
};
/// See [`CheckHeader`].
pub const CHECK_UDP_HEADER: Class = Class {
    name: "CheckUDPHeader",
    make: |args: &mut Arguments<'_>, _: &mut Setup<'_>| make(args, Protocol::Udp),
    ..CHECK_TCP_HEADER
};

#[derive(Clone, Copy)]
enum Protocol {
    Tcp,
    Udp,
}

/// What may be wrong, in the order of `drop_details`.
#[derive(Clone, Copy)]
enum Fault {
    Protocol,
    Length,
    Checksum,
}

/// Checks transport headers.
struct CheckHeader {
    protocol: Protocol,
    verbose: bool,
    details: bool,
    drops: u32,
    by_fault: [u32; 3],
}

fn make(args: &mut Arguments<'_>, protocol: Protocol) -> Result<Box<dyn Element>, Refused> {
    let verbose = args.keyword("VERBOSE").unwrap_or(false);
    let details = args.keyword("DETAILS").unwrap_or(false);
    args.finish()?;
    Ok(Box::new(CheckHeader { protocol, verbose, details, drops: 0, by_fault: [0; 3] }))
}

impl Protocol {
    fn check(self, packet: &Packet) -> Result<(), Fault> {
        let ip = ipv4::Packet::parse(packet.network()).map_err(|_| Fault::Protocol)?;
        let behind = packet.network().get(ip.header_len()..).unwrap_or_default();
        let (length, checked) = match self {
            Protocol::Tcp if ip.protocol() == protocol::TCP => {
                let segment = tcp::Segment::parse(behind).map_err(|_| Fault::Length)?;
                let length = usize::from(ip.total_len()) - ip.header_len();
                if length < segment.header_len() {
                    return Err(Fault::Length);
                }
                (length, true)
            }
            Protocol::Udp if ip.protocol() == protocol::UDP => {
                let datagram = udp::Datagram::parse(behind).map_err(|_| Fault::Length)?;
                (datagram.length().into(), datagram.checksum() != 0)
            }
            _ => return Err(Fault::Protocol),
        };
        if length_behind(packet, &ip) < length {
            return Err(Fault::Length);
        }
        if checked && sum_behind(packet, &ip, length).finish() != 0 {
            return Err(Fault::Checksum);
        }
        Ok(())
    }

    fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        }
    }

    fn text(self, fault: Fault) -> String {
        match fault {
            Fault::Protocol => format!("not {}", self.name()),
            Fault::Length => "bad packet length".to_owned(),
            Fault::Checksum => format!("bad {} checksum", self.name()),
        }
    }
}

impl CheckHeader {
    #[cold]
    fn count(&mut self, fault: Fault, cx: &mut Context<'_>) {
        if self.drops == 0 || self.verbose {
            let (protocol, text) = (self.protocol.name(), self.protocol.text(fault));
            let line = format!("{protocol} header check failed: {text}");
            match self.protocol {
                Protocol::Tcp => {
                    let line = format!("{} :: {}: {line}", cx.name(), self.class());
                    cx.say(&line);
                }
                Protocol::Udp => cx.say(&line),
            }
        }
        self.drops = self.drops.wrapping_add(1);
        let count = &mut self.by_fault[fault as usize];
        *count = count.wrapping_add(1);
    }
}

impl Element for CheckHeader {
    fn class(&self) -> &'static str {
        match self.protocol {
            Protocol::Tcp => CHECK_TCP_HEADER.name,
            Protocol::Udp => CHECK_UDP_HEADER.name,
        }
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut wrong = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            if let Err(fault) = self.protocol.check(packet) {
                wrong |= 1 << index;
                self.count(fault, cx);
            }
        }
        if wrong != 0 && cx.has_output(1) {
            cx.emit_some(1, batch, wrong);
        } else {
            batch.take(wrong, |_, packet| cx.drop(packet, Reason::Malformed));
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let details = self.details.then(|| Handler::read("drop_details"));
        [Handler::read("drops")].into_iter().chain(details).collect()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            "drop_details" if self.details => {
                let faults = [Fault::Protocol, Fault::Length, Fault::Checksum];
                let counts = faults.iter().zip(self.by_fault);
                Ok(counts
                    .map(|(fault, count)| format!("{count}\t{}\n", self.protocol.text(*fault)))
                    .collect())
            }
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_checked(mut bytes in prop::collection::vec(any::<u8>(), 0..80), tcp: bool) {
            Pool::heap(4).install();
            if let Some(header) = bytes.first_chunk_mut::<20>() {
                header[0] = 0x45;
                header[2..4].copy_from_slice(&[0, 50]);
                header[9] = if tcp { protocol::TCP } else { protocol::UDP };
            }
            let mut packet = Packet::new(&bytes).unwrap();
            packet.set_network(0);
            let _ = (Protocol::Tcp.check(&packet), Protocol::Udp.check(&packet));
        }
    }
}
