//! Kill the plane at any moment: Linux forwards at once, TCP lives on, and the plane's return is
//! not noticed either. (The network of `network.rs`.)

use std::{thread::sleep, time::Duration};

use lab::Ping;

use crate::network::{LANES, Line, SERVER, all_arrive, ports};

#[test]
fn in_each_lane() {
    for lane in LANES {
        let mut net = Line::new("kill", lane);
        all_arrive(&net.router, &net.customer, &net.server, &SERVER, 500);
        let mut iperf = net.server.command("iperf3");
        iperf.args(["-s", "-1", "--forceflush"]);
        let _server = net.server.spawn("iperf3", iperf).unwrap();
        net.server.listens(5201).unwrap();
        let mut client = net.customer.command("iperf3");
        client.args(["-c", SERVER[0], "-t", "5", "-b", "50M", "-J"]);
        let mut tcp = net.customer.spawn("iperf3", client).unwrap();
        let pings =
            SERVER.map(|address| Ping::start(&net.customer, address, Duration::from_millis(10)).unwrap());
        sleep(Duration::from_secs(1));

        net.router.kill_nine();
        sleep(Duration::from_secs(1));
        let after_kill: Vec<_> = pings.iter().map(Ping::statistics).collect();
        for ping in &after_kill {
            assert!(ping.sent > 150, "the ping did not run: {ping:?}");
            assert!(ping.lost() <= 2, "{lane}: the end of the plane cost more than 2 packets: {ping:?}");
        }

        net.router.restart().unwrap();
        sleep(Duration::from_secs(1));
        for (ping, before) in pings.into_iter().zip(after_kill) {
            let ping = ping.stop();
            assert_eq!(ping.lost(), before.lost(), "{lane}: the plane's return cost packets: {ping:?}");
        }
        assert!(
            tcp.wait(Duration::from_secs(10)).unwrap().success(),
            "{lane}: TCP did not live on: {}",
            tcp.output()
        );
        all_arrive(&net.router, &net.customer, &net.server, &SERVER, 500);
    }
}

/// Ports are taken one after the other, and what leads to those that are not is Linux's: at its own
/// rate, not at that of what Bifrost cannot forward.
#[test]
fn nothing_is_held_up_while_ports_are_taken() {
    for lane in LANES {
        let few = ports(lane, &["left", "right"]) + "[police.unresolved]\nrate = 1\nburst = 1\n";
        let mut net = Line::stopped("taken", &few);
        net.reachable();
        let pings =
            SERVER.map(|address| Ping::start(&net.customer, address, Duration::from_millis(2)).unwrap());
        sleep(Duration::from_millis(200));
        net.router.restart().unwrap();
        sleep(Duration::from_millis(200));
        let started: Vec<_> = pings.iter().map(Ping::statistics).collect();
        net.router.configure(&few.replace("[[port]]", "[[port]]\nzero_copy = \"off\"")).unwrap();
        if net.router.is_bifrost() {
            net.router.ask("reload").unwrap();
        }
        sleep(Duration::from_millis(200));
        for (ping, started) in pings.into_iter().zip(started) {
            assert_eq!((started.sent > 100, started.lost()), (true, 0), "{lane}: {started:?}");
            let ping = ping.stop();
            assert!(ping.lost() <= 2, "{lane}: that ports are taken otherwise cost packets: {ping:?}");
        }
        if net.router.is_bifrost() {
            let limits = net.router.ask("show classifier").unwrap();
            let unresolved = limits.lines().find(|line| line.starts_with("unresolved")).unwrap();
            assert_eq!(unresolved.split_whitespace().nth(1), Some("1"), "{limits}");
        }
    }
}
