//! `[service.lldp]`: neighbours are told who this is.

use std::net::IpAddr;

use crate::mistake::Page;
use crate::pattern::is_interface_name;
use crate::section::Section;

/// What lldpd does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lldp {
    /// Where it speaks and listens; none: at every card.
    pub interfaces: Vec<String>,
    /// Addresses by which this machine is managed; none: lldpd's choice.
    pub management: Vec<IpAddr>,
    /// Seconds between two frames.
    pub interval: u16,
    /// For how many of these neighbours believe one.
    pub hold: u8,
}

pub(super) fn lldp(page: &mut Page, mut keys: Section) -> Lldp {
    let interface = |text: &str| match is_interface_name(text) && !text.contains([',', '!', '*']) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no name of an interface")),
    };
    let address = |text: &str| text.parse::<IpAddr>().map_err(|_| format!("{text:?} is no address"));
    let found = Lldp {
        interfaces: keys.texts(page, "interfaces", "names such as \"eth1\"", interface).unwrap_or_default(),
        management: keys.texts(page, "management", "addresses of this router", address).unwrap_or_default(),
        interval: keys.number(page, "interval", 1..=3600).map_or(30, |seconds| seconds as u16),
        hold: keys.number(page, "hold", 2..=10).map_or(4, |times| times as u8),
    };
    keys.finish(page);
    found
}
