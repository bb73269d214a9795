//! Thousands of changes, lost messages, and random operations: in the end the tables equal Linux's.

mod world;

use fib::{Capacity, NextHop, NextHopId, Tables};
use ipnet::IpNet;
use mirror::{Mirror, Options};
use std::fmt::Write;
use std::time::{Duration, Instant};
use world::{Told, World, batch, batch_start, cpu, ip, ip_says, quiet};

struct Random(chance::Random);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit as usize) as u64
    }
}

/// Random route commands over few prefixes, so that they meet.
fn operations(random: &mut Random, count: usize) -> String {
    let mut text = String::new();
    for _ in 0..count {
        let verb =
            ["add", "add", "append", "prepend", "replace", "replace", "del", "del"][random.below(8) as usize];
        let ipv6 = random.below(2) == 1;
        let length = if ipv6 { 32 + random.below(97) } else { 12 + random.below(21) };
        let prefix = if ipv6 {
            format!("2001:db9:{:x}::/{length}", (1 + random.below(3)) << random.below(14))
        } else {
            let bits = (100u32 << 24 | (random.below(1 << 24) as u32)) & (u32::MAX << (32 - length.min(16)));
            format!("{}/{length}", std::net::Ipv4Addr::from(bits & (u32::MAX << (32 - length))))
        };
        let verb = if ipv6 && verb == "prepend" { "append" } else { verb };
        let gateway = |random: &mut Random| {
            let (link, host) = (random.below(2), 2 + random.below(4));
            if ipv6 { format!("2001:db8:{link}::{host}") } else { format!("10.0.{link}.{host}") }
        };
        let target = match random.below(12) {
            0 => "blackhole".to_string(),
            1 => "unreachable".to_string(),
            2 => "object".to_string(),
            3 | 4 => "multi".to_string(),
            5 => "device".to_string(),
            _ => "via".to_string(),
        };
        let metric = [10, 20, 1024][random.below(3) as usize];
        let _ = match target.as_str() {
            "blackhole" | "unreachable" => {
                writeln!(text, "route {verb} {target} {prefix} metric {metric}")
            }
            "object" => {
                writeln!(text, "route {verb} {prefix} nhid {} metric {metric}", 4 + 2 * u8::from(ipv6))
            }
            "multi" => writeln!(
                text,
                "route {verb} {prefix} metric {metric} nexthop via {} nexthop via {} weight 2",
                gateway(random),
                gateway(random)
            ),
            "device" => writeln!(text, "route {verb} {prefix} dev p{} metric {metric}", random.below(2)),
            _ => writeln!(text, "route {verb} {prefix} via {} metric {metric}", gateway(random)),
        };
    }
    text
}

fn objects() {
    ip("nexthop add id 4 via 10.0.0.3 dev p0");
    ip("nexthop add id 6 via 2001:db8:1::3 dev p1");
}

#[test]
fn after_random_operations_the_model_equals_linux() {
    for seed in 1..=4 {
        let mut world = World::small(quiet());
        objects();
        let mut random = Random(chance::Random(seed));
        for _ in 0..3 {
            let mut child = batch_start(&operations(&mut random, 4000));
            while child.try_wait().unwrap().is_none() {
                world.turn();
            }
            world.settle();
            world.assert_equal_to_linux();
        }
        let status = world.mirror.status();
        assert_eq!((status.overflows, status.malformed, status.refused), (0, 0, 0));
    }
}

#[test]
fn a_table_that_changes_while_it_is_read_is_read_right() {
    for family in ["2001:db9", "100"] {
        let prefix = |number: u32| match family {
            "100" => format!("100.{}.{}.0/24 via 10.0.0.2", number >> 8, number & 255),
            _ => format!("2001:db9:{number:x}::/48 via 2001:db8::2"),
        };
        let _world = World::small(quiet());
        let stays: String = (2000..8000).map(|n| format!("route add {}\n", prefix(n))).collect();
        batch(&(stays.clone() + &stays.replace(" via", " metric 2048 via")));
        // Prefixes in front of what stays come and go.
        let round =
            |verb: &str| (0..500).map(|n| format!("route {verb} {}\n", prefix(n))).collect::<String>();
        let mut flapping = batch_start(&(round("add") + &round("del")).repeat(24));
        let mut reads = 0;
        while flapping.try_wait().unwrap().is_none() {
            let mut mirror = Mirror::new(quiet()).unwrap();
            let capacity = Capacity { ipv4: 20_000, ipv6: 20_000, next_hops: 2_000 };
            let (mut tables, mut told) = (Tables::new(capacity, None).unwrap(), Told::default());
            while !mirror.ready() {
                mirror.sync(&mut tables, &mut told).unwrap();
            }
            let net: IpNet = if family == "100" { "100.0.0.0/8" } else { "2001:db9::/32" }.parse().unwrap();
            let model = mirror.model();
            let twice = model.routes.within(net, None).filter(|(_, routes)| routes.len() == 2).count();
            let other = model.routes.within(net, None).filter(|(_, routes)| routes.len() > 2).count();
            assert_eq!((twice, other), (6000, 0), "{family}, after {reads} reads");
            reads += 1;
        }
        assert!(reads > 0, "{family}: the prefixes came and went before a read ended");
    }
}

