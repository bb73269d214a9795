//! Two Bifrosts have the addresses of gateways together. One dies in every way there is, and the
//! other forwards within 50 ms; one hands over, and no packet is lost. (The network of
//! `redundant.rs`, advertisements each 10 ms.)

use std::{thread::sleep, time::Duration};

use lab::{Host, Router, Signal, wait_for};

use crate::redundant::{Pair, RATE, SERVER, becomes, config, state, status};

/// 50 ms of the stream.
const MOST: u64 = RATE as u64 / 20;

struct Two {
    one: Router,
    two: Router,
    net: Pair,
}

/// Both run, and the first one is active.
fn both(name: &str, more: &str) -> Option<Two> {
    let net = Pair::new(name);
    let lines = |priority| config(&format!("priority = {priority}\ninterval = \"10ms\"\n{more}"));
    let one = Router::start(&net.one, &lines(200)).unwrap();
    let two = Router::start(&net.two, &lines(100)).unwrap();
    if !one.is_bifrost() {
        return None;
    }
    for name in ["left", "right"] {
        becomes(&one, name, "active");
        becomes(&two, name, "backup");
    }
    Some(Two { one, two, net })
}

#[test]
fn when_one_is_killed() {
    let Some(Two { mut one, mut two, net }) = both("vr-kill", "") else { return };
    let stream = net.stream();
    one.kill_nine();
    let lost = stream.lost();
    assert!(lost <= MOST, "{lost} lost\n{}", two.log());
    assert_eq!(state(&two, "right"), "active");
    // What is left of it does not answer for the address.
    let left = net.one.run("ip -brief address").unwrap();
    assert!(!left.contains("10.1.0.1/"), "{left}");
    // The other one is held up for longer than three intervals. There is nobody to take over, and
    // what came meanwhile is forwarded.
    let stream = net.stream();
    two.process().unwrap().signal(Signal::SIGSTOP);
    sleep(Duration::from_millis(100));
    two.process().unwrap().signal(Signal::SIGCONT);
    let lost = stream.lost();
    assert!(lost == 0, "{lost} lost\n{}", two.log());
    // It comes back, and takes over without a loss, for it has the higher priority.
    let stream = net.stream();
    one.restart().unwrap();
    becomes(&one, "left", "active");
    becomes(&two, "left", "backup");
    let lost = stream.lost();
    let drops = || [&one, &two].map(|router| router.ask("show drops").unwrap_or_default()).concat();
    assert!(lost == 0, "{lost} lost\n{}\n{}\n{}", drops(), one.log(), two.log());
}

#[test]
fn when_the_link_of_one_is_pulled() {
    let Some(Two { one, two, net }) = both("vr-link", "") else { return };
    let stream = net.stream();
    net.left.run("ip link set one down").unwrap();
    let lost = stream.lost();
    assert!(lost <= MOST, "{lost} lost\n{}\n{}", one.log(), two.log());
    // Both of its virtual routers have gone, not only the one whose link is down.
    for name in ["left", "right"] {
        assert_eq!((state(&one, name), state(&two, name)), ("initialize".into(), "active".into()));
    }
    net.left.run("ip link set one up").unwrap();
    becomes(&one, "right", "active");
    becomes(&two, "right", "backup");
}

#[test]
fn when_all_interfaces_of_one_are_gone() {
    let Some(Two { one, two, net }) = both("vr-gone", "") else { return };
    let stream = net.stream();
    net.one.run("ip link del left; ip link del right").unwrap();
    let lost = stream.lost();
    assert!(lost <= MOST, "{lost} lost\n{}\n{}", one.log(), two.log());
    assert_eq!(state(&two, "left"), "active");
}

#[test]
fn without_loss_when_it_is_released_or_stopped() {
    let Some(Two { mut one, mut two, net }) = both("vr-planned", "") else { return };
    let stream = net.stream();
    let said = one.ask("redundancy release left").unwrap();
    assert!(said.contains(".0.3 has taken over"), "{said}");
    let lost = stream.lost();
    assert_eq!(lost, 0, "{}\n{}", one.log(), two.log());
    assert_eq!((state(&one, "right"), state(&two, "right")), ("backup".into(), "active".into()));

    // It does not take over, until it is told that it may.
    sleep(Duration::from_millis(500));
    assert_eq!(state(&one, "left"), "backup");
    let stream = net.stream();
    one.ask("redundancy resume left").unwrap();
    becomes(&one, "left", "active");
    let lost = stream.lost();
    assert_eq!(lost, 0, "{}\n{}", one.log(), two.log());

    let stream = net.stream();
    one.stop().unwrap();
    let lost = stream.lost();
    assert_eq!(lost, 0, "{}\n{}", one.log(), two.log());
    // Alone, it goes on in another process, and in this one.
    let stream = net.stream();
    two.upgrade().unwrap();
    becomes(&two, "right", "active");
    assert!(status(&two, "right")["why"].as_str().unwrap().contains("goes on"), "{}", two.log());
    let lost = stream.lost();
    assert!(lost <= MOST, "{lost} lost\n{}", two.log());
    // Alone, it stays active when it is released.
    let said = two.ask("redundancy release right").unwrap_err().to_string();
    assert!(said.contains("no other router took over"), "{said}");
    becomes(&two, "right", "active");
}

