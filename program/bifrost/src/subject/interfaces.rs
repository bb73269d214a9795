//! Interfaces of Linux's: which of them packets pass in the plane, and why others do not.

use serde::{Deserialize, Serialize};

use super::Subject;
use super::words::Traffic;
use crate::command::table::Table;
use crate::daemon::{Control, interfaces};
use crate::screen::units::count;
use fib::Tags;
use mirror::kind::{NotOurs, Place};
use mirror::model::Link;

/// An interface, as Linux has it and as the plane does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// Linux's index.
    pub ifindex: u32,
    /// What made it: `veth`, `vlan`, `bond`...; empty for hardware.
    pub kind: String,
    /// The port that it is on, if it is one itself or is adopted; else empty. Of a bond and what
    /// lies on it, and of a bridge, the members' ports, separated by spaces.
    pub port: String,
    /// Those of a bond's or bridge's members by which it sends now, or by which a VLAN on one does;
    /// empty of other interfaces.
    pub sending: Vec<String>,
    /// VLAN identifiers of its tags, the outer first; empty without tags.
    pub vlans: Vec<u16>,
    /// Its outer tag is 802.1ad's.
    pub service: bool,
    /// The VRF that it belongs to; empty: none.
    pub vrf: String,
    /// Ethernet address.
    pub mac: String,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// On, and with carrier.
    pub up: bool,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<String>,
    /// Bifrost forwards by it.
    pub adopted: bool,
    /// Why not; empty where it does.
    pub why: String,
    /// Packets that came in by it, whoever had them then, and frame bytes with tags. Of a port,
    /// bond or bridge: with those of VLANs on it, and of a bridge with those that it passes on.
    pub received: Traffic,
    /// What Bifrost sent by it, counted so.
    pub sent: Traffic,
}

impl InterfaceStatus {
    fn of(link: &Link, control: &Control) -> InterfaceStatus {
        let forwarding = &control.forwarding;
        let model = forwarding.mirror.model();
        let mut addresses: Vec<_> = model
            .addresses()
            .filter(|address| address.ifindex == link.ifindex)
            .map(|address| address.net)
            .collect();
        addresses.sort();
        let mut status = InterfaceStatus {
            name: link.name.clone(),
            ifindex: link.ifindex,
            kind: link.kind.clone().unwrap_or_default(),
            vrf: model.links.vrf_of(link).map(|vrf| vrf.name.clone()).unwrap_or_default(),
            mac: link.mac.map(|mac| mac.to_string()).unwrap_or_default(),
            mtu: link.mtu,
            up: link.up && link.running,
            addresses: addresses.iter().map(ToString::to_string).collect(),
            ..InterfaceStatus::default()
        };
        let plane = &forwarding.plane;
        let member = plane.port_of(link.ifindex).filter(|port| port.whole.is_some());
        let member = member.map(|port| (port.id.interface(), port));
        let places = plane.interfaces_of(link.ifindex).chain(member);
        let places: Vec<_> = places.filter(|(_, port)| port.taken.is_some()).collect();
        let place = interfaces::place(link, &model.links, &forwarding.router);
        // Of what is made of others all are taken, or none counts.
        let made_of = place.as_ref().ok().filter(|place| place.whole().is_some());
        let legs = || made_of.into_iter().flat_map(|place| &place.legs);
        status.sending = legs().filter(|leg| leg.sends).map(|leg| leg.port.name.clone()).collect();
        let taken = |name: &str| places.iter().any(|(_, port)| port.name == name);
        let missing = legs().map(|leg| &leg.port.name).find(|name| !taken(name));
        let missing = missing.map(|name| format!("its member {name} is not taken"));
        let there = !places.is_empty() || plane.is_tunnel(link.ifindex);
        if let (true, None, Ok(place)) = (there, &missing, &place) {
            let ports: Vec<&str> = places.iter().map(|(_, port)| port.name.as_str()).collect();
            status.port = ports.join(" ");
            status.adopted = true;
            let passed = plane.traffic(link.ifindex);
            (status.received, status.sent) = (passed.received.into(), passed.sent.into());
            (status.service, status.vlans) = match place.tags {
                Tags::One(tag) => (tag.service, vec![tag.id]),
                Tags::Two(outer, inner) => (outer.service, vec![outer.id, inner]),
                Tags::None | Tags::Tunnel(_) => (false, Vec::new()),
            };
        } else {
            let bridge = place.as_ref().ok().and_then(Place::whole).filter(|whole| whole.is_bridge());
            let foreign = &control.parts.ports.foreign;
            let barred = bridge.and_then(|bridge| foreign.why_not_bridge(bridge, &model.links));
            let first = place.as_ref().ok().and_then(|_| barred.or(missing));
            status.why = first.unwrap_or_else(|| why(link, place, control));
        }
        status
    }
}

