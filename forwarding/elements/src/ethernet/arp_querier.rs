//! ARPQuerier: puts IPv4 packets into Ethernet frames to the neighbour that they go to, whose
//! address it finds by ARP.
//!
//! Group: ethernet
//! Usage: `ARPQuerier(IP, ETH [, TABLE, CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, TIMEOUT, POLL_TIMEOUT, BROADCAST, BROADCAST_POLL])`
//! or `ARPQuerier(NAME [, ...])`
//! Ports: 2 inputs, 1 or 2 outputs; push
//!
//! Packets on input 0 are IPv4 packets without a link header, whose destination address annotation
//! says which neighbour they go to (a gateway, or the destination itself). If that neighbour's
//! Ethernet address is known, the packet leaves by output 0 with an Ethernet header in front. Else
//! it waits, and an ARP request leaves by output 1, or by output 0 if there is no other. Input 1
//! takes ARP replies with their Ethernet header: what waited for that answer goes on, in order.
//!
//! Packets to 255.255.255.255 and to `BROADCAST` go to ff:ff:ff:ff:ff:ff, multicast packets to
//! their group's address (RFC 1112); packets to 0.0.0.0 are dropped. An address is asked for ten
//! times a second at most, and after ten vain requests every two seconds. Addresses in use are
//! asked for again once their last news are older than `POLL_TIMEOUT`.
//!
//! - `IP` (IPv4 address or prefix): the router's address on this link; with a prefix, that says the
//!   broadcast address
//! - `ETH` (Ethernet address): the router's address on this link
//! - `NAME`: a name of [AddressInfo] for both
//! - `TABLE` (element): an [ARPTable] to use; then the five arguments below do not count
//! - `CAPACITY` (number): how many packets may wait in all; default 2048; 0: any number
//! - `ENTRY_CAPACITY` (number): how many neighbours may be kept; default 0: any number
//! - `ENTRY_PACKET_CAPACITY` (number): how many packets may wait for the same neighbour; default 0:
//!   any number
//! - `CAPACITY_SLIM_FACTOR` (number): what part of `CAPACITY` is freed when it is exceeded: 1 /
//!   this; default 2
//! - `TIMEOUT` (time): how long an answer holds; default 5 minutes; 0: for ever
//! - `POLL_TIMEOUT` (time): after what time an address in use is asked for again; default 1 minute;
//!   0: never
//! - `BROADCAST` (IPv4 address): the link's broadcast address; default: that of the prefix `IP`
//! - `BROADCAST_POLL` (boolean): whether to ask again by broadcast, and not the neighbour alone;
//!   default false
//!
//! Handlers:
//! - `table`, `count`, `length` (read), `insert`, `delete` (write): of the table, see [ARPTable]
//! - `stats` (read): packets dropped and requests sent, in words
//! - `queries` (read): how many requests were sent
//! - `responses` (read): how many ARP messages came to input 1
//! - `drops` (read): how many packets were dropped that never waited
//! - `broadcast`, `ipaddr` (read, write): the addresses
//! - `clear` (write): empties the table and sets all counts to 0
//! - `config` (read, write): its arguments
//!
//! ```click
//! c :: Classifier(12/0806 20/0002, 12/0800, -);
//! arpq :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1);
//! FromDevice(eth0) -> c;
//! c[0] -> [1]arpq;
//! rt[1] -> [0]arpq -> Queue -> ToDevice(eth0);
//! ```
//!
//! See also: [ARPTable], [ARPResponder], [AddressInfo]

use std::any::Any;
use std::net::Ipv4Addr;

use graph::arguments::{AddressOrPrefix4, Argument, Arguments, ElementName, Refused, Scope, Seconds, offset};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, NodeId, Setup};
use port::Packet;
use wire::{Mac, Reason, arp, ethernet};

use super::arp_table::{ArpTable, limits};
use super::encapsulate;
use super::neighbours::{Neighbours, Waits, inherit, milliseconds, now};

