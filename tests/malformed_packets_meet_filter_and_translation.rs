//! Half a million random, mutated and truncated packets from both sides of a router that filters,
//! tracks, masquerades, forwards ports, reads FTP, translates between the families and holds
//! segments down: it lives and does not grow, every packet that came is accounted for, each dropped
//! one by a reason, and a ping through all of it loses nothing that matters. (The network of
//! `network.rs`.)

use std::time::Duration;

use lab::{Host, Ping, wait_for};
use serde_json::Value;

use crate::network::{Line, NAT64, ports};

const POLICY: &str = r#"
[flow]
memory = 8
[filter.input]
rules = '''
drop tcp flags fin+syn/fin+syn name oddities
'''
[filter.forward]
rules = '''
accept state established,related
drop state invalid
reject tcp to any port 23
reject with prohibited udp to any port 9
drop udp fragment kernel open
police 5kpps from 10.1.0.9
accept length 0-1500 state new
drop
'''
[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
source = ["10.1.0.0/24", "2001:db8:1::/64"]
[[nat.rule]]
name = "web"
type = "destination"
in = "right"
protocol = "tcp"
destination = "10.2.0.1/32"
ports = "8080"
to = "10.1.0.2:8000"
[[nat.clamp]]
mss = "path"
"#;

/// Sends frames as fast as Python can: those that the elements behind the filter look into, with
/// bytes changed or cut.
const ATTACK: &str = r#"
import random, socket, sys, time
count, seed, gateway, inside = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "inside"
pick = random.Random(seed)
mine = get_if_hwaddr("eth0")
here4, there4 = ("10.1.0.2", ["10.2.0.2"]) if inside else ("10.2.0.2", ["10.2.0.1", "192.0.2.65", "10.1.0.2"])
here6, there6 = ("2001:db8:1::2", ["2001:db8:2::2", "64:ff9b::a02:2", "64:ff9b::a01:2"]) if inside else ("2001:db8:2::2", ["2001:db8:2::1", "2001:db8:1::2"])
def four(**more): return IP(src=here4, dst=pick.choice(there4), ttl=pick.choice([1, 2, 64]), id=pick.randrange(65536), **more)
def six(**more): return IPv6(src=here6, dst=pick.choice(there6), hlim=pick.choice([1, 2, 64]), **more)
def any_ip(): return pick.choice([four, six])()
def port(): return pick.choice([9, 21, 23, 53, 8000, 8080, pick.randrange(65536)])
def tcp(**more): return TCP(sport=port(), dport=port(), flags=pick.choice(["S", "SA", "A", "PA", "FA", "R", "SF", "FSRPAU", ""]), seq=pick.getrandbits(32), **more)
def said(): return pick.choice([b"PORT 10,1,0,2,%d,%d\r\n" % (pick.randrange(300), pick.randrange(300)), b"EPRT |2|2001:db8:1::2|%d|\r\n" % pick.randrange(70000),
    b"227 Entering Passive Mode (10,2,0,2,%d,1)\r\n" % pick.randrange(256), b"229 ok (|||%d|)\r\n" % pick.randrange(70000), b"PASV\r\nEPSV ALL\r\n", b"PORT " + b"1," * pick.randrange(40), bytes(pick.randrange(9))])
def quoted():
    back = IP(src=pick.choice(there4), dst=here4) if pick.randrange(2) else IPv6(src=pick.choice(there6), dst=here6)
    inner = bytes(back / pick.choice([UDP(sport=port(), dport=port()) / b"xxxxxxxx", tcp(), ICMP(id=pick.randrange(65536)), bytes(30)]))
    return inner[:pick.choice([len(inner), 8, 20, 27, 28, 40, 47, 48])]
kinds = [
    lambda: any_ip() / tcp(options=[("MSS", pick.randrange(65536)), ("NOP", None), ("WScale", pick.randrange(256))]),
    lambda: any_ip() / TCP(sport=pick.choice([21, 1024]), dport=pick.choice([21, 1024]), flags=pick.choice(["S", "SA", "PA", "A"]), seq=pick.randrange(4)) / said(),
    lambda: any_ip() / UDP(sport=port(), dport=port()) / bytes(pick.randrange(400)),
    lambda: any_ip() / UDP(sport=port(), dport=port(), len=pick.randrange(65536), chksum=0) / bytes(20),
    lambda: four() / ICMP(type=pick.choice([0, 3, 4, 5, 8, 11, 12, 13]), code=pick.randrange(16), id=pick.randrange(65536)) / quoted(),
    lambda: six() / ICMPv6EchoRequest(id=pick.randrange(65536)) / bytes(pick.randrange(64)),
    lambda: six() / pick.choice([ICMPv6DestUnreach(code=pick.randrange(8)), ICMPv6PacketTooBig(mtu=pick.randrange(70000)), ICMPv6TimeExceeded(), ICMPv6ParamProblem()]) / quoted(),
    lambda: four(flags=pick.choice(["MF", 0]), frag=pick.randrange(3)) / UDP(sport=5, dport=6) / bytes(48),
    lambda: six() / IPv6ExtHdrFragment(offset=pick.randrange(3), m=pick.randrange(2), id=pick.randrange(3)) / UDP(sport=5, dport=6) / bytes(48),
    lambda: six() / IPv6ExtHdrDestOpt() / IPv6ExtHdrHopByHop() / tcp(),
    lambda: any_ip() / GRE(key_present=1, key=pick.getrandbits(32)) / any_ip() / UDP(),
    lambda: any_ip() / pick.choice([ESP(spi=pick.getrandbits(32), data=bytes(24)), SCTP(sport=port(), dport=port()), bytes(40)]),
]
models = [bytes(Ether(src=mine, dst=gateway) / pick.choice(kinds)()) for _ in range(1500)]
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("eth0", 0))
sent = 0
while sent < count:
    frame = bytearray(pick.choice(models))
    way = pick.randrange(8)
    if way == 0:
        frame = frame[:14 + pick.randrange(max(1, len(frame) - 14))]
    elif way > 3:
        for _ in range(pick.randrange(1, 5)):
            frame[pick.randrange(14, len(frame))] = pick.randrange(256)
    if way > 1 and frame[12:14] == b"\x08\x00" and len(frame) >= 34 and frame[14] & 15 >= 5 and len(frame) >= 14 + 4 * (frame[14] & 15):
        # A sum that is right lets it come further.
        end = 14 + 4 * (frame[14] & 15)
        frame[24:26] = bytes(2)
        frame[24:26] = checksum(bytes(frame[14:end])).to_bytes(2, "big")
    try:
        out.send(frame)
        sent += 1
        # No more than rings hold: this is not about floods.
        if sent % 64 == 0: time.sleep(0.002)
    except OSError:
        pass
