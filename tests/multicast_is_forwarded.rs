//! Packets to groups are forwarded by the plane as Linux's multicast routing tables say, in both
//! families and lanes: byte for byte as by Linux, to every interface whose threshold the TTL
//! exceeds. What Linux's routing daemon is to hear of, it hears of.
//!
//! ```text
//!                          .1 10.2.0.0/24 .2
//!   sender ------ in router one ------------ first
//!   .2 10.1.0.0/24 .1      two ------------ second
//!   2001:db8:1::           .1 10.3.0.0/24 .2
//! ```

use std::time::{Duration, Instant};

use lab::{Capture, Frr, Host, Lab, Process, Router, wait_for};

use crate::network::{LANES, Turn, ports, turn};

/// Routes multicast of both families on the interfaces that are named, as its orders say: lines of
/// a file, each `add` or `del`, source, group, number of the interface that packets come in by, and
/// of those that they leave by, with thresholds. Says what Linux asks it.
const DAEMON: &str = "
import os, select, socket, struct, sys
four = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
six = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
four.setsockopt(socket.IPPROTO_IP, 200, 1)
six.setsockopt(socket.IPPROTO_IPV6, 200, 1)
for n, name in enumerate(sys.argv[2:]):
    index = socket.if_nametoindex(name)
    four.setsockopt(socket.IPPROTO_IP, 202, struct.pack('@HBBIi4s', n, 8, 1, 0, index, bytes(4)))
    six.setsockopt(socket.IPPROTO_IPV6, 202, struct.pack('@HBBHI', n, 0, 1, index, 0))
four.setsockopt(socket.IPPROTO_IP, 207, 1)
six.setsockopt(socket.IPPROTO_IPV6, 207, 1)
def order(line):
    what, source, group, into, *out = line.split()
    out = dict(map(int, one.split(':')) for one in out)
    if ':' in group:
        end = lambda a: struct.pack('@HHI16sI', socket.AF_INET6, 0, 0, socket.inet_pton(socket.AF_INET6, a), 0)
        bits = sum(1 << n for n in out)
        entry = end(source) + end(group) + struct.pack('@HHI28s', int(into), 0, bits, bytes(28))
        six.setsockopt(socket.IPPROTO_IPV6, 204 if what == 'add' else 205, entry)
    else:
        ttls = bytes(out.get(n, 0) for n in range(32))
        entry = socket.inet_aton(source) + socket.inet_aton(group) + struct.pack('@H32s2x16x', int(into), ttls)
        four.setsockopt(socket.IPPROTO_IP, 204 if what == 'add' else 205, entry)
orders, rest = open(sys.argv[1]), ''
print('ready', flush=True)
while True:
    rest += orders.read()
    *lines, rest = rest.split(chr(10))
    for line in lines:
        order(line)
        print('done', line, flush=True)
    for s in select.select([four, six], [], [], 0.01)[0]:
        said = s.recv(2048)
        if s is four and said[9] == 0:
            print('asked', said[8], socket.inet_ntoa(said[12:16]), socket.inet_ntoa(said[16:20]), flush=True)
        if s is six and said[0] == 0:
            address = lambda at: socket.inet_ntop(socket.AF_INET6, said[at:at + 16])
            print('asked', said[1], address(8), address(24), flush=True)
";

/// What Linux asks its daemon about a packet: there is no entry; or it has come in by another
/// interface than its entry's.
const NO_ENTRY: u8 = 1;
const WRONG_INTERFACE: u8 = 2;

const SENDER: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
const GROUP: [&str; 2] = ["239.1.2.3", "ff0e::1:2:3"];

/// Fields go in the order they are dropped.
struct Tree {
    router: Router,
    daemon: Process,
    sender: Host,
    receivers: [Host; 2],
    _lab: Lab,
    _turn: Turn,
}

