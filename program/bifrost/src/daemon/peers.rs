//! Who speaks routing protocols with this machine, told to the driver, which keeps a bucket apart
//! for them (`forwarding/bpf/peers.h`).
//!
//! Linux knows the sessions of BGP and LDP as TCP sockets, and who is on the link as neighbours:
//! OSPF, BFD and the like come from these. Both are asked for once a second. An address stays known
//! for a while after Linux has forgotten it, since a flood of forged neighbours makes Linux forget
//! real ones; and of more than the driver can hold those that were there first stay.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use mirror::netlink::socket::sessions;
use port::RoutingPeer;
use tracing::warn;

use super::forwarding::Forwarding;

/// How often Linux is asked.
const LOOK: Duration = Duration::from_secs(1);
/// How long an address stays known.
const REMEMBER: Duration = Duration::from_secs(300);
/// Peers that are remembered, as many as the driver holds.
const MOST: usize = 16_384;
/// BGP and LDP.
const PORTS: [u16; 2] = [179, 646];

/// Who is known.
#[derive(Default)]
pub(super) struct Peers {
    seen: HashMap<RoutingPeer, Instant>,
    told: HashSet<RoutingPeer>,
    looked: Option<Instant>,
}

impl Peers {
    /// Takes note of who is there now. What the driver is to know, if it is another set than
    /// before.
    fn note(
        &mut self,
        there: impl Iterator<Item = RoutingPeer>,
        now: Instant,
    ) -> Option<&HashSet<RoutingPeer>> {
        for peer in there {
            if self.seen.len() < MOST || self.seen.contains_key(&peer) {
                self.seen.insert(peer, now);
            }
        }
        self.seen.retain(|peer, seen| {
            let remembered = matches!(peer, RoutingPeer::Address(_)) && now.duration_since(*seen) < REMEMBER;
            *seen == now || remembered
        });
        let known: HashSet<RoutingPeer> = self.seen.keys().copied().collect();
        if known == self.told {
            return None;
        }
        self.told = known;
        Some(&self.told)
    }
}

impl Peers {
    /// Tells the driver who is known, if it is time to.
    pub(super) fn tell(&mut self, forwarding: &mut Forwarding) {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK) {
            return;
        }
        self.looked = Some(now);
        let sessions = match sessions() {
            Ok(sessions) => sessions,
            Err(error) => return warn!("the sessions of routing protocols are not known: {error}"),
        };
        let sessions = sessions.iter().filter(|one| PORTS.contains(&one.ours) || PORTS.contains(&one.theirs));
        let sessions = sessions.flat_map(|one| {
            let session = RoutingPeer::Session { address: one.address, theirs: one.theirs, ours: one.ours };
            [session, RoutingPeer::Address(one.address)]
        });
        let neighbours = forwarding.mirror.model().neighbours.iter();
        let neighbours = neighbours
            .filter(|(_, _, neighbour)| neighbour.usable().is_some())
            .map(|(_, address, _)| RoutingPeer::Address(address));
        if let Some(known) = self.note(sessions.chain(neighbours), now)
            && let Err(error) = forwarding.plane.driver_mut().set_peers(known.clone())
        {
            warn!("the driver is not told who speaks routing protocols: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn an_address_is_remembered_for_a_while_and_a_session_is_not() {
        let mut peers = Peers::default();
        let start = Instant::now();
        let address: IpAddr = [10, 0, 0, 1].into();
        let session = RoutingPeer::Session { address, theirs: 179, ours: 40_000 };
        let both = [session, RoutingPeer::Address(address)];
        assert_eq!(peers.note(both.into_iter(), start).unwrap(), &HashSet::from(both));
        assert!(peers.note(both.into_iter(), start + LOOK).is_none());
        let address = HashSet::from([both[1]]);
        assert_eq!(peers.note(std::iter::empty(), start + 2 * LOOK).unwrap(), &address);
        assert!(peers.note(std::iter::empty(), start + REMEMBER).is_none());
        assert_eq!(peers.note(std::iter::empty(), start + 2 * REMEMBER).unwrap().len(), 0);
    }

    #[test]
    fn a_flood_of_neighbours_does_not_displace_those_who_were_there() {
        let mut peers = Peers::default();
        let start = Instant::now();
        let first = RoutingPeer::Address([10, 0, 0, 1].into());
        peers.note([first].into_iter(), start);
        let flood =
            (0..100_000u32).map(|n| RoutingPeer::Address(IpAddr::from((n + 0x0b00_0000).to_be_bytes())));
        let known = peers.note(flood, start + LOOK).unwrap();
        assert!(known.len() == MOST && known.contains(&first));
    }
}
