//! ToDevice: sends frames by a network interface.
//!
//! Group: traffic
//! Usage: `ToDevice(DEVNAME [, BURST, METHOD, DEBUG])`
//! Ports: 1 input, 0-2 outputs; pull in, push out
//!
//! Pulls packets and sends them as they are, from the Ethernet header on. When the interface cannot take one now, it is kept
//! and tried again a little later. What was sent leaves by output 0 if it is connected; what the interface refuses, because it
//! is too long or the interface is down, by output 1.
//!
//! - `DEVNAME` (word): the interface. Only one ToDevice may send by it.
//! - `BURST` (integer): packets a turn at most. Default: 1.
//! - `METHOD` (word): `LINUX` or `PCAP`: both are a packet socket.
//! - `DEBUG` (boolean): whether it says when it waits for the interface. Default: false.
//!
//! Handlers:
//! - `debug` (read, write): as the argument.
//! - `pulls` (read): how often it asked for a packet.
//! - `q` (read): whether it keeps a packet.
//!
//! See also: [FromDevice], [ToDump], [KernelTun]

use std::io;

use graph::arguments::{Arguments, Blame, Refused, Word, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, NodeId, Setup};
use port::{Packet, PacketSocket, SocketOptions};
use wire::Reason;

use super::from_device::index_of;
use crate::basic::written;

/// The class `ToDevice`.
pub const CLASS: Class = Class {
    name: "ToDevice",
    ports: "1/0-2",
    processing: Class::PULL_TO_PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("to_device.rs"),
    make,
};

/// The longest wait for an interface, nanoseconds.
const LONGEST: u64 = 256_000;

fn make(arguments: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let device = arguments.mandatory::<String>("DEVNAME");
    let debug = arguments.keyword("DEBUG").unwrap_or(false);
    let method = arguments.keyword::<Word>("METHOD");
    let burst = arguments.keyword::<i32>("BURST").unwrap_or(1);
    if device.as_deref() == Some("") {
        arguments.wrong(Blame::Element, "interface not set");
    }
    if burst <= 0 {
        arguments.wrong(Blame::Element, "bad BURST");
    }
    if method.is_some_and(|Word(name)| !["LINUX", "PCAP"].contains(&name.as_str())) {
        arguments.wrong(Blame::Element, "bad METHOD");
    }
    arguments.finish()?;
    Ok(Box::new(ToDevice {
        device: device.ok_or(Refused)?,
        burst: burst.unsigned_abs(),
        debug,
        socket: None,
        kept: None,
        backoff: 0,
        pulls: 0,
        bytes: Vec::new(),
        batch: Batch::new(),
    }))
}

struct ToDevice {
    device: String,
    burst: u32,
    debug: bool,
    socket: Option<PacketSocket>,
    /// A packet that the interface could not take.
    kept: Option<Packet>,
    /// How long it was waited for, nanoseconds; 0 when it was not.
    backoff: u64,
    pulls: u64,
    /// For packets in several segments.
    bytes: Vec<u8>,
    batch: Batch,
}

/// What became of a packet.
enum Sent {
    Yes,
    /// Not now.
    Later,
    No(io::Error),
}

impl ToDevice {
    fn send(&mut self, packet: &Packet) -> Sent {
        let Some(socket) = &self.socket else {
            return Sent::No(io::Error::from(io::ErrorKind::NotConnected));
        };
        let result = if packet.segment_count() == 1 {
            socket.send(packet.data())
        } else {
            self.bytes.clear();
            packet.segments().for_each(|segment| self.bytes.extend_from_slice(segment));
            socket.send(&self.bytes)
        };
        match result {
            Ok(()) => Sent::Yes,
            Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32) => Sent::Later,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Later,
            Err(error) => Sent::No(error),
        }
    }

    fn wait(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.kept = Some(packet);
        self.backoff = (self.backoff * 2).clamp(1000, LONGEST);
        if self.debug {
            let now = unparse::timestamp(cx.wall());
            let line = format!("{} :: ToDevice backing off for {} at {now}", cx.name(), self.backoff / 1000);
            cx.say(&line);
        }
        let at = cx.now().saturating_add(self.backoff);
        cx.set_timer(0, at);
    }
}

impl Element for ToDevice {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let before: Vec<NodeId> = (cx.description().nodes.iter())
            .filter(|node| node.class == CLASS.name && node.id.0 < cx.id().0)
            .map(|node| node.id)
            .collect();
        if before
            .into_iter()
            .any(|node| cx.element::<ToDevice>(node).is_some_and(|other| other.device == self.device))
        {
            return Err(format!("duplicate writer for device '{}'", self.device));
        }
        let options = SocketOptions { send_only: true, ..SocketOptions::default() };
        let socket = PacketSocket::open(index_of(&self.device)?, options);
        self.socket = Some(socket.map_err(|error| format!("{}: {}", self.device, super::reason(&error)))?);
        cx.schedule();
        Ok(())
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        let mut sent = 0;
        while sent < self.burst {
            let packet = match self.kept.take() {
                Some(packet) => packet,
                None => {
                    self.pulls += 1;
                    cx.pull(0, 1, &mut self.batch);
                    match self.batch.drain().next() {
                        Some(packet) => packet,
                        None => break,
                    }
                }
            };
            match self.send(&packet) {
                Sent::Yes => {
                    self.backoff = 0;
                    sent += 1;
                    // Where nobody wants it, it has reached its goal.
                    if cx.has_output(0) {
                        cx.emit(0, packet);
                        cx.flush();
                    }
                }
                Sent::Later => {
                    self.wait(packet, cx);
                    return sent > 0;
                }
                Sent::No(error) => {
                    let line = format!("ToDevice({}): {}", self.device, super::reason(&error));
                    cx.say(&line);
                    if cx.has_output(1) {
                        cx.emit(1, packet);
                    } else {
                        cx.drop(packet, Reason::PortDown);
                    }
                    break;
                }
            }
        }
        cx.schedule();
        sent > 0
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        cx.schedule();
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("debug"), Handler::read("pulls"), Handler::read("q")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "debug" => unparse::boolean(self.debug).to_owned(),
            "pulls" => self.pulls.to_string(),
            "q" => unparse::boolean(self.kept.is_some()).to_owned(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "debug" => self.debug = written(value, "type mismatch", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
