//! Bifrost takes ports and forwards on Debian's own kernels: what comes in by one port in the
//! driver, what comes in by the other by a worker. Linux 6.1 does not tell where the driver can send
//! by a veth: there all that is for one is sent by workers. (The network of `network.rs`.)

use lab::inside;

use crate::network::{Line, SERVER, arrive, ports};

const CUSTOMER: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
const COUNT: u64 = 2000;
/// A second: what an emulated core sends, forwards and receives with time to spare.
const RATE: u32 = 1000;
const ROUNDS: usize = 5;

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

/// Linux 6.1: see above.
fn forwards_by_workers() {
    let (express, worker) = carried(Line::stopped);
    assert!(express == 0 && worker >= 2 * COUNT, "{express} packets in the driver, {worker} by workers");
}

/// Packets of both directions and families: how many the driver forwarded, and how many workers.
///
/// An emulated core is away for a second now and then, and the driver leaves transit to Linux
/// meanwhile: so one of several rounds has to be carried whole.
fn carried(line: fn(&str, &str) -> Line) -> (u64, u64) {
    let config = ports("express", &["left"]) + "[[port]]\nname = \"right\"\nlane = \"worker\"\n";
    let net = line("debian", &config).started();
    let round = || {
        let before = net.lanes();
        let there = arrive(RATE, &net.router, &net.customer, &net.server, &SERVER, COUNT);
        let back = arrive(RATE, &net.router, &net.server, &net.customer, &CUSTOMER, COUNT);
        let (express, worker) = net.lanes();
        let whole = [there, back].iter().all(|(received, by_linux)| *by_linux <= received / 50);
        let lanes = (express - before.0, worker - before.1);
        if whole { Ok(lanes) } else { Err([there, back]) }
    };
    let mut others = Vec::new();
    for _ in 0..ROUNDS {
        match round() {
            Ok(lanes) => return lanes,
            Err(by_linux) => others.push(by_linux),
        }
    }
    panic!("in no round it was carried whole; received, and forwarded by Linux: {others:?}");
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
