//! A route over several next hops spreads the flows by their weights, and each flow keeps to one
//! path.
//!
//! ```text
//!                                        .2 a
//!   customer ------------- router -------  weight 1      both are 198.18.0.1 and 2001:db8:77::1
//!        .2  10.1.0.0/24   .1      ------  weight 1, then 3
//!                                        .2 b
//! ```

use std::{collections::HashSet, net::SocketAddr, time::Duration};

use lab::{Flows, Lab, Router, Sink};

use crate::network::{LANES, at, ports, turn};

const FLOWS: usize = 400;

#[test]
fn in_each_lane() {
    for lane in LANES {
        let _turn = turn();
        let lab = Lab::new("ecmp").unwrap();
        let (customer, host) = (lab.host("customer").unwrap(), lab.router("router").unwrap());
        lab.link(
            customer.end("eth0").address("10.1.0.2/24").address("2001:db8:1::2/64"),
            host.end("left").address("10.1.0.1/24").address("2001:db8:1::1/64"),
        )
        .unwrap();
        customer.run("ip route add default via 10.1.0.1; ip -6 route add default via 2001:db8:1::1").unwrap();
        // Linux spreads by addresses only, unless told to look at ports as Bifrost does.
        host.sysctl(&[
            ("net.ipv4.fib_multipath_hash_policy", "1"),
            ("net.ipv6.fib_multipath_hash_policy", "1"),
        ])
        .unwrap();
        let paths = [("a", 11), ("b", 12)].map(|(name, n)| {
            let path = lab.host(name).unwrap();
            lab.link(
                host.end(name).address(&format!("10.{n}.0.1/24")).address(&format!("2001:db8:{n}::1/64")),
                path.end("eth0").address(&format!("10.{n}.0.2/24")).address(&format!("2001:db8:{n}::2/64")),
            )
            .unwrap();
            path.run(&format!(
                "ip address add 198.18.0.1/32 dev lo; ip address add 2001:db8:77::1/128 dev lo nodad
                 ip route add default via 10.{n}.0.1; ip -6 route add default via 2001:db8:{n}::1"
            ))
            .unwrap();
            path
        });
        let _router = Router::start(&host, &ports(lane, &["left", "a", "b"])).unwrap();

        for weight in [1, 3] {
            host.run(&format!(
                "ip route replace 198.18.0.0/24 nexthop via 10.11.0.2 nexthop via 10.12.0.2 weight {weight}
                 ip -6 route del 2001:db8:77::/64 2>/dev/null || true
                 ip -6 route add 2001:db8:77::/64 nexthop via 2001:db8:11::2 nexthop via 2001:db8:12::2 weight {weight}"
            ))
            .unwrap();
            for address in ["198.18.0.1", "2001:db8:77::1"] {
                customer.reaches(address, Duration::from_secs(5)).unwrap();
                let sinks = [0, 1].map(|i| Sink::start(&paths[i], 9000).unwrap());
                // Both neighbours are resolved before any flow is counted.
                host.run("ping -n -c1 10.11.0.2; ping -n -c1 10.12.0.2; ping -n -c1 2001:db8:11::2; ping -n -c1 2001:db8:12::2")
                    .unwrap();
                let flows = Flows::start(&customer, vec![at(address, 9000)], FLOWS, 64, 10_000).unwrap();
                let arrived = || sinks[0].received() + sinks[1].received();
                lab::wait_for("ten datagrams of each flow", Duration::from_secs(10), || {
                    if arrived() >= 10 * FLOWS as u64 { Ok(()) } else { Err(arrived().to_string()) }
                })
                .unwrap();
                let sent = flows.stop();
                lab::wait_for("the last datagrams", Duration::from_secs(2), || {
                    if arrived() == sent { Ok(()) } else { Err(format!("{} of {sent}", arrived())) }
                })
                .unwrap();
                let [a, b] = sinks.map(|sink| sink.stop().into_keys().collect::<HashSet<SocketAddr>>());
                assert!(a.is_disjoint(&b), "{lane}: flows that took both paths: {:?}", a.intersection(&b));
                assert_eq!(a.len() + b.len(), FLOWS);
                let (share, due) = (b.len() as f64 / FLOWS as f64, f64::from(weight) / f64::from(weight + 1));
                assert!(
                    (share - due).abs() < 0.12,
                    "{lane}, {address}: {share:.2} of the flows took b, {due:.2} is its due"
                );
            }
        }
    }
}
