//! A router with a bond of two members, to a host that has one as well, and a third host behind it.
//!
//! ```text
//!   left ================= router ---------------- right
//!   bond0: eth0, eth1      bond0: left0, left1     eth0
//!     10.1.0.2         10.1.0.1     right 10.2.0.1  10.2.0.2
//!     .10 10.10.1.2    10.10.1.1 .10
//! ```
//!
//! IPv6 has 2001:db8:1::/64, 2001:db8:2::/64 and, in the VLAN, 2001:db8:10:1::/64, with the same
//! last numbers.

use std::time::Duration;

use lab::{Host, Lab, Router, wait_for};
use serde_json::Value;

use super::tagged::{address, vlan};
use crate::network::{Turn, turn};

/// The VLAN on the bond.
pub const TAG: u16 = 10;
/// The right host's addresses, and the left one's without a tag and with it.
pub const RIGHT: [&str; 2] = ["10.2.0.2", "2001:db8:2::2"];
pub const LEFT: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
pub const TAGGED: [&str; 2] = ["10.10.1.2", "2001:db8:10:1::2"];

/// Fields go in the order they are dropped.
pub struct Bonded {
    pub router: Router,
    pub left: Host,
    pub right: Host,
    _lab: Lab,
    _turn: Turn,
}

impl Bonded {
    /// The network without the bonds, its plane not yet started.
    pub fn stopped(name: &str, config: &str) -> Bonded {
        let turn = turn();
        let lab = Lab::new(name).unwrap();
        let (left, host, right) =
            (lab.host("left").unwrap(), lab.router("router").unwrap(), lab.host("right").unwrap());
        for member in 0..2 {
            let (one, other) = (format!("eth{member}"), format!("left{member}"));
            lab.link(left.end(&one), host.end(&other)).unwrap();
            // See `tagged.rs`.
            [(&left, one), (&host, other)].into_iter().for_each(|(host, port)| {
                host.run(&format!("ethtool -K {port} txvlan off rxvlan off")).unwrap();
            });
        }
        let outside =
            right.end("eth0").address(&format!("{}/24", RIGHT[0])).address(&format!("{}/64", RIGHT[1]));
        let inside = host.end("right").address("10.2.0.1/24").address("2001:db8:2::1/64");
        lab.link(inside, outside).unwrap();
        right.run("ip route add default via 10.2.0.1; ip route add default via 2001:db8:2::1").unwrap();
        let router = Router::stopped(&host, config).unwrap();
        Bonded { router, left, right, _lab: lab, _turn: turn }
    }

    /// Makes the bonds at both ends, with addresses and the VLAN on them.
    pub fn bond(&self, options: &str) {
        for (host, members, last) in
            [(&self.left, ["eth0", "eth1"], 2), (self.router.host(), ["left0", "left1"], 1)]
        {
            host.run(&format!("ip link add bond0 type bond {options} && ip link set bond0 up")).unwrap();
            for member in members {
                host.run(&format!(
                    "ip link set {member} down && ip link set {member} master bond0 && ip link set {member} up"
                ))
                .unwrap();
            }
            host.run(&format!(
                "ip address add 10.1.0.{last}/24 dev bond0
                 ip address add 2001:db8:1::{last}/64 dev bond0 nodad"
            ))
            .unwrap();
            vlan(host, "bond0", TAG);
            address(host, &format!("bond0.{TAG}"), TAG, 1, last);
        }
        // A veth takes redirected frames where this was said while both ends are up.
        for (host, port) in self.members() {
            host.run(&format!("ethtool -K {port} gro off; ethtool -K {port} gro on")).unwrap();
        }
        self.left.run("ip route add default via 10.1.0.1; ip route add default via 2001:db8:1::1").unwrap();
        // What comes by the VLAN is answered by it.
        for (family, from, gateway) in [("-4", TAGGED[0], "10.10.1.1"), ("-6", TAGGED[1], "2001:db8:10:1::1")]
        {
            self.left
                .run(&format!(
                    "ip {family} rule add from {from} table 10 && ip {family} route add default via {gateway} table 10"
                ))
                .unwrap();
        }
    }

    /// The ends of the two links.
    pub fn members(&self) -> [(&Host, &'static str); 4] {
        let (left, router) = (&self.left, self.router.host());
        [(left, "eth0"), (router, "left0"), (left, "eth1"), (router, "left1")]
    }

    /// Waits until each host answers the other, in both families, with the tag and without.
    pub fn reachable(&self) {
        let asked = RIGHT.map(|to| (&self.left, to)).into_iter();
        let asked = asked.chain(LEFT.into_iter().chain(TAGGED).map(|to| (&self.right, to)));
        for (from, to) in asked {
            let state = || {
                let bonds = self.router.host().run("ip -d link; ip neighbour; cat /proc/net/bonding/bond0");
                format!("{}\n{}", bonds.unwrap_or_default(), self.router.log())
            };
            from.reaches(to, Duration::from_secs(20)).unwrap_or_else(|e| panic!("{e}\n{}", state()));
        }
    }

    /// What `show interfaces` says of one.
    pub fn interface(&self, name: &str) -> Value {
        let shown = self.router.subject("interfaces").unwrap();
        let is = |interface: &&Value| interface["name"] == name;
        shown.as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("no {name}: {shown}")).clone()
    }

    /// Why Linux has an interface to itself; none where the plane forwards by it.
    pub fn why(&self, name: &str) -> Option<String> {
        let interface = self.interface(name);
        let why = interface["why"].as_str().unwrap().to_owned();
        assert_eq!(interface["adopted"], why.is_empty(), "{interface}");
        Some(why).filter(|why| !why.is_empty())
    }

    /// Waits until the plane forwards by the bond and what lies on it.
    pub fn becomes_ours(&self) {
        let names = ["left0", "left1", "bond0", "bond0.10"];
        wait_for("the bond is adopted", Duration::from_secs(10), || {
            match names.iter().find_map(|name| self.why(name).map(|why| format!("{name}: {why}"))) {
                None => Ok(()),
                Some(why) => Err(why),
            }
        })
        .unwrap_or_else(|e| panic!("{e}\n{}", self.router.log()));
    }

    /// Waits until the plane sends by these members of the bond.
    pub fn sends_by(&self, members: &[&str]) {
        wait_for("members that send", Duration::from_secs(20), || {
            let sending = self.interface("bond0")["sending"].clone();
            if sending == serde_json::json!(members) {
                Ok(())
            } else {
                Err(format!("{sending} send, not {members:?}"))
            }
        })
        .unwrap_or_else(|e| {
            panic!("{e}\n{}", self.router.host().run("cat /proc/net/bonding/bond0").unwrap())
        });
    }

    /// Packets that the plane took by all ports, in the driver or by workers.
    pub fn received(&self) -> u64 {
        self.count("received").iter().sum()
    }

    /// Packets that it sent by the members.
    pub fn sent(&self) -> [u64; 2] {
        let [first, second, ..] = self.count("sent");
        [first, second]
    }

    /// Of `left0`, `left1` and `right`.
    fn count(&self, way: &str) -> [u64; 3] {
        let shown = self.router.subject("ports").unwrap();
        let of = |name: &str| {
            let port = shown.as_array().unwrap().iter().find(|port| port["name"] == name);
            let packets = |lane: &str| port.map_or(0, |port| port[way][lane]["packets"].as_u64().unwrap());
            packets("express") + packets("worker")
        };
        ["left0", "left1", "right"].map(of)
    }
}
