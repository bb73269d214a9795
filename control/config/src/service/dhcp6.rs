//! `[service.dhcp6]`: hosts get addresses of IPv6, and are told of name servers.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

use super::dhcp::{self, LEASE, Within};
use super::{HOST, domain, listens};
use crate::interface::{interface_name, mac};
use crate::mistake::{Hint, Page};
use crate::section::{Section, named};

/// What Kea does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dhcp6 {
    /// Where it listens, besides the interfaces of subnets: where relays' packets come in.
    pub interfaces: Vec<String>,
    /// How long an address is a host's, in seconds.
    pub lease: u32,
    /// The subnets, by name.
    pub subnets: Vec<Subnet6>,
}

impl Dhcp6 {
    /// The interfaces that it listens at.
    pub fn listens(&self) -> Vec<String> {
        listens(&self.interfaces, self.subnets.iter().map(|subnet| &subnet.interface))
    }
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
    /// Addresses that hosts get, from one to another.
    pub pools: Vec<(Ipv6Addr, Ipv6Addr)>,
    /// Their name servers.
    pub dns: Vec<Ipv6Addr>,
    /// Domains that names are looked for in.
    pub search: Vec<String>,
    /// Seconds; `None`: as everywhere.
    pub lease: Option<u32>,
    /// Other options by Kea's names, with its values.
    pub options: BTreeMap<String, String>,
    /// Hosts that always have the same address, by name.
    pub reservations: Vec<Reservation6>,
}

/// A host that always has the same address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation6 {
    /// Its name.
    pub name: String,
    /// Who it is.
    pub host: Host6,
    /// Its address.
    pub address: Ipv6Addr,
}

/// By what a host is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host6 {
    /// The number that it has of itself (RFC 8415, section 11), in small letters.
    Duid(String),
    /// Its link address, in small letters.
    Mac(String),
}

impl Subnet6 {
    /// A number of the subnet that is the same wherever it stands in the file, by which leases name it.
    pub fn number(&self) -> u32 {
        // FNV-1a, in 31 bits and not 0.
        let text = self.prefix.to_string();
        let hash = text
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        (hash >> 1).max(1)
    }
}

const POOL: &str = "addresses such as \"2001:db8:1::1000-2001:db8:1::1fff\", or a prefix";
const ADDRESSES: &str = "addresses of IPv6, such as \"2001:db8:1::1\"";
const NET: &str = "a prefix of IPv6, such as \"2001:db8:1::/64\"";
const DUID: &str = "a DUID, such as \"00:03:00:01:02:00:00:00:00:09\"";

pub(super) fn dhcp6(page: &mut Page, mut keys: Section) -> Dhcp6 {
    let interfaces = keys.texts(page, "interfaces", "names of interfaces", interface_name);
    let lease = dhcp::lease(page, &mut keys);
    let mut subnets: Vec<Subnet6> = Vec::new();
    let mut listens = keys.value("interfaces").is_some();
    for (name, mut section) in named(page, &mut keys, "subnet", "service.dhcp6.subnet") {
        let at = section.at.clone();
        listens |= section.value("interface").is_some();
        let found = subnet(page, &mut section, name);
        section.finish(page);
        let Some(found) = found else { continue };
        let clashes = |other: &&Subnet6| {
            let (one, other) = (&found, *other);
            one.prefix.contains(&other.prefix)
                || other.prefix.contains(&one.prefix)
                || one.number() == other.number()
        };
        if let Some(other) = subnets.iter().find(clashes) {
            let message = format!(
                "[service.dhcp6.subnet.{name}]: {} overlaps that of [service.dhcp6.subnet.{}]",
                found.prefix, other.name
            );
            page.wrong(at, message, Hint::expected("each address in one subnet"));
        }
        subnets.push(found);
    }
    if !listens {
        let hint = Hint::expected("interface in a subnet, or interfaces where relays' packets come in");
        page.missing(keys.at.clone(), "[service.dhcp6] listens nowhere", hint);
    }
    keys.finish(page);
    subnets.sort_by_key(|subnet| subnet.prefix);
    Dhcp6 { interfaces: interfaces.unwrap_or_default(), lease: lease.unwrap_or(LEASE), subnets }
}

