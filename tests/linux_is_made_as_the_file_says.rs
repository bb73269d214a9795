//! Interfaces and static routes of the file are made in Linux, changed and removed, whole or not at
//! all, and nothing else is touched: what passes by others does not notice. (The network of
//! `network.rs`, and at the router a cable a0-a1.)

use std::time::Duration;

use lab::{Ping, Router, wait_for};

use crate::network::{Line, SERVER, ports};

/// The two ports, as the laboratory made them.
const PORTS: &str = r#"
[interface.left]
addresses = ["10.1.0.1/24", "2001:db8:1::1/64"]
[interface.right]
addresses = ["10.2.0.1/24", "2001:db8:2::1/64"]
"#;

const LAN: &str = r#"
[interface.lan]
kind = "bridge"
members = ["a0"]
addresses = ["192.0.2.1/24", "2001:db8:3::1/64"]
mac = "02:00:00:00:00:09"
mtu = 1400
description = "the hosts' LAN"
[[route]]
to = "198.51.100.0/24"
via = "10.2.0.2"
[[route]]
to = "203.0.113.0/24"
kind = "blackhole"
[[route]]
to = "default"
via = ["2001:db8:2::2", "2001:db8:2::3"]
metric = 20
"#;

fn file(sections: &str) -> String {
    ports("worker", &["left", "right"]) + PORTS + sections
}

/// What a step could have changed.
fn state(router: &Router) -> String {
    // (Link-local addresses of IPv6 wait for a carrier.)
    let show = "ip -br link | sort; ip -br address | sort | sed 's/ *fe80[^ ]*//; s/ *$//'
                ip -4 route show table all; ip -6 route show proto 177; ip -4 rule; ip -6 rule";
    router.host().run(show).unwrap()
}

/// A reload does what a dry run said, and another one nothing.
fn reload(router: &Router, sections: &str, effects: &[&str]) {
    router.configure(&file(sections)).unwrap();
    let said = router.ask("reload --dry-run").unwrap();
    let told: Vec<&str> = said.lines().collect();
    assert_eq!(told, effects, "{said}");
    router.ask("reload").unwrap();
    assert_eq!(router.ask("reload --dry-run").unwrap().trim(), "nothing would change");
}

/// A reload is refused, and Linux has what it had.
fn refused(router: &Router, sections: &str, why: &str) {
    let (before, log) = (state(router), router.log().len());
    router.configure(&file(sections)).unwrap();
    let said = router.ask("reload").unwrap_err().to_string();
    assert!(said.contains(why) && said.contains("stays as it is"), "{said}");
    // Whether there is a carrier Linux finds out later.
    wait_for("Linux to be what it was", Duration::from_secs(5), || match state(router) {
        now if now == before => Ok(()),
        now => Err(format!("{said}\n{before}\n{now}")),
    })
    .unwrap();
    let since = router.log()[log..].to_owned();
    assert!(!since.contains("Linux is not as it was"), "{since}");
    // The refusal itself undid it, not the daemon that saw later what is not as it should be.
    assert!(!since.lines().any(|line| line.contains("br7") && !line.contains("refuses")), "{since}");
}

