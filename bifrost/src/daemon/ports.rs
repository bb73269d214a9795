//! Which interfaces to take, and keeping the plane told about them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use config::PortRule;
use fib::PortId;
use ipnet::IpNet;
use mirror::Plane as Listener;
use mirror::model::Link;
use plane::Interface;
use tracing::{debug, warn};
use wire::Class;

use super::control::Control;
use super::{DaemonError, settings};

/// How long the control thread takes ports that came, or tells of others what changed, before it looks for other work.
const SLICE: Duration = Duration::from_millis(2);

/// What the mirror heard that concerns the plane, until the control thread has time for it.
#[derive(Default)]
pub(super) struct News {
    changed: Vec<u32>,
    gone: Vec<u32>,
    local_added: Vec<IpAddr>,
    local_removed: Vec<IpAddr>,
}

impl Listener for News {
    fn link(&mut self, link: &Link) {
        self.changed.push(link.ifindex);
    }

    fn link_gone(&mut self, ifindex: u32) {
        self.gone.push(ifindex);
    }

    fn local_added(&mut self, address: IpAddr) {
        self.local_added.push(address);
    }

    fn local_removed(&mut self, address: IpAddr) {
        self.local_removed.push(address);
    }
}

impl Control {
    /// Makes the ports known that the configuration names outright, whether they are there or not.
    pub(super) fn expect_ports(&mut self) {
        for rule in self.router.ports.clone() {
            let Some(name) = rule.name.literal() else { continue };
            match self.plane.expect(name, settings::port(&rule, &self.router)) {
                Ok(id) => self.share(id, &rule),
                Err(error) => warn!("{error}"),
            }
        }
    }

    /// Opens the shared memory of a port that is that, or closes what was another.
    fn share(&mut self, id: PortId, rule: &PortRule) {
        let wanted = settings::memif(rule);
        let port = self.plane.ports().get(usize::from(id.0));
        let shared = port.and_then(|port| port.shared.as_ref());
        if shared.map(|shared| shared.settings()) == wanted.as_ref() {
            return;
        }
        self.release(id);
        if let Err(error) = self.plane.share(id, wanted) {
            warn!("{}: {error}", rule.name.as_str());
        }
    }

    /// The ports that are there, or that the configuration names and waits for. The plane knows others as well, for a port keeps its
    /// number when it is gone: of what a pattern matched (`ppp*`) nobody expects that it comes back.
    pub(super) fn known_ports(&self) -> impl Iterator<Item = &plane::port::Port> {
        let named = |name: &str| self.router.ports.iter().any(|rule| rule.name.literal() == Some(name));
        let known = move |port: &&plane::port::Port| port.interface.is_some() || named(&port.name);
        self.plane.ports().iter().filter(known)
    }

    fn is_shared(&self, id: PortId) -> bool {
        self.plane.ports().get(usize::from(id.0)).is_some_and(|port| port.shared.is_some())
    }

    /// Takes every interface that the configuration matches, unless it is told to stop; `before` each.
    pub(super) fn take_ports(&mut self, before: impl Fn(&Control)) {
        self.restore_flows();
        self.respect_linux();
        self.apply_news();
        let links: Vec<u32> = self.mirror.model().links.iter().map(|link| link.ifindex).collect();
        for ifindex in links {
            if self.stop.is_asked() {
                return;
            }
            before(self);
            self.look_at(ifindex);
        }
        self.tell_sources();
    }

    /// Tells the plane what the mirror heard. True: there is more, for a slice of time is over.
    pub(super) fn apply_news(&mut self) -> bool {
        let News { changed, gone, local_added, local_removed } = std::mem::take(&mut self.news);
        for ifindex in gone {
            if let Some(id) = self.plane.port_of(ifindex).map(|port| port.id) {
                self.plane.give_back(id, &mut self.tables);
            }
        }
        // Not while Linux's tables are still being read: see `Control::load`.
        if self.mirror.ready() || self.plane.ports().iter().any(|port| port.taken.is_some()) {
            let begun = Instant::now();
            let mut left = changed.into_iter();
            while begun.elapsed() < SLICE && !self.stop.is_asked() {
                let Some(ifindex) = left.next() else { break };
                self.look_at(ifindex);
            }
            self.news.changed.extend(left);
        }
        let more = !self.news.changed.is_empty();
        if local_added.is_empty() && local_removed.is_empty() {
            return more;
        }
        self.tell_local(local_removed, false);
        let translated = self.plane.policy().translates();
        self.tell_local(if translated { Vec::new() } else { local_added }, true);
        self.tell_sources();
        more
    }

    /// Takes an interface if the configuration says so, or tells its port what changed.
    pub(super) fn look_at(&mut self, ifindex: u32) {
        let Some(link) = self.mirror.model().links.by_index(ifindex).cloned() else { return };
        let named_otherwise = |port: &&plane::port::Port| port.name != link.name;
        if let Some(renamed) = self.plane.port_of(ifindex).filter(named_otherwise).map(|port| port.id) {
            self.release(renamed);
        }
        let ours = !link.loopback && !self.plane.is_own(ifindex);
        let Some(rule) = self.router.port(&link.name).filter(|_| ours) else { return };
        let master = link.master.and_then(|master| self.mirror.model().links.by_index(master));
        let Some(interface) = interface(&link, master, self.foreign.reach.of(&link.name)) else {
            debug!("{}: not an Ethernet interface: it stays with Linux", link.name);
            return;
        };
        let settings = settings::port(rule, &self.router);
        match self.plane.expect(&interface.name, settings) {
            // Its shared memory could not be opened, which has been said: the interface alone leads nowhere.
            Ok(id) if settings::memif(rule).is_some() && !self.is_shared(id) => {}
            Ok(id) => {
                let bound = self.plane.port_of(ifindex).is_some_and(|port| port.taken.is_some());
                match self.plane.take(id, interface, &mut self.tables) {
                    true if !bound => self.bind(id),
                    false if bound => self.mirror.unbind(ifindex, &mut self.tables),
                    _ => {}
                }
            }
            Err(error) => warn!("{error}"),
        }
    }

