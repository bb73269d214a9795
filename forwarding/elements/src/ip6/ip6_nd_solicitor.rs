//! IP6NDSolicitor: puts IPv6 packets into Ethernet frames to the neighbour that they go to, whose
//! address it finds by neighbour discovery.
//!
//! Group: ip6
//! Usage: `IP6NDSolicitor(IP, ETH)`
//! Ports: 2 inputs, 1 or 2 outputs; push
//!
//! Packets on input 0 are IPv6 packets without a link header, whose destination address annotation
//! says which neighbour they go to. If that neighbour's Ethernet address is known, the packet
//! leaves by output 0 with an Ethernet header in front. Else it waits, and a neighbour solicitation
//! leaves by output 1, or by output 0 if there is no other. Input 1 takes advertisements with their
//! Ethernet header (RFC 4861, 7.2.5): what waited for that answer goes on, in order. Up to 2048
//! packets wait.
//!
//! Packets to a group go to the group's Ethernet address. A neighbour is asked for ten times a
//! second at most, and after ten vain solicitations every two seconds. Neighbours in use are asked
//! again after a minute, and forgotten after two without an answer.
//!
//! - `IP` (IPv6 address): the router's address on this link
//! - `ETH` (Ethernet address): the router's address on this link
//!
//! Handlers:
//! - `table` (read): a line for each neighbour: IPv6 address, 1 if it is known else 0, Ethernet
//!   address
//! - `stats` (read): packets dropped and solicitations sent, in words
//!
//! ```click
//! c :: Classifier(12/86dd 54/87, 12/86dd 54/88, 12/86dd, -);
//! nd :: IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1);
//! c[1] -> [1]nd;
//! rt[1] -> [0]nd -> Queue -> ToDevice(eth0);
//! ```
//!
//! See also: [IP6NDAdvertiser], [ARPQuerier], [LookupIP6Route]

use std::any::Any;
use std::net::Ipv6Addr;

use graph::arguments::{Arguments, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Mac, Reason, ethernet};

use super::destination;
use super::neighbour;
use crate::ethernet::encapsulate;
use crate::ethernet::neighbours::{Limits, Neighbours, Waits, inherit, now};
use wire::neighbour::{ADVERTISEMENT, Message, SOLICITATION, group_mac, solicited_node};

pub const CLASS: Class = Class {
    name: "IP6NDSolicitor",
    ports: "2/1-2",
    processing: Class::PUSH,
    flow: "xy/x",
    source: include_str!("ip6_nd_solicitor.rs"),
    make,
};

const LIMITS: Limits =
    Limits { packets: 2048, entries: 0, entry_packets: 0, slim_factor: 2, timeout: 120_000 };
/// Milliseconds after which a neighbour in use is asked again.
const POLL: i64 = 60_000;

struct Ip6NdSolicitor {
    address: Ipv6Addr,
    mac: Mac,
    /// Always there, except while [`Element::take_state`] moves it.
    table: Option<Box<Neighbours<Ipv6Addr>>>,
    solicitations: u64,
    drops: u64,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (address, mac) = (args.mandatory("IP"), args.mandatory("ETH"));
    args.finish()?;
    Ok(Box::new(Ip6NdSolicitor {
        address: address.ok_or(Refused)?,
        mac: mac.ok_or(Refused)?,
        table: Some(Box::new(Neighbours::new(LIMITS))),
        solicitations: 0,
        drops: 0,
    }))
}

impl Ip6NdSolicitor {
    fn header(&self, destination: Mac) -> [u8; ethernet::HEADER] {
        ethernet::Repr { destination, source: self.mac, ether_type: ethernet::IPV6 }.header()
    }

    fn packets(&mut self, table: &mut Neighbours<Ipv6Addr>, batch: &mut Batch, cx: &mut Context<'_>) {
        let now = now(cx);
        let (mut unknown, mut failed) = (0u64, 0u64);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            let to = destination(packet);
            let mac = match table.look(to, now, POLL) {
                Some((mac, ask)) => {
                    if ask {
                        self.solicit(to, Some(mac), cx);
                    }
                    mac
                }
                None if to.is_multicast() => group_mac(to),
                None => {
                    unknown |= 1 << index;
                    continue;
                }
            };
            failed |= u64::from(!encapsulate(packet, &self.header(mac))) << index;
        }
        batch.take(unknown | failed, |index, packet| {
            let to = destination(&packet);
            if failed >> index & 1 != 0 {
                self.drop(packet, Reason::NoBuffer, cx);
            } else if to.is_unspecified() {
                self.drop(packet, Reason::Malformed, cx);
            } else if table.wait(to, packet, now, cx) == Waits::Asking {
                self.solicit(to, None, cx);
            }
        });
        cx.emit_batch(0, batch);
    }

    /// Asks for an address: the neighbour that had it last, or all that may have it.
    fn solicit(&mut self, target: Ipv6Addr, of: Option<Mac>, cx: &mut Context<'_>) {
        let group = solicited_node(target);
        let solicitation = Message {
            from_mac: self.mac,
            to_mac: of.unwrap_or(group_mac(group)),
            from: self.address,
            to: if of.is_some() { target } else { group },
            kind: SOLICITATION,
            flags: 0,
            target,
            link: Some(self.mac),
        };
        if let Some(packet) = neighbour::packet(&solicitation) {
            self.solicitations += 1;
            cx.emit(cx.output_count().saturating_sub(1), packet);
        }
    }

    fn advertisements(&mut self, table: &mut Neighbours<Ipv6Addr>, batch: &Batch, cx: &mut Context<'_>) {
        let now = now(cx);
        for packet in batch.packets() {
            let message = Message::parse(packet.data()).filter(|message| message.kind == ADVERTISEMENT);
            // What nobody has asked for is not kept.
            let Some(message) = message.filter(|message| table.has(message.target)) else { continue };
            let mac = message.link.unwrap_or(message.from_mac);
            if mac.is_multicast() {
                continue;
            }
            let header = self.header(mac);
            for mut packet in table.insert(message.target, mac, now, cx) {
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

impl Element for Ip6NdSolicitor {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.table.iter().for_each(|table| table.begin(cx));
        Ok(())
    }

    fn push(&mut self, input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let Some(mut table) = self.table.take() else { return cx.drop_batch(batch, Reason::Discarded) };
        if input == 0 {
            self.packets(&mut table, batch, cx);
        } else {
            self.advertisements(&mut table, batch, cx);
        }
        self.table = Some(table);
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        self.table.iter_mut().for_each(|table| table.expire(cx));
    }

    fn handlers(&self) -> Vec<Handler> {
        ["table", "stats"].map(Handler::read).into()
    }

    fn read(&mut self, handler: &str, _: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        let Some(table) = &self.table else { return Err(HandlerError::unknown(handler)) };
        match handler {
            "table" => {
                let line = |(address, known, mac)| {
                    format!("{address} {} {}\n", u8::from(known), unparse::ethernet(mac))
                };
                Ok(table.list(now(cx)).map(line).collect())
            }
            "stats" => Ok(format!(
                "{} packets killed\n{} ND Solicitation Message sent\n",
                self.drops + table.drops(),
                self.solicitations
            )),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        let old: Box<dyn Any> = old;
        let Ok(mut old) = old.downcast::<Ip6NdSolicitor>() else { return };
        if (self.address, self.mac) == (old.address, old.mac) {
            inherit(&mut self.table, &mut old.table);
            (self.solicitations, self.drops) = (old.solicitations, old.drops);
        }
    }
}
