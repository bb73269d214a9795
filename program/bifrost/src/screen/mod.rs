//! The live screen: what a [`Snapshot`] looks like, on a terminal ([`draw`]) or as a line
//! ([`line`]).
//!
//! It only draws. Where snapshots come from, and what else stands on the screen (the demo adds
//! BGP's state and Linux's own rate as [`Note`]s), is for whoever calls it. [`Terminal`] takes the
//! terminal and gives it back on every way out, a panic included.

mod columns;
mod draw;
mod terminal;
pub mod units;

pub use draw::draw;
pub use terminal::{Key, Terminal};

use crate::control::status::Snapshot;

/// What is to be shown.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Left end of the first line.
    pub title: &'a str,
    /// The latest sample.
    pub snapshot: &'a Snapshot,
    /// More lines, above the tables.
    pub notes: &'a [Note],
    /// No new samples are being shown.
    pub held: bool,
    /// The keys are told on top of it.
    pub help: bool,
}

/// A line of somebody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A word in front.
    pub label: String,
    /// The rest.
    pub text: String,
}

/// Rates of all ports together, for the first line and for plain output.
pub(crate) fn totals(snapshot: &Snapshot) -> crate::control::status::PortRates {
    let mut total = crate::control::status::PortRates::default();
    for port in &snapshot.ports {
        total.received.packets_per_second += port.rates.received.packets_per_second;
        total.received.bits_per_second += port.rates.received.bits_per_second;
        total.sent.packets_per_second += port.rates.sent.packets_per_second;
        total.sent.bits_per_second += port.rates.sent.bits_per_second;
        total.drops_per_second += port.rates.drops_per_second;
    }
    total
}

/// The sample in one line, for output that is no terminal.
pub fn line(view: &View) -> String {
    let snapshot = view.snapshot;
    let total = totals(snapshot);
    let routes: u64 = snapshot.summary.routes.iter().map(|origin| origin.ipv4 + origin.ipv6).sum();
    let load = snapshot.workers.iter().map(|worker| worker.load).fold(0.0, f64::max);
    let mut text = format!(
        "{}  in {} pps {}  out {} pps {}  drops {}/s  express {}  worker {}  linux {}  load {}  routes {}",
        units::time(snapshot.at_ms / 1000),
        units::packets(total.received.packets_per_second),
        units::bits(total.received.bits_per_second),
        units::packets(total.sent.packets_per_second),
        units::bits(total.sent.bits_per_second),
        units::packets(total.drops_per_second),
        units::share(snapshot.shares.express),
        units::share(snapshot.shares.worker),
        units::share(snapshot.shares.linux),
        units::share(load),
        units::count(routes),
    );
    if let Some(top) = snapshot.drops.first().filter(|drop| drop.per_second > 0.0) {
        text += &format!("  top drop {}", top.reason);
    }
    for note in view.notes {
        text += &format!("  {} {}", note.label, note.text);
    }
    text
}
