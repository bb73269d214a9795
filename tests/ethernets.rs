//! The network of the tests that run `bifrost click` as a router between two Linux hosts. Linux is
//! no router there: the interfaces have no addresses, so what is answered and forwarded is the
//! graph's doing.
//!
//! ```text
//!   alice -------------- click -------------- bob
//!     .2   10.1.0.0/24   .1  .1  10.2.0.0/24  .2
//!    ::2  2001:db8:1::  ::1  ::1 2001:db8:2:: ::2
//!   eth0              left  right            eth0
//! ```

use lab::{Click, Host, Lab};

use crate::network::{Turn, turn};

/// The Ethernet addresses of the router's interfaces.
pub const ETHERS: [&str; 2] = ["02:00:00:00:01:01", "02:00:00:00:02:01"];

/// Fields go in the order they are dropped.
pub struct Ethernets {
    pub click: Click,
    pub alice: Host,
    pub bob: Host,
    pub between: Host,
    _lab: Lab,
    _turn: Turn,
}

impl Ethernets {
    /// The network, whose link to bob carries `mtu` bytes, with this configuration in the middle.
    pub fn new(name: &str, mtu: u32, configuration: &str) -> Ethernets {
        let turn = turn();
        let lab = Lab::new(name).unwrap();
        let [alice, between, bob] = ["alice", "click", "bob"].map(|host| lab.host(host).unwrap());
        between.sysctl(&[("net.ipv6.conf.default.disable_ipv6", "1"), ("net.ipv4.ip_forward", "0")]).unwrap();
        lab.link(
            alice.end("eth0").address("10.1.0.2/24").address("2001:db8:1::2/64"),
            between.end("left").mac(ETHERS[0]),
        )
        .unwrap();
        lab.link(
            between.end("right").mac(ETHERS[1]).mtu(mtu),
            bob.end("eth0").address("10.2.0.2/24").address("2001:db8:2::2/64").mtu(mtu),
        )
        .unwrap();
        // What the graph sees are the packets that were sent, and not several that Linux has put
        // together.
        between.run("ethtool -K left gro off; ethtool -K right gro off").unwrap();
        alice.run("ip route add default via 10.1.0.1; ip -6 route add default via 2001:db8:1::1").unwrap();
        bob.run("ip route add default via 10.2.0.1; ip -6 route add default via 2001:db8:2::1").unwrap();
        let click = Click::start(&between, configuration).unwrap();
        Ethernets { click, alice, bob, between, _lab: lab, _turn: turn }
    }

    /// The Ethernet address that a host has learnt for one of its neighbours.
    pub fn neighbour(host: &Host, address: &str) -> String {
        let line = host.run(&format!("ip neighbour show {address}")).unwrap();
        let mut words = line.split_whitespace().skip_while(|word| *word != "lladdr");
        words.nth(1).unwrap_or_else(|| panic!("{address} is not known: {line}")).to_owned()
    }
}
