//! BFD sessions of FRR's are run by Bifrost: they come up, a neighbour that falls silent is told of
//! to FRR, and neither a reload, nor a restart, nor a death of Bifrost touches any.
//! (The network of `network.rs`; the router and the server run FRR.)

use std::time::{Duration, Instant};

use lab::{Frr, wait_for};
use serde_json::Value;

use crate::network::{Line, ports};

const SOON: Duration = Duration::from_secs(15);

/// FRR's configuration of sessions with one of two ends of the link to the server.
fn sessions(own: usize, interface: &str, interval: u32) -> String {
    let peer = |prefix: &str| {
        let (own, other) = (format!("{prefix}{own}"), format!("{prefix}{}", 3 - own));
        format!(" peer {other} local-address {own} interface {interface}\n  profile fast\n exit\n")
    };
    let profile =
        format!(" profile fast\n  receive-interval {interval}\n  transmit-interval {interval}\n exit\n");
    format!("bfd\n{profile}{}{}exit\n", peer("10.2.0."), peer("2001:db8:2::"))
}

/// The same by BGP, which ends with its session of BFD.
fn neighbours(own: usize) -> String {
    let other = 3 - own;
    format!(
        "bfd\n profile fast\n  receive-interval 150\n  transmit-interval 150\n exit\nexit
router bgp 6500{own}
 bgp router-id 10.2.0.{own}
 no bgp ebgp-requires-policy
 neighbor 10.2.0.{other} remote-as 6500{other}
 neighbor 10.2.0.{other} timers connect 1
 neighbor 10.2.0.{other} bfd profile fast
 neighbor 2001:db8:2::{other} remote-as 6500{other}
 neighbor 2001:db8:2::{other} timers connect 1
 neighbor 2001:db8:2::{other} bfd profile fast
exit
"
    )
}

/// What FRR says of its sessions.
fn peers(frr: &Frr) -> Vec<Value> {
    frr.show("show bfd peers json").unwrap().as_array().unwrap().clone()
}

