//! A notification's way into the model.

use super::Counters;
use crate::model::{Changes, Effect, Model, Source};
use crate::netlink::{self, Message, address, link, neighbour, netconf, nexthop, route};
use crate::reading::Subject;

/// Takes a notification into the model; what it was about, for a read under way.
pub(crate) fn take_in(
    message: Message<'_>,
    model: &mut Model,
    changes: &mut Changes,
    counters: &mut Counters,
) -> Option<Subject> {
    let body = message.body;
    let ignored =
        || matches!(body.first(), Some(&family) if family != netlink::IPV4 && family != netlink::IPV6);
    let subject = match message.kind {
        RTM_NEWROUTE | RTM_DELROUTE => {
            let route = route::parse(body)?;
            let effect = if message.kind == RTM_NEWROUTE {
                model.routes.announce(&route, message.flags)
            } else {
                model.routes.withdraw(&route)
            };
            let of = model.routes.table(route.table, Source::Netlink).map(|table| (route.prefix, table));
            match effect {
                Effect::Changed => changes.prefixes.extend(of),
                Effect::Doubtful => {
                    changes.prefixes.extend(of);
                    changes.suspect.routes6 = true;
                }
                Effect::Unknown => counters.unknown_withdrawals += 1,
                Effect::Known => {}
            }
            return Some(Subject::Prefix(route.prefix));
        }
        RTM_NEWLINK => link::parse(body).map(|link| {
            model.set_link(&link, changes);
            Subject::Link(link.ifindex)
        }),
        RTM_DELLINK => link::parse(body).map(|link| {
            model.remove_link(link.ifindex, changes);
            Subject::Link(link.ifindex)
        }),
        RTM_NEWADDR => address::parse(body).map(|address| {
            model.set_address(&address, changes);
            Subject::Address(address.ifindex, address.net)
        }),
        RTM_DELADDR => address::parse(body).map(|address| {
            model.remove_address((address.ifindex, address.net), changes);
            Subject::Address(address.ifindex, address.net)
        }),
        RTM_NEWNEIGH => neighbour::parse(body).map(|neighbour| {
            model.set_neighbour(&neighbour, changes);
            Subject::Neighbour(neighbour.ifindex, neighbour.address)
        }),
        RTM_DELNEIGH => neighbour::parse(body).map(|neighbour| {
            model.remove_neighbour(neighbour.ifindex, neighbour.address, changes);
            Subject::Neighbour(neighbour.ifindex, neighbour.address)
        }),
        RTM_NEWNEXTHOP => nexthop::parse(body).map(|object| {
            model.set_object(Source::Netlink, &object, changes);
            Subject::Object(object.id)
        }),
        RTM_DELNEXTHOP => nexthop::parse(body).map(|object| {
            model.remove_object(Source::Netlink, object.id, changes);
            Subject::Object(object.id)
        }),
        RTM_NEWNETCONF => {
            if let Some(settings) = netconf::parse(body) {
                model.configure(&settings, changes);
            }
            return None;
        }
        _ => return None,
    };
    if subject.is_none() && !ignored() && !matches!(message.kind, RTM_NEWNEIGH | RTM_DELNEIGH) {
        counters.malformed += 1;
    }
    subject
}

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_NEWNETCONF: u16 = 80;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
