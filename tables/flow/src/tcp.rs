//! TCP as someone sees it who stands between the two ends.
//!
//! Windows after Guido van Rooij ("Real Stateful TCP Packet Filtering in IP Filter", 2001), as
//! Linux's conntrack and pf have them. A segment is of the connection if
//!
//! ```text
//! I    sequence        <= what the receiver has acknowledged + the largest window it has offered
//! II   sequence + data >= what the sender has sent           - the largest window the receiver has offered
//! III  acknowledgement <= what the receiver has sent
//! IV   acknowledgement >= what the receiver has sent         - the largest window the sender has offered
//! ```
//!
//! with at least van Rooij's 66,000 bytes for the window of II, and more for that of IV
//! ([`OVERTAKEN`]). Each side's numbers are written by that side's own segments alone, so two
//! workers that carry a direction each need no lock: a number of the other side that is one packet
//! old only makes the bounds a little narrower for what cannot be there yet.
//!
//! What changes nothing, and what for:
//! - Segments out of these bounds, or with flags that contradict each other: [`Outcome::Invalid`].
//! - A RST in the window whose sequence number is not exactly the next one: the receiver answers
//!   with a challenge ACK (RFC 5961, 3.2), so it is passed on, and the connection goes on. The next
//!   one is what the receiver last acknowledged, or what follows all that the sender has sent.
//! - A SYN in an open connection: a challenge ACK as well (RFC 5961, 4.2), which is how a host that
//!   lost its connection gets rid of it. Passed on, and no more. Where the other end has lost the
//!   connection too, its refusal is passed on as well, and its SYN/ACK begins a new connection
//!   ([`Outcome::Renewed`]), if it answers that SYN, of whose number four bits are kept.
//! - A SYN/ACK of the end that was called which answers nothing: a challenge ACK, too.
//! - The challenge to a SYN that opens a connection here but not at the other end, where an old one
//!   lives, and the RST that it is answered with.
//!
//! Windows are scaled if both SYNs say so (RFC 7323, 2.2); those of SYNs themselves never. A
//! connection met in mid-stream has not shown its scales: the widest are assumed, and only exact
//! numbers (RST) remain strict.
//!
//! A connection that was written down and is taken up again ([`Connection::resumed`]) may have gone
//! on meanwhile, by a way on which nobody looked. Each side says anew where it is with its next
//! segment, and until both have nothing is compared.

use abi::flow::SLACK;

use crate::{Direction, Phase};
use serde::{Deserialize, Serialize};
use wire::tcp::flag::{ACK, FIN, RST, SYN};
use wire::{Fragment, Headers, tcp};

/// The least that bound IV allows: what the other end may send while a segment waits here for its
/// turn, overtaken by those that the driver carries. Some milliseconds at 10 Gb/s.
const OVERTAKEN: u32 = 4 << 20;
/// The widest scale there is (RFC 7323, 2.3).
const WIDEST: u8 = 14;
/// Stands for "no scale offered".
pub(crate) const NO_SCALE: u8 = 15;

/// What of a segment counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number; counts with ACK.
    pub acknowledgement: u32,
    /// Window as the header has it.
    pub window: u16,
    /// Bytes of data.
    pub length: u32,
    /// Flags ([`wire::tcp::flag`]).
    pub flags: u8,
    /// Window scale option, of a SYN.
    pub scale: Option<u8>,
}

impl Segment {
    /// The segment in a packet that starts with its IP header; `None` if it is no TCP, a later
    /// fragment, or cut short.
    #[inline(always)]
    pub fn of(headers: &Headers, ip: &[u8]) -> Option<Segment> {
        if headers.protocol != wire::protocol::TCP || headers.fragment == Fragment::Later {
            return None;
        }
        let at = usize::from(headers.transport);
        // How much a fragmented segment holds is seen only from its last fragment: as much as there
        // can be.
        let end = if headers.fragment == Fragment::Whole { headers.length } else { u16::MAX };
        Segment::read(ip.get(at..)?, u32::from(end).saturating_sub(at as u32))
    }

