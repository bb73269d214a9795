//! What comes in by an interface of a VRF is forwarded by the VRF's table: in the driver where it
//! comes by one side, by a worker where it comes by the other. Three networks have the same
//! addresses: two of VRFs, and one of neither.
//!
//! ```text
//!   near N ---------------------- router ---------------------- far N     N: red, blue (VRFs) and plain (none)
//!          10.0.1.2      10.0.1.1        10.0.2.1      10.0.2.2
//!          2001:db8:1::2      ::1        2001:db8:2::1      ::2
//! ```

use std::time::Duration;

use lab::{Host, Lab, Router, inside, wait_for};

use crate::network::{Turn, turn};

/// The networks; the tables of those that are VRFs.
const NETWORKS: [(&str, Option<u32>); 3] = [("red", Some(1001)), ("blue", Some(1002)), ("plain", None)];
const FAR: [&str; 2] = ["10.0.2.2", "2001:db8:2::2"];
/// Requests to each address.
const REQUESTS: u64 = 50;

/// Fields go in the order they are dropped.
struct Vrfs {
    router: Router,
    near: [Host; 3],
    far: [Host; 3],
    _lab: Lab,
    _turn: Turn,
}

impl Vrfs {
    fn new() -> Vrfs {
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

    /// Packets that a port took, in the driver and by workers.
    fn received(&self, port: &str) -> u64 {
        let shown = self.router.show("ports").unwrap();
        let of = shown.as_array().unwrap().iter().find(|shown| shown["name"] == port).unwrap();
        let lane = |lane: &str| of["received"][lane]["packets"].as_u64().unwrap();
        lane("express") + lane("worker")
    }

    /// Each near host asks its far one; the plane takes all of it, by that network's ports alone,
    /// and Linux next to none.
    fn plane_forwards(&self) {
        for (near, (name, _)) in self.near.iter().zip(NETWORKS) {
            for address in FAR {
                // An interface that has just come is Linux's for a moment.
                wait_for("the plane to forward", Duration::from_secs(20), || self.asks(near, name, address))
                    .unwrap();
            }
        }
    }

    /// One host asks an address behind the router; what is wrong with how it was answered.
    fn asks(&self, near: &Host, name: &str, address: &str) -> Result<(), String> {
        let ports = NETWORKS.map(|(of, _)| [format!("{of}-near"), format!("{of}-far")]);
        let count = || ports.clone().map(|two| two.map(|port| self.received(&port)));
        let (before, linux) = (count(), self.router.host().linux_forwarded().unwrap());
        let said = near.run(&format!("ping -q -c {REQUESTS} -i 0.02 -W 5 {address}")).unwrap();
        assert!(said.contains(" 0% packet loss"), "{name}: {said}");
        let (after, linux) = (count(), self.router.host().linux_forwarded().unwrap() - linux);
        for (n, (of, _)) in NETWORKS.iter().enumerate() {
            let took = [0, 1].map(|side| after[n][side] - before[n][side]);
            assert!(*of == name || took.iter().all(|took| *took < REQUESTS / 2), "{of} took {took:?}");
            if *of == name && (took.iter().any(|took| *took < REQUESTS) || linux > REQUESTS / 2) {
                let routes = self.router.ask(&format!("show routes --vrf {name}")).unwrap_or_default();
                return Err(format!("{name}: {took:?} for {address}, {linux} by Linux; {routes}"));
            }
        }
        Ok(())
    }

    fn run(&self, commands: &str) {
        self.router.host().run(commands).unwrap();
    }

    /// Until a host is answered from an address, or is not any more.
    fn answered(&self, from: &Host, to: &str, by: &str) {
        wait_for(&format!("{to} to be answered by {by}"), Duration::from_secs(10), || {
            let said = from.run(&format!("ping -n -c 1 -W 1 {to} 2>&1 || true")).unwrap();
            if said.contains(by) { Ok(()) } else { Err(format!("{said}\n{}", self.router.log())) }
        })
        .unwrap();
    }
}

fn configuration() -> String {
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

fn forwarded() {
    let net = Vrfs::new();
    let [red, blue, _] = &net.near;
    net.plane_forwards();
    let shown = net.router.ask("show interfaces").unwrap();
    assert!(shown.lines().any(|line| line.contains("red-near") && line.contains(" red ")), "{shown}");

    // The same prefix says something else in each table, and what a VRF's does not say, the main
    // one does.
    for far in &net.far {
        far.run("ip address add 10.9.0.1/32 dev lo").unwrap();
    }
    net.run("ip route add 10.9.0.0/16 via 10.0.2.2 vrf red; ip route add prohibit 10.9.0.0/16 vrf blue");
    for near in [red, blue] {
        near.run("ip route add 10.9.0.0/16 via 10.0.1.1").unwrap();
    }
    net.answered(red, "10.9.0.1", "bytes from 10.9.0.1");
    net.answered(blue, "10.9.0.1", "From 10.0.1.1 icmp_seq=1 Packet filtered");
    // The first question has programs checked by the kernel, which takes an emulated machine its
    // time.
    wait_for("an explanation", Duration::from_secs(60), || {
        let explained = net.router.ask("explain '10.0.1.2 > 10.9.0.1 udp 5:6 in blue-near'");
        explained
            .map_err(|e| e.to_string())
            .and_then(|said| if said.contains("prohibit") { Ok(()) } else { Err(said) })
    })
    .unwrap();
    let routes = net.router.ask("show routes --vrf red 10.9.0.1").unwrap();
    assert!(routes.contains("via 10.0.2.2 dev red-far") && !routes.contains("Linux"), "{routes}");
    assert!(net.router.ask("show routes --vrf green").is_err());

    // Out of a VRF by the next hop's interface, and back: 10.77.0.2 is near and red alone,
    // 10.88.0.2 far and in no VRF.
    red.run("ip address add 10.77.0.2/32 dev lo; ip route add 10.88.0.0/16 via 10.0.1.1 src 10.77.0.2")
        .unwrap();
    net.far[2].run("ip address add 10.88.0.2/32 dev lo; ip route add 10.77.0.0/16 via 10.0.2.1").unwrap();
    net.run(
        "ip route add 10.77.0.0/16 via 10.0.1.2 dev red-near onlink; ip route add 10.88.0.0/16 via 10.0.2.2",
    );
    net.answered(red, "10.88.0.2", "bytes from 10.88.0.2");
    // (The way back to who asks is in the VRF then as well.)
    net.run("ip route add 10.77.0.0/16 via 10.0.1.2 vrf red");
    net.run("ip route add vrf red unreachable default metric 4278198272");
    net.answered(red, "10.88.0.2", "Unreachable");
    net.run("ip route del vrf red unreachable default metric 4278198272");
    net.answered(red, "10.88.0.2", "bytes from 10.88.0.2");

    // An answer of the router's own comes from the VRF's address.
    let way = red.run("traceroute -n -q 1 -w 5 10.0.2.2").unwrap();
    assert!(way.contains("10.0.1.1") && way.contains("10.0.2.2"), "{way}");
}

fn changes() {
    let net = Vrfs::new();
    let [red, blue, _] = &net.near;
    // Reverse paths are looked for in the VRF's table.
    net.run("sysctl -qw net.ipv4.conf.red-near.rp_filter=1; sysctl -qw net.ipv4.conf.blue-far.rp_filter=1");
    net.plane_forwards();

    // A VRF goes, and comes back with another table.
    net.run("ip link del red");
    net.near[1].reaches(FAR[0], Duration::from_secs(10)).unwrap();
    net.run(
        "ip link add red type vrf table 77 && ip link set red up
         ip link set red-near master red && ip link set red-far master red
         ip address replace 2001:db8:1::1/64 dev red-near nodad
         ip address replace 2001:db8:2::1/64 dev red-far nodad",
    );
    for address in FAR {
        red.reaches(address, Duration::from_secs(15)).unwrap();
    }
    net.plane_forwards();

    // Many more, which cost little and keep nobody waiting.
    let many: String = (0..100)
        .map(|n| {
            format!(
                "link add vrf{n} type vrf table {}\nroute add 10.0.0.0/8 dev lo table {}\n",
                5000 + n,
                5000 + n
            )
        })
        .collect();
    net.run(&format!("ip -batch - <<'END'\n{many}END"));
    wait_for("many VRFs", Duration::from_secs(60), || {
        let routes = net.router.ask("show routes --vrf vrf99");
        match routes {
            Ok(routes) if routes.contains("10.0.0.0/8") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .unwrap();
    net.plane_forwards();
    blue.reaches(FAR[1], Duration::from_secs(5)).unwrap();
    let audit = net.router.show("mirror").unwrap()["audit"]["differences"].clone();
    assert_eq!(audit, 0, "{}", net.router.log());
}

/// Linux would not know the members by their names in a copy of the rules.
fn with_rules() {
    let net = Vrfs::new();
    let plain = configuration().replace("express", "auto");
    let reload = |config: &str| {
        net.router.configure(config).unwrap();
        net.router.ask("reload").unwrap();
    };
    reload(&(plain.clone() + "[filter.forward]\nrules = \"drop proto tcp to any port 99\"\n"));
    let why = |net: &Vrfs, name: &str| {
        let shown = net.router.show("interfaces").unwrap();
        let of = shown.as_array().unwrap().iter().find(|shown| shown["name"] == name).unwrap().clone();
        of["why"].as_str().unwrap().to_owned()
    };
    assert!(why(&net, "red-near").contains("filter"), "{}", why(&net, "red-near"));
    assert_eq!(why(&net, "plain-near"), "");
    for near in &net.near {
        near.reaches(FAR[0], Duration::from_secs(10)).unwrap();
    }
    reload(&plain);

    // Flows of the same addresses are different ones.
    reload(&(configuration().replace("express", "worker") + "[flow]\nmemory = 16\n"));
    for (near, (name, _)) in net.near.iter().zip(NETWORKS) {
        wait_for("the plane to forward", Duration::from_secs(20), || net.asks(near, name, FAR[0])).unwrap();
        near.run(&format!("ping -q -e 77 -c 2 -i 0.1 -W 5 {}", FAR[0])).unwrap();
    }
    let flows = net.router.show("flows --port 77").unwrap();
    let mut ways: Vec<String> =
        flows["flows"].as_array().unwrap().iter().map(|flow| flow["ports"].to_string()).collect();
    ways.sort();
    let wanted = ["blue", "plain", "red"].map(|name| format!("[\"{name}-near\",\"{name}-far\"]"));
    assert_eq!(ways, wanted, "{flows}");
    assert!(
        flows["flows"].as_array().unwrap().iter().all(|flow| flow["packets"] == serde_json::json!([2, 2])),
        "{flows}"
    );
    reload(&plain);
    net.plane_forwards();
}

#[test]
fn where_rules_are_they_are_linuxs() {
    inside!("6.12", with_rules);
}

mod by_their_own_tables {
    use super::*;

    #[test]
    fn on_6_12() {
        inside!("6.12", forwarded);
    }

    #[test]
    fn on_the_newest() {
        inside!("newest", forwarded);
    }
}

#[test]
fn as_they_come_and_go() {
    inside!("6.12", changes);
}
