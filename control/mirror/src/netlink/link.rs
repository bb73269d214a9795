//! `RTM_NEWLINK` and `RTM_DELLINK`.

use super::{attributes, attributes_after, mac, string, u32_at, u32_value};
use crate::kind::{Bridged, Is, Member, Said};

const FIXED: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_PROTINFO: u16 = 12;
const IFLA_LINKINFO: u16 = 18;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;

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
    /// What it is.
    pub is: Is,
    /// What it is as a member of a bond, if it is one.
    pub member: Option<Member>,
    /// What it is as a member of a bridge, if it is one.
    pub bridged: Option<Bridged>,
}

/// What a bridge says of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgedMessage {
    /// The member.
    pub ifindex: u32,
    /// The bridge.
    pub bridge: u32,
    /// What the member is now.
    pub bridged: Bridged,
}

/// Parses the body of a message of a bridge's member (family `AF_BRIDGE`); `None` when it is none.
pub fn parse_bridged(body: &[u8]) -> Option<BridgedMessage> {
    if *body.first()? != super::BRIDGE {
        return None;
    }
    let (mut bridge, mut bridged) = (None, None);
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            IFLA_MASTER => bridge = Some(u32_value(value)?),
            IFLA_PROTINFO => bridged = Some(Bridged::read(value)),
            _ => {}
        }
    }
    Some(BridgedMessage { ifindex: u32_at(body, 4)?, bridge: bridge?, bridged: bridged? })
}

/// Parses the body; `None` when it is no link message, or one of a bridge's port (family
/// `AF_BRIDGE`).
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
        is: Is::default(),
        member: None,
        bridged: None,
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
                let slave = part(IFLA_INFO_SLAVE_KIND).map(string);
                let of = |kind| part(IFLA_INFO_SLAVE_DATA).filter(|_| slave.as_deref() == Some(kind));
                link.member = of("bond").map(Member::read);
                link.bridged = of("bridge").map(Bridged::read);
            }
            _ => {}
        }
    }
    let below = below.filter(|_| !elsewhere);
    link.is = Is::read(&Said { name: link.kind.as_deref(), data, below });
    (ifindex != 0).then_some(link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Vlan;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [(value.len() as u16 + 4).to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// Interface 7 on interface 3, with this information about what it is, and these attributes
    /// more.
    fn told(info: &[Vec<u8>], more: &[Vec<u8>]) -> LinkMessage {
        let mut body = vec![0; FIXED];
        body[4..8].copy_from_slice(&7u32.to_ne_bytes());
        body.extend(attribute(IFLA_LINK, &3u32.to_ne_bytes()));
        body.extend(attribute(IFLA_LINKINFO, &info.concat()));
        body.extend(more.concat());
        parse(&body).unwrap()
    }

    #[test]
    fn a_message_says_what_an_interface_is_and_what_it_is_on() {
        let vlan = [attribute(IFLA_INFO_KIND, b"vlan\0"), attribute(IFLA_INFO_DATA, &[])];
        assert_eq!(told(&vlan, &[]).is, Vlan { on: Some(3), ..Vlan::default() }.into());
        let elsewhere = attribute(IFLA_LINK_NETNSID, &0u32.to_ne_bytes());
        assert_eq!(told(&vlan, &[elsewhere]).is, Vlan::default().into());
        let veth = attribute(IFLA_INFO_KIND, b"veth\0");
        assert_eq!(told(&[veth], &[]).is, Is::default());
    }

    #[test]
    fn a_message_says_what_is_a_member_of_a_bond() {
        let member = |kind: &[u8]| {
            let data = attribute(IFLA_INFO_SLAVE_DATA, &[]);
            // What it is itself may be said as well.
            let own = attribute(IFLA_INFO_KIND, b"veth\0");
            let link = told(
                &[own, attribute(IFLA_INFO_SLAVE_KIND, kind), data],
                &[attribute(IFLA_MASTER, &9u32.to_ne_bytes())],
            );
            assert_eq!(link.master, Some(9));
            (link.member, link.bridged)
        };
        assert_eq!(member(b"bond\0"), (Some(Member { active: true, link: true }), None));
        assert_eq!(
            member(b"bridge\0"),
            (None, Some(Bridged { forwarding: false, learns: true, locked: false }))
        );
    }

    #[test]
    fn a_bridge_says_what_its_member_is() {
        let mut body = vec![0; FIXED];
        body[0] = super::super::BRIDGE;
        body[4..8].copy_from_slice(&7u32.to_ne_bytes());
        body.extend(attribute(IFLA_MASTER, &9u32.to_ne_bytes()));
        assert_eq!(parse_bridged(&body), None, "that it is one is not said");
        body.extend(attribute(IFLA_PROTINFO, &attribute(1, &[3])));
        let bridged = Bridged { forwarding: true, learns: true, locked: false };
        assert_eq!(parse_bridged(&body), Some(BridgedMessage { ifindex: 7, bridge: 9, bridged }));
        assert_eq!(parse(&body), None);
        body[0] = 0;
        assert_eq!(parse_bridged(&body), None);
    }
}
