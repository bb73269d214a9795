//! `[discovery.NAME]`: hosts are told of this router, by ICMP router discovery (IPv4) and router
//! advertisements (IPv6).
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the control thread's part: what is to be said now, by the configuration and what is known |
//! | `thread.rs` | the thread that says it |
//! | `speaker.rs` | an interface as that thread has it |
//! | `family.rs` | what differs between IPv4 and IPv6 |
//!
//! The protocols are the crate `discovery`. The control thread makes the whole of what is said,
//! anew whenever something has changed; the thread compares, and tells hosts of changes at once.
//! Nothing is said before all routes have been read: a router that does not know the way yet asks
//! for no packets.

mod family;
mod speaker;
mod thread;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread as threads;
use std::time::Duration;

use ::discovery::{Preference, RaOption, irdp};
use config::{Discovery as Plan, Discovery4, Discovery6, PREFIXES};
use ipnet::Ipv6Net;
use mirror::model::Link;
use mirror::netlink::address::Address;
use tracing::{error, warn};
use wire::Mac;

use super::forwarding::Forwarding;
use super::orders::{Orders, orders};
use super::redundancy::Redundancy;
use super::section::{Change, Section};
use crate::subject::DiscoveryStatus;
use family::{Four, Six};
use speaker::Told;
use thread::{Order, Runner};

/// The longest that hosts are told of a prefix which was given for a while: valid and preferred, in
/// seconds (RFC 9096, section 4).
const LEASED: [u32; 2] = [5_400, 2_700];
/// How long the thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Discovery {
    running: Option<Running>,
}

struct Running {
    orders: Orders<Order>,
    told: Vec<Told>,
}

impl Discovery {
    /// Tells the thread what is to be said, where that has changed.
    pub(super) fn follow(&mut self, forwarding: &Forwarding, redundancy: &Redundancy) {
        let plan = &forwarding.router.discovery;
        if self.running.is_none() && !plan.is_empty() {
            match begin() {
                Ok(running) => self.running = Some(running),
                Err(wrong) => return error!("no host is told of this router: {wrong}"),
            }
        }
        let Some(running) = &mut self.running else { return };
        let told: Vec<Told> = plan.iter().map(|plan| told(plan, forwarding, redundancy)).collect();
        if running.told != told {
            running.told.clone_from(&told);
            running.orders.tell(Order::Say(told));
        }
    }

    pub(crate) fn status(&self) -> Result<Vec<DiscoveryStatus>, String> {
        let Some(running) = &self.running else { return Ok(Vec::new()) };
        let answer = running.orders.ask(Order::Status);
        answer.recv_timeout(PATIENCE).map_err(|_| "the thread that tells hosts does not answer".to_owned())
    }

    /// Ends the thread, and tells hosts nothing: another process goes on.
    pub(super) fn leave(&mut self) {
        self.running = None;
    }

    /// Tells hosts to look for another router, and ends the thread. Until then packets are
    /// forwarded as ever.
    pub(super) fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        if running.orders.ask(Order::Stop).recv_timeout(PATIENCE).is_err() {
            warn!("discovery: hosts may not have been told that this router stops");
        }
    }
}

fn begin() -> Result<Running, String> {
    let system = |error: io::Error| error.to_string();
    let (orders, inbox) = orders().map_err(system)?;
    let runner = Runner::new(inbox);
    threads::Builder::new().name("discovery".to_owned()).spawn(move || runner.run()).map_err(system)?;
    Ok(Running { orders, told: Vec::new() })
}

/// Who speaks: the interface itself, or the virtual router that this router is active for.
struct Speaking {
    mac: Mac,
    /// The addresses of a virtual router.
    shared: Option<Vec<IpAddr>>,
}

/// What is to be said on an interface, as things are.
fn told(plan: &Plan, forwarding: &Forwarding, redundancy: &Redundancy) -> Told {
    let model = forwarding.mirror.model();
    let name = &plan.interface;
    let link = model.links.by_name(name);
    let here: Vec<&Address> = link.into_iter().flat_map(|link| model.addresses_of(link.ifindex)).collect();
    let speaking = |forwards: fn(&Link) -> bool, family: &str, vrrp: &Option<String>| {
        let Some(link) = link else { return Err(format!("there is no interface {name}")) };
        if !(link.up && link.running) {
            return Err(format!("{name} is down"));
        }
        let mac = link.mac.ok_or_else(|| format!("{name} has no link address"))?;
        if !forwards(link) {
            return Err(format!("Linux does not forward {family} from {name}"));
        }
        let Some(vrrp) = vrrp else { return Ok(Speaking { mac, shared: None }) };
        let router = forwarding.router.vrrp.iter().find(|router| router.name == *vrrp);
        let active = router.filter(|router| redundancy.is_active(&router.name));
        let router = active.ok_or_else(|| format!("[vrrp.{vrrp}] is not active here"))?;
        let mac = vrrp::frame::virtual_mac(router.id, router.is_ipv6());
        Ok(Speaking { mac, shared: Some(router.addresses.clone()) })
    };
    let four = plan.ipv4.as_ref().map(|plan| {
        let speaking = speaking(|link| link.forwarding4, "IPv4", &plan.vrrp)?;
        four(plan, speaking, &here, forwarding).map_err(|wrong| format!("{name} {wrong}"))
    });
    let six = plan.ipv6.as_ref().map(|plan| {
        let speaking = speaking(|link| link.forwarding6, "IPv6", &plan.vrrp)?;
        six(plan, speaking, &here, forwarding).map_err(|wrong| format!("{name} {wrong}"))
    });
    let ifindex = link.map_or(0, |link| link.ifindex);
    Told { name: plan.name.clone(), interface: name.clone(), ifindex, four, six }
}

