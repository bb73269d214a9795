//! Linux's routing rules (`ip rule`) choose the tables: random rules and tables are set in Linux,
//! and the same packets pass Linux alone and Bifrost, in each lane. Each leaves by the same way, or
//! is answered or dropped alike; beside a filter too. What is translated asks them as it is bound,
//! by Linux and by the plane. (The network of `network.rs`, with three more links to the server.)

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use chance::Random;
use lab::{Flows, Host, Sink, wait_for};

use crate::network::{Line, at, ports};

/// How many random sets of rules, and packets for each.
const ROUNDS: usize = 5;
const PACKETS: usize = 160;
/// The links beside the first one.
const MORE: [&str; 3] = ["r1", "r2", "r3"];

/// Tells what arrives until its input ends: by packet, the interface and what became of it.
const SNIFFER: &str = r#"
import json, re, select, socket, sys
sockets = {}
for name in sys.argv[1:]:
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    one.bind((name, 0))
    sockets[one] = name
print("listening", flush=True)
seen = {}
while True:
    ready, _, _ = select.select(list(sockets) + [sys.stdin], [], [])
    for one in ready:
        if one is sys.stdin:
            if not sys.stdin.readline(): sys.exit()
            print(json.dumps(seen), flush=True)
            seen = {}
            continue
        frame, address = one.recvfrom(2048)
        if address[2] == socket.PACKET_OUTGOING: continue
        tag = re.search(rb"RULE(\d\d\d\d)", frame)
        if not tag: continue
        six = frame[12:14] == b"\x86\xdd"
        what = sockets[one]
        if six and frame[20] == 58 and frame[54] < 128: what += " error %d/%d from %s" % (frame[54], frame[55], frame[22:38].hex())
        if not six and frame[23] == 1 and frame[34] in (3, 11): what += " error %d/%d from %s" % (frame[34], frame[35], frame[26:30].hex())
        seen.setdefault(tag[1].decode(), []).append(what)
"#;

/// Sends the packets of one round to a link address.
const SENDER: &str = r#"
import random, socket, struct, sys
gateway, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
gateway = bytes.fromhex(gateway.replace(":", ""))
rng = random.Random(seed)
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("eth0", 0))
mac = wire.getsockname()[4]
def total(data):
    if len(data) & 1: data += b"\0"
    number = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while number >> 16: number = (number & 0xffff) + (number >> 16)
    return ~number & 0xffff
for number in range(count):
    six, payload = number & 1, b"RULE%04d" % number + bytes(18)
    protocol = rng.choice([17, 17, 6, 132, 50, 58 if six else 1])
    ports = struct.pack("!HH", rng.choice([53, 1000, 1024, 5353]), rng.choice([53, 80, 443, 7777]))
    tos, ttl, piece = rng.choice([0, 0, 16, 32, 40, 184]), rng.choice([64, 64, 64, 1]), rng.choice([0] * 8 + [0x2000, 0x0010])
    host, net, last = rng.choice([2, 3, 70, 130]), rng.choice([0, 1, 2, 3]), rng.choice([1, 9, 200])
    if six:
        source = socket.inet_pton(10, "2001:db8:1::%x" % host)
        destination = socket.inet_pton(10, "2001:db8:16:%d::%x" % (net, last))
    else:
        source, destination = bytes([10, 1, 0, host]), bytes([172, 16, net, last])
    body = {17: ports + struct.pack("!HH", 8 + len(payload), 0) + payload,
            6: ports + struct.pack("!IIBBHHH", 1, 1, 0x50, 16, 1000, 0, 0) + payload,
            132: ports + bytes(8) + payload, 50: ports + bytes(8) + payload,
            1: struct.pack("!BBHHH", 8, 0, 0, 7, 1) + payload, 58: struct.pack("!BBHHH", 128, 0, 0, 7, 1) + payload}[protocol]
    pseudo = source + destination + (struct.pack("!II", len(body), protocol) if six else struct.pack("!BBH", 0, protocol, len(body)))
    at = {17: 6, 6: 16, 1: 2, 58: 2}.get(protocol)
    if at is not None:
        check = total((b"" if protocol == 1 else pseudo) + body) or 0xffff
        body = body[:at] + struct.pack("!H", check) + body[at + 2:]
    if six:
        packet = struct.pack("!IHBB", 6 << 28 | tos << 20, len(body), protocol, ttl) + source + destination + body
    else:
        packet = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(body), number, piece, ttl, protocol, 0) + source + destination
        packet = packet[:10] + struct.pack("!H", total(packet)) + packet[12:] + body
    wire.send(gateway + mac + (b"\x86\xdd" if six else b"\x08\x00") + packet)
