//! What a file of VyOS says.

use import::Draft;

use crate::comes_to;

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
    bonding bond1 {
        mode fastest
    }
    ethernet eth0 {
        address 192.0.2.2/30
        address dhcp
        address dhcpv6
        dhcpv6-options {
            pd 0 {
                interface eth5 {
                    address 1
                    sla-id 7
                }
                length 56
            }
            rapid-commit
        }
        ipv6 {
            address {
                autoconf
                no-default-link-local
            }
        }
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
service {
    dhcp-relay {
        listen-interface eth1
        listen-interface eth2
        upstream-interface eth0
        server 192.0.2.5
        relay-options {
            relay-agents-packets forward
            hop-count 5
        }
    }
    dhcpv6-relay {
        listen-interface eth1 {
        }
        upstream-interface eth0 {
            address 2001:db8::5
        }
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
    host-name r1
    domain-name example.net
    name-server 192.0.2.53
    name-server eth0
    time-zone Europe/Paris
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
    let file = r#"[interface.lo]
[interface.red]
kind = "vrf"
table = 1000
[interface.eth0]
dhcp = true
autoconf = true
dhcp6 = true
prefix_length = 56
description = "to the world"
addresses = ["192.0.2.2/30"]
[interface.eth5]
prefix_of = "eth0"
prefix_number = 7
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
[system]
hostname = "r1.example.net"
time_zone = "Europe/Paris"
name_servers = ["192.0.2.53"]
[dhcp_relay.vyos]
interfaces = ["eth1", "eth2"]
servers = ["192.0.2.5", "2001:db8::5"]
trusted = true
"#;
    let missing = [
        "config.boot:13: interfaces bonding bond1: there is no key for it here",
        "config.boot:28: eth0 dhcpv6-options rapid-commit: there is no key for it here",
        "config.boot:33: eth0 ipv6 address no-default-link-local: there is no key for it here",
        "config.boot:38: eth0 offload: there is no key for it here",
        "config.boot:44: interfaces wireguard wg0: there is no key for it here",
        "config.boot:56: service dhcp-relay relay-options hop-count 5: there is no key for it here",
        "config.boot:68: protocols bgp: there is no key for it here",
        "config.boot:83: protocols static route 10.9.0.0/16: there is no key for it here",
        "config.boot:92: system name-server eth0: there is no key for it here",
    ];
    let found = comes_to(draft, file, &missing);
    assert!(!found.annotated().contains("geheim"));
}
