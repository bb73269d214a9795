//! A session as its thread has it: with what it is for, its way out, and its counters.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bfd::frr::{Counters, Wanted};
use bfd::packet::{PORT, PORT_MULTIHOP};
use bfd::{Action, Authentication, Key, Packet, Refused, Session, Settings, State, Time};
use chance::Random;
use config::Bfd as Plan;
use nix::net::if_::if_nametoindex;
use tracing::{info, warn};

use super::reachability::{PeerReport, PeerState};
use super::socket::{Place, Sender, local_towards};
use crate::subject::BfdSession;

/// When what could not be opened is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a session may take to come up before FRR is told that it is down. FRR's protocols may
/// have it as up from before Bifrost began anew, and would give up a neighbour that is there.
const GRACE: Duration = Duration::from_secs(5);

/// See the head of this file.
pub(super) struct Live {
    pub(super) wanted: Wanted,
    /// Where it hears; known once it has begun.
    pub(super) place: Option<Place>,
    way: Way,
    counters: Counters,
    /// Packets for it that were not its neighbour's, or came from too far.
    discarded: u64,
    authentication: Authentication,
    /// Packets that were not authentic, and why the last of them was not.
    refused: (u64, Option<Refused>),
    /// The log has that some are not, since the session last came up.
    refusal_logged: bool,
    /// The state that the log has.
    logged: State,
    changes: u64,
    since: Time,
    peer_state: PeerState,
    /// Watchers have not been told of it as it is.
    is_news: bool,
    /// Until then, or until it is up, FRR is not told that it is down.
    spares_until: Option<Time>,
    random: u64,
}

enum Way {
    /// It begins, or is tried again, at this time; why it has not begun.
    Waits(Time, Option<String>),
    Runs(Box<Session>, Sender),
}

impl Live {
    pub(super) fn new(wanted: Wanted, now: Time, random: u64) -> Live {
        if wanted.echo {
            info!("bfd {}: echo packets are not sent here; control packets find failures", wanted.peer);
        }
        let way = Way::Waits(now + wanted.hold, None);
        let spares_until = Some(now + wanted.hold + GRACE);
        Live {
            wanted,
            place: None,
            way,
            counters: Counters::default(),
            discarded: 0,
            authentication: Authentication::new(Vec::new(), first_sequence_number()),
            refused: (0, None),
            refusal_logged: false,
            logged: State::Down,
            changes: 0,
            since: now,
            peer_state: PeerState::Unknown,
            is_news: false,
            spares_until,
            random,
        }
    }

    pub(super) fn session(&self) -> Option<&Session> {
        match &self.way {
            Way::Runs(session, _) => Some(session),
            Way::Waits(..) => None,
        }
    }

