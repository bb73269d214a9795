//! How many ICMP errors are sent, and from which address, is what Linux's settings say, also when
//! they change while the router runs; and on ways that differ from the way there.
//!
//! ```text
//!   customer ============== router ------------ server
//!            left, other                right
//! ```
//!
//! The customer hangs on the router by two links, and the routes back to its further addresses lead
//! by either. Linux is asked first, on the same network: then Bifrost starts.

use std::collections::BTreeMap;
use std::time::Duration;

use lab::{Host, Lab, Router, wait_for};

use crate::network::{LANES, ports, turn};

/// Sends `count` packets whose hops are used up from each source, and prints for each the sources
/// of the answers.
const ASK: &str = r#"
import json, select, socket, struct, sys, time
gateway, count, sources = bytes.fromhex(sys.argv[1].replace(":", "")), int(sys.argv[2]), sys.argv[3:]
ends = []
for name in ["eth0", "eth1"]:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    end.bind((name, 0))
    ends.append(end)
mine = ends[0].getsockname()[4]
udp = struct.pack("!HHHH", 4000, 9001, 12, 0) + b"word"
def frame(source):
    if ":" in source:
        ip = struct.pack("!IHBB", 6 << 28, len(udp), 17, 1) + socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, "2001:db8:2::2")
        return gateway + mine + b"\x86\xdd" + ip + udp
    ip = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 7, 0, 1, 17, 0) + socket.inet_aton(source) + socket.inet_aton("10.2.0.2"))
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xffff) + (total >> 16)
    ip[10:12] = struct.pack("!H", 0xffff - (total & 0xffff) - (total >> 16) & 0xffff)
    return gateway + mine + b"\x08\0" + bytes(ip) + udp
answers = {source: [] for source in sources}
for source in sources:
    for _ in range(count): ends[0].send(frame(source))
until = time.monotonic() + 0.7
while (left := until - time.monotonic()) > 0:
    for end in select.select(ends, [], [], left)[0]:
        got, (_, _, kind, *_) = end.recvfrom(2048)
        if kind == socket.PACKET_OUTGOING: continue
        if got[12:14] == b"\x08\0" and got[23] == 1 and got[34] == 11: family, at = socket.AF_INET, 26
        elif got[12:14] == b"\x86\xdd" and got[20] == 58 and got[54] == 3: family, at = socket.AF_INET6, 22
        else: continue
        size = 4 if family == socket.AF_INET else 16
        to = socket.inet_ntop(family, got[at + size:at + 2 * size])
        if to in answers: answers[to].append(socket.inet_ntop(family, got[at:at + size]))
print(json.dumps(answers))
"#;

struct Net {
    router: Router,
    host: Host,
    customer: Host,
    _server: Host,
    _lab: Lab,
}

fn net(lane: &str) -> Net {
    let lab = Lab::new("limits").unwrap();
    let (customer, host, server) =
        (lab.host("customer").unwrap(), lab.router("router").unwrap(), lab.host("server").unwrap());
    let link = |one: &Host, name: &str, port: &str, n: u32, other: &[&str]| {
        let end = host.end(port).address(&format!("10.{n}.0.1/24")).address(&format!("2001:db8:{n}::1/64"));
        let end = other.iter().fold(end, |end, address| end.address(address));
        let far = one.end(name).address(&format!("10.{n}.0.2/24")).address(&format!("2001:db8:{n}::2/64"));
        lab.link(end, far).unwrap();
    };
    link(&customer, "eth0", "left", 1, &["10.6.0.1/24", "2001:db8:6::1/64", "fd00:1::1/64"]);
    link(&customer, "eth1", "other", 3, &["10.4.0.1/24", "2001:db8:4::1/64", "fd00:4::1/64"]);
    link(&server, "eth0", "right", 2, &[]);
    host.run(
        "for name in all left other right; do sysctl -qw net.ipv4.conf.$name.rp_filter=0; done
         ip route add 198.18.1.0/24 via 10.1.0.2
         ip route add 198.18.2.0/24 via 10.3.0.2
         ip -6 route add 2001:db8:a1::/48 via 2001:db8:1::2
         ip -6 route add 2001:db8:a2::/48 via 2001:db8:3::2
         ip -6 route add fd00:a4::/48 via 2001:db8:3::2",
    )
    .unwrap();
    customer.run("ip route add default via 10.1.0.1; ip -6 route add default via 2001:db8:1::1").unwrap();
    server.run("ip route add default via 10.2.0.1; ip -6 route add default via 2001:db8:2::1").unwrap();
    let router = Router::stopped(&host, &ports(lane, &["left", "other", "right"])).unwrap();
    Net { router, host, customer, _server: server, _lab: lab }
}

