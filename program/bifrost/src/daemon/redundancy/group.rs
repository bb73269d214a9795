//! A virtual router as the thread has it: what is configured, what is known of its interface, what
//! it has counted.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use config::VirtualRouter;
use fib::InterfaceId;
use port::{RawSocket, VirtualRouters};
use tracing::{debug, warn};
use vrrp::{Advertisement, Time, Wrong, frame, packet};
use wire::Mac;

use super::accepted::Accepted;
use super::link::{Link, to_peers};

/// What the control thread knows of what a virtual router needs around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Linux's number of its interface; 0: there is none.
    pub(super) ifindex: u32,
    /// The plane's: several, where it is a bond or bridge.
    pub(super) interfaces: Vec<InterfaceId>,
    /// The bridge that it is or lies on, by Linux's number, and its VLAN there; 0: none.
    pub(super) bridge: Option<(u32, u16)>,
    /// The address that it speaks from.
    pub(super) own: Option<IpAddr>,
    /// Why it cannot take part.
    pub(super) unable: Option<String>,
    /// Its priority, less what is lost with what is tracked; 0: it cannot be active.
    pub(super) priority: u8,
    /// What is tracked and not there.
    pub(super) lacks: Vec<String>,
}

/// How long frames that are under way are still taken, when another router has been heard.
const UNDER_WAY: Duration = Duration::from_millis(10);
/// How often the same complaint is logged.
const COMPLAIN: Duration = Duration::from_secs(60);

pub(super) struct Group {
    pub(super) plan: VirtualRouter,
    pub(super) facts: Facts,
    pub(super) mac: Mac,
    /// To single peers.
    peers: Option<RawSocket>,
    /// Where the driver was told of it.
    told: Vec<InterfaceId>,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) wrong: [u64; Wrong::ALL.len()],
    complained: [Option<Time>; Wrong::ALL.len()],
}

impl Group {
    pub(super) fn new(plan: VirtualRouter, facts: Facts) -> Group {
        let mac = frame::virtual_mac(plan.id, plan.is_ipv6());
        let (wrong, complained) = Default::default();
        Group { plan, facts, mac, peers: None, told: Vec::new(), sent: 0, received: 0, wrong, complained }
    }

    fn is_owner(&self) -> bool {
        self.plan.settings.priority == u8::MAX
    }

    /// Tells the driver which addresses Linux does not answer for; on which interfaces, or on none.
    pub(super) fn keep_from_linux(&mut self, interfaces: &[InterfaceId], driver: &VirtualRouters) {
        let told = std::mem::replace(&mut self.told, interfaces.to_vec());
        let gone = told.iter().filter(|id| !interfaces.contains(id)).map(|id| (*id, false));
        let new = interfaces.iter().filter(|id| !told.contains(id)).map(|id| (*id, true));
        for (interface, keep) in gone.chain(new) {
            // On a bridge others are asked as well, until this one is active.
            let addresses = self.addresses4().filter(|_| !keep || self.facts.bridge.is_none());
            addresses.for_each(|address| self.note(driver.keep_from_linux(interface, address, keep)));
            if !keep {
                self.note(driver.end(interface, self.mac.0));
            }
        }
    }

    /// Opens what is needed to speak to single peers.
    pub(super) fn speak(&mut self) {
        self.peers = None;
        if let (Some(own), false) = (self.facts.own, self.plan.peers.is_empty()) {
            match to_peers(&self.plan.interface, own) {
                Ok(socket) => self.peers = Some(socket),
                Err(error) => warn!("redundancy {}: cannot speak to its peers: {error}", self.plan.name),
            }
        }
    }

    /// Frames to the virtual link address are taken for so long.
    pub(super) fn take(&self, time: Duration, driver: &VirtualRouters) {
        for interface in &self.told {
            self.note(driver.lease(*interface, self.mac.0, time));
            let addresses = self.addresses4().filter(|_| self.facts.bridge.is_some());
            addresses.for_each(|address| self.note(driver.lease_address(*interface, address, time)));
        }
    }

    fn addresses4(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.plan.addresses.iter().filter_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        })
    }

    /// Another router has them now.
    pub(super) fn let_go(&self, driver: &VirtualRouters, accepted: &Accepted) {
        self.take(UNDER_WAY, driver);
        self.accept(false, accepted);
    }

    /// Linux has the addresses, or not. An owner's it has anyway.
    pub(super) fn accept(&self, have: bool, accepted: &Accepted) {
        if self.plan.accept && !self.is_owner() {
            self.plan.addresses.iter().for_each(|address| accepted.address(*address, have));
        }
    }

    pub(super) fn advertise(&mut self, priority: u8, link: Option<&Link>) {
        let Some(own) = self.facts.own else { return };
        let settings = &self.plan.settings;
        let it = Advertisement {
            version: settings.version,
            id: self.plan.id,
            priority,
            interval: settings.interval,
            addresses: self.plan.addresses.clone(),
        };
        if self.plan.peers.is_empty() {
            self.note(link.map_or(Ok(()), |link| link.send(&frame::advertisement(&it, own))));
        } else if let Some(socket) = &self.peers {
            for peer in &self.plan.peers {
                self.note(socket.send_to(&packet::emit(&it, own, *peer), *peer));
            }
        }
        self.sent += 1;
    }

    /// Tells all hosts where the addresses are.
    pub(super) fn announce(&self, link: Option<&Link>) {
        for address in &self.plan.addresses {
            self.note(link.map_or(Ok(()), |link| link.send(&frame::announcement(self.plan.id, *address))));
        }
    }

    /// What cannot be sent or told now is tried again with the next advertisement.
    fn note(&self, done: std::io::Result<()>) {
        if let Err(error) = done {
            debug!("redundancy {}: {error}", self.plan.name);
        }
    }

    /// Whether it is for this group; and what it says, if it is to be believed.
    pub(super) fn read(
        &mut self,
        (from, to, hops, payload): (IpAddr, IpAddr, u8, &[u8]),
        judge: impl Fn(&Advertisement, &[IpAddr]) -> Result<(), Wrong>,
        now: Time,
    ) -> Option<Advertisement> {
        let to_us = match self.plan.peers.is_empty() {
            true => to == packet::group(from),
            false => self.plan.peers.contains(&from) && Some(to) == self.facts.own,
        };
        let read = packet::parse(payload, from, to, hops).and_then(|it| {
            judge(&it, &self.plan.addresses)?;
            if to_us { Ok(it) } else { Err(Wrong::Stranger) }
        });
        match read {
            Ok(it) => {
                self.received += 1;
                Some(it)
            }
            Err(wrong) => {
                self.complain(wrong, from, now);
                None
            }
        }
    }

    fn complain(&mut self, wrong: Wrong, from: IpAddr, now: Time) {
        let number = wrong as usize;
        self.wrong[number] += 1;
        if self.complained[number].is_none_or(|last| now.saturating_sub(last) >= COMPLAIN) {
            self.complained[number] = Some(now);
            warn!("redundancy {}: an advertisement of {from} is not believed: {wrong}", self.plan.name);
        }
    }
}
