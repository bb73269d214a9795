//! A bridge that tells VLANs apart (`vlan_filtering 1`) is routed by the plane in each of its
//! VLANs, in both lanes: what comes by a member without a tag is of the member's own VLAN, and by a
//! trunk with the tag. The same Ethernet address may be in two VLANs behind two members. What Linux
//! says of VLANs is followed, and what is bridged stays Linux's.
//!
//! ```text
//!                VLAN
//!   a -------------10- ten    \
//!   e -------------20- twenty  br0 router wan ------ server
//!   b -10-\                   |                      10.2.0.2
//!   c -20- switch ---- trunk  /  br0     10.1.0.1 (VLAN 1, without a tag)
//!   d --1-/                      br0.10  10.10.0.1
//!                                br0.20  10.20.0.1
//! ```
//!
//! IPv6 has 2001:db8:V::/64 for 10.V.0.0/24, with the same last numbers. `c` has the Ethernet
//! address of `a`.

use std::time::Duration;

use lab::{Host, Lab, Router, inside, wait_for};
use serde_json::Value;

use crate::network::{SERVER, Turn, overheard, turn};

/// Hosts, with their VLAN and the last number of their addresses.
const HOSTS: [(&str, u16, u16); 5] = [("a", 10, 2), ("e", 20, 2), ("b", 10, 3), ("c", 20, 3), ("d", 1, 3)];
const A: usize = 0;
const E: usize = 1;
const B: usize = 2;
const C: usize = 3;
const D: usize = 4;
const TWICE: &str = "02:00:00:00:00:aa";
const REQUESTS: u64 = 50;
const PATIENCE: Duration = Duration::from_secs(20);

/// Fields go in the order they are dropped.
struct Vlans {
    router: Router,
    server: Host,
    hosts: [Host; 5],
    _lab: Lab,
    _turn: Turn,
}

fn addresses(vlan: u16, last: u16) -> [String; 2] {
    [format!("10.{vlan}.0.{last}"), format!("2001:db8:{vlan}::{last}")]
}

fn of(host: usize) -> [String; 2] {
    let (_, vlan, last) = HOSTS[host];
    addresses(vlan, last)
}

fn configuration(lan: &str, wan: &str) -> String {
    let port = |name: &str, lane: &str| format!("[[port]]\nname = \"{name}\"\nlane = \"{lane}\"\n");
    ["ten", "twenty", "trunk"].map(|name| port(name, lan)).concat() + &port("wan", wan)
}

