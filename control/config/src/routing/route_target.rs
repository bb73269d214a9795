//! Numbers by which VRFs and their routes are told from others: route targets and other extended
//! communities (RFC 4360), and route distinguishers (RFC 4364).

use std::fmt;
use std::net::Ipv4Addr;

use crate::mistake::Page;
use crate::section::Section;

/// A route target, or another extended community of two numbers. In the order of their bytes, in
/// which FRR shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteTarget {
    /// An AS number of 16 bits, and a number.
    Short(u16, u32),
    /// An IPv4 address, and a number.
    Address(Ipv4Addr, u16),
    /// An AS number of 32 bits, and a number.
    Long(u32, u16),
}

impl RouteTarget {
    /// Such as `65001:7` or `192.0.2.1:7`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<RouteTarget, String> {
        let wrong = || format!("{text:?} is not of the form AS:NUMBER or ADDRESS:NUMBER");
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (head, number) = text.split_once(':').ok_or_else(wrong)?;
        if !digits(number) {
            return Err(wrong());
        }
        let small = || number.parse::<u16>().map_err(|_| wrong());
        if let Ok(address) = head.parse::<Ipv4Addr>() {
            return Ok(RouteTarget::Address(address, small()?));
        }
        match head.parse::<u32>().ok().filter(|_| digits(head)) {
            Some(asn) => match u16::try_from(asn) {
                Ok(asn) => Ok(RouteTarget::Short(asn, number.parse().map_err(|_| wrong())?)),
                Err(_) => Ok(RouteTarget::Long(asn, small()?)),
            },
            None => Err(wrong()),
        }
    }

    /// Several, as FRR shows them: each once, in their order.
    pub fn several(mut all: Vec<RouteTarget>) -> Vec<RouteTarget> {
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl fmt::Display for RouteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteTarget::Short(asn, number) => write!(f, "{asn}:{number}"),
            RouteTarget::Address(address, number) => write!(f, "{address}:{number}"),
            RouteTarget::Long(asn, number) => write!(f, "{asn}:{number}"),
        }
    }
}

/// A list of route targets.
pub(super) fn targets(page: &mut Page, keys: &mut Section, key: &'static str) -> Vec<RouteTarget> {
    let expected = "a list of route targets, such as [\"65001:1\"]";
    RouteTarget::several(keys.texts(page, key, expected, RouteTarget::read).unwrap_or_default())
}

/// `rd`: a route distinguisher, as FRR keeps it.
pub(super) fn distinguisher(page: &mut Page, keys: &mut Section) -> Option<String> {
    let found = keys.text(page, "rd", "such as \"65001:1\" or \"192.0.2.1:1\"", RouteTarget::read);
    found.map(|found| found.value.to_string())
}
