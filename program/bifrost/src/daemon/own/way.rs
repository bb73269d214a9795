//! The steps from what Linux has to what it is to have.
//!
//! The order is Linux's: what is deleted goes from the top down, and what is made from the bottom
//! up; a bond's members are down while they join, its mode changes without any; addresses come when
//! their interface is in its VRF, routes and rules at last. A step may take more with it than it
//! says (an interface that goes down loses its IPv6 addresses and its routes): so the way keeps
//! what Linux has after each ([`Walk::now`]), gives that back as well, and at the end makes sure of
//! the routes by all that was disturbed.

use std::collections::{BTreeMap, BTreeSet};

use config::InterfaceKind;

use super::linux::{Key, Link, Linux, Way};
use super::step::{How, Step};
use super::wanted::same;
use super::{PROTOCOL, rules, wireguard};

/// The steps.
pub(super) fn way(from: &Linux, to: &Linux) -> Vec<Step> {
    let mut walk = Walk { now: from.links.clone(), to, steps: Vec::new(), disturbed: BTreeSet::new() };
    let (upwards, all) = (to.upwards(), from.upwards());
    walk.delete(all.iter().rev());
    upwards.iter().for_each(|name| walk.make(name));
    walk.change_bonds();
    walk.leave();
    walk.join();
    upwards.iter().for_each(|name| walk.change(name));
    upwards.iter().for_each(|name| walk.set_up(name));
    // Some came up with what they lie on.
    upwards.iter().rev().for_each(|name| walk.set_down(name));
    upwards.iter().for_each(|name| walk.address(name));
    let Walk { steps, disturbed, .. } = walk;
    let rules = rules::steps(from, &to.rules);
    routes(from, &to.routes, steps, rules, |way| disturbed.iter().any(|name| way.by(name)))
}

struct Walk<'a> {
    /// Interfaces as they are after the steps.
    now: BTreeMap<String, Link>,
    to: &'a Linux,
    steps: Vec<Step>,
    /// Those by which routes may be gone.
    disturbed: BTreeSet<String>,
}

