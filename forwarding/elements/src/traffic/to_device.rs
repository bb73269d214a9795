//! ToDevice: sends frames by a network interface.
//!
//! Group: traffic
//! Usage: `ToDevice(DEVNAME [, BURST, METHOD, QUEUE, DEBUG])`
//! Ports: 1 input, 0-2 outputs; pull in, push out
//!
//! Pulls packets and sends them as they are, from the Ethernet header on. When the interface cannot
//! take one now, it is kept and tried again a little later. What was sent leaves by output 0 if it
//! is connected; what the interface refuses, because it is too long or the interface is down, by
//! output 1.
//!
//! With `METHOD XDP` packets are handed to an AF_XDP socket by their place in memory, many at a
//! time: that of a FromDevice with `METHOD XDP` on the same interface, or else one of its own,
//! which leaves the interface's frames to Linux. What leaves by output 0 then is a copy of what is
//! being sent.
//!
//! - `DEVNAME` (word): the interface. Only one ToDevice may send by it, but several with `METHOD
//!   XDP`.
//! - `BURST` (integer): packets a turn at most. Default: 1; with `METHOD XDP` 64, and no more.
//! - `METHOD` (word): `LINUX` or `PCAP`: both are a packet socket; `XDP`: as above. Default: LINUX.
//! - `QUEUE` (unsigned): with `METHOD XDP`, the queue of the interface. Default: the first that is
//!   in use.
//! - `DEBUG` (boolean): whether it says when it waits for the interface. Default: false.
//!
//! Handlers:
//! - `debug` (read, write): as the argument.
//! - `pulls` (read): how often it asked for a packet.
//! - `q` (read): whether it keeps a packet.
//! - `method` (read): `LINUX`, or `XDP` with what the interface could do of it and why not more.
//!
//! See also: [FromDevice], [ToDump], [KernelTun]

use std::io;

use graph::arguments::{Arguments, Blame, Refused, Word, unparse};
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError, NodeId, Setup};
use port::{Packet, PacketSocket, Queue, SocketOptions, XdpQueue};
use wire::Reason;

use super::from_device::{self, FromDevice, index_of};
use super::method::{self, Method};
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
/// The same with METHOD XDP, where it may be one for the interface to come up.
const LONGEST_XDP: u64 = 1_000_000;

fn make(arguments: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let device = arguments.mandatory::<String>("DEVNAME");
    let debug = arguments.keyword("DEBUG").unwrap_or(false);
    let method = arguments.keyword::<Word>("METHOD");
    let method = method::read(method, arguments, setup);
    let usual = if matches!(method, Method::Xdp { .. }) { BATCH as i32 } else { 1 };
    let burst = arguments.keyword::<i32>("BURST").unwrap_or(usual);
    if device.as_deref() == Some("") {
        arguments.wrong(Blame::Element, "interface not set");
    }
    if burst <= 0 {
        arguments.wrong(Blame::Element, "bad BURST");
    }
    arguments.finish()?;
    Ok(Box::new(ToDevice {
        device: device.ok_or(Refused)?,
        method,
        burst: burst.unsigned_abs(),
        debug,
        exit: Exit::Closed,
        kept: None,
        ready: Vec::with_capacity(BATCH),
        backoff: 0,
        pulls: 0,
        bytes: Vec::new(),
        batch: Batch::new(),
    }))
}

struct ToDevice {
    device: String,
    method: Method,
    burst: u32,
    debug: bool,
    exit: Exit,
    /// A packet that the interface could not take.
    kept: Option<Packet>,
    /// With METHOD XDP, packets that it is to take next.
    ready: Vec<Packet>,
    /// How long it was waited for, nanoseconds; 0 when it was not.
    backoff: u64,
    pulls: u64,
    /// For packets in several segments.
    bytes: Vec<u8>,
    batch: Batch,
}

