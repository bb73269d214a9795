//! What can go wrong.

use std::io;
use std::path::PathBuf;

use crate::range::AddressError;

/// Why traffic cannot be sent or received, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum TrafficError {
    #[error("the file of streams: {0}")]
    File(String),
    #[error("stream `{stream}`, {field}: {reason}")]
    Stream { stream: String, field: &'static str, reason: String },
    #[error("stream `{stream}`, {field}: {source}")]
    Addresses { stream: String, field: &'static str, source: AddressError },
    #[error("there is no stream to send: describe one by flags or a file")]
    NoStreams,
    #[error("{0} streams are more than the {most} that can be sent at once", most = crate::stream::MOST_STREAMS)]
    TooManyStreams(usize),
    #[error("a trial lasts 72 hours at most; run several, one after the other")]
    TooLong,
    #[error("`{text}` is no port: {reason}")]
    PortName { text: String, reason: String },
    #[error("port {port}: {reason}")]
    Port { port: String, reason: String },
    #[error(
        "{interface} {why}: what is sent there may cut this machine off, or reach others; force it (--force) if that is what you want"
    )]
    InUse { interface: String, why: String },
    #[error("the interface {interface} has no zero-copy, and {reason}")]
    Live { interface: String, reason: String },
    #[error(transparent)]
    Device(#[from] ::port::device::DeviceError),
    #[error(transparent)]
    Driver(#[from] ::port::DriverError),
    #[error(transparent)]
    Xdp(#[from] ::port::XdpError),
    #[error(transparent)]
    Memory(#[from] ::port::MemoryError),
    #[error("{}: {source}", path.display())]
    Replay { path: PathBuf, source: wire::capture::CaptureError },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("there is no core {0} here that this program may use")]
    NoCore(usize),
    #[error("{0}")]
    Control(String),
    #[error("a thread of the trial panicked: {0}")]
    Panicked(&'static str),
}

impl TrafficError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> TrafficError {
        let what = what.into();
        move |source| TrafficError::Io { what, source }
    }
}
