//! `[bfd]`: BFD sessions of FRR's are run here, and authenticated by keys of which FRR knows
//! nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ::bfd::{Key, Kind};
use serde::{Deserialize, Serialize};
use toml::de::DeValue;

use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::routing::{Files, secret};
use crate::section::{Section, kind, named};
use crate::sections::users;

/// Where FRR's bfdd listens for a forwarding plane by default; the port is FRR's own choice.
const FRR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50_700);
/// The most keys: all are told to the process that runs the sessions in one message.
const KEYS: usize = 512;

/// `[bfd]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bfd {
    /// Where bfdd listens: what its `--dplaneaddr` says.
    pub frr: SocketAddr,
    /// Users of this machine whose bfdd is believed, besides root's.
    pub users: Vec<String>,
    /// Whose sessions are authenticated.
    pub peers: Vec<BfdKeys>,
}

/// `[bfd.peer."192.0.2.2"]`: by which keys sessions with a peer are authenticated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BfdKeys {
    /// Of the peer.
    pub address: IpAddr,
    /// By which interface; none: by those that no other section names.
    pub interface: Option<String>,
    /// Packets are signed by the first, and believed by each. Each has another number.
    pub keys: Vec<Key>,
}

impl Bfd {
    /// Whether another one has the same sessions, be they authenticated otherwise or not.
    pub fn has_sessions_of(&self, other: &Bfd) -> bool {
        (self.frr, &self.users) == (other.frr, &other.users)
    }

    /// The keys of a session; none: it is not authenticated. `interface` is the one that the
    /// session is bound to.
    pub fn keys(&self, peer: IpAddr, interface: Option<&str>) -> &[Key] {
        let of = |named: Option<&str>| {
            self.peers.iter().find(|it| it.address == peer && it.interface.as_deref() == named)
        };
        let found = interface.and_then(|name| of(Some(name))).or_else(|| of(None));
        found.map_or(&[], |it| &it.keys)
    }
}

pub(crate) fn bfd(page: &mut Page, mut section: Section, files: &mut Files) -> Option<Bfd> {
    const EXPECTED: &str = "an address and port of this machine itself, such as \"127.0.0.1:50700\"";
    let written = section.value("frr").is_some();
    let frr = section.text(page, "frr", EXPECTED, place).map(|found| found.value);
    let users = section.value("users").map(|value| users(page, value));
    let peers = peers(page, &mut section, files);
    section.finish(page);
    let users = users.unwrap_or_else(|| vec!["frr".to_owned()]);
    Some(Bfd { frr: frr.or(Some(FRR).filter(|_| !written))?, users, peers })
}

/// Who answers there is believed, so it must be on this machine.
fn place(text: &str) -> Result<SocketAddr, String> {
    let place: SocketAddr = text.parse().map_err(|_| format!("{text:?} is no address and port"))?;
    match place.ip().is_loopback() {
        true => Ok(place),
        false => Err(format!("{} is no address of this machine alone", place.ip())),
    }
}

fn peers(page: &mut Page, section: &mut Section, files: &mut Files) -> Vec<BfdKeys> {
    const EXPECTED: &str = "the address of a peer, such as \"192.0.2.2\" or \"fe80::2%eth0\"";
    let mut found: Vec<BfdKeys> = Vec::new();
    for (name, mut section) in named(page, section, "peer", "bfd.peer") {
        let at = section.at.clone();
        let keys = keys(page, &mut section, files);
        let keys = section.require(page, "keys", keys, "keys = [{ id = 1, type = \"sha1\", key = \"...\" }]");
        section.finish(page);
        let (address, interface) = match peer(name) {
            Ok(peer) => peer,
            Err(wrong) => {
                page.wrong(at, wrong, Hint::expected(EXPECTED));
                continue;
            }
        };
        if found.iter().any(|other| other.address == address && other.interface == interface) {
            page.wrong(at.clone(), format!("{name} is there already"), Hint::expected("each peer once"));
        }
        let keys = keys.unwrap_or_default();
        if found.iter().map(|it| it.keys.len()).sum::<usize>() + keys.len() > KEYS {
            page.wrong(at, format!("[bfd] has more than {KEYS} keys"), Hint::expected("fewer keys"));
            break;
        }
        found.push(BfdKeys { address, interface, keys });
    }
    found
}

