//! What Linux is to have: what it has, and over that what the file says.

use std::collections::BTreeMap;
use std::net::IpAddr;

use config::{Interface, InterfaceKind, Route, RouteTable, Router};

use super::linux::{Hop, Key, Link, Linux, Way};
use super::rules::Rules;
use super::wireguard;

/// Something of the file that cannot be now.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum Refused {
    #[error("[interface.{0}]: there is no such interface")]
    Absent(String),
    #[error("[interface.{of}]: there is no interface {name}")]
    Below { of: String, name: String },
    #[error("[interface.{name}]: it is there, Bifrost did not make it, and it is not the {kind} of the file")]
    Foreign { name: String, kind: &'static str },
    #[error("[interface.{of}]: there is no VRF {name}")]
    NoVrf { of: String, name: String },
    #[error("[[rule]] {priority}: there is no VRF {vrf}")]
    Rule { priority: u32, vrf: String },
    #[error("[[route]] to {to}: there is no {what}")]
    Route { to: ipnet::IpNet, what: String },
}

/// Whether the file says something of an interface, or needs it.
pub(super) fn names(router: &Router, name: &str) -> bool {
    let of = |it: &Interface| {
        let below = it.kind.parent() == Some(name);
        let member = it.members.iter().flatten().any(|member| member == name);
        it.name == name || below || member || it.vrf.as_deref() == Some(name)
    };
    let by = |way: &config::RouteAction| matches!(way, config::RouteAction::Via { device: Some(device), .. } if device == name);
    router.interfaces.iter().any(of) || router.routes.iter().any(|route| by(&route.way))
}

/// What of Linux is to be, and what of the file is left out of that, as it cannot be now. `before`:
/// interfaces as the file had them.
pub(super) fn wanted(now: &Linux, router: &Router, before: &[Interface]) -> (Linux, Vec<Refused>) {
    let (mut to, mut refused) = (now.clone(), Vec::new());
    to.links.retain(|name, link| !link.ours || router.interfaces.iter().any(|it| it.name == *name));
    // What is made lies on what is there; parents are made first.
    let mut left: Vec<&Interface> = router.interfaces.iter().collect();
    loop {
        let count = left.len();
        left.retain(|it| !make(it, now, before, &mut to, &mut refused));
        if left.is_empty() || left.len() == count {
            break;
        }
    }
    for it in left {
        if let Some(parent) = it.kind.parent() {
            to.links.remove(&it.name);
            refused.push(Refused::Below { of: it.name.clone(), name: parent.to_owned() });
        }
    }
    without_parents(&mut to);
    let masters: Vec<String> = to.links.keys().cloned().collect();
    for link in to.links.values_mut() {
        // It goes, and its members are nobody's.
        link.master.take_if(|master| !masters.contains(master));
    }
    for it in router.interfaces.iter() {
        belong(it, router, &mut to, &mut refused);
    }
    for it in router.interfaces.iter().filter(|it| !it.enabled) {
        to.links.entry(it.name.clone()).and_modify(|link| link.up = false);
    }
    to.routes = asked_for(&router.routes, &to.links, |wrong| refused.push(wrong));
    to.rules = Rules::wanted(&router.routing_rules, &to.links, |wrong| refused.push(wrong));
    for (key, way) in &now.routes {
        // Where Linux has what is asked for, it says more of it than the file.
        to.routes.entry(*key).and_modify(|asked| {
            if asked.is(way) {
                asked.clone_from(way);
            }
        });
    }
    (to, refused)
}

/// What one is to be by itself. False: what it lies on is not there yet.
fn make(
    it: &Interface,
    now: &Linux,
    before: &[Interface],
    to: &mut Linux,
    refused: &mut Vec<Refused>,
) -> bool {
    if it.kind.parent().is_some_and(|parent| !to.links.contains_key(parent)) {
        return false;
    }
    let is = now.links.get(&it.name);
    let kind = match (is, &it.kind) {
        (None, InterfaceKind::Ethernet) => {
            refused.push(Refused::Absent(it.name.clone()));
            return true;
        }
        (Some(link), InterfaceKind::Ethernet) => link.kind.clone(),
        (Some(link), wanted) => said_of(wanted, &link.kind),
        (None, wanted) => wanted.clone(),
    };
    let link = match is {
        Some(link) if same(&link.kind, &kind) => Link { kind, ..link.clone() },
        Some(link) if !link.ours => {
            refused.push(Refused::Foreign { name: it.name.clone(), kind: it.kind.word() });
            return true;
        }
        _ => Link::new(kind, true),
    };
    let mut link = Link { up: true, ..link };
    link.mtu = it.mtu.or(link.mtu);
    link.mac = it.mac.clone().or(link.mac);
    link.alias = it.description.clone().unwrap_or(link.alias);
    link.addresses = it.addresses.clone().unwrap_or(link.addresses);
    if let Some(asked) = &it.wireguard {
        let before = before.iter().find(|other| other.name == it.name);
        link.wireguard =
            wireguard::wanted(&link.wireguard, asked, before.and_then(|it| it.wireguard.as_ref()));
    }
    to.links.insert(it.name.clone(), link);
    true
}

