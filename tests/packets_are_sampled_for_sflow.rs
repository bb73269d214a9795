//! `[sflow]` as tshark reads it where a collector would stand: samples say where packets came in
//! and left, and interface counters come by the clock. A reload turns it on and off. (The network
//! of `network.rs`.)

use std::time::Duration;

use lab::{Ping, wait_for};

use crate::network::{Line, ports};

#[test]
fn and_collectors_read_them() {
    let base = ports("worker", &["left", "right"]);
    let net = Line::stopped("sflow", &base);
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let mut seen = net.server.command("tshark");
    seen.args(["-l", "-n", "-i", "eth0", "-f", "udp port 6343", "-d", "udp.port==6343,sflow", "-V"]);
    let seen = net.server.spawn("tshark", seen).unwrap();
    let sflow =
        "[sflow]\nagent = \"10.2.0.1\"\ncollectors = [\"10.2.0.2:6343\"]\nsample = 10\ncounters = \"1s\"\n";
    net.router.configure(&(base.clone() + sflow)).unwrap();
    net.router.ask("reload").unwrap();
    let ping = Ping::start(&net.customer, "10.2.0.2", Duration::from_millis(5)).unwrap();
    wait_for("samples and counters", Duration::from_secs(20), || {
        let text = seen.output();
        let wanted = [
            "Flow sample",
            "Raw packet header",
            "Counters sample",
            "Generic interface counters",
            "10.1.0.2",
            "Sampling rate: 1 out of 10",
        ];
        match wanted.iter().find(|wanted| !text.contains(**wanted)) {
            None => Ok(()),
            Some(missing) => Err(format!("no {missing:?} in {} bytes", text.len())),
        }
    })
    .unwrap();
    // Where the packets left is known: an output interface that is not 0.
    let text = seen.output();
    assert!(text.contains("Output interface value: 3"), "{}", &text[..text.len().min(4000)]);
    let status = net.router.show("sflow").unwrap();
    assert!(status["seen"].as_u64().unwrap() > 100 && status["lost"] == 0, "{status}");
    assert!(net.router.ask("show graph").unwrap().contains("Sampled"));

    net.router.configure(&base).unwrap();
    net.router.ask("reload").unwrap();
    assert!(!net.router.ask("show graph").unwrap().contains("Sampled"));
    assert_eq!(ping.stop().lost(), 0);
}
