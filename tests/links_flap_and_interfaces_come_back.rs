//! A link that goes down and up, and an interface that is deleted and made again, are the plane's again without help.
//! (The network of `network.rs`.)

use std::time::Duration;

use crate::network::{LANES, Line, SERVER, all_arrive};

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
fn an_interface_that_is_renamed_or_becomes_part_of_a_bridge_is_linuxs_until_it_is_back() {
    let net = Line::new("part", LANES[0]);
    let host = net.router.host();
    let addresses = |name| {
        format!(
            "ip address replace 10.2.0.1/24 dev {name}; ip address replace 2001:db8:2::1/64 dev {name} nodad"
        )
    };
    for (name, away, back) in [
        (
            "other",
            "ip link set right down; ip link set right name other; ip link set other up",
            "ip link set other down; ip link set other name right; ip link set right up",
        ),
        (
            "bridge",
            "ip link add bridge type bridge; ip link set bridge up; ip address flush dev right; \
             ip link set right master bridge",
            "ip link del bridge",
        ),
    ] {
        host.run(&format!("{away}; {}", addresses(name))).unwrap();
        net.reachable();
        let before = host.linux_forwarded().unwrap();
        net.customer.reaches(SERVER[0], Duration::from_secs(1)).unwrap();
        assert!(host.linux_forwarded().unwrap() > before, "the plane still has {name}");
        host.run(&format!("{back}; {}", addresses("right"))).unwrap();
        net.reachable();
        taken_again(&net);
    }
}

/// Waits until it is the plane, and no longer Linux, that forwards through the new interface.
fn taken_again(net: &Line) {
    let host = net.router.host();
    lab::wait_for("the plane to take the new interface", Duration::from_secs(5), || {
        let before = host.linux_forwarded().unwrap();
        net.customer.reaches(SERVER[0], Duration::from_secs(1)).map_err(|e| e.to_string())?;
        let by_linux = host.linux_forwarded().unwrap() - before;
        if by_linux == 0 || !net.router.is_bifrost() { Ok(()) } else { Err("Linux forwards".to_owned()) }
    })
    .unwrap();
}
