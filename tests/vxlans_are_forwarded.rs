//! VXLANs of Linux's with addresses are made and opened by the plane: the same frames leave with
//! the same bytes as by Linux, in both lanes, but for what each sender chooses. A VXLAN has several
//! ends, of which each host is behind one, as Linux learns or is told; hosts move, ends come and go
//! while packets pass. The router's own rules hold for what is inside and for the packets around
//! it. What the plane does not do, Linux does.
//!
//! ```text
//!   left ---------------------- router ============ far      behind it: 10.9.N.0/24, 2001:db8:9N::/48
//!   10.1.0.2  10.1.0.1   10.2.0.1  one two three  10.2.0.2   hosts in VXLAN N: 172.16.N.0/24
//!                  2001:db8:2::1   four        2001:db8:2::2
//!                        10.3.0.1 ============ other         behind it: 10.9.14.0/24
//!                                 four        10.3.0.2
//! ```

use std::time::Duration;

use lab::{Capture, Host, Lab, Router, difference, wait_for};
use serde_json::Value;

use crate::network::{LANES, Turn, ports, turn};

const PATIENCE: Duration = Duration::from_secs(15);

/// Name, options, and whether it is over IPv6. The last has two other ends.
const VXLANS: [(&str, &str, bool); 4] = [
    ("one", "dstport 4789 dev DEV", false),
    ("two", "dstport 8472 nolearning noudpcsum ttl 77 tos inherit df inherit", false),
    ("three", "dstport 4789 ttl inherit tos 0xb8 flowlabel 0x12345 noudp6zerocsumtx", true),
    ("four", "dstport 4789 nolearning df set srcport 5000 5100", false),
];
const NAMES: [&str; 4] = ["one", "two", "three", "four"];

/// Fields go in the order they are dropped.
struct Vxlans {
    router: Router,
    left: Host,
    far: Host,
    other: Host,
    lab: Lab,
    _turn: Turn,
}

/// One of the VXLANs at a host with this address in it, on this interface, without other ends.
fn add(host: &Host, number: usize, last: u8, on: &str) {
    let (name, options, six) = VXLANS[number - 1];
    let local = match (on, six) {
        (_, true) => format!("2001:db8:2::{last}"),
        // `other` has another link.
        _ if last == 3 => "10.3.0.2".to_owned(),
        _ => format!("10.2.0.{last}"),
    };
    let options = options.replace("DEV", on);
    host.run(&format!(
        "ip link add {name} type vxlan id {number} local {local} {options}
         ip link set {name} up
         ip address add 172.16.{number}.{last}/24 dev {name}
         ip address add 2001:db8:a{number}::{last}/64 dev {name} nodad"
    ))
    .unwrap();
}

/// All that is for nobody known is sent to this end.
fn lead(host: &Host, number: usize, end: &str) {
    let (name, options, _) = VXLANS[number - 1];
    let on = if options.contains("DEV") {
        if host.name() == "router" { " via right" } else { " via eth0" }
    } else {
        ""
    };
    host.run(&format!("bridge fdb append 00:00:00:00:00:00 dev {name} dst {end}{on}")).unwrap();
}

