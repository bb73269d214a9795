//! IP tunnels of Linux's (GRE, with and without a key, IPIP and 6in4; GRE and both families over
//! IPv6) are made and opened by the plane: the same frames leave with the same bytes as by Linux,
//! in both lanes, but for identifications and flow labels that each sender chooses. Tunnels come,
//! change and go while packets pass; a path that is narrower than it seems is found; the router's
//! own rules hold for what is in them and for their headers; what the plane does not do, Linux
//! does.
//!
//! ```text
//!   left ---------------------- router ============ far
//!   10.1.0.2  10.1.0.1  10.2.0.1  one two three four  10.2.0.2    behind it: 10.9.N.0/24, 2001:db8:9N::/48
//!               2001:db8:2::1     five six seven      2001:db8:2::2
//! ```

use std::time::Duration;

use lab::{Capture, Host, Lab, Router, difference, inside, wait_for};
use serde_json::Value;

use crate::network::{Turn, turn};

/// Name, options, and which families go by it.
const TUNNELS: [(&str, &str, [bool; 2]); 9] = [
    ("one", "type gre ttl inherit", [true, true]),
    ("two", "type gre key 7 ttl 77 tos inherit", [true, true]),
    ("three", "type ipip tos inherit", [true, false]),
    ("four", "type sit ttl 64", [false, true]),
    ("five", "type ip6tnl mode any hoplimit 0 tclass inherit flowlabel 0x12345", [true, true]),
    ("six", "type ip6gre key 7 hoplimit 77 tclass inherit encaplimit none", [true, true]),
    ("seven", "type ip6tnl mode ipip6 tclass 0xb8", [true, false]),
    ("eight", "type gre key 8 csum ttl inherit", [true, true]),
    ("nine", "type ip6gre key 9 csum hoplimit 0", [true, true]),
];
/// Those over IPv4.
const OVER_IPV4: [&str; 5] = ["one", "two", "three", "four", "eight"];
const OVER_IPV6: [&str; 4] = ["five", "six", "seven", "nine"];
/// The flow label that is set.
const LABEL: u32 = 0x12345;

/// Where a host has its frames.
const FILE: &str = "frames.pcap";

/// Python that makes, for the left, what leaves by tunnels: all fields that a header takes from
/// what is in it, short and long, too long for the tunnel, and with little time to live.
const OUT: &str = "
frames = []
def add(packet): frames.append(Ether(dst=gateway) / packet)
for n in (1, 2, 3):
    for tos in (0, 0xb8, 1, 2, 3, 0xbb):
        for ttl in (1, 2, 255):
            for flags in (0, 'DF'):
                for size in (0, 1000, 1440, 1460):
                    add(IP(src='10.1.0.2', dst=f'10.9.{n}.77', tos=tos, ttl=ttl, flags=flags, id=len(frames)) / UDP(sport=len(frames), dport=9) / bytes(size))
for n in (5, 6, 7, 8, 9):
    for tos in (0, 0xb8, 0xbb):
        for ttl in (1, 2, 255):
            for size in (0, 1000, 1420, 1460):
                add(IP(src='10.1.0.2', dst=f'10.9.{n}.77', tos=tos, ttl=ttl, flags='DF', id=len(frames)) / UDP(sport=len(frames), dport=9) / bytes(size))
for n in (1, 2, 4, 5, 6, 8, 9):
    for tc in (0, 0xb9, 2, 3):
        for hlim in (1, 2, 255):
            for size in (0, 1000, 1400, 1430):
                add(IPv6(src='2001:db8:1::2', dst=f'2001:db8:9{n}::77', tc=tc, hlim=hlim, fl=5) / UDP(sport=len(frames), dport=9) / bytes(size))
for n in (5, 6):
    for nh, front in ((60, [17, 0, 4, 1, 3, 1, 1, 0]), (0, [17, 0, 1, 4, 0, 0, 0, 0]), (44, [17, 0, 0, 1, 0, 0, 0, 9])):
        add(IPv6(src='2001:db8:1::2', dst=f'2001:db8:9{n}::77', fl=5, nh=nh) / Raw(bytes(front)) / UDP(sport=len(frames), dport=9, chksum=7) / bytes(64))
