//! An interface as the thread has it: what is said there, who asks, and which other routers are
//! heard.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use ::discovery::{Heard, Schedule, Time, irdp};
use chance::Random;
use port::classic::{BYTE, BYTE_BEHIND, EQUAL, HALF, HEADER, RETURN, TAGGED, WORD};
use port::socket::Instruction;
use port::{PacketSocket, PacketType, SocketOptions};
use tracing::{info, warn};
use wire::{Mac, ethernet, protocol};

use super::family::{Family, Four, Six, level_in_words, rank_in_words};
use crate::daemon::groups::Groups;
use crate::subject::{DiscoveryStatus, OtherRouter};

/// What the control thread wants said on an interface. Of a family that is configured: what, or why
/// nothing can be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) name: String,
    pub(super) interface: String,
    /// 0: it is not there.
    pub(super) ifindex: u32,
    pub(super) four: Option<Result<Four, String>>,
    pub(super) six: Option<Result<Six, String>>,
}

/// Where routers of IPv6 are asked.
const ALL_ROUTERS6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// How often hosts are told that something has changed, with what holds no longer.
const REPEATS: u32 = 3;
/// How often, and with which time between, they are told that this router is none any more.
const FAREWELLS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(50);
/// Other routers that are remembered.
const OTHERS: usize = 64;
/// Lines about them in the log, each minute: whoever is on the link can make some.
const LINES: u32 = 8;
const MINUTE: Duration = Duration::from_secs(60);

/// Solicitations and advertisements of both families, without a tag: others are a VLAN's.
const HEARD: &[Instruction] = &[
    (WORD, 0, 0, TAGGED),
    (EQUAL, 0, 15, 0),
    (HALF, 0, 0, 12),
    (EQUAL, 0, 6, ethernet::IPV4 as u32),
    (BYTE, 0, 0, 14 + 9),
    (EQUAL, 0, 11, protocol::ICMP as u32),
    (HEADER, 0, 0, 14),
    (BYTE_BEHIND, 0, 0, 14),
    (EQUAL, 7, 0, 9),
    (EQUAL, 6, 7, 10),
    (EQUAL, 0, 6, ethernet::IPV6 as u32),
    (BYTE, 0, 0, 14 + 6),
    (EQUAL, 0, 4, protocol::ICMP6 as u32),
    (BYTE, 0, 0, 14 + 40),
    (EQUAL, 1, 0, 133),
    (EQUAL, 0, 1, 134),
    (RETURN, 0, 0, u32::MAX),
    (RETURN, 0, 0, 0),
];

/// See the head of this file.
pub(super) struct Speaker {
    pub(super) told: Told,
    link: Option<Link>,
    /// Why there is no socket.
    broken: Option<String>,
    four: Voice<Four>,
    six: Voice<Six>,
    log: Log,
}

/// How many lines about other routers this minute has had.
#[derive(Default)]
struct Log {
    minute: Time,
    lines: u32,
}

impl Log {
    fn has_room(&mut self, now: Time) -> bool {
        if now >= self.minute + MINUTE {
            *self = Log { minute: now, lines: 0 };
        }
        self.lines += 1;
        self.lines <= LINES
    }
}

struct Link {
    ifindex: u32,
    socket: PacketSocket,
    groups: Groups,
}

/// What is said for one family.
struct Voice<F> {
    speaks: Option<Speaks<F>>,
    /// What is said at its end, how often still, and when.
    parting: Option<(F, u32, Time)>,
    sent: u64,
    asked: u64,
    answered: u64,
    refused: u64,
    others: BTreeMap<IpAddr, Other>,
}

struct Speaks<F> {
    now: F,
    /// The same, with what holds no longer; said so often still.
    with: F,
    repeats: u32,
    schedule: Schedule<(Mac, IpAddr)>,
}

struct Other {
    level: String,
    until: Time,
    /// What it was last found to say otherwise.
    otherwise: Option<String>,
}

impl Speaker {
    pub(super) fn new(told: Told) -> Speaker {
        Speaker { told, link: None, broken: None, four: Voice::new(), six: Voice::new(), log: Log::default() }
    }

    /// Begins to say what is told, or says it instead of what was.
    pub(super) fn follow(&mut self, told: Told, now: Time, random: &mut Random) {
        let moved = self.told.ifindex != told.ifindex;
        self.told = told;
        let (four, six) =
            (self.told.four.clone().and_then(Result::ok), self.told.six.clone().and_then(Result::ok));
        if self.link.as_ref().is_some_and(|link| link.ifindex != self.told.ifindex) {
            self.link = None;
        }
        if self.link.is_none() && self.told.ifindex != 0 && (four.is_some() || six.is_some()) {
            let opened = Link::open(self.told.ifindex);
            self.broken = opened.as_ref().err().map(|error| format!("no socket: {error}"));
            self.link = opened.ok();
        }
        if let Some(link) = &mut self.link {
            let joined = four.as_ref().map(|four| link.groups.join4(irdp::ALL_ROUTERS, four.from));
            let joined6 = six.as_ref().map(|_| link.groups.join6(ALL_ROUTERS6, link.ifindex));
            for error in joined.into_iter().chain(joined6).filter_map(Result::err) {
                warn!("{}: questions of hosts may not be heard: {error}", self.told.interface);
            }
        }
        self.four.follow(four, moved, now, random);
        self.six.follow(six, moved, now, random);
    }

