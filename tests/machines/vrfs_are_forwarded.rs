//! What comes in by an interface of a VRF is forwarded by the VRF's table: in the driver where it
//! comes by one side, by a worker where it comes by the other. (The networks of `vrfs.rs`.)

use std::time::Duration;

use lab::{inside, wait_for};

use super::vrfs::{FAR, NETWORKS, Vrfs, configuration};

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
    let audit = net.router.subject("mirror").unwrap()["audit"]["differences"].clone();
    assert_eq!(audit, 0, "{}", net.router.log());
}

/// Flows of the same addresses are different ones.
fn known() {
    let net = Vrfs::new();
    net.router.configure(&(configuration().replace("express", "worker") + "[flow]\nmemory = 16\n")).unwrap();
    net.router.ask("reload").unwrap();
    for (near, (name, _)) in net.near.iter().zip(NETWORKS) {
        wait_for("the plane to forward", Duration::from_secs(20), || net.asks(near, name, &FAR[..1]))
            .unwrap();
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
    net.router.configure(&configuration()).unwrap();
    net.router.ask("reload").unwrap();
    net.plane_forwards();
}

/// Bridges and VLANs on them in front of the near hosts: a bridge in a VRF, a VLAN in a VRF, and
/// one in none. The rest of the networks is as before.
fn bridged() {
    let net = Vrfs::new();
    for (near, (name, vrf)) in net.near.iter().zip(NETWORKS) {
        let (bridge, port) = (format!("br-{name}"), format!("{name}-near"));
        let vrf = vrf.map(|_| name);
        let (on, tag) = if name == "red" { (bridge.clone(), None) } else { (format!("{bridge}.5"), Some(5)) };
        let mut script = format!(
            "ip address flush dev {port}; ip link set {port} nomaster
             ip link add {bridge} address 02:00:00:00:01:01 type bridge mcast_snooping 0
             ip link set {bridge} up; ip link set {port} master {bridge}\n"
        );
        if tag.is_some() {
            script += &format!("ethtool -K {port} txvlan off rxvlan off; ethtool -K {bridge} txvlan off\n");
            script += &format!("ip link add link {bridge} name {on} type vlan id 5; ip link set {on} up\n");
            near.run(
                "ethtool -K eth0 txvlan off rxvlan off; ip address flush dev eth0
                 ip link add link eth0 name eth0.5 type vlan id 5; ip link set eth0.5 up
                 ip address add 10.0.1.2/24 dev eth0.5; ip address add 2001:db8:1::2/64 dev eth0.5 nodad
                 ip route add 10.0.2.0/24 via 10.0.1.1; ip route replace 2001:db8:2::/64 via 2001:db8:1::1",
            )
            .unwrap();
        }
        script += &vrf.map_or(String::new(), |vrf| format!("ip link set {on} master {vrf}\n"));
        script +=
            &format!("ip address add 10.0.1.1/24 dev {on}; ip address add 2001:db8:1::1/64 dev {on} nodad\n");
        net.run(&script);
        near.run("ip neigh flush all").unwrap();
        for address in FAR {
            near.reaches(address, Duration::from_secs(20)).unwrap_or_else(|e| {
                panic!("{name}: {e}\n{}\n{}", net.router.log(), net.router.ask("show interfaces").unwrap())
            });
        }
    }
    net.plane_forwards();
    let shown = net.router.subject("interfaces").unwrap();
    for name in ["br-red", "br-blue.5", "br-plain.5"] {
        let shown = shown.as_array().unwrap().iter().find(|shown| shown["name"] == name).unwrap();
        assert_eq!(shown["adopted"], true, "{shown}");
        assert!(shown["received"]["packets"].as_u64() > Some(50), "{shown}");
    }

    // Where rules ask for states, hosts that Linux does not know are workers' as well: it learns.
    let judged = configuration().replace("express", "worker")
        + "[filter]\nforward.policy = \"drop\"\nforward.rules = [\"accept state established\",            \"accept in br-red,br-blue.5,br-plain.5\"]\n";
    net.router.configure(&judged).unwrap();
    net.router.ask("reload").unwrap();
    for (near, (name, _)) in net.near.iter().zip(NETWORKS) {
        wait_for("the plane to forward", Duration::from_secs(20), || net.asks(near, name, &FAR)).unwrap();
        net.run(&format!(
            "bridge fdb flush dev {name}-near dynamic 2>/dev/null || bridge fdb flush dev br-{name}"
        ));
        let known = || net.router.host().run(&format!("bridge fdb show br br-{name}")).unwrap();
        let mac = near.mac("eth0").unwrap().to_string();
        let said = near.run(&format!("ping -q -c 20 -i 0.1 -W 5 {}", FAR[0])).unwrap();
        assert!(said.contains(" 0% packet loss"), "{name}: {said}");
        wait_for("Linux to learn", Duration::from_secs(5), || match known() {
            said if said.contains(&mac) => Ok(()),
            said => Err(format!("{name}, {mac}: {said}")),
        })
        .unwrap();
    }
    // A far host may not begin.
    assert!(net.far[2].run("ping -q -c 2 -W 1 10.0.1.2").is_err(), "what no rule accepts came through");
}

#[test]
fn behind_bridges_and_vlans_on_them() {
    inside!("6.12", bridged);
}

#[test]
fn with_flows_of_their_own() {
    inside!("6.12", known);
}

mod by_their_own_tables {
    use super::*;

    #[test]
    fn on_6_12() {
        inside!("6.12", forwarded);
    }

    #[test]
    #[ignore = "as on 6.12, and minutes more: make test ONLY='on_the_newest -- --include-ignored'"]
    fn on_the_newest() {
        inside!("newest", forwarded);
    }
}

#[test]
fn as_they_come_and_go() {
    inside!("6.12", changes);
}
