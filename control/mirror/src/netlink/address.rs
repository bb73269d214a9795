//! `RTM_NEWADDR` and `RTM_DELADDR`.

use super::{IPV4, IPV6, address, attributes_after, u32_at, u32_value};
use ipnet::IpNet;

const FIXED: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface.
    pub ifindex: u32,
    /// The address with its subnet's length, host bits kept.
    pub net: IpNet,
    /// `RT_SCOPE_*`: 0 everywhere, 253 on this link, 254 on this machine.
    pub scope: u8,
    /// `IFA_F_*`: secondary, deprecated, tentative...
    pub flags: u32,
}

const RT_SCOPE_LINK: u8 = 253;
const IFA_F_SECONDARY: u32 = 0x01;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;
const IFA_F_PERMANENT: u32 = 0x80;

impl Address {
    /// IPv4: the first of its subnet, which Linux prefers as a source.
    pub fn is_primary(&self) -> bool {
        self.flags & IFA_F_SECONDARY == 0
    }

    /// IPv6: on this link only, and nobody has said that it is not his.
    pub fn is_link_source(&self) -> bool {
        self.scope == RT_SCOPE_LINK && self.flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED) == 0
    }

    /// IPv6: global, and neither tentative nor deprecated.
    pub fn is_global_source(&self) -> bool {
        self.scope == 0 && self.flags & (IFA_F_TENTATIVE | IFA_F_DEPRECATED | IFA_F_DADFAILED) == 0
    }

    /// It has an end: somebody has given it for a while.
    pub fn is_leased(&self) -> bool {
        self.flags & IFA_F_PERMANENT == 0
    }
}

/// Parses the body.
pub fn parse(body: &[u8]) -> Option<Address> {
    let family = *body.first()?;
    let length = *body.get(1)?;
    let mut flags = u32::from(*body.get(2)?);
    let scope = *body.get(3)?;
    let ifindex = u32_at(body, 4)?;
    let mut own = None;
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            // On a point-to-point link IFA_ADDRESS is the peer's; IFA_LOCAL, when there, is ours.
            IFA_ADDRESS => own = own.or(Some(address(value)?)),
            IFA_LOCAL => own = Some(address(value)?),
            IFA_FLAGS => flags = u32_value(value)?,
            _ => {}
        }
    }
    let own = own?;
    if (family == IPV4) != own.is_ipv4() || (family == IPV6) != own.is_ipv6() {
        return None;
    }
    Some(Address { ifindex, net: IpNet::new(own, length).ok()?, scope, flags })
}