impl Tree {
    fn new(name: &str, lane: &str) -> Tree {
        let turn = turn();
        let lab = Lab::new(name).unwrap();
        let (sender, host) = (lab.host("sender").unwrap(), lab.router("router").unwrap());
        let receivers = ["first", "second"].map(|name| lab.host(name).unwrap());
        lab.link(
            sender.end("eth0").address("10.1.0.2/24").address("2001:db8:1::2/64"),
            host.end("in").address("10.1.0.1/24").address("2001:db8:1::1/64"),
        )
        .unwrap();
        for (n, (receiver, port)) in receivers.iter().zip(["one", "two"]).enumerate() {
            let [ours, theirs] = [1, 2].map(|last| format!("10.{}.0.{last}/24", n + 2));
            let [ours6, theirs6] = [1, 2].map(|last| format!("2001:db8:{}::{last}/64", n + 2));
            lab.link(
                host.end(port).address(&ours).address(&ours6),
                receiver.end("eth0").address(&theirs).address(&theirs6),
            )
            .unwrap();
        }
        let names = ["in", "one", "two"];
        let router = Router::stopped(&host, &ports(lane, &names)).unwrap();
        std::fs::write(host.folder().join("orders"), "").unwrap();
        let mut command = host.command("python3");
        command.args(["-c", DAEMON]).arg(host.folder().join("orders")).args(names);
        let daemon = host.spawn("mrouted", command).unwrap();
        let tree = Tree { router, daemon, sender, receivers, _lab: lab, _turn: turn };
        tree.says("ready");
        tree
    }

    fn says(&self, what: &str) {
        wait_for(what, Duration::from_secs(5), || match self.daemon.output() {
            said if said.contains(what) => Ok(()),
            said => Err(said),
        })
        .unwrap();
    }

    /// Has the routing daemon do something.
    fn order(&self, line: &str) {
        let file = self.router.host().folder().join("orders");
        let before = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{before}{line}\n")).unwrap();
        wait_for(line, Duration::from_secs(5), || match self.daemon.output() {
            said if said.matches("done").count() > before.lines().count() => Ok(()),
            said => Err(said),
        })
        .unwrap();
    }

    /// What the plane says of the entry of a group.
    fn shown(&self, group: &str) -> Option<serde_json::Value> {
        let shown = self.router.show("multicast").unwrap();
        shown.as_array().unwrap().iter().find(|route| route["group"] == group).cloned()
    }

    /// Waits until the plane forwards a group by its entry, or says this of it.
    fn follows(&self, group: &str, why: &str) {
        if !self.router.is_bifrost() {
            return;
        }
        wait_for("the plane to follow", Duration::from_secs(5), || match self.shown(group) {
            Some(route)
                if route["forwarded"].as_bool() == Some(why.is_empty())
                    && route["why"].as_str().unwrap().contains(why) =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        })
        .unwrap();
    }

    fn forwarded(&self, group: &str) -> u64 {
        let shown = self.router.show("multicast").unwrap();
        let of_group = shown.as_array().unwrap().iter().filter(|route| route["group"] == group);
        of_group.map(|route| route["packets"].as_u64().unwrap()).sum()
    }

    /// Sends frames, numbered, and of other lengths and TTLs, by a host: 200 of each family, or of
    /// one group.
    fn send(&self, by: &Host, groups: &[&str], count: usize, ttl: &str) {
        let lines: String = groups.iter().map(|group| {
            let (header, mac) = match group.contains(':') {
                true => (format!("IPv6(src='{}', dst='{group}', hlim={ttl}, fl=n)", SENDER[1]), "in6_getnsmac(inet_pton(socket.AF_INET6, '{}'))"),
                false => (format!("IP(src='{}', dst='{group}', ttl={ttl}, id=n, tos=n % 4)", SENDER[0]), "getmacbyip('{}')"),
            };
            let mac = mac.replace("{}", group);
            format!("to = {mac}\nfor n in range({count}): frames.append(Ether(src='02:00:00:00:00:09', dst=to) / {header} / UDP(sport=5000, dport=9000) / Raw(struct.pack('>I', n) * (1 + n * 7 % 330)))\n")
        }).collect();
        by.scapy(&format!(
            "import struct\nframes = []\n{lines}sendp(frames, iface='eth0', inter=0.003, verbose=False)"
        ))
        .unwrap();
    }

