//! A naive Linux, for tests of the way: it takes a step or refuses it, and loses what Linux loses.

use std::collections::BTreeMap;

use chance::Random;
use config::{Asks, Does, InterfaceKind};
use ipnet::IpNet;
use mirror::netlink::wireguard::Peer;

use super::linux::{Hop, Key, Link, Linux, Way};
use super::rules::{Place, Rule};
use super::step::{How, Step};
use super::way::way;

fn take(linux: &mut Linux, step: &Step) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("{step}: {why}"));
    match step {
        Step::Make { name, kind, mac, ours } => {
            if linux.links.contains_key(name) {
                return refuse("it is there");
            }
            if kind.parent().is_some_and(|parent| !linux.links.contains_key(parent)) {
                return refuse("no parent");
            }
            linux.links.insert(name.clone(), Link { mac: mac.clone(), ..Link::new(kind.clone(), *ours) });
        }
        Step::Delete { name } => {
            let Some(link) = linux.links.remove(name) else { return refuse("it is not there") };
            forget_routes(linux, name);
            for member in names(linux, |link| link.master.as_ref() == Some(name)) {
                release(linux, &member, &link.kind);
            }
            for above in names(linux, |link| link.parent() == Some(name)) {
                take(linux, &Step::Delete { name: above })?;
            }
        }
        Step::Up { name } => {
            let Some(link) = linux.links.get(name) else { return refuse("it is not there") };
            if hangs(link, |parent| !linux.links[parent].up) {
                return refuse("its parent is down");
            }
            linux.links.get_mut(name).unwrap().up = true;
            restore(linux, name);
        }
        Step::Down { name, .. } if linux.links.contains_key(name) => down(linux, name),
        Step::Join { name, master } => {
            let Some(kind) = linux.links.get(master).map(|master| master.kind.clone()) else {
                return refuse("no master");
            };
            let bond = matches!(kind, InterfaceKind::Bond { .. });
            let Some(link) = linux.links.get(name) else { return refuse("it is not there") };
            if link.master.is_some() || bond && link.up {
                return refuse("it cannot join");
            }
            let up = link.up;
            linux.links.get_mut(name).unwrap().master = Some(master.clone());
            disturb(linux, name, &kind, up || bond);
        }
        Step::Leave { name, master } => {
            let Some(kind) = linux.links.get(master).map(|master| master.kind.clone()) else {
                return refuse("no master");
            };
            if linux.links.get(name).is_none_or(|link| link.master.as_ref() != Some(master)) {
                return refuse("it is no member");
            }
            release(linux, name, &kind);
        }
        Step::Bond { name, kind } => {
            let members = names(linux, |link| link.master.as_ref() == Some(name));
            let Some(link) = linux.links.get_mut(name) else { return refuse("it is not there") };
            let (InterfaceKind::Bond { mode: from, .. }, InterfaceKind::Bond { mode, .. }) =
                (&link.kind, kind)
            else {
                return refuse("no bond");
            };
            if from != mode && (link.up || !members.is_empty()) {
                return refuse("it is up, or has members");
            }
            link.kind = kind.clone();
        }
        Step::Address { name, address, .. } => {
            let Some(link) = linux.links.get_mut(name) else { return refuse("it is not there") };
            if !link.addresses.contains(address) {
                link.addresses.push(*address);
            }
        }
        Step::NoAddress { name, address } => {
            let Some(link) = linux.links.get_mut(name) else { return refuse("it is not there") };
            let Some(at) = link.addresses.iter().position(|it| it == address) else {
                return refuse("no such address");
            };
            let first = link.addresses.iter().position(|it| it.trunc() == address.trunc()) == Some(at);
            link.addresses.remove(at);
            if address.addr().is_ipv4() && first {
                link.addresses.retain(|it| it.trunc() != address.trunc());
            }
            if link.addresses.is_empty() {
                forget_routes(linux, name);
            }
        }
        Step::Route { key, way, how } => {
            if let Way::Via(hops) = way {
                for device in hops.iter().filter_map(|hop| hop.device.as_ref()) {
                    if !linux.links.get(device).is_some_and(|link| link.up) {
                        return refuse("its interface is down");
                    }
                }
            }
            if *how == How::New && linux.routes.contains_key(key) {
                return refuse("it is there");
            }
            linux.routes.insert(*key, way.clone());
        }
        Step::PrivateKey { name, key } => {
            let Some(link) = linux.links.get_mut(name) else { return refuse("it is not there") };
            link.wireguard.private_key = key.as_ref().map(|key| *key.reveal());
        }
        Step::Port { name, port } => linux.links.get_mut(name).unwrap().wireguard.port = *port,
        Step::Peer { name, key, peer, new } => {
            let peers = &mut linux.links.get_mut(name).unwrap().wireguard.peers;
            if *new == peers.contains_key(&key.0) {
                return refuse("it is there, or it is not");
            }
            // A prefix goes to who was given it last.
            peers.values_mut().for_each(|other| other.allowed.retain(|net| !peer.allowed.contains(net)));
            peers.insert(key.0, peer.clone());
        }
        Step::NoPeer { name, key } => {
            let peers = &mut linux.links.get_mut(name).unwrap().wireguard.peers;
            if peers.remove(&key.0).is_none() {
                return refuse("no such peer");
            }
        }
        Step::Rule { place, rule } => {
            let there = linux.rules.at.entry(*place).or_default();
            if there.iter().any(|other| rule.conflicts(other)) {
                return refuse("it is there");
            }
            there.push(rule.clone());
        }
        Step::NoRule { place, rule, .. } => {
            // The first one that has what is said, whatever else it has.
            let says_less = |other: &Rule| {
                let asked = |mine: Option<IpNet>, theirs| mine.is_none() || mine == theirs;
                let jumps = matches!((&other.does, &rule.does), (Does::GoTo(_), Does::GoTo(_)));
                (jumps || other.does == rule.does)
                    && asked(rule.asks.from, other.asks.from)
                    && asked(rule.asks.to, other.asks.to)
            };
            let Some(there) = linux.rules.at.get_mut(place) else { return refuse("it is not there") };
            let Some(at) = there.iter().position(says_less) else { return refuse("it is not there") };
            there.remove(at);
            if there.is_empty() {
                linux.rules.at.remove(place);
            }
        }
        Step::NoRoute { key, .. } if linux.routes.remove(key).is_some() => {}
        Step::Mtu { name, mtu } => linux.links.get_mut(name).unwrap().mtu = Some(*mtu),
        Step::Mac { name, mac } => linux.links.get_mut(name).unwrap().mac = Some(mac.clone()),
        Step::Alias { name, alias } => linux.links.get_mut(name).unwrap().alias.clone_from(alias),
        _ => return refuse("it is not there"),
    }
    Ok(())
}

