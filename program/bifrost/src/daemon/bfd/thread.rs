//! The thread that runs the sessions: it sleeps until something is heard, something is due, or it
//! is told something.

use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, TryRecvError};
use std::time::{Duration, Instant};

use bfd::frr::{self, Message, Wanted};
use bfd::{Packet, Time, packet};
use chance::Random;
use config::Bfd as Plan;
use tracing::{info, warn};

use super::super::orders::Inbox;
use super::connection::Connection;
use super::live::Live;
use super::reachability::{PeerReport, PeerState};
use super::socket::{Listener, Place};
use crate::subject::BfdStatus;

/// What the thread is told.
pub(super) enum Order {
    /// Run the sessions of this bfdd.
    Follow(Plan),
    /// Say whether there is one to be followed.
    IsWanted(Sender<bool>),
    /// Say whom sessions reach, from now on.
    Watch(UnixStream),
    /// Say how it is.
    Status(Sender<BfdStatus>),
    /// Tell the other ends that this is no failure, and end.
    Stop(Sender<()>),
}

/// When a connection is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// When bfdd is looked at again that has not read all it was told.
const SOON: Duration = Duration::from_millis(10);
/// Packets heard in a row by one socket before something else has its turn.
const PACKETS: usize = 64;
/// Bytes that are read of a packet.
const LONGEST: usize = 512;

pub(super) struct Runner {
    inbox: Inbox<Order>,
    /// Whose sessions are wanted.
    plan: Option<Plan>,
    connection: Option<Connection>,
    /// Why there is none.
    trouble: Option<String>,
    tries_at: Time,
    /// By their numbers.
    sessions: HashMap<u32, Live>,
    listeners: HashMap<Place, Listener>,
    /// Who hears whom sessions reach.
    watchers: Vec<UnixStream>,
    /// Packets for no session.
    strays: u64,
    begun: Instant,
    random: Random,
}

impl Runner {
    pub(super) fn new(inbox: Inbox<Order>) -> Runner {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Runner {
            inbox,
            plan: None,
            connection: None,
            trouble: None,
            tries_at: Time::ZERO,
            sessions: HashMap::new(),
            listeners: HashMap::new(),
            watchers: Vec::new(),
            strays: 0,
            begun: Instant::now(),
            random: Random(seed.as_nanos() as u64),
        }
    }

