//! `track = [{ ping = "ADDRESS" }]`: whether hosts answer, as virtual routers and router discovery
//! want to know.
//!
//! A thread asks each of them in its turn (ICMP echo, RFC 792 and RFC 4443), by a socket that hears
//! of that host alone: no flood of others' answers fills it. Linux finds the way, as for `ping`. A
//! question that was not answered has the socket opened anew, for the route or this router's own
//! address may be another by then.
//!
//! A host that was not asked yet is not there. Another process of this router knew more: after it,
//! a host is there until so many questions were not answered.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::TryRecvError;
use std::thread;
use std::time::Instant;

use config::{Ping, Router, Tracked};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, connect, recv, send,
    socket,
};
use tracing::{info, warn};
use wire::{checksum, icmp4, icmp6};

use super::control::Door;
use super::orders::{Inbox, Orders, orders};

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Pings {
    orders: Option<Orders<HashSet<Ping>>>,
    told: HashSet<Ping>,
    answers: HashMap<Ping, bool>,
    /// What is not known yet is there.
    goes_on: bool,
}

impl Pings {
    /// Asks those that the configuration names, if they are others now.
    pub(super) fn follow(&mut self, router: &Router, door: &Door) {
        let wanted = wanted(router);
        if wanted == self.told {
            return;
        }
        self.goes_on &= self.told.is_empty();
        self.answers.retain(|ping, _| wanted.contains(ping));
        if self.orders.is_none() {
            match begin(door.clone()) {
                Ok(orders) => self.orders = Some(orders),
                Err(error) => warn!("no host is asked whether it is there: {error}"),
            }
        }
        self.told.clone_from(&wanted);
        self.orders.as_ref().map(|orders| orders.tell(wanted));
    }

    /// Whether a host answers.
    pub(super) fn answers(&self, ping: &Ping) -> bool {
        self.answers.get(ping).copied().unwrap_or(self.goes_on)
    }

    /// Goes on for another process of this router.
    pub(super) fn go_on(&mut self) {
        self.goes_on = true;
    }
}

fn wanted(router: &Router) -> HashSet<Ping> {
    let four = router.discovery.iter().flat_map(|it| &it.ipv4).flat_map(|it| &it.track).map(|(what, _)| what);
    let six = router.discovery.iter().flat_map(|it| &it.ipv6).flat_map(|it| &it.track).map(|(what, _)| what);
    let all = router.vrrp.iter().flat_map(|it| &it.track).map(|track| &track.what).chain(four).chain(six);
    all.filter_map(|what| if let Tracked::Ping(ping) = what { Some(*ping) } else { None }).collect()
}

fn begin(door: Door) -> io::Result<Orders<HashSet<Ping>>> {
    let (orders, inbox) = orders()?;
    thread::Builder::new().name("pings".to_owned()).spawn(move || run(&inbox, &door))?;
    Ok(orders)
}

fn run(inbox: &Inbox<HashSet<Ping>>, door: &Door) {
    let mut hosts: HashMap<Ping, Host> = HashMap::new();
    let mut identifier = std::process::id() as u16;
    loop {
        loop {
            match inbox.next() {
                Ok(wanted) => {
                    hosts.retain(|ping, _| wanted.contains(ping));
                    for ping in wanted {
                        identifier = identifier.wrapping_add(1);
                        hosts.entry(ping).or_insert_with(|| Host::new(identifier));
                    }
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let now = Instant::now();
        for (ping, host) in &mut hosts {
            let before = host.there;
            host.hear();
            if host.due <= now {
                host.ask(ping, now);
            }
            if let Some(there) = host.there.filter(|_| host.there != before) {
                tell(*ping, before, there, door);
            }
        }
        let next = hosts.values().map(|host| host.due).min();
        let sockets = hosts.values().filter_map(|host| host.socket.as_ref().map(AsFd::as_fd));
        inbox.sleep(sockets, next.map(|next| next.saturating_duration_since(Instant::now())));
    }
}

fn tell(ping: Ping, before: Option<bool>, there: bool, door: &Door) {
    let Ping { address, count, .. } = ping;
    match (before, there) {
        (_, true) => info!("{address} answers"),
        (None, false) => warn!("{address} does not answer"),
        (Some(_), false) => warn!("{address} does not answer any more: {count} in a row were lost"),
    }
    door.hand_in(Box::new(move |control| {
        let pings = &mut control.forwarding.pings;
        if pings.told.contains(&ping) {
            pings.answers.insert(ping, there);
            control.parts.redundancy.follow(&control.forwarding);
        }
    }));
}

/// A host that is asked.
struct Host {
    identifier: u16,
    /// The number of the last question; none was asked yet at 0.
    number: u16,
    socket: Option<OwnedFd>,
    due: Instant,
    /// Whether the last question was answered.
    answered: bool,
    /// Questions in a row of which that is not so, or is so, as with the host so far.
    against: u8,
    /// `None`: it is not known yet.
    there: Option<bool>,
}

impl Host {
    fn new(identifier: u16) -> Host {
        let due = Instant::now();
        Host { identifier, number: 0, socket: None, due, answered: false, against: 0, there: None }
    }

    /// Judges the last question, and asks the next one.
    fn ask(&mut self, ping: &Ping, now: Instant) {
        if self.number != 0 {
            self.judge(ping.count);
        }
        self.due = now + ping.interval;
        self.answered = false;
        self.number = self.number.wrapping_add(1).max(1);
        if self.socket.is_none() {
            self.socket = open(ping.address).ok();
        }
        let question = question(ping.address.is_ipv6(), self.identifier, self.number);
        // What cannot be asked is not answered.
        if let Some(socket) = &self.socket
            && send(socket.as_raw_fd(), &question, MsgFlags::MSG_DONTWAIT).is_err()
        {
            self.socket = None;
        }
    }

    fn judge(&mut self, count: u8) {
        if !self.answered {
            self.socket = None;
        }
        self.against = if self.there == Some(self.answered) { 0 } else { self.against.saturating_add(1) };
        // The first answer is enough for one that was never heard.
        if self.against >= count || self.there.is_none() && self.answered {
            (self.there, self.against) = (Some(self.answered), 0);
        }
    }

    fn hear(&mut self) {
        let mut buffer = [0; 256];
        let Some(socket) = &self.socket else { return };
        while let Ok(length) = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
            self.answered |= answered(&buffer[..length]) == Some((self.identifier, self.number));
        }
        // At once, and not with the next question.
        if self.answered && self.there.is_none() {
            self.there = Some(true);
        }
    }
}

/// A socket for ICMP with one host.
fn open(host: IpAddr) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    match host {
        IpAddr::V4(address) => {
            let socket = socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp)?;
            connect(socket.as_raw_fd(), &SockaddrIn::from(std::net::SocketAddrV4::new(address, 0)))?;
            Ok(socket)
        }
        IpAddr::V6(address) => {
            let socket = socket(AddressFamily::Inet6, SockType::Raw, flags, SockProtocol::IcmpV6)?;
            connect(socket.as_raw_fd(), &SockaddrIn6::from(std::net::SocketAddrV6::new(address, 0, 0, 0)))?;
            Ok(socket)
        }
    }
}

