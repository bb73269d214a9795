//! VLANs of Linux on Bifrost's ports are forwarded by the plane: what comes in by one port in the
//! driver, what comes in by the other by a worker; whether they are there before it starts, come
//! while it runs, or go. What the plane cannot do for a VLAN as Linux does it, Linux does. (The
//! network of `tagged.rs`.)

use std::collections::BTreeSet;
use std::time::Duration;

use lab::{Capture, Host, difference, inside, wait_for};

use super::tagged::{Tagged, address, vlan};
use crate::network::ports;

const TAGS: [u16; 2] = [10, 20];
/// A tag, and the one inside it.
const OUTER: u16 = 300;
const INNER: u16 = 7;
/// The number in addresses of what has both.
const BOTH: u16 = 37;
/// Requests to each address.
const REQUESTS: u64 = 50;

/// Asks for all addresses on the right in these VLANs; how many packets the plane took, and how
/// many Linux forwarded.
fn ask(net: &Tagged, tags: &[u16]) -> (u64, u64) {
    let (taken, forwarded) = (net.received(), net.router.host().linux_forwarded().unwrap());
    let right: Vec<String> = tags.iter().flat_map(|tag| Tagged::on_the_right(*tag)).collect();
    net.left.asks(&right, REQUESTS).unwrap();
    (net.received() - taken, net.router.host().linux_forwarded().unwrap() - forwarded)
}

/// Packets that requests and answers in both families come to.
fn packets(tags: &[u16]) -> u64 {
    2 * 2 * REQUESTS * tags.len() as u64
}

/// The plane forwards what goes between hosts in these VLANs.
fn plane_forwards(net: &Tagged, tags: &[u16]) {
    let (taken, forwarded) = ask(net, tags);
    // Linux resolves neighbours, and forwards what it was handed for that.
    let all = taken + forwarded >= packets(tags);
    assert!(all && forwarded < packets(tags) / 10, "{taken} taken, {forwarded} by Linux");
}

fn linux_forwards(net: &Tagged, tags: &[u16]) {
    let (_, forwarded) = ask(net, tags);
    assert!(forwarded >= packets(tags), "Linux forwarded {forwarded}");
}

/// Why Linux has an interface to itself, as `show interfaces` says; none where the plane forwards
/// by it.
fn why(net: &Tagged, name: &str) -> Option<String> {
    let shown = net.router.subject("interfaces").unwrap();
    let is = |interface: &&serde_json::Value| interface["name"] == name;
    let interface = shown.as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("no {name}: {shown}"));
    let why = interface["why"].as_str().unwrap().to_owned();
    assert_eq!(interface["adopted"], why.is_empty(), "{interface}");
    Some(why).filter(|why| !why.is_empty())
}

/// Packets that came in and left by interfaces, as `show interfaces` says.
fn passed<const N: usize>(net: &Tagged, names: [&str; N]) -> [[u64; 2]; N] {
    let shown = net.router.subject("interfaces").unwrap();
    names.map(|name| {
        let interface = shown.as_array().unwrap().iter().find(|interface| interface["name"] == name).unwrap();
        ["received", "sent"].map(|direction| interface[direction]["packets"].as_u64().unwrap())
    })
}

/// What goes between hosts in the first of two VLANs is counted for its interfaces, and not for the
/// other's.
fn are_counted(net: &Tagged, tags: [u16; 2]) {
    let [first, other] = tags.map(|tag| [format!("left.{tag}"), format!("right.{tag}")]);
    let names = [&first[0], &first[1], &other[0], &other[1]].map(String::as_str);
    let before = passed(net, names);
    plane_forwards(net, &tags[..1]);
    let after = passed(net, names);
    let more: Vec<u64> = (0..4).flat_map(|n| (0..2).map(move |way| after[n][way] - before[n][way])).collect();
    // Neighbours are resolved besides.
    let half = packets(&tags[..1]) / 2;
    let few = half / 5;
    assert!(more[..4].iter().all(|more| (half - few..half + few).contains(more)), "{names:?} {more:?}");
    assert!(more[4..].iter().all(|more| *more < few), "{names:?} {more:?}");
}

