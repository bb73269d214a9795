//! Interfaces of every kind that a file can have are made in Linux, changed, and removed. (One
//! host, with cables e0-f0, e1-f1 and e2-f2.)

use lab::{Host, Lab, Router, inside};

use crate::network::turn;

const FILE: &str = r#"
without_ports = "on"
[interface.bond0]
kind = "bond"
members = ["e0", "e1"]
mode = "802.3ad"
miimon = 100
lacp_rate = "fast"
addresses = ["192.0.2.1/24", "2001:db8:1::1/64"]
[interface."bond0.10"]
kind = "vlan"
parent = "bond0"
id = 10
vrf = "red"
addresses = ["198.51.100.1/24", "2001:db8:2::1/64"]
[interface.s20]
kind = "vlan"
parent = "e2"
id = 20
protocol = "802.1ad"
[interface.red]
kind = "vrf"
table = 1001
[interface.d0]
kind = "dummy"
mac = "02:00:00:00:00:07"
addresses = ["203.0.113.1/32"]
[interface.gre7]
kind = "gre"
local = "192.0.2.1"
remote = "192.0.2.7"
key = 7
addresses = ["10.255.0.1/30"]
[interface.ipip7]
kind = "ipip"
local = "192.0.2.1"
remote = "192.0.2.7"
ttl = 0
[interface.sit7]
kind = "sit"
local = "192.0.2.1"
remote = "192.0.2.8"
[interface.tap7]
kind = "gretap"
local = "192.0.2.1"
remote = "192.0.2.9"
key = 9
[interface.six7]
kind = "ip6gre"
local = "2001:db8:1::1"
remote = "2001:db8:1::7"
key = 7
[interface.six8]
kind = "ip6tnl"
local = "2001:db8:1::1"
remote = "2001:db8:1::8"
[interface.six9]
kind = "ipip6"
local = "2001:db8:1::1"
remote = "2001:db8:1::9"
ttl = 0
[interface.six10]
kind = "ip6ip6"
local = "2001:db8:1::1"
remote = "2001:db8:1::a"
[[rule]]
priority = 50
in = "e2"
vrf = "red"
[[route]]
to = "10.9.0.0/16"
via = "198.51.100.2"
vrf = "red"
[[route]]
to = "2001:db8:9::/48"
via = "2001:db8:2::2"
vrf = "red"
[[route]]
to = "0.0.0.0/0"
kind = "unreachable"
metric = 4278198272
vrf = "red"
[[route]]
to = "10.10.0.0/16"
via = "10.255.0.2"
"#;

fn has(host: &Host, command: &str, texts: &[&str]) {
    let said = host.run(command).unwrap();
    texts.iter().for_each(|text| assert!(said.contains(text), "{command}: {text}: {said}"));
}

/// A reload tells what it does, does it, and another one has nothing to do.
fn reload(router: &Router, file: &str) -> String {
    router.configure(file).unwrap();
    let told = router.ask("reload --dry-run").unwrap();
    router.ask("reload").unwrap_or_else(|wrong| panic!("{wrong}\n{told}"));
    assert_eq!(router.ask("reload --dry-run").unwrap().trim(), "nothing would change", "{told}");
    told
}

