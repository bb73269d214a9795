//! What a packet is to its flow, and what it changes there.

use crate::entry::{Cold, Hot, State as Word, clock};
use crate::key::Key;
use crate::tcp::{Connection, Outcome, Segment};
use crate::{Direction, Hit, Phase, State, Tuple, Worker};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use wire::{Fragment, Headers, icmp4, icmp6, protocol};

/// The outcome of [`Worker::track`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// The packet is of the flow, and counted; or it is [`State::Invalid`], and has changed
    /// nothing.
    Is(State),
    /// The flow is a TCP connection that is over, and the packet a SYN that opens another; or one
    /// that was refused: to be taken as if nothing had been found. [`Worker::insert`] ends the old
    /// one.
    Reopens,
}

impl Worker {
    /// Makes `key` that of a packet, as [`tuple`](Self::tuple) says, where it is to be looked up;
    /// false, and nothing done, without a tuple.
    #[inline(always)]
    pub fn key(&mut self, headers: &Headers, table: u16, now: u64, key: &mut Key) -> bool {
        if headers.fragment == Fragment::Whole {
            *key = Key::of(&Tuple::of(headers, table));
            return true;
        }
        let tuple = self.tuple(headers, table, now);
        tuple.iter().for_each(|tuple| *key = Key::of(tuple));
        tuple.is_some()
    }

    /// The tuple of a packet, a later fragment's by way of its first. `None` for a later fragment
    /// whose first did not come in time: what its packet belongs to is unknown.
    pub fn tuple(&mut self, headers: &Headers, table: u16, now: u64) -> Option<Tuple> {
        match headers.fragment {
            Fragment::Whole => Some(Tuple::of(headers, table)),
            Fragment::First => {
                self.table.fragments.learn(&self.table.hash, headers, table, clock::tick(now));
                Some(Tuple::of(headers, table))
            }
            Fragment::Later => {
                let timeout = self.table.limits.fragment.load(Relaxed);
                let tick = clock::tick(now);
                self.table.fragments.tuple(&self.table.hash, headers, table, tick, timeout)
            }
        }
    }

    /// What a packet is whose tuple was not found: [`State::New`] if it may open a flow, else
    /// [`State::Invalid`]. ICMP errors are for [`related`](Worker::related). `intact`: whether the
    /// packet is as its sender made it, where that matters.
    pub fn opens(&self, headers: &Headers, ip: &[u8], intact: impl FnOnce() -> bool) -> State {
        if self.opening(headers, ip).is_some() && intact() { State::New } else { State::Invalid }
    }

    pub(crate) fn opening(&self, headers: &Headers, ip: &[u8]) -> Option<(Word, Option<Connection>)> {
        if headers.fragment == Fragment::Later {
            return None;
        }
        match headers.protocol {
            protocol::TCP => {
                let pickup = self.table.limits.pickup.load(Relaxed);
                let connection = Connection::opened_by(&Segment::of(headers, ip)?, pickup)?;
                return Some((Word::of_connection(&connection), Some(connection)));
            }
            protocol::ICMP if headers.version == 4 => is_query4(headers.icmp_type),
            protocol::ICMP6 if headers.version == 6 => headers.icmp_type == icmp6::ECHO,
            _ => true,
        }
        .then(|| (Word::of(Phase::Unreplied), None))
    }

    /// Takes a packet of a flow into account: its state and windows, its time, packets and bytes.
    ///
    /// `ip` is the packet from its IP header on. `intact` says whether it is as its sender made it;
    /// it is asked where the packet would change how far the flow is, and of every segment but the
    /// usual. One that is not is [`State::Invalid`].
    #[inline]
    pub fn track(
        &mut self,
        hit: &Hit,
        headers: &Headers,
        ip: &[u8],
        now: u64,
        intact: impl FnOnce() -> bool,
    ) -> Tracked {
        let memory = &self.table.memory;
        let (hot, cold) = (&memory.hot()[hit.entry as usize], &memory.cold()[hit.entry as usize]);
        let tracked = match Segment::of(headers, ip) {
            Some(segment) => match self.track_open(hit.direction, hot, cold, &segment, headers.length, now) {
                Some(tracked) => tracked,
                None if intact() => self.track_tcp(hit, hot, cold, &segment, headers, now),
                None => Tracked::Is(State::Invalid),
            },
            None => self.track_other(hit, hot, cold, headers, now, intact),
        };
        if tracked == Tracked::Is(State::Invalid) {
            self.table.counts(self.own.place).invalid.add(1);
        }
        tracked
    }

