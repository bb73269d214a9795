//! keepalived and FRR's vrrpd are the other end, both ways: each takes over from Bifrost, and
//! Bifrost from each. (The network of `redundant.rs`, where `two` is the other program.)

use std::{fs, time::Duration};

use lab::{Frr, Host, Process, Router, wait_for};

use crate::redundant::{Pair, becomes, state, status};

/// Bifrost's side: one virtual router of each family, or of IPv4 only.
fn ours(priority: u8, more: &str, six: bool) -> String {
    let six = if six {
        format!(
            "[vrrp.six]\ninterface = \"left\"\nid = 10\naddresses = [\"fe80::1\", \"2001:db8:1::1\"]\n\
             priority = {priority}\n{more}\n"
        )
    } else {
        String::new()
    };
    format!(
        "[[port]]\nname = \"left\"\n[vrrp.left]\ninterface = \"left\"\nid = 10\n\
         addresses = [\"10.1.0.1\"]\npriority = {priority}\n{more}\n{six}"
    )
}

fn keepalived(host: &Host, version: u8, interval: &str, six: bool, more: &str) -> Process {
    let common = format!(
        "interface left\n state BACKUP\n virtual_router_id 10\n priority 100\n advert_int {interval}\n{more}\n"
    );
    let six = if six {
        format!("vrrp_instance six {{ {common} virtual_ipaddress {{ fe80::1\n 2001:db8:1::1 }}\n}}\n")
    } else {
        String::new()
    };
    let text = format!(
        "global_defs {{ vrrp_version {version}\n}}\nvrrp_instance left {{ {common} virtual_ipaddress {{ 10.1.0.1/32 }}\n}}\n{six}"
    );
    let at = |name: &str| host.folder().join(name);
    fs::write(at("keepalived.conf"), text).unwrap();
    let mut command = host.command("keepalived");
    command.args(["-n", "-l", "-P"]).arg("-f").arg(at("keepalived.conf"));
    command.arg("-p").arg(at("keepalived.pid")).arg("-r").arg(at("vrrp.pid"));
    host.spawn("keepalived", command).unwrap()
}

/// Waits until the other program has an address, or has it no more.
#[track_caller]
fn has(host: &Host, address: &str, wanted: bool) {
    wait_for(&format!("{address} on the other: {wanted}"), Duration::from_secs(15), || {
        let there = host.run("ip -brief address show left").map_err(|error| error.to_string())?;
        if there.contains(&format!("{address}/")) == wanted { Ok(()) } else { Err(there) }
    })
    .unwrap();
}

#[track_caller]
fn reached(net: &Pair, addresses: &[&str]) {
    for address in addresses {
        net.customer.reaches(address, Duration::from_secs(10)).unwrap();
    }
}

fn both_ways(name: &str, version: u8, [ours_is, theirs_is]: [&str; 2], six: bool) {
    let net = Pair::new(name);
    for (host, last) in [(&net.one, 2), (&net.two, 3), (&net.customer, 9)] {
        let on = if last == 9 { "eth0" } else { "left" };
        host.run(&format!("ip address add 2001:db8:1::{last}/64 dev {on} nodad")).unwrap();
    }
    let addresses: &[&str] = if six { &["10.1.0.1", "2001:db8:1::1"] } else { &["10.1.0.1"] };
    let names: &[&str] = if six { &["left", "six"] } else { &["left"] };
    let more = format!("version = {version}\ninterval = \"{ours_is}\"");
    let config = ours(200, &more, six);
    let mut other = keepalived(&net.two, version, theirs_is, six, "");
    has(&net.two, "10.1.0.1", true);
    let mut one = Router::start(&net.one, &config).unwrap();
    if !one.is_bifrost() {
        return;
    }
    // Bifrost has the higher priority, and preempts; then keepalived is heard no more.
    names.iter().for_each(|name| becomes(&one, name, "active"));
    addresses.iter().for_each(|address| has(&net.two, address, false));
    reached(&net, addresses);
    // Released: keepalived follows at once.
    for name in names {
        let said = one.ask(&format!("redundancy release {name}")).unwrap();
        assert!(said.contains("has taken over"), "{said}\n{}", other.output());
    }
    addresses.iter().for_each(|address| has(&net.two, address, true));
    reached(&net, addresses);
    let heard = status(&one, "left");
    assert_eq!((heard["active_priority"].as_u64(), heard["refused"].to_string()), (Some(100), "{}".into()));
    // keepalived stops, and says so.
    other.stop(Duration::from_secs(5)).unwrap();
    names.iter().for_each(|name| becomes(&one, name, "active"));
    let log = one.log();
    assert!(log.contains("active: the active router") && log.contains("has stopped"), "{log}");
    reached(&net, addresses);
    // It comes back as backup, and Bifrost dies.
    let _other = keepalived(&net.two, version, theirs_is, six, "");
    wait_for("keepalived to be backup", Duration::from_secs(10), || match _other.output() {
        said if said.contains("BACKUP STATE") => Ok(()),
        said => Err(said),
    })
    .unwrap();
    one.kill_nine();
    addresses.iter().for_each(|address| has(&net.two, address, true));
    reached(&net, addresses);
}