    /// The segment that begins here and is so long with its header; `None` if that is cut short.
    #[inline(always)]
    pub(crate) fn read(segment: &[u8], length: u32) -> Option<Segment> {
        let header = segment.first_chunk::<{ tcp::HEADER }>()?;
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let data = usize::from(header[12] >> 4) * 4;
        let flags = header[13];
        Some(Segment {
            sequence: word(4),
            acknowledgement: word(8),
            window: u16::from_be_bytes([header[14], header[15]]),
            length: length.saturating_sub(data as u32),
            flags,
            scale: if flags & SYN != 0 { scale(segment.get(tcp::HEADER..data)?) } else { None },
        })
    }

    /// The flags that make the difference.
    fn kind(&self) -> u8 {
        self.flags & (SYN | ACK | FIN | RST)
    }

    /// Whether it is neither the beginning nor the end of a connection.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.flags & (SYN | ACK | FIN | RST) == ACK
    }

    /// The sequence number behind it: SYN and FIN count one each.
    #[inline(always)]
    fn end(&self) -> u32 {
        let extra = u32::from(self.flags & SYN != 0) + u32::from(self.flags & FIN != 0);
        self.sequence.wrapping_add(self.length).wrapping_add(extra)
    }
}

/// The window scale in the options of a header (RFC 7323, 2.2).
#[cold]
fn scale(mut options: &[u8]) -> Option<u8> {
    loop {
        match options {
            [1, rest @ ..] => options = rest,
            [3, 3, shift, ..] => return Some((*shift).min(WIDEST)),
            [0, ..] | [] | [_] => return None,
            [_, length, ..] => options = options.get(usize::from(*length).max(2)..)?,
        }
    }
}

/// What one end has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The sequence number behind all that it has sent.
    pub end: u32,
    /// The highest acknowledgement number it has sent. Before its first: what the first must be at
    /// least.
    pub ack: u32,
    /// The largest window it has offered, to be scaled.
    pub window: u16,
    /// Its window scale, or 15 for none.
    pub scale: u8,
    /// All flags it has sent.
    pub flags: u8,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// How far it is.
    pub phase: Phase,
    /// The end that opened it, and the other.
    pub sides: [Side; 2],
    /// Who sent the last SYN that changed nothing, and what acknowledges it, as a number up to 15;
    /// 0: there was none. Before the first answer, what the other end's last challenge
    /// acknowledges.
    pub asked: u8,
}

/// What a segment is to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Part of it.
    Valid,
    /// To be passed on, but nothing of it counts.
    Ignored,
    /// Not of this connection.
    Invalid,
    /// Both ends have lost the connection: this answers the SYN that begins another.
    Renewed,
    /// The connection is over, and this SYN opens another; or it was refused, and this is as if
    /// there had been none.
    Reopens,
}

impl Connection {
    /// The connection that a first segment makes; `None` if it makes none. With `pickup` it may be
    /// any segment with ACK that does not end the connection.
    pub fn opened_by(segment: &Segment, pickup: bool) -> Option<Connection> {
        let kind = segment.kind();
        let (end, seen) = (segment.end(), segment.flags);
        if kind == SYN {
            let scale = segment.scale.unwrap_or(NO_SCALE);
            let own = Side {
                end,
                ack: segment.sequence.wrapping_add(1),
                window: unscaled(segment.window, scale),
                scale,
                flags: seen,
            };
            let other = Side { scale: NO_SCALE, ..Side::default() };
            return Some(Connection { phase: Phase::Opening, sides: [own, other], asked: 0 });
        }
        if !pickup || kind != ACK {
            return None;
        }
        let side = |end, ack, window, flags| Side { end, ack, window, scale: WIDEST, flags };
        let own = side(end, segment.acknowledgement, segment.window, seen);
        let other = side(segment.acknowledgement, segment.sequence, u16::MAX, 0);
        Some(Connection { phase: Phase::Answered, sides: [own, other], asked: 0 })
    }

