//! Address translation: bindings, ports, and the rewriting of packets.

mod addresses;
mod delta;
mod deterministic;
mod errors;
mod icmp;
mod mss;
mod nptv6;
#[cfg(test)]
mod packets;
mod ports;
mod prefix64;
mod rewrite;
mod translate;

pub use addresses::{Addresses, AddressesError, Range, address, octets};
pub use deterministic::{Block, Deterministic, DeterministicError};
pub use errors::{is_error, quote, rewrite_error};
pub use icmp::Mtus;
pub use mss::{Clamp, clamp_mss};
pub use nptv6::{Nptv6, Nptv6Error, Untranslatable};
pub use prefix64::{Prefix64, Prefix64Error, is_global};
pub use rewrite::{rewrite, target};
pub use translate::{GROWTH, Translator, fragment6};
