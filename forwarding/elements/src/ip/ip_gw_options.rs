//! IPGWOptions: does what a router does about IPv4 options.
//!
//! Group: ip
//! Usage: `IPGWOptions(MYADDR [, OTHERADDRS])`
//! Ports: 1 input, 1-2 outputs; agnostic, second output push
//!
//! Fills in the options record route and timestamp (RFC 791, 3.1) where there is room left in them,
//! and the checksum with them; all other options are left alone. It belongs on the way out, as the
//! address to be noted is that of the interface that the packet leaves by (RFC 1812, 4.2.2.2).
//! Packets with wrong options leave by output 1 with the place of the mistake in the annotation
//! `ICMP_PARAMPROB`, for an ICMPError with `parameterproblem`; they are dropped when it isn't
//! connected. Expects marked headers, as CheckIPHeader leaves them.
//!
//! - `MYADDR` (IPv4 address): of the interface that packets leave by
//! - `OTHERADDRS` (IPv4 addresses): others that this router has. Timestamps that were asked of them
//!   are given.
//!
//! Handlers:
//! - `drops` (read): how many packets had wrong options
//!
//! See also: [ICMPError], [CheckIPHeader]

use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::{Reason, ipv4};

/// See [`IpGwOptions`].
pub const CLASS: Class = Class {
    name: "IPGWOptions",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip_gw_options.rs"),
    make,
};

/// Fills in options, and counts the packets that have wrong ones.
struct IpGwOptions {
    options: Options,
    drops: u32,
}

/// What is filled into options.
pub(super) struct Options {
    address: Ipv4Addr,
    /// All of this router's, `address` among them.
    addresses: Vec<Ipv4Addr>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let address = args.mandatory("MYADDR");
    let others = args.optional::<Vec<Ipv4Addr>>("OTHERADDRS").unwrap_or_default();
    args.finish()?;
    Ok(Box::new(IpGwOptions { options: Options::new(address.ok_or(Refused)?, others), drops: 0 }))
}

/// What timestamp options ask for, in their flags.
const TIMES: u8 = 0;
const ADDRESSES_AND_TIMES: u8 = 1;
const TIMES_OF_ADDRESSES: u8 = 3;

impl Options {
    /// The address of the interface, and others of this router.
    pub fn new(address: Ipv4Addr, others: Vec<Ipv4Addr>) -> Options {
        Options { address, addresses: others.into_iter().chain([address]).collect() }
    }

