//! A machine has a firewall of Linux's own, of which the router knows nothing: what it could touch
//! is left to Linux, from the first packet on, and forwarded by the plane again when it is gone, or
//! when the operator says that it is not meant. So it is with routing rules that are not followed.
//! (The network of `network.rs`.)

use std::time::Duration;

use lab::{Host, Signal, wait_for};

use crate::network::{Line, STATEFUL, ports};

/// Whether a datagram to a port of the server arrives.
pub fn arrives(net: &Line, to: &str, port: u16) -> bool {
    let sink = lab::Sink::start(&net.server, port).unwrap();
    let send = format!(
        "import socket, time\nfor i in range(5):\n socket.socket(socket.AF_INET6 if ':' in '{to}' else socket.AF_INET, \
         socket.SOCK_DGRAM).sendto(b'x', ('{to}', {port})); time.sleep(0.02)"
    );
    net.customer.run(&format!("python3 -c \"{send}\"")).unwrap();
    sink.has_received(1, Duration::from_millis(300)).is_ok()
}

pub fn nft(router: &Host, lines: &[&str]) {
    lines.iter().for_each(|line| drop(router.run(&format!("nft '{line}'")).unwrap()));
}

/// The lane of each port, and why.
pub fn lanes(net: &Line) -> Vec<(String, String)> {
    let shown = net.router.subject("ports").unwrap();
    let text = |port: &serde_json::Value, key: &str| port[key].as_str().unwrap_or_default().to_owned();
    shown.as_array().unwrap().iter().map(|port| (text(port, "lane"), text(port, "lane_reason"))).collect()
}

pub fn wait_for_lanes(net: &Line, wanted: [&str; 2]) {
    wait_for("the lanes", Duration::from_secs(3), || match lanes(net) {
        lanes if lanes.iter().map(|(lane, _)| lane.as_str()).eq(wanted) => Ok(()),
        lanes => Err(format!("{lanes:?}")),
    })
    .unwrap();
}

const FORWARD: [&str; 3] = [
    "add table inet wall",
    "add chain inet wall forward { type filter hook forward priority 0; }",
    "add rule inet wall forward udp dport 7777 drop",
];

#[test]
fn from_before_the_start_until_it_is_gone() {
    for lane in ["auto", "worker"] {
        let mut net = Line::stopped(&format!("wall-{lane}"), &ports(lane, &["left", "right"]));
        if !net.router.is_bifrost() {
            return;
        }
        nft(net.router.host(), &FORWARD);
        net.router.restart().unwrap();
        assert!(!arrives(&net, "10.2.0.2", 7777), "it drops from the first packet on");
        net.reachable();
        assert!(arrives(&net, "10.2.0.2", 7778) && arrives(&net, "2001:db8:2::2", 7778));
        assert!(!arrives(&net, "2001:db8:2::2", 7777));
        wait_for_lanes(&net, ["linux"; 2]);
        let log = net.router.log();
        assert!(log.contains("inet wall forward") && log.contains("left to Linux"), "{log}");
        let shown = net.router.ask("show mirror").unwrap();
        assert!(shown.contains("inet wall forward: what it could touch is left to Linux"), "{shown}");

        nft(net.router.host(), &["delete table inet wall"]);
        let lane = if lane == "auto" { "express" } else { lane };
        wait_for_lanes(&net, [lane; 2]);
        assert!(arrives(&net, "10.2.0.2", 7777));

        // And when it comes back while the router runs.
        nft(net.router.host(), &FORWARD);
        wait_for_lanes(&net, ["linux"; 2]);
        assert!(!arrives(&net, "10.2.0.2", 7777));
        let config = format!("linux_filter = \"ignore\"\n{}", ports("auto", &["left", "right"]));
        net.router.configure(&config).unwrap();
        net.router.ask("reload").unwrap();
        wait_for_lanes(&net, ["express"; 2]);
        assert!(arrives(&net, "10.2.0.2", 7777), "the operator says that it is not meant");
    }
}