wrpcap(file, frames)";

/// The same from the far end, of what comes in by tunnels, rightly or not.
const IN: &str = "
frames = []
def add(outer, front, packet):
    frames.append(Ether(dst=gateway) / Raw(bytes(IP(src='10.2.0.2', dst='10.2.0.1', id=len(frames), **outer) / Raw(front + bytes(packet)))))
    frames[-1].type = 0x800
four = lambda **fields: IP(src='10.9.1.1', dst='10.1.0.77', id=len(frames), **fields) / UDP(sport=len(frames), dport=9) / b'four'
six = lambda **fields: IPv6(src='2001:db8:91::1', dst='2001:db8:1::77', **fields) / UDP(sport=len(frames), dport=9) / b'six'
key = bytes([0x20, 0, 8, 0, 0, 0, 0, 7])
for outer in range(4):
    for inner in range(4):
        for ttl in (1, 2, 64):
            add(dict(proto=47, tos=outer), b'\\0\\0\\x08\\0', four(tos=0xb8 | inner, ttl=ttl))
            add(dict(proto=47, tos=outer), key, four(tos=inner, ttl=ttl))
            add(dict(proto=4, tos=outer), b'', four(tos=inner, ttl=ttl))
            add(dict(proto=47, tos=outer), b'\\0\\0\\x86\\xdd', six(tc=inner, hlim=ttl))
            add(dict(proto=41, tos=outer), b'', six(tc=0xb8 | inner, hlim=ttl))
add(dict(proto=47), bytes([0x20, 0, 8, 0, 0, 0, 0, 8]), four())
add(dict(proto=47), bytes([0x80, 0, 8, 0, 0, 0, 0, 0]), four())
add(dict(proto=47), bytes([0x10, 0, 8, 0, 0, 0, 0, 1]), four())
add(dict(proto=47), bytes([0, 1, 8, 0]), four())
add(dict(proto=47), bytes([0, 0, 0x86, 0xdd]), four())
add(dict(proto=4), b'', six())
add(dict(proto=41), b'', four())
add(dict(proto=4), b'', IP(src='10.2.0.2', dst='10.2.0.1', proto=4) / four())
for cut in (1, 3, 4, 10, 19, 23, 27):
    for proto, front, packet in ((47, b'\\0\\0\\x08\\0', four()), (47, key, four()), (4, b'', four()), (41, b'', six())):
        add(dict(proto=proto), (front + bytes(packet))[:cut], b'')
def add6(nh, front, packet, tc=0, end=''):
    frames.append(Ether(dst=gateway) / Raw(bytes(IPv6(src=f'2001:db8:2::{end}2', dst='2001:db8:2::1', fl=3, nh=nh, tc=tc) / Raw(front + bytes(packet)))))
    frames[-1].type = 0x86dd
limit = lambda nh: bytes([nh, 0, 4, 1, 2, 1, 1, 0])
for outer in range(4):
    for inner in range(4):
        for ttl in (1, 64):
            add6(4, b'', four(tos=0xb8 | inner, ttl=ttl), outer)
            add6(60, limit(4), four(tos=inner, ttl=ttl), outer)
            add6(41, b'', six(tc=inner, hlim=ttl), outer)
            add6(60, limit(41), six(tc=inner, hlim=ttl), outer)
            add6(47, key, four(tos=inner, ttl=ttl), outer)
            add6(4, b'', four(tos=inner, ttl=ttl), outer, end='1')
            summed = GRE(chksum_present=1, key_present=1, key=9) / four(tos=inner, ttl=ttl)
            add6(60, limit(47), summed, outer)
            add(dict(proto=47, tos=outer), b'', GRE(chksum_present=1, key_present=1, key=8) / six(tc=inner, hlim=ttl))
            add(dict(proto=47, tos=outer), b'', GRE(chksum_present=1, key_present=1, key=8) / four(tos=inner, ttl=ttl))
            add6(60, limit(47) + key[:2] + b'\\x86\\xdd' + key[4:], six(tc=inner, hlim=ttl), outer)