fn every_kind() {
    let _turn = turn();
    let lab = Lab::new("made").unwrap();
    let host = lab.router("router").unwrap();
    for n in 0..3 {
        host.run(&format!("ip link add e{n} type veth peer name f{n}; ip link set f{n} up")).unwrap();
    }
    let mut router = Router::start(&host, FILE).unwrap();
    let said = router.ask("reload --dry-run").unwrap();
    assert_eq!(said.trim(), "nothing would change", "{}", router.log());
    let link = |name: &str| format!("ip -d link show {name}");
    has(&host, &link("bond0"), &["mode 802.3ad", "miimon 100", "lacp_rate fast", "group 45552", ",UP"]);
    has(&host, &link("e1"), &["master bond0", ",UP"]);
    has(&host, &link("bond0.10"), &["802.1Q id 10", "master red", ",UP"]);
    has(&host, &link("s20"), &["s20@e2", "802.1ad id 20"]);
    has(&host, &link("d0"), &["dummy", "02:00:00:00:00:07"]);
    has(&host, &link("gre7"), &["gre remote 192.0.2.7 local 192.0.2.1", "ttl 64", "ikey 0.0.0.7"]);
    has(&host, &link("ipip7"), &["ipip", "ttl inherit"]);
    has(&host, &link("sit7"), &["sit", "remote 192.0.2.8"]);
    has(&host, &link("tap7"), &["gretap remote 192.0.2.9 local 192.0.2.1", "ikey 0.0.0.9"]);
    has(
        &host,
        &link("six7"),
        &["ip6gre remote 2001:db8:1::7 local 2001:db8:1::1", "hoplimit 64", "ikey 0.0.0.7"],
    );
    has(&host, &link("six8"), &["ip6tnl any remote 2001:db8:1::8"]);
    has(&host, &link("six9"), &["ip6tnl ipip6 remote 2001:db8:1::9"]);
    has(&host, &link("six10"), &["ip6tnl ip6ip6 remote 2001:db8:1::a"]);
    for family in ["-4", "-6"] {
        has(&host, &format!("ip {family} rule"), &["from all iif e2 lookup 1001 proto 177"]);
    }
    has(&host, "ip address show bond0.10", &["198.51.100.1/24", "2001:db8:2::1/64"]);
    has(
        &host,
        "ip route show vrf red",
        &["10.9.0.0/16 via 198.51.100.2 dev bond0.10", "unreachable default"],
    );
    has(&host, "ip -6 route show vrf red", &["2001:db8:9::/48 via 2001:db8:2::2"]);
    has(&host, "ip route", &["10.10.0.0/16 via 10.255.0.2 dev gre7"]);

    // One that has to go down takes what lies on it along, and gives all of it back.
    let other = FILE.replace("\"802.3ad\"\n", "\"active-backup\"\n").replace("lacp_rate = \"fast\"", "");
    let told = reload(&router, &other);
    assert!(told.contains("bond0 goes down for a moment: its mode changes"), "{told}");
    has(&host, &link("bond0"), &["mode active-backup", ",UP"]);
    has(&host, "ip address show bond0.10", &["198.51.100.1/24", "2001:db8:2::1/64"]);
    has(&host, "ip route show vrf red", &["10.9.0.0/16 via 198.51.100.2 dev bond0.10"]);

    // What is not to be changed is made anew; one leaves its VRF, and the VRF has another table.
    let other = other
        .replace("id = 20", "id = 21")
        .replace("remote = \"192.0.2.7\"\nkey = 7", "remote = \"192.0.2.9\"\nkey = 7")
        .replace("table = 1001", "table = 1002")
        .replace("vrf = \"red\"\naddresses", "addresses")
        .replace("via = \"198.51.100.2\"\nvrf = \"red\"", "via = \"198.51.100.2\"")
        .replace("via = \"2001:db8:2::2\"\nvrf = \"red\"", "via = \"2001:db8:2::2\"");
    let told = reload(&router, &other);
    for effect in [
        "s20 is deleted",
        "s20 is made, VLAN 21 (802.1ad) on e2",
        "red is made, a VRF with table 1002",
        "rule 50 (IPv6) is added: from all iif e2 table 1002",
    ] {
        assert!(told.contains(effect), "{effect}: {told}");
    }
    has(&host, "ip route", &["10.9.0.0/16 via 198.51.100.2 dev bond0.10", "10.10.0.0/16 via 10.255.0.2"]);
    has(&host, "ip route show table 1002", &["unreachable default"]);
    assert_eq!(host.run("ip route show table 1001").unwrap().trim(), "");

    // Where Linux refuses the last step, all that was deleted is there again.
    let show = "ip -d link show gre7; ip address show bond0.10 | grep inet; ip -4 route show table all";
    let before = host.run(show).unwrap();
    router
        .configure("without_ports = \"on\"\n[[route]]\nto = \"10.0.0.0/8\"\nvia = \"172.16.9.9\"\n")
        .unwrap();
    let said = router.ask("reload").unwrap_err().to_string();
    assert!(said.contains("route 10.0.0.0/8 is added via 172.16.9.9"), "{said}");
    has(&host, "ip route", &["10.9.0.0/16 via 198.51.100.2 dev bond0.10", "10.10.0.0/16 via 10.255.0.2"]);
    let routes = |text: &str| text.lines().filter(|line| line.contains("177")).count();
    assert_eq!(routes(&host.run(show).unwrap()), routes(&before));
    has(&host, &link("bond0"), &["mode active-backup", "group 45552", ",UP"]);
    has(&host, "ip address show bond0.10", &["198.51.100.1/24", "2001:db8:2::1/64"]);

    router.kill_nine();
    router.configure("without_ports = \"on\"\n").unwrap();
    router.restart().unwrap();
    let left = host.run("ip -br link show group 45552; ip route show table all proto 177").unwrap();
    assert_eq!(left.trim(), "", "{left}");
    has(&host, "ip -br link", &["e0@f0", "e2@f2"]);
}

#[test]
fn on_6_12() {
    inside!("6.12", every_kind);
}
