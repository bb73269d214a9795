//! What the customer sends is received by one worker and what the server answers by another,
//! through a stateful filter that picks up nothing in mid-stream, with a masquerade and without,
//! carried in the driver or not: every byte of many connections comes back as it was sent, nothing
//! is taken for invalid, and each host keeps its port. Then also with two uplinks, of which the
//! answers come in by the one that nothing goes out by. (The network of `network.rs`, with two
//! queues each way.)
//!
//! ```text
//!   customer ---- router ---- 10.2.0.0/24 ---- server      (192.0.2.1 and 2001:db8:99::1 behind the first link, and
//!                    '------- 10.4.0.0/24 -------'          everything that the server sends by the second)
//! ```

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use lab::Host;

use crate::network::{Line, SERVER};

const POLICY: &str = r#"
[workers]
cores = [0, 1]

[flow]
memory = 16
pickup = "off"

[filter.forward]
rules = '''
drop state invalid name strangers
accept state established,related name answers
accept in left state new
drop name uncalled
'''
"#;

const NAT: &str = r#"
[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
source = ["10.1.0.0/24", "2001:db8:1::/64"]
"#;

/// Connections, so many of them at a time, and the bytes of each; datagrams are exchanged by as
/// many sockets.
const CONNECTIONS: usize = 60;
const TOGETHER: usize = 12;
const BYTES: usize = 300_000;
const DATAGRAMS: usize = 10;

const TCP: u16 = 7100;
const UDP: u16 = 7101;

/// Bytes that no other connection sends.
fn bytes(seed: usize, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    chance::Random(seed as u64).fill(&mut bytes);
    bytes
}

/// Sends back all that comes by `connections` connections; who called.
fn echo_tcp(host: &Host, connections: usize) -> impl FnOnce() -> Vec<SocketAddr> {
    let listener = host.inside(|| TcpListener::bind(("::", TCP)).unwrap()).unwrap().join().unwrap();
    let thread = std::thread::spawn(move || {
        let echo = |stream: TcpStream| {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            std::io::copy(&mut &stream, &mut &stream).map(drop).unwrap_or(());
            let _the_other_end_may_be_gone = stream.shutdown(Shutdown::Write);
        };
        let mut callers = Vec::new();
        let mut threads = Vec::new();
        for _ in 0..connections {
            let (stream, caller) = listener.accept().unwrap();
            callers.push(caller);
            threads.push(std::thread::spawn(move || echo(stream)));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        callers
    });
    move || thread.join().unwrap()
}

/// One connection: everything comes back as it was sent. Its port here.
fn speak_tcp(to: IpAddr, number: usize) -> u16 {
    let sent = bytes(number, BYTES);
    let stream = TcpStream::connect_timeout(&(to, TCP).into(), Duration::from_secs(5)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut came = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        (&stream).read_to_end(&mut came).unwrap();
    });
    let length = came.len();
    assert!(came == sent, "connection {number} to {to}: {length} bytes of {}, or others", sent.len());
    stream.local_addr().unwrap().port()
}

/// Sends back every datagram to this address; who sent any.
fn echo_udp(host: &Host, address: IpAddr) -> impl FnOnce() -> HashSet<SocketAddr> {
    let socket = host.inside(move || UdpSocket::bind((address, UDP)).unwrap()).unwrap().join().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let end = over.clone();
    let thread = std::thread::spawn(move || {
        let (mut callers, mut datagram) = (HashSet::new(), [0; 2048]);
        while !end.load(Relaxed) {
            if let Ok((length, caller)) = socket.recv_from(&mut datagram) {
                socket.send_to(&datagram[..length], caller).unwrap();
                callers.insert(caller);
            }
        }
        callers
    });
    move || {
        over.store(true, Relaxed);
        thread.join().unwrap()
    }
}

/// One socket: every datagram comes back as it was sent. Its port here.
fn speak_udp(to: IpAddr, number: usize) -> u16 {
    let any: SocketAddr = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }.parse().unwrap();
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect((to, UDP)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut came = [0; 2048];
    for datagram in 0..DATAGRAMS {
        let sent = bytes(number * DATAGRAMS + datagram, 1 + number * 97 % 1400);
        socket.send(&sent).unwrap();
        let length = socket.recv(&mut came).unwrap_or_else(|e| panic!("datagram {datagram} to {to}: {e}"));
        assert!(came[..length] == sent, "datagram {datagram} of socket {number} to {to}");
    }
    socket.local_addr().unwrap().port()
}

/// All that a host sends by an interface of two queues goes by this one.
fn sends_by(host: &Host, interface: &str, queue: usize) {
    let queues = format!("/sys/class/net/{interface}/queues");
    host.run(&format!("echo 0 > {queues}/tx-{}/xps_cpus; echo 3 > {queues}/tx-{queue}/xps_cpus", 1 - queue))
        .unwrap();
}

/// Packets of each worker.
fn workers(net: &Line) -> [u64; 2] {
    let shown = net.router.subject("workers").unwrap();
    [0, 1].map(|worker| shown[worker]["packets"].as_u64().unwrap())
}

/// The conversations with an address, by TCP and by UDP: ports that were spoken from, and whom the
/// server saw.
fn converse(net: &Line, to: IpAddr) -> [(HashSet<u16>, HashSet<SocketAddr>); 2] {
    let (tcp, udp) = (echo_tcp(&net.server, CONNECTIONS), echo_udp(&net.server, to));
    let speak = move || {
        let mut ports = HashSet::new();
        for first in (0..CONNECTIONS).step_by(TOGETHER) {
            std::thread::scope(|scope| {
                let numbers = first..first + TOGETHER;
                let threads: Vec<_> =
                    numbers.map(|number| scope.spawn(move || speak_tcp(to, number))).collect();
                ports.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
            });
        }
        (ports, (0..CONNECTIONS).map(|number| speak_udp(to, number)).collect())
    };
    // The threads of a thread have its namespace.
    let (by_tcp, by_udp) = net.customer.inside(speak).unwrap().join().unwrap_or_else(|_| {
        let shown = ["filter", "drops"].map(|what| net.router.ask(&format!("show {what}")).unwrap());
        panic!("{}\n{}", shown.join("\n"), net.router.log())
    });
    [(by_tcp, tcp().into_iter().collect()), (by_udp, udp())]
}

/// Everything about one network and one of the ways to the server.
fn check(net: &Line, servers: [&str; 2], translated: bool, lane: &str) {
    let flows_before = net.router.show("flows --top 1").unwrap()["table"]["new"].as_u64().unwrap();
    for (family, to) in servers.into_iter().enumerate() {
        let before = workers(net);
        let conversations = converse(net, to.parse().unwrap());
        let after = workers(net);
        let packets = [after[0] - before[0], after[1] - before[1]];
        println!("{lane}, translated {translated}, {to}: {packets:?} packets by the workers");
        // SYN, the end and the first datagram of each conversation pass the one, SYN/ACK and the
        // first answer the other.
        assert!(packets.iter().all(|n| *n >= 2 * CONNECTIONS as u64), "both worked: {packets:?}");
        if lane == "worker" {
            let segments = (CONNECTIONS * BYTES / 1448) as u64;
            assert!(packets.iter().all(|n| *n > segments), "each has a direction: {packets:?}");
        }
        let mine = if translated { ["10.2.0.1", "2001:db8:2::1"] } else { ["10.1.0.2", "2001:db8:1::2"] };
        let mine: IpAddr = mine[family].parse().unwrap();
        for (ports, callers) in conversations {
            assert!(callers.iter().all(|caller| caller.ip().to_canonical() == mine), "{callers:?}");
            assert_eq!(callers.len(), ports.len(), "each host's port stands for itself: {callers:?}");
        }
    }
    let flows = net.router.show("flows --top 1").unwrap()["table"].clone();
    // What the driver carries overtakes what a worker still has: that may come too late to be of
    // the window, and is sent twice. Few segments at the start of a flow: one in twenty would be
    // too many.
    let late = if lane == "worker" { 0 } else { (4 * CONNECTIONS * BYTES / 1448 / 20) as u64 };
    assert!(flows["invalid"].as_u64().unwrap() <= late, "{flows}");
    // A port that was used again is the same flow.
    let new = flows["new"].as_u64().unwrap() - flows_before;
    assert!(new > 3 * CONNECTIONS as u64, "{flows}");
    let filter = net.router.subject("filter").unwrap();
    let forward = filter.as_array().unwrap().iter().find(|chain| chain["chain"] == "forward").unwrap();
    let packets = |rule: usize| forward["rules"][rule]["packets"].as_u64().unwrap();
    assert!(packets(0) <= late && packets(3) == 0, "{filter}");
    assert!(packets(1) > 4 * CONNECTIONS as u64 * (BYTES / 1448) as u64, "{filter}");
    if translated {
        let nat = net.router.subject("nat").unwrap();
        assert!(nat["rules"][0]["flows"].as_u64().unwrap() > 3 * CONNECTIONS as u64, "{nat}");
        assert!(["exhausted", "limited", "refused"].iter().all(|why| nat["rules"][0][why] == 0), "{nat}");
    }
}

#[test]
fn by_one_uplink_or_two() {
    for lane in ["worker", "auto"] {
        for nat in ["", NAT] {
            let port = |name| format!("[[port]]\nname = \"{name}\"\nlane = \"{lane}\"\n");
            let config = ["left", "right", "second"].map(port).concat() + POLICY + nat;
            let mut net = Line::made("directions", &config, 1500, 2);
            if !net.router.is_bifrost() {
                return;
            }
            let host = net.router.host().clone();
            net.lab
                .link_with_queues(
                    host.end("second").address("10.4.0.1/24").address("2001:db8:4::1/64"),
                    net.server.end("eth1").address("10.4.0.2/24").address("2001:db8:4::2/64"),
                    2,
                )
                .unwrap();
            net.server
                .run("ip address add 192.0.2.1/32 dev lo; ip address add 2001:db8:99::1/128 dev lo nodad")
                .unwrap();
            host.run("ip route add 192.0.2.1 via 10.2.0.2; ip route add 2001:db8:99::1 via 2001:db8:2::2")
                .unwrap();
            sends_by(&net.customer, "eth0", 0);
            sends_by(&net.server, "eth0", 1);
            sends_by(&net.server, "eth1", 1);
            net.router.restart().unwrap();
            net.reachable();
            check(&net, SERVER, !nat.is_empty(), lane);

            // Everything that the server sends, to the router's own address on the first link as
            // well, goes by the second.
            net.server
                .run(
                    "ip route replace default via 10.4.0.1; ip -6 route replace default via 2001:db8:4::1
                     ip route add 10.2.0.1/32 via 10.4.0.1; ip -6 route add 2001:db8:2::1/128 via 2001:db8:4::1",
                )
                .unwrap();
            for address in ["192.0.2.1", "2001:db8:99::1"] {
                net.customer.reaches(address, Duration::from_secs(5)).unwrap();
            }
            let received = || {
                let shown = net.router.subject("ports").unwrap();
                let port = |name: &str| {
                    shown.as_array().unwrap().iter().find(|port| port["name"] == name).unwrap().clone()
                };
                let lanes = |port: serde_json::Value| {
                    ["express", "worker"]
                        .map(|lane| port["received"][lane]["packets"].as_u64().unwrap())
                        .iter()
                        .sum::<u64>()
                };
                [lanes(port("right")), lanes(port("second"))]
            };
            let before = received();
            check(&net, ["192.0.2.1", "2001:db8:99::1"], !nat.is_empty(), lane);
            let after = received();
            let [right, second] = [after[0] - before[0], after[1] - before[1]];
            assert!(
                second > 1000 && right < second / 100,
                "{right} by the first uplink, {second} by the second"
            );
        }
    }
}
