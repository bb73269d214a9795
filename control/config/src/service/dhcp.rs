//! `[service.dhcp]`: hosts get addresses of IPv4.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::subnet::{self, MAC, Pool, Reservation};
use super::{HOST, domain};
use crate::mistake::Page;
use crate::section::Section;

/// What Kea does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dhcp {
    /// Where it listens, besides the interfaces of subnets: where relays' packets come in.
    pub interfaces: Vec<String>,
    /// How long an address is a host's, in seconds.
    pub lease: u32,
    /// The subnets, by prefix.
    pub subnets: Vec<Subnet>,
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
    pub pools: Vec<Pool<Ipv4Addr>>,
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
    /// Hosts that always have the same address.
    pub reservations: Vec<Reservation<Ipv4Addr>>,
}

impl Dhcp {
    /// The interfaces that it listens at.
    pub fn listens(&self) -> Vec<String> {
        subnet::listens(&self.interfaces, self.subnets.iter().map(|subnet| &subnet.interface))
    }
}

/// Options that have keys of their own.
const OWN: [(&str, &str); 4] = [
    ("routers", "routers"),
    ("domain-name-servers", "dns"),
    ("domain-name", "domain"),
    ("ntp-servers", "ntp"),
];

pub(super) fn dhcp(page: &mut Page, keys: Section) -> Dhcp {
    let is = |it: &Subnet| (it.name.clone(), it.prefix);
    let (interfaces, lease, subnets) = subnet::service(page, keys, "service.dhcp", one, is);
    Dhcp { interfaces, lease, subnets }
}

fn one(page: &mut Page, keys: &mut Section, name: &str) -> Option<Subnet> {
    let prefix = subnet::prefix::<Ipv4Addr>(page, keys);
    let title = format!("service.dhcp.subnet.{name}");
    let found = Subnet {
        name: name.to_owned(),
        prefix: prefix.unwrap_or_default(),
        interface: subnet::interface(page, keys),
        pools: subnet::pools(page, keys, prefix),
        routers: subnet::addresses(page, keys, "routers"),
        dns: subnet::addresses(page, keys, "dns"),
        domain: keys.text(page, "domain", HOST, domain).map(|found| found.value),
        ntp: subnet::addresses(page, keys, "ntp"),
        lease: subnet::lease(page, keys),
        options: subnet::options(page, keys, &OWN),
        reservations: subnet::reservations(page, keys, &title, prefix, |page, host| {
            let mac = subnet::by_mac(page, host);
            host.require(page, "mac", mac, MAC)
        }),
    };
    prefix.map(|_| found)
}
