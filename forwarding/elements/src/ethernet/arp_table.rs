//! ARPTable: which Ethernet address an IPv4 address is at, and packets that wait to know.
//!
//! Group: ethernet
//! Usage: `ARPTable([CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, TIMEOUT])`
//! Ports: 0 inputs, 0 outputs
//!
//! Each [ARPQuerier] has a table of its own, unless its argument `TABLE` names an ARPTable: so that
//! several may share what they learn. Entries are kept in the order of their last news. When too
//! many packets wait, the oldest entries' packets are dropped first.
//!
//! - `CAPACITY` (number): how many packets may wait in all; default 2048; 0: any number
//! - `ENTRY_CAPACITY` (number): how many entries there may be; default 0: any number
//! - `ENTRY_PACKET_CAPACITY` (number): how many packets may wait for the same address; default 0:
//!   any number
//! - `CAPACITY_SLIM_FACTOR` (number, not 0): what part of the capacity is freed when it is
//!   exceeded: 1 / this; default 2
//! - `TIMEOUT` (time): how long an entry holds without news; default 5 minutes; 0: for ever
//!
//! Handlers:
//! - `table` (read): a line for each entry, the oldest first: IPv4 address, 1 if it is known and
//!   holds else 0, Ethernet address, seconds since its last news
//! - `drops` (read): how many waiting packets were dropped
//! - `count` (read): how many entries there are
//! - `length` (read): how many packets wait
//! - `insert` (write `IP ETH`): adds or changes an entry
//! - `delete` (write `IP`): forgets where an address is
//! - `clear` (write): forgets everything; waiting packets are dropped
//! - `config` (read, write): its arguments
//!
//! See also: [ARPQuerier]

use std::any::Any;
use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Refused, Seconds};
use graph::{Class, Context, Element, Handler, HandlerError, Setup};

use super::neighbours::{Limits, Neighbours, inherit, milliseconds};

pub const CLASS: Class = Class {
    name: "ARPTable",
    ports: "0/0",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("arp_table.rs"),
    make,
};

/// The arguments that limit a table.
pub(super) fn limits(args: &mut Arguments<'_>) -> Limits {
    let number = |args: &mut Arguments<'_>, keyword, default| {
        args.keyword::<u32>(keyword).map_or(default, |number| number as usize)
    };
    let limits = Limits {
        packets: number(args, "CAPACITY", 2048),
        entries: number(args, "ENTRY_CAPACITY", 0),
        entry_packets: number(args, "ENTRY_PACKET_CAPACITY", 0),
        slim_factor: number(args, "CAPACITY_SLIM_FACTOR", 2),
        timeout: args.keyword::<Seconds>("TIMEOUT").map_or(300_000, milliseconds),
    };
    if limits.slim_factor == 0 {
        args.wrong("CAPACITY_SLIM_FACTOR", "cannot be zero");
    }
    limits
}

/// A table that several ARPQueriers share. While one of them works on it, it has it.
pub(super) struct ArpTable {
    pub(super) table: Option<Box<Neighbours<Ipv4Addr>>>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let limits = limits(args);
    args.finish()?;
    Ok(Box::new(ArpTable { table: Some(Box::new(Neighbours::new(limits))) }))
}

impl Element for ArpTable {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.table.iter().for_each(|table| table.begin(cx));
        Ok(())
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        self.table.iter_mut().for_each(|table| table.expire(cx));
    }

    fn handlers(&self) -> Vec<Handler> {
        let read = ["table", "drops", "count", "length"].map(Handler::read);
        let write = ["insert", "delete", "clear"].map(Handler::write);
        read.into_iter().chain(write).collect()
    }

    fn read(&mut self, handler: &str, _: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        self.table.as_ref().ok_or_else(|| HandlerError::unknown(handler))?.read(handler, cx)
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.table.as_mut().ok_or_else(|| HandlerError::unknown(handler))?.write(handler, value, cx)
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        let old: Box<dyn Any> = old;
        if let Ok(mut old) = old.downcast::<ArpTable>() {
            inherit(&mut self.table, &mut old.table);
        }
    }
}