impl Walk<'_> {
    fn delete<'n>(&mut self, downwards: impl Iterator<Item = &'n String>) {
        for name in downwards {
            let wanted = self.to.links.get(name);
            let stays = |link: &Link| wanted.is_some_and(|wanted| same(&wanted.kind, &link.kind));
            let Some(link) = self.now.get(name).filter(|link| link.ours && !stays(link)) else { continue };
            let kind = link.kind.clone();
            self.steps.push(Step::Delete { name: name.clone() });
            self.disturbed.insert(name.clone());
            self.now.remove(name);
            let free: Vec<String> = self.members(name);
            for member in free {
                self.released(&member, &kind);
            }
            self.lost_below(name);
        }
    }

    /// What lay on one that is deleted is gone too.
    fn lost_below(&mut self, name: &str) {
        let above: Vec<String> = self.above(name);
        for name in above {
            self.now.remove(&name);
            self.disturbed.insert(name.clone());
            self.lost_below(&name);
        }
    }

    fn above(&self, name: &str) -> Vec<String> {
        let above = self.now.iter().filter(|(_, link)| link.parent() == Some(name));
        above.map(|(name, _)| name.clone()).collect()
    }

    /// What lies on one, and goes up and down with it.
    fn hanging(&self, name: &str) -> Vec<String> {
        let mut above = self.above(name);
        above.retain(|above| matches!(self.now[above].kind, InterfaceKind::Vlan { .. }));
        above
    }

    fn members(&self, master: &str) -> Vec<String> {
        let members = self.now.iter().filter(|(_, link)| link.master.as_deref() == Some(master));
        members.map(|(name, _)| name.clone()).collect()
    }

    /// Linux has taken an interface from its master: a bond leaves it down, a VRF sets it down and
    /// up.
    fn released(&mut self, name: &str, master: &InterfaceKind) {
        match master {
            InterfaceKind::Bond { .. } if self.now.get(name).is_some_and(|link| link.up) => {
                self.went_down(name)
            }
            InterfaceKind::Bond { .. } => self.disturb(name),
            InterfaceKind::Vrf { .. } => self.cycle(name),
            _ => {}
        }
        self.now.entry(name.to_owned()).and_modify(|link| link.master = None);
    }

    /// It has lost what an interface loses that goes down.
    fn disturb(&mut self, name: &str) {
        self.disturbed.insert(name.to_owned());
        let forget = |link: &mut Link| link.addresses.retain(|net| net.addr().is_ipv4());
        self.now.entry(name.to_owned()).and_modify(forget);
    }

    /// It is down, and what lies on it.
    fn went_down(&mut self, name: &str) {
        self.disturb(name);
        self.now.entry(name.to_owned()).and_modify(|link| link.up = false);
        for above in self.hanging(name) {
            self.went_down(&above);
        }
    }

    /// It is up, and what lies on it.
    fn came_up(&mut self, name: &str) {
        self.now.entry(name.to_owned()).and_modify(|link| link.up = true);
        for above in self.hanging(name) {
            self.came_up(&above);
        }
    }

    /// A VRF has set it down and up.
    fn cycle(&mut self, name: &str) {
        match self.now.get(name).is_some_and(|link| link.up) {
            true => {
                self.went_down(name);
                self.came_up(name);
            }
            false => self.disturb(name),
        }
    }

    fn make(&mut self, name: &str) {
        let wanted = &self.to.links[name];
        let Link { kind, mac, ours, .. } = wanted;
        let below = wanted.parent().is_none_or(|parent| self.now.contains_key(parent));
        if self.now.contains_key(name) || *kind == InterfaceKind::Ethernet || !below {
            return;
        }
        let (kind, ours) = (kind.clone(), *ours);
        let mac = mac.clone();
        self.steps.push(Step::Make { name: name.to_owned(), kind: kind.clone(), mac: mac.clone(), ours });
        self.now.insert(name.to_owned(), Link { mac, ..Link::new(kind, ours) });
    }

    fn change_bonds(&mut self) {
        for (name, wanted) in &self.to.links {
            let Some(link) = self.now.get(name).filter(|link| link.kind != wanted.kind) else { continue };
            let (
                InterfaceKind::Bond { mode: from, lacp_rate: slow, .. },
                InterfaceKind::Bond { mode, lacp_rate, .. },
            ) = (&link.kind, &wanted.kind)
            else {
                continue;
            };
            let (other_mode, other_rate) = (from != mode, slow != lacp_rate && *mode == "802.3ad");
            if other_mode {
                for member in self.members(name) {
                    self.step_leave(&member);
                }
            }
            if other_mode || other_rate {
                let why = if other_mode { "its mode changes" } else { "its lacp_rate changes" };
                self.down(name, Some(why.to_owned()));
            }
            self.steps.push(Step::Bond { name: name.clone(), kind: wanted.kind.clone() });
            self.now.entry(name.clone()).and_modify(|link| link.kind = wanted.kind.clone());
        }
    }

    fn step_leave(&mut self, name: &str) {
        let Some(master) = self.now.get(name).and_then(|link| link.master.clone()) else { return };
        let kind = self.now.get(&master).map_or(InterfaceKind::Ethernet, |master| master.kind.clone());
        self.steps.push(Step::Leave { name: name.to_owned(), master });
        self.released(name, &kind);
    }

    fn leave(&mut self) {
        for (name, wanted) in &self.to.links {
            if self.now.get(name).is_some_and(|link| link.master != wanted.master) {
                self.step_leave(name);
            }
        }
    }

    fn join(&mut self) {
        for (name, wanted) in &self.to.links {
            let Some(master) = &wanted.master else { continue };
            let Some(kind) = self.now.get(master).map(|master| master.kind.clone()) else { continue };
            if self.now.get(name).is_none_or(|link| link.master.as_ref() == Some(master)) {
                continue;
            }
            if matches!(kind, InterfaceKind::Bond { .. }) {
                self.down(name, Some(format!("it joins the bond {master}")));
            }
            self.steps.push(Step::Join { name: name.clone(), master: master.clone() });
            match kind {
                InterfaceKind::Bond { .. } => {
                    self.disturb(name);
                    self.came_up(name);
                }
                InterfaceKind::Vrf { .. } => self.cycle(name),
                _ => {}
            }
            self.now.entry(name.clone()).and_modify(|link| link.master = Some(master.clone()));
        }
    }

    /// What can be changed as it is.
    fn change(&mut self, name: &str) {
        let wanted = &self.to.links[name];
        let Some(link) = self.now.get(name) else { return };
        let name = name.to_owned();
        if let Some(mac) = wanted.mac.clone().filter(|_| wanted.mac != link.mac) {
            self.steps.push(Step::Mac { name: name.clone(), mac });
        }
        if let Some(mtu) = wanted.mtu.filter(|_| wanted.mtu != link.mtu) {
            self.steps.push(Step::Mtu { name: name.clone(), mtu });
        }
        if wanted.alias != link.alias {
            self.steps.push(Step::Alias { name: name.clone(), alias: wanted.alias.clone() });
        }
        self.steps.extend(wireguard::steps(&name, &link.wireguard, &wanted.wireguard));
        let Link { mac, mtu, alias, wireguard, .. } = wanted.clone();
        self.now.entry(name).and_modify(|link| {
            (link.mac, link.mtu, link.alias, link.wireguard) = (mac, mtu, alias, wireguard);
        });
    }

    fn down(&mut self, name: &str, why: Option<String>) {
        if self.now.get(name).is_some_and(|link| link.up) {
            self.steps.push(Step::Down { name: name.to_owned(), why });
            self.went_down(name);
        }
    }

    fn set_down(&mut self, name: &str) {
        if self.to.links.get(name).is_some_and(|wanted| !wanted.up) {
            self.down(name, None);
        }
    }

    fn set_up(&mut self, name: &str) {
        if self.to.links[name].up && self.now.get(name).is_some_and(|link| !link.up) {
            self.steps.push(Step::Up { name: name.to_owned() });
            self.came_up(name);
        }
    }

    fn address(&mut self, name: &str) {
        let wanted = &self.to.links[name].addresses;
        let Some(link) = self.now.get(name) else { return };
        let name = || name.to_owned();
        let had = link.addresses.clone();
        for address in wanted.iter().filter(|address| !had.contains(address)) {
            self.steps.push(Step::Address { name: name(), address: *address, again: false });
        }
        let mut again = BTreeSet::new();
        // The first of a subnet last.
        for gone in had.iter().rev().filter(|address| !wanted.contains(address)) {
            self.steps.push(Step::NoAddress { name: name(), address: *gone });
            // Others of a subnet may go with its first one.
            let subnet = wanted.iter().filter(|left| left.addr().is_ipv4() && left.trunc() == gone.trunc());
            again.extend(subnet.copied());
            self.disturbed.insert(name());
        }
        for address in again {
            self.steps.push(Step::Address { name: name(), address, again: true });
        }
    }
}

