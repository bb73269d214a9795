//! What files of netplan say.

use import::Draft;

use crate::{ODD, comes_to};

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
      dhcp4: on
      dhcp6: on
      dhcp4-overrides: {route-metric: 70}
    card:
      match: {macaddress: 02:00:00:00:00:01}
    eth2: {}
  bonds:
    bond0:
      interfaces: [eth2, eth3]
      parameters:
        mode: 802.3ad
        mii-monitor-interval: 100
        lacp-rate: often
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
      routing-policy:
      - {from: 10.7.0.0/24, priority: 50, mark: 7}
      - {to: '2001:db8::/32'}
  tunnels:
    wg0: {mode: wireguard}
    gre1: {mode: gre, local: 192.0.2.2, remote: 203.0.113.1, key: 0.0.1.2, ttl: 64}
    gre2: {mode: gre, local: 192.0.2.2, remote: 203.0.113.1, key: none}
";

#[test]
fn what_netplan_makes_is_a_file() {
    let mut draft = Draft::default();
    draft.netplan("01.yaml", NETPLAN);
    draft.netplan("02.yaml", "network:\n\tethernets: {}\n");
    let file = r#"[interface.red]
kind = "vrf"
table = 10
[interface.eth0]
mtu = 9000
addresses = ["192.0.2.2/30", "2001:db8::2/64"]
[interface.eth1]
dhcp = true
dhcp_metric = 70
dhcp6 = true
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
[interface.gre1]
kind = "gre"
local = "192.0.2.2"
remote = "203.0.113.1"
key = 258
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
[[rule]]
priority = 50
from = "10.7.0.0/24"
mark = 0x7
vrf = "red"
"#;
    let missing = [
        format!("01.yaml:8: eth0: nameservers: {ODD}"),
        "01.yaml:13: eth0: a route: there is no key for on-link".to_owned(),
        "01.yaml:19: card: which interface it matches is not known: name the section as the interface"
            .to_owned(),
        format!("01.yaml:27: bond0: lacp-rate: {ODD}"),
        format!("01.yaml:28: bond0: transmit-hash-policy: {ODD}"),
        "01.yaml:44: red: a rule: it has no priority, and Linux would choose one".to_owned(),
        "01.yaml:46: wg0: this is none of the tunnels that Bifrost makes".to_owned(),
        "01.yaml:48: gre2: this is none of the tunnels that Bifrost makes".to_owned(),
        "02.yaml:2: the file: tabs disallowed within this context (block indentation)".to_owned(),
    ];
    comes_to(draft, file, &missing);
}