#[test]
fn by_family_and_by_interface() {
    let net = Line::stopped("wall-part", &ports("auto", &["left", "right"]));
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let router = net.router.host();
    nft(
        router,
        &[
            "add table ip6 six",
            "add chain ip6 six early { type filter hook prerouting priority -300; }",
            "add rule ip6 six early udp dport 7777 drop",
        ],
    );
    wait_for("IPv6 to be Linux's", Duration::from_secs(3), || match lanes(&net) {
        lanes if lanes.iter().all(|(lane, why)| lane == "express" && why.contains("IPv6: Linux")) => Ok(()),
        lanes => Err(format!("{lanes:?}")),
    })
    .unwrap();
    assert!(!arrives(&net, "2001:db8:2::2", 7777) && arrives(&net, "10.2.0.2", 7777));
    nft(router, &["delete table ip6 six"]);
    wait_for_lanes(&net, ["express"; 2]);
    nft(
        router,
        &[
            "add table netdev dev",
            "add chain netdev dev in { type filter hook ingress device left priority 0; }",
            "add rule netdev dev in udp dport 7777 drop",
        ],
    );
    let both = |wanted: &'static str| {
        wait_for("both families of one port", Duration::from_secs(3), || match lanes(&net) {
            lanes if lanes[0].0 == wanted && lanes[1].0 == "express" => Ok(()),
            lanes => Err(format!("{lanes:?}")),
        })
        .unwrap();
    };
    both("linux");
    assert!(!arrives(&net, "10.2.0.2", 7777));
    nft(router, &["delete table netdev dev"]);
    both("express");
    // A chain that lets everything pass touches nothing, nor does one for what is for this machine.
    nft(
        router,
        &[
            "add table inet wall",
            "add chain inet wall forward { type filter hook forward priority 0; policy accept; }",
            "add chain inet wall input { type filter hook input priority 0; policy accept; }",
            "add rule inet wall input udp dport 7777 drop",
        ],
    );
    std::thread::sleep(Duration::from_millis(1500));
    wait_for_lanes(&net, ["express"; 2]);
}

#[test]
fn and_routing_rules_that_are_not_followed() {
    let net = Line::stopped("rules", &ports("auto", &["left", "right"]));
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let router = net.router.host();
    router.run("ip route add blackhole default table 77; ip rule add pref 100 iif left dport 7777 ipproto udp lookup 77 suppress_ifgroup 5").unwrap();
    wait_for("IPv4 of one port to be Linux's", Duration::from_secs(3), || match lanes(&net) {
        lanes if lanes[0].1.contains("IPv4: Linux") && !lanes[1].1.contains("Linux") => Ok(()),
        lanes => Err(format!("{lanes:?}")),
    })
    .unwrap();
    assert!(!arrives(&net, "10.2.0.2", 7777) && arrives(&net, "10.2.0.2", 7778));
    let shown = net.router.ask("show mirror").unwrap();
    assert!(shown.contains("suppress_ifgroup 5 (suppress_ifgroup): what it could touch is left"), "{shown}");
    router.run("ip rule del pref 100").unwrap();
    wait_for("all to be as before", Duration::from_secs(3), || match lanes(&net) {
        lanes if !lanes[0].1.contains("Linux") => Ok(()),
        lanes => Err(format!("{lanes:?}")),
    })
    .unwrap();
    assert!(arrives(&net, "10.2.0.2", 7777));

    // Nor are those that ask for marks, where the router's own filter sets some.
    let config = format!(
        "{}[filter.input]\nrules = 'mark 7 udp to any port 7777'\n",
        ports("auto", &["left", "right"])
    );
    net.router.configure(&config).unwrap();
    net.router.ask("reload").unwrap();
    router.run("ip rule add pref 100 iif left fwmark 7 lookup 77").unwrap();
    wait_for("IPv4 of all ports to be Linux's", Duration::from_secs(3), || match lanes(&net) {
        lanes if lanes.iter().all(|lane| lane.1.contains("IPv4: Linux")) => Ok(()),
        lanes => Err(format!("{lanes:?}")),
    })
    .unwrap();
    assert!(!arrives(&net, "10.2.0.2", 7777) && arrives(&net, "10.2.0.2", 7778));
}

