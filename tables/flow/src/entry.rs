//! What the table remembers of a flow: 112 bytes, in two arrays.
//!
//! ```text
//! hot    64 bytes, one cache line: read at every packet, written when the flow changes
//!        addresses 32 | ports 4 | meta 4 | state 4 | route 4 | decisions 4 + 4 | start 6, sliced 2
//! cold   48 bytes: written at every packet
//!        last 4 | windows 2 + 2 | packets 4 + 4 | volume 8 + 8 | numbers 8 + 8
//! ```
//!
//! - `addresses`, `ports`, `meta` are the key (see `key`). An IPv4 key leaves 24 bytes of the
//!   addresses free: there the reply of a translated IPv4 flow has room, and the change of its
//!   checksums (see `leaving4`). Every other translated flow (IPv6, NAT64) takes a second entry,
//!   its *alias*, that holds the key of the reply. Then `route` of the flow holds the alias' index,
//!   and the alias the flow's in `decisions[0]`, and its `route` in its own.
//! - `state` holds [`Phase`] or how it ended (4 bits), both window scales (4 + 4), both sides' TCP
//!   flags (8 + 8), and 4 more: of what has ended the last phase, of TCP until then
//!   [`Connection::asked`]. It decides who wins: a flow ends when somebody swaps its phase for an
//!   end.
//! - `route` is the flow's interfaces, 12 bits each, and its mark, 8; 2 more bits of each interface
//!   are in the flow's `meta`, above the 12 of the table. They stay as they were when it began.
//! - `volume` is bytes (52 bits) and the packets' upper 12 bits: 4.5 PB and 17 T packets.
//! - `numbers` is a TCP side's end and acknowledgement.
//!
//! Every word is atomic and is read and written alone. What a direction counts is written by
//! whoever carries that direction: NICs hash a direction to one queue, so that is one worker, and
//! plain loads and stores do. Should two carry it for a moment (a fragment among whole packets), a
//! packet may go uncounted; a locked instruction for each would cost more than the lookup.
//!
//! Clocks are coarse where that saves room: `last` counts 2^18 ns (262 µs; a flow idle for 6.5 days
//! could not be told from a new one, hence [`Timeouts::LONGEST`](crate::Timeouts::LONGEST)),
//! `start` 2^7 ns (right for 417 days), `sliced` 2^30 ns.

pub(crate) use abi::flow::{
    ALIAS, ALIAS_PHASE, KEY_BITS, REPLY_HERE, REPLY_IN_ALIAS, REPLY_SWAPPED, SWAPPED, TRANSLATED,
};

use crate::key::{Key, V6};
use crate::leaving4::Change;
use crate::memory::prefetch;
use crate::tcp::{self, Connection, Side};
use crate::{Direction, End, Phase};
use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// From here on, phases are ends.
pub(crate) const ENDED: u32 = ALIAS_PHASE;

/// The part that is read at every packet.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Hot(abi::flow::Hot);

/// The part that is written at every packet.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Cold(abi::flow::Cold);

impl Deref for Hot {
    type Target = abi::flow::Hot;

    #[inline(always)]
    fn deref(&self) -> &abi::flow::Hot {
        &self.0
    }
}

impl Deref for Cold {
    type Target = abi::flow::Cold;

    #[inline(always)]
    fn deref(&self) -> &abi::flow::Cold {
        &self.0
    }
}

const _: () = assert!(size_of::<Hot>() == 64 && size_of::<Cold>() == 48);

/// Whether an entry is a flow, and a key that of its original direction, by where they differ in
/// the first word of their addresses, in ports and `meta`: of IPv4. It may have ended.
#[inline(always)]
pub(crate) fn is_flow(ends: u64, ports: u32, meta: u32) -> bool {
    // An alias is no flow. All at once: where they differ is as good as random.
    ends | u64::from(ports | meta & (KEY_BITS | ALIAS)) == 0
}