    /// As it is to be taken up again after an unknown time: of an open one it is not known which
    /// windows were offered, of one that was being opened not even whether it is open by now.
    pub fn resumed(mut self) -> Connection {
        match self.phase {
            Phase::Open => self.sides.iter_mut().for_each(|side| side.window = 0),
            Phase::Opening | Phase::Answered => {
                self.phase = Phase::Answered;
                self.sides = self.sides.map(|side| Side { window: 0, scale: WIDEST, flags: 0, ..side });
            }
            _ => {}
        }
        self
    }

    /// Whether it was taken up again, and this side has said nothing since.
    pub(crate) fn awaits(&self, side: Direction) -> bool {
        let may = self.phase == Phase::Open || self.phase == Phase::Answered && self.is_picked_up();
        may && self.sides[side as usize].window == 0
    }

    /// Takes a segment that goes this way into account.
    pub fn receive(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let kind = segment.kind();
        match kind {
            SYN if self.phase.is_over() => Outcome::Reopens,
            // There was no connection.
            _ if self.is_refused() => Outcome::Reopens,
            SYN if self.phase == Phase::Opening => self.receive_syn(from, segment),
            SYN => {
                // Not the one that opened it, sent again.
                if segment.end() != self.sides[from as usize].end {
                    self.asked = question(from, segment.end());
                }
                Outcome::Ignored
            }
            _ if kind & RST != 0 && kind & (SYN | FIN) == 0 => self.receive_rst(from, segment),
            _ if kind == SYN | ACK && self.phase == Phase::Opening => self.receive_answer(from, segment),
            _ if self.phase == Phase::Opening => {
                if kind != ACK || from == Direction::Original {
                    return Outcome::Invalid;
                }
                self.asked = question(from, segment.acknowledgement);
                Outcome::Ignored
            }
            // Who opened has answered no SYN but at the same time.
            _ if kind == SYN | ACK && from == Direction::Original && self.phase != Phase::Answered => {
                if self.answers(from, segment) { self.renew(from, segment) } else { Outcome::Invalid }
            }
            _ if kind == ACK || kind == FIN | ACK || kind == SYN | ACK => {
                let [own, peer] = self.ends(from);
                // The first acknowledgement of a side must be of the other's SYN: else one who
                // cannot see the answer to a forged SYN could guess it.
                let guessed =
                    own.flags & ACK == 0 && !self.is_picked_up() && after(own.ack, segment.acknowledgement);
                let awaited = [from, from.reversed()].map(|side| self.awaits(side));
                if awaited == [false, false] && (guessed || !own.has_sent(&peer, segment)) {
                    return match kind == SYN | ACK {
                        true if self.answers(from, segment) => self.renew(from, segment),
                        // Answered with a challenge, like a SYN.
                        true => Outcome::Ignored,
                        false => Outcome::Invalid,
                    };
                }
                if awaited[0] {
                    // What the other side has acknowledged was sent, though this segment may be an
                    // older one.
                    let end =
                        if awaited[1] || after(segment.end(), peer.ack) { segment.end() } else { peer.ack };
                    self.sides[from as usize] = Side { end, ack: segment.acknowledgement, ..own };
                }
                self.sides[from as usize].take(segment);
                self.phase = self.next_phase();
                Outcome::Valid
            }
            _ => Outcome::Invalid,
        }
    }

    /// Who sends, and who receives.
    fn ends(&self, from: Direction) -> [Side; 2] {
        [from, from.reversed()].map(|side| self.sides[side as usize])
    }

    /// A SYN before any answer: the first one again, one with another number (nothing else was
    /// promised yet), or that of the other side, when both open at once (RFC 9293, 3.5).
    fn receive_syn(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let [_, other] = &self.sides;
        if from == Direction::Original && other.flags != 0 {
            return Outcome::Ignored;
        }
        let scale = segment.scale.unwrap_or(NO_SCALE);
        let (mut end, mut ack) = (segment.end(), segment.sequence.wrapping_add(1));
        let before = self.sides[from as usize];
        if before.flags != 0 && before.end.wrapping_sub(end).wrapping_add(SLACK) <= 2 * SLACK {
            // Either may be the one that is answered.
            end = if after(before.end, end) { before.end } else { end };
            ack = if after(ack, before.ack) { before.ack } else { ack };
        }
        let window = unscaled(segment.window, scale);
        self.sides[from as usize] = Side { end, ack, window, scale, flags: segment.flags };
        Outcome::Valid
    }