/// An interface is free of its master; a bond leaves it down, a VRF sets it down and up.
fn release(linux: &mut Linux, name: &str, master: &InterfaceKind) {
    linux.links.get_mut(name).unwrap().master = None;
    let up = linux.links[name].up && !matches!(master, InterfaceKind::Bond { .. });
    disturb(linux, name, master, up);
}

/// What its interface's coming or going as a member does: nothing in a bridge, and else it loses
/// its IPv6 addresses, and is down for a moment if it was up.
fn disturb(linux: &mut Linux, name: &str, master: &InterfaceKind, up: bool) {
    let was_up = linux.links[name].up;
    match master {
        InterfaceKind::Bridge => return,
        _ if !was_up => lose(linux, name),
        _ => down(linux, name),
    }
    linux.links.get_mut(name).unwrap().up = up;
    restore(linux, name);
}

/// Whether one goes up and down with what it lies on, and this holds for that.
fn hangs(link: &Link, parent: impl Fn(&str) -> bool) -> bool {
    matches!(link.kind, InterfaceKind::Vlan { .. }) && link.parent().is_some_and(parent)
}

fn names(linux: &Linux, which: impl Fn(&Link) -> bool) -> Vec<String> {
    linux.links.iter().filter(|(_, link)| which(link)).map(|(name, _)| name.clone()).collect()
}

