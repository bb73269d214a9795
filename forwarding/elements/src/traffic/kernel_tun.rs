//! A network of Linux whose only other member is this program.
//!
//! # KernelTun: IP packets to and from Linux by a TUN device.
//!
//! Group: traffic
//! Usage: `KernelTun(ADDR [, GATEWAY, TAP, DEVNAME, ETHER, MTU, BURST, IGNORE_QUEUE_OVERFLOWS, HEADROOM])`
//! Ports: 0-1 inputs, 1-2 outputs; agnostic in, push out
//!
//! Makes an interface of Linux with an address. IP packets that Linux sends to its network come out
//! by output 0; what is no IP packet leaves by output 1 if it is connected. Packets that arrive at
//! the input, from their network header on, Linux receives as if they came from that network. The
//! interface goes when this element does.
//!
//! - `ADDR` (address and prefix): Linux's address and the network, such as `10.0.0.1/24`.
//! - `GATEWAY` (address): a gateway of this network for Linux's default route.
//! - `TAP` (boolean): whether Ethernet frames pass, not IP packets. Default: false.
//! - `DEVNAME` (word): the interface's name; without it Linux chooses one.
//! - `ETHER` (Ethernet address): Linux's Ethernet address on it, with `TAP`.
//! - `MTU` (integer): the longest packet. Default: 1500, which Linux has by itself.
//! - `BURST` (integer): packets that are received in one turn at most. Default: 1.
//! - `IGNORE_QUEUE_OVERFLOWS` (boolean): whether to say only once that Linux could not take a
//!   packet. Default: false.
//! - `HEADROOM` (unsigned): has no effect: there is always room for 128 bytes.
//!
//! Handlers:
//! - `dev_name` (read): the interface's name.
//! - `packets` (read): packets received from Linux.
//! - `selected_calls` (read): how often it was told that there are packets.
//!
//! See also: [KernelTap], [FromHost], [FromDevice]
//!
//! # KernelTap: Ethernet frames to and from Linux by a TAP device.
//!
//! Group: traffic
//! Usage: `KernelTap(ADDR [, GATEWAY, DEVNAME, ETHER, MTU, BURST, IGNORE_QUEUE_OVERFLOWS, HEADROOM])`
//! Ports: 0-1 inputs, 1-2 outputs; agnostic in, push out
//!
//! As [KernelTun] with `TAP true`: what passes are frames from the Ethernet header on, and Linux
//! asks by ARP for its neighbours.
//!
//! - `ADDR` (address and prefix): Linux's address and the network, such as `10.0.0.1/24`.
//!
//! Handlers:
//! - `dev_name` (read): the interface's name.
//! - `packets` (read): frames received from Linux.
//! - `selected_calls` (read): how often it was told that there are frames.
//!
//! See also: [KernelTun], [FromHost], [ToHost]

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use graph::arguments::{AddressOrPrefix4, Arguments, Blame, Refused};
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError};
use ipnet::Ipv4Net;
use port::{Packet, Tap, TapKind, TapSetup};
use wire::capture::link;
use wire::{Mac, Reason};

/// The class `KernelTun`.
pub const TUN: Class = Class {
    name: "KernelTun",
    ports: "0-1/1-2",
    processing: "a/h",
    flow: "x/y",
    source: include_str!("kernel_tun.rs"),
    make: |arguments, _| make(arguments, false),
};

/// The class `KernelTap`.
pub const TAP: Class = Class { name: "KernelTap", make: |arguments, _| make(arguments, true), ..TUN };

/// The MTU that Linux gives an interface.
pub(super) const MTU: u32 = 1500;
/// Bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;
/// Bytes of an IPv4 header.
const IPV4: u32 = 20;

fn make(arguments: &mut Arguments<'_>, tap: bool) -> Result<Box<dyn Element>, Refused> {
    let address = arguments.mandatory::<AddressOrPrefix4>("ADDR").and_then(network);
    let gateway = arguments.optional::<Ipv4Addr>("GATEWAY");
    let ethernet = tap | arguments.keyword("TAP").unwrap_or(false);
    let headroom = arguments.keyword::<u32>("HEADROOM").unwrap_or(0);
    let burst = arguments.keyword::<u32>("BURST").unwrap_or(1);
    let mac = arguments.keyword::<Mac>("ETHER");
    let quiet = arguments.keyword("IGNORE_QUEUE_OVERFLOWS").unwrap_or(false);
    let mtu = arguments.keyword::<u32>("MTU").unwrap_or(MTU);
    let device = arguments.keyword::<String>("DEVNAME");
    let device = device.or(arguments.keyword::<String>("DEV_NAME")).unwrap_or_default();
    let mut check = |right: bool, message: &str| {
        if !right {
            arguments.wrong(Blame::Element, message);
        }
    };
    check(address.zip(gateway).is_none_or(|(network, gateway)| network.contains(&gateway)), "bad GATEWAY");
    check(burst >= 1, "BURST must be >= 1");
    check(mtu >= IPV4, "MTU must be greater than 20");
    check(headroom <= 8192, "HEADROOM too big");
    arguments.finish()?;
    let mtu_to_set = (mtu != MTU).then_some(mtu);
    Ok(Box::new(KernelTun {
        class: if tap { TAP.name } else { TUN.name },
        device,
        kind: if ethernet { TapKind::Ethernet } else { TapKind::Ip },
        setup: TapSetup { address: Some(address.ok_or(Refused)?), mac, mtu: mtu_to_set },
        gateway,
        burst,
        quiet,
        mtu: mtu as usize,
        tap: None,
        buffer: vec![0; mtu.min(65_535) as usize + ETHERNET + 4],
        turns: 0,
        packets: 0,
        complained: false,
        batch: Batch::new(),
    }))
}

