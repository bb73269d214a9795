//! Who writes what readers see of tunnels. Another header is other words elsewhere, to which the
//! interface is led by one store.

use super::word::WORDS;
use super::{Hosts, Tunnel, TunnelWord};
use crate::grace::{Grace, Retired};
use crate::memory::{Array, WorkerMemory};
use crate::{FibError, InterfaceId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Tunnels at most, and those that readers may still see.
const TUNNELS: u32 = 8192;
/// Places of the index, and how many of them one tunnel may stand in.
pub(super) const PLACES: usize = 32_768;
pub(super) const PROBES: usize = 8;
/// Bytes of the words, and of the index.
pub(crate) const TUNNEL_BYTES: usize = TUNNELS as usize * WORDS * 8;
pub(crate) const END_BYTES: usize = PLACES * 4;

/// The tunnels that there are.
pub(crate) struct Table {
    words: Array<AtomicU64>,
    ends: Array<AtomicU32>,
    slots: HashMap<InterfaceId, (Tunnel, u32)>,
    free: Vec<u32>,
    /// The first slot is none.
    used: u32,
    pub(crate) hosts: Hosts,
}

impl Table {
    pub(crate) fn new(worker: &WorkerMemory) -> Table {
        let (words, ends) = (worker.arrays.tunnels, worker.arrays.ends);
        Table { words, ends, slots: HashMap::new(), free: Vec::new(), used: 1, hosts: Hosts::new(worker) }
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
        for (n, word) in TunnelWord::new(id, tunnel).words().into_iter().enumerate() {
            self.words[slot as usize * WORDS + n].store(word, Ordering::Relaxed);
        }
        self.ends[place].store(slot, Ordering::Release);
        Ok(slot)
    }
}
