//! # CheckIPHeader: checks IPv4 headers.
//!
//! Group: ip
//! Usage: `CheckIPHeader([OFFSET] [, keywords OFFSET, INTERFACES, BADSRC, GOODDST, CHECKSUM, VERBOSE, DETAILS])`
//! Ports: 1 input, 1-2 outputs; agnostic, second output push
//!
//! Expects an IPv4 header `OFFSET` bytes behind the front of each packet. Checks that the packet is
//! long enough, that version, header length and total length make sense, that the header adds up,
//! and that the source is no address that no sender can have (RFC 1812, 5.2.2 and 5.3.7). What is
//! right leaves by output 0, with padding behind the packet cut off, its network and transport
//! headers marked, and its destination in the destination address annotation. What is wrong leaves
//! by output 1, or is dropped when that isn't connected; the first one is told of.
//!
//! The old form `CheckIPHeader(BADSRC [, OFFSET])` takes 0.0.0.0 and 255.255.255.255 as bad sources
//! as well.
//!
//! - `OFFSET` (number of bytes): where the header begins. Default 0.
//! - `INTERFACES` (addresses with prefixes): this router's. Their broadcast addresses, 0.0.0.0 and
//!   255.255.255.255 are bad sources, the addresses themselves good destinations.
//! - `BADSRC` (addresses): sources that no packet may have.
//! - `GOODDST` (addresses): a packet to one of them may have any source.
//! - `CHECKSUM` (boolean): whether the checksum is checked. Default true.
//! - `VERBOSE` (boolean): tells of every wrong packet, not only the first. Default false.
//! - `DETAILS` (boolean): counts wrong packets by what was wrong. Default false.
//!
//! Handlers:
//! - `drops` (read): how many packets were wrong.
//! - `drop_details` (read): how many for each reason; only with `DETAILS`.
//!
//! See also: [CheckIPHeader2], [MarkIPHeader], [SetIPChecksum], [StripIPHeader]
//!
//! # CheckIPHeader2: checks IPv4 headers, but not their checksums.
//!
//! Group: ip
//! Usage: `CheckIPHeader2([OFFSET] [, keywords OFFSET, INTERFACES, BADSRC, GOODDST, CHECKSUM, VERBOSE, DETAILS])`
//! Ports: 1 input, 1-2 outputs; agnostic, second output push
//!
//! As [CheckIPHeader], with `CHECKSUM false` unless something else is said.
//!
//! See also: [CheckIPHeader], [MarkIPHeader]

use std::net::Ipv4Addr;

use graph::arguments::{AddressOrPrefix4, Argument, Arguments, Refused, Scope};
use graph::language::split_words;
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, checksum};

/// See [`CheckIpHeader`].
pub const CHECK_IP_HEADER: Class = Class {
    name: "CheckIPHeader",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("check_ip_header.rs"),
    make: |args, _| make(args, "CheckIPHeader", true),
};
/// See [`CheckIpHeader`].
pub const CHECK_IP_HEADER2: Class = Class {
    name: "CheckIPHeader2",
    make: |args: &mut Arguments<'_>, _: &mut Setup<'_>| make(args, "CheckIPHeader2", false),
    ..CHECK_IP_HEADER
};

/// Checks IPv4 headers.
pub struct CheckIpHeader {
    class: &'static str,
    check: Check,
    verbose: bool,
    details: bool,
    drops: u32,
    by_fault: [u32; FAULTS.len()],
}

/// What is asked of a header.
pub(super) struct Check {
    pub offset: usize,
    pub addresses: Addresses,
    pub checksum: bool,
}

/// Sources that no packet may have, unless its destination is one of the good ones.
#[derive(Default)]
pub(super) struct Addresses {
    bad_sources: Vec<u32>,
    /// Has a bit for each bad source: most good ones are known as such by one look.
    filter: u64,
    good_destinations: Vec<u32>,
}

/// What may be wrong, in the order of `drop_details`.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    Tiny,
    Version,
    HeaderLength,
    TotalLength,
    Checksum,
    Source,
}