/// An address and its network; without a prefix, alone in it.
pub(super) fn network(AddressOrPrefix4(address): AddressOrPrefix4) -> Option<Ipv4Net> {
    Ipv4Net::with_netmask(address.address, address.mask).ok()
}

/// Gives Linux a default route.
pub(super) fn add_default_route(gateway: Ipv4Addr) -> Result<(), String> {
    let gateway = gateway.to_string();
    let status = std::process::Command::new("ip").args(["route", "add", "default", "via", &gateway]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("ip route add default via {gateway}: {status}")),
        Err(error) => Err(format!("ip: {}", super::reason(&error))),
    }
}

struct KernelTun {
    class: &'static str,
    device: String,
    kind: TapKind,
    setup: TapSetup,
    gateway: Option<Ipv4Addr>,
    burst: u32,
    quiet: bool,
    mtu: usize,
    tap: Option<Tap>,
    buffer: Vec<u8>,
    turns: u64,
    packets: u64,
    complained: bool,
    batch: Batch,
}

impl KernelTun {
    /// Receives a packet from Linux; false when there is none.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(tap) = &self.tap else { return false };
        match tap.receive(&mut self.buffer) {
            Ok(length) => {
                self.packets += 1;
                // Without memory it is lost, as it is when the device's queue is full.
                let Some(mut packet) = Packet::new(&self.buffer[..length]) else { return true };
                packet.annotations_mut().timestamp = cx.wall();
                let good = self.kind == TapKind::Ethernet || super::mark_ip(&mut packet, link::RAW);
                cx.emit(usize::from(!good), packet);
                true
            }
            Err(error) => {
                if error.kind() != ErrorKind::WouldBlock {
                    let line = format!("{} read: {}", self.class, super::reason(&error));
                    cx.say(&line);
                }
                false
            }
        }
    }

    /// Lets Linux receive a packet, or says why not.
    fn send(&mut self, packet: &mut Packet) -> Result<(), (Reason, String)> {
        let length = match self.kind {
            TapKind::Ethernet if packet.len() < ETHERNET => {
                return Err((Reason::Truncated, "packet too small".to_owned()));
            }
            TapKind::Ethernet => packet.total_len() - ETHERNET,
            TapKind::Ip => {
                let front = packet.network_offset().and_then(|front| usize::try_from(front).ok());
                let long_enough = packet.network().len() >= IPV4 as usize;
                let Some(front) = front.filter(|_| long_enough) else {
                    return Err((Reason::NotIp, "no network header".to_owned()));
                };
                let version = packet.network()[0] >> 4;
                if !matches!(version, 4 | 6) {
                    return Err((Reason::BadVersion, format!("unknown IP version {version}")));
                }
                packet.pull(front);
                packet.total_len()
            }
        };
        if length > self.mtu {
            return Err((Reason::TooBig, format!("packet larger than MTU ({})", self.mtu)));
        }
        let sent = self.tap.as_ref().map_or(Ok(()), |tap| tap.send(packet.segments()));
        sent.map_err(|error| (Reason::PuntFailed, format!("write failed: {}", super::reason(&error))))
    }
}

impl Element for KernelTun {
    fn class(&self) -> &'static str {
        self.class
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let failed = |error| format!("{}: {}", self.device, super::reason(&error));
        let tap = Tap::open(&self.device, self.kind).map_err(|error| {
            format!(
                "/dev/net/tun: {}{}",
                super::reason(&error),
                match error.kind() {
                    ErrorKind::PermissionDenied => "; it needs the right to administer the network",
                    _ => "",
                }
            )
        })?;
        tap.set_up(&self.setup).map_err(failed)?;
        if let Some(gateway) = self.gateway {
            add_default_route(gateway)?;
        }
        cx.watch(tap.as_fd().as_raw_fd());
        self.device = tap.name().to_owned();
        self.tap = Some(tap);
        if cx.input_is_pull(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn ready(&mut self, _fd: RawFd, cx: &mut Context<'_>) {
        self.turns += 1;
        for turn in 0..self.burst {
            if turn > 0 {
                cx.flush();
            }
            if !self.receive(cx) {
                break;
            }
        }
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        for mut packet in batch.drain() {
            if let Err((reason, why)) = self.send(&mut packet) {
                if !(self.quiet && self.complained && reason == Reason::PuntFailed) {
                    let line = format!("{}({}): {why}", self.class, self.device);
                    cx.say(&line);
                }
                self.complained |= reason == Reason::PuntFailed;
                cx.drop(packet, reason);
            }
        }
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        cx.schedule();
        let mut batch = std::mem::take(&mut self.batch);
        let packets = cx.pull(0, BATCH, &mut batch);
        self.push(0, &mut batch, cx);
        self.batch = batch;
        packets > 0
    }

    fn handlers(&self) -> Vec<Handler> {
        ["dev_name", "selected_calls", "packets"].map(Handler::read).into()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "dev_name" => Ok(self.device.clone()),
            "selected_calls" => Ok(self.turns.to_string()),
            "packets" => Ok(self.packets.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