/// The virtual router is on a bridge of each, with one more host behind that of the second.
#[test]
fn on_a_bridge() {
    let net = Pair::new("vr-bridge");
    let beside = net.lab.host("beside").unwrap();
    net.lab.link(beside.end("eth0").address("10.1.0.20/24"), net.two.end("more")).unwrap();
    beside.run("ip route add default via 10.1.0.1").unwrap();
    for (host, last, members) in [(&net.one, 2, &["left"][..]), (&net.two, 3, &["left", "more"])] {
        let members: String = members.iter().map(|port| format!("ip link set {port} master lan; ")).collect();
        host.run(&format!(
            "ip link add lan address 02:00:00:00:00:0{last} type bridge mcast_snooping 0; ip link set lan up
             ip address flush dev left; {members} ip address add 10.1.0.{last}/24 dev lan"
        ))
        .unwrap();
    }
    let lines = |priority| {
        let lines = config(&format!("priority = {priority}\ninterval = \"10ms\"\n"));
        lines.replace("interface = \"left\"", "interface = \"lan\"") + "[[port]]\nname = \"more\"\n"
    };
    let mut one = Router::start(&net.one, &lines(200)).unwrap();
    let mut two = Router::start(&net.two, &lines(100)).unwrap();
    if !one.is_bifrost() {
        return;
    }
    let log = |one: &Router, two: &Router| format!("{}\n{}", one.log(), two.log());
    let reaches = |host: &Host, address| {
        let state = || host.run("ip neighbour").unwrap();
        host.reaches(address, Duration::from_secs(10)).unwrap_or_else(|e| panic!("{e}\n{}", state()));
    };
    let of_the_router = || {
        let known = beside.run("ip neighbour show 10.1.0.1").unwrap();
        assert!(known.contains("00:00:5e:00:01:0a"), "{known}");
    };
    becomes(&one, "left", "active");
    becomes(&two, "left", "backup");
    // What asks for it behind the bridge of the one that is not active is answered by the other.
    for address in [SERVER, "10.1.0.1"] {
        reaches(&beside, address);
        reaches(&net.customer, address);
    }
    of_the_router();
    let stream = net.stream();
    one.ask("redundancy release left").unwrap();
    let lost = stream.lost();
    assert_eq!(lost, 0, "{}", log(&one, &two));
    beside.run("ip neighbour flush dev eth0").unwrap();
    for address in [SERVER, "10.1.0.1"] {
        reaches(&beside, address);
        reaches(&net.customer, address);
    }
    of_the_router();
    let stream = net.stream();
    one.ask("redundancy resume left").unwrap();
    becomes(&one, "left", "active");
    let lost = stream.lost();
    assert_eq!(lost, 0, "{}", log(&one, &two));
    let by_linux = net.two.linux_forwarded().unwrap();
    let stream = net.stream();
    one.kill_nine();
    let lost = stream.lost();
    assert!(lost <= MOST, "{lost} lost\n{}", two.log());
    let by_linux = net.two.linux_forwarded().unwrap() - by_linux;
    assert!(by_linux < u64::from(RATE) / 20, "{by_linux} by Linux");
    reaches(&beside, SERVER);
    let stream = net.stream();
    two.upgrade().unwrap();
    becomes(&two, "left", "active");
    let lost = stream.lost();
    assert!(lost <= MOST, "{lost} lost\n{}", two.log());
    one.restart().unwrap();
    becomes(&one, "left", "active");
    // A member that is no port would lead frames for the virtual router past it.
    let why = |two: &Router| status(two, "left")["why"].as_str().unwrap_or_default().to_owned();
    net.two.run("ip link add odd type veth peer name odd2; ip link set odd up master lan").unwrap();
    becomes(&two, "left", "initialize");
    assert!(why(&two).contains("lan has the member odd, which is no port"), "{}", why(&two));
    net.two.run("ip link del odd").unwrap();
    becomes(&two, "left", "backup");
    two.configure(&lines(255)).unwrap();
    two.ask("reload").unwrap();
    becomes(&two, "left", "initialize");
    assert!(why(&two).contains("none can own addresses"), "{}", why(&two));
}