fn forget_routes(linux: &mut Linux, name: &str) {
    linux.routes.retain(|_, way| !way.by(name));
}

fn lose(linux: &mut Linux, name: &str) {
    forget_routes(linux, name);
    linux.links.get_mut(name).unwrap().addresses.retain(|net| net.addr().is_ipv4());
}

fn down(linux: &mut Linux, name: &str) {
    lose(linux, name);
    linux.links.get_mut(name).unwrap().up = false;
    for above in names(linux, |link| hangs(link, |parent| parent == name)) {
        down(linux, &above);
    }
}

/// What lies on an interface that comes up again comes up with it.
fn restore(linux: &mut Linux, name: &str) {
    if linux.links[name].up {
        for above in names(linux, |link| hangs(link, |parent| parent == name)) {
            linux.links.get_mut(&above).unwrap().up = true;
            restore(linux, &above);
        }
    }
}

/// A world that could be: three cards, and of the others some, of any of their kinds.
fn world(random: &mut Random) -> Linux {
    let mut links: BTreeMap<String, Link> = BTreeMap::new();
    for card in ["eth0", "eth1", "eth2"] {
        links.insert(card.to_owned(), Link::new(InterfaceKind::Ethernet, false));
    }
    for name in ["m0", "m1"] {
        let mode = random.pick(&["802.3ad", "active-backup"]);
        let kinds = [
            InterfaceKind::Bridge,
            InterfaceKind::Bond { mode, lacp_rate: None, miimon: Some(random.below(2) as u32) },
            InterfaceKind::Vrf { table: 1 + random.below(2) as u32 },
        ];
        if random.one_in(2) {
            links.insert(name.to_owned(), Link::new(kinds[random.below(3)].clone(), true));
        }
    }
    for (name, parents) in [("v0", &["eth0", "m0"][..]), ("v1", &["v0", "m1", "eth1"])] {
        let parent = random.pick(parents).to_owned();
        if random.one_in(2) && links.contains_key(&parent) {
            let kind = match random.one_in(3) {
                true => InterfaceKind::Macvlan { parent, mode: random.pick(&["bridge", "private"]) },
                false => InterfaceKind::Vlan { parent, id: 1 + random.below(2) as u16, protocol: "802.1Q" },
            };
            links.insert(name.to_owned(), Link::new(kind, true));
        }
    }
    if random.one_in(2) {
        let mut link = Link::new(InterfaceKind::Wireguard, true);
        link.wireguard.private_key = Some([1 + random.below(2) as u8; 32]);
        link.wireguard.port = random.pick(&[1, 2]);
        let mut nets = vec!["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"];
        for key in 0..3 {
            let mut peer = Peer { keepalive: random.pick(&[0, 25]), ..Peer::default() };
            while !nets.is_empty() && random.one_in(2) {
                peer.allowed.insert(nets.swap_remove(random.below(nets.len())).parse().unwrap());
            }
            if random.one_in(2) {
                link.wireguard.peers.insert([key; 32], peer);
            }
        }
        links.insert("wg0".to_owned(), link);
    }
    let masters: Vec<String> =
        ["m0", "m1"].into_iter().filter(|m| links.contains_key(*m)).map(Into::into).collect();
    let mut linux = Linux { links, ..Linux::default() };
    for name in linux.upwards() {
        let parent_up = !hangs(&linux.links[&name], |parent| !linux.links[parent].up);
        let may_belong = !matches!(
            linux.links[&name].kind,
            InterfaceKind::Bridge | InterfaceKind::Bond { .. } | InterfaceKind::Vrf { .. }
        );
        let link = linux.links.get_mut(&name).unwrap();
        link.up = parent_up && !random.one_in(4);
        link.mtu = Some(random.pick(&[1400, 1500]));
        link.mac = Some(random.pick(&["02:00:00:00:00:01", "02:00:00:00:00:02"]).to_owned());
        link.alias = random.pick(&["", "to the world"]).to_owned();
        if may_belong && link.parent().is_none() && random.one_in(2) {
            link.master = (!masters.is_empty()).then(|| masters[random.below(masters.len())].clone());
        }
        for address in ["192.0.2.1/24", "192.0.2.2/24", "198.51.100.1/24", "2001:db8::1/64"] {
            if random.one_in(3) {
                link.addresses.push(address.parse().unwrap());
            }
        }
    }
    let up: Vec<String> = names(&linux, |link| link.up);
    for (to, metric) in [("0.0.0.0/0", 0), ("0.0.0.0/0", 5), ("2001:db8:1::/48", 1024)] {
        let key = Key { table: 254, to: to.parse().unwrap(), metric };
        if up.is_empty() {
            break;
        }
        let mut hop = || Hop { gateway: None, device: Some(up[random.below(up.len())].clone()) };
        let ways = [Way::End("blackhole"), Way::Via(vec![hop()]), Way::Via(vec![hop(), hop()])];
        if random.one_in(2) {
            linux.routes.insert(key, ways[random.below(3)].clone());
        }
    }
    for (ipv6, priority) in [(false, 5), (true, 5), (false, 6)] {
        if random.one_in(2) {
            linux.rules.at.insert(Place { ipv6, priority }, vec![rule(random)]);
        }
    }
    linux
}