impl Vlans {
    fn new() -> Vlans {
        let turn = turn();
        let lab = Lab::new("vlans").unwrap();
        let host = lab.router("router").unwrap();
        let (server, switch) = (lab.host("server").unwrap(), lab.host("switch").unwrap());
        let hosts = HOSTS.map(|(name, ..)| lab.host(name).unwrap());
        lab.link(hosts[A].end("eth0").mac(TWICE), host.end("ten")).unwrap();
        lab.link(hosts[E].end("eth0"), host.end("twenty")).unwrap();
        lab.link(switch.end("uplink"), host.end("trunk")).unwrap();
        lab.link(hosts[B].end("eth0"), switch.end("tob")).unwrap();
        lab.link(hosts[C].end("eth0").mac(TWICE), switch.end("toc")).unwrap();
        lab.link(hosts[D].end("eth0"), switch.end("tod")).unwrap();
        // Else a veth carries the tag beside the frame, where an XDP program does not see it.
        switch
            .run(
                "ethtool -K uplink txvlan off rxvlan off
                 ip link add sw type bridge mcast_snooping 0 vlan_filtering 1; ip link set sw up
                 for port in uplink tob toc tod; do ip link set $port master sw; done
                 bridge vlan add dev uplink vid 10; bridge vlan add dev uplink vid 20
                 bridge vlan add dev tob vid 10 pvid untagged; bridge vlan add dev toc vid 20 pvid untagged",
            )
            .unwrap();
        host.run(
            "ethtool -K trunk txvlan off rxvlan off
             ip link add br0 address 02:00:00:00:00:01 type bridge mcast_snooping 0 vlan_filtering 1
             ethtool -K br0 txvlan off
             for port in ten twenty trunk; do ip link set $port master br0; done
             bridge vlan del dev ten vid 1; bridge vlan add dev ten vid 10 pvid untagged
             bridge vlan del dev twenty vid 1; bridge vlan add dev twenty vid 20 pvid untagged
             for vlan in 10 20; do
                 bridge vlan add dev trunk vid $vlan; bridge vlan add dev br0 vid $vlan self
                 ip link add link br0 name br0.$vlan type vlan id $vlan
             done
             ip link set br0 up; ip link set br0.10 up; ip link set br0.20 up
             ip link add link br0.10 name br0.10.7 type vlan id 7; ip link set br0.10.7 up",
        )
        .unwrap();
        for (vlan, device) in [(1, "br0"), (10, "br0.10"), (20, "br0.20")] {
            let [four, six] = addresses(vlan, 1);
            host.run(&format!(
                "ip address add {four}/24 dev {device}; ip address add {six}/64 dev {device} nodad"
            ))
            .unwrap();
        }
        lab.link(
            host.end("wan").address("10.2.0.1/24").address("2001:db8:2::1/64"),
            server.end("eth0").address("10.2.0.2/24").address("2001:db8:2::2/64"),
        )
        .unwrap();
        server.run("ip route add default via 10.2.0.1; ip route add default via 2001:db8:2::1").unwrap();
        hosts.iter().zip(HOSTS).for_each(|(host, (_, vlan, last))| settle(host, vlan, last));
        let router = Router::start(&host, &configuration("express", "worker")).unwrap();
        Vlans { router, server, hosts, _lab: lab, _turn: turn }
    }

    fn run(&self, script: &str) {
        self.router.host().run(script).unwrap();
    }

    fn interface(&self, name: &str) -> Value {
        let shown = self.router.subject("interfaces").unwrap();
        let is = |interface: &&Value| interface["name"] == name;
        shown.as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("no {name}: {shown}")).clone()
    }

    /// Waits until an interface is the plane's on these ports, or Linux's for a reason.
    fn is(&self, name: &str, wanted: Result<&str, &str>) {
        wait_for(&format!("{name}: {wanted:?}"), PATIENCE, || {
            let shown = self.interface(name);
            let [port, why] = ["port", "why"].map(|field| shown[field].as_str().unwrap());
            let is = match wanted {
                Ok(ports) => shown["adopted"] == true && port == ports,
                Err(reason) => shown["adopted"] == false && why.contains(reason),
            };
            if is { Ok(()) } else { Err(shown.to_string()) }
        })
        .unwrap_or_else(|e| panic!("{}\n{e}", self.state()));
    }

    /// Packets that the plane took by all ports, and those that Linux forwarded.
    fn counted(&self) -> (u64, u64) {
        let shown = self.router.subject("ports").unwrap();
        let of = |port: &Value| ["express", "worker"].map(|lane| port["received"][lane]["packets"].as_u64());
        let taken = shown.as_array().unwrap().iter().flat_map(of).map(Option::unwrap).sum();
        (taken, self.router.host().linux_forwarded().unwrap())
    }

    /// A host asks addresses: how many packets the plane took, and how many Linux forwarded.
    fn ask(&self, from: &Host, to: &[String]) -> (u64, u64) {
        for to in to {
            from.reaches(to, PATIENCE).unwrap_or_else(|e| panic!("{}\n{e}", self.state()));
        }
        let before = self.counted();
        from.asks(to, REQUESTS).unwrap_or_else(|e| panic!("{}\n{}: {e}", self.state(), from.name()));
        let after = self.counted();
        (after.0 - before.0, after.1 - before.1)
    }

    /// The plane forwards between these hosts and the server, and between some of them.
    fn plane_forwards(&self, hosts: &[usize]) {
        let server = SERVER.map(str::to_owned);
        let ways = hosts.iter().map(|host| (*host, server.to_vec()));
        let across = hosts.windows(2).filter(|pair| HOSTS[pair[0]].1 != HOSTS[pair[1]].1);
        for (from, to) in ways.chain(across.map(|pair| (pair[0], of(pair[1]).to_vec()))) {
            // An interface that has just come is Linux's for a moment.
            wait_for("the plane to forward", PATIENCE, || {
                let (taken, forwarded) = self.ask(&self.hosts[from], &to);
                let packets = 2 * REQUESTS * to.len() as u64;
                let is = taken + forwarded >= packets && forwarded < packets / 5;
                if is {
                    Ok(())
                } else {
                    Err(format!("{to:?}: {taken} taken, {forwarded} by Linux, of {packets}"))
                }
            })
            .unwrap_or_else(|e| panic!("{}\n{}: {e}", self.state(), HOSTS[from].0));
        }
    }

    /// For the message of a failure.
    fn state(&self) -> String {
        let linux =
            self.router.host().run("bridge vlan; bridge fdb show br br0; ip neighbour; ip -d link show br0");
        let plane = ["interfaces", "ports", "neighbours", "drops"]
            .map(|what| self.router.ask(&format!("show {what}")).unwrap_or_else(|e| e.to_string()));
        format!("{}\n{}\n{}", linux.unwrap_or_default(), plane.join("\n"), self.router.log())
    }
}

