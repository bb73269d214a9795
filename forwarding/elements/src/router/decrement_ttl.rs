//! # DecrementTtl4: one hop less to live (IPv4)
//!
//! Group: router
//! Usage: `DecrementTtl4`
//! Ports: 1 input, 2 outputs; push
//!
//! The first element that changes a packet, and the last that may send it another way: `expired`
//! packets leave as they came. The IPv4 checksum is updated for the one byte that changed (RFC
//! 1624), to the same bits that Linux writes.
//!
//! Outputs:
//! - 0: one hop less to live
//! - 1: expired, unchanged
//!
//! # DecrementTtl6: one hop less to live (IPv6)
//!
//! Group: router
//! Usage: `DecrementTtl6`
//! Ports: 1 input, 2 outputs; push
//!
//! As [DecrementTtl4], for IPv6.
//!
//! Outputs:
//! - 0: one hop less to live
//! - 1: expired, unchanged

use super::router_context::on_tables;
use graph::{Batch, Class, Context, Element};
use wire::{IcmpError, ipv4};

/// The class `DecrementTtl4`.
pub const DECREMENT_TTL4: Class = Class {
    name: "DecrementTtl4",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("decrement_ttl.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |_| DecrementTtl4::new()),
};

/// The class `DecrementTtl6`.
pub const DECREMENT_TTL6: Class = Class {
    name: "DecrementTtl6",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("decrement_ttl.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |_| DecrementTtl6::new()),
};

const FORWARD: usize = 0;
const EXPIRED: usize = 1;
/// The outputs' names.
pub(super) const OUTPUTS: [&str; 2] = ["forward", IcmpError::Expired.name()];

/// Decrements the TTL of IPv4 packets. Outputs: `forward`, `expired` (TTL 0 or 1, unchanged).
#[derive(Default)]
pub struct DecrementTtl4;

/// Decrements the hop limit of IPv6 packets. Outputs: `forward`, `expired` (hop limit 0 or 1,
/// unchanged).
#[derive(Default)]
pub struct DecrementTtl6;

impl DecrementTtl4 {
    /// The element.
    pub fn new() -> DecrementTtl4 {
        DecrementTtl4
    }
}

impl DecrementTtl6 {
    /// The element.
    pub fn new() -> DecrementTtl6 {
        DecrementTtl6
    }
}

impl Element for DecrementTtl4 {
    fn class(&self) -> &'static str {
        "DecrementTtl4"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &OUTPUTS
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut expired = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            if !packet.window_mut::<20>().is_some_and(ipv4::decrement_ttl) {
                expired |= 1 << index;
            }
        }
        batch.take(expired, |_, packet| cx.emit(EXPIRED, packet));
        cx.emit_batch(FORWARD, batch);
    }
}

impl Element for DecrementTtl6 {
    fn class(&self) -> &'static str {
        "DecrementTtl6"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &OUTPUTS
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut expired = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            let header = packet.window_mut::<8>().filter(|header| header[7] > 1);
            expired |= u64::from(header.is_none()) << index;
            if let Some(header) = header {
                header[7] -= 1;
            }
        }
        batch.take(expired, |_, packet| cx.emit(EXPIRED, packet));
        cx.emit_batch(FORWARD, batch);
    }
}
