//! A change's way into the model, whoever told it.

use super::Counters;
use crate::model::{Changes, Effect, Model, Remote, SourceId};
use crate::reading::Subject;
use crate::source::Change;

/// Takes a change into the model; what it was about, for a read under way.
pub(crate) fn take_in(
    source: SourceId,
    change: Change,
    model: &mut Model,
    changes: &mut Changes,
    counters: &mut Counters,
) -> Option<Subject> {
    let (route, effect) = match change {
        Change::Route(route, flags) => {
            let effect = model.routes.announce(source, &route, flags);
            (route, effect)
        }
        Change::RouteGone(route) => {
            let effect = model.routes.withdraw(source, &route);
            (route, effect)
        }
        Change::Link(link) => {
            model.set_link(&link, changes);
            return Some(Subject::Link(link.ifindex));
        }
        Change::LinkGone(ifindex) => {
            model.remove_link(ifindex, changes);
            return Some(Subject::Link(ifindex));
        }
        Change::Bridged(bridged) => {
            model.set_bridged(&bridged, changes);
            return Some(Subject::Link(bridged.ifindex));
        }
        Change::Address(address) => {
            model.set_address(&address, changes);
            return Some(Subject::Address(address.ifindex, address.net));
        }
        Change::AddressGone(address) => {
            model.remove_address((address.ifindex, address.net), changes);
            return Some(Subject::Address(address.ifindex, address.net));
        }
        Change::Neighbour(neighbour) => {
            model.set_neighbour(&neighbour, changes);
            return Some(Subject::Neighbour(neighbour.ifindex, neighbour.address));
        }
        Change::NeighbourGone(neighbour) => {
            model.remove_neighbour(neighbour.ifindex, neighbour.address, changes);
            return Some(Subject::Neighbour(neighbour.ifindex, neighbour.address));
        }
        Change::Vlans(vlans) => {
            model.change_vlans(&vlans, true, changes);
            return Some(Subject::Vlans(vlans.ifindex));
        }
        Change::VlansGone(vlans) => {
            model.change_vlans(&vlans, false, changes);
            return Some(Subject::Vlans(vlans.ifindex));
        }
        Change::Station(station) => {
            model.set_station(&station, changes);
            return Some(Subject::Station(station.station));
        }
        Change::StationGone(station) => {
            model.remove_station(station.station, changes);
            return Some(Subject::Station(station.station));
        }
        Change::Remote(remote) => {
            model.set_remote(&remote, changes);
            return Some(Subject::Remote(Remote::of(&remote)));
        }
        Change::RemoteGone(remote) => {
            let host = Remote::of(&remote);
            model.remove_remote(host, changes);
            return Some(Subject::Remote(host));
        }
        Change::Object(object) => {
            model.set_object(source, &object, changes);
            return Some(Subject::Object(object.id));
        }
        Change::ObjectGone(id) => {
            model.remove_object(source, id, changes);
            return Some(Subject::Object(id));
        }
        Change::Settings(settings) => {
            model.configure(&settings, changes);
            return None;
        }
        Change::Rules | Change::Traffic => return None,
    };
    let of = model.routes.table(route.table, source).map(|table| (route.prefix, table));
    match effect {
        Effect::Changed => changes.prefixes.extend(of),
        Effect::Doubtful => {
            changes.prefixes.extend(of);
            changes.suspect.routes6 = true;
        }
        Effect::Unknown => counters.unknown_withdrawals += 1,
        Effect::Known => {}
    }
    Some(Subject::Prefix(route.prefix))
}