impl Net {
    /// From which address each answer to so many packets of each source came.
    fn ask(&self, sources: &[&str], count: u32) -> BTreeMap<String, Vec<String>> {
        let gateway = self.host.mac("left").unwrap();
        let script = self.customer.folder().join("ask.py");
        std::fs::write(&script, ASK).unwrap();
        let asked = format!("python3 {} {gateway} {count} {}", script.display(), sources.join(" "));
        serde_json::from_str(&self.customer.run(&asked).unwrap()).unwrap()
    }

    fn reachable(&self) {
        // Neighbours on both links are resolved, so that nothing is left to Linux for want of them.
        for address in ["10.1.0.2", "10.3.0.2", "10.2.0.2", "2001:db8:1::2", "2001:db8:3::2", "2001:db8:2::2"]
        {
            self.host.run(&format!("ip neighbour flush {address}; ping -n -c1 -W2 {address}")).unwrap();
        }
        for address in ["10.2.0.2", "2001:db8:2::2"] {
            self.customer.reaches(address, Duration::from_secs(5)).unwrap();
        }
    }
}

#[test]
fn the_source_is_the_one_that_linux_takes() {
    let _turn = turn();
    for lane in LANES {
        let mut net = net(lane);
        net.host.run("sysctl -qw net.ipv4.icmp_ratemask=0 net.ipv6.icmp.ratelimit=0").unwrap();
        net.reachable();
        let sources = [
            "10.1.0.2",
            "10.3.0.2",
            "10.4.0.9",
            "198.18.1.1",
            "198.18.2.1",
            "2001:db8:1::2",
            "2001:db8:3::2",
            "2001:db8:4::9",
            "2001:db8:a1::1",
            "2001:db8:a2::1",
            "fd00:a4::1",
            "fd00:4::9",
        ];
        let known = |address: &str| {
            format!(
                "ip neighbour replace {address} lladdr {} dev other nud permanent",
                net.customer.mac("eth1").unwrap()
            )
        };
        ["10.4.0.9", "2001:db8:4::9", "fd00:4::9"]
            .iter()
            .for_each(|a| drop(net.host.run(&known(a)).unwrap()));
        let all = |net: &Net, looked_at: Duration| -> BTreeMap<String, Vec<String>> {
            let mut said = BTreeMap::new();
            for inbound in [0, 1] {
                net.host
                    .run(&format!("sysctl -qw net.ipv4.icmp_errors_use_inbound_ifaddr={inbound}"))
                    .unwrap();
                std::thread::sleep(looked_at);
                let answers = net.ask(&sources, 1).into_iter();
                said.extend(answers.map(|(source, from)| (format!("{source}, inbound {inbound}"), from)));
            }
            said
        };
        let linux = all(&net, Duration::ZERO);
        assert!(linux.values().filter(|said| !said.is_empty()).count() >= 20, "{linux:#?}");
        net.router.restart().unwrap();
        net.reachable();
        // Settings are looked at once a second.
        let bifrost = all(&net, Duration::from_millis(1500));
        let differ: Vec<String> = (linux.iter())
            .filter(|(name, said)| bifrost[*name] != **said)
            .map(|(name, said)| format!("{name}: Linux {said:?}, Bifrost {:?}", bifrost[name]))
            .collect();
        assert!(differ.is_empty(), "{lane}:\n{}", differ.join("\n"));
    }
}

#[test]
fn there_are_as_many_as_linux_would_send() {
    let _turn = turn();
    let mut net = net(LANES[1]);
    net.reachable();
    net.router.restart().unwrap();
    net.reachable();
    // What is set, who asks, and how many answers to 40 packets there are then: Linux may take a
    // few of a burst back.
    let steps = [
        ("net.ipv4.icmp_ratelimit=1000", "10.1.0.2", 6..=7),
        ("net.ipv4.icmp_ratelimit=0", "10.1.0.2", 38..=40),
        ("net.ipv4.icmp_msgs_burst=10 net.ipv4.icmp_msgs_per_sec=1", "10.1.0.2", 0..=12),
        ("net.ipv4.icmp_ratemask=4112", "10.1.0.2", 40..=40),
        ("net.ipv4.icmp_msgs_burst=50 net.ipv4.icmp_msgs_per_sec=1000", "2001:db8:1::2", 6..=17),
        ("net.ipv6.icmp.ratelimit=0", "2001:db8:1::2", 38..=40),
        ("net.ipv6.icmp.ratelimit=1000", "2001:db8:1::2", 0..=7),
        ("net.ipv6.icmp.ratemask=0-1,4-127", "2001:db8:1::2", 40..=40),
    ];
    for (settings, source, expected) in steps {
        net.host.run(&format!("sysctl -qw {settings}")).unwrap();
        // They are looked at once a second, and a burst is saved again meanwhile.
        wait_for(&format!("{settings} to hold"), Duration::from_secs(20), || {
            match net.ask(&[source], 40)[source].len() {
                number if expected.contains(&number) => Ok(()),
                number => Err(format!("{number} answers")),
            }
        })
        .unwrap();
    }
}