"#;

/// The network with three more links, and tables of many kinds; in the worker lane with a filter.
fn network(name: &str, lane: &str) -> Line {
    let policy = if lane == "worker" { "[filter.forward]\nrules = 'accept'\n" } else { "" };
    let net = Line::stopped(name, &(ports(lane, &["left", "right", "r1", "r2", "r3"]) + policy));
    let router = net.router.host();
    for (n, link) in MORE.iter().enumerate() {
        let n = n + 3;
        net.lab
            .link_with_queues(
                router.end(link).address(&format!("10.{n}.0.1/24")).address(&format!("2001:db8:{n}::1/64")),
                net.server
                    .end(&format!("eth{}", n - 2))
                    .address(&format!("10.{n}.0.2/24"))
                    .address(&format!("2001:db8:{n}::2/64")),
                1,
            )
            .unwrap();
    }
    router
        .run(
            "sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv4.icmp_msgs_per_sec=100000 net.ipv4.icmp_msgs_burst=100000 \
             net.ipv6.icmp.ratelimit=0
             ip route add default via 10.2.0.2; ip -6 route add default via 2001:db8:2::2
             ip route add default via 10.3.0.2 table 77; ip -6 route add default via 2001:db8:3::2 table 77
             ip route add 172.16.1.0/24 via 10.4.0.2 table 78; ip -6 route add 2001:db8:16:1::/64 via 2001:db8:4::2 table 78
             ip route add throw 172.16.1.200 table 78; ip -6 route add throw 2001:db8:16:1::c8 table 78
             ip route add blackhole 172.16.2.0/24 table 78; ip -6 route add blackhole 2001:db8:16:2::/64 table 78
             ip route add 172.16.3.0/24 via 10.5.0.2 table 79; ip -6 route add 2001:db8:16:3::/64 via 2001:db8:5::2 table 79
             ip route add unreachable 172.16.0.0/24 table 79; ip -6 route add unreachable 2001:db8:16::/64 table 79
             ip route add prohibit default table 80; ip -6 route add prohibit default table 80
             ip route add 172.16.2.9 via 10.5.0.2; ip -6 route add 2001:db8:16:2::9 via 2001:db8:5::2",
        )
        .unwrap();
    // They answer for their own addresses only; what they do not know, they do not send back.
    net.server.run("sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0; ip route flush table main type blackhole").unwrap();
    net
}

