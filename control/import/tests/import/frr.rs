//! What FRR has.

#[path = "../../../frr/tests/naive/file.rs"]
mod file;

use std::path::Path;

use chance::Random;
use frr::{Config, Owned, diff, render, render_for};
use import::{Draft, hidden};

use crate::{comes_to, read};

/// What is told when a file is put in force on an FRR that has this.
fn plan(running: &str, found: &str) -> Vec<String> {
    let (router, running) = (read(found), Config::parse(running));
    let owned = Owned::of(&config::Routing::default(), &router.routing);
    let commands = diff(&owned.part(&running), &render_for(&router.routing, &running));
    commands.into_iter().map(|command| command.line).collect()
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
    let file = r#"[routing]
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
local_as = { as = 65099 }
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
    let missing = [
        "FRR: no ipv6 forwarding: it is a sysctl of Linux's",
        "FRR: hostname border: who runs FRR sets it, in /etc/frr",
        "FRR: log syslog informational: who runs FRR sets it, in /etc/frr",
        "FRR: service integrated-vtysh-config: who runs FRR sets it, in /etc/frr",
        "FRR: line vty: who runs FRR sets it, in /etc/frr",
    ];
    let found = comes_to(draft, file, &missing);
    assert_eq!(plan(FRR, &found.text), [""; 0], "{}", found.text);
    assert!(!hidden(&found.text).contains("geheim"), "{}", hidden(&found.text));
}
