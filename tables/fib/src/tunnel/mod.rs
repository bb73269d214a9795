//! IP tunnels: the header that stands in front of an interface's packets, made in advance, and how
//! the interface of a packet is found by the header that it came in.
//!
//! ```text
//! in:   source, destination, protocol, key --hash--> a tunnel's words --> InterfaceId
//! out:  InterfaceId --link word--> a tunnel's words: the header, and how large a packet may be
//! ```
//!
//! A tunnel's words never change while a reader may see them, but for the path's MTU, which is one
//! word: another header is other words elsewhere, to which the interface is led by one store. Only
//! workers read them: the driver hands tunnels' packets over.

use crate::FibError;
use crate::grace::{Grace, Retired};
use crate::memory::{Array, WorkerMemory};
use crate::{Hops, InterfaceId};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Tunnels at most, and those that readers may still see.
const TUNNELS: u32 = 8192;
/// Words of a tunnel: one cache line.
const WORDS: usize = 8;
/// Places of the index, and how many of them one tunnel may stand in.
const PLACES: usize = 32_768;
const PROBES: usize = 8;
/// Bytes of the words, and of the index.
pub(crate) const TUNNEL_BYTES: usize = TUNNELS as usize * WORDS * 8;
pub(crate) const END_BYTES: usize = PLACES * 4;

/// Bytes of the longest header: IPv4's, and GRE's with a key.
pub const LONGEST: usize = 28;
const IPV4: usize = 20;

/// What a tunnel's packets are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Payload {
    /// IPv4 (RFC 2003).
    Ipv4,
    /// IPv6 (RFC 4213).
    Ipv6,
    /// Either, in GRE (RFC 2784), with these keys (RFC 2890) on packets that come in and leave.
    Gre {
        /// Of packets that come in.
        key_in: Option<u32>,
        /// Of packets that leave.
        key_out: Option<u32>,
    },
}

/// The header of an interface that is a tunnel over IPv4, by Linux's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tunnel {
    /// What is in it.
    pub payload: Payload,
    /// This end.
    pub local: Ipv4Addr,
    /// The other end.
    pub remote: Ipv4Addr,
    /// Time to live of what leaves; 0: that of the packet inside.
    pub ttl: u8,
    /// Type of service of what leaves; 1: that of the packet inside.
    pub tos: u8,
    /// Path MTU discovery: what leaves is not to be fragmented. Else the packet inside says that.
    pub dont_fragment: bool,
    /// But what it says does not count (`ignore-df`).
    pub ignore_df: bool,
}

/// The four things by which the tunnel of a packet that comes in is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// The other end, the packet's source.
    pub remote: u32,
    /// This end.
    pub local: u32,
    /// Protocol of the outer header.
    pub protocol: u8,
    /// GRE's key.
    pub key: Option<u32>,
}

impl Payload {
    /// The protocol of the outer header.
    pub fn protocol(self) -> u8 {
        match self {
            Payload::Ipv4 => abi::protocol::IPIP,
            Payload::Ipv6 => abi::protocol::IPV6,
            Payload::Gre { .. } => abi::protocol::GRE,
        }
    }
}

impl Tunnel {
    /// By what its packets are known that come in.
    pub fn ends(&self) -> Ends {
        let key = if let Payload::Gre { key_in, .. } = self.payload { key_in } else { None };
        let protocol = self.payload.protocol();
        Ends { remote: self.remote.into(), local: self.local.into(), protocol, key }
    }

    /// Bytes that stand in front of its packets.
    pub fn length(&self) -> usize {
        match self.payload {
            Payload::Ipv4 | Payload::Ipv6 => IPV4,
            Payload::Gre { key_out: None, .. } => IPV4 + 4,
            Payload::Gre { key_out: Some(_), .. } => IPV4 + 8,
        }
    }

