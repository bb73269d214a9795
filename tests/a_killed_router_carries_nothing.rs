//! While the driver carries decided flows the daemon is killed: no program of it forwards on, Linux
//! does, by the same rules; open connections live, busy and idle ones, what was blocked is blocked,
//! and a new daemon carries them on. (The network of `network.rs`.)

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use lab::{Iperf, wait_for};

use crate::network::{Line, ports};

const RULES: &str = r#"
[flow]
memory = 16
[filter.forward]
rules = '''
accept state established,related
drop state invalid
accept tcp from 10.1.0.0/24 to any port 5201,7000 state new
accept icmp from 10.1.0.0/24 state new
drop'''
"#;

fn talk([near, far]: &[TcpStream; 2]) {
    let mut word = [0; 4];
    for (mut from, mut to) in [(near, far), (far, near)] {
        to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        from.write_all(b"word").unwrap();
        to.read_exact(&mut word).unwrap();
    }
}

/// What must not pass does not.
fn blocks(net: &Line) {
    assert!(net.server.run("ping -c 2 -i 0.2 -W 1 10.1.0.2").is_err());
    let refused = net.customer.inside(|| {
        TcpStream::connect_timeout(&"10.2.0.2:7001".parse().unwrap(), Duration::from_millis(500)).map(drop)
    });
    let error = refused.unwrap().join().unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "it was to be dropped");
}

/// Waits until the transfer has a second of at least half its rate that begins now.
fn goes_on(transfer: &Iperf, megabits: u32) {
    let known = transfer.megabits().len() + 1;
    wait_for("the transfer to go on", Duration::from_secs(15), || {
        let seconds = transfer.megabits();
        match seconds[known.min(seconds.len())..].iter().any(|second| *second > f64::from(megabits) / 2.0) {
            true => Ok(()),
            false => Err(format!("{seconds:?} after {known}")),
        }
    })
    .unwrap();
}

#[test]
fn and_linux_does_by_the_same_rules() {
    const MEGABITS: u32 = 40;
    let mut net = Line::stopped("killed", &(ports("auto", &["left", "right"]) + RULES));
    if !net.router.is_bifrost() {
        return;
    }
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let listener =
        net.server.inside(|| ["10.2.0.2:7000", "10.2.0.2:7001"].map(|at| TcpListener::bind(at).unwrap()));
    let [listener, _blocked] = listener.unwrap().join().unwrap();
    let near = net.customer.inside(|| TcpStream::connect("10.2.0.2:7000").unwrap()).unwrap().join().unwrap();
    let idle = [near, listener.accept().unwrap().0];
    talk(&idle);
    let mut transfer = Iperf::start(&net.customer, &net.server, "10.2.0.2", 5201, MEGABITS).unwrap();
    goes_on(&transfer, MEGABITS);
    blocks(&net);
    let express = |net: &Line| {
        let shown = net.router.subject("ports").unwrap();
        shown
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p["received"]["express"]["packets"].as_u64().unwrap())
            .sum::<u64>()
    };
    let arrived = |net: &Line| net.router.host().interface_number("left", "statistics/rx_packets").unwrap();
    /// What arrives in a second, and what Linux forwards of it.
    fn second(net: &Line, arrived: impl Fn(&Line) -> u64) -> [u64; 2] {
        let now = || [arrived(net), net.router.host().linux_forwarded().unwrap()];
        let before = now();
        std::thread::sleep(Duration::from_secs(1));
        let after = now();
        [after[0] - before[0], after[1] - before[1]]
    }
    let carried = express(&net);
    let [came, by_linux] = second(&net, arrived);
    assert!(express(&net) - carried > 1000 && by_linux < came / 100, "{came} came, {by_linux} by Linux");

    net.router.kill_nine();
    let links = net.router.host().run("ip -o link show").unwrap();
    assert!(!links.contains("xdp"), "a program is still there: {links}");
    // Linux would count several segments as one.
    let gro = |on: &str| {
        net.router.host().run(&format!("ethtool -K left gro {on}; ethtool -K right gro {on}")).unwrap();
    };
    gro("off");
    goes_on(&transfer, MEGABITS);
    let [came, by_linux] = second(&net, arrived);
    gro("on");
    // Both directions; what arrives at the left is the larger half.
    assert!(came > 1000 && by_linux >= came * 9 / 10, "{came} came, {by_linux} by Linux");
    talk(&idle);
    blocks(&net);

    net.router.restart().unwrap();
    goes_on(&transfer, MEGABITS);
    let carried = express(&net);
    let [came, by_linux] = second(&net, arrived);
    assert!(express(&net) - carried > 1000 && by_linux < came / 100, "{came} came, {by_linux} by Linux");
    talk(&idle);
    blocks(&net);
    assert!(transfer.lives());
}
