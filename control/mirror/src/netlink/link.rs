//! `RTM_NEWLINK` and `RTM_DELLINK`.

use super::{attributes, attributes_after, mac, string, u16_at, u32_at, u32_value};
use wire::ethernet;

const FIXED: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VRF_TABLE: u16 = 1;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_EGRESS_QOS: u16 = 3;
const IFLA_VLAN_INGRESS_QOS: u16 = 4;
const IFLA_VLAN_PROTOCOL: u16 = 5;
const IFLA_BOND_MODE: u16 = 1;
const IFLA_BOND_XMIT_HASH_POLICY: u16 = 14;
const IFLA_BOND_SLAVE_STATE: u16 = 1;
const IFLA_BOND_SLAVE_MII_STATUS: u16 = 2;

/// What a link message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkMessage {
    /// The interface's index: its identity until it is deleted.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Ethernet address, when it has one.
    pub mac: Option<[u8; 6]>,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// `IFF_*`.
    pub flags: u32,
    /// What made it: `veth`, `bond`, `vlan`...; `None` for hardware.
    pub kind: Option<String>,
    /// The bond, bridge or VRF that it belongs to.
    pub master: Option<u32>,
    /// What it is as a VLAN, if it is one.
    pub vlan: Option<Vlan>,
    /// The number of its table, if it is a VRF.
    pub vrf: Option<u32>,
    /// What it is as a bond, if it is one.
    pub bond: Option<Bond>,
    /// What it is as a member of a bond, if it is one.
    pub member: Option<Member>,
}

/// What is said of a bond (`ip link add bond0 type bond mode 802.3ad`), by the kernel's numbers
/// (`linux/if_bonding.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bond {
    /// `BOND_MODE_*`.
    pub mode: u8,
    /// `BOND_XMIT_POLICY_*`.
    pub policy: u8,
}

impl Bond {
    fn read(data: &[u8]) -> Bond {
        let byte = |value: &[u8]| value.first().copied().unwrap_or_default();
        let mut bond = Bond::default();
        for (kind, value) in attributes(data) {
            match kind {
                IFLA_BOND_MODE => bond.mode = byte(value),
                IFLA_BOND_XMIT_HASH_POLICY => bond.policy = byte(value),
                _ => {}
            }
        }
        bond
    }
}

/// What is said of a member of a bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its state is `ACTIVE`, not `BACKUP`: the bond takes what comes by it. LACP has it collect and
    /// distribute; of an active-backup bond it is the active one.
    pub active: bool,
    /// Its link is up, as the bond sees it (`miimon`, `arp_interval`).
    pub link: bool,
}

impl Member {
    /// What is not said counts as good, as in a kernel that says less.
    fn read(data: &[u8]) -> Member {
        let mut member = Member { active: true, link: true };
        for (kind, value) in attributes(data) {
            match kind {
                IFLA_BOND_SLAVE_STATE => member.active = value == [0],
                IFLA_BOND_SLAVE_MII_STATUS => member.link = value == [0],
                _ => {}
            }
        }
        member
    }
}

/// What is said of a VLAN (`ip link add link eth0 name eth0.10 type vlan id 10`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vlan {
    /// Index of the interface that it is on; `None` where that is in another network namespace.
    pub on: Option<u32>,
    /// Its identifier, 0..=4,095.
    pub id: u16,
    /// Its tags are 802.1ad's, else 802.1Q's.
    pub service: bool,
    /// Priorities of tags and packets are made into each other.
    pub maps_priorities: bool,
}

impl Vlan {
    fn read(data: &[u8]) -> Vlan {
        let mut vlan = Vlan::default();
        for (kind, value) in attributes(data) {
            match kind {
                IFLA_VLAN_ID => vlan.id = u16_at(value, 0).unwrap_or_default(),
                IFLA_VLAN_PROTOCOL => vlan.service = value == ethernet::QINQ.to_be_bytes(),
                IFLA_VLAN_EGRESS_QOS | IFLA_VLAN_INGRESS_QOS => vlan.maps_priorities |= !value.is_empty(),
                _ => {}
            }
        }
        vlan
    }
}

