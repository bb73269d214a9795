//! # RadixIPLookup: finds the route of a packet.
//!
//! Group: ip
//! Usage: `RadixIPLookup(ADDR1/MASK1 [GATEWAY1] OUTPUT1, ...)`
//! Ports: 1 input, any number of outputs; push
//!
//! Looks up the destination address annotation: the route with the longest prefix that covers it
//! says by which output the packet leaves. If the route has a gateway, the annotation is set to it,
//! which is where [ARPQuerier] then sends the packet. A packet without a route is dropped; the
//! first five are told of.
//!
//! Each argument is a route: a prefix (an address alone has 32 bits), a gateway if there is one
//! (`-`: none), and an output. If a prefix comes twice, the first route counts.
//!
//! All routing elements have the same table, made for few routes and good for many; they differ in
//! the order in which `table` lists routes, and in their handlers.
//!
//! Handlers:
//! - `table` (read): the routes, one a line.
//! - `lookup` (read with an address): the output, and the gateway if there is one; -1 when there is
//!   no route.
//! - `add` (write `ADDR/MASK [GATEWAY] OUTPUT`): adds a route; an error if the prefix has one.
//! - `set` (write `ADDR/MASK [GATEWAY] OUTPUT`): adds a route, instead of that which the prefix
//!   has.
//! - `remove` (write `ADDR/MASK [GATEWAY OUTPUT]`): removes a route.
//! - `ctrl` (write): lines of `add`, `set` and `remove`, done together or not at all.
//! - `flush` (write): removes all routes.
//!
//! See also: [GetIPAddress], [StaticIPLookup], [LinearIPLookup], [DirectIPLookup], [RangeIPLookup],
//! [ARPQuerier]
//!
//! # DirectIPLookup: finds the route of a packet.
//!
//! Group: ip
//! Usage: `DirectIPLookup(ADDR1/MASK1 [GATEWAY1] OUTPUT1, ...)`
//! Ports: 1 input, any number of outputs; push
//!
//! As [RadixIPLookup]; `table` lists routes by address, and nothing is told of packets without a
//! route.
//!
//! See also: [RadixIPLookup]
//!
//! # RangeIPLookup: finds the route of a packet.
//!
//! Group: ip
//! Usage: `RangeIPLookup(ADDR1/MASK1 [GATEWAY1] OUTPUT1, ...)`
//! Ports: 1 input, any number of outputs; push
//!
//! As [DirectIPLookup].
//!
//! See also: [RadixIPLookup]
//!
//! # LinearIPLookup: finds the route of a packet.
//!
//! Group: ip
//! Usage: `LinearIPLookup(ADDR1/MASK1 [GATEWAY1] OUTPUT1, ...)`
//! Ports: 1 input, any number of outputs; push
//!
//! As [RadixIPLookup], without `flush`; a route that `set` replaces keeps its place in `table`.
//!
//! See also: [RadixIPLookup]
//!
//! # SortedIPLookup: finds the route of a packet.
//!
//! Group: ip
//! Usage: `SortedIPLookup(ADDR1/MASK1 [GATEWAY1] OUTPUT1, ...)`
//! Ports: 1 input, any number of outputs; push
//!
//! As [LinearIPLookup]; `table` lists longer prefixes before those that cover them. Deprecated.
//!
//! See also: [LinearIPLookup]
//!
//! # StaticIPLookup: finds the route of a packet.
//!
//! Group: ip
//! Usage: `StaticIPLookup(ADDR1/MASK1 [GATEWAY1] OUTPUT1, ...)`
//! Ports: 1 input, any number of outputs; push
//!
//! As [LinearIPLookup], with the handlers `table` and `lookup` alone: its routes do not change.
//!
//! See also: [LinearIPLookup]
//!
//! # LookupIPRoute: finds the route of a packet.
//!
//! Group: ip
//! Usage: `LookupIPRoute(ADDR1/MASK1 [GATEWAY1] OUTPUT1, ...)`
//! Ports: 1 input, any number of outputs; push
//!
//! The old name of [StaticIPLookup].
//!
//! See also: [StaticIPLookup]

use std::net::Ipv4Addr;

use graph::arguments::{Argument, Arguments, Blame, Refused};
use graph::language::{first_word, uncomment};
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

use super::route::{Order, Removal, Route, RouteError, RouteTable};

const CLASS: Class = Class {
    name: "",
    ports: "1/-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip_lookup.rs"),
    make: |_, _| Err(Refused),
};

