//! Two routers that have found each other: whose datagrams count, and what was lost between them.
//!
//! Each datagram says from which start of the sender's it is (its *epoch*), and which of the
//! receiver's it is for. Only one that is for this start counts. So nothing that was recorded
//! before a start can be played back after it; what was recorded since is known by its number.
//!
//! ```text
//! body:  epoch of the receiver 16 | what has come | [ number | parcel ]
//! ```
//!
//! One that names another epoch, or none, changes nothing. It is a *greeting*, and is answered with
//! this router's epoch. Who has the key can name it then, and a session begins. An epoch whose
//! session is over never begins another.

use crate::bytes::{Reader, put_short};
use crate::seal::{BODY, Epoch, Opened, Seal};
use crate::stream::{Come, Incoming, MOST, Outgoing};
use crate::window::Window;
use crate::{Dropped, Key};

/// How often something is said at least.
const EVERY: u64 = 200_000_000;
/// After how long without a word nothing is sent again but one parcel at a time.
pub(crate) const SILENCE: u64 = 1_000_000_000;
/// Bytes of bits beside a parcel.
const BITS: usize = 16;
/// Bytes of a parcel at most: what a body has room for beside the longest of the rest.
pub(crate) const PARCEL: usize = BODY - 16 - (10 + 1 + BITS) - 10;
/// Greetings that are answered at a time.
const GREETINGS: usize = 16;
/// Starts of the peer's that are remembered.
const STARTS: usize = 1024;

/// The session with the other router.
struct Peer {
    epoch: Epoch,
    seen: Window,
    outgoing: Outgoing,
    incoming: Incoming,
    heard: u64,
    /// Something came that is to be acknowledged.
    owes: bool,
}

impl Peer {
    fn new(epoch: Epoch, now: u64) -> Peer {
        let (outgoing, incoming) = (Outgoing::default(), Incoming::default());
        Peer { epoch, seen: Window::default(), outgoing, incoming, heard: now, owes: true }
    }
}

/// See the head of this file.
pub(crate) struct Link {
    seal: Seal,
    own: Epoch,
    number: u64,
    peer: Option<Peer>,
    over: Vec<Epoch>,
    greetings: Vec<Epoch>,
    said: Option<u64>,
    resent_before: u64,
}

/// What a datagram brought.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// A session has begun: the one before, if there was one, is over.
    pub(crate) began: bool,
    pub(crate) parcels: Vec<Vec<u8>>,
}

impl Link {
    pub(crate) fn new(key: &Key, epoch: Epoch) -> Link {
        Link {
            seal: Seal::new(key),
            own: epoch,
            number: 0,
            peer: None,
            over: Vec::new(),
            greetings: Vec::new(),
            said: None,
            resent_before: 0,
        }
    }