const FAULTS: [(&str, Reason); 6] = [
    ("tiny packet", Reason::Truncated),
    ("bad IP version", Reason::BadVersion),
    ("bad IP header length", Reason::BadHeaderLength),
    ("bad IP length", Reason::BadTotalLength),
    ("bad IP checksum", Reason::BadChecksum),
    ("bad source address", Reason::MartianSource),
];

impl Fault {
    /// What the packet is dropped for.
    pub fn reason(self) -> Reason {
        FAULTS[self as usize].1
    }
}

/// This router's addresses with their networks.
struct Interfaces {
    addresses: Vec<Ipv4Addr>,
    broadcasts: Vec<Ipv4Addr>,
}

impl Argument for Interfaces {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Interfaces, String> {
        let mut interfaces = Interfaces { addresses: Vec::new(), broadcasts: Vec::new() };
        for word in split_words(text) {
            let AddressOrPrefix4(prefix) = AddressOrPrefix4::parse(word, scope)?;
            interfaces.addresses.push(prefix.address);
            interfaces.broadcasts.push(prefix.broadcast());
        }
        Ok(interfaces)
    }
}

/// What the first argument without a keyword may be.
enum First {
    Offset(u32),
    BadSources(Vec<Ipv4Addr>),
}

impl Argument for First {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<First, String> {
        u32::parse(text, scope)
            .map(First::Offset)
            .or_else(|_| Argument::parse(text, scope).map(First::BadSources))
    }
}

/// Sources that nobody has, whatever the networks are.
const NOBODY: [Ipv4Addr; 2] = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST];

fn make(args: &mut Arguments<'_>, class: &'static str, checksum: bool) -> Result<Box<dyn Element>, Refused> {
    let mut offset = args.keyword::<u32>("OFFSET").unwrap_or(0);
    let mut addresses = Addresses::read(args);
    let verbose = args.keyword("VERBOSE").unwrap_or(false);
    let details = args.keyword("DETAILS").unwrap_or(false);
    let checksum = args.keyword("CHECKSUM").unwrap_or(checksum);
    match args.optional::<First>("BADSRC") {
        Some(First::Offset(first)) => offset = first,
        Some(First::BadSources(bad)) => {
            addresses.add_bad_sources(&bad);
            offset = args.optional("OFFSET").unwrap_or(offset);
        }
        None => {}
    }
    args.finish()?;
    Ok(Box::new(CheckIpHeader {
        class,
        check: Check { offset: offset as usize, addresses, checksum },
        verbose,
        details,
        drops: 0,
        by_fault: [0; FAULTS.len()],
    }))
}

impl Addresses {
    /// Reads `INTERFACES`, `BADSRC` and `GOODDST`.
    pub fn read(args: &mut Arguments<'_>) -> Addresses {
        let mut addresses = Addresses::default();
        if let Some(interfaces) = args.keyword::<Interfaces>("INTERFACES") {
            addresses.add_bad_sources(&interfaces.broadcasts);
            addresses.good_destinations.extend(interfaces.addresses.into_iter().map(u32::from));
        }
        let bad = args.keyword::<Vec<Ipv4Addr>>("BADSRC").unwrap_or_default();
        addresses.add(bad.into_iter());
        let good = args.keyword::<Vec<Ipv4Addr>>("GOODDST").unwrap_or_default();
        addresses.good_destinations.extend(good.into_iter().map(u32::from));
        addresses
    }

    /// Adds sources, and those that nobody has.
    pub fn add_bad_sources(&mut self, sources: &[Ipv4Addr]) {
        self.add(sources.iter().chain(&NOBODY).copied());
    }

    fn add(&mut self, sources: impl Iterator<Item = Ipv4Addr>) {
        for source in sources.map(u32::from) {
            self.bad_sources.push(source);
            self.filter |= filter_bit(source);
        }
    }

    #[inline(always)]
    fn is_bad(&self, source: u32) -> bool {
        self.filter & filter_bit(source) != 0 && self.bad_sources.contains(&source)
    }
}

