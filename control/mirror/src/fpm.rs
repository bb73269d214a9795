//! FRR's Forwarding Plane Manager protocol: zebra connects and tells every route that it chose.
//!
//! A frame is a header (version 1, type 1 = netlink, length as big-endian u16 that includes the
//! header) and netlink messages. One frame is one change: zebra updates a route by a withdrawal and
//! an announcement in one frame, and taken one by one each update would lose packets.
//!
//! There is no end-of-table mark. After it (re)connects, zebra tells everything; when it has then
//! been quiet for a while, what it did not tell again is gone. Until then, and while zebra is away,
//! all that it told stays in force, for as long as the `hold` option says.
//!
//! What is believed here moves packets, and any local user can connect to a port of the loopback.
//! So a connection is taken only from root, from this program's own user or from those that may
//! (`frr`); others wait as long as it lives; and one that tells nothing changes nothing: what was
//! told before stays in force until `hold` is over, as if nobody had come. Its bytes are read and
//! parsed by a thread of their own (`reader`).
//!
//! **What wins.** Each origin has one source. While FPM is in force, routes of FRR's protocols come
//! from FPM, and what Linux says of them (zebra writes them there too) is known but not used; all
//! other routes, and all interfaces, addresses and neighbours, come from Linux, and what zebra
//! repeats of those is passed over. FPM comes into force at the end of zebra's first telling, and
//! goes out of force when `hold` has passed without zebra; until then and after that Linux's word
//! counts for all. Between routes of one prefix the lowest metric wins, as in Linux.

mod reader;

use crate::MirrorError;
use crate::model::SourceId;
use crate::netlink::{self, Message, nexthop, route};
use crate::origin;
use crate::peer;
use crate::source::{self, Change, Counters, Said, Source, Telling};
use reader::Zebra;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

const HEADER: usize = 4;
const VERSION: u8 = 1;
const NETLINK: u8 = 1;
/// Bytes read from the connection at once.
const READ: usize = 64 * 1024;

const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;

/// How to serve FPM.
#[derive(Clone, Debug)]
pub struct FpmOptions {
    /// Where zebra connects (its default is 127.0.0.1:2620).
    pub listen: SocketAddr,
    /// How long zebra's routes stay in force while it is away.
    pub hold: Duration,
    /// How long zebra must be quiet after it connects before its telling counts as complete.
    pub quiet: Duration,
    /// Users of this machine that may tell routes, besides root and this program's own.
    pub users: Vec<String>,
    /// The address may be in use at first: by the process that this one takes over from.
    pub patient: bool,
}

impl FpmOptions {
    /// The defaults: held for an hour, complete after three quiet seconds, told by FRR's user.
    pub fn new(listen: SocketAddr) -> FpmOptions {
        let users = vec!["frr".to_owned()];
        FpmOptions {
            listen,
            hold: Duration::from_secs(3600),
            quiet: Duration::from_secs(3),
            users,
            patient: false,
        }
    }
}

/// Why the connection to zebra was closed.
#[derive(Debug, thiserror::Error)]
pub enum FpmError {
    /// Not the protocol.
    #[error("a frame of FPM version {0}: only version 1 is known; does zebra connect to the right port?")]
    Version(u8),
    /// A length that cannot be.
    #[error("a frame that claims {0} bytes, less than its own header")]
    Length(usize),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

/// How the talk with zebra stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Talk {
    /// No connection, since then.
    Away(Instant),
    /// Connected, telling everything; last heard then. Whether anything was told.
    Telling(Instant, bool),
    /// Connected; all was told.
    Steady,
}

/// The server side of FPM.
pub(crate) struct Fpm {
    options: FpmOptions,
    listener: Option<TcpListener>,
    zebra: Option<Zebra>,
    talk: Talk,
    /// What zebra told is in force.
    in_force: bool,
    connections: u64,
    refused: u64,
    counters: Counters,
}