#[test]
fn lost_messages_lead_to_a_full_reread() {
    let options = Options { receive_buffer: 4096, audit_interval: None, ..Options::default() };
    let mut world = World::small(options);
    objects();
    let mut random = Random(chance::Random(77));
    batch(&operations(&mut random, 3000));
    // Half-way read anew, more arrives.
    world.turn();
    let mut child = batch_start(&operations(&mut random, 3000));
    while child.try_wait().unwrap().is_none() {
        world.turn();
    }
    world.settle();
    assert!(world.mirror.status().overflows > 0);
    assert!(world.mirror.status().rereads > 0);
    world.assert_equal_to_linux();
}

#[test]
fn the_decision_is_the_one_that_linux_takes() {
    let mut world = World::small(quiet());
    objects();
    for port in ["p0", "p1"] {
        std::fs::write(format!("/proc/sys/net/ipv4/conf/{port}/forwarding"), "1").unwrap();
        let link = &port[1..];
        for host in 2..6 {
            ip(&format!("neigh add 10.0.{link}.{host} lladdr 02:00:00:00:0{link}:0{host} dev {port}"));
            ip(&format!("neigh add 2001:db8:{link}::{host} lladdr 02:00:00:00:0{link}:0{host} dev {port}"));
        }
    }
    let mut random = Random(chance::Random(4242));
    batch(&operations(&mut random, 2500));
    world.settle();
    let mut forwarded = 0;
    for _ in 0..600 {
        let address = match random.below(3) {
            0 => format!("2001:db9:{:x}::{:x}", (1 + random.below(3)) << random.below(14), random.below(9)),
            1 => format!("10.0.{}.{}", random.below(2), random.below(8)),
            _ => std::net::Ipv4Addr::from(100u32 << 24 | (random.below(1 << 24) as u32)).to_string(),
        };
        forwarded += usize::from(compare_with_linux(&world, &address));
    }
    assert!(forwarded > 200, "only {forwarded} of the addresses are forwarded");
}

#[test]
fn in_ipv6_table_local_is_looked_up_first_whole() {
    let mut world = World::small(quiet());
    ip("neigh add 2001:db8::2 lladdr 02:00:00:00:00:02 dev p0");
    ip("neigh add 2001:db8:1::2 lladdr 02:00:00:00:01:02 dev p1");
    batch(
        "route add 2001:db8:f:1::/64 via 2001:db8::2\nroute add 2001:db8:f:1::9/128 via 2001:db8:1::2\n\
         route add 2001:db8:e::/47 via 2001:db8:1::2\n",
    );
    world.settle();
    let addresses =
        ["f::1", "f:1::1", "f:1::9", "e::1", ":2", ":3", "1::2"].map(|end| format!("2001:db8:{end}"));
    let forwarded = |world: &World| addresses.each_ref().map(|address| compare_with_linux(world, address));
    assert_eq!(forwarded(&world), [true; 7]);
    ip("-6 route add local 2001:db8:f::/48 dev lo");
    ip("-6 route add local 2001:db8::3/128 dev lo");
    world.settle();
    assert_eq!(forwarded(&world), [false, false, false, true, true, false, true]);
    world.assert_equal_to_linux();
    let explanation =
        world.mirror.explain(&world.tables, fib::TableId::MAIN, "2001:db8:f:1::9".parse().unwrap()).unwrap();
    assert_eq!(explanation.route.table, 255);
    // Within it, the search in table local ends.
    ip("-6 route add throw 2001:db8:f:1::8/125 table local");
    ip("-6 route add blackhole 2001:db8::/64 table local");
    world.settle();
    assert_eq!(forwarded(&world), [false, false, true, true, false, false, true]);
    assert_eq!(world.decision("2001:db8:f:1::a"), NextHop::Punt);
    ip("-6 route del local 2001:db8:f::/48 dev lo");
    ip("-6 route del blackhole 2001:db8::/64 table local");
    world.settle();
    assert_eq!(forwarded(&world), [true, true, true, true, true, false, true]);
    world.assert_equal_to_linux();
}

