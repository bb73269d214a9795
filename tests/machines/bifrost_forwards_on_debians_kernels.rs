//! Bifrost takes ports and forwards in each lane on Debian's own kernels. On one that is too old it says so, and ends.
//! (The network of `network.rs`.)

use std::time::Duration;

use lab::{Lab, Router, inside};

use crate::network::{LANES, Line, SERVER, all_arrive, ports};

/// Both families get through in each lane, and it is the plane that forwards.
fn forwards() {
    for lane in LANES {
        let net = Line::new("debian", lane);
        let shown = net.router.ask("show ports").unwrap();
        assert!(shown.contains("left") && shown.contains("right"), "{shown}");
        let before = net.lanes();
        all_arrive(&net.router, &net.customer, &net.server, &SERVER, 2000);
        let after = net.lanes();
        let (express, worker) = (after.0 - before.0, after.1 - before.1);
        let by_lane = if lane == "express" { express } else { worker };
        assert!(by_lane >= 4000, "{lane}: {express} packets in the driver, {worker} by workers");
    }
}

#[test]
fn on_6_12() {
    inside!("6.12", forwards);
}

#[test]
fn on_the_newest() {
    inside!("newest", forwards);
}

#[test]
fn on_6_1_it_says_what_it_wants() {
    inside!("6.1", || {
        let lab = Lab::new("old").unwrap();
        let host = lab.router("router").unwrap();
        let left = lab.host("left").unwrap();
        lab.link(host.end("left").address("10.1.0.1/24"), left.end("eth0")).unwrap();
        let router = Router::stopped(&host, &ports("auto", &["left"])).unwrap();
        let (status, said) = router.run_to_its_end(Duration::from_secs(60)).unwrap();
        println!("{said}");
        assert!(!status.success() && said.contains("6.6"), "{status}: {said}");
    });
}