    /// Has the keys of a plan.
    pub(super) fn authenticate(&mut self, plan: &Plan) {
        let interface = Some(self.wanted.interface.as_str()).filter(|name| !name.is_empty());
        self.authentication.set(plan.keys(self.wanted.peer, interface).to_vec());
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// When something is due.
    pub(super) fn next(&self) -> Option<Time> {
        match &self.way {
            Way::Waits(at, _) => Some(*at),
            Way::Runs(session, _) => [session.next(), self.spares_until].into_iter().flatten().min(),
        }
    }

    /// Time has passed. Whether bfdd is to be told.
    pub(super) fn pass(&mut self, now: Time) -> bool {
        match &mut self.way {
            Way::Waits(at, _) if *at <= now => self.begin(now),
            Way::Waits(..) => false,
            Way::Runs(session, _) => {
                let actions = session.pass(now);
                let spared = self.spares_until.is_some_and(|until| until <= now);
                let tells = self.act(actions, now);
                tells || spared
            }
        }
    }

    /// Tells the other end that what comes is no failure.
    pub(super) fn shut_down(&mut self, now: Time) {
        let settings = Settings { shutdown: true, ..self.wanted.settings };
        self.set(&Wanted { settings, ..self.wanted.clone() }, now);
    }

    fn begin(&mut self, now: Time) -> bool {
        let Wanted { local, peer, multihop, interface, settings, .. } = &self.wanted;
        let opened = || {
            let ifindex = match interface.as_str() {
                "" => 0,
                name => if_nametoindex(name)?,
            };
            let local = match local {
                Some(local) => *local,
                None => local_towards(*peer, interface, ifindex)?,
            };
            let port = if *multihop { PORT_MULTIHOP } else { PORT };
            let place = Place { local, port, interface: interface.clone(), ifindex };
            let sender = Sender::open(&place, *peer, settings.id)?;
            std::io::Result::Ok((place, sender))
        };
        match opened() {
            Ok((place, sender)) => {
                let session = Session::new(*settings, now, Random(self.random));
                (self.place, self.way) = (Some(place), Way::Runs(Box::new(session), sender));
            }
            Err(error) => self.stuck(format!("it has no socket: {error}"), now),
        }
        false
    }

    /// It cannot run, for now.
    pub(super) fn stuck(&mut self, why: String, now: Time) {
        if !matches!(&self.way, Way::Waits(_, Some(known)) if *known == why) {
            warn!("bfd {}: {why}", self.wanted.peer);
        }
        (self.place, self.way) = (None, Way::Waits(now + AGAIN, Some(why)));
    }

    /// Whether what is heard at a place may be for it.
    pub(super) fn hears_at(&self, place: &Place) -> bool {
        self.place.as_ref().is_some_and(|own| own.includes(place))
    }

    /// Whether a packet that names no session is for it.
    pub(super) fn is_for(&self, place: &Place, from: IpAddr) -> bool {
        self.wanted.peer == from && self.hears_at(place)
    }

    /// A packet for it. Whether bfdd is to be told.
    pub(super) fn hear(&mut self, packet: &Packet, from: IpAddr, hops: u8, now: Time) -> bool {
        let Way::Runs(session, _) = &mut self.way else { return false };
        if from != self.wanted.peer || hops < self.wanted.least_ttl {
            self.discarded += 1;
            return false;
        }
        if let Err(why) = self.authentication.check(packet, now) {
            self.refuse(why);
            return false;
        }
        self.counters.received += 1;
        let actions = session.hear(&packet.control, now);
        self.authentication.remember(now + session.detection_time() * 2);
        self.act(actions, now)
    }

    fn refuse(&mut self, why: Refused) {
        self.refused = (self.refused.0 + 1, Some(why));
        // Strangers may send as many as they like.
        if !std::mem::replace(&mut self.refusal_logged, true) {
            warn!("bfd {}: a packet is refused: {why}", self.wanted.peer);
        }
    }

    /// Another configuration. False: it has to begin anew.
    pub(super) fn set(&mut self, wanted: &Wanted, now: Time) -> bool {
        let same =
            Wanted { settings: wanted.settings, echo: wanted.echo, hold: wanted.hold, ..self.wanted.clone() };
        if same != *wanted {
            return false;
        }
        self.wanted = same;
        if let Way::Runs(session, _) = &mut self.way {
            let actions = session.set(wanted.settings, now);
            self.act(actions, now);
        }
        true
    }

    fn act(&mut self, actions: Vec<Action>, now: Time) -> bool {
        let Way::Runs(session, sender) = &self.way else { return false };
        let mut tells = false;
        for action in actions {
            match action {
                Action::Send(control) => {
                    let packet = self.authentication.sign(&control);
                    self.counters.sent += u64::from(sender.send(&packet));
                }
                Action::Tell => tells = true,
            }
        }
        let state = session.state();
        if state != self.logged {
            let Wanted { peer, interface, .. } = &self.wanted;
            let of = if interface.is_empty() { String::new() } else { format!(" ({interface})") };
            match state {
                State::Up => {
                    info!("bfd {peer}{of}: up");
                    self.refusal_logged = false;
                }
                State::Init => {}
                State::Down | State::AdminDown => {
                    warn!("bfd {peer}{of}: {}: {}", state.name(), session.diagnostic().words());
                }
            }
            (self.logged, self.since, self.changes) = (state, now, self.changes + 1);
        }
        if state == State::Up || self.spares_until.is_some_and(|until| until <= now) {
            self.spares_until = None;
        }
        self.note_peer();
        tells && self.spares_until.is_none()
    }

    /// Whether the peer is reached now.
    fn note_peer(&mut self) {
        let Way::Runs(session, _) = &self.way else { return };
        let state = match (session.state(), session.other().state) {
            (State::Up, _) => PeerState::Up,
            (State::AdminDown, _) | (_, State::AdminDown) => PeerState::Unknown,
            (_, _) if self.peer_state == PeerState::Unknown => PeerState::Unknown,
            _ => PeerState::Lost,
        };
        self.is_news |= state != self.peer_state;
        self.peer_state = state;
    }

    /// Whether watchers are to be told, once.
    pub(super) fn is_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    /// Whether the peer is reached, for watchers.
    pub(super) fn report(&self) -> PeerReport {
        let Wanted { peer, multihop, interface, settings, .. } = &self.wanted;
        let interface = Some(interface.clone()).filter(|name| !name.is_empty());
        PeerReport { id: settings.id, peer: *peer, interface, multihop: *multihop, state: self.peer_state }
    }

    pub(super) fn status(&self, now: Time) -> BfdSession {
        let Wanted { peer, multihop, interface, settings, .. } = &self.wanted;
        let session = self.session();
        let micros = |time: Duration| time.as_micros().try_into().unwrap_or(u64::MAX);
        BfdSession {
            peer: *peer,
            local: self.place.as_ref().map(|place| place.local).or(self.wanted.local),
            interface: Some(interface.clone()).filter(|name| !name.is_empty()),
            multihop: *multihop,
            state: session.map_or(State::Down, Session::state).name().to_owned(),
            diagnostic: session.map_or("none", |session| session.diagnostic().words()).to_owned(),
            sends_every_us: session.and_then(Session::interval),
            detects_after_us: session.map_or(0, |session| micros(session.detection_time())),
            id: settings.id,
            other_id: session.map_or(0, |session| session.other().id),
            received: self.counters.received,
            sent: self.counters.sent,
            discarded: self.discarded,
            authentication: self.authentication.signs_by().map(|key| key.kind().name().to_owned()),
            key_id: self.authentication.signs_by().map(Key::id),
            refused: self.refused.0,
            refused_why: self.refused.1.map(|why| why.to_string()),
            changes: self.changes,
            since_seconds: now.saturating_sub(self.since).as_secs(),
            stuck: match &self.way {
                Way::Waits(_, why) => why.clone(),
                Way::Runs(..) => None,
            },
        }
    }
}

/// By the clock: see the crate's `Authentication`.
fn first_sequence_number() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u32
}
