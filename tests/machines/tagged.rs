//! A router whose ports carry VLANs, between two hosts that are tagged as well.
//!
//! ```text
//!   left ----------------- router ---------------- right
//!   eth0                   left     right          eth0
//!     eth0.T  10.T.1.2  10.T.1.1 .T  .T 10.T.2.1  10.T.2.2  eth0.T
//! ```
//!
//! That is for each tag T; IPv6 has 2001:db8:T:1::/64 and 2001:db8:T:2::/64, with the same last
//! numbers. Each host reaches the other by its router's address in the VLAN.

use std::time::Duration;

use lab::{Host, Lab, Router};
use serde_json::Value;

use crate::network::{Turn, turn};

/// Fields go in the order they are dropped.
pub struct Tagged {
    pub router: Router,
    pub left: Host,
    pub right: Host,
    _lab: Lab,
    _turn: Turn,
}

impl Tagged {
    /// The network with these tags, its plane not yet started.
    pub fn stopped(name: &str, config: &str, tags: &[u16]) -> Tagged {
        let turn = turn();
        let lab = Lab::new(name).unwrap();
        let (left, host, right) =
            (lab.host("left").unwrap(), lab.router("router").unwrap(), lab.host("right").unwrap());
        lab.link(left.end("eth0"), host.end("left")).unwrap();
        lab.link(host.end("right"), right.end("eth0")).unwrap();
        for (host, port) in [(&left, "eth0"), (&host, "left"), (&host, "right"), (&right, "eth0")] {
            // Else a veth carries the tag beside the frame, where an XDP program does not see it.
            host.run(&format!("ethtool -K {port} txvlan off rxvlan off")).unwrap();
            tags.iter().for_each(|tag| vlan(host, port, *tag));
        }
        for tag in tags {
            address(&left, &format!("eth0.{tag}"), *tag, 1, 2);
            address(&host, &format!("left.{tag}"), *tag, 1, 1);
            address(&host, &format!("right.{tag}"), *tag, 2, 1);
            address(&right, &format!("eth0.{tag}"), *tag, 2, 2);
        }
        let router = Router::stopped(&host, config).unwrap();
        let net = Tagged { router, left, right, _lab: lab, _turn: turn };
        tags.iter().for_each(|tag| net.add_routes(*tag));
        net
    }

    /// Lets the hosts reach each other in a VLAN by the router's address there.
    pub fn add_routes(&self, tag: u16) {
        for (host, own, other) in [(&self.left, 1, 2), (&self.right, 2, 1)] {
            host.run(&format!(
                "ip route add 10.{tag}.{other}.0/24 via 10.{tag}.{own}.1
                 ip route add 2001:db8:{tag}:{other}::/64 via 2001:db8:{tag}:{own}::1"
            ))
            .unwrap();
        }
    }

    /// The right host's addresses in a VLAN.
    pub fn on_the_right(tag: u16) -> [String; 2] {
        [format!("10.{tag}.2.2"), format!("2001:db8:{tag}:2::2")]
    }

    /// Waits until the right host answers the left one in a VLAN, in both families.
    pub fn reachable(&self, tag: u16) {
        for address in Tagged::on_the_right(tag) {
            let state = || self.router.host().run("ip address; ip route; ip -6 route; ip neighbour").unwrap();
            self.left
                .reaches(&address, Duration::from_secs(10))
                .unwrap_or_else(|e| panic!("{e}\n{}\n{}", state(), self.router.log()));
        }
    }

    /// Packets that the plane took by all ports, in the driver or by workers.
    pub fn received(&self) -> u64 {
        let shown = self.router.subject("ports").unwrap();
        let packets = |port: &Value| {
            let of = |lane: &str| port["received"][lane]["packets"].as_u64().unwrap();
            of("express") + of("worker")
        };
        shown.as_array().unwrap().iter().map(packets).sum()
    }

    /// Puts the router's two interfaces of a VLAN into a VRF, with their addresses.
    pub fn put_into_vrf(&self, tag: u16, name: &str, table: u32) {
        let host = self.router.host();
        host.run(&format!("ip link add {name} type vrf table {table} && ip link set {name} up")).unwrap();
        for interface in [format!("left.{tag}"), format!("right.{tag}")] {
            // An interface loses its IPv6 addresses on the way.
            host.run(&format!(
                "ip link set {interface} master {name}; ip -6 address flush {interface} scope global"
            ))
            .unwrap();
            let side = if interface.starts_with("left") { 1 } else { 2 };
            host.run(&format!("ip address add 2001:db8:{tag}:{side}::1/64 dev {interface} nodad")).unwrap();
        }
    }
}

/// A VLAN of an interface, without addresses: `eth0.10`.
pub fn vlan(host: &Host, port: &str, tag: u16) {
    let name = format!("{port}.{tag}");
    host.run(&format!("ip link add link {port} name {name} type vlan id {tag} && ip link set {name} up"))
        .unwrap();
}

/// Gives an interface its addresses in a VLAN.
pub fn address(host: &Host, interface: &str, tag: u16, side: u16, last: u16) {
    host.run(&format!(
        "ip address add 10.{tag}.{side}.{last}/24 dev {interface}
         ip address add 2001:db8:{tag}:{side}::{last}/64 dev {interface} nodad"
    ))
    .unwrap();
}
