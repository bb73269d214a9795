//! Random, mutated and truncated packets, a million of them: no panic, no growth, and good packets
//! go on. (The network of `network.rs`.)

use crate::network::{LANES, Line, SERVER, all_arrive};

/// Sends frames to the router as fast as Python can: good ones of many kinds, with bytes changed,
/// cut, or all random.
const ATTACK: &str = r#"
import random, socket, sys
count, seed, gateway = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
pick = random.Random(seed)
mine = get_if_hwaddr("eth0")
def good():
    four = IP(src="10.1.0.2", dst="10.2.0.2", ttl=pick.choice([0, 1, 2, 64, 255]), id=pick.randrange(65536))
    six = IPv6(src="2001:db8:1::2", dst="2001:db8:2::2", hlim=pick.choice([0, 1, 2, 64, 255]))
    bodies = [UDP(sport=1, dport=9001) / ("x" * pick.randrange(400)), TCP(dport=80, flags="S", options=[("MSS", 1460)]),
              ICMP() / "ping", IP(dst="10.2.0.2") / UDP(), b"", bytes(40)]
    kinds = [lambda: four / pick.choice(bodies), lambda: six / pick.choice(bodies),
             lambda: four.copy() / fuzz(ICMP()), lambda: six / fuzz(ICMPv6EchoRequest()),
             lambda: IP(src="10.1.0.2", dst="10.2.0.2", options=[IPOption_RR()]) / UDP(),
             lambda: IP(src="10.1.0.2", dst="10.2.0.2", flags="MF", frag=pick.randrange(8000)) / bytes(64),
             lambda: six / IPv6ExtHdrHopByHop() / IPv6ExtHdrRouting() / UDP(), lambda: six / IPv6ExtHdrFragment(offset=7) / UDP(),
             lambda: ARP(op=pick.randrange(5)), lambda: six / ICMPv6ND_NS(), lambda: IP(src="127.0.0.1", dst="224.0.0.5", proto=89) / bytes(20)]
    return bytes(Ether(src=mine, dst=gateway) / pick.choice(kinds)())
models = [good() for _ in range(400)]
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("eth0", 0))
header = bytes.fromhex(gateway.replace(":", "") + mine.replace(":", ""))
sent = 0
while sent < count:
    frame = bytearray(pick.choice(models))
    way = pick.randrange(8)
    if way == 0:
        frame = frame[:14 + pick.randrange(max(1, len(frame) - 14))]
    elif way == 1:
        frame = bytearray(header + pick.choice([b"\x08\x00", b"\x86\xdd", pick.randbytes(2)]) + pick.randbytes(pick.randrange(1, 1400)))
    elif way > 2:
        for _ in range(pick.randrange(1, 6)):
            frame[pick.randrange(12, len(frame))] = pick.randrange(256)
        if way > 5 and len(frame) > 34:
            frame[14] = pick.choice([0x45, 0x46, 0x4f, 0x44, 0x60, 0x6f, 0x55])
    try:
        out.send(frame)
        sent += 1
    except OSError:
        pass
"#;

#[test]
fn in_each_lane() {
    for (seed, lane) in LANES.into_iter().enumerate() {
        let mut net = Line::new("malformed", lane);
        let gateway = net.router.host().mac("left").unwrap();
        let attack = |count: u32, seed: usize| {
            net.customer
                .scapy(&format!("import sys\nsys.argv[1:] = ['{count}', '{seed}', '{gateway}']\n{ATTACK}"))
                .unwrap();
        };
        attack(20_000, 100 + seed);
        let process = net.router.process().map(|daemon| daemon.pid());
        let before = process.map(memory);
        attack(500_000, seed);
        if let (Some(pid), Some(before)) = (process, before) {
            assert!(
                net.router.process().is_some_and(|daemon| daemon.ended().is_none()),
                "{}",
                net.router.log()
            );
            assert!(!net.router.log().contains("panic"), "{}", net.router.log());
            let grown = memory(pid).saturating_sub(before);
            assert!(grown < 8 << 10, "{lane}: the daemon grew by {grown} KiB");
        }
        // Some of the packets were lies about neighbours, which Linux believes and the plane
        // follows.
        for host in [&net.customer, net.router.host(), &net.server] {
            host.run("ip neighbour flush all").unwrap();
        }
        net.reachable();
        all_arrive(&net.router, &net.customer, &net.server, &SERVER, 1000);
    }
}

/// Resident memory of a process in KiB.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
