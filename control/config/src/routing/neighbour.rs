//! `[bgp.neighbour."ADDRESS"]`: who BGP speaks with; and `[bgp.listen.NAME]`: neighbours that come
//! by themselves.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use toml::Spanned;

use super::bgp::Common;
use super::family::AddressFamily;
use super::speaker::{Speaker, speaker};
use super::words::{name, prefix};
use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::section::Section;

/// Who BGP speaks with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// By what it is known.
    pub peer: Peer,
    /// How it is spoken with.
    pub speaker: Speaker,
}

/// By what a neighbour is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Its address.
    Address(IpAddr),
    /// The interface that it is behind, alone; its link-local address is found there (RFC 4861).
    Interface(String),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => write!(f, "{address}"),
            Peer::Interface(name) => f.write_str(name),
        }
    }
}

/// Neighbours that come by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// What FRR's group of them is called.
    pub name: String,
    /// Where they come from.
    pub ranges: Vec<IpNet>,
    /// How they are spoken with.
    pub speaker: Speaker,
}

pub(super) fn neighbour(
    page: &mut Page,
    written: &str,
    mut keys: Section,
    asn: Option<u32>,
    common: &mut Common,
) -> Option<Neighbour> {
    let peer = peer(page, written, &mut keys);
    let usual = match &peer {
        Some(Peer::Address(IpAddr::V6(_))) => AddressFamily::Ipv6,
        _ => AddressFamily::Ipv4,
    };
    let behind = matches!(peer, Some(Peer::Interface(_)));
    let speaker = speaker(page, keys, asn, usual, behind, common);
    Some(Neighbour { peer: peer?, speaker: speaker? })
}

/// The interface that it is behind, or its address.
fn peer(page: &mut Page, written: &str, keys: &mut Section) -> Option<Peer> {
    const ADDRESS: &str = "the address of a host, such as [bgp.neighbour.\"192.0.2.2\"]";
    let behind = keys.text(page, "interface", "the name of an interface", interface_name);
    if keys.value("interface").is_some() {
        return behind.map(|found| Peer::Interface(found.value));
    }
    let link_local = |it: &IpAddr| matches!(it, IpAddr::V6(it) if it.is_unicast_link_local());
    let (message, expected) = match written.parse::<IpAddr>() {
        Ok(it) if link_local(&it) => {
            (format!("{it} cannot be a neighbour here"), "interface = \"...\", which finds its address")
        }
        Ok(it) if it.is_unspecified() || it.is_multicast() => {
            (format!("{it} cannot be a neighbour here"), ADDRESS)
        }
        Ok(it) => return Some(Peer::Address(it)),
        Err(_) => (
            format!("{written:?} is no address"),
            "the address of a host, such as [bgp.neighbour.\"192.0.2.2\"], or interface = \"...\"",
        ),
    };
    page.wrong(keys.at.clone(), message, Hint::expected(expected));
    None
}

/// `[bgp.listen.NAME]`.
pub(super) fn listen(
    page: &mut Page,
    written: &str,
    mut keys: Section,
    asn: Option<u32>,
    common: &mut Common,
) -> Option<Listen> {
    const RANGES: &str = "a list of prefixes, such as [\"192.0.2.0/24\"]";
    let called = match name(written) {
        Ok(_) if written.parse::<IpAddr>().is_ok() => Err(format!("{written:?} is an address")),
        other => other,
    };
    let called = called.map_err(|wrong| page.wrong(keys.at.clone(), wrong, Hint::expected("a name"))).ok();
    let ranges = keys.texts(page, "ranges", RANGES, prefix).filter(|ranges| !ranges.is_empty());
    let ranges = keys.require(page, "ranges", ranges, RANGES);
    let usual = match ranges.as_ref().and_then(|ranges| ranges.first()) {
        Some(IpNet::V6(_)) => AddressFamily::Ipv6,
        _ => AddressFamily::Ipv4,
    };
    let at = keys.value("graceful_restart").map_or(keys.at.clone(), Spanned::span);
    let speaker = speaker(page, keys, asn, usual, false, common);
    // FRR 8.4 does not let a group go from one to another.
    if speaker.as_ref().is_some_and(|speaker| speaker.graceful_restart.is_some()) {
        let message = "graceful_restart is not for neighbours that come by themselves";
        page.wrong(at, message, Hint::expected("no graceful_restart"));
    }
    Some(Listen { name: called?, ranges: ranges?, speaker: speaker? })
}