impl Hot {
    /// Whether this is the key in the entry, whose `meta` this is.
    #[inline(always)]
    pub(crate) fn has_key(&self, key: &Key, meta: u32) -> bool {
        let word = |index: usize| self.addresses[index].load(Relaxed);
        // All at once: where they differ is as good as random.
        let same = (word(0) ^ key.addresses[0])
            | u64::from((self.ports.load(Relaxed) ^ key.ports) | (meta ^ key.meta) & KEY_BITS);
        let rest = |index: usize| word(index) ^ key.addresses[index];
        if key.is_ipv4() { same == 0 } else { same | rest(1) | rest(2) | rest(3) == 0 }
    }

    /// Whether this entry, whose `meta` this is, is a translated flow that has the key of its reply
    /// here, and these are the parts of that.
    #[inline(always)]
    pub(crate) fn has_reply4(&self, (ends, ports, key): (u64, u32, u32), meta: u32) -> bool {
        let differs = (self.addresses[1].load(Relaxed) ^ ends)
            | (self.addresses[2].load(Relaxed) ^ (u64::from(ports) << 32 | u64::from(key)));
        // Else there may stand anything, even what somebody chose.
        (differs == 0) & (meta & REPLY_HERE != 0)
    }

    /// Whether this entry, whose `meta` this is, is a flow and this its key.
    #[inline(always)]
    pub(crate) fn is_flow_of(&self, key: &Key, meta: u32) -> bool {
        self.has_key(key, meta) && meta & ALIAS == 0 && self.is_live()
    }

    /// Whether a packet of this key is of the flow of this entry, whose `meta` this is, and which
    /// way it goes then.
    #[inline(always)]
    pub(crate) fn way(&self, key: &Key, meta: u32) -> (bool, Direction) {
        (self.is_flow_of(key, meta), Direction::reply_if((meta & SWAPPED != 0) != key.swapped))
    }

    /// Whether this is the key of the reply in the entry, whose `meta` this is.
    pub(crate) fn has_reply(&self, key: &Key, meta: u32) -> bool {
        key.is_ipv4() && self.has_reply4((key.addresses[0], key.ports, key.meta), meta)
    }

    #[inline(always)]
    pub(crate) fn is_live(&self) -> bool {
        State(self.state.load(Relaxed)).is_live()
    }

    /// Who sends to the sender of a packet that goes this way, in a translated IPv4 flow: its peer,
    /// as it is on the other side.
    #[inline(always)]
    pub(crate) fn sender4(&self, direction: Direction) -> Option<[u8; 4]> {
        let meta = self.meta.load(Relaxed);
        let (word, swapped) = match direction {
            Direction::Original => (1, REPLY_SWAPPED),
            Direction::Reply => (0, SWAPPED),
        };
        let both = self.addresses[word].load(Relaxed);
        let sender = if meta & swapped == 0 { both >> 32 } else { both };
        (meta & REPLY_HERE != 0).then_some((sender as u32).to_be_bytes())
    }

    /// Its key; `None` for the reply's where that is not here.
    #[inline(always)]
    pub(crate) fn key(&self) -> Key {
        let meta = self.meta.load(Relaxed);
        let ipv4 = meta & V6 == 0;
        let word = |index: usize| if ipv4 && index != 0 { 0 } else { self.addresses[index].load(Relaxed) };
        Key {
            addresses: [0, 1, 2, 3].map(word),
            ports: self.ports.load(Relaxed),
            meta: meta & KEY_BITS,
            swapped: meta & SWAPPED != 0,
        }
    }

    /// The key of the reply of a translated IPv4 flow.
    #[inline(always)]
    pub(crate) fn reply_here(&self) -> Option<Key> {
        let meta = self.meta.load(Relaxed);
        let word = self.addresses[2].load(Relaxed);
        (meta & REPLY_HERE != 0).then(|| Key {
            addresses: [self.addresses[1].load(Relaxed), 0, 0, 0],
            ports: (word >> 32) as u32,
            meta: word as u32,
            swapped: meta & REPLY_SWAPPED != 0,
        })
    }