/// The classes of this file.
pub const CLASSES: [Class; 7] = [
    Class { name: RADIX.class, make: |args, setup| make(args, setup, &RADIX), ..CLASS },
    Class { name: DIRECT.class, make: |args, setup| make(args, setup, &DIRECT), ..CLASS },
    Class { name: RANGE.class, make: |args, setup| make(args, setup, &RANGE), ..CLASS },
    Class { name: LINEAR.class, make: |args, setup| make(args, setup, &LINEAR), ..CLASS },
    Class { name: SORTED.class, make: |args, setup| make(args, setup, &SORTED), ..CLASS },
    Class { name: STATIC.class, make: |args, setup| make(args, setup, &STATIC), ..CLASS },
    Class { name: LOOKUP.class, make: |args, setup| make(args, setup, &LOOKUP), ..CLASS },
];

/// In what the members of the family differ.
struct Kind {
    class: &'static str,
    order: Order,
    /// Whether routes may change.
    changes: bool,
    flushes: bool,
    complaint: Complaint,
}

/// What is said of packets without a route.
#[derive(Clone, Copy)]
enum Complaint {
    Silent,
    /// Of the first five, under this name.
    Five(&'static str),
    /// Of each, with the address as a number of this machine.
    Each,
}

const RADIX: Kind = Kind {
    class: "RadixIPLookup",
    order: Order::LastFreed,
    changes: true,
    flushes: true,
    complaint: Complaint::Five("IPRouteTable"),
};
const DIRECT: Kind =
    Kind { class: "DirectIPLookup", order: Order::ByAddress, complaint: Complaint::Silent, ..RADIX };
const RANGE: Kind = Kind { class: "RangeIPLookup", ..DIRECT };
const LINEAR: Kind = Kind {
    class: "LinearIPLookup",
    order: Order::FirstFree,
    flushes: false,
    complaint: Complaint::Five("LinearIPLookup"),
    ..RADIX
};
const SORTED: Kind =
    Kind { class: "SortedIPLookup", order: Order::LongestFirst, complaint: Complaint::Each, ..LINEAR };
const STATIC: Kind = Kind { class: "StaticIPLookup", changes: false, ..LINEAR };
const LOOKUP: Kind = Kind { class: "LookupIPRoute", ..STATIC };

/// How many packets without a route are told of.
const COMPLAINTS: u32 = 5;

/// Routes packets.
pub struct IpLookup {
    kind: &'static Kind,
    table: RouteTable,
    outputs: usize,
    complaints: u32,
    addresses: [u32; BATCH],
    numbers: [u32; BATCH],
}

fn make(
    args: &mut Arguments<'_>,
    setup: &mut Setup<'_>,
    kind: &'static Kind,
) -> Result<Box<dyn Element>, Refused> {
    if kind.class == SORTED.class {
        let advice = "SortedIPLookup is deprecated; use LinearIPLookup or RadixIPLookup instead";
        args.strange(Blame::Element, advice);
    }
    let (mut table, mut again) = (RouteTable::new(kind.order), 0);
    for (index, piece) in args.rest().into_iter().enumerate() {
        let number = index + 1;
        let wrong = match Route::parse(&piece.text, &args.scope()) {
            Ok(route) if route.hop.output as usize >= setup.outputs => "bad OUTPUT",
            Ok(route) => {
                match table.add(route) {
                    Ok(()) => {}
                    Err(RouteError::Exists(_)) => again += 1,
                    Err(error) => args.wrong(&piece, error.to_string()),
                }
                continue;
            }
            Err(message) if message == "bad OUTPUT" => "bad OUTPUT",
            Err(_) => "should be 'ADDR/MASK [GATEWAY] OUTPUT'",
        };
        args.wrong(&piece, format!("argument {number} {wrong}"));
    }
    if again > 0 {
        let routes = if again > 1 { "routes" } else { "route" };
        args.strange(Blame::Element, format!("{again} {routes} replaced by later versions"));
    }
    args.finish()?;
    Ok(Box::new(IpLookup {
        kind,
        table,
        outputs: setup.outputs,
        complaints: 0,
        addresses: [0; BATCH],
        numbers: [0; BATCH],
    }))
}

/// What can be done to a table.
enum Change {
    Add(Route),
    Set(Route),
    Remove(Removal),
}

/// What takes back a change.
enum Undo {
    Put(Route),
    Take(Removal),
}

impl IpLookup {
    /// Reads what is written to a handler, or stands in a line of `ctrl`.
    fn change(&self, command: &str, text: &str, cx: &Context<'_>) -> Result<Change, HandlerError> {
        let bad_output = || HandlerError::refused("bad OUTPUT");
        let route = || {
            let route: Route = cx.argument(text)?;
            if (route.hop.output as usize) < self.outputs { Ok(route) } else { Err(bad_output()) }
        };
        match command {
            "add" => route().map(Change::Add),
            "set" => route().map(Change::Set),
            "remove" => {
                let removal: Removal = cx.argument(text)?;
                if removal.output().is_none_or(|output| output < self.outputs as i64) {
                    Ok(Change::Remove(removal))
                } else {
                    Err(bad_output())
                }
            }
            _ => Err(HandlerError::refused(format!("bad command '{command}'"))),
        }
    }

