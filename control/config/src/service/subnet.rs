//! What subnets of hosts have in common, for addresses of IPv4 and IPv6.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use notation::duration;
use toml::de::DeValue;

use super::domain;
use crate::interface::{interface_name, mac};
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind as kind_of, named};

/// Addresses from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pool<A> {
    /// The first.
    pub first: A,
    /// The last.
    pub last: A,
}

/// A host that always has the same address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation<A> {
    /// Its name.
    pub name: String,
    /// Who it is.
    pub host: HostId,
    /// Its address.
    pub address: A,
}

/// By what a host is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostId {
    /// Its link address, in small letters.
    Mac(String),
    /// Of IPv6: the number that it has of itself (RFC 8415, section 11), in small letters.
    Duid(String),
}

/// An address of either family.
pub(super) trait Address: Copy + Ord + Display + FromStr {
    /// Its prefixes.
    type Net: Copy + PartialEq + Display + FromStr + Into<IpNet>;
    /// What a list of addresses is told to have.
    const ADDRESSES: &str;
    /// The same for pools, and for a prefix.
    const POOL: &str;
    const NET: &str;

    /// Whether one host can have it.
    fn is_hosts(self) -> bool;
    /// Without the bits behind its length.
    fn trunc(net: Self::Net) -> Self::Net;
    /// The first address, and the last.
    fn ends(net: Self::Net) -> Pool<Self>;
}

impl Address for Ipv4Addr {
    type Net = Ipv4Net;
    const ADDRESSES: &str = "addresses of IPv4, such as \"192.0.2.1\"";
    const POOL: &str = "addresses such as \"192.0.2.100-192.0.2.199\", or a prefix";
    const NET: &str = "a prefix of IPv4, such as \"192.0.2.0/24\"";

    fn is_hosts(self) -> bool {
        !self.is_unspecified() && !self.is_multicast() && !self.is_broadcast()
    }

    fn trunc(net: Ipv4Net) -> Ipv4Net {
        net.trunc()
    }

    fn ends(net: Ipv4Net) -> Pool<Ipv4Addr> {
        Pool { first: net.network(), last: net.broadcast() }
    }
}

impl Address for Ipv6Addr {
    type Net = Ipv6Net;
    const ADDRESSES: &str = "addresses of IPv6, such as \"2001:db8:1::1\"";
    const POOL: &str = "addresses such as \"2001:db8:1::1000-2001:db8:1::1fff\", or a prefix";
    const NET: &str = "a prefix of IPv6, such as \"2001:db8:1::/64\"";

    fn is_hosts(self) -> bool {
        !self.is_unspecified() && !self.is_multicast()
    }

    fn trunc(net: Ipv6Net) -> Ipv6Net {
        net.trunc()
    }

    fn ends(net: Ipv6Net) -> Pool<Ipv6Addr> {
        Pool { first: net.network(), last: net.broadcast() }
    }
}

/// What a whole service of either family says: its interfaces, the time of a lease, its subnets.
pub(super) type Service<S> = (Vec<String>, u32, Vec<S>);

/// An hour.
const LEASE: u32 = 3600;
const TIME: &str = "whole seconds from \"60s\" to \"365d\"";

/// Reads a service, of which `one` reads a subnet, and `is` says its name and prefix.
pub(super) fn service<S, N: Ord + Into<IpNet>>(
    page: &mut Page,
    mut keys: Section,
    title: &str,
    one: impl Fn(&mut Page, &mut Section, &str) -> Option<S>,
    is: impl Fn(&S) -> (String, N),
) -> Service<S> {
    let interfaces = keys.texts(page, "interfaces", "names of interfaces", interface_name);
    let lease = lease(page, &mut keys);
    let mut subnets: Vec<S> = Vec::new();
    let mut listens = keys.value("interfaces").is_some();
    for (name, mut section) in named(page, &mut keys, "subnet", &format!("{title}.subnet")) {
        let at = section.at.clone();
        listens |= section.value("interface").is_some();
        let found = one(page, &mut section, name);
        section.finish(page);
        let Some(found) = found else { continue };
        let prefix: IpNet = is(&found).1.into();
        let overlaps = |other: &&S| {
            let other: IpNet = is(other).1.into();
            other.contains(&prefix) || prefix.contains(&other)
        };
        if let Some(other) = subnets.iter().find(overlaps) {
            let other = is(other).0;
            let message =
                format!("[{title}.subnet.{name}]: {prefix} overlaps that of [{title}.subnet.{other}]");
            page.wrong(at, message, Hint::expected("each address in one subnet"));
        }
        subnets.push(found);
    }
    if !listens {
        let hint = Hint::expected("interface in a subnet, or interfaces where relays' packets come in");
        page.missing(keys.at.clone(), format!("[{title}] listens nowhere"), hint);
    }
    keys.finish(page);
    subnets.sort_by_key(|subnet| is(subnet).1);
    (interfaces.unwrap_or_default(), lease.unwrap_or(LEASE), subnets)
}

