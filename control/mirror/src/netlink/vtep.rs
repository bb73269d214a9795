//! `RTM_NEWNEIGH` and `RTM_DELNEIGH` of VXLANs: hosts, by their Ethernet addresses, and the other
//! end that each is behind.

use super::{BRIDGE, address, attributes_after, mac, u16_at, u32_at, u32_value};
use std::net::IpAddr;
use wire::Mac;

const FIXED: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_PORT: u16 = 6;
const NDA_VNI: u16 = 7;
const NDA_IFINDEX: u16 = 8;
const NDA_MASTER: u16 = 9;
const NDA_SRC_VNI: u16 = 11;
const NDA_NH_ID: u16 = 13;

/// What a VXLAN says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VtepMessage {
    /// The VXLAN, by Linux's index.
    pub vxlan: u32,
    /// The host's Ethernet address; zeros: all hosts that are not known.
    pub mac: Mac,
    /// The end that it is behind.
    pub end: Vtep,
}

/// Another end of a VXLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vtep {
    /// Its address; `None` where only Linux knows how to send there: to a group, to several ends of
    /// which it chooses one, to another port or with another number.
    pub address: Option<IpAddr>,
    /// The interface that leads there, by Linux's index; 0: whichever does.
    pub by: u32,
}

/// Parses the body; `None` also for what is no VXLAN's.
pub fn parse(body: &[u8]) -> Option<VtepMessage> {
    if *body.first()? != BRIDGE || u16_at(body, 8).is_none() {
        return None;
    }
    let vxlan = u32_at(body, 4)?;
    let (mut to, mut host, mut by, mut odd) = (None, None, 0, false);
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            NDA_MASTER => return None,
            NDA_DST => to = Some(address(value)?),
            NDA_LLADDR => host = mac(value),
            NDA_IFINDEX => by = u32_value(value)?,
            NDA_PORT | NDA_VNI | NDA_SRC_VNI | NDA_NH_ID => odd = true,
            _ => {}
        }
    }
    // Network cards list addresses that they take in messages as these, without an end.
    if to.is_none() && !odd {
        return None;
    }
    let one = |end: &IpAddr| !odd && !end.is_multicast() && !end.is_unspecified() && !is_linked(end);
    Some(VtepMessage { vxlan, mac: Mac(host?), end: Vtep { address: to.filter(one), by } })
}

/// A link-local address is an interface's, and the way there bound to it.
fn is_linked(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::request::attribute;

    const HOST: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const END: [u8; 4] = [192, 0, 2, 2];

    fn told(more: &[(u16, &[u8])]) -> Option<VtepMessage> {
        let mut body = vec![0; FIXED];
        body[0] = BRIDGE;
        body[4..8].copy_from_slice(&7u32.to_ne_bytes());
        attribute(&mut body, NDA_LLADDR, &HOST);
        more.iter().for_each(|(kind, value)| attribute(&mut body, *kind, value));
        parse(&body)
    }

    #[test]
    fn a_vxlan_says_behind_which_end_a_host_is() {
        let is = |address, by| Some(VtepMessage { vxlan: 7, mac: Mac(HOST), end: Vtep { address, by } });
        assert_eq!(told(&[(NDA_DST, &END)]), is(Some(END.into()), 0));
        assert_eq!(told(&[(NDA_DST, &END), (NDA_IFINDEX, &3u32.to_ne_bytes())]), is(Some(END.into()), 3));
        let end6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        assert_eq!(told(&[(NDA_DST, &end6)]), is(Some(end6.into()), 0));
    }

    #[test]
    fn what_only_linux_can_send_there_has_no_end() {
        let linked = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let odd: [&[(u16, &[u8])]; 5] = [
            &[(NDA_DST, &[239, 1, 1, 1])],
            &[(NDA_DST, &linked)],
            &[(NDA_DST, &END), (NDA_PORT, &[0x12, 0xb5])],
            &[(NDA_DST, &END), (NDA_VNI, &[9, 0, 0, 0])],
            &[(NDA_NH_ID, &[1, 0, 0, 0])],
        ];
        for more in odd {
            assert_eq!(told(more).unwrap().end.address, None);
        }
    }

    #[test]
    fn what_is_no_vxlans_is_not_taken() {
        assert_eq!(told(&[]), None, "an address that a network card takes");
        assert_eq!(told(&[(NDA_MASTER, &[9, 0, 0, 0])]), None, "a bridge's");
        assert_eq!(told(&[(NDA_DST, &[1, 2])]), None);
        assert_eq!((parse(&[BRIDGE]), parse(&[])), (None, None));
    }
}