fn subnet(page: &mut Page, keys: &mut Section, name: &str) -> Option<Subnet6> {
    let prefix = keys.text(page, "prefix", NET, |text| match text.parse::<Ipv6Net>() {
        Ok(net) if net != net.trunc() => {
            Err(format!("{text:?} has bits behind its length; perhaps meant: \"{}\"", net.trunc()))
        }
        Ok(net) if net.prefix_len() > 0 && !net.addr().is_multicast() => Ok(net),
        _ => Err(format!("{text:?} is no prefix of hosts")),
    });
    let prefix = keys.require(page, "prefix", prefix, NET).map(|found| found.value);
    let within = |address: Ipv6Addr| match prefix {
        Some(prefix) if !prefix.contains(&address) => Err(format!("{address} is not in {prefix}")),
        _ => Ok(()),
    };
    let interface = keys.text(page, "interface", "the name of an interface", interface_name);
    let pools = keys.texts(page, "pools", POOL, |text| {
        let (first, last) = pool(text)?;
        within(first)?;
        within(last)?;
        Ok((first, last))
    });
    let mut pools = pools.unwrap_or_default();
    pools.sort();
    if let (Some(pair), Some(value)) =
        (pools.windows(2).find(|pair| pair[1].0 <= pair[0].1), keys.value("pools"))
    {
        let message = format!("pools: {} is in two of them", pair[1].0);
        page.wrong(value.span(), message, Hint::expected("each address once"));
    }
    let found = Subnet6 {
        name: name.to_owned(),
        prefix: prefix.unwrap_or_default(),
        interface: interface.map(|found| found.value),
        pools,
        dns: keys.texts(page, "dns", ADDRESSES, unicast).unwrap_or_default(),
        search: keys.texts(page, "search", HOST, domain).unwrap_or_default(),
        lease: dhcp::lease(page, keys),
        options: dhcp::options(page, keys, &[("dns-servers", "dns"), ("domain-search", "search")]),
        reservations: reservations(page, keys, name, &within),
    };
    prefix.map(|_| found)
}

fn unicast(text: &str) -> Result<Ipv6Addr, String> {
    match text.parse::<Ipv6Addr>() {
        Ok(address) if !address.is_unspecified() && !address.is_multicast() => Ok(address),
        _ => Err(format!("{text:?} is no address of a host")),
    }
}

fn pool(text: &str) -> Result<(Ipv6Addr, Ipv6Addr), String> {
    if let Ok(net) = text.parse::<Ipv6Net>() {
        return Ok((net.network(), net.broadcast()));
    }
    let (first, last) = text.split_once('-').ok_or_else(|| format!("{text:?} is not that"))?;
    let (first, last) = (unicast(first.trim())?, unicast(last.trim())?);
    match first <= last {
        true => Ok((first, last)),
        false => Err(format!("{text:?} runs backwards")),
    }
}

/// 1 to 128 bytes, behind a kind of two (RFC 8415, 11.1).
fn duid(text: &str) -> Result<String, String> {
    let byte = |byte: &str| byte.len() == 2 && byte.chars().all(|c| c.is_ascii_hexdigit());
    match (3..=130).contains(&text.split(':').count()) && text.split(':').all(byte) {
        true => Ok(text.to_lowercase()),
        false => Err(format!("{text:?} is not that")),
    }
}

fn reservations(
    page: &mut Page,
    keys: &mut Section,
    subnet: &str,
    within: Within<Ipv6Addr>,
) -> Vec<Reservation6> {
    const MAC: &str = "a link address, such as \"02:00:00:00:00:01\"";
    let mut found: Vec<Reservation6> = Vec::new();
    let title = format!("service.dhcp6.subnet.{subnet}.reservation");
    for (name, mut host) in named(page, keys, "reservation", &title) {
        let at = host.at.clone();
        let duid = host.text(page, "duid", DUID, duid).map(|found| Host6::Duid(found.value));
        let mac = host.text(page, "mac", MAC, mac).map(|found| Host6::Mac(found.value));
        let address = host.text(page, "address", ADDRESSES, |text| {
            let address = unicast(text)?;
            within(address)?;
            Ok(address)
        });
        let address = host.require(page, "address", address, ADDRESSES);
        let said = host.value("duid").is_some() || host.value("mac").is_some();
        host.finish(page);
        if !said || (duid.is_some() && mac.is_some()) {
            page.wrong(at.clone(), "a host is known by one thing", Hint::expected("duid, or mac"));
        }
        let (Some(host), Some(address)) = (duid.or(mac), address) else { continue };
        let name = match domain(name) {
            Ok(name) => name,
            Err(message) => {
                page.wrong(at, message, Hint::expected("the host's name"));
                continue;
            }
        };
        let host = Reservation6 { name, host, address: address.value };
        let same = |other: &&Reservation6| other.host == host.host || other.address == host.address;
        if let Some(other) = found.iter().find(same) {
            let message = format!("the same is reserved for {}", other.name);
            page.wrong(at, message, Hint::expected("each host and each address once"));
        }
        found.push(host);
    }
    found.sort_by_key(|host| host.address);
    found
}
