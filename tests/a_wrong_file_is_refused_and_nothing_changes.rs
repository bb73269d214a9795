//! A wrong router.toml is refused with the place and the remedy, and Linux goes on forwarding.
//! (The network of `network.rs`.)

use std::time::Duration;

use lab::{Ping, wait_for};

use crate::network::{LANES, Line, SERVER, ports};

/// What is wrong, the file, and words that the message must have: the line, what was expected, the
/// near match.
const WRONG: &[(&str, &str, &[&str])] = &[
    ("not TOML", "[[port]\nname = 'left'\n", &["router.toml:1"]),
    ("a misspelt key", "[[port]]\nnmae = 'left'\n", &["router.toml:2", "nmae", "name"]),
    (
        "a misspelt table",
        "[[port]]\nname = 'left'\n[wrokers]\ncores = [0]\n",
        &["router.toml:3", "wrokers", "workers"],
    ),
    (
        "a word where a list belongs",
        "[[port]]\nname = 'left'\n[workers]\ncores = true\n",
        &["router.toml:4", "cores"],
    ),
    (
        "a lane that does not exist",
        "[[port]]\nname = 'left'\nlane = 'fast'\n",
        &["router.toml:3", "express", "worker"],
    ),
    ("a misspelt lane", "[[port]]\nname = 'left'\nlane = 'expres'\n", &["router.toml:3", "express"]),
    ("a negative number", "[[port]]\nname = 'left'\nqueues = -1\n", &["router.toml:3", "queues"]),
    ("the same port twice", "[[port]]\nname = 'left'\n[[port]]\nname = 'left'\n", &["router.toml:4", "left"]),
    ("a core that is not there", "[[port]]\nname = 'left'\n[workers]\ncores = [4000]\n", &["4000"]),
    (
        "a rate that is no number",
        "[[port]]\nname = 'left'\n[police]\nicmp = { rate = 'much' }\n",
        &["router.toml:4", "rate"],
    ),
    (
        "an interval without a unit",
        "[[port]]\nname = 'left'\n[audit]\ninterval = 'often'\n",
        &["router.toml:4", "interval"],
    ),
    (
        "an address that is none",
        "[[port]]\nname = 'left'\n[metrics]\nlisten = 'here'\n",
        &["router.toml:4", "listen"],
    ),
];

#[test]
fn at_the_first_start() {
    let net = Line::stopped("wrong", "");
    if !net.router.is_bifrost() {
        return;
    }
    for (what, file, words) in WRONG {
        net.router.configure(file).unwrap();
        let (status, said) = net.router.run_to_its_end(Duration::from_secs(5)).unwrap();
        assert!(!status.success(), "{what} was taken: {said}");
        for word in *words {
            assert!(said.contains(word), "{what}: the message lacks '{word}': {said}");
        }
        let links = net.router.host().run("ip -details link show").unwrap();
        assert!(!links.contains("xdp"), "{what}: an interface was touched: {links}");
    }
    net.reachable();
}

#[test]
fn at_a_restart_under_traffic() {
    for lane in LANES {
        let mut net = Line::new("wrong", lane);
        let ping = Ping::start(&net.customer, SERVER[0], Duration::from_millis(10)).unwrap();
        net.router.stop().unwrap();
        if net.router.is_bifrost() {
            net.router.configure("[[port]]\nname = 'left'\nlane = 'fast'\n").unwrap();
            assert!(!net.router.run_to_its_end(Duration::from_secs(5)).unwrap().0.success());
        }
        net.reachable();
        net.router.configure(&ports(lane, &["left", "right"])).unwrap();
        net.router.restart().unwrap();
        net.reachable();
        let ping = ping.stop();
        assert!(ping.lost() <= 2, "{lane}: {ping:?}");
    }
}

#[test]
fn and_what_waits_for_the_next_start_is_said() {
    let config = |flow: &str| ports("worker", &["left", "right"]) + "[flow]\n" + flow;
    let net = Line::stopped("waits", &config("memory = 16\n")).started();
    if !net.router.is_bifrost() {
        return;
    }
    let reload = |flow: &str| {
        net.router.configure(&config(flow)).unwrap();
        net.router.ask("reload").unwrap()
    };
    // How long flows live is known at once.
    let said = reload("memory = 16\n[flow.timeouts]\nicmp = \"1s\"\n");
    assert!(!said.contains("next start"), "{said}");
    net.customer.run("ping -c 1 -W 2 10.2.0.2 >/dev/null").unwrap();
    wait_for("it to be forgotten", Duration::from_secs(20), || {
        match net.router.ask("show flows --host 10.2.0.2") {
            Ok(flows) if !flows.contains("10.2.0.2") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .unwrap();
    let said = reload("memory = 32\nftp = \"off\"\n");
    assert!(said.contains("at the next start only: [flow] memory and fragments, [flow] ftp"), "{said}");
    let said = reload("memory = 16\n");
    assert!(!said.contains("next start"), "{said}");
}
