//! When the neighbour withdraws a route, its packets stop within 100 ms; when it announces it
//! again, they flow again. The clock starts when FRR has told Linux: what BGP takes before is its
//! own. (The network of `bgp_learnt_routes_forward`; 198.18.7.0/24 and 2001:db8:77::/48 are the
//! ISP's.)

use std::{thread::sleep, time::Duration};

use lab::{Flows, Sink};

use crate::network::{LANES, at};
use crate::upstream::Upstream;

#[test]
fn in_each_lane() {
    for lane in LANES {
        let groups = [
            ("four", vec!["198.18.7.0/24".parse().unwrap()]),
            ("six", vec!["2001:db8:77::/48".parse().unwrap()]),
        ];
        let net = Upstream::new("withdraw", lane, &groups, "");
        net.learnt(2, Duration::from_secs(10));
        for (group, prefix, address) in
            [("four", "198.18.7.0/24", "198.18.7.1"), ("six", "2001:db8:77::/48", "2001:db8:77::1")]
        {
            net.isp_is(address);
            net.customer.reaches(address, Duration::from_secs(5)).unwrap();
            let sink = Sink::start(&net.isp, 9000).unwrap();
            let _flows = Flows::start(&net.customer, vec![at(address, 9000)], 4, 64, 2000).unwrap();
            sink.has_received(500, Duration::from_secs(5)).unwrap();

            let removals = net.router.host().removals(group == "six").unwrap();
            net.bird.withdraw(group).unwrap();
            let removed = removals.of(prefix, Duration::from_secs(2)).unwrap();
            sleep(Duration::from_millis(300));
            let flowed = sink.newest().saturating_duration_since(removed);
            println!("{lane}, {group}: packets flowed for {flowed:?}");
            assert!(
                flowed < Duration::from_millis(100),
                "{lane}: packets flowed for {flowed:?} after the withdrawal"
            );

            net.bird.announce(group).unwrap();
            let seen = sink.received();
            sink.has_received(seen + 500, Duration::from_secs(5)).unwrap();
        }
    }
}
