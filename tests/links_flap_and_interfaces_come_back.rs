//! A link that goes down and up, and an interface that is deleted and made again, are the plane's
//! again without help. (The network of `network.rs`.)

use std::time::Duration;

use lab::{Lab, Router, wait_for};

use crate::network::{LANES, Line, SERVER, all_arrive, turn};

#[test]
fn in_each_lane() {
    for lane in LANES {
        let net = Line::new("flap", lane);
        let host = net.router.host().clone();
        for _ in 0..5 {
            host.run("ip link set right down").unwrap();
            assert!(net.customer.reaches(SERVER[0], Duration::ZERO).is_err());
            // Linux forgets an interface's IPv6 addresses when it goes down.
            host.run("ip link set right up; ip address replace 2001:db8:2::1/64 dev right nodad").unwrap();
            net.reachable();
        }
        all_arrive(&net.router, &net.customer, &net.server, &SERVER, 1000);

        host.run("ip link del right").unwrap();
        assert!(net.customer.reaches(SERVER[0], Duration::ZERO).is_err());
        net.lab
            .link(
                host.end("right").address("10.2.0.1/24").address("2001:db8:2::1/64"),
                net.server.end("eth0").address("10.2.0.2/24").address("2001:db8:2::2/64"),
            )
            .unwrap();
        net.server
            .run("ip route add default via 10.2.0.1; ip -6 route add default via 2001:db8:2::1")
            .unwrap();
        net.reachable();
        taken_again(&net);
        all_arrive(&net.router, &net.customer, &net.server, &SERVER, 1000);
    }
}

#[test]
fn an_interface_that_is_renamed_is_linuxs_until_it_is_back() {
    let net = Line::new("part", LANES[0]);
    let host = net.router.host();
    let addresses = |name| {
        format!(
            "ip address replace 10.2.0.1/24 dev {name}; ip address replace 2001:db8:2::1/64 dev {name} nodad"
        )
    };
    let away = "ip link set right down; ip link set right name other; ip link set other up";
    host.run(&format!("{away}; {}", addresses("other"))).unwrap();
    net.reachable();
    let before = host.linux_forwarded().unwrap();
    net.customer.reaches(SERVER[0], Duration::from_secs(1)).unwrap();
    assert!(host.linux_forwarded().unwrap() > before, "the plane still has it");
    let back = "ip link set other down; ip link set other name right; ip link set right up";
    host.run(&format!("{back}; {}", addresses("right"))).unwrap();
    net.reachable();
    taken_again(&net);
}

/// A link that goes down takes routes along without a word, so Linux's tables are read again.
#[test]
fn interfaces_that_come_while_routes_are_read_again_are_taken() {
    let _turn = turn();
    let lab = Lab::new("while").unwrap();
    let host = lab.router("router").unwrap();
    host.run(
        "ip link add other type veth peer name beyond; ip link set other up; ip link set beyond up; \
         ip address add 10.9.0.1/24 dev other",
    )
    .unwrap();
    let router = Router::start(&host, "[[port]]\nname = \"port*\"\n[workers]\ncores = [0]\n").unwrap();
    if !router.is_bifrost() {
        return;
    }
    for round in 0..5 {
        // They stay down, so that Linux tells of each but once.
        host.ip_batch(&format!(
            "route replace 10.10.0.0/16 via 10.9.0.2\nlink set other down\n\
             link add port{round} type veth peer name far{round}\n"
        ))
        .unwrap();
        wait_for("the interface to be taken", Duration::from_secs(5), || {
            let shown = router.subject("ports").map_err(|error| error.to_string())?;
            let taken =
                shown.as_array().is_some_and(|ports| ports.iter().any(|port| port["lane"] == "express"));
            taken.then_some(()).ok_or(shown.to_string())
        })
        .unwrap();
        host.run(&format!("ip link del port{round}; ip link set other up")).unwrap();
        wait_for("the interface to be forgotten", Duration::from_secs(5), || {
            let shown = router.subject("ports").map_err(|error| error.to_string())?;
            shown.as_array().is_some_and(Vec::is_empty).then_some(()).ok_or(shown.to_string())
        })
        .unwrap();
    }
}

/// Waits until it is the plane, and no longer Linux, that forwards through the new interface.
fn taken_again(net: &Line) {
    let host = net.router.host();
    wait_for("the plane to take the new interface", Duration::from_secs(5), || {
        let before = host.linux_forwarded().unwrap();
        net.customer.reaches(SERVER[0], Duration::from_secs(1)).map_err(|e| e.to_string())?;
        let by_linux = host.linux_forwarded().unwrap() - before;
        if by_linux == 0 || !net.router.is_bifrost() { Ok(()) } else { Err("Linux forwards".to_owned()) }
    })
    .unwrap();
}