/// Waits until FRR says that both sessions are so.
fn are(frr: &Frr, wanted: &str) {
    wait_for(&format!("both sessions {wanted}"), SOON, || match peers(frr) {
        all if all.len() == 2 && all.iter().all(|one| one["status"] == wanted) => Ok(()),
        all => Err(format!("{all:?}")),
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

/// How often each of FRR's neighbours by BGP was lost; none: one is not there.
fn lost(frr: &Frr) -> Option<u64> {
    let all = frr.show("show bgp neighbors json").unwrap();
    let all: Vec<&Value> = all.as_object()?.values().collect();
    let there = all.len() == 2 && all.iter().all(|one| one["bgpState"] == "Established");
    there.then(|| all.iter().map(|one| one["connectionsDropped"].as_u64().unwrap()).sum())
}

struct Net {
    ours: Frr,
    theirs: Frr,
    line: Line,
}

fn net(name: &str, daemon: Option<&str>, config: impl Fn(usize, &str) -> String) -> Net {
    let mut line = Line::stopped(name, "");
    let (router, server) = (line.router.host().clone(), line.server.clone());
    line.router.configure(&(ports("auto", &["left", "right"]) + "[bfd]\n")).unwrap();
    let start = |host, bfdd, config: String| {
        let daemons: Vec<&str> = [bfdd].into_iter().chain(daemon).collect();
        Frr::start(host, &daemons, &config, false).unwrap()
    };
    let ours = start(&router, "bfdd --dplaneaddr ipv4:127.0.0.1:50700", config(1, "right"));
    let theirs = start(&server, "bfdd", config(2, "eth0"));
    line.router.restart().unwrap();
    Net { ours, theirs, line }
}

impl Net {
    fn shown(&self) -> Value {
        self.line.router.show("bfd").unwrap()
    }

    /// Whether both sessions are run here, and up.
    fn run_here(&self) {
        wait_for("the sessions to be run here", SOON, || {
            let shown = self.shown();
            let all = shown["sessions"].as_array().unwrap();
            match all.len() == 2 && all.iter().all(|one| one["state"] == "up") {
                true => Ok(()),
                false => Err(shown.to_string()),
            }
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", self.line.router.log()));
    }
}

#[test]
fn and_silence_is_detected() {
    let net = net("bfd", None, |own, interface| sessions(own, interface, 10));
    are(&net.theirs, "up");
    net.run_here();
    are(&net.ours, "up");
    for one in net.shown()["sessions"].as_array().unwrap() {
        assert_eq!((&one["sends_every_us"], &one["detects_after_us"]), (&10_000.into(), &30_000.into()));
    }
    // bfdd's own sockets hear nothing of it.
    let heard = |net: &Net| -> u64 {
        let all = net.shown()["sessions"].as_array().unwrap().clone();
        all.iter().map(|one| one["received"].as_u64().unwrap()).sum()
    };
    let before = heard(&net);
    wait_for("two sessions of at least 100 packets a second", Duration::from_secs(1), || {
        match heard(&net) - before {
            more if more > 100 => Ok(()),
            more => Err(format!("{more} packets")),
        }
    })
    .unwrap();
    assert_eq!(net.shown()["strays"], 0);

    // Nothing of the server's comes any more; what is sent to it does.
    let silent = "nft add table inet silent
nft add chain inet silent out '{ type filter hook output priority 0; }'
nft add rule inet silent out udp dport 3784 drop";
    net.line.server.run(silent).unwrap();
    let began = Instant::now();
    wait_for("silence to be noticed", SOON, || match net.shown()["sessions"].as_array().unwrap().clone() {
        all if all.iter().all(|one| one["state"] == "down") => Ok(()),
        all => Err(format!("{all:?}")),
    })
    .unwrap();
    println!("shown as down {:?} after the packets ended", began.elapsed());
    for one in net.shown()["sessions"].as_array().unwrap() {
        assert_eq!(one["diagnostic"], "detection time expired");
    }
    are(&net.ours, "down");
    are(&net.theirs, "down");
    net.line.server.run("nft delete table inet silent").unwrap();
    are(&net.theirs, "up");
    are(&net.ours, "up");

    // A session that FRR ends is gone; the other stays.
    net.ours
        .vtysh("configure terminal\nbfd\nno peer 10.2.0.2 local-address 10.2.0.1 interface right")
        .unwrap();
    wait_for("one session to end", SOON, || match net.shown()["sessions"].as_array().unwrap().len() {
        1 => Ok(()),
        count => Err(format!("{count} sessions")),
    })
    .unwrap();
    net.run_one();
}

impl Net {
    fn run_one(&self) {
        let shown = self.shown();
        assert_eq!(shown["sessions"][0]["state"], "up", "{shown}");
        assert_eq!(shown["sessions"][0]["peer"], "2001:db8:2::2");
    }
}

#[test]
fn and_neither_a_reload_nor_a_restart_touches_any() {
    let mut net = net("bfdbgp", Some("bgpd"), |own, _| neighbours(own));
    net.run_here();
    let there = |net: &Net| {
        wait_for("BGP on both sides", SOON, || match (lost(&net.ours), lost(&net.theirs)) {
            (Some(ours), Some(theirs)) => Ok((ours, theirs)),
            lost => Err(format!("{lost:?}")),
        })
        .unwrap()
    };
    let changes = |net: &Net| -> Vec<Value> {
        net.shown()["sessions"].as_array().unwrap().iter().map(|one| one["changes"].clone()).collect()
    };
    let before = (there(&net), changes(&net));
    let config = |more| ports("auto", &["left", "right"]) + "[bfd]\n" + more;
    for more in ["[police.icmp]\nrate = 100\n", "[filter.forward]\npolicy = \"accept\"\n", ""] {
        net.line.router.configure(&config(more)).unwrap();
        net.line.router.ask("reload").unwrap();
    }
    assert_eq!((there(&net), changes(&net)), before, "{}", net.line.router.log());

    // Nor does a stop, nor what follows it; nor a death. Packets go on meanwhile, for longer than
    // it takes to detect that there are none.
    net.line.router.stop().unwrap();
    let come = || -> Vec<u64> {
        let all = net.theirs.show("show bfd peers counters json").unwrap();
        all.as_array().unwrap().iter().map(|one| one["control-packet-input"].as_u64().unwrap()).collect()
    };
    let stopped = come();
    wait_for("packets of both sessions", SOON, || {
        let now = come();
        match stopped.iter().zip(&now).all(|(then, now)| now - then > 10) {
            true => Ok(()),
            false => Err(format!("{now:?} after {stopped:?}")),
        }
    })
    .unwrap();
    assert_eq!(there(&net), before.0);
    net.line.router.restart().unwrap();
    net.run_here();
    assert_eq!((there(&net), changes(&net)), before, "{}", net.line.router.log());
    net.line.router.kill_nine();
    net.line.router.restart().unwrap();
    net.run_here();
    assert_eq!((there(&net), changes(&net)), before, "{}", net.line.router.log());

    // When the process that runs them dies, the next one begins anew.
    let socket = net.line.router.socket().to_owned();
    let host = net.line.router.host().clone();
    host.run(&format!("pkill -KILL -f -- '--socket {} [b]fd'", socket.display())).unwrap();
    wait_for("another process", SOON, || match net.shown()["sessions"].as_array().map(Vec::len) {
        Some(2) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    net.run_here();
    there(&net);

    // Neighbours are told when sessions are not wanted any more.
    net.line.router.configure(&ports("auto", &["left", "right"])).unwrap();
    net.line.router.ask("reload").unwrap();
    wait_for("the neighbour to hear of the end", SOON, || {
        let all = peers(&net.theirs);
        let told = |one: &Value| one["remote-diagnostic"] == "administratively down";
        if all.iter().all(told) { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .unwrap();
    assert!(!socket.with_extension("bfd.sock").exists());
}