/// Gives a host its addresses in a VLAN.
fn settle(host: &Host, vlan: u16, last: u16) {
    let ([four, six], [gateway4, gateway6]) = (addresses(vlan, last), addresses(vlan, 1));
    host.run(&format!(
        "ip address flush dev eth0 scope global; ip address add {four}/24 dev eth0
         ip address add {six}/64 dev eth0 nodad
         ip route replace default via {gateway4}; ip route replace default via {gateway6}"
    ))
    .unwrap();
}

/// What is in the same VLAN is bridged, by Linux.
fn what_is_bridged_is_linuxs(net: &Vlans) {
    let (taken, forwarded) = net.ask(&net.hosts[A], &of(B));
    assert!(taken < REQUESTS / 2 && forwarded < REQUESTS / 2, "{taken} taken, {forwarded} by Linux");
}

/// A frame of a VLAN that a member does not have goes nowhere.
fn vlans_that_a_member_does_not_have_stay_outside(net: &Vlans) {
    let seen = overheard(&net.server, "src net 10.20.0.0/24 or src net 10.10.0.0/24");
    let a = &net.hosts[A];
    a.run(
        "ethtool -K eth0 txvlan off; ip link add link eth0 name eth0.20 type vlan id 20; ip link set eth0.20 up
         ip address add 10.20.0.66/24 dev eth0.20
         ip neighbour add 10.20.0.1 lladdr 02:00:00:00:00:01 dev eth0.20 nud permanent
         ip route add 10.2.0.2 via 10.20.0.1 dev eth0.20",
    )
    .unwrap();
    let said = a.run("ping -c 5 -i 0.1 -W 1 10.2.0.2 || true").unwrap();
    assert!(said.contains(" 100% packet loss"), "{said}");
    a.run("ip link del eth0.20").unwrap();
    net.hosts[C].reaches(SERVER[0], PATIENCE).unwrap();
    wait_for("what may pass", PATIENCE, || match seen.output() {
        output if output.contains("10.20.0.3") => Ok(()),
        output => Err(output),
    })
    .unwrap();
    assert!(!seen.output().contains("10.20.0.66"), "{}", seen.output());
}

