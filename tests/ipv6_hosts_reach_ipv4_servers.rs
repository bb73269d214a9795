//! NAT64 before real hosts: a customer who has only IPv6 reaches a server that has only IPv4, by
//! ping, TCP, UDP and traceroute; errors and sizes are told in the words of whoever is told. (The
//! network of `network.rs`, with one family on each side.)

use std::time::Duration;

use lab::{Ping, wait_for};

use crate::network::{Line, NAT64, overheard, ports};

/// The server as the customer calls it.
const SERVER: &str = "64:ff9b::10.2.0.2";

/// The network, each side without the other's family.
fn network(name: &str, mtu: u32) -> Option<Line> {
    network_of(name, [1500, mtu])
}

/// The same with the MTU of either link.
fn network_of(name: &str, [inner, mtu]: [u32; 2]) -> Option<Line> {
    let config = ports("worker", &["left", "right"]) + "[flow]\nmemory = 16\n" + NAT64;
    let mut net = Line::made(name, &config, mtu, 1);
    if !net.router.is_bifrost() {
        return None;
    }
    net.customer.run(&format!("ip address del 10.1.0.2/24 dev eth0; ip link set eth0 mtu {inner}")).unwrap();
    net.router.host().run(&format!("ip link set left mtu {inner}")).unwrap();
    net.server.run("ip -6 address del 2001:db8:2::2/64 dev eth0").unwrap();
    net.router.restart().unwrap();
    net.customer.reaches(SERVER, Duration::from_secs(10)).unwrap();
    Some(net)
}

