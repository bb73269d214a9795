//! `[service.dns]`: names are resolved for hosts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv6Net};
use toml::Spanned;
use toml::de::DeValue;

use super::{PREFIX, domain, some};
use crate::mistake::{Hint, Page};
use crate::route::net;
use crate::section::{Section, kind as kind_of, named};

/// What unbound does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    /// Where it listens; there need not be such an address yet.
    pub listen: Vec<IpAddr>,
    /// Who may ask, besides this machine.
    pub access: Vec<IpNet>,
    /// Who is asked; none: names are resolved from the root.
    pub forward: Vec<Forwarder>,
    /// The prefix by which hosts that have IPv6 only reach IPv4 (RFC 6147).
    pub dns64: Option<Ipv6Net>,
    /// Addresses of names that are said here.
    pub records: BTreeMap<String, Vec<IpAddr>>,
    /// Domains for which others are asked, by name.
    pub zones: Vec<Zone>,
}

/// A server that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarder {
    /// Its address.
    pub address: IpAddr,
    /// Its port; `None`: 53, or 853 with TLS.
    pub port: Option<u16>,
    /// The name in its certificate, where it is asked by TLS.
    pub tls: Option<String>,
}

/// A domain for which others are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Who is asked.
    pub forward: Vec<Forwarder>,
}

const LISTEN: &str = "addresses of this machine, such as \"192.0.2.1\"";
const FORWARD: &str = "servers, such as \"9.9.9.9\", or \"9.9.9.9#dns.quad9.net\" by TLS";
const DNS64: &str = "a prefix of IPv6 of /32, /40, /48, /56, /64 or /96, such as \"64:ff9b::/96\"";
const ADDRESSES: &str = "an address, or a list of them";

pub(super) fn dns(page: &mut Page, mut keys: Section) -> Dns {
    let listen = keys.texts(page, "listen", LISTEN, |text| match text.parse::<IpAddr>() {
        Ok(address) if !address.is_multicast() => Ok(address),
        _ => Err(format!("{text:?} is no address")),
    });
    let listen = some(page, &mut keys, "listen", listen, LISTEN);
    let access = keys.texts(page, "access", PREFIX, net);
    let access = keys.require(page, "access", access, "who may ask: prefixes, or [] for this machine alone");
    let dns64 = keys.text(page, "dns64", DNS64, |text| match text.parse::<Ipv6Net>() {
        Ok(net) if net == net.trunc() && matches!(net.prefix_len(), 32 | 40 | 48 | 56 | 64 | 96) => Ok(net),
        _ => Err(format!("{text:?} is not that")),
    });
    let found = Dns {
        listen,
        access: access.unwrap_or_default(),
        forward: forwarders(page, &mut keys).unwrap_or_default(),
        dns64: dns64.map(|found| found.value),
        records: keys
            .section(page, "records", "[service.dns.records]")
            .map(|names| records(page, names))
            .unwrap_or_default(),
        zones: zones(page, &mut keys),
    };
    keys.finish(page);
    found
}

/// Servers, of which all are asked by TLS or none.
fn forwarders(page: &mut Page, keys: &mut Section) -> Option<Vec<Forwarder>> {
    let found = keys.texts(page, "forward", FORWARD, forwarder)?;
    let mixed = found.iter().any(|one| one.tls.is_some()) && found.iter().any(|one| one.tls.is_none());
    if let (true, Some(value)) = (mixed, keys.value("forward")) {
        let hint = Hint::expected("all of them with a name for TLS, or none");
        page.wrong(value.span(), "forward has servers with TLS and without", hint);
    }
    Some(found)
}

/// `ADDRESS[@PORT][#NAME]`, as unbound has it.
fn forwarder(text: &str) -> Result<Forwarder, String> {
    let (rest, tls) = match text.split_once('#') {
        Some((rest, name)) => (rest, Some(domain(name)?)),
        None => (text, None),
    };
    let (address, port) = match rest.split_once('@') {
        Some((address, port)) => {
            let number = port.parse().ok().filter(|port| *port > 0);
            (address, Some(number.ok_or_else(|| format!("{port:?} is no port"))?))
        }
        None => (rest, None),
    };
    match address.parse::<IpAddr>() {
        Ok(address) if !address.is_unspecified() && !address.is_multicast() => {
            Ok(Forwarder { address, port, tls })
        }
        _ => Err(format!("{address:?} is no address of a server")),
    }
}

/// Names and their addresses. The keys are names, so this is not a [`Section`]'s own.
fn records(page: &mut Page, names: Section) -> BTreeMap<String, Vec<IpAddr>> {
    let mut found = BTreeMap::new();
    for (key, value) in names.all() {
        let texts: Vec<&Spanned<DeValue>> = match value.get_ref() {
            DeValue::Array(list) => list.iter().collect(),
            _ => vec![value],
        };
        let mut addresses = Vec::new();
        for text in texts {
            let address = text.get_ref().as_str().and_then(|text| text.parse::<IpAddr>().ok());
            match address {
                Some(address) => addresses.push(address),
                None => {
                    let what = match text.get_ref() {
                        DeValue::String(text) => format!("{text:?} is no address"),
                        other => format!("it cannot have {}", kind_of(other)),
                    };
                    let message = format!("{}: {what}", key.get_ref());
                    page.wrong(text.span(), message, Hint::expected(ADDRESSES));
                }
            }
        }
        match domain(key.get_ref()) {
            Ok(name) if !addresses.is_empty() => drop(found.insert(name, addresses)),
            Ok(_) => {}
            Err(message) => {
                page.wrong(key.span(), message, Hint::expected("a name such as \"printer.home.arpa\""));
            }
        }
    }
    found
}

fn zones(page: &mut Page, keys: &mut Section) -> Vec<Zone> {
    let mut found = Vec::new();
    for (name, mut zone) in named(page, keys, "zone", "service.dns.zone") {
        let at = zone.at.clone();
        let forward = forwarders(page, &mut zone);
        let forward = some(page, &mut zone, "forward", forward, FORWARD);
        zone.finish(page);
        match domain(name) {
            Ok(name) => found.push(Zone { name, forward }),
            Err(message) => page.wrong(at, message, Hint::expected("the name of a domain")),
        }
    }
    found.sort_by(|one: &Zone, other| one.name.cmp(&other.name));
    found
}
