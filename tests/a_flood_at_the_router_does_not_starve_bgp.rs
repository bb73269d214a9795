//! A flood at the router's own address is policed; its BGP sessions stay up and routes go on being
//! learnt. (The network of `bgp_learnt_routes_forward`.)

use std::time::{Duration, Instant};

use lab::Flows;

use crate::network::{LANES, at};
use crate::upstream::Upstream;

#[test]
fn in_each_lane() {
    for lane in LANES {
        let groups = [("four", vec!["198.18.7.0/24".parse().unwrap()])];
        let net = Upstream::new("self", lane, &groups, "[police]\nrest = { rate = 1000, burst = 100 }\n");
        net.learnt(1, Duration::from_secs(10));
        let flood = Flows::start(&net.customer, vec![at("10.1.0.1", 9)], 64, 64, 2_000_000).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(4) {
            net.bird.withdraw("four").unwrap();
            net.learnt(0, Duration::from_secs(1));
            net.bird.announce("four").unwrap();
            net.learnt(1, Duration::from_secs(1));
        }
        net.bird.established(Duration::ZERO).unwrap();
        let flooded = flood.stop();
        if net.router.is_bifrost() {
            let classifier = net.router.subject("classifier").unwrap();
            let classes = classifier["classes"].as_array().unwrap();
            let count = |class: &str, what: &str| {
                classes.iter().find(|c| c["class"] == class).and_then(|c| c[what].as_u64()).unwrap()
            };
            assert!(count("rest", "dropped") > flooded / 2, "{lane}: flood of {flooded}: {classifier}");
            assert!(count("rest", "passed") < 10_000, "{lane}: {classifier}");
            assert_eq!(count("routing", "dropped"), 0, "{lane}: {classifier}");
        }
    }
}
