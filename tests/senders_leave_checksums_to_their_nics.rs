//! Hosts that leave the checksums of what they send to their NICs (`tx` offload on, as every veth
//! has it unless it is told otherwise) are understood at the other end: by TCP, by UDP, in a
//! tunnel, and translated; and behind a bridge, where they leave it to them to cut long segments as
//! well. (The network of `network.rs`.)

use lab::Process;

use crate::network::{LANES, Line, NAT64, SERVER, overheard, ports};

const NAT: &str = r#"
[flow]
memory = 16

[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
source = "10.1.0.0/24"
"#;

/// Answers every datagram with itself.
const ECHO: &str = r#"
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 9001))
print("ready", flush=True)
while True:
    data, sender = s.recvfrom(2000)
    s.sendto(data, sender)
"#;

/// Has datagrams of many lengths answered, by one address after the other.
const ASK: &str = r#"
import socket, sys
for address in sys.argv[1:]:
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(1)
    lost = 0
    for length in range(0, 1400, 7):
        data = bytes(n * 13 % 251 for n in range(length))
        s.sendto(data, (address, 9001))
        try:
            assert s.recv(2000) == data
        except TimeoutError:
            lost += 1
            assert lost < 3, f"{address}: nothing comes back"
"#;

/// The network, its hosts' NICs as they come.
fn network(name: &str, config: &str) -> Line {
    let net = Line::stopped(name, config).started();
    for host in [&net.customer, &net.server] {
        host.run("ethtool -K eth0 tx on >/dev/null").unwrap();
        assert!(host.run("ethtool -k eth0").unwrap().contains("tx-checksumming: on"));
    }
    net
}

/// Sixteen megabytes and two hundred datagrams to each of these addresses of the server.
fn all_is_understood(net: &Line, addresses: &[&str]) {
    let _echo = echo(net);
    for address in addresses {
        let sent = lab::transfer(&net.customer, &net.server, address.parse().unwrap(), 16 << 20).unwrap();
        assert_eq!(sent.sent, sent.arrived, "{address}");
    }
    net.customer.run(&format!("python3 -c '{ASK}' {}", addresses.join(" "))).unwrap();
}

fn echo(net: &Line) -> Process {
    let mut echo = net.server.command("python3");
    echo.args(["-c", ECHO]);
    let echo = net.server.spawn("echo", echo).unwrap();
    lab::wait_for("the echo", std::time::Duration::from_secs(5), || match echo.output() {
        output if output.contains("ready") => Ok(()),
        output => Err(output),
    })
    .unwrap();
    echo
}

#[test]
fn in_each_lane() {
    for lane in LANES {
        let net = network("partial", &ports(lane, &["left", "right"]));
        all_is_understood(&net, &SERVER);
        // And the other way.
        let sent = lab::transfer(&net.server, &net.customer, "10.1.0.2".parse().unwrap(), 16 << 20).unwrap();
        assert_eq!(sent.sent, sent.arrived);
        if net.router.is_bifrost() {
            let (carried, worker) = net.lanes();
            assert_eq!(carried > 100 * worker, lane == "express", "{lane}: {carried} {worker}");
        }
    }
}

#[test]
fn in_a_tunnel() {
    for lane in LANES {
        let net = network("partialx", &ports(lane, &["left", "right"]));
        for (host, here, there) in
            [(&net.customer, "10.1.0.2", "10.2.0.2"), (&net.server, "10.2.0.2", "10.1.0.2")]
        {
            host.run(&format!(
                "ip link add vx type vxlan id 7 dstport 4789 local {here} remote {there}
                 ip link set vx up; ip address add 192.168.7.{}/24 dev vx",
                if here == "10.1.0.2" { 1 } else { 2 },
            ))
            .unwrap();
        }
        all_is_understood(&net, &["192.168.7.2"]);
    }
}

/// What the customer sends comes by a bridge of the router's, on its way to which nobody cuts it.
#[test]
fn behind_a_bridge() {
    for (lane, more) in [("express", ""), ("worker", ""), ("worker", NAT)] {
        let net = Line::stopped("partialb", &(ports(lane, &["br0", "right"]) + more));
        net.router
            .host()
            .run(
                "ip link add br0 type bridge; ip link set left master br0; ip address flush dev left
                 ip link set br0 up; ip address add 10.1.0.1/24 dev br0
                 ip address add 2001:db8:1::1/64 dev br0 nodad",
            )
            .unwrap();
        let net = net.started();
        net.customer.run("ethtool -K eth0 tx on tso on gso on >/dev/null").unwrap();
        let before = net.router.host().linux_forwarded().unwrap();
        let long = overheard(&net.customer, "tcp and greater 10000");
        all_is_understood(&net, &SERVER);
        assert!(long.output().lines().count() > 10, "{}", long.output());
        if net.router.is_bifrost() {
            let drops = net.router.ask("show drops").unwrap();
            assert!(!drops.contains("too_big"), "{lane}: {drops}");
            // Where nobody else would have seen them, Linux has them whole.
            let whole = net.router.host().linux_forwarded().unwrap() - before;
            assert_eq!(whole > 100, lane == "express", "{lane}: {whole}");
        }
    }
}

#[test]
fn and_translated() {
    for lane in ["auto", "worker"] {
        let net = network("partialn", &(ports(lane, &["left", "right"]) + NAT + NAT64));
        if !net.router.is_bifrost() {
            return;
        }
        all_is_understood(&net, &[SERVER[0], SERVER[1], "64:ff9b::10.2.0.2"]);
    }
}
