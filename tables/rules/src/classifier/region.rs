//! What a step matches, as regions of the space of all packets: what the tree cuts and the leaves
//! compare.
//!
//! A packet's constant part is a key of a few 32-bit words (11 in IPv6, 5 in IPv4), and a region is
//! a value and a mask of the same words, and a range for each port. A list becomes one region for
//! each item. What cannot be said so (a list turned round, more than [`MOST_REGIONS`] regions)
//! becomes a larger region and is marked: the leaf's match is then confirmed exactly.
//!
//! | word | |
//! |---|---|
//! | `0..A`, `A..2A` | source, destination (`A` = 1 or 4 words) |
//! | `2A` | source port, destination port in the upper half |
//! | `2A+1` | protocol; state (one of 5 bits); whether there are no ports (a bit); input port in the upper half |
//! | `2A+2` | output port; in the upper half, which of up to 16 sets hold an address |
//!
//! One-hot bits make "one of these states" a comparison like all others: the value is 0, and the
//! mask has the states that are not allowed.

use ipnet::IpNet;
use wire::Headers;

use super::BATCH;
use super::program::Step;
use crate::matches::Side;
use crate::matching::{Context, Sets, shows_ports};
use crate::model::*;

/// The most regions of one step.
const MOST_REGIONS: usize = 1024;
/// The most sets, each for one side, whose membership is part of the key.
pub(crate) const MOST_MEMBERSHIPS: usize = 16;

/// Where the state lies in [`Key::SMALL`].
pub(crate) const STATES: u32 = 8;
/// The bit of [`Key::SMALL`] that says that there are no ports.
pub(crate) const NO_PORTS: u32 = 1 << 13;
/// Where the input port lies in [`Key::SMALL`].
pub(crate) const IN_PORT: u32 = 16;
const SETS: u32 = 16;
/// What stands for an output port that is not known: no port has this number.
const NO_PORT: u16 = u16::MAX;

/// The constant part of a packet, as words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<const W: usize>(pub [u32; W]);

/// Words of an IPv4 key.
pub(crate) const W4: usize = 5;
/// Words of an IPv6 key.
pub(crate) const W6: usize = 11;

/// The sets whose membership is in the key: by bit, the set and the side.
pub(crate) type Memberships = Vec<(usize, Side)>;

impl<const W: usize> Key<W> {
    const A: usize = (W - 3) / 2;
    pub const PORTS: usize = 2 * Key::<W>::A;
    pub const SMALL: usize = 2 * Key::<W>::A + 1;
    pub const LAST: usize = 2 * Key::<W>::A + 2;

    /// Of a packet of the family that has so many words.
    #[inline(always)]
    pub fn of(headers: &Headers, context: &Context) -> Key<W> {
        let mut words = [0; W];
        let word =
            |address: &[u8; 16], n: usize| u32::from_be_bytes(address.as_chunks().0[4 - Key::<W>::A + n]);
        for n in 0..Key::<W>::A {
            words[n] = word(&headers.source, n);
            words[Key::<W>::A + n] = word(&headers.destination, n);
        }
        words[Key::<W>::PORTS] = u32::from(headers.source_port) | u32::from(headers.destination_port) << 16;
        let no_ports = if shows_ports(headers) { 0 } else { NO_PORTS };
        let small = Key::<W>::small(u32::from(headers.protocol), context.state, context.in_port);
        words[Key::<W>::SMALL] = small | no_ports;
        words[Key::<W>::LAST] = u32::from(context.out_port.unwrap_or(NO_PORT));
        Key(words)
    }

    /// Of a packet that shows ports.
    #[inline(always)]
    pub fn small(protocol: u32, state: FlowState, in_port: u16) -> u32 {
        protocol | u32::from(state as u8) << STATES | u32::from(in_port) << IN_PORT
    }

    /// Asks the sets.
    #[inline]
    pub fn ask(&mut self, memberships: &Memberships, sets: &Sets) {
        let mut members = 0;
        for (bit, (set, side)) in memberships.iter().enumerate() {
            let first = if *side == Side::Source { 0 } else { Key::<W>::A };
            let address = &self.0[first..first + Key::<W>::A];
            let set = &sets[*set].1;
            let member = match *address {
                [address] => set.contains4(address),
                _ => set.contains6(address.iter().fold(0, |number, word| number << 32 | u128::from(*word))),
            };
            members |= u32::from(member) << (SETS + bit as u32);
        }
        let last = &mut self.0[Key::<W>::LAST];
        *last = *last & ((1 << SETS) - 1) | members;
    }
}

/// The keys of a batch, word by word: what a tree asks of all packets lies side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys<const W: usize> {
    words: [[u32; BATCH]; W],
    count: usize,
}

impl<const W: usize> Keys<W> {
    /// Of packets of one family, up to [`BATCH`].
    #[inline(always)]
    pub fn of(headers: &[Headers], contexts: &[Context]) -> Keys<W> {
        let mut keys = Keys::none(headers.len().min(contexts.len()).min(BATCH));
        // Cut to one length, so that nothing is asked at each packet.
        let (headers, contexts) = (&headers[..keys.count], &contexts[..keys.count]);
        for n in 0..keys.count {
            keys.set(n, &Key::of(&headers[n], &contexts[n]));
        }
        keys
    }

