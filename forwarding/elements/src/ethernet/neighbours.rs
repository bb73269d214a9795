//! Which Ethernet addresses a link's neighbours are at, and the packets that wait to know: what ARP
//! and neighbour discovery have in common.
//!
//! Times are milliseconds, as Click counts them. Entries lie in a slab, linked from the oldest news
//! to the newest; a hash map leads from an address to its slot. The hit path reads one bucket of
//! the map and one entry, and writes nothing.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};

use graph::arguments::{Argument, Seconds, unparse};
use graph::language::split_words;
use graph::{Context, HandlerError};
use port::Packet;
use wire::{Mac, Reason};

/// No entry.
const NONE: usize = usize::MAX;
/// Milliseconds between two queries for an address, and after many without an answer.
const BETWEEN_QUERIES: i64 = 100;
const BETWEEN_VAIN_QUERIES: i64 = 2000;
const MANY_QUERIES: u8 = 10;

/// What a table may hold, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Packets that wait; 0: any number.
    pub(crate) packets: usize,
    /// Entries; 0: any number.
    pub(crate) entries: usize,
    /// Packets that wait for one address; 0: any number.
    pub(crate) entry_packets: usize,
    /// Never 0.
    pub(crate) slim_factor: usize,
    /// Milliseconds; 0: for ever.
    pub(crate) timeout: i64,
}

/// An amount of time as tables count it.
pub(crate) fn milliseconds(time: Seconds) -> i64 {
    time.0 / 1_000_000
}

/// The time as tables count it.
pub(crate) fn now(cx: &mut Context<'_>) -> i64 {
    (cx.now() / 1_000_000) as i64
}

/// Where an address is, as far as one knows.
struct Entry<A> {
    address: A,
    mac: Mac,
    known: bool,
    /// Queries since the last answer.
    queries: u8,
    /// When there were news last.
    live: i64,
    /// When it was asked for last.
    asked: i64,
    older: usize,
    newer: usize,
    waiting: VecDeque<Packet>,
}

impl<A> Entry<A> {
    fn expired(&self, now: i64, timeout: i64) -> bool {
        timeout != 0 && self.live + timeout < now
    }

    fn holds(&self, now: i64, timeout: i64) -> bool {
        self.known && !self.expired(now, timeout)
    }

    /// Whether it may be asked for now; if so, it is noted as asked for.
    fn ask(&mut self, now: i64) -> bool {
        let pause = if self.queries >= MANY_QUERIES { BETWEEN_VAIN_QUERIES } else { BETWEEN_QUERIES };
        let may = now >= self.asked + pause;
        if may {
            self.asked = now;
            self.queries = self.queries.saturating_add(1);
        }
        may
    }
}

/// What became of a packet to an address that isn't known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// It waits, and its address is to be asked for.
    Asking,
    /// It waits; its address was asked for a moment ago.
    Quietly,
    /// It was dropped.
    Not,
}

/// The neighbours on a link.
pub(crate) struct Neighbours<A: Address> {
    pub(crate) limits: Limits,
    slots: HashMap<A::Bits, usize, Seed>,
    entries: Vec<Entry<A>>,
    free: Vec<usize>,
    oldest: usize,
    newest: usize,
    waiting: usize,
    drops: u64,
}

impl<A: Address> Neighbours<A> {
    pub(crate) fn new(limits: Limits) -> Neighbours<A> {
        Neighbours {
            limits,
            slots: HashMap::with_hasher(Seed(RandomState::new().hash_one(0u8))),
            entries: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            waiting: 0,
            drops: 0,
        }
    }

    /// Waiting packets dropped so far.
    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// Where an address is. And whether to ask again, because the last news are older than `poll`
    /// milliseconds (0: never).
    #[inline]
    pub(crate) fn look(&mut self, address: A, now: i64, poll: i64) -> Option<(Mac, bool)> {
        let entry = self.entries.get_mut(*self.slots.get(&address.bits())?)?;
        if !entry.holds(now, self.limits.timeout) {
            return None;
        }
        let ask = poll != 0 && now >= entry.live + poll && entry.ask(now);
        Some((entry.mac, ask))
    }

    /// Notes where an address is (the broadcast address: not known any more), and gives back what
    /// waited for it.
    pub(crate) fn insert(
        &mut self,
        address: A,
        mac: Mac,
        now: i64,
        cx: &mut Context<'_>,
    ) -> VecDeque<Packet> {
        let slot = self.ensure(address, now, cx);
        self.unlink(slot);
        self.link_before(slot, NONE);
        let entry = &mut self.entries[slot];
        (entry.mac, entry.known) = (mac, !mac.is_broadcast());
        (entry.live, entry.asked, entry.queries) = (now, now - 1000, 0);
        let waiting = std::mem::take(&mut entry.waiting);
        self.waiting -= waiting.len();
        waiting
    }

