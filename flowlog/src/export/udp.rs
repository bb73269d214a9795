//! Messages over UDP.
//!
//! The socket is connected, so that a collector that is not there answers by an error (ECONNREFUSED) instead of silence. The
//! datagram that meets the error was not sent; it is tried once more, for the error speaks of an earlier one. Templates
//! are announced again after it: who listens then is perhaps another.

use std::io::{self, ErrorKind};
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
pub(crate) fn connect(to: SocketAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
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

/// A collector by UDP.
#[derive(Debug)]
pub(crate) struct Datagrams {
    to: SocketAddr,
    source: Option<IpAddr>,
    socket: Option<UdpSocket>,
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
        Datagrams { to, source, socket: None, encoder, tally, ready: Vec::new(), flushed: Instant::now() }
    }

    fn send(&mut self) {
        for message in std::mem::take(&mut self.ready) {
            match self.send_one(&message.bytes) {
                Ok(()) => self.tally.sent(message.records, message.bytes.len()),
                Err(error) => {
                    self.tally.fault(&error);
                    self.tally.lost(Loss::Send, message.records);
                    self.encoder.forget_announced();
                }
            }
        }
    }

    fn send_one(&mut self, bytes: &[u8]) -> io::Result<()> {
        // The source address, or the way there, may come later than we do.
        let socket = match &self.socket {
            Some(socket) => socket,
            None => self.socket.insert(connect(self.to, self.source)?),
        };
        match socket.send(bytes) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.tally.fault(&error);
                self.encoder.forget_announced();
                socket.send(bytes).map(drop)
            }
            sent => sent.map(drop),
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
            self.close();
            self.flushed = Instant::now();
        }
    }

    fn close(&mut self) {
        self.encoder.flush(now(), &mut self.ready);
        self.send();
    }
}
