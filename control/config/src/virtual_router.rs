//! `[vrrp.NAME]`: addresses that this router has together with others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;

use notation::duration;
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;
use vrrp::{Settings, Version};

use crate::mistake::{Hint, Page};
use crate::pattern::is_interface_name;
use crate::track::{self, Tracked};

/// A virtual router that this one takes part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualRouter {
    /// What it is called here.
    pub name: String,
    /// The interface.
    pub interface: String,
    /// Its number on that link, 1..=255; IPv4 and IPv6 have numbers of their own.
    pub id: u8,
    /// Its addresses, all of one family; of IPv6 the first is link-local.
    pub addresses: Vec<IpAddr>,
    /// Version, priority, times.
    pub settings: Settings,
    /// Whether Linux has the addresses while it is active, so that they can be pinged and connected
    /// to.
    pub accept: bool,
    /// Who else takes part, where no group reaches them; none: all on the link.
    pub peers: Vec<IpAddr>,
    /// Those with the same word are active together or not at all.
    pub sync: Option<String>,
    /// What it must have.
    pub track: Vec<Track>,
}

impl VirtualRouter {
    /// Whether its addresses are of IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.addresses.first().is_some_and(IpAddr::is_ipv6)
    }
}

/// Something that a virtual router must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// What.
    pub what: Tracked,
    /// How much lower the priority is without it; `None`: it cannot be active.
    pub lower: Option<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    interface: Spanned<String>,
    id: Spanned<u64>,
    addresses: Spanned<Vec<Spanned<IpAddr>>>,
    version: Option<Spanned<u64>>,
    priority: Option<Spanned<u64>>,
    interval: Option<Spanned<String>>,
    preempt: Option<bool>,
    preempt_delay: Option<Spanned<String>>,
    accept: Option<bool>,
    #[serde(default)]
    peers: Vec<Spanned<IpAddr>>,
    sync: Option<String>,
    #[serde(default)]
    track: Vec<Spanned<track::Written<u8>>>,
}

/// What it is without a word: RFC 9568, 6.1.
const PRIORITY: u8 = 100;
/// Addresses at most: what an advertisement of IPv6 has room for in any frame.
const ADDRESSES: usize = 32;

/// Every section of this kind.
pub(crate) fn virtual_routers(page: &mut Page, value: &Spanned<DeValue>) -> Vec<VirtualRouter> {
    let DeValue::Table(table) = value.get_ref() else {
        let hint = Hint::expected("sections [vrrp.NAME]");
        page.wrong(value.span(), "vrrp is no section", hint);
        return Vec::new();
    };
    let mut routers: Vec<VirtualRouter> = Vec::new();
    let mut places: HashMap<(String, u8, bool), String> = HashMap::new();
    for (name, section) in table {
        let Some(router) = one(page, name.get_ref(), section) else { continue };
        let place = (router.interface.clone(), router.id, router.is_ipv6());
        if let Some(other) = places.insert(place, router.name.clone()) {
            let message = format!("[vrrp.{}]: {other} has the same id on {}", router.name, router.interface);
            page.wrong(name.span(), message, Hint::expected("another id, one of 1 to 255"));
        }
        routers.push(router);
    }
    routers.sort_by(|one, other| one.name.cmp(&other.name));
    routers
}

