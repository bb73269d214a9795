//! The network of the tests of redundancy, and the parts they share.
//!
//! ```text
//!                        .2 one .2
//!   customer --- left <             > right --- server
//!       .9   10.1.0.0/24 .3 two .3  10.2.0.0/24   .9
//! ```
//!
//! `left` and `right` are switches. The customer and the server send to the virtual addresses .1;
//! `two` has a lower priority than `one`.

use std::{thread::sleep, time::Duration};

use lab::{Flows, Host, Lab, Router, Sink, wait_for};
use serde_json::Value;

use crate::network::{Turn, turn};
use crate::stalls::Stalls;

/// The server.
pub const SERVER: &str = "10.2.0.9";
/// Datagrams a second of the stream that loss is measured with.
pub const RATE: u32 = 10_000;
const PORT: u16 = 9000;

/// Fields go in the order they are dropped.
pub struct Pair {
    pub one: Host,
    pub two: Host,
    pub customer: Host,
    pub server: Host,
    pub left: Host,
    pub right: Host,
    pub lab: Lab,
    _turn: Turn,
}

impl Pair {
    pub fn new(name: &str) -> Pair {
        let turn = turn();
        let lab = Lab::new(name).unwrap();
        let [customer, server] = ["customer", "server"].map(|name| lab.host(name).unwrap());
        let [one, two] = ["one", "two"].map(|name| lab.router(name).unwrap());
        let [left, right] = ["left", "right"].map(|name| lab.host(name).unwrap());
        for (switch, net, end) in [(&left, "10.1.0", &customer), (&right, "10.2.0", &server)] {
            switch.run("ip link add switch type bridge mcast_snooping 0; ip link set switch up").unwrap();
            let name = switch.name();
            for (host, interface, last) in [(&one, name, 2), (&two, name, 3), (end, "eth0", 9)] {
                let port = host.name();
                let there = host.end(interface).address(&format!("{net}.{last}/24"));
                lab.link(there, switch.end(port)).unwrap();
                switch.run(&format!("ip link set {port} master switch")).unwrap();
            }
            end.run(&format!("ip route add default via {net}.1")).unwrap();
        }
        Pair { one, two, customer, server, left, right, lab, _turn: turn }
    }

    /// A stream through the pair, of which nothing was lost so far.
    pub fn stream(&self) -> Stream {
        self.customer.reaches(SERVER, Duration::from_secs(10)).unwrap();
        let sink = Sink::start(&self.server, PORT).unwrap();
        let to = format!("{SERVER}:{PORT}").parse().unwrap();
        let stalls = Stalls::start();
        let flows = Flows::start(&self.customer, vec![to], 16, 64, RATE).unwrap();
        sink.has_received(u64::from(RATE) / 2, Duration::from_secs(10)).unwrap();
        Stream { flows, sink, stalls }
    }
}

/// [`RATE`] datagrams a second through a [`Pair`].
pub struct Stream {
    flows: Flows,
    sink: Sink,
    stalls: Stalls,
}

impl Stream {
    /// How many datagrams the routers lost in all, some time after something happened. What was
    /// sent while the machine itself stood still is not theirs.
    pub fn lost(self) -> u64 {
        sleep(Duration::from_secs(1));
        let sent = self.flows.stop();
        let stalled = self.stalls.stop();
        // What is under way arrives.
        let _ = self.sink.has_received(sent, Duration::from_secs(1));
        let lost = sent - self.sink.received();
        println!("{lost} of {RATE} datagrams a second lost; cores stood still for {stalled:?}");
        lost.saturating_sub((stalled.as_secs_f64() * f64::from(RATE)).ceil() as u64)
    }
}

/// A configuration with both ports and these lines for each of two virtual routers that move
/// together.
pub fn config(lines: &str) -> String {
    let ports = "[[port]]\nname = \"left\"\n[[port]]\nname = \"right\"\n";
    let [left, right] = [("left", 1), ("right", 2)].map(|(name, net)| {
        format!(
            "[vrrp.{name}]\ninterface = \"{name}\"\nid = {net}0\naddresses = [\"10.{net}.0.1\"]\n\
             sync = \"both\"\n{lines}\n"
        )
    });
    format!("{ports}{left}{right}")
}

/// The state of a virtual router.
pub fn state(router: &Router, name: &str) -> String {
    status(router, name)["state"].as_str().unwrap_or_default().to_owned()
}

/// All that is known of it.
pub fn status(router: &Router, name: &str) -> Value {
    let all = router.show("redundancy").unwrap();
    all.as_array().and_then(|all| all.iter().find(|one| one["name"] == name)).cloned().unwrap_or_default()
}

/// Waits until it has a state.
#[track_caller]
pub fn becomes(router: &Router, name: &str, wanted: &str) {
    let log = |state| format!("{name} is {state}\n{}", router.log());
    wait_for(&format!("{name} to be {wanted}"), Duration::from_secs(10), || match state(router, name) {
        state if state == wanted => Ok(()),
        state => Err(log(state)),
    })
    .unwrap();
}