#[test]
fn whole_or_not_at_all_and_nothing_else() {
    let mut net = Line::stopped("own", &file("")).started();
    if !net.router.is_bifrost() {
        return;
    }
    let run = |net: &Line, commands: &str| net.router.host().run(commands).unwrap();
    run(
        &net,
        "ip link add a0 type veth peer name a1; ip link set a1 up; ip address add 172.16.0.1/24 dev a0
         ip route add 10.99.0.0/16 via 10.2.0.2; ip link add theirs type bridge",
    );
    let index = run(&net, "cat /sys/class/net/left/ifindex");
    let ping = Ping::start(&net.customer, SERVER[0], Duration::from_millis(10)).unwrap();

    reload(
        &net.router,
        LAN,
        &[
            "lan is made, a bridge",
            "a0 joins lan",
            "lan: the MTU is 1400",
            "lan: the description is \"the hosts' LAN\"",
            "a0 is set up",
            "lan is set up",
            "lan: address 192.0.2.1/24 is added",
            "lan: address 2001:db8:3::1/64 is added",
            "route 198.51.100.0/24 is added via 10.2.0.2",
            "route 203.0.113.0/24 is added: blackhole",
            "route ::/0 is added via 2001:db8:2::2 via 2001:db8:2::3",
        ],
    );
    let has = |net: &Line, command: &str, texts: &[&str]| {
        let said = run(net, command);
        texts.iter().for_each(|text| assert!(said.contains(text), "{text}: {said}"));
    };
    has(
        &net,
        "ip -d link show lan",
        &["bridge", "group 45552", "mtu 1400", "02:00:00:00:00:09", "alias the hosts' LAN", ",UP"],
    );
    has(&net, "ip link show a0", &["master lan"]);
    has(&net, "ip address show lan", &["192.0.2.1/24", "2001:db8:3::1/64"]);
    has(&net, "ip route show proto 177", &["198.51.100.0/24 via 10.2.0.2", "blackhole 203.0.113.0/24"]);
    wait_for("the mirror to know the origin", Duration::from_secs(5), || {
        let routes = net.router.ask("show routes 198.51.100.1").unwrap();
        if routes.contains("bifrost") { Ok(()) } else { Err(routes) }
    })
    .unwrap();

    let changed = LAN
        .replace("192.0.2.1/24", "192.0.2.2/24")
        .replace("via = \"10.2.0.2\"", "via = \"10.2.0.3\"")
        .replace("kind = \"blackhole\"", "device = \"lan\"")
        .replace("members = [\"a0\"]", "members = []");
    reload(
        &net.router,
        &changed,
        &[
            "route 203.0.113.0/24 is removed",
            "a0 leaves lan",
            "lan: address 192.0.2.2/24 is added",
            "lan: address 192.0.2.1/24 is removed",
            "lan: address 192.0.2.2/24 is set again",
            "route 198.51.100.0/24 changes via 10.2.0.3",
            "route 203.0.113.0/24 is added by lan",
        ],
    );
    assert!(!run(&net, "ip link show a0").contains("master"));

    // What cannot be, what Linux refuses, and what it refuses at last.
    run(&net, "sysctl -qw net.ipv6.conf.a0.disable_ipv6=1");
    refused(&net.router, "[interface.gone]\nmtu = 1400\n", "[interface.gone]: there is no such interface");
    refused(&net.router, "[interface.theirs]\nkind = \"dummy\"\n", "Bifrost did not make it");
    let six = "[interface.a0]\naddresses = [\"2001:db8:4::1/64\"]\n[interface.br7]\nkind = \"bridge\"\n";
    refused(&net.router, six, "Linux refuses that a0: address 2001:db8:4::1/64 is added: ");
    let theirs = "[[route]]\nto = \"10.99.0.0/16\"\nvia = \"10.2.0.3\"\n[interface.br7]\nkind = \"bridge\"\n";
    refused(&net.router, theirs, "Linux refuses that route 10.99.0.0/16 is added via 10.2.0.3: File exists");

    let ping = ping.stop();
    assert!(ping.sent > 20 && ping.lost() == 0, "{ping:?}");
    assert_eq!(run(&net, "cat /sys/class/net/left/ifindex"), index);

    // Who made what is known after any end, and what the file does not name any more goes.
    net.router.kill_nine();
    assert!(state(&net.router).contains("lan "));
    let kept = "[[route]]\nto = \"198.51.100.0/24\"\nvia = \"10.2.0.3\"\n[interface.late]\nmtu = 1400\n";
    net.router.configure(&file(kept)).unwrap();
    net.router.restart().unwrap();
    let left = state(&net.router);
    assert!(
        !left.contains("lan ") && !left.contains("203.0.113.0") && !left.contains("2001:db8:2::3"),
        "{left}"
    );
    let stay = ["theirs", "172.16.0.1/24", "10.99.0.0/16 via 10.2.0.2", "198.51.100.0/24 via 10.2.0.3"];
    stay.iter().for_each(|what| assert!(left.contains(what), "{what}: {left}"));
    net.reachable();

    // One that was missing comes; and routes come back with their interface.
    run(&net, "ip link add late type veth peer name later");
    run(&net, "ip link set right down && ip link set right up");
    for (what, command) in [("mtu 1400", "ip link show late"), ("10.2.0.3", "ip route show proto 177")] {
        wait_for(what, Duration::from_secs(5), || {
            let said = run(&net, command);
            if said.contains(what) { Ok(()) } else { Err(said + &net.router.log()) }
        })
        .unwrap();
    }
}