pub const CLASS: Class = Class {
    name: "ARPQuerier",
    ports: "2/1-2",
    processing: Class::PUSH,
    flow: "xy/x",
    source: include_str!("arp_querier.rs"),
    make,
};

type Table = Neighbours<Ipv4Addr>;

struct ArpQuerier {
    address: Ipv4Addr,
    mac: Mac,
    broadcast: Ipv4Addr,
    /// Milliseconds; 0: never.
    poll: i64,
    broadcast_poll: bool,
    /// Its own table, when it has one and is not at work with it.
    own: Option<Box<Table>>,
    /// Whose table it uses instead.
    shared: Option<Shared>,
    queries: u64,
    responses: u64,
    drops: u64,
    warned: bool,
}

/// An element with a table.
struct Shared {
    name: String,
    /// Its number and full name, once found. The number changes when another graph takes the place
    /// of this one.
    found: Option<(NodeId, String)>,
}

/// The first argument, which may be a name for both addresses.
struct Named {
    prefix: AddressOrPrefix4,
    mac: Option<Mac>,
}

impl Argument for Named {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Named, String> {
        let prefix = AddressOrPrefix4::parse(text, scope)?;
        Ok(Named { prefix, mac: Mac::parse(text, scope).ok() })
    }
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let limits = limits(args);
    let table = args.keyword::<ElementName>("TABLE");
    let poll = args.keyword::<Seconds>("POLL_TIMEOUT").map_or(60_000, milliseconds);
    let broadcast_poll = args.keyword("BROADCAST_POLL").unwrap_or(false);
    let broadcast = args.keyword::<Ipv4Addr>("BROADCAST");
    args.set_keywords_aside();
    let named = args.mandatory::<Named>("IP");
    let mac = match &named {
        Some(Named { mac: Some(mac), .. }) => Some(args.optional("ETH").unwrap_or(*mac)),
        _ => args.mandatory("ETH"),
    };
    args.finish()?;
    let AddressOrPrefix4(prefix) = named.ok_or(Refused)?.prefix;
    let default = Some(prefix.broadcast()).filter(|broadcast| *broadcast != prefix.address);
    Ok(Box::new(ArpQuerier {
        address: prefix.address,
        mac: mac.ok_or(Refused)?,
        broadcast: broadcast.or(default).unwrap_or(Ipv4Addr::BROADCAST),
        poll,
        broadcast_poll,
        own: table.is_none().then(|| Box::new(Neighbours::new(limits))),
        shared: table.map(|table| Shared { name: table.0, found: None }),
        queries: 0,
        responses: 0,
        drops: 0,
        warned: false,
    }))
}

