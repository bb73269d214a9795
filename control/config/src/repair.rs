//! `[[repair]]`: by whom packets go while a gateway is lost.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use toml::Spanned;
use toml::de::DeValue;

use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind};

/// A gateway, and the one that takes its place while it is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The one that routes name.
    pub gateway: Gateway,
    /// Of the same family.
    pub backup: Gateway,
}

/// A gateway: `192.0.2.1`, or with its interface, `fe80::1%eth0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gateway {
    /// Its address.
    pub address: IpAddr,
    /// By which interface it is reached; `None`: by the one on whose link it is.
    pub interface: Option<String>,
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{}%{interface}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

const EXPECTED: &str = "the address of a gateway, such as \"192.0.2.1\" or \"fe80::1%eth0\"";

/// Every section of this kind, in the order of the file.
pub(crate) fn repairs(page: &mut Page, value: &Spanned<DeValue>) -> Vec<Repair> {
    let DeValue::Array(list) = value.get_ref() else {
        let hint = Hint::expected("[[repair]], with two brackets, once for each gateway");
        page.wrong(value.span(), format!("repair cannot be {}", kind(value.get_ref())), hint);
        return Vec::new();
    };
    let mut repairs = Vec::new();
    let mut places = HashMap::new();
    for item in list.iter() {
        let DeValue::Table(table) = item.get_ref() else {
            let message = format!("{} is not a repair", kind(item.get_ref()));
            page.wrong(item.span(), message, Hint::expected("[[repair]] sections"));
            continue;
        };
        let Some(repair) = one(page, Section::new("[[repair]]", item.span(), table)) else { continue };
        if let Some(other) = places.insert(repair.gateway.clone(), item.span().start) {
            let message = format!("{} has a backup already, on line {}", repair.gateway, page.line_of(other));
            page.wrong(item.span(), message, Hint::expected("one backup for each gateway"));
        }
        repairs.push(repair);
    }
    repairs
}

fn one(page: &mut Page, mut section: Section) -> Option<Repair> {
    let gateway = section.text(page, "gateway", EXPECTED, gateway_of);
    let gateway = section.require(page, "gateway", gateway, EXPECTED);
    let backup = section.text(page, "backup", EXPECTED, gateway_of);
    let backup = section.require(page, "backup", backup, EXPECTED);
    section.finish(page);
    let (gateway, backup) = (gateway?.value, backup?);
    let wrong = match &backup.value {
        same if *same == gateway => "a gateway cannot take its own place",
        other if other.address.is_ipv4() != gateway.address.is_ipv4() => {
            "the backup is of another family than the gateway"
        }
        _ => return Some(Repair { gateway, backup: backup.value }),
    };
    page.wrong(backup.at, wrong, Hint::expected("another gateway of the same family"));
    None
}

fn gateway_of(text: &str) -> Result<Gateway, String> {
    let (address, interface) = match text.split_once('%') {
        Some((address, name)) => (address, Some(interface_name(name)?)),
        None => (text, None),
    };
    let address = match address.parse::<IpAddr>() {
        Ok(it) if !it.is_unspecified() && !it.is_multicast() && !it.is_loopback() => it,
        _ => return Err(format!("{address:?} is no address of a gateway")),
    };
    match (address, &interface) {
        (IpAddr::V6(it), None) if it.is_unicast_link_local() => {
            Err(format!("{it} is on every link; perhaps meant: \"{it}%eth0\""))
        }
        _ => Ok(Gateway { address, interface }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Router};

    fn read(sections: &str) -> Result<Vec<Repair>, String> {
        let text = format!("[[port]]\nname = \"eth0\"\n{sections}\n");
        let read = Router::read("router.toml", &text, &Machine::this());
        read.map(|router| router.repairs).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn each_gateway_has_one_other_of_its_family() {
        let one = |gateway: &str, backup: &str| {
            format!("[[repair]]\ngateway = \"{gateway}\"\nbackup = \"{backup}\"\n")
        };
        let both = one("192.0.2.1", "198.51.100.1") + &one("fe80::1%eth0", "fe80::1%eth1");
        let read_back: Vec<String> = read(&both)
            .unwrap()
            .iter()
            .map(|repair| format!("{} {}", repair.gateway, repair.backup))
            .collect();
        assert_eq!(read_back, ["192.0.2.1 198.51.100.1", "fe80::1%eth0 fe80::1%eth1"]);
        for (wrong, why) in [
            (one("192.0.2.1", "192.0.2.1"), "cannot take its own place"),
            (one("192.0.2.1", "2001:db8::1"), "of another family"),
            (one("fe80::1", "2001:db8::1"), "on every link"),
            (one("192.0.2.1", "224.0.0.1"), "no address of a gateway"),
            (one("192.0.2.1%", "192.0.2.2"), "cannot be the name"),
            (one("192.0.2.1", "192.0.2.2").repeat(2), "has a backup already, on line 3"),
            ("[[repair]]\ngateway = \"192.0.2.1\"\n".to_owned(), "backup"),
            ("[repair]\ngateway = \"192.0.2.1\"\n".to_owned(), "two brackets"),
        ] {
            let said = read(&wrong).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