fn four(
    plan: &Discovery4,
    speaking: Speaking,
    here: &[&Address],
    forwarding: &Forwarding,
) -> Result<Four, String> {
    let addresses: Vec<IpAddr> = match &speaking.shared {
        Some(shared) => shared.clone(),
        None => here.iter().map(|address| address.net.addr()).collect(),
    };
    let of_ipv4 = |address: IpAddr| if let IpAddr::V4(own) = address { Some(own) } else { None };
    let own: Vec<Ipv4Addr> = addresses.into_iter().filter_map(of_ipv4).take(irdp::ADDRESSES).collect();
    let from = *own.first().ok_or("has no IPv4 address")?;
    let missing = plan.track.iter().filter(|(what, _)| !forwarding.is_there(what));
    let (mut lacks, mut never, mut lower) = (Vec::new(), false, 0u32);
    for (what, by) in missing {
        lacks.push(what.to_string());
        match by {
            Some(by) => lower = lower.saturating_add(*by),
            None => never = true,
        }
    }
    let level = |own: &Ipv4Addr| match plan.addresses.get(own).copied().unwrap_or(plan.preference) {
        irdp::NEVER => irdp::NEVER,
        _ if never => irdp::NEVER,
        level => level.saturating_sub_unsigned(lower).max(irdp::NEVER + 1),
    };
    let addresses = own.iter().map(|own| (*own, level(own))).collect();
    let nets = here.iter().filter_map(|address| match address.net {
        ipnet::IpNet::V4(net) => Some(net),
        ipnet::IpNet::V6(_) => None,
    });
    Ok(Four {
        mac: speaking.mac,
        shared: speaking.shared.is_some(),
        times: plan.times,
        from,
        nets: nets.collect(),
        to: if plan.broadcast { Ipv4Addr::BROADCAST } else { irdp::ALL_HOSTS },
        says: irdp::Advertisement { lifetime: plan.lifetime, addresses },
        lacks,
    })
}

fn six(
    plan: &Discovery6,
    speaking: Speaking,
    here: &[&Address],
    forwarding: &Forwarding,
) -> Result<Six, String> {
    let of = |address: &&Address| match address.net {
        ipnet::IpNet::V6(net) => Some(net),
        ipnet::IpNet::V4(_) => None,
    };
    let own = || here.iter().filter(|address| address.is_link_source()).find_map(of).map(|net| net.addr());
    let from: Option<Ipv6Addr> = match speaking.shared.as_ref().map(|shared| shared.first()) {
        Some(Some(IpAddr::V6(shared))) => Some(*shared),
        _ => own(),
    };
    let from = from.ok_or("has no link-local address of IPv6 yet")?;
    let mut says = plan.says.clone();
    let mut lacks = Vec::new();
    for (what, lower) in plan.track.iter().filter(|(what, _)| !forwarding.is_there(what)) {
        lacks.push(what.to_string());
        match lower {
            Some(lower) => says.preference = says.preference.min(*lower),
            None => says.lifetime = 0,
        }
    }
    if says.lifetime == 0 {
        says.preference = Preference::default();
    }
    let mut options = vec![RaOption::SourceLink(speaking.mac)];
    if let Some([valid, preferred]) = plan.own_prefixes {
        let mut prefixes: Vec<(Ipv6Net, bool)> = Vec::new();
        for address in here.iter().filter(|address| address.scope == 0) {
            let Some(prefix) = of(address).filter(|net| net.prefix_len() == 64).map(|net| net.trunc()) else {
                continue;
            };
            match prefixes.iter_mut().find(|(known, _)| *known == prefix) {
                Some((_, leased)) => *leased &= address.is_leased(),
                None => prefixes.push((prefix, address.is_leased())),
            }
        }
        options.extend(prefixes.into_iter().take(PREFIXES).map(|(prefix, leased)| RaOption::Prefix {
            prefix,
            on_link: true,
            autonomous: true,
            valid: if leased { valid.min(LEASED[0]) } else { valid },
            preferred: if leased { preferred.min(LEASED[1]) } else { preferred },
        }));
    }
    options.append(&mut says.options);
    says.options = options;
    let shared = speaking.shared.is_some();
    Ok(Six { mac: speaking.mac, shared, times: plan.times, from, says, lacks })
}

impl Section for Discovery {
    fn effects(&self, change: &Change) -> Vec<String> {
        let (before, after) = (&change.before.discovery, &change.after.discovery);
        let mut effects = Vec::new();
        for plan in after.iter().filter(|plan| !before.contains(plan)) {
            effects.push(format!("[discovery.{}]: hosts are told of it at once", plan.name));
        }
        let stays = |gone: &Plan| after.iter().any(|plan| plan.name == gone.name);
        for plan in before.iter().filter(|plan| !stays(plan)) {
            effects.push(format!("[discovery.{}]: hosts are told to look for another router", plan.name));
        }
        effects
    }

    fn prepare(&mut self, change: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        if self.running.is_none() && !change.after.discovery.is_empty() {
            self.running = Some(begin().map_err(|wrong| format!("[discovery]: {wrong}"))?);
        }
        Ok(())
    }

    /// The control thread tells the thread of it, as of all other changes.
    fn apply(&mut self, _: &Change, _: &mut Forwarding) {}

    fn abort(&mut self, _: &mut Forwarding) {}
}
