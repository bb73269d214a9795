//! A gateway falls silent without its link going down. Routes by it stay in Linux, for nobody tells
//! it otherwise; Bifrost does without it as soon as BFD says so, and goes back to it.
//!
//! ```text
//! customer ----- left router right ----- eth0 server
//!                            spare ----- eth1
//! ```
//!
//! The server has the addresses behind both gateways, which are itself, and answers by `spare`.

use std::time::Duration;

use lab::{Frr, Ping, wait_for};
use serde_json::Value;

use crate::network::{Line, ports};

const SOON: Duration = Duration::from_secs(15);
/// Routes by the gateway, alone and beside the other one; and what is tracked.
const FILE: &str = r#"
[bfd]
[[repair]]
gateway = "10.2.0.2"
backup = "10.3.0.2"
[[repair]]
gateway = "2001:db8:2::2"
backup = "2001:db8:3::2"
[discovery.left]
interface = "left"
[discovery.left.ipv4]
track = [{ bfd = "10.2.0.2" }]
"#;
const ADDRESSES: [&str; 3] = ["203.0.113.1", "2001:db8:9::1", "198.51.100.1"];

fn bfd(own: usize, interface: &str) -> String {
    let peer = |prefix: &str| {
        let (own, other) = (format!("{prefix}{own}"), format!("{prefix}{}", 3 - own));
        format!(" peer {other} local-address {own} interface {interface}\n  profile fast\n exit\n")
    };
    let profile = " profile fast\n  receive-interval 50\n  transmit-interval 50\n exit\n";
    format!("bfd\n{profile}{}{}exit\n", peer("10.2.0."), peer("2001:db8:2::"))
}

/// Of each repair its next hops, and how many are repaired.
fn repairs(line: &Line) -> Vec<(u64, u64)> {
    let shown = line.router.show("repairs").unwrap();
    let number = |one: &Value, key: &str| one[key].as_u64().unwrap();
    let all = shown.as_array().unwrap().iter();
    all.map(|one| (number(one, "next_hops"), number(one, "repaired"))).collect()
}

fn are(line: &Line, repaired: bool) {
    wait_for(&format!("next hops to be repaired: {repaired}"), SOON, || match repairs(line) {
        all if all
            .iter()
            .all(|(all, now)| *all > 0 && (*now == *all) == repaired && (*now == 0) != repaired) =>
        {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", line.state()));
}

/// What the customer's discovery lacks.
fn lacks(line: &Line) -> Vec<String> {
    let shown = line.router.show("discovery").unwrap();
    let lacks = shown[0]["lacks"].as_array().unwrap().iter();
    lacks.map(|it| it.as_str().unwrap().to_owned()).collect()
}

#[test]
fn by_a_backup_and_by_other_gateways() {
    let mut line = Line::stopped("repair", "");
    let (router, server) = (line.router.host().clone(), line.server.clone());
    line.lab
        .link(
            router.end("spare").address("10.3.0.1/24").address("2001:db8:3::1/64"),
            server.end("eth1").address("10.3.0.2/24").address("2001:db8:3::2/64"),
        )
        .unwrap();
    server
        .run(
            "for address in 203.0.113.1/32 198.51.100.1/32 2001:db8:9::1/128; do
                ip address add $address dev lo
             done
             ip route replace default via 10.3.0.1; ip -6 route replace default via 2001:db8:3::1",
        )
        .unwrap();
    router
        .run(
            "ip route add 203.0.113.0/24 via 10.2.0.2; ip -6 route add 2001:db8:9::/64 via 2001:db8:2::2
             ip route add 198.51.100.0/24 nexthop via 10.2.0.2 nexthop via 10.3.0.2",
        )
        .unwrap();
    line.router.configure(&(ports("auto", &["left", "right", "spare"]) + FILE)).unwrap();
    let bfdd = "bfdd --dplaneaddr ipv4:127.0.0.1:50700";
    let _ours = Frr::start(&router, &[bfdd], &bfd(1, "right"), false).unwrap();
    let theirs = Frr::start(&server, &["bfdd"], &bfd(2, "eth0"), false).unwrap();
    line.router.restart().unwrap();
    let up = || {
        wait_for("both sessions", SOON, || {
            let shown = line.router.show("bfd").unwrap();
            let all = shown["sessions"].as_array().unwrap();
            match all.len() == 2 && all.iter().all(|one| one["state"] == "up") {
                true => Ok(()),
                false => Err(shown.to_string()),
            }
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", line.router.log()));
    };
    up();
    ADDRESSES.iter().for_each(|address| line.customer.reaches(address, SOON).unwrap());
    are(&line, false);
    assert!(lacks(&line).is_empty());

    // Nothing passes the link any more, and both ends believe that it is well.
    let pings: Vec<Ping> = ADDRESSES
        .iter()
        .map(|to| Ping::start(&line.customer, to, Duration::from_millis(10)).unwrap())
        .collect();
    let cut = "nft -f - <<END
table netdev cut {
  chain in { type filter hook ingress device eth0 priority -500; drop; }
}
table inet cut {
  chain out { type filter hook output priority -500; oif eth0 drop; }
}
END";
    server.run(cut).unwrap();
    are(&line, true);
    assert_eq!(lacks(&line), ["bfd 10.2.0.2"]);
    for address in ADDRESSES {
        line.customer.reaches(address, SOON).unwrap_or_else(|error| panic!("{error}\n{}", line.state()));
    }
    let said = line.router.ask("explain '10.1.0.2 > 203.0.113.1 udp 53 in left'").unwrap();
    assert!(said.contains("on spare"), "{said}");
    assert!(router.run("ip route show 203.0.113.0/24").unwrap().contains("via 10.2.0.2"));
    // All these flows' packets: none goes to the lost one.
    line.router.equals_linux(SOON).unwrap();

    // What was lost meanwhile is what BFD needed, and not what Linux would.
    server.run("nft delete table netdev cut; nft delete table inet cut").unwrap();
    up();
    are(&line, false);
    assert!(lacks(&line).is_empty());
    for ping in pings {
        let statistics = ping.stop();
        println!("{} of {} lost", statistics.lost(), statistics.sent);
        assert!(statistics.sent > 20 && statistics.lost() < statistics.sent / 2, "{statistics:?}");
    }
    // A session that its other end has switched off is no failure.
    let off = "configure terminal\nbfd\nprofile fast\nshutdown";
    theirs.vtysh(off).unwrap();
    wait_for("the sessions to be switched off", SOON, || {
        let shown = line.router.show("bfd").unwrap();
        let all = shown["sessions"].as_array().unwrap();
        if all.iter().all(|one| one["state"] == "down") { Ok(()) } else { Err(shown.to_string()) }
    })
    .unwrap();
    are(&line, false);
}