    /// The usual: a segment of an open connection that is neither its beginning nor its end, and
    /// inside the windows. `None` for every other.
    #[inline(always)]
    pub(crate) fn track_open(
        &self,
        direction: Direction,
        hot: &Hot,
        cold: &Cold,
        segment: &Segment,
        length: u16,
        now: u64,
    ) -> Option<Tracked> {
        let (side, word) = (direction as usize, hot.state());
        if word.phase() != Some(Phase::Open) || !segment.is_plain() {
            return None;
        }
        let (mut own, peer) = (cold.side(word, side), cold.side(word, 1 - side));
        if !own.has_sent(&peer, segment) {
            return None;
        }
        own.take(segment);
        let changed = word.with_flags(side, own.flags);
        if changed != word {
            hot.state.compare_exchange(word.0, changed.0, AcqRel, Acquire).ok()?;
        }
        self.table.advance(cold, side, &own);
        self.table.count(cold, side, length);
        cold.last.store(clock::tick(now), Relaxed);
        Some(Tracked::Is(State::Established))
    }

    /// Every other segment.
    fn track_tcp(
        &self,
        hit: &Hit,
        hot: &Hot,
        cold: &Cold,
        segment: &Segment,
        headers: &Headers,
        now: u64,
    ) -> Tracked {
        let side = hit.direction as usize;
        let mut word = hot.state();
        loop {
            let Some(phase) = word.phase() else {
                // It ended since it was found; its account is not made yet.
                self.table.count(cold, side, headers.length);
                return Tracked::Is(State::Established);
            };
            let mut connection = cold.connection(word, phase);
            let anew = connection.awaits(hit.direction);
            let outcome = connection.receive(hit.direction, segment);
            match outcome {
                Outcome::Valid | Outcome::Renewed | Outcome::Ignored => {}
                Outcome::Invalid => return Tracked::Is(State::Invalid),
                Outcome::Reopens => return Tracked::Reopens,
            }
            let changed = Word::of_connection(&connection);
            if let Err(now) = hot.state.compare_exchange(word.0, changed.0, AcqRel, Acquire) {
                word = Word(now);
                continue;
            }
            let is = match hit.direction {
                Direction::Original if connection.is_unanswered() => State::New,
                _ => State::Established,
            };
            if outcome == Outcome::Ignored {
                self.table.count(cold, side, headers.length);
                return Tracked::Is(is);
            }
            if connection.phase.is_strong() != phase.is_strong() {
                self.hint(hit, !connection.phase.is_strong());
            }
            if phase == Phase::Opening || outcome == Outcome::Renewed {
                // Numbers begin anew, and an answer says where the other side has to go on.
                [side, 1 - side].iter().for_each(|side| cold.set_side(*side, &connection.sides[*side]));
            } else if anew {
                cold.set_side(side, &connection.sides[side]);
                self.table.begun.note_resumed(hit.entry);
            } else {
                self.table.advance(cold, side, &connection.sides[side]);
            }
            self.table.count(cold, side, headers.length);
            // What comes after the end does not put off its removal.
            if !(phase.is_over() && connection.phase.is_over()) {
                cold.last.store(clock::tick(now), Relaxed);
            }
            return Tracked::Is(is);
        }
    }

