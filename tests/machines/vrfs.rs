//! A router between near and far networks, three of each, which have the same addresses: two of
//! VRFs, and one of neither.
//!
//! ```text
//!   near N ---------------------- router ---------------------- far N     N: red, blue (VRFs) and plain (none)
//!          10.0.1.2      10.0.1.1        10.0.2.1      10.0.2.2
//!          2001:db8:1::2      ::1        2001:db8:2::1      ::2
//! ```

use std::time::Duration;

use lab::{Host, Lab, Router, wait_for};

use crate::network::{Turn, turn};

/// The networks; the tables of those that are VRFs.
pub const NETWORKS: [(&str, Option<u32>); 3] = [("red", Some(1001)), ("blue", Some(1002)), ("plain", None)];
pub const FAR: [&str; 2] = ["10.0.2.2", "2001:db8:2::2"];
/// Requests to each address.
const REQUESTS: u64 = 50;

/// Fields go in the order they are dropped.
pub struct Vrfs {
    pub router: Router,
    pub near: [Host; 3],
    pub far: [Host; 3],
    _lab: Lab,
    _turn: Turn,
}

impl Vrfs {
    /// All of them, with the plane.
    pub fn new() -> Vrfs {
        let turn = turn();
        let lab = Lab::new("vrfs").unwrap();
        let host = lab.router("router").unwrap();
        let ends = |side| NETWORKS.map(|(name, _)| lab.host(&format!("{side}-{name}")).unwrap());
        let (near, far) = (ends("near"), ends("far"));
        // As those who have VRFs are told to: else addresses of the main table are the machine's in
        // each VRF as well.
        for ip in ["ip", "ip -6"] {
            host.run(&format!("{ip} rule add pref 32765 table local && {ip} rule del pref 0")).unwrap();
        }
        for ((name, table), (near, far)) in NETWORKS.into_iter().zip(near.iter().zip(&far)) {
            let ports = [format!("{name}-near"), format!("{name}-far")];
            lab.link(near.end("eth0"), host.end(&ports[0])).unwrap();
            lab.link(host.end(&ports[1]), far.end("eth0")).unwrap();
            if let Some(table) = table {
                host.run(&format!(
                    "ip link add {name} type vrf table {table} && ip link set {name} up
                     ip link set {name}-near master {name} && ip link set {name}-far master {name}"
                ))
                .unwrap();
            }
            for (side, port) in (1..).zip(&ports) {
                addresses(&host, port, side, 1);
            }
            for (side, other, end) in [(1, 2, near), (2, 1, far)] {
                addresses(end, "eth0", side, 2);
                end.run(&format!(
                    "ip route add 10.0.{other}.0/24 via 10.0.{side}.1
                     ip route add 2001:db8:{other}::/64 via 2001:db8:{side}::1"
                ))
                .unwrap();
            }
        }
        let router = Router::start(&host, &configuration()).unwrap();
        let net = Vrfs { router, near, far, _lab: lab, _turn: turn };
        for (near, (name, _)) in net.near.iter().zip(NETWORKS) {
            for address in FAR {
                near.reaches(address, Duration::from_secs(15)).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
        net
    }

    /// Packets that the near and the far port of each network took, in the driver and by workers.
    fn received(&self) -> [[u64; 2]; 3] {
        let shown = self.router.subject("ports").unwrap();
        let of = |name: &str, side: &str| {
            let name = format!("{name}-{side}");
            let port = shown.as_array().unwrap().iter().find(|port| port["name"] == name).unwrap();
            let lane = |lane: &str| port["received"][lane]["packets"].as_u64().unwrap();
            lane("express") + lane("worker")
        };
        NETWORKS.map(|(name, _)| ["near", "far"].map(|side| of(name, side)))
    }

    /// Each near host asks its far one; the plane takes all of it, by that network's ports alone,
    /// and Linux next to none.
    pub fn plane_forwards(&self) {
        for (near, (name, _)) in self.near.iter().zip(NETWORKS) {
            // An interface that has just come is Linux's for a moment.
            let asked = || self.asks(near, name, &FAR);
            let took = wait_for("the plane to forward", Duration::from_secs(20), asked).unwrap();
            for ((of, _), took) in NETWORKS.iter().zip(took) {
                assert!(*of == name || took.iter().all(|took| *took < REQUESTS / 2), "{of} took {took:?}");
            }
        }
    }

    /// One host asks addresses behind the router: what the ports of each network took meanwhile,
    /// or what is wrong with how it was answered.
    pub fn asks(&self, near: &Host, name: &str, addresses: &[&str]) -> Result<[[u64; 2]; 3], String> {
        let (before, linux) = (self.received(), self.router.host().linux_forwarded().unwrap());
        near.asks(addresses, REQUESTS).unwrap_or_else(|lost| panic!("{name}: {lost}"));
        let (after, linux) = (self.received(), self.router.host().linux_forwarded().unwrap() - linux);
        let took = [0, 1, 2].map(|n| [0, 1].map(|side| after[n][side] - before[n][side]));
        let own = NETWORKS.iter().zip(took).find(|((of, _), _)| *of == name).unwrap().1;
        let all = REQUESTS * addresses.len() as u64;
        if own.iter().any(|took| *took < all) || linux > REQUESTS / 2 {
            let routes = self.router.ask(&format!("show routes --vrf {name}")).unwrap_or_default();
            return Err(format!("{name}: {own:?} for {addresses:?}, {linux} by Linux; {routes}"));
        }
        Ok(took)
    }

    /// Changes the router.
    pub fn run(&self, commands: &str) {
        self.router.host().run(commands).unwrap();
    }

    /// Until a host is answered from an address, or is not any more.
    pub fn answered(&self, from: &Host, to: &str, by: &str) {
        wait_for(&format!("{to} to be answered by {by}"), Duration::from_secs(10), || {
            let said = from.run(&format!("ping -n -c 1 -W 1 {to} 2>&1 || true")).unwrap();
            if said.contains(by) { Ok(()) } else { Err(format!("{said}\n{}", self.router.log())) }
        })
        .unwrap();
    }
}

/// What comes in by near ports may pass in the driver, the rest workers.
pub fn configuration() -> String {
    let port = |name: &str, side, lane| format!("[[port]]\nname = \"{name}-{side}\"\nlane = \"{lane}\"\n");
    NETWORKS.iter().map(|(name, _)| port(name, "near", "express") + &port(name, "far", "worker")).collect()
}

fn addresses(host: &Host, interface: &str, side: u16, last: u16) {
    host.run(&format!(
        "ip address add 10.0.{side}.{last}/24 dev {interface}
         ip address add 2001:db8:{side}::{last}/64 dev {interface} nodad"
    ))
    .unwrap();
}
