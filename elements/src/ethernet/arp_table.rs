//! ARPTable: which Ethernet address an IPv4 address is at, and packets that wait to know.
//!
//! Group: ethernet
//! Usage: `ARPTable([CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, TIMEOUT])`
//! Ports: 0 inputs, 0 outputs
//!
//! Each [ARPQuerier] has a table of its own, unless its argument `TABLE` names an ARPTable: so that several may share what they
//! learn. Entries are kept in the order of their last news. When too many packets wait, the oldest entries' packets
//! are dropped first.
//!
//! - `CAPACITY` (number): how many packets may wait in all; default 2048; 0: any number
//! - `ENTRY_CAPACITY` (number): how many entries there may be; default 0: any number
//! - `ENTRY_PACKET_CAPACITY` (number): how many packets may wait for the same address; default 0: any number
//! - `CAPACITY_SLIM_FACTOR` (number, not 0): what part of the capacity is freed when it is exceeded: 1 / this; default 2
//! - `TIMEOUT` (time): how long an entry holds without news; default 5 minutes; 0: for ever
//!
//! Handlers:
//! - `table` (read): a line for each entry, the oldest first: IPv4 address, 1 if it is known and holds else 0, Ethernet address,
//!   seconds since its last news
//! - `drops` (read): how many waiting packets were dropped
//! - `count` (read): how many entries there are
//! - `length` (read): how many packets wait
//! - `insert` (write `IP ETH`): adds or changes an entry
//! - `delete` (write `IP`): forgets where an address is
//! - `clear` (write): forgets everything; waiting packets are dropped
//!
//! See also: [ARPQuerier]

// Times are milliseconds, as Click counts them. Entries lie in a slab, linked from the oldest news to the newest; a hash map leads
// from an address to its slot. The hit path reads one map bucket and one entry, and writes nothing.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Refused, Seconds, unparse};
use graph::language::split_words;
use graph::{Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Mac, Reason};

pub const CLASS: Class = Class {
    name: "ARPTable",
    ports: "0/0",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("arp_table.rs"),
    make,
};

/// No entry.
const NONE: usize = usize::MAX;
/// Milliseconds between two queries for an address, and after many without an answer.
const BETWEEN_QUERIES: i64 = 100;
const BETWEEN_VAIN_QUERIES: i64 = 2000;
const MANY_QUERIES: u8 = 10;

/// What a table may hold, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Packets that wait; 0: any number.
    packets: usize,
    /// Entries; 0: any number.
    entries: usize,
    /// Packets that wait for one address; 0: any number.
    entry_packets: usize,
    /// Never 0.
    slim_factor: usize,
    /// Milliseconds; 0: for ever.
    timeout: i64,
}

impl Limits {
    /// The arguments that say so.
    pub(super) fn read(args: &mut Arguments<'_>) -> Limits {
        let number = |args: &mut Arguments<'_>, keyword, default| {
            args.keyword::<u32>(keyword).map_or(default, |number| number as usize)
        };
        let limits = Limits {
            packets: number(args, "CAPACITY", 2048),
            entries: number(args, "ENTRY_CAPACITY", 0),
            entry_packets: number(args, "ENTRY_PACKET_CAPACITY", 0),
            slim_factor: number(args, "CAPACITY_SLIM_FACTOR", 2),
            timeout: args.keyword::<Seconds>("TIMEOUT").map_or(300_000, milliseconds),
        };
        if limits.slim_factor == 0 {
            args.wrong("CAPACITY_SLIM_FACTOR", "cannot be zero");
        }
        limits
    }
}

/// An amount of time as tables count it.
pub(super) fn milliseconds(time: Seconds) -> i64 {
    time.0 / 1_000_000
}

/// The time as tables count it.
pub(super) fn now(cx: &mut Context<'_>) -> i64 {
    (cx.now() / 1_000_000) as i64
}

