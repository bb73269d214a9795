//! `[dhcp_relay.NAME]`: hosts' questions for addresses are passed to servers elsewhere.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the control thread's part: where hosts are, by the configuration and what is known |
//! | `thread.rs` | the thread that passes messages |
//! | `socket.rs` | its sockets |
//!
//! What is made of messages is the crate `relay`.

mod socket;
mod thread;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::thread as threads;
use std::time::Duration;

use config::DhcpRelay as Plan;
use ipnet::IpNet;
use mirror::model::Link;
use relay::four;
use tracing::error;

use super::forwarding::Forwarding;
use super::orders::{Orders, orders};
use super::section::{Change, Section};
use crate::subject::DhcpRelayStatus;
use thread::{ClientLink, Order, Runner, Source6};

/// How long the thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct DhcpRelay {
    running: Option<Running>,
}

struct Running {
    orders: Orders<Order>,
    told: Vec<ClientLink>,
}

impl DhcpRelay {
    /// Tells the thread where hosts are, where that has changed.
    pub(super) fn follow(&mut self, forwarding: &Forwarding) {
        let plans = &forwarding.router.dhcp_relays;
        if self.running.is_none() && !plans.is_empty() {
            match begin() {
                Ok(running) => self.running = Some(running),
                Err(wrong) => return error!("DHCP is not relayed: {wrong}"),
            }
        }
        let Some(running) = &mut self.running else { return };
        let links = |plan| links(plan, forwarding);
        let told: Vec<ClientLink> = plans.iter().flat_map(links).collect();
        if running.told != told {
            running.told.clone_from(&told);
            running.orders.tell(Order::Relay(told));
        }
    }

    pub(crate) fn status(&self) -> Result<Vec<DhcpRelayStatus>, String> {
        let Some(running) = &self.running else { return Ok(Vec::new()) };
        let answer = running.orders.ask(Order::Status);
        answer.recv_timeout(PATIENCE).map_err(|_| "the thread that relays DHCP does not answer".to_owned())
    }

    /// Ends the thread: its ports are another process's.
    pub(super) fn leave(&mut self) {
        if let Some(running) = self.running.take() {
            let _it_is_gone_already = running.orders.ask(Order::Stop).recv_timeout(PATIENCE);
        }
    }
}

fn begin() -> Result<Running, String> {
    let system = |error: io::Error| error.to_string();
    let (orders, inbox) = orders().map_err(system)?;
    let runner = Runner::new(inbox);
    threads::Builder::new().name("dhcp-relay".to_owned()).spawn(move || runner.run()).map_err(system)?;
    Ok(Running { orders, told: Vec::new() })
}

/// The interfaces of a section, as things are.
fn links<'a>(plan: &'a Plan, forwarding: &'a Forwarding) -> impl Iterator<Item = ClientLink> + 'a {
    let model = forwarding.mirror.model();
    plan.interfaces.iter().map(move |name| {
        let link = model.links.by_name(name);
        let missing = match link {
            None => Some(format!("there is no interface {name}")),
            Some(link) if !link.up => Some(format!("{name} is down")),
            Some(_) => None,
        };
        let addresses = || link.into_iter().flat_map(|link| model.addresses_of(link.ifindex));
        let own4 = || {
            let mut own = addresses().filter(|it| it.is_primary());
            let own = own.find_map(|it| if let IpNet::V4(net) = it.net { Some(net.addr()) } else { None });
            own.ok_or_else(|| format!("{name} has no address of IPv4"))
        };
        let own6 = || {
            let six = |net: IpNet| if let IpNet::V6(net) = net { Some(net.addr()) } else { None };
            if !addresses().any(|it| it.is_link_source() && six(it.net).is_some()) {
                return Err(format!("{name} has no link-local address of IPv6 yet"));
            }
            let link = addresses().filter(|it| it.is_global_source()).find_map(|it| six(it.net));
            let of = |link: &Link| model.addresses_of(link.ifindex);
            let mut others = model.links.iter().filter(|link| !link.loopback).flat_map(of);
            let other = || others.find_map(|it| six(it.net).filter(|_| it.is_global_source()));
            let from =
                link.or_else(other).ok_or("no interface has an address of IPv6 to ask servers from")?;
            Ok(Source6 { link: link.unwrap_or(Ipv6Addr::UNSPECIFIED), from })
        };
        let four = || missing.clone().map_or_else(own4, Err::<Ipv4Addr, _>);
        let six = || missing.clone().map_or_else(own6, Err::<Source6, _>);
        ClientLink {
            relay: plan.name.clone(),
            interface: name.clone(),
            ifindex: link.map_or(0, |link| link.ifindex),
            mac: link.and_then(|link| link.mac),
            four: (!plan.servers4.is_empty()).then(four),
            six: (!plan.servers6.is_empty()).then(six),
            servers4: plan.servers4.clone(),
            servers6: plan.servers6.clone(),
            agent: four::Agent::new(name, plan.circuit_id, plan.remote_id.as_deref(), plan.trusted),
        }
    })
}

impl Section for DhcpRelay {
    fn effects(&self, change: &Change) -> Vec<String> {
        let (before, after) = (&change.before.dhcp_relays, &change.after.dhcp_relays);
        let changed = after.iter().filter(|plan| !before.contains(plan));
        let gone = before.iter().filter(|gone| after.iter().all(|plan| plan.name != gone.name));
        let lines = changed.map(|plan| format!("[dhcp_relay.{}]: the next message is relayed so", plan.name));
        lines
            .chain(gone.map(|plan| format!("[dhcp_relay.{}]: nothing is relayed any more", plan.name)))
            .collect()
    }

    fn prepare(&mut self, change: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        if self.running.is_none() && !change.after.dhcp_relays.is_empty() {
            self.running = Some(begin().map_err(|wrong| format!("[dhcp_relay]: {wrong}"))?);
        }
        Ok(())
    }

    /// At once: whoever asked for the change may look for it in the next moment.
    fn apply(&mut self, _: &Change, forwarding: &mut Forwarding) {
        self.follow(forwarding);
    }

    fn abort(&mut self, _: &mut Forwarding) {}
}