/// Random rules, as `ip rule add` takes them.
fn rules(random: &mut Random, six: bool) -> Vec<String> {
    let prefix = |random: &mut Random, source: bool| match (six, source) {
        (false, true) => random.pick(&["10.1.0.0/24", "10.1.0.64/26", "10.1.0.2", "10.9.0.0/16"]),
        (true, true) => {
            random.pick(&["2001:db8:1::/64", "2001:db8:1::46", "2001:db8:1::2", "2001:db8:9::/48"])
        }
        (false, false) => random.pick(&["172.16.0.0/16", "172.16.1.0/24", "172.16.2.9", "0.0.0.0/1"]),
        (true, false) => random.pick(&["2001:db8:16::/48", "2001:db8:16:1::/64", "2001:db8:16:2::9", "::/1"]),
    };
    let count = 1 + random.below(8);
    let one = |n: usize, random: &mut Random| {
        let mut rule = format!("pref {} {}", 100 + 10 * n, random.pick(&["", "", "", "not "]));
        let from = if random.chance(50) { prefix(random, true) } else { "all" };
        rule += &format!("from {from} ");
        for (percent, words) in [
            (30, format!("to {} ", prefix(random, false))),
            (20, format!("iif {} ", random.pick(&["left", "left", "right", "lo", "none7"]))),
            (10, "oif right ".to_owned()),
            (15, format!("tos {} ", random.pick(&["0x10", "0x8"]))),
            (10, "fwmark 0x1/0xf ".to_owned()),
        ] {
            if random.chance(percent) {
                rule += &words;
            }
        }
        if random.chance(25) {
            rule += &format!("ipproto {} ", random.pick(&["udp", "tcp", "icmp", "132"]));
        }
        if random.chance(25) {
            rule +=
                &format!("{} ", random.pick(&["sport 53", "sport 1000-1024", "dport 53-443", "dport 7777"]));
        }
        rule + &match random.below(12) {
            0..=5 => format!("lookup {}", random.pick(&["77", "78", "79", "80", "81", "main"])),
            6..=7 => "lookup main suppress_prefixlength 0".to_owned(),
            8 => random.pick(&["blackhole", "unreachable", "prohibit"]).to_owned(),
            9 => format!("goto {}", 100 + 10 * (n + 1 + random.below(3))),
            10 => "nop".to_owned(),
            _ => "lookup 79 suppress_prefixlength 0".to_owned(),
        }
    };
    (0..count).map(|n| one(n, random)).collect()
}

/// The commands of a round, and those that undo it.
fn round(random: &mut Random) -> (String, String) {
    let (mut set, mut undo) = (String::new(), String::new());
    for (six, ip) in [(false, "ip"), (true, "ip -6")] {
        for rule in rules(random, six) {
            set += &format!("{ip} rule add {rule}\n");
            let pref = rule.split(' ').nth(1).unwrap();
            undo += &format!("{ip} rule del pref {pref}\n");
        }
    }
    set += &format!("sysctl -qw net.ipv4.conf.left.rp_filter={}\n", random.pick(&[0, 0, 1, 2]));
    (set, undo)
}

/// What became of each packet of a round.
type Fates = BTreeMap<String, Vec<String>>;

/// A sniffer on a host.
struct Ears(std::process::Child, std::io::BufReader<std::process::ChildStdout>);

impl Ears {
    fn new(host: &Host, interfaces: &[&str]) -> Ears {
        use std::process::Stdio;
        let mut command = host.command("python3");
        command.args(["-c", SNIFFER]).args(interfaces).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        assert_eq!(line.trim(), "listening");
        Ears(child, output)
    }

