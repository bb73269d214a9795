//! `[vrrp.NAME]`: addresses that this router has together with others.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the control thread's part: what it tells the thread that speaks, and asks of it |
//! | `thread.rs` | the thread that speaks |
//! | `group.rs` | a virtual router as that thread has it |
//! | `link.rs` | the sockets of an interface |
//! | `accepted.rs` | the addresses in Linux |
//!
//! The protocol is the crate `vrrp`, which decides; here are sockets, Linux and the driver. What a
//! virtual router needs around it (its interface, an address to speak from, tables that are
//! complete, what it tracks) the control thread knows, and tells when it changes. Who is active,
//! the thread says to the driver itself: no takeover waits for the control thread.
//!
//! A killed process has resigned. Its leases end, its programs and its device with the addresses
//! go; nothing that it told anybody stays.

mod accepted;
mod group;
mod link;
mod thread;

use std::io;
use std::net::IpAddr;
use std::sync::PoisonError;
use std::thread as threads;
use std::time::Duration;

use config::VirtualRouter;
use mirror::model::Link;
use mirror::netlink::address::Address;
use tracing::{debug, error, warn};

use super::forwarding::Forwarding;
use super::interfaces;
use super::orders::{Orders, orders};
use super::section::{Change, Section};
use crate::subject::VirtualRouterStatus;
use accepted::Accepted;
use group::Facts;
use thread::{ActiveNames, HANDED_ON, Order, Runner};

/// How long the thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a stop waits for others to take over.
const HANDOVER: Duration = Duration::from_secs(3);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Redundancy {
    running: Option<Running>,
    /// The virtual routers that another process was active for until now.
    go_on: Vec<String>,
}

struct Running {
    orders: Orders<Order>,
    plan: Vec<VirtualRouter>,
    facts: Vec<Facts>,
    active: ActiveNames,
}

/// The way to the thread, for those who wait for what it does.
pub(crate) struct Handle(Option<Orders<Order>>);

impl Handle {
    /// Hands over to another router, or takes part again as before; says what came of it.
    pub(crate) fn ask(&self, name: String, release: bool) -> Result<String, String> {
        let orders = self.0.as_ref().ok_or("nothing is redundant: there is no [vrrp.NAME]")?;
        let order = if release { Order::Release } else { Order::Resume };
        let answer = orders.ask(|sender| order(name, sender)).recv();
        answer.map_err(|_| "the thread that speaks VRRP is gone")?
    }
}

impl Redundancy {
    /// Tells the thread what is configured, and what is known around it, where that has changed.
    /// Not before all routes have been read and the ports are taken: who takes over must be able to
    /// forward. That Linux is read anew later on is no reason to resign.
    pub(super) fn follow(&mut self, forwarding: &Forwarding) {
        if self.running.is_none() && !forwarding.router.vrrp.is_empty() {
            match begin(forwarding, std::mem::take(&mut self.go_on)) {
                Ok(running) => self.running = Some(running),
                Err(wrong) => return error!("no virtual router is taken part in: {wrong}"),
            }
        }
        let Some(running) = &mut self.running else { return };
        let plan = &forwarding.router.vrrp;
        let facts: Vec<Facts> = plan.iter().map(|router| facts(router, forwarding)).collect();
        let order = if running.plan != *plan {
            Order::Plan(plan.iter().cloned().zip(facts.iter().cloned()).collect())
        } else if running.facts != facts {
            Order::Facts(facts.clone())
        } else {
            return;
        };
        running.plan.clone_from(plan);
        running.facts = facts;
        running.orders.tell(order);
    }

    /// Whether the virtual router of a name is active here.
    pub(super) fn is_active(&self, name: &str) -> bool {
        self.running.as_ref().is_some_and(|running| {
            let active = running.active.lock().unwrap_or_else(PoisonError::into_inner);
            active.iter().any(|active| active == name)
        })
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle(self.running.as_ref().map(|running| running.orders.clone()))
    }

    pub(crate) fn status(&self) -> Result<Vec<VirtualRouterStatus>, String> {
        let Some(running) = &self.running else { return Ok(Vec::new()) };
        let answer = running.orders.ask(Order::Status);
        answer.recv_timeout(PATIENCE).map_err(|_| "the thread that speaks VRRP does not answer".to_owned())
    }