/// Whether the one can become the other without being made anew.
pub(super) fn same(one: &InterfaceKind, other: &InterfaceKind) -> bool {
    let bonds = matches!((one, other), (InterfaceKind::Bond { .. }, InterfaceKind::Bond { .. }));
    bonds || one == other
}

/// What is wanted of a bond, and of the rest what it has.
fn said_of(wanted: &InterfaceKind, is: &InterfaceKind) -> InterfaceKind {
    let (
        InterfaceKind::Bond { mode, lacp_rate, miimon },
        InterfaceKind::Bond { lacp_rate: rate, miimon: time, .. },
    ) = (wanted, is)
    else {
        return wanted.clone();
    };
    InterfaceKind::Bond { mode, lacp_rate: lacp_rate.or(*rate), miimon: miimon.or(*time) }
}

/// VLANs and their like go with what they lie on.
fn without_parents(to: &mut Linux) {
    loop {
        let there = to.links.clone();
        to.links.retain(|_, link| link.parent().is_none_or(|parent| there.contains_key(parent)));
        if to.links.len() == there.len() {
            return;
        }
    }
}

/// Who belongs to whom, and what must be up for another.
fn belong(it: &Interface, router: &Router, to: &mut Linux, refused: &mut Vec<Refused>) {
    if !to.links.contains_key(&it.name) {
        return;
    }
    if let Some(parent) = it.kind.parent() {
        to.links.entry(parent.to_owned()).and_modify(|link| link.up = true);
    }
    if let Some(members) = &it.members {
        for (name, link) in &mut to.links {
            if link.master.as_ref() == Some(&it.name) && !members.contains(name) {
                link.master = None;
            }
        }
        for name in members {
            match to.links.get_mut(name) {
                Some(link) => (link.master, link.up) = (Some(it.name.clone()), true),
                None => refused.push(Refused::Below { of: it.name.clone(), name: name.clone() }),
            }
        }
    }
    let is_vrf = |links: &BTreeMap<String, Link>, name: &str| {
        links.get(name).is_some_and(|link| matches!(link.kind, InterfaceKind::Vrf { .. }))
    };
    let master = to.links[&it.name].master.clone();
    let named = |name: &String| router.interfaces.iter().any(|it| it.name == *name);
    let wanted = match &it.vrf {
        Some(vrf) if is_vrf(&to.links, vrf) => Some(vrf.clone()),
        Some(vrf) => {
            refused.push(Refused::NoVrf { of: it.name.clone(), name: vrf.clone() });
            return;
        }
        // Both are the file's, and it does not say so.
        None => master.filter(|master| !(is_vrf(&to.links, master) && named(master))),
    };
    to.links.entry(it.name.clone()).and_modify(|link| link.master = wanted);
}

/// Routes as Linux has them, where these interfaces are there; `refuse` is told what cannot be.
pub(super) fn asked_for(
    asked: &[Route],
    links: &BTreeMap<String, Link>,
    mut refuse: impl FnMut(Refused),
) -> BTreeMap<Key, Way> {
    let mut routes = BTreeMap::new();
    for route in asked {
        let mut refuse = |what: String| refuse(Refused::Route { to: route.to, what });
        let table = match number(&route.table, links) {
            Ok(table) => table,
            Err(vrf) => {
                refuse(format!("VRF {vrf}"));
                continue;
            }
        };
        // Of IPv6 Linux takes 0 for that.
        let usual = if route.to.addr().is_ipv6() { 1024 } else { 0 };
        let metric = route.metric.filter(|metric| *metric > 0).unwrap_or(usual);
        let way = match &route.way {
            config::RouteAction::End(word) => Way::End(word),
            config::RouteAction::Via { device: Some(device), .. } if !links.contains_key(device) => {
                refuse(format!("interface {device}"));
                continue;
            }
            config::RouteAction::Via { gateways, device } if gateways.is_empty() => {
                Way::Via(vec![Hop { gateway: None, device: device.clone() }])
            }
            config::RouteAction::Via { gateways, device } => {
                let hop = |gateway: &IpAddr| Hop { gateway: Some(*gateway), device: device.clone() };
                Way::Via(gateways.iter().map(hop).collect())
            }
        };
        routes.insert(Key { table, to: route.to, metric }, way);
    }
    routes
}

/// The number of a table; else the VRF that is not there.
pub(super) fn number<'t>(table: &'t RouteTable, links: &BTreeMap<String, Link>) -> Result<u32, &'t str> {
    match table {
        RouteTable::Number(number) => Ok(*number),
        RouteTable::Vrf(vrf) => match links.get(vrf).map(|link| &link.kind) {
            Some(InterfaceKind::Vrf { table }) => Ok(*table),
            _ => Err(vrf),
        },
    }
}

