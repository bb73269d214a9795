//! FromDevice: frames that a network interface receives.
//!
//! Group: traffic
//! Usage: `FromDevice(DEVNAME [, PROMISC, SNAPLEN, FORCE_IP, METHOD, QUEUE, OUTBOUND, BURST, TIMESTAMP, ENCAP, BPF_FILTER, PROTOCOL, SNIFFER, HEADROOM])`
//! Ports: no inputs, 1-2 outputs; push
//!
//! Frames come from the Ethernet header on, with the time when they arrived and to whom they were
//! addressed (the packet type annotation).
//!
//! Without `METHOD XDP` Linux goes on receiving them as well: an interface is not taken away from
//! it. To have packets for oneself, use an interface without addresses. Linux puts TCP packets
//! together before it shows them; where the graph is to see packets as they were sent, say `ethtool
//! -K DEV gro off`.
//!
//! With `METHOD XDP` the interface is this program's: an XDP program gives all its frames to AF_XDP
//! sockets, and Linux, tcpdump among it, sees nothing of them until this element ends, however it
//! ends. That is several times as fast, in the driver and without a copy where the interface can
//! (the handler `method` says), else with one. FromDevice and ToDevice of one interface share its
//! sockets, and a packet goes from one such interface to another without being copied. Each frame
//! goes to one FromDevice only; on an interface with several queues each can have its own
//! (`QUEUE`), also on a thread of its own (StaticThreadSched). The frames of a queue that no
//! FromDevice has go to Linux. The interface's LRO and VLAN stripping are off meanwhile. On a
//! virtual Ethernet the far end must fill in checksums: `ethtool -K DEV tx off` there.
//!
//! With `FORCE_IP` the network header is found behind the Ethernet header, and what is not IP
//! leaves by output 1 if it is connected.
//!
//! - `DEVNAME` (word): the interface.
//! - `PROMISC` (boolean): whether frames to others are received as well. Default: false.
//! - `SNAPLEN` (14 to 8190): bytes kept of a frame at most; the extra length annotation says how
//!   many were left out. Default: 2046.
//! - `FORCE_IP` (boolean): as above. Default: false.
//! - `METHOD` (word): `LINUX` or `PCAP`: both are a packet socket; `XDP`: as above. Default: LINUX.
//! - `QUEUE` (unsigned): with `METHOD XDP`, the receive queue whose frames are taken. Default: all.
//! - `OUTBOUND` (boolean): whether frames that this machine sends are seen as well; not with
//!   `METHOD XDP`. Default: false.
//! - `BURST` (integer): frames a turn at most. Default: 1; with `METHOD XDP` 64, and no more.
//! - `TIMESTAMP` (boolean): whether packets get the time of their arrival; with `METHOD XDP`, of
//!   their turn. Default: true.
//! - `ENCAP` (word): the link type; only `ETHER` is received.
//! - `BPF_FILTER` (text): has no effect, and a warning says so.
//! - `PROTOCOL` (unsigned): only frames of this Ethernet type, as Linux numbers them: 2048 is IPv4.
//!   Default: 0, all.
//! - `SNIFFER` (boolean): whether Linux receives the frames as well. It does, and with `METHOD XDP`
//!   it does not; a warning says so when the argument says otherwise.
//! - `HEADROOM` (unsigned): has no effect: there is always room for 128 bytes.
//!
//! Handlers:
//! - `kernel_drops` (read): frames lost because they were not taken in time; with `METHOD XDP`, of
//!   its queues.
//! - `method` (read): `LINUX`, or `XDP` with what the interface could do of it and why not more.
//! - `encap` (read): the link type, `ETHER`.
//! - `count` (read): frames received.
//! - `reset_counts` (write): sets `count` to 0.
//!
//! See also: [ToDevice], [FromDump], [KernelTun]

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use graph::arguments::{Arguments, Blame, Refused, Word, offset};
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::{Packet, PacketSocket, PacketType, Queue, SocketOptions, XdpQueue};
use wire::capture::link;

use super::method::{self, Method};

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
/// Without memory to receive into, how long until the next try, nanoseconds.
const HUNGER: u64 = 1_000_000;