    /// Writes the key, with what `meta` says more, and the reply where there is room for it; before
    /// the entry is live.
    pub(crate) fn set_key(&self, key: &Key, more: u32, reply: Option<&Key>) {
        for (word, value) in self.addresses.iter().zip(key.addresses) {
            word.store(value, Relaxed);
        }
        self.ports.store(key.ports, Relaxed);
        let swapped = if key.swapped { SWAPPED } else { 0 };
        let mut meta = key.meta | swapped | more;
        if let Some(reply) = reply {
            self.addresses[1].store(reply.addresses[0], Relaxed);
            self.addresses[2].store(u64::from(reply.ports) << 32 | u64::from(reply.meta), Relaxed);
            let came = (key.addresses[0], key.ports);
            let change = Change::between(came, (reply.addresses[0], reply.ports));
            self.addresses[3].store(change.word().into(), Relaxed);
            meta |= REPLY_HERE | if reply.swapped { REPLY_SWAPPED } else { 0 };
        }
        self.meta.store(meta, Relaxed);
    }

    /// Ends the flow; false if somebody else did. From here on no lookup finds it.
    pub(crate) fn end(&self, end: End) -> bool {
        self.state
            .fetch_update(Release, Relaxed, |word| {
                let phase = State(word).phase()? as u32;
                Some(word & 0x0fff_fff0 | phase << 28 | (ENDED + end as u32))
            })
            .is_ok()
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> State {
        State(self.state.load(Acquire))
    }
}

/// The word `state`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u32);

impl State {
    /// For flows that are not TCP, both scales are 0.
    pub(crate) fn of(phase: Phase) -> State {
        State(phase as u32)
    }

    #[inline(always)]
    pub(crate) fn of_connection(connection: &Connection) -> State {
        let [one, two] = &connection.sides;
        State(
            connection.phase as u32
                | u32::from(one.scale) << 4
                | u32::from(two.scale) << 8
                | u32::from(one.flags) << 12
                | u32::from(two.flags) << 20
                | u32::from(connection.asked) << 28,
        )
    }

    /// A flow, or an alias.
    #[inline(always)]
    pub(crate) fn is_live(self) -> bool {
        (1..=ALIAS_PHASE).contains(&(self.0 & 0xf))
    }

    /// Of a live flow; an alias has none.
    #[inline(always)]
    pub(crate) fn phase(self) -> Option<Phase> {
        Phase::ALL.get((self.0 as usize & 0xf).wrapping_sub(1)).copied()
    }

    /// The phase, of a flow that has ended its last one.
    pub(crate) fn last_phase(self) -> Phase {
        let last = || Phase::ALL.get((self.0 as usize >> 28).wrapping_sub(1)).copied();
        self.phase().or_else(last).unwrap_or(Phase::Unreplied)
    }

    pub(crate) fn ended(self) -> Option<End> {
        End::ALL.get((self.0 & 0xf).checked_sub(ENDED)? as usize).copied().filter(|end| *end != End::Slice)
    }

    pub(crate) fn with(self, phase: Phase) -> State {
        State(self.0 & !0xf | phase as u32)
    }

    #[inline(always)]
    fn scale(self, side: usize) -> u8 {
        (self.0 >> (4 + 4 * side)) as u8 & 0xf
    }

    #[inline(always)]
    pub(crate) fn flags(self, side: usize) -> u8 {
        (self.0 >> (12 + 8 * side)) as u8
    }

    /// With flags that this side has sent as well.
    #[inline(always)]
    pub(crate) fn with_flags(self, side: usize, flags: u8) -> State {
        State(self.0 | u32::from(flags) << (12 + 8 * side))
    }
}

impl Cold {
    /// Asks for it, which may lie across two lines.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.last);
        prefetch(&self.numbers[1]);
    }

