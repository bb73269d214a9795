//! Address translation: bindings, ports, and the rewriting of packets.

mod addresses;
mod audit;
mod binding;
mod compiled;
mod delta;
mod deterministic;
mod errors;
mod expect;
#[cfg(test)]
mod flows;
mod fragment6;
pub mod ftp;
mod header64;
mod icmp;
mod inward;
mod mapping;
mod mss;
mod nat;
mod nftables;
mod nptv6;
mod outward;
#[cfg(test)]
mod packets;
mod ports;
mod prefix64;
mod reader;
mod record;
mod rewrite;
mod rule;
mod show;
mod space;
mod text;
mod translate;
mod upper64;

pub use addresses::{Addresses, AddressesError, Range, address, octets};
pub use audit::Audit;
pub use binding::Binding;
pub use compiled::Port;
pub use deterministic::{Block, Deterministic, DeterministicError};
pub use errors::{is_error, quote, rewrite_error};
pub use expect::Expectation;
pub use fragment6::fragment6;
pub use ftp::Ftp;
pub use icmp::Mtus;
pub use inward::Destination;
pub use mss::{Clamp, clamp_mss};
pub use nat::{Nat, Refusal};
pub use nftables::nftables;
pub use nptv6::{Nptv6, Nptv6Error, Untranslatable};
pub use prefix64::{Prefix64, Prefix64Error, is_global};
pub use record::{Event, Record};
pub use rewrite::{rewrite, target};
pub use rule::{
    Action, ClampRule, Dynamic, Fallback, Filtering, Match, Pooling, Rule, Rules, Spread, Target,
};
pub use show::{MappingShown, PoolShown, RuleShown};
pub use text::{ClampText, Mistake, RuleText, Text, Words};
pub use translate::{GROWTH, Translator};