#[test]
fn when_what_it_tracks_is_lost() {
    let lines = "track = [{ route = \"198.18.0.0/15\", lower = 150 }]";
    let net = Pair::new("vr-track");
    net.one.run("ip route add 198.18.0.0/15 via 10.2.0.9").unwrap();
    let of = |priority, more| config(&format!("priority = {priority}\ninterval = \"10ms\"\n{more}"));
    let one = Router::start(&net.one, &of(200, lines)).unwrap();
    let two = Router::start(&net.two, &of(100, "")).unwrap();
    if !one.is_bifrost() {
        return;
    }
    becomes(&one, "left", "active");
    becomes(&two, "left", "backup");
    net.one.run("ip route del 198.18.0.0/15").unwrap();
    becomes(&two, "left", "active");
    becomes(&one, "right", "backup");
    net.one.run("ip route add 198.18.0.0/15 via 10.2.0.9").unwrap();
    becomes(&one, "left", "active");
}

#[test]
fn when_a_host_that_it_tracks_does_not_answer() {
    let net = Pair::new("vr-ping");
    let far = "198.51.100.9/32 dev lo";
    net.server.run(&format!("ip address add {far}")).unwrap();
    net.one.run("ip route add 198.51.100.9 via 10.2.0.9").unwrap();
    let line = "track = [{ ping = \"198.51.100.9\", interval = \"100ms\" }]";
    let of = |priority, more| config(&format!("priority = {priority}\ninterval = \"10ms\"\n{more}"));
    let mut one = Router::start(&net.one, &of(200, line)).unwrap();
    let two = Router::start(&net.two, &of(100, "")).unwrap();
    if !one.is_bifrost() {
        return;
    }
    becomes(&one, "left", "active");
    becomes(&two, "left", "backup");
    // Another process knows as much.
    let stream = net.stream();
    one.upgrade().unwrap();
    assert_eq!(stream.lost(), 0, "{}", one.log());
    becomes(&one, "left", "active");
    assert_eq!(status(&two, "left")["state"], "backup");

    net.server.run(&format!("ip address del {far}")).unwrap();
    becomes(&two, "left", "active");
    becomes(&one, "right", "initialize");
    assert_eq!(status(&one, "left")["lacks"][0], "ping 198.51.100.9");
    assert!(one.log().contains("198.51.100.9 does not answer any more"), "{}", one.log());
    net.server.run(&format!("ip address add {far}")).unwrap();
    becomes(&one, "left", "active");
}

/// Hosts learn the virtual link address and no other, by ARP and by neighbour discovery; the
/// addresses can be pinged.
#[test]
fn hosts_see_one_router() {
    let net = Pair::new("vr-hosts");
    let config = |priority| {
        let lines = format!("priority = {priority}\ninterval = \"10ms\"\n");
        let six = "[vrrp.six]\ninterface = \"left\"\nid = 10\naddresses = [\"fe80::1\", \"2001:db8:1::1\"]\n";
        format!("{}{six}{lines}", config(&lines))
    };
    for host in [&net.one, &net.two] {
        let last = if host.name() == "one" { 2 } else { 3 };
        host.run(&format!("ip address add 2001:db8:1::{last}/64 dev left nodad")).unwrap();
        host.run(&format!("ip address add fe80::{last}/64 dev left nodad")).unwrap();
    }
    net.customer.run("ip address add 2001:db8:1::9/64 dev eth0 nodad").unwrap();
    let mut one = Router::start(&net.one, &config(200)).unwrap();
    let two = Router::start(&net.two, &config(100)).unwrap();
    if !one.is_bifrost() {
        return;
    }
    let virtual_ones = [("10.1.0.1", "00:00:5e:00:01:0a"), ("2001:db8:1::1", "00:00:5e:00:02:0a")];
    let seen = || {
        for (address, mac) in virtual_ones {
            net.customer.reaches(address, Duration::from_secs(10)).unwrap();
            let neighbour = net.customer.run(&format!("ip neighbour show {address}")).unwrap();
            assert!(neighbour.contains(mac), "{neighbour}");
        }
    };
    seen();
    one.kill_nine();
    becomes(&two, "left", "active");
    becomes(&two, "six", "active");
    seen();
    // Nobody else answers: a second one would be seen by its link address.
    net.customer.run("ip neighbour flush dev eth0").unwrap();
    seen();
    one.restart().unwrap();
    let fdb = || -> Result<(), String> {
        let wanted = "00:00:5e:00:01:0a";
        let table = net.left.run("bridge fdb show br switch").map_err(|error| error.to_string())?;
        if table.lines().filter(|line| line.contains(wanted)).count() == 1 { Ok(()) } else { Err(table) }
    };
    wait_for("the switch to know where the router is", Duration::from_secs(5), fdb).unwrap();
}