    /// Counts a packet.
    #[inline(always)]
    pub(crate) fn count(&self, side: usize, bytes: u16) {
        let packets = self.packets[side].load(Relaxed).wrapping_add(1);
        self.packets[side].store(packets, Relaxed);
        let carry = u64::from(packets == 0) << 52;
        let volume = self.volume[side].load(Relaxed).wrapping_add(u64::from(bytes) + carry);
        self.volume[side].store(volume, Relaxed);
    }

    /// As [`count`](Self::count), where the driver's program counts as well.
    pub(crate) fn count_shared(&self, side: usize, bytes: u16) {
        let carry = u64::from(self.packets[side].fetch_add(1, Relaxed) == u32::MAX) << 52;
        self.volume[side].fetch_add(u64::from(bytes) + carry, Relaxed);
    }

    /// As [`set_side`](Self::set_side), where the driver's program may have seen later segments of
    /// the side.
    pub(crate) fn advance_shared(&self, side: usize, value: &Side) {
        let later = |a: u32, b: u32| if tcp::after(a, b) { a } else { b };
        // It never refuses.
        let _ = self.numbers[side].fetch_update(Relaxed, Relaxed, |word| {
            let (end, ack) = (later(value.end, (word >> 32) as u32), later(value.ack, word as u32));
            Some(u64::from(end) << 32 | u64::from(ack))
        });
        self.windows[side].fetch_max(value.window, Relaxed);
    }

    pub(crate) fn packets(&self) -> [u64; 2] {
        [0, 1].map(|side| {
            let upper = self.volume[side].load(Relaxed) >> 52;
            upper << 32 | u64::from(self.packets[side].load(Relaxed))
        })
    }

    pub(crate) fn bytes(&self) -> [u64; 2] {
        [0, 1].map(|side| self.volume[side].load(Relaxed) & ((1 << 52) - 1))
    }

    pub(crate) fn set_counts(&self, packets: [u64; 2], bytes: [u64; 2]) {
        for side in 0..2 {
            self.packets[side].store(packets[side] as u32, Relaxed);
            self.volume[side].store(packets[side] >> 32 << 52 | bytes[side] & ((1 << 52) - 1), Relaxed);
        }
    }

    pub(crate) fn connection(&self, state: State, phase: Phase) -> Connection {
        Connection { phase, sides: [0, 1].map(|side| self.side(state, side)), asked: (state.0 >> 28) as u8 }
    }

    #[inline(always)]
    pub(crate) fn side(&self, state: State, side: usize) -> Side {
        let numbers = self.numbers[side].load(Relaxed);
        Side {
            end: (numbers >> 32) as u32,
            ack: numbers as u32,
            window: self.windows[side].load(Relaxed),
            scale: state.scale(side),
            flags: state.flags(side),
        }
    }

    /// Writes a side's numbers where they have changed.
    #[inline(always)]
    pub(crate) fn set_side(&self, side: usize, value: &Side) {
        let numbers = u64::from(value.end) << 32 | u64::from(value.ack);
        if self.numbers[side].load(Relaxed) != numbers {
            self.numbers[side].store(numbers, Relaxed);
        }
        if self.windows[side].load(Relaxed) != value.window {
            self.windows[side].store(value.window, Relaxed);
        }
    }
}

/// The interfaces of a flow, 14 bits each, and its mark, as they are kept from its begin on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The word `route`: the lower 12 bits of both, and the mark.
    pub(crate) word: u32,
    /// In `meta`: the others.
    pub(crate) upper: u32,
}

impl Route {
    pub(crate) fn new(ports: [u16; 2], mark: u8) -> Route {
        let [input, output] = ports.map(|port| u32::from(port.min(crate::NO_PORT)));
        Route {
            word: (input & 0xfff) << 20 | (output & 0xfff) << 8 | u32::from(mark),
            upper: input >> 12 << 30 | output >> 12 << 28,
        }
    }

