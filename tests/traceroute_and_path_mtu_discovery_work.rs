//! A host sees the router in its traceroute, and learns from it which packets fit the path.
//! (The network of `network.rs`, whose link to the server carries 1300 bytes.)

use lab::Router;

use crate::network::{LANES, Line, SERVER, ports};

#[test]
fn in_each_lane() {
    for lane in LANES {
        let net = Line::made("trace", &ports(lane, &["left", "right"]), 1300, 1).started();
        for (address, gateway) in SERVER.into_iter().zip(["10.1.0.1", "2001:db8:1::1"]) {
            for method in ["", "-I", "-T -p 80"] {
                let hops =
                    net.customer.run(&format!("traceroute -n -q 1 -w 2 -m 5 {method} {address}")).unwrap();
                let seen: Vec<_> =
                    hops.lines().skip(1).filter_map(|hop| hop.split_whitespace().nth(1)).collect();
                assert_eq!(seen, [gateway, address], "{lane}, traceroute {method}: {hops}");
            }
            let learnt = net.customer.run(&format!("ip route get {address}")).unwrap();
            assert!(!learnt.contains("mtu 1300"), "nothing has been too big yet: {learnt}");
            let family = if address.contains(':') { "-6" } else { "-4" };
            let refused =
                net.customer.run(&format!("ping {family} -n -c1 -W2 -M do -s 1400 {address}")).unwrap_err();
            assert!(refused.to_string().contains("1300"), "{lane}: {refused}");
            let learnt = net.customer.run(&format!("ip route get {address}")).unwrap();
            assert!(learnt.contains("mtu 1300"), "{lane}: the host did not learn the path's MTU: {learnt}");

            // TCP finds out by itself as well.
            net.customer.run("ip route flush cache; ip -6 route flush cache").unwrap();
            let sent = lab::transfer(&net.customer, &net.server, address.parse().unwrap(), 10 << 20).unwrap();
            assert_eq!(sent.sent, sent.arrived);
        }
        drops_are_counted(&net.router);
    }
}

/// What was sent back as an ICMP error counts as dropped for that reason.
fn drops_are_counted(router: &Router) {
    if router.is_bifrost() {
        let drops = router.ask("show drops").unwrap();
        assert!(drops.contains("too_big") && drops.contains("ttl_expired"), "{drops}");
    }
}