    /// As [`Neighbours::insert`]; what waits goes on waiting.
    fn note(&mut self, address: A, mac: Mac, now: i64, cx: &mut Context<'_>) {
        let waiting = self.insert(address, mac, now, cx);
        if let Some(&slot) = self.slots.get(&address.bits()) {
            self.waiting += waiting.len();
            self.entries[slot].waiting = waiting;
        }
    }

    /// Lets a packet wait for its address.
    pub(crate) fn wait(&mut self, address: A, packet: Packet, now: i64, cx: &mut Context<'_>) -> Waits {
        let slot = self.ensure(address, now, cx);
        self.keep(slot, now);
        let limit = self.limits.entry_packets;
        if limit != 0 && self.entries[slot].waiting.len() >= limit {
            self.drop(packet, cx);
            return Waits::Not;
        }
        self.waiting += 1;
        if self.limits.packets != 0 && self.waiting > self.limits.packets {
            self.slim(now, cx);
        }
        let entry = &mut self.entries[slot];
        entry.waiting.push_back(packet);
        if entry.ask(now) { Waits::Asking } else { Waits::Quietly }
    }

    /// Forgets what has expired and what is too much.
    pub(crate) fn slim(&mut self, now: i64, cx: &mut Context<'_>) {
        while let Some(oldest) = self.entries.get(self.oldest).filter(|_| self.oldest != NONE) {
            let many = self.limits.entries != 0 && self.slots.len() > self.limits.entries;
            if !oldest.expired(now, self.limits.timeout) && !many {
                break;
            }
            self.remove(self.oldest, cx);
        }
        if self.limits.packets == 0 || self.waiting <= self.limits.packets {
            return;
        }
        // The packet for whose sake this is done is counted already.
        let most = (self.limits.packets - self.limits.packets / self.limits.slim_factor.max(1)).max(1);
        let mut slot = self.oldest;
        while slot != NONE && self.waiting > most {
            while self.waiting > most
                && let Some(packet) = self.entries[slot].waiting.pop_front()
            {
                self.waiting -= 1;
                self.drop(packet, cx);
            }
            slot = self.entries[slot].newer;
        }
    }

    fn clear(&mut self, cx: &mut Context<'_>) {
        while self.oldest != NONE {
            self.remove(self.oldest, cx);
        }
    }

