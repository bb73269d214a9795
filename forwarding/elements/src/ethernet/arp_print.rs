//! ARPPrint: prints ARP messages.
//!
//! Group: ethernet
//! Usage: `ARPPrint([LABEL, TIMESTAMP, ETHER, ACTIVE, OUTFILE])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Prints a line for every packet, in tcpdump's manner, and lets it pass. The packets' network
//! headers must be marked.
//!
//! - `LABEL` (string): stands in front of every line, with a colon
//! - `TIMESTAMP` (boolean): whether to print when the packet was received; default true
//! - `ETHER` (boolean): whether to print the Ethernet addresses; default false
//! - `ACTIVE` (boolean): whether to print at all; default true
//! - `OUTFILE` (file): prints there, not to standard error
//!
//! Handlers:
//! - `active` (read, write): the argument
//!
//! See also: [Print], [IPPrint], [ARPQuerier], [ARPResponder]

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Filename, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Mac, ethernet};

pub const CLASS: Class = Class {
    name: "ARPPrint",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("arp_print.rs"),
    make,
};

/// EtherType of trailer encapsulation (RFC 893).
const TRAILER: u16 = 0x1000;

struct ArpPrint {
    label: String,
    timestamp: bool,
    ether: bool,
    active: bool,
    path: Option<String>,
    file: Option<File>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let print = ArpPrint {
        label: args.optional("LABEL").unwrap_or_default(),
        timestamp: args.keyword("TIMESTAMP").unwrap_or(true),
        ether: args.keyword("ETHER").unwrap_or(false),
        active: args.keyword("ACTIVE").unwrap_or(true),
        path: args.keyword::<Filename>("OUTFILE").map(|file| file.0),
        file: None,
    };
    args.finish()?;
    Ok(Box::new(print))
}

impl ArpPrint {
    /// `None` for what is no ARP message in a form that has a line.
    fn line(&self, packet: &Packet) -> Option<String> {
        let network = packet.network_offset()?;
        let mut line = String::new();
        if !self.label.is_empty() {
            let _ = write!(line, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(line, "{}: ", unparse::timestamp(packet.annotations().timestamp));
        }
        if self.ether {
            let link = if packet.link_offset().is_some() { packet.link() } else { packet.data() };
            let far_enough = network - packet.link_offset().unwrap_or(0) >= ethernet::HEADER as isize;
            if let Ok(frame) = ethernet::Frame::parse(link)
                && far_enough
            {
                let (from, to) = (unparse::ethernet(frame.source()), unparse::ethernet(frame.destination()));
                let _ = write!(line, "{from} > {to}: ");
            }
        }
        match packet.network() {
            [h0, h1, p0, p1, hardware_length, protocol_length, o0, o1, addresses @ ..] => {
                let number = |high: &u8, low: &u8| u16::from_be_bytes([*high, *low]);
                let (hardware, protocol, operation) = (number(h0, h1), number(p0, p1), number(o0, o1));
                let is_ip = protocol == ethernet::IPV4 || protocol == TRAILER;
                // Click prints nothing of other protocols.
                if !is_ip || *protocol_length != 4 || *hardware_length == 0 {
                    return None;
                }
                if protocol == TRAILER {
                    line.push_str("trailer-");
                }
                line.push_str(&message(operation, addresses));
                if hardware != 1 {
                    let _ = write!(line, "hardware #{hardware}");
                }
            }
            short => {
                let _ = write!(line, "truncated-arp ({})", short.len());
            }
        }
        Some(line)
    }
}

/// What a message with these addresses (sender's, target's) says.
fn message(operation: u16, addresses: &[u8]) -> String {
    let mac = |at: usize| {
        let bytes = addresses.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        Mac(bytes)
    };
    let ip = |at: usize| {
        Ipv4Addr::from(addresses.get(at..).and_then(<[u8]>::first_chunk::<4>).copied().unwrap_or_default())
    };
    let (sender_mac, sender, target_mac, target) = (mac(0), ip(6), mac(10), ip(16));
    let [sender_at, target_at] = [sender_mac, target_mac].map(unparse::ethernet);
    match operation {
        1 if target_mac == Mac::ZERO => format!("arp who-has {target} tell {sender}"),
        1 => format!("arp who-has {target} ({target_at}) tell {sender}"),
        2 => format!("arp reply {sender} is-at {sender_at}"),
        3 => format!("rarp who-is {target_at} tell {sender_at}"),
        4 => format!("rarp reply {target_at} at {target}"),
        8 => format!("invarp who-is {target_at} tell {sender_at}"),
        9 => format!("invarp reply {target_at} at {target}"),
        _ => format!("arp-#{operation}"),
    }
}

impl Element for ArpPrint {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, _: &mut Context<'_>) -> Result<(), String> {
        if let Some(path) = &self.path {
            self.file = Some(File::create(path).map_err(|error| format!("{path}: {error}"))?);
        }
        Ok(())
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        if !self.active {
            return;
        }
        for packet in batch.packets() {
            let Some(mut line) = self.line(packet) else { continue };
            match &mut self.file {
                Some(file) => {
                    line.push('\n');
                    // A full disk must not stop packets.
                    let _ = file.write_all(line.as_bytes());
                }
                None => cx.say(&line),
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("active")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "active" => Ok(unparse::boolean(self.active).to_owned()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "active" => self.active = cx.argument(value)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