    #[inline(always)]
    fn track_other(
        &self,
        hit: &Hit,
        hot: &Hot,
        cold: &Cold,
        headers: &Headers,
        now: u64,
        intact: impl FnOnce() -> bool,
    ) -> Tracked {
        let word = hot.state();
        let phase = word.phase();
        let next = match (phase, hit.direction) {
            (Some(Phase::Unreplied), Direction::Reply) => Some(Phase::Replied),
            (Some(Phase::Replied), Direction::Original) => Some(Phase::Stream),
            _ => None,
        };
        if let Some(next) = next {
            if !intact() {
                return Tracked::Is(State::Invalid);
            }
            // Should another worker have changed it meanwhile, it has done so for the same reason.
            let changed = hot.state.compare_exchange(word.0, word.with(next).0, AcqRel, Acquire);
            if changed.is_ok() && next.is_strong() {
                self.hint(hit, false);
            }
        }
        self.table.count(cold, hit.direction as usize, headers.length);
        cold.last.store(clock::tick(now), Relaxed);
        Tracked::Is(next.or(phase).map_or(State::Established, |phase| state(phase, hit.direction)))
    }

    #[cold]
    pub(crate) fn hint(&self, hit: &Hit, weak: bool) {
        let bucket = &self.table.memory.buckets()[hit.place.bucket()];
        bucket.hint(hit.place.slot(), hit.entry, weak);
    }

    /// The flow that an ICMP error is about, by the packet it quotes ([`Headers::quoted`]): the
    /// direction is the quoted packet's, so the error itself goes the other way. It is
    /// [`State::Related`], and does not keep the flow alive.
    ///
    /// Of a TCP segment the sequence number must be one that was under way (RFC 5927, 4.1): else
    /// the error is a blind attacker's, and `None`, as is one about a packet of no flow. Whether a
    /// message is an error at all the caller knows ([`is_error`]).
    pub fn related(&mut self, quote: &Headers, quoted: &[u8], table: u16, now: u64) -> Option<Hit> {
        let tuple = match quote.fragment {
            Fragment::Later => self.tuple(quote, table, now)?,
            _ => Tuple::of(quote, table),
        };
        let hit = self.find(&Key::of(&tuple))?;
        if quote.protocol == protocol::TCP && quote.fragment != Fragment::Later {
            let at = usize::from(quote.transport) + 4;
            let sequence = u32::from_be_bytes(quoted.get(at..at + 4)?.try_into().ok()?);
            let word = self.table.memory.hot()[hit.entry as usize].state();
            let connection = self.table.memory.cold()[hit.entry as usize].connection(word, word.phase()?);
            if !connection.was_sent(hit.direction, sequence) {
                self.table.counts(self.own.place).invalid.add(1);
                return None;
            }
        }
        Some(hit)
    }
}

/// Whether a message is an error, which is looked up by what it quotes.
#[inline]
pub fn is_error(headers: &Headers) -> bool {
    if !matches!(headers.protocol, protocol::ICMP | protocol::ICMP6) {
        return false;
    }
    match (headers.version, headers.protocol) {
        (_, _) if headers.fragment == Fragment::Later => false,
        (4, protocol::ICMP) => matches!(
            headers.icmp_type,
            icmp4::UNREACHABLE
                | icmp4::SOURCE_QUENCH
                | icmp4::REDIRECT
                | icmp4::TIME_EXCEEDED
                | icmp4::PARAMETER_PROBLEM
        ),
        (6, protocol::ICMP6) => icmp6::is_error(headers.icmp_type),
        _ => false,
    }
}

/// Echo, timestamp, information, address mask: the requests (RFC 792, RFC 950).
fn is_query4(icmp_type: u8) -> bool {
    matches!(icmp_type, icmp4::ECHO | 13 | 15 | 17)
}

/// What a packet of a flow that is so far after it is to a filter.
#[inline(always)]
fn state(phase: Phase, direction: Direction) -> State {
    let unanswered = phase == Phase::Unreplied && direction == Direction::Original;
    if unanswered { State::New } else { State::Established }
}
