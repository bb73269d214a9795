//! Interfaces: what has addresses, an MTU and a MAC, beside ports, which have queues.
//!
//! Each port has an interface of its own, with the port's number. A VLAN on a port is another one.
//! Both lanes ask two things of this table:
//!
//! ```text
//! in:   port, tags of the frame --tags--> InterfaceId --interfaces--> MAC, MTU, what it may do
//! out:  Adjacency --> InterfaceId --interfaces--> port, and the bytes between the MACs and the type
//! ```
//!
//! The way in is at most three loads: the port's root for this kind of tag (802.1Q or 802.1ad), the
//! word of the outer identifier, and where that one carries tags itself, the word of the inner one.
//! The way out is one line of memory: the link header of a frame is made of the neighbour's MAC,
//! which the adjacency has, and of the interface's MAC and tags.

use crate::FibError;
use crate::grace::{Grace, Retired};
use crate::memory::{Arrays, PORTS, Pair, WorkerMemory};
use crate::word::{InterfaceWord, LinkWord};
use crate::{InterfaceFlags, PortId, TableId, Tunnel, tunnel};
use abi::fib::{INTERFACES, POINTER, TAGS};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words of a block of tags, one for each VLAN identifier.
const BLOCK: usize = TAGS as usize;
/// Blocks of tags at most. The first holds the roots: two words a port, one for each kind of tag.
const TAG_BLOCKS: u32 = 512;
/// Bytes of all of them.
pub(crate) const TAG_BYTES: usize = TAG_BLOCKS as usize * BLOCK * 4;
/// Set in a word of tags that names the block of the tags that follow; clear in one that is an
/// interface's number + 1.
pub(crate) const INNER: u32 = POINTER;

/// An index into the interfaces, 0..16,383. Those below 256 are the ports' own, by the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct InterfaceId(pub u16);

impl InterfaceId {
    /// No interface.
    pub const NONE: InterfaceId = InterfaceId(abi::driver::NO_PORT);
    /// The first that is no port's own.
    pub const FIRST_LOGICAL: InterfaceId = InterfaceId(abi::driver::MAX_PORTS);
    /// How many there are at most, the ports' own among them.
    pub const COUNT: usize = INTERFACES as usize;
}

/// A tag of IEEE 802.1Q: the identifier of a VLAN, and of which kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag {
    /// 802.1ad's (type 88a8), a provider's; else 802.1Q's (type 8100).
    pub service: bool,
    /// 1..=4,094.
    pub id: u16,
}

impl Tag {
    /// Bytes of a tag.
    pub const BYTES: usize = 4;

    /// As it stands in a frame, behind the addresses: type, then identifier, with priority 0.
    fn bytes(self) -> [u8; 4] {
        let kind = if self.service { abi::ethernet::QINQ } else { abi::ethernet::VLAN };
        let ([a, b], [c, d]) = (kind.to_be_bytes(), self.id.to_be_bytes());
        [a, b, c, d]
    }
}

/// What stands in front of an interface's packets: tags behind the addresses of its frames, or a
/// tunnel's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tags {
    /// None: the port's own interface.
    #[default]
    None,
    /// One.
    One(Tag),
    /// Two, the outer first. The inner one is 802.1Q's: others Linux does.
    Two(Tag, u16),
    /// A tunnel's header, by whatever port.
    Tunnel(Tunnel),
}

impl Tags {
    /// The tunnel, if it is one.
    pub fn tunnel(&self) -> Option<&Tunnel> {
        if let Tags::Tunnel(tunnel) = self { Some(tunnel) } else { None }
    }

    /// The outer tag, and the identifier of the inner one.
    fn parts(self) -> Option<(Tag, Option<u16>)> {
        match self {
            Tags::None | Tags::Tunnel(_) => None,
            Tags::One(tag) => Some((tag, None)),
            Tags::Two(tag, inner) => Some((tag, Some(inner))),
        }
    }

    /// As they stand in a frame behind the addresses, with priority 0: none, 4 or 8 bytes.
    pub fn bytes(self) -> Vec<u8> {
        let (length, bytes) = self.header();
        bytes.to_be_bytes()[..usize::from(length)].to_vec()
    }

    /// How many bytes they are, 0, 4 or 8, and these, left-aligned in a big-endian number.
    pub(crate) fn header(self) -> (u8, u64) {
        let (outer, inner, length) = match self {
            Tags::None | Tags::Tunnel(_) => ([0; 4], [0; 4], 0),
            Tags::One(tag) => (tag.bytes(), [0; 4], 4),
            Tags::Two(outer, id) => (outer.bytes(), Tag { service: false, id }.bytes(), 8),
        };
        (length, u64::from(u32::from_be_bytes(outer)) << 32 | u64::from(u32::from_be_bytes(inner)))
    }
}

/// The priorities that an interface's tags say (IEEE 802.1Q, 9.6), 0..=7: those of the outer one
/// and of the inner one, by two bits of IPv4's type of service (0x18); the first of them also of
/// other packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priorities(pub [[u8; 4]; 2]);

