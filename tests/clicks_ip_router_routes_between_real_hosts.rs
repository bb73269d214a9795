//! Click's IP router, by `bifrost click`, between two Linux hosts: ARP with both, forwarding, ICMP
//! errors, fragments, and answers to pings of its own addresses. By packet sockets and by AF_XDP.
//! (The network of `ethernets.rs`, whose link to bob carries 1300 bytes.)

use std::time::Duration;

use lab::{Capture, Flows, Ping, Sink, transfer};

use crate::ethernets::{ETHERS, Ethernets};
use crate::network::at;

/// The way of a packet through Click's IP router, written as two interfaces and the table between
/// them.
const ROUTER: &str = r"
// One Ethernet: input sends a routed packet there; output has the packets that come in, or back as
// errors.
elementclass Ethernet { $device, $ip, $ether, $color, $mtu, $method |
    in :: FromDevice($device, METHOD $method) -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
    out :: Queue(500) -> ToDevice($device, METHOD $method);
    arp :: ARPQuerier($ip, $ether) -> out;
    kind[0] -> ARPResponder($ip $ether) -> out;
    kind[1] -> [1] arp;
    kind[2] -> Paint($color) -> Strip(14) -> output;
    kind[3] -> Discard;

    input -> DropBroadcasts
        -> same :: PaintTee($color)
        -> options :: IPGWOptions($ip)
        -> FixIPSrc($ip)
        -> ttl :: DecIPTTL
        -> cut :: IPFragmenter($mtu)
        -> [0] arp;
    same[1] -> ICMPError($ip, redirect, host) -> output;
    options[1] -> ICMPError($ip, parameterproblem) -> output;
    ttl[1] -> ICMPError($ip, timeexceeded) -> output;
    cut[1] -> ICMPError($ip, unreachable, needfrag, PMTU $mtu) -> output;
}

left :: Ethernet(left, 10.1.0.1, 02:00:00:00:01:01, 1, 1500, METHOD);
right :: Ethernet(right, 10.2.0.1, 02:00:00:00:02:01, 2, 1300, METHOD);

check :: CheckIPHeader(INTERFACES 10.1.0.1/24 10.2.0.1/24)
    -> GetIPAddress(16)
    -> table :: StaticIPLookup(10.1.0.1/32 0, 10.2.0.1/32 0, 10.1.0.0/24 1, 10.2.0.0/24 2, 0.0.0.0/0 3);
left -> check;
right -> check;
table[0] -> IPReassembler -> ICMPPingResponder -> table;
table[1] -> left;
table[2] -> right;
table[3] -> ICMPError(10.1.0.1, unreachable, net) -> table;
";

#[test]
fn with_arp_icmp_and_fragments() {
    routes("LINUX");
}

#[test]
fn by_xdp_as_well() {
    routes("XDP");
}

