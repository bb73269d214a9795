//! Where routes come from, and what is said the same way by all who tell them.
//!
//! A source says in order what changed; when it begins to tell all that it has, and when all is
//! told; when something was lost, and when nothing counts any more that it told. The mirror takes
//! that in without knowing who says it (`mirror/hearing.rs`): what a source did not tell again
//! until its end is gone, and what was lost is asked for anew.
//!
//! There are two ways to get to know all that a source has. One that tells *by itself* does so
//! whenever the talk begins. Another is *asked*, table by table, while it goes on to tell what
//! changes: how both are made to agree is `reading`'s to know.
//!
//! [`Change`]s are checked: bytes end where a source reads them. Between the sources that tell a
//! route the programmer decides.

use crate::MirrorError;
use crate::model::SourceId;
use crate::netlink::address::Address;
use crate::netlink::link::{BridgedMessage, LinkMessage};
use crate::netlink::neighbour::NeighbourMessage;
use crate::netlink::netconf::NetconfMessage;
use crate::netlink::nexthop::Object;
use crate::netlink::route::RouteMessage;
use crate::netlink::station::StationMessage;
use crate::netlink::vlan::VlansMessage;
use crate::netlink::vtep::VtepMessage;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Somebody who tells routes, and perhaps what they lead over.
pub(crate) trait Source: Send {
    /// Whose what it tells is in the model.
    fn id(&self) -> SourceId;

    /// Begins to listen, at first and after [`Said::Lost`]. Nothing is heard that was said before.
    fn start(&mut self) -> Result<Telling, MirrorError>;

    /// What to wait on for more of it.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Takes the next thing that it says, without waiting; what changed goes to `change`, in order.
    fn next(&mut self, now: Instant, change: &mut dyn FnMut(Change)) -> Result<Said, MirrorError>;

    /// What its silence says.
    fn tick(&mut self, _now: Instant) -> Option<Said> {
        None
    }

    /// What it has told so far.
    fn counters(&self) -> Counters;

    /// How the talk stands, of one that comes to us.
    fn talk(&self) -> Option<Talk> {
        None
    }
}

/// How a source comes to tell all that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Unasked: [`Said::Begins`] and [`Said::All`] are around it.
    ByItself,
    /// It is asked, table by table.
    Asked,
}

/// The next thing that a source says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing now.
    Nothing,
    /// What changed, which has been passed on.
    Changes,
    /// It begins to tell all that it has.
    Begins,
    /// It has told all: it counts, and what it did not tell again is gone.
    All,
    /// It was not heard for a while: nothing that it told is sure.
    Lost,
    /// It is gone for good: nothing that it told counts.
    Gone,
}

/// Something that changed.
#[derive(Debug)]
pub(crate) enum Change {
    Link(LinkMessage),
    LinkGone(u32),
    /// What a bridge says of a member.
    Bridged(BridgedMessage),
    Address(Address),
    AddressGone(Address),
    Neighbour(NeighbourMessage),
    NeighbourGone(NeighbourMessage),
    Vlans(VlansMessage),
    VlansGone(VlansMessage),
    Station(StationMessage),
    StationGone(StationMessage),
    Remote(VtepMessage),
    RemoteGone(VtepMessage),
    Object(Object),
    ObjectGone(u32),
    /// A route, and how it joined the others of its key (`NLM_F_*`).
    Route(RouteMessage, u16),
    RouteGone(RouteMessage),
    Settings(NetconfMessage),
    /// Some routing rule; which, nobody here needs to know.
    Rules,
    /// Some queueing discipline or filter of traffic.
    Traffic,
}

/// What a source has told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub messages: u64,
    pub malformed: u64,
    /// Times that something was lost.
    pub lost: u64,
    /// What came in frames around messages: how many, and messages in them that are nobody's here.
    pub frames: u64,
    pub passed_over: u64,
}

impl Counters {
    pub fn add(&mut self, more: &Counters) {
        self.messages += more.messages;
        self.malformed += more.malformed;
        self.lost += more.lost;
        self.frames += more.frames;
        self.passed_over += more.passed_over;
    }
}

/// How the talk stands with a source that comes to us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Talk {
    /// Where it can come.
    pub address: Option<SocketAddr>,
    /// In a word.
    pub state: &'static str,
    /// Times that it came.
    pub connections: u64,
}