    /// Hands everything over, if there is somebody, and ends the thread. Until then packets are
    /// forwarded as ever.
    pub(super) fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        if running.orders.ask(Order::Stop).recv_timeout(HANDOVER).is_err() {
            warn!("redundancy: not everything was handed over in time");
        }
    }

    /// As [`Redundancy::stop`], for another process of this router. What no other router takes over
    /// the driver goes on with until that process does: names of these.
    pub(super) fn leave(&mut self) -> Vec<String> {
        let Some(running) = self.running.take() else { return Vec::new() };
        if running.orders.ask(Order::Stop).recv_timeout(HANDOVER).is_ok() {
            return Vec::new();
        }
        let active = running.active.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A thread that does not answer is gone with the process.
        let _ = running.orders.ask(Order::Leave).recv_timeout(PATIENCE);
        active
    }

    /// Lets the driver take frames for those from the first on, before their thread speaks.
    pub(super) fn lease(&self, forwarding: &Forwarding) {
        let Ok(driver) = forwarding.plane.driver().virtual_routers() else { return };
        let active = forwarding.router.vrrp.iter().filter(|router| self.go_on.contains(&router.name));
        for router in active {
            let mac = vrrp::frame::virtual_mac(router.id, router.is_ipv6());
            for id in forwarding.plane.interfaces_named(&router.interface) {
                if let Err(error) = driver.lease(id, mac.0, HANDED_ON) {
                    debug!("redundancy {}: {error}", router.name);
                }
            }
        }
    }

    /// Whether there are such: they do not wait until all else is done.
    pub(super) fn goes_on(&self) -> bool {
        !self.go_on.is_empty()
    }

    /// Is active at once for these, as another process was.
    pub(super) fn go_on(&mut self, names: Vec<String>) {
        self.go_on = names;
    }
}

fn begin(forwarding: &Forwarding, go_on: Vec<String>) -> Result<Running, String> {
    let driver = forwarding.plane.driver().virtual_routers().map_err(|error| error.to_string())?;
    let system = |error: io::Error| error.to_string();
    let (orders, inbox) = orders().map_err(system)?;
    let active = ActiveNames::default();
    let accepted = Accepted::start().map_err(system)?;
    let runner = Runner::new(inbox, driver, accepted, active.clone(), go_on);
    threads::Builder::new().name("vrrp".to_owned()).spawn(move || runner.run()).map_err(system)?;
    Ok(Running { orders, plan: Vec::new(), facts: Vec::new(), active })
}

/// What is known around a virtual router.
fn facts(router: &VirtualRouter, forwarding: &Forwarding) -> Facts {
    let model = forwarding.mirror.model();
    let link = model.links.by_name(&router.interface);
    let all = link.into_iter().flat_map(|link| forwarding.plane.interfaces_of(link.ifindex));
    let all: Vec<_> = all.collect();
    let bridge = link.filter(|link| forwarding.plane.is_on_bridge(link.ifindex));
    let misfit = bridge.and_then(|link| not_on_bridge(router, link, forwarding));
    let bridge = bridge.and_then(|link| model.links.within_bridge(link));
    let interfaces: Vec<_> =
        all.into_iter().filter(|(_, port)| port.taken.is_some()).map(|(id, _)| id).collect();
    let here: Vec<&Address> = link.into_iter().flat_map(|link| model.addresses_of(link.ifindex)).collect();
    let own = own(router, &here);
    let name = &router.interface;
    let unable = match link {
        None => Some(format!("there is no interface {name}")),
        Some(link) if !(link.up && link.running) => Some(format!("{name} is down")),
        Some(_) if misfit.is_some() => misfit,
        Some(_) if interfaces.is_empty() => {
            Some(format!("{name} is no port of Bifrost's, nor a bond of ports or a VLAN on one"))
        }
        Some(_) if own.is_none() => {
            let kind = if router.is_ipv6() { "link-local" } else { "IPv4" };
            Some(format!("{name} has no {kind} address of its own to speak from"))
        }
        Some(_) => misplaced(router, &here),
    };
    let lost = router.track.iter().filter(|track| !forwarding.is_there(&track.what));
    let (mut priority, mut lacks) = (router.settings.priority, Vec::new());
    for track in lost {
        lacks.push(track.what.to_string());
        priority = match track.lower {
            Some(lower) if priority > 0 => priority.saturating_sub(lower).max(1),
            _ => 0,
        };
    }
    let ifindex = link.map_or(0, |link| link.ifindex);
    let bridge = bridge.map(|(bridge, vlan)| (bridge.ifindex, vlan));
    Facts { ifindex, interfaces, bridge, own, unable, priority, lacks }
}

