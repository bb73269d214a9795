//! SIGSTOP: nobody keeps the tables nor empties the rings any more, but the programs in the driver
//! are there. Within a second they leave packets to Linux, which forwards by the routes that it has
//! then. SIGCONT: all is as before. (The network of `network.rs`.)

use std::time::{Duration, Instant};

use lab::{Iperf, Ping, Signal, wait_for};

use crate::network::{LANES, Line, SERVER, all_arrive, ports};

/// An address at the server whose route is another while the router is stopped.
const MOVED: &str = "192.0.2.1";

#[test]
fn in_each_lane() {
    for lane in LANES {
        let mut net = Line::stopped("stopped", &ports(lane, &["left", "right"]));
        if !net.router.is_bifrost() {
            return;
        }
        net.server.run(&format!("ip address add {MOVED}/32 dev lo")).unwrap();
        net.router.host().run(&format!("ip route add unreachable {MOVED}")).unwrap();
        net = net.started();
        all_arrive(&net.router, &net.customer, &net.server, &SERVER, 500);
        let pings =
            SERVER.map(|address| Ping::start(&net.customer, address, Duration::from_millis(10)).unwrap());

        net.router.process().unwrap().signal(Signal::SIGSTOP);
        let stopped = Instant::now();
        net.router.host().run(&format!("ip route replace {MOVED} via {}", SERVER[0])).unwrap();
        let followed = net.customer.reaches(MOVED, Duration::from_secs(10));
        let reached = SERVER.map(|address| net.customer.reaches(address, Duration::from_secs(10)));
        // Workers and control promise one after the other: by then both have broken it.
        std::thread::sleep(Duration::from_secs(2).saturating_sub(stopped.elapsed()));
        net.router.process().unwrap().signal(Signal::SIGCONT);
        for outcome in reached.into_iter().chain([followed]) {
            outcome.unwrap_or_else(|error| panic!("{lane}: {error}"));
        }
        for ping in pings.map(Ping::stop) {
            assert!(ping.sent > 50, "the ping did not run: {ping:?}");
            assert!(ping.longest_gap < 300, "{lane}: a stopped router was an outage: {ping:?}");
        }

        wait_for("the router to say so", Duration::from_secs(5), || {
            let log = net.router.log();
            log.contains("the control thread was not there").then_some(()).ok_or(log)
        })
        .unwrap();
        all_arrive(&net.router, &net.customer, &net.server, &[SERVER[0], SERVER[1], MOVED], 500);
    }
}

/// Linux knows nothing of flows that the router translates: what the driver carries of them it goes
/// on to carry.
#[test]
fn translated_flows_go_on_in_the_driver() {
    const RULES: &str = "[[nat.rule]]\nname = \"m\"\ntype = \"masquerade\"\nout = \"right\"\n";
    let mut net = Line::stopped("stopnat", &(ports("auto", &["left", "right"]) + RULES));
    if !net.router.is_bifrost() {
        return;
    }
    net = net.started();
    let transfer = Iperf::start(&net.customer, &net.server, SERVER[0], 5201, 20).unwrap();
    let seconds = |more: usize| {
        let known = transfer.megabits().len() + more;
        wait_for("the transfer to go on", Duration::from_secs(20), || {
            let seconds = transfer.megabits();
            let good = |second: &f64| *second > 10.0;
            (seconds.len() > known && seconds[known..].iter().any(good))
                .then_some(())
                .ok_or(format!("{seconds:?}"))
        })
        .unwrap();
    };
    seconds(1);
    net.router.process().unwrap().signal(Signal::SIGSTOP);
    seconds(3);
    net.router.process().unwrap().signal(Signal::SIGCONT);
    seconds(1);
    let megabits = transfer.stop().unwrap();
    let still = megabits.iter().filter(|second| **second < 1.0).count();
    assert!(still <= 3, "the transfer stood still: {megabits:?}");
}