fn peer(text: &str) -> Result<(IpAddr, Option<String>), String> {
    let (address, interface) = match text.split_once('%') {
        Some((address, name)) => (address, Some(interface_name(name)?)),
        None => (text, None),
    };
    match address.parse::<IpAddr>() {
        Ok(it) if !it.is_unspecified() && !it.is_multicast() => Ok((it, interface)),
        _ => Err(format!("{address:?} is no address of a peer")),
    }
}

/// None: there are none, or one of them is wrong.
fn keys(page: &mut Page, section: &mut Section, files: &mut Files) -> Option<Vec<Key>> {
    const EXPECTED: &str = "a list of at least one { id = 1, type = \"sha1\", key = \"...\" }";
    let value = section.value("keys")?;
    let list = match value.get_ref() {
        DeValue::Array(list) if !list.is_empty() => list,
        other => {
            let what = if matches!(other, DeValue::Array(_)) { "empty" } else { kind(other) };
            page.wrong(value.span(), format!("keys cannot be {what}"), Hint::expected(EXPECTED));
            return None;
        }
    };
    let mut found: Vec<Key> = Vec::new();
    for item in list.iter() {
        let DeValue::Table(table) = item.get_ref() else {
            let message = format!("keys cannot have {}", kind(item.get_ref()));
            page.wrong(item.span(), message, Hint::expected(EXPECTED));
            continue;
        };
        let Some(key) = key(page, Section::new("a key of BFD", item.span(), table), files) else { continue };
        if found.iter().any(|other| other.id() == key.id()) {
            let message = format!("key {} is there already", key.id());
            page.wrong(item.span(), message, Hint::expected("another id: packets name the key by it"));
        }
        found.push(key);
    }
    (found.len() == list.len()).then_some(found)
}

