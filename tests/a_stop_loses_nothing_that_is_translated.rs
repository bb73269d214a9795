//! A graceful stop and the start after it cost translated flows no packet: what Linux takes over on
//! the way down it translates itself, by the same addresses and ports, and hands back. (The network
//! of `network.rs`.)

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
    by("auto", ["left", "right"], 0);
}

/// Answers come home although the port that they come to is the first.
#[test]
fn in_the_driver_whichever_port_is_first() {
    by("auto", ["right", "left"], 0);
}

#[test]
fn by_workers() {
    by("worker", ["left", "right"], 0);
}

/// Ports that carry the flow are there long before the last one is taken.
#[test]
fn while_many_other_ports_are_taken() {
    by("worker", ["left", "right"], 48);
}

fn by(lane: &str, names: [&str; 2], others: usize) {
    let more = if others == 0 { "" } else { "[[port]]\nname = \"more*\"\n" };
    let mut net = Line::stopped("stop-nat", &(ports(lane, &names) + more + MASQUERADE));
    if !net.router.is_bifrost() {
        return;
    }
    let host = net.router.host();
    for n in 0..others {
        host.run(&format!(
            "ip link add more{n} type veth peer name far{n}; ip link set more{n} up; ip link set far{n} up"
        ))
        .unwrap();
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