impl ArpQuerier {
    /// Works with the table, wherever it is. `None`, and nothing done, when there is none: a graph
    /// replaced another, and has no such element.
    fn with_table<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut ArpQuerier, &mut Table, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let mut table = match &mut self.shared {
            None => self.own.take()?,
            Some(shared) => shared.place(cx)?.take()?,
        };
        let result = work(self, &mut table, cx);
        match &mut self.shared {
            None => self.own = Some(table),
            Some(shared) => *shared.place(cx)? = Some(table),
        }
        Some(result)
    }

    fn packets(&mut self, table: &mut Table, batch: &mut Batch, cx: &mut Context<'_>) {
        let now = now(cx);
        let source = self.mac;
        let mut header =
            ethernet::Repr { destination: Mac::ZERO, source, ether_type: ethernet::IPV4 }.header();
        let (mut unknown, mut failed, mut last) = (0u64, 0u64, None);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            let to = destination(packet);
            // Neighbours are few: most packets go where the one before went.
            if last != Some(to) {
                let mac = match table.look(to, now, self.poll) {
                    Some((mac, ask)) => {
                        if ask {
                            self.ask(if self.broadcast_poll { Mac::BROADCAST } else { mac }, packet, cx);
                        }
                        mac
                    }
                    None => match self.group(to) {
                        Some(mac) => mac,
                        None => {
                            unknown |= 1 << index;
                            continue;
                        }
                    },
                };
                header[..6].copy_from_slice(&mac.0);
                last = Some(to);
            }
            failed |= u64::from(!encapsulate(packet, &header)) << index;
        }
        if unknown | failed != 0 {
            batch.take(unknown | failed, |index, packet| {
                if failed >> index & 1 != 0 {
                    self.drop(packet, Reason::NoBuffer, cx);
                } else {
                    self.wait(table, packet, now, cx);
                }
            });
        }
        cx.emit_batch(0, batch);
    }

    /// The Ethernet address of all, or of a group.
    fn group(&self, to: Ipv4Addr) -> Option<Mac> {
        if to == Ipv4Addr::BROADCAST || to == self.broadcast {
            return Some(Mac::BROADCAST);
        }
        let [_, b, c, d] = to.octets();
        to.is_multicast().then_some(Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
    }

    #[cold]
    fn wait(&mut self, table: &mut Table, packet: Packet, now: i64, cx: &mut Context<'_>) {
        let to = destination(&packet);
        if to.is_unspecified() {
            if !self.warned {
                self.warned = true;
                let line = format!(
                    "{} :: ARPQuerier: would query for 0.0.0.0; missing dest IP addr annotation?",
                    cx.name()
                );
                cx.say(&line);
            }
            return self.drop(packet, Reason::Malformed, cx);
        }
        let request = self.request(Mac::BROADCAST, &packet);
        if table.wait(to, packet, now, cx) == Waits::Asking {
            self.send(request, cx);
        }
    }

    fn ask(&mut self, of: Mac, packet: &Packet, cx: &mut Context<'_>) {
        let request = self.request(of, packet);
        self.send(request, cx);
    }

    fn send(&mut self, request: Option<Packet>, cx: &mut Context<'_>) {
        if let Some(request) = request {
            self.queries += 1;
            cx.emit(cx.output_count().saturating_sub(1), request);
        }
    }

    /// A request for the packet's neighbour.
    fn request(&self, of: Mac, packet: &Packet) -> Option<Packet> {
        let request = arp::Repr {
            operation: arp::REQUEST,
            sender_mac: self.mac,
            sender: self.address,
            target_mac: Mac::ZERO,
            target: destination(packet),
        };
        let mut frame = super::arp::frame(of, &request)?;
        frame.annotations_mut().timestamp = packet.annotations().timestamp;
        frame.set_annotation(offset::VLAN_TCI, packet.annotation::<2>(offset::VLAN_TCI));
        Some(frame)
    }

    fn responses(&mut self, table: &mut Table, batch: &Batch, cx: &mut Context<'_>) {
        let now = now(cx);
        for packet in batch.packets() {
            self.responses += u64::from(packet.len() >= super::arp::FRAME);
            let reply = super::arp::message(packet.data()).filter(|arp| arp.operation == arp::REPLY);
            let Some(reply) = reply.filter(|arp| !arp.sender_mac.is_multicast()) else { continue };
            let (destination, source) = (reply.sender_mac, self.mac);
            let header = ethernet::Repr { destination, source, ether_type: ethernet::IPV4 }.header();
            for mut packet in table.insert(reply.sender, reply.sender_mac, now, cx) {
                if encapsulate(&mut packet, &header) {
                    cx.emit(0, packet);
                } else {
                    self.drop(packet, Reason::NoBuffer, cx);
                }
            }
        }
    }

    fn drop(&mut self, packet: Packet, reason: Reason, cx: &mut Context<'_>) {
        self.drops += 1;
        cx.drop(packet, reason);
    }
}

#[inline(always)]
fn destination(packet: &Packet) -> Ipv4Addr {
    packet.destination.into()
}