    /// So many keys, of nothing.
    #[inline(always)]
    pub fn none(count: usize) -> Keys<W> {
        Keys { words: [[0; BATCH]; W], count }
    }

    /// The key of a packet.
    #[inline(always)]
    pub fn set(&mut self, n: usize, key: &Key<W>) {
        for (column, word) in self.words.iter_mut().zip(key.0) {
            column[n % BATCH] = word;
        }
    }

    /// Asks the sets.
    pub fn ask(&mut self, memberships: &Memberships, sets: &Sets) {
        for n in 0..self.count {
            let mut key = self.key(n);
            key.ask(memberships, sets);
            self.words[Key::<W>::LAST][n % BATCH] = key.0[Key::<W>::LAST];
        }
    }

    /// From now on they are so many, which are all to be set.
    #[inline(always)]
    pub fn cut(&mut self, count: usize) {
        self.count = count.min(BATCH);
    }

    /// How many they are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count
    }

    /// A word of all keys.
    #[inline(always)]
    pub fn column(&self, word: usize) -> &[u32; BATCH] {
        // Words are numbered below W by what builds the trees; so written, nothing needs to be
        // checked.
        &self.words[word.min(W - 1)]
    }

    /// The same, to change.
    #[inline(always)]
    pub fn column_mut(&mut self, word: usize) -> &mut [u32; BATCH] {
        &mut self.words[word.min(W - 1)]
    }

    /// The key of one packet.
    #[inline(always)]
    pub fn key(&self, n: usize) -> Key<W> {
        Key(self.words.map(|column| column[n % BATCH]))
    }
}

/// A part of the space of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Region<const W: usize> {
    pub value: [u32; W],
    pub mask: [u32; W],
    /// Source and destination ports.
    pub ports: [Span; 2],
}

const ALL_PORTS: Span = Span { first: 0, last: u16::MAX };

impl<const W: usize> Region<W> {
    /// All of it.
    pub const ALL: Region<W> = Region { value: [0; W], mask: [0; W], ports: [ALL_PORTS; 2] };

    /// Asks one word for a value under a mask.
    pub fn with(mut self, word: usize, value: u32, mask: u32) -> Region<W> {
        self.value[word] = value & mask;
        self.mask[word] = mask;
        self
    }

    /// What is in both, if anything is.
    fn and(&self, other: &Region<W>) -> Option<Region<W>> {
        let mut both = *self;
        for n in 0..W {
            if (self.value[n] ^ other.value[n]) & self.mask[n] & other.mask[n] != 0 {
                return None;
            }
            both.value[n] |= other.value[n];
            both.mask[n] |= other.mask[n];
        }
        if both.is_empty() {
            return None;
        }
        for n in 0..2 {
            let (a, b) = (self.ports[n], other.ports[n]);
            both.ports[n] = Span { first: a.first.max(b.first), last: a.last.min(b.last) };
            if both.ports[n].first > both.ports[n].last {
                return None;
            }
        }
        Some(both)
    }

    /// Puts what the port ranges say of single bits into the mask as well, for the tree to cut.
    pub fn with_port_bits(mut self) -> Region<W> {
        for (n, span) in self.ports.iter().enumerate() {
            let differ = span.first ^ span.last;
            let known = !(u16::MAX.checked_shr(differ.leading_zeros()).unwrap_or(0));
            self.value[Key::<W>::PORTS] |= u32::from(span.first & known) << (16 * n);
            self.mask[Key::<W>::PORTS] |= u32::from(known) << (16 * n);
        }
        self
    }

    /// What of it is not in the other, in disjoint parts; itself where they have nothing in common.
    pub fn without(&self, other: &Region<W>, mut part: impl FnMut(Region<W>)) {
        if self.and(other).is_none() {
            return part(*self);
        }
        let mut rest = *self;
        for n in 0..W {
            let mut open = other.mask[n] & !self.mask[n];
            while open != 0 {
                let bit = open & open.wrapping_neg();
                open ^= bit;
                let mut outside = rest;
                outside.mask[n] |= bit;
                outside.value[n] |= !other.value[n] & bit;
                rest.mask[n] |= bit;
                rest.value[n] |= other.value[n] & bit;
                if !outside.is_empty() {
                    part(outside);
                }
            }
        }
        for n in 0..2 {
            let (own, taken) = (rest.ports[n], other.ports[n]);
            let mut outside = rest;
            if own.first < taken.first {
                outside.ports[n] = Span { first: own.first, last: taken.first - 1 };
                part(outside);
            }
            if taken.last < own.last {
                outside.ports[n] = Span { first: taken.last + 1, last: own.last };
                part(outside);
            }
            rest.ports[n] = Span { first: own.first.max(taken.first), last: own.last.min(taken.last) };
        }
    }