const RULES: &str = r#"
[interface.red]
kind = "bridge"
[[route]]
to = "0.0.0.0/0"
via = "10.2.0.3"
table = 100
[[rule]]
priority = 100
from = "10.1.0.0/16"
in = "left"
not = true
mark = 0x10
mask = 0xff
protocol = "tcp"
source_ports = "1024-65534"
ports = "443"
table = 100
suppress_prefix_length = 0
[[rule]]
priority = 101
tos = 16
action = "unreachable"
[[rule]]
priority = 102
family = "ipv6"
out = "right"
goto = 200
[[rule]]
priority = 103
from = "172.20.0.0/16"
table = 100
"#;

#[test]
fn rules_are_those_of_the_file_and_others_stay() {
    let mut net = Line::stopped("own-rules", &file("")).started();
    if !net.router.is_bifrost() {
        return;
    }
    let run = |net: &Line, commands: &str| net.router.host().run(commands).unwrap();
    // One of the same priority as one of the file, and one that is as the file says.
    run(
        &net,
        "ip rule add priority 101 from 192.0.2.99 prohibit
         ip rule add priority 103 from 172.20.0.0/16 table 100 protocol static",
    );
    let first = "not from 10.1.0.0/16 iif left fwmark 0x10/0xff ipproto 6 sport 1024-65534 dport 443 table 100 suppress_prefixlength 0";
    let ping = Ping::start(&net.customer, SERVER[0], Duration::from_millis(10)).unwrap();
    reload(
        &net.router,
        RULES,
        &[
            "red is made, a bridge",
            "red is set up",
            "route 0.0.0.0/0 in table 100 is added via 10.2.0.3",
            &format!("rule 100 (IPv4) is added: {first}"),
            "rule 101 (IPv4) is added: from all tos 0x10 unreachable",
            "rule 101 (IPv6) is added: from all tos 0x10 unreachable",
            "rule 102 (IPv6) is added: from all oif right goto 200",
        ],
    );
    let rules = |net: &Line| run(net, "ip rule; ip -6 rule").replace('\t', " ");
    let has = |net: &Line, lines: &[&str]| {
        let said = rules(net);
        lines.iter().for_each(|line| assert!(said.lines().any(|it| it == *line), "{line}: {said}"));
    };
    has(
        &net,
        &[
            "100: not from 10.1.0.0/16 fwmark 0x10/0xff iif left ipproto tcp sport 1024-65534 dport 443 lookup 100 suppress_prefixlength 0 proto 177",
            "101: from all tos 0x10 unreachable proto 177",
            "101: from 192.0.2.99 prohibit",
            "102: from all oif right goto 200 [unresolved] proto 177",
            "103: from 172.20.0.0/16 lookup 100 proto static",
        ],
    );

    // One changes, one in what Linux does not tell apart, and theirs goes with the file.
    let changed = RULES
        .replace("ports = \"443\"\n", "ports = \"444\"\n")
        .replace("goto = 200", "goto = 300")
        .replace("[[rule]]\npriority = 103\nfrom = \"172.20.0.0/16\"\ntable = 100\n", "");
    reload(
        &net.router,
        &changed,
        &[
            &format!("rule 100 (IPv4) is added: {}", first.replace("443", "444")),
            &format!("rule 100 (IPv4) is removed: {first}"),
            "rule 103 (IPv4) is removed: from 172.20.0.0/16 table 100",
            "rule 102 (IPv6) is removed: from all oif right goto 200",
            "rule 102 (IPv6) is added: from all oif right goto 300",
        ],
    );
    let left = rules(&net);
    assert!(!left.contains("103:") && !left.contains("dport 443") && left.contains("192.0.2.99"), "{left}");
    // What Linux refuses in the end leaves all rules as they were.
    let vrf = changed.clone() + "[[rule]]\npriority = 9\nvrf = \"gone\"\n";
    refused(&net.router, &vrf, "[[rule]] 9: there is no VRF gone");
    // (Linux takes this one for the same as one without realms, which the file cannot say.)
    run(&net, "ip rule add priority 120 table 101 realms 5 protocol 177");
    let late = changed.replace("444", "445") + "[[rule]]\npriority = 120\ntable = 101\nfamily = \"ipv4\"\n";
    refused(
        &net.router,
        &late,
        "Linux refuses that rule 120 (IPv4) is added: from all table 101: File exists",
    );
    run(&net, "ip rule delete priority 120");
    let ping = ping.stop();
    assert!(ping.sent > 20 && ping.lost() == 0, "{ping:?}");

    // After any end they are known, and one of them that was left behind goes.
    net.router.kill_nine();
    net.router.configure(&file("[[rule]]\npriority = 101\naction = \"prohibit\"\ntos = 8\n")).unwrap();
    net.router.restart().unwrap();
    let mine: Vec<String> =
        rules(&net).lines().filter(|line| line.contains("proto 177")).map(str::to_owned).collect();
    assert_eq!(mine, ["101: from all tos 0x08 prohibit proto 177"; 2]);
    assert!(rules(&net).contains("101: from 192.0.2.99 prohibit"));
}