    fn heard(&mut self) -> Fates {
        std::io::Write::write_all(self.0.stdin.as_mut().unwrap(), b"\n").unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.1, &mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn pass(net: &Line, seed: u64, settled: impl Fn(usize)) -> Vec<(String, Fates)> {
    let mut random = Random(seed);
    let mut server = Ears::new(&net.server, &["eth0", "eth1", "eth2", "eth3"]);
    let mut customer = Ears::new(&net.customer, &["eth0"]);
    let gateway = net.router.host().mac("left").unwrap();
    (0..ROUNDS)
        .map(|number| {
            let (set, undo) = round(&mut random);
            net.router.host().run(&set).unwrap();
            settled(number);
            let mut sender = net.customer.command("python3");
            sender.args(["-c", SENDER, &gateway, &number.to_string(), &PACKETS.to_string()]);
            assert!(sender.status().unwrap().success());
            sleep(Duration::from_millis(250));
            let mut fates = server.heard();
            for (packet, errors) in customer.heard() {
                fates
                    .entry(packet)
                    .or_default()
                    .extend(errors.iter().map(|error| format!("customer {error}")));
            }
            net.router.host().run(&undo).unwrap();
            (set, fates)
        })
        .collect()
}

/// Whether a packet fared alike. Linux refuses a sender of IPv4 not more than five times, and then
/// once a second, which no namespace can change (`ip_error`).
fn alike(one: Option<&Vec<String>>, other: Option<&Vec<String>>) -> bool {
    let refused = |fate: &Vec<String>| fate.iter().all(|word| word.starts_with("customer eth0 error 3/"));
    match (one, other) {
        (Some(fate), None) | (None, Some(fate)) => refused(fate),
        _ => one == other,
    }
}

/// The addresses that packets go to must not be looked for: gateways are asked once.
fn meet(net: &Line) {
    for n in 2..6 {
        net.router
            .host()
            .run(&format!("ping -c1 -W1 10.{n}.0.2; ping -6 -c1 -W1 2001:db8:{n}::2; true"))
            .unwrap();
    }
}

#[test]
fn whatever_they_are() {
    let seed = 20_261_126;
    let mut linux = None;
    for lane in ["auto", "worker"] {
        let mut net = network(&format!("iprule-{lane}"), lane);
        if !net.router.is_bifrost() {
            return;
        }
        meet(&net);
        let expected = linux.get_or_insert_with(|| pass(&net, seed, |_| ())).clone();
        net.router.restart().unwrap();
        net.reachable();
        meet(&net);
        let (_, before) = net.lanes();
        let settled = |_| {
            sleep(Duration::from_millis(150));
            let shown = net.router.ask("show mirror").unwrap();
            let rules: Vec<&str> = shown.lines().filter(|line| line.starts_with("routing rule ")).collect();
            assert!(rules.iter().all(|line| line.ends_with(": followed")), "{shown}");
        };
        let got = pass(&net, seed, settled);
        let (_, after) = net.lanes();
        assert!(after - before > (ROUNDS * PACKETS / 2) as u64, "workers had {}", after - before);
        for ((set, expected), (_, got)) in expected.iter().zip(&got) {
            let differ: Vec<String> = (0..PACKETS)
                .map(|number| format!("{number:04}"))
                .filter(|number| !alike(expected.get(number), got.get(number)))
                .map(|number| {
                    format!("{number}: {:?}, in Linux {:?}", got.get(&number), expected.get(&number))
                })
                .collect();
            assert!(differ.is_empty(), "{lane}:\n{set}{}\n{}", differ.join("\n"), net.state());
        }
        assert!(expected.iter().all(|(_, fates)| fates.len() > PACKETS / 8), "too little arrives to tell");
    }
}

/// Masquerades by two links, and one port forward by the second.
const TRANSLATION: &str = r#"
[flow]
memory = 16

[filter.forward]
policy = "drop"
rules = '''
accept state established,related
drop state invalid
accept in left
accept tcp in r1 to 10.1.0.2 port 80
'''

[[nat.rule]]
name = "out"
type = "masquerade"
in = ["left"]
out = ["right", "r1"]

[[nat.rule]]
name = "web"
type = "destination"
in = ["r1"]
protocol = "tcp"
ports = "8080"
to = "10.1.0.2:80"
"#;

/// A host that calls from an address, whom, and which address seems to call.
const CALLS: [(&str, &str, &str, u16, &str); 6] = [
    // By the first link, or the second where a rule says so: by where it comes from, and its port.
    ("customer", "10.1.0.2", "172.16.1.1", 9001, "10.2.0.1"),
    ("customer", "10.1.0.2", "172.16.1.1", 9000, "10.3.0.1"),
    ("customer", "10.1.0.77", "172.16.1.1", 9001, "10.3.0.1"),
    // In by the second link. The rules for the port that is called are not asked; those for the
    // port that it really goes to are, and for its answers.
    ("server", "10.3.0.2", "10.3.0.1", 8080, "10.3.0.2"),
    ("server", "172.16.1.1", "10.3.0.1", 8080, "172.16.1.1"),
    ("server", "10.3.0.2", "10.3.0.1", 80, "-"),
];

#[test]
fn of_what_is_translated_too() {
    let mut net = network("iprule-nat", "auto");
    if !net.router.is_bifrost() {
        return;
    }
    let config = ports("auto", &["left", "right", "r1", "r2", "r3"]) + TRANSLATION;
    net.router.configure(&config).unwrap();
    net.customer.run("ip address add 10.1.0.77/24 dev eth0").unwrap();
    net.server.run("ip address add 172.16.1.1/32 dev lo; ip route add 10.3.0.0/24 dev eth1 || true").unwrap();
    let _tellers = [net.server.tells(&[9000, 9001]).unwrap(), net.customer.tells(&[80]).unwrap()];
    net.router
        .host()
        .run(
            "ip rule add pref 100 iif left from 10.1.0.0/24 dport 9000 lookup 77
             ip rule add pref 101 from 10.1.0.77 lookup 77
             ip rule add pref 102 from 10.1.0.2 sport 80 lookup 77
             ip rule add pref 103 dport 8080 prohibit
             ip rule add pref 104 iif r1 dport 80 lookup main
             ip rule add pref 105 iif r1 dport 1-8079 prohibit",
        )
        .unwrap();
    meet(&net);
    net.router.restart().unwrap();
    net.reachable();
    meet(&net);
    let are_as_said = |by: &str, net: &Line| {
        for (from, own, to, port, seen) in CALLS {
            let host = if from == "server" { &net.server } else { &net.customer };
            let said = host.call("tcp", (own, 0), (to, port)).unwrap();
            assert_eq!(said, seen, "by {by}: {own} calls {to}:{port}\n{}", net.state());
        }
    };
    are_as_said("the plane", &net);
    let (_, before) = net.lanes();
    let linux = net.router.host().linux_forwarded().unwrap();
    for _ in 0..3 {
        are_as_said("the plane", &net);
    }
    let linux = net.router.host().linux_forwarded().unwrap() - linux;
    assert!(net.lanes().1 - before > 40 && linux < 10, "{linux} by Linux\n{}", net.state());
    let told = net.router.ask("explain '10.3.0.2 > 10.3.0.1 tcp 5000:8080 in r1'").unwrap();
    assert!(told.contains("104") && told.contains("sent by left"), "{told}");
    net.router.kill_nine();
    are_as_said("Linux", &net);
}

#[test]
fn they_change_under_traffic_within_100_ms_and_lose_nothing() {
    let mut net = network("iprule-change", "auto");
    if !net.router.is_bifrost() {
        return;
    }
    net.server
        .run("ip address add 172.16.1.1/32 dev lo; ip route add 10.1.0.0/24 via 10.2.0.1 metric 5 || true")
        .unwrap();
    meet(&net);
    net.router.restart().unwrap();
    net.reachable();
    meet(&net);
    let sink = Sink::start(&net.server, 9000).unwrap();
    let flows = Flows::start(&net.customer, vec![at("172.16.1.1", 9000)], 4, 64, 1000).unwrap();
    sink.has_received(200, Duration::from_secs(5)).unwrap();
    let by = |interface: &str| net.server.interface_number(interface, "statistics/rx_packets").unwrap();
    for turn in 0..2 {
        for (command, here, gone) in [
            ("ip rule add pref 100 to 172.16.1.0/24 lookup 77", "eth1", "eth0"),
            ("ip rule add pref 90 from 10.1.0.0/24 dport 9000 ipproto udp lookup 78", "eth2", "eth1"),
            ("ip rule del pref 90", "eth1", "eth2"),
            ("ip rule del pref 100", "eth0", "eth1"),
        ] {
            net.router.host().run(command).unwrap();
            sleep(Duration::from_millis(100));
            let before = by(gone);
            let arrived = by(here);
            sleep(Duration::from_millis(100));
            let (late, now) = (by(gone) - before, by(here) - arrived);
            // Neighbours are asked now and then.
            assert!(
                late < 5 && now > 50,
                "turn {turn}, {command}: {late} by {gone}, {now} by {here}\n{}",
                net.state()
            );
        }
    }
    let sent = flows.stop();
    wait_for("all to arrive", Duration::from_secs(3), || match sink.received() {
        received if received >= sent => Ok(()),
        received => Err(format!("{received} of {sent}")),
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", net.state()));
}