"#;

fn attack(host: &Host, count: u32, seed: u32, gateway: &str, side: &str) {
    let arguments = format!("import sys\nsys.argv[1:] = ['{count}', '{seed}', '{gateway}', '{side}']\n");
    host.scapy(&(arguments + ATTACK)).unwrap();
}

/// Resident memory of a process in KiB.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn sum(list: &Value, wanted: impl Fn(&Value) -> bool, what: &str) -> u64 {
    let list = list.as_array().unwrap().iter();
    list.filter(|one| wanted(one)).map(|one| one[what].as_u64().unwrap()).sum()
}

/// What came into the workers' graph has left it, has been handed to Linux, or was dropped for a
/// reason.
fn adds_up(net: &Line) -> Result<(), String> {
    let (graph, drops) = (net.router.show("graph").unwrap(), net.router.subject("drops").unwrap());
    let class = |class: &'static str| move |element: &Value| element["class"] == class;
    // Known flows take the short way, in front of all others.
    let came = sum(&graph, class("FlowPath"), "packets");
    let sent = sum(&graph, class("Transmit"), "packets");
    let handed = sum(&graph, class("Punt"), "packets");
    // What is refused is dropped, and an answer is made; of a packet in fragments all but one are.
    let made = |element: &Value| -> u64 {
        let edges = element["edges"].as_array().unwrap().iter();
        let out: Vec<u64> = edges.map(|edge| edge["packets"].as_u64().unwrap()).collect();
        match element["class"].as_str().unwrap() {
            "IcmpError4" | "IcmpError6" | "TcpReset" => out[0],
            "Fragment4" => out.iter().sum::<u64>().saturating_sub(element["packets"].as_u64().unwrap()),
            _ => 0,
        }
    };
    let more: u64 = graph.as_array().unwrap().iter().map(made).sum();
    let dropped =
        |element: &Value| !["Transmit", "Punt", "ExpressLane"].contains(&element["class"].as_str().unwrap());
    let lost = sum(&graph, dropped, "drops");
    println!("{came} came and {more} were made; {sent} sent, {handed} handed to Linux, {lost} dropped");
    if came + more != sent + handed + lost {
        return Err(graph.to_string());
    }
    for element in graph.as_array().unwrap().iter().filter(|element| dropped(element)) {
        let of = |drop: &Value| match element["class"] == "ExpressLane" {
            true => drop["lane"] == "express",
            // That an answer was not made is counted beside why the packet was dropped.
            false if drop["reason"] == "icmp_limited" => false,
            false => drop["lane"] == "worker" && drop["element"] == element["name"],
        };
        if element["drops"] != sum(&drops, of, "packets") {
            return Err(format!("{element}: {drops}"));
        }
    }
    if lost > came / 10 { Ok(()) } else { Err(format!("that was harmless: {drops}")) }
}