impl Priorities {
    /// Bits of what differs from the first of both tags, of each of the other classes of service.
    pub(crate) const BITS: u32 = 6;
    /// The type of service that is looked at, and where.
    pub const CLASS_AT: u32 = 3;

    /// Those of the first class, as they stand in two tags.
    pub(crate) fn usual(self) -> u64 {
        let [outer, inner] = self.0;
        PriorityBits(u32::from(outer[0] & 7) | u32::from(inner[0] & 7) << 3).in_tags()
    }

    /// What is to be changed about that for the three other classes.
    pub(crate) fn others(self) -> u32 {
        let [outer, inner] = self.0.map(|of| of.map(|priority| u32::from(priority & 7)));
        let differs = |class: usize| outer[class] ^ outer[0] | (inner[class] ^ inner[0]) << 3;
        (1..4).fold(0, |bits, class| bits | differs(class) << ((class as u32 - 1) * Priorities::BITS))
    }
}

/// Three bits of the outer tag, three of the inner one.
pub(crate) struct PriorityBits(pub u32);

impl PriorityBits {
    /// As they stand in two tags, left-aligned in a big-endian number.
    #[inline(always)]
    pub(crate) fn in_tags(&self) -> u64 {
        u64::from(self.0 & 7) << 45 | u64::from(self.0 >> 3 & 7) << 13
    }
}

/// An interface as the data path sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceEntry {
    /// Linux's interface index, not 0.
    pub ifindex: u32,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Its own MAC.
    pub mac: [u8; 6],
    /// What it may do.
    pub flags: InterfaceFlags,
    /// The port that it is on; `NONE` of a tunnel.
    pub port: PortId,
    /// The tags of its frames on that port.
    pub tags: Tags,
    /// The table that routes what comes in by it.
    pub table: TableId,
    /// The priorities in its tags.
    pub priorities: Priorities,
}

impl InterfaceEntry {
    /// A port's own interface, which has no tags, routed by the main table.
    pub fn of_port(
        port: PortId,
        ifindex: u32,
        mtu: u32,
        mac: [u8; 6],
        flags: InterfaceFlags,
    ) -> InterfaceEntry {
        let (tags, table, priorities) = (Tags::None, TableId::MAIN, Priorities::default());
        InterfaceEntry { ifindex, mtu, mac, flags, port, tags, table, priorities }
    }
}

/// The writer.
pub(crate) struct Table {
    interfaces: Pair<AtomicU64>,
    tags: Pair<AtomicU32>,
    /// What is written, by number.
    entries: HashMap<InterfaceId, InterfaceEntry>,
    blocks: HashMap<u32, Block>,
    free: Vec<u32>,
    used: u32,
    tunnels: tunnel::Table,
}

/// A block of tags.
struct Block {
    /// Where the word is that names it.
    named_at: usize,
    /// Words in it that are not 0.
    words: usize,
}

impl Table {
    pub(crate) fn new(worker: &WorkerMemory, driver: Option<&Arrays>) -> Table {
        Table {
            interfaces: Pair {
                worker: worker.arrays.interfaces,
                driver: driver.map(|arrays| arrays.interfaces),
            },
            tags: Pair { worker: worker.arrays.tags, driver: driver.map(|arrays| arrays.tags) },
            entries: HashMap::new(),
            blocks: HashMap::new(),
            free: Vec::new(),
            // The first holds the roots.
            used: 1,
            tunnels: tunnel::Table::new(worker),
        }
    }

    /// Writes an interface, or that there is none of this number. On an error nothing has changed.
    pub(crate) fn set(
        &mut self,
        id: InterfaceId,
        entry: Option<InterfaceEntry>,
        grace: &mut Grace,
    ) -> Result<(), FibError> {
        if usize::from(id.0) >= InterfaceId::COUNT
            || entry.is_some_and(|entry| entry.tags.tunnel().is_none() && usize::from(entry.port.0) >= PORTS)
        {
            return Err(FibError::NoSuchInterface(id.0));
        }
        let place = |entry: &InterfaceEntry| (entry.port, entry.tags);
        let before = self.entries.get(&id).copied();
        let moves = before.as_ref().map(place) != entry.as_ref().map(place);
        if moves && let Some(entry) = &entry {
            self.add_tags(id, entry)?;
        }
        let slot = self.tunnels.set(id, entry.as_ref().and_then(|entry| entry.tags.tunnel()), grace)?;
        self.write(id, entry, slot);
        if moves && let Some(before) = &before {
            self.remove_tags(before, grace);
        }
        match entry {
            Some(entry) => self.entries.insert(id, entry),
            None => self.entries.remove(&id),
        };
        Ok(())
    }

    pub(crate) fn get(&self, id: InterfaceId) -> Option<InterfaceEntry> {
        self.entries.get(&id).copied()
    }

    pub(crate) fn tunnels(&mut self) -> &mut tunnel::Table {
        &mut self.tunnels
    }

