//! A table without room: the missing prefix must not fall to a shorter one, which may lead
//! elsewhere. The longest prefix that covers it becomes Linux's (a *shield*) until there is room.

use super::next_hop_key::NextHopKey;
use super::{Place, Programmer, at};
use crate::model::Model;
use fib::Tables;

impl Programmer {
    /// Prefixes that found no room in the tables, and how often that happened.
    pub fn overflow(&self) -> (usize, u64) {
        (self.missing.len(), self.overflows)
    }

    /// No next hop to be had: the prefix shares the one that says Punt, which was made when there
    /// was room.
    pub(super) fn leave_to_linux(&mut self, place: Place, model: &mut Model, tables: &mut Tables) {
        self.missing.insert(place);
        if let Ok(id) = self.hops.acquire(NextHopKey::Linux, model, &self.ports, tables) {
            self.store(place, id, model, tables);
        }
    }

    /// No room for the prefix: makes the longest one that covers it Linux's.
    pub(super) fn shield(&mut self, place: Place, model: &mut Model, tables: &mut Tables) {
        self.missing.insert(place);
        let mut cover = place;
        while let Some(shorter) = cover.prefix.supernet() {
            cover.prefix = shorter;
            if at(tables, cover).is_some() {
                break;
            }
        }
        if cover != place && self.shields.insert(cover) {
            self.program(cover, model, tables);
        }
    }

    /// Tries again to find room for some of what is missing.
    pub fn retry(&mut self, model: &mut Model, tables: &mut Tables) {
        const AT_ONCE: usize = 64;
        if self.missing.is_empty() {
            return;
        }
        let some: Vec<Place> = self.missing.iter().copied().take(AT_ONCE).collect();
        for place in some {
            self.program(place, model, tables);
            if self.missing.contains(&place) {
                return;
            }
        }
        if self.missing.is_empty() {
            self.pending.extend(std::mem::take(&mut self.shields));
        }
    }

    /// Whether there is no room at the place.
    pub fn is_missing(&self, place: &Place) -> bool {
        self.missing.contains(place)
    }
}