impl Vxlans {
    fn stopped(lane: &str) -> Vxlans {
        let turn = turn();
        let lab = Lab::new(&format!("vxlan-{lane}")).unwrap();
        let host = |name| lab.host(name).unwrap();
        let (left, router, far, other) =
            (host("left"), lab.router("router").unwrap(), host("far"), host("other"));
        lab.link(
            left.end("eth0").address("10.1.0.2/24").address("2001:db8:1::2/64"),
            router.end("left").address("10.1.0.1/24").address("2001:db8:1::1/64"),
        )
        .unwrap();
        lab.link(
            router.end("right").address("10.2.0.1/24").address("2001:db8:2::1/64"),
            far.end("eth0").address("10.2.0.2/24").address("2001:db8:2::2/64"),
        )
        .unwrap();
        lab.link(router.end("third").address("10.3.0.1/24"), other.end("eth0").address("10.3.0.2/24"))
            .unwrap();
        left.run("ip route add default via 10.1.0.1; ip -6 route add default via 2001:db8:1::1").unwrap();
        other.run("ip route add default via 10.3.0.1").unwrap();
        far.run("ip route add 10.3.0.0/24 via 10.2.0.1").unwrap();
        for number in 1..=VXLANS.len() {
            add(&router, number, 1, "right");
            add(&far, number, 2, "eth0");
            router
                .run(&format!(
                    "ip route add 10.9.{number}.0/24 via 172.16.{number}.2; ip route add 2001:db8:9{number}::/48 via 2001:db8:a{number}::2"
                ))
                .unwrap();
            far.run(&format!(
                "ip address add 10.9.{number}.1/32 dev lo; ip address add 2001:db8:9{number}::1/128 dev lo nodad
                 ip route add blackhole 10.9.{number}.77; ip route add blackhole 2001:db8:9{number}::77
                 ip route add 10.1.0.0/24 via 172.16.{number}.1 table {number}; ip -6 route add 2001:db8:1::/64 via 2001:db8:a{number}::1 table {number}
                 ip rule add from 10.9.{number}.1 table {number}; ip -6 rule add from 2001:db8:9{number}::1 table {number}"
            ))
            .unwrap();
        }
        for (number, six) in [(1, false), (2, false), (3, true)] {
            let [own, end] =
                [1, 2].map(|last| if six { format!("2001:db8:2::{last}") } else { format!("10.2.0.{last}") });
            lead(&router, number, &end);
            lead(&far, number, &own);
        }
        // The last one is told where hosts are, as whoever controls a network does.
        add(&other, 4, 3, "eth0");
        other
            .run("ip address add 10.9.14.1/32 dev lo; ip route add 10.1.0.0/24 via 172.16.4.1 table 4; ip rule add from 10.9.14.1 table 4")
            .unwrap();
        router.run("ip route add 10.9.14.0/24 via 172.16.4.3").unwrap();
        let net = [(&router, "10.2.0.1"), (&far, "10.2.0.2"), (&other, "10.3.0.2")];
        for (at, _) in net {
            for (whose, end) in net.iter().filter(|(whose, _)| whose.name() != at.name()) {
                let mac = whose.mac("four").unwrap();
                at.run(&format!("bridge fdb append 00:00:00:00:00:00 dev four dst {end}; bridge fdb append {mac} dev four dst {end}"))
                    .unwrap();
            }
        }
        let left_mac = left.mac("eth0").unwrap();
        for address in ["10.1.0.77", "2001:db8:1::77"] {
            router
                .run(&format!("ip neigh replace {address} lladdr {left_mac} nud permanent dev left"))
                .unwrap();
        }
        let router = Router::stopped(&router, &ports(lane, &["left", "right", "third"])).unwrap();
        Vxlans { router, left, far, other, lab, _turn: turn }
    }

    /// What `show interfaces` says of an interface.
    fn shown(&self, name: &str) -> Value {
        let shown = self.router.subject("interfaces").unwrap();
        let is = |interface: &&Value| interface["name"] == name;
        shown.as_array().unwrap().iter().find(is).cloned().unwrap_or_default()
    }

    fn are(&self, names: &[&str], adopted: bool) {
        wait_for(if adopted { "VXLANs are adopted" } else { "VXLANs are Linux's" }, PATIENCE, || match names
            .iter()
            .map(|name| self.shown(name))
            .find(|shown| shown["adopted"] != adopted)
        {
            None => Ok(()),
            Some(shown) => Err(format!("{shown}\n{}", self.router.log())),
        })
        .unwrap();
    }

    fn says(&self, name: &str, why: &str) {
        wait_for("a reason", PATIENCE, || match self.shown(name)["why"].as_str() {
            Some(said) if said.contains(why) => Ok(()),
            said => Err(format!("{name}: {said:?} is not {why}")),
        })
        .unwrap();
    }

    /// Each address behind the VXLANs answers.
    fn reachable(&self) {
        for number in 1..=VXLANS.len() {
            for address in [format!("10.9.{number}.1"), format!("2001:db8:9{number}::1")] {
                let reached = self.left.reaches(&address, PATIENCE);
                reached.unwrap_or_else(|e| panic!("{address}: {e}\n{}", self.router.log()));
            }
        }
        self.left.reaches("10.9.14.1", PATIENCE).unwrap();
    }

    /// What Linux and the plane know, for messages.
    fn state(&self) -> String {
        let linux = self.router.host().run("ip neigh; ip -6 neigh; bridge fdb show | grep dst").unwrap();
        let asked =
            ["show tunnels", "show drops", "show ports"].map(|subject| self.router.ask(subject).unwrap());
        format!("{linux}\n{}\n{}", asked.join("\n"), self.router.log())
    }

    /// Workers forward what is asked and answered, so many times.
    fn passes_by_workers(&self, address: &str, count: u64) {
        let before = self.router.host().linux_forwarded().unwrap();
        let said = self.left.run(&format!("ping -q -c {count} -i 0.02 -W 5 {address}"));
        let said = said.unwrap_or_else(|e| panic!("{e}\n{}", self.state()));
        assert!(said.contains(" 0% packet loss"), "{address}: {said}\n{}", self.state());
        let by_linux = self.router.host().linux_forwarded().unwrap() - before;
        assert!(by_linux < count / 4, "{address}: Linux forwarded {by_linux} of {count}");
    }

