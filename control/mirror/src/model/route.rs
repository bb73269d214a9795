//! One route of a prefix.

use super::target::{SourceId, TargetId};
use std::borrow::Cow;

/// Which of the tables that Bifrost uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Table 255: the machine's own addresses.
    Local,
    /// Table 254.
    Main,
    /// That of a VRF, by its number.
    Vrf(u32),
}

impl Table {
    /// The table with this number, if it is one of the two that every Linux has.
    pub fn from_number(number: u32) -> Option<Table> {
        match number {
            254 => Some(Table::Main),
            255 => Some(Table::Local),
            _ => None,
        }
    }

    /// Its number.
    pub fn number(self) -> u32 {
        match self {
            Table::Local => 255,
            Table::Main => 254,
            Table::Vrf(number) => number,
        }
    }

    /// Its name, or its number.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Table::Local => "local".into(),
            Table::Main => "main".into(),
            Table::Vrf(number) => number.to_string().into(),
        }
    }
}

/// What a route does (`RTN_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Forwards.
    Unicast,
    /// Belongs to this machine.
    Local,
    /// A subnet's broadcast address.
    Broadcast,
    /// An anycast address of this machine.
    Anycast,
    /// A group.
    Multicast,
    /// Drops silently.
    Blackhole,
    /// Drops, and says host unreachable.
    Unreachable,
    /// Drops, and says administratively prohibited.
    Prohibit,
    /// Ends the search in this table.
    Throw,
    /// One that Linux may get in future.
    Other,
}

impl Kind {
    /// From `RTN_*`.
    pub fn from_number(number: u8) -> Kind {
        match number {
            1 => Kind::Unicast,
            2 => Kind::Local,
            3 => Kind::Broadcast,
            4 => Kind::Anycast,
            5 => Kind::Multicast,
            6 => Kind::Blackhole,
            7 => Kind::Unreachable,
            8 => Kind::Prohibit,
            9 => Kind::Throw,
            _ => Kind::Other,
        }
    }

    /// Its name, as `ip route` writes it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Unicast => "unicast",
            Kind::Local => "local",
            Kind::Broadcast => "broadcast",
            Kind::Anycast => "anycast",
            Kind::Multicast => "multicast",
            Kind::Blackhole => "blackhole",
            Kind::Unreachable => "unreachable",
            Kind::Prohibit => "prohibit",
            Kind::Throw => "throw",
            Kind::Other => "other",
        }
    }

    /// Whether packets that match go nowhere, so that where the route points does not matter.
    pub(crate) fn rejects(self) -> bool {
        matches!(self, Kind::Blackhole | Kind::Unreachable | Kind::Prohibit | Kind::Throw)
    }
}

/// A route, without its prefix.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Priority: the lowest wins.
    pub metric: u32,
    /// Where it points.
    pub target: TargetId,
    /// Path MTU that the route sets for forwarded packets, bytes; 0 = the interface's alone counts.
    pub mtu: u32,
    /// Its table.
    pub table: Table,
    /// Who told it.
    pub source: SourceId,
    /// What it does.
    pub kind: Kind,
    /// Who made it (`RTPROT_*`); see [`crate::origin`].
    pub origin: u8,
    /// Type of service it is restricted to; 0 = none.
    pub tos: u8,
    /// Rank by router preference (RFC 4191): 0 high, 1 medium, 2 low.
    pub preference: u8,
    /// Whether it names a source for what this machine itself sends by it, other than the one that
    /// its interface has anyway.
    pub sourced: bool,
    /// The sources that it is restricted to, as [`Routes`](super::Routes) numbers them; 0 = none.
    pub(crate) from: u16,
    /// The read in which Linux last told it.
    pub(crate) seen: u8,
}

impl Route {
    /// The order in which Linux considers the routes of one prefix.
    pub(crate) fn rank(&self) -> (Table, u8, u16, u32) {
        (self.table, self.tos, self.from, self.metric)
    }

    /// Whether it is for some packets only: by their type of service, or their source. The tables
    /// here know only destinations, so Linux decides about the whole prefix.
    pub fn is_restricted(&self) -> bool {
        self.tos != 0 || self.from != 0
    }

    /// Whether both say the same.
    pub(crate) fn same(&self, other: &Route) -> bool {
        self.rank() == other.rank()
            && (self.source, self.target, self.kind, self.origin)
                == (other.source, other.target, other.kind, other.origin)
            && (self.mtu, self.preference, self.sourced) == (other.mtu, other.preference, other.sourced)
    }
}
