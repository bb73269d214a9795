//! `[service.ntp]`: the machine's clock, and who may ask it.

use ipnet::IpNet;

use super::{HOST, PREFIX, host};
use crate::mistake::{Hint, Page};
use crate::route::net;
use crate::section::Section;

/// What chrony does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ntp {
    /// Servers, by name or address.
    pub servers: Vec<String>,
    /// Names behind which are several servers.
    pub pools: Vec<String>,
    /// Whether all of them prove who they are (NTS, RFC 8915).
    pub nts: bool,
    /// Who may ask this machine.
    pub serve: Vec<IpNet>,
    /// The stratum by which this machine's own clock is told while no server is there; `None`:
    /// nobody is told then.
    pub local_stratum: Option<u8>,
}

pub(super) fn ntp(page: &mut Page, mut keys: Section) -> Ntp {
    let found = Ntp {
        servers: keys.texts(page, "servers", HOST, host).unwrap_or_default(),
        pools: keys.texts(page, "pools", HOST, host).unwrap_or_default(),
        nts: keys.flag(page, "nts").unwrap_or(false),
        serve: keys.texts(page, "serve", PREFIX, net).unwrap_or_default(),
        local_stratum: keys.number(page, "local_stratum", 1..=15).map(|stratum| stratum as u8),
    };
    let asks = ["servers", "pools", "local_stratum"];
    if !asks.into_iter().any(|key| keys.value(key).is_some()) {
        let hint = Hint::expected("servers, pools, or local_stratum for a clock of its own");
        page.missing(keys.at.clone(), "[service.ntp] has no clock to follow", hint);
    }
    keys.finish(page);
    found
}
