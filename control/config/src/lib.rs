//! `router.toml`: its model and its checks.
//!
//! [`Router`] is the file after every check: whoever holds one need not look again.
//! [`Router::read`] reads the whole text before it says anything, and then says everything: each
//! [`Mistake`] with its place, the line, what was expected, and what was perhaps meant. Nothing
//! else in Bifrost reads the file, and nothing is touched before it has been read.
//!
//! ```text
//!   text ──► toml (spans, recovers from errors) ──► Section (types, ranges, unknown keys) ──► sections ──► Router
//!                                                       └────────────► mistakes ◄─────────────┘
//! ```
//!
//! One file here for what the model is (`router`), one for how each section is read (`sections`,
//! `api`, `bfd`, `client`, `dhcp_relay`, `discovery`, `flow_log`, `interface` with `topology`,
//! `memif`, `mirror_port`, `repair`, `route`, `routing`, `rule`, `service`, `system`,
//! `virtual_router`, `wireguard`), one for reading keys of any section (`section`), one for how
//! mistakes look (`mistake`), one for reading files (`source`), one for what of them is shown to
//! nobody (`secrets`). `schema` has all keys once more, for whoever writes a file.

mod api;
mod bfd;
mod client;
mod cores;
mod dhcp_relay;
mod discovery;
mod flow_log;
mod interface;
mod machine;
mod memif;
mod mirror_port;
mod mistake;
mod pattern;
mod repair;
mod route;
mod router;
mod routing;
mod rule;
pub mod schema;
pub mod secrets;
mod section;
mod sections;
mod service;
mod sharing;
pub mod source;
mod system;
mod topology;
mod track;
mod virtual_router;
mod wireguard;

pub use api::{Api, Identity, Role, Token, fuzz_tokens};
pub use bfd::{Bfd, BfdKeys};
pub use client::{Client6, Delegated, DhcpClient};
pub use cores::Cores;
pub use dhcp_relay::DhcpRelay;
pub use discovery::{Discovery, Discovery4, Discovery6, MOST, PREFIXES};
pub use interface::{Interface, InterfaceKind, Vxlan};
pub use machine::Machine;
pub use memif::Memif;
pub use mirror_port::MirrorPort;
pub use mistake::{Mistake, Mistakes};
pub use pattern::{Pattern, PatternError};
pub use repair::{Gateway, Repair};
pub use route::{Route, RouteAction, RouteTable};
pub use router::*;
pub use routing::*;
pub use rule::{Asks, Does, RoutingRule};
pub use sections::OpenError;
pub use service::*;
pub use sharing::Sharing;
pub use system::{RootLogin, Shell, Ssh, Syslog, System, User};
pub use track::{Ping, Tracked};
pub use virtual_router::{Track, VirtualRouter};
pub use wireguard::{PrivateKey, PublicKey, WireGuard, WireGuardPeer};
