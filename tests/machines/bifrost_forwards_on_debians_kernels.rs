//! Bifrost takes ports and forwards on Debian's own kernels: what comes in by one port in the
//! driver, what comes in by the other by a worker. Linux 6.1 does not tell where the driver can
//! send by a veth: there all that is for one is sent by workers. (The network of `network.rs`.)

use lab::inside;

use crate::network::{Line, SERVER, all_arrive, ports};

const CUSTOMER: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
const COUNT: u64 = 2000;

/// The network with the guest's virtio-net cards instead of veths.
fn by_cards(name: &str, config: &str) -> Line {
    Line::joined(name, config, 1500, |lab, a, b| lab.link_by_cards(a, b).unwrap())
}

/// Loading the programs takes an emulated kernel many seconds: so both lanes are tried by one
/// daemon.
fn forwards(line: fn(&str, &str) -> Line) {
    let (express, worker) = carried(line);
    let enough = 2 * COUNT - 2 * COUNT / 50;
    assert!(express >= enough && worker >= enough, "{express} packets in the driver, {worker} by workers");
}

/// While an emulated machine is busy the driver takes workers for stuck now and then, and Linux
/// forwards.
fn forwards_by_workers() {
    let (express, worker) = carried(Line::stopped);
    assert!(express == 0 && worker >= 2 * COUNT, "{express} packets in the driver, {worker} by workers");
}

/// Packets of both directions and families: how many the driver forwarded, and how many workers.
fn carried(line: fn(&str, &str) -> Line) -> (u64, u64) {
    let config = ports("express", &["left"]) + "[[port]]\nname = \"right\"\nlane = \"worker\"\n";
    let net = line("debian", &config).started();
    let (express, worker) = net.lanes();
    all_arrive(&net.router, &net.customer, &net.server, &SERVER, COUNT);
    all_arrive(&net.router, &net.server, &net.customer, &CUSTOMER, COUNT);
    (net.lanes().0 - express, net.lanes().1 - worker)
}

mod on_6_1 {
    use super::*;

    #[test]
    fn between_cards() {
        inside!("6.1", || forwards(by_cards));
    }

    #[test]
    fn between_veths() {
        inside!("6.1", forwards_by_workers);
    }
}

#[test]
fn on_6_12() {
    inside!("6.12", || forwards(Line::stopped));
}

#[test]
fn on_the_newest() {
    inside!("newest", || forwards(Line::stopped));
}