    pub(crate) fn free_block(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Four words cannot change at once: when those behind the first do, the interface is down
    /// meanwhile.
    fn write(&self, id: InterfaceId, entry: Option<InterfaceEntry>, slot: u32) {
        let InterfaceWord([flags, mtu]) = entry.as_ref().map_or(InterfaceWord::NONE, InterfaceWord::new);
        let LinkWord([tags, port]) =
            entry.as_ref().map_or(LinkWord::NONE, |entry| LinkWord::new(entry, slot));
        let at = usize::from(id.0) * 4;
        let rest = [mtu, tags, port];
        let is = |n: usize| self.interfaces.worker[at + 1 + n].load(Ordering::Relaxed);
        if (0..rest.len()).any(|n| is(n) != rest[n]) {
            self.interfaces.store(at, 0);
            rest.iter().enumerate().for_each(|(n, word)| self.interfaces.store(at + 1 + n, *word));
        }
        self.interfaces.store(at, flags);
    }

    /// Frames with these tags enter by this interface from now on.
    fn add_tags(&mut self, id: InterfaceId, entry: &InterfaceEntry) -> Result<(), FibError> {
        let Some((outer, inner)) = entry.tags.parts() else { return Ok(()) };
        let root = self.block(root_at(entry.port, outer.service))?;
        let outer_at = in_block(root, outer.id);
        let is = self.tag(outer_at);
        let at = match inner {
            // The interface of the outer tag alone stands at 0 of the block of those inside it.
            None if is & INNER != 0 => in_block(is & !INNER, 0),
            None => outer_at,
            Some(id) if is & INNER != 0 => in_block(is & !INNER, id),
            Some(id) => in_block(self.open(outer_at, is)?, id),
        };
        match self.tag(at) {
            0 => {
                self.put(at, u32::from(id.0) + 1);
                Ok(())
            }
            has if has == u32::from(id.0) + 1 => Ok(()),
            _ => Err(FibError::TagsTaken { port: entry.port.0 }),
        }
    }

    /// Makes the block of the tags inside an outer one, whose word is at `at` and has been `is`.
    fn open(&mut self, at: usize, is: u32) -> Result<u32, FibError> {
        let number = self.new_block(at)?;
        if is != 0 {
            self.put(in_block(number, 0), is);
        } else {
            self.count(at, 1);
        }
        self.store(at, number | INNER);
        Ok(number)
    }

    /// The block of a root, made if there is none.
    fn block(&mut self, root: usize) -> Result<u32, FibError> {
        match self.tag(root) {
            0 => {
                let number = self.new_block(root)?;
                self.store(root, number);
                Ok(number)
            }
            number => Ok(number),
        }
    }

    fn new_block(&mut self, named_at: usize) -> Result<u32, FibError> {
        let limit = TAG_BLOCKS as usize;
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.used < TAG_BLOCKS => {
                self.used += 1;
                self.used - 1
            }
            None => return Err(FibError::TooManyTags { limit }),
        };
        self.blocks.insert(number, Block { named_at, words: 0 });
        Ok(number)
    }

    /// No frame enters by these tags any more.
    fn remove_tags(&mut self, entry: &InterfaceEntry, grace: &mut Grace) {
        let Some((outer, inner)) = entry.tags.parts() else { return };
        let root = self.tag(root_at(entry.port, outer.service));
        let outer_at = in_block(root, outer.id);
        let at = match self.tag(outer_at) {
            is if is & INNER != 0 => in_block(is & !INNER, inner.unwrap_or(0)),
            _ => outer_at,
        };
        self.clear(at, grace);
    }

    /// A block whose last word goes is removed as well.
    fn clear(&mut self, at: usize, grace: &mut Grace) {
        self.store(at, 0);
        self.count(at, -1);
        let number = (at / BLOCK) as u32;
        if self.blocks.get(&number).is_some_and(|block| block.words == 0)
            && let Some(block) = self.blocks.remove(&number)
        {
            match block.named_at {
                root if root < BLOCK => self.store(root, 0),
                outer => self.clear(outer, grace),
            }
            grace.retire(Retired::Tags(number));
        }
    }

    fn put(&mut self, at: usize, word: u32) {
        self.store(at, word);
        self.count(at, 1);
    }

    fn count(&mut self, at: usize, by: isize) {
        if let Some(block) = self.blocks.get_mut(&((at / BLOCK) as u32)) {
            block.words = block.words.saturating_add_signed(by);
        }
    }

    fn store(&self, at: usize, word: u32) {
        self.tags.store(at, word);
    }

    fn tag(&self, at: usize) -> u32 {
        self.tags.worker[at].load(Ordering::Relaxed)
    }
}

/// Where the root of a port stands, for one kind of tag.
#[inline(always)]
pub(crate) fn root_at(port: PortId, service: bool) -> usize {
    usize::from(port.0) * 2 + usize::from(service)
}

/// Where the word of an identifier stands.
#[inline(always)]
pub(crate) fn in_block(block: u32, id: u16) -> usize {
    block as usize * BLOCK + usize::from(id) % BLOCK
}
