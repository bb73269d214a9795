//! CheckICMPHeader: checks the length and the checksum of ICMP messages.
//!
//! Group: icmp
//! Usage: `CheckICMPHeader([VERBOSE, DETAILS])`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Expects IPv4 packets with marked headers. What is no ICMP message, is too short for its type, or
//! has a wrong checksum leaves by output 1, or is dropped when that is not connected. Says so the
//! first time.
//!
//! - `VERBOSE` (boolean): whether to say so every time; default false
//! - `DETAILS` (boolean): whether to count each kind of mistake; default false
//!
//! Handlers:
//! - `drops` (read): how many were wrong
//! - `drop_details` (read): how many for each mistake, one a line; only with `DETAILS`
//!
//! See also: [CheckIPHeader], [CheckUDPHeader], [CheckTCPHeader]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, icmp4, ipv4, protocol};

pub const CLASS: Class = Class {
    name: "CheckICMPHeader",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("check_icmp_header.rs"),
    make,
};

/// What may be wrong, in the order of `drop_details`.
#[derive(Clone, Copy)]
enum Mistake {
    NotIcmp,
    Length,
    Checksum,
}

const TEXTS: [&str; 3] = ["not ICMP", "bad packet length", "bad ICMP checksum"];

struct CheckIcmpHeader {
    verbose: bool,
    details: bool,
    drops: u64,
    by_mistake: [u64; TEXTS.len()],
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let verbose = args.keyword("VERBOSE").unwrap_or(false);
    let details = args.keyword("DETAILS").unwrap_or(false);
    args.finish()?;
    Ok(Box::new(CheckIcmpHeader { verbose, details, drops: 0, by_mistake: [0; TEXTS.len()] }))
}

fn check(packet: &Packet) -> Result<(), Mistake> {
    let bytes = packet.network();
    let ip = ipv4::Packet::parse(bytes).map_err(|_| Mistake::NotIcmp)?;
    if ip.protocol() != protocol::ICMP {
        return Err(Mistake::NotIcmp);
    }
    let icmp = bytes.get(ip.header_len()..).ok_or(Mistake::Length)?;
    let length = icmp.len() + packet.segments().skip(1).map(<[u8]>::len).sum::<usize>();
    // The header of what an error is about, and 64 bits behind it; times; nothing.
    let right = match icmp.first() {
        Some(
            &icmp4::UNREACHABLE
            | &icmp4::SOURCE_QUENCH
            | &icmp4::REDIRECT
            | &icmp4::TIME_EXCEEDED
            | &icmp4::PARAMETER_PROBLEM,
        ) => length >= icmp4::HEADER + 28,
        Some(13 | 14) => length == icmp4::HEADER + 12,
        Some(15 | 16) => length == icmp4::HEADER,
        _ => length >= icmp4::HEADER,
    };
    if !right {
        return Err(Mistake::Length);
    }
    let before = packet.len() as isize - icmp.len() as isize;
    let sum = usize::try_from(before).map(|before| super::sum_behind(packet, before));
    // In front of the data there is no chain: all of the message that is there is in one run.
    let sum = sum.unwrap_or_else(|_| wire::checksum::of(icmp));
    if sum == 0 { Ok(()) } else { Err(Mistake::Checksum) }
}

impl Element for CheckIcmpHeader {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut wrong = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            let Err(mistake) = check(packet) else { continue };
            wrong |= 1 << index;
            if self.drops == 0 || self.verbose {
                let (name, text) = (cx.name(), TEXTS[mistake as usize]);
                let line = format!("{name} :: {}: ICMP header check failed: {text}", CLASS.name);
                cx.say(&line);
            }
            self.drops += 1;
            self.by_mistake[mistake as usize] += 1;
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
            "drop_details" => {
                let lines = self.by_mistake.iter().zip(TEXTS);
                Ok(lines.map(|(count, text)| format!("{count}\t{text}\n")).collect())
            }
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
