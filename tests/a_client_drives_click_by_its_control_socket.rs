//! A client of Click's control protocol reads and writes handlers of a running `bifrost click` over
//! TCP, and gives it another configuration, while packets pass. (The network of `ethernets.rs`,
//! where click is a wire between the hosts.)

use std::io::{Read, Write};
use std::time::Duration;

use lab::Ping;

use crate::ethernets::Ethernets;

/// A wire from one host to the other, with a counter and a switch in it.
const WIRE: &str = "
FromDevice(left, PROMISC true) -> c :: Counter -> gate :: Switch(0) -> there :: Queue -> ToDevice(right);
FromDevice(right, PROMISC true) -> back :: Queue -> ToDevice(left);
gate[1] -> Discard;
";

/// The same with another element in it, and another size of a queue.
const LONGER: &str = "
FromDevice(left, PROMISC true) -> c :: Counter -> n :: Counter -> gate :: Switch(0) -> there :: Queue(500) -> ToDevice(right);
FromDevice(right, PROMISC true) -> back :: Queue -> ToDevice(left);
gate[1] -> Discard;
";

#[test]
fn and_changes_its_configuration_under_traffic() {
    let mut net = Ethernets::new("clickctl", 1500, WIRE);
    // One network, without a router.
    net.alice.run("ip address add 10.3.0.1/24 dev eth0").unwrap();
    net.bob.run("ip address add 10.3.0.2/24 dev eth0").unwrap();
    let reached = net.alice.reaches("10.3.0.2", Duration::from_secs(5));
    reached.unwrap_or_else(|e| panic!("{e}\n{}", net.click.process().output()));
    words(&net);

    // A switch is turned, and back.
    net.click.write("gate.switch", "1").unwrap();
    assert!(net.alice.run("ping -n -c1 -W0.3 10.3.0.2").is_err());
    assert_eq!(net.click.read("gate.switch").unwrap().trim(), "1");
    net.click.write("gate.switch", "0").unwrap();
    net.alice.reaches("10.3.0.2", Duration::from_secs(1)).unwrap();

    let ping = Ping::start(&net.alice, "10.3.0.2", Duration::from_millis(5)).unwrap();
    let count = |net: &mut Ethernets, element: &str| -> u64 {
        net.click.read(&format!("{element}.count")).unwrap().trim().parse().unwrap()
    };
    let mut before = count(&mut net, "c");
    for round in 0..5 {
        for text in [LONGER, WIRE] {
            net.click.write("hotconfig", text).unwrap();
            // A wrong one is refused, and changes nothing.
            let wrong = WIRE.replace("Counter", "Conter");
            let refused = net.click.write("hotconfig", &wrong).unwrap_err().to_string();
            assert!(refused.contains("Conter"), "{refused}");
            before = lab::wait_for("packets to be counted", Duration::from_secs(5), || {
                match count(&mut net, "c") {
                    now if now > before => Ok(now),
                    now => Err(format!("round {round}: {now} after {before}")),
                }
            })
            .unwrap();
        }
        assert!(net.click.read("n.count").is_err());
    }
    // The signal has it read its file again.
    std::fs::write(net.click.file(), LONGER).unwrap();
    let process = net.click.process().pid();
    net.between.run(&format!("kill -HUP {process}")).unwrap();
    lab::wait_for("the file to be read again", Duration::from_secs(2), || {
        net.click.read("n.count").map(drop).map_err(|error| error.to_string())
    })
    .unwrap();
    let ping = ping.stop();
    assert_eq!(ping.lost(), 0, "{ping:?}");
    assert!(count(&mut net, "c") >= before, "it has counted on");
}

/// The very words of the protocol, on a connection of their own.
fn words(net: &Ethernets) {
    let mut line = net.click.connect().unwrap();
    line.write_all(
        b"READ gate.switch\r\nwrite gate.switch 0\nREAD nobody.switch\nREAD gate.nothing\nWRITEDATA gate.switch 1\n0CHECKREAD c.count\nQUIT\n",
    )
    .unwrap();
    let mut said = String::new();
    line.read_to_string(&mut said).unwrap();
    assert!(said.contains("DATA 1\r\n0"), "{said}");
    // The data have no end of line.
    let said = said.replace("DATA 1\r\n0", "");
    let codes: Vec<&str> = (said.lines())
        .filter(|line| line.as_bytes().get(3) == Some(&b' ') && line.starts_with(['2', '5']))
        .map(|line| &line[..3])
        .collect();
    assert_eq!(codes, ["200", "200", "510", "511", "200", "200", "200"], "{said}");
}
