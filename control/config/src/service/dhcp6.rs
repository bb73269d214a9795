//! `[service.dhcp6]`: hosts get addresses of IPv6, and are told of name servers.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

use super::subnet::{self, HostId, Pool, Reservation};
use super::{HOST, domain};
use crate::mistake::{Hint, Page};
use crate::section::Section;

/// What Kea does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dhcp6 {
    /// Where it listens, besides the interfaces of subnets: where relays' packets come in.
    pub interfaces: Vec<String>,
    /// How long an address is a host's, in seconds.
    pub lease: u32,
    /// The subnets, by prefix.
    pub subnets: Vec<Subnet6>,
}

/// A subnet of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet6 {
    /// What it is called here.
    pub name: String,
    /// Its prefix.
    pub prefix: Ipv6Net,
    /// The interface that its hosts are at; `None`: they are behind a relay.
    pub interface: Option<String>,
    /// Addresses that hosts get.
    pub pools: Vec<Pool<Ipv6Addr>>,
    /// Their name servers.
    pub dns: Vec<Ipv6Addr>,
    /// Domains that names are looked for in.
    pub search: Vec<String>,
    /// Seconds; `None`: as everywhere.
    pub lease: Option<u32>,
    /// Other options by Kea's names, with its values.
    pub options: BTreeMap<String, String>,
    /// Hosts that always have the same address.
    pub reservations: Vec<Reservation<Ipv6Addr>>,
}

impl Dhcp6 {
    /// The interfaces that it listens at.
    pub fn listens(&self) -> Vec<String> {
        subnet::listens(&self.interfaces, self.subnets.iter().map(|subnet| &subnet.interface))
    }
}

impl Subnet6 {
    /// A number of the subnet that is the same wherever it stands in the file, by which leases name
    /// it: FNV-1a of its prefix, in 31 bits and not 0. Kea refuses two that are the same.
    pub fn number(&self) -> u32 {
        let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        (self.prefix.to_string().bytes().fold(0x811c_9dc5, step) >> 1).max(1)
    }
}

/// Options that have keys of their own.
const OWN: [(&str, &str); 2] = [("dns-servers", "dns"), ("domain-search", "search")];
const DUID: &str = "a DUID, such as \"00:03:00:01:02:00:00:00:00:09\"";

pub(super) fn dhcp6(page: &mut Page, keys: Section) -> Dhcp6 {
    let is = |it: &Subnet6| (it.name.clone(), it.prefix);
    let (interfaces, lease, subnets) = subnet::service(page, keys, "service.dhcp6", one, is);
    Dhcp6 { interfaces, lease, subnets }
}

fn one(page: &mut Page, keys: &mut Section, name: &str) -> Option<Subnet6> {
    let prefix = subnet::prefix::<Ipv6Addr>(page, keys);
    let title = format!("service.dhcp6.subnet.{name}");
    let found = Subnet6 {
        name: name.to_owned(),
        prefix: prefix.unwrap_or_default(),
        interface: subnet::interface(page, keys),
        pools: subnet::pools(page, keys, prefix),
        dns: subnet::addresses(page, keys, "dns"),
        search: keys.texts(page, "search", HOST, domain).unwrap_or_default(),
        lease: subnet::lease(page, keys),
        options: subnet::options(page, keys, &OWN),
        reservations: subnet::reservations(page, keys, &title, prefix, host),
    };
    prefix.map(|_| found)
}

fn host(page: &mut Page, keys: &mut Section) -> Option<HostId> {
    let duid = keys.text(page, "duid", DUID, duid).map(|found| HostId::Duid(found.value));
    let mac = subnet::by_mac(page, keys);
    if keys.value("duid").is_some() == keys.value("mac").is_some() {
        page.wrong(keys.at.clone(), "a host is known by one thing", Hint::expected("duid, or mac"));
    }
    duid.or(mac)
}

/// 1 to 128 bytes, behind a kind of two (RFC 8415, 11.1).
fn duid(text: &str) -> Result<String, String> {
    let byte = |byte: &str| byte.len() == 2 && byte.chars().all(|c| c.is_ascii_hexdigit());
    match (3..=130).contains(&text.split(':').count()) && text.split(':').all(byte) {
        true => Ok(text.to_lowercase()),
        false => Err(format!("{text:?} is not that")),
    }
}
