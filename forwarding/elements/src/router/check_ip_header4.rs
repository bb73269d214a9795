//! CheckIpHeader4: what may be forwarded at all
//!
//! Group: router
//! Usage: `CheckIpHeader4`
//! Ports: 1 input, 3 outputs; push
//!
//! The checks of RFC 1812, 5.2.2 (length, version, header length, total length, checksum), then the
//! addresses of 5.3.7. Where RFC and Linux differ, Linux decides: class E is forwarded; a source
//! that is one of our own addresses is martian. Multicast, broadcast, link-local addresses (RFC
//! 3927, 7) and options are not the data path's: such packets go to Linux, whole.
//!
//! Padding behind the packet (short Ethernet frames) is cut off, as Linux does.
//!
//! Outputs:
//! - 0: valid transit
//! - 1: transit with options, which Linux forwards
//! - 2: multicast, broadcast, link-local: for Linux itself

use std::sync::Arc;

use super::router_context::on_tables;
use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{Reason, checksum};

use super::{Sources, cut_to, network, u16_at, u32_at};

/// The class `CheckIpHeader4`.
pub const CLASS: Class = Class {
    name: "CheckIpHeader4",
    ports: "1/3",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("check_ip_header4.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| CheckIpHeader4::new(s.sources.clone())),
};

const VALID: usize = 0;
const LINUX: usize = 1;
const LOCAL: usize = 2;

/// Checks IPv4 headers. Outputs: `valid`, `linux` (transit with options), `local` (multicast,
/// broadcast, link-local). Drops `truncated`, `bad_version`, `bad_header_length`,
/// `bad_total_length`, `bad_checksum`, `martian_source`, `martian_destination`.
pub struct CheckIpHeader4 {
    sources: Arc<Sources>,
}

/// What is not valid.
enum Other {
    Linux,
    Local,
    Drop(Reason),
}

impl CheckIpHeader4 {
    /// Knows this machine's addresses from `sources`.
    pub fn new(sources: Arc<Sources>) -> CheckIpHeader4 {
        CheckIpHeader4 { sources }
    }

    /// Whether nothing is to be looked at more closely.
    #[inline(always)]
    fn is_plain(&self, packet: &Packet) -> bool {
        let Some(header) = packet.window::<20>() else { return false };
        let (length, total) = (packet.network().len(), usize::from(u16_at(header, 2)));
        are_usual(header)
            & is_plain(header, &self.sources)
            & (total == length)
            & (total >= 20)
            & (packet.segment_count() == 1)
    }

    #[cold]
    fn check(&self, packet: &mut Packet) -> Result<(), Other> {
        let header = network::<20>(packet).ok_or(Other::Drop(Reason::Truncated))?;
        let (total, source, destination) = (u16_at(header, 2), u32_at(header, 12), u32_at(header, 16));
        if header[0] == 0x45 {
            if !checksum::verify(header) {
                return Err(Other::Drop(Reason::BadChecksum));
            }
            if total < 20 {
                return Err(Other::Drop(Reason::BadTotalLength));
            }
        } else {
            check_options(packet)?;
        }
        if !cut_to(packet, usize::from(total)) {
            return Err(Other::Drop(Reason::BadTotalLength));
        }
        if is_local(source) || is_local(destination) {
            return check_local(source);
        }
        if is_martian(source) || source >> 28 == 14 || self.sources.is_local4(packet.input, source) {
            return Err(Other::Drop(Reason::MartianSource));
        }
        if is_martian(destination) {
            return Err(Other::Drop(Reason::MartianDestination));
        }
        if header_has_options(packet) { Err(Other::Linux) } else { Ok(()) }
    }
}

/// Whether a header is of the usual kind, with nothing to object to but perhaps its
/// [addresses](are_usual); its total length is for the caller to compare. What is not as usual is
/// put together before there is a branch, which next to no packet takes.
#[inline(always)]
pub(super) fn is_plain(header: &[u8; 20], sources: &Sources) -> bool {
    let [.., source, _] = header.as_chunks::<4>().0 else { return false };
    (header[0] == 0x45) & checksum::verify_header(header) & !sources.may_be_local4(*source)
}

/// Whether both addresses of a header may be forwarded from and to.
#[inline(always)]
pub(super) fn are_usual(header: &[u8; 20]) -> bool {
    let [.., source, destination] = header.as_chunks::<4>().0 else { return false };
    let unusual = UNUSUAL[usize::from(source[0])] | UNUSUAL[usize::from(destination[0])];
    unusual == 0 || are_usual_after_all(*source, *destination)
}

/// First bytes of addresses that are never forwarded, or not all of them.
const UNUSUAL: [u8; 256] = {
    let mut unusual = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        // The first of those that it begins, and the one within that is link-local.
        unusual[byte] = !(is_usual([byte as u8, 0, 0, 0]) & is_usual([byte as u8, 254, 0, 0])) as u8;
        byte += 1;
    }
    unusual
};

