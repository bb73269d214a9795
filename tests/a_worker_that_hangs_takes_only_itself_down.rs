//! A worker hangs in an element. It is found within a second, told, and started again; a router
//! whose worker hangs stops as soon as it is told to. (The network of `network.rs`.)

use std::path::Path;
use std::time::{Duration, Instant};

use lab::{Ping, wait_for};

use crate::network::{Line, SERVER, all_arrive, ports};

const HOOK: &str = "[graph]\nforward = \"input -> HangAt77 -> output\"\n";

#[test]
fn and_is_started_again() {
    let mut net = Line::stopped("hang", &(ports("worker", &["left", "right"]) + HOOK));
    if !net.router.is_bifrost() {
        return;
    }
    net.router.use_program(Path::new(env!("CARGO_BIN_EXE_bifrost-that-hangs")));
    let mut net = net.started();
    let ping = Ping::start(&net.customer, SERVER[0], Duration::from_millis(10)).unwrap();
    for restarts in 1..3 {
        assert!(net.customer.run(&format!("ping -c1 -W1 -t 77 {}", SERVER[0])).is_err());
        wait_for("the worker to be started again", Duration::from_secs(20), || {
            let workers = net.router.subject("workers").map_err(|error| error.to_string())?;
            let known = workers[0]["restarts"].as_u64();
            (known == Some(restarts)).then_some(()).ok_or(format!("{known:?} restarts"))
        })
        .unwrap();
        wait_for("it to have its queues back", Duration::from_secs(20), || {
            let forwarded = || net.router.host().linux_forwarded().map_err(|error| error.to_string());
            let before = forwarded()?;
            let reached = net.customer.reaches(SERVER[0], Duration::from_secs(1));
            reached.map_err(|error| error.to_string())?;
            (forwarded()? == before).then_some(()).ok_or("Linux forwards".to_owned())
        })
        .unwrap();
        all_arrive(&net.router, &net.customer, &net.server, &SERVER, 500);
    }
    let ping = ping.stop();
    assert!(ping.sent > 100, "the ping did not run: {ping:?}");
    assert!(ping.longest_gap < 500, "a worker that hangs was found late: {ping:?}");
    let log = net.router.log();
    assert!(log.contains("worker 0 hangs") && log.contains("was started again (restart 2)"), "{log}");

    assert!(net.customer.run(&format!("ping -c1 -W0.1 -t 77 {}", SERVER[0])).is_err());
    let told = Instant::now();
    net.router.stop().unwrap();
    assert!(told.elapsed() < Duration::from_secs(6), "it took {:?} to stop", told.elapsed());
    net.reachable();
}