fn one(page: &mut Page, name: &str, section: &Spanned<DeValue>) -> Option<VirtualRouter> {
    let title = format!("[vrrp.{name}]");
    let written = match Written::deserialize(toml::de::ValueDeserializer::from(section.clone())) {
        Ok(written) => written,
        Err(error) => {
            let at = error.span().unwrap_or(section.span());
            page.wrong(at, format!("{title}: {}", error.message().replace('\n', ", ")), Hint::default());
            return None;
        }
    };
    let mut wrong = |at: Range<usize>, message: String, expected: &str| {
        page.wrong(at, format!("{title}: {message}"), Hint::expected(expected));
    };
    let interface = written.interface.get_ref();
    if !is_interface_name(interface) {
        let message = format!("{interface:?} is no interface's name");
        wrong(written.interface.span(), message, "the name of an interface, such as \"eth1\"");
    }
    let mut number = |written: &Spanned<u64>, what: &str| {
        let number = u8::try_from(*written.get_ref()).ok().filter(|number| *number > 0);
        if number.is_none() {
            wrong(written.span(), format!("{what} is out of range"), "a whole number from 1 to 255");
        }
        number
    };
    let id = number(&written.id, "id");
    let priority = written.priority.as_ref().map_or(Some(PRIORITY), |it| number(it, "priority"));
    let version = match written.version.as_ref().map(|version| (*version.get_ref(), version.span())) {
        None | Some((3, _)) => Version::Three,
        Some((2, _)) => Version::Two,
        Some((other, at)) => {
            wrong(at, format!("there is no version {other}"), "3 (RFC 9568), or 2 towards old routers");
            Version::Three
        }
    };
    let mut time = |written: &Option<Spanned<String>>, what: &str, default, example: &str| {
        let Some(text) = written else { return default };
        let read = duration(text.get_ref());
        if read.is_none() {
            wrong(text.span(), format!("{what} {:?} is no time", text.get_ref()), example);
        }
        read.unwrap_or(default)
    };
    let usual = Settings::new(PRIORITY);
    let interval = time(&written.interval, "interval", usual.interval, "a time such as \"1s\" or \"10ms\"");
    let preempt_delay =
        time(&written.preempt_delay, "preempt_delay", usual.preempt_delay, "a time such as \"30s\"");
    let step = if version == Version::Two { 1000 } else { 10 };
    let steps = interval.as_nanos() / (step * 1_000_000);
    let whole = interval.as_nanos() == steps * step * 1_000_000;
    let most = if version == Version::Two { 255 } else { 4095 };
    if let Some(at) = written.interval.as_ref().map(Spanned::span)
        && !(whole && (1..=most).contains(&steps))
    {
        let expected = match version {
            Version::Two => "whole seconds, 1s to 255s, in version 2",
            Version::Three => "a multiple of 10ms, 10ms to 40.95s",
        };
        wrong(at, "interval cannot be that".to_owned(), expected);
    }
    let addresses = addresses(&written, version, &mut wrong);
    let ipv6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    for peer in written.peers.iter().filter(|peer| peer.get_ref().is_ipv6() != ipv6) {
        let message = format!("the peer {} is of another family than the addresses", peer.get_ref());
        wrong(peer.span(), message, "addresses of one family");
    }
    let mut lost = Vec::new();
    for one in &written.track {
        match one.get_ref().what() {
            Ok(what) => lost.push(Track { what, lower: one.get_ref().lower }),
            Err((message, expected)) => wrong(one.span(), message, expected),
        }
    }
    let settings = Settings {
        version,
        priority: priority?,
        interval,
        preempt: written.preempt.unwrap_or(usual.preempt),
        preempt_delay,
    };
    Some(VirtualRouter {
        name: name.to_owned(),
        interface: interface.clone(),
        id: id?,
        addresses,
        settings,
        accept: written.accept.unwrap_or(true),
        peers: written.peers.iter().map(|peer| *peer.get_ref()).collect(),
        sync: written.sync,
        track: lost,
    })
}