/// Where an address is, as far as one knows.
struct Entry {
    address: Ipv4Addr,
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

impl Entry {
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
pub(super) enum Waits {
    /// It waits, and its address is to be asked for.
    Asking,
    /// It waits; its address was asked for a moment ago.
    Quietly,
    /// It was dropped.
    Not,
}

/// The table itself.
pub(super) struct Table {
    pub(super) limits: Limits,
    slots: HashMap<u32, usize, Seed>,
    entries: Vec<Entry>,
    free: Vec<usize>,
    oldest: usize,
    newest: usize,
    waiting: usize,
    drops: u64,
}

impl Table {
    pub(super) fn new(limits: Limits) -> Table {
        Table {
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
    pub(super) fn drops(&self) -> u64 {
        self.drops
    }

    /// Where an address is. And whether to ask again, because the last news are older than `poll` milliseconds (0: never).
    #[inline]
    pub(super) fn look(&mut self, address: Ipv4Addr, now: i64, poll: i64) -> Option<(Mac, bool)> {
        let entry = self.entries.get_mut(*self.slots.get(&address.to_bits())?)?;
        if !entry.holds(now, self.limits.timeout) {
            return None;
        }
        let ask = poll != 0 && now >= entry.live + poll && entry.ask(now);
        Some((entry.mac, ask))
    }

    /// Notes where an address is (the broadcast address: not known any more), and gives back what waited for it.
    pub(super) fn insert(
        &mut self,
        address: Ipv4Addr,
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

    /// As [`Table::insert`]; what waits goes on waiting.
    fn note(&mut self, address: Ipv4Addr, mac: Mac, now: i64, cx: &mut Context<'_>) {
        let waiting = self.insert(address, mac, now, cx);
        if let Some(&slot) = self.slots.get(&address.to_bits()) {
            self.waiting += waiting.len();
            self.entries[slot].waiting = waiting;
        }
    }

    /// Lets a packet wait for its address.
    pub(super) fn wait(
        &mut self,
        address: Ipv4Addr,
        packet: Packet,
        now: i64,
        cx: &mut Context<'_>,
    ) -> Waits {
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
    pub(super) fn slim(&mut self, now: i64, cx: &mut Context<'_>) {
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
    fn ensure(&mut self, address: Ipv4Addr, now: i64, cx: &mut Context<'_>) -> usize {
        if let Some(&slot) = self.slots.get(&address.to_bits()) {
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
        self.slots.insert(address.to_bits(), slot);
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
        self.slots.remove(&self.entries[slot].address.to_bits());
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

    fn by_age(&self) -> impl Iterator<Item = &Entry> {
        let next = |entry: &&Entry| self.entries.get(entry.newer);
        std::iter::successors(self.entries.get(self.oldest), next)
    }

    /// Reads what this table has of the handlers.
    pub(super) fn read(&self, handler: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "table" => {
                let now = now(cx);
                let line = |entry: &Entry| {
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
    pub(super) fn write(
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
    pub(super) fn begin(&self, cx: &mut Context<'_>) {
        if self.limits.timeout != 0 {
            let at = cx.now() + self.seconds() * 1_000_000_000;
            cx.set_timer(0, at);
        }
    }

    /// What timer 0 is for.
    pub(super) fn expire(&mut self, cx: &mut Context<'_>) {
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

/// Hashes addresses by a multiplication, seeded so that nobody outside can choose addresses that collide.
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
    fn write_u32(&mut self, number: u32) {
        let product = u128::from(self.0 ^ u64::from(number)) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A table that several ARPQueriers share. While one of them works on it, it has it.
pub(super) struct ArpTable {
    pub(super) table: Option<Box<Table>>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let limits = Limits::read(args);
    args.finish()?;
    Ok(Box::new(ArpTable { table: Some(Box::new(Table::new(limits))) }))
}

impl Element for ArpTable {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.table.iter().for_each(|table| table.begin(cx));
        Ok(())
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        self.table.iter_mut().for_each(|table| table.expire(cx));
    }

    fn handlers(&self) -> Vec<Handler> {
        let read = ["table", "drops", "count", "length"].map(Handler::read);
        let write = ["insert", "delete", "clear"].map(Handler::write);
        read.into_iter().chain(write).collect()
    }

    fn read(&mut self, handler: &str, _: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        self.table.as_ref().ok_or_else(|| HandlerError::unknown(handler))?.read(handler, cx)
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.table.as_mut().ok_or_else(|| HandlerError::unknown(handler))?.write(handler, value, cx)
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        let old: Box<dyn Any> = old;
        if let Ok(mut old) = old.downcast::<ArpTable>() {
            inherit(&mut self.table, &mut old.table);
        }
    }
}

/// Takes over what a table holds that this one replaces.
pub(super) fn inherit(own: &mut Option<Box<Table>>, old: &mut Option<Box<Table>>) {
    if let (Some(own), Some(mut old)) = (own.as_mut(), old.take()) {
        old.limits = own.limits;
        *own = old;
    }
}
