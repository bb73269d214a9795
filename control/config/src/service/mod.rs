//! `[service.*]`: what other daemons serve to hosts, as Bifrost tells them.
//!
//! What is absent is left to others.

mod dhcp;
mod dhcp6;
mod dns;
mod lldp;
mod ntp;
mod subnet;

use std::path::PathBuf;

pub use dhcp::{Dhcp, Subnet};
pub use dhcp6::{Dhcp6, Subnet6};
pub use dns::{Dns, Forwarder, Zone};
pub use lldp::Lldp;
pub use ntp::Ntp;
pub use subnet::{HostId, Pool, Reservation};

use crate::mistake::{Hint, Page};
use crate::section::Section;

/// All services of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// What stands in front of the paths of all their files; `None`: nothing.
    pub root: Option<PathBuf>,
    /// Who starts and stops them in the place of systemd.
    pub manager: Option<PathBuf>,
    /// `[service.dhcp]`, by Kea.
    pub dhcp: Option<Dhcp>,
    /// `[service.dhcp6]`, by Kea.
    pub dhcp6: Option<Dhcp6>,
    /// `[service.dns]`, by unbound.
    pub dns: Option<Dns>,
    /// `[service.lldp]`, by lldpd.
    pub lldp: Option<Lldp>,
    /// `[service.ntp]`, by chrony.
    pub ntp: Option<Ntp>,
}

/// What a list of hosts' prefixes is told to have.
const PREFIX: &str = "prefixes, such as \"192.0.2.0/24\"";
/// What a name of a host is told to be.
pub(crate) const HOST: &str = "a name such as \"ntp.example.net\", or an address";

/// Reads the section.
pub(crate) fn services(page: &mut Page, mut section: Section) -> Services {
    let root = path(page, &mut section, "root", "a folder");
    let manager = path(page, &mut section, "manager", "a program");
    let dhcp = section.section(page, "dhcp", "[service.dhcp]").map(|keys| dhcp::dhcp(page, keys));
    let dhcp6 = section.section(page, "dhcp6", "[service.dhcp6]").map(|keys| dhcp6::dhcp6(page, keys));
    let dns = section.section(page, "dns", "[service.dns]").map(|keys| dns::dns(page, keys));
    let lldp = section.section(page, "lldp", "[service.lldp]").map(|keys| lldp::lldp(page, keys));
    let ntp = section.section(page, "ntp", "[service.ntp]").map(|keys| ntp::ntp(page, keys));
    section.finish(page);
    Services { root, manager, dhcp, dhcp6, dns, lldp, ntp }
}

fn path(page: &mut Page, section: &mut Section, key: &'static str, what: &str) -> Option<PathBuf> {
    let expected = format!("the absolute path of {what}");
    let found = section.text(page, key, &expected, |text| {
        let odd = |c: char| c.is_control() || matches!(c, '"' | '\\' | '#');
        match text.starts_with('/') && text.len() < 200 && !text.contains("/../") && !text.contains(odd) {
            true => Ok(PathBuf::from(text.trim_end_matches('/'))),
            false => Err(format!("{text:?} is not that")),
        }
    });
    found.map(|found| found.value).filter(|path| !path.as_os_str().is_empty())
}

/// A name of a host or domain in letters that no daemon's file takes for its own, in small ones,
/// without a dot at its end.
pub(crate) fn domain(text: &str) -> Result<String, String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_lowercase();
    let sound = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    match name.len() <= 253 && name.split('.').all(sound) {
        true => Ok(name),
        false => Err(format!("{text:?} is no name of a host or domain")),
    }
}

/// A host by its name or address.
pub(crate) fn host(text: &str) -> Result<String, String> {
    match text.parse::<std::net::IpAddr>() {
        Ok(address) if !address.is_unspecified() && !address.is_multicast() => Ok(address.to_string()),
        Ok(_) => Err(format!("{text:?} is no host")),
        // What is nearly an address is no name.
        Err(_) if text.chars().all(|c| c.is_ascii_digit() || c == '.') => Err(format!("{text:?} is no host")),
        Err(_) => domain(text),
    }
}

/// That a list is there, and has something.
pub(crate) fn some<T>(
    page: &mut Page,
    section: &mut Section,
    key: &'static str,
    found: Option<Vec<T>>,
    expected: &str,
) -> Vec<T> {
    let found = section.require(page, key, found, expected);
    if let (Some(true), Some(value)) = (found.as_ref().map(Vec::is_empty), section.value(key)) {
        page.wrong(value.span(), format!("{key} has nothing"), Hint::expected(expected));
    }
    found.unwrap_or_default()
}