/// Of 169 all but the link-local ones are: one address of the Internet's in two hundred, too many
/// for the long way.
#[cold]
#[inline(never)]
fn are_usual_after_all(source: [u8; 4], destination: [u8; 4]) -> bool {
    is_usual(source) & is_usual(destination)
}

/// Whether an address may be forwarded from and to.
#[inline(always)]
pub(super) const fn is_usual(address: [u8; 4]) -> bool {
    let [first, second, ..] = address;
    let link_local = u16::from_ne_bytes([first, second]) == u16::from_ne_bytes([169, 254]);
    let nobody = u32::from_ne_bytes(address) == 0;
    !nobody & (first != 127) & (first < 224) & !link_local
}

/// Multicast, limited broadcast, link-local: Linux knows what to do.
fn is_local(address: u32) -> bool {
    address >> 28 == 14 || address == u32::MAX || address >> 16 == 0xa9fe
}

/// Of what is for Linux itself only the sources that can be nobody's are dropped here.
fn check_local(source: u32) -> Result<(), Other> {
    let martian = source >> 28 == 14 || source == u32::MAX || source >> 24 == 127;
    Err(if martian { Other::Drop(Reason::MartianSource) } else { Other::Local })
}

/// Loopback and the unspecified address. The rest of 0.0.0.0/8 is forwarded, as Linux does.
fn is_martian(address: u32) -> bool {
    address == 0 || address >> 24 == 127
}

fn header_has_options(packet: &Packet) -> bool {
    network::<1>(packet).is_none_or(|header| header[0] != 0x45)
}

/// A header that is not the usual 20 bytes.
fn check_options(packet: &Packet) -> Result<(), Other> {
    let bytes = packet.network();
    let first = bytes.first().copied().unwrap_or_default();
    if first >> 4 != 4 {
        return Err(Other::Drop(Reason::BadVersion));
    }
    let length = usize::from(first & 15) * 4;
    if length < 20 {
        return Err(Other::Drop(Reason::BadHeaderLength));
    }
    let header = bytes.get(..length).ok_or(Other::Drop(Reason::BadHeaderLength))?;
    if usize::from(u16::from_be_bytes([header[2], header[3]])) < length {
        return Err(Other::Drop(Reason::BadTotalLength));
    }
    if checksum::verify(header) { Ok(()) } else { Err(Other::Drop(Reason::BadChecksum)) }
}

impl Element for CheckIpHeader4 {
    fn class(&self) -> &'static str {
        "CheckIpHeader4"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["valid", "linux", "local"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let (mut rest, mut linux, mut local) = (0u64, 0u64, 0u64);
        let mut reasons = [Reason::None; graph::BATCH];
        for (index, packet) in batch.packets().iter().enumerate() {
            if !self.is_plain(packet) {
                rest |= 1 << index;
            }
        }
        let mut unusual = rest;
        while unusual != 0 {
            let index = unusual.trailing_zeros() as usize;
            unusual &= unusual - 1;
            match self.check(&mut batch.packets_mut()[index]) {
                Ok(()) => rest &= !(1 << index),
                Err(Other::Linux) => linux |= 1 << index,
                Err(Other::Local) => local |= 1 << index,
                Err(Other::Drop(reason)) => reasons[index] = reason,
            }
        }
        batch.take(rest, |index, packet| {
            if linux >> index & 1 != 0 {
                cx.emit(LINUX, packet);
            } else if local >> index & 1 != 0 {
                cx.emit(LOCAL, packet);
            } else {
                cx.drop(packet, reasons[index]);
            }
        });
        cx.emit_batch(VALID, batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_addresses_are_those_that_need_no_closer_look() {
        for prefix in 0..=u16::MAX {
            for address in [u32::from(prefix) << 16, u32::from(prefix) << 16 | 0xffff] {
                let odd = is_local(address) | is_martian(address) | (address >> 28 == 15);
                let octets = address.to_be_bytes();
                assert_eq!(is_usual(octets), !odd, "{octets:?}");
                // What the table lets pass is not looked at again.
                assert!(UNUSUAL[usize::from(octets[0])] == 1 || !odd, "{octets:?}");
                assert_eq!(are_usual_after_all([10, 0, 0, 1], octets), !odd, "{octets:?}");
                assert_eq!(are_usual_after_all(octets, [10, 0, 0, 1]), !odd, "{octets:?}");
            }
        }
    }
}