    /// What the frames in a host's file lead to at another host's door, without what each sender
    /// chooses, in order.
    fn passes(&self, from: &Host, to: &Host, filter: &str) -> Vec<Vec<u8>> {
        let mut capture = Capture::start(to, "eth0", filter).unwrap();
        from.replay(&from.folder().join("frames.pcap"), "eth0").unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let mut frames = capture.frames().unwrap();
        frames.iter_mut().for_each(|frame| without_choices(frame));
        frames.retain(|frame| !is_discovery(frame));
        frames.sort();
        frames
    }

    /// Makes the frames of both hosts.
    fn prepare(&self) {
        let host = self.router.host();
        let own = NAMES.map(|name| format!("{:?}", host.mac(name).unwrap())).join(", ");
        let theirs = NAMES.map(|name| format!("{:?}", self.far.mac(name).unwrap())).join(", ");
        for (of, by, script) in [(&self.left, "left", OUT), (&self.far, "right", IN)] {
            let (gateway, file) = (host.mac(by).unwrap(), of.folder().join("frames.pcap"));
            of.scapy(&format!(
                "own, theirs = ['', {own}], ['', {theirs}]\ngateway, file = '{gateway}', '{}'\n{script}",
                file.display()
            ))
            .unwrap();
        }
    }

    /// What leaves by VXLANs, and what came in by them.
    fn both_ways(&self) -> [Vec<Vec<u8>>; 2] {
        let by_vxlan = "(src 10.2.0.1 or src 2001:db8:2::1) and udp and (dst port 4789 or dst port 8472)";
        let out = self.passes(&self.left, &self.far, &format!("{by_vxlan} or ip[6:2] & 0x3fff != 0"));
        let opened = self.passes(&self.far, &self.left, "dst 10.1.0.77 or dst 2001:db8:1::77");
        [out, opened]
    }
}

/// Whether neighbours look for each other in a VXLAN.
fn is_discovery(frame: &[u8]) -> bool {
    let inner = if frame[12..14] == [8, 0] { 34 + 16 } else { 54 + 16 };
    match frame.get(inner + 12..inner + 14) {
        Some([8, 6]) => true,
        Some([0x86, 0xdd]) => frame.get(inner + 20) == Some(&58),
        _ => false,
    }
}

/// Identifications, source ports, and the checksums over them: that one is there stays.
fn without_choices(frame: &mut [u8]) {
    let udp = match frame[12..14] {
        [8, 0] if frame[23] == 17 && frame[26..30] == [10, 2, 0, 1] => {
            frame[18..20].fill(0);
            frame[24..26].fill(0);
            34
        }
        [0x86, 0xdd] if frame[20] == 17 && frame[22..24] == [0x20, 1] => 54,
        _ => return,
    };
    let is_later_piece =
        udp == 34 && frame[20..22] != [0, 0] && frame[20..22] != [0x40, 0] && frame[20..22] != [0x20, 0];
    if is_later_piece || frame.len() < udp + 8 {
        return;
    }
    let port = u16::from_be_bytes([frame[udp + 2], frame[udp + 3]]);
    if port == 4789 || port == 8472 {
        let source = u16::from_be_bytes([frame[udp], frame[udp + 1]]);
        let given = (5000..5100).contains(&source);
        frame[udp..udp + 2].copy_from_slice(&[u8::from(given), u8::from(source >= 32_768)]);
        let has_sum = frame[udp + 6..udp + 8] != [0, 0];
        frame[udp + 6..udp + 8].copy_from_slice(&[0, has_sum.into()]);
    }
}

/// Python that makes, for the left, what leaves by VXLANs: all fields that a header takes from what
/// is in it, short and long, too long, and with little time to live.
const OUT: &str = "
frames = []
def add(packet): frames.append(Ether(dst=gateway) / packet)
for n in (1, 2, 3, 4):
    for tos in (0, 0xb8, 1, 2, 3, 0xbb):
        for ttl in (1, 2, 255):
            for flags in (0, 'DF'):
                for size in (0, 1001, 1401, 1423):
                    add(IP(src='10.1.0.2', dst=f'10.9.{n}.77', tos=tos, ttl=ttl, flags=flags, id=len(frames)) / UDP(sport=len(frames), dport=9) / bytes(size))
    for tc in (0, 0xb9, 2, 3):
        for hlim in (1, 2, 255):
            for size in (0, 1000, 1381, 1403):
                add(IPv6(src='2001:db8:1::2', dst=f'2001:db8:9{n}::77', tc=tc, hlim=hlim, fl=5) / UDP(sport=len(frames), dport=9) / bytes(size))
    add(IPv6(src='2001:db8:1::2', dst=f'2001:db8:9{n}::77', nh=0) / Raw(bytes([17, 0, 1, 4, 0, 0, 0, 0])) / UDP(sport=7, dport=9, chksum=7) / bytes(64))
