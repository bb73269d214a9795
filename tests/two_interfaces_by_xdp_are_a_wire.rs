//! `bifrost click` passes every frame from one interface to the other by AF_XDP, on one thread and
//! on two; killed, it leaves no program behind, and Linux has its interfaces back. (The network of
//! `ethernets.rs`.)

use std::time::Duration;

use lab::{Click, Flows, Sink, transfer, wait_for};

use crate::ethernets::Ethernets;
use crate::network::at;

/// Both ways, each frame as it is.
const WIRE: &str = "
there :: FromDevice(left, METHOD XDP) -> Queue -> out :: ToDevice(right, METHOD XDP);
back :: FromDevice(right, METHOD XDP) -> Queue -> ToDevice(left, METHOD XDP);
";

/// Each way on a thread of its own.
const THREADS: &str = "StaticThreadSched(there 0, back 1);";

/// The same wire, but what leaves by left is Linux's to receive there.
const ONE_WAY: &str = "
there :: FromDevice(left, METHOD XDP) -> Queue -> out :: ToDevice(right, METHOD XDP);
";

#[test]
fn on_one_thread_and_on_two() {
    let mut net = one_network("clickxdp", WIRE);
    carries(&mut net);
    net.click.process().kill();
    net.click =
        Click::start_with(&net.between, &["-j", "2", "--batch"], &format!("{WIRE}{THREADS}")).unwrap();
    carries(&mut net);
}

#[test]
fn and_kill_nine_leaves_no_program() {
    let mut net = one_network("clickkill", WIRE);
    net.alice.reaches("10.3.0.2", Duration::from_secs(5)).unwrap();
    assert_eq!(programs(&net), 2);

    // An interface that is only sent by stays Linux's.
    net.click.write("hotconfig", ONE_WAY).unwrap();
    wait_for("one program", Duration::from_secs(2), || match programs(&net) {
        1 => Ok(()),
        n => Err(format!("{n} are there")),
    })
    .unwrap();
    net.between.run("ip address add 10.3.0.3/24 dev right").unwrap();
    net.bob.reaches("10.3.0.3", Duration::from_secs(1)).unwrap();
    assert!(net.alice.run("ping -n -c1 -W0.3 10.3.0.3").is_err(), "left is still click's");

    net.click.process().kill();
    assert_eq!(programs(&net), 0);
    net.between.run("ip address del 10.3.0.3/24 dev right; ip address add 10.3.0.3/24 dev left").unwrap();
    net.alice.reaches("10.3.0.3", Duration::from_secs(2)).unwrap();
}

/// Alice and bob have addresses of one network.
fn one_network(name: &str, configuration: &str) -> Ethernets {
    let net = Ethernets::new(name, 1500, configuration);
    net.alice.run("ip address add 10.3.0.1/24 dev eth0").unwrap();
    net.bob.run("ip address add 10.3.0.2/24 dev eth0").unwrap();
    net
}

/// Interfaces with an XDP program between the hosts.
fn programs(net: &Ethernets) -> usize {
    let links = net.between.run("ip -j link show").unwrap();
    links.matches("\"xdp\":{").count()
}

/// Nothing is lost or changed, and the frames are counted.
fn carries(net: &mut Ethernets) {
    net.alice
        .reaches("10.3.0.2", Duration::from_secs(5))
        .unwrap_or_else(|e| panic!("{e}\n{}", net.click.process().output()));
    let count =
        |net: &mut Ethernets| -> u64 { net.click.read("there.count").unwrap().trim().parse().unwrap() };
    let before = count(net);
    let sink = Sink::start(&net.bob, 9000).unwrap();
    let flows = Flows::start(&net.alice, vec![at("10.3.0.2", 9000)], 8, 64, 5000).unwrap();
    sink.has_received(3000, Duration::from_secs(10)).unwrap();
    let sent = flows.stop();
    sink.has_received(sent, Duration::from_secs(2)).unwrap();
    let counted = count(net) - before;
    assert!((sent..sent + 10).contains(&counted), "{counted} frames of {sent} datagrams");
    for (from, to, address) in [(&net.alice, &net.bob, "10.3.0.2"), (&net.bob, &net.alice, "10.3.0.1")] {
        let stream = transfer(from, to, address.parse().unwrap(), 20 << 20).unwrap();
        assert_eq!(stream.sent, stream.arrived);
    }
    assert!(net.click.read("there.method").unwrap().starts_with("XDP native copy"));
    assert_eq!(net.between.linux_forwarded().unwrap(), 0);
}