/// An echo request. Linux makes the checksum of ICMPv6.
fn question(ipv6: bool, identifier: u16, number: u16) -> [u8; 8] {
    let mut bytes = [if ipv6 { icmp6::ECHO } else { icmp4::ECHO }, 0, 0, 0, 0, 0, 0, 0];
    bytes[4..6].copy_from_slice(&identifier.to_be_bytes());
    bytes[6..].copy_from_slice(&number.to_be_bytes());
    if !ipv6 {
        let checksum = checksum::of(&bytes);
        bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    bytes
}

/// The identifier and number of an echo reply, as a raw socket has it: of IPv4 with its header.
fn answered(packet: &[u8]) -> Option<(u16, u16)> {
    let first = *packet.first()?;
    let message = match first >> 4 {
        4 => packet.get(usize::from(first & 15) * 4..)?,
        _ => packet,
    };
    let [kind, 0, _, _, a, b, c, d, ..] = *message else { return None };
    // 129 is no version and header length of IPv4's.
    let is_reply =
        if message.len() == packet.len() { kind == icmp6::ECHO_REPLY } else { kind == icmp4::ECHO_REPLY };
    is_reply.then_some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_lost_and_back_after_so_many() {
        let mut host = Host::new(1);
        let mut judged = |answers: &str| -> String {
            let state = |answer| {
                host.answered = answer == '+';
                host.judge(3);
                host.there.map_or('?', |there| if there { '+' } else { '-' })
            };
            answers.chars().map(state).collect()
        };
        assert_eq!(judged("--+"), "??+", "the first answer is enough");
        assert_eq!(judged("--+--+---"), "++++++++-");
        assert_eq!(judged("-++-+++"), "------+");
        assert_eq!(judged("---+++"), "++---+");
        let mut never = Host::new(2);
        (0..3).for_each(|_| never.judge(3));
        assert_eq!(never.there, Some(false));
    }

    #[test]
    fn questions_and_answers_are_those_of_the_rfcs() {
        assert_eq!(question(false, 0x1234, 0x0102), [8, 0, 0xe4, 0xc9, 0x12, 0x34, 1, 2]);
        assert_eq!(question(false, 0xffff, 0xf800), [8, 0, 0xff, 0xfe, 0xff, 0xff, 0xf8, 0]);
        assert_eq!(question(true, 1, 2), [128, 0, 0, 0, 0, 1, 0, 2]);
        let mut four = vec![0x46; 24];
        four.extend([0, 0, 9, 9, 0x12, 0x34, 1, 2, 7]);
        assert_eq!(answered(&four), Some((0x1234, 0x0102)));
        assert_eq!(answered(&[129, 0, 9, 9, 0, 1, 0, 2]), Some((1, 2)));
        for length in 0..32 {
            assert_eq!(answered(&four[..length]), None, "{length}");
        }
        four[24] = 8;
        assert_eq!(answered(&four), None, "a question");
        assert_eq!(answered(&[128, 0, 9, 9, 0, 1, 0, 2]), None);
    }
}
