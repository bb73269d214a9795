//! The installed program takes over from the one that runs: no packet is lost, the driver's lane
//! does not pause, flows and their translation go on; and where it cannot, the old one stays. (The
//! network of `network.rs`.)

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use lab::{Flows, Ping, Sink, wait_for};

use crate::network::{LANES, Line, SERVER, STATEFUL, at, flow_of_iperf, ports};

const MASQUERADE: &str = r#"
[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
"#;

const RATE: u32 = 20_000;
/// One after the other, in each lane.
const UPGRADES: u64 = 3;

#[test]
fn of_what_each_lane_carries() {
    for lane in LANES {
        let mut net = Line::new("upgrade", lane);
        if !net.router.is_bifrost() {
            return;
        }
        let pings = SERVER.map(|to| Ping::start(&net.customer, to, Duration::from_millis(2)).unwrap());
        let sink = Sink::start(&net.server, 9000).unwrap();
        let flows = Flows::start(&net.customer, vec![at(SERVER[0], 9000)], 16, 64, RATE).unwrap();
        sink.has_received(1000, Duration::from_secs(5)).unwrap();
        let linux = net.router.host().linux_forwarded().unwrap();
        for _ in 0..UPGRADES {
            let said = net.router.upgrade().unwrap();
            assert!(said.contains("has taken over"), "{said}");
            let ports = net.router.subject("ports").unwrap();
            let taken = |port: &serde_json::Value| port["lane"] == lane;
            assert!(ports.as_array().unwrap().iter().all(taken), "{ports}");
            // By its own program: the old one counts elsewhere.
            wait_for("packets by the new process", Duration::from_secs(5), || match net.lanes() {
                (carried, worked) if carried + worked > 1000 => Ok(()),
                lanes => Err(format!("{lane}: {lanes:?}")),
            })
            .unwrap();
        }
        let sent = flows.stop();
        sink.has_received(sent, Duration::from_secs(2))
            .unwrap_or_else(|error| panic!("{lane}: {error} of {sent}"));
        for ping in pings.map(Ping::stop) {
            assert_eq!(ping.lost(), 0, "{lane}: {ping:?}");
        }
        let linux = net.router.host().linux_forwarded().unwrap() - linux;
        // What arrives before routes lead to the last port, and what is for workers until they have
        // their sockets: some hundredths of a second, and some tenths each time.
        let most = UPGRADES * u64::from(RATE) / if lane == "express" { 10 } else { 2 };
        assert!(linux <= most, "{lane}: Linux forwarded {linux} of {sent}");
        net.reachable();
    }
}

#[test]
fn of_flows_and_their_translation() {
    // By itself the driver carries flows that are decided.
    for lane in ["auto", "worker"] {
        let config = ports(lane, &["left", "right"]) + STATEFUL + MASQUERADE;
        let net = Line::stopped("upgrade-flows", &config);
        if !net.router.is_bifrost() {
            return;
        }
        let mut net = net.started();
        net.server.run("ip route del default").unwrap();
        let mut server = net.server.command("iperf3");
        server.args(["-s", "--forceflush"]);
        let _server = net.server.spawn("iperf3", server).unwrap();
        net.server.listens(5201).unwrap();
        // The server sends: nobody inside speaks first.
        let mut client = net.customer.command("iperf3");
        client.args(["-c", SERVER[0], "-R", "-t", "600", "-b", "20M"]);
        let mut client = net.customer.spawn("iperf3", client).unwrap();
        wait_for("the transfer", Duration::from_secs(5), || flow_of_iperf(&net.router)).unwrap();
        let ping = Ping::start(&net.customer, SERVER[0], Duration::from_millis(5)).unwrap();
        let grows = |net: &Line| {
            let (_, before) = flow_of_iperf(&net.router).unwrap();
            wait_for("the transfer to go on", Duration::from_secs(5), || match flow_of_iperf(&net.router)? {
                (_, bytes) if bytes > before + 1_000_000 => Ok(()),
                (_, bytes) => Err(format!("{bytes} bytes after {before}")),
            })
            .unwrap_or_else(|error| panic!("{lane}: {error}\n{}", net.state()));
        };
        for _ in 0..2 {
            grows(&net);
            let (translated, carried) = flow_of_iperf(&net.router).unwrap();
            net.router.upgrade().unwrap();
            let (after, bytes) = flow_of_iperf(&net.router).unwrap();
            assert!(
                after == translated && bytes >= carried,
                "{lane}: {after} of {bytes} bytes, not {translated} of {carried}"
            );
            grows(&net);
        }
        let ping = ping.stop();
        assert_eq!(ping.lost(), 0, "{lane}: {ping:?}");
        assert!(client.ended().is_none(), "{}", client.output());
    }
}

#[test]
fn though_it_fails_at_any_step() {
    let config = ports("worker", &["left", "right"]);
    let mut net = Line::stopped("upgrade-fails", &config);
    if !net.router.is_bifrost() {
        return;
    }
    let folder = net.router.host().folder().to_owned();
    let program = folder.join("bifrost");
    let installed = net.router.program().to_owned();
    fs::copy(&installed, &program).unwrap();
    net.router.use_program(&program);
    let mut net = net.started();
    let pid = net.router.process().unwrap().pid();
    let ping = Ping::start(&net.customer, SERVER[0], Duration::from_millis(5)).unwrap();
    let refused = |net: &Line, why: &str| {
        let error = net.router.ask("upgrade").unwrap_err().to_string();
        assert!(error.contains("the process that runs stays") && error.contains(why), "{error}");
        let ports = net.router.subject("ports").unwrap();
        assert!(ports.as_array().unwrap().iter().all(|port| port["lane"] == "worker"), "{ports}");
    };
    let replace = |text: &str| {
        let beside = folder.join("beside");
        fs::write(&beside, text).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&beside, &program).unwrap();
    };
    // No program; one of a release that knows no upgrade; one that ends after it was ready.
    fs::remove_file(&program).unwrap();
    let error = net.router.ask_with(&installed, "upgrade").unwrap_err().to_string();
    assert!(error.contains("cannot be started"), "{error}");
    replace("#!/bin/sh\nexit 2\n");
    let error = net.router.ask_with(&installed, "upgrade").unwrap_err().to_string();
    assert!(error.contains("does the release that is installed know upgrades?"), "{error}");
    fs::remove_file(&program).unwrap();
    fs::copy(&installed, &program).unwrap();
    // A file that is wrong.
    net.router.configure(&(config.clone() + "[filter]\nwrong = 1\n")).unwrap();
    refused(&net, "wrong");
    // What is known only when the old one has made way: an address that is in use.
    net.router.configure(&(config.clone() + "[metrics]\nlisten = \"127.0.0.1:9477\"\n")).unwrap();
    let mut squatter = net.router.host().command("python3");
    squatter.args(["-m", "http.server", "--bind", "127.0.0.1", "9477"]);
    let squatter = net.router.host().spawn("squatter", squatter).unwrap();
    net.router.host().listens(9477).unwrap();
    refused(&net, "9477");
    assert_eq!(net.router.process().unwrap().pid(), pid);
    drop(squatter);
    // And then it can.
    net.router.upgrade().unwrap();
    assert_ne!(net.router.process().unwrap().pid(), pid);
    net.router.host().run("curl -sf http://127.0.0.1:9477/metrics | grep -q bifrost_").unwrap();
    let ping = ping.stop();
    assert_eq!(ping.lost(), 0, "{ping:?}");
    net.router.stop().unwrap();
    net.reachable();
}
