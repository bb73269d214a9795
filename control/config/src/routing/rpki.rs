//! `[bgp.rpki]`: caches that tell which system a prefix may come from (RFC 8210), and
//! `[bgp.bmp.NAME]`: who is told of all that BGP hears (RFC 7854). Both are modules of FRR's bgpd.

use super::words::{name, seconds};
use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::section::{Section, named};

/// RPKI: whom it is asked of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rpki {
    /// In the order in which they are preferred.
    pub caches: Vec<RpkiCache>,
    /// Seconds between two questions; `None`: FRR's default.
    pub polling: Option<u32>,
    /// Seconds that answers are believed.
    pub expire: Option<u32>,
    /// Seconds until one that does not answer is asked again.
    pub retry: Option<u32>,
}

/// A cache of RPKI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpkiCache {
    /// Its address or name.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
}

/// A group of BMP's: what is told, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bmp {
    /// What it is called.
    pub name: String,
    /// Who is called.
    pub connect: Vec<(String, u16)>,
    /// The interface that is called from.
    pub source: Option<String>,
    /// Where callers are waited for.
    pub listen: Option<(String, u16)>,
    /// What is told, in FRR's words.
    pub monitor: Vec<&'static str>,
    /// Milliseconds between two statistics.
    pub stats: Option<u32>,
    /// Whether messages are told as they came.
    pub mirror: bool,
}

/// What can be told, and how FRR says it; in FRR's order.
const MONITOR: [(&str, &str); 8] = [
    ("ipv4-pre-policy", "ipv4 unicast pre-policy"),
    ("ipv4-post-policy", "ipv4 unicast post-policy"),
    ("ipv4-multicast-pre-policy", "ipv4 multicast pre-policy"),
    ("ipv4-multicast-post-policy", "ipv4 multicast post-policy"),
    ("ipv6-pre-policy", "ipv6 unicast pre-policy"),
    ("ipv6-post-policy", "ipv6 unicast post-policy"),
    ("ipv6-multicast-pre-policy", "ipv6 multicast pre-policy"),
    ("ipv6-multicast-post-policy", "ipv6 multicast post-policy"),
];

/// A host and a port, such as `192.0.2.9:3323`.
fn endpoint(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("{text:?} is no host with a port");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_v6 = bare.is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
    match bare {
        Some(host) if is_v6 => Ok((host.to_owned(), port)),
        None if !host.contains(':') => Ok((name(host).map_err(|_| wrong())?, port)),
        _ => Err(wrong()),
    }
}

pub(super) fn rpki(page: &mut Page, mut section: Section) -> Rpki {
    const CACHES: &str = "a list of hosts with ports, such as [\"192.0.2.9:3323\"]";
    let caches = section.texts(page, "caches", CACHES, endpoint).filter(|caches| !caches.is_empty());
    let caches = section.require(page, "caches", caches, CACHES).unwrap_or_default();
    let mut hosts: Vec<&str> = caches.iter().map(|(host, _)| host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if hosts.len() < caches.len() {
        let at = section.value("caches").map_or(section.at.clone(), toml::Spanned::span);
        page.wrong(at, "caches: a host is listed twice", Hint::expected("each once"));
    }
    let mut time = |key, most| seconds(page, &mut section, key, 1..=most).map(u32::from);
    let found = Rpki {
        polling: time("polling", 65_535),
        expire: time("expire", 65_535),
        retry: time("retry", 7_200),
        caches: caches.into_iter().map(|(host, port)| RpkiCache { host, port }).collect(),
    };
    section.finish(page);
    found
}

pub(super) fn bmp(page: &mut Page, section: &mut Section, title: &str) -> Vec<Bmp> {
    let mut all = Vec::new();
    for (called, keys) in named(page, section, "bmp", &format!("{title}.bmp")) {
        match name(called) {
            Ok(called) => all.push(target(page, called, keys)),
            Err(wrong) => page.wrong(keys.at.clone(), wrong, Hint::expected("a name")),
        }
    }
    all
}

fn target(page: &mut Page, called: String, mut keys: Section) -> Bmp {
    const HOSTS: &str = "a list of hosts with ports, such as [\"192.0.2.9:5000\"]";
    const LISTEN: &str = "an address and a port, such as \"192.0.2.1:5000\"";
    let connect = keys.texts(page, "connect", HOSTS, endpoint).unwrap_or_default();
    let source = keys.text(page, "source", "the name of an interface", interface_name);
    let listen = keys.text(page, "listen", LISTEN, |text| match text.parse::<std::net::SocketAddr>() {
        Ok(at) => Ok((at.ip().to_string(), at.port())),
        Err(_) => Err(format!("{text:?} is no address with a port")),
    });
    if connect.is_empty() && keys.value("connect").is_none() && keys.value("listen").is_none() {
        keys.require(page, "connect", None::<()>, HOSTS);
    }
    let monitor = super::exchange::words(page, &mut keys, "monitor", &MONITOR);
    let stats = seconds(page, &mut keys, "stats", 1..=65_535);
    let found = Bmp {
        name: called,
        connect,
        source: source.map(|found| found.value),
        listen: listen.map(|found| found.value),
        monitor: monitor.unwrap_or_default(),
        stats: stats.map(|seconds| u32::from(seconds) * 1_000),
        mirror: keys.flag(page, "mirror").unwrap_or(false),
    };
    keys.finish(page);
    found
}
