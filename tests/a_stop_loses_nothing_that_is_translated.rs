//! A graceful stop and the start after it cost translated flows no packet: what Linux takes over on the way down it translates
//! itself, by the same addresses and ports, and hands back. (The network of `network.rs`.)

use std::{thread::sleep, time::Duration};

use lab::Ping;

use crate::network::{Line, ports};

const MASQUERADE: &str = r#"
[flow]
memory = 16

[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
source = "10.1.0.0/24"
"#;

#[test]
fn in_the_driver() {
    by("auto");
}

#[test]
fn by_workers() {
    by("worker");
}

fn by(lane: &str) {
    let mut net = Line::stopped("stop-nat", &(ports(lane, &["left", "right"]) + MASQUERADE));
    if !net.router.is_bifrost() {
        return;
    }
    net.server.run("ip route del default; ip route add 10.2.0.0/24 dev eth0 2>/dev/null || true").unwrap();
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let ping = Ping::start(&net.customer, "10.2.0.2", Duration::from_millis(1)).unwrap();
    sleep(Duration::from_millis(500));
    let running = ping.statistics();
    net.router.stop().unwrap();
    sleep(Duration::from_millis(700));
    let stopped = ping.statistics();
    net.router.restart().unwrap();
    sleep(Duration::from_millis(700));
    let again = ping.statistics();
    assert_eq!(running.lost(), 0, "{running:?}");
    assert_eq!(stopped.lost(), 0, "the stop cost packets: {stopped:?}");
    assert_eq!(again.lost(), 0, "the start cost packets: {again:?}\n{}", net.router.log());
}