/// A virtual router of one VLAN: hosts of it are answered by whichever member they ask by, and sent
/// on.
fn virtual_routers_are_in_vlans(net: &Vlans) {
    let virtual_router = "[vrrp.ten]\ninterface = \"br0.10\"\nid = 7\naddresses = [\"10.10.0.254\"]\n";
    net.router.configure(&(configuration("express", "worker") + virtual_router)).unwrap();
    net.router.ask("reload").unwrap();
    for host in [A, B].map(|host| &net.hosts[host]) {
        host.run("ip route replace default via 10.10.0.254").unwrap();
        host.reaches("10.10.0.254", PATIENCE).unwrap_or_else(|e| panic!("{}\n{e}", net.state()));
        let known = host.run("ip neighbour show 10.10.0.254").unwrap();
        assert!(known.contains("00:00:5e:00:01:07"), "{known}");
        wait_for("the plane to forward", PATIENCE, || {
            let (taken, forwarded) = net.ask(host, &[SERVER[0].to_owned()]);
            let is = taken + forwarded >= 2 * REQUESTS && forwarded < REQUESTS / 2;
            if is { Ok(()) } else { Err(format!("{taken} taken, {forwarded} by Linux")) }
        })
        .unwrap_or_else(|e| panic!("{}\n{e}", net.state()));
    }
    let seen = overheard(&net.hosts[C], "arp host 10.10.0.254 or ether host 00:00:5e:00:01:07");
    net.hosts[A].run("ip neighbour flush dev eth0; ping -c 3 -i 0.2 10.10.0.254").unwrap();
    let heard = seen.output();
    assert!(!heard.contains("10.10.0.254") && !heard.contains("00:01:07"), "in another VLAN: {heard}");
}

fn forwarded() {
    let net = Vlans::new();
    for (name, ports) in [("br0", "trunk"), ("br0.10", "ten trunk"), ("br0.20", "twenty trunk")] {
        net.is(name, Ok(ports));
    }
    assert_eq!(net.interface("br0.20")["vlans"], serde_json::json!([20]));
    net.is("br0.10.7", Err("it has two tags"));
    net.plane_forwards(&[A, C, B, E, D]);
    what_is_bridged_is_linuxs(&net);
    vlans_that_a_member_does_not_have_stay_outside(&net);
    net.router.configure(&configuration("worker", "express")).unwrap();
    net.router.ask("reload").unwrap();
    net.plane_forwards(&[A, C, B, E, D]);
    what_is_bridged_is_linuxs(&net);
    vlans_that_a_member_does_not_have_stay_outside(&net);
    virtual_routers_are_in_vlans(&net);
    let audit = net.router.subject("mirror").unwrap()["audit"]["differences"].clone();
    assert_eq!(audit, 0, "{}", net.router.log());
}

