//! Bifrost is restarted under connections through a stateful filter and a masquerade: they live on,
//! and their flows are the same flows. A kill leaves what was written down before it; Linux resets
//! none of them meanwhile, whoever began them and whatever they are translated into. (The network
//! of `network.rs`.)

use std::{os::unix::fs::MetadataExt, thread::sleep, time::Duration};

use lab::{Host, Process, wait_for};

use crate::network::{Line, STATEFUL, flow_of_iperf, ports};

const MASQUERADE: &str = r#"
[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
source = "10.1.0.0/24"
"#;

fn grows(net: &Line) {
    let (_, before) = flow_of_iperf(&net.router).unwrap();
    wait_for("the transfer to go on", Duration::from_secs(20), || match flow_of_iperf(&net.router)? {
        (_, now) if now > before + 500_000 => Ok(()),
        (_, now) => Err(format!("{now} bytes after {before}")),
    })
    .unwrap_or_else(|error| {
        panic!("{error}\n{}\n{}", net.router.ask("show flows --json").unwrap_or_default(), net.state())
    });
}

#[test]
fn by_what_was_written_down() {
    by("worker");
}

#[test]
fn in_the_driver_as_well() {
    by("auto");
}

fn by(lane: &str) {
    let config = ports(lane, &["left", "right"]) + STATEFUL + MASQUERADE;
    let mut net = Line::stopped("restart-flows", &config);
    if !net.router.is_bifrost() {
        return;
    }
    net.server.run("ip route del default; ip route add 10.2.0.0/24 dev eth0 2>/dev/null || true").unwrap();
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let mut server = net.server.command("iperf3");
    server.args(["-s", "--forceflush"]);
    let _server = net.server.spawn("iperf3", server).unwrap();
    net.server.listens(5201).unwrap();
    // The server tries again once a second, however long it was not answered.
    net.server.run("sysctl -qw net.ipv4.tcp_rto_max_ms=1000").unwrap();
    // The server sends: what comes from outside has nobody inside who speaks first. It outlives
    // every restart here.
    let mut client = net.customer.command("iperf3");
    client.args(["-c", "10.2.0.2", "-R", "-t", "600", "-b", "20M"]);
    let mut client = net.customer.spawn("iperf3", client).unwrap();
    wait_for("the transfer", Duration::from_secs(5), || flow_of_iperf(&net.router)).unwrap();
    grows(&net);

    let (translated, carried) = flow_of_iperf(&net.router).unwrap();
    net.router.stop().unwrap();
    net.router.restart().unwrap();
    assert!(net.router.log().contains("flows go on"), "{}", net.router.log());
    let (after, bytes) = flow_of_iperf(&net.router).unwrap();
    assert!(
        after == translated && bytes >= carried,
        "{after} of {bytes} bytes, not {translated} of {carried}"
    );
    grows(&net);

    // It is written down all the time.
    let state = net.router.host().folder().join("control.flows");
    wait_for("flows to be written down", Duration::from_secs(20), || match state.exists() {
        true => Ok(()),
        false => Err("there is no file".to_owned()),
    })
    .unwrap();
    // That file is for the next start alone.
    net.router.ask("reload").unwrap();
    net.router.kill_nine();
    sleep(Duration::from_millis(500));
    net.router.restart().unwrap();
    assert!(net.router.log().contains("flows go on"), "{}", net.router.log());
    // Nor are they lost when it is killed again as soon as it has them.
    for _ in 0..3 {
        net.router.kill_nine();
        assert!(state.exists(), "what was read is kept until it is written anew");
        net.router.restart().unwrap();
        assert!(net.router.log().contains("flows go on"), "{}", net.router.log());
    }
    grows(&net);
    assert_eq!(flow_of_iperf(&net.router).unwrap().0, translated);
    assert!(client.ended().is_none(), "{}", client.output());
}

const EVERY_WAY: &str = r#"
[flow]
memory = 16

[[nat.rule]]
name = "servers"
type = "one-to-one"
out = "right"
inside = "10.1.0.8/32"
outside = "203.0.113.8/32"

[[nat.rule]]
name = "web"
type = "destination"
in = "right"
destination = "203.0.113.100"
protocol = "tcp"
ports = "8080"
to = "10.1.0.2:8000"
hairpin = true

[[nat.rule]]
name = "shared"
type = "source"
out = "right"
source = "10.1.0.0/29"
pool = "203.0.113.16/30"
pool_ports = "20000-20099"

[[nat.rule]]
name = "six"
type = "nat64"
prefix = "64:ff9b::/96"
private = true
pool = "203.0.113.32/30"
fallback = "closed"
"#;

/// Answers what it is told, on port 8000.
const ECHO: &str = r#"
import socket, threading
def serve(peer):
    while data := peer.recv(4096):
        peer.sendall(data)
listening = socket.create_server(("", 8000))
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"#;

/// Says something twenty times a second, each when the one before was answered.
const TALK: &str = r#"
import socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), 30)
for n in range(10_000):
    connection.sendall(b"%d\n" % n)
    assert connection.recv(4096) == b"%d\n" % n
    print("round", n, flush=True)
    time.sleep(0.05)
