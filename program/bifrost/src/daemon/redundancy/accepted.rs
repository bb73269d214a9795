//! The addresses of virtual routers in Linux, while this router is active, so that they can be
//! pinged and connected to.
//!
//! They are on a device of this process (a TUN), not on the interface that they are for: when the
//! process dies, however it does, its device goes, and the addresses with it. On an interface they
//! would stay, and Linux would go on answering for what another router has taken over. Linux takes
//! what is for its addresses wherever it comes in, so that nothing else is different.
//!
//! A thread of its own does this, for Linux may be busy with other interfaces, and advertisements
//! must not wait.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use mirror::netlink::socket::Addresses;
use port::{Tap, TapKind, TapSetup};
use tracing::{debug, warn};

/// The device.
pub(super) const DEVICE: &str = "bifrost-vrrp";

/// The way to the thread.
pub(super) struct Accepted {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    /// Linux is to have an address, or not.
    Address(IpAddr, bool),
    /// Virtual routers of IPv4 are on this interface, or not any more.
    Interface(String, bool),
}

impl Accepted {
    pub(super) fn start() -> io::Result<Accepted> {
        let (orders, waiting) = channel();
        let thread = thread::Builder::new().name("vrrp-addresses".to_owned()).spawn(move || run(&waiting))?;
        Ok(Accepted { orders: Some(orders), thread: Some(thread) })
    }

    pub(super) fn address(&self, address: IpAddr, have: bool) {
        self.send(Order::Address(address, have));
    }

    pub(super) fn interface(&self, name: &str, on: bool) {
        self.send(Order::Interface(name.to_owned(), on));
    }

    fn send(&self, order: Order) {
        // It ends only with this.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn run(orders: &Receiver<Order>) {
    let mut device = None;
    let mut announcing = HashMap::new();
    for order in orders {
        match order {
            // Of these each interface has its own, and only neighbours are asked for them: nobody
            // connects to one.
            Order::Address(IpAddr::V6(address), _) if address.is_unicast_link_local() => {}
            Order::Address(address, have) => {
                if let Err(error) = set(&mut device, address, have) {
                    let what =
                        if have { "cannot be pinged or connected to" } else { "is not taken from Linux" };
                    warn!("redundancy: {address} {what}: {error}");
                }
            }
            Order::Interface(name, true) => {
                announcing.extend(own_addresses_only(&name).map(|was| (name, was)))
            }
            Order::Interface(name, false) => {
                if let Some(was) = announcing.remove(&name) {
                    let _ = fs::write(announce(&name), was);
                }
            }
        }
    }
    for (name, was) in announcing {
        let _ = fs::write(announce(&name), was);
    }
}

fn set(device: &mut Option<(Tap, u32, Addresses)>, address: IpAddr, have: bool) -> io::Result<()> {
    let (_, ifindex, addresses) = match device {
        Some(device) => device,
        None if !have => return Ok(()),
        None => {
            let tap = Tap::open(DEVICE, TapKind::Ip)?;
            // It has no address but those that it is given.
            let quiet = format!("/proc/sys/net/ipv6/conf/{DEVICE}/addr_gen_mode");
            if let Err(error) = fs::write(quiet, "1") {
                debug!("redundancy: {DEVICE} may have a link-local address: {error}");
            }
            tap.set_up(&TapSetup::default())?;
            let ifindex = nix::net::if_::if_nametoindex(DEVICE)?;
            device.insert((tap, ifindex, Addresses::open()?))
        }
    };
    match addresses.set(*ifindex, address, have) {
        // As it was to be.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && have => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && !have => Ok(()),
        done => done,
    }
}

/// When Linux itself asks for a neighbour, it asks in the name of an address of the interface's:
/// else hosts would learn from that that the virtual address is at the interface's own link
/// address. What it was before, if it is another now.
fn own_addresses_only(interface: &str) -> Option<String> {
    let was = fs::read_to_string(announce(interface)).ok()?;
    (was.trim() != "2" && fs::write(announce(interface), "2").is_ok()).then_some(was)
}

fn announce(interface: &str) -> String {
    format!("/proc/sys/net/ipv4/conf/{interface}/arp_announce")
}
