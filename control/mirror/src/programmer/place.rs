//! Where a decision about a prefix is written: one of the plane's tables. The main one has what
//! Linux's `local` and `main` say; each VRF has one of its own.

use crate::model::{Model, Table};
use fib::TableId;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A prefix in one of the plane's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub table: TableId,
    pub prefix: IpNet,
}

/// The plane's tables of VRFs and of routing rules, by the number that Linux's have.
#[derive(Default)]
pub(crate) struct Vrfs {
    ids: BTreeMap<u32, TableId>,
    numbers: HashMap<TableId, u32>,
    last: u16,
}

impl Vrfs {
    /// Gives each of these tables of Linux's one of the plane's, which it keeps; says which are
    /// new, and which are gone. Where there are more than the plane has, Linux routes what comes in
    /// by the rest.
    pub fn follow(&mut self, numbers: &BTreeSet<u32>) -> (Vec<u32>, Vec<(u32, TableId)>) {
        let gone: Vec<_> = self.ids.iter().filter(|(number, _)| !numbers.contains(number)).collect();
        let gone: Vec<_> = gone.into_iter().map(|(number, id)| (*number, *id)).collect();
        self.ids.retain(|number, _| numbers.contains(number));
        self.numbers.retain(|_, number| numbers.contains(number));
        let taken: BTreeSet<TableId> = self.ids.values().copied().collect();
        // One that was freed just now may be in use for a moment.
        let all = (self.last + 1..TableId::COUNT as u16).chain(1..=self.last);
        let mut free = all.map(TableId).filter(|id| !taken.contains(id));
        let mut new = Vec::new();
        for number in numbers {
            if !self.ids.contains_key(number)
                && let Some(id) = free.next()
            {
                self.last = id.0;
                self.ids.insert(*number, id);
                self.numbers.insert(id, *number);
                new.push(*number);
            }
        }
        (new, gone)
    }

    /// The plane's table for one of Linux's.
    pub fn id(&self, number: u32) -> Option<TableId> {
        self.ids.get(&number).copied()
    }

    /// The other way round.
    pub fn number(&self, id: TableId) -> Option<u32> {
        self.numbers.get(&id).copied()
    }

    /// The plane's table that a route of Linux's is decided in.
    pub fn of(&self, table: Table) -> Option<TableId> {
        match table {
            Table::Local | Table::Main => Some(TableId::MAIN),
            Table::Vrf(number) => self.id(number),
        }
    }

    /// The table that routes what comes in by an interface; `None` where a VRF's has no room.
    pub fn of_link(&self, ifindex: u32, model: &Model) -> Option<TableId> {
        model.vrf_of(ifindex).map_or(Some(TableId::MAIN), |number| self.id(number))
    }

    /// All of them.
    pub fn ids(&self) -> impl Iterator<Item = TableId> + '_ {
        self.ids.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_its_place_while_others_come_and_go() {
        let mut vrfs = Vrfs::default();
        assert_eq!(vrfs.follow(&BTreeSet::from([1001, 1002])), (vec![1001, 1002], vec![]));
        let kept = vrfs.id(1002);
        assert_eq!(vrfs.follow(&BTreeSet::from([1002, 1003])), (vec![1003], vec![(1001, TableId(1))]));
        assert_eq!((vrfs.id(1001), vrfs.id(1002), vrfs.id(1003)), (None, kept, Some(TableId(3))));
        assert_eq!(vrfs.number(TableId(3)), Some(1003));
        let many: BTreeSet<u32> = (0..5000).collect();
        vrfs.follow(&many);
        assert_eq!(vrfs.ids().count(), TableId::COUNT - 1);
    }
}