"#;

fn python(host: &Host, script: &str, arguments: &[&str]) -> Process {
    let mut command = host.command("python3");
    command.args(["-c", script]).args(arguments);
    host.spawn("python", command).unwrap()
}

#[test]
fn whatever_they_are_translated_into() {
    let mut net = Line::stopped("restart-nat", &(ports("worker", &["left", "right"]) + EVERY_WAY));
    if !net.router.is_bifrost() {
        return;
    }
    net.customer.run("ip address add 10.1.0.8/24 dev eth0").unwrap();
    net.server.run("ip route del default; ip route add 203.0.113.0/24 via 10.2.0.1").unwrap();
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let _echoes = [&net.customer, &net.server].map(|host| {
        let echo = python(host, ECHO, &[]);
        host.listens(8000).unwrap();
        echo
    });
    let talks = [
        ("to a forwarded port", &net.server, ["203.0.113.100", "8080"]),
        ("one to one", &net.server, ["203.0.113.8", "8000"]),
        ("through a pool", &net.customer, ["10.2.0.2", "8000"]),
        ("to a forwarded port from inside", &net.customer, ["203.0.113.100", "8080"]),
        ("into the other family", &net.customer, ["64:ff9b::10.2.0.2", "8000"]),
    ];
    let begun = |talks: &[(&'static str, &Host, [&str; 2])]| {
        talks.iter().map(|(way, host, to)| (*way, python(host, TALK, to))).collect::<Vec<_>>()
    };
    let mut talking = begun(&talks);
    go_on(&mut talking, &net);
    let log = net.router.log();
    assert!(!log.contains("WARN"), "{log}");
    net.router.stop().unwrap();
    // Linux goes on with those that it was told of: all but the other family's.
    go_on(&mut talking[..4], &net);
    net.router.restart().unwrap();
    go_on(&mut talking, &net);
    drop(talking);

    // A kill comes when it will: connections that began after all were written down are written
    // down as well.
    let state = net.router.host().folder().join("control.flows");
    let written = || std::fs::metadata(&state).map(|file| file.ino()).ok();
    let before = written();
    wait_for("all flows to be written down", Duration::from_secs(20), || match written() {
        now if now != before => Ok(()),
        now => Err(format!("{now:?}")),
    })
    .unwrap();
    let mut talking = begun(&talks);
    go_on(&mut talking, &net);
    net.router.kill_nine();
    net.router.restart().unwrap();
    go_on(&mut talking, &net);
}

/// Answers the first datagram with fifty a second, and counts how often it is told that nobody is
/// there.
const STREAM: &str = r#"
import socket, time
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
stream.bind(("", 9000))
stream.connect(stream.recvfrom(100)[1])
errors = 0
for n in range(10_000):
    try:
        stream.send(b"%d" % n)
    except OSError:
        errors += 1
    print("sent", n, "errors", errors, flush=True)
    time.sleep(0.02)
"#;

/// Asks until it is answered, and then only listens.
const LISTEN: &str = r#"
import socket
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
stream.settimeout(0.2)
got = None
while got is None:
    try:
        stream.sendto(b"begin", ("10.2.0.2", 9000))
        got = stream.recv(100)
    except TimeoutError:
        pass
stream.settimeout(None)
while True:
    print("got", stream.recv(100), flush=True)
"#;

#[test]
fn though_only_the_far_side_speaks() {
    let mut net =
        Line::stopped("restart-udp", &(ports("worker", &["left", "right"]) + STATEFUL + MASQUERADE));
    if !net.router.is_bifrost() {
        return;
    }
    net.server.run("ip route del default; ip route add 10.2.0.0/24 dev eth0 2>/dev/null || true").unwrap();
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let mut sending = [("the sender", python(&net.server, STREAM, &[]))];
    let mut listening = [("a stream of datagrams", python(&net.customer, LISTEN, &[]))];
    go_on(&mut listening, &net);
    net.router.stop().unwrap();
    // Linux has been told of the flow, and goes on with it.
    go_on(&mut sending, &net);
    go_on(&mut listening, &net);
    net.router.restart().unwrap();
    go_on(&mut listening, &net);
    let said = sending[0].1.output();
    assert!(said.trim_end().ends_with("errors 0"), "{}", said.lines().last().unwrap_or_default());
}

/// Waits until each has said more.
fn go_on(talking: &mut [(&str, Process)], net: &Line) {
    for (way, talk) in talking {
        let before = talk.output().lines().count();
        wait_for("the connection to go on", Duration::from_secs(20), || match talk.ended() {
            Some(status) => Ok(Err(status)),
            None if talk.output().lines().count() >= before + 20 => Ok(Ok(())),
            None => Err(way.to_string()),
        })
        .unwrap()
        .unwrap_or_else(|status| panic!("{way}: {status}: {}\n{}", talk.output(), net.router.log()));
    }
}
