//! CheckIpHeader6: what may be forwarded at all
//!
//! Group: router
//! Usage: `CheckIpHeader6`
//! Ports: 1 input, 3 outputs; push
//!
//! Version and payload length (RFC 8200, 3), and the addresses that never travel (RFC 4291, 2.5.2,
//! 2.5.3, 2.7): unspecified, loopback, multicast sources. As in Linux, IPv4-mapped sources do
//! travel. Multicast, link-local addresses and hop-by-hop options are not the data path's but
//! Linux's: it also sends the errors that belong to them (RFC 4443, 3.1, beyond scope).
//!
//! Outputs:
//! - 0: valid transit
//! - 1: transit with hop-by-hop options, which Linux forwards
//! - 2: multicast, link-local: for Linux itself

use super::router_context::on_tables;
use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{Reason, protocol};

use super::{cut_to, network, u16_at, u64_at};

/// The class `CheckIpHeader6`.
pub const CLASS: Class = Class {
    name: "CheckIpHeader6",
    ports: "1/3",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("check_ip_header6.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |_| CheckIpHeader6::new()),
};

const VALID: usize = 0;
const LINUX: usize = 1;
const LOCAL: usize = 2;

/// Checks IPv6 headers. Outputs: `valid`, `linux` (transit with hop-by-hop options), `local`
/// (multicast, link-local). Drops `truncated`, `bad_version`, `bad_total_length`, `martian_source`,
/// `martian_destination`.
#[derive(Default)]
pub struct CheckIpHeader6;

impl CheckIpHeader6 {
    /// The element.
    pub fn new() -> CheckIpHeader6 {
        CheckIpHeader6
    }
}

/// What is not valid.
enum Other {
    Linux,
    Local,
    Drop(Reason),
}

#[inline(always)]
fn check(packet: &mut Packet) -> Result<(), Other> {
    let header = network::<40>(packet).ok_or(Other::Drop(Reason::Truncated))?;
    if header[0] >> 4 != 6 {
        return Err(Other::Drop(Reason::BadVersion));
    }
    let total = usize::from(u16_at(header, 4)) + header.len();
    let (source, destination) =
        ([u64_at(header, 8), u64_at(header, 16)], [u64_at(header, 24), u64_at(header, 32)]);
    let hop_by_hop = header[6] == protocol::HOP_BY_HOP;
    if !cut_to(packet, total) {
        return Err(Other::Drop(Reason::BadTotalLength));
    }
    let multicast = destination[0] >> 56 == 0xff;
    // The unspecified source may still ask its neighbours (duplicate address detection).
    if source[0] >> 56 == 0xff || is_nobody(source) && !(multicast && source[1] == 0) {
        return Err(Other::Drop(Reason::MartianSource));
    }
    if is_nobody(destination) {
        return Err(Other::Drop(Reason::MartianDestination));
    }
    if multicast || is_link_local(source) || is_link_local(destination) {
        return Err(Other::Local);
    }
    if hop_by_hop { Err(Other::Linux) } else { Ok(()) }
}

/// `::` and `::1`.
#[inline(always)]
fn is_nobody(address: [u64; 2]) -> bool {
    address[0] == 0 && address[1] <= 1
}

/// fe80::/10
#[inline(always)]
fn is_link_local(address: [u64; 2]) -> bool {
    address[0] >> 54 == 0xfe80 >> 6
}

impl Element for CheckIpHeader6 {
    fn class(&self) -> &'static str {
        "CheckIpHeader6"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["valid", "linux", "local"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let (mut rest, mut linux, mut local) = (0u64, 0u64, 0u64);
        let mut reasons = [Reason::None; graph::BATCH];
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            match check(packet) {
                Ok(()) => continue,
                Err(Other::Linux) => linux |= 1 << index,
                Err(Other::Local) => local |= 1 << index,
                Err(Other::Drop(reason)) => reasons[index] = reason,
            }
            rest |= 1 << index;
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
