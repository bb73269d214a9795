//! A machine has the network cards that it is given: joined to each other, or to hosts of a lab
//! outside; and a card can lose its cable, be taken out of its slot, and come back.
//!
//! ```text
//!   host (namespace here)             guest
//!   outside 10.9.0.1/24 ------------- nic0 10.9.0.2/24 (virtio-net, two pairs of queues)
//!                              cable: nic1 and nic2 (e1000e)
//! ```

use std::time::Duration;

use lab::{Hardware, Lab, Machine, Nic};

use crate::network::turn;

const SCRIPT: &str = "
set -e
ip address add 10.9.0.2/24 dev nic0
ip link set nic0 up
ls -d /sys/class/net/nic0/queues/rx-* | wc -l
basename $(readlink /sys/class/net/nic1/device/driver)
ip netns add far
ip link set nic2 netns far
ip link set nic1 up
ip address add 10.8.0.1/24 dev nic1
ip -n far link set nic2 up
ip -n far address add 10.8.0.2/24 dev nic2
# The carrier takes some seconds to come.
for turn in $(seq 30); do ping -q -c 1 -W 1 10.8.0.2 >/dev/null && break; sleep 0.2; done
ping -q -c 3 -W 10 10.8.0.2 >/dev/null
";

/// Runs a script until it says this.
fn says(machine: &Machine, script: &str, wanted: &str) {
    lab::wait_for(wanted, Duration::from_secs(60), || match machine.run(script, Duration::from_secs(20)) {
        Ok(said) if said.trim() == wanted => Ok(()),
        said => Err(format!("{said:?}")),
    })
    .unwrap();
}

#[test]
fn of_several_kinds() {
    let _turn = turn();
    let lab = Lab::new("cards").unwrap();
    let host = lab.host("host").unwrap();
    let machine = Hardware::new("6.12")
        .cores(2)
        .nic(Nic::virtio(2).to(&host, "outside").mac("02:00:00:00:09:02"))
        .nic(Nic::e1000e().cable(1))
        .nic(Nic::e1000e().cable(1))
        .boot()
        .unwrap();
    host.run("ip address add 10.9.0.1/24 dev outside").unwrap();
    let said = machine.run(SCRIPT, Duration::from_secs(60)).unwrap();
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["2", "e1000e"]);
    host.reaches("10.9.0.2", Duration::from_secs(10)).unwrap();

    machine.carrier(0, false).unwrap();
    says(&machine, "cat /sys/class/net/nic0/carrier", "0");
    machine.carrier(0, true).unwrap();
    says(&machine, "cat /sys/class/net/nic0/carrier", "1");
    host.reaches("10.9.0.2", Duration::from_secs(10)).unwrap();

    machine.unplug(0).unwrap();
    says(&machine, "ls /sys/class/net | grep -c nic0 || true", "0");
    machine.plug(0).unwrap();
    says(&machine, "cat /sys/class/net/eth0/address", "02:00:00:00:09:02");
    machine.run("ip address add 10.9.0.2/24 dev eth0; ip link set eth0 up", Duration::from_secs(10)).unwrap();
    host.reaches("10.9.0.2", Duration::from_secs(10)).unwrap();
}