    /// Takes leave of hosts.
    pub(super) fn end(&mut self, now: Time, random: &mut Random) {
        self.four.follow(None, false, now, random);
        self.six.follow(None, false, now, random);
    }

    /// Whether all has been said.
    pub(super) fn is_silent(&self) -> bool {
        let heard = |voice: bool, parting: bool| voice || parting;
        let four = heard(self.four.speaks.is_some(), self.four.parting.is_some());
        let six = heard(self.six.speaks.is_some(), self.six.parting.is_some());
        self.link.is_none() || !(four || six)
    }

    pub(super) fn next(&self) -> Option<Time> {
        [self.four.next(), self.six.next()].into_iter().flatten().min()
    }

    /// Says what is due.
    pub(super) fn speak(&mut self, now: Time) {
        let Speaker { link, four, six, .. } = self;
        // A frame that is not sent, for the interface is down or full, is said again sooner or
        // later.
        let mut send = |frame: Vec<u8>| link.as_ref().is_some_and(|link| link.socket.send(&frame).is_ok());
        four.speak(now, &mut send);
        six.speak(now, &mut send);
    }

    /// The next frame that was heard; false: none waits.
    pub(super) fn hear(&mut self, buffer: &mut [u8], now: Time) -> bool {
        let Some(link) = &self.link else { return false };
        let Ok(received) = link.socket.receive(buffer) else { return false };
        let Some(frame) = buffer.get(..received.captured) else { return true };
        if !matches!(received.kind, PacketType::Host | PacketType::Multicast | PacketType::Broadcast) {
            return true;
        }
        let (place, log) = (&self.told.interface, &mut self.log);
        if let Some(irdp::Heard { mac, from, message }) = irdp::hear(frame) {
            match message {
                irdp::Message::Solicitation => {
                    let nets = self.four.speaks.as_ref().map(|speaks| &speaks.now.nets);
                    let near = nets.is_some_and(|nets| nets.iter().any(|net| net.contains(&from)));
                    self.four.asked(mac, from.into(), from.is_unspecified(), near, now);
                }
                irdp::Message::Advertisement(said) => {
                    let best = said.addresses.iter().map(|(_, level)| *level).max().unwrap_or(irdp::NEVER);
                    if self.four.other(from.into(), said.lifetime, level_in_words(best), now)
                        && log.has_room(now)
                    {
                        info!("{place}: there is another router, {from}");
                    }
                }
            }
        } else if let Some(heard) = ::discovery::hear(frame) {
            match heard {
                Heard::Solicitation { mac, from } => {
                    self.six.asked(mac, from.into(), from.is_unspecified(), true, now);
                }
                Heard::Advertisement { from, advertisement } => {
                    let level = rank_in_words(advertisement.lifetime, advertisement.preference);
                    if self.six.other(from.into(), advertisement.lifetime, level, now) && log.has_room(now) {
                        info!("{place}: there is another router, {from}");
                    }
                    let speaks = self.six.speaks.as_ref();
                    let otherwise = speaks.and_then(|speaks| speaks.now.contradicts(&advertisement));
                    if let Some(other) = self.six.others.get_mut(&IpAddr::from(from))
                        && other.otherwise != otherwise
                    {
                        if let Some(otherwise) = &otherwise
                            && log.has_room(now)
                        {
                            warn!("{place}: the router {from} tells hosts otherwise: {otherwise}");
                        }
                        other.otherwise = otherwise;
                    }
                }
            }
        }
        true
    }

    pub(super) fn status(&self, now: Time) -> Vec<DiscoveryStatus> {
        let four = self.told.four.as_ref().map(|told| self.of(&self.four, told.as_ref(), now));
        let six = self.told.six.as_ref().map(|told| self.of(&self.six, told.as_ref(), now));
        four.into_iter().chain(six).collect()
    }

