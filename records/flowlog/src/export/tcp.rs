//! Messages over TCP.
//!
//! The thread of a collector may wait: for a connection, or for one that does not read. Meanwhile
//! its queue fills, and what does not fit is counted there. A connection that has not taken a byte
//! for [`STALLED`], or whose other end has not answered for twice as long, is given up; so is one
//! that broke. The next one is a new session: templates first, sequence from 0. What was written
//! may be lost with a connection, as RFC 7011 says (section 10.4.4). A message counts as sent when
//! the collector's machine has acknowledged all of it; what that has and the collector never reads
//! nobody knows of. Little may wait in the socket: what waits in the queue instead is not lost.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::libc::{self, linger};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::{GetStruct, Linger, SndBuf, TcpUserTimeout};
use nix::sys::socket::{getsockopt, setsockopt};

use super::encoder::{Encoder, Message};
use crate::clock::now;
use crate::record::Record;
use crate::sink::Sink;
use crate::tally::{Loss, Tally};

/// How long a connection may take nothing before it is given up.
pub const STALLED: Duration = Duration::from_secs(10);
/// How long a call into the kernel may wait, so that the end of the program is noticed.
const SHORT: Duration = Duration::from_millis(200);
/// First pause after a connection failed; each further one doubles it up to [`LONGEST`].
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// Bytes that may wait in the socket: a round trip of 100 ms still lets some 25,000 records a
/// second through.
const WAITING: usize = 256 << 10;
/// How long a record may wait for others to share its message.
const PATIENCE: Duration = Duration::from_millis(500);

/// A collector by TCP.
#[derive(Debug)]
pub(crate) struct Stream {
    to: SocketAddr,
    connection: Option<TcpStream>,
    encoder: Encoder,
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
    stalled: Duration,
    ready: Vec<Message>,
    /// Written into the connection and not acknowledged: records, bytes, and where in the
    /// connection they end.
    under_way: VecDeque<(usize, usize, u64)>,
    /// Bytes written into the connection.
    written: u64,
    flushed: Instant,
}

/// What the kernel knows of a connection (tcp(7)).
#[derive(Clone, Copy, Debug)]
struct Info;

nix::getsockopt_impl!(Info, libc::IPPROTO_TCP, libc::TCP_INFO, libc::tcp_info, GetStruct<libc::tcp_info>);

impl Stream {
    pub(crate) fn new(
        to: SocketAddr,
        encoder: Encoder,
        tally: Arc<Tally>,
        stop: Arc<AtomicBool>,
        stalled: Duration,
    ) -> Stream {
        let flushed = Instant::now();
        let (connection, ready, under_way) = (None, Vec::new(), VecDeque::new());
        Stream { to, connection, encoder, tally, stop, stalled, ready, under_way, written: 0, flushed }
    }

    /// Waits until there is a connection. False: the log ends.
    fn connect(&mut self) -> bool {
        let mut pause = PAUSE;
        while self.connection.is_none() {
            match connect(&self.to, self.stalled) {
                Ok(made) => {
                    let lost = self.encoder.restart();
                    self.tally.lost(Loss::Connection, lost);
                    (self.connection, self.written) = (Some(made), 0);
                }
                Err(error) => {
                    self.tally.fault(format_args!("cannot connect: {error}"));
                    if !self.sleep(pause) {
                        return false;
                    }
                    pause = (pause * 2).min(LONGEST);
                }
            }
        }
        true
    }

