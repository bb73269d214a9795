//! What Linux forwards beside the router has no limit of the router's: frames to a virtual router's
//! address (a macvlan, as VRRP makes them), and multicast that Linux routes because the router
//! itself is a member of the group, at ten times the rates
//! of the classes for what is this machine's own.
//!
//! ```text
//! customer ---- left [router] right ---- server
//!                 |
//!               vrrp (macvlan, 00:00:5e:00:01:07)
//! ```

use std::time::Duration;

use crate::network::{Line, ports};

/// Sends so many datagrams to an address in bursts, by way of the neighbour that the routes say.
const SEND: &str = "
import socket, sys, time
to, count = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 8)
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
for i in range(count):
    s.sendto(b'x' * 20, (to, 9000))
";

/// Counts datagrams of a group until none has come for a second (33: SO_RCVBUFFORCE).
const JOIN: &str = "
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
s.bind(('', 9000))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + socket.inet_aton('10.2.0.2'))
s.settimeout(8)
count = 0
try:
    while True:
        s.recv(2048)
        count += 1
        s.settimeout(1)
except TimeoutError:
    pass
print(count)
";

/// Routes 239.1.2.3 from the first interface to the second as long as it lives, and is a member of
/// it: so it is Linux's.
const MROUTE: &str = "
import socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
s.setsockopt(socket.IPPROTO_IP, 200, 1)
for vif, name in enumerate(('left', 'right')):
    s.setsockopt(socket.IPPROTO_IP, 202, struct.pack('@HBBIi4s', vif, 8, 1, 0, socket.if_nametoindex(name), b'\\0' * 4))
oifs = bytearray(32)
oifs[1] = 1
s.setsockopt(socket.IPPROTO_IP, 204, socket.inet_aton('10.1.0.2') + socket.inet_aton('239.1.2.3') + struct.pack('@H', 0) + bytes(oifs) + b'\\0' * 2 + struct.pack('@IIIi', 0, 0, 0, 0))
member = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + socket.inet_aton('10.2.0.1'))
print('routes', flush=True)
time.sleep(60)
";

const DATAGRAMS: u64 = 100_000;

fn policed(net: &Line) -> Vec<(String, u64)> {
    let shown = net.router.subject("classifier").unwrap();
    let classes = shown["classes"].as_array().unwrap();
    let of = |class: &serde_json::Value| {
        (class["class"].as_str().unwrap().to_owned(), class["dropped"].as_u64().unwrap())
    };
    classes.iter().map(of).filter(|(_, dropped)| *dropped > 0).collect()
}

#[test]
fn to_another_link_address() {
    let net = Line::stopped("macvlan", &ports("auto", &["left", "right"]));
    if !net.router.is_bifrost() {
        return;
    }
    let virtual_router = "ip link add vrrp link left address 00:00:5e:00:01:07 type macvlan mode bridge";
    net.router.host().run(&format!("{virtual_router}; ip link set vrrp up")).unwrap();
    let net = net.started();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    // The customer sends to the virtual router.
    net.customer
        .run("ip neighbour replace 10.1.0.1 lladdr 00:00:5e:00:01:07 dev eth0 nud permanent")
        .unwrap();
    let sink = lab::Sink::start(&net.server, 9000).unwrap();
    net.customer.run(&format!("python3 -c \"{SEND}\" 10.2.0.2 {DATAGRAMS}")).unwrap();
    let arrived = sink.has_received(DATAGRAMS * 97 / 100, Duration::from_secs(10));
    assert_eq!(policed(&net), []);
    arrived.unwrap();
}

#[test]
fn to_a_group() {
    let net = Line::stopped("mroute", &ports("auto", &["left", "right"]));
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let python = |host: &lab::Host, name: &str, script: &str| {
        let mut command = host.command("python3");
        command.args(["-c", script]);
        host.spawn(name, command).unwrap()
    };
    let mut routing = python(net.router.host(), "mroute", MROUTE);
    let mut joined = python(&net.server, "join", JOIN);
    net.customer.run("ip route add 239.0.0.0/8 dev eth0 src 10.1.0.2").unwrap();
    lab::wait_for("the route", Duration::from_secs(5), || {
        match net.router.host().run("ip mroute show").unwrap() {
            shown if shown.contains("239.1.2.3") => Ok(()),
            shown => Err(shown),
        }
    })
    .unwrap();
    net.customer.run(&format!("python3 -c \"{SEND}\" 239.1.2.3 {DATAGRAMS}")).unwrap();
    joined.wait(Duration::from_secs(15)).unwrap();
    assert_eq!(policed(&net), []);
    let arrived: u64 = joined.output().trim().parse().unwrap_or_else(|_| panic!("{}", joined.output()));
    assert!(arrived >= DATAGRAMS * 97 / 100, "{arrived} of {DATAGRAMS}");
    routing.kill();
}