#[test]
fn in_ipv4_linux_decides_between_table_local_and_a_longer_prefix_of_main() {
    let mut world = World::small(quiet());
    ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p0");
    batch("route add 192.0.2.128/25 via 10.0.0.2\nroute add 192.0.0.0/16 via 10.0.0.2\n");
    ip("route add local 192.0.2.0/24 dev lo");
    ip("route add blackhole 10.0.0.0/8 table local");
    world.settle();
    let linux = |address: &str| ip_says(&format!("route get {address}")).unwrap();
    assert!(linux("192.0.2.129").contains(" dev p0") && linux("10.0.0.2").contains(" dev p0"));
    // A rule that comes and goes parts the two tables for good.
    ip("rule add pref 5 lookup main iif lo");
    ip("rule del pref 5");
    assert!(linux("192.0.2.129").starts_with("local") && ip_says("route get 10.0.0.2").is_none());
    for address in ["192.0.2.129", "10.0.0.2", "10.0.0.9"] {
        assert_eq!(world.decision(address), NextHop::Punt, "{address}");
    }
    assert!(compare_with_linux(&world, "192.0.3.1"));
    assert!(!compare_with_linux(&world, "192.0.2.1"));
    assert!(!compare_with_linux(&world, "10.0.0.1"));
    ip("route del blackhole 10.0.0.0/8 table local");
    ip("route del local 192.0.2.0/24 dev lo");
    world.settle();
    assert!(
        ["192.0.2.129", "10.0.0.2", "10.0.0.9"].iter().all(|address| compare_with_linux(&world, address))
    );
    world.assert_equal_to_linux();
}

/// `ip route get` and the tables must agree; whether the packet is forwarded.
fn compare_with_linux(world: &World, address: &str) -> bool {
    let decision = world.decision(address);
    let Some(answer) = ip_says(&format!("route get {address}")) else {
        // No route, blackhole, unreachable...: an error.
        let drops = matches!(decision, NextHop::None | NextHop::Blackhole | NextHop::Unreachable);
        assert!(drops, "{address}: Linux drops, the tables say {decision:?}");
        return false;
    };
    let words: Vec<&str> = answer.split_whitespace().collect();
    let after = |word: &str| words.iter().position(|w| *w == word).map(|at| words[at + 1]);
    let device = after("dev").unwrap();
    match words[0] {
        "local" | "broadcast" => {
            assert_eq!(decision, NextHop::Local, "{address}: {answer}");
            return false;
        }
        "blackhole" | "unreachable" | "prohibit" => {
            let drops = matches!(decision, NextHop::None | NextHop::Blackhole | NextHop::Unreachable);
            assert!(drops, "{address}: {answer} {decision:?}");
            return false;
        }
        _ => {}
    }
    let gateway = after("via").unwrap_or(address);
    let port: u16 = device[1..].parse().unwrap();
    match &decision {
        NextHop::Glean(glean) => assert_eq!((glean.0, gateway), (port, address), "{answer}"),
        NextHop::Punt | NextHop::Foreign(_) => assert!(answer.contains(" dev p"), "{answer}"),
        NextHop::Forward(_) => {
            let host: Option<u8> = gateway.rsplit(['.', ':']).next().and_then(|last| last.parse().ok());
            let mac = host.filter(|host| (2..6).contains(host)).map(|host| [2, 0, 0, 0, port as u8, host]);
            assert!(
                world.ways(address).contains(&(port, mac)),
                "{address}: {answer} {:?}",
                world.ways(address)
            );
        }
        other => panic!("{address}: Linux says {answer}, the tables {other:?}"),
    }
    true
}

#[test]
fn the_audit_finds_and_repairs_what_others_did_to_the_tables() {
    let options = Options { audit_interval: Some(Duration::from_millis(50)), ..Options::default() };
    let mut world = World::small(options);
    let mut random = Random(chance::Random(5));
    objects();
    let mut child = batch_start(&operations(&mut random, 6000));
    while child.try_wait().unwrap().is_none() {
        world.turn();
    }
    let audit = |world: &World| world.mirror.status().audit.unwrap();
    let rounds = audit(&world).rounds;
    world.until("a round", |world| audit(world).rounds > rounds + 1);
    assert_eq!(audit(&world).differences, 0, "churn is no difference");
    let prefix = "198.51.100.0/24";
    ip(&format!("route add {prefix} via 10.0.0.2"));
    world.settle();
    let (net, right) = (prefix.parse().unwrap(), world.id(prefix).unwrap());
    let local = world.id("10.0.0.1/32").unwrap();
    world.tables.insert4(net, local).unwrap();
    world.until("the route is repaired", |world| world.id(prefix) == Some(right));
    world.tables.set_next_hop(right, &NextHop::Blackhole).unwrap();
    world.until("the next hop is repaired", |world| world.ways("198.51.100.1") == [(0, None)]);
    world.tables.insert4("192.0.2.0/24".parse().unwrap(), local).unwrap();
    world.until("the extra route is removed", |world| world.id("192.0.2.0/24").is_none());
    world.tables.remove4(net);
    world.until("the missing route is back", |world| world.id(prefix) == Some(right));
    assert_eq!(audit(&world).differences, 4);
}

