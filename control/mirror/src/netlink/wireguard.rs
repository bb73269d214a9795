//! WireGuard by generic netlink (`linux/wireguard.h`): what an interface has, and changes of it.
//!
//! A change names the peers that it is about; Linux leaves all others alone. An answer may come in
//! several messages: one begins with the peer that the last one ended with, and more of its
//! prefixes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use ipnet::IpNet;

use super::request::{attribute, message};
use super::{IPV4, IPV6, address, attributes, attributes_after, u16_at, u32_value};

/// A key, of either sort.
pub type Key = [u8; 32];

/// `struct genlmsghdr`.
const FIXED: usize = 4;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const WG_GENL_VERSION: u8 = 1;
const WG_CMD_GET_DEVICE: u8 = 0;
const WG_CMD_SET_DEVICE: u8 = 1;
const WGDEVICE_A_IFNAME: u16 = 2;
const WGDEVICE_A_PRIVATE_KEY: u16 = 3;
const WGDEVICE_A_LISTEN_PORT: u16 = 6;
const WGDEVICE_A_PEERS: u16 = 8;
const WGPEER_A_PUBLIC_KEY: u16 = 1;
const WGPEER_A_PRESHARED_KEY: u16 = 2;
const WGPEER_A_FLAGS: u16 = 3;
const WGPEER_A_ENDPOINT: u16 = 4;
const WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL: u16 = 5;
const WGPEER_A_ALLOWEDIPS: u16 = 9;
const WGPEER_F_REMOVE_ME: u32 = 1;
const WGPEER_F_REPLACE_ALLOWEDIPS: u32 = 2;
const WGALLOWEDIP_A_FAMILY: u16 = 1;
const WGALLOWEDIP_A_IPADDR: u16 = 2;
const WGALLOWEDIP_A_CIDR_MASK: u16 = 3;
const NESTED: u16 = libc::NLA_F_NESTED as u16;

/// What an interface has.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// `None`: it has none.
    pub private_key: Option<Key>,
    /// Its UDP port.
    pub port: u16,
    /// By their public keys.
    pub peers: BTreeMap<Key, Peer>,
}

impl fmt::Debug for Device {
    /// Without its secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("port", &self.port).field("peers", &self.peers).finish_non_exhaustive()
    }
}

impl fmt::Debug for Peer {
    /// Without its secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Peer { endpoint, keepalive, allowed, .. } = self;
        f.debug_tuple("Peer").field(endpoint).field(keepalive).field(allowed).finish_non_exhaustive()
    }
}

/// A peer.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// `None`: there is none.
    pub preshared_key: Option<Key>,
    /// Where it is, as far as that is known.
    pub endpoint: Option<SocketAddr>,
    /// Seconds between two packets that keep a way open; 0: none.
    pub keepalive: u16,
    /// Whose packets come from it, and go to it.
    pub allowed: BTreeSet<IpNet>,
}

/// The question for the number that Linux gave to WireGuard.
pub fn get_family() -> Vec<u8> {
    let mut body = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    attribute(&mut body, CTRL_ATTR_FAMILY_NAME, b"wireguard\0");
    message(GENL_ID_CTRL, libc::NLM_F_REQUEST, &body)
}

/// The answer to [`get_family`].
pub fn parse_family(body: &[u8]) -> Option<u16> {
    let (_, value) = attributes_after(body, FIXED)?.find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID)?;
    u16_at(value, 0)
}

/// The question for all that an interface has.
pub fn get_device(family: u16, name: &str) -> Vec<u8> {
    message(family, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, &begun(WG_CMD_GET_DEVICE, name))
}

/// Takes a part of the answer to [`get_device`].
pub fn parse_device(body: &[u8], device: &mut Device) -> Option<()> {
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            WGDEVICE_A_PRIVATE_KEY => device.private_key = given(value),
            WGDEVICE_A_LISTEN_PORT => device.port = u16_at(value, 0)?,
            WGDEVICE_A_PEERS => attributes(value).try_for_each(|(_, peer)| parse_peer(peer, device))?,
            _ => {}
        }
    }
    Some(())
}

fn parse_peer(body: &[u8], device: &mut Device) -> Option<()> {
    let find = |kind| attributes(body).find(|(other, _)| *other == kind).map(|(_, value)| value);
    let peer = device.peers.entry(find(WGPEER_A_PUBLIC_KEY)?.try_into().ok()?).or_default();
    for (kind, value) in attributes(body) {
        match kind {
            WGPEER_A_PRESHARED_KEY => peer.preshared_key = given(value),
            WGPEER_A_ENDPOINT => peer.endpoint = parse_endpoint(value),
            WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL => peer.keepalive = u16_at(value, 0)?,
            WGPEER_A_ALLOWEDIPS => {
                peer.allowed.extend(attributes(value).filter_map(|(_, net)| parse_net(net)))
            }
            _ => {}
        }
    }
    Some(())
}

/// Linux shows a key that is not there as zeroes.
fn given(value: &[u8]) -> Option<Key> {
    value.try_into().ok().filter(|key: &Key| key.iter().any(|byte| *byte != 0))
}

/// A `struct sockaddr_in` or `sockaddr_in6`.
fn parse_endpoint(value: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be(u16_at(value, 2)?);
    match u16_at(value, 0)? as u8 {
        IPV4 => Some((address(value.get(4..8)?)?, port).into()),
        IPV6 => {
            let octets: [u8; 16] = value.get(8..24)?.try_into().ok()?;
            let scope = u32_value(value.get(24..28)?)?;
            Some(SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope).into())
        }
        _ => None,
    }
}

fn parse_net(body: &[u8]) -> Option<IpNet> {
    let find = |kind| attributes(body).find(|(other, _)| *other == kind).map(|(_, value)| value);
    IpNet::new(address(find(WGALLOWEDIP_A_IPADDR)?)?, *find(WGALLOWEDIP_A_CIDR_MASK)?.first()?).ok()
}

