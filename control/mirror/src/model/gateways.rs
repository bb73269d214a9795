//! Gateways that are lost, though Linux does not know it, and by whom packets go meanwhile.
//!
//! A gateway is lost when a protocol that watches it (BFD) says so. Routes by it stay until a
//! routing daemon has worked out others, for each prefix. Until then a target does without its lost
//! gateways: by its others, or where all are lost, by their backups. That is one store for each
//! target, however many routes point there (prefix-independent).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::Path;

/// A gateway by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gateway {
    /// Its address.
    pub address: IpAddr,
    /// The interface, or the VRF, by which it is reached; `None`: whichever.
    pub ifindex: Option<u32>,
}

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gateways {
    /// Those that do not answer.
    pub lost: BTreeSet<Gateway>,
    /// Who takes whose place, by which interface.
    pub backups: BTreeMap<Gateway, (u32, IpAddr)>,
}

impl Gateways {
    /// Whether packets by a gateway on an interface (of a VRF) are lost.
    pub(super) fn is_lost(&self, address: IpAddr, ifindex: u32, vrf: Option<u32>) -> bool {
        names(address, ifindex, vrf).any(|name| self.lost.contains(&name))
    }

    /// Who takes the place of a gateway on an interface (of a VRF).
    pub(super) fn backup(&self, address: IpAddr, ifindex: u32, vrf: Option<u32>) -> Option<(u32, IpAddr)> {
        names(address, ifindex, vrf).find_map(|name| self.backups.get(&name).copied())
    }

    /// Whether a path is another by these gateways than by those.
    pub(crate) fn differ(&self, other: &Gateways, path: &Path) -> bool {
        let Some(address) = path.gateway else { return false };
        let is = |gateway: &Gateway| gateway.address == address;
        // With whether each is lost itself.
        let backups = |of: &Gateways| {
            let own = of.backups.iter().filter(|(gateway, _)| is(gateway));
            own.map(|(gateway, by)| (*gateway, *by, lost_like(of, by.1))).collect::<Vec<_>>()
        };
        lost_like(self, address) != lost_like(other, address) || backups(self) != backups(other)
    }
}

/// What is lost with this address.
fn lost_like(of: &Gateways, address: IpAddr) -> Vec<Gateway> {
    of.lost.iter().copied().filter(|gateway| gateway.address == address).collect()
}

/// The names of a gateway, the most exact first.
fn names(address: IpAddr, ifindex: u32, vrf: Option<u32>) -> impl Iterator<Item = Gateway> {
    let exact = [Some(ifindex), vrf].into_iter().flatten();
    exact.map(Some).chain([None]).map(move |ifindex| Gateway { address, ifindex })
}
