//! What the kernel tells of one port is not asked of the others.

#[path = "../../port/tests/rig/mod.rs"]
mod rig;

use fib::{Capacity, PortId, Tables};
use plane::{Hooks, Interface, Plane, PlaneSettings, PortSettings};
use port::{Driver, HugePages};
use rig::{ROUTER_MAC, Rig, wait};

fn with_plane(work: impl FnOnce(&Rig, &mut Plane, &mut Tables) + Send) {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 1000 };
        let driver = Driver::new(&capacity.sizes()).unwrap();
        let mut tables = Tables::new(capacity, Some(driver.table_memory().unwrap())).unwrap();
        let settings = PlaneSettings {
            cores: vec![0],
            frames: 4096,
            huge_pages: HugePages::Off,
            hooks: Hooks::default(),
            policy: plane::PolicySettings::default(),
            registry: elements::registry(),
        };
        let mut plane = Plane::start(&settings, driver, tables.view()).unwrap();
        for i in 0..2 {
            let id = plane.expect(&format!("r{i}"), PortSettings::default()).unwrap();
            assert_eq!(id, PortId(i));
        }
        work(&rig, &mut plane, &mut tables);
        plane.stop(&mut tables);
    });
}

fn interface(rig: &Rig, i: usize) -> Interface {
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
        left_to_linux: [false; 2],
    }
}

#[test]
fn what_the_kernel_tells_of_one_port_is_that_ports() {
    with_plane(|rig, plane, tables| {
        let gro = |on| rig.hosts[1].exec(&format!("ethtool -K h1 gro {on}"));
        gro("off");
        for i in 0..2 {
            assert!(plane.take(PortId(i), interface(rig, i.into()), tables));
        }
        let other = plane.ports()[0].target;
        for (on, target) in [("on", true), ("off", false), ("on", true)] {
            gro(on);
            wait("the express lane to know", || {
                plane.supervise(tables);
                plane.ports()[1].target == target
            });
            assert_eq!(plane.ports()[0].target, other);
        }
    });
}