    /// For the message of a failure.
    fn state(&self) -> String {
        let said = ["show multicast", "show drops", "show workers"]
            .map(|what| self.router.ask(what).unwrap_or_else(|error| error.to_string()));
        format!("{}\n{}", said.join("\n"), self.router.log())
    }

    /// The bytes of all packets that receivers get of these frames.
    fn received(&self, groups: &[&str], count: usize, ttl: &str, expected: [usize; 2]) -> [Vec<String>; 2] {
        let filter = "udp dst port 9000";
        let mut captures =
            self.receivers.each_ref().map(|receiver| Capture::start(receiver, "eth0", filter).unwrap());
        self.send(&self.sender, groups, count, ttl);
        for (capture, expected) in captures.iter().zip(expected) {
            capture
                .has_caught(expected, Duration::from_secs(5))
                .unwrap_or_else(|error| panic!("{error}\n{}", self.state()));
        }
        let mut nth = 0;
        captures.each_mut().map(|capture| {
            let file = capture.stop().unwrap();
            let receiver = &self.receivers[nth];
            nth += 1;
            let hex = format!("for p in rdpcap('{}'): print(bytes(p).hex())", file.display());
            let mut all: Vec<String> = receiver.scapy(&hex).unwrap().lines().map(str::to_owned).collect();
            all.sort();
            all
        })
    }
}

/// Both groups, to both interfaces; of IPv4 with thresholds.
fn add_both(tree: &Tree) {
    tree.order(&format!("add {} {} 0 1:1 2:9", SENDER[0], GROUP[0]));
    tree.order(&format!("add {} {} 0 1:1 2:1", SENDER[1], GROUP[1]));
}

#[test]
fn byte_for_byte_as_by_linux() {
    for lane in LANES {
        let mut tree = Tree::new("group-bytes", lane);
        add_both(&tree);
        // By their number frames have a TTL of 1 to 16: thirds of 96 leave by thresholds of 1 and
        // 9.
        let (ttl, count) = ("1 + n % 16", 96);
        let expected = [90 + 90, 42 + 90];
        let by_linux = tree.received(&GROUP, count, ttl, expected);
        tree.router.restart().unwrap();
        GROUP.iter().for_each(|group| tree.follows(group, ""));
        let by_plane = tree.received(&GROUP, count, ttl, expected);
        assert_eq!(by_linux.each_ref().map(Vec::len), expected);
        assert!(by_linux == by_plane, "{lane}: they differ");
        if tree.router.is_bifrost() {
            for group in GROUP {
                let forwarded = tree.forwarded(group);
                assert!(forwarded >= 80, "{lane}: {forwarded} of {count} to {group} were the plane's");
            }
            // Those that may not leave at all were dropped here, with their reason.
            let drops = tree.router.subject("drops").unwrap().to_string();
            assert!(drops.contains("unwanted"), "{drops}");
        }
    }
}

