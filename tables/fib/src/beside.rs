//! Tables of routes beside the main one: VRFs' ([RFC 4364] calls them so), of which a router may
//! have a thousand.
//!
//! The main table answers in one or two loads, and takes megabytes before its first route. A VRF
//! has a hundred routes or a thousand. So its addresses, of either family, are taken in windows of
//! 32 bits, the ranges of which are the leaves of the trees that `ipv6.rs` describes: all tables
//! share one pool of lines. A table is then two words, one for each family, that stand for its
//! first window; one of 100 routes takes some 40 lines, 2.5 kB in each copy.
//!
//! [RFC 4364]: https://www.rfc-editor.org/rfc/rfc4364

use crate::grace::Grace;
use crate::routes::{Address, Routes};
use crate::word::Change;
use crate::{FibError, NextHopId, ipv6};
use abi::fib::{ROOTS, TABLES};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::HashMap;

/// A table of routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct TableId(pub u16);

impl TableId {
    /// The main one: it decides where no other does.
    pub const MAIN: TableId = TableId(0);
    /// None: Linux's routing rules say for each packet which table decides. Without routes.
    pub const BY_RULES: TableId = TableId(TABLES - 1);
    /// How many there are at most, the main one among them.
    pub const COUNT: usize = TABLES as usize - 1;

    /// The table whose addresses are this machine's for what it routes.
    pub fn of_addresses(self) -> TableId {
        if self == TableId::BY_RULES { TableId::MAIN } else { self }
    }
}

/// Whose address one of this machine's is. In a VRF it says nothing of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locality {
    /// An interface's that the main table routes.
    pub main: bool,
    /// An interface's in a VRF.
    pub vrf: bool,
}

impl Locality {
    /// Of the main table alone.
    pub const MAIN: Locality = Locality { main: true, vrf: false };

    /// Whether it is this machine's at all.
    pub fn any(self) -> bool {
        self.main || self.vrf
    }
}

/// An address, to be looked up in a table beside the main one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    /// Where the word is that stands for the table.
    pub(crate) root: u32,
    /// The address, its first bit the highest.
    pub(crate) bits: u128,
}

impl Walk {
    /// An IPv4 address (host order number).
    #[inline]
    pub fn ipv4(table: TableId, address: u32) -> Walk {
        Walk { root: root(table, false), bits: u128::from(address) << 96 }
    }

    /// An IPv6 address (the big-endian number).
    #[inline]
    pub fn ipv6(table: TableId, address: u128) -> Walk {
        Walk { root: root(table, true), bits: address }
    }
}

#[inline]
fn root(table: TableId, ipv6: bool) -> u32 {
    ROOTS + u32::from(table.0 % TABLES) * 2 + u32::from(ipv6)
}

/// The writer.
#[derive(Default)]
pub(crate) struct Beside {
    tables: HashMap<TableId, Both>,
}

/// A table's routes.
struct Both {
    ipv4: Routes<u32>,
    ipv6: Routes<u128>,
}

impl Beside {
    /// Inserts or replaces; says what was there.
    pub fn insert(
        &mut self,
        table: TableId,
        prefix: IpNet,
        id: NextHopId,
        lines: &mut ipv6::Table,
        grace: &mut Grace,
    ) -> Result<Option<NextHopId>, FibError> {
        if usize::from(table.0) >= TableId::COUNT {
            return Err(FibError::NoSuchTable(table.0));
        }
        let old = self.get(table, prefix);
        if old == Some(id) {
            return Ok(old);
        }
        lines.has_room()?;
        let both =
            self.tables.entry(table).or_insert_with(|| Both { ipv4: Routes::few(), ipv6: Routes::few() });
        match prefix {
            IpNet::V4(net) => both.ipv4.insert(net.network().to_bits(), net.prefix_len(), id),
            IpNet::V6(net) => both.ipv6.insert(net.network().to_bits(), net.prefix_len(), id),
        };
        change(table, prefix, Change::insert(prefix.prefix_len(), id), lines, grace);
        Ok(old)
    }

    /// Removes; says what was there. The caller knows that there are lines for it.
    pub fn remove(
        &mut self,
        table: TableId,
        prefix: IpNet,
        lines: &mut ipv6::Table,
        grace: &mut Grace,
    ) -> Option<NextHopId> {
        let both = self.tables.get_mut(&table)?;
        let length = prefix.prefix_len();
        let (old, below) = match prefix {
            IpNet::V4(net) => remove(&mut both.ipv4, net.network().to_bits(), length)?,
            IpNet::V6(net) => remove(&mut both.ipv6, net.network().to_bits(), length)?,
        };
        if both.ipv4.len() + both.ipv6.len() == 0 {
            self.tables.remove(&table);
        }
        change(table, prefix, Change::remove(length, below), lines, grace);
        Some(old)
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, table: TableId, prefix: IpNet) -> Option<NextHopId> {
        let both = self.tables.get(&table)?;
        match prefix {
            IpNet::V4(net) => both.ipv4.get(net.network().to_bits(), net.prefix_len()),
            IpNet::V6(net) => both.ipv6.get(net.network().to_bits(), net.prefix_len()),
        }
    }

    /// IPv4 and IPv6 routes of all tables.
    pub fn len(&self) -> [usize; 2] {
        self.tables.values().fold([0; 2], |[four, six], both| [four + both.ipv4.len(), six + both.ipv6.len()])
    }

    /// All routes of all tables, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (TableId, IpNet, NextHopId)> + '_ {
        self.tables.iter().flat_map(|(table, both)| {
            let four = both.ipv4.iter().filter_map(|(prefix, length, id)| {
                Some((IpNet::V4(Ipv4Net::new(prefix.into(), length).ok()?), id))
            });
            let six = both.ipv6.iter().filter_map(|(prefix, length, id)| {
                Some((IpNet::V6(Ipv6Net::new(prefix.into(), length).ok()?), id))
            });
            four.chain(six).map(|(prefix, id)| (*table, prefix, id))
        })
    }

    pub fn bytes(&self) -> usize {
        self.tables.values().map(|both| both.ipv4.bytes() + both.ipv6.bytes()).sum()
    }
}

/// What was there, and the word of the longest prefix left that covers it.
fn remove<A: Address>(routes: &mut Routes<A>, prefix: A, length: u8) -> Option<(NextHopId, u32)> {
    let old = routes.remove(prefix, length)?;
    Some((old, routes.covering(prefix, length)))
}

fn change(table: TableId, prefix: IpNet, change: Change, lines: &mut ipv6::Table, grace: &mut Grace) {
    let walk = match prefix {
        IpNet::V4(net) => Walk::ipv4(table, net.network().to_bits()),
        IpNet::V6(net) => Walk::ipv6(table, net.network().to_bits()),
    };
    lines.change_beside(walk.root as usize, walk.bits, prefix.prefix_len(), change, grace);
}
