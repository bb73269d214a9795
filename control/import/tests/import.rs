//! What comes of texts: the file, and what is missing in it. That the plan of it is empty with real
//! daemons is a system test.

#[path = "../../frr/tests/naive/file.rs"]
mod file;

use std::collections::BTreeSet;
use std::path::Path;

use chance::Random;
use config::{Machine, Router};
use frr::{Config, Owned, diff, render, render_for};
use import::{Draft, Texts, hidden};

fn read(text: &str) -> Router {
    Router::read("router.toml", text, &Machine::this()).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn body(text: &str) -> String {
    let (_, body) = text.split_once("without_ports = \"on\"\n").unwrap();
    let lines = body.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

fn left(found: &import::Imported) -> Vec<String> {
    found.left.iter().map(ToString::to_string).collect()
}

/// What is told when a file is put in force on an FRR that has this.
fn plan(running: &str, found: &str) -> Vec<String> {
    let (router, running) = (read(found), Config::parse(running));
    let owned = Owned::of(&config::Routing::default(), &router.routing);
    let commands = diff(&owned.part(&running), &render_for(&router.routing, &running));
    commands.into_iter().map(|command| command.line).collect()
}

#[test]
fn what_linux_has_is_a_file() {
    let link = |name: &str, more: &str| {
        format!(
            r#"{{"ifname":"{name}","flags":["UP"],"mtu":1500,"group":"default","link_type":"ether",
                "address":"02:00:00:00:00:0{}"{more}}}"#,
            name.len() % 10
        )
    };
    let info =
        |kind: &str, data: &str| format!(r#","linkinfo":{{"info_kind":"{kind}","info_data":{{{data}}}}}"#);
    let given = |address: &str, length: u8| {
        format!(r#"{{"local":"{address}","prefixlen":{length},"scope":"global"}}"#)
    };
    let links = [
        r#"{"ifname":"lo","flags":["LOOPBACK","UP"],"mtu":65536,"address":"00:00:00:00:00:00","addr_info":[
            {"local":"127.0.0.1","prefixlen":8,"scope":"host"},{"local":"198.51.100.9","prefixlen":32,"scope":"global"}]}"#
            .to_owned(),
        link(
            "eth10",
            &format!(
                r#","ifalias":"to the \"world\"","addr_info":[{},
                {{"local":"10.9.0.5","prefixlen":24,"scope":"global","dynamic":true}},
                {{"local":"10.8.0.1","address":"10.8.0.2","prefixlen":32,"scope":"global"}},
                {{"local":"fe80::1","prefixlen":64,"scope":"link"}}]"#,
                given("192.0.2.2", 30)
            ),
        ),
        link("eth2", &format!(r#","ifalias":"the office","addr_info":[{}]"#, given("2001:db8::2", 64))),
        link("eth3", r#","master":"lan""#),
        link("eth4", r#","master":"bond0""#),
        link("bond0", &info("bond", r#""mode":"802.3ad","miimon":100,"ad_lacp_rate":"fast","xmit_hash_policy":"layer3+4""#)),
        link("lan", &(info("bridge", r#""stp_state":0"#) + r#","addr_info":[]"#)),
        link("eth2.7", &(info("vlan", r#""protocol":"802.1Q","id":7"#) + r#","link":"eth2","master":"red""#)),
        r#"{"ifname":"red","flags":["UP"],"mtu":65575,"linkinfo":{"info_kind":"vrf","info_data":{"table":10}}}"#
            .to_owned(),
        link("gre1", &(info("gre", r#""local":"192.0.2.2","remote":"203.0.113.1","ttl":64"#)))
            .replace("1500", "1400"),
        r#"{"ifname":"gre0","flags":[],"mtu":1476,"linkinfo":{"info_kind":"gre","info_data":{}}}"#.to_owned(),
        link("wg0", &info("wireguard", "")),
        link("tap0", &info("tun", "")),
        link("docker0", &info("bridge", "")),
        link("veth7", r#","master":"docker0""#),
        r#"{"ifname":"eth5","flags":[],"mtu":1500}"#.to_owned(),
    ];
    let route = |words: &str| format!(r#"{{"type":"1","flags":[],"scope":"0",{words}}}"#);
    let four = [
        route(r#""dst":"default","gateway":"192.0.2.1","dev":"eth10","table":"254","protocol":"3""#),
        route(r#""dst":"10.0.0.0/8","gateway":"192.0.2.1","dev":"eth10","table":"254","protocol":"186""#),
        route(r#""dst":"192.0.2.0/30","dev":"eth10","table":"254","protocol":"2","prefsrc":"192.0.2.2""#),
        route(r#""dst":"10.1.0.0/16","gateway":"198.18.0.1","dev":"eth10","table":"254","protocol":"4","metric":5"#)
            .replace("\"flags\":[]", "\"flags\":[\"onlink\"]"),
        route(r#""dst":"10.2.0.0/16","gateway":"10.7.0.1","dev":"eth2.7","table":"10","protocol":"4""#),
        route(r#""dst":"10.3.0.0/16","table":"254","protocol":"3","metric":7"#).replace("\"1\"", "\"6\""),
    ];
    let six = [route(
        r#""dst":"2001:db8:9::/48","table":"254","protocol":"3","metric":1024,"pref":"medium","nexthops":[
        {"gateway":"fe80::7","dev":"eth2","weight":1,"flags":[]},{"gateway":"fe80::8","dev":"eth2","weight":1,"flags":[]}]"#,
    )];
    let list = |texts: &[String]| format!("[{}]", texts.join(","));
    let rules = r#"[{"priority":0,"src":"all","table":"local"},{"priority":99,"src":"10.0.0.0","srclen":8,"table":"7"},
        {"priority":32766,"src":"all","table":"main"},{"priority":32767,"src":"all","table":"default"}]"#;
    let texts = Texts {
        links: list(&links),
        routes: [list(&four), list(&six)],
        rules: [rules.to_owned(), String::new()],
        set: BTreeSet::from(["eth2".to_owned(), "eth4".to_owned()]),
    };
    let mut draft = Draft::default();
    draft.linux(&texts).unwrap();
    let found = draft.finish(None);
    read(&found.annotated());
    let expected = r#"[interface.lo]
addresses = ["198.51.100.9/32"]
[interface.red]
kind = "vrf"
table = 10
[interface.eth2]
description = "the office"
mac = "02:00:00:00:00:04"
addresses = ["2001:db8::2/64"]
[interface.eth5]
enabled = false
[interface.wg0]
[interface.bond0]
kind = "bond"
mode = "802.3ad"
lacp_rate = "fast"
miimon = 100
members = ["eth4"]
[interface."eth2.7"]
kind = "vlan"
parent = "eth2"
id = 7
vrf = "red"
[interface.lan]
kind = "bridge"
members = ["eth3"]
[interface.gre1]
kind = "gre"
local = "192.0.2.2"
remote = "203.0.113.1"
mtu = 1400
[[route]]
to = "default"
via = "192.0.2.1"
[[route]]
to = "10.2.0.0/16"
via = "10.7.0.1"
device = "eth2.7"
vrf = "red"
[[route]]
to = "10.3.0.0/16"
kind = "blackhole"
metric = 7
[[route]]
to = "2001:db8:9::/48"
via = ["fe80::7", "fe80::8"]
device = "eth2"
"#;
    assert_eq!(body(&found.text), expected, "{}", found.text);
    let expected = [
        "Linux: bond0: xmit_hash_policy layer3+4: there is no key for it: Linux keeps it while the interface is there",
        "Linux: docker0: Docker makes it, and goes on doing so",
        "Linux: eth10: address 10.9.0.5/24: it comes by DHCP, and who asked for it goes on",
        "Linux: eth10: address 10.8.0.1/32 with the other end 10.8.0.2: there is no key for it, and it stays as it is",
        "Linux: tap0: a program made it (tun), and goes on doing so",
        "Linux: veth7: Docker makes it, and goes on doing so",
        "Linux: wg0: Bifrost makes no wireguard: who made it must go on doing so",
        "Linux: ip route 10.1.0.0/16 table 254: there is no key for onlink: it stays Linux's",
        "Linux: ip rule 99: src 10.0.0.0 srclen 8 table 7: there is no key for it: it stays Linux's",
        "router.toml: [interface.eth10]: description: it cannot be a description",
    ];
    assert_eq!(left(&found), expected);
    for line in expected {
        assert!(found.annotated().contains(&format!("# - {line}\n")), "{line}");
    }
    // What a file says already is not said again.
    let base = "[[port]]\nname = \"eth0\"\n\n# Mine.\n[interface.lan]\nkind = \"bridge\"\n";
    let mut draft = Draft::default();
    draft.linux(&texts).unwrap();
    let found = draft.finish(Some(base));
    assert!(found.text.starts_with(base) && read(&found.text).interfaces.len() == 9, "{}", found.text);
}

/// Whatever FRR can be told by the sections is read back as them.
#[test]
fn what_frr_was_told_by_a_file_is_that_file() {
    let mut random = Random(23);
    let mut lines = 0;
    for round in 0..60 {
        let said = file::random(&mut random);
        let running = render(&said).text();
        lines += running.lines().count();
        let mut draft = Draft::default();
        draft.frr(&running, Path::new("/run/frr"));
        let found = draft.finish(None);
        assert_eq!(plan(&running, &found.text), [""; 0], "round {round}\n{running}\n{}", found.text);
        let router = read(&found.text);
        assert_eq!(render(&router.routing).text(), render(&read(&found.text).routing).text());
        // FRR's lines are left to what no section can say.
        let block = Config::parse(&said.lines);
        let beyond = Config::parse(&router.routing.lines);
        assert!(beyond.0.len() <= block.0.len() + 2, "round {round}\n{running}\n{}", found.text);
    }
    assert!(lines > 500, "{lines}");
}

const FRR: &str = "Building configuration...

Current configuration:
!
frr version 8.4.4
frr defaults traditional
hostname border
log syslog informational
no ipv6 forwarding
service integrated-vtysh-config
!
ip route 10.77.0.0/16 Null0
!
interface eth1
 description the office
 ip address 192.0.2.9/24
 ip ospf area 0
 ip ospf authentication message-digest
 ip ospf message-digest-key 1 md5 geheim1
 ip ospf cost 7
exit
!
router bgp 65001
 bgp router-id 192.0.2.1
 neighbor INSIDE peer-group
 neighbor INSIDE remote-as internal
 neighbor INSIDE password geheim2
 neighbor 10.0.0.9 peer-group INSIDE
 neighbor 192.0.2.7 remote-as 65007
 neighbor 192.0.2.7 description the first one
 neighbor 192.0.2.7 password geheim3
 neighbor 192.0.2.7 timers 10 30
 neighbor 192.0.2.7 local-as 65099
 neighbor 2001:db8::7 remote-as external
 !
 address-family ipv4 unicast
  network 198.51.100.0/24
  redistribute connected metric 5 route-map OUT
  neighbor INSIDE next-hop-self
  neighbor 192.0.2.7 prefix-list ANY in
  neighbor 192.0.2.7 route-map OUT out
  neighbor 192.0.2.7 filter-list GONE out
  no neighbor 2001:db8::7 activate
 exit-address-family
 !
 address-family ipv6 unicast
  neighbor 2001:db8::7 activate
  neighbor 2001:db8::7 soft-reconfiguration inbound
 exit-address-family
exit
!
router ospf
 ospf router-id 192.0.2.1
 network 10.0.0.0/8 area 0
 area 1 stub no-summary
 default-information originate metric 7 metric-type 1
exit
!
ip prefix-list ANY seq 5 permit any
ip prefix-list OWN seq 5 permit 198.51.100.0/24
ip prefix-list OWN seq 10 permit 203.0.113.0/24 le 28
!
route-map OUT permit 10
 match ip address prefix-list OWN
 set community 65001:7 additive
exit
!
route-map ODD permit 10
 match ip address prefix-list ANY
exit
!
line vty
!
end
";

#[test]
fn what_others_told_frr_stays_as_it_is() {
    let mut draft = Draft::default();
    draft.frr(FRR, Path::new("/run/frr"));
    let found = draft.finish(None);
    let router = read(&found.text);
    assert_eq!(plan(FRR, &found.text), [""; 0], "{}", found.text);
    let expected = r#"[routing]
frr = '''
ip route 10.77.0.0/16 Null0
interface eth1
 description the office
 ip address 192.0.2.9/24
router bgp 65001
 neighbor INSIDE peer-group
 neighbor INSIDE remote-as internal
 neighbor INSIDE password geheim2
 neighbor 10.0.0.9 peer-group INSIDE
 neighbor 192.0.2.7 local-as 65099
 address-family ipv4 unicast
  neighbor INSIDE next-hop-self
  neighbor 192.0.2.7 filter-list GONE out
router ospf
 network 10.0.0.0/8 area 0.0.0.0
ip prefix-list ANY seq 5 permit any
route-map ODD permit 10
 match ip address prefix-list ANY
'''
[bgp]
as = 65001
router_id = "192.0.2.1"
[bgp.ipv4]
networks = ["198.51.100.0/24"]
redistribute = [{ from = "connected", metric = 5, route_map = "OUT" }]
[bgp.neighbour."192.0.2.7"]
remote_as = 65007
description = "the first one"
password = "geheim3"
keepalive = "10s"
hold = "30s"
[bgp.neighbour."192.0.2.7".ipv4]
prefix_list_in = "ANY"
route_map_out = "OUT"
[bgp.neighbour."2001:db8::7"]
remote_as = "external"
[bgp.neighbour."2001:db8::7".ipv6]
soft_reconfiguration = true
[ospf]
router_id = "192.0.2.1"
[ospf.default]
metric = 7
metric_type = 1
[ospf.area."0.0.0.1"]
kind = "totally-stub"
[ospf.interface.eth1]
area = "0.0.0.0"
authentication = { key_id = 1, key = "geheim1" }
cost = 7
[policy.prefix_list]
OWN = ["permit 198.51.100.0/24", "permit 203.0.113.0/24 le 28"]
[[policy.route_map.OUT]]
seq = 10
match = { prefix_list = "OWN" }
set = { add_community = ["65001:7"] }
"#;
    assert_eq!(body(&found.text), expected, "{}", found.text);
    assert!(router.routing.ospf6.is_none());
    assert!(!hidden(&found.text).contains("geheim"), "{}", hidden(&found.text));
    assert_eq!(
        left(&found),
        [
            "FRR: no ipv6 forwarding: it is a sysctl of Linux's",
            "FRR: hostname border: who runs FRR sets it, in /etc/frr",
            "FRR: log syslog informational: who runs FRR sets it, in /etc/frr",
            "FRR: service integrated-vtysh-config: who runs FRR sets it, in /etc/frr",
            "FRR: line vty: who runs FRR sets it, in /etc/frr",
        ]
    );
}

const INTERFACES: &str = "# The border.
source-directory interfaces.d
auto lo eth0 eth1 bond0 bond0.7 vlan8 br0
iface lo inet loopback
    up ip addr add 198.51.100.9/32 dev lo

iface eth0 inet static
    address 192.0.2.2
    netmask 255.255.255.252
    gateway 192.0.2.1
    mtu 9000
    up ip route add 10.0.0.0/8 \\
        via 192.0.2.1 metric 7
    up iptables-restore /etc/rules
    dns-nameservers 192.0.2.53
iface eth0 inet6 static
    address 2001:db8::2/64
    gateway fe80::1
iface eth0:1 inet static
    address 192.0.2.66/32
iface eth1 inet dhcp
iface bond0 inet manual
    bond-slaves eth2 eth3
    bond-mode 4
    bond-miimon 100
iface bond0.7 inet static
    address 10.7.0.1/24
iface vlan8 inet static
    vlan-raw-device bond0
    address 10.8.0.1/24
iface br0 inet manual
    bridge_ports eth4
    bridge_stp off
iface ppp0 inet ppp
    provider isp
";

#[test]
fn what_ifupdown_makes_is_a_file() {
    let mut draft = Draft::default();
    draft.interfaces("/etc/network/interfaces", INTERFACES, &mut |pattern, is_folder| {
        assert!((pattern, is_folder) == ("/etc/network/interfaces.d", true));
        Ok(vec![("d/more".to_owned(), "iface eth9 inet manual\n".to_owned())])
    });
    let found = draft.finish(None);
    read(&found.annotated());
    let expected = r#"[interface.lo]
addresses = ["198.51.100.9/32"]
[interface.eth0]
mtu = 9000
addresses = ["192.0.2.2/30", "2001:db8::2/64", "192.0.2.66/32"]
[interface.eth1]
[interface.eth9]
enabled = false
[interface.bond0]
kind = "bond"
mode = "802.3ad"
miimon = 100
members = ["eth2", "eth3"]
[interface."bond0.7"]
kind = "vlan"
parent = "bond0"
id = 7
addresses = ["10.7.0.1/24"]
[interface.vlan8]
kind = "vlan"
parent = "bond0"
id = 8
addresses = ["10.8.0.1/24"]
[interface.br0]
kind = "bridge"
members = ["eth4"]
[[route]]
to = "default"
via = "192.0.2.1"
[[route]]
to = "10.0.0.0/8"
via = "192.0.2.1"
metric = 7
[[route]]
to = "default"
via = "fe80::1"
device = "eth0"
"#;
    assert_eq!(body(&found.text), expected, "{}", found.text);
    let at = |line: usize, what: &str| format!("/etc/network/interfaces:{line}: {what}");
    let odd = "there is no key for it, or it is not understood";
    assert_eq!(
        left(&found),
        [
            at(14, &format!("eth0: up iptables-restore /etc/rules: {odd}")),
            at(15, &format!("eth0: dns-nameservers 192.0.2.53: {odd}")),
            at(21, "eth1: inet dhcp: there is no key for a client: who asks for addresses now must go on"),
            at(34, "ppp0: ppp: this method has no keys"),
        ]
    );
}

const NETPLAN: &str = "network:
  version: 2
  renderer: networkd
  ethernets:
    eth0:
      addresses: [192.0.2.2/30, '2001:db8::2/64']
      mtu: 9000
      nameservers: {addresses: [192.0.2.53]}
      routes:
        - to: default
          via: 192.0.2.1
        - {to: 10.0.0.0/8, via: 192.0.2.1, metric: 7}
        - {to: 10.1.0.0/16, via: 192.0.2.1, on-link: true}
    eth1:
      dhcp4: true
    card:
      match: {macaddress: 02:00:00:00:00:01}
    eth2: {}
  bonds:
    bond0:
      interfaces: [eth2, eth3]
      parameters:
        mode: 802.3ad
        mii-monitor-interval: 100
        transmit-hash-policy: layer3+4
  vlans:
    bond0.7:
      id: 7
      link: bond0
      addresses:
      - 10.7.0.1/24
  vrfs:
    red:
      table: 10
      interfaces: [bond0.7]
      routes:
      - to: default
        via: 10.7.0.2
  tunnels:
    wg0: {mode: wireguard}
";

#[test]
fn what_netplan_makes_is_a_file() {
    let mut draft = Draft::default();
    draft.netplan("01.yaml", NETPLAN);
    draft.netplan("02.yaml", "network:\n\tethernets: {}\n");
    let found = draft.finish(None);
    read(&found.annotated());
    let expected = r#"[interface.red]
kind = "vrf"
table = 10
[interface.eth0]
mtu = 9000
addresses = ["192.0.2.2/30", "2001:db8::2/64"]
[interface.eth1]
[interface.eth2]
[interface.bond0]
kind = "bond"
mode = "802.3ad"
miimon = 100
members = ["eth2", "eth3"]
[interface."bond0.7"]
kind = "vlan"
parent = "bond0"
id = 7
vrf = "red"
addresses = ["10.7.0.1/24"]
[[route]]
to = "default"
via = "192.0.2.1"
[[route]]
to = "10.0.0.0/8"
via = "192.0.2.1"
metric = 7
[[route]]
to = "default"
via = "10.7.0.2"
vrf = "red"
"#;
    assert_eq!(body(&found.text), expected, "{}", found.text);
    let odd = "there is no key for it, or it is not understood";
    assert_eq!(
        left(&found),
        [
            format!("01.yaml:8: eth0: nameservers: {odd}"),
            "01.yaml:13: eth0: a route: there is no key for on-link".to_owned(),
            "01.yaml:15: eth1: dhcp4: there is no key for a client: who asks for addresses now must go on"
                .to_owned(),
            "01.yaml:17: card: which interface it matches is not known: name the section as the interface"
                .to_owned(),
            format!("01.yaml:25: bond0: transmit-hash-policy: {odd}"),
            "01.yaml:40: wg0: this is none of the tunnels that Bifrost makes".to_owned(),
            "02.yaml:2: the file: YAML is not indented by tabs".to_owned(),
        ]
    );
}

const VYOS: &str = "interfaces {
    bonding bond0 {
        member {
            interface eth1
            interface eth2
        }
        mode \"802.3ad\"
        vif 7 {
            address \"10.7.0.1/24\"
            vrf \"red\"
        }
    }
    ethernet eth0 {
        address 192.0.2.2/30
        address dhcp
        description \"to the world\"
        hw-id 52:54:00:00:00:01
        offload {
            gro
        }
    }
    loopback lo {
    }
    wireguard wg0 {
        private-key geheim
    }
}
protocols {
    bgp {
        system-as 65001
    }
    static {
        route 0.0.0.0/0 {
            next-hop 192.0.2.1 {
            }
            next-hop 192.0.2.3 {
            }
        }
        route 10.0.0.0/8 {
            blackhole {
                distance 250
            }
        }
        route 10.9.0.0/16 {
            dhcp-interface eth0
        }
    }
}
system {
    host-name vyos
}
vrf {
    name red {
        table 1000
    }
}
// Warning: Do not remove the following line.
";

#[test]
fn what_vyos_has_is_a_file_as_far_as_it_maps() {
    let mut draft = Draft::default();
    draft.vyos("config.boot", VYOS);
    let found = draft.finish(None);
    read(&found.annotated());
    let expected = r#"[interface.lo]
[interface.red]
kind = "vrf"
table = 1000
[interface.eth0]
description = "to the world"
addresses = ["192.0.2.2/30"]
[interface.bond0]
kind = "bond"
mode = "802.3ad"
members = ["eth1", "eth2"]
[interface."bond0.7"]
kind = "vlan"
parent = "bond0"
id = 7
vrf = "red"
addresses = ["10.7.0.1/24"]
[[route]]
to = "default"
via = ["192.0.2.1", "192.0.2.3"]
[[route]]
to = "10.0.0.0/8"
kind = "blackhole"
metric = 250
"#;
    assert_eq!(body(&found.text), expected, "{}", found.text);
    assert_eq!(
        left(&found),
        [
            "config.boot:15: eth0: address dhcp: there is no key for a client",
            "config.boot:18: eth0 offload: there is no key for it here",
            "config.boot:24: interfaces wireguard wg0: there is no key for it here",
            "config.boot:29: protocols bgp: there is no key for it here",
            "config.boot:44: protocols static route 10.9.0.0/16: there is no key for it here",
            "config.boot:50: system host-name vyos: there is no key for it here",
        ]
    );
    assert!(!found.annotated().contains("geheim"));
}