fn key(page: &mut Page, mut section: Section, files: &mut Files) -> Option<Key> {
    let id = section.number(page, "id", 0..=255).and_then(|id| u8::try_from(id).ok());
    let id = section.require(page, "id", id, "id = 1, or what the other end has: 0 to 255");
    let kind = section.choice(page, "type", &Kind::NAMED);
    let kind = section.require(page, "type", kind, "what the other end has, such as \"meticulous-sha1\"");
    let most = kind.map_or(Kind::MeticulousSha1.longest(), Kind::longest);
    let text = secret(page, &mut section, "key", most, files);
    let text = section.require(page, "key", text, "the key, or { file = \"...\" } or { env = \"...\" }");
    section.finish(page);
    // Invariant: it was asked for as long as its kind takes.
    Key::new(id?, kind?, text?.reveal()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Router};

    fn read(section: &str) -> Result<Option<Bfd>, String> {
        let text = format!("[[port]]\nname = \"eth0\"\n[bfd]\n{section}\n");
        let read = Router::read("router.toml", &text, &Machine::this());
        read.map(|router| router.bfd).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn frr_listens_on_this_machine() {
        let place = |section: &str| read(section).unwrap().unwrap().frr.to_string();
        assert_eq!(place(""), "127.0.0.1:50700");
        assert_eq!(place("frr = \"[::1]:50701\""), "[::1]:50701");
        let users = |section: &str| read(section).unwrap().unwrap().users;
        assert_eq!((users(""), users("users = [\"quagga\"]")), (vec!["frr".into()], vec!["quagga".into()]));
        for wrong in ["frr = \"192.0.2.1:50700\"", "frr = \"bfdd\"", "frr = \"/run/frr/bfdd.sock\""] {
            let said = read(wrong).unwrap_err();
            assert!(said.contains("frr: ") && said.contains("router.toml:4:"), "{said}");
        }
        assert!(read("ffr = \"127.0.0.1:1\"").unwrap_err().contains("frr"));
    }

    fn peer(name: &str, keys: &str) -> String {
        format!("[bfd.peer.\"{name}\"]\nkeys = [{keys}]\n")
    }

    #[test]
    fn a_session_has_the_keys_of_its_peer_and_of_its_interface_first() {
        let file = peer(
            "192.0.2.2",
            "{ id = 1, type = \"md5\", key = \"first\" }, { id = 0, type = \"sha1\", key = \"second\" }",
        ) + &peer("fe80::2%eth1", "{ id = 3, type = \"password\", key = \"third\" }")
            + &peer("fe80::2", "{ id = 4, type = \"meticulous-sha1\", key = \"fourth\" }");
        let bfd = read(&file).unwrap().unwrap();
        let ids = |peer: &str, interface| -> Vec<u8> {
            bfd.keys(peer.parse().unwrap(), interface).iter().map(Key::id).collect()
        };
        assert_eq!((ids("192.0.2.2", None), ids("192.0.2.2", Some("eth0"))), (vec![1, 0], vec![1, 0]));
        assert_eq!((ids("fe80::2", Some("eth1")), ids("fe80::2", Some("eth0"))), (vec![3], vec![4]));
        assert!(ids("192.0.2.3", None).is_empty());
        let expected = Key::new(0, Kind::Sha1, "second").unwrap();
        assert_eq!(bfd.keys("192.0.2.2".parse().unwrap(), None)[1], expected);
        let shown = format!("{bfd:?}");
        assert!(
            ["first", "second", "third", "fourth"].iter().all(|secret| !shown.contains(secret)),
            "{shown}"
        );
    }

    #[test]
    fn a_key_that_cannot_be_is_refused_and_never_said() {
        let key =
            |id: &str, kind: &str, key: &str| format!("{{ id = {id}, type = \"{kind}\", key = \"{key}\" }}");
        let fits = |kind, bytes: usize| read(&peer("192.0.2.2", &key("1", kind, &"x".repeat(bytes)))).is_ok();
        for (name, kind) in Kind::NAMED {
            let longest = kind.longest();
            assert_eq!(
                [0, 1, longest, longest + 1].map(|bytes| fits(name, bytes)),
                [false, true, true, false]
            );
        }
        let good = key("1", "sha1", "hidden");
        for (wrong, says) in [
            (peer("192.0.2.2", &key("256", "sha1", "hidden")), "id is out of range"),
            (peer("192.0.2.2", &key("1", "sha256", "hidden")), "type cannot be"),
            (peer("192.0.2.2", &format!("{good}, {good}")), "key 1 is there already"),
            (peer("192.0.2.2", ""), "keys cannot be empty"),
            (peer("192.0.2.2", "\"hidden\""), "keys cannot have a text"),
            (peer("192.0.2.2", "{ type = \"sha1\", key = \"hidden\" }"), "needs an id"),
            (peer("192.0.2.2", "{ id = 1, key = \"hidden\" }"), "needs a type"),
            (peer("192.0.2.2", "{ id = 1, type = \"sha1\" }"), "needs a key"),
            (peer("a peer", &good), "no address of a peer"),
            (peer("2001:db8::1", &good) + &peer("2001:DB8::1", &good), "is there already"),
            ("[bfd.peer.\"192.0.2.2\"]\n".to_owned(), "needs a keys"),
        ] {
            let said = read(&wrong).unwrap_err();
            assert!(said.contains(says) && said.contains("router.toml:"), "{wrong}: {said}");
        }
        let many =
            |count: usize| (0..count).map(|n| peer(&format!("2001:db8::{n:x}"), &good)).collect::<String>();
        assert!(read(&many(KEYS)).is_ok());
        assert!(read(&many(KEYS + 1)).unwrap_err().contains("more than 512 keys"));
    }
}