    /// What a flow's `meta` and the word `route` say.
    pub(crate) fn read(word: u32, meta: u32) -> ([u16; 2], u8) {
        let input = meta >> 30 << 12 | word >> 20;
        let output = (meta >> 28 & 3) << 12 | word >> 8 & 0xfff;
        ([input as u16, output as u16], word as u8)
    }
}

/// Coarse clocks, and the way back to ns with the help of a `now` that is not far off.
pub(crate) mod clock {
    const START: u64 = (1 << 48) - 1;

    /// `last`.
    #[inline(always)]
    pub(crate) fn tick(now: u64) -> u32 {
        (now >> 18) as u32
    }

    /// Ticks since `last`, 0 if another worker's clock was ahead.
    #[inline(always)]
    pub(crate) fn idle(now: u32, last: u32) -> u32 {
        let ticks = now.wrapping_sub(last);
        if (ticks as i32) < 0 { 0 } else { ticks }
    }

    pub(crate) fn last(now: u64, last: u32) -> u64 {
        let passed = u64::from(idle(tick(now), last));
        ((now >> 18) - passed.min(now >> 18)) << 18
    }

    pub(crate) fn to_start(now: u64) -> u64 {
        now >> 7 & START
    }

    pub(crate) fn start(now: u64, word: u64) -> u64 {
        let passed = (now >> 7).wrapping_sub(word) & START;
        // A start ahead of this worker's clock.
        let passed = if passed > START / 2 { 0 } else { passed };
        ((now >> 7) - passed.min(now >> 7)) << 7
    }

    /// `sliced` of this time: never 0, which means never.
    pub(crate) fn to_sliced(now: u64) -> u64 {
        ((now >> 30) as u16).max(1).into()
    }

    /// ns since the last slice, to about a second.
    pub(crate) fn since_slice(now: u64, sliced: u64) -> u64 {
        u64::from(((now >> 30) as u16).wrapping_sub(sliced as u16)) << 30
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_keeps_interfaces_and_mark_and_no_bit_of_the_key() {
        for ports in [[0, 0], [0x3ffe, 0x1001], [0xfff, 0x3ffe], [crate::NO_PORT, 0x2fff]] {
            let Route { word, upper } = Route::new(ports, 0xa5);
            let key = KEY_BITS | SWAPPED | REPLY_HERE | REPLY_IN_ALIAS | REPLY_SWAPPED | ALIAS;
            assert_eq!((Route::read(word, upper | key), upper & key), ((ports, 0xa5), 0));
        }
        let unknown = Route::new([u16::MAX; 2], 0);
        assert_eq!(Route::read(unknown.word, unknown.upper).0, [crate::NO_PORT; 2]);
    }

    #[test]
    fn the_address_of_another_family_is_nobodys_reply() {
        let reply =
            Key { addresses: [0x0a00_0001_0a00_0002, 0, 0, 0], ports: 0x2001_0db8, meta: 6, swapped: false };
        let wanted = (reply.addresses[0], reply.ports, reply.meta);
        // Addresses of IPv6 that look as a reply would.
        let chosen = u64::from(reply.ports) << 32 | u64::from(reply.meta);
        let six = Key { addresses: [5, reply.addresses[0], chosen, 7], meta: V6 | 6, ..reply };
        let four = Key { addresses: [5, 0, 0, 0], ports: 77, ..reply };
        for (key, reply, expected) in [(six, None, false), (four, None, false), (four, Some(&reply), true)] {
            let hot = Hot::default();
            hot.set_key(&key, 0, reply);
            let meta = hot.meta.load(Relaxed);
            let (ends, ports) = (hot.addresses[0].load(Relaxed), hot.ports.load(Relaxed));
            let is_its = is_flow(ends ^ wanted.0, ports ^ wanted.1, meta ^ wanted.2);
            assert_eq!((is_its, hot.has_reply4(wanted, meta)), (false, expected));
        }
    }
}
