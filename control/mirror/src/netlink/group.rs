//! `RTM_NEWROUTE` and `RTM_DELROUTE` of Linux's multicast routing (`ip mroute`), and what says that
//! it changed without a word about an entry.

use super::{address, attributes_after, u16_at, u32_at, u32_value};
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `RTNL_FAMILY_IPMR`: multicast routing of IPv4.
pub const GROUPS4: u8 = 128;
/// `RTNL_FAMILY_IP6MR`: multicast routing of IPv6.
pub const GROUPS6: u8 = 129;

const FIXED: usize = 12;
const RTNH_F_UNRESOLVED: u32 = 32;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const FRA_TABLE: u16 = 15;
const FRA_L3MDEV: u16 = 19;
const NETCONFA_MC_FORWARDING: u16 = 4;
/// The tables that decide where no rule chooses another (`RT_TABLE_DEFAULT`, `RT6_TABLE_DFLT`).
const DEFAULT: [u32; 2] = [253, 254];

/// What a message says of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMessage {
    /// Where packets come from; the unspecified address: from wherever.
    pub source: IpAddr,
    /// The group; the unspecified address: any.
    pub group: IpAddr,
    /// Whether it is in the table that decides where no rule chooses another.
    pub default_table: bool,
    /// Linux waits for its routing daemon to say what it is to be.
    pub unresolved: bool,
    /// The interface that packets come in by; 0: it is gone.
    pub input: u32,
    /// The interfaces that packets leave by with a TTL above the number beside each.
    pub outputs: SmallVec<[(u32, u8); 4]>,
}

/// Parses the body; `None` for other families.
pub fn parse(body: &[u8]) -> Option<GroupMessage> {
    let fixed: &[u8; FIXED] = body.get(..FIXED)?.try_into().ok()?;
    let any = match fixed[0] {
        GROUPS4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        GROUPS6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let mut table = u32::from(fixed[4]);
    let mut message = GroupMessage {
        source: any,
        group: any,
        default_table: false,
        unresolved: u32_at(fixed, 8)? & RTNH_F_UNRESOLVED != 0,
        input: 0,
        outputs: SmallVec::new(),
    };
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            RTA_SRC => message.source = address(value)?,
            RTA_DST => message.group = address(value)?,
            RTA_IIF => message.input = u32_value(value)?,
            RTA_MULTIPATH => message.outputs = outputs(value)?,
            RTA_TABLE => table = u32_value(value)?,
            _ => {}
        }
    }
    message.default_table = table == DEFAULT[usize::from(any.is_ipv6())];
    let alike = [message.source, message.group].iter().all(|address| address.is_ipv4() == any.is_ipv4());
    alike.then_some(message)
}

/// `struct rtnexthop` one after the other: length (16), flags (8), threshold (8), interface (32).
fn outputs(value: &[u8]) -> Option<SmallVec<[(u32, u8); 4]>> {
    const FIXED: usize = 8;
    let (mut outputs, mut rest) = (SmallVec::new(), value);
    while rest.len() >= FIXED {
        let length = u16_at(rest, 0)? as usize;
        let entry = rest.get(..length).filter(|entry| entry.len() >= FIXED)?;
        outputs.push((u32_at(entry, 4)?, entry[3]));
        rest = rest.get(super::align(length)..).unwrap_or(&[]);
    }
    Some(outputs)
}

/// Whether a rule message (`ip mrule`) chooses another table than the one that decides without
/// rules. Those that lead to VRFs' tables choose for what comes in by VRFs only.
pub fn chooses_table(body: &[u8]) -> Option<bool> {
    let fixed: &[u8; FIXED] = body.get(..FIXED)?.try_into().ok()?;
    let family = match fixed[0] {
        GROUPS4 => 0,
        GROUPS6 => 1,
        _ => return None,
    };
    let mut table = u32::from(fixed[4]);
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            FRA_L3MDEV => return Some(false),
            FRA_TABLE => table = u32_value(value)?,
            _ => {}
        }
    }
    Some(table != DEFAULT[family])
}

/// Whether a netconf message tells that an interface has come into multicast routing, or has left
/// it: what entries say of it is another thing from then on.
pub fn tells_interfaces(body: &[u8]) -> bool {
    attributes_after(body, 1)
        .is_some_and(|mut attributes| attributes.any(|(kind, _)| kind == NETCONFA_MC_FORWARDING))
}

#[cfg(test)]
mod tests {
    use super::super::request::attribute;
    use super::*;

    fn body(family: u8, flags: u32) -> Vec<u8> {
        let mut body = vec![family, 32, 32, 0, 0, 4, 0, 5];
        body.extend_from_slice(&flags.to_ne_bytes());
        body
    }

    fn hops(hops: &[(u32, u8)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (interface, threshold) in hops {
            bytes.extend_from_slice(&8u16.to_ne_bytes());
            bytes.extend_from_slice(&[0, *threshold]);
            bytes.extend_from_slice(&interface.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn an_entry_is_read() {
        let mut bytes = body(GROUPS4, 0);
        attribute(&mut bytes, RTA_TABLE, &253u32.to_ne_bytes());
        attribute(&mut bytes, RTA_SRC, &[10, 0, 0, 2]);
        attribute(&mut bytes, RTA_DST, &[239, 1, 2, 3]);
        attribute(&mut bytes, RTA_IIF, &7u32.to_ne_bytes());
        attribute(&mut bytes, RTA_MULTIPATH, &hops(&[(8, 1), (9, 30)]));
        let message = parse(&bytes).unwrap();
        assert_eq!((message.source, message.group), ([10, 0, 0, 2].into(), [239, 1, 2, 3].into()));
        assert_eq!((message.input, &message.outputs[..]), (7, &[(8, 1), (9, 30)][..]));
        assert!(message.default_table && !message.unresolved);
    }

    #[test]
    fn other_tables_and_unresolved_entries_are_told_apart() {
        let mut bytes = body(GROUPS6, RTNH_F_UNRESOLVED);
        attribute(&mut bytes, RTA_TABLE, &253u32.to_ne_bytes());
        attribute(&mut bytes, RTA_DST, &[0xff; 16]);
        let message = parse(&bytes).unwrap();
        assert!(message.unresolved && !message.default_table && message.source.is_unspecified());
        attribute(&mut bytes, RTA_SRC, &[10, 0, 0, 2]);
        assert_eq!(parse(&bytes), None, "an address of the other family");
        assert_eq!(parse(&body(2, 0)), None);
    }

    #[test]
    fn rules_that_lead_elsewhere_are_told() {
        let mut default = body(GROUPS4, 0);
        default[4] = 253;
        assert_eq!(chooses_table(&default), Some(false));
        let mut vrfs = body(GROUPS4, 0);
        attribute(&mut vrfs, FRA_L3MDEV, &[1]);
        assert_eq!(chooses_table(&vrfs), Some(false));
        let mut other = body(GROUPS6, 0);
        attribute(&mut other, FRA_TABLE, &10u32.to_ne_bytes());
        assert_eq!(chooses_table(&other), Some(true));
        assert_eq!(chooses_table(&body(2, 0)), None);
    }
}
