//! What an interface asks others for: addresses, routes, and prefixes for other interfaces.

use std::collections::HashMap;

use toml::Spanned;
use toml::de::DeTable;

use crate::interface::{Interface, InterfaceKind, interface_name, place};
use crate::mistake::{Hint, Page};
use crate::section::Section;

/// A client of DHCP for IPv4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DhcpClient {
    /// Of the routes that the server tells; `None`: what the client takes.
    pub metric: Option<u32>,
}

/// A client for IPv6: routers tell it of themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client6 {
    /// It makes addresses of what routers tell (RFC 4862).
    pub autoconf: bool,
    /// It asks a DHCP server for an address.
    pub address: bool,
    /// How long a prefix it asks for, where other interfaces take part of one; `None`: as the
    /// server likes.
    pub prefix_length: Option<u8>,
}

/// Part of a prefix that another interface was given (RFC 8415, section 6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    /// The other one.
    pub from: String,
    /// Which part, of 64 bits each.
    pub number: u16,
}

/// Everything that an interface asks for.
#[derive(Default)]
pub(crate) struct Asks {
    pub dhcp: Option<DhcpClient>,
    pub client6: Option<Client6>,
    pub delegated: Option<Delegated>,
}

pub(crate) fn asks(
    page: &mut Page,
    section: &mut Section,
    kind: Option<&InterfaceKind>,
    in_vrf: bool,
) -> Asks {
    let at = |section: &mut Section, key| section.value(key).map_or(section.at.clone(), Spanned::span);
    let dhcp = section.flag(page, "dhcp").unwrap_or(false);
    let metric = section.number(page, "dhcp_metric", 1..=u64::from(u32::MAX)).map(|metric| metric as u32);
    if let (Some(_), false) = (metric, dhcp) {
        let hint = Hint::expected("dhcp = true as well");
        page.wrong(at(section, "dhcp_metric"), "there is no DHCP whose routes it could be of", hint);
    }
    let autoconf = section.flag(page, "autoconf").unwrap_or(false);
    let address = section.flag(page, "dhcp6").unwrap_or(false);
    let prefix_length = section.number(page, "prefix_length", 1..=64).map(|length| length as u8);
    let from = section.text(page, "prefix_of", "the name of an interface", interface_name);
    let number = section.number(page, "prefix_number", 0..=65_535).map(|number| number as u16);
    if let (Some(_), None) = (number, section.value("prefix_of")) {
        let hint = Hint::expected("prefix_of as well");
        page.wrong(at(section, "prefix_number"), "there is no prefix that it could be a part of", hint);
    }
    let delegated = from.map(|from| Delegated { from: from.value, number: number.unwrap_or(0) });
    let client6 = autoconf || address || prefix_length.is_some();
    let said = [
        ("dhcp", dhcp),
        ("autoconf", autoconf),
        ("dhcp6", address),
        ("prefix_length", prefix_length.is_some()),
        ("prefix_of", delegated.is_some()),
    ];
    for (key, _) in said.into_iter().filter(|(_, said)| *said) {
        if let Some(kind) = kind.filter(|kind| !kind.has_frames()) {
            let what = if key == "dhcp" { "DHCP" } else { key };
            let message = format!("a {} has no {what}", kind.word());
            page.wrong(at(section, key), message, Hint::expected("an interface with Ethernet frames"));
        }
        if in_vrf {
            let hint = Hint::expected("an interface in no VRF");
            page.wrong(at(section, key), "a client of DHCP gives its routes to the main table", hint);
        }
    }
    Asks {
        dhcp: dhcp.then_some(DhcpClient { metric }),
        client6: client6.then_some(Client6 { autoconf, address, prefix_length }),
        delegated,
    }
}

/// Each part of a prefix is of one interface, and another of the file asks for the whole.
pub(crate) fn check(page: &mut Page, table: &DeTable, interfaces: &[Interface]) {
    let mut parts: HashMap<(&str, u16), &str> = HashMap::new();
    for it in interfaces {
        let Some(Delegated { from, number }) = &it.delegated else { continue };
        let mut wrong = |key, message: String, expected: &str| {
            page.wrong(place(table, &it.name, key), message, Hint::expected(expected));
        };
        let Some(giver) = interfaces.iter().find(|other| other.name == *from && *from != it.name) else {
            wrong(
                "prefix_of",
                format!("{from} asks nobody for a prefix"),
                "another [interface.NAME] of the file",
            );
            continue;
        };
        if !giver.kind.has_frames() || giver.vrf.is_some() || giver.delegated.is_some() {
            let expected = "an Ethernet interface in no VRF, without prefix_of";
            wrong("prefix_of", format!("{from} cannot ask for a prefix"), expected);
        }
        let length = giver.client6.as_ref().and_then(|client| client.prefix_length);
        if length.is_some_and(|length| u32::from(*number) >> (64 - length).min(16) != 0) {
            let message = format!("the prefix of {from} has no part {number}");
            wrong("prefix_number", message, "a lower number, or a shorter prefix_length");
        }
        if let Some(other) = parts.insert((from, *number), &it.name) {
            wrong("prefix_number", format!("{other} has that part of it already"), "each number once");
        }
    }
    for it in interfaces {
        let asks = it.client6.as_ref().is_some_and(|client| client.prefix_length.is_some());
        let given = |other: &Interface| other.delegated.as_ref().is_some_and(|part| part.from == it.name);
        if asks && !interfaces.iter().any(given) {
            let expected = format!("prefix_of = {:?} at another interface", it.name);
            page.wrong(
                place(table, &it.name, "prefix_length"),
                "no interface takes part of that prefix",
                Hint::expected(expected),
            );
        }
    }
}
