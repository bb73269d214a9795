//! `[sharing]`: flows that two routers have together.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ::sharing::Key;
use toml::Spanned;

use crate::mistake::{Hint, Page};
use crate::pattern::is_interface_name;
use crate::routing::secret;
use crate::section::Section;

/// The UDP port of both, unless told otherwise.
const PORT: u16 = 3781;
const KEY: &str = "64 hexadecimal digits, such as `openssl rand -hex 32` makes, or { file = \"...\" }";
const DIGITS: usize = 64;

/// `[sharing]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// This router's address and port.
    pub listen: SocketAddr,
    /// The other router's.
    pub peer: SocketAddr,
    /// The interface that alone leads there.
    pub interface: Option<String>,
    /// What both have in common.
    pub key: Key,
}

pub(crate) fn sharing(
    page: &mut Page,
    mut section: Section,
    files: &mut dyn FnMut(&Path) -> io::Result<String>,
) -> Option<Sharing> {
    const ADDRESS: &str = "an address of one machine, such as \"192.0.2.1\"";
    let listen = section.text(page, "listen", ADDRESS, address);
    let peer = section.text(page, "peer", ADDRESS, address);
    let written = section.value("port").is_some();
    let port = section.number(page, "port", 1..=65_535).and_then(|port| u16::try_from(port).ok());
    let named = section.value("interface").is_some();
    let interface = section.text(page, "interface", "the name of an interface", |name| {
        is_interface_name(name)
            .then(|| name.to_owned())
            .ok_or_else(|| format!("{name:?} is no interface's name"))
    });
    let at = section.value("key").map(Spanned::span);
    let secret = secret(page, &mut section, "key", DIGITS, files);
    let key = secret.zip(at).and_then(|(secret, at)| {
        let read = secret.reveal().parse::<Key>();
        // What is wrong with it says nothing of it.
        read.map_err(|error| page.wrong(at, format!("key: {error}"), Hint::expected(KEY))).ok()
    });
    let listen = section.require(page, "listen", listen, ADDRESS);
    let peer = section.require(page, "peer", peer, ADDRESS);
    let key = section.require(page, "key", key, KEY);
    let at = section.at.clone();
    section.finish(page);
    let (listen, peer, key) = (listen?, peer?, key?);
    if (written && port.is_none()) || (named && interface.is_none()) {
        return None;
    }
    let port = port.unwrap_or(PORT);
    if listen.value == peer.value || listen.value.is_ipv4() != peer.value.is_ipv4() {
        let message = format!("{} cannot share flows with {}", listen.value, peer.value);
        page.wrong(peer.at, message, Hint::expected("another router's address, of the same family"));
        return None;
    }
    let local = |address: &IpAddr| matches!(address, IpAddr::V6(six) if six.is_unicast_link_local());
    if (local(&listen.value) || local(&peer.value)) && interface.is_none() {
        page.missing(
            at,
            "[sharing] needs an interface for link-local addresses",
            Hint::expected("interface"),
        );
        return None;
    }
    Some(Sharing {
        listen: (listen.value, port).into(),
        peer: (peer.value, port).into(),
        interface: interface.map(|interface| interface.value),
        key,
    })
}

fn address(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| format!("{text:?} is no address"))?;
    match address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        false => Ok(address),
        true => Err(format!("{address} is no address of one machine that another one reaches")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Router};

    const WRITTEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn read(section: &str) -> Result<Router, String> {
        let text = format!("[[port]]\nname = \"eth0\"\n[sharing]\n{section}\n");
        let mut files = |name: &Path| match name.to_str() {
            Some("key") => Ok(format!("{WRITTEN}\n")),
            Some("short") => Ok("0123".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let read = Router::read_with("router.toml", &text, &Machine::this(), &mut files);
        read.map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn two_addresses_and_a_key_are_enough() {
        let ends = "listen = \"192.0.2.1\"\npeer = \"192.0.2.2\"\n";
        let router = read(&format!("{ends}key = \"{WRITTEN}\"")).unwrap();
        assert!(!router.text.contains("0123") && !format!("{:?}", router.sharing).contains("0123"));
        let sharing = router.sharing.unwrap();
        assert_eq!((sharing.listen.to_string(), sharing.peer.port()), ("192.0.2.1:3781".to_owned(), PORT));
        let filed =
            read(&format!("{ends}key = {{ file = \"key\" }}\nport = 99\ninterface = \"eth1\"")).unwrap();
        let filed = filed.sharing.unwrap();
        assert_eq!((filed.key, filed.peer.port()), (sharing.key, 99));
        assert_eq!(filed.interface.as_deref(), Some("eth1"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_where_it_stands() {
        let key = format!("key = \"{WRITTEN}\"\n");
        for (section, message) in [
            (key.clone(), "needs a listen"),
            (format!("listen = \"192.0.2.1\"\n{key}"), "needs a peer"),
            ("listen = \"192.0.2.1\"\npeer = \"192.0.2.2\"".to_owned(), "needs a key"),
            (format!("listen = \"192.0.2.1\"\npeer = \"192.0.2.1\"\n{key}"), "cannot share"),
            (format!("listen = \"192.0.2.1\"\npeer = \"2001:db8::1\"\n{key}"), "cannot share"),
            (format!("listen = \"fe80::1\"\npeer = \"fe80::2\"\n{key}"), "needs an interface"),
            (format!("listen = \"0.0.0.0\"\npeer = \"192.0.2.1\"\n{key}"), "no address of one machine"),
            (format!("listen = \"eth1\"\npeer = \"192.0.2.1\"\n{key}"), "no address"),
            ("listen = \"192.0.2.1\"\npeer = \"192.0.2.2\"\nkey = \"secret\"".to_owned(), "64 hex"),
            (
                "listen = \"192.0.2.1\"\npeer = \"192.0.2.2\"\nkey = { file = \"none\" }".to_owned(),
                "cannot read",
            ),
            ("listen = \"192.0.2.1\"\npeer = \"192.0.2.2\"\nkey = { file = \"short\" }".to_owned(), "64 hex"),
            (format!("listen = \"192.0.2.1\"\npeer = \"192.0.2.2\"\n{key}port = 0"), "port"),
            (format!("listen = \"192.0.2.1\"\npeer = \"192.0.2.2\"\n{key}kye = 1"), "no key"),
        ] {
            let refused = read(&section).unwrap_err();
            assert!(refused.contains(message) && refused.contains("router.toml:"), "{section}: {refused}");
        }
    }

    #[test]
    fn flows_can_be_tracked() {
        let text = "[[port]]\nname = \"eth1\"\n[vrrp.x]\ninterface = \"eth1\"\nid = 1\n\
                    addresses = [\"192.0.2.1\"]\ntrack = [{ flows = \"shared\", lower = 50 }]\n";
        let router = Router::read("router.toml", text, &Machine::this()).unwrap();
        assert_eq!(router.vrrp[0].track[0].what, crate::Tracked::Flows);
    }
}
