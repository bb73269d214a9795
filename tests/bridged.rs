//! A bridge of Linux's with an address, of Bifrost's ports, with hosts behind its members.
//!
//! ```text
//!   a ----------------- lan0 \
//!   b ----------------- lan1  br0  router  wan ------------ server
//!   c, d --- switch --- lan2 |  10.1.0.1    10.2.0.1         10.2.0.2
//!   m ---------/------- lan3 /
//!     10.1.0.10 to .14
//! ```
//!
//! IPv6 has 2001:db8:1::/64 and 2001:db8:2::/64 with the same last numbers. `switch` is a bridge
//! that has no addresses. Behind c is 10.9.0.0/24. m has a second interface behind the switch, with
//! the same Ethernet address, and no IPv6: it moves there without a word.

use std::time::Duration;

use lab::{Host, Lab, Router, wait_for};
use serde_json::Value;

use crate::network::{SERVER, Turn, ports, turn};

/// Hosts on the bridge, with the last number of their addresses.
pub const HOSTS: [(&str, u8); 4] = [("a", 10), ("b", 11), ("c", 12), ("d", 13)];
pub const MEMBERS: [&str; 4] = ["lan0", "lan1", "lan2", "lan3"];
/// Link address of m, wherever it is.
pub const MOVER: &str = "02:00:00:00:00:0e";
/// Requests to each address.
const REQUESTS: u64 = 20;
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Fields go in the order they are dropped.
pub struct Bridged {
    pub router: Router,
    pub server: Host,
    pub hosts: [Host; 4],
    pub mover: Host,
    pub lab: Lab,
    _turn: Turn,
}

pub fn addresses(last: u8) -> [String; 2] {
    [format!("10.1.0.{last}"), format!("2001:db8:1::{last}")]
}

/// A program of `ip`'s that makes the bridge.
/// The address is its own: else that would be another with another member, for which hosts are not
/// told.
pub fn bridge() -> String {
    let members = MEMBERS.map(|member| format!("ip link set {member} master br0; ")).concat();
    format!(
        "ip link add br0 address 02:00:00:00:00:01 type bridge mcast_snooping 0; {members} ip link set br0 up; \
         ip address add 10.1.0.1/24 dev br0; ip address add 2001:db8:1::1/64 dev br0 nodad; \
         ip route add 10.9.0.0/24 via 10.1.0.12"
    )
}

impl Bridged {
    /// The network without the bridge, its plane not yet started.
    pub fn stopped(lane: &str) -> Bridged {
        let turn = turn();
        let lab = Lab::new("bridged").unwrap();
        let host = lab.router("router").unwrap();
        let (server, switch) = (lab.host("server").unwrap(), lab.host("switch").unwrap());
        let (hosts, mover) = (HOSTS.map(|(name, _)| lab.host(name).unwrap()), lab.host("m").unwrap());
        mover.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 net.ipv4.conf.all.arp_ignore=1").unwrap();
        let [a, b, c, d] = &hosts;
        lab.link(a.end("eth0"), host.end("lan0")).unwrap();
        lab.link(b.end("eth0"), host.end("lan1")).unwrap();
        lab.link(switch.end("uplink"), host.end("lan2")).unwrap();
        lab.link(mover.end("eth0").mac(MOVER), host.end("lan3")).unwrap();
        lab.link(c.end("eth0"), switch.end("toc")).unwrap();
        lab.link(d.end("eth0"), switch.end("tod")).unwrap();
        lab.link(mover.end("eth1").mac(MOVER), switch.end("tom")).unwrap();
        let join =
            ["uplink", "toc", "tod", "tom"].map(|port| format!("ip link set {port} master sw; ")).concat();
        switch
            .run(&format!("ip link add sw type bridge mcast_snooping 0; {join} ip link set sw up"))
            .unwrap();
        for (host, (_, last)) in hosts.iter().zip(HOSTS) {
            let [four, six] = addresses(last);
            host.run(&format!(
                "ip address add {four}/24 dev eth0; ip address add {six}/64 dev eth0 nodad; \
                 ip route add default via 10.1.0.1; ip route add default via 2001:db8:1::1"
            ))
            .unwrap();
        }
        c.run("ip address add 10.9.0.1/24 dev lo").unwrap();
        lab.link(
            host.end("wan").address("10.2.0.1/24").address("2001:db8:2::1/64"),
            server.end("eth0").address("10.2.0.2/24").address("2001:db8:2::2/64"),
        )
        .unwrap();
        server.run("ip route add default via 10.2.0.1; ip route add default via 2001:db8:2::1").unwrap();
        let config = ports(lane, &[&MEMBERS[..], &["wan"]].concat());
        let router = Router::stopped(&host, &config).unwrap();
        Bridged { router, server, hosts, mover, lab, _turn: turn }
    }

