//! How FromDevice and ToDevice reach their interface: their arguments METHOD and QUEUE.

use std::sync::Arc;

use graph::Setup;
use graph::arguments::{Arguments, Blame, Word};
use port::{XdpDevices, XdpQueue};

/// What the arguments say.
pub(super) enum Method {
    /// By a packet socket, beside Linux.
    Socket,
    /// By AF_XDP.
    Xdp { devices: Arc<XdpDevices>, queue: Option<u32> },
}

impl Method {
    /// What it is called in arguments.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Method::Socket => "LINUX",
            Method::Xdp { .. } => "XDP",
        }
    }
}

/// Reads QUEUE, and what METHOD says; mistakes are noted.
pub(super) fn read(method: Option<Word>, arguments: &mut Arguments<'_>, setup: &Setup<'_>) -> Method {
    let queue = arguments.keyword::<u32>("QUEUE");
    let name = method.as_ref().map_or("LINUX", |Word(name)| name);
    match (name, setup.environment.get::<XdpDevices>()) {
        ("XDP", Some(devices)) => return Method::Xdp { devices, queue },
        ("XDP", None) => arguments.wrong("METHOD", "XDP is there in `bifrost click` only"),
        ("LINUX" | "PCAP", _) if queue.is_none() => {}
        ("LINUX" | "PCAP", _) => arguments.wrong("QUEUE", "only METHOD XDP has queues"),
        _ => arguments.wrong(Blame::Element, "bad METHOD"),
    }
    Method::Socket
}

/// What a queue could do, and why not more.
pub(super) fn describe(queue: &XdpQueue) -> String {
    let mode = queue.mode();
    let how = match queue.attachment() {
        Some(attachment) if attachment.native => "native ",
        Some(_) => "generic ",
        None => "",
    };
    let copy = if mode.zero_copy { "zero-copy" } else { "copy" };
    let attached = queue.attachment().and_then(|attachment| attachment.why.as_ref());
    let why: Vec<&str> = attached.into_iter().chain(&mode.why).map(String::as_str).collect();
    format!("XDP {how}{copy}{}{}", if why.is_empty() { "" } else { "; " }, why.join("; "))
}
