//! Hosts on a bridge reach the world through a stateful filter and a masquerade, in the plane. A
//! host that moves to another member keeps its connections, and so do the others when a member
//! goes. Linux learns where hosts are from what they send, though it forwards none of it. When the
//! plane goes, Linux filters and translates the same. (The network of `bridged.rs`; the server has
//! no way to the bridge but by a route of its own, which the filter closes.)

use std::time::Duration;

use lab::{Iperf, Ping, wait_for};

use crate::bridged::{Bridged, MEMBERS, MOVER, PATIENCE, addresses, bridge};
use crate::network::{SERVER, flow_of_iperf, overheard, ports};

const POLICY: &str = r#"
[flow]
memory = 16

[filter.forward]
rules = '''
accept state established,related
accept in br0 state new name out
drop
'''

[[nat.rule]]
name = "home"
type = "masquerade"
out = "wan"
source = "10.1.0.0/24"
"#;

/// Waits until the transfer has gone on; the same flow as before.
fn goes_on(net: &Bridged) {
    let (reply, before) = flow_of_iperf(&net.router).unwrap();
    wait_for("the transfer to go on", PATIENCE, || match flow_of_iperf(&net.router)? {
        (same, now) if now > before + 500_000 && same == reply => Ok(()),
        (other, now) => Err(format!("{now} bytes after {before}, {other} after {reply}")),
    })
    .unwrap_or_else(|e| panic!("{e}\n{}", net.state()));
}

fn in_lane(lane: &str) {
    let mut net = Bridged::stopped(lane);
    net.run(&bridge());
    let config = ports(lane, &[&MEMBERS[..], &["wan"]].concat()) + POLICY;
    net.router.configure(&config).unwrap();
    net.router.restart().unwrap();
    net.sends_by(&MEMBERS);
    net.server.run("ip route del default; ip -6 route del default").unwrap();
    for host in &net.hosts {
        host.reaches(SERVER[0], PATIENCE).unwrap_or_else(|e| panic!("{e}\n{}", net.state()));
    }
    let untranslated = overheard(&net.server, "net 10.1.0.0/24");

    // Linux forgets within a second who says nothing to it: it is to learn all the time.
    net.run("ip link set br0 type bridge ageing_time 100");
    net.move_host("eth1", "eth0");
    net.mover.reaches(SERVER[0], PATIENCE).unwrap();
    let before = net.router.host().linux_forwarded().unwrap();
    let ping = Ping::start(&net.hosts[1], SERVER[0], Duration::from_millis(10)).unwrap();
    let mut transfer = Iperf::start(&net.mover, &net.server, SERVER[0], 5201, 20).unwrap();
    wait_for("its flow", PATIENCE, || flow_of_iperf(&net.router).map(drop)).unwrap();
    goes_on(&net);
    for (from, into, port) in [("eth0", "eth1", "lan2"), ("eth1", "eth0", "lan3"), ("eth0", "eth1", "lan2")] {
        net.move_host(from, into);
        goes_on(&net);
        let known = || net.router.host().run("bridge fdb show br br0").unwrap();
        let is = format!("{MOVER} dev {port}");
        wait_for("Linux to learn", PATIENCE, || if known().contains(&is) { Ok(()) } else { Err(known()) })
            .unwrap_or_else(|e| panic!("{e}\n{}", net.state()));
    }
    net.run("ip link set lan0 down; ip link set lan3 down");
    net.sends_by(&MEMBERS[1..3]);
    goes_on(&net);
    net.run("ip link set lan0 up; ip link set lan3 up");
    net.sends_by(&MEMBERS);
    goes_on(&net);
    assert!(transfer.lives());
    drop(transfer.stop());
    let by_linux = net.router.host().linux_forwarded().unwrap() - before;
    assert!(by_linux < 50, "Linux forwarded {by_linux}\n{}", net.state());
    let statistics = ping.stop();
    let lost = statistics.lost();
    assert!(lost <= 20, "{lost} lost\n{}", net.state());

    let heard = untranslated.output();
    assert!(!heard.contains("10.1.0."), "{heard}");
    drop(untranslated);

    // Nobody calls in, whoever forwards; and who is called answers.
    let closed = |net: &Bridged| {
        net.server.run("ip route replace 10.1.0.0/24 via 10.2.0.1").unwrap();
        let said = net.server.run(&format!("ping -c 3 -i 0.1 -W 1 {} || true", addresses(10)[0])).unwrap();
        assert!(said.contains(" 100% packet loss"), "{said}");
        net.server.run("ip route del 10.1.0.0/24 via 10.2.0.1").unwrap();
        net.hosts[0].reaches(SERVER[0], PATIENCE).unwrap_or_else(|e| panic!("{e}\n{}", net.state()));
    };
    closed(&net);
    net.router.stop().unwrap();
    closed(&net);
}

#[test]
fn by_workers() {
    in_lane("worker");
}

#[test]
fn in_the_driver_as_well() {
    in_lane("auto");
}