    /// False: the log ends.
    fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.stop.load(Relaxed) && Instant::now() < until {
            std::thread::sleep(SHORT.min(time));
        }
        !self.stop.load(Relaxed)
    }

    fn send(&mut self) {
        for message in std::mem::take(&mut self.ready) {
            let sent = match &mut self.connection {
                Some(connection) if is_gone(connection) => Err(ErrorKind::ConnectionAborted.into()),
                Some(connection) => write(connection, &message.bytes, self.stalled, &self.stop),
                // Made for a session that is over.
                None => Err(ErrorKind::NotConnected.into()),
            };
            match sent {
                Ok(()) => {
                    self.written += message.bytes.len() as u64;
                    self.under_way.push_back((message.records, message.bytes.len(), self.written));
                }
                Err(error) => {
                    self.lose(&error);
                    self.tally.lost(Loss::Connection, message.records);
                }
            }
        }
        self.settle();
    }

    /// The connection is over, and with it what is under way.
    fn lose(&mut self, error: &io::Error) {
        self.settle();
        for (records, ..) in self.under_way.drain(..) {
            self.tally.lost(Loss::Connection, records);
        }
        if let Some(connection) = self.connection.take() {
            self.tally.fault(format_args!("connection lost: {error}"));
            give_up(connection);
        }
    }

    /// Counts what is acknowledged by now.
    fn settle(&mut self) {
        let Some(connection) = self.connection.as_ref().filter(|_| !self.under_way.is_empty()) else {
            return;
        };
        // The SYN counts as a byte. If the kernel cannot say, what was written is all that is
        // known.
        let acknowledged = getsockopt(connection, Info).map_or(u64::MAX, |info| info.tcpi_bytes_acked);
        while let Some((records, bytes, end)) = self.under_way.front()
            && *end < acknowledged
        {
            self.tally.sent(*records, *bytes);
            self.under_way.pop_front();
        }
    }
}

/// A connection that notices when the other end is gone, or stands still.
fn connect(to: &SocketAddr, stalled: Duration) -> io::Result<TcpStream> {
    let made = TcpStream::connect_timeout(to, Duration::from_secs(2))?;
    made.set_write_timeout(Some(SHORT))?;
    setsockopt(&made, SndBuf, &WAITING)?;
    // Twice, for a write that cannot go on says more of one that stands still.
    let silent = u32::try_from(2 * stalled.as_millis()).unwrap_or(u32::MAX);
    setsockopt(&made, TcpUserTimeout, &silent)?;
    Ok(made)
}

/// Ends it at once: what waits in it ends in the middle of a message, and would wait for minutes
/// for somebody who does not read.
fn give_up(connection: TcpStream) {
    let at_once = linger { l_onoff: 1, l_linger: 0 };
    // Without it the kernel gives up later.
    let _ = setsockopt(&connection, Linger, &at_once);
}

/// The other end has closed it: what is written now would be lost without an error.
fn is_gone(connection: &TcpStream) -> bool {
    let mut ends = [PollFd::new(connection.as_fd(), PollFlags::POLLIN)];
    let readable = poll(&mut ends, PollTimeout::ZERO).is_ok_and(|found| found > 0);
    // A collector says nothing, so what there is to read is the end.
    readable && !matches!(connection.peek(&mut [0]), Ok(1))
}

/// Writes all, as long as the other end takes some now and then.
fn write(
    connection: &mut TcpStream,
    mut bytes: &[u8],
    stalled: Duration,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut last = Instant::now();
    while !bytes.is_empty() {
        match connection.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(taken) => {
                bytes = &bytes[taken..];
                last = Instant::now();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if stop.load(Relaxed) || last.elapsed() >= stalled {
                    let seconds = last.elapsed().as_secs();
                    return Err(io::Error::new(ErrorKind::TimedOut, format!("nothing read for {seconds} s")));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Sink for Stream {
    fn take(&mut self, records: &[Record]) {
        for (n, record) in records.iter().enumerate() {
            if self.connection.is_none() && !self.connect() {
                self.tally.lost(Loss::Connection, records.len() - n);
                return;
            }
            self.encoder.add(record, now(), &mut self.ready);
            if !self.ready.is_empty() {
                self.send();
            }
        }
    }

    fn tick(&mut self) {
        if self.flushed.elapsed() >= PATIENCE {
            self.encoder.flush(now(), &mut self.ready);
            self.send();
            self.flushed = Instant::now();
        }
        self.settle();
        if !self.under_way.is_empty() && self.connection.as_ref().is_some_and(is_gone) {
            self.lose(&ErrorKind::ConnectionAborted.into());
        }
    }

    fn close(&mut self) {
        self.encoder.flush(now(), &mut self.ready);
        self.send();
        // The kernel goes on with it.
        for (records, bytes, _) in self.under_way.drain(..) {
            self.tally.sent(records, bytes);
        }
    }
}
