//! Subjects of `bifrost show`: what the daemon can be asked for as a whole.
//!
//! A subject is one file: the answer (a type, whose JSON is what goes over the socket), how the
//! control thread finds it, its table, and the words by which it is asked for. The socket, the
//! command line, completions, manual pages and metrics carry all subjects without knowing any: a
//! new one is its file and a line in [`ALL`].
//!
//! Over the socket a subject is asked for by its name: `{"ask":"mirror_port"}`. What is asked in
//! pages, with arguments or as a stream (routes, flows, traces) is a
//! [`Request`](crate::control::Request) of its own.

mod api;
mod bfd;
mod classifier;
mod config;
mod dhcp_relay;
mod discovery;
mod drops;
mod filter;
mod flow_log;
mod graph;
mod interfaces;
mod mirror;
mod mirror_port;
mod multicast;
mod nat;
mod neighbours;
mod ports;
mod redundancy;
mod repairs;
mod sflow;
mod sharing;
mod tunnels;
mod version;
mod words;
mod workers;

pub use api::*;
pub use bfd::*;
pub use classifier::*;
pub use config::*;
pub use dhcp_relay::*;
pub use discovery::*;
pub use drops::*;
pub use filter::*;
pub use flow_log::*;
pub use graph::*;
pub use interfaces::*;
pub use mirror::*;
pub use mirror_port::*;
pub use multicast::*;
pub use nat::*;
pub use neighbours::*;
pub use ports::*;
pub use redundancy::*;
pub use repairs::*;
pub use sflow::*;
pub use sharing::*;
pub use tunnels::*;
pub use version::*;
pub use words::*;
pub use workers::*;

use std::any::Any;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::control::Rates;
use crate::daemon::Control;

/// Every subject, in the order of the help.
pub const ALL: [Entry; 24] = [
    Entry::of::<Vec<PortStatus>>(),
    Entry::of::<Vec<InterfaceStatus>>(),
    Entry::of::<Vec<TunnelStatus>>(),
    Entry::of::<Vec<Neighbour>>(),
    Entry::of::<Vec<MulticastRoute>>(),
    Entry::of::<Vec<DropCount>>(),
    Entry::of::<Vec<WorkerStatus>>(),
    Entry::of::<Vec<GraphNode>>(),
    Entry::of::<Vec<FilterChain>>(),
    Entry::of::<Translation>(),
    Entry::of::<ClassifierStatus>(),
    Entry::of::<Config>(),
    Entry::of::<MirrorStatus>(),
    Entry::of::<Vec<VirtualRouterStatus>>(),
    Entry::of::<Option<SharingStatus>>(),
    Entry::of::<Vec<DiscoveryStatus>>(),
    Entry::of::<Vec<DhcpRelayStatus>>(),
    Entry::of::<Option<BfdStatus>>(),
    Entry::of::<Vec<RepairStatus>>(),
    Entry::of::<Option<FlowLogStatus>>(),
    Entry::of::<Option<SflowStatus>>(),
    Entry::of::<Option<MirrorPortStatus>>(),
    Entry::of::<Option<ApiStatus>>(),
    Entry::of::<Version>(),
];

/// A subject. The type is its answer.
pub(crate) trait Subject: Serialize + DeserializeOwned + Send + 'static {
    /// Its word after `bifrost show`.
    const NAME: &'static str;
    /// Its name over the socket, if it is not [`NAME`](Self::NAME) with `_` for `-`.
    const ASK: &'static str = "";
    /// Other words for it.
    const ALIASES: &'static [&'static str] = &[];
    /// What it is about, for help and manual.
    const ABOUT: &'static str;

    /// The answer, on the control thread.
    ///
    /// # Errors
    /// Why there is none, for the operator.
    fn answer(control: &mut Control) -> Result<Self, String>;

    /// Adds what only the server knows: rates.
    fn complete(&mut self, _: &Rates) {}

    /// The answer as people read it.
    fn table(&self) -> String;
}

/// An answer whose type only its subject knows.
pub type Answered = Box<dyn Any + Send>;

/// What others carry of a subject.
pub struct Entry {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) about: &'static str,
    ask: &'static str,
    pub(crate) answer: fn(&mut Control) -> Result<Answered, String>,
    json: fn(Answered, &Rates) -> Result<Box<RawValue>, String>,
    pub(crate) table: fn(&RawValue) -> Result<String, serde_json::Error>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "subject {}", self.name)
    }
}

impl Entry {
    pub(crate) const fn of<S: Subject>() -> Entry {
        Entry {
            name: S::NAME,
            aliases: S::ALIASES,
            about: S::ABOUT,
            ask: S::ASK,
            answer: |control| Ok(Box::new(S::answer(control)?)),
            json: |answered, rates| {
                let mut answer = *answered.downcast::<S>().map_err(|_| "an answer to something else")?;
                answer.complete(rates);
                to_raw_value(&answer).map_err(|error| error.to_string())
            },
            table: |json| serde_json::from_str::<S>(json.get()).map(|answer| answer.table()),
        }
    }

    /// Its name over the socket.
    pub fn ask(&self) -> String {
        if self.ask.is_empty() { self.name.replace('-', "_") } else { self.ask.to_owned() }
    }

    /// The answer as JSON, rates filled in.
    pub(crate) fn json(&self, answered: Answered, rates: &Rates) -> Result<Box<RawValue>, String> {
        (self.json)(answered, rates)
    }
}

/// The subject of this name over the socket.
pub(crate) fn asked(ask: &str) -> Option<&'static Entry> {
    const ENTRIES: &[Entry] = &ALL;
    ENTRIES.iter().find(|entry| entry.ask() == ask)
}

/// The subject of this word after `bifrost show`.
pub(crate) fn named(name: &str) -> Option<&'static Entry> {
    const ENTRIES: &[Entry] = &ALL;
    ENTRIES.iter().find(|entry| entry.name == name)
}