add6(47, bytes([0x20, 0, 8, 0, 0, 0, 0, 8]), four())
add6(47, b'', GRE(chksum_present=1, key_present=1, key=9, chksum=7) / four())
add6(47, b'', GRE(key_present=1, key=9) / four())
add(dict(proto=47), b'', GRE(chksum_present=1, key_present=1, key=8, chksum=7) / four())
add(dict(proto=47), b'', GRE(key_present=1, key=8) / four())
add6(60, bytes([4, 0, 5, 2, 0, 0, 1, 0]), four())
add6(60, bytes([4, 0, 0xc5, 2, 0, 0, 1, 0]), four())
for cut in (1, 7, 8, 10, 19, 27):
    for nh, front, packet in ((4, b'', four()), (60, limit(41), six()), (47, key, four())):
        add6(nh, (front + bytes(packet))[:cut], b'')
for piece in fragment(IP(src='10.2.0.2', dst='10.2.0.1', id=7, proto=4) / four() / bytes(600), 300):
    frames.append(Ether(dst=gateway) / piece)
wrpcap(file, frames)";

/// Fields go in the order they are dropped.
struct Tunnels {
    router: Router,
    left: Host,
    far: Host,
    _lab: Lab,
    _turn: Turn,
}

/// What leaves by tunnels comes in by the driver's lane, what is in tunnels by the workers'.
const CONFIGURATION: &str =
    "[[port]]\nname = \"left\"\nlane = \"express\"\n[[port]]\nname = \"right\"\nlane = \"worker\"\n";

/// One of the tunnels, and what goes by it.
fn add(host: &Host, number: usize, own: u8) {
    let (name, options, [four, six]) = TUNNELS[number - 1];
    let (kind, rest) = options.split_once(' ').unwrap();
    let (kind, rest) = (
        format!("{kind} {}", rest.split(' ').next().unwrap()),
        rest.split_once(' ').map_or("", |(_, rest)| rest),
    );
    let other = 3 - own;
    let [local, remote] = [own, other].map(|end| match kind.starts_with("type ip6") {
        // Over IPv6 there is one tunnel between two ends, whatever is in it.
        true if name == "seven" && end == 2 => "2001:db8:2::12".to_owned(),
        true => format!("2001:db8:2::{end}"),
        false => format!("10.2.0.{end}"),
    });
    let mut script = format!(
        "ip link add {name} {kind} local {local} remote {remote} {rest}
         ip link set {name} up\n"
    );
    if own == 1 && four {
        script += &format!(
            "ip address add 172.16.{number}.1/30 dev {name}; ip route add 10.9.{number}.0/24 dev {name}\n"
        );
    }
    if own == 1 && six {
        script += &format!(
            "ip address add 2001:db8:a{number}::1/64 dev {name} nodad; ip route add 2001:db8:9{number}::/48 dev {name}\n"
        );
    }
    if own == 2 && four {
        script += &format!("ip route add 10.1.0.0/24 dev {name} table {number}\n");
    }
    if own == 2 && six {
        script += &format!("ip route add 2001:db8:1::/64 dev {name} table {number}\n");
    }
    host.run(&script).unwrap();
}