    /// Fills in the options of a batch. Returns the bits of the packets that have wrong ones; the
    /// place of the mistake is in their annotation `ICMP_PARAMPROB`.
    #[inline(always)]
    pub fn fill_in_all(&self, batch: &mut Batch, cx: &mut Context<'_>) -> u64 {
        let mut which = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            which |= u64::from(packet.network().first().is_some_and(|first| first & 15 > 5)) << index;
        }
        if which == 0 { 0 } else { self.fill_in_some(batch, which, cx.wall()) }
    }

    #[cold]
    fn fill_in_some(&self, batch: &mut Batch, which: u64, wall: i64) -> u64 {
        let mut wrong = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            if which >> index & 1 != 0
                && let Err(place) = self.fill_in(packet.network_mut(), wall)
            {
                packet.set_annotation_byte(offset::ICMP_PARAMPROB, place);
                wrong |= 1 << index;
            }
        }
        wrong
    }

    /// Fills in the options of a header. An error is the place of the mistake in the header.
    fn fill_in(&self, network: &mut [u8], wall: i64) -> Result<(), u8> {
        let length = network.first().map_or(0, |first| usize::from(first & 15) * 4);
        let Some(header) = network.get_mut(..length) else { return Ok(()) };
        let Some(options) = header.get_mut(ipv4::HEADER..) else { return Ok(()) };
        let mut before = [0; 40];
        before[..options.len()].copy_from_slice(options);
        let mut changed = false;
        for place in ipv4::option::places(&before[..options.len()]) {
            let place = place.map_err(|at| (ipv4::HEADER + at) as u8)?;
            let wrong = |at: usize| (ipv4::HEADER + place.start + at) as u8;
            let option = &mut options[place.clone()];
            match option[0] {
                ipv4::option::RECORD_ROUTE => self.record_route(option).map_err(wrong)?,
                ipv4::option::TIMESTAMP => self.timestamp(option, wall).map_err(wrong)?,
                _ => continue,
            }
            changed = true;
        }
        if changed {
            ipv4::set_checksum(header);
        }
        Ok(())
    }

    /// Notes the address. An error is the place of the mistake in the option.
    fn record_route(&self, option: &mut [u8]) -> Result<(), usize> {
        let (at, length) = (pointer(option, 3)?, option.len());
        match option.get_mut(at..at + 4) {
            Some(room) => {
                room.copy_from_slice(&self.address.octets());
                option[2] += 4;
            }
            None if at == length => {}
            None => return Err(2),
        }
        Ok(())
    }

    /// Notes the time, in milliseconds since midnight UTC. An error is the place of the mistake in
    /// the option.
    fn timestamp(&self, option: &mut [u8], wall: i64) -> Result<(), usize> {
        let at = pointer(option, 4)?;
        let flags = *option.get(3).ok_or(1usize)?;
        let time = (wall.div_euclid(1_000_000).rem_euclid(86_400_000) as u32).to_be_bytes();
        let room = |option: &[u8], bytes: usize| at + bytes <= option.len();
        match flags & 15 {
            TIMES if room(option, 4) => {
                option[at..at + 4].copy_from_slice(&time);
                option[2] += 4;
            }
            ADDRESSES_AND_TIMES if room(option, 8) => {
                option[at..at + 4].copy_from_slice(&self.address.octets());
                option[at + 4..at + 8].copy_from_slice(&time);
                option[2] += 8;
            }
            TIMES_OF_ADDRESSES if room(option, 8) => {
                if self.addresses.iter().any(|address| option[at..at + 4] == address.octets()) {
                    option[at + 4..at + 8].copy_from_slice(&time);
                    option[2] += 8;
                }
            }
            // No room left: those who could not note their time are counted, as far as there is
            // room for that.
            TIMES | ADDRESSES_AND_TIMES if flags < 0xf0 => option[3] += 0x10,
            _ => return Err(3),
        }
        Ok(())
    }
}

/// Where the pointer of an option points, from the option's begin; an error when that is less than
/// `least`.
fn pointer(option: &[u8], least: usize) -> Result<usize, usize> {
    let at = option.get(2).map_or(0, |pointer| usize::from(*pointer).saturating_sub(1));
    if at < least { Err(2) } else { Ok(at) }
}

impl Element for IpGwOptions {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let wrong = self.options.fill_in_all(batch, cx);
        if wrong == 0 {
            return;
        }
        self.drops = self.drops.wrapping_add(wrong.count_ones());
        if cx.has_output(1) {
            cx.emit_some(1, batch, wrong);
        } else {
            batch.take(wrong, |_, packet| cx.drop(packet, Reason::Malformed));
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("drops")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::checksum;

    proptest! {
        #[test]
        fn any_options_are_filled_in_or_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 0..70),
            words in 5u8..16,
            kind in prop::sample::select(vec![0u8, 7, 68]),
            start in prop::collection::vec(0u8..45, 3),
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = 0x40 | words;
            }
            if let Some(option) = bytes.get_mut(20..24) {
                option[0] = kind;
                option[1..].copy_from_slice(&start);
            }
            let before = bytes.clone();
            let address = [10, 0, 0, 1].into();
            let options = Options::new(address, Vec::new());
            let length = usize::from(words) * 4;
            match options.fill_in(&mut bytes, 1_000_000_000_000_000_000) {
                Ok(()) if bytes != before => prop_assert!(checksum::verify(&bytes[..length])),
                Ok(()) => {}
                Err(place) => prop_assert!((20..=length + 1).contains(&usize::from(place))),
            }
            prop_assert_eq!(bytes.get(length..), before.get(length..));
        }
    }
}
