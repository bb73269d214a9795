//! `[service.dhcp]`: hosts get addresses of IPv4.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use notation::duration;
use toml::de::DeValue;

use super::{HOST, domain, listens};
use crate::interface::{interface_name, mac};
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind as kind_of, named};

/// What Kea does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dhcp {
    /// Where it listens, besides the interfaces of subnets: where relays' packets come in.
    pub interfaces: Vec<String>,
    /// How long an address is a host's, in seconds.
    pub lease: u32,
    /// The subnets, by name.
    pub subnets: Vec<Subnet>,
}

impl Dhcp {
    /// The interfaces that it listens at.
    pub fn listens(&self) -> Vec<String> {
        listens(&self.interfaces, self.subnets.iter().map(|subnet| &subnet.interface))
    }
}

/// A subnet of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// What it is called here.
    pub name: String,
    /// Its prefix.
    pub prefix: Ipv4Net,
    /// The interface that its hosts are at; `None`: they are behind a relay.
    pub interface: Option<String>,
    /// Addresses that hosts get.
    pub pools: Vec<Pool>,
    /// Their default routers.
    pub routers: Vec<Ipv4Addr>,
    /// Their name servers.
    pub dns: Vec<Ipv4Addr>,
    /// The domain of their names.
    pub domain: Option<String>,
    /// Their NTP servers.
    pub ntp: Vec<Ipv4Addr>,
    /// Seconds; `None`: as everywhere.
    pub lease: Option<u32>,
    /// Other options by Kea's names, with its values.
    pub options: BTreeMap<String, String>,
    /// Hosts that always have the same address, by name.
    pub reservations: Vec<Reservation>,
}

/// Addresses from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The first.
    pub first: Ipv4Addr,
    /// The last.
    pub last: Ipv4Addr,
}

/// A host that always has the same address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// Its link address, in small letters.
    pub mac: String,
    /// Its address.
    pub address: Ipv4Addr,
}

/// An hour.
pub(super) const LEASE: u32 = 3600;
const POOL: &str = "addresses such as \"192.0.2.100-192.0.2.199\", or a prefix";
const ADDRESSES: &str = "addresses of IPv4, such as \"192.0.2.1\"";
const NET: &str = "a prefix of IPv4, such as \"192.0.2.0/24\"";
const TIME: &str = "whole seconds from \"60s\" to \"365d\"";

pub(super) fn dhcp(page: &mut Page, mut keys: Section) -> Dhcp {
    let interfaces = keys.texts(page, "interfaces", "names of interfaces", interface_name);
    let lease = lease(page, &mut keys);
    let mut subnets: Vec<Subnet> = Vec::new();
    let mut listens = keys.value("interfaces").is_some();
    for (name, mut section) in named(page, &mut keys, "subnet", "service.dhcp.subnet") {
        let at = section.at.clone();
        listens |= section.value("interface").is_some();
        let found = subnet(page, &mut section, name);
        section.finish(page);
        let Some(found) = found else { continue };
        let overlaps =
            |other: &Subnet| other.prefix.contains(&found.prefix) || found.prefix.contains(&other.prefix);
        if let Some(other) = subnets.iter().find(|other| overlaps(other)) {
            let message = format!(
                "[service.dhcp.subnet.{name}]: {} overlaps that of [service.dhcp.subnet.{}]",
                found.prefix, other.name
            );
            page.wrong(at, message, Hint::expected("each address in one subnet"));
        }
        subnets.push(found);
    }
    if !listens {
        let hint = Hint::expected("interface in a subnet, or interfaces where relays' packets come in");
        page.missing(keys.at.clone(), "[service.dhcp] listens nowhere", hint);
    }
    keys.finish(page);
    subnets.sort_by_key(|subnet| subnet.prefix);
    Dhcp { interfaces: interfaces.unwrap_or_default(), lease: lease.unwrap_or(LEASE), subnets }
}

/// How long an address is a host's, in seconds.
pub(super) fn lease(page: &mut Page, keys: &mut Section) -> Option<u32> {
    let found = keys.text(page, "lease", TIME, |text| match duration(text) {
        Some(time) if time.subsec_nanos() == 0 && (60..=365 * 86_400).contains(&time.as_secs()) => {
            Ok(time.as_secs() as u32)
        }
        Some(_) => Err(format!("{text:?} is out of range")),
        None => Err(format!("{text:?} is not a time")),
    });
    found.map(|found| found.value)
}

