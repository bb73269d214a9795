//! Linux as a source: what it notifies of by netlink.

use crate::MirrorError;
use crate::model::SourceId;
use crate::netlink::netconf::RTM_NEWNETCONF;
use crate::netlink::request::{RTM_DELRULE, RTM_NEWRULE};
use crate::netlink::socket::{Notifications, Received};
use crate::netlink::tc::{RTM_DELQDISC, RTM_DELTFILTER, RTM_NEWQDISC, RTM_NEWTFILTER};
use crate::netlink::{self, Message, address, link, neighbour, netconf, nexthop, route, station, vlan, vtep};
use crate::source::{Change, Counters, Said, Source, Telling};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// The kernel of this network namespace.
pub(crate) struct Linux {
    receive_buffer: usize,
    notifications: Option<Notifications>,
    counters: Counters,
}

impl Linux {
    /// `receive_buffer`: bytes that may wait.
    pub fn new(receive_buffer: usize) -> Linux {
        Linux { receive_buffer, notifications: None, counters: Counters::default() }
    }
}

impl Source for Linux {
    fn id(&self) -> SourceId {
        SourceId::Netlink
    }

    /// After a loss, what still waits is older than what was lost, and would not fit together with
    /// it: a new socket starts clean.
    fn start(&mut self) -> Result<Telling, MirrorError> {
        let notifications = Notifications::open(self.receive_buffer).map_err(MirrorError::Netlink)?;
        self.notifications = Some(notifications);
        Ok(Telling::Asked)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.notifications.as_ref().map(AsFd::as_fd)
    }

    fn next(&mut self, _now: Instant, change: &mut dyn FnMut(Change)) -> Result<Said, MirrorError> {
        let Some(notifications) = &mut self.notifications else { return Ok(Said::Nothing) };
        match notifications.receive().map_err(MirrorError::Netlink)? {
            Received::Nothing => Ok(Said::Nothing),
            Received::Lost => {
                self.counters.lost += 1;
                tracing::warn!(overflows = self.counters.lost, "netlink overflowed; reading everything anew");
                Ok(Said::Lost)
            }
            Received::Messages(bytes) => {
                for message in netlink::messages(bytes) {
                    if let Some(told) = told(message, &mut self.counters) {
                        change(told);
                    }
                }
                Ok(Said::Changes)
            }
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// What a notification says.
pub(crate) fn told(message: Message<'_>, counters: &mut Counters) -> Option<Change> {
    counters.messages += 1;
    let body = message.body;
    let of_bridge = body.first() == Some(&netlink::BRIDGE);
    let told = match message.kind {
        RTM_NEWLINK if of_bridge => return link::parse_bridged(body).map(Change::Bridged),
        RTM_NEWNEIGH if of_bridge => {
            let station = station::parse(body).map(Change::Station);
            return station.or_else(|| vtep::parse(body).map(Change::Remote));
        }
        RTM_DELNEIGH if of_bridge => {
            let station = station::parse(body).map(Change::StationGone);
            return station.or_else(|| vtep::parse(body).map(Change::RemoteGone));
        }
        RTM_NEWVLAN => return vlan::parse(body).map(Change::Vlans),
        RTM_DELVLAN => return vlan::parse(body).map(Change::VlansGone),
        RTM_NEWROUTE => return Some(Change::Route(route::parse(body)?, message.flags)),
        RTM_DELROUTE => return Some(Change::RouteGone(route::parse(body)?)),
        RTM_NEWNEIGH => return neighbour::parse(body).map(Change::Neighbour),
        RTM_DELNEIGH => return neighbour::parse(body).map(Change::NeighbourGone),
        RTM_NEWNETCONF => return netconf::parse(body).map(Change::Settings),
        RTM_NEWRULE | RTM_DELRULE => return Some(Change::Rules),
        RTM_NEWQDISC | RTM_DELQDISC | RTM_NEWTFILTER | RTM_DELTFILTER => return Some(Change::Traffic),
        RTM_NEWLINK => link::parse(body).map(Change::Link),
        RTM_DELLINK => link::parse(body).map(|link| Change::LinkGone(link.ifindex)),
        RTM_NEWADDR => address::parse(body).map(Change::Address),
        RTM_DELADDR => address::parse(body).map(Change::AddressGone),
        RTM_NEWNEXTHOP => nexthop::parse(body).map(Change::Object),
        RTM_DELNEXTHOP => nexthop::parse(body).map(|object| Change::ObjectGone(object.id)),
        _ => return None,
    };
    let other_family =
        matches!(body.first(), Some(&family) if family != netlink::IPV4 && family != netlink::IPV6);
    counters.malformed += u64::from(told.is_none() && !other_family);
    told
}

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
const RTM_NEWVLAN: u16 = 112;
const RTM_DELVLAN: u16 = 113;