wrpcap(file, frames)";

/// The same from the far end, of what comes in by VXLANs, rightly or not.
const IN: &str = "
frames = []
four = lambda n=1, **fields: IP(src=f'10.9.{n}.1', dst='10.1.0.77', id=len(frames), **fields) / UDP(sport=len(frames), dport=9) / b'four'
six = lambda n=1, **fields: IPv6(src=f'2001:db8:9{n}::1', dst='2001:db8:1::77', **fields) / UDP(sport=len(frames), dport=9) / b'six'
def add(n, packet, flags=0x08, reserved=0, vni=None, port=None, sum=None, src=None, dst=None, tos=0, cut=None, behind=b'', kind=None):
    frame = Ether(src=src or theirs[n], dst=dst or own[n]) / packet
    if kind: frame.type = kind
    inner = (bytes([flags, 0, 0, 0]) + struct.pack('!I', (n if vni is None else vni) << 8 | reserved) + bytes(frame) + behind)[:cut]
    udp = UDP(sport=40000 + len(frames), dport=port or (8472 if n == 2 else 4789)) / inner
    if sum is not None: udp.chksum = sum
    outer = IPv6(src='2001:db8:2::2', dst='2001:db8:2::1', tc=tos) if n == 3 else IP(src='10.2.0.2', dst='10.2.0.1', tos=tos, id=len(frames))
    frames.append(Ether(dst=gateway) / outer / udp)
for n in (1, 2, 3, 4):
    for outer in range(4):
        for inner in range(4):
            for ttl in (1, 2, 64):
                add(n, four(n, tos=0xb8 | inner, ttl=ttl), tos=outer)
                add(n, six(n, tc=inner, hlim=ttl), tos=outer)
    add(n, four(n), sum=0)
    add(n, four(n), sum=0x1234)
    add(n, four(n), flags=0)
    add(n, four(n), flags=0x88)
    add(n, four(n), reserved=1)
    add(n, four(n), vni=9)
    add(n, four(n), port=4790)
    add(n, four(n), src=own[n])
    add(n, four(n), dst='02:00:00:00:00:77')
    add(n, four(n), kind=0x86dd)
    add(n, six(n), kind=0x0800)
    add(n, four(n), behind=bytes(20))
    add(n, Dot1Q(vlan=5) / four(n))
    add(n, ARP(op=2, psrc='172.16.1.9', hwsrc=theirs[n]))
    for cut in (0, 1, 7, 8, 10, 21, 22, 30, 41, 44):
        add(n, four(n), cut=cut)
for piece in fragment(IP(src='10.2.0.2', dst='10.2.0.1', id=7) / UDP(sport=9, dport=4789, chksum=0) / (bytes([8, 0, 0, 0, 0, 0, 1, 0]) + bytes(Ether(src=theirs[1], dst=own[1]) / four() / bytes(600))), 304):
    frames.append(Ether(dst=gateway) / piece)
wrpcap(file, frames)";