fn addresses(
    written: &Written,
    version: Version,
    wrong: &mut dyn FnMut(Range<usize>, String, &str),
) -> Vec<IpAddr> {
    let list = written.addresses.get_ref();
    if list.is_empty() || list.len() > ADDRESSES {
        let message = format!("{} addresses are too few or too many", list.len());
        wrong(written.addresses.span(), message, "1 to 32 addresses");
    }
    let Some(first) = list.first() else { return Vec::new() };
    let ipv6 = first.get_ref().is_ipv6();
    match first.get_ref() {
        IpAddr::V6(_) if version == Version::Two => {
            let message = "version 2 has no IPv6".to_owned();
            wrong(first.span(), message, "addresses of IPv4, or version = 3");
        }
        IpAddr::V6(address) if !address.is_unicast_link_local() => {
            let message = format!("the first address {address} is not link-local");
            let expected = "a link-local address first, such as \"fe80::1\": hosts know routers by these";
            wrong(first.span(), message, expected);
        }
        _ => {}
    }
    let mut known: Vec<IpAddr> = Vec::new();
    for address in list {
        let it = *address.get_ref();
        if it.is_ipv6() != ipv6 {
            let message = format!("{it} is of another family than the first address");
            let expected = "addresses of one family, and a section for the other; `sync` joins them";
            wrong(address.span(), message, expected);
        } else if it.is_multicast() || it.is_unspecified() || it.is_loopback() || known.contains(&it) {
            wrong(address.span(), format!("{it} cannot be an address here"), "addresses of hosts, each once");
        }
        known.push(it);
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Router};
    use std::time::Duration;

    fn read(sections: &str) -> Result<Vec<VirtualRouter>, String> {
        let text = format!("[[port]]\nname = \"eth0\"\n{sections}\n");
        let read = Router::read("router.toml", &text, &Machine::this());
        read.map(|router| router.vrrp).map_err(|mistakes| mistakes.to_string())
    }

    const LEAST: &str = "[vrrp.lan]\ninterface = \"eth1\"\nid = 7\naddresses = [\"192.0.2.1\"]\n";

    #[test]
    fn a_virtual_router_needs_three_things() {
        let lan = read(LEAST).unwrap().remove(0);
        assert_eq!((lan.name.as_str(), lan.interface.as_str(), lan.id), ("lan", "eth1", 7));
        assert!(lan.settings == Settings::new(100) && lan.accept && !lan.is_ipv6());
        let more = "priority = 200\ninterval = \"10ms\"\npreempt_delay = \"30s\"\naccept = false\n\
                    peers = [\"192.0.2.3\"]\nsync = \"both\"\n\
                    track = [{ interface = \"wan0\" }, { route = \"0.0.0.0/0\", lower = 50 }]";
        let lan = read(&format!("{LEAST}{more}")).unwrap().remove(0);
        assert_eq!((lan.settings.interval, lan.settings.priority), (Duration::from_millis(10), 200));
        assert_eq!(lan.track[0], Track { what: Tracked::Interface("wan0".to_owned()), lower: None });
        assert_eq!(lan.track[1].lower, Some(50));
        let asked =
            "track = [{ ping = \"2001:db8::9\" }, { ping = \"192.0.2.9\", interval = \"200ms\", count = 5 }]";
        let lan = read(&format!("{LEAST}{asked}")).unwrap().remove(0);
        let ping = |address: &str, millis, count| {
            let interval = Duration::from_millis(millis);
            Tracked::Ping(crate::Ping { address: address.parse().unwrap(), interval, count })
        };
        assert_eq!(lan.track[0].what, ping("2001:db8::9", 1000, 3));
        assert_eq!(lan.track[1].what, ping("192.0.2.9", 200, 5));
        let both = "[vrrp.lan6]\ninterface = \"eth1\"\nid = 7\naddresses = [\"fe80::1\", \"2001:db8::1\"]";
        assert_eq!(read(&format!("{LEAST}{both}")).unwrap().len(), 2);
    }

    #[test]
    fn what_makes_no_sense_is_refused_where_it_stands() {
        let six = "[vrrp.six]\ninterface = \"eth1\"\nid = 7\n";
        for (section, message) in [
            (LEAST.replace("id = 7\n", ""), "missing field `id`"),
            (LEAST.replace('7', "0"), "id is out of range"),
            (LEAST.replace('7', "256"), "id is out of range"),
            (LEAST.replace("eth1", ""), "no interface's name"),
            (LEAST.replace("\"192.0.2.1\"", ""), "too few or too many"),
            (LEAST.replace("192.0.2.1", "224.0.0.1"), "cannot be an address"),
            (LEAST.replace("\"]", "\", \"192.0.2.1\"]"), "cannot be an address"),
            (LEAST.replace("\"]", "\", \"fe80::1\"]"), "another family"),
            (format!("{LEAST}priority = 300"), "priority is out of range"),
            (format!("{LEAST}interval = \"5ms\""), "interval cannot be that"),
            (format!("{LEAST}interval = \"41s\""), "interval cannot be that"),
            (format!("{LEAST}interval = \"soon\""), "is no time"),
            (format!("{LEAST}version = 2\ninterval = \"1500ms\""), "interval cannot be that"),
            (format!("{LEAST}version = 4"), "no version 4"),
            (format!("{LEAST}peers = [\"fe80::2\"]"), "another family"),
            (format!("{LEAST}track = [{{ lower = 5 }}]"), "one thing"),
            (format!("{LEAST}track = [{{ ping = \"192.0.2.9\", flows = \"shared\" }}]"), "one thing"),
            (format!("{LEAST}track = [{{ ping = \"192.0.2.9\", from = \"bgp\" }}]"), "from is for route"),
            (format!("{LEAST}track = [{{ interface = \"a\", interval = \"1s\" }}]"), "interval is for ping"),
            (format!("{LEAST}track = [{{ route = \"::/0\", count = 2 }}]"), "count is for ping"),
            (format!("{LEAST}track = [{{ ping = \"fe80::1\" }}]"), "no host that can be asked"),
            (format!("{LEAST}track = [{{ ping = \"224.0.0.1\" }}]"), "no host that can be asked"),
            (format!("{LEAST}track = [{{ ping = \"192.0.2.9\", interval = \"99ms\" }}]"), "interval"),
            (format!("{LEAST}track = [{{ ping = \"192.0.2.9\", count = 0 }}]"), "count 0 cannot be"),
            (format!("{LEAST}prio = 5"), "unknown field `prio`"),
            (format!("{LEAST}{}", LEAST.replace("vrrp.lan", "vrrp.wan")), "has the same id"),
            (format!("{six}addresses = [\"2001:db8::1\"]"), "not link-local"),
            (format!("{six}version = 2\naddresses = [\"fe80::1\"]"), "version 2 has no IPv6"),
        ] {
            let refused = read(&section).unwrap_err();
            assert!(refused.contains(message) && refused.contains("router.toml:"), "{section}: {refused}");
        }
    }
}