    /// An address's entry, made if need be.
    fn ensure(&mut self, address: A, now: i64, cx: &mut Context<'_>) -> usize {
        if let Some(&slot) = self.slots.get(&address.bits()) {
            return slot;
        }
        // The new one counts already, so that it is not the one to go.
        let many = self.limits.entries != 0 && self.slots.len() >= self.limits.entries;
        if many {
            self.slim(now, cx);
            if self.slots.len() >= self.limits.entries && self.oldest != NONE {
                self.remove(self.oldest, cx);
            }
        }
        let entry = Entry {
            address,
            mac: Mac::BROADCAST,
            known: false,
            queries: 0,
            live: now,
            asked: now - 1000,
            older: NONE,
            newer: NONE,
            waiting: VecDeque::new(),
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.slots.insert(address.bits(), slot);
        self.link_before(slot, NONE);
        slot
    }

    /// Keeps an entry that is wanted just this side of expiring.
    fn keep(&mut self, slot: usize, now: i64) {
        let least = now - self.limits.timeout;
        if self.limits.timeout == 0 || self.entries[slot].live >= least {
            return;
        }
        self.entries[slot].live = least;
        let next = self.entries[slot].newer;
        let mut newer = next;
        while newer != NONE && self.entries[newer].live < least {
            newer = self.entries[newer].newer;
        }
        if newer != next {
            self.unlink(slot);
            self.link_before(slot, newer);
        }
    }

    fn remove(&mut self, slot: usize, cx: &mut Context<'_>) {
        self.unlink(slot);
        self.slots.remove(&self.entries[slot].address.bits());
        self.free.push(slot);
        let waiting = std::mem::take(&mut self.entries[slot].waiting);
        self.waiting -= waiting.len();
        waiting.into_iter().for_each(|packet| self.drop(packet, cx));
    }

    fn drop(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.drops += 1;
        cx.drop(packet, Reason::QueueFull);
    }

    fn unlink(&mut self, slot: usize) {
        let (older, newer) = (self.entries[slot].older, self.entries[slot].newer);
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer].older = older,
        }
    }

    /// Puts an entry that is not in the order before `newer`, or at the end.
    fn link_before(&mut self, slot: usize, newer: usize) {
        let older = if newer == NONE { self.newest } else { self.entries[newer].older };
        (self.entries[slot].older, self.entries[slot].newer) = (older, newer);
        match older {
            NONE => self.oldest = slot,
            older => self.entries[older].newer = slot,
        }
        match newer {
            NONE => self.newest = slot,
            newer => self.entries[newer].older = slot,
        }
    }

    /// Whether there is an entry for an address, be it known or asked for.
    pub(crate) fn has(&self, address: A) -> bool {
        self.slots.contains_key(&address.bits())
    }

    /// The addresses, whether they are known, and where they are; the oldest news first.
    pub(crate) fn list(&self, now: i64) -> impl Iterator<Item = (A, bool, Mac)> {
        self.by_age().map(move |entry| (entry.address, entry.holds(now, self.limits.timeout), entry.mac))
    }

    fn by_age(&self) -> impl Iterator<Item = &Entry<A>> {
        let next = |entry: &&Entry<A>| self.entries.get(entry.newer);
        std::iter::successors(self.entries.get(self.oldest), next)
    }

    /// Reads what this table has of the handlers.
    pub(crate) fn read(&self, handler: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "table" => {
                let now = now(cx);
                let line = |entry: &Entry<A>| {
                    let known = u8::from(entry.holds(now, self.limits.timeout));
                    let (mac, age) =
                        (unparse::ethernet(entry.mac), unparse::timestamp((now - entry.live) * 1_000_000));
                    format!("{} {known} {mac} {age}\n", entry.address)
                };
                Ok(self.by_age().map(line).collect())
            }
            "drops" => Ok(self.drops.to_string()),
            "count" => Ok(self.slots.len().to_string()),
            "length" => Ok(self.waiting.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    /// Writes what this table has of the handlers.
    pub(crate) fn write(
        &mut self,
        handler: &str,
        value: &str,
        cx: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let now = now(cx);
        match (handler, split_words(value).as_slice()) {
            ("insert", [address, mac]) => self.note(cx.argument(address)?, cx.argument(mac)?, now, cx),
            ("insert", _) => return Err(HandlerError::refused("expected 'IP ETH'")),
            ("delete", [address]) => self.note(cx.argument(address)?, Mac::BROADCAST, now, cx),
            ("delete", _) => return Err(HandlerError::refused("expected 'IP'")),
            ("clear", _) => self.clear(cx),
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    /// Looks for what has expired now, and every so often from now on, by timer 0.
    pub(crate) fn begin(&self, cx: &mut Context<'_>) {
        if self.limits.timeout != 0 {
            let at = cx.now() + self.seconds() * 1_000_000_000;
            cx.set_timer(0, at);
        }
    }

    /// What timer 0 is for.
    pub(crate) fn expire(&mut self, cx: &mut Context<'_>) {
        let now = now(cx);
        self.slim(now, cx);
        if self.limits.timeout != 0 {
            let at = cx.now() + (self.seconds() + 1) * 1_000_000_000;
            cx.set_timer(0, at);
        }
    }

    fn seconds(&self) -> u64 {
        self.limits.timeout.unsigned_abs() / 1000
    }
}

/// An address of either family.
pub(crate) trait Address: Copy + Display + Argument {
    /// It as a number, which is hashed at once.
    type Bits: Hash + Eq;
    fn bits(self) -> Self::Bits;
}

impl Address for Ipv4Addr {
    type Bits = u32;

    #[inline]
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Address for Ipv6Addr {
    type Bits = u128;

    #[inline]
    fn bits(self) -> u128 {
        self.to_bits()
    }
}

/// Hashes addresses by a multiplication, seeded so that nobody outside can choose addresses that
/// collide.
#[derive(Clone)]
struct Seed(u64);

impl BuildHasher for Seed {
    type Hasher = AddressHasher;

    #[inline]
    fn build_hasher(&self) -> AddressHasher {
        AddressHasher(self.0)
    }
}

struct AddressHasher(u64);

impl Hasher for AddressHasher {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
        self.write_u64((number >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Takes over what a table holds that this one replaces.
pub(crate) fn inherit<A: Address>(
    own: &mut Option<Box<Neighbours<A>>>,
    old: &mut Option<Box<Neighbours<A>>>,
) {
    if let (Some(own), Some(mut old)) = (own.as_mut(), old.take()) {
        old.limits = own.limits;
        *own = old;
    }
}
