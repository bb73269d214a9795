//! Hosts on bridges of Linux's that the plane has adopted: the driver is told which of them Linux
//! knows behind each member, and takes frames of no others (`forwarding/bpf/bridge.h`). The same of
//! hosts behind the ends of VXLANs from which Linux learns, which the tables are told, for workers.

use std::collections::{HashMap, HashSet};

use fib::{InterfaceId, Tunnel};
use mirror::model::{Link, Station};
use tracing::warn;

use super::forwarding::Forwarding;

/// Who was told: by host, the interface on the member, or to the end.
#[derive(Default)]
pub(crate) struct Senders {
    told: HashMap<Station, Sender>,
}

/// Who asks about a host, by which interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Driver(InterfaceId),
    Workers(InterfaceId),
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
            let is = forwarding.sender(station, &links);
            if self.told.get(&station).copied() == is {
                continue;
            }
            let had = self.told.remove(&station);
            let forgotten = had.map_or(Ok(()), |had| forwarding.know(station, had, false));
            let known = is.map_or(Ok(()), |is| forwarding.know(station, is, true));
            match forgotten.and(known) {
                Ok(()) => self.told.extend(is.map(|is| (station, is))),
                Err(error) => warn!("what the host {} sends is Linux's: {error}", station.mac),
            }
        }
    }

    /// The same of all, after members or ends came or went.
    pub(super) fn tell_all(&mut self, forwarding: &mut Forwarding) {
        let model = forwarding.mirror.model();
        let known = model.stations.iter().map(|(station, _)| station);
        let remotes =
            model.links.remotes().map(|host| Station { bridge: host.vxlan, vlan: 0, mac: host.mac });
        self.tell(known.chain(remotes).chain(self.told.keys().copied()).collect(), forwarding);
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

    /// By which interface of the plane's a host sends.
    fn sender(&self, station: Station, links: &Links) -> Option<Sender> {
        let model = self.mirror.model();
        let vxlan = |ifindex: u32| model.links.by_index(ifindex).filter(|link| link.is_vxlan());
        if let Some(vxlan) = vxlan(station.bridge) {
            return self.end_of(vxlan, station, &[station.bridge]).map(Sender::Workers);
        }
        let member = model.stations.member(station)?;
        let links = links.get(&(station.bridge, station.vlan))?;
        if let Some(vxlan) = vxlan(member) {
            return self.end_of(vxlan, station, links).map(Sender::Workers);
        }
        let is_member = |port: &plane::port::Port| {
            port.taken.is_some() && port.interface.as_ref().is_some_and(|own| own.ifindex == member)
        };
        let mut all = links.iter().flat_map(|link| self.plane.interfaces_of(*link));
        all.find(|(_, port)| is_member(port)).map(|(id, _)| Sender::Driver(id))
    }

    /// The interface of the plane's to the end of a VXLAN that a host is behind, on these of
    /// Linux's.
    fn end_of(&self, vxlan: &Link, host: Station, on: &[u32]) -> Option<InterfaceId> {
        let end = self.mirror.model().links.end_from(vxlan, host.mac)?;
        let mut ends = on.iter().flat_map(|link| self.plane.tunnels_of(*link));
        // Of others nobody asks.
        let learns = |tunnel: &Tunnel| tunnel.payload.vxlan().is_some_and(|vxlan| vxlan.learns);
        ends.find(|(_, tunnel)| learns(tunnel) && tunnel.over.remote() == end).map(|(id, _)| id)
    }

    /// Says whether a host is known; or why that cannot be said, for the log.
    fn know(&mut self, Station { mac, .. }: Station, by: Sender, known: bool) -> Result<(), String> {
        match by {
            Sender::Driver(id) => {
                self.plane.driver_mut().know_sender(id, mac.0, known).map_err(|error| error.to_string())
            }
            Sender::Workers(id) => match self.tables.know_host(id, mac.0, known) {
                true => Ok(()),
                false => Err("too many hosts are behind ends of VXLANs".to_owned()),
            },
        }
    }
}
