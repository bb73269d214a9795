//! The thread that shares flows: it sleeps until something is heard, something is due, or it is
//! told something.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Sender, TryRecvError};
use std::time::Duration;

use config::Sharing as Plan;
use flow::{Table, Timeouts, Tuple};
use nat::Nat;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
};
use sharing::{ALONE, Dropped, Epoch, Figures, Here, LONGEST, Sharer, State};
use tracing::{info, warn};

use super::super::orders::Inbox;
use crate::subject::SharingStatus;

/// When what could not be opened is tried again.
const AGAIN: u64 = 1_000_000_000;
/// Bytes that may wait to be read: a transfer comes in bursts.
const BUFFER: usize = 4 << 20;
/// Datagrams heard in a row, and sent in a row.
const ROW: usize = 256;
/// How long differences may last before the log has them: repairs take their time.
const GRACE: u64 = 30_000_000_000;

/// What the control thread knows around it.
#[derive(Clone)]
pub(super) struct Facts {
    pub(super) table: Arc<Table>,
    pub(super) nat: Option<Arc<Nat>>,
    pub(super) timeouts: Timeouts,
    /// Names of the interfaces, by number.
    pub(super) names: Vec<String>,
}

impl Facts {
    pub(super) fn is(&self, other: &Facts) -> bool {
        let same_nat = match (&self.nat, &other.nat) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let same = Arc::ptr_eq(&self.table, &other.table) && self.timeouts == other.timeouts;
        same && same_nat && self.names == other.names
    }
}

/// What the thread is told.
pub(super) enum Order {
    /// What is configured from now on.
    Plan(Option<Plan>),
    /// What is known around it; none: no flows are known here.
    Facts(Option<Facts>),
    /// These flows have ended.
    Ended(Vec<Tuple>),
    /// Say how it is.
    Status(Sender<SharingStatus>),
    /// Tell the last news, and end.
    Stop(Sender<()>),
}

/// See the head of this file.
pub(super) struct Runner {
    inbox: Inbox<Order>,
    ready: Arc<AtomicBool>,
    plan: Option<Plan>,
    /// Since when it is wanted so.
    since: u64,
    facts: Option<Facts>,
    live: Option<Live>,
    /// Why flows are not shared, and when it is tried again.
    trouble: Option<String>,
    again: u64,
    ends: Option<Sender<()>>,
}

/// Sharing, while it can be.
struct Live {
    plan: Plan,
    socket: UdpSocket,
    /// The other router's address, as the socket takes it.
    peer: SocketAddr,
    /// When the socket is opened anew at the earliest.
    again: u64,
    sharer: Sharer,
    here: Here,
    /// The state that the log has, and when it was another.
    logged: State,
    since: u64,
    warned: bool,
    /// Datagrams that Linux did not take.
    unsent: u64,
}

impl Runner {
    pub(super) fn new(inbox: Inbox<Order>, ready: Arc<AtomicBool>) -> Runner {
        let (plan, facts, live) = (None, None, None);
        Runner { inbox, ready, plan, since: 0, facts, live, trouble: None, again: 0, ends: None }
    }