    /// SYN and ACK to a SYN.
    fn receive_answer(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let peer = self.sides[from.reversed() as usize];
        if peer.flags & SYN == 0 || !is_within(segment.acknowledgement, peer.ack, peer.end) {
            return Outcome::Invalid;
        }
        let scale = segment.scale.unwrap_or(NO_SCALE);
        let seen = self.sides[from as usize].flags;
        self.sides[from as usize] = Side {
            end: segment.end(),
            ack: segment.acknowledgement,
            window: unscaled(segment.window, scale),
            scale,
            flags: seen | segment.flags,
        };
        self.sides[from.reversed() as usize].ack = segment.sequence.wrapping_add(1);
        if self.sides.iter().any(|side| side.scale == NO_SCALE) {
            self.sides.iter_mut().for_each(Side::forget_scale);
        }
        (self.phase, self.asked) = (Phase::Answered, 0);
        Outcome::Valid
    }

    /// SYN and ACK that answer a SYN which changed nothing.
    fn renew(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let scale = segment.scale.unwrap_or(NO_SCALE);
        self.sides[from as usize] = Side {
            end: segment.end(),
            ack: segment.acknowledgement,
            window: unscaled(segment.window, scale),
            scale,
            flags: segment.flags,
        };
        // Of the SYN nothing more is known: that it had a scale, if its answer has one.
        self.sides[from.reversed() as usize] = Side {
            end: segment.acknowledgement,
            ack: segment.sequence.wrapping_add(1),
            window: u16::MAX,
            scale: if scale == NO_SCALE { NO_SCALE } else { WIDEST },
            flags: SYN,
        };
        (self.phase, self.asked) = (Phase::Answered, 0);
        Outcome::Renewed
    }

    /// Whether it acknowledges the other side's SYN that changed nothing.
    fn answers(&self, from: Direction, segment: &Segment) -> bool {
        self.asked != 0 && self.asked == question(from.reversed(), segment.acknowledgement)
    }

    fn receive_rst(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let [own, peer] = self.ends(from);
        let has_ack = segment.flags & ACK != 0;
        let exact = if self.phase == Phase::Opening {
            match from {
                Direction::Original => {
                    !has_ack && (segment.sequence == own.end || segment.sequence == own.ack)
                }
                // RFC 9293, 3.10.7.3: a refusal counts if it acknowledges the SYN.
                Direction::Reply => has_ack && is_within(segment.acknowledgement, peer.ack, peer.end),
            }
        } else if has_ack && segment.sequence == 0 && self.answers(from, segment) {
            return Outcome::Ignored;
        } else {
            if has_ack && after(segment.acknowledgement, peer.end) {
                return Outcome::Invalid;
            }
            segment.sequence == peer.ack || segment.sequence == own.end
        };
        if exact {
            self.sides[from as usize].flags |= segment.flags;
            if !self.phase.is_over() {
                self.phase = Phase::Reset;
            }
            return Outcome::Valid;
        }
        let passes = match self.phase {
            // What a challenge is answered with has the number that it asked for.
            Phase::Opening => {
                from == Direction::Original
                    && !has_ack
                    && self.asked == question(Direction::Reply, segment.sequence)
            }
            // Of what was acknowledged before, the receiver takes no notice (RFC 5961, 3.2).
            Phase::Open if after(peer.ack, segment.sequence) => false,
            _ => own.is_sequence_inside(&peer, segment),
        };
        if passes { Outcome::Ignored } else { Outcome::Invalid }
    }

    /// Whether this side has sent this sequence number, not long ago.
    pub(crate) fn was_sent(&self, from: Direction, sequence: u32) -> bool {
        let [own, peer] = self.ends(from);
        is_within(sequence, own.end.wrapping_sub(peer.largest_window().max(SLACK)), own.end)
    }