fn rule(random: &mut Random) -> Rule {
    let mut net = |text: &str| random.one_in(2).then(|| text.parse().unwrap());
    let (from, to) = (net("10.0.0.0/8"), net("10.9.0.0/16"));
    let asks = Asks { not: random.one_in(2), from, to, ..Asks::default() };
    let does = [Does::GoTo(7), Does::GoTo(8), Does::End("prohibit")][random.below(3)].clone();
    Rule { asks, does }
}

/// The order of addresses and gateways is Linux's own.
fn sorted(mut linux: Linux) -> Linux {
    for way in linux.routes.values_mut() {
        if let Way::Via(hops) = way {
            hops.sort();
        }
    }
    linux.links.values_mut().for_each(|link| link.addresses.sort_by_key(IpNet::to_string));
    linux
}

#[test]
fn the_way_leads_from_any_world_to_any_other_and_back_from_each_of_its_steps() {
    let mut random = Random(0x0bad_5eed);
    let mut taken = 0;
    for _ in 0..20_000 {
        let (from, to) = (world(&mut random), world(&mut random));
        let steps = way(&from, &to);
        let told = |steps: &[Step]| steps.iter().map(|step| format!("{step}\n")).collect::<String>();
        let mut now = from.clone();
        let stop = random.below(steps.len() + 1);
        let mut halfway = from.clone();
        for (number, step) in steps.iter().enumerate() {
            if number == stop {
                halfway = now.clone();
            }
            take(&mut now, step).unwrap_or_else(|wrong| panic!("{wrong}\n{}{from:#?}{to:#?}", told(&steps)));
            taken += 1;
        }
        assert_eq!(sorted(now.clone()), sorted(to.clone()), "{}", told(&steps));
        assert_eq!(way(&now, &to), [], "{}", told(&steps));
        // Whoever died halfway goes on from there.
        let mut resumed = halfway.clone();
        for step in way(&resumed, &to) {
            take(&mut resumed, &step).unwrap_or_else(|wrong| panic!("{wrong}\n{}", told(&steps)));
        }
        assert_eq!(sorted(resumed), sorted(to), "{}", told(&steps));
        let back = way(&halfway, &from);
        let undone = told(&back);
        for step in &back {
            take(&mut halfway, step).unwrap_or_else(|wrong| panic!("{wrong}\n{}--\n{undone}", told(&steps)));
        }
        assert_eq!(sorted(halfway), sorted(from), "{}--\n{undone}", told(&steps));
    }
    assert!(taken > 100_000, "{taken}");
}
