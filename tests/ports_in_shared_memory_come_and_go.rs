//! A port in shared memory (memif) is there as long as the configuration has it: a peer of one that
//! is taken out of it is let go, and nobody can connect there any more. One whose memory cannot be
//! opened is no port, also where an interface of its name is there.
//!
//! ```text
//! left ==== memif0 ==== right
//! ```

use std::path::Path;
use std::time::Duration;

use lab::{Host, Lab, Router, wait_for};

use crate::network::turn;

fn shared(socket: &Path, role: &str) -> String {
    let socket = socket.display();
    format!("[[port]]\nname = \"memif0\"\n[port.memif]\nsocket = \"{socket}\"\nrole = \"{role}\"\n")
}

fn has_carrier(router: &Host, wanted: bool) {
    wait_for("the carrier to follow the peer", Duration::from_secs(5), || {
        let link = router.run("ip link show memif0").unwrap();
        if link.contains("NO-CARRIER") == wanted { Err(link) } else { Ok(()) }
    })
    .unwrap();
}

/// What the router says of its ports: name and state.
fn states(router: &Router) -> Vec<(String, String)> {
    let ports = router.subject("ports").unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    ports.as_array().unwrap().iter().map(|port| (text(&port["name"]), text(&port["state"]))).collect()
}

#[test]
fn ports_in_shared_memory_come_and_go() {
    let _turn = turn();
    let lab = Lab::new("comego").unwrap();
    let [left, right] = ["left", "right"].map(|name| lab.router(name).unwrap());
    let socket = left.folder().join("memif.sock");
    let one = Router::start(&left, &shared(&socket, "server")).unwrap();
    if !one.is_bifrost() {
        return;
    }
    let other = Router::start(&right, &shared(&socket, "client")).unwrap();
    left.run("ip link set memif0 up").unwrap();
    right.run("ip link set memif0 up").unwrap();
    has_carrier(&left, true);
    has_carrier(&right, true);

    // Another one is taken while the file is read, and said to be.
    let second = shared(&left.folder().join("other.sock"), "server").replace("memif0", "memif1");
    one.configure(&(shared(&socket, "server") + &second)).unwrap();
    let said = one.ask("reload").unwrap();
    assert!(said.contains("2 of 2 port(s)"), "{said}");
    let ports = one.subject("ports").unwrap();
    let why = ports[1]["lane_reason"].as_str().unwrap();
    assert!(why.ends_with("only workers send into shared memory"), "{ports}");

    one.configure("without_ports = \"on\"\n").unwrap();
    one.ask("reload").unwrap();
    has_carrier(&right, false);
    has_carrier(&left, false);
    assert_eq!(states(&one), []);
    wait_for("why nobody is there", Duration::from_secs(5), || match other.log() {
        log if log.contains("memif0: no peer: cannot connect to /") => Ok(()),
        log => Err(log),
    })
    .unwrap();
    wait_for("the socket to go", Duration::from_secs(5), || match socket.exists() {
        true => Err("it is there".to_owned()),
        false => Ok(()),
    })
    .unwrap();

    // The interface of its name is there still, but leads nowhere.
    one.configure(&shared(Path::new("/nowhere/memif.sock"), "server")).unwrap();
    one.ask("reload").unwrap();
    wait_for("the refusal", Duration::from_secs(5), || match one.log() {
        log if log.contains("memif0: cannot listen at /nowhere/memif.sock") => Ok(()),
        log => Err(log),
    })
    .unwrap();
    // Nor when Linux tells something of the interface, which it did before it told of the route.
    left.run("ip link set memif0 down; ip link set memif0 up; ip route add unreachable 10.99.0.0/24")
        .unwrap();
    wait_for("the route", Duration::from_secs(5), || match one.ask("show routes 10.99.0.0/24") {
        Ok(routes) if routes.contains("unreachable") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    assert_eq!(states(&one), [("memif0".to_owned(), "absent".to_owned())]);

    one.configure(&shared(&socket, "server")).unwrap();
    one.ask("reload").unwrap();
    has_carrier(&left, true);
    has_carrier(&right, true);
}