impl Shared {
    /// Where the table is kept.
    fn place<'a>(&mut self, cx: &'a mut Context<'_>) -> Option<&'a mut Option<Box<Table>>> {
        let nodes = &cx.description().nodes;
        let stays = |(id, name): &&(NodeId, String)| nodes.get(id.0).is_some_and(|node| node.name == *name);
        if self.found.as_ref().filter(stays).is_none() {
            let id = cx.find(&self.name)?;
            self.found = Some((id, cx.description().nodes.get(id.0)?.name.clone()));
        }
        let id = self.found.as_ref()?.0;
        if cx.element::<ArpTable>(id).is_some() {
            return cx.element::<ArpTable>(id).map(|table| &mut table.table);
        }
        cx.element::<ArpQuerier>(id).filter(|other| other.shared.is_none()).map(|other| &mut other.own)
    }
}

impl Element for ArpQuerier {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.own.iter().for_each(|table| table.begin(cx));
        let Some(shared) = &mut self.shared else { return Ok(()) };
        if shared.place(cx).is_some() {
            return Ok(());
        }
        Err(match cx.find(&shared.name) {
            None => format!("TABLE: no element named '{}'", shared.name),
            Some(_) => format!("TABLE: '{}' is not an ARPTable", shared.name),
        })
    }

    fn push(&mut self, input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let done = if input != 0 {
            self.with_table(cx, |querier, table, cx| querier.responses(table, batch, cx))
        } else if self.address.is_unspecified() {
            None
        } else {
            self.with_table(cx, |querier, table, cx| querier.packets(table, batch, cx))
        };
        if done.is_none() {
            self.drops += batch.len() as u64;
            cx.drop_batch(batch, Reason::Discarded);
        }
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        self.own.iter_mut().for_each(|table| table.expire(cx));
    }

    fn handlers(&self) -> Vec<Handler> {
        let read = ["table", "stats", "count", "length", "queries", "responses", "drops"].map(Handler::read);
        let both = ["broadcast", "ipaddr"].map(Handler::read_write);
        let write = ["insert", "delete", "clear"].map(Handler::write);
        read.into_iter().chain(both).chain(write).collect()
    }

    fn read(&mut self, handler: &str, _: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "queries" => Ok(self.queries.to_string()),
            "responses" => Ok(self.responses.to_string()),
            "drops" => Ok(self.drops.to_string()),
            "broadcast" => Ok(self.broadcast.to_string()),
            "ipaddr" => Ok(self.address.to_string()),
            _ => self
                .with_table(cx, |querier, table, cx| match handler {
                    "stats" => {
                        let killed = querier.drops + table.drops();
                        Ok(format!("{killed} packets killed\n{} ARP queries sent\n", querier.queries))
                    }
                    _ => table.read(handler, cx),
                })
                .unwrap_or_else(|| Err(HandlerError::refused("no ARPTable"))),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "broadcast" => self.broadcast = cx.argument(value)?,
            "ipaddr" => self.address = cx.argument(value)?,
            _ => {
                if handler == "clear" {
                    (self.queries, self.responses, self.drops) = (0, 0, 0);
                }
                return self
                    .with_table(cx, |_, table, cx| table.write(handler, value, cx))
                    .unwrap_or_else(|| Err(HandlerError::refused("no ARPTable")));
            }
        }
        Ok(())
    }

    fn succeed(&mut self, old: Box<dyn Element>, _: &mut Context<'_>) {
        let old: Box<dyn Any> = old;
        let Ok(mut old) = old.downcast::<ArpQuerier>() else { return };
        // What others know by another name is worth nothing to this one.
        if (self.address, self.mac) == (old.address, old.mac) {
            inherit(&mut self.own, &mut old.own);
        }
        (self.queries, self.responses, self.drops) = (old.queries, old.responses, old.drops);
        self.warned = old.warned;
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        let old: Box<dyn Any> = old;
        let Ok(mut old) = old.downcast::<ArpQuerier>() else { return };
        if (self.address, self.mac, self.broadcast) != (old.address, old.mac, old.broadcast) {
            return;
        }
        inherit(&mut self.own, &mut old.own);
        (self.queries, self.responses, self.drops) = (old.queries, old.responses, old.drops);
    }
}