    /// The header as far as it is the same for all packets: 0 stands for the total length, the
    /// identification, the checksum and GRE's type; the TTL and TOS are as in [`Tunnel`].
    pub fn header(&self) -> [u8; LONGEST] {
        let mut header = [0; LONGEST];
        (header[0], header[1], header[8], header[9]) = (0x45, self.tos, self.ttl, self.payload.protocol());
        header[6] = if self.dont_fragment { 0x40 } else { 0 };
        header[12..16].copy_from_slice(&self.local.octets());
        header[16..20].copy_from_slice(&self.remote.octets());
        if let Payload::Gre { key_out: Some(key), .. } = self.payload {
            header[20] = 0x20;
            header[24..28].copy_from_slice(&key.to_be_bytes());
        }
        header
    }
}

impl Ends {
    fn hash(&self) -> usize {
        let both = u64::from(self.remote) << 32 | u64::from(self.local);
        let key = u64::from(self.key.unwrap_or(0)) << 8 | u64::from(self.protocol);
        let mixed = (both ^ key.rotate_left(24)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as usize
    }
}

/// A tunnel as readers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelWord([u64; WORDS]);

/// In the last word: what the packet inside says of fragments does not count.
const IGNORES: u64 = 1 << 40;
/// The keys of packets that come in are compared.
const KEYED: u64 = 1 << 32;

impl TunnelWord {
    fn new(id: InterfaceId, tunnel: &Tunnel) -> TunnelWord {
        let (mut words, mut bytes) = ([0; WORDS], [0; 32]);
        words[0] = u64::from(u32::MAX) << 32 | (tunnel.length() as u64) << 16 | u64::from(id.0);
        bytes[..LONGEST].copy_from_slice(&tunnel.header());
        for (word, bytes) in words[1..].iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        words[5] = tunnel.ends().key.map_or(0, |key| KEYED | u64::from(key));
        words[5] |= if tunnel.ignore_df { IGNORES } else { 0 };
        TunnelWord(words)
    }

    /// The interface whose packets these are.
    #[inline(always)]
    pub fn interface(&self) -> InterfaceId {
        InterfaceId(self.0[0] as u16)
    }

    /// Bytes in front of a packet that leaves.
    #[inline(always)]
    pub fn length(&self) -> usize {
        usize::from((self.0[0] >> 16) as u8)
    }

    /// Bytes of the longest packet, with its header, that is known to pass to the other end.
    #[inline(always)]
    pub fn path_mtu(&self) -> u32 {
        (self.0[0] >> 32) as u32
    }

    /// See [`Tunnel::header`].
    #[inline(always)]
    pub fn header(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(&self.0[1..5]) {
            *bytes = word.to_ne_bytes();
        }
        bytes
    }

    /// The other end.
    #[inline(always)]
    pub fn remote(&self) -> u32 {
        let [a, b, c, d, ..] = self.0[3].to_ne_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    /// The protocol of its header.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        self.header()[9]
    }

    /// See [`Tunnel::ignore_df`].
    #[inline(always)]
    pub fn ignores_df(&self) -> bool {
        self.0[5] & IGNORES != 0
    }

    fn is_at(&self, ends: &Ends) -> bool {
        let header = self.header();
        let address =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let key = (self.0[5] & KEYED != 0).then_some(self.0[5] as u32);
        (address(12), address(16), header[9], key) == (ends.local, ends.remote, ends.protocol, ends.key)
    }
}

/// What readers have of all tunnels.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub tunnels: &'a [AtomicU64],
    pub ends: &'a [AtomicU32],
}

impl Words<'_> {
    fn read(&self, slot: u32) -> Option<TunnelWord> {
        let words = self.tunnels.as_chunks::<WORDS>().0.get(slot as usize)?;
        Some(TunnelWord(std::array::from_fn(|n| words[n].load(Ordering::Relaxed))))
    }
}

