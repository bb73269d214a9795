//! `[system.ssh]`: how administrators log in from elsewhere.

use std::net::IpAddr;

use crate::mistake::Page;
use crate::section::Section;

/// What OpenSSH is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ssh {
    /// Addresses that it listens on; none: all.
    pub listen: Vec<IpAddr>,
    /// Its port.
    pub port: u16,
    /// Whether passwords are asked for.
    pub passwords: bool,
    /// How root may log in.
    pub root: RootLogin,
}

/// How root may log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootLogin {
    /// Not at all.
    No,
    /// By a key.
    Keys,
    /// By a password as well.
    Yes,
}

impl RootLogin {
    /// As they are written.
    pub const WORDS: [(&str, RootLogin); 3] =
        [("no", RootLogin::No), ("keys", RootLogin::Keys), ("yes", RootLogin::Yes)];
}

pub(super) fn ssh(page: &mut Page, mut keys: Section) -> Ssh {
    let address = |text: &str| match text.parse::<IpAddr>() {
        Ok(address) if !address.is_multicast() => Ok(address),
        _ => Err(format!("{text:?} is no address of a machine")),
    };
    let listen = keys.texts(page, "listen", "addresses, such as \"192.0.2.1\"", address);
    let found = Ssh {
        listen: listen.unwrap_or_default(),
        port: keys.number(page, "port", 1..=65_535).map_or(22, |port| port as u16),
        passwords: keys.flag(page, "passwords").unwrap_or(true),
        root: keys.choice(page, "root", &RootLogin::WORDS).unwrap_or(RootLogin::Keys),
    };
    keys.finish(page);
    found
}
