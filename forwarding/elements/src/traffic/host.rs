//! Linux as a host at the other end of a TAP device.
//!
//! # FromHost: frames that Linux sends by a TAP device.
//!
//! Group: traffic
//! Usage: `FromHost(DEVNAME [, DST, GATEWAY, ETHER, MTU, HEADROOM])`
//! Ports: no inputs, 1 output; push
//!
//! Makes an interface of Linux. What Linux sends by it comes out here, from the Ethernet header on,
//! with the network header noted when it is IP. The interface goes when this element does.
//!
//! - `DEVNAME` (word): the interface's name.
//! - `DST` (address and prefix): Linux's address on it, such as `10.0.0.1/24`; the interface is
//!   then up.
//! - `GATEWAY` (address): a gateway of this network for Linux's default route.
//! - `ETHER` (Ethernet address): Linux's Ethernet address on it.
//! - `MTU` (integer): the longest packet. Default: 1500, which Linux has by itself.
//! - `HEADROOM` (unsigned): has no effect: there is always room for 128 bytes.
//!
//! Handlers:
//! - `dev_name` (read): the interface's name.
//! - `signal` (read): whether what is behind it has room.
//!
//! See also: [ToHost], [KernelTap]
//!
//! # ToHost: lets Linux receive frames by a TAP device.
//!
//! Group: traffic
//! Usage: `ToHost(DEVNAME)`
//! Ports: 1 input, no outputs; push
//!
//! Linux receives each packet, which begins with an Ethernet header, as if it arrived at the
//! interface.
//!
//! - `DEVNAME` (word): the interface, that of a [FromHost] in the same configuration.
//!
//! Handlers:
//! - `dev_name` (read): the interface's name.
//! - `drops` (read): packets that Linux did not take.
//!
//! See also: [FromHost], [KernelTap]

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use graph::arguments::{AddressOrPrefix4, Arguments, Blame, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, NodeId, Setup};
use port::{Packet, Tap, TapKind, TapSetup};
use wire::capture::link;
use wire::{Mac, Reason};

use super::kernel_tun::{ETHERNET, MTU, add_default_route, network};

/// The class `FromHost`.
pub const FROM: Class = Class {
    name: "FromHost",
    ports: "0/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("host.rs"),
    make: make_from,
};

/// The class `ToHost`.
pub const TO: Class = Class {
    name: "ToHost",
    ports: "1/0",
    make: |arguments, _| {
        let device = arguments.mandatory::<String>("DEVNAME");
        arguments.finish()?;
        let device = device.ok_or(Refused)?;
        Ok(Box::new(ToHost { device, tap: None, drops: 0, complained: false }))
    },
    ..FROM
};

fn make_from(arguments: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let device = arguments.mandatory::<String>("DEVNAME");
    let address = arguments.optional::<AddressOrPrefix4>("DST").and_then(network);
    let gateway = arguments.keyword::<Ipv4Addr>("GATEWAY");
    let mac = arguments.keyword::<Mac>("ETHER");
    let headroom = arguments.keyword::<u32>("HEADROOM").unwrap_or(0);
    let mtu = arguments.keyword::<u32>("MTU").unwrap_or(MTU);
    if let (Some(network), Some(gateway)) = (address, gateway)
        && !network.contains(&gateway)
    {
        arguments.wrong(Blame::Element, "bad GATEWAY");
    }
    if device.as_deref() == Some("") {
        arguments.wrong(Blame::Element, "must specify device name");
    }
    if headroom > 8192 {
        arguments.wrong(Blame::Element, "HEADROOM too large");
    }
    arguments.finish()?;
    Ok(Box::new(FromHost {
        device: device.ok_or(Refused)?,
        setup: TapSetup { address, mac, mtu: (mtu != MTU).then_some(mtu) },
        gateway,
        tap: None,
        buffer: vec![0; mtu.min(65_535) as usize + ETHERNET + 4],
    }))
}

