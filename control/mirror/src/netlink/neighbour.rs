//! `RTM_NEWNEIGH` and `RTM_DELNEIGH`.

use super::{IPV4, IPV6, address, attributes_after, mac, u16_at, u32_at};
use std::net::{IpAddr, Ipv4Addr};

const FIXED: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NTF_PROXY: u8 = 0x08;
const NUD_NOARP: u16 = 0x40;

/// What a neighbour message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourMessage {
    /// The interface behind which the neighbour is.
    pub ifindex: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address, as far as known.
    pub mac: Option<[u8; 6]>,
    /// `NUD_*`.
    pub state: u16,
    /// `NTF_*`: extern learn, router...
    pub flags: u8,
}

impl NeighbourMessage {
    /// Whether Linux asks nobody for its Ethernet address: the interface has no such question, or
    /// the operator wrote it.
    pub fn needs_no_resolution(&self) -> bool {
        self.state & NUD_NOARP != 0
    }
}

/// Parses the body; `None` also for what is no neighbour: entries of bridges, addresses that this
/// machine answers for (proxy), and addresses that are nobody's: groups, broadcast, and the
/// unspecified one, under which Linux keeps "everybody" behind an interface that has no addresses
/// to resolve (loopback, tunnels).
pub fn parse(body: &[u8]) -> Option<NeighbourMessage> {
    let family = *body.first()?;
    let ifindex = u32_at(body, 4)?;
    let state = u16_at(body, 8)?;
    let flags = *body.get(10)?;
    if (family != IPV4 && family != IPV6) || flags & NTF_PROXY != 0 {
        return None;
    }
    let mut to = None;
    let mut link_layer = None;
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            NDA_DST => to = Some(address(value)?),
            NDA_LLADDR => link_layer = mac(value),
            _ => {}
        }
    }
    let to = to.filter(|address| address.is_ipv4() == (family == IPV4) && is_somebodys(*address))?;
    Some(NeighbourMessage { ifindex, address: to, mac: link_layer, state, flags })
}

fn is_somebodys(address: IpAddr) -> bool {
    !address.is_multicast() && !address.is_unspecified() && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}
