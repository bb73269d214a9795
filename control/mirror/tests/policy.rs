//! What Linux does to forwarded packets beyond routes is told.

mod world;

use std::process::Command;
use world::{World, ip, ip_says, quiet};

fn nft(command: &str) {
    let output = Command::new("nft").arg(command).output().unwrap();
    assert!(output.status.success(), "nft {command}: {}", String::from_utf8_lossy(&output.stderr));
}

fn rules(world: &World) -> Vec<String> {
    world.mirror.status().rules
}

fn filters(world: &World) -> Vec<String> {
    world.mirror.beyond().all_filters()
}

#[test]
fn policy_rules_are_told_as_ip_rule_writes_them() {
    let mut world = World::small(quiet());
    assert!(rules(&world).is_empty());
    ip("rule add pref 900 from 10.0.0.0/8 to 198.51.100.9 fwmark 0x1/0xff iif p0 lookup 77");
    ip("rule add pref 1000 not from 192.0.2.0/24 ipproto udp dport 53-54 blackhole");
    ip("rule add pref 1100 from all lookup main suppress_prefixlength 0");
    ip("-6 rule add pref 50 tos 0x10 oif p1 prohibit");
    ip("-6 rule add pref 60 from all iif lo lookup 99");
    let told = [
        "ipv4 900: from 10.0.0.0/8 to 198.51.100.9 fwmark 0x1/0xff iif p0 lookup 77",
        "ipv4 1000: not from 192.0.2.0/24 dport 53-54 ipproto 17 blackhole",
        "ipv4 1100: from all lookup main suppress_prefixlength 0",
        "ipv6 50: from all tos 0x10 oif p1 prohibit",
    ];
    world.until("the rules are told", |world| rules(world) == told);
    let linux = ip_says("rule").unwrap();
    assert!(linux.contains(&told[0]["ipv4 900: ".len()..]), "{linux}");
    let status = world.mirror.status();
    assert_eq!((status.rules_ipv4, status.rules_ipv6), (3, 1));
    for pref in ["900", "1000", "1100"] {
        ip(&format!("rule del pref {pref}"));
    }
    ip("-6 rule del pref 50");
    world.until("they are gone", |world| rules(world).is_empty());
}

#[test]
fn a_default_rule_that_is_not_there_is_told_and_many_are_counted() {
    let mut world = World::small(quiet());
    // Those who have VRFs move it behind their rule, which is no other order for the rest.
    ip("rule add pref 32765 from all lookup local");
    ip("rule del pref 0");
    ip("rule add pref 40000 from all lookup local");
    ip("rule del pref 32765");
    let told = ["ipv4 40000: from all lookup local", "ipv4 0: from all lookup local (missing)"];
    world.until("it is told", |world| rules(world) == told);
    ip("rule add pref 32765 from all lookup local");
    ip("rule del pref 40000");
    world.until("all is as always, as good as", |world| rules(world).is_empty());
    ip("rule add pref 0 from all lookup local");
    ip("rule del pref 32765");
    world.until("all is as always", |world| rules(world).is_empty());
    world::batch(&(0..3000).map(|n| format!("rule add pref {} lookup 77\n", n + 1)).collect::<String>());
    world.until("all are counted", |world| world.mirror.status().rules_ipv4 == 3000);
    assert_eq!(rules(&world).len(), 16);
    assert_eq!(rules(&world)[1], "ipv4 2: from all lookup 77");
}

#[test]
fn chains_that_forwarded_packets_would_pass_are_told() {
    let mut world = World::small(quiet());
    assert!(filters(&world).is_empty());
    nft("add table inet filter");
    nft("add chain inet filter input { type filter hook input priority 0; policy drop; }");
    nft("add chain inet filter forward { type filter hook forward priority 0; policy accept; }");
    nft("add chain inet filter called");
    nft("add rule inet filter called drop");
    nft("add table ip nat");
    nft("add chain ip nat POSTROUTING { type nat hook postrouting priority 100; }");
    nft("add rule ip nat POSTROUTING oifname p1 masquerade");
    world.until("the one that rewrites is told", |world| filters(world) == ["ip nat POSTROUTING"]);
    nft("add rule inet filter forward ct state invalid drop");
    nft("add table inet bifrost");
    nft("add chain inet bifrost at_forward { type filter hook forward priority 0; policy drop; }");
    nft("add table ip6 raw");
    nft("add chain ip6 raw early { type filter hook prerouting priority -300; policy drop; }");
    let told = ["inet filter forward", "ip nat POSTROUTING", "ip6 raw early"];
    world.until("all are told", |world| {
        let mut told_now = filters(world);
        told_now.sort();
        told_now == told
    });
    nft("flush chain inet filter forward");
    nft("delete table ip nat");
    nft("delete table ip6 raw");
    world.until("none is left", |world| filters(world).is_empty());
}

#[test]
fn what_is_there_at_the_start_is_told() {
    let mut world = World::small(quiet());
    nft("add table netdev t");
    nft("add chain netdev t drops { type filter hook ingress device p0 priority 0; policy drop; }");
    ip("rule add pref 7 from all lookup 77");
    world.mirror = mirror::Mirror::new(quiet()).unwrap();
    world.told = Default::default();
    world.settle();
    world.until("it is told", |world| !rules(world).is_empty() && !filters(world).is_empty());
    assert_eq!(rules(&world), ["ipv4 7: from all lookup 77"]);
    assert_eq!(filters(&world), ["netdev t drops"]);
}

#[test]
fn chains_that_see_what_bridges_route_are_told_apart() {
    let mut world = World::small(quiet());
    let bridged = |world: &World| world.mirror.beyond().bridged;
    nft("add table bridge own");
    nft("add chain bridge own input { type filter hook input priority 0; }");
    nft("add chain bridge own forward { type filter hook forward priority 0; policy drop; }");
    world.until("the first is read", |world| world.mirror.knows_beyond());
    assert!(bridged(&world).is_empty(), "one has no rules, one sees only what is bridged");
    nft("add rule bridge own input counter");
    nft("add chain bridge own output { type filter hook output priority 0; policy drop; }");
    world.until("they are told", |world| {
        bridged(world) == ["bridge own input", "bridge own output"] && filters(world).is_empty()
    });
    nft("delete table bridge own");
    world.until("they are gone", |world| bridged(world).is_empty());
}