    /// Lets routes lead to a port that was taken.
    pub(super) fn bind(&mut self, id: PortId) {
        let interface = self.plane.ports().get(usize::from(id.0)).and_then(|port| port.interface.as_ref());
        if let Some(ifindex) = interface.map(|interface| interface.ifindex) {
            self.mirror.bind(ifindex, id, &mut self.tables);
            self.tell_sources();
        }
    }

    /// Gives every interface back: Linux forwards.
    pub(super) fn release_ports(&mut self) {
        let ports: Vec<PortId> = self.plane.ports().iter().map(|port| port.id).collect();
        ports.into_iter().for_each(|id| self.release(id));
    }

    /// Gives a port's interface back, if there is one. No route leads to it any more before that, or what the other ports
    /// send there meanwhile would be lost.
    fn release(&mut self, id: PortId) {
        let interface = self.plane.ports().get(usize::from(id.0)).and_then(|port| port.interface.as_ref());
        if let Some(ifindex) = interface.map(|interface| interface.ifindex) {
            self.mirror.unbind(ifindex, &mut self.tables);
            self.plane.give_back(id, &mut self.tables);
        }
    }

    /// After the rules have changed: gives back what no rule matches any more, takes what one matches now, and takes
    /// anew what is to be taken in another way. The limits are to be applied after that.
    pub(super) fn change_ports(&mut self) -> Result<(), DaemonError> {
        let ports: Vec<_> =
            self.plane.ports().iter().map(|port| (port.id, port.name.clone(), port.settings)).collect();
        for (id, name, before) in ports {
            let wanted = self.router.port(&name).map(|rule| settings::port(rule, &self.router));
            let anew = wanted.is_none_or(|wanted| wanted.taken_otherwise(&before));
            if anew {
                // What leads there is Linux's meanwhile, at its own rate.
                self.plane.police(Class::Unresolved, 0, 0);
                self.release(id);
            }
            // Nobody shall connect to a port that is none any more.
            if wanted.is_none()
                && let Err(error) = self.plane.share(id, None)
            {
                warn!("{name}: {error}");
            }
        }
        self.expect_ports();
        // Linux has told already of an interface that was made for one of them.
        self.sync()?;
        self.take_ports(|_| ());
        while self.sync()? && !self.stop.is_asked() {}
        Ok(())
    }

    /// Tells the elements which addresses are this machine's, and which are on which port.
    fn tell_sources(&mut self) {
        let sources = self.plane.sources();
        let addresses = || self.mirror.model().addresses();
        sources.set_local4(addresses().filter_map(|address| match address.net.addr() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }));
        for port in self.plane.ports() {
            let Some(interface) = &port.interface else { continue };
            let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
            for address in addresses().filter(|address| address.ifindex == interface.ifindex) {
                match address.net {
                    IpNet::V4(net) if address.is_primary() => ipv4.push(net),
                    IpNet::V6(net) if address.is_global_source() => ipv6.push(net),
                    _ => {}
                }
            }
            sources.set_port(port.id, ipv4, ipv6);
        }
        self.tell_nat();
    }
}

impl Control {
    /// Tells the driver which of the router's own addresses are for Linux at once. While addresses are translated none is: answers to
    /// translated flows come to them, and workers look whether they do.
    pub(super) fn tell_local(&mut self, addresses: Vec<IpAddr>, added: bool) {
        let driver = self.plane.driver_mut();
        for address in addresses {
            let told = if added { driver.add_local(address) } else { driver.remove_local(address) };
            if let Err(error) = told {
                debug!("{address}: {error}");
            }
        }
    }

    /// Puts the rules of address translation in force for the ports and addresses that there are.
    pub(super) fn tell_nat(&mut self) {
        let mut addresses: HashMap<PortId, Vec<IpAddr>> = HashMap::new();
        for port in self.plane.ports() {
            let Some(interface) = &port.interface else { continue };
            let of_port =
                self.mirror.model().addresses().filter(|address| address.ifindex == interface.ifindex);
            addresses.insert(port.id, of_port.map(|address| address.net.addr()).collect());
        }
        self.plane.translate(|port| addresses.get(&port).cloned().unwrap_or_default());
        self.log_blocks();
        if self.router.nat.is_some() {
            self.tell_nftables();
        }
    }
}

/// What the plane must know of an interface; `None` when it has no Ethernet address.
fn interface(link: &Link, master: Option<&Link>, left_to_linux: [bool; 2]) -> Option<Interface> {
    Some(Interface {
        name: link.name.clone(),
        ifindex: link.ifindex,
        master: master.map(|master| master.name.clone()),
        mac: link.mac?.0,
        mtu: link.mtu,
        up: link.up && link.running,
        forwarding4: link.forwarding4,
        forwarding6: link.forwarding6,
        rp_filter: link.rp_filter,
        left_to_linux,
    })
}
