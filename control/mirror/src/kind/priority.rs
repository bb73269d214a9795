//! Priorities of VLANs (`ip link set eth0.5 type vlan egress-qos-map 0:6`): Linux has one beside
//! each packet, and each VLAN two maps, from what tags say to that, and back.
//!
//! For a packet of IPv4 that it forwards, Linux takes the priority from two bits of the type of
//! service (`rt_tos2priority`; `net.ipv4.ip_forward_update_priority` is 1). So what a tag says
//! follows from the packet and the VLAN that it leaves by. A packet of IPv6 keeps the priority that
//! it came with: 0, unless it came by a VLAN with a map. Only where that makes a difference is such
//! a VLAN Linux's.

use super::Is;
use crate::model::{Link, Links};
use crate::netlink::{attributes, u32_at};
use std::collections::BTreeMap;

/// The priorities of the four classes of service: best effort, bulk, interactive, interactive bulk
/// (`TC_PRIO_`).
const CLASSES: [u32; 4] = [0, 2, 6, 4];

/// The two maps of a VLAN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorityMaps {
    /// What a tag says of packets with a priority; 0 of those that are not in it.
    egress: BTreeMap<u32, u8>,
    /// The priority of packets whose tags say 0..=7.
    ingress: [u32; 8],
}

impl PriorityMaps {
    /// Takes in what a message says of packets that leave.
    pub(super) fn read_egress(&mut self, data: &[u8]) {
        self.egress.extend(mappings(data).map(|(from, to)| (from, to as u8 & 7)));
    }

    /// The same of those that come in.
    pub(super) fn read_ingress(&mut self, data: &[u8]) {
        mappings(data).for_each(|(from, to)| self.ingress[from as usize & 7] = to);
    }

    fn of(&self, priority: u32) -> u8 {
        self.egress.get(&priority).copied().unwrap_or_default()
    }

    /// What tags say of packets of IPv4, by two bits of the type of service; the first also of
    /// IPv6.
    pub(super) fn of_classes(&self) -> [u8; 4] {
        CLASSES.map(|priority| self.of(priority))
    }

    /// A priority that IPv6 has when it came in by this VLAN, and that tags tell apart where it
    /// leaves by the other one.
    fn told_apart_by(&self, other: &PriorityMaps) -> Option<u32> {
        self.ingress.into_iter().find(|priority| other.of(*priority) != other.of(0))
    }
}

/// `struct ifla_vlan_qos_mapping`: from, to.
fn mappings(data: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    attributes(data).filter_map(|(_, value)| Some((u32_at(value, 0)?, u32_at(value, 4)?)))
}

impl Links {
    /// The VLAN whose tags tell apart priorities that IPv6 has when it came in by this one, and one
    /// of them.
    pub(super) fn teller_of(&self, maps: &PriorityMaps) -> Option<(&Link, u32)> {
        if maps.ingress == [0; 8] {
            return None;
        }
        self.iter().find_map(|link| {
            let Is::Vlan(other) = &link.is else { return None };
            Some((link, maps.told_apart_by(&other.priorities)?))
        })
    }

    /// VLANs with a map of what comes in: whether they are the plane's depends on what others have.
    pub fn with_priorities_in(&self) -> impl Iterator<Item = &Link> {
        self.iter().filter(|link| matches!(&link.is, Is::Vlan(vlan) if vlan.priorities.ingress != [0; 8]))
    }
}
