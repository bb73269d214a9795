//! SIGTERM in the middle of a start with many ports: the router gives back what it has taken and
//! ends, at once. So it does when all are taken, and each is as it was before.

use std::time::{Duration, Instant};

use lab::{Lab, Router, wait_for};

use crate::network::turn;

const PORTS: usize = 64;
/// All that a router can have.
const MOST: usize = 256;
const CONFIG: &str = "[[port]]\nname = \"port*\"\n[workers]\ncores = [0]\n";

#[test]
fn and_all_are_linuxs_again() {
    let _turn = turn();
    let lab = Lab::new("sigterm").unwrap();
    let host = lab.router("router").unwrap();
    let links: String = (0..PORTS)
        .map(|n| {
            format!(
                "link add port{n} type veth peer name peer{n}\nlink set port{n} up\nlink set peer{n} up\n"
            )
        })
        .collect();
    std::fs::write(host.folder().join("links"), links).unwrap();
    host.run(&format!("ip -batch {}", host.folder().join("links").display())).unwrap();
    let router = Router::stopped(&host, CONFIG).unwrap();
    if !router.is_bifrost() {
        return;
    }
    let mut process = router.begin().unwrap();
    let taken = |log: &str| log.matches("native XDP").count();
    wait_for("the first ports to be taken", Duration::from_secs(20), || {
        let log = process.output();
        (taken(&log) > 2).then_some(()).ok_or(log)
    })
    .unwrap();
    let told = Instant::now();
    let status = process.stop(Duration::from_secs(10)).unwrap();
    assert!(told.elapsed() < Duration::from_secs(6), "it took {:?} to stop", told.elapsed());
    let log = process.output();
    assert!(status.success() && log.contains("stopped: Linux forwards"), "{status}: {log}");
    assert!(!host.run("ip link").unwrap().contains("xdp"));
}

#[test]
fn with_as_many_ports_as_there_can_be() {
    let _turn = turn();
    let lab = Lab::new("sigterm").unwrap();
    let host = lab.router("router").unwrap();
    let pair = |n| {
        format!(
            "link add port{n}a type veth peer name port{n}b\n\
             link set port{n}a up\nlink set port{n}b up\n"
        )
    };
    host.ip_batch(&(0..MOST / 2).map(pair).collect::<String>()).unwrap();
    let offloads = || {
        let shown = [0, MOST / 2 - 1].map(|n| host.run(&format!("ethtool -k port{n}a")).unwrap());
        shown
            .map(|shown| shown.lines().filter(|line| line.starts_with("rx-vlan-offload")).collect::<String>())
    };
    let before = offloads();
    assert!(before.iter().all(|line| line.contains(": on")), "{before:?}");
    let router = Router::stopped(&host, CONFIG).unwrap();
    if !router.is_bifrost() {
        return;
    }
    let mut process = router.begin().unwrap();
    wait_for("all ports to be taken", Duration::from_secs(60), || {
        let log = process.output();
        log.contains(&format!("ready: {MOST} of {MOST} port(s)")).then_some(()).ok_or(log)
    })
    .unwrap();
    assert_ne!(offloads(), before);
    let told = Instant::now();
    let status = process.stop(Duration::from_secs(10)).unwrap();
    assert!(told.elapsed() < Duration::from_secs(3), "it took {:?} to stop", told.elapsed());
    let log = process.output();
    assert!(status.success() && log.contains("stopped: Linux forwards"), "{status}: {log}");
    assert_eq!(log.matches("given back to Linux").count(), MOST);
    assert!(!host.run("ip link").unwrap().contains("xdp"));
    assert_eq!(offloads(), before);
}
