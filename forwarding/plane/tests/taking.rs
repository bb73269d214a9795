//! A port is taken in two steps, and no step leaves a packet to nobody; what the kernel tells of
//! one port is not asked of the others.

mod one_worker;
#[path = "../../port/tests/rig/mod.rs"]
mod rig;

use fib::{PortId, Tables};
use one_worker::interface;
use plane::{Interface, Plane, PolicySettings, PortSettings};
use rig::{Rig, frame, ipv4, wait};

fn with_plane(work: impl FnOnce(&Rig, &mut Plane, &mut Tables) + Send) {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let (mut plane, mut tables) = one_worker::start(PolicySettings::default());
        for i in 0..2 {
            let id = plane.expect(&format!("r{i}"), PortSettings::default()).unwrap();
            assert_eq!(id, PortId(i));
        }
        work(&rig, &mut plane, &mut tables);
        plane.stop(&mut tables);
    });
}

/// How the device of port 0 stands: whether there is a program, and what it does to tags.
fn device(rig: &Rig) -> (bool, String) {
    let offloads = rig.router.exec("ethtool -k r0");
    let tags = offloads.lines().find(|line| line.starts_with("rx-vlan-offload")).unwrap_or_default();
    (rig.router.ip("link show r0").contains("xdp"), tags.to_owned())
}

fn has_begun(plane: &Plane) -> bool {
    plane.ports()[0].is_begun() && plane.ports()[0].taken.is_none()
}

#[test]
fn a_port_that_has_begun_leaves_every_packet_to_linux() {
    with_plane(|rig, plane, tables| {
        let wire = rig.wire(0);
        let seen = |plane: &Plane| {
            let counted = plane.driver().counters(PortId(0)).unwrap();
            counted.lanes.iter().map(|count| count.packets).sum::<u64>()
        };
        let arrived = || {
            let statistics = rig.router.ip("-s link show r0");
            let at = statistics.lines().position(|line| line.contains("RX:")).unwrap() + 1;
            let numbers = statistics.lines().nth(at).unwrap();
            numbers.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        let send = || {
            let before = arrived();
            let packet = frame(0x0800, &ipv4([10, 0, 0, 2], [198, 18, 0, 1], 64, &[7; 30]));
            (0..10).for_each(|_| wire.send(&packet));
            wait("packets to arrive", || arrived() >= before + 10);
            // They are counted before the program sees them.
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        assert!(!plane.take_step(PortId(0), interface(rig, 0), tables));
        assert!(has_begun(plane) && device(rig).0);
        assert_eq!(tables.interface(PortId(0).interface()), None);
        send();
        assert_eq!(seen(plane), 0);
        assert!(plane.take_step(PortId(0), interface(rig, 0), tables));
        assert!(!plane.ports()[0].is_begun() && tables.interface(PortId(0).interface()).is_some());
        send();
        wait("them to be looked at", || seen(plane) >= 10);
    });
}

#[test]
fn a_port_that_has_begun_is_given_back_as_it_was() {
    with_plane(|rig, plane, tables| {
        let before = device(rig);
        assert!(!before.0 && before.1.contains("on"), "{before:?}");
        let begin = |plane: &mut Plane, tables: &mut Tables| {
            assert!(!plane.take_step(PortId(0), interface(rig, 0), tables));
            assert!(has_begun(plane) && device(rig).1 != before.1);
        };
        begin(plane, tables);
        plane.give_back(PortId(0), tables);
        assert_eq!((device(rig), plane.ports()[0].is_begun()), (before.clone(), false));

        // It is another's part now.
        begin(plane, tables);
        let part = Interface { master: Some("bridge".into()), ..interface(rig, 0) };
        assert!(!plane.take(PortId(0), part, tables));
        assert_eq!((device(rig), plane.ports()[0].is_begun()), (before.clone(), false));
        assert!(plane.ports()[0].refused.is_some());

        begin(plane, tables);
        plane.stop(tables);
        assert_eq!((device(rig), plane.ports()[0].is_begun()), (before.clone(), false));
    });
}

#[test]
fn a_port_that_has_begun_goes_with_its_interface() {
    with_plane(|rig, plane, tables| {
        assert!(!plane.take_step(PortId(0), interface(rig, 0), tables));
        let known = interface(rig, 0);
        rig.router.ip("link del r0");
        plane.take_step(PortId(0), known, tables);
        assert_eq!(plane.ports()[0].taken.as_ref().map(|taken| taken.queues.len()), Some(0));
        plane.give_back(PortId(0), tables);
        rig.connect(0, 1);
        assert!(plane.take(PortId(0), interface(rig, 0), tables));
        assert_eq!(plane.ports()[0].taken.as_ref().map(|taken| taken.queues.len()), Some(1));
    });
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
