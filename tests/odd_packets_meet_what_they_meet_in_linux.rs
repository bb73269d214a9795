//! Packets that few ever see are forwarded, answered or dropped as Linux does: destinations in
//! 0.0.0.0/8, protocols that nobody has, extension headers that lie about their length.
//!
//! Linux is asked first, on the same network: then Bifrost starts, and the same packets are sent
//! again. (The network of `network.rs`; behind the filter workers look at every packet, and hand
//! over to Linux what is Linux's. What no filter can judge, as its headers end nowhere, is not sent
//! then: it is dropped.)

use serde_json::Value;

use crate::network::{LANES, Line, overheard, ports};

/// What lets everything pass, and yet wants flows known.
const FILTER: &str =
    "[flow]\nmemory = 16\n[filter.forward]\nrules = '''\naccept state established\naccept\n'''\n";

/// Packets to the server are told apart by their length, those for the router by the answer.
const PACKETS: &str = r#"
import sys
gateway = sys.argv[1]
mine = get_if_hwaddr("eth0")
me, me6 = "10.1.0.2", "2001:db8:1::2"
def udp(size): return UDP(sport=4000, dport=9001) / bytes(size)
def hop(options): return IPv6ExtHdrHopByHop(options=options)
def six(headers): return IPv6(src=me6, dst="2001:db8:2::2") / headers
long = bytes([17, 200]) + bytes(6)  # destination options that end behind the packet
transit = [
    IP(src=me, dst="0.1.2.3") / udp(301),
    IP(src=me, dst="0.0.0.0") / udp(302),
    IP(src="0.1.2.3", dst="10.2.0.2") / udp(303),
    IP(src="0.0.0.0", dst="10.2.0.2") / udp(304),
    IP(src=me, dst="10.2.0.2", proto=255) / bytes(305),
    six(hop([PadN(optdata=bytes(4))]) / udp(306)),
    six(hop([RouterAlert()]) / udp(307)),
    six(hop([HBHOptUnknown(otype=0x1e, optdata=bytes(4))]) / udp(308)),
    six(hop([HBHOptUnknown(otype=0x5e, optdata=bytes(4))]) / udp(309)),
    six(hop([HBHOptUnknown(otype=0x9e, optdata=bytes(4))]) / udp(310)),
    six(IPv6ExtHdrHopByHop(len=200) / udp(311)),
    IPv6(src=me6, dst="2001:db8:2::2", nh=60) / (long + bytes(312)),
    IPv6(src=me6, dst="2001:db8:2::2", nh=0) / (bytes(hop([PadN(optdata=bytes(4))]))[:0] + bytes([60, 0, 1, 4, 0, 0, 0, 0]) + long + bytes(313)),
    six(IPv6ExtHdrRouting(type=4, segleft=0) / udp(314)),
]
local = {
    "protocol 255": IP(src=me, dst="10.1.0.1", proto=255) / bytes(16),
    "protocol 254": IP(src=me, dst="10.1.0.1", proto=254) / bytes(16),
    "protocol 255, the far side": IP(src=me, dst="10.2.0.1", proto=255) / bytes(16),
    "6 protocol 255": IPv6(src=me6, dst="2001:db8:1::1", nh=255) / bytes(16),
    "6 protocol 254": IPv6(src=me6, dst="2001:db8:1::1", nh=254) / bytes(16),
    "6 routing header": IPv6(src=me6, dst="2001:db8:1::1") / IPv6ExtHdrRouting(type=9, segleft=1) / udp(16),
    "6 hop-by-hop too long": IPv6(src=me6, dst="2001:db8:1::1") / IPv6ExtHdrHopByHop(len=200) / udp(16),
}
if len(sys.argv) > 2: transit = [packet for packet in transit if long not in bytes(packet)]
import json, time
out = conf.L2socket(iface="eth0")
for packet in transit:
    out.send(Ether(src=mine, dst=gateway) / packet)
    time.sleep(0.02)
answers = {}
for name, packet in local.items():
    heard = AsyncSniffer(iface="eth0", timeout=0.4, started_callback=lambda: out.send(Ether(src=mine, dst=gateway) / packet),
                         lfilter=lambda p: p.src != mine and (ICMP in p and p[ICMP].type in (3, 12) or IPv6 in p and p[IPv6].nh == 58 and bytes(p[IPv6])[40] < 128))
    heard.start()
    heard.join()
    answers[name] = [p.summary().split(" / ", 1)[1] for p in heard.results]
    time.sleep(0.2)
print(json.dumps(answers))
"#;

#[test]
fn in_each_lane() {
    for (lane, filter) in [(LANES[0], ""), (LANES[1], ""), (LANES[1], FILTER)] {
        let config = format!("{}{filter}", ports(lane, &["left", "right"]));
        let mut net = Line::stopped("odd", &config);
        let host = net.router.host().clone();
        host.run("ip route add 0.0.0.0/8 via 10.2.0.2; sysctl -qw net.ipv4.icmp_ratemask=0").unwrap();
        net.reachable();
        let gateway = host.mac("left").unwrap();
        let judged = if filter.is_empty() { "" } else { ", 'judged'" };
        let ask = || -> (Value, Vec<String>) {
            let server =
                overheard(&net.server, "src host 10.1.0.2 or src net 0.0.0.0/8 or src host 2001:db8:1::2");
            let script = format!("import sys\nsys.argv[1:] = ['{gateway}'{judged}]\n{PACKETS}");
            let answers = serde_json::from_str(&net.customer.scapy(&script).unwrap()).unwrap();
            let heard = server.output();
            // Without the time, and what neighbours ask each other.
            let arrived =
                heard.lines().filter(|line| line.contains(" > ") && !line.contains("ICMP6, neighbor"));
            (
                answers,
                arrived.filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest.to_owned()).collect(),
            )
        };
        let linux = ask();
        net.router.restart().unwrap();
        net.reachable();
        let bifrost = ask();
        assert!(linux.1.len() >= 7, "of all packets only these pass Linux: {:#?}", linux.1);
        assert_eq!(linux, bifrost, "{lane} {filter}: Linux, and then Bifrost");
    }
}