    /// Which of two routers gives way where nothing else tells them apart.
    pub(crate) fn gives_way(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| self.own < peer.epoch)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.peer.is_some()
    }

    /// When the peer was heard last.
    pub(crate) fn heard(&self) -> Option<u64> {
        self.peer.as_ref().map(|peer| peer.heard)
    }

    /// When the oldest parcel that has not come was sent first.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        self.peer.as_ref()?.outgoing.waits_since()
    }

    /// Parcels that were sent again.
    pub(crate) fn resent(&self) -> u64 {
        self.resent_before + self.peer.as_ref().map_or(0, |peer| peer.outgoing.resent)
    }

    fn is_silent(&self, now: u64) -> bool {
        self.heard().is_none_or(|heard| now.saturating_sub(heard) > SILENCE)
    }

    pub(crate) fn hear(&mut self, datagram: &[u8], now: u64) -> Result<Heard, Dropped> {
        let Opened { epoch, number, body } = self.seal.open(datagram)?;
        if epoch == self.own || epoch == Epoch::NONE {
            return Err(Dropped::Own);
        }
        let mut reader = Reader(&body);
        let (Some(to), Some(come)) = (reader.array().map(Epoch), Come::take(&mut reader)) else {
            return Err(Dropped::Malformed);
        };
        let parcel = match reader.is_empty() {
            true => None,
            false => Some((reader.short().ok_or(Dropped::Malformed)?, reader.0)),
        };
        if self.over.contains(&epoch) {
            return Err(Dropped::Replayed);
        }
        if to != self.own {
            if self.greetings.len() < GREETINGS && !self.greetings.contains(&epoch) {
                self.greetings.push(epoch);
            }
            return Ok(Heard::default());
        }
        let began = self.peer.as_ref().is_none_or(|peer| peer.epoch != epoch);
        if began {
            self.begin(epoch, now);
        }
        // Invariant: a session has begun.
        let Some(peer) = &mut self.peer else { return Ok(Heard::default()) };
        if !peer.seen.take(number) {
            return Err(Dropped::Replayed);
        }
        peer.heard = now;
        peer.outgoing.acknowledge(&come, now);
        let mut parcels = Vec::new();
        if let Some((number, parcel)) = parcel {
            let (due, fits) = peer.incoming.take(number, parcel);
            if !fits {
                return Err(Dropped::Malformed);
            }
            (parcels, peer.owes) = (due, true);
        }
        Ok(Heard { began, parcels })
    }

    fn begin(&mut self, epoch: Epoch, now: u64) {
        self.resent_before = self.resent();
        if let Some(before) = self.peer.replace(Peer::new(epoch, now)) {
            self.over.push(before.epoch);
        }
        if self.over.len() >= STARTS {
            // Then with another epoch of its own nothing is left of any of them.
            let drawn = self.seal.close(self.own, u64::MAX, &[]);
            if let Some((_, tag)) = drawn.split_last_chunk() {
                self.own = Epoch(*tag);
            }
            (self.peer, self.number) = (None, 0);
            self.over.clear();
        }
    }

    /// The next datagram, if there is one to send. `fill` makes the next parcel, of [`PARCEL`]
    /// bytes at most; it is asked only if one may go, and makes none where nothing is to be said.
    pub(crate) fn next(&mut self, now: u64, fill: impl FnOnce(&mut Vec<u8>)) -> Option<Vec<u8>> {
        if let Some(to) = self.greetings.pop() {
            return Some(self.seal(to, &Come::default(), None));
        }
        let due = self.said.is_none_or(|said| now.saturating_sub(said) >= EVERY);
        let silent = self.is_silent(now);
        let Some(peer) = &mut self.peer else {
            if !due {
                return None;
            }
            self.said = Some(now);
            return Some(self.seal(Epoch::NONE, &Come::default(), None));
        };
        let mut parcel = if silent && !due { None } else { peer.outgoing.lost(now) };
        if parcel.is_none() && !silent && peer.outgoing.has_room() {
            let mut made = Vec::new();
            fill(&mut made);
            if !made.is_empty() {
                parcel = Some((peer.outgoing.push(made.clone(), now), made));
            }
        }
        if parcel.is_none() && !peer.owes && !due {
            return None;
        }
        (peer.owes, self.said) = (false, Some(now));
        let (to, come) = (peer.epoch, peer.incoming.come());
        Some(self.seal(to, &come, parcel.as_ref()))
    }

    /// Until when nothing has to be sent, if nothing comes and nothing is to be said.
    pub(crate) fn until(&self, now: u64) -> u64 {
        let regular = self.said.map_or(now, |said| said + EVERY);
        let lost = self.peer.as_ref().filter(|_| !self.is_silent(now));
        lost.and_then(|peer| peer.outgoing.next()).map_or(regular, |lost| lost.min(regular))
    }

    fn seal(&mut self, to: Epoch, come: &Come, parcel: Option<&(u64, Vec<u8>)>) -> Vec<u8> {
        let mut body = to.0.to_vec();
        come.put(&mut body, if parcel.is_some() { BITS } else { MOST as usize / 8 });
        if let Some((number, parcel)) = parcel {
            put_short(&mut body, *number);
            body.extend_from_slice(parcel);
        }
        self.number += 1;
        self.seal.close(self.own, self.number, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::LONGEST;

    fn key() -> Key {
        "0123456789abcdef".repeat(4).parse().unwrap()
    }

    fn link(epoch: u8) -> Link {
        Link::new(&key(), Epoch([epoch; 16]))
    }

    /// What one says goes to the other, and back, until nobody says anything; all datagrams.
    fn talk(now: u64, ends: [&mut Link; 2], say: &[u8]) -> Vec<Vec<u8>> {
        let ([one, two], mut all) = (ends, Vec::new());
        let mut say = Some(say).filter(|say| !say.is_empty());
        for _ in 0..10 {
            while let Some(datagram) = one.next(now, |parcel| parcel.extend(say.take().unwrap_or_default())) {
                let _ = two.hear(&datagram, now);
                all.push(datagram);
            }
            while let Some(datagram) = two.next(now, |_| {}) {
                let _ = one.hear(&datagram, now);
                all.push(datagram);
            }
        }
        all
    }

    #[test]
    fn two_find_each_other_and_one_that_begins_anew_is_met_anew() {
        let (mut one, mut two) = (link(1), link(2));
        talk(0, [&mut one, &mut two], b"x");
        assert!(one.is_up() && two.is_up());
        assert_eq!(one.waits_since(), None);
        let mut again = link(3);
        talk(EVERY, [&mut again, &mut two], b"");
        assert!(again.is_up());
        assert_eq!(
            (two.peer.as_ref().unwrap().epoch, &two.over[..]),
            (Epoch([3; 16]), &[Epoch([1; 16])][..])
        );
        // Each says something, though nobody has news.
        assert!(two.next(2 * EVERY, |_| {}).is_some() && two.next(2 * EVERY, |_| {}).is_none());
    }

    #[test]
    fn nothing_recorded_counts_twice_nor_after_a_start() {
        let (mut one, mut two) = (link(1), link(2));
        let recorded = talk(0, [&mut one, &mut two], b"x");
        for datagram in &recorded {
            let replayed = [one.hear(datagram, 1), two.hear(datagram, 1)];
            assert!(replayed.iter().any(|heard| matches!(heard, Err(Dropped::Own))));
            assert!(replayed.iter().flatten().all(|heard| !heard.began && heard.parcels.is_empty()));
        }
        // After a start of either.
        let mut anew = link(4);
        for datagram in &recorded {
            let heard = anew.hear(datagram, 1);
            assert!(heard.is_ok_and(|heard| !heard.began && heard.parcels.is_empty()));
        }
        let mut other = link(3);
        talk(2, [&mut other, &mut two], b"y");
        let stale = recorded.iter().map(|datagram| two.hear(datagram, 3));
        assert!(stale.into_iter().all(|heard| matches!(heard, Err(Dropped::Replayed | Dropped::Own))));
        assert_eq!(two.peer.unwrap().epoch, Epoch([3; 16]));
    }

    #[test]
    fn wrong_keys_meet_nobody_and_the_longest_datagram_fits() {
        let mut one = link(1);
        let mut liar = Link::new(&"fedcba9876543210".repeat(4).parse().unwrap(), Epoch([2; 16]));
        let lie = liar.next(0, |_| {}).unwrap();
        assert!(matches!(one.hear(&lie, 0), Err(Dropped::Seal)));
        let mut two = link(2);
        talk(0, [&mut one, &mut two], b"");
        let peer = one.peer.as_mut().unwrap();
        for number in 1..MOST {
            peer.incoming.take(number, b"early");
        }
        for _ in 0..10 {
            peer.outgoing.push(vec![0; PARCEL], 0);
        }
        let longest =
            (0..10).filter_map(|_| one.next(SILENCE / 2, |_| {})).map(|datagram| datagram.len()).max();
        assert!(longest.is_some_and(|longest| longest <= LONGEST && longest > LONGEST - 32), "{longest:?}");
        let alone = one.next(SILENCE, |_| {}).unwrap();
        assert!(two.hear(&alone, SILENCE).is_ok());
    }

    #[test]
    fn many_starts_of_the_peer_are_survived() {
        let mut one = link(1);
        for start in 2..2 * STARTS as u64 {
            let mut epoch = [0; 16];
            epoch[..8].copy_from_slice(&start.to_be_bytes());
            let mut two = Link::new(&key(), Epoch(epoch));
            let now = start * EVERY;
            for round in 0..2 {
                talk(now + round * EVERY, [&mut two, &mut one], b"x");
            }
            assert!(one.is_up() && two.is_up() && two.waits_since().is_none());
            assert!(one.over.len() < STARTS);
        }
    }
}
