//! Addresses as they are written: `192.0.2.1`, `2001:db8::/32`, `10.0.0.5-10.0.0.20`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};

use crate::mistake::{Hint, Page};
use crate::set::{MOST_MEMBERS, Set};

/// The prefixes that an address, prefix or range stands for.
pub(crate) fn nets(text: &str) -> Result<Vec<IpNet>, String> {
    if let Some((first, last)) = text.split_once('-') {
        return range(text, first, last);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(vec![IpNet::from(address)]);
    }
    match text.parse::<IpNet>() {
        Ok(net) if net.trunc() == net => Ok(vec![net]),
        Ok(net) => Err(format!("{text} has bits behind its length; the prefix is {}", net.trunc())),
        Err(_) => Err(format!("{text:?} is no address")),
    }
}

fn range(text: &str, first: &str, last: &str) -> Result<Vec<IpNet>, String> {
    match (first.parse::<IpAddr>(), last.parse::<IpAddr>()) {
        (Ok(IpAddr::V4(first)), Ok(IpAddr::V4(last))) if first <= last => Ok(range4(first, last)),
        (Ok(IpAddr::V6(first)), Ok(IpAddr::V6(last))) if first <= last => Ok(range6(first, last)),
        (Ok(first), Ok(last)) if first.is_ipv4() == last.is_ipv4() => {
            Err(format!("the range {text} runs backwards"))
        }
        (Ok(_), Ok(_)) => Err(format!("the range {text} has an end of either family")),
        _ => Err(format!("{text:?} is no range of addresses")),
    }
}

fn range4(first: Ipv4Addr, last: Ipv4Addr) -> Vec<IpNet> {
    Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect()
}

fn range6(first: Ipv6Addr, last: Ipv6Addr) -> Vec<IpNet> {
    Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect()
}

/// What an address may look like.
pub(crate) const EXPECTED: &str = "any, an address, a prefix, a range first-last, or @ and the name of a set";

/// The members of a set from a file: one address, prefix or range a line; `#` and `;` begin
/// comments.
pub(crate) fn members(page: &mut Page) -> Set {
    let mut members = Vec::new();
    let mut at = 0;
    for line in page.text.split_inclusive('\n') {
        let text = line.split(['#', ';']).next().unwrap_or_default();
        let word = text.trim();
        let start = at + (text.len() - text.trim_start().len());
        at += line.len();
        if word.is_empty() {
            continue;
        }
        match nets(word) {
            Ok(nets) => members.extend(nets),
            Err(message) => {
                page.wrong(
                    start..start + word.len(),
                    message,
                    Hint::expected("one address, prefix or range a line"),
                );
            }
        }
        if members.len() > MOST_MEMBERS {
            let message = format!("a set holds {MOST_MEMBERS} members at most");
            page.wrong(start..start + word.len(), message, Hint::none());
            break;
        }
    }
    members.into_iter().collect()
}