impl Hops<'_> {
    /// The tunnel that an interface is, if it is one.
    #[inline]
    pub fn tunnel(&self, id: InterfaceId) -> Option<TunnelWord> {
        let slot = self.link(id).tunnel()?;
        self.tunnels().read(slot)
    }

    /// The tunnel that a packet came in by; `None`: none of the plane's.
    #[inline]
    pub fn tunnel_at(&self, ends: &Ends) -> Option<TunnelWord> {
        let (words, hash) = (self.tunnels(), ends.hash());
        (0..PROBES).find_map(|n| {
            let slot = words.ends.get((hash + n) % PLACES)?.load(Ordering::Acquire);
            if slot == 0 { None } else { words.read(slot).filter(|tunnel| tunnel.is_at(ends)) }
        })
    }
}

/// The writer.
pub(crate) struct Table {
    words: Array<AtomicU64>,
    ends: Array<AtomicU32>,
    slots: HashMap<InterfaceId, (Tunnel, u32)>,
    free: Vec<u32>,
    /// The first slot is none.
    used: u32,
}

impl Table {
    pub(crate) fn new(worker: &WorkerMemory) -> Table {
        let (words, ends) = (worker.arrays.tunnels, worker.arrays.ends);
        Table { words, ends, slots: HashMap::new(), free: Vec::new(), used: 1 }
    }

    /// The slot of an interface's tunnel, written if it is new. Packets enter by it from now on. On
    /// an error nothing has changed.
    pub(crate) fn set(
        &mut self,
        id: InterfaceId,
        tunnel: Option<&Tunnel>,
        grace: &mut Grace,
    ) -> Result<u32, FibError> {
        let before = self.slots.get(&id).copied();
        if before.map(|(tunnel, _)| tunnel) == tunnel.copied() {
            return Ok(before.map_or(0, |(_, slot)| slot));
        }
        let slot = tunnel.map_or(Ok(0), |tunnel| self.add(id, tunnel))?;
        if let Some((_, slot)) = before {
            self.ends
                .iter()
                .filter(|end| end.load(Ordering::Relaxed) == slot)
                .for_each(|end| end.store(0, Ordering::Release));
            grace.retire(Retired::Tunnel(slot));
        }
        match tunnel {
            Some(tunnel) => self.slots.insert(id, (*tunnel, slot)),
            None => self.slots.remove(&id),
        };
        Ok(slot)
    }

    /// Says how large packets may be that pass to the other end, with their header.
    pub(crate) fn set_path_mtu(&self, id: InterfaceId, mtu: u32) {
        let Some((_, slot)) = self.slots.get(&id) else { return };
        let word = &self.words[*slot as usize * WORDS];
        let is = word.load(Ordering::Relaxed);
        word.store(is & u64::from(u32::MAX) | u64::from(mtu) << 32, Ordering::Release);
    }

    pub(crate) fn free_slot(&mut self, slot: u32) {
        self.free.push(slot);
    }

    fn add(&mut self, id: InterfaceId, tunnel: &Tunnel) -> Result<u32, FibError> {
        let ends = tunnel.ends();
        let twin = |(other, (has, _)): (&InterfaceId, &(Tunnel, u32))| *other != id && has.ends() == ends;
        if self.slots.iter().any(twin) {
            return Err(FibError::EndsTaken);
        }
        let places = (0..PROBES).map(|n| (ends.hash() + n) % PLACES);
        let place = places.clone().find(|place| self.ends[*place].load(Ordering::Relaxed) == 0);
        let full = FibError::TooManyTunnels { limit: TUNNELS as usize - 1 };
        let Some(place) = place else { return Err(full) };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.used < TUNNELS => {
                self.used += 1;
                self.used - 1
            }
            None => return Err(full),
        };
        for (n, word) in TunnelWord::new(id, tunnel).0.into_iter().enumerate() {
            self.words[slot as usize * WORDS + n].store(word, Ordering::Relaxed);
        }
        self.ends[place].store(slot, Ordering::Release);
        Ok(slot)
    }
}