/// Attaches a program to an interface by tcx that drops all, at the way in (46) or out (47), and
/// stays until it is ended.
const TCX: &str = r#"
import ctypes, os, platform, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def bpf(command, attributes):
    block = ctypes.create_string_buffer(attributes, len(attributes))
    fd = libc.syscall(321 if platform.machine() == "x86_64" else 280, command, block, len(attributes))
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return fd
code = ctypes.create_string_buffer(struct.pack("<BBhi", 0xb7, 0, 0, 2) + struct.pack("<BBhi", 0x95, 0, 0, 0))
license = ctypes.create_string_buffer(b"GPL")
program = bpf(5, struct.pack("<IIQQIIQII", 3, 2, ctypes.addressof(code), ctypes.addressof(license), 0, 0, 0, 0, 0))
link = bpf(28, struct.pack("<IIIIIIQ", program, socket.if_nametoindex(sys.argv[1]), int(sys.argv[2]), 0, 0, 0, 0))
print("attached", flush=True)
time.sleep(600)
"#;

#[test]
fn and_programs_by_tcx() {
    let net = Line::stopped("tcx", &ports("auto", &["left", "right"]));
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let router = net.router.host();
    wait_for_lanes(&net, ["express"; 2]);
    for (interface, hook, way, lanes) in
        [("left", "46", "ingress", ["linux", "express"]), ("right", "47", "egress", ["linux"; 2])]
    {
        let mut command = router.command("python3");
        command.args(["-c", TCX, interface, hook]);
        let mut program = router.spawn(way, command).unwrap();
        wait_for_lanes(&net, lanes);
        assert!(!arrives(&net, "10.2.0.2", 7777) && !arrives(&net, "2001:db8:2::2", 7777));
        let shown = net.router.ask("show mirror").unwrap();
        assert!(shown.contains(&format!("tcx {way} {interface}: what it could touch")), "{shown}");
        program.signal(Signal::SIGKILL);
        program.wait(Duration::from_secs(5)).unwrap_or_else(|error| panic!("{error}: {}", program.output()));
        wait_for_lanes(&net, ["express"; 2]);
        assert!(arrives(&net, "10.2.0.2", 7777));
    }

    // One of ours that copies is not another's.
    let mut tcpdump = net.router.command();
    tcpdump.args(["tcpdump", "-lni", "right", "icmp"]);
    let mut tcpdump = router.spawn("tcpdump", tcpdump).unwrap();
    wait_for("the copying program", Duration::from_secs(5), || match tcpdump.output() {
        said if said.contains("listening") => Ok(()),
        said => Err(said),
    })
    .unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    wait_for_lanes(&net, ["express"; 2]);
    let mut check = net.router.command();
    let checked = check.args(["doctor", "--quick", "right"]).output().unwrap();
    let checked = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.contains("filter") && !checked.contains("tcx"), "{checked}");
    tcpdump.signal(Signal::SIGINT);
    tcpdump.wait(Duration::from_secs(5)).unwrap();
}

