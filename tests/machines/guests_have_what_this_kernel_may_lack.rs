//! Each of Debian's kernels boots, and brings VLANs, VRFs, bonds, bridges, tunnels and queueing
//! disciplines as modules, which load when they are asked for.

use std::time::Duration;

use lab::{KERNELS, Machine};

const SCRIPT: &str = "
set -e
ip link add one type veth peer name two
ip link add link one name one.10 type vlan id 10
ip link add blue type vrf table 10
ip link add bond0 type bond
ip link add br0 type bridge vlan_filtering 1
ip link add tunnel type gre local 192.0.2.1 remote 192.0.2.2
ip link add vx type vxlan id 7 dstport 4789 remote 192.0.2.2 dev one
ip link add wg0 type wireguard
tc qdisc add dev one root cake
nft add table inet filter
uname -r
";

#[test]
fn of_every_kernel() {
    for kernel in KERNELS {
        let said = Machine::on(kernel, |machine| machine.run(SCRIPT, Duration::from_secs(60)));
        let said = said.unwrap_or_else(|error| panic!("{error}"));
        assert!(kernel == "newest" || said.starts_with(&format!("{kernel}.")), "{said}");
    }
}