impl Tunnels {
    fn stopped() -> Tunnels {
        let turn = turn();
        let lab = Lab::new("tunnels").unwrap();
        let (left, host, far) =
            (lab.host("left").unwrap(), lab.router("router").unwrap(), lab.host("far").unwrap());
        lab.link(
            left.end("eth0").address("10.1.0.2/24").address("2001:db8:1::2/64"),
            host.end("left").address("10.1.0.1/24").address("2001:db8:1::1/64"),
        )
        .unwrap();
        lab.link(
            host.end("right").address("10.2.0.1/24").address("2001:db8:2::1/64"),
            far.end("eth0").address("10.2.0.2/24").address("2001:db8:2::2/64").address("2001:db8:2::12/64"),
        )
        .unwrap();
        left.run("ip route add default via 10.1.0.1; ip -6 route add default via 2001:db8:1::1").unwrap();
        for number in 1..=TUNNELS.len() {
            add(&host, number, 1);
            add(&far, number, 2);
            far.run(&format!(
                "ip address add 10.9.{number}.1/32 dev lo; ip address add 2001:db8:9{number}::1/128 dev lo nodad
                 ip route add blackhole 10.9.{number}.77; ip route add blackhole 2001:db8:9{number}::77
                 ip rule add from 10.9.{number}.1 table {number}; ip -6 rule add from 2001:db8:9{number}::1 table {number}"
            ))
            .unwrap();
        }
        let left_mac = left.mac("eth0").unwrap();
        for address in ["10.1.0.77", "2001:db8:1::77"] {
            host.run(&format!("ip neigh replace {address} lladdr {left_mac} nud permanent dev left"))
                .unwrap();
        }
        let router = Router::stopped(&host, CONFIGURATION).unwrap();
        Tunnels { router, left, far, _lab: lab, _turn: turn }
    }

    /// What `show interfaces` says of an interface.
    fn shown(&self, name: &str) -> Value {
        let shown = self.router.subject("interfaces").unwrap();
        let is = |interface: &&Value| interface["name"] == name;
        shown.as_array().unwrap().iter().find(is).cloned().unwrap_or_default()
    }

    fn is_adopted(&self, names: &[&str]) {
        self.are("tunnels are adopted", names, true);
    }

    /// Linux has them all.
    fn is_left(&self, names: &[&str]) {
        self.are("tunnels are left to Linux", names, false);
    }

    fn are(&self, what: &str, names: &[&str], adopted: bool) {
        wait_for(what, Duration::from_secs(10), || {
            match names.iter().map(|name| self.shown(name)).find(|shown| shown["adopted"] != adopted) {
                None => Ok(()),
                Some(shown) => Err(format!("{shown}\n{}", self.router.log())),
            }
        })
        .unwrap();
    }

    /// Each address behind the tunnels answers.
    fn reachable(&self) {
        for ((name, _, families), number) in TUNNELS.iter().zip(1..) {
            let addresses = [format!("10.9.{number}.1"), format!("2001:db8:9{number}::1")];
            for (address, _) in addresses.iter().zip(families).filter(|(_, goes)| **goes) {
                let reached = self.left.reaches(address, Duration::from_secs(15));
                reached.unwrap_or_else(|e| panic!("{name}: {e}\n{}", self.router.log()));
            }
        }
    }

    /// What the frames in a host's file lead to at another host's door, without what each sender
    /// chooses, in order.
    fn passes(&self, from: &Host, to: &Host, filter: &str) -> Vec<Vec<u8>> {
        let mut capture = Capture::start(to, "eth0", filter).unwrap();
        from.replay(&from.folder().join(FILE), "eth0").unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let mut frames = capture.frames().unwrap();
        for frame in &mut frames {
            if frame[12..14] == [8, 0] && [4, 41, 47].contains(&frame[23]) {
                frame[18..20].fill(0);
                frame[24..26].fill(0);
            }
            let first = u32::from_be_bytes(frame[14..18].try_into().unwrap());
            let chosen = first & 0xf_ffff != LABEL && first & 0xf_ffff != 0;
            if frame[12..14] == [0x86, 0xdd] && [4, 41, 47, 60].contains(&frame[20]) && chosen {
                frame[14..18].copy_from_slice(&(first & !0xf_ffff | 1).to_be_bytes());
            }
        }
        frames.sort();
        frames
    }

