//! A neighbour whose Ethernet address changes, or which is forgotten, costs no more than a moment.
//! (The network of `network.rs`.)

use std::{thread::sleep, time::Duration};

use lab::{Flows, Sink};

use crate::network::{LANES, Line, SERVER, at};

#[test]
fn in_each_lane() {
    for lane in LANES {
        let net = Line::new("neighbour", lane);
        let host = net.router.host().clone();
        for (n, address) in SERVER.into_iter().enumerate() {
            let sink = Sink::start(&net.server, 9000).unwrap();
            let flows = Flows::start(&net.customer, vec![at(address, 9000)], 4, 64, 2000).unwrap();
            sink.has_received(500, Duration::from_secs(5)).unwrap();

            // The server's interface gets another address, and Linux is told so in the same moment.
            let mac = format!("02:00:5e:00:53:{n:02x}");
            net.server.run(&format!("ip link set eth0 address {mac}")).unwrap();
            for known in SERVER {
                host.run(&format!("ip neighbour replace {known} lladdr {mac} dev right nud reachable"))
                    .unwrap();
            }
            settled(&sink, &flows, lane, "another Ethernet address");

            // Linux forgets the server: it has to be asked for again, and packets wait for the
            // answer.
            host.run(&format!("ip neighbour del {address} dev right")).unwrap();
            settled(&sink, &flows, lane, "a forgotten neighbour");
        }
    }
}

/// After a moment everything arrives again, and what the moment cost is less than 100 ms of
/// traffic.
fn settled(sink: &Sink, flows: &Flows, lane: &str, what: &str) {
    sleep(Duration::from_millis(300));
    let lost = flows.sent() as i64 - sink.received() as i64;
    assert!(lost < 250, "{lane}: {what} has cost {lost} datagrams at 2000 a second");
    let (sent, seen) = (flows.sent(), sink.received());
    sleep(Duration::from_millis(300));
    let (more, arrived) = ((flows.sent() - sent) as i64, (sink.received() - seen) as i64);
    assert!((more - arrived).abs() < 20, "{lane}: after {what} {arrived} of {more} arrive");
}
