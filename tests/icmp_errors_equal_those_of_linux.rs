//! In every situation that asks for an ICMP error, Bifrost sends the one that Linux sends, and
//! where Linux is silent so is Bifrost.
//!
//! Linux is asked first, on the same network: then Bifrost starts, and the same packets are sent
//! again. (The network of `network.rs`, whose link to the server carries 1300 bytes, and whose
//! router has routes of each kind.)

use serde_json::Value;

use crate::network::{LANES, Line, ports};

const ROUTES: &str = "
ip route add blackhole 198.18.1.0/24
ip route add unreachable 198.18.2.0/24
ip route add prohibit 198.18.3.0/24
ip route add 198.18.4.0/24 via 10.2.0.99
ip -6 route add blackhole 2001:db8:a1::/48
ip -6 route add unreachable 2001:db8:a2::/48
ip -6 route add prohibit 2001:db8:a3::/48
ip route add 198.18.5.0/24 via 10.2.0.2 mtu 1000
ip route add 198.18.6.0/24 via 10.2.0.2 mtu lock 1000
ip -6 route add 2001:db8:a4::/48 via 2001:db8:2::2 mtu 1290
ip -6 route add 2001:db8:a5::/48 via 2001:db8:2::2 mtu lock 1290
ip -6 route add 2001:db8:a7::/48 via 2001:db8:2::2 mtu 9000
ip route add 198.51.100.0/24 via 10.1.0.2 src 10.2.0.1
ip route add 203.0.114.0/24 dev left src 10.2.0.1
ip -6 route add 2001:db8:b1::/48 via 2001:db8:1::2 src 2001:db8:2::1
ip -6 route add 2001:db8:b2::/48 dev left src 2001:db8:2::1
";

/// Sends a packet in each situation and prints, as one JSON object, what came back in each: every
/// byte of the IP packet but those that may differ from packet to packet (IPv4's identification and
/// header checksum, IPv6's flow label).
const SITUATIONS: &str = r#"
import json, sys, time
gateway = sys.argv[1]
mine = get_if_hwaddr("eth0")
def four(dst="10.2.0.2", ttl=64, **more): return IP(src=more.pop("src", "10.1.0.2"), dst=dst, ttl=ttl, **more)
def six(dst="2001:db8:2::2", hlim=64, **more): return IPv6(src=more.pop("src", "2001:db8:1::2"), dst=dst, hlim=hlim, **more)
udp = UDP(sport=4000, dport=9001) / "some words to be quoted"
big = UDP(sport=4000, dport=9001) / ("x" * 1400)
fits = UDP(sport=4000, dport=9001) / ("x" * 1250)  # the link, in IPv6 as well
situations = {
    "ttl 1": four(ttl=1) / udp,
    "ttl 1, long": four(ttl=1) / big,
    "ttl 1, tos": four(ttl=1, tos=0xb8) / udp,
    "ttl 1, tcp": four(ttl=1) / TCP(dport=80),
    "ttl 1, ping": four(ttl=1) / ICMP(),
    "ttl 1, about an error": four(ttl=1) / ICMP(type=3, code=1) / bytes(28),
    "ttl 1, first fragment": four(ttl=1, flags="MF") / bytes(64),
    "ttl 1, later fragment": four(ttl=1, frag=100) / bytes(64),
    "ttl 1, no route": four("203.0.113.1", ttl=1) / udp,
    "ttl 1, the way back has a source": four(src="198.51.100.9", ttl=1) / udp,
    "ttl 1, the network has a source": four(src="203.0.114.9", ttl=1) / udp,
    "too big, the way back has a source": four(src="198.51.100.8", flags="DF") / big,
    "prohibit, the way back has a source": four("198.18.3.1", src="198.51.100.7") / udp,
    "no route": four("203.0.113.1") / udp,
    "blackhole": four("198.18.1.1") / udp,
    "unreachable": four("198.18.2.1") / udp,
    "prohibit": four("198.18.3.1") / udp,
    "too big, df": four(flags="DF") / big,
    "too big, df, tcp": four(flags="DF") / TCP(dport=80) / ("x" * 1400),
    "too big for the route": four("198.18.5.1", flags="DF") / big,
    "too big for the route, lock": four("198.18.6.1", flags="DF") / big,
    "bad checksum": four(chksum=1) / udp,
    "to multicast": four("239.1.1.1") / udp,
    "to loopback": four("127.0.0.1") / udp,
    "from loopback": four(src="127.0.0.1", ttl=1) / udp,
    "from nowhere": four(src="0.0.0.0", ttl=1) / udp,
    "from multicast": four(src="239.1.1.1", ttl=1) / udp,
    "6 hop limit 1": six(hlim=1) / udp,
    "6 hop limit 1, long": six(hlim=1) / big,
    "6 hop limit 1, class": six(hlim=1, tc=0xb8) / udp,
    "6 hop limit 1, tcp": six(hlim=1) / TCP(dport=80),
    "6 hop limit 1, ping": six(hlim=1) / ICMPv6EchoRequest(),
    "6 hop limit 1, about an error": six(hlim=1) / ICMPv6DestUnreach() / bytes(48),
    "6 hop limit 1, later fragment": six(hlim=1) / IPv6ExtHdrFragment(offset=10, nh=17) / bytes(64),
    "6 hop limit 1, the way back has a source": six(src="2001:db8:b1::9", hlim=1) / udp,
    "6 hop limit 1, the network has a source": six(src="2001:db8:b2::9", hlim=1) / udp,
    "6 too big, the way back has a source": six(src="2001:db8:b1::8") / big,
    "6 no route": six("2001:dead::1") / udp,
    "6 blackhole": six("2001:db8:a1::1") / udp,
    "6 unreachable": six("2001:db8:a2::1") / udp,
    "6 prohibit": six("2001:db8:a3::1") / udp,
    "6 too big": six() / big,
    "6 too big for the route": six("2001:db8:a4::1") / fits,
    "6 too big for the route, lock": six("2001:db8:a5::1") / big,
    "6 too big for the link, not the route": six("2001:db8:a7::1") / big,
    "6 to multicast": six("ff0e::1") / udp,
    "6 from link-local": six(src="fe80::2", hlim=2) / udp,
    "6 to link-local": six("fe80::99") / udp,
    "6 from loopback": six(src="::1", hlim=1) / udp,
    "6 from nowhere": six(src="::", hlim=1) / udp,
    "6 to loopback": six("::1", hlim=1) / udp,
    "host unreachable": four("198.18.4.1") / udp,
    "address unreachable": six("2001:db8:2::99") / udp,
}
def error(p):
    if IP in p: return ICMP in p and p[ICMP].type in (3, 4, 5, 11, 12)
    return p.haslayer(IPv6) and p[IPv6].nh == 58 and bytes(p[IPv6])[40] < 128