    pub fn run(&self, script: &str) {
        self.router.host().run(script).unwrap();
    }

    pub fn interface(&self, name: &str) -> Value {
        let shown = self.router.subject("interfaces").unwrap();
        let is = |interface: &&Value| interface["name"] == name;
        shown.as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("no {name}: {shown}")).clone()
    }

    /// Waits until Linux has the bridge to itself for a reason.
    pub fn is_linuxs(&self, why: &str) {
        wait_for("a reason", PATIENCE, || {
            let interface = self.interface("br0");
            let said = interface["why"].as_str().unwrap();
            if said.contains(why) && interface["adopted"] == false { Ok(()) } else { Err(said.to_owned()) }
        })
        .unwrap();
    }

    /// Waits until the plane sends by these members.
    pub fn sends_by(&self, members: &[&str]) {
        wait_for("members that send", PATIENCE, || {
            let interface = self.interface("br0");
            let is = interface["adopted"] == true && interface["sending"] == serde_json::json!(members);
            if is { Ok(()) } else { Err(interface.to_string()) }
        })
        .unwrap_or_else(|e| panic!("{e}\n{}", self.state()));
    }

    /// Waits until the server reaches these hosts, and they it, in both families.
    pub fn reachable(&self, hosts: &[usize]) {
        for &host in hosts {
            for (to, server) in addresses(HOSTS[host].1).iter().zip(SERVER) {
                let asked = self.server.reaches(to, PATIENCE).and(self.hosts[host].reaches(server, PATIENCE));
                asked.unwrap_or_else(|e| panic!("{e}\n{}", self.state()));
            }
        }
    }

    /// Packets that the plane took by all ports, and those that Linux forwarded.
    pub fn counted(&self) -> (u64, u64) {
        let shown = self.router.subject("ports").unwrap();
        let of = |port: &Value| ["express", "worker"].map(|lane| port["received"][lane]["packets"].as_u64());
        let taken = shown.as_array().unwrap().iter().flat_map(of).map(Option::unwrap).sum();
        (taken, self.router.host().linux_forwarded().unwrap())
    }

    /// The server asks these hosts: how many packets the plane took, and how many Linux forwarded.
    fn ask(&self, hosts: &[usize]) -> (u64, u64) {
        let before = self.counted();
        for &host in hosts {
            for to in addresses(HOSTS[host].1) {
                let said = self.server.run(&format!("ping -q -c {REQUESTS} -i 0.01 -W 2 {to}")).unwrap();
                assert!(said.contains(" 0% packet loss"), "{to}: {said}\n{}", self.state());
            }
        }
        let after = self.counted();
        (after.0 - before.0, after.1 - before.1)
    }

    pub fn plane_forwards(&self, hosts: &[usize]) {
        self.reachable(hosts);
        let (taken, forwarded) = self.ask(hosts);
        let packets = 4 * REQUESTS * hosts.len() as u64;
        // Linux resolves neighbours, and learns where hosts are.
        let plane = taken + forwarded >= packets && forwarded < packets / 5;
        assert!(plane, "{taken} taken, {forwarded} by Linux, of {packets}\n{}", self.state());
    }

    pub fn linux_forwards(&self, hosts: &[usize]) {
        self.reachable(hosts);
        let (_, forwarded) = self.ask(hosts);
        assert!(forwarded >= 4 * REQUESTS * hosts.len() as u64, "Linux forwarded {forwarded}");
    }

    /// Moves the mover's addresses from one of its interfaces to the other, without a word on the
    /// link.
    pub fn move_host(&self, from: &str, into: &str) {
        let gateway = self.router.host().mac("br0").unwrap();
        self.mover
            .run(&format!(
                "ip address flush dev {from}; ip address add 10.1.0.14/24 dev {into}; \
             ip neighbour replace 10.1.0.1 lladdr {gateway} dev {into} nud permanent; \
             ip route add default via 10.1.0.1 dev {into}"
            ))
            .unwrap();
    }

    /// For the message of a failure.
    pub fn state(&self) -> String {
        let linux = self.router.host().run("ip -d link; bridge fdb show br br0; ip neighbour; ip address");
        let plane = ["interfaces", "ports", "neighbours", "drops"]
            .map(|what| self.router.ask(&format!("show {what}")).unwrap_or_else(|e| e.to_string()));
        format!("{}\n{}\n{}", linux.unwrap_or_default(), plane.join("\n"), self.router.log())
    }
}
