//! Bifrost is restarted under connections through a stateful filter and a masquerade: they live on, and their flows are the same flows.
//! A kill leaves what was written down before it; Linux resets none of them meanwhile. (The network of `network.rs`.)

use std::{thread::sleep, time::Duration};

use lab::wait_for;

use crate::network::{Line, ports};

const POLICY: &str = r#"
[flow]
memory = 16

[filter.forward]
rules = '''
accept state established,related
accept in left state new
drop
'''

[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
source = "10.1.0.0/24"
"#;

/// What the router knows of the transfer: when its flow began, and its bytes.
fn flow(net: &Line) -> Result<(String, u64), String> {
    let shown = net.router.show("flows --port 5201").map_err(|error| error.to_string())?;
    let flows = shown["flows"].as_array().cloned().unwrap_or_default();
    let bytes =
        |flow: &serde_json::Value| flow["bytes"][0].as_u64().unwrap() + flow["bytes"][1].as_u64().unwrap();
    let most = flows.iter().max_by_key(|flow| bytes(flow)).ok_or("there is no flow")?;
    Ok((most["reply"].to_string(), bytes(most)))
}

fn grows(net: &Line) {
    let (_, before) = flow(net).unwrap();
    wait_for("the transfer to go on", Duration::from_secs(8), || match flow(net)? {
        (_, now) if now > before + 500_000 => Ok(()),
        (_, now) => Err(format!("{now} bytes after {before}")),
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", net.router.log()));
}

#[test]
fn by_what_was_written_down() {
    by("worker");
}

#[test]
fn in_the_driver_as_well() {
    by("auto");
}

fn by(lane: &str) {
    let config = ports(lane, &["left", "right"]) + POLICY;
    let mut net = Line::stopped("restart-flows", &config);
    if !net.router.is_bifrost() {
        return;
    }
    net.server.run("ip route del default; ip route add 10.2.0.0/24 dev eth0 2>/dev/null || true").unwrap();
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let mut server = net.server.command("iperf3");
    server.args(["-s", "--forceflush"]);
    let _server = net.server.spawn("iperf3", server).unwrap();
    net.server.listens(5201).unwrap();
    // The server sends: what comes from outside has nobody inside who speaks first.
    let mut client = net.customer.command("iperf3");
    client.args(["-c", "10.2.0.2", "-R", "-t", "32", "-b", "20M"]);
    let mut client = net.customer.spawn("iperf3", client).unwrap();
    wait_for("the transfer", Duration::from_secs(5), || flow(&net)).unwrap();
    grows(&net);

    let (translated, carried) = flow(&net).unwrap();
    net.router.stop().unwrap();
    net.router.restart().unwrap();
    assert!(net.router.log().contains("flows go on"), "{}", net.router.log());
    let (after, bytes) = flow(&net).unwrap();
    assert!(
        after == translated && bytes >= carried,
        "{after} of {bytes} bytes, not {translated} of {carried}"
    );
    grows(&net);

    // It is written down every ten seconds.
    let state = net.router.host().folder().join("control.flows");
    wait_for("flows to be written down", Duration::from_secs(20), || match state.exists() {
        true => Ok(()),
        false => Err("there is no file".to_owned()),
    })
    .unwrap();
    net.router.kill_nine();
    sleep(Duration::from_millis(500));
    net.router.restart().unwrap();
    grows(&net);
    assert_eq!(flow(&net).unwrap().0, translated);
    assert!(client.wait(Duration::from_secs(60)).unwrap().success(), "{}", client.output());
}