/// Why it cannot take part on a bridge, or a VLAN on one.
fn not_on_bridge(router: &VirtualRouter, link: &Link, forwarding: &Forwarding) -> Option<String> {
    let (name, links) = (&router.interface, &forwarding.mirror.model().links);
    if router.settings.priority == u8::MAX {
        return Some(format!(
            "{name} is a bridge or lies on one, where none can own addresses (priority 255)"
        ));
    }
    let (bridge, vlan) = links.within_bridge(link)?;
    let place = interfaces::place(link, links, &forwarding.router).ok()?;
    let has = |member: &&Link| vlan == 0 || links.vlans_of(member.ifindex).passage(vlan).is_some();
    let is_leg = |member: &&Link| place.legs.iter().any(|leg| leg.port.ifindex == member.ifindex);
    let other = links.members(bridge.ifindex).filter(has).find(|member| !is_leg(member))?;
    Some(format!("{name} has the member {}, which is no port of Bifrost's", other.name))
}

/// The address that a virtual router speaks from: the interface's own.
fn own(router: &VirtualRouter, here: &[&Address]) -> Option<IpAddr> {
    let owner = router.settings.priority == u8::MAX;
    let own = here.iter().filter(|address| match address.net.addr() {
        IpAddr::V4(_) => !router.is_ipv6() && address.is_primary(),
        IpAddr::V6(_) => router.is_ipv6() && address.is_link_source(),
    });
    own.map(|address| address.net.addr()).find(|own| owner || !router.addresses.contains(own))
}

/// Who owns the addresses has them on the interface, and nobody else has: Linux would keep them
/// when Bifrost ends.
fn misplaced(router: &VirtualRouter, here: &[&Address]) -> Option<String> {
    let is_here = |wanted: &&IpAddr| here.iter().any(|address| address.net.addr() == **wanted);
    let name = &router.interface;
    let mut addresses = router.addresses.iter();
    if router.settings.priority == u8::MAX {
        let missing = addresses.find(|address| !is_here(address))?;
        Some(format!("its priority is 255, but {missing} is not an address of {name}"))
    } else {
        let there = addresses.find(is_here)?;
        Some(format!(
            "Linux has {there} on {name}: remove it there, or let this router own it (priority 255)"
        ))
    }
}

impl Section for Redundancy {
    fn effects(&self, change: &Change) -> Vec<String> {
        let (before, after) = (&change.before.vrrp, &change.after.vrrp);
        let named = |list: &[VirtualRouter], name: &str| list.iter().find(|one| one.name == name).cloned();
        let mut effects = Vec::new();
        for router in after {
            let name = &router.name;
            match named(before, name) {
                None => effects.push(format!("[vrrp.{name}]: it is taken part in")),
                Some(was) if was != *router => {
                    effects.push(format!("[vrrp.{name}]: it is resigned from, and taken part in anew"));
                }
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|router| named(after, &router.name).is_none());
        effects.extend(gone.map(|router| format!("[vrrp.{}]: it is resigned from", router.name)));
        effects
    }

    fn prepare(&mut self, change: &mut Change, forwarding: &mut Forwarding) -> Result<(), String> {
        if self.running.is_none() && !change.after.vrrp.is_empty() {
            self.running = Some(begin(forwarding, Vec::new()).map_err(|wrong| format!("[vrrp]: {wrong}"))?);
        }
        Ok(())
    }

    /// The control thread tells the thread of it, as of all other changes.
    fn apply(&mut self, _: &Change, _: &mut Forwarding) {}

    fn abort(&mut self, _: &mut Forwarding) {}
}