fn make(arguments: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let device = arguments.mandatory::<String>("DEVNAME");
    let promiscuous = arguments.optional("PROMISC").unwrap_or(false);
    let snap = arguments.optional::<u32>("SNAPLEN").unwrap_or(2046);
    let sniffer = arguments.keyword("SNIFFER");
    let force_ip = arguments.keyword("FORCE_IP").unwrap_or(false);
    let method = arguments.keyword::<Word>("METHOD");
    let method = method.or(arguments.keyword::<Word>("CAPTURE"));
    let method = method::read(method, arguments, setup);
    let filter = arguments.keyword::<String>("BPF_FILTER").unwrap_or_default();
    let protocol = arguments.keyword("PROTOCOL").unwrap_or(0);
    let outgoing = arguments.keyword("OUTBOUND").unwrap_or(false);
    let headroom = arguments.keyword::<u32>("HEADROOM").unwrap_or(0);
    let encap = arguments.keyword::<Word>("ENCAP");
    let xdp = matches!(method, Method::Xdp { .. });
    let burst = arguments.keyword::<i32>("BURST").unwrap_or(if xdp { BATCH as i32 } else { 1 });
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
    check(device.as_deref() != Some(""), "interface not set");
    check(!xdp || protocol == 0, "PROTOCOL is not for METHOD XDP: use a Classifier behind this element");
    if !filter.is_empty() {
        arguments
            .strange("BPF_FILTER", "BPF filter ignored; use IPFilter or IPClassifier behind this element");
    }
    match (sniffer, xdp) {
        (Some(false), false) => arguments.strange("SNIFFER", "Linux receives the frames as well"),
        (Some(true), true) => {
            arguments.strange("SNIFFER", "Linux does not receive the frames with METHOD XDP")
        }
        _ => {}
    }
    if xdp && outgoing {
        arguments.strange("OUTBOUND", "METHOD XDP does not see what this machine sends");
    }
    arguments.finish()?;
    Ok(Box::new(FromDevice {
        device: device.ok_or(Refused)?,
        method,
        options: SocketOptions { promiscuous, outgoing, ..SocketOptions::default() },
        protocol,
        force_ip,
        burst: burst.unsigned_abs(),
        timestamp,
        source: Source::Closed,
        snap: snap as usize,
        buffer: vec![0; if xdp { 0 } else { snap as usize }],
        batch: Batch::new(),
        count: 0,
        complaints: 0,
    }))
}

pub(super) struct FromDevice {
    device: String,
    method: Method,
    options: SocketOptions,
    /// The Ethernet type of the frames that are wanted; 0: all.
    protocol: u16,
    force_ip: bool,
    burst: u32,
    timestamp: bool,
    source: Source,
    snap: usize,
    /// As long as a frame may be.
    buffer: Vec<u8>,
    batch: Batch,
    count: u64,
    complaints: u32,
}

/// Where frames come from.
enum Source {
    Closed,
    Socket(PacketSocket),
    Xdp {
        queues: Vec<XdpQueue>,
        /// The queue whose turn it is.
        first: usize,
        /// What keeps the interface promiscuous.
        _promiscuous: Option<PacketSocket>,
    },
}

/// The number of an interface.
pub(super) fn index_of(device: &str) -> Result<u32, String> {
    nix::net::if_::if_nametoindex(device).map_err(|error| format!("{device}: {}", error.desc()))
}

