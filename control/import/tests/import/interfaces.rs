//! What files of ifupdown say.

use import::Draft;

use crate::{ODD, comes_to};

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
    up ip -4 rule add from 10.0.0.0/8 lookup 7 priority 99
    up iptables-restore /etc/rules
    dns-nameservers 192.0.2.53
iface eth0 inet6 static
    address 2001:db8::2/64
    gateway fe80::1
iface eth0:1 inet static
    address 192.0.2.66/32
iface eth1 inet dhcp
iface eth1 inet6 auto
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
    let file = r#"[interface.lo]
addresses = ["198.51.100.9/32"]
[interface.eth0]
mtu = 9000
addresses = ["192.0.2.2/30", "2001:db8::2/64", "192.0.2.66/32"]
[interface.eth1]
dhcp = true
autoconf = true
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
[[rule]]
priority = 99
from = "10.0.0.0/8"
table = 7
"#;
    let at = |line: usize, what: &str| format!("/etc/network/interfaces:{line}: {what}");
    let missing = [
        at(15, &format!("eth0: up iptables-restore /etc/rules: {ODD}")),
        at(16, &format!("eth0: dns-nameservers 192.0.2.53: {ODD}")),
        at(36, "ppp0: ppp: this method has no keys"),
    ];
    comes_to(draft, file, &missing);
}
