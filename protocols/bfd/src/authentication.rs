//! Whose packets a session believes, and how its own are signed (RFC 5880, section 6.7).
//!
//! A session has several keys while one takes the place of another: packets are signed by the first
//! and believed by each. One without keys believes what is not authenticated, and nothing else.
//!
//! A digest covers a sequence number, so that nobody can send again what was recorded. Whoever
//! holds the session chooses the first one, by the clock in milliseconds: packets are not sent that
//! often, so what was recorded before a restart then has numbers that are past. (The clock comes
//! round after 49 days. A random number, by which the RFC begins, may be anywhere at once.)
//!
//! The other end may still wait for the number behind the last one that it heard, and cannot be
//! told otherwise. It forgets that number when it has heard nothing for twice the detection time.
//!
//! Unlike in the RFC's order of steps, a sequence number counts only once the digest was found to
//! be right. Else anybody could have this end wait for a wrong one.

use crate::key::{Bytes, Key, Section};
use crate::packet::{Control, Packet};
use crate::session::Time;

/// Why a packet is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The session has keys.
    #[error("it is not authenticated: the other end has no key for this session")]
    Plain,
    /// The session has no keys.
    #[error("it is authenticated, and this end has no key for the session")]
    Authenticated,
    /// The section is cut off, or has another length than its type.
    #[error("its authentication has a wrong length")]
    Length,
    /// No key has this number.
    #[error("it names key {0}, which this end does not have")]
    Key(u8),
    /// The key is used for another type; the number of the packet's.
    #[error("key {0} is used for another type of authentication here")]
    Kind(u8),
    /// Whoever made it has another key.
    #[error("its password or digest is wrong: both ends have different keys by that number")]
    Digest,
    /// It was sent again, or the other end has begun anew a moment ago.
    #[error("its sequence number is not the next one: it was recorded, or the other end has begun anew")]
    Sequence,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Authentication {
    keys: Vec<Key>,
    /// The sequence number that was sent last, or is sent first (`bfd.XmitAuthSeq`).
    sent: u32,
    /// What was sent last.
    last: Option<Control>,
    /// The one that was heard last (`bfd.RcvAuthSeq`); none: any is right.
    heard: Option<u32>,
    /// Until when that counts; none: not known yet.
    until: Option<Time>,
}

impl Authentication {
    /// With these keys; none: packets are not authenticated. The first sequence number is `first`.
    pub fn new(keys: Vec<Key>, first: u32) -> Authentication {
        Authentication { keys, sent: first, last: None, heard: None, until: None }
    }

    /// Other keys. Sequence numbers go on.
    pub fn set(&mut self, keys: Vec<Key>) {
        self.keys = keys;
    }

    /// The key that packets are signed by.
    pub fn signs_by(&self) -> Option<&Key> {
        self.keys.first()
    }

    /// A packet as it is to be sent, now.
    pub fn sign(&mut self, control: &Control) -> Bytes {
        let plain = control.emit();
        let Some(key) = self.keys.first() else { return Bytes::from_iter(plain) };
        // What says the same as the last one may be the same.
        if key.kind().is_meticulous() || self.last.is_some_and(|last| last != *control) {
            self.sent = self.sent.wrapping_add(1);
        }
        self.last = Some(*control);
        key.sign(&plain, self.sent)
    }

    /// Judges a packet that was heard. What is believed is to be followed by [`remember`].
    ///
    /// # Errors
    /// Why it is to be discarded. Nothing has changed then.
    ///
    /// [`remember`]: Authentication::remember
    pub fn check(&mut self, packet: &Packet, now: Time) -> Result<(), Refused> {
        let section = match (packet.authentication(), self.keys.is_empty()) {
            (None, true) => return Ok(()),
            (None, false) => return Err(Refused::Plain),
            (Some(_), true) => return Err(Refused::Authenticated),
            (Some(bytes), false) => Section::read(bytes).ok_or(Refused::Length)?,
        };
        let id = section.id;
        let key = self.keys.iter().find(|key| key.id() == id).ok_or(Refused::Key(id))?;
        if key.kind() as u8 != section.kind {
            return Err(Refused::Kind(id));
        }
        if !key.made(packet.bytes(), &section) {
            return Err(Refused::Digest);
        }
        if !key.kind().has_sequence() {
            return Ok(());
        }
        if self.until.is_some_and(|until| until <= now) {
            self.heard = None;
        }
        // As many packets may be lost as make a session go down, and some more.
        let most = 3 * u32::from(packet.control.multiplier);
        let least = u32::from(key.kind().is_meticulous());
        if let Some(heard) = self.heard
            && !(least..=most).contains(&section.sequence.wrapping_sub(heard))
        {
            return Err(Refused::Sequence);
        }
        (self.heard, self.until) = (Some(section.sequence), None);
        Ok(())
    }