impl Check {
    /// Marks the packets of a batch that are right, and cuts off what is behind them. The others
    /// are told by their bits, and what is wrong with them by their index.
    #[inline(always)]
    pub fn wrong(&self, batch: &mut Batch) -> Option<(u64, [Fault; BATCH])> {
        let mut wrong = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            wrong |= u64::from(!self.passes(packet)) << index;
        }
        if wrong == 0 { None } else { Some(self.faults(batch, wrong)) }
    }

    #[cold]
    fn faults(&self, batch: &mut Batch, mut wrong: u64) -> (u64, [Fault; BATCH]) {
        let mut faults = [Fault::Tiny; BATCH];
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            if wrong >> index & 1 != 0 {
                match self.check(packet) {
                    Ok(()) => wrong &= !(1 << index),
                    Err(fault) => faults[index] = fault,
                }
            }
        }
        (wrong, faults)
    }

    /// Whether the packet is of the usual kind, with nothing to object to or to cut off; it is
    /// marked then. The rest is left to `check`.
    #[inline(always)]
    fn passes(&self, packet: &mut Packet) -> bool {
        let Some(header) = header(packet, self.offset) else { return false };
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let (source, destination) = addresses(header);
        let good = header[0] == 0x45
            && self.offset + total == packet.len()
            && total >= 20
            && packet.segment_count() == 1
            && (!self.checksum || checksum::verify_header(header))
            && !self.addresses.is_bad(source);
        if good {
            mark(packet, self.offset, destination);
        }
        good
    }

    #[cold]
    fn check(&self, packet: &mut Packet) -> Result<(), Fault> {
        let length = packet.total_len().saturating_sub(self.offset);
        let header = header(packet, self.offset).ok_or(Fault::Tiny)?;
        if header[0] >> 4 != 4 {
            return Err(Fault::Version);
        }
        let header_length = usize::from(header[0] & 15) * 4;
        if header_length < 20 {
            return Err(Fault::HeaderLength);
        }
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if total > length || total < header_length {
            return Err(Fault::TotalLength);
        }
        let (source, destination) = addresses(header);
        let whole = packet.data().get(self.offset..self.offset + header_length).ok_or(Fault::TotalLength)?;
        if self.checksum && !checksum::verify(whole) {
            return Err(Fault::Checksum);
        }
        if self.addresses.is_bad(source) && !self.addresses.good_destinations.contains(&destination) {
            return Err(Fault::Source);
        }
        if length > total {
            packet.truncate(self.offset + total);
        }
        mark(packet, self.offset, destination);
        Ok(())
    }
}

impl CheckIpHeader {
    #[cold]
    fn reject(&mut self, packet: Packet, fault: Fault, cx: &mut Context<'_>) {
        let (what, reason) = FAULTS[fault as usize];
        if self.drops == 0 || self.verbose {
            let line = format!("{}: IP header check failed: {what}", cx.name());
            cx.say(&line);
        }
        self.drops = self.drops.wrapping_add(1);
        self.by_fault[fault as usize] = self.by_fault[fault as usize].wrapping_add(1);
        if cx.has_output(1) {
            cx.emit(1, packet);
        } else {
            cx.drop(packet, reason);
        }
    }
}

/// The 20 bytes behind `offset`; `None` when the first segment does not have them.
#[inline(always)]
fn header(packet: &Packet, offset: usize) -> Option<&[u8; 20]> {
    packet.data().get(offset..)?.first_chunk()
}

/// Source and destination.
#[inline(always)]
fn addresses(header: &[u8; 20]) -> (u32, u32) {
    let address =
        |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    (address(12), address(16))
}

/// An address's bit in a filter of 64.
#[inline(always)]
fn filter_bit(address: u32) -> u64 {
    1 << (address.wrapping_mul(0x9e37_79b1) >> 26)
}

/// Notes where the headers are, and the destination.
#[inline(always)]
fn mark(packet: &mut Packet, at: usize, destination: u32) {
    packet.mark_ip(at as isize);
    packet.destination = destination.to_be_bytes();
}

impl Element for CheckIpHeader {
    fn class(&self) -> &'static str {
        self.class
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        if let Some((wrong, faults)) = self.check.wrong(batch) {
            batch.take(wrong, |index, packet| self.reject(packet, faults[index], cx));
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
                let counts = self.by_fault.iter().zip(FAULTS);
                Ok(counts.map(|(count, (what, _))| format!("{count}\t{what}\n")).collect())
            }
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