#[test]
fn by_ping_and_tcp_and_udp() {
    let Some(net) = network("nat64", 1500) else { return };
    let ping = Ping::start(&net.customer, SERVER, Duration::from_millis(10)).unwrap();
    let mut web = net.server.command("python3");
    web.args(["-m", "http.server", "--bind", "10.2.0.2", "8000"]);
    let web = net.server.spawn("web", web).unwrap();
    net.server.listens(8000).unwrap();
    for _ in 0..20 {
        net.customer.run(&format!("curl -sf --max-time 5 'http://[{SERVER}]:8000/' >/dev/null")).unwrap();
    }
    assert!(web.output().contains("192.0.2."), "{}", web.output());

    let mut server = net.server.command("iperf3");
    server.args(["-s", "--forceflush"]);
    let _server = net.server.spawn("iperf3", server).unwrap();
    net.server.listens(5201).unwrap();
    // Bulk both ways, and datagrams in fragments.
    for options in
        ["-t 1", "-t 1 -R", "-u -b 20M -l 1200 -t 1", "-u -b 20M -l 4000 -t 1", "-u -R -b 20M -l 4000 -t 1"]
    {
        let said = net.customer.run(&format!("iperf3 -c {SERVER} {options} -J")).unwrap();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let end = &said["end"];
        let bytes = end["sum_received"]["bytes"].as_f64().or(end["sum"]["bytes"].as_f64()).unwrap();
        assert!(bytes > 1e6, "{options}: {said}");
        if let Some(lost) = end["sum"]["lost_percent"].as_f64() {
            assert!(lost < 5.0, "{options}: {lost} % lost");
        }
    }

    // Who answers on the way is the router, then the server behind the prefix.
    let way = net.customer.run(&format!("traceroute -6 -n -q 1 -w 1 {SERVER}")).unwrap();
    let hops: Vec<&str> = way.lines().skip(1).collect();
    assert!(
        hops.len() == 2 && hops[0].contains("2001:db8:1::1") && hops[1].contains("64:ff9b::a02:2"),
        "{way}"
    );
    // A closed port is told by the server's ICMP, which the router translates.
    let script =
        "python3 -c \"import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(2)
s.connect(('64:ff9b::a02:2', 7)); s.send(b'x')
try: s.recv(1)
except OSError as error: print(error.strerror)\"";
    // Linux sends few such errors a second, and traceroute has just had its share.
    lab::wait_for("to be refused", Duration::from_secs(15), || {
        match net.customer.run(script).map_err(|error| error.to_string())?.trim() {
            "Connection refused" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .unwrap();
    assert!(
        net.customer.run("ping -6 -c 1 -W 1 64:ff9b::10.1.0.1").is_err(),
        "the router has no IPv6 behind its IPv4"
    );

    let ping = ping.stop();
    assert_eq!(ping.lost(), 0, "{ping:?}");
    let nat = net.router.subject("nat").unwrap();
    assert!(nat["rules"][0]["flows"].as_u64().unwrap() > 20, "{nat}");
}

#[test]
fn and_both_sides_are_explained() {
    let rules = NAT64.to_owned() + "filtering = \"endpoint-independent\"\n";
    let config = ports("worker", &["left", "right"]) + "[flow]\nmemory = 16\n" + &rules;
    let mut net = Line::made("nat64why", &config, 1500, 1);
    if !net.router.is_bifrost() {
        return;
    }
    net.router.restart().unwrap();
    net.customer.reaches(SERVER, Duration::from_secs(10)).unwrap();
    net.customer
        .run("python3 -c 'import socket as s; u = s.socket(s.AF_INET6, s.SOCK_DGRAM); u.bind((\"\", 5353)); u.sendto(b\"?\", (\"64:ff9b::a02:2\", 53))'")
        .unwrap();
    let explain = |question: &str| net.router.ask(&format!("explain '{question}'")).unwrap();
    let own = explain("2001:db8:1::2 > 64:ff9b::a02:2 udp 5353:53 in left");
    assert!(own.contains("of one that lives") && own.contains("goes to 10.2.0.2:53"), "{own}");
    let outside = own.split("comes from ").nth(1).and_then(|rest| rest.split(':').next()).unwrap();
    // Everybody may call a mapping of this rule, and has an address in IPv6 by the same.
    let other = explain(&format!("10.2.0.9 > {outside} udp 7:5353 in right"));
    assert!(
        other.contains("goes to [2001:db8:1::2]:5353") && other.contains("[64:ff9b::a02:9]:7"),
        "{other}"
    );
    assert_eq!(other.matches("rule six: nat64").count(), 2, "{other}");
}

#[test]
fn with_a_hop_by_hop_header() {
    let Some(net) = network("nat64hop", 1500) else { return };
    // The answer, which has none, comes to the same flow.
    let headers =
        format!("IPv6(src='2001:db8:1::2', dst='{SERVER}') / IPv6ExtHdrHopByHop(options=[RouterAlert()])");
    assert!(net.is_answered(&headers, 77), "{}", net.router.ask("show drops").unwrap());
}

#[test]
fn through_a_narrow_way() {
    let Some(net) = network("nat64-mtu", 1400) else { return };
    // 1,400 bytes of IPv4 carry 20 more of IPv6.
    let told = net.customer.run(&format!("ping -6 -c 1 -W 5 -M do -s 1440 {SERVER} || true")).unwrap();
    assert!(
        told.contains("2001:db8:1::1") && told.contains("mtu=1420") || told.contains("mtu = 1420"),
        "{told}"
    );
    net.customer.run(&format!("ping -6 -c 2 -i 0.2 -W 2 -M do -s 1372 {SERVER} >/dev/null")).unwrap();
}

#[test]
fn in_packets_larger_than_a_buffer() {
    let Some(net) = network_of("nat64-jumbo", [9000, 9000]) else { return };
    net.customer.run(&format!("ping -6 -c 2 -i 0.2 -W 2 -M do -s 8900 {SERVER} >/dev/null")).unwrap();
    let mut server = net.server.command("iperf3");
    server.args(["-s", "--forceflush"]);
    let _server = net.server.spawn("iperf3", server).unwrap();
    net.server.listens(5201).unwrap();
    for options in ["-t 1", "-t 1 -R"] {
        let said = net.customer.run(&format!("iperf3 -c {SERVER} {options} -J")).unwrap();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert!(said["end"]["sum_received"]["bytes"].as_f64().unwrap() > 1e6, "{options}: {said}");
    }
}

#[test]
fn whose_way_takes_less_than_ipv6_brings() {
    let Some(net) = network_of("nat64-cut", [1500, 9000]) else { return };
    let mut answer = net.server.command("python3");
    answer.args(["-c", ANSWER]);
    let _answer = net.server.spawn("answer", answer).unwrap();
    let ask = format!(
        "python3 -c \"import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(1)
s.sendto(b'6000', ('{SERVER}', 9000)); print(len(s.recv(9000)))\""
    );
    lab::wait_for("an answer in fragments", Duration::from_secs(10), || match net.customer.run(&ask) {
        Ok(length) if length.trim() == "6000" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
}

#[test]
fn in_packets_that_every_way_of_ipv6_carries() {
    let Some(net) = network("nat64-least", 1500) else { return };
    let mut answer = net.server.command("python3");
    answer.args(["-c", ANSWER]);
    let _answer = net.server.spawn("answer", answer).unwrap();
    // Whether an answer of so many bytes, which may be fragmented, comes in fragments.
    let fragmented = |bytes: u16| {
        let seen = overheard(&net.customer, "ip6 src 64:ff9b::a02:2 and not icmp6");
        let ask = format!(
            "python3 -c \"import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(1)
s.sendto(b'{bytes}', ('{SERVER}', 9000)); print(len(s.recv(9000)))\""
        );
        wait_for("an answer", Duration::from_secs(10), || match net.customer.run(&ask) {
            Ok(length) if length.trim() == bytes.to_string() => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .unwrap();
        wait_for("it to be seen", Duration::from_secs(5), || match seen.output() {
            output if output.contains("IP6 64:ff9b") => Ok(output.contains("frag")),
            output => Err(output),
        })
        .unwrap()
    };
    // 40 + 8 bytes of headers.
    assert!(!fragmented(1232) && fragmented(1233));
    let config =
        ports("worker", &["left", "right"]) + "[flow]\nmemory = 16\n[nat]\nlowest_ipv6_mtu = 1500\n" + NAT64;
    net.router.configure(&config).unwrap();
    net.router.ask("reload").unwrap();
    assert!(!fragmented(1400));
}

/// Answers with a datagram that may be fragmented on its way, of as many bytes as are asked for.
const ANSWER: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 0)
s.bind(("", 9000))
while True:
    size, peer = s.recvfrom(100)
    s.sendto(b"x" * int(size), peer)
"#;