impl FromDevice {
    /// Receives one frame and passes it on; false when there is none.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let Source::Socket(socket) = &self.source else { return false };
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
        let unwanted = received.kind == PacketType::Outgoing && !self.options.outgoing
            || self.protocol != 0 && received.protocol != self.protocol;
        if unwanted {
            return true;
        }
        // Without memory the frame is lost, as it is when the socket's buffer is full.
        let Some(mut packet) = Packet::new(&self.buffer[..received.captured]) else { return true };
        let time = if self.timestamp { received.time } else { 0 };
        note(&mut packet, received.kind, time, received.length - received.captured);
        self.count += 1;
        let output = usize::from(self.force_ip && !super::mark_ip(&mut packet, link::ETHERNET));
        cx.emit(output, packet);
        true
    }

    fn receive_burst(&mut self, cx: &mut Context<'_>) -> bool {
        if matches!(self.source, Source::Xdp { .. }) {
            return self.receive_batch(cx);
        }
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

    /// Receives a batch from the queues, each in its turn the first, and passes it on; false when
    /// there is nothing.
    fn receive_batch(&mut self, cx: &mut Context<'_>) -> bool {
        let Source::Xdp { queues, first, .. } = &mut self.source else { return false };
        let count = queues.len();
        let (mut own, mut hungry) = ([0; 6], false);
        for turn in 0..count {
            let queue = &mut queues[(*first + turn) % count];
            own = queue.mac();
            let quota = (self.burst as usize).saturating_sub(self.batch.len());
            if self.batch.receive(queue, quota) > 0 || queue.starves() {
                queue.kick();
                hungry |= queue.starves();
            }
        }
        *first = (*first + 1) % count.max(1);
        if hungry {
            let again = cx.now().saturating_add(HUNGER);
            cx.set_timer(0, again);
        }
        let time = if self.timestamp { cx.wall() } else { 0 };
        let (received, mut not_ip) = (self.batch.len(), 0);
        for (index, packet) in self.batch.packets_mut().iter_mut().enumerate() {
            let length = packet.total_len();
            if length > self.snap {
                packet.truncate(self.snap);
            }
            let kind = addressed_to(packet.data(), own);
            note(packet, kind, time, length.saturating_sub(self.snap));
            not_ip |= u64::from(self.force_ip && !super::mark_ip(packet, link::ETHERNET)) << index;
        }
        self.count += received as u64;
        cx.emit_some(1, &mut self.batch, not_ip);
        cx.emit_batch(0, &mut self.batch);
        received > 0
    }

    /// Opens the interface, unless that was done, so that whoever sends by it finds its sockets.
    pub(super) fn open(&mut self) -> Result<(), String> {
        if !matches!(self.source, Source::Closed) {
            return Ok(());
        }
        let socket = |options| {
            let socket = PacketSocket::open(index_of(&self.device)?, options);
            socket.map_err(|error| format!("{}: {}", self.device, super::reason(&error)))
        };
        self.source = match &self.method {
            Method::Socket => Source::Socket(socket(self.options)?),
            Method::Xdp { devices, queue } => Source::Xdp {
                queues: devices.receive(&self.device, *queue).map_err(|error| error.to_string())?,
                first: 0,
                _promiscuous: (self.options.promiscuous)
                    .then(|| socket(SocketOptions { send_only: true, ..self.options }))
                    .transpose()?,
            },
        };
        Ok(())
    }

    /// Whether it takes the frames of an interface.
    pub(super) fn takes(&self, device: &str) -> bool {
        self.device == device && matches!(self.method, Method::Xdp { .. })
    }
}

/// Notes when a packet came and to whom, and how many bytes of it were left out.
fn note(packet: &mut Packet, kind: PacketType, time: i64, left_out: usize) {
    packet.set_link(Some(0));
    let annotations = packet.annotations_mut();
    (annotations.kind, annotations.timestamp) = (kind, time);
    if left_out != 0 {
        packet.set_annotation(offset::EXTRA_LENGTH, (left_out as u32).to_ne_bytes());
    }
}

/// To whom a frame is addressed, seen from an interface with an address.
fn addressed_to(frame: &[u8], own: [u8; 6]) -> PacketType {
    match frame.first_chunk() {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => PacketType::Broadcast,
        Some([first, ..]) if first & 1 != 0 => PacketType::Multicast,
        Some(destination) if *destination != own => PacketType::OtherHost,
        _ => PacketType::Host,
    }
}

impl Element for FromDevice {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.open()?;
        match &self.source {
            Source::Closed => {}
            Source::Socket(socket) => cx.watch(socket.as_fd().as_raw_fd()),
            Source::Xdp { queues, .. } => {
                queues.iter().filter_map(Queue::fd).for_each(|fd| cx.watch(fd.as_raw_fd()));
                // One that found no memory to receive into asks again.
                cx.schedule();
            }
        }
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

    /// There may be memory again.
    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        cx.schedule();
    }

    fn handlers(&self) -> Vec<Handler> {
        let read = ["kernel_drops", "method", "encap", "count"].map(Handler::read);
        read.into_iter().chain([Handler::write("reset_counts")]).collect()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "kernel_drops" => match &mut self.source {
                Source::Closed => "??".to_owned(),
                Source::Socket(socket) => socket.drops().to_string(),
                Source::Xdp { queues, .. } => {
                    let lost = queues.iter().map(|queue| queue.counters().lost());
                    lost.sum::<u64>().to_string()
                }
            },
            "method" => match &self.source {
                Source::Xdp { queues, .. } => queues.first().map_or("XDP".to_owned(), method::describe),
                _ => self.method.name().to_owned(),
            },
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