/// The request that an interface have this private key, and this port; what is `None` stays.
pub fn set_device(family: u16, name: &str, private_key: Option<&Key>, port: Option<u16>) -> Vec<u8> {
    let mut body = begun(WG_CMD_SET_DEVICE, name);
    private_key.into_iter().for_each(|key| attribute(&mut body, WGDEVICE_A_PRIVATE_KEY, key));
    port.into_iter().for_each(|port| attribute(&mut body, WGDEVICE_A_LISTEN_PORT, &port.to_ne_bytes()));
    message(family, libc::NLM_F_REQUEST | libc::NLM_F_ACK, &body)
}

/// The request that an interface have this peer so, or not have it. An endpoint that is `None`
/// stays what it is.
pub fn set_peer(family: u16, name: &str, key: &Key, peer: Option<&Peer>) -> Vec<u8> {
    let mut one = Vec::new();
    attribute(&mut one, WGPEER_A_PUBLIC_KEY, key);
    let flags = if peer.is_some() { WGPEER_F_REPLACE_ALLOWEDIPS } else { WGPEER_F_REMOVE_ME };
    attribute(&mut one, WGPEER_A_FLAGS, &flags.to_ne_bytes());
    if let Some(peer) = peer {
        attribute(&mut one, WGPEER_A_PRESHARED_KEY, &peer.preshared_key.unwrap_or_default());
        peer.endpoint.iter().for_each(|end| attribute(&mut one, WGPEER_A_ENDPOINT, &endpoint(end)));
        attribute(&mut one, WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, &peer.keepalive.to_ne_bytes());
        let mut nets = Vec::new();
        peer.allowed.iter().for_each(|net| attribute(&mut nets, NESTED, &allowed(net)));
        attribute(&mut one, WGPEER_A_ALLOWEDIPS | NESTED, &nets);
    }
    let mut peers = Vec::new();
    attribute(&mut peers, NESTED, &one);
    let mut body = begun(WG_CMD_SET_DEVICE, name);
    attribute(&mut body, WGDEVICE_A_PEERS | NESTED, &peers);
    message(family, libc::NLM_F_REQUEST | libc::NLM_F_ACK, &body)
}

fn begun(command: u8, name: &str) -> Vec<u8> {
    let mut body = vec![command, WG_GENL_VERSION, 0, 0];
    attribute(&mut body, WGDEVICE_A_IFNAME, &[name.as_bytes(), b"\0"].concat());
    body
}

fn endpoint(end: &SocketAddr) -> Vec<u8> {
    let family = if end.is_ipv4() { IPV4 } else { IPV6 };
    let mut bytes = u16::from(family).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&end.port().to_be_bytes());
    match end {
        SocketAddr::V4(end) => bytes.extend_from_slice(&[&end.ip().octets()[..], &[0; 8]].concat()),
        SocketAddr::V6(end) => {
            bytes.extend_from_slice(
                &[&[0; 4][..], &end.ip().octets(), &end.scope_id().to_ne_bytes()].concat(),
            );
        }
    }
    bytes
}

fn allowed(net: &IpNet) -> Vec<u8> {
    let family = if net.addr().is_ipv4() { IPV4 } else { IPV6 };
    let mut body = Vec::new();
    attribute(&mut body, WGALLOWEDIP_A_FAMILY, &u16::from(family).to_ne_bytes());
    match net.addr() {
        IpAddr::V4(it) => attribute(&mut body, WGALLOWEDIP_A_IPADDR, &Ipv4Addr::octets(&it)),
        IpAddr::V6(it) => attribute(&mut body, WGALLOWEDIP_A_IPADDR, &it.octets()),
    }
    attribute(&mut body, WGALLOWEDIP_A_CIDR_MASK, &[net.prefix_len()]);
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::messages;

    fn peer(endpoint: &str, allowed: &[&str]) -> Peer {
        Peer {
            preshared_key: Some([9; 32]),
            endpoint: Some(endpoint.parse().unwrap()),
            keepalive: 25,
            allowed: allowed.iter().map(|net| net.parse().unwrap()).collect(),
        }
    }

    /// What is asked for has the form of what Linux answers.
    #[test]
    fn what_is_set_is_what_is_read() {
        let one = peer("192.0.2.7:51820", &["10.0.0.0/8", "2001:db8::/32"]);
        let other = peer("[fe80::7%3]:9", &["0.0.0.0/0"]);
        let mut device = Device::default();
        let mut read = |bytes: Vec<u8>| {
            let message = messages(&bytes).next().unwrap();
            assert_eq!(message.kind, 33);
            parse_device(message.body, &mut device).unwrap();
        };
        read(set_device(33, "wg0", Some(&[1; 32]), Some(51820)));
        read(set_peer(33, "wg0", &[2; 32], Some(&one)));
        read(set_peer(33, "wg0", &[3; 32], Some(&other)));
        // More of the same peer.
        let more = Peer { allowed: ["192.0.2.0/24".parse().unwrap()].into(), ..other.clone() };
        read(set_peer(33, "wg0", &[3; 32], Some(&more)));
        assert!(device.private_key == Some([1; 32]) && device.port == 51820);
        assert!(device.peers.len() == 2 && device.peers[&[2; 32]] == one);
        assert_eq!(device.peers[&[3; 32]].allowed.len(), 2);
        assert_eq!(device.peers[&[3; 32]].endpoint, other.endpoint);
        let none = set_peer(33, "wg0", &[2; 32], None);
        assert!(none.windows(8).any(|bytes| bytes == [8, 0, 3, 0, 1, 0, 0, 0]), "{none:?}");
    }
}
