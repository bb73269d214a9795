//! WireGuard: an interface's key and port, and `[interface.NAME.peer.PEER]`, its peers.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use toml::Spanned;

use crate::mistake::{Hint, Page};
use crate::route::net;
use crate::routing::secret;
use crate::section::{Section, named};

/// What an interface of WireGuard's is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireGuard {
    /// Its own key.
    pub private_key: PrivateKey,
    /// Its UDP port; `None`: the one that it has, or that Linux chooses.
    pub listen_port: Option<u16>,
    /// All of its peers, by their names.
    pub peers: Vec<WireGuardPeer>,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireGuardPeer {
    /// What it is called here.
    pub name: String,
    /// Who it is.
    pub public_key: PublicKey,
    /// What both know besides their keys.
    pub preshared_key: Option<PrivateKey>,
    /// Where it is first looked for; `None`: it is found when it comes.
    pub endpoint: Option<SocketAddr>,
    /// Whose packets come from it, and go to it; no prefix twice.
    pub allowed_ips: BTreeSet<IpNet>,
    /// Seconds between two packets that keep a way open; 0: none.
    pub keepalive: u16,
}

/// A key that nobody else is to know. No message has it.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey([u8; 32]);

impl PrivateKey {
    /// A key.
    pub fn new(key: [u8; 32]) -> PrivateKey {
        PrivateKey(key)
    }

    /// The key itself, for whoever it is for.
    pub fn reveal(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A key that anybody may know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key as `wg` writes it.
const KEY: &str = "44 letters, such as `wg genkey` makes";
const KEY_LENGTH: usize = 44;
/// What a peer's prefixes are told to be.
const NETS: &str = "prefixes, such as \"192.0.2.0/24\"";
/// As many as fit into a message to Linux.
const MOST_NETS: usize = 1000;

/// The keys of such an interface.
pub(crate) fn wireguard(
    page: &mut Page,
    section: &mut Section,
    title: &str,
    files: &mut dyn FnMut(&Path) -> io::Result<String>,
) -> Option<WireGuard> {
    let private_key = private_key(page, section, "private_key", files);
    let private_key = section.require(page, "private_key", private_key, KEY);
    let listen_port = section.number(page, "listen_port", 1..=65_535).map(|port| port as u16);
    let mut peers: Vec<WireGuardPeer> = Vec::new();
    for (name, keys) in named(page, section, "peer", &format!("{title}.peer")) {
        let at = keys.at.clone();
        let Some(peer) = peer(page, name, keys, files) else { continue };
        let twin = |other: &&WireGuardPeer| {
            other.public_key == peer.public_key || !other.allowed_ips.is_disjoint(&peer.allowed_ips)
        };
        if let Some(other) = peers.iter().find(twin) {
            let message = match other.public_key == peer.public_key {
                true => format!("{name} has the public_key of {}", other.name),
                false => format!("{name} has a prefix of {} among its allowed_ips", other.name),
            };
            page.wrong(at, message, Hint::expected("each key and prefix once"));
        }
        peers.push(peer);
    }
    Some(WireGuard { private_key: private_key?, listen_port, peers })
}

fn peer(
    page: &mut Page,
    name: &str,
    mut section: Section,
    files: &mut dyn FnMut(&Path) -> io::Result<String>,
) -> Option<WireGuardPeer> {
    let public_key = section.text(page, "public_key", KEY, |text| {
        key(text).map(PublicKey).ok_or_else(|| format!("{text:?} is no key"))
    });
    let public_key = section.require(page, "public_key", public_key, KEY);
    let preshared_key = private_key(page, &mut section, "preshared_key", files);
    let expected = "an address and a port, such as \"192.0.2.1:51820\"";
    let endpoint = section.text(page, "endpoint", expected, |text| match text.parse::<SocketAddr>() {
        Ok(end) if end.port() > 0 && !end.ip().is_unspecified() && !end.ip().is_multicast() => Ok(end),
        _ => Err(format!("{text:?} is no address with a port")),
    });
    let allowed = section.texts(page, "allowed_ips", NETS, net).unwrap_or_default();
    let keepalive = section.number(page, "keepalive", 0..=65_535).unwrap_or(0) as u16;
    let allowed_ips: BTreeSet<IpNet> = allowed.iter().copied().collect();
    if let Some(at) = section.value("allowed_ips").map(Spanned::span) {
        if allowed_ips.len() < allowed.len() {
            page.wrong(at, "a prefix is listed twice", Hint::expected("each once"));
        } else if allowed.len() > MOST_NETS {
            page.wrong(at, format!("a peer has at most {MOST_NETS} prefixes"), Hint::default());
        }
    }
    section.finish(page);
    Some(WireGuardPeer {
        name: name.to_owned(),
        public_key: public_key?.value,
        preshared_key,
        endpoint: endpoint.map(|found| found.value),
        allowed_ips,
        keepalive,
    })
}

fn private_key(
    page: &mut Page,
    section: &mut Section,
    name: &'static str,
    files: &mut dyn FnMut(&Path) -> io::Result<String>,
) -> Option<PrivateKey> {
    let at = section.value(name).map(Spanned::span)?;
    let found = key(secret(page, section, name, KEY_LENGTH, files)?.reveal());
    if found.is_none() {
        // What is wrong with it says nothing of it.
        page.wrong(at, format!("{name}: this is no key"), Hint::expected(KEY));
    }
    found.map(PrivateKey)
}

/// 32 bytes in base64, not all of them 0.
fn key(text: &str) -> Option<[u8; 32]> {
    let bytes: [u8; 32] = STANDARD.decode(text).ok()?.try_into().ok()?;
    Some(bytes).filter(|bytes| bytes.iter().any(|byte| *byte != 0))
}