#[test]
fn keepalived_in_version_3() {
    both_ways("vr-ka3", 3, ["100ms", "0.1"], true);
}

#[test]
fn keepalived_in_version_2() {
    both_ways("vr-ka2", 2, ["1s", "1"], false);
}

#[test]
fn keepalived_by_unicast() {
    let net = Pair::new("vr-kau");
    let more = "interval = \"100ms\"\npeers = [\"10.1.0.3\"]";
    let one = Router::start(&net.one, &ours(50, more, false)).unwrap();
    if !one.is_bifrost() {
        return;
    }
    becomes(&one, "left", "active");
    let mut other =
        keepalived(&net.two, 3, "0.1", false, "unicast_src_ip 10.1.0.3\n unicast_peer { 10.1.0.2\n }");
    becomes(&one, "left", "backup");
    has(&net.two, "10.1.0.1", true);
    other.stop(Duration::from_secs(5)).unwrap();
    becomes(&one, "left", "active");
    reached(&net, &["10.1.0.1"]);
}

#[test]
fn frr_with_its_macvlans() {
    let net = Pair::new("vr-frr");
    let config = |priority| ours(priority, "interval = \"100ms\"", false);
    let mut one = Router::start(&net.one, &config(200)).unwrap();
    if !one.is_bifrost() {
        return;
    }
    becomes(&one, "left", "active");
    net.two
        .run(
            "ip link add vrrp4-10 link left type macvlan mode bridge
ip link set vrrp4-10 address 00:00:5e:00:01:0a
ip address add 10.1.0.1/24 dev vrrp4-10
ip link set vrrp4-10 up",
        )
        .unwrap();
    let lines = "interface left\n vrrp 10\n vrrp 10 priority 100\n vrrp 10 advertisement-interval 100\n vrrp 10 ip 10.1.0.1\n";
    let frr = Frr::start(&net.two, &["vrrpd"], lines, false).unwrap();
    let is = |wanted: &str| {
        wait_for(&format!("FRR to be {wanted}"), Duration::from_secs(15), || {
            let said = frr.vtysh("show vrrp").map_err(|error| error.to_string())?;
            let state = said.lines().find(|line| line.trim_start().starts_with("Status (v4)"));
            let is = state.is_some_and(|line| line.contains(wanted));
            if is { Ok(()) } else { Err(said) }
        })
        .unwrap();
    };
    is("Backup");
    assert_eq!(state(&one, "left"), "active");
    let said = one.ask("redundancy release left").unwrap();
    assert!(said.contains("router 10.1.0.3 has taken over"), "{said}");
    is("Master");
    becomes(&one, "left", "backup");
    one.ask("redundancy resume left").unwrap();
    becomes(&one, "left", "active");
    is("Backup");
    reached(&net, &["10.1.0.1"]);
    one.kill_nine();
    is("Master");
}