#[test]
fn entries_change_under_traffic_and_linux_counts() {
    let mut tree = Tree::new("group-change", "auto");
    tree.router.restart().unwrap();
    let [group, group6] = GROUP;
    let counted = |tree: &Tree| -> u64 {
        let shown = tree.router.host().run("ip -s mroute show").unwrap();
        let count =
            shown.lines().find_map(|line| line.trim().split_once(" packets").map(|(n, _)| n.to_owned()));
        count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{shown}"))
    };
    // No entry: Linux asks its daemon, once for each.
    tree.send(&tree.sender, &GROUP, 3, "8");
    for (from, to) in SENDER.iter().zip(GROUP) {
        tree.says(&format!("asked {NO_ENTRY} {from} {to}"));
    }
    // Any source.
    tree.order(&format!("add 0.0.0.0 {group} 0 0:1 1:1"));
    tree.order(&format!("add :: {group6} 0 0:1 1:1"));
    GROUP.iter().for_each(|group| tree.follows(group, ""));
    let got = tree.received(&GROUP, 50, "8", [100, 0]);
    assert_eq!(got.map(|all| all.len()), [100, 0]);
    // Linux is shown one a second, and counts it.
    let before = counted(&tree);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(2500)
        || counted(&tree) < before + 2 && began.elapsed() < Duration::from_secs(15)
    {
        tree.send(&tree.sender, &[group], 20, "8");
    }
    let (grown, forwarded) = (counted(&tree) - before, tree.forwarded(group));
    if tree.router.is_bifrost() {
        assert!((2..40).contains(&grown), "Linux counted {grown}, and the plane forwarded {forwarded}");
        assert!(forwarded > 40, "{forwarded}");
    }
    // This source goes elsewhere; then there is no such entry, then none at all.
    tree.order(&format!("add {} {group} 0 2:1", SENDER[0]));
    wait_for("the entry", Duration::from_secs(5), || {
        if !tree.router.is_bifrost() {
            return Ok(());
        }
        let shown = tree.router.show("multicast").unwrap();
        let all = shown.as_array().unwrap();
        match all.iter().filter(|route| route["group"] == group && route["forwarded"] == true).count() {
            2 => Ok(()),
            _ => Err(shown.to_string()),
        }
    })
    .unwrap();
    assert_eq!(tree.received(&[group], 30, "8", [0, 30]).map(|all| all.len()), [0, 30]);
    tree.order(&format!("del {} {group} 0", SENDER[0]));
    assert_eq!(tree.received(&[group], 30, "8", [30, 0]).map(|all| all.len()), [30, 0]);
    tree.order(&format!("del 0.0.0.0 {group} 0"));
    assert_eq!(tree.received(&[group], 30, "8", [0, 0]).map(|all| all.len()), [0, 0]);
}

#[test]
fn what_is_linuxs_stays_with_linux() {
    let mut tree = Tree::new("group-linux", "auto");
    tree.router.restart().unwrap();
    add_both(&tree);
    GROUP.iter().for_each(|group| tree.follows(group, ""));
    // By another interface than the entry's: the daemon hears of it, and nobody gets it.
    let mut capture = Capture::start(&tree.receivers[1], "eth0", "udp").unwrap();
    tree.send(&tree.receivers[0], &GROUP, 3, "20");
    for (from, to) in SENDER.iter().zip(GROUP) {
        tree.says(&format!("asked {WRONG_INTERFACE} {from} {to}"));
    }
    let file = capture.stop().unwrap();
    let count = format!("print(len(rdpcap('{}')))", file.display());
    assert_eq!(tree.receivers[1].scapy(&count).unwrap().trim(), "0");
    if !tree.router.is_bifrost() {
        return;
    }
    // The router itself listens: it gets them, and so do the others.
    let host = tree.router.host();
    let listen = format!(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 9000))\n\
         s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('{}') + socket.inet_aton('10.1.0.1'))\n\
         print('joined', flush=True)\nfor n in range(30): s.recv(2048)\nprint('all', flush=True)\ns.recv(2048)",
        GROUP[0]
    );
    let mut command = host.command("python3");
    command.args(["-c", &listen]);
    let mut listener = host.spawn("listener", command).unwrap();
    tree.follows(GROUP[0], "the router itself has joined it on in");
    let got = tree.received(&[GROUP[0]], 30, "20", [30, 30]);
    assert_eq!(got.map(|all| all.len()), [30, 30]);
    wait_for("the router to get them", Duration::from_secs(5), || match listener.output() {
        said if said.contains("all") => Ok(()),
        said => Err(said),
    })
    .unwrap();
    listener.kill();
    tree.follows(GROUP[0], "");
    // Too long for an interface: Linux cuts it.
    host.run("ip link set one mtu 1280").unwrap();
    let got = tree.received(&[GROUP[0]], 250, "20", [250, 250]);
    let cut = |frames: &[String]| frames.iter().filter(|frame| &frame[40..44] == "2000").count();
    assert!(cut(&got[0]) > 0 && cut(&got[1]) == 0, "{} fragments, and {}", cut(&got[0]), cut(&got[1]));
    // A firewall of Linux's could touch them; and then it is gone.
    host.run("nft 'add table ip wall; add chain ip wall forward { type filter hook forward priority 0; policy drop; }'")
        .unwrap();
    tree.follows(GROUP[0], "Linux's to forward");
    tree.follows(GROUP[1], "");
    assert_eq!(tree.received(&[GROUP[0]], 20, "20", [0, 0]).map(|all| all.len()), [0, 0]);
    host.run("nft delete table ip wall").unwrap();
    tree.follows(GROUP[0], "");
    // Another interface that is none of the plane's.
    tree.daemon.kill();
    wait_for("the entries to go", Duration::from_secs(5), || match tree.router.show("multicast").unwrap() {
        shown if shown.as_array().unwrap().is_empty() => Ok(()),
        shown => Err(shown.to_string()),
    })
    .unwrap();
}

