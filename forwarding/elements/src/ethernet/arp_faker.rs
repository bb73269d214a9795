//! ARPFaker: says again and again that a host has an address.
//!
//! Group: ethernet
//! Usage: `ARPFaker(DSTIP, DSTETH, SRCIP, SRCETH)`
//! Ports: 0 inputs, 1 output; push
//!
//! Sends an ARP reply one second after the start and then every ten seconds: to `DSTIP` at
//! `DSTETH`, that `SRCIP` is at `SRCETH`. Nobody needs to have asked.
//!
//! - `DSTIP` (IPv4 address): who is told
//! - `DSTETH` (Ethernet address): where that host is
//! - `SRCIP` (IPv4 address): the address spoken of
//! - `SRCETH` (Ethernet address): where it is said to be
//!
//! See also: [ARPResponder], [ARPQuerier]

use graph::arguments::{Arguments, Refused};
use graph::{Class, Context, Element, Setup};
use wire::arp;

pub const CLASS: Class = Class {
    name: "ARPFaker",
    ports: "0/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("arp_faker.rs"),
    make,
};

const SECOND: u64 = 1_000_000_000;

struct ArpFaker(arp::Repr);

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (target, target_mac) = (args.mandatory("DSTIP"), args.mandatory("DSTETH"));
    let (sender, sender_mac) = (args.mandatory("SRCIP"), args.mandatory("SRCETH"));
    args.finish()?;
    Ok(Box::new(ArpFaker(arp::Repr {
        operation: arp::REPLY,
        sender: sender.ok_or(Refused)?,
        sender_mac: sender_mac.ok_or(Refused)?,
        target: target.ok_or(Refused)?,
        target_mac: target_mac.ok_or(Refused)?,
    })))
}

impl Element for ArpFaker {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let now = cx.now();
        cx.set_timer(0, now + SECOND);
        Ok(())
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        if let Some(packet) = super::arp::frame(self.0.target_mac, &self.0) {
            cx.emit(0, packet);
        }
        let now = cx.now();
        cx.set_timer(0, now + 10 * SECOND);
    }
}
