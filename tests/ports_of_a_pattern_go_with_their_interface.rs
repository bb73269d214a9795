//! An interface that only a pattern matches leaves the list of ports and the metrics when it goes,
//! and one that the configuration names is waited for. (The network of `network.rs`.)

use std::time::Duration;

use lab::wait_for;

use crate::network::{Line, ports};

const METRICS: &str = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:9469/metrics\").read().decode())'";

#[test]
fn and_named_ones_are_waited_for() {
    let net = Line::stopped(
        "gone",
        &(ports("auto", &["left", "right"])
            + "[metrics]\nlisten = \"127.0.0.1:9469\"\n[[port]]\nname = \"ppp*\"\n"),
    );
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let host = net.router.host();
    let listed = |name: &str, state: Option<&str>| {
        wait_for(&format!("{name} to be {state:?}"), Duration::from_secs(5), || {
            let shown = net.router.subject("ports").unwrap();
            let port = shown.as_array().unwrap().iter().find(|port| port["name"] == name);
            let now = port.map(|port| port["state"].as_str().unwrap_or_default().to_owned());
            let metrics = host.run(METRICS).unwrap();
            let metered = metrics.contains(&format!("port=\"{name}\""));
            if now.as_deref() == state && metered == state.is_some() {
                Ok(())
            } else {
                Err(format!("{now:?}, {metered}"))
            }
        })
        .unwrap();
    };
    host.run("ip link add ppp0 type veth peer name far0; ip link set ppp0 up; ip link set far0 up").unwrap();
    listed("ppp0", Some("up"));
    host.run("ip link del ppp0").unwrap();
    listed("ppp0", None);
    host.run("ip link add ppp0 type veth peer name far0; ip link set ppp0 up; ip link set far0 up").unwrap();
    listed("ppp0", Some("up"));
    host.run("ip link del right").unwrap();
    listed("right", Some("absent"));
}