/// FRR's pimd, which is the rendezvous point itself. It lets an entry go whose packets Linux has
/// not counted for a while.
const PIM: &str = "
ip pim rp 10.1.0.1 239.0.0.0/8
ip pim keep-alive-timer 31
interface in
 ip pim
interface one
 ip pim
 ip igmp
interface two
 ip pim
 ip igmp
";

/// Sends numbered datagrams to the group, a hundred a second, for so many seconds.
const STREAM: &str = "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 8)
for n in range(100 * int(sys.argv[1])):
    s.sendto(n.to_bytes(4, 'big'), ('239.1.2.3', 9000))
    time.sleep(0.01)
print('sent', flush=True)
";

/// Joins the group; says which numbers come, as stretches without a gap, when there is one.
const MEMBER: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 9000))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + socket.inet_aton(sys.argv[1]))
print('joined', flush=True)
first = last = int.from_bytes(s.recv(2048), 'big')
print('first', first, flush=True)
s.settimeout(2)
try:
    while True:
        n = int.from_bytes(s.recv(2048), 'big')
        if n != last + 1:
            print('stretch', first, last, flush=True)
            first = n
        last = n
except TimeoutError:
    pass
print('stretch', first, last, 'end', flush=True)
";

/// How long the stream is, in seconds: longer than the daemon's patience only where time is given
/// for it.
fn seconds() -> u64 {
    std::env::var("MULTICAST_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(6)
}

#[test]
fn as_frr_says() {
    let mut tree = Tree::new("group-pim", "auto");
    tree.daemon.kill();
    tree.router.restart().unwrap();
    let frr = Frr::start(tree.router.host(), &["pimd"], PIM, false).unwrap();
    tree.sender.run("ip route add 239.0.0.0/8 dev eth0 src 10.1.0.2").unwrap();
    let python = |host: &Host, script: &str, argument: &str| {
        let mut command = host.command("python3");
        command.args(["-c", script, argument]);
        host.spawn("python", command).unwrap()
    };
    let mut members = [("10.2.0.2", 0), ("10.3.0.2", 1)]
        .map(|(address, n): (&str, usize)| python(&tree.receivers[n], MEMBER, address));
    wait_for("pimd to know them", Duration::from_secs(20), || {
        match frr.vtysh("show ip igmp groups").unwrap() {
            known if known.matches("239.1.2.3").count() == 2 => Ok(()),
            known => Err(known),
        }
    })
    .unwrap();
    let mut stream = python(&tree.sender, STREAM, &seconds().to_string());
    stream.wait(Duration::from_secs(seconds() + 30)).unwrap();
    let state = || {
        let frr = frr.vtysh("show ip mroute").unwrap();
        format!("{}\n{frr}", tree.state())
    };
    for member in &mut members {
        member.wait(Duration::from_secs(10)).unwrap();
        let output = member.output();
        let stretches: Vec<&str> = output.lines().filter(|line| line.starts_with("stretch")).collect();
        let last = 100 * seconds() - 1;
        assert!(
            stretches.last().is_some_and(|line| line.ends_with(&format!(" {last} end")))
                && stretches.len() <= 2,
            "{output}\n{}",
            state()
        );
    }
    if tree.router.is_bifrost() {
        let forwarded = tree.forwarded(GROUP[0]);
        assert!(forwarded > 80 * seconds(), "{forwarded} were the plane's: {}", state());
    }
}