#[test]
fn and_a_ping_goes_on() {
    let config = ports("worker", &["left", "right"]) + NAT64 + POLICY;
    let mut net = Line::stopped("malformed-nat", &config);
    if !net.router.is_bifrost() {
        return;
    }
    net.router.restart().unwrap();
    let gateways = ["left", "right"].map(|port| net.router.host().mac(port).unwrap());
    // Lies about neighbours, or about the ways of the two hosts, are not what this is about.
    for (host, gateway, next4, next6) in [
        (&net.customer, &gateways[0], "10.1.0.1", "2001:db8:1::1"),
        (&net.server, &gateways[1], "10.2.0.1", "2001:db8:2::1"),
    ] {
        host.run(&format!(
            "ip neighbour replace {next4} lladdr {gateway} dev eth0 nud permanent; ip neighbour replace {next6} lladdr {gateway} dev eth0 nud permanent
             sysctl -qw net.ipv4.conf.all.accept_redirects=0 net.ipv4.conf.eth0.accept_redirects=0 net.ipv6.conf.all.accept_redirects=0 net.ipv6.conf.eth0.accept_redirects=0
             # They answer every ping, whatever else they have to say.
             sysctl -qw net.ipv6.icmp.ratelimit=0 net.ipv4.icmp_ratelimit=0 net.ipv4.icmp_msgs_per_sec=1000000 net.ipv4.icmp_msgs_burst=100000"
        ))
        .unwrap();
    }
    for (host, port, to4, to6) in [
        (&net.customer, "left", "10.1.0.2", "2001:db8:1::2"),
        (&net.server, "right", "10.2.0.2", "2001:db8:2::2"),
    ] {
        let mac = host.mac("eth0").unwrap();
        net.router.host().run(&format!(
            "ip neighbour replace {to4} lladdr {mac} dev {port} nud permanent; ip neighbour replace {to6} lladdr {mac} dev {port} nud permanent"
        )).unwrap();
    }
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    net.customer.reaches("64:ff9b::10.2.0.2", Duration::from_secs(10)).unwrap();
    let both = |count: u32, seed: u32| {
        std::thread::scope(|scope| {
            scope.spawn(|| attack(&net.customer, count, seed, &gateways[0], "inside"));
            scope.spawn(|| attack(&net.server, count, seed + 1, &gateways[1], "outside"));
        });
    };
    both(20_000, 100);
    let pid = net.router.show("version").unwrap()["pid"].as_u64().unwrap() as u32;
    let before = memory(pid);
    // By IPv4 and translated into it: of IPv6 the server's own kernel answers but every other ping
    // under such a load.
    let pings = ["10.2.0.2", "64:ff9b::10.2.0.2"]
        .map(|to| Ping::start(&net.customer, to, Duration::from_millis(20)).unwrap());
    both(250_000, 7);
    let pings = pings.map(Ping::stop);
    assert!(!net.router.log().contains("panic"), "{}", net.router.log());
    let grown = memory(pid).saturating_sub(before);
    assert!(grown < 32 << 10, "the daemon grew by {grown} KiB");
    let quiet = pings.iter().all(|ping| ping.lost() * 20 <= ping.sent);
    assert!(quiet, "{pings:?}\n{}", net.router.ask("show drops").unwrap());
    net.customer.reaches("2001:db8:2::2", Duration::from_secs(5)).unwrap();
    // What is under way is in between.
    wait_for("all packets to be accounted for", Duration::from_secs(5), || adds_up(&net)).unwrap();
    let workers = net.router.subject("workers").unwrap();
    assert_eq!(sum(&workers, |_| true, "restarts"), 0, "{workers}");
}