#[test]
fn without_room_linux_forwards_what_does_not_fit() {
    let capacity = Capacity { ipv4: 60, ipv6: 200, next_hops: 200 };
    let mut world = World::new(quiet(), capacity);
    ip("route add default via 10.0.0.2");
    world.settle();
    let routes: String = (0..200).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "route add 100.{n}.0.0/16 via 10.0.1.2");
        text
    });
    batch(&routes);
    world.settle();
    let status = world.mirror.status();
    assert!(status.missing > 0 && status.table_full > 0, "{status:?}");
    for n in 0..200 {
        // Never the default route's gateway.
        let decision = world.decision(&format!("100.{n}.0.1"));
        let linux = matches!(decision, NextHop::Punt | NextHop::Foreign(_));
        let right = linux || world.ways(&format!("100.{n}.0.1")) == [(1, None)];
        assert!(right, "{n}: {decision:?}");
    }
    batch(&routes.replace(" add ", " del ").lines().take(180).collect::<Vec<_>>().join("\n"));
    world.until("all fits again", |world| world.mirror.status().missing == 0);
    world.settle();
    assert_eq!(world.ways("100.190.0.1"), [(1, None)]);
    assert_eq!(world.ways("9.9.9.9"), [(0, None)]);
    world.assert_equal_to_linux();
}

#[test]
fn a_million_routes_are_in_the_tables_when_linux_has_them() {
    const ROUTES: u32 = 1_000_000;
    let options = Options { audit_interval: Some(Duration::from_millis(500)), ..Options::default() };
    let mut world = World::new(options, Capacity { ipv4: 1_200_000, ipv6: 1000, next_hops: 1000 });
    let start = Instant::now();
    let sender = std::thread::spawn(|| send_routes(ROUTES));
    let before = cpu();
    while !sender.is_finished() {
        world.turn();
    }
    let linux = start.elapsed();
    let there = |world: &World| world.tables.len4() > ROUTES as usize && world.mirror.ready();
    while !there(&world) {
        assert!(start.elapsed() < linux + Duration::from_secs(20), "{} routes", world.tables.len4());
        world.turn();
    }
    let status = world.mirror.status();
    println!(
        "{ROUTES} routes: Linux had them after {linux:?}, the tables {:?} later; {:?} of CPU, {} overflows",
        start.elapsed() - linux,
        cpu() - before,
        status.overflows
    );
    assert!(world.id("16.0.0.0/24").is_some_and(|id| id != NextHopId::NONE));
    let rounds = |world: &World| world.mirror.status().audit.unwrap().rounds;
    let (had, before) = (rounds(&world), cpu());
    world.until("two rounds of the audit", |world| rounds(world) >= had + 2);
    assert_eq!(world.mirror.status().audit.unwrap().differences, 0);
    println!(
        "two rounds of the audit: {:?} of CPU; the longest call took {:?}",
        cpu() - before,
        world.longest
    );
    // A gateway's loss is one change.
    let before = Instant::now();
    ip("link set p1 down");
    println!("Linux switched the link off in {:?}", before.elapsed());
    world.until("Linux has the routes of the lost link", |world| {
        world.id("16.0.1.0/24").is_none_or(|id| world.tables.next_hop(id) == NextHop::Punt)
    });
    println!("500,000 routes redirected {:?} after it began", before.elapsed());
    world.settle();
    println!("and {} prefixes left {:?} after", world.tables.len4(), before.elapsed());
    assert_eq!(world.id("16.0.1.0/24"), None);
}

/// Gives Linux routes as fast as it takes them: many messages in a datagram, no answers wanted.
fn send_routes(count: u32) {
    let socket = netlink_sys::Socket::new(netlink_sys::protocols::NETLINK_ROUTE).unwrap();
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_CREATE) as u16;
    for first in (0..count).step_by(500) {
        let mut datagram = Vec::new();
        for n in first..first + 500 {
            let net = ((1u32 << 28) + (n << 8)).to_be_bytes();
            datagram.extend_from_slice(&44u32.to_ne_bytes());
            datagram.extend_from_slice(&24u16.to_ne_bytes());
            datagram.extend_from_slice(&flags.to_ne_bytes());
            datagram.extend_from_slice(&[0; 8]);
            datagram.extend_from_slice(&[2, 24, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0]);
            for (kind, value) in [(1u16, net), (5, [10, 0, (n % 2) as u8, (2 + n % 100) as u8])] {
                datagram.extend_from_slice(&8u16.to_ne_bytes());
                datagram.extend_from_slice(&kind.to_ne_bytes());
                datagram.extend_from_slice(&value);
            }
        }
        socket.send(&datagram, 0).unwrap();
    }
}
