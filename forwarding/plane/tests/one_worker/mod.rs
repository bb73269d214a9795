//! A plane with one worker, for tests that take the ports of a rig.

use fib::{Capacity, Tables};
use plane::{Bridging, Hooks, Interface, Plane, PlaneSettings, PolicySettings};
use port::{Driver, HugePages};

use crate::rig::{ROUTER_MAC, Rig};

/// The plane and its tables, with no port.
pub fn start(policy: PolicySettings) -> (Plane, Tables) {
    start_with(policy, |_| ())
}

/// The same, with a driver that something was done to before.
pub fn start_with(policy: PolicySettings, prepare: impl FnOnce(&mut Driver)) -> (Plane, Tables) {
    let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 1000 };
    let mut driver = Driver::new(&capacity.sizes()).unwrap();
    prepare(&mut driver);
    let tables = Tables::new(capacity, Some(driver.table_memory().unwrap())).unwrap();
    let settings = PlaneSettings {
        cores: vec![0],
        frames: 4096,
        huge_pages: HugePages::Off,
        hooks: Hooks::default(),
        policy,
        registry: elements::registry(),
    };
    (Plane::start(&settings, driver, tables.view()).unwrap(), tables)
}

/// A port's interface, as Linux has it.
pub fn interface(rig: &Rig, i: usize) -> Interface {
    Interface {
        master: None,
        name: format!("r{i}"),
        ifindex: rig.ifindex(i),
        mac: ROUTER_MAC[i],
        mtu: 1500,
        up: true,
        forwarding4: true,
        forwarding6: true,
        rp_filter: 0,
        firewall: [None; 2],
        bridge: Bridging::No,
        priorities: fib::Priorities::default(),
        table: fib::TableId::MAIN,
        left_to_linux: [false; 2],
    }
}
