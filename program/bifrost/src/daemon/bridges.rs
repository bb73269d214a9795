//! Hosts on bridges of Linux's that the plane has adopted: the driver is told which of them Linux
//! knows behind each member, and takes frames of no others (`forwarding/bpf/bridge.h`).

use std::collections::{HashMap, HashSet};

use fib::InterfaceId;
use tracing::warn;
use wire::Mac;

use super::forwarding::Forwarding;

/// What the driver was told: by bridge and host, the member.
#[derive(Default)]
pub(crate) struct Senders {
    told: HashMap<(u32, Mac), InterfaceId>,
}

impl Senders {
    /// Tells it where these hosts are now, or that nobody knows.
    pub(super) fn tell(&mut self, hosts: impl IntoIterator<Item = (u32, Mac)>, forwarding: &mut Forwarding) {
        for (bridge, mac) in hosts {
            let is = forwarding.member_of(bridge, mac);
            let driver = forwarding.plane.driver_mut();
            if self.told.get(&(bridge, mac)).copied() == is {
                continue;
            }
            let had = self.told.remove(&(bridge, mac));
            let forgotten = had.map_or(Ok(()), |had| driver.know_sender(had, mac.0, false));
            let known = is.map_or(Ok(()), |is| driver.know_sender(is, mac.0, true));
            match forgotten.and(known) {
                Ok(()) => self.told.extend(is.map(|is| ((bridge, mac), is))),
                Err(error) => warn!("a host on a bridge is Linux's: {error}"),
            }
        }
    }

    /// The same of all, after members came or went.
    pub(super) fn tell_all(&mut self, forwarding: &mut Forwarding) {
        let known = forwarding.mirror.model().stations.iter().map(|(bridge, mac, _)| (bridge, mac));
        let all: HashSet<(u32, Mac)> = known.chain(self.told.keys().copied()).collect();
        self.tell(all, forwarding);
    }
}

impl Forwarding {
    /// The interface of the plane's that a host on a bridge is behind.
    fn member_of(&self, bridge: u32, mac: Mac) -> Option<InterfaceId> {
        let member = self.mirror.model().stations.member(bridge, mac)?;
        let port = self.plane.port_of(member).filter(|port| port.taken.is_some())?;
        port.whole.as_ref().filter(|whole| whole.ifindex == bridge).map(|_| port.id.interface())
    }
}
