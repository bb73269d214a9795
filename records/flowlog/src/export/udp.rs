//! Messages over UDP.
//!
//! The socket is connected, so that a collector that is not there answers by an error
//! (ECONNREFUSED) instead of silence. The error comes after the datagram that it speaks of, so a
//! datagram counts as sent only when the next one goes, or a moment later, and no error has come.
//! Templates are announced again after an error: who listens then is perhaps another.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::encoder::{Encoder, Message};
use crate::clock::now;
use crate::record::Record;
use crate::sink::Sink;
use crate::tally::{Loss, Tally};

/// How long a record may wait for others to share its datagram.
const PATIENCE: Duration = Duration::from_millis(500);

/// A socket to this collector. `source` is the address to send from, if it matters.
fn connect(to: SocketAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let any = match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((source.unwrap_or(any), 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(to)?;
    Ok(socket)
}

/// Bytes of a datagram that fit an IP packet of this size.
pub(crate) fn payload(mtu: u16, to: SocketAddr) -> usize {
    usize::from(mtu) - if to.is_ipv4() { 28 } else { 48 }
}

/// The way to a collector, and the latest datagram that went it.
#[derive(Debug)]
pub(crate) struct Way {
    to: SocketAddr,
    source: Option<IpAddr>,
    socket: Option<UdpSocket>,
    /// Records and bytes of the latest datagram, while it may still be refused.
    latest: Option<(usize, usize)>,
}

impl Way {
    /// Nothing is sent yet.
    pub fn new(to: SocketAddr, source: Option<IpAddr>) -> Way {
        Way { to, source, socket: None, latest: None }
    }

    /// Sends a datagram with so many records. False: it, or the one before, did not get there; both
    /// are counted.
    pub fn send(&mut self, bytes: &[u8], records: usize, tally: &Tally) -> bool {
        let before = self.settle(tally);
        match self.try_send(bytes) {
            Ok(()) => {
                self.latest = Some((records, bytes.len()));
                before
            }
            Err(error) => failed(records, &error, tally),
        }
    }

    fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        // The source address, or the way there, may come later than we do.
        let socket = match &self.socket {
            Some(socket) => socket,
            None => self.socket.insert(connect(self.to, self.source)?),
        };
        socket.send(bytes).map(drop)
    }

    /// Whether the latest datagram got there, as far as one can know by now.
    pub fn settle(&mut self, tally: &Tally) -> bool {
        let Some((records, bytes)) = self.latest.take() else { return true };
        match self.socket.as_ref().map(UdpSocket::take_error) {
            Some(Ok(Some(error)) | Err(error)) => failed(records, &error, tally),
            _ => {
                tally.sent(records, bytes);
                true
            }
        }
    }
}

fn failed(records: usize, error: &io::Error, tally: &Tally) -> bool {
    tally.fault(error);
    tally.lost(Loss::Send, records);
    false
}

/// A collector by UDP.
#[derive(Debug)]
pub(crate) struct Datagrams {
    way: Way,
    encoder: Encoder,
    tally: Arc<Tally>,
    ready: Vec<Message>,
    flushed: Instant,
}

impl Datagrams {
    pub(crate) fn new(
        to: SocketAddr,
        source: Option<IpAddr>,
        encoder: Encoder,
        tally: Arc<Tally>,
    ) -> Datagrams {
        Datagrams { way: Way::new(to, source), encoder, tally, ready: Vec::new(), flushed: Instant::now() }
    }

    fn send(&mut self) {
        for message in std::mem::take(&mut self.ready) {
            if !self.way.send(&message.bytes, message.records, &self.tally) {
                self.encoder.forget_announced();
            }
        }
    }

    fn settle(&mut self) {
        if !self.way.settle(&self.tally) {
            self.encoder.forget_announced();
        }
    }
}

impl Sink for Datagrams {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            self.encoder.add(record, now(), &mut self.ready);
            if !self.ready.is_empty() {
                self.send();
            }
        }
    }

    fn tick(&mut self) {
        if self.flushed.elapsed() >= PATIENCE {
            self.settle();
            self.encoder.flush(now(), &mut self.ready);
            self.send();
            self.flushed = Instant::now();
        }
    }

    fn close(&mut self) {
        self.encoder.flush(now(), &mut self.ready);
        self.send();
        self.settle();
    }
}
