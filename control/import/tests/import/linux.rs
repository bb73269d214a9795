//! What Linux has.

use std::collections::{BTreeMap, BTreeSet};

use config::{PrivateKey, PublicKey, WireGuard, WireGuardPeer};
use import::{Draft, Texts};

use crate::{comes_to, read};

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
        link("wg0", &info("wireguard", "")).replace("1500", "1420"),
        link("wg1", &info("wireguard", "")).replace("1500", "1420"),
        link("gen0", &info("geneve", "")),
        link("mv0", &(info("macvlan", r#""mode":"private""#) + r#","link":"eth2""#)),
        link("vx0", &info("vxlan", r#""id":100,"group6":"ff05::1","link":"eth2","port":4790,"learning":false,"ttl":5,"ageing":300"#))
            .replace("1500", "1430"),
        link("six0", &info("ip6tnl", r#""proto":"ipip6","local":"2001:db8::2","remote":"2001:db8::9","ttl":64"#))
            .replace("1500", "1452"),
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
        {"priority":100,"not":null,"src":"all","dst":"10.9.9.9","iif":"eth2","iif_detached":null,"fwmark":"0x10","fwmask":"0xff",
        "ipproto":"ipproto-6","sport_start":1000,"sport_end":2000,"dport":53,"table":"10","suppress_prefixlen":0,"protocol":"4"},
        {"priority":101,"src":"all","action":"7","protocol":"3"},{"priority":102,"src":"all","goto":32766,"protocol":"177"},
        {"priority":103,"src":"all","uid_start":0,"uid_end":5,"table":"7","protocol":"3"},
        {"priority":104,"src":"all","table":"7","protocol":"11"},{"priority":1000,"src":"all","l3mdev":null,"protocol":"2"},
        {"priority":32766,"src":"all","table":"main"},{"priority":32767,"src":"all","table":"default"}]"#;
    let peer = WireGuardPeer {
        name: "peer1".to_owned(),
        public_key: PublicKey([2; 32]),
        preshared_key: Some(PrivateKey::new([3; 32])),
        endpoint: "192.0.2.9:51820".parse().ok(),
        allowed_ips: ["10.9.0.0/16", "2001:db8:9::/48"].map(|net| net.parse().unwrap()).into(),
        keepalive: 25,
    };
    let own =
        WireGuard { private_key: PrivateKey::new([1; 32]), listen_port: Some(51820), peers: vec![peer] };
    let texts = Texts {
        wireguard: BTreeMap::from([("wg1".to_owned(), own)]),
        links: list(&links),
        routes: [list(&four), list(&six)],
        rules: [rules.to_owned(), r#"[{"priority":101,"src":"all","action":"7","protocol":"3"}]"#.to_owned()],
        set: BTreeSet::from(["eth2".to_owned(), "eth4".to_owned()]),
    };
    let mut draft = Draft::default();
    draft.linux(&texts).unwrap();
    let file = r#"[interface.lo]
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
[interface.gen0]
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
[interface.mv0]
kind = "macvlan"
parent = "eth2"
mode = "private"
[interface.lan]
kind = "bridge"
members = ["eth3"]
[interface.vx0]
kind = "vxlan"
vni = 100
remote = "ff05::1"
parent = "eth2"
port = 4790
learning = false
[interface.wg1]
kind = "wireguard"
private_key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
listen_port = 51820
[interface.wg1.peer.peer1]
public_key = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
preshared_key = "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM="
endpoint = "192.0.2.9:51820"
allowed_ips = ["10.9.0.0/16", "2001:db8:9::/48"]
keepalive = 25
[interface.gre1]
kind = "gre"
local = "192.0.2.2"
remote = "203.0.113.1"
mtu = 1400
[interface.six0]
kind = "ipip6"
local = "2001:db8::2"
remote = "2001:db8::9"
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
[[rule]]
priority = 99
from = "10.0.0.0/8"
table = 7
[[rule]]
priority = 100
not = true
to = "10.9.9.9/32"
in = "eth2"
mark = 0x10
mask = 0xff
protocol = "tcp"
source_ports = "1000-2000"
ports = "53"
vrf = "red"
suppress_prefix_length = 0
[[rule]]
priority = 101
action = "unreachable"
[[rule]]
priority = 102
family = "ipv4"
goto = 32766
"#;
    let missing = [
        "Linux: bond0: xmit_hash_policy layer3+4: there is no key for it: Linux keeps it while the interface is there",
        "Linux: docker0: Docker makes it, and goes on doing so",
        "Linux: eth10: address 10.9.0.5/24: it comes by DHCP, and who asked for it goes on",
        "Linux: eth10: address 10.8.0.1/32 with the other end 10.8.0.2: there is no key for it, and it stays as it is",
        "Linux: gen0: Bifrost makes no geneve: who made it must go on doing so",
        "Linux: tap0: a program made it (tun), and goes on doing so",
        "Linux: veth7: Docker makes it, and goes on doing so",
        "Linux: vx0: ttl 5: there is no key for it: Linux keeps it while the interface is there",
        "Linux: wg0: Linux tells its keys to root alone: who made it must go on doing so",
        "Linux: ip route 10.1.0.0/16 table 254: there is no key for onlink: it stays Linux's",
        "Linux: ip rule 103: there is no key for uidrange: it stays Linux's",
        "router.toml: [interface.eth10]: description: it cannot be a description",
    ];
    let found = comes_to(draft, file, &missing);
    for line in missing {
        assert!(found.annotated().contains(&format!("# - {line}\n")), "{line}");
    }
    // What a file says already is not said again.
    let base = "[[port]]\nname = \"eth0\"\n\n# Mine.\n[interface.lan]\nkind = \"bridge\"\n";
    let mut draft = Draft::default();
    draft.linux(&texts).unwrap();
    let found = draft.finish(Some(base));
    assert!(found.text.starts_with(base) && read(&found.text).interfaces.len() == 14, "{}", found.text);
}