fn subnet(page: &mut Page, keys: &mut Section, name: &str) -> Option<Subnet> {
    let prefix = keys.text(page, "prefix", NET, |text| match text.parse::<Ipv4Net>() {
        Ok(net) if net != net.trunc() => {
            Err(format!("{text:?} has bits behind its length; perhaps meant: \"{}\"", net.trunc()))
        }
        // Kea's number of the subnet is its address.
        Ok(net) if net.prefix_len() > 0 && !net.addr().is_unspecified() && !net.addr().is_multicast() => {
            Ok(net)
        }
        _ => Err(format!("{text:?} is no prefix of hosts")),
    });
    let prefix = keys.require(page, "prefix", prefix, NET).map(|found| found.value);
    let within = |address: Ipv4Addr| match prefix {
        Some(prefix) if !prefix.contains(&address) => Err(format!("{address} is not in {prefix}")),
        _ => Ok(()),
    };
    let interface = keys.text(page, "interface", "the name of an interface", interface_name);
    let pools = keys.texts(page, "pools", POOL, |text| {
        let pool = pool(text)?;
        within(pool.first)?;
        within(pool.last)?;
        Ok(pool)
    });
    let mut pools = pools.unwrap_or_default();
    pools.sort_by_key(|pool| pool.first);
    if let (Some(pair), Some(value)) =
        (pools.windows(2).find(|pair| pair[1].first <= pair[0].last), keys.value("pools"))
    {
        let message = format!("pools: {} is in two of them", pair[1].first);
        page.wrong(value.span(), message, Hint::expected("each address once"));
    }
    let mut addresses = |key| keys.texts(page, key, ADDRESSES, unicast).unwrap_or_default();
    let [routers, dns, ntp] = ["routers", "dns", "ntp"].map(&mut addresses);
    let found = Subnet {
        name: name.to_owned(),
        prefix: prefix.unwrap_or_default(),
        interface: interface.map(|found| found.value),
        pools,
        routers,
        dns,
        domain: keys.text(page, "domain", HOST, domain).map(|found| found.value),
        ntp,
        lease: lease(page, keys),
        options: options(page, keys, &OWN),
        reservations: reservations(page, keys, name, &within),
    };
    prefix.map(|_| found)
}

fn unicast(text: &str) -> Result<Ipv4Addr, String> {
    match text.parse::<Ipv4Addr>() {
        Ok(address) if !address.is_unspecified() && !address.is_multicast() && !address.is_broadcast() => {
            Ok(address)
        }
        _ => Err(format!("{text:?} is no address of a host")),
    }
}

fn pool(text: &str) -> Result<Pool, String> {
    if let Ok(net) = text.parse::<Ipv4Net>() {
        return Ok(Pool { first: net.network(), last: net.broadcast() });
    }
    let (first, last) = text.split_once('-').ok_or_else(|| format!("{text:?} is not that"))?;
    let (first, last) = (unicast(first.trim())?, unicast(last.trim())?);
    match first <= last {
        true => Ok(Pool { first, last }),
        false => Err(format!("{text:?} runs backwards")),
    }
}

/// Whether an address is of the subnet.
pub(super) type Within<'a, A> = &'a dyn Fn(A) -> Result<(), String>;

/// Options that have keys of their own.
const OWN: [(&str, &str); 4] = [
    ("routers", "routers"),
    ("domain-name-servers", "dns"),
    ("domain-name", "domain"),
    ("ntp-servers", "ntp"),
];

/// Options by Kea's names. Those of `own` have keys, which are beside them.
pub(super) fn options(page: &mut Page, keys: &mut Section, own: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Some(section) = keys.section(page, "options", "options of DHCP") else { return found };
    for (key, value) in section.all() {
        let name = key.get_ref();
        let sound = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let own = own.iter().find(|(option, _)| name == option);
        match value.get_ref() {
            DeValue::String(_) if own.is_some() => {
                let key_of = own.map_or("", |(_, key)| key);
                let message = format!("options: {name} has a key of its own");
                page.wrong(key.span(), message, Hint::expected(key_of));
            }
            DeValue::String(text) if sound => drop(found.insert(name.to_string(), text.to_string())),
            DeValue::String(_) => {
                let hint = Hint::expected("the name of an option as Kea has it, such as \"boot-file-name\"");
                page.wrong(key.span(), format!("options: {name:?} is no name of one"), hint);
            }
            other => {
                let message = format!("options: {name} cannot be {}", kind_of(other));
                page.wrong(value.span(), message, Hint::expected("a text with its value, as Kea has it"));
            }
        }
    }
    found
}

fn reservations(
    page: &mut Page,
    keys: &mut Section,
    subnet: &str,
    within: Within<Ipv4Addr>,
) -> Vec<Reservation> {
    const MAC: &str = "a link address, such as \"02:00:00:00:00:01\"";
    let mut found: Vec<Reservation> = Vec::new();
    let title = format!("service.dhcp.subnet.{subnet}.reservation");
    for (name, mut host) in named(page, keys, "reservation", &title) {
        let at = host.at.clone();
        let mac = host.text(page, "mac", MAC, mac);
        let mac = host.require(page, "mac", mac, MAC);
        let address = host.text(page, "address", ADDRESSES, |text| {
            let address = unicast(text)?;
            within(address)?;
            Ok(address)
        });
        let address = host.require(page, "address", address, ADDRESSES);
        host.finish(page);
        let (Some(mac), Some(address)) = (mac, address) else { continue };
        let name = match domain(name) {
            Ok(name) => name,
            Err(message) => {
                page.wrong(at, message, Hint::expected("the host's name"));
                continue;
            }
        };
        let host = Reservation { name, mac: mac.value, address: address.value };
        let same = |other: &&Reservation| other.mac == host.mac || other.address == host.address;
        if let Some(other) = found.iter().find(same) {
            let message = format!("the same is reserved for {}", other.name);
            page.wrong(at, message, Hint::expected("each link address and each address once"));
        }
        found.push(host);
    }
    found.sort_by_key(|host| host.address);
    found
}
