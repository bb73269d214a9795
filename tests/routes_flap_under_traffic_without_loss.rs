//! A hundred thousand routes come and go for half a minute; packets on the stable ones do not
//! notice, and in the end the plane has the table that Linux has. (The network of
//! `bgp_learnt_routes_forward`.)

use std::time::{Duration, Instant};

use lab::{Flows, Sink, prefixes, wait_for};

use crate::network::{LANES, at};
use crate::upstream::Upstream;

#[test]
fn and_the_tables_are_equal_at_the_end() {
    // 15 seconds in each lane: half a minute in all.
    for lane in LANES {
        let flapping =
            prefixes::ipv4(100_000, &mut prefixes::Random(7)).into_iter().map(Into::into).collect();
        let stable = vec!["198.18.7.0/24".parse().unwrap()];
        let net = Upstream::new("routes", lane, &[("stable", stable), ("flapping", flapping)], "");
        net.learnt(100_001, Duration::from_secs(30));
        net.isp_is("198.18.7.1");
        net.customer.reaches("198.18.7.1", Duration::from_secs(5)).unwrap();

        let sink = Sink::start(&net.isp, 9000).unwrap();
        let flows = Flows::start(&net.customer, vec![at("198.18.7.1", 9000)], 16, 64, 2000).unwrap();
        let start = Instant::now();
        let mut rounds = 0;
        while start.elapsed() < Duration::from_secs(30) {
            net.bird.withdraw("flapping").unwrap();
            wait_for("some to go", Duration::from_secs(10), || {
                if net.learnt_now() < 70_000 { Ok(()) } else { Err(String::new()) }
            })
            .unwrap();
            net.bird.announce("flapping").unwrap();
            wait_for("some to come", Duration::from_secs(10), || {
                if net.learnt_now() > 80_000 { Ok(()) } else { Err(String::new()) }
            })
            .unwrap();
            rounds += 1;
        }
        let sent = flows.stop();
        sink.has_received(sent, Duration::from_secs(2)).unwrap_or_else(|e| panic!("{lane}: {e} of {sent}"));
        println!("{lane}: {rounds} rounds, {sent} datagrams, none lost");
        net.learnt(100_001, Duration::from_secs(30));
        if net.router.is_bifrost() {
            net.router.equals_linux(Duration::from_secs(10)).unwrap();
        }
    }
}