    /// Whether the end that was called has said nothing, or nothing but no.
    pub(crate) fn is_unanswered(&self) -> bool {
        let said = self.sides[Direction::Reply as usize].flags;
        let refused = self.phase == Phase::Reset && !self.is_picked_up() && said & !(RST | ACK) == 0;
        said == 0 || refused
    }

    /// Whether it is over before it was one.
    fn is_refused(&self) -> bool {
        self.phase == Phase::Reset && self.is_unanswered() && !self.is_picked_up()
    }

    /// Whether it was met in mid-stream: its first segment had no SYN.
    fn is_picked_up(&self) -> bool {
        self.sides[0].flags & SYN == 0
    }

    /// The phase after a valid segment, which the flags and numbers of both sides tell.
    fn next_phase(&self) -> Phase {
        let [one, two] = &self.sides;
        let needed = if self.is_picked_up() { ACK } else { SYN | ACK };
        let fins = (one.flags & FIN != 0, two.flags & FIN != 0);
        if self.phase.is_over() {
            self.phase
        } else if one.flags & two.flags & needed != needed {
            Phase::Answered
        } else if fins == (true, true) && one.ack == two.end && two.ack == one.end {
            Phase::Finished
        } else if fins != (false, false) {
            Phase::Closing
        } else {
            Phase::Open
        }
    }
}

impl Side {
    /// All four bounds: whether this side may have sent the segment to that peer. One that goes on
    /// exactly where this side has stopped may acknowledge what is long past: others overtook it,
    /// as those that the driver carries overtake a FIN on its way to a worker.
    #[inline(always)]
    pub(crate) fn has_sent(&self, peer: &Side, segment: &Segment) -> bool {
        let least = peer.end.wrapping_sub(self.largest_window().max(OVERTAKEN));
        self.is_sequence_inside(peer, segment)
            && (!after(segment.acknowledgement, peer.end) || !after(segment.acknowledgement, self.ack))
            && (segment.sequence == self.end || !after(least, segment.acknowledgement))
    }

    /// Bounds I and II.
    #[inline(always)]
    fn is_sequence_inside(&self, peer: &Side, segment: &Segment) -> bool {
        let offered = peer.largest_window();
        !after(segment.sequence, peer.ack.wrapping_add(offered))
            && !after(self.end.wrapping_sub(offered.max(SLACK)), segment.end())
    }

    /// In bytes; at least 1, for windows of 0 are probed.
    #[inline(always)]
    fn largest_window(&self) -> u32 {
        let shift = if self.scale == NO_SCALE { 0 } else { self.scale };
        (u32::from(self.window) << shift).max(1)
    }

    /// A segment of its own that was inside.
    #[inline(always)]
    pub(crate) fn take(&mut self, segment: &Segment) {
        let end = segment.end();
        if after(end, self.end) {
            self.end = end;
        }
        if after(segment.acknowledgement, self.ack) {
            self.ack = segment.acknowledgement;
        }
        if segment.flags & SYN == 0 {
            self.window = self.window.max(segment.window);
        }
        self.flags |= segment.flags;
    }

    /// The other side scales nothing, so neither does this one.
    fn forget_scale(&mut self) {
        if self.scale != NO_SCALE {
            self.window = u16::try_from(u32::from(self.window) << self.scale).unwrap_or(u16::MAX);
            self.scale = NO_SCALE;
        }
    }
}

/// The window of a SYN, which is not scaled, as a number that is to be scaled, rounded up.
fn unscaled(window: u16, scale: u8) -> u16 {
    if scale == NO_SCALE { window } else { ((u32::from(window) + (1 << scale) - 1) >> scale) as u16 }
}

/// What [`Connection::asked`] is after a SYN of this side that this number acknowledges.
fn question(from: Direction, number: u32) -> u8 {
    let mixed = (number ^ from as u32).wrapping_mul(0x9e37_79b1) >> 28;
    mixed.max(1) as u8
}

/// Whether sequence number `a` lies behind `b`.
#[inline(always)]
pub(crate) fn after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

fn is_within(number: u32, low: u32, high: u32) -> bool {
    !after(low, number) && !after(number, high)
}
