//! Interfaces of Linux's: which of them packets pass in the plane, and why others do not.

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::fallback::has_policy;
use crate::daemon::ports::NOT_IN_VRFS;
use crate::daemon::{Control, vlans};
use fib::Tags;
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
    /// The port that it is on, if it is one itself or is adopted; else empty.
    pub port: String,
    /// VLAN identifiers of its frames on that port, the outer first; empty without tags.
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
            vrf: vrf(link, control).unwrap_or_default(),
            mac: link.mac.map(|mac| mac.to_string()).unwrap_or_default(),
            mtu: link.mtu,
            up: link.up && link.running,
            addresses: addresses.iter().map(ToString::to_string).collect(),
            ..InterfaceStatus::default()
        };
        let id = forwarding.plane.interface_of(link.ifindex);
        let placed = id.and_then(|id| forwarding.plane.place(id));
        if let Some((port, _, tags)) = placed.filter(|(port, ..)| port.taken.is_some()) {
            status.port.clone_from(&port.name);
            status.adopted = true;
            (status.service, status.vlans) = match tags {
                Tags::None => (false, Vec::new()),
                Tags::One(tag) => (tag.service, vec![tag.id]),
                Tags::Two(outer, inner) => (outer.service, vec![outer.id, inner]),
            };
        } else {
            status.why = why(link, control);
        }
        status
    }
}

/// The name of the VRF that an interface belongs to.
fn vrf(link: &Link, control: &Control) -> Option<String> {
    let master = control.forwarding.mirror.model().links.by_index(link.master?)?;
    master.vrf.map(|_| master.name.clone())
}

/// Why Linux has an interface to itself.
fn why(link: &Link, control: &Control) -> String {
    let forwarding = &control.forwarding;
    let known = forwarding.plane.ports().iter().find(|port| port.name == link.name);
    if let Some(refused) = known.and_then(|port| port.refused.clone()) {
        return refused;
    }
    match vlans::place(link, &forwarding.mirror.model().links) {
        Some(Err(why)) => return why.to_string(),
        Some(Ok(_)) if vrf(link, control).is_some() && has_policy(&forwarding.router) => {
            return format!("it belongs to {NOT_IN_VRFS}");
        }
        Some(Ok(place)) => return format!("{} is no port of Bifrost's", place.base.name),
        None => {}
    }
    match link.kind.as_deref() {
        Some(kind @ ("bond" | "team" | "bridge" | "vrf")) => format!("a {kind} is Linux's"),
        _ if link.mac.is_none() => "it has no Ethernet address".to_owned(),
        _ => "no [[port]] names it".to_owned(),
    }
}

impl Subject for Vec<InterfaceStatus> {
    const NAME: &'static str = "interfaces";
    const ABOUT: &'static str =
        "Interfaces of Linux, the ports' and others: whether Bifrost forwards by them, and why not";

    fn answer(control: &mut Control) -> Result<Self, String> {
        let control = &*control;
        let links = control.forwarding.mirror.model().links.iter();
        let shown = links.filter(|link| !link.loopback && !control.forwarding.plane.is_own(link.ifindex));
        Ok(shown.map(|link| InterfaceStatus::of(link, control)).collect())
    }

    fn table(&self) -> String {
        let mut table =
            Table::new(&["interface", "port", "vlan", "vrf", "state", ">mtu", "addresses", "forwarded by"]);
        for interface in self {
            let vlans: Vec<_> = interface.vlans.iter().map(ToString::to_string).collect();
            let by =
                if interface.adopted { "Bifrost".to_owned() } else { format!("Linux: {}", interface.why) };
            table.row(vec![
                interface.name.clone(),
                interface.port.clone(),
                vlans.join(".") + if interface.service { " (802.1ad)" } else { "" },
                interface.vrf.clone(),
                if interface.up { "up" } else { "down" }.to_owned(),
                interface.mtu.to_string(),
                interface.addresses.join(" "),
                by,
            ]);
        }
        table.render()
    }
}
