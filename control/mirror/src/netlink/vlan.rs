//! `RTM_NEWVLAN` and `RTM_DELVLAN`: the VLANs of a bridge's member, and those of the bridge's own.

use super::{BRIDGE, attributes, attributes_after, u16_at, u32_at};

/// `struct br_vlan_msg`.
pub(super) const FIXED: usize = 8;
const BRIDGE_VLANDB_ENTRY: u16 = 1;
const BRIDGE_VLANDB_ENTRY_INFO: u16 = 1;
const BRIDGE_VLANDB_ENTRY_RANGE: u16 = 2;
const BRIDGE_VLANDB_ENTRY_STATE: u16 = 3;
const BRIDGE_VLAN_INFO_PVID: u16 = 2;
const BRIDGE_VLAN_INFO_UNTAGGED: u16 = 4;
/// `BR_STATE_FORWARDING`: of a member, and of a VLAN of its.
pub(crate) const FORWARDING: u8 = 3;
/// Identifiers of VLANs.
const MOST: u16 = 4094;

/// What a bridge says of VLANs of a member's, or of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlansMessage {
    /// The member, or the bridge.
    pub ifindex: u32,
    /// Of which VLANs.
    pub entries: Vec<VlanEntry>,
}

/// What is said of some VLANs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanEntry {
    /// The first and the last, of 1 to 4,094.
    pub vlans: (u16, u16),
    /// What comes without a tag is in it.
    pub untagged_in: bool,
    /// What leaves has no tag.
    pub untagged_out: bool,
    /// Its frames pass: its state is `forwarding`.
    pub forwarding: bool,
}

/// Parses the body; `None` when it is of no VLAN.
pub fn parse(body: &[u8]) -> Option<VlansMessage> {
    if *body.first()? != BRIDGE {
        return None;
    }
    let ifindex = u32_at(body, 4)?;
    let entries = attributes_after(body, FIXED)?.filter(|(kind, _)| *kind == BRIDGE_VLANDB_ENTRY);
    let entries: Vec<_> = entries.filter_map(|(_, value)| entry(value)).collect();
    (!entries.is_empty()).then_some(VlansMessage { ifindex, entries })
}

fn entry(value: &[u8]) -> Option<VlanEntry> {
    let (mut info, mut last, mut state) = (None, None, FORWARDING);
    for (kind, value) in attributes(value) {
        match kind {
            // `struct bridge_vlan_info`: flags, identifier.
            BRIDGE_VLANDB_ENTRY_INFO => info = Some((u16_at(value, 0)?, u16_at(value, 2)?)),
            BRIDGE_VLANDB_ENTRY_RANGE => last = Some(u16_at(value, 0)?),
            BRIDGE_VLANDB_ENTRY_STATE => state = *value.first()?,
            _ => {}
        }
    }
    let (flags, first) = info?;
    let vlans = (first, last.unwrap_or(first));
    (first > 0 && vlans.1 >= first && vlans.1 <= MOST).then_some(VlanEntry {
        vlans,
        untagged_in: flags & BRIDGE_VLAN_INFO_PVID != 0,
        untagged_out: flags & BRIDGE_VLAN_INFO_UNTAGGED != 0,
        forwarding: state == FORWARDING,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::request::attribute;

    fn told(entries: &[&[(u16, &[u8])]]) -> Option<VlansMessage> {
        let mut body = vec![0; FIXED];
        body[0] = BRIDGE;
        body[4..8].copy_from_slice(&7u32.to_ne_bytes());
        for entry in entries {
            let mut value = Vec::new();
            entry.iter().for_each(|(kind, part)| attribute(&mut value, *kind, part));
            attribute(&mut body, BRIDGE_VLANDB_ENTRY | libc::NLA_F_NESTED as u16, &value);
        }
        parse(&body)
    }

    fn info(flags: u16, id: u16) -> Vec<u8> {
        [flags.to_ne_bytes(), id.to_ne_bytes()].concat()
    }

    #[test]
    fn a_bridge_says_which_vlans_a_member_has() {
        let (own, more) = (info(BRIDGE_VLAN_INFO_PVID | BRIDGE_VLAN_INFO_UNTAGGED, 1), info(0, 10));
        let said = told(&[
            &[(BRIDGE_VLANDB_ENTRY_INFO, &own), (BRIDGE_VLANDB_ENTRY_STATE, &[3])],
            &[
                (BRIDGE_VLANDB_ENTRY_INFO, &more),
                (BRIDGE_VLANDB_ENTRY_RANGE, &20u16.to_ne_bytes()),
                (BRIDGE_VLANDB_ENTRY_STATE, &[4]),
            ],
        ]);
        let first = VlanEntry { vlans: (1, 1), untagged_in: true, untagged_out: true, forwarding: true };
        let rest = VlanEntry { vlans: (10, 20), untagged_in: false, untagged_out: false, forwarding: false };
        assert_eq!(said, Some(VlansMessage { ifindex: 7, entries: vec![first, rest] }));
    }

    #[test]
    fn what_is_no_vlan_is_not_taken() {
        for wrong in [info(0, 0), info(0, 4095), vec![0; 2]] {
            assert_eq!(told(&[&[(BRIDGE_VLANDB_ENTRY_INFO, &wrong)]]), None);
        }
        let back = (BRIDGE_VLANDB_ENTRY_RANGE, &5u16.to_ne_bytes()[..]);
        assert_eq!(told(&[&[(BRIDGE_VLANDB_ENTRY_INFO, &info(0, 10)), back]]), None);
        assert_eq!((told(&[]), parse(&[0; 8]), parse(&[BRIDGE])), (None, None, None));
    }
}