/// The steps to other interfaces, and those of routes around them; rules change where all routes
/// are there.
fn routes(
    from: &Linux,
    to: &BTreeMap<Key, Way>,
    steps: Vec<Step>,
    rules: Vec<Step>,
    disturbed: impl Fn(&Way) -> bool,
) -> Vec<Step> {
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (key, way) in &from.routes {
        let asked = to.get(key);
        // One that ends here is not replaced by one that goes on, nor the other way round.
        let other = asked.is_some_and(|asked| matches!(asked, Way::End(_)) || matches!(way, Way::End(_)));
        let leaves = asked.is_none() || other && asked != Some(way);
        if leaves {
            // Before it goes with its interface.
            let by = from.theirs.get(key).copied().unwrap_or(PROTOCOL);
            if disturbed(way) || other { &mut first } else { &mut last }
                .push(Step::NoRoute { key: *key, by });
        }
    }
    let mut all = first;
    all.extend(steps);
    for (key, way) in to {
        let had = from.routes.get(key);
        let replaced = had.is_some_and(|had| matches!((had, way), (Way::Via(_), Way::Via(_))) || had == way);
        let how = match had {
            Some(had) if way.is(had) && disturbed(had) => How::Again,
            Some(had) if way.is(had) => continue,
            _ if replaced => How::Changed,
            _ => How::New,
        };
        all.push(Step::Route { key: *key, way: way.clone(), how });
    }
    all.extend(rules);
    all.extend(last);
    all
}