fn becomes_ours(net: &Tagged, names: &[&str]) {
    wait_for("interfaces are adopted", Duration::from_secs(10), || {
        match names.iter().find_map(|name| why(net, name)) {
            None => Ok(()),
            Some(why) => Err(why),
        }
    })
    .unwrap();
}

/// Makes the same VLAN on each host, inside another one.
fn add_inner(net: &Tagged) {
    for (host, port, side, last) in ends(net) {
        host.run(&format!(
            "ip link add link {port} name {port}.{OUTER} type vlan id {OUTER} && ip link set {port}.{OUTER} up
             ip link add link {port}.{OUTER} name {port}.{BOTH} type vlan id {INNER} && ip link set {port}.{BOTH} up"
        ))
        .unwrap();
        address(host, &format!("{port}.{BOTH}"), BOTH, side, last);
    }
    net.add_routes(BOTH);
}

/// Hosts with their port, and the last parts of their addresses.
fn ends(net: &Tagged) -> [(&Host, &'static str, u16, u16); 4] {
    let router = net.router.host();
    [(&net.left, "eth0", 1, 2), (router, "left", 1, 1), (router, "right", 2, 1), (&net.right, "eth0", 2, 2)]
}

fn forwarded() {
    let config = ports("express", &["left"]) + "[[port]]\nname = \"right\"\nlane = \"worker\"\n";
    let mut net = Tagged::stopped("tagged", &config, &TAGS);
    net.router.restart().unwrap();
    becomes_ours(&net, &["left.10", "right.10", "left.20", "right.20"]);
    TAGS.iter().for_each(|tag| net.reachable(*tag));
    plane_forwards(&net, &TAGS);
    are_counted(&net, [10, 20]);
    are_counted(&net, [20, 10]);
    let neighbours = net.router.subject("neighbours").unwrap().to_string();
    assert!(neighbours.contains("10.10.2.2") && neighbours.contains("2001:db8:20:1::2"), "{neighbours}");
    for (from, port) in [("10.10.1.2", "left.10"), ("10.20.1.2", "left.20")] {
        let to = from.replace(".1.2", ".2.2");
        let explained = net.router.ask(&format!("explain '{from} > {to} udp 5:6 in {port}'")).unwrap();
        assert!(explained.contains("ttl 64 to 63") && explained.contains("express"), "{explained}");
    }

    // One inside another, while it runs.
    add_inner(&net);
    becomes_ours(&net, &["left.37", "right.37"]);
    net.reachable(BOTH);
    plane_forwards(&net, &[BOTH]);

    // As long as the MTU allows, and longer: the router's answer comes back by the VLAN.
    net.left.run("ping -q -c 3 -W 5 -M do -s 1472 10.10.2.2").unwrap();
    net.router.host().run("ip link set right.10 mtu 1400").unwrap();
    wait_for("a path MTU", Duration::from_secs(10), || {
        match net
            .left
            .run("ping -q -c 1 -W 2 -M do -s 1472 10.10.2.2 >/dev/null || true; ip route get 10.10.2.2")
            .unwrap()
        {
            said if said.contains("mtu 1400") => Ok(()),
            said => Err(said),
        }
    })
    .unwrap();
    net.router.host().run("ip link set right.10 mtu 1500").unwrap();
    let way = net.left.run("traceroute -n -q 1 -w 5 10.20.2.2").unwrap();
    assert!(way.contains("10.20.1.1") && way.contains("10.20.2.2"), "{way}");

    // From one VLAN into another.
    let [other, _] = Tagged::on_the_right(20);
    net.left.run(&format!("ip route add {other}/32 via 10.10.1.1 && ping -q -c 3 -W 5 {other}")).unwrap();
    net.left.run(&format!("ip route del {other}/32")).unwrap();

    // Gone, and back: the other ones do not notice.
    net.router.host().run("ip link del left.10").unwrap();
    plane_forwards(&net, &[20, BOTH]);
    vlan(net.router.host(), "left", 10);
    address(net.router.host(), "left.10", 10, 1, 1);
    becomes_ours(&net, &["left.10"]);
    let [[received, sent]] = passed(&net, ["left.10"]);
    assert!(received.max(sent) < REQUESTS, "one that was made anew has {received}, {sent}");
    net.reachable(10);
    are_counted(&net, [10, 20]);
    net.router
        .host()
        .run("ip link set left.20 down; ip link set left.20 name uplink; ip link set uplink up")
        .unwrap();
    net.router.host().run("ip address add 2001:db8:20:1::1/64 dev uplink nodad").unwrap();
    becomes_ours(&net, &["uplink"]);
    net.reachable(20);
    plane_forwards(&net, &[20]);
}

/// Python that makes frames of the left host's with all priorities in tags, and types of service.
const FRAMES: &str = "
frames = []
tags = lambda n, p: Dot1Q(vlan=300, prio=p) / Dot1Q(vlan=7, prio=7 - p) if n == 37 else Dot1Q(vlan=n, prio=p)
for n in (10, 20, 37):
    for tos in (0, 8, 0x10, 0x18, 0x28, 0x48, 0xb8, 0xe0, 3):
        for p in (0, 3, 7):
            last = UDP(sport=len(frames), dport=9) / b'priority'
            frames.append(Ether(dst=gateway) / tags(n, p) / IP(src=f'10.{n}.1.2', dst=f'10.{n}.2.2', tos=tos, id=len(frames)) / last)
            frames.append(Ether(dst=gateway) / tags(n, p) / IPv6(src=f'2001:db8:{n}:1::2', dst=f'2001:db8:{n}:2::2', tc=tos) / last)
wrpcap(file, frames)";

/// Tags say of priorities what Linux has them say, by its maps.
fn with_priorities() {
    let mut net = Tagged::stopped("tagged", &ports("express", &["left", "right"]), &TAGS);
    add_inner(&net);
    let host = net.router.host();
    host.run(
        "ip link set right.10 type vlan egress-qos-map 0:6 2:1 4:5 6:3
         ip link set right.300 type vlan egress-qos-map 0:2 4:7
         ip link set right.37 type vlan egress-qos-map 2:4
         ip link set left.10 type vlan ingress-qos-map 3:0",
    )
    .unwrap();
    let file = net.left.folder().join("priorities.pcap");
    let gateway = host.mac("left").unwrap();
    net.left.scapy(&format!("gateway, file = '{gateway}', '{}'\n{FRAMES}", file.display())).unwrap();
    let sender: Vec<u8> =
        host.mac("right").unwrap().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let leaves = |net: &Tagged| {
        let mut capture = Capture::start(&net.right, "eth0", "greater 20").unwrap();
        net.left.replay(&file, "eth0").unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let mut frames = capture.frames().unwrap();
        // Not what the right host answers.
        frames.retain(|frame| frame.ends_with(b"priority") && frame[6..12] == sender);
        frames.sort();
        frames
    };
    [10, 20, BOTH].iter().for_each(|tag| net.reachable(*tag));
    let by_linux = leaves(&net);
    let said: BTreeSet<u8> = by_linux.iter().map(|frame| frame[14] >> 5).collect();
    assert_eq!((by_linux.len(), said), (162, BTreeSet::from([0, 1, 2, 3, 5, 6, 7])));
    for lane in ["express", "worker"] {
        net.router.configure(&ports(lane, &["left", "right"])).unwrap();
        net.router.restart().unwrap();
        becomes_ours(&net, &["left.10", "right.10", "left.20", "right.20", "left.37", "right.37"]);
        [10, 20, BOTH].iter().for_each(|tag| net.reachable(*tag));
        let forwarded = net.router.host().linux_forwarded().unwrap();
        let by_plane = leaves(&net);
        assert_eq!(difference(&by_linux, &by_plane), None, "{lane}");
        let forwarded = net.router.host().linux_forwarded().unwrap() - forwarded;
        assert!(forwarded < 10, "Linux forwarded {forwarded} of {}", by_plane.len());
    }

    // A priority that IPv6 keeps from its tag, and that other tags tell apart, only Linux knows.
    let host = net.router.host();
    let is_linuxs = |what: &str| {
        wait_for(what, Duration::from_secs(10), || match why(&net, "left.20") {
            Some(why) if why.starts_with("right.10 tells apart") => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .unwrap();
    };
    host.run("ip link set left.20 type vlan ingress-qos-map 3:2").unwrap();
    is_linuxs("priorities are Linux's");
    linux_forwards(&net, &[20]);
    assert_eq!(why(&net, "left"), None);
    plane_forwards(&net, &[10]);
    host.run("ip link set left.20 type vlan ingress-qos-map 3:0").unwrap();
    becomes_ours(&net, &["left.20"]);
    // That of another VLAN changes what becomes of this one.
    host.run("ip link set right.10 type vlan egress-qos-map 0:0 2:0 4:0 6:0; ip link set right.37 type vlan egress-qos-map 2:0").unwrap();
    host.run("ip link set left.20 type vlan ingress-qos-map 3:6; ip link set right.300 type vlan egress-qos-map 0:0").unwrap();
    becomes_ours(&net, &["left.20"]);
    host.run("ip link set right.10 type vlan egress-qos-map 6:1").unwrap();
    is_linuxs("a priority is told apart");
    host.run("ip link set right.10 type vlan egress-qos-map 6:0").unwrap();
    becomes_ours(&net, &["left.20"]);
    plane_forwards(&net, &[10, 20]);
}

/// A VLAN joins a VRF, and leaves it again.
fn in_a_vrf() {
    let mut net = Tagged::stopped("tagged", &ports("express", &["left", "right"]), &TAGS);
    net.put_into_vrf(20, "blue", 1020);
    net.router.restart().unwrap();
    TAGS.iter().for_each(|tag| net.reachable(*tag));
    becomes_ours(&net, &["left.20", "right.20"]);
    plane_forwards(&net, &TAGS);

    // What is in a VRF stays apart from the rest.
    let [other, _] = Tagged::on_the_right(20);
    let by_the_other = format!("ip route add {other}/32 via 10.10.1.1 && ping -q -c 2 -W 5 {other}");
    assert!(net.left.run(&by_the_other).is_err(), "a VRF is reached from outside of it");
    net.left.run(&format!("ip route del {other}/32")).unwrap();
    net.router.host().run("ip link set left.20 nomaster; ip link set right.20 nomaster").unwrap();
    let six = |side, last| format!("ip address replace 2001:db8:20:{side}::1/64 dev {last}.20 nodad");
    net.router.host().run(&format!("{}; {}", six(1, "left"), six(2, "right"))).unwrap();
    TAGS.iter().for_each(|tag| net.reachable(*tag));
    plane_forwards(&net, &TAGS);
    net.left.run(&by_the_other).unwrap();
}

mod with_one_tag_and_two {
    use super::*;

    #[test]
    fn on_6_12() {
        inside!("6.12", forwarded);
    }

    #[test]
    #[ignore = "as on 6.12, and minutes more: make test ONLY='on_the_newest -- --include-ignored'"]
    fn on_the_newest() {
        inside!("newest", forwarded);
    }
}

#[test]
fn by_the_table_of_their_vrf() {
    inside!("6.12", in_a_vrf);
}

#[test]
fn with_the_priorities_of_linux() {
    inside!("6.12", with_priorities);
}