fn forwarded(lane: &str) {
    let mut net = Vxlans::stopped(lane);
    net.reachable();
    net.prepare();
    let linux = net.both_ways();
    assert!(linux[0].len() > 400 && linux[1].len() > 200, "{} {}", linux[0].len(), linux[1].len());
    net.router.restart().unwrap();
    net.are(&NAMES, true);
    net.reachable();
    let before = net.router.host().linux_forwarded().unwrap();
    let plane = net.both_ways();
    let by_linux = net.router.host().linux_forwarded().unwrap() - before;
    for (way, (linux, plane)) in ["out", "in"].iter().zip(linux.iter().zip(&plane)) {
        assert_eq!(difference(linux, plane), None, "{way}\n{}", net.router.log());
    }
    // What is not right, or too long.
    assert!(by_linux < 200, "Linux forwarded {by_linux}");
    for address in
        ["10.9.1.1", "10.9.2.1", "10.9.3.1", "10.9.4.1", "10.9.14.1", "2001:db8:91::1", "2001:db8:93::1"]
    {
        net.passes_by_workers(address, 100);
    }
    // The router itself, and what it answers for others.
    for address in ["172.16.1.1", "172.16.2.1", "172.16.4.1", "2001:db8:a1::1", "2001:db8:a3::1"] {
        let said = net.far.run(&format!("ping -q -c 5 -i 0.02 -W 5 {address}")).unwrap();
        assert!(said.contains(" 0% packet loss"), "{address}: {said}\n{}", net.router.log());
    }
    let way = net.far.run("traceroute -n -q 1 -w 5 -s 10.9.1.1 10.1.0.2; traceroute -n -q 1 -w 5 -s 2001:db8:93::1 2001:db8:1::2").unwrap();
    assert!(
        ["172.16.1.1", "10.1.0.2", "2001:db8:a3::1", "2001:db8:1::2"].iter().all(|hop| way.contains(hop)),
        "{way}"
    );
    let shown = net.router.subject("tunnels").unwrap();
    let of = |name: &str| {
        let all = shown.as_array().unwrap().iter().filter(|shown| shown["name"] == name);
        all.cloned().collect::<Vec<_>>()
    };
    let (two, four) = (&of("two")[0], of("four"));
    assert_eq!((&two["vni"], &two["port"], &two["header"]), (&2.into(), &8472.into(), &50.into()), "{two}");
    assert_eq!(
        four.iter().map(|one| &one["remote"]).collect::<Vec<_>>(),
        ["10.2.0.2", "10.3.0.2"],
        "{four:?}"
    );
    assert_eq!(four.iter().map(|one| &one["by"][0]).collect::<Vec<_>>(), ["right", "third"], "{four:?}");
    assert!(four.iter().all(|one| one["sent"]["packets"].as_u64() > Some(50)), "{four:?}");
}

#[test]
fn with_the_bytes_of_linux_in_the_driver() {
    forwarded(LANES[0]);
}

#[test]
fn with_the_bytes_of_linux_by_workers() {
    forwarded(LANES[1]);
}

