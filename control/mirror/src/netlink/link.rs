//! `RTM_NEWLINK` and `RTM_DELLINK`.

use super::{attributes, attributes_after, mac, string, u32_at, u32_value};

const FIXED: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

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
}

/// Parses the body; `None` when it is no link message, or one of a bridge's port (family `AF_BRIDGE`).
pub fn parse(body: &[u8]) -> Option<LinkMessage> {
    if *body.first()? != libc::AF_UNSPEC as u8 {
        return None;
    }
    let ifindex = u32_at(body, 4)?;
    let flags = u32_at(body, 8)?;
    let mut link =
        LinkMessage { ifindex, name: String::new(), mac: None, mtu: 0, flags, kind: None, master: None };
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            IFLA_ADDRESS => link.mac = mac(value),
            IFLA_IFNAME => link.name = string(value),
            IFLA_MTU => link.mtu = u32_value(value)?,
            IFLA_MASTER => link.master = Some(u32_value(value)?),
            IFLA_LINKINFO => {
                link.kind =
                    attributes(value).find(|(kind, _)| *kind == IFLA_INFO_KIND).map(|(_, name)| string(name))
            }
            _ => {}
        }
    }
    (ifindex != 0).then_some(link)
}