/// Gateways that no address of their interface reaches, where the file has its addresses.
pub(super) fn warnings(router: &Router) -> Vec<String> {
    let mut warnings = Vec::new();
    for route in &router.routes {
        let config::RouteAction::Via { gateways, device: Some(device) } = &route.way else { continue };
        let named = router.interfaces.iter().find(|it| it.name == *device);
        let Some(addresses) = named.and_then(|it| it.addresses.as_ref()) else { continue };
        for gateway in gateways {
            let on_link = matches!(gateway, IpAddr::V6(it) if it.is_unicast_link_local());
            if !on_link && !addresses.iter().any(|net| net.contains(gateway)) {
                warnings.push(format!("[[route]] to {}: {gateway} is in no subnet of {device}", route.to));
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use config::Machine;

    use super::*;

    fn file(sections: &str) -> Router {
        let text = format!("without_ports = \"on\"\n{sections}");
        Router::read("router.toml", &text, &Machine::this()).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    fn linux(links: &[(&str, InterfaceKind, bool)]) -> Linux {
        let links = links.iter().map(|(name, kind, ours)| {
            let link = Link { up: true, mtu: Some(1500), ..Link::new(kind.clone(), *ours) };
            ((*name).to_owned(), link)
        });
        Linux { links: links.collect(), ..Linux::default() }
    }

    #[test]
    fn what_cannot_be_is_named_and_the_rest_is_made() {
        let now = linux(&[
            ("eth0", InterfaceKind::Ethernet, false),
            ("theirs", InterfaceKind::Bridge, false),
            ("old", InterfaceKind::Dummy, true),
        ]);
        let file = file(
            "[interface.gone]\nmtu = 1400\n\
             [interface.\"gone.5\"]\nkind = \"vlan\"\nparent = \"gone\"\nid = 5\n\
             [interface.theirs]\nkind = \"dummy\"\n\
             [interface.eth0]\nvrf = \"red\"\n\
             [interface.lan]\nkind = \"bridge\"\nmembers = [\"gone\"]\n\
             [[route]]\nto = \"192.0.2.0/24\"\ndevice = \"gone\"\n\
             [[route]]\nto = \"198.51.100.0/24\"\nkind = \"prohibit\"\n",
        );
        let (to, refused) = wanted(&now, &file, &[]);
        let told: Vec<String> = refused.iter().map(ToString::to_string).collect();
        let expected = [
            "[interface.gone]: there is no such interface",
            "[interface.theirs]: it is there, Bifrost did not make it, and it is not the dummy of the file",
            "[interface.gone.5]: there is no interface gone",
            "[interface.eth0]: there is no VRF red",
            "[interface.lan]: there is no interface gone",
            "[[route]] to 192.0.2.0/24: there is no interface gone",
        ];
        assert_eq!(told, expected);
        assert_eq!(to.links.keys().collect::<Vec<_>>(), ["eth0", "lan", "theirs"]);
        assert_eq!(to.links["theirs"], now.links["theirs"]);
        assert!(to.links["lan"].ours && to.routes.len() == 1);
    }

    #[test]
    fn a_list_is_whole_and_what_is_not_said_stays() {
        let vrf = InterfaceKind::Vrf { table: 7 };
        let mut now = linux(&[
            ("eth0", InterfaceKind::Ethernet, false),
            ("eth1", InterfaceKind::Ethernet, false),
            ("eth2", InterfaceKind::Ethernet, false),
            ("lan", InterfaceKind::Bridge, true),
            ("red", vrf, true),
            ("theirs", InterfaceKind::Bridge, false),
        ]);
        let belongs = [("eth0", "lan"), ("eth1", "red"), ("eth2", "theirs")];
        for (name, master) in belongs {
            let link = now.links.get_mut(name).unwrap();
            link.master = Some(master.to_owned());
            link.addresses = ["192.0.2.1/24", "2001:db8::1/64"].map(|it| it.parse().unwrap()).to_vec();
        }
        let masters = "[interface.lan]\nkind = \"bridge\"\n[interface.red]\nkind = \"vrf\"\ntable = 7\n";
        let (to, refused) = wanted(&now, &file(masters), &[]);
        assert_eq!((&to, refused), (&now, Vec::new()));
        let said = "members = []\n[interface.eth1]\naddresses = [\"2001:db8::1/64\"]\nmtu = 1400\n\
                    [interface.eth2]\nenabled = false\n";
        let (to, refused) = wanted(
            &now,
            &file(&masters.replacen("[interface.red]", &(said.to_owned() + "[interface.red]"), 1)),
            &[],
        );
        assert_eq!(refused, []);
        let mut expected = now.clone();
        expected.links.get_mut("eth0").unwrap().master = None;
        let eth1 = expected.links.get_mut("eth1").unwrap();
        (eth1.master, eth1.mtu) = (None, Some(1400));
        eth1.addresses.remove(0);
        expected.links.get_mut("eth2").unwrap().up = false;
        assert_eq!(to, expected);
    }

    #[test]
    fn a_gateway_on_no_subnet_of_its_interface_is_told() {
        let file = file(
            "[interface.eth0]\naddresses = [\"192.0.2.1/24\"]\n\
             [[route]]\nto = \"10.0.0.0/8\"\nvia = [\"192.0.2.9\", \"198.51.100.9\"]\ndevice = \"eth0\"\n",
        );
        assert_eq!(warnings(&file), ["[[route]] to 10.0.0.0/8: 198.51.100.9 is in no subnet of eth0"]);
    }
}