#[test]
fn while_hosts_move_and_ends_come_and_go() {
    let mut net = Vxlans::stopped("express");
    net.router.restart().unwrap();
    net.are(&NAMES, true);
    net.reachable();
    let host = net.router.host();
    let pinged = |address: &str, count: u32| {
        let said = net.left.run(&format!("ping -q -c {count} -i 0.02 -W 5 {address}")).unwrap();
        assert!(said.contains(" 0% packet loss"), "{address}: {said}\n{}", net.router.log());
    };
    // A host that nobody has heard of: Linux learns from its first frame, and has it no more.
    let new = "02:00:00:00:00:99";
    let send = format!(
        "inner = Ether(src='{new}', dst='{}') / IP(src='10.9.1.1', dst='10.1.0.77') / UDP(sport=7, dport=9)
for n in range(200):
    sendp(Ether(dst='{}') / IP(src='10.2.0.2', dst='10.2.0.1') / UDP(sport=50000, dport=4789) / VXLAN(vni=1, flags=8) / inner, iface='eth0', verbose=False)",
        host.mac("one").unwrap(),
        host.mac("right").unwrap()
    );
    let before = host.linux_forwarded().unwrap();
    let mut capture = Capture::start(&net.left, "eth0", "dst 10.1.0.77").unwrap();
    net.far.scapy(&send).unwrap();
    capture.has_caught(200, PATIENCE).unwrap();
    capture.stop().unwrap();
    let known = host.run("bridge fdb show dev one").unwrap();
    assert!(known.contains(&format!("{new} dst 10.2.0.2")), "{known}");
    let by_linux = host.linux_forwarded().unwrap() - before;
    assert!((1..150).contains(&by_linux), "Linux forwarded {by_linux} of 200");
    // When it is forgotten, Linux hears it again.
    host.run(&format!("bridge fdb del {new} dev one")).unwrap();
    wait_for("the host is forgotten and learnt again", PATIENCE, || {
        net.far.scapy(&send.replace("range(200)", "range(3)")).unwrap();
        match host.run("bridge fdb show dev one").unwrap() {
            known if known.contains(new) => Ok(()),
            known => Err(known),
        }
    })
    .unwrap();

    // The same host behind another end.
    let (mac, moved) = (net.far.mac("four").unwrap(), net.other.mac("four").unwrap());
    net.passes_by_workers("10.9.4.1", 50);
    let mut capture = Capture::start(&net.other, "eth0", "dst port 4789").unwrap();
    net.other.run(&format!("ip link set four address {mac}")).unwrap();
    host.run(&format!("bridge fdb replace {mac} dev four dst 10.3.0.2")).unwrap();
    let _ = net.left.run("ping -q -c 20 -i 0.02 -W 1 10.9.4.1");
    capture.has_caught(20, PATIENCE).unwrap();
    capture.stop().unwrap();
    net.other.run(&format!("ip link set four address {moved}")).unwrap();
    host.run(&format!("bridge fdb replace {mac} dev four dst 10.2.0.2")).unwrap();
    pinged("10.9.4.1", 20);
    net.passes_by_workers("10.9.4.1", 50);

    // An end that goes takes nothing with it of the other.
    for _ in 0..2 {
        host.run(&format!("bridge fdb del {moved} dev four dst 10.3.0.2; bridge fdb del 00:00:00:00:00:00 dev four dst 10.3.0.2")).unwrap();
        wait_for("one end is left", PATIENCE, || match net.router.ask("show tunnels").unwrap() {
            shown if shown.matches("10.3.0.2").count() == 0 => Ok(()),
            shown => Err(shown),
        })
        .unwrap();
        net.passes_by_workers("10.9.4.1", 50);
        host.run(&format!("bridge fdb append 00:00:00:00:00:00 dev four dst 10.3.0.2; bridge fdb append {moved} dev four dst 10.3.0.2")).unwrap();
        net.left.reaches("10.9.14.1", PATIENCE).unwrap();
        wait_for("both ends are there", PATIENCE, || match net.router.ask("show tunnels").unwrap() {
            shown if shown.matches("10.3.0.2").count() == 1 => Ok(()),
            shown => Err(shown),
        })
        .unwrap();
        net.passes_by_workers("10.9.14.1", 50);
    }

    // Deleted and made anew.
    host.run("ip link del two").unwrap();
    pinged("10.9.1.1", 5);
    add(host, 2, 1, "right");
    lead(host, 2, "10.2.0.2");
    host.run("ip route add 10.9.2.0/24 via 172.16.2.2").unwrap();
    net.left.reaches("10.9.2.1", PATIENCE).unwrap();
    net.are(&NAMES, true);
    net.passes_by_workers("10.9.2.1", 50);

    // The way to an end is by another interface than the one that it is on.
    net.far.run("ip address add 10.4.0.2/32 dev lo").unwrap();
    host.run(
        "ip route add 10.4.0.2/32 via 10.2.0.2; bridge fdb append 02:00:00:00:00:44 dev one dst 10.4.0.2",
    )
    .unwrap();
    net.are(&["one"], true);
    host.run("ip route replace 10.4.0.2/32 via 10.3.0.2").unwrap();
    net.says("one", "by third");
    host.run("bridge fdb del 02:00:00:00:00:44 dev one").unwrap();
    net.are(&["one"], true);

    // The path becomes narrower: somebody on it says so, and the sender hears of it.
    let gateway = host.mac("third").unwrap();
    net.other
        .scapy(&format!(
            "inner = IP(src='10.2.0.1', dst='10.3.0.2', proto=17, flags='DF', len=1490) / UDP(sport=5000, dport=4789, len=1470, chksum=0) / bytes([8, 0, 0, 0, 0, 0, 4, 0])
sendp(Ether(dst='{gateway}') / IP(src='10.3.0.2', dst='10.2.0.1') / ICMP(type=3, code=4, nexthopmtu=1300) / inner, iface='eth0', verbose=False)"
        ))
        .unwrap();
    wait_for("a path MTU", PATIENCE, || match net.router.ask("show tunnels").unwrap() {
        shown if shown.lines().any(|line| line.contains("10.3.0.2") && line.contains(" 1300 ")) => Ok(()),
        shown => Err(shown),
    })
    .unwrap();
    pinged("10.9.14.1", 3);

    // What the plane does not do is Linux's, and why is said.
    for (options, why) in [
        ("external dstport 4999", "external"),
        ("id 9 dstport 4999 local 10.2.0.1", "no other end"),
        ("id 9 dstport 4999 local 10.2.0.1 group 239.1.1.1 dev right", "no other end"),
        ("id 9 dstport 4999 local 10.2.0.1 remote 10.2.0.9 gbp", "gbp"),
        ("id 9 dstport 4999 local 10.2.0.1 remote 10.2.0.9 rsc", "rsc"),
    ] {
        host.run(&format!("ip link add else type vxlan {options} && ip link set else up")).unwrap();
        net.says("else", why);
        host.run("ip link del else").unwrap();
    }
    // One without an address of its own sends from the one that Linux chooses.
    for (options, local) in [
        ("remote 10.2.0.2", "10.2.0.1"),
        ("remote 10.3.0.2", "10.3.0.1"),
        ("remote 2001:db8:2::2 dev right", "2001:db8:2::1"),
    ] {
        host.run(&format!("ip link add else type vxlan id 9 dstport 4999 {options} && ip link set else up"))
            .unwrap();
        net.are(&["else"], true);
        let shown = net.router.subject("tunnels").unwrap();
        let is = |one: &&Value| one["name"] == "else" && one["local"] == local;
        assert_eq!(shown.as_array().unwrap().iter().filter(is).count(), 1, "{shown}");
        host.run("ip link del else").unwrap();
    }
    host.run("ip link add else type vxlan id 9 dstport 4999 local 10.2.0.1 remote 10.2.0.9 && ip link add br0 type bridge && ip link set else master br0 up")
        .unwrap();
    net.says("else", "bond or bridge");
    host.run("ip link del else; ip link del br0").unwrap();
    pinged("10.9.1.1", 3);
}