    /// The router's own rules: for what is in tunnels, and for the packets that these are made of.
    fn are_judged(&mut self, names: &[&str]) {
        let workers = CONFIGURATION.replace("express", "worker");
        let configure = |rules: &str| {
            self.router.configure(&format!("{workers}{rules}")).unwrap();
            self.router.ask("reload").unwrap();
        };
        let stateful = |headers: &str| {
            let input = ["accept state established", headers, "accept in left", "accept in right proto 1,58"];
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
        self.is_left(names);
        let why = self.shown("one")["why"].as_str().unwrap_or_default().to_owned();
        assert!(why.contains("come in") && why.contains("policy of chain input"), "{why}");
        self.reachable();
        configure(&stateful("accept proto 4,41,47 from 10.2.0.2"));
        self.is_left(&OVER_IPV6);
        self.is_adopted(&OVER_IPV4);
        configure(&stateful("accept proto 4,41,47 from 10.2.0.2,2001:db8:2::/64"));
        self.is_adopted(names);
        self.reachable();
        self.passes_by_workers("10.9.1.1", 100);
        self.passes_by_workers("2001:db8:96::1", 100);
        self.passes_by_workers("10.9.9.1", 100);
        // Nobody behind a tunnel may begin a flow.
        let from_there = "ping -q -c 2 -W 1 -I 10.9.1.1 10.1.0.2";
        assert!(self.far.run(from_there).is_err(), "what no rule accepts came through");
        // Translated into the address that the router has in the tunnel.
        let masquerade = "[[nat.rule]]\nname = \"by\"\ntype = \"masquerade\"\nout = [\"one\", \"right\"]\n";
        configure(masquerade);
        self.is_adopted(names);
        let host = self.router.host();
        self.far.run("ip route add 172.16.1.0/30 dev one").unwrap();
        let mut capture = Capture::start(&self.far, "one", "icmp and src 172.16.1.1").unwrap();
        self.left.reaches("10.9.1.1", Duration::from_secs(15)).unwrap();
        self.passes_by_workers("10.9.1.1", 100);
        capture.has_caught(100, Duration::from_secs(5)).unwrap();
        capture.stop().unwrap();
        // By another address than their own.
        host.run("ip address add 10.2.0.77/32 dev right").unwrap();
        configure("[[nat.rule]]\nname = \"own\"\ntype = \"source\"\nout = \"right\"\npool = \"10.2.0.77\"\n");
        self.is_left(&OVER_IPV4);
        let why = self.shown("one")["why"].as_str().unwrap_or_default().to_owned();
        assert!(why.contains("leave") && why.contains("[nat]"), "{why}");
        configure("");
        self.is_adopted(names);
        self.reachable();
    }

    /// Workers forward what is asked and answered, so many times.
    fn passes_by_workers(&self, address: &str, count: u64) {
        let before = self.router.host().linux_forwarded().unwrap();
        let said = self.left.run(&format!("ping -q -c {count} -i 0.02 -W 5 {address}")).unwrap();
        assert!(said.contains(" 0% packet loss"), "{address}: {said}");
        let by_linux = self.router.host().linux_forwarded().unwrap() - before;
        assert!(by_linux < count / 4, "Linux forwarded {by_linux} of {count}");
    }

    /// Makes the frames of both hosts.
    fn prepare(&self) {
        for (host, by, script) in [(&self.left, "left", OUT), (&self.far, "right", IN)] {
            let (gateway, file) = (self.router.host().mac(by).unwrap(), host.folder().join(FILE));
            host.scapy(&format!("gateway, file = '{gateway}', '{}'\n{script}", file.display())).unwrap();
        }
    }

    /// What leaves by tunnels, and what came in by them.
    fn both_ways(&self) -> [Vec<Vec<u8>>; 2] {
        let by_tunnels = "(src 10.2.0.1 and (ip proto 4 or ip proto 41 or ip proto 47)) or \
                          (src 2001:db8:2::1 and (ip6[6] == 4 or ip6[6] == 41 or ip6[6] == 47 or ip6[6] == 60))";
        let out = self.passes(&self.left, &self.far, by_tunnels);
        let opened = self.passes(&self.far, &self.left, "dst 10.1.0.77 or dst 2001:db8:1::77");
        [out, opened]
    }
}

fn forwarded() {
    let mut net = Tunnels::stopped();
    let names = TUNNELS.map(|(name, ..)| name);
    net.reachable();
    net.prepare();
    let linux = net.both_ways();
    assert!(linux[0].len() > 300 && linux[1].len() > 100, "{} {}", linux[0].len(), linux[1].len());
    net.router.restart().unwrap();
    net.is_adopted(&names);
    net.reachable();
    let before = net.router.host().linux_forwarded().unwrap();
    let plane = net.both_ways();
    let by_linux = net.router.host().linux_forwarded().unwrap() - before;
    for (way, (linux, plane)) in ["out", "in"].iter().zip(linux.iter().zip(&plane)) {
        assert_eq!(difference(linux, plane), None, "{way}");
    }
    // What is not right, and what the redirect of a neighbour concerns.
    assert!(by_linux < 60, "Linux forwarded {by_linux}");
    let passed = names.map(|name| {
        let shown = net.shown(name);
        ["received", "sent"].map(|way| shown[way]["packets"].as_u64().unwrap())
    });
    assert!(passed.iter().flatten().all(|packets| *packets > 15), "{passed:?}");

    let shown = net.router.subject("tunnels").unwrap();
    let all: Vec<_> = shown.as_array().unwrap().iter().filter(|shown| shown["adopted"] == true).collect();
    assert_eq!(all.len(), names.len(), "{shown}");
    let of = |name: &str| all.iter().find(|shown| shown["name"] == name).unwrap();
    let (two, five) = (of("two"), of("five"));
    assert_eq!((&two["local"], &two["remote"]), (&"10.2.0.1".into(), &"10.2.0.2".into()), "{two}");
    assert_eq!((&two["key_in"], &two["header"], &two["by"][0]), (&7.into(), &28.into(), &"right".into()));
    assert_eq!((&five["remote"], &five["header"]), (&"2001:db8:2::2".into(), &48.into()), "{five}");

    // Changed, deleted and made anew while packets pass.
    let host = net.router.host();
    let pinged = |address: &str, count: u32| {
        let said = net.left.run(&format!("ping -q -c {count} -i 0.02 -W 5 {address}")).unwrap();
        assert!(said.contains(" 0% packet loss"), "{address}: {said}");
    };
    for round in 0..2 {
        host.run(&format!("ip link set one type gre local 10.2.0.1 remote 10.2.0.2 ttl {}", 40 + round))
            .unwrap();
        pinged("10.9.1.1", 10);
        host.run("ip link del three").unwrap();
        pinged("10.9.1.1", 5);
        add(host, 3, 1);
        net.left.reaches("10.9.3.1", Duration::from_secs(10)).unwrap();
        pinged("10.9.3.1", 5);
    }
    net.is_adopted(&names);
    let mut capture = Capture::start(&net.far, "eth0", "src 10.2.0.1 and ip[8] == 41").unwrap();
    pinged("10.9.1.1", 10);
    capture.has_caught(10, Duration::from_secs(5)).unwrap();
    capture.stop().unwrap();

    // The path becomes narrower: somebody on it says so, and the sender hears of it.
    let gateway = host.mac("right").unwrap();
    net.far
        .scapy(&format!(
            "inner = IP(src='10.2.0.1', dst='10.2.0.2', proto=47, flags='DF', len=1490) / bytes([0, 0, 8, 0]) / bytes(24)
sendp(Ether(dst='{gateway}') / IP(src='10.2.0.2', dst='10.2.0.1') / ICMP(type=3, code=4, nexthopmtu=1300) / inner, iface='eth0', verbose=False)"
        ))
        .unwrap();
    wait_for("a path MTU", Duration::from_secs(10), || {
        let ask = "ping -q -c 1 -W 1 -M do -s 1350 10.9.1.1 >/dev/null || true; ip route get 10.9.1.1";
        match net.left.run(ask).unwrap() {
            said if said.contains("mtu 1276") => Ok(()),
            said => Err(said + &host.run("ip route get 10.2.0.2").unwrap()),
        }
    })
    .unwrap();
    pinged("10.9.1.1", 3);
    net.far
        .scapy(&format!(
            "inner = IPv6(src='2001:db8:2::1', dst='2001:db8:2::12', nh=60) / bytes([4, 0, 4, 1, 4, 1, 1, 0]) / IP(src='10.1.0.2', dst='10.9.7.1') / bytes(900)
sendp(Ether(dst='{gateway}') / IPv6(src='2001:db8:2::12', dst='2001:db8:2::1') / ICMPv6PacketTooBig(mtu=1400) / bytes(inner), iface='eth0', verbose=False)"
        ))
        .unwrap();
    wait_for("a path MTU over IPv6", Duration::from_secs(10), || {
        let ask = "ping -q -c 1 -W 1 -M do -s 1380 10.9.7.1 >/dev/null || true; ip route get 10.9.7.1";
        match net.left.run(ask).unwrap() {
            said if said.contains("mtu 1352") => Ok(()),
            said => Err(said + &host.run("ip -6 route get 2001:db8:2::12").unwrap()),
        }
    })
    .unwrap();
    pinged("10.9.7.1", 3);
    let shown = net.router.ask("show tunnels").unwrap();
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("one ").contains(" 1300 ") && line("seven ").contains(" 1400 "), "{shown}");
    assert!(line("five ").ends_with("Bifrost"), "{shown}");

