//! SIGTERM in the middle of a start with many ports: the router gives back what it has taken and ends, at once.

use std::time::{Duration, Instant};

use lab::{Lab, Router, wait_for};

use crate::network::turn;

const PORTS: usize = 64;

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
    let router = Router::stopped(&host, "[[port]]\nname = \"port*\"\n[workers]\ncores = [0]\n").unwrap();
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
