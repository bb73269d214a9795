//! `XFRM_MSG_GETPOLICY`: IPsec policies, which wrap, unwrap or drop what they are about (`ip xfrm
//! policy`).

use super::{IPV4, IPV6, request, u16_at};
use ipnet::IpNet;
use libc::{NLM_F_DUMP, NLM_F_REQUEST};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A policy.
pub const XFRM_MSG_NEWPOLICY: u16 = 0x13;
const XFRM_MSG_GETPOLICY: u16 = 0x15;
/// What becomes of packets without a policy: the question and its answer.
pub const XFRM_MSG_GETDEFAULT: u16 = 0x28;
/// `XFRM_USERPOLICY_BLOCK`.
const BLOCK: u8 = 1;
/// `struct xfrm_selector`.
const SELECTOR: usize = 56;
/// `struct xfrm_userpolicy_id`.
const ID: usize = 64;
/// The direction in `struct xfrm_userpolicy_info`: behind the selector, two lifetimes, priority and
/// index.
const DIRECTION: usize = SELECTOR + 64 + 32 + 8;

/// A policy that forwarded packets meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Of IPv6.
    pub ipv6: bool,
    /// As `ip xfrm policy` has it: `fwd 10.0.0.0/8 to 192.0.2.0/24`.
    pub words: String,
}

/// The request for all policies.
pub fn dump_policies() -> Vec<u8> {
    request::message(XFRM_MSG_GETPOLICY, NLM_F_REQUEST | NLM_F_DUMP, &[0; ID])
}

/// Parses the body of a [`XFRM_MSG_NEWPOLICY`]; `None` for what only this machine's own packets
/// meet.
pub fn parse(body: &[u8]) -> Option<Policy> {
    // Forwarded packets are held against what is for them as they come in, and against what is for
    // all as they leave.
    let direction = match *body.get(DIRECTION)? {
        1 => "out",
        2 => "fwd",
        _ => return None,
    };
    let family = u16_at(body, 40)?;
    let net = |at: usize, length: usize| {
        let address = match u8::try_from(family).ok()? {
            IPV4 => IpAddr::V4(Ipv4Addr::from(*body.get(at..)?.first_chunk::<4>()?)),
            IPV6 => IpAddr::V6(Ipv6Addr::from(*body.get(at..)?.first_chunk::<16>()?)),
            _ => return None,
        };
        IpNet::new(address, *body.get(length)?).ok()
    };
    let (to, from) = (net(0, 42)?, net(16, 43)?);
    Some(Policy { ipv6: from.addr().is_ipv6(), words: format!("{direction} {from} to {to}") })
}

/// The request for what becomes of packets without a policy.
pub fn get_default() -> Vec<u8> {
    request::message(XFRM_MSG_GETDEFAULT, NLM_F_REQUEST, &[0; 4])
}

/// Parses the body of a [`XFRM_MSG_GETDEFAULT`], `struct xfrm_userpolicy_default`: the directions
/// that are blocked, of those that forwarded packets have.
pub fn parse_default(body: &[u8]) -> Option<Vec<&'static str>> {
    let [_, forwarded, out] = body.first_chunk::<3>()?;
    let directions = [(*forwarded, "fwd"), (*out, "out")].into_iter();
    Some(directions.filter(|(action, _)| *action == BLOCK).map(|(_, name)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_for_what_passes_are_read() {
        let mut body = vec![0; 168];
        body[..4].copy_from_slice(&[192, 0, 2, 0]);
        body[16..20].copy_from_slice(&[10, 0, 0, 0]);
        body[40..42].copy_from_slice(&2u16.to_ne_bytes());
        (body[42], body[43], body[DIRECTION]) = (24, 8, 2);
        assert_eq!(parse(&body).unwrap().words, "fwd 10.0.0.0/8 to 192.0.2.0/24");
        body[DIRECTION] = 0;
        assert_eq!(parse(&body), None);
        body[DIRECTION] = 1;
        assert_eq!((parse(&body[..100]), parse(&[])), (None, None));
        body[40..42].copy_from_slice(&10u16.to_ne_bytes());
        assert!(parse(&body).unwrap().ipv6);
        assert_eq!(parse_default(&[1, 2, 1]), Some(vec!["out"]));
        assert_eq!((parse_default(&[1, 2, 2, 0]), parse_default(&[1, 1])), (Some(Vec::new()), None));
    }
}