    // What the plane does not do is Linux's, and why is said.
    for (kind, options, why) in [
        ("gre", "remote 10.2.0.9 local 10.2.0.1 key 9 seq", "sequence"),
        ("gre", "local 10.2.0.1", "ends"),
        ("ipip", "remote 10.2.0.9 local 10.2.0.1 dev right", "bound"),
        ("ip6tnl", "remote 2001:db8:1::2 local 2001:db8:1::1 dscp inherit", "dscp inherit"),
        ("ip6gre", "remote 2001:db8:1::2 local 2001:db8:1::1 seq", "sequence"),
    ] {
        host.run(&format!("ip link add other type {kind} {options} && ip link set other up")).unwrap();
        wait_for("a tunnel of Linux's", Duration::from_secs(10), || {
            match net.shown("other")["why"].as_str() {
                Some(said) if said.contains(why) => Ok(()),
                said => Err(format!("{options}: {said:?}")),
            }
        })
        .unwrap();
        host.run("ip link del other").unwrap();
    }
    // One with the same ends on an interface may be meant by what comes in there.
    host.run("ip link add twin type ipip remote 10.2.0.2 local 10.2.0.1 dev right && ip link set twin up")
        .unwrap();
    wait_for("twins are Linux's", Duration::from_secs(10), || match net.shown("three")["why"].as_str() {
        Some("twin has the same ends") => Ok(()),
        said => Err(format!("{said:?}")),
    })
    .unwrap();
    host.run("ip link del twin").unwrap();
    net.is_adopted(&names);
    pinged("10.9.3.1", 3);
    // A filter for what comes for this machine sees the headers of tunnels.
    host.run(
        "nft add table ip own; nft add chain ip own input '{ type filter hook input priority 0; }'
         nft add rule ip own input ip protocol gre drop",
    )
    .unwrap();
    net.is_left(&OVER_IPV4);
    net.is_adopted(&OVER_IPV6);
    assert!(net.left.run("ping -q -c 2 -W 1 10.9.1.1").is_err(), "what a filter drops came through");
    host.run("nft delete table ip own").unwrap();
    net.is_adopted(&names);
    pinged("10.9.1.1", 3);
    // Workers ask routing rules for transit only.
    host.run("ip rule add to 10.2.0.2 lookup 99 pref 100").unwrap();
    net.is_left(&OVER_IPV4);
    pinged("10.9.1.1", 3);
    host.run("ip rule del pref 100").unwrap();
    net.is_adopted(&names);
    net.are_judged(&names);
    // Where a port is in the driver's lane, that hands over what is in tunnels.
    net.router.configure(&CONFIGURATION.replace("worker", "express")).unwrap();
    net.router.ask("reload").unwrap();
    net.is_adopted(&names);
    net.reachable();
    for address in ["10.9.1.1", "10.9.5.1", "2001:db8:94::1", "2001:db8:96::1"] {
        net.passes_by_workers(address, 100);
    }
}

mod with_the_bytes_of_linux {
    use super::*;

    #[test]
    fn on_6_12() {
        inside!("6.12", forwarded);
    }
}