/// The end of the TAP device that Linux sends to.
pub struct FromHost {
    device: String,
    setup: TapSetup,
    gateway: Option<Ipv4Addr>,
    tap: Option<Arc<Tap>>,
    buffer: Vec<u8>,
}

impl Element for FromHost {
    fn class(&self) -> &'static str {
        FROM.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let failed = |error| format!("{}: {}", self.device, super::reason(&error));
        let tap = Tap::open(&self.device, TapKind::Ethernet).map_err(failed)?;
        if self.setup.address.is_some() || self.setup.mac.is_some() || self.setup.mtu.is_some() {
            tap.set_up(&self.setup).map_err(failed)?;
        }
        if let Some(gateway) = self.gateway {
            add_default_route(gateway)?;
        }
        cx.watch(tap.as_fd().as_raw_fd());
        self.tap = Some(Arc::new(tap));
        Ok(())
    }

    fn ready(&mut self, fd: RawFd, cx: &mut Context<'_>) {
        let Some(tap) = &self.tap else { return };
        if !cx.has_room(0) {
            // Linux's own queue holds them meanwhile.
            cx.unwatch(fd);
            cx.await_room(0);
            return;
        }
        match tap.receive(&mut self.buffer) {
            Ok(length) => {
                // Without memory the frame is lost, as it is when the device's queue is full.
                let Some(mut packet) = Packet::new(&self.buffer[..length]) else { return };
                packet.set_link(Some(0));
                packet.annotations_mut().timestamp = cx.wall();
                super::mark_ip(&mut packet, link::ETHERNET);
                cx.emit(0, packet);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                let line = format!("FromHost read: {}", super::reason(&error));
                cx.say(&line);
            }
        }
    }

    /// There is room again.
    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(tap) = &self.tap {
            cx.watch(tap.as_fd().as_raw_fd());
        }
        true
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("dev_name"), Handler::read("signal")]
    }

    fn read(&mut self, handler: &str, _: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "dev_name" => Ok(self.device.clone()),
            "signal" => Ok(unparse::boolean(cx.has_room(0)).to_owned()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}

struct ToHost {
    device: String,
    /// That of the FromHost, once it was needed: elements begin to work in any order.
    tap: Option<Arc<Tap>>,
    drops: u64,
    complained: bool,
}

impl ToHost {
    /// The FromHost of the same device.
    fn find(&self, cx: &mut Context<'_>) -> Option<NodeId> {
        let nodes: Vec<NodeId> = (cx.description().nodes.iter())
            .filter(|node| node.class == FROM.name)
            .map(|node| node.id)
            .collect();
        nodes
            .into_iter()
            .find(|node| cx.element::<FromHost>(*node).is_some_and(|from| from.device == self.device))
    }
}

impl Element for ToHost {
    fn class(&self) -> &'static str {
        TO.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let device = &self.device;
        self.find(cx).map(drop).ok_or_else(|| {
            format!("ToHost({device}) requires an initialized FromHost with the same dev_name")
        })
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        if self.tap.is_none() {
            let from = self.find(cx);
            self.tap = from.and_then(|node| cx.element::<FromHost>(node)?.tap.clone());
        }
        for packet in batch.drain() {
            if packet.len() < ETHERNET {
                cx.say("ToHost: packet too small");
                cx.drop(packet, Reason::Truncated);
                continue;
            }
            let Some(tap) = &self.tap else {
                cx.drop(packet, Reason::PuntFailed);
                continue;
            };
            if let Err(error) = tap.send(packet.segments()) {
                self.drops += 1;
                if !std::mem::replace(&mut self.complained, true) {
                    let line = format!("ToHost({}): write failed: {}", self.device, super::reason(&error));
                    cx.say(&line);
                }
                cx.drop(packet, Reason::PuntFailed);
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("dev_name"), Handler::read("drops")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "dev_name" => Ok(self.device.clone()),
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