/// A service's own interfaces, and those of its subnets, each once.
pub(super) fn listens<'a>(own: &[String], subnets: impl Iterator<Item = &'a Option<String>>) -> Vec<String> {
    let mut names = own.to_vec();
    names.extend(subnets.flatten().cloned());
    names.sort();
    names.dedup();
    names
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

/// The prefix, if it is one of hosts.
pub(super) fn prefix<A: Address>(page: &mut Page, keys: &mut Section) -> Option<A::Net> {
    let found = keys.text(page, "prefix", A::NET, |text| match text.parse::<A::Net>() {
        Ok(net) if net != A::trunc(net) => {
            Err(format!("{text:?} has bits behind its length; perhaps meant: \"{}\"", A::trunc(net)))
        }
        Ok(net) if net.into().prefix_len() > 0 && A::ends(net).first.is_hosts() => Ok(net),
        _ => Err(format!("{text:?} is no prefix of hosts")),
    });
    keys.require(page, "prefix", found, A::NET).map(|found| found.value)
}

/// Where its hosts are.
pub(super) fn interface(page: &mut Page, keys: &mut Section) -> Option<String> {
    keys.text(page, "interface", "the name of an interface", interface_name).map(|found| found.value)
}

/// Addresses of hosts.
pub(super) fn addresses<A: Address>(page: &mut Page, keys: &mut Section, key: &'static str) -> Vec<A> {
    keys.texts(page, key, A::ADDRESSES, unicast).unwrap_or_default()
}

/// Pools of a subnet, of which no two have an address.
pub(super) fn pools<A: Address>(page: &mut Page, keys: &mut Section, prefix: Option<A::Net>) -> Vec<Pool<A>> {
    let found = keys.texts(page, "pools", A::POOL, |text| {
        let pool = pool(text)?;
        within(pool.first, prefix)?;
        within(pool.last, prefix)?;
        Ok(pool)
    });
    let mut pools: Vec<Pool<A>> = found.unwrap_or_default();
    pools.sort();
    if let (Some(pair), Some(value)) =
        (pools.windows(2).find(|pair| pair[1].first <= pair[0].last), keys.value("pools"))
    {
        let message = format!("pools: {} is in two of them", pair[1].first);
        page.wrong(value.span(), message, Hint::expected("each address once"));
    }
    pools
}

fn within<A: Address>(address: A, prefix: Option<A::Net>) -> Result<(), String> {
    match prefix {
        Some(prefix) if !(A::ends(prefix).first..=A::ends(prefix).last).contains(&address) => {
            Err(format!("{address} is not in {prefix}"))
        }
        _ => Ok(()),
    }
}

fn unicast<A: Address>(text: &str) -> Result<A, String> {
    let address = text.parse::<A>().ok().filter(|address| address.is_hosts());
    address.ok_or_else(|| format!("{text:?} is no address of a host"))
}

fn pool<A: Address>(text: &str) -> Result<Pool<A>, String> {
    if let Ok(net) = text.parse::<A::Net>() {
        return Ok(A::ends(net));
    }
    let (first, last) = text.split_once('-').ok_or_else(|| format!("{text:?} is not that"))?;
    let (first, last) = (unicast(first.trim())?, unicast(last.trim())?);
    match first <= last {
        true => Ok(Pool { first, last }),
        false => Err(format!("{text:?} runs backwards")),
    }
}

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

/// Hosts with an address of their own. `host` reads who one is.
pub(super) fn reservations<A: Address>(
    page: &mut Page,
    keys: &mut Section,
    title: &str,
    prefix: Option<A::Net>,
    host: impl Fn(&mut Page, &mut Section) -> Option<HostId>,
) -> Vec<Reservation<A>> {
    let mut found: Vec<Reservation<A>> = Vec::new();
    for (name, mut section) in named(page, keys, "reservation", &format!("{title}.reservation")) {
        let at = section.at.clone();
        let host = host(page, &mut section);
        let address = section.text(page, "address", A::ADDRESSES, |text| {
            let address = unicast(text)?;
            within(address, prefix)?;
            Ok(address)
        });
        let address = section.require(page, "address", address, A::ADDRESSES);
        section.finish(page);
        let (Some(host), Some(address)) = (host, address) else { continue };
        let name = match domain(name) {
            Ok(name) => name,
            Err(message) => {
                page.wrong(at, message, Hint::expected("the host's name"));
                continue;
            }
        };
        let host = Reservation { name, host, address: address.value };
        let same = |other: &&Reservation<A>| other.host == host.host || other.address == host.address;
        if let Some(other) = found.iter().find(same) {
            let message = format!("the same is reserved for {}", other.name);
            page.wrong(at, message, Hint::expected("each host and each address once"));
        }
        found.push(host);
    }
    found.sort_by_key(|host| host.address);
    found
}

/// What a link address is told to be.
pub(super) const MAC: &str = "a link address, such as \"02:00:00:00:00:01\"";

/// A host's link address, if it is told.
pub(super) fn by_mac(page: &mut Page, keys: &mut Section) -> Option<HostId> {
    keys.text(page, "mac", MAC, mac).map(|found| HostId::Mac(found.value))
}
