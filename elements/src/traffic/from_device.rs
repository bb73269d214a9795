//! FromDevice: frames that a network interface receives.
//!
//! Group: traffic
//! Usage: `FromDevice(DEVNAME [, PROMISC, SNAPLEN, FORCE_IP, METHOD, OUTBOUND, BURST, TIMESTAMP, ENCAP, BPF_FILTER, SNIFFER, HEADROOM])`
//! Ports: no inputs, 1-2 outputs; push
//!
//! Frames come from the Ethernet header on, with the time when they arrived and to whom they were addressed (the packet type
//! annotation). Linux goes on receiving them as well: an interface is not taken away from it. To have packets for
//! oneself, use an interface without addresses.
//!
//! With `FORCE_IP` the network header is found behind the Ethernet header, and what is not IP leaves by output 1 if it is connected.
//!
//! - `DEVNAME` (word): the interface.
//! - `PROMISC` (boolean): whether frames to others are received as well. Default: false.
//! - `SNAPLEN` (14 to 8190): bytes kept of a frame at most; the extra length annotation says how many were left out. Default: 2046.
//! - `FORCE_IP` (boolean): as above. Default: false.
//! - `METHOD` (word): `LINUX` or `PCAP`: both are a packet socket.
//! - `OUTBOUND` (boolean): whether frames that this machine sends are seen as well. Default: false.
//! - `BURST` (integer): frames a turn at most. Default: 1.
//! - `TIMESTAMP` (boolean): whether packets get the time of their arrival. Default: true.
//! - `ENCAP` (word): the link type; only `ETHER` is received.
//! - `BPF_FILTER` (text): has no effect, and a warning says so.
//! - `SNIFFER` (boolean): false, that Linux should not receive the frames, has no effect, and a warning says so.
//! - `HEADROOM` (unsigned): has no effect: there is always room for 128 bytes.
//!
//! Handlers:
//! - `kernel_drops` (read): frames lost because they were not taken in time.
//! - `encap` (read): the link type, `ETHER`.
//! - `count` (read): frames received.
//! - `reset_counts` (write): sets `count` to 0.
//!
//! See also: [ToDevice], [FromDump], [KernelTun]

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use graph::arguments::{Arguments, Blame, Refused, Word, offset};
use graph::{Class, Context, Element, Handler, HandlerError, Setup};
use port::{Packet, PacketSocket, PacketType, SocketOptions};
use wire::capture::link;

/// The class `FromDevice`.
pub const CLASS: Class = Class {
    name: "FromDevice",
    ports: "0/1-2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("from_device.rs"),
    make,
};

/// How often errors are told of.
const COMPLAINTS: u32 = 5;

fn make(arguments: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let device = arguments.mandatory::<String>("DEVNAME");
    let promiscuous = arguments.optional("PROMISC").unwrap_or(false);
    let snap = arguments.optional::<u32>("SNAPLEN").unwrap_or(2046);
    let sniffer = arguments.keyword("SNIFFER").unwrap_or(true);
    let force_ip = arguments.keyword("FORCE_IP").unwrap_or(false);
    let method = arguments.keyword::<Word>("METHOD");
    let method = method.or(arguments.keyword::<Word>("CAPTURE"));
    let filter = arguments.keyword::<String>("BPF_FILTER").unwrap_or_default();
    let outgoing = arguments.keyword("OUTBOUND").unwrap_or(false);
    let headroom = arguments.keyword::<u32>("HEADROOM").unwrap_or(0);
    let encap = arguments.keyword::<Word>("ENCAP");
    let burst = arguments.keyword::<i32>("BURST").unwrap_or(1);
    let timestamp = arguments.keyword("TIMESTAMP").unwrap_or(true);
    let mut check = |right: bool, message: &str| {
        if !right {
            arguments.wrong(Blame::Element, message);
        }
    };
    check((14..=8190).contains(&snap), "SNAPLEN out of range");
    check(headroom <= 8190, "HEADROOM out of range");
    check(burst > 0, "BURST out of range");
    check(
        encap.is_none_or(|Word(name)| link::parse(&name) == Some(link::ETHERNET)),
        "bad encapsulation type",
    );
    check(method.is_none_or(|Word(name)| ["LINUX", "PCAP"].contains(&name.as_str())), "bad METHOD");
    check(device.as_deref() != Some(""), "interface not set");
    if !filter.is_empty() {
        arguments
            .strange("BPF_FILTER", "BPF filter ignored; use IPFilter or IPClassifier behind this element");
    }
    if !sniffer {
        arguments.strange("SNIFFER", "Linux receives the frames as well");
    }
    arguments.finish()?;
    Ok(Box::new(FromDevice {
        device: device.ok_or(Refused)?,
        options: SocketOptions { promiscuous, outgoing, send_only: false },
        force_ip,
        burst: burst.unsigned_abs(),
        timestamp,
        socket: None,
        buffer: vec![0; snap as usize],
        count: 0,
        complaints: 0,
    }))
}