    fn apply(&mut self, change: Change) -> Result<Undo, RouteError> {
        match change {
            Change::Add(route) => self.table.add(route).map(|()| Undo::Take(route.into())),
            Change::Set(route) => {
                let old = self.table.set(route)?;
                Ok(old.map_or(Undo::Take(route.into()), Undo::Put))
            }
            Change::Remove(removal) => self.table.remove(removal).map(Undo::Put),
        }
    }

    /// Makes the changes of all lines, or none.
    fn control(&mut self, lines: &str, cx: &Context<'_>) -> Result<(), HandlerError> {
        let mut done = Vec::new();
        for line in lines.lines() {
            let line = uncomment(line);
            let Some((command, text)) = first_word(&line) else { continue };
            let change = self.change(command, text, cx);
            match change.and_then(|change| self.apply(change).map_err(refused)) {
                Ok(undo) => done.push(undo),
                Err(error) => {
                    done.into_iter().rev().for_each(|undo| self.take_back(undo));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn take_back(&mut self, undo: Undo) {
        let undone = match undo {
            Undo::Put(route) => self.table.set(route).map(|_| ()),
            Undo::Take(removal) => self.table.remove(removal).map(|_| ()),
        };
        debug_assert!(undone.is_ok());
    }

    /// Drops the packets that have no route.
    #[cold]
    fn lose(&mut self, batch: &mut Batch, lost: u64, cx: &mut Context<'_>) {
        let kind = self.kind;
        batch.take(lost, |index, packet| {
            let address = Ipv4Addr::from(self.addresses[index]);
            self.complaints = self.complaints.saturating_add(1);
            match kind.complaint {
                Complaint::Five(name) if self.complaints <= COMPLAINTS => {
                    cx.say(&format!("{name}: no route for {address}"));
                }
                Complaint::Each => {
                    let number = u32::from_ne_bytes(address.octets());
                    cx.say(&format!("{}: no gw for {number:x}", kind.class));
                }
                Complaint::Five(_) | Complaint::Silent => {}
            }
            cx.drop(packet, Reason::NoRoute);
        });
    }
}

fn refused(error: RouteError) -> HandlerError {
    HandlerError::refused(error.to_string())
}

impl Element for IpLookup {
    fn class(&self) -> &'static str {
        self.kind.class
    }

    fn push(&mut self, _: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let count = batch.len().min(BATCH);
        for (address, packet) in self.addresses.iter_mut().zip(batch.packets()) {
            *address = u32::from_be_bytes(packet.destination);
        }
        self.table.lookup_batch(&self.addresses[..count], &mut self.numbers[..count]);
        let mut outputs = [0; BATCH];
        let (mut lost, mut kept) = (0u64, 0);
        for (index, (packet, &number)) in batch.packets_mut().iter_mut().zip(&self.numbers).enumerate() {
            let hop = self.table.hop(number);
            if !hop.gateway.is_unspecified() {
                packet.destination = hop.gateway.octets();
            }
            outputs[kept] = hop.output as u16;
            kept += usize::from(number != 0);
            lost |= u64::from(number == 0) << index;
        }
        if lost != 0 {
            self.lose(batch, lost, cx);
        }
        cx.emit_each(batch, &mut outputs);
    }

    fn handlers(&self) -> Vec<Handler> {
        let mut handlers = Vec::new();
        if self.kind.changes {
            handlers.extend(["add", "set", "remove", "ctrl"].map(Handler::write));
        }
        handlers.push(Handler::read("table"));
        handlers.push(Handler::read("lookup").with_argument());
        if self.kind.flushes {
            handlers.push(Handler::write("flush"));
        }
        handlers
    }

    fn read(&mut self, handler: &str, argument: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "table" => Ok(self.table.print()),
            "lookup" => {
                let address = cx.argument::<Ipv4Addr>(argument);
                let address = address.map_err(|_| HandlerError::refused("expected IP address"))?;
                Ok(match self.table.lookup(address) {
                    None => "-1".to_owned(),
                    Some(hop) if hop.gateway.is_unspecified() => hop.output.to_string(),
                    Some(hop) => format!("{} {}", hop.output, hop.gateway),
                })
            }
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "add" | "set" | "remove" if self.kind.changes => {
                let change = self.change(handler, value, cx)?;
                self.apply(change).map(|_| ()).map_err(refused)
            }
            "ctrl" if self.kind.changes => self.control(value, cx),
            "flush" if self.kind.flushes => {
                self.table.clear();
                Ok(())
            }
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