def marked(packet, number):
    """Gives the packet a number of its own, and the bytes by which a quote of it is known. Each has a source of its own
    too: errors are limited by whom they go to."""
    if IP in packet:
        packet.id = number
        if packet[IP].src == "10.1.0.2": packet[IP].src = "10.1.0.%d" % (number - 900)
        return bytes(packet)[:6]
    packet.fl = number
    if packet[IPv6].src == "2001:db8:1::2": packet[IPv6].src = "2001:db8:1::%x" % (number - 900)
    return bytes(packet)[:4]
def shown(p):
    packet = bytearray(bytes(p[IP] if IP in p else p[IPv6]))
    if IP in p:
        packet[4:6] = packet[10:12] = b"\0\0"
        length = p[IP].len
    else:
        length = 40 + p[IPv6].plen
        packet[1:4] = bytes([packet[1] & 0xf0, 0, 0])
    if IPv6 in p and packet[40] == 2 and packet[55] == 63:
        # Linux has taken a hop off already where the link would do but the route would not.
        packet[55] += 1
        packet[42:44] = (int.from_bytes(packet[42:44], "big") - 1).to_bytes(2, "big")
    return packet[:length].hex()
caught = []
listening = []
sniffer = AsyncSniffer(iface="eth0", lfilter=lambda p: p.src != mine and error(p), prn=lambda p: caught.append(p),
                       store=False, started_callback=lambda: listening.append(1))
sniffer.start()
while not listening: time.sleep(0.001)
out = conf.L2socket(iface="eth0")
marks = {}
for number, (name, packet) in enumerate(situations.items(), 1000):
    marks[name] = marked(packet, number)
    out.send(Ether(src=mine, dst=gateway) / packet)
    time.sleep(0.02)
time.sleep(5)  # Linux asks three times, a second apart, before it gives a host up
sniffer.stop()
answers = {name: [shown(p) for p in caught if mark in bytes(p)[34:]] for name, mark in marks.items()}
print(json.dumps(answers))
"#;

#[test]
fn in_each_lane() {
    for lane in LANES {
        let mut net = Line::made("icmp", &ports(lane, &["left", "right"]), 1300, 1);
        let host = net.router.host().clone();
        host.run(ROUTES).unwrap();
        // The customer is all the sources, and the router knows it.
        let mac = net.customer.mac("eth0").unwrap();
        let known =
            |address: String| format!("neighbour replace {address} lladdr {mac} dev left nud permanent\n");
        let sources = (100..160).map(|n| known(format!("10.1.0.{n}")) + &known(format!("2001:db8:1::{n:x}")));
        let sources = sources.chain(["203.0.114.9", "2001:db8:b2::9"].map(|address| known(address.into())));
        host.ip_batch(&sources.collect::<String>()).unwrap();
        net.reachable();
        let gateway = host.mac("left").unwrap();
        let ask = || -> Value {
            let script = format!("import sys\nsys.argv[1:] = ['{gateway}']\n{SITUATIONS}");
            serde_json::from_str(&net.customer.scapy(&script).unwrap()).unwrap()
        };
        let linux = ask();
        net.router.restart().unwrap();
        net.reachable();
        let bifrost = ask();
        let answered =
            linux.as_object().unwrap().values().filter(|v| !v.as_array().unwrap().is_empty()).count();
        assert!(answered >= 20, "Linux answered only {answered}: {linux:#}");
        let sourced = linux.as_object().unwrap().iter().filter(|(name, _)| name.contains("has a source"));
        assert!(sourced.clone().all(|(_, answer)| !answer.as_array().unwrap().is_empty()), "{linux:#}");
        let differ: Vec<String> = (linux.as_object().unwrap().iter())
            .filter(|(name, answer)| bifrost[name.as_str()] != **answer)
            .map(|(name, answer)| {
                format!("{name}:\n  Linux   {answer}\n  Bifrost {}", bifrost[name.as_str()])
            })
            .collect();
        assert!(differ.is_empty(), "{lane}: {}", differ.join("\n"));
    }
}
