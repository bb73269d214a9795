//! Rules and translation change while flows are offloaded to the driver: what the new rules forbid
//! stops at once, within 100 ms of the order, and goes on when it may again; a translated flow
//! keeps what it was given whatever becomes of the rules for it, and no inside address is ever seen
//! outside. (The network of `network.rs`.)

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lab::{Flows, Sink};

use crate::network::{Line, at, ports};

/// Some hundred rules, in front of what matters.
fn rules(last: &str) -> String {
    let many: String =
        (0..600).map(|n| format!("drop tcp from 198.51.100.0/24 to any port {}\n", n + 1)).collect();
    format!(
        "[flow]\nmemory = 16\n[filter.forward]\nrules = '''\naccept icmp\naccept icmpv6\naccept state established\n{many}{last}'''\n"
    )
}

/// Asks the daemon to read its file again, without the time that a program takes to start.
fn reload(net: &Line) {
    let mut socket = UnixStream::connect(net.router.socket()).unwrap();
    socket.write_all(b"{\"ask\":\"reload\"}\n").unwrap();
    let mut said = String::new();
    BufReader::new(socket).read_line(&mut said).unwrap();
    assert!(said.starts_with("{\"ok\""), "{said}");
}

fn express(net: &Line) -> u64 {
    let shown = net.router.subject("ports").unwrap();
    shown.as_array().unwrap().iter().map(|p| p["received"]["express"]["packets"].as_u64().unwrap()).sum()
}

/// Waits until the driver forwards what is sent.
fn offloaded(net: &Line, sink: &Sink) {
    let before = sink.received();
    sink.has_received(before + 200, Duration::from_secs(5)).unwrap();
    let (before, arrived) = (express(net), sink.received());
    sink.has_received(arrived + 1000, Duration::from_secs(5)).unwrap();
    assert!(express(net) - before > 900, "the driver carries them");
}

#[test]
fn for_the_filter() {
    let file = |last: &str| ports("auto", &["left", "right"]) + &rules(last);
    let (may, may_not) = (file("accept\n"), file("drop udp to any port 9000\naccept\n"));
    let net = Line::stopped("rules-stop", &may);
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let sink = Sink::start(&net.server, 9000).unwrap();
    let flows = Flows::start(&net.customer, vec![at("10.2.0.2", 9000)], 4, 64, 4000).unwrap();
    let mut times = Vec::new();
    for _ in 0..5 {
        offloaded(&net, &sink);
        net.router.configure(&may_not).unwrap();
        // A file that was just written is not read at once: the order is given when it may be.
        std::thread::sleep(Duration::from_millis(150));
        let asked = Instant::now();
        reload(&net);
        let done = Instant::now();
        std::thread::sleep(Duration::from_millis(300));
        let newest = sink.newest();
        assert!(
            newest < done + Duration::from_millis(20),
            "{:?} after it was said to be done",
            newest - done
        );
        times.push(newest.saturating_duration_since(asked));
        net.router.configure(&may).unwrap();
        reload(&net);
    }
    offloaded(&net, &sink);
    println!("the last datagram came so long after the order: {times:?}");
    assert!(times.iter().min().unwrap() < &Duration::from_millis(100), "{times:?}");
    drop(flows);
}

fn translation(rule: &str) -> String {
    ports("auto", &["left", "right"]) + &rules("accept\n") + rule
}

/// From which addresses datagrams have come.
fn by_address(sources: HashMap<SocketAddr, u64>) -> HashMap<String, u64> {
    let mut sums = HashMap::new();
    sources
        .iter()
        .for_each(|(from, count)| *sums.entry(from.ip().to_canonical().to_string()).or_default() += count);
    sums
}

#[test]
fn for_translation() {
    let masquerade =
        "[[nat.rule]]\nname = \"home\"\ntype = \"masquerade\"\nout = \"right\"\nsource = \"10.1.0.0/24\"\n";
    let pool = "[[nat.rule]]\nname = \"home\"\ntype = \"source\"\nout = \"right\"\nsource = \"10.1.0.0/24\"\npool = \"10.2.0.77/32\"\n";
    let mut net = Line::stopped("nat-stop", &translation(masquerade));
    if !net.router.is_bifrost() {
        return;
    }
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let (old, new) = (Sink::start(&net.server, 9000).unwrap(), Sink::start(&net.server, 9001).unwrap());
    let last = Sink::start(&net.server, 9002).unwrap();
    let kept = Flows::start(&net.customer, vec![at("10.2.0.2", 9000)], 4, 64, 4000).unwrap();
    offloaded(&net, &old);

    net.router.configure(&translation(pool)).unwrap();
    reload(&net);
    let later = Flows::start(&net.customer, vec![at("10.2.0.2", 9001)], 4, 64, 4000).unwrap();
    offloaded(&net, &new);
    offloaded(&net, &old);

    // Without any rule: new flows go as they are, those that were translated stay so.
    net.router.configure(&translation("")).unwrap();
    reload(&net);
    let plain = Flows::start(&net.customer, vec![at("10.2.0.2", 9002)], 4, 64, 4000).unwrap();
    offloaded(&net, &last);
    let before = old.received();
    old.has_received(before + 1000, Duration::from_secs(5)).unwrap();
    let sent = [kept.stop(), later.stop(), plain.stop()];
    std::thread::sleep(Duration::from_millis(200));
    let seen = [old, new, last].map(|sink| by_address(sink.stop()));
    println!("{sent:?} sent, {seen:?}");
    for ((seen, sent), address) in seen.iter().zip(sent).zip(["10.2.0.1", "10.2.0.77", "10.1.0.2"]) {
        assert!(seen.len() == 1 && seen[address] > sent * 9 / 10, "{seen:?} of {sent}, only as {address}");
    }
}