const ABOVE: &str = r#"
[interface.mv0]
kind = "macvlan"
parent = "a0"
mode = "private"
mac = "02:00:00:00:00:0a"
addresses = ["192.0.2.1/24"]
[interface.vx100]
kind = "vxlan"
vni = 100
local = "10.2.0.1"
remote = "10.2.0.2"
addresses = ["198.51.100.1/24", "2001:db8:9::1/64"]
[interface.vx101]
kind = "vxlan"
vni = 101
remote = "239.1.1.1"
parent = "a0"
port = 4790
learning = false
[interface.lan]
kind = "bridge"
members = ["vx101"]
"#;

#[test]
fn macvlans_and_vxlans_lie_on_others() {
    let mut net = Line::stopped("own-above", &file("")).started();
    if !net.router.is_bifrost() {
        return;
    }
    let run = |host: &lab::Host, commands: &str| host.run(commands).unwrap();
    run(net.router.host(), "ip link add a0 type veth peer name a1; ip link set a1 up");
    run(
        &net.server,
        "ip link add vx type vxlan id 100 local 10.2.0.2 remote 10.2.0.1 dstport 4789
         ip address add 198.51.100.2/24 dev vx; ip link set vx up",
    );
    reload(
        &net.router,
        ABOVE,
        &[
            "lan is made, a bridge",
            "vx100 is made, VXLAN 100 to 10.2.0.2",
            "mv0 is made, a macvlan (private) on a0",
            "vx101 is made, VXLAN 101 on a0 to 239.1.1.1",
            "vx101 joins lan",
            "a0 is set up",
            "lan is set up",
            "vx100 is set up",
            "mv0 is set up",
            "vx101 is set up",
            "vx100: address 198.51.100.1/24 is added",
            "vx100: address 2001:db8:9::1/64 is added",
            "mv0: address 192.0.2.1/24 is added",
        ],
    );
    let has = |net: &Line, command: &str, texts: &[&str]| {
        let said = run(net.router.host(), command);
        texts.iter().for_each(|text| assert!(said.contains(text), "{text}: {said}"));
    };
    has(&net, "ip -d link show mv0", &["macvlan mode private", "02:00:00:00:00:0a", "group 45552", ",UP"]);
    has(&net, "ip -d link show vx100", &["vxlan id 100 remote 10.2.0.2 local 10.2.0.1", "dstport 4789"]);
    has(&net, "ip -d link show vx101", &["group 239.1.1.1 dev a0", "dstport 4790 nolearning", "master lan"]);
    net.server.run("ping -c 3 -i 0.2 -W 2 198.51.100.1").unwrap();

    // What lies on one that goes is made again with it.
    let changed = ABOVE.replace("\"private\"", "\"bridge\"").replace("vni = 101", "vni = 102");
    reload(
        &net.router,
        &changed,
        &[
            "vx101 is deleted",
            "mv0 is deleted",
            "mv0 is made, a macvlan (bridge) on a0",
            "vx101 is made, VXLAN 102 on a0 to 239.1.1.1",
            "vx101 joins lan",
            "mv0 is set up",
            "vx101 is set up",
            "mv0: address 192.0.2.1/24 is added",
        ],
    );
    let twice = changed.clone() + "[interface.vx9]\nkind = \"vxlan\"\nvni = 9\nparent = \"none\"\n";
    refused(&net.router, &twice, "[interface.vx9]: there is no interface none");
    run(net.router.host(), "ip link add theirs type vxlan id 7 dstport 4789");
    let taken = changed.replace("\"bridge\"\nmac", "\"vepa\"\nmac")
        + "[interface.vx9]\nkind = \"vxlan\"\nvni = 7\naddresses = [\"10.9.0.1/24\"]\n";
    refused(&net.router, &taken, "Linux refuses that vx9 is made, VXLAN 7: ");

    net.router.kill_nine();
    net.router.configure(&file("")).unwrap();
    net.router.restart().unwrap();
    let left = state(&net.router);
    assert!(!left.contains("mv0") && !left.contains("vx10") && left.contains("theirs"), "{left}");
}