/// Hosts behind a VXLAN and behind a port are on one bridge, which is routed to both.
#[test]
fn as_members_of_bridges() {
    let mut net = Vxlans::stopped("express");
    let (router, near) = (net.router.host().clone(), net.lab.host("near").unwrap());
    net.lab
        .link(router.end("lan"), near.end("eth0").address("172.16.5.4/24").address("2001:db8:a5::4/64"))
        .unwrap();
    near.run("ip route add default via 172.16.5.1; ip -6 route add default via 2001:db8:a5::1").unwrap();
    router
        .run(
            "ip link add br0 address 02:00:00:00:00:51 type bridge mcast_snooping 0
             ip link add five type vxlan id 5 local 10.2.0.1 remote 10.2.0.2 dstport 4789
             ip link set five master br0; ip link set lan master br0; ip link set five up; ip link set br0 up
             ip address add 172.16.5.1/24 dev br0; ip address add 2001:db8:a5::1/64 dev br0 nodad",
        )
        .unwrap();
    net.far
        .run(
            "ip link add five type vxlan id 5 local 10.2.0.2 remote 10.2.0.1 dstport 4789; ip link set five up
             ip address add 172.16.5.2/24 dev five; ip address add 2001:db8:a5::2/64 dev five nodad
             ip route add 10.1.0.0/24 via 172.16.5.1 table 5; ip rule add from 172.16.5.2 table 5
             ip -6 route add 2001:db8:1::/64 via 2001:db8:a5::1 table 5; ip -6 rule add from 2001:db8:a5::2 table 5",
        )
        .unwrap();
    let all = ["172.16.5.2", "172.16.5.4", "2001:db8:a5::2", "2001:db8:a5::4"];
    for lane in LANES {
        net.router.configure(&ports(lane, &["left", "right", "third", "lan"])).unwrap();
        net.router.restart().unwrap();
        net.are(&["br0"], true);
        for address in all {
            let reached = net.left.reaches(address, PATIENCE);
            reached.unwrap_or_else(|e| panic!("{address}: {e}\n{}", net.router.log()));
        }
        all.iter().for_each(|address| net.passes_by_workers(address, 50));
        // What is bridged is Linux's.
        near.reaches("172.16.5.2", PATIENCE).unwrap();
    }
    let shown = net.router.ask("show tunnels").unwrap();
    let line = shown.lines().find(|line| line.starts_with("br0 ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(line.contains("10.2.0.2") && line.ends_with("Bifrost"), "{line}");
    net.says("five", "bond or bridge");

    // The host behind the VXLAN moves to the port, and back.
    let mac = net.far.mac("five").unwrap();
    net.far.run("ip link set five down").unwrap();
    near.run(&format!(
        "ip address add 172.16.5.2/24 dev eth0; ip link set eth0 address {mac}; ip route add default via 172.16.5.1 || true; ping -q -c 3 -i 0.1 -W 1 172.16.5.1 || true"
    ))
    .unwrap();
    net.left.reaches("172.16.5.2", PATIENCE).unwrap();
    net.passes_by_workers("172.16.5.2", 50);
    near.run("ip address del 172.16.5.2/24 dev eth0; ip link set eth0 address 02:00:00:00:00:54; ping -q -c 3 -i 0.1 -W 1 172.16.5.1 || true").unwrap();
    net.far.run("ip link set five up; ip route add 10.1.0.0/24 via 172.16.5.1 table 5; ping -q -c 3 -i 0.1 -W 1 -I 172.16.5.2 172.16.5.1 || true").unwrap();
    net.left.reaches("172.16.5.2", PATIENCE).unwrap();
    net.passes_by_workers("172.16.5.2", 50);

    // Without the VXLAN, and without the port, the other goes on.
    router.run("ip link set five nomaster").unwrap();
    net.passes_by_workers("172.16.5.4", 50);
    net.are(&["five"], true);
    router.run("ip link set five master br0; ip link set lan nomaster").unwrap();
    net.left.reaches("172.16.5.2", PATIENCE).unwrap();
    net.are(&["br0"], true);
    net.passes_by_workers("172.16.5.2", 50);
    // Linux learns of hosts that it has forgotten.
    let host_of = |router: &Host| router.run("bridge fdb show br br0").unwrap();
    for _ in 0..3 {
        router
            .run(&format!("bridge fdb del {mac} dev five master; bridge fdb del {mac} dev five self || true"))
            .unwrap();
        wait_for("the host is learnt again", PATIENCE, || {
            let _ = net.left.run("ping -q -c 1 -W 2 172.16.5.2");
            match host_of(&router) {
                known if known.contains(&format!("{mac} dev five master br0")) => Ok(()),
                known => Err(known),
            }
        })
        .unwrap();
        net.passes_by_workers("172.16.5.2", 50);
    }
}

#[test]
fn as_the_routers_rules_say() {
    let net = {
        let mut net = Vxlans::stopped("worker");
        net.router.restart().unwrap();
        net
    };
    net.are(&NAMES, true);
    net.reachable();
    let workers = ports("worker", &["left", "right", "third"]);
    let configure = |rules: &str| {
        net.router.configure(&format!("{workers}{rules}")).unwrap();
        net.router.ask("reload").unwrap();
    };
    let stateful = |headers: &str| {
        let input = [
            "accept state established",
            headers,
            "accept in left",
            "accept proto 1,58",
            "accept in one,two,three,four",
        ];
        let input = input.iter().filter(|rule| !rule.is_empty());
        let input: Vec<String> = input.map(|rule| format!("{rule:?}")).collect();
        format!(
            "[filter]\ninput.policy = \"drop\"\ninput.rules = [{}]
             forward.policy = \"drop\"\nforward.rules = [\"accept state established\", \"accept in left\"]\n",
            input.join(", ")
        )
    };
    // A first packet from the other end would not pass: Linux knows which ones are not.
    configure(&stateful(""));
    net.are(&NAMES, false);
    net.says("one", "policy of chain input");
    configure(&stateful("accept udp to any port 4789 from 10.2.0.2,10.3.0.2"));
    net.are(&["two", "three"], false);
    net.are(&["one", "four"], true);
    configure(&stateful("accept udp to any port 4789,8472 from 10.2.0.2,10.3.0.2,2001:db8:2::2"));
    net.are(&NAMES, true);
    net.reachable();
    for address in ["10.9.1.1", "10.9.2.1", "2001:db8:93::1", "10.9.14.1"] {
        net.passes_by_workers(address, 100);
    }
    // Linux forgets where a host is, and learns it again from what it does not forward: it knows
    // nothing of the flow.
    let (host, mac) = (net.router.host(), net.far.mac("one").unwrap());
    let forget = format!("for n in $(seq 20); do bridge fdb del {mac} dev one; sleep 0.05; done");
    std::thread::scope(|scope| {
        let forgets = scope.spawn(|| host.run(&forget));
        let said = net.left.run("ping -q -c 100 -i 0.02 -W 5 10.9.1.1").unwrap();
        assert!(said.contains(" 0% packet loss"), "{said}");
        let _ = forgets.join().unwrap();
    });
    wait_for("the host is learnt again", PATIENCE, || {
        let _ = net.left.run("ping -q -c 1 -W 5 10.9.1.1");
        match host.run("bridge fdb show dev one").unwrap() {
            known if known.contains(&format!("{mac} dst 10.2.0.2")) => Ok(()),
            known => Err(known),
        }
    })
    .unwrap();
    // Nobody behind a VXLAN may begin a flow.
    let from_there = "ping -q -c 2 -W 1 -I 10.9.1.1 10.1.0.2";
    assert!(net.far.run(from_there).is_err(), "what no rule accepts came through");
    // Each flow inside has another source port.
    configure(&stateful("accept udp from any port 1024-65535 to any port 4789,8472"));
    net.are(&NAMES, false);
    net.says("one", "source ports");
    configure("");
    net.are(&NAMES, true);
    // A filter of Linux's for what comes for this machine sees the packets around.
    net.router
        .host()
        .run("nft add table ip own; nft add chain ip own input '{ type filter hook input priority 0; }'; nft add rule ip own input udp dport 4789 drop")
        .unwrap();
    net.are(&["one", "two", "four"], false);
    net.are(&["three"], true);
    assert!(net.left.run("ping -q -c 2 -W 1 10.9.1.1").is_err(), "what a filter drops came through");
    net.router.host().run("nft delete table ip own").unwrap();
    net.are(&NAMES, true);
    net.reachable();
}
