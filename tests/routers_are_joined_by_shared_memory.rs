//! A port in shared memory (memif) is a port like the others: routers that it joins forward through
//! it by Linux's routes, answer on it, and Linux sees its carrier come and go with the peer.
//!
//! ```text
//! ann ---- left == memif0, no wire == right ---- bob
//! ```

use std::path::Path;
use std::time::Duration;

use lab::{Host, Lab, Router, transfer, wait_for};

use crate::network::turn;

/// Abstract names would be the namespace's own.
fn configuration(socket: &Path, role: &str) -> String {
    let socket = socket.display();
    format!(
        "[[port]]\nname = \"lan\"\n\n[[port]]\nname = \"memif0\"\n\
         [port.memif]\nsocket = \"{socket}\"\nrole = \"{role}\"\nsecret = \"between us\"\n"
    )
}

/// Gives the router's end its addresses, which the TAP then keeps, and the way to the other side's
/// network.
fn address(router: &Host, own: u8, other: u8) {
    router
        .run(&format!(
            "ip link set memif0 up; ip addr add 10.3.0.{own}/24 dev memif0
             ip -6 addr add 2001:db8:3::{own}/64 dev memif0 nodad
             ip route add 10.{other}.0.0/24 via 10.3.0.{other}
             ip -6 route add 2001:db8:{other}::/64 via 2001:db8:3::{other}"
        ))
        .unwrap();
}

fn has_carrier(router: &Host, wanted: bool) {
    wait_for("the carrier to follow the peer", Duration::from_secs(5), || {
        let link = router.run("ip link show memif0").unwrap();
        if link.contains("NO-CARRIER") == wanted { Err(link) } else { Ok(()) }
    })
    .unwrap();
}

#[test]
fn routers_are_joined_by_shared_memory() {
    let _turn = turn();
    let lab = Lab::new("joined").unwrap();
    let [ann, bob] = ["ann", "bob"].map(|name| lab.host(name).unwrap());
    let [left, right] = ["left", "right"].map(|name| lab.router(name).unwrap());
    for (host, router, net) in [(&ann, &left, 1), (&bob, &right, 2)] {
        let end = |end: lab::End, last: u8| {
            end.address(&format!("10.{net}.0.{last}/24")).address(&format!("2001:db8:{net}::{last}/64"))
        };
        lab.link(end(host.end("eth0"), 2), end(router.end("lan"), 1)).unwrap();
        host.run(&format!(
            "ip route add default via 10.{net}.0.1; ip -6 route add default via 2001:db8:{net}::1"
        ))
        .unwrap();
    }
    let socket = left.folder().join("memif.sock");
    let mut one = Router::start(&left, &configuration(&socket, "server")).unwrap();
    if !one.is_bifrost() {
        return;
    }
    address(&left, 1, 2);
    has_carrier(&left, false);
    let _other = Router::start(&right, &configuration(&socket, "client")).unwrap();
    address(&right, 2, 1);
    has_carrier(&left, true);

    // To the routers themselves, which Linux answers; and through both.
    left.reaches("10.3.0.2", Duration::from_secs(10)).unwrap();
    for address in ["10.3.0.1", "10.2.0.2", "2001:db8:3::2", "2001:db8:2::2"] {
        ann.reaches(address, Duration::from_secs(10)).unwrap();
    }
    for address in ["10.2.0.2", "2001:db8:2::2"] {
        let moved = transfer(&ann, &bob, address.parse().unwrap(), 20_000_000).unwrap();
        assert_eq!(moved.sent, moved.arrived);
    }
    let path = ann.run("traceroute -n -q 1 -w 2 10.2.0.2").unwrap();
    assert!(path.contains("10.1.0.1") && path.contains("10.3.0.2"), "{path}");

    // Linux forwarded none of it: transit goes from ring to ring.
    let before = left.linux_forwarded().unwrap();
    let said = ann.run("ping -n -c 200 -i 0.005 -W 2 10.2.0.2").unwrap();
    assert!(said.contains("200 received"), "{said}");
    assert!(left.linux_forwarded().unwrap() - before < 10);

    // What came by shared memory is counted, and explained.
    let ports: serde_json::Value =
        serde_json::from_str(&one.ask("show ports memif0 --json").unwrap()).unwrap();
    let received = &ports[0]["received"]["worker"];
    assert!(received["packets"].as_u64() > Some(200) && received["bytes"].as_u64() > Some(0), "{ports}");
    let explained = one.ask("explain '10.2.0.2 > 10.1.0.2 udp 53 in memif0'").unwrap();
    assert!(explained.contains("sent by lan") && explained.contains("passes: on to"), "{explained}");
    assert!(!explained.contains("enters"), "{explained}");

    // A peer that is killed takes the carrier with it, and one that comes back finds everything as
    // it was.
    one.kill_nine();
    has_carrier(&right, false);
    one.restart().unwrap();
    has_carrier(&right, true);
    ann.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    ann.reaches("2001:db8:2::2", Duration::from_secs(10)).unwrap();
}
