//! `RTM_NEWNEIGH` and `RTM_DELNEIGH` of bridges: hosts, by their Ethernet addresses, and the member
//! that each is behind.

use super::{BRIDGE, attributes_after, mac, u16_at, u32_at, u32_value};
use crate::model::Station;
use wire::Mac;

const FIXED: usize = 12;
pub(super) const NDA_LLADDR: u16 = 2;
pub(super) const NDA_VLAN: u16 = 5;
const NDA_MASTER: u16 = 9;
const NDA_FLAGS_EXT: u16 = 15;
/// The bridge's own address, or a member's.
pub(super) const NUD_PERMANENT: u16 = 0x80;
/// The host has yet to be let in (`mab`).
const NTF_EXT_LOCKED: u32 = 2;

/// What a bridge says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationMessage {
    /// Of which host.
    pub station: Station,
    /// The member that it is behind; `None`: it is the bridge itself, or may not be sent to.
    pub member: Option<u32>,
}

/// Parses the body; `None` also for what a device says of itself.
pub fn parse(body: &[u8]) -> Option<StationMessage> {
    if *body.first()? != BRIDGE {
        return None;
    }
    let (member, state) = (u32_at(body, 4)?, u16_at(body, 8)?);
    let (mut bridge, mut address, mut vlan, mut flags) = (None, None, 0, 0);
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            NDA_MASTER => bridge = Some(u32_value(value)?),
            NDA_LLADDR => address = mac(value),
            NDA_VLAN => vlan = u16_at(value, 0)?,
            NDA_FLAGS_EXT => flags = u32_value(value)?,
            _ => {}
        }
    }
    let bridge = bridge?;
    let usable = member != bridge && state & NUD_PERMANENT == 0 && flags & NTF_EXT_LOCKED == 0;
    let station = Station { bridge, vlan, mac: Mac(address?) };
    Some(StationMessage { station, member: usable.then_some(member) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::request::attribute;

    fn told(state: u16, more: &[(u16, &[u8])]) -> Option<StationMessage> {
        let mut body = vec![0; FIXED];
        body[0] = BRIDGE;
        body[4..8].copy_from_slice(&7u32.to_ne_bytes());
        body[8..10].copy_from_slice(&state.to_ne_bytes());
        attribute(&mut body, NDA_LLADDR, &[2, 0, 0, 0, 0, 9]);
        more.iter().for_each(|(kind, value)| attribute(&mut body, *kind, value));
        parse(&body)
    }

    #[test]
    fn a_bridge_says_where_a_host_is() {
        let nine = &9u32.to_ne_bytes()[..];
        let of = (NDA_MASTER, nine);
        let in_vlan = |vlan| Station { bridge: 9, vlan, mac: Mac([2, 0, 0, 0, 0, 9]) };
        let is = |member| Some(StationMessage { station: in_vlan(0), member });
        // NUD_REACHABLE, NUD_STALE, NUD_NOARP: learnt, about to age, put there for good.
        for state in [2, 4, 0x40] {
            assert_eq!(told(state, &[of]), is(Some(7)));
        }
        assert_eq!(told(NUD_PERMANENT, &[of]), is(None), "its own address");
        assert_eq!(told(2, &[(NDA_MASTER, &7u32.to_ne_bytes())]).unwrap().member, None, "the bridge's");
        assert_eq!(told(2, &[of, (NDA_FLAGS_EXT, &NTF_EXT_LOCKED.to_ne_bytes())]), is(None));
        let tagged = told(2, &[of, (NDA_VLAN, &10u16.to_ne_bytes())]);
        assert_eq!(tagged, Some(StationMessage { station: in_vlan(10), member: Some(7) }));
        assert_eq!(told(2, &[]), None, "a device's own");
    }
}