fn changed() {
    let net = Vlans::new();
    net.plane_forwards(&[A, B, D]);
    // A trunk loses a VLAN, and has it again.
    net.run("bridge vlan del dev trunk vid 10");
    net.is("br0.10", Ok("ten"));
    assert!(
        net.hosts[B].run(&format!("ping -c 2 -W 1 {}", SERVER[0])).is_err(),
        "its VLAN is not on the trunk"
    );
    net.plane_forwards(&[A, C]);
    net.run("bridge vlan add dev trunk vid 10");
    net.is("br0.10", Ok("ten trunk"));
    net.plane_forwards(&[B]);
    // A member goes from one VLAN to another: first in a way that Linux alone can do.
    net.run("bridge vlan add dev twenty vid 10 untagged");
    net.is("br0.10", Err("leave by twenty without a tag, but come by it with one"));
    net.plane_forwards(&[E]);
    net.run("bridge vlan del dev twenty vid 20; bridge vlan add dev twenty vid 10 pvid untagged");
    net.is("br0.10", Ok("ten twenty trunk"));
    net.is("br0.20", Ok("trunk"));
    settle(&net.hosts[E], 10, 4);
    net.plane_forwards(&[E]);
    net.plane_forwards(&[A]);
    // What has no tag is in another VLAN, which Linux says of no interface.
    net.run("ip link set br0 type bridge vlan_default_pvid 30");
    net.plane_forwards(&[D]);
    assert!(net.router.host().run("bridge vlan show dev trunk").unwrap().contains("30 PVID"));
    // The bridge has none without a tag: its other VLANs go on.
    net.run("bridge vlan del dev br0 vid 30 self");
    net.is("br0", Err("it has no VLAN without a tag"));
    net.plane_forwards(&[A, C]);
    net.run("bridge vlan add dev br0 vid 30 pvid untagged self");
    net.plane_forwards(&[D]);
    // Nothing of ours has what comes by `ten` without a tag.
    net.run("ip link del br0.10");
    wait_for("Linux to have it", PATIENCE, || {
        let shown = net.router.subject("ports").unwrap();
        let ten = shown.as_array().unwrap().iter().find(|port| port["name"] == "ten").unwrap().clone();
        let why = ten["lane_reason"].as_str().unwrap_or_default();
        if why.contains("what has no tag is Linux's") { Ok(()) } else { Err(ten.to_string()) }
    })
    .unwrap();
    net.plane_forwards(&[C, D]);
    // VLANs are told apart no more, and again.
    net.run("ip link set br0 type bridge vlan_filtering 0");
    net.is("br0", Ok("ten twenty trunk"));
    net.run("ip link set br0 type bridge vlan_filtering 1 vlan_protocol 802.1ad");
    net.is("br0.20", Err("its tags are of another kind"));
    net.run("ip link set br0 type bridge vlan_protocol 802.1Q");
    net.plane_forwards(&[C, D]);
}

/// Where rules ask for states, workers have hosts that Linux does not know as well: it learns them
/// in their VLAN.
fn judged() {
    let net = Vlans::new();
    let rules = "[filter]\nforward.policy = \"drop\"\nforward.rules = [\"accept state established\", \
                 \"accept in br0,br0.10,br0.20\"]\n";
    net.router.configure(&(configuration("worker", "worker") + rules)).unwrap();
    net.router.ask("reload").unwrap();
    net.plane_forwards(&[A, C, B, D]);
    for (host, vlan) in [(A, 10), (C, 20), (B, 10), (D, 1)] {
        let mac = net.hosts[host].mac("eth0").unwrap();
        let known = || {
            let said = net.router.host().run("bridge fdb show br br0").unwrap();
            let of_vlan = format!("vlan {vlan} ");
            match said.lines().any(|line| line.starts_with(&mac) && line.contains(&of_vlan)) {
                true => Ok(()),
                false => Err(format!("{mac} in {vlan}: {said}")),
            }
        };
        for member in ["ten", "twenty", "trunk"] {
            net.run(&format!("bridge fdb flush dev {member} 2>/dev/null || true"));
        }
        let said = net.hosts[host].run(&format!("ping -q -c 20 -i 0.1 -W 5 {}", SERVER[0])).unwrap();
        assert!(said.contains(" 0% packet loss"), "{said}\n{}", net.state());
        wait_for("Linux to learn", PATIENCE, known).unwrap();
    }
    assert!(
        net.server.run(&format!("ping -c 2 -W 1 {}", of(A)[0])).is_err(),
        "what no rule accepts came through"
    );
}

#[test]
fn in_both_lanes() {
    inside!("6.12", forwarded);
}

#[test]
fn as_they_change() {
    inside!("6.12", changed);
}

#[test]
fn with_rules_that_ask_for_states() {
    inside!("6.12", judged);
}

#[test]
#[ignore = "as on 6.12, and minutes more: make test ONLY='on_debian_12 -- --include-ignored'"]
fn on_debian_12() {
    inside!("6.1", changed);
}

#[test]
#[ignore = "as on 6.12, and minutes more: make test ONLY='on_the_newest -- --include-ignored'"]
fn on_the_newest() {
    inside!("newest", changed);
}