    fn of<F: Family>(&self, voice: &Voice<F>, told: Result<&F, &String>, now: Time) -> DiscoveryStatus {
        let (lifetime, preference) = told.map_or((0, "none".to_owned()), |told| told.level());
        let others = voice.others.iter().filter(|(_, other)| other.until > now);
        DiscoveryStatus {
            name: self.told.name.clone(),
            interface: self.told.interface.clone(),
            family: F::NAME.to_owned(),
            silent: told.err().cloned().or_else(|| self.broken.clone()),
            from: told.ok().map(Family::from),
            preference,
            lifetime,
            lacks: told.map_or(Vec::new(), |told| told.lacks().to_vec()),
            sent: voice.sent,
            asked: voice.asked,
            answered: voice.answered,
            refused: voice.refused,
            others: others
                .map(|(address, other)| OtherRouter {
                    address: *address,
                    preference: other.level.clone(),
                    lifetime: (other.until - now).as_secs(),
                    otherwise: other.otherwise.clone(),
                })
                .collect(),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Speaker {
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(AsFd::as_fd)
    }
}

impl Link {
    fn open(ifindex: u32) -> io::Result<Link> {
        let socket =
            PacketSocket::open(ifindex, SocketOptions { filter: HEARD, ..SocketOptions::default() })?;
        Ok(Link { ifindex, socket, groups: Groups::default() })
    }
}

impl<F: Family> Voice<F> {
    fn new() -> Voice<F> {
        let others = BTreeMap::new();
        Voice { speaks: None, parting: None, sent: 0, asked: 0, answered: 0, refused: 0, others }
    }

    fn follow(&mut self, told: Option<F>, moved: bool, now: Time, random: &mut Random) {
        match (&mut self.speaks, told) {
            (None, None) => {}
            (Some(_), None) => {
                let ends = self.speaks.take().filter(|speaks| !speaks.now.is_shared());
                self.parting = ends.map(|speaks| (speaks.now.ended(), FAREWELLS, now));
            }
            (Some(speaks), Some(told)) if speaks.now.times() == told.times() => {
                if moved || speaks.now != told {
                    speaks.with = told.instead_of(&speaks.with);
                    speaks.repeats = REPEATS;
                    speaks.now = told;
                    speaks.schedule.changed(now);
                }
            }
            (before, Some(told)) => {
                let schedule = Schedule::new(told.times(), now, Random(random.next()));
                let with =
                    before.as_ref().map_or_else(|| told.clone(), |before| told.instead_of(&before.with));
                self.speaks = Some(Speaks { now: told, with, repeats: REPEATS, schedule });
                self.parting = None;
            }
        }
    }

    fn next(&self) -> Option<Time> {
        let parting = self.parting.as_ref().map(|(_, _, at)| *at);
        let speaks = self.speaks.as_ref().map(|speaks| speaks.schedule.next());
        parting.or(speaks)
    }

    fn speak(&mut self, now: Time, send: &mut dyn FnMut(Vec<u8>) -> bool) {
        if let Some((said, left, at)) = &mut self.parting
            && *at <= now
        {
            self.sent += u64::from(send(said.frame(said.all())));
            (*left, *at) = (*left - 1, now + BETWEEN);
            if *left == 0 {
                self.parting = None;
            }
        }
        let Some(speaks) = &mut self.speaks else { return };
        if speaks.schedule.next() > now {
            return;
        }
        let (hosts, all) = speaks.schedule.due(now);
        if all {
            self.sent += u64::from(send(speaks.with.frame(speaks.with.all())));
            speaks.repeats = speaks.repeats.saturating_sub(1);
            if speaks.repeats == 0 {
                speaks.with = speaks.now.clone();
            }
        }
        for host in hosts {
            self.answered += u64::from(send(speaks.with.frame(host)));
        }
    }

    fn asked(&mut self, mac: Mac, from: IpAddr, nameless: bool, near: bool, now: Time) {
        let Some(speaks) = &mut self.speaks else { return };
        self.asked += 1;
        if nameless {
            speaks.schedule.asked(now, None);
        } else if near {
            speaks.schedule.asked(now, Some((mac, from)));
        } else {
            self.refused += 1;
        }
    }

    /// Notes another router; true: it is a new one.
    fn other(&mut self, from: IpAddr, lifetime: u16, level: String, now: Time) -> bool {
        if self.speaks.as_ref().is_none_or(|speaks| from == speaks.now.from()) {
            return false;
        }
        self.others.retain(|_, other| other.until > now);
        let until = now + Duration::from_secs(lifetime.into());
        let room = self.others.len() < OTHERS;
        match self.others.get_mut(&from) {
            Some(other) => (other.level, other.until) = (level, until),
            None if room && lifetime > 0 => {
                self.others.insert(from, Other { level, until, otherwise: None });
                return true;
            }
            None => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_on_the_link_cannot_fill_the_log() {
        let mut log = Log::default();
        let lines = |log: &mut Log, from: u64| {
            (0..100_000).filter(|n| log.has_room(Time::from_millis(from + n / 10))).count()
        };
        assert_eq!(lines(&mut log, 0), 8);
        assert_eq!(lines(&mut log, 20_000), 0, "the same minute");
        assert_eq!(lines(&mut log, 120_000), 8);
    }
}