    pub(super) fn run(mut self) {
        let mut buffer = [0; LONGEST + 1];
        loop {
            loop {
                match self.inbox.next() {
                    Ok(order) => self.obey(order),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let now = graph::steady_now();
            self.begin(now);
            let mut more = false;
            if let Some(live) = &mut self.live {
                more = live.hear(&mut buffer);
                live.sharer.step(now, &mut live.here);
                more |= live.send();
                live.say(now);
                // Once it is, it stays so: a reload is no reason to resign.
                self.ready.fetch_or(live.sharer.is_ready(), Relaxed);
            }
            if let Some(ends) = self.ends.take_if(|_| self.live.as_ref().is_none_or(Live::has_told_all)) {
                let _ = ends.send(());
                return;
            }
            if !more {
                self.sleep();
            }
        }
    }

    fn sleep(&self) {
        let now = graph::steady_now();
        let due = match &self.live {
            Some(live) => Some(live.sharer.until(now)),
            None => self.plan.as_ref().map(|_| self.again),
        };
        let time = due.map(|due| Duration::from_nanos(due.saturating_sub(now)));
        self.inbox.sleep(self.live.iter().map(|live| live.socket.as_fd()), time);
    }

    fn obey(&mut self, order: Order) {
        let now = graph::steady_now();
        match order {
            Order::Plan(plan) => {
                // Who goes on is told nothing anew.
                let goes_on = plan.as_ref().is_some_and(|plan| self.goes_on(plan));
                if !goes_on {
                    self.live = None;
                }
                if plan.is_none() && self.plan.is_some() {
                    info!("sharing: flows are shared no more");
                }
                (self.plan, self.since, self.again, self.trouble) = (plan, now, now, None);
            }
            Order::Facts(facts) => {
                match (&mut self.live, &facts) {
                    (Some(live), Some(facts)) if Arc::ptr_eq(live.here.table(), &facts.table) => {
                        live.here.follow(facts.nat.clone(), facts.timeouts, facts.names.clone());
                    }
                    _ => self.live = None,
                }
                (self.facts, self.again) = (facts, now);
            }
            Order::Ended(originals) => {
                if let Some(live) = &mut self.live {
                    originals.iter().for_each(|original| live.sharer.ended(original, now));
                }
            }
            Order::Status(sender) => drop(sender.send(self.status(now))),
            Order::Stop(sender) => self.ends = Some(sender),
        }
    }

    fn goes_on(&self, plan: &Plan) -> bool {
        self.live.as_ref().is_some_and(|live| live.plan == *plan)
    }

    /// Begins to share, if that is wanted and not so yet.
    fn begin(&mut self, now: u64) {
        let Some(plan) = self.plan.as_ref().filter(|_| self.live.is_none() && self.again <= now) else {
            return;
        };
        self.again = now + AGAIN;
        match Live::begin(plan, self.facts.as_ref(), now) {
            Ok(live) => {
                info!("sharing: flows are shared with {}", plan.peer);
                (self.live, self.trouble) = (Some(live), None);
            }
            Err(trouble) => {
                if self.trouble.as_ref() != Some(&trouble) {
                    warn!("sharing: flows are not shared: {trouble}");
                }
                self.trouble = Some(trouble);
                // The address may be about to come. What never can be is not waited for.
                self.ready.fetch_or(now.saturating_sub(self.since) > ALONE, Relaxed);
            }
        }
    }

    fn status(&self, now: u64) -> SharingStatus {
        let ends = self.plan.as_ref().map(|plan| (plan.listen.to_string(), plan.peer.to_string()));
        let (listen, peer) = ends.unwrap_or_default();
        let Some(live) = &self.live else {
            let trouble = self.trouble.clone().or_else(|| Some("it has not begun yet".to_owned()));
            return SharingStatus {
                listen,
                peer,
                state: "off".to_owned(),
                trouble,
                ..SharingStatus::default()
            };
        };
        let status = live.sharer.status(now);
        let dropped = Dropped::ALL
            .iter()
            .map(|why| (why.name().to_owned(), status.dropped.get(why).copied().unwrap_or_default()));
        SharingStatus {
            listen,
            peer,
            state: status.state.name().to_owned(),
            ready: self.ready.load(Relaxed),
            trouble: None,
            heard_ms: status.heard.map(|ago| ago / 1_000_000),
            lag_ms: status.lag / 1_000_000,
            figures: status.figures,
            unsent: live.unsent,
            dropped: dropped.collect::<BTreeMap<_, _>>(),
        }
    }
}

impl Live {
    fn begin(plan: &Plan, facts: Option<&Facts>, now: u64) -> Result<Live, String> {
        let Facts { table, nat, timeouts, names } = facts.ok_or("no flows are known here")?;
        let here =
            Here::new(table, nat.clone(), *timeouts, names.clone()).map_err(|error| error.to_string())?;
        let (socket, peer) = open(plan).map_err(|error| format!("{}: {error}", plan.listen))?;
        let epoch = epoch().map_err(|error| format!("/dev/urandom: {error}"))?;
        let sharer = Sharer::new(&plan.key, epoch, now);
        Ok(Live {
            plan: plan.clone(),
            socket,
            peer,
            again: now,
            sharer,
            here,
            logged: State::Alone,
            since: now,
            warned: false,
            unsent: 0,
        })
    }

    /// Takes what has come. True: there may be more.
    fn hear(&mut self, buffer: &mut [u8]) -> bool {
        for _ in 0..ROW {
            match self.socket.recv_from(buffer) {
                Ok((length, from)) => {
                    let now = graph::steady_now();
                    match from.ip() == self.plan.peer.ip() && from.port() == self.plan.peer.port() {
                        true => self.sharer.hear(&buffer[..length], now, &mut self.here),
                        false => self.sharer.drop(Dropped::Stranger),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // What an earlier datagram met on its way: nobody listened there.
                Err(_) => {}
            }
        }
        true
    }

    /// Sends what there is to say. True: there may be more.
    fn send(&mut self) -> bool {
        for _ in 0..ROW {
            let now = graph::steady_now();
            let Some(datagram) = self.sharer.next(now, &mut self.here) else { return false };
            if self.socket.send_to(&datagram, self.peer).is_err() {
                // It is sent again if it matters.
                self.unsent += 1;
                self.reopen(now);
            }
        }
        true
    }

    /// An interface that is removed takes what is bound to it along, even if it is made anew.
    fn reopen(&mut self, now: u64) {
        if self.plan.interface.is_none() || now < self.again {
            return;
        }
        self.again = now + AGAIN;
        // As long as it is the same interface, the socket has the address, and this fails.
        if let Ok((socket, peer)) = open(&self.plan) {
            info!("sharing: {} is there anew", self.plan.interface.as_deref().unwrap_or_default());
            (self.socket, self.peer) = (socket, peer);
        }
    }

    fn has_told_all(&self) -> bool {
        let status = self.sharer.status(graph::steady_now());
        status.lag == 0 || matches!(status.state, State::Alone | State::Silent)
    }

    /// What has changed, in the log.
    fn say(&mut self, now: u64) {
        let status = self.sharer.status(now);
        if status.state != self.logged {
            (self.since, self.warned) = (now, false);
            self.logged = status.state;
            let Figures { held, told, .. } = status.figures;
            match status.state {
                State::Alone | State::Differs => {}
                State::Joining => info!("sharing: {} is there; flows are told", self.plan.peer),
                State::Shared => info!("sharing: flows are shared: {held} of {}'s are here", self.plan.peer),
                State::Silent => {
                    warn!("sharing: nothing is heard of {}: {told} flows are here alone", self.plan.peer);
                }
            }
        } else if status.state == State::Differs && !self.warned && now.saturating_sub(self.since) > GRACE {
            self.warned = true;
            warn!(
                "sharing: {} flows or more of {}'s are not here as they are there, for half a minute",
                status.figures.missing, self.plan.peer
            );
        }
    }
}

/// Drawn from the kernel: no two starts have the same.
fn epoch() -> io::Result<Epoch> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Epoch(bytes))
}

/// The address of a link alone is one of an interface's.
fn scoped(address: SocketAddr, interface: Option<&str>) -> SocketAddr {
    match (address.ip(), interface.and_then(|name| if_nametoindex(name).ok())) {
        (IpAddr::V6(six), Some(ifindex)) if six.is_unicast_link_local() => {
            SocketAddrV6::new(six, address.port(), 0, ifindex).into()
        }
        _ => address,
    }
}

/// A socket, and where it sends. The address may come later than the router.
fn open(plan: &Plan) -> io::Result<(UdpSocket, SocketAddr)> {
    let family = if plan.listen.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket: OwnedFd = socket(family, SockType::Datagram, flags, None)?;
    if let Some(interface) = &plan.interface {
        setsockopt(&socket, sockopt::BindToDevice, &interface.into())?;
    }
    // Bursts that find no room come again, so this may fail.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &BUFFER);
    let _ = setsockopt(&socket, sockopt::SndBuf, &BUFFER);
    let [listen, peer] = [plan.listen, plan.peer].map(|end| scoped(end, plan.interface.as_deref()));
    bind(socket.as_raw_fd(), &SockaddrStorage::from(listen))?;
    Ok((UdpSocket::from(socket), peer))
}

#[cfg(test)]
mod tests {
    use super::super::super::orders::orders;
    use super::*;

    #[test]
    fn what_cannot_run_yet_is_waited_for_and_no_longer() {
        let (_orders, inbox) = orders().unwrap();
        let ready = Arc::new(AtomicBool::new(false));
        let mut runner = Runner::new(inbox, ready.clone());
        let [listen, peer] = ["192.0.2.1:3781", "192.0.2.2:3781"].map(|end| end.parse().unwrap());
        let key = "0123456789abcdef".repeat(4).parse().unwrap();
        runner.obey(Order::Plan(Some(Plan { listen, peer, interface: None, key })));
        let begun = runner.since;
        for (now, is_ready) in [(begun, false), (begun + ALONE, false), (begun + ALONE + AGAIN, true)] {
            runner.begin(now);
            assert!(runner.trouble.is_some(), "nobody knows any flows yet");
            assert_eq!(ready.load(Relaxed), is_ready, "{} ns", now - begun);
        }
    }
}