    /// Whether no packet can be in it: a packet has one state.
    fn is_empty(&self) -> bool {
        let states = 0x1f << STATES;
        let (value, mask) = (self.value[Key::<W>::SMALL] & states, self.mask[Key::<W>::SMALL] & states);
        value.count_ones() > 1 || mask == states && value == 0
    }
}

/// The regions of a step, and whether they are exactly its constant part.
pub(crate) struct Regions<const W: usize> {
    pub list: Vec<Region<W>>,
    pub exact: bool,
}

/// The regions of a step in one family.
pub(crate) fn regions<const W: usize>(
    filter: &Filter,
    steps: &[Step],
    step: &Step,
    memberships: &mut Memberships,
) -> Regions<W> {
    let mut regions = Regions { list: vec![Region::ALL], exact: true };
    let mut next = Some(step);
    while let Some(step) = next {
        let rule = &filter.chains[step.at.0 as usize].rules[step.at.1 as usize];
        regions.leave(&rule.matches, memberships);
        next = step.parent.map(|parent| &steps[parent as usize]);
    }
    regions
}

impl<const W: usize> Regions<W> {
    /// Leaves what a match leaves.
    fn leave(&mut self, matches: &Match, memberships: &mut Memberships) {
        let family = if W == W4 { Family::Ipv4 } else { Family::Ipv6 };
        if !matches.possible_in(family) {
            self.list.clear();
            return;
        }
        let mut narrowing = Narrowing { choices: Vec::new(), exact: true, memberships };
        matches.narrow(&mut narrowing);
        self.exact &= narrowing.exact;
        // Where they come to too many, the longest list is left to the exact look.
        narrowing.choices.sort_by_key(Vec::len);
        narrowing.choices.iter().for_each(|options| self.with(options));
    }

    /// Leaves what is also in one of these.
    fn with(&mut self, options: &[Region<W>]) {
        let mut list = Vec::with_capacity(self.list.len() * options.len());
        for region in &self.list {
            list.extend(options.iter().filter_map(|option| region.and(option)));
            if list.len() > MOST_REGIONS {
                // Rather too much, and each candidate looked at exactly.
                self.exact = false;
                return;
            }
        }
        self.list = list;
    }
}

/// What the conditions of a match leave of all packets, each in turn.
pub(crate) struct Narrowing<'m, const W: usize> {
    /// One of each of these must hold.
    choices: Vec<Vec<Region<W>>>,
    exact: bool,
    memberships: &'m mut Memberships,
}

impl<const W: usize> Narrowing<'_, W> {
    /// Leaves what is in one of these.
    pub fn one_of(&mut self, options: Vec<Region<W>>) {
        self.choices.push(options);
    }

    /// Says that what is left is too much, and to be looked at exactly.
    pub fn inexact(&mut self) {
        self.exact = false;
    }

    /// One region for each item; a list turned round is left to the exact look.
    pub fn list_of<T>(&mut self, list: &List<T>, region: impl FnMut(&T) -> Region<W>) {
        if list.not {
            self.inexact();
        } else {
            self.one_of(list.items.iter().map(region).collect());
        }
    }

    /// Leaves those of which an address is in a list.
    pub fn addresses(&mut self, list: &List<Address>, side: Side) {
        let first = if side == Side::Source { 0 } else { Key::<W>::A };
        let mut options = Vec::new();
        // What is in none of some sets is one region, with all of their bits asked to be clear.
        let mut none = Region::ALL;
        for item in &list.items {
            match item {
                Address::Net(IpNet::V4(net)) if Key::<W>::A == 1 => {
                    let (value, mask) = (u32::from(net.network()), u32::from(net.netmask()));
                    options.push(Region::ALL.with(first, value, mask));
                }
                Address::Net(IpNet::V6(net)) if Key::<W>::A == 4 => {
                    let (value, mask) = (u128::from(net.network()), u128::from(net.netmask()));
                    let mut region = Region::ALL;
                    for n in 0..4 {
                        let shift = 96 - 32 * n as u32;
                        region = region.with(first + n, (value >> shift) as u32, (mask >> shift) as u32);
                    }
                    options.push(region);
                }
                Address::Net(_) => {}
                Address::Set { number, .. } => {
                    let memberships = &mut *self.memberships;
                    let bit = memberships.iter().position(|known| *known == (*number, side)).or_else(|| {
                        let room = memberships.len() < MOST_MEMBERSHIPS;
                        room.then(|| memberships.push((*number, side)))?;
                        Some(memberships.len() - 1)
                    });
                    let Some(bit) = bit else {
                        return self.inexact();
                    };
                    let bit = 1 << (SETS + bit as u32);
                    options.push(Region::ALL.with(Key::<W>::LAST, bit, bit));
                    none.mask[Key::<W>::LAST] |= bit;
                }
            }
        }
        if !list.not {
            self.one_of(options);
        } else {
            self.one_of(vec![none]);
            self.exact &= list.items.iter().all(|item| matches!(item, Address::Set { .. }));
        }
    }
}