impl InterfaceStatus {
    /// For the table: members that a bond or bridge, or a VLAN on one, does not send by are in
    /// parentheses.
    fn ports(&self) -> String {
        let ports: Vec<_> = self.port.split(' ').collect();
        let made_of_members = ["bond", "bridge"].contains(&self.kind.as_str()) || !self.sending.is_empty();
        let is_whole = made_of_members && self.port != self.name;
        let shown = ports.into_iter().map(|port| match self.sending.iter().any(|sending| sending == port) {
            false if is_whole && self.adopted => format!("({port})"),
            _ => port.to_owned(),
        });
        shown.collect::<Vec<_>>().join(" ")
    }
}

/// Why Linux has an interface to itself.
fn why(link: &Link, place: Result<Place<'_>, NotOurs>, control: &Control) -> String {
    let forwarding = &control.forwarding;
    let known = forwarding.plane.ports().iter().find(|port| port.name == link.name);
    if let Some(refused) = known.and_then(|port| port.refused.clone()) {
        return refused;
    }
    match place {
        Err(why) => why.to_string(),
        Ok(place) if !place.tunnels.is_empty() => {
            let barred = control.parts.ports.foreign.tunnels.barred(link.ifindex);
            let foreign = "a filter or routing rule of Linux's could touch its headers: see `show mirror`";
            barred.unwrap_or(foreign).to_owned()
        }
        Ok(_) if link.mac.is_none() => "it has no Ethernet address".to_owned(),
        Ok(place) if place.base == link => "it is not taken".to_owned(),
        Ok(place) if place.whole().is_some() => format!("a member of {} is not taken", place.base.name),
        Ok(place) => format!("{} is not taken", place.base.name),
    }
}

impl Subject for Vec<InterfaceStatus> {
    const NAME: &'static str = "interfaces";
    const ABOUT: &'static str =
        "Interfaces of Linux, the ports' and others: whether Bifrost forwards by them, and why not";

    fn answer(control: &mut Control) -> Result<Self, String> {
        let control = &*control;
        let links = control.forwarding.mirror.model().links.iter();
        let shown =
            links.filter(|link| !link.loopback && !control.forwarding.plane.is_own(link.ifindex, &link.name));
        Ok(shown.map(|link| InterfaceStatus::of(link, control)).collect())
    }

    fn table(&self) -> String {
        let mut table = Table::new(&[
            "interface",
            "port",
            "vlan",
            "vrf",
            "state",
            ">mtu",
            ">in",
            ">out",
            "addresses",
            "forwarded by",
        ]);
        for interface in self {
            let vlans: Vec<_> = interface.vlans.iter().map(ToString::to_string).collect();
            let passed = |traffic: &Traffic| match interface.adopted {
                true => count(traffic.packets),
                false => String::new(),
            };
            let by =
                if interface.adopted { "Bifrost".to_owned() } else { format!("Linux: {}", interface.why) };
            table.row(vec![
                interface.name.clone(),
                interface.ports(),
                vlans.join(".") + if interface.service { " (802.1ad)" } else { "" },
                interface.vrf.clone(),
                if interface.up { "up" } else { "down" }.to_owned(),
                interface.mtu.to_string(),
                passed(&interface.received),
                passed(&interface.sent),
                interface.addresses.join(" "),
                by,
            ]);
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_send_nothing_are_in_parentheses() {
        let bond = InterfaceStatus {
            kind: "bond".to_owned(),
            port: "eth0 eth1".to_owned(),
            sending: vec!["eth1".to_owned()],
            adopted: true,
            ..InterfaceStatus::default()
        };
        assert_eq!(bond.ports(), "(eth0) eth1");
        let bridge = InterfaceStatus { kind: "bridge".to_owned(), ..bond };
        assert_eq!(bridge.ports(), "(eth0) eth1");
        let itself = InterfaceStatus { name: "br0".to_owned(), port: "br0".to_owned(), ..bridge.clone() };
        assert_eq!(itself.ports(), "br0", "a port");
        let port = InterfaceStatus { kind: "veth".to_owned(), sending: Vec::new(), ..bridge };
        assert_eq!(port.ports(), "eth0 eth1");
    }
}
