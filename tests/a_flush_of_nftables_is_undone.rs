//! Somebody flushes nftables while the router runs, as every restart of the service `nftables`
//! does, or changes one rule of the router's table: Linux has the router's rules again within a
//! second, and it is told. (The network of `network.rs`.)

use std::time::Duration;

use crate::network::{Line, ports};

const RULES: &str = "[filter.input]\nrules = \"drop udp to any port 7000\"\n[filter.forward]\nrules = '''\ndrop tcp to any port 23\n\
                     drop udp to any port 9\n'''\n";

fn table(net: &Line) -> String {
    net.router.host().run("nft list ruleset").unwrap()
}

fn restored(net: &Line) -> u64 {
    net.router.subject("mirror").unwrap()["filter_restored"].as_u64().unwrap()
}

/// Waits until the table is what it was.
fn is_back(net: &Line, was: &str) {
    lab::wait_for("Linux to have the rules again", Duration::from_secs(3), || match table(net) {
        now if now == was => Ok(()),
        now => Err(now),
    })
    .unwrap();
}

#[test]
fn a_flush_of_nftables_is_undone() {
    let config = ports("auto", &["left", "right"]) + RULES;
    let mut net = Line::stopped("flush", &config);
    if !net.router.is_bifrost() {
        return;
    }
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let was = table(&net);
    assert!(was.contains("dport 7000") && was.contains("dport 23"), "{was}");

    net.router.host().run("nft flush ruleset").unwrap();
    is_back(&net, &was);
    assert_eq!(restored(&net), 1);

    // One rule of many.
    let rules = net.router.host().run("nft -a list table inet bifrost").unwrap();
    let before = &rules[..rules.find("dport 23").unwrap()];
    let chain = before.rsplit("chain ").next().unwrap().split(' ').next().unwrap();
    let rule = rules.lines().find(|line| line.contains("dport 23")).unwrap();
    let handle = rule.rsplit("handle ").next().unwrap().trim();
    let other = format!("nft replace rule inet bifrost {chain} handle {handle} tcp dport 24 drop");
    net.router.host().run(&other).unwrap();
    is_back(&net, &was);
    assert_eq!(restored(&net), 2);

    // What others do in tables of their own is theirs, and lasts.
    net.router.host().run("nft add table inet other").unwrap();
    net.router.host().run("nft add chain inet other c").unwrap();
    net.router.host().run("nft add rule inet other c tcp dport 1 drop").unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    assert!(table(&net).contains("table inet other"));
    assert_eq!(restored(&net), 2);

    // A reload of the same file makes sure at once.
    net.router.host().run("nft flush ruleset").unwrap();
    net.router.ask("reload").unwrap();
    assert_eq!(table(&net), was);
    assert_eq!(restored(&net), 3);
    let log = net.router.log();
    assert!(log.contains("somebody changed or removed Linux's copy"), "{log}");

    net.router.kill_nine();
    assert_eq!(table(&net), was, "without the plane, Linux filters");
}
