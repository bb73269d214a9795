//! Hosts on bridges of Linux's that the plane has adopted: the driver is told which of them Linux
//! knows behind each member, and takes frames of no others (`forwarding/bpf/bridge.h`).

use std::collections::{HashMap, HashSet};

use fib::InterfaceId;
use mirror::model::Station;
use tracing::warn;

use super::forwarding::Forwarding;

/// What the driver was told: by host, the interface on the member.
#[derive(Default)]
pub(crate) struct Senders {
    told: HashMap<Station, InterfaceId>,
}

/// The interfaces of Linux's that hosts on bridges may be on, by bridge and VLAN. Some may not be
/// the plane's.
type Links = HashMap<(u32, u16), Vec<u32>>;

impl Senders {
    /// Tells it where these hosts are now, or that nobody knows.
    pub(super) fn tell(&mut self, hosts: HashSet<Station>, forwarding: &mut Forwarding) {
        if hosts.is_empty() {
            return;
        }
        let links = forwarding.links_of_bridges();
        for station in hosts {
            let is = forwarding.interface_of(station, &links);
            let driver = forwarding.plane.driver_mut();
            if self.told.get(&station).copied() == is {
                continue;
            }
            let mac = station.mac.0;
            let had = self.told.remove(&station);
            let forgotten = had.map_or(Ok(()), |had| driver.know_sender(had, mac, false));
            let known = is.map_or(Ok(()), |is| driver.know_sender(is, mac, true));
            match forgotten.and(known) {
                Ok(()) => self.told.extend(is.map(|is| (station, is))),
                Err(error) => warn!("a host on a bridge is Linux's: {error}"),
            }
        }
    }

    /// The same of all, after members came or went.
    pub(super) fn tell_all(&mut self, forwarding: &mut Forwarding) {
        let known = forwarding.mirror.model().stations.iter().map(|(station, _)| station);
        self.tell(known.chain(self.told.keys().copied()).collect(), forwarding);
    }
}

impl Forwarding {
    /// Of bridges that tell VLANs apart, each VLAN; of others, themselves.
    fn links_of_bridges(&self) -> Links {
        let links = &self.mirror.model().links;
        let mut all = Links::new();
        for link in links.iter() {
            // Whatever lies on one that tells none apart is on the same members.
            if let Some((bridge, vlan)) = links.within_bridge(link)
                && (vlan != 0 || bridge.ifindex == link.ifindex)
            {
                all.entry((bridge.ifindex, vlan)).or_default().push(link.ifindex);
            }
        }
        all
    }

    /// The interface of the plane's by which a host on a bridge sends, which the driver asks by.
    fn interface_of(&self, station: Station, links: &Links) -> Option<InterfaceId> {
        let member = self.mirror.model().stations.member(station)?;
        let links = links.get(&(station.bridge, station.vlan))?;
        let is_member = |port: &plane::port::Port| {
            port.taken.is_some() && port.interface.as_ref().is_some_and(|own| own.ifindex == member)
        };
        let mut all = links.iter().flat_map(|link| self.plane.interfaces_of(*link));
        all.find(|(_, port)| is_member(port)).map(|(id, _)| id)
    }
}
