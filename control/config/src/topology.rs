//! Whether the interfaces of a file go together: what lies on what, who belongs to whom, and what
//! may be there once only.

use std::collections::HashMap;

use toml::de::DeTable;

use crate::interface::{Interface, InterfaceKind, Vxlan, place};
use crate::mistake::{Hint, Page};

/// Notes what cannot be together.
pub(crate) fn check(page: &mut Page, table: &DeTable, interfaces: &[Interface]) {
    let by_name: HashMap<&str, &Interface> = interfaces.iter().map(|it| (it.name.as_str(), it)).collect();
    masters(page, table, interfaces, &by_name);
    cycles(page, table, interfaces, &by_name);
    twins(page, table, interfaces);
}

/// Each belongs to one bridge, bond or VRF at most, and such a VRF is one.
fn masters(page: &mut Page, table: &DeTable, interfaces: &[Interface], by_name: &HashMap<&str, &Interface>) {
    let mut master_of: HashMap<&str, &str> = HashMap::new();
    for master in interfaces {
        for member in master.members.iter().flatten() {
            let at = || place(table, &master.name, "members");
            if let Some(other) = master_of.insert(member, &master.name) {
                let message = match other == master.name {
                    true => format!("{member} is listed twice"),
                    false => format!("{member} is a member of {other} already"),
                };
                page.wrong(at(), message, Hint::expected("members of no other bridge or bond"));
            }
            let Some(named) = by_name.get(member.as_str()) else { continue };
            let cannot = !named.kind.has_frames()
                || matches!(
                    (&master.kind, &named.kind),
                    (InterfaceKind::Bridge, InterfaceKind::Bridge)
                        | (InterfaceKind::Bond { .. }, InterfaceKind::Bond { .. } | InterfaceKind::Bridge)
                );
            if cannot {
                let (what, whose) = (named.kind.word(), master.kind.word());
                let message = format!("{member} is a {what}, which a {whose} cannot have");
                page.wrong(at(), message, Hint::expected("Ethernet interfaces"));
            }
            if matches!(master.kind, InterfaceKind::Bond { .. }) && named.mtu.is_some() {
                let message = format!("{member} has the mtu of its bond {}", master.name);
                page.wrong(place(table, member, "mtu"), message, Hint::expected("an mtu of the bond"));
            }
        }
    }
    for it in interfaces {
        let Some(vrf) = &it.vrf else { continue };
        let mut wrong = |message: String, expected: &str| {
            page.wrong(place(table, &it.name, "vrf"), message, Hint::expected(expected));
        };
        if let Some(master) = master_of.get(it.name.as_str()) {
            wrong(
                format!("{} is a member of {master}", it.name),
                &format!("a vrf of {master}, if of anything"),
            );
        } else if matches!(it.kind, InterfaceKind::Vrf { .. }) {
            wrong("a VRF cannot be in a VRF".to_owned(), "no vrf");
        } else if let Some(named) = by_name.get(vrf.as_str())
            && !matches!(named.kind, InterfaceKind::Vrf { .. })
        {
            wrong(format!("{vrf} is a {}, no VRF", named.kind.word()), "the name of a VRF");
        }
    }
}

/// Nothing lies on itself.
fn cycles(page: &mut Page, table: &DeTable, interfaces: &[Interface], by_name: &HashMap<&str, &Interface>) {
    for start in interfaces {
        let (mut reached, mut left) = (Vec::new(), vec![start]);
        while let Some(it) = left.pop() {
            let parent = it.kind.parent();
            for below in it.members.iter().flatten().map(String::as_str).chain(parent) {
                if !reached.contains(&below) {
                    reached.push(below);
                    left.extend(by_name.get(below));
                }
            }
        }
        if reached.contains(&start.name.as_str()) {
            let key = if start.kind.parent().is_some() { "parent" } else { "members" };
            let message = format!("{} lies on itself", start.name);
            page.wrong(place(table, &start.name, key), message, Hint::expected("another interface"));
        }
    }
}

/// What Linux or the network can have only once.
fn twins(page: &mut Page, table: &DeTable, interfaces: &[Interface]) {
    let mut kinds: HashMap<String, &str> = HashMap::new();
    let mut addresses = HashMap::new();
    for it in interfaces {
        let (key, what) = match &it.kind {
            InterfaceKind::Vlan { parent, id, protocol } => {
                ("id", format!("VLAN {id} ({protocol}) on {parent}"))
            }
            InterfaceKind::Vrf { table } => ("table", format!("table {table}")),
            InterfaceKind::Tunnel { mode, local, remote, key, .. } => {
                let key = key.map_or_else(String::new, |key| format!(" with key {key}"));
                ("remote", format!("a tunnel ({mode}) from {local} to {remote}{key}"))
            }
            InterfaceKind::Vxlan(Vxlan { vni, port, .. }) => ("vni", format!("VXLAN {vni} at port {port}")),
            _ => ("", String::new()),
        };
        if !key.is_empty()
            && let Some(other) = kinds.insert(what.clone(), &it.name)
        {
            let message = format!("{other} is {what} already");
            page.wrong(place(table, &it.name, key), message, Hint::expected("each once"));
        }
        for address in it.addresses.iter().flatten().map(|net| net.addr()) {
            if matches!(address, std::net::IpAddr::V6(it) if it.is_unicast_link_local()) {
                continue;
            }
            if let Some(other) = addresses.insert((&it.vrf, address), &it.name) {
                let message = match *other == it.name {
                    true => format!("{address} is listed twice"),
                    false => format!("{address} is an address of {other} already"),
                };
                page.wrong(place(table, &it.name, "addresses"), message, Hint::expected("each address once"));
            }
        }
    }
}