/// Parses the body; `None` when it is no link message, or one of a bridge's port (family `AF_BRIDGE`).
pub fn parse(body: &[u8]) -> Option<LinkMessage> {
    if *body.first()? != libc::AF_UNSPEC as u8 {
        return None;
    }
    let ifindex = u32_at(body, 4)?;
    let flags = u32_at(body, 8)?;
    let mut link = LinkMessage {
        ifindex,
        name: String::new(),
        mac: None,
        mtu: 0,
        flags,
        kind: None,
        master: None,
        vlan: None,
        vrf: None,
        bond: None,
        member: None,
    };
    let (mut below, mut elsewhere, mut data) = (None, false, None);
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            IFLA_ADDRESS => link.mac = mac(value),
            IFLA_IFNAME => link.name = string(value),
            IFLA_MTU => link.mtu = u32_value(value)?,
            IFLA_MASTER => link.master = Some(u32_value(value)?),
            IFLA_LINK => below = u32_value(value),
            IFLA_LINK_NETNSID => elsewhere = true,
            IFLA_LINKINFO => {
                let part = |wanted| attributes(value).find(|(kind, _)| *kind == wanted).map(|(_, part)| part);
                link.kind = part(IFLA_INFO_KIND).map(string);
                data = part(IFLA_INFO_DATA);
                let of_bond = part(IFLA_INFO_SLAVE_KIND).map(string).as_deref() == Some("bond");
                link.member = part(IFLA_INFO_SLAVE_DATA).filter(|_| of_bond).map(Member::read);
            }
            _ => {}
        }
    }
    match link.kind.as_deref() {
        Some("vlan") => {
            let on = below.filter(|_| !elsewhere);
            link.vlan = data.map(|data| Vlan { on, ..Vlan::read(data) });
        }
        Some("bond") => link.bond = data.map(Bond::read),
        Some("vrf") => {
            let mut data = data.into_iter().flat_map(attributes);
            link.vrf = data.find(|(kind, _)| *kind == IFLA_VRF_TABLE).and_then(|(_, table)| u32_value(table));
        }
        _ => {}
    }
    (ifindex != 0).then_some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [(value.len() as u16 + 4).to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// Interface 7 on interface 3, with this data of a VLAN's and these attributes more.
    fn vlan(data: &[Vec<u8>], more: &[Vec<u8>]) -> Option<Vlan> {
        let mut body = vec![0; FIXED];
        body[4..8].copy_from_slice(&7u32.to_ne_bytes());
        let info = [attribute(IFLA_INFO_KIND, b"vlan\0"), attribute(IFLA_INFO_DATA, &data.concat())].concat();
        body.extend(attribute(IFLA_LINK, &3u32.to_ne_bytes()));
        body.extend(attribute(IFLA_LINKINFO, &info));
        body.extend(more.concat());
        parse(&body).unwrap().vlan
    }

    #[test]
    fn a_vrf_says_its_table() {
        let mut body = vec![0; FIXED];
        body[4..8].copy_from_slice(&9u32.to_ne_bytes());
        let table = attribute(IFLA_VRF_TABLE, &1001u32.to_ne_bytes());
        let info = [attribute(IFLA_INFO_KIND, b"vrf\0"), attribute(IFLA_INFO_DATA, &table)].concat();
        body.extend(attribute(IFLA_LINKINFO, &info));
        assert_eq!(parse(&body).unwrap().vrf, Some(1001));
    }

    #[test]
    fn a_vlan_says_its_tag_and_what_it_is_on() {
        let id = attribute(IFLA_VLAN_ID, &300u16.to_ne_bytes());
        let plain = Vlan { on: Some(3), id: 300, service: false, maps_priorities: false };
        assert_eq!(vlan(&[id.clone(), attribute(IFLA_VLAN_PROTOCOL, &[0x81, 0])], &[]), Some(plain));
        let service = attribute(IFLA_VLAN_PROTOCOL, &[0x88, 0xa8]);
        assert_eq!(vlan(&[id.clone(), service], &[]), Some(Vlan { service: true, ..plain }));
        // struct ifla_vlan_qos_mapping: from, to.
        let mapping = attribute(1, &[0; 8]);
        for kind in [IFLA_VLAN_EGRESS_QOS, IFLA_VLAN_INGRESS_QOS] {
            let maps = attribute(kind, &mapping);
            assert_eq!(vlan(&[id.clone(), maps], &[]), Some(Vlan { maps_priorities: true, ..plain }));
        }
        let elsewhere = attribute(IFLA_LINK_NETNSID, &0u32.to_ne_bytes());
        assert_eq!(vlan(&[id], &[elsewhere]), Some(Vlan { on: None, ..plain }));
    }
    /// Interface 7 with this information about what it is.
    fn told(info: &[Vec<u8>]) -> LinkMessage {
        let mut body = vec![0; FIXED];
        body[4..8].copy_from_slice(&7u32.to_ne_bytes());
        body.extend(attribute(IFLA_MASTER, &9u32.to_ne_bytes()));
        body.extend(attribute(IFLA_LINKINFO, &info.concat()));
        parse(&body).unwrap()
    }

    #[test]
    fn a_bond_says_its_mode_and_by_what_it_hashes() {
        let of = |kind: &[u8], data: &[Vec<u8>]| {
            told(&[attribute(IFLA_INFO_KIND, kind), attribute(IFLA_INFO_DATA, &data.concat())]).bond
        };
        let data = [attribute(IFLA_BOND_MODE, &[4]), attribute(IFLA_BOND_XMIT_HASH_POLICY, &[1])];
        assert_eq!(of(b"bond\0", &data), Some(Bond { mode: 4, policy: 1 }));
        assert_eq!(of(b"bond\0", &[attribute(IFLA_BOND_MODE, &[])]), Some(Bond::default()));
        assert_eq!(of(b"team\0", &data), None);
    }

    #[test]
    fn a_member_says_whether_it_is_active_and_its_link_up() {
        let of = |kind: &[u8], data: &[Vec<u8>]| {
            let data = attribute(IFLA_INFO_SLAVE_DATA, &data.concat());
            // What it is itself may be said as well.
            let own = attribute(IFLA_INFO_KIND, b"veth\0");
            let link = told(&[own, attribute(IFLA_INFO_SLAVE_KIND, kind), data]);
            assert_eq!(link.master, Some(9));
            link.member
        };
        let state = |state| attribute(IFLA_BOND_SLAVE_STATE, &[state]);
        let mii = |status| attribute(IFLA_BOND_SLAVE_MII_STATUS, &[status]);
        let member = |active, link| Some(Member { active, link });
        assert_eq!(of(b"bond\0", &[state(0), mii(0)]), member(true, true));
        assert_eq!(of(b"bond\0", &[state(1), mii(0)]), member(false, true));
        // BOND_LINK_FAIL, DOWN and BACK.
        for status in 1..=3 {
            assert_eq!(of(b"bond\0", &[state(0), mii(status)]), member(true, false));
        }
        assert_eq!(of(b"bridge\0", &[state(1)]), None);
    }
}