    pub(super) fn run(mut self) {
        if let Err(error) = port::urgent() {
            info!("bfd: its thread has an ordinary priority, and may be late under load: {error}");
        }
        // What it reads is of strangers, and its sockets need no right.
        confine::client();
        loop {
            loop {
                match self.inbox.next() {
                    Ok(Order::Follow(plan)) => self.follow(plan),
                    Ok(Order::IsWanted(answer)) => drop(answer.send(self.plan.is_some())),
                    Ok(Order::Watch(watcher)) => self.welcome(watcher),
                    Ok(Order::Status(answer)) => drop(answer.send(self.status())),
                    Ok(Order::Stop(answer)) => {
                        let now = self.now();
                        self.sessions.values_mut().for_each(|live| live.shut_down(now));
                        let _ = answer.send(());
                        return;
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.pass();
            self.talk();
            self.report();
            self.sleep();
            self.hear();
            self.report();
        }
    }

    fn follow(&mut self, plan: Plan) {
        if self.plan.as_ref().is_some_and(|own| own.has_sessions_of(&plan)) {
            self.sessions.values_mut().for_each(|live| live.authenticate(&plan));
            self.plan = Some(plan);
            return;
        }
        let now = self.now();
        self.sessions.values_mut().for_each(|live| live.shut_down(now));
        self.forget(now);
        (self.plan, self.trouble) = (Some(plan), None);
    }

    /// No connection to bfdd, hence no session.
    fn forget(&mut self, tries_at: Time) {
        self.connection = None;
        let gone: Vec<u32> = self.sessions.keys().copied().collect();
        gone.into_iter().for_each(|id| self.end(id));
        self.listeners.clear();
        self.tries_at = tries_at;
    }

    fn now(&self) -> Time {
        self.begun.elapsed()
    }

    /// What is due.
    fn pass(&mut self) {
        let now = self.now();
        let mut begun = false;
        for live in self.sessions.values_mut() {
            if live.next().is_some_and(|at| at <= now) {
                let had = live.place.is_some();
                let tells = live.pass(now);
                begun |= !had && live.place.is_some();
                tell(&mut self.connection, live, tells);
            }
        }
        if begun {
            self.listen();
        }
    }

    /// Opens the sockets that sessions hear by, and closes those that none does any more.
    fn listen(&mut self) {
        let now = self.now();
        for live in self.sessions.values_mut() {
            let Some(place) = live.place.clone().filter(|place| !self.listeners.contains_key(place)) else {
                continue;
            };
            match Listener::open(&place) {
                Ok(listener) => drop(self.listeners.insert(place, listener)),
                Err(error) => {
                    live.stuck(
                        format!("nothing can be heard at {} port {}: {error}", place.local, place.port),
                        now,
                    );
                }
            }
        }
        let sessions = &self.sessions;
        self.listeners.retain(|place, _| sessions.values().any(|live| live.place.as_ref() == Some(place)));
    }

    /// The connection: opened, read, written.
    fn talk(&mut self) {
        let now = self.now();
        let Some(plan) = &self.plan else { return };
        let frr = plan.frr;
        if self.connection.is_none() && self.tries_at <= now {
            self.tries_at = now + AGAIN;
            match Connection::open(plan) {
                Ok(connection) => {
                    info!("bfd: FRR's bfdd at {frr} hands over its sessions");
                    (self.connection, self.trouble) = (Some(connection), None);
                }
                Err(error) => self.trouble = Some(error.to_string()),
            }
        }
        let Some(connection) = &mut self.connection else { return };
        let heard = connection.hear();
        let done = match heard {
            Ok(messages) => {
                messages.into_iter().for_each(|message| self.obey(message));
                self.connection.as_mut().map_or(Ok(true), Connection::flush)
            }
            Err(why) => Err(why),
        };
        if let Err(why) = done {
            warn!("bfd: FRR's bfdd at {frr} is gone, and with it its sessions: {why}");
            self.trouble = Some(why);
            self.forget(now + AGAIN);
        }
    }

    fn obey(&mut self, message: Message) {
        match message {
            Message::Add(wanted) => self.add(wanted),
            Message::Delete(id) => {
                self.end(id);
                self.listen();
            }
            Message::Counters(number, id) => {
                let counters = self.sessions.get(&id).map(Live::counters).unwrap_or_default();
                if let Some(connection) = &mut self.connection {
                    let answer = frr::counters(connection.version(), number, id, counters);
                    connection.tell(&answer);
                }
            }
            Message::Refused(id, why) => warn!("bfd: session {id} of FRR's is not run: {why}"),
            Message::Other => {}
        }
    }

    fn add(&mut self, wanted: Wanted) {
        let (now, id) = (self.now(), wanted.settings.id);
        // Invariant: nothing is heard of bfdd without a plan that says where it is.
        let Some(plan) = &self.plan else { return };
        if self.sessions.get_mut(&id).is_none_or(|live| !live.set(&wanted, now)) {
            let random = self.random.next();
            let mut live = Live::new(wanted, now, random);
            live.authenticate(plan);
            self.end(id);
            self.sessions.insert(id, live);
            // At once: who was heard until now by bfdd is not to be missed.
            self.pass();
            self.listen();
        }
    }

    /// There is no such session any more.
    fn end(&mut self, id: u32) {
        if let Some(live) = self.sessions.remove(&id) {
            say(&mut self.watchers, &PeerReport { state: PeerState::Unknown, ..live.report() });
        }
    }

    fn welcome(&mut self, watcher: UnixStream) {
        // One that does not read is let go, and comes again.
        if watcher.set_nonblocking(true).is_ok() {
            let mut new = vec![watcher];
            self.sessions.values().for_each(|live| say(&mut new, &live.report()));
            self.watchers.append(&mut new);
        }
    }

    /// Tells the changes.
    fn report(&mut self) {
        for live in self.sessions.values_mut() {
            if live.is_news() {
                say(&mut self.watchers, &live.report());
            }
        }
    }

    /// Until something is due, or comes.
    fn sleep(&mut self) {
        let unsent = match &mut self.connection {
            Some(connection) => connection.flush() != Ok(true),
            None => false,
        };
        let connects = Some(self.tries_at).filter(|_| self.plan.is_some() && self.connection.is_none());
        let now = self.now();
        let soon = Some(now + SOON).filter(|_| unsent);
        let due = self.sessions.values().filter_map(Live::next).chain(connects).chain(soon).min();
        let heard = self.listeners.values().map(AsFd::as_fd);
        let heard = heard.chain(self.connection.as_ref().map(AsFd::as_fd));
        self.inbox.sleep(heard, due.map(|at| at.saturating_sub(now)));
    }

    fn hear(&mut self) {
        let mut buffer = [0; LONGEST];
        let places: Vec<Place> = self.listeners.keys().cloned().collect();
        for place in places {
            for _ in 0..PACKETS {
                let Some(heard) = self.listeners.get(&place).and_then(|it| it.hear(&mut buffer)) else {
                    break;
                };
                let Some(heard) = heard else { continue };
                match packet::parse(&buffer[..heard.length]) {
                    Ok(packet) => self.judge(&place, heard.from, heard.hops, &packet),
                    Err(_) => self.strays += 1,
                }
            }
        }
    }

    fn judge(&mut self, place: &Place, from: IpAddr, hops: u8, packet: &Packet) {
        let now = self.now();
        let found = match packet.control.yours {
            0 => self.sessions.values_mut().find(|live| live.is_for(place, from)),
            id => self.sessions.get_mut(&id).filter(|live| live.hears_at(place)),
        };
        let Some(live) = found else {
            self.strays += 1;
            return;
        };
        let tells = live.hear(packet, from, hops, now);
        tell(&mut self.connection, live, tells);
    }

    fn status(&self) -> BfdStatus {
        let now = self.now();
        let mut sessions: Vec<_> = self.sessions.values().map(|live| live.status(now)).collect();
        sessions.sort_by(|one, other| (one.peer, &one.interface).cmp(&(other.peer, &other.interface)));
        BfdStatus {
            frr: self.plan.as_ref().map(|plan| plan.frr.to_string()).unwrap_or_default(),
            connected: self.connection.is_some(),
            trouble: self.trouble.clone(),
            strays: self.strays,
            sessions,
        }
    }
}

/// Tells all watchers; those that cannot be told are let go.
fn say(watchers: &mut Vec<UnixStream>, report: &PeerReport) {
    // Invariant: what is told are numbers, words and addresses.
    let line = serde_json::to_string(report).unwrap_or_default() + "\n";
    watchers.retain_mut(|watcher| matches!(watcher.write(line.as_bytes()), Ok(all) if all == line.len()));
}

/// Tells bfdd of a session, if it `tells` something.
fn tell(connection: &mut Option<Connection>, live: &Live, tells: bool) {
    if let (true, Some(connection), Some(session)) = (tells, connection, live.session()) {
        let version = connection.version();
        connection.tell(&frr::state_change(version, session));
    }
}