impl Fpm {
    pub fn new(options: FpmOptions) -> Fpm {
        Fpm {
            options,
            listener: None,
            zebra: None,
            talk: Talk::Away(Instant::now()),
            in_force: false,
            connections: 0,
            refused: 0,
            counters: Counters::default(),
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        let listener = TcpListener::bind(self.options.listen)?;
        listener.set_nonblocking(true)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Takes a waiting connection, if there is none that lives. Whether one came.
    fn accept(&mut self, now: Instant) -> bool {
        if self.zebra.is_some() {
            return false;
        }
        let Some(Ok((stream, from))) = self.listener.as_ref().map(TcpListener::accept) else {
            return false;
        };
        let taken = peer::check(&stream, from, &self.options.users, "fpm.users")
            .and_then(|()| Zebra::read(stream).map_err(|error| format!("it cannot be read: {error}")));
        match taken {
            Ok(zebra) => self.zebra = Some(zebra),
            Err(why) => {
                self.refused += 1;
                tracing::warn!(%from, refused = self.refused, "a connection to FPM is refused: {why}");
                return false;
            }
        }
        tracing::info!(%from, "zebra connected over FPM");
        self.talk = Talk::Telling(now, false);
        self.connections += 1;
        true
    }

    /// The messages of the next complete frame, in order; `None` when none has arrived.
    fn next_frame(&mut self, now: Instant) -> Option<Vec<Change>> {
        match self.zebra.as_mut()?.next() {
            Ok(Some((all, counters))) => {
                self.counters.add(&counters);
                if let Talk::Telling(last, told) = &mut self.talk {
                    *last = now;
                    *told |= counters.messages > counters.malformed;
                }
                Some(all)
            }
            Ok(None) => None,
            Err(error) => {
                self.hang_up(&error, now);
                None
            }
        }
    }

    fn hang_up(&mut self, reason: &FpmError, now: Instant) {
        tracing::warn!(%reason, hold = ?self.options.hold, "zebra is away; its routes stay in force");
        self.zebra = None;
        self.talk = Talk::Away(now);
    }
}

impl Source for Fpm {
    fn id(&self) -> SourceId {
        SourceId::Fpm
    }

    fn start(&mut self) -> Result<Telling, MirrorError> {
        match self.listen() {
            Err(source) if !(self.options.patient && source.kind() == ErrorKind::AddrInUse) => {
                Err(MirrorError::Listen { address: self.options.listen, source })
            }
            _ => Ok(Telling::ByItself),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        // Who comes while one is there waits.
        let listener = || self.listener.as_ref().map(AsFd::as_fd);
        self.zebra.as_ref().map(Zebra::fd).or_else(listener)
    }

    fn next(&mut self, now: Instant, change: &mut dyn FnMut(Change)) -> Result<Said, MirrorError> {
        if self.accept(now) {
            return Ok(Said::Begins);
        }
        let Some(frame) = self.next_frame(now) else {
            return Ok(Said::Nothing);
        };
        frame.into_iter().for_each(change);
        Ok(Said::Changes)
    }

    /// The end of zebra's telling, and the end of the patience with its absence.
    fn tick(&mut self, now: Instant) -> Option<Said> {
        if self.listener.is_none() {
            // It is still in use; the next tick tries again.
            let _ = self.listen();
        }
        match self.talk {
            Talk::Telling(last, true) if now.duration_since(last) >= self.options.quiet => {
                (self.talk, self.in_force) = (Talk::Steady, true);
                tracing::info!("zebra has told its routes; they are in force");
                Some(Said::All)
            }
            // Who is there and says nothing is no better than nobody.
            Talk::Away(since) | Talk::Telling(since, false)
                if self.in_force && now.duration_since(since) >= self.options.hold =>
            {
                self.in_force = false;
                tracing::warn!("zebra has stayed away; Linux's routes are in force again");
                Some(Said::Gone)
            }
            _ => None,
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn talk(&self) -> Option<source::Talk> {
        Some(source::Talk {
            // The port is one that the system chose, when 0 was asked for.
            address: self.listener.as_ref().and_then(|listener| listener.local_addr().ok()),
            state: match self.talk {
                Talk::Away(_) => "away",
                Talk::Telling(..) => "telling",
                Talk::Steady => "steady",
            },
            connections: self.connections,
        })
    }
}

/// Cuts a stream of bytes into frames.
#[derive(Default)]
pub(crate) struct Frames {
    buffer: Vec<u8>,
    start: usize,
}

impl Frames {
    pub(crate) fn read(&mut self, from: &mut impl Read) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let end = self.buffer.len();
        self.buffer.resize(end + READ, 0);
        let result = from.read(&mut self.buffer[end..]);
        self.buffer.truncate(end + result.as_ref().copied().unwrap_or(0));
        result
    }

    /// The payload of the next netlink frame; frames of other types are passed over.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, FpmError> {
        loop {
            let Some(&[version, kind, high, low]) = self.buffer[self.start..].first_chunk() else {
                return Ok(None);
            };
            if version != VERSION {
                return Err(FpmError::Version(version));
            }
            let length = usize::from(u16::from_be_bytes([high, low]));
            if length < HEADER {
                return Err(FpmError::Length(length));
            }
            if self.buffer.len() - self.start < length {
                return Ok(None);
            }
            let payload = self.start + HEADER..self.start + length;
            self.start += length;
            if kind == NETLINK {
                return Ok(Some(&self.buffer[payload]));
            }
        }
    }
}

/// The messages of a frame that concern routes.
pub(crate) fn told(frame: &[u8], counters: &mut Counters) -> Vec<Change> {
    let mut messages = netlink::messages(frame);
    let mut all = Vec::new();
    for message in messages.by_ref() {
        counters.messages += 1;
        match parse(message) {
            Some(Some(change)) => all.push(change),
            Some(None) => counters.passed_over += 1,
            None => counters.malformed += 1,
        }
    }
    counters.malformed += u64::from(messages.torn());
    all
}

/// `Some(None)` = nothing for us (MPLS labels, MAC addresses, routes that Linux tells).
fn parse(message: Message<'_>) -> Option<Option<Change>> {
    let ip = matches!(message.body.first(), Some(&(netlink::IPV4 | netlink::IPV6)));
    Some(match message.kind {
        RTM_NEWROUTE | RTM_DELROUTE if !ip => None,
        RTM_NEWROUTE => {
            let route = Some(route::parse(message.body)?).filter(|route| origin::is_frr(route.protocol));
            route.map(|route| Change::Route(route, message.flags))
        }
        // Some versions leave the protocol out of a withdrawal; what was not told by FPM is not
        // found, and so stays.
        RTM_DELROUTE => Some(Change::RouteGone(route::parse(message.body)?)),
        RTM_NEWNEXTHOP => Some(Change::Object(nexthop::parse(message.body)?)),
        RTM_DELNEXTHOP => Some(Change::ObjectGone(nexthop::parse(message.body)?.id)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::request::tests_route_message;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let length = (HEADER + payload.len()) as u16;
        [&[VERSION, NETLINK][..], &length.to_be_bytes(), payload].concat()
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_arrive() {
        let one = frame(&tests_route_message());
        let stream = [one.clone(), vec![VERSION, 2, 0, 6, 9, 9], one.clone()].concat();
        for piece in 1..stream.len() {
            let mut frames = Frames::default();
            let mut found = 0;
            for mut chunk in stream.chunks(piece) {
                frames.read(&mut chunk).unwrap();
                while let Some(payload) = frames.next().unwrap() {
                    assert_eq!(payload, tests_route_message());
                    found += 1;
                }
            }
            assert_eq!(found, 2);
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_ignored() {
        let mut random = chance::Random(1u64);
        let mut random = move || random.next();
        let mut counters = Counters::default();
        let mut refused = 0;
        for _ in 0..100_000 {
            let mut bytes = frame(&tests_route_message());
            for _ in 0..random() % 5 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }
            let mut frames = Frames::default();
            frames.read(&mut bytes.as_slice()).unwrap();
            loop {
                match frames.next() {
                    Ok(Some(payload)) => drop(told(payload, &mut counters)),
                    Ok(None) => break,
                    Err(_) => {
                        refused += 1;
                        break;
                    }
                }
            }
        }
        assert!(refused > 0 && counters.malformed > 0 && counters.passed_over > 0);
    }
}