#[test]
fn and_filters_of_tc_and_ipsec_policies() {
    let net = Line::stopped("tc", &ports("auto", &["left", "right"]));
    if !net.router.is_bifrost() {
        return;
    }
    let router = net.router.host().clone();
    // Before the start: a filter at the way in that drops IPv4.
    let drop = "bpf direct-action bytecode \"1,6 0 0 2\"";
    router
        .run(&format!("tc qdisc add dev left clsact; tc filter add dev left ingress protocol ip {drop}"))
        .unwrap();
    let mut net = net;
    net.router.restart().unwrap();
    let part = |name: &str, index: usize, wanted: &str| {
        wait_for(name, Duration::from_secs(5), || match lanes(&net) {
            lanes if lanes[index].0 == wanted || lanes[index].1.contains(wanted) => Ok(()),
            lanes => Err(format!("{lanes:?}")),
        })
        .unwrap();
    };
    let shows = |what: &str| {
        let shown = net.router.ask("show mirror").unwrap();
        assert!(shown.contains(what), "{what}: {shown}");
    };
    part("IPv4 by left to be Linux's", 0, "IPv4: Linux");
    assert!(!arrives(&net, "10.2.0.2", 7777) && arrives(&net, "2001:db8:2::2", 7777));
    shows("tc ingress left (bpf): what it could touch is left to Linux");
    router.run("tc qdisc del dev left clsact").unwrap();
    part("all by left to be the plane's", 0, "express");
    wait_for_lanes(&net, ["express"; 2]);
    assert!(arrives(&net, "10.2.0.2", 7777));

    // One at the way out of a port is met by whatever leaves there, and one of an interface that is
    // no port by nothing.
    router.run(&format!("tc qdisc add dev lo clsact; tc filter add dev lo egress {drop}")).unwrap();
    router.run(&format!("tc qdisc add dev right clsact; tc filter add dev right egress {drop}")).unwrap();
    wait_for_lanes(&net, ["linux"; 2]);
    assert!(!arrives(&net, "10.2.0.2", 7777) && !arrives(&net, "2001:db8:2::2", 7777));
    router.run("tc qdisc del dev right clsact").unwrap();
    wait_for_lanes(&net, ["express"; 2]);

    router.run("ip xfrm policy add src 10.1.0.0/24 dst 10.2.0.0/24 dir fwd action block").unwrap();
    part("IPv4 to be Linux's", 1, "IPv4: Linux");
    assert!(!arrives(&net, "10.2.0.2", 7777) && arrives(&net, "2001:db8:2::2", 7777));
    shows("xfrm policy fwd 10.1.0.0/24 to 10.2.0.0/24: what it could touch");
    router.run("ip xfrm policy flush").unwrap();
    wait_for_lanes(&net, ["express"; 2]);
    assert!(arrives(&net, "10.2.0.2", 7777));

    router.run("ip xfrm policy setdefault fwd block").unwrap();
    wait_for_lanes(&net, ["linux"; 2]);
    assert!(!arrives(&net, "10.2.0.2", 7777) && !arrives(&net, "2001:db8:2::2", 7777));
    shows("xfrm policy default block fwd: what it could touch");
    router.run("ip xfrm policy setdefault fwd accept").unwrap();
    wait_for_lanes(&net, ["express"; 2]);

    // What shapes is told: the plane does not.
    router.run("tc qdisc add dev right root tbf rate 1mbit burst 32k latency 10ms").unwrap();
    wait_for("the log to tell of it", Duration::from_secs(3), || match net.router.log() {
        log if log.contains("right: Linux's queueing discipline tbf does not shape") => Ok(()),
        log => Err(log),
    })
    .unwrap();
    shows("queueing discipline tbf on right");
}

/// What Linux forwards meanwhile moves windows on, of which the plane sees nothing.
#[test]
fn and_connections_go_on_when_they_are_the_planes_again() {
    let net = Line::stopped("respected-flows", &(ports("auto", &["left", "right"]) + STATEFUL));
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let mut server = net.server.command("iperf3");
    server.args(["-s", "--forceflush"]);
    let _server = net.server.spawn("iperf3", server).unwrap();
    net.server.listens(5201).unwrap();
    let mut client = net.customer.command("iperf3");
    client.args(["-c", "10.2.0.2", "-t", "120", "-b", "100M"]);
    let mut client = net.customer.spawn("iperf3", client).unwrap();
    let goes_on = |what: &str, bytes: u64| {
        let received = || net.server.interface_number("eth0", "statistics/rx_bytes").unwrap();
        let before = received();
        wait_for(what, Duration::from_secs(20), || match received() - before {
            enough if enough >= bytes => Ok(()),
            few => Err(format!("{few} bytes")),
        })
        .unwrap_or_else(|error| panic!("{what}: {error}\n{}", net.state()));
    };
    goes_on("a transfer", 5_000_000);
    nft(
        net.router.host(),
        &[
            "add table inet far",
            "add chain inet far forward { type filter hook forward priority 0; }",
            "add rule inet far forward udp dport 9 drop",
        ],
    );
    wait_for_lanes(&net, ["linux"; 2]);
    goes_on("a transfer that is Linux's", 40_000_000);
    nft(net.router.host(), &["delete table inet far"]);
    wait_for("the lanes", Duration::from_secs(5), || match lanes(&net) {
        lanes if lanes.iter().all(|(lane, _)| lane != "linux") => Ok(()),
        lanes => Err(format!("{lanes:?}")),
    })
    .unwrap();
    goes_on("a transfer that is the plane's again", 5_000_000);
    assert!(client.ended().is_none(), "{}", client.output());
}
