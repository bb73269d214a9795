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
