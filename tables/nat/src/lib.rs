//! Address translation: which endpoint stands for which, and packets made to say so.
//!
//! Three things, each of its own:
//!
//! - **Rules** ([`Text`] as `router.toml` has them, [`Rules`] when they are checked): what is
//!   translated into what.
//! - **Bindings** ([`Nat`]): what the answers to a new flow will say. Mappings, ports and limits
//!   stand behind this; it is asked once a flow.
//! - **Rewriting** ([`rewrite()`], [`rewrite_error`], [`Translator`], [`clamp_mss`], [`Ftp`]):
//!   packets of flows whose two tuples are known. No state but the flow's, no allocation, some 17
//!   cycles for an established packet.
//!
//! How a router uses it:
//!
//! ```text
//! new flow      destination(original, in) ──► route lookup ──► bind(original, destination, [in, out])
//!                                                                 └─► reply tuple ──► flow table
//! each packet   flow table ──► direction ──► leaving(direction) ──► rewrite (one family)
//!                                                                                └─► Translator (two)
//! ICMP error    the flow of its quote ──► rewrite_error, or Translator
//! ended flow    release(account)
//! now and then  expire, look
//! ```
//!
//! A translation that cannot be had ([`Refusal`]) means that the packet is dropped: let through it
//! would show what is inside. Where two original tuples would have the same reply tuple (two
//! outside addresses forwarded to one server, called by one client from one port) the flow table
//! refuses the second; its binding is given back with [`Nat::release_tuples`].
//!
//! The requirements of RFC 4787, 5382 and 5508 that are kept, and how:
//!
//! | requirement | kept by |
//! |---|---|
//! | endpoint-independent mapping | a mapping's key has no destination (`mapping`) |
//! | paired pooling | a host's address is remembered with its mappings; [`Pooling`] |
//! | no overloading, port range and parity kept | a bitmap of ports for each address and protocol (`space`, `ports`) |
//! | filtering | address- and port-dependent by the flow table, or endpoint-independent; [`Filtering`] |
//! | hairpinning, with the outside source | `hairpin = true` |
//! | ICMP errors both ways, with their quotes | [`rewrite_error`] |
//! | ICMP queries | identifiers are mapped like ports |
//!
//! Not here: timeouts and TCP's state (the flow table's), reassembly (fragments follow their first
//! one), deciding whether a packet may pass (the filter's).

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
mod leased;
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
mod shortage;
mod show;
mod space;
mod text;
mod translate;
mod upper64;

pub use addresses::{Addresses, AddressesError, Range, address, octets};
pub use audit::{Audit, Look};
pub use binding::{Binding, other_port};
pub use compiled::Port;
pub use deterministic::{Block, Deterministic, DeterministicError};
pub use errors::rewrite_error;
pub use expect::Expectation;
pub use fragment6::fragment6;
pub use ftp::Ftp;
pub use icmp::Mtus;
pub use inward::Destination;
pub use mss::{Clamp, clamp_mss};
pub use nat::{Nat, Refusal};
pub use nftables::{Told, nftables};
pub use nptv6::{Nptv6, Nptv6Error, Untranslatable};
pub use prefix64::{Prefix64, Prefix64Error, is_global};
pub use record::{Event, Record};
pub use rewrite::{rewrite, rewrite_plain4};
pub use rule::{
    Action, ClampRule, Dynamic, Fallback, Filtering, HOST_LIMIT, Half, MOST_ADDRESSES, Match, Pooling, Rule,
    Rules, Spread, Target,
};
pub use shortage::Shortage;
pub use show::{MappingShown, PoolShown, RuleShown};
pub use text::{ClampText, RuleMistake, RuleText, Text, Words};
pub use translate::{GROWTH, Translator};