fn routes(method: &str) {
    let mut net = Ethernets::new("clickip", 1300, &ROUTER.replace("METHOD);", &format!("{method});")));
    let second = Duration::from_secs(1);

    // ARP both ways, and forwarding.
    net.alice
        .reaches("10.2.0.2", 5 * second)
        .unwrap_or_else(|e| panic!("{e}\n{}", net.click.process().output()));
    net.bob.reaches("10.1.0.2", second).unwrap();
    assert_eq!(Ethernets::neighbour(&net.alice, "10.1.0.1"), ETHERS[0]);
    assert_eq!(Ethernets::neighbour(&net.bob, "10.2.0.1"), ETHERS[1]);
    let known = net.click.read("right/arp.table").unwrap();
    assert!(known.contains("10.2.0.2"), "{known}");

    // The router's own addresses answer, also to what comes in pieces.
    for (host, address) in [(&net.alice, "10.1.0.1"), (&net.alice, "10.2.0.1"), (&net.bob, "10.1.0.1")] {
        host.run(&format!("ping -n -c3 -i0.1 -W1 {address}")).unwrap();
    }
    net.alice.run("ping -n -c1 -W1 -s 1800 10.1.0.1").unwrap();

    errors(&net);
    pieces(&net);

    // Every frame is counted, and with XDP Linux sees none.
    assert!(net.click.read("left/in.method").unwrap().starts_with(method));
    let mut capture = Capture::start(&net.between, "left", "icmp").unwrap();
    let before = count(&mut net);
    net.alice.run("ping -n -c50 -i0.01 -W1 10.2.0.2").unwrap();
    // Perhaps Linux asks whether its neighbour is still there.
    let counted = count(&mut net) - before;
    assert!((50..52).contains(&counted), "{counted} frames of 50 pings");
    let seen = capture.decode().unwrap().len();
    assert_eq!(seen, if method == "XDP" { 0 } else { 100 });

    // Nothing is lost, and a stream, which fills the queues as it goes, is whole each way.
    let ping = Ping::start(&net.bob, "10.1.0.2", Duration::from_millis(10)).unwrap();
    let sink = Sink::start(&net.bob, 9000).unwrap();
    let flows = Flows::start(&net.alice, vec![at("10.2.0.2", 9000)], 8, 64, 2000).unwrap();
    sink.has_received(2000, 10 * second).unwrap();
    let sent = flows.stop();
    sink.has_received(sent, 2 * second).unwrap();
    let ping = ping.stop();
    assert_eq!(ping.lost(), 0, "{ping:?}");
    for (from, to, address) in [(&net.alice, &net.bob, "10.2.0.2"), (&net.bob, &net.alice, "10.1.0.2")] {
        let stream = transfer(from, to, address.parse().unwrap(), 20 << 20).unwrap();
        assert_eq!(stream.sent, stream.arrived);
    }

    assert_eq!(net.between.linux_forwarded().unwrap(), 0, "Linux is no router there");
}

/// Frames that came in from alice.
fn count(net: &mut Ethernets) -> u64 {
    net.click.read("left/in.count").unwrap().trim().parse().unwrap()
}

/// What a host is told when its packet cannot go on.
fn errors(net: &Ethernets) {
    for method in ["", "-I", "-T -p 80"] {
        let hops = net.alice.run(&format!("traceroute -n -q 1 -w 2 -m 5 {method} 10.2.0.2")).unwrap();
        let seen: Vec<_> = hops.lines().skip(1).filter_map(|hop| hop.split_whitespace().nth(1)).collect();
        assert_eq!(seen, ["10.1.0.1", "10.2.0.2"], "traceroute {method}: {hops}");
    }
    let unreachable = net.alice.run("ping -n -c1 -W1 192.0.2.1").unwrap_err().to_string();
    assert!(
        unreachable.contains("From 10.1.0.1") && unreachable.contains("Net Unreachable"),
        "{unreachable}"
    );
    let too_big = net.alice.run("ping -n -c1 -W2 -M do -s 1400 10.2.0.2").unwrap_err().to_string();
    assert!(too_big.contains("mtu = 1300") || too_big.contains("mtu=1300"), "{too_big}");
    let learnt = net.alice.run("ip route get 10.2.0.2").unwrap();
    assert!(learnt.contains("mtu 1300"), "{learnt}");
    net.alice.run("ip route flush cache").unwrap();
}

/// Packets too big for the next link that may be cut.
fn pieces(net: &Ethernets) {
    net.alice.sysctl(&[("net.ipv4.ip_no_pmtu_disc", "1")]).unwrap();
    let mut capture = Capture::start(&net.bob, "eth0", "udp or ip[6:2] & 0x1fff != 0").unwrap();
    let sink = Sink::start(&net.bob, 9000).unwrap();
    let flows = Flows::start(&net.alice, vec![at("10.2.0.2", 9000)], 8, 1472, 1000).unwrap();
    sink.has_received(500, Duration::from_secs(5)).unwrap();
    let sent = flows.stop();
    // UDP's checksum covers what bob put together again.
    sink.has_received(sent, Duration::from_secs(2)).unwrap();
    capture.has_caught(2 * sent as usize, Duration::from_secs(10)).unwrap();
    let packets = capture.decode().unwrap();
    let lengths: Vec<u64> = (packets.iter())
        .map(|packet| packet["_source"]["layers"]["ip"]["ip.len"].as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(lengths.len() as u64, 2 * sent, "two pieces each");
    assert!(lengths.iter().all(|length| *length <= 1300), "{:?}", lengths.iter().max());
    net.alice.sysctl(&[("net.ipv4.ip_no_pmtu_disc", "0")]).unwrap();
}