struct FromDevice {
    device: String,
    options: SocketOptions,
    force_ip: bool,
    burst: u32,
    timestamp: bool,
    socket: Option<PacketSocket>,
    /// As long as a frame may be.
    buffer: Vec<u8>,
    count: u64,
    complaints: u32,
}

/// The number of an interface.
pub(super) fn index_of(device: &str) -> Result<u32, String> {
    nix::net::if_::if_nametoindex(device).map_err(|error| format!("{device}: {}", error.desc()))
}

impl FromDevice {
    /// Receives one frame and passes it on; false when there is none.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(socket) = &self.socket else { return false };
        let received = match socket.receive(&mut self.buffer) {
            Ok(received) => received,
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
                    && self.complaints < COMPLAINTS
                {
                    self.complaints += 1;
                    let line = format!("FromDevice({}): recvfrom: {}", self.device, super::reason(&error));
                    cx.say(&line);
                }
                return false;
            }
        };
        if received.kind == PacketType::Outgoing && !self.options.outgoing {
            return true;
        }
        // Without memory the frame is lost, as it is when the socket's buffer is full.
        let Some(mut packet) = Packet::new(&self.buffer[..received.captured]) else { return true };
        packet.set_link(Some(0));
        let annotations = packet.annotations_mut();
        annotations.kind = received.kind;
        if self.timestamp {
            annotations.timestamp = received.time;
        }
        let left_out = (received.length - received.captured) as u32;
        if left_out != 0 {
            packet.set_annotation(offset::EXTRA_LENGTH, left_out.to_ne_bytes());
        }
        self.count += 1;
        let output = usize::from(self.force_ip && !super::mark_ip(&mut packet, link::ETHERNET));
        cx.emit(output, packet);
        true
    }

    fn receive_burst(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        for _ in 0..self.burst {
            if any {
                cx.flush();
            }
            if !self.receive(cx) {
                break;
            }
            any = true;
        }
        any
    }
}

impl Element for FromDevice {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let socket = PacketSocket::open(index_of(&self.device)?, self.options);
        let socket = socket.map_err(|error| format!("{}: {}", self.device, super::reason(&error)))?;
        cx.watch(socket.as_fd().as_raw_fd());
        self.socket = Some(socket);
        Ok(())
    }

    fn ready(&mut self, _fd: RawFd, cx: &mut Context<'_>) {
        // While frames come they are asked for in turn with other tasks.
        if !cx.is_scheduled() && self.receive_burst(cx) {
            cx.schedule();
        }
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        let any = self.receive_burst(cx);
        if any {
            cx.schedule();
        }
        any
    }

    fn handlers(&self) -> Vec<Handler> {
        let read = ["kernel_drops", "encap", "count"].map(Handler::read);
        read.into_iter().chain([Handler::write("reset_counts")]).collect()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "kernel_drops" => {
                self.socket.as_mut().map_or("??".to_owned(), |socket| socket.drops().to_string())
            }
            "encap" => link::name(link::ETHERNET),
            "count" => self.count.to_string(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