/// Where packets go.
enum Exit {
    Closed,
    Socket(PacketSocket),
    Xdp(XdpQueue),
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
        let Exit::Socket(socket) = &self.exit else {
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

    /// Sends up to a burst by the socket, with what is kept first; whether it sent any.
    fn send_burst(&mut self, cx: &mut Context<'_>) -> bool {
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
                    self.kept = Some(packet);
                    self.wait(cx);
                    return sent > 0;
                }
                Sent::No(error) => {
                    self.refuse(packet, &super::reason(&error), cx);
                    break;
                }
            }
        }
        cx.schedule();
        sent > 0
    }

    /// Hands up to a burst to the AF_XDP socket; whether it took any.
    fn send_batch(&mut self, cx: &mut Context<'_>) -> bool {
        let burst = (self.burst as usize).min(BATCH);
        while self.ready.len() < burst {
            self.pulls += 1;
            if cx.pull(0, burst - self.ready.len(), &mut self.batch) == 0 {
                break;
            }
            let prepared = self.ready.len();
            self.ready.extend(self.batch.drain());
            self.prepare(prepared, cx);
        }
        let Exit::Xdp(queue) = &mut self.exit else { return false };
        let taken = if self.ready.is_empty() { 0 } else { queue.transmit(&mut self.ready) };
        // Also when there is nothing: what was sent comes home, and what the kernel would not take
        // it may take now.
        queue.kick();
        let unsent = queue.unsent();
        if taken > 0 {
            self.backoff = 0;
        }
        if self.ready.is_empty() {
            if unsent > 0 && taken == 0 {
                self.backoff = (self.backoff * 2).clamp(1000, LONGEST_XDP);
                let at = cx.now().saturating_add(self.backoff);
                cx.wake_at(at);
            }
            cx.schedule();
        } else {
            self.wait(cx);
        }
        taken > 0
    }

    /// Makes the packets behind the first `at` that are ready such as the AF_XDP socket takes, or
    /// refuses them.
    fn prepare(&mut self, mut at: usize, cx: &mut Context<'_>) {
        let wanted = cx.has_output(0);
        while let (Exit::Xdp(queue), Some(packet)) = (&mut self.exit, self.ready.get(at)) {
            let too_long = queue.is_too_long(packet.total_len());
            let in_one = queue.mode().segments || packet.segment_count() == 1;
            if in_one && !too_long && !wanted {
                at += 1;
                continue;
            }
            let packet = self.ready.remove(at);
            if too_long {
                self.refuse(packet, "Message too long", cx);
                continue;
            }
            let copy = if in_one { packet.duplicate() } else { Packet::new(&packet.to_vec()) };
            match copy {
                Some(copy) if in_one || copy.segment_count() == 1 => self.ready.insert(at, copy),
                Some(_) => {
                    self.refuse(packet, "it takes frames in one piece of memory, 3840 bytes", cx);
                    continue;
                }
                None => {
                    cx.drop(packet, Reason::NoBuffer);
                    continue;
                }
            }
            at += 1;
            if wanted {
                cx.emit(0, packet);
                cx.flush();
            }
        }
    }

    /// What the interface will never take.
    fn refuse(&mut self, packet: Packet, why: &str, cx: &mut Context<'_>) {
        let line = format!("ToDevice({}): {why}", self.device);
        cx.say(&line);
        if cx.has_output(1) {
            cx.emit(1, packet);
        } else {
            cx.drop(packet, Reason::PortDown);
        }
    }

    /// Has the next turn a little later.
    fn wait(&mut self, cx: &mut Context<'_>) {
        let longest = if matches!(self.exit, Exit::Xdp(_)) { LONGEST_XDP } else { LONGEST };
        self.backoff = (self.backoff * 2).clamp(1000, longest);
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
        let nodes = |class: &str, cx: &mut Context<'_>| -> Vec<NodeId> {
            let nodes = cx.description().nodes.iter().filter(|node| node.class == class);
            nodes.map(|node| node.id).collect()
        };
        let shares = |other: &ToDevice| {
            matches!((&self.method, &other.method), (Method::Xdp { .. }, Method::Xdp { .. }))
        };
        let before = nodes(CLASS.name, cx).into_iter().take_while(|node| *node != cx.id());
        for node in before.collect::<Vec<_>>() {
            let other = cx.element::<ToDevice>(node);
            if other.is_some_and(|other| other.device == self.device && !shares(other)) {
                return Err(format!("duplicate writer for device '{}'", self.device));
            }
        }
        self.exit = match &self.method {
            Method::Socket => {
                let options = SocketOptions { send_only: true, ..SocketOptions::default() };
                let socket = PacketSocket::open(index_of(&self.device)?, options);
                Exit::Socket(socket.map_err(|error| format!("{}: {}", self.device, super::reason(&error)))?)
            }
            Method::Xdp { devices, queue } => {
                // Whoever takes the interface's frames knows best how to open its sockets.
                for node in nodes(from_device::CLASS.name, cx) {
                    if let Some(from) = cx.element::<FromDevice>(node)
                        && from.takes(&self.device)
                        && from.open().is_err()
                    {
                        // It will say so itself.
                        return Ok(());
                    }
                }
                Exit::Xdp(devices.send(&self.device, *queue).map_err(|error| error.to_string())?)
            }
        };
        cx.schedule();
        Ok(())
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        match self.exit {
            Exit::Closed => false,
            Exit::Socket(_) => self.send_burst(cx),
            Exit::Xdp(_) => self.send_batch(cx),
        }
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        cx.schedule();
    }

    fn handlers(&self) -> Vec<Handler> {
        let read = ["pulls", "q", "method"].map(Handler::read);
        [Handler::read_write("debug")].into_iter().chain(read).collect()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "debug" => unparse::boolean(self.debug).to_owned(),
            "pulls" => self.pulls.to_string(),
            "q" => unparse::boolean(self.kept.is_some() || !self.ready.is_empty()).to_owned(),
            "method" => match &self.exit {
                Exit::Xdp(queue) => method::describe(queue),
                _ => self.method.name().to_owned(),
            },
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