    /// How long the sequence number counts that was heard last: twice the detection time (section
    /// 6.8.1, `bfd.AuthSeqKnown`), which the packet itself has part in.
    pub fn remember(&mut self, until: Time) {
        self.until = Some(until);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::key::Kind;
    use crate::packet::{self, parse};
    use proptest::prelude::*;

    /// Up, multiplier 3.
    const PLAIN: [u8; 24] = [
        0x20, 0xc8, 3, 24, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 7, 0, 0, 0x27, 0x10, 0, 0, 0x27, 0x10, 0, 0,
        0xc3, 0x50,
    ];
    const DIGESTS: [Kind; 4] = [Kind::Md5, Kind::MeticulousMd5, Kind::Sha1, Kind::MeticulousSha1];
    const METICULOUS: [Kind; 2] = [Kind::MeticulousMd5, Kind::MeticulousSha1];

    fn key(id: u8, kind: Kind, secret: &str) -> Key {
        Key::new(id, kind, secret).unwrap()
    }

    fn control() -> Control {
        parse(&PLAIN).unwrap().control
    }

    fn end(keys: &[Key], first: u32) -> Authentication {
        Authentication::new(keys.to_vec(), first)
    }

    fn judged(end: &mut Authentication, bytes: &[u8], now: Time) -> Result<(), Refused> {
        end.check(&parse(bytes).unwrap(), now)
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    /// Sections that Python's hashlib has made.
    #[test]
    fn packets_are_signed_as_others_sign_them() {
        let cases = [
            (7, Kind::Password, "correct horse", 1, "011007636f727265637420686f727365"),
            (7, Kind::Md5, "correct horse", 0x0102_0304, "0218070001020304a13e34db9e34f789fc19998137002629"),
            (
                7,
                Kind::MeticulousMd5,
                "correct horse",
                0x0102_0304,
                "0318070001020304e50711ff5900a2dfd3212c9d0e105a59",
            ),
            (
                7,
                Kind::Sha1,
                "correct horse",
                0x0102_0304,
                "041c0700010203040e4e2c8c3c74cba15afc84d7f0e0c6d6e098d174",
            ),
            (
                7,
                Kind::MeticulousSha1,
                "correct horse",
                0x0102_0304,
                "051c07000102030474a0acad25d97428d9192587f60c29182b58564d",
            ),
            (
                255,
                Kind::MeticulousMd5,
                "0123456789abcdef",
                u32::MAX,
                "0318ff00ffffffffaf9aa4c5342f59f0aa424770b0cabe3f",
            ),
            (
                255,
                Kind::MeticulousSha1,
                "0123456789abcdefghij",
                u32::MAX,
                "051cff00ffffffffcad368d3770b3176f440acf817d056c95018c4af",
            ),
        ];
        for (id, kind, secret, sequence, section) in cases {
            let keys = [key(id, kind, secret)];
            let signed = end(&keys, sequence - u32::from(kind.is_meticulous())).sign(&control());
            let section = hex(section);
            assert_eq!(signed[LENGTH..], section, "{kind}");
            assert_eq!((signed[1], usize::from(signed[3])), (0xcc, LENGTH + section.len()));
            assert_eq!((&signed[4..LENGTH], signed[2]), (&PLAIN[4..], PLAIN[2]));
            assert_eq!(judged(&mut end(&keys, 0), &signed, Time::ZERO), Ok(()));
        }
    }

    const LENGTH: usize = packet::LENGTH;

    #[test]
    fn who_has_no_key_another_key_id_or_type_is_refused() {
        for (_, kind) in Kind::NAMED {
            let ours = || end(&[key(1, kind, "secret")], 0);
            let from = |id, kind, secret| end(&[key(id, kind, secret)], 9).sign(&control());
            let said = |bytes: &[u8]| judged(&mut ours(), bytes, Time::ZERO);
            assert_eq!(said(&from(1, kind, "secret")), Ok(()), "{kind}");
            assert_eq!(said(&from(1, kind, "Secret")), Err(Refused::Digest), "{kind}");
            assert_eq!(said(&from(1, kind, "secret1")), Err(Refused::Digest), "{kind}");
            assert_eq!(said(&from(2, kind, "secret")), Err(Refused::Key(2)), "{kind}");
            for (_, other) in Kind::NAMED.into_iter().filter(|(_, other)| *other != kind) {
                assert_eq!(said(&from(1, other, "secret")), Err(Refused::Kind(1)), "{kind} {other}");
            }
            assert_eq!(said(&PLAIN), Err(Refused::Plain));
            let none = judged(&mut end(&[], 0), &from(1, kind, "secret"), Time::ZERO);
            assert_eq!(none, Err(Refused::Authenticated));
        }
        assert_eq!(end(&[], 0).sign(&control())[..], PLAIN);
        assert_eq!(judged(&mut end(&[], 0), &PLAIN, Time::ZERO), Ok(()));
    }

    #[test]
    fn no_byte_can_be_another_and_none_can_be_missing() {
        for (_, kind) in Kind::NAMED {
            let keys = [key(1, kind, "secret")];
            let signed = end(&keys, 7).sign(&control());
            // A password covers nothing but itself.
            let covered = if kind == Kind::Password { LENGTH } else { 0 };
            for at in covered..signed.len() {
                let mut forged = signed.clone();
                forged[at] ^= 1;
                let refused = parse(&forged).map(|packet| end(&keys, 0).check(&packet, Time::ZERO));
                assert!(refused.is_err() || refused.is_ok_and(|it| it.is_err()), "{kind}: byte {at}");
            }
            for length in LENGTH..signed.len() {
                let mut cut = signed.clone();
                cut[3] = length as u8;
                assert_eq!(
                    judged(&mut end(&keys, 0), &cut, Time::ZERO),
                    Err(Refused::Length),
                    "{kind} {length}"
                );
                // And where the section says so, too.
                if length > LENGTH + 1 {
                    cut[LENGTH + 1] = (length - LENGTH) as u8;
                    let said = judged(&mut end(&keys, 0), &cut, Time::ZERO);
                    let shorter = kind == Kind::Password && length > LENGTH + 3;
                    assert_eq!(
                        said,
                        Err(if shorter { Refused::Digest } else { Refused::Length }),
                        "{kind} {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_was_recorded_is_refused_and_what_is_lost_is_not_missed() {
        for kind in DIGESTS {
            let keys = [key(1, kind, "secret")];
            // Numbers come round in between.
            let mut theirs = end(&keys, u32::MAX - 20);
            let sent: Vec<_> = (0..60).map(|n| theirs.sign(&Control { min_tx: n, ..control() })).collect();
            let mut ours = end(&keys, 0);
            let mut hear = |at: usize| judged(&mut ours, &sent[at], Time::ZERO);
            assert_eq!(hear(10), Ok(()));
            let again = if kind.is_meticulous() { Err(Refused::Sequence) } else { Ok(()) };
            assert_eq!(hear(10), again, "{kind}");
            assert_eq!((hear(9), hear(0)), (Err(Refused::Sequence), Err(Refused::Sequence)));
            // Three times the multiplier, which is 3.
            assert_eq!((hear(20), hear(19)), (Err(Refused::Sequence), Ok(())));
            assert_eq!((hear(28), hear(37), hear(47)), (Ok(()), Ok(()), Err(Refused::Sequence)));
        }
    }

    #[test]
    fn who_begins_anew_is_believed_after_twice_the_detection_time() {
        for kind in DIGESTS {
            let keys = [key(1, kind, "secret")];
            let mut ours = end(&keys, 0);
            let detected = Duration::from_millis(30);
            assert_eq!(judged(&mut ours, &end(&keys, 5000).sign(&control()), Time::ZERO), Ok(()));
            ours.remember(detected * 2);
            let anew = end(&keys, 90).sign(&control());
            // What is refused does not put that off, and neither does what is forged.
            let forged = end(&[key(1, kind, "guessed")], 5001).sign(&control());
            assert_eq!(judged(&mut ours, &anew, detected), Err(Refused::Sequence));
            assert_eq!(judged(&mut ours, &forged, detected), Err(Refused::Digest));
            assert_eq!(
                judged(&mut ours, &anew, detected * 2 - Duration::from_nanos(1)),
                Err(Refused::Sequence)
            );
            assert_eq!(judged(&mut ours, &anew, detected * 2), Ok(()), "{kind}");
        }
    }

    #[test]
    fn a_forged_packet_teaches_no_sequence_number() {
        for kind in DIGESTS {
            let keys = [key(1, kind, "secret")];
            let mut ours = end(&keys, 0);
            let forged = end(&[key(1, kind, "guessed")], 1 << 30).sign(&control());
            assert_eq!(judged(&mut ours, &forged, Time::ZERO), Err(Refused::Digest));
            assert_eq!(judged(&mut ours, &end(&keys, 5).sign(&control()), Time::ZERO), Ok(()));
        }
    }

    #[test]
    fn numbers_change_with_each_packet_or_with_what_it_says() {
        let sequence = |bytes: &Bytes| u32::from_be_bytes(bytes[28..32].try_into().unwrap());
        for kind in DIGESTS {
            let mut ours = end(&[key(1, kind, "secret")], u32::MAX);
            let polls = Control { poll: true, ..control() };
            let sent = [control(), control(), polls, polls].map(|it| sequence(&ours.sign(&it)));
            let expected = if kind.is_meticulous() { [0, 1, 2, 3] } else { [u32::MAX, u32::MAX, 0, 0] };
            assert_eq!(sent, expected, "{kind}");
        }
    }

    /// Both ends get the new key beside the old one, one after the other; then it is the first;
    /// then the old one goes.
    #[test]
    fn a_key_takes_the_place_of_another_without_a_packet_that_is_refused() {
        let (old, new) = (key(1, Kind::MeticulousMd5, "old"), key(2, Kind::MeticulousSha1, "new"));
        let both = |first: &Key, second: &Key| vec![first.clone(), second.clone()];
        let steps = [vec![old.clone()], both(&old, &new), both(&new, &old), vec![new.clone()]];
        let mut ends = [end(&steps[0], 100), end(&steps[0], 700)];
        for step in &steps {
            for changes in 0..2 {
                ends[changes].set(step.clone());
                for _ in 0..20 {
                    for from in 0..2 {
                        let signed = ends[from].sign(&control());
                        assert_eq!(judged(&mut ends[1 - from], &signed, Time::ZERO), Ok(()));
                    }
                }
            }
        }
        assert_eq!(ends[0].signs_by(), Some(&new));
        // The old one is not believed any more.
        let stale = end(&[old], 900).sign(&control());
        assert_eq!(judged(&mut ends[0], &stale, Time::ZERO), Err(Refused::Key(1)));
    }

    #[test]
    fn a_key_is_told_to_another_process_and_to_nobody_else() {
        let one = key(0, Kind::MeticulousSha1, "secret \"\\");
        let told = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Key>(&told).unwrap(), one);
        assert!(!format!("{one:?} {:?}", end(std::slice::from_ref(&one), 0)).contains("secret"));
        let long = r#"{"id":1,"kind":"md5","secret":"12345678901234567"}"#;
        assert!(serde_json::from_str::<Key>(long).is_err());
    }

    proptest! {
        /// Of packets in any order, meticulous ones are believed in the order of their numbers,
        /// each once.
        #[test]
        fn no_order_has_a_packet_believed_twice(
            order in proptest::collection::vec(0usize..30, 1..80), first in any::<u32>(),
        ) {
            for kind in METICULOUS {
                let keys = [key(1, kind, "secret")];
                let mut theirs = end(&keys, first);
                let sent: Vec<_> = (0..30).map(|_| theirs.sign(&control())).collect();
                let mut ours = end(&keys, 0);
                let believed: Vec<usize> =
                    order.iter().copied().filter(|at| judged(&mut ours, &sent[*at], Time::ZERO).is_ok()).collect();
                prop_assert!(!believed.is_empty());
                prop_assert!(believed.windows(2).all(|two| two[0] < two[1] && two[1] - two[0] <= 9));
            }
        }
    }
}
