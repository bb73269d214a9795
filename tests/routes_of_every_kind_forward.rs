//! Gateways of the other family, next-hop objects, metrics, and routes that end here: as Linux
//! does, so does the plane. (The network of `network.rs`; the server also is 198.18.0.1 to
//! 198.18.9.1 and 2001:db8:77::1.)

use std::time::Duration;

use crate::network::{LANES, Line, all_arrive};

#[test]
fn in_each_lane() {
    for lane in LANES {
        let net = Line::new("kinds", lane);
        let host = net.router.host();
        for n in 0..10 {
            net.server.run(&format!("ip address add 198.18.{n}.1/32 dev lo")).unwrap();
        }
        net.server.run("ip address add 2001:db8:77::1/128 dev lo nodad").unwrap();
        let forwards = |address: &str| {
            net.customer.reaches(address, Duration::from_secs(2)).unwrap_or_else(|e| panic!("{lane}: {e}"));
            all_arrive(&net.router, &net.customer, &net.server, &[address], 500);
        };
        let stops = |address: &str| {
            let start = std::time::Instant::now();
            while net.customer.reaches(address, Duration::ZERO).is_ok() {
                assert!(start.elapsed() < Duration::from_secs(1), "{lane}: {address} still answers");
            }
        };

        // A gateway; one of the other family (RFC 8950).
        host.run("ip route add 198.18.0.0/24 via 10.2.0.2; ip route add 198.18.1.0/24 via inet6 2001:db8:2::2 dev right")
            .unwrap();
        forwards("198.18.0.1");
        forwards("198.18.1.1");
        host.run("ip -6 route add 2001:db8:77::/48 via 2001:db8:2::2").unwrap();
        forwards("2001:db8:77::1");

        // A next-hop object, changed under its routes.
        host.run("ip nexthop add id 7 via 10.2.0.2 dev right; ip route add 198.18.2.0/24 nhid 7").unwrap();
        forwards("198.18.2.1");
        host.run("ip nexthop replace id 7 blackhole").unwrap();
        stops("198.18.2.1");
        host.run("ip nexthop replace id 7 via 10.2.0.2 dev right").unwrap();
        forwards("198.18.2.1");

        // The lower metric wins; the longer prefix wins; what has been removed does not.
        host.run("ip route add 198.18.3.0/24 via 10.2.0.2 metric 100; ip route add blackhole 198.18.3.0/24 metric 50")
            .unwrap();
        stops("198.18.3.1");
        host.run("ip route del blackhole 198.18.3.0/24 metric 50").unwrap();
        forwards("198.18.3.1");
        host.run("ip route add 198.18.4.0/24 via 10.2.0.2; ip route add unreachable 198.18.4.0/28").unwrap();
        stops("198.18.4.1");
        host.run("ip route del unreachable 198.18.4.0/28").unwrap();
        forwards("198.18.4.1");

        // Another table is Linux's business: nothing in it leads the plane astray.
        host.run("ip route add blackhole 198.18.0.0/24 table 77").unwrap();
        forwards("198.18.0.1");
    }
}
