//! VLANs of bridges that tell them apart: which each member has, and which are the bridge's own, as
//! Linux says it (`bridge vlan`).

use crate::netlink::vlan::{VlanEntry, VlansMessage};
use std::collections::BTreeMap;

/// How frames of a VLAN pass a member, or the bridge's own device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// What comes without a tag is in it (`pvid`).
    pub untagged_in: bool,
    /// What leaves has no tag (`untagged`).
    pub untagged_out: bool,
    /// Its frames pass: its state is `forwarding`.
    pub forwarding: bool,
}

/// Those of a member, or of a bridge's own device, by identifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberVlans(BTreeMap<u16, Passage>);

impl MemberVlans {
    pub(super) const NONE: &'static MemberVlans = &MemberVlans(BTreeMap::new());

    /// How frames of a VLAN pass; `None`: not at all.
    pub fn passage(&self, vlan: u16) -> Option<Passage> {
        self.0.get(&vlan).copied()
    }

    /// The VLAN that what comes without a tag is in.
    pub fn of_untagged(&self) -> Option<u16> {
        self.0.iter().find(|(_, passage)| passage.untagged_in).map(|(vlan, _)| *vlan)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes in what a message says is there, or is gone.
    pub(crate) fn change(&mut self, entry: &VlanEntry, there: bool) {
        let &VlanEntry { vlans: (first, last), untagged_in, untagged_out, forwarding } = entry;
        if there && untagged_in {
            // Of the one that was it Linux says nothing.
            self.0.values_mut().for_each(|passage| passage.untagged_in = false);
        }
        for vlan in first..=last {
            match there {
                true => self.0.insert(vlan, Passage { untagged_in, untagged_out, forwarding }),
                false => self.0.remove(&vlan),
            };
        }
    }
}

/// Those of all, by Linux's index of the member or bridge.
#[derive(Default)]
pub(super) struct Vlans(BTreeMap<u32, MemberVlans>);

impl Vlans {
    pub fn of(&self, ifindex: u32) -> &MemberVlans {
        self.0.get(&ifindex).unwrap_or(MemberVlans::NONE)
    }

    pub fn all(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }

    /// Takes in what a message says is there, or is gone; whether anything changed.
    pub fn change(&mut self, message: &VlansMessage, there: bool) -> bool {
        let before = self.of(message.ifindex);
        let mut after = before.clone();
        message.entries.iter().for_each(|entry| after.change(entry, there));
        self.set(message.ifindex, after)
    }

    /// Whether anything changed.
    pub fn set(&mut self, ifindex: u32, vlans: MemberVlans) -> bool {
        let changed = *self.of(ifindex) != vlans;
        match vlans.is_empty() {
            true => self.0.remove(&ifindex),
            false => self.0.insert(ifindex, vlans),
        };
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(vlans: (u16, u16), untagged: bool) -> VlanEntry {
        VlanEntry { vlans, untagged_in: untagged, untagged_out: untagged, forwarding: true }
    }

    fn message(entry: VlanEntry) -> VlansMessage {
        VlansMessage { ifindex: 7, entries: vec![entry] }
    }

    #[test]
    fn one_vlan_of_a_member_has_what_comes_without_a_tag() {
        let mut vlans = Vlans::default();
        assert!(vlans.change(&message(entry((1, 1), true)), true));
        assert!(vlans.change(&message(entry((10, 12), false)), true));
        assert!(!vlans.change(&message(entry((10, 11), false)), true), "known");
        assert_eq!(vlans.of(7).of_untagged(), Some(1));
        assert!(vlans.change(&message(entry((11, 11), true)), true));
        let passage =
            |untagged_in, untagged_out| Some(Passage { untagged_in, untagged_out, forwarding: true });
        let of = [1, 10, 11, 12, 13].map(|vlan| vlans.of(7).passage(vlan));
        let tagged = passage(false, false);
        assert_eq!(of, [passage(false, true), tagged, passage(true, true), tagged, None]);
        assert!(vlans.change(&message(entry((11, 11), false)), true), "it has them no more");
        assert_eq!(vlans.of(7).of_untagged(), None);
        assert!(vlans.change(&message(entry((10, 12), false)), false));
        assert!(vlans.change(&message(entry((1, 1), false)), false));
        assert_eq!((vlans.all().count(), vlans.of(7)), (0, MemberVlans::NONE));
        assert!(!vlans.change(&message(entry((1, 1), false)), false));
    }
}
