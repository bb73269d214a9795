//! Hosts know no router until routers tell them: by ICMP router discovery (RFC 1256), and by router
//! advertisements. (The network of `redundant.rs`, without virtual addresses.) The host of RFC 1256
//! is ours, for Linux has none; for IPv6 Linux is the host, and rdisc6 asks.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use discovery::irdp::{self, Heard, Message};
use lab::{Host, Router, wait_for};
use port::{PacketSocket, PacketType, SocketOptions};

use crate::redundant::{Pair, RATE, becomes};

const SOON: Duration = Duration::from_secs(10);

/// A host of RFC 1256: it asks, believes what routers of its network say, and routes by the best of
/// them, by all that are equally good.
struct Finder {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Finder {
    fn start(host: &Host) -> Finder {
        let index = host.interface_number("eth0", "ifindex").unwrap() as u32;
        let opened = host.inside(move || PacketSocket::open(index, SocketOptions::default())).unwrap();
        let socket = opened.join().unwrap().unwrap();
        let mac = host.mac("eth0").unwrap().parse().unwrap();
        let namespace = host.namespace().to_owned();
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let thread = thread::spawn(move || {
            let mut routers: BTreeMap<Ipv4Addr, (i32, Instant)> = BTreeMap::new();
            let (mut used, mut buffer) = (Vec::new(), [0; 2048]);
            let own = Ipv4Addr::new(10, 1, 0, 9);
            let ask = irdp::frame(
                mac,
                irdp::group_mac(irdp::ALL_ROUTERS),
                own,
                irdp::ALL_ROUTERS,
                &irdp::solicitation(),
            );
            socket.send(&ask).unwrap();
            while !ends.load(Relaxed) {
                while let Ok(received) = socket.receive(&mut buffer) {
                    let Some(Heard { message: Message::Advertisement(said), .. }) =
                        irdp::hear(&buffer[..received.captured])
                    else {
                        continue;
                    };
                    assert_ne!(received.kind, PacketType::OtherHost);
                    let until = Instant::now() + Duration::from_secs(said.lifetime.into());
                    for (address, level) in said.addresses {
                        if address.octets()[..3] == own.octets()[..3] {
                            routers.insert(address, (level, until));
                        }
                    }
                }
                routers.retain(|_, (_, until)| *until > Instant::now());
                let usable = || routers.iter().filter(|(_, (level, _))| *level != irdp::NEVER);
                let best = usable().map(|(_, (level, _))| *level).max();
                let use_now: Vec<Ipv4Addr> = usable()
                    .filter(|(_, (level, _))| Some(*level) == best)
                    .map(|(address, _)| *address)
                    .collect();
                if use_now != used {
                    let hops: String =
                        use_now.iter().map(|address| format!(" nexthop via {address}")).collect();
                    let words = if use_now.is_empty() { "del default" } else { "replace default" };
                    let arguments = format!("-n {namespace} route {words}{hops}");
                    let status = Command::new("ip").args(arguments.split_whitespace()).status().unwrap();
                    assert!(status.success(), "ip {arguments}");
                    used = use_now;
                }
                sleep(Duration::from_millis(10));
            }
        });
        Finder { over, thread: Some(thread) }
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            assert!(ended.is_some_and(|ended| ended.is_ok()), "the host has failed");
        }
    }
}

fn network(name: &str) -> Pair {
    let net = Pair::new(name);
    net.customer.run("ip route del default").unwrap();
    net.customer.sysctl(&[("net.ipv4.fib_multipath_hash_policy", "1")]).unwrap();
    let back = "ip route replace default nexthop via 10.2.0.2 nexthop via 10.2.0.3";
    net.server.run(back).unwrap();
    net
}

fn config(lines: &str) -> String {
    format!(
        "[[port]]\nname = \"left\"\n[[port]]\nname = \"right\"\n[discovery.lan]\ninterface = \"left\"\n{lines}\n"
    )
}

/// Waits until the host's default routes are by these.
#[track_caller]
fn uses(host: &Host, routers: &[&str], limit: Duration) {
    wait_for(&format!("routes by {routers:?}"), limit, || {
        let shown = host.run("ip route show default").unwrap();
        let all = ["10.1.0.2", "10.1.0.3"];
        let right =
            all.iter().all(|router| shown.contains(&format!("via {router} ")) == routers.contains(router));
        if right { Ok(()) } else { Err(shown) }
    })
    .unwrap();
}

fn received(router: &Router) -> u64 {
    router.host().interface_number("left", "statistics/rx_packets").unwrap()
}

#[test]
fn and_share_those_that_are_equally_good() {
    let net = network("rd-share");
    let lines = config("[discovery.lan.ipv4]\npreference = 10\ninterval = \"4s\"");
    let mut one = Router::start(&net.one, &lines).unwrap();
    let two = Router::start(&net.two, &lines).unwrap();
    if !one.is_bifrost() {
        return;
    }
    let _host = Finder::start(&net.customer);
    uses(&net.customer, &["10.1.0.2", "10.1.0.3"], SOON);
    let before = [received(&one), received(&two)];
    let stream = net.stream();
    sleep(Duration::from_secs(1));
    let [by_one, by_two] = [received(&one) - before[0], received(&two) - before[1]];
    let least = u64::from(RATE) / 10;
    assert!(by_one > least && by_two > least, "{by_one} by the one, {by_two} by the other");
    // One says that it stops before it does: its hosts go to the other one, and nothing is lost.
    let begun = Instant::now();
    one.stop().unwrap();
    uses(&net.customer, &["10.1.0.3"], SOON);
    println!(
        "all hosts were with the other router {} ms after the order to stop",
        begun.elapsed().as_millis()
    );
    let lost_then = stream.lost();
    assert!(lost_then == 0, "{lost_then} lost\n{}\n{}", one.log(), two.log());
    let stream = net.stream();
    one.restart().unwrap();
    uses(&net.customer, &["10.1.0.2", "10.1.0.3"], SOON);
    let lost_then = stream.lost();
    assert!(lost_then == 0, "{lost_then} lost\n{}\n{}", one.log(), two.log());
    let shown = two.ask("show discovery").unwrap();
    assert!(shown.contains("10.1.0.2 (10)"), "the other router is heard: {shown}");
}

#[test]
fn and_use_the_one_that_has_the_way_out() {
    let net = network("rd-exit");
    let way_out =
        |verb: &str| net.one.run(&format!("ip route {verb} default via 10.2.0.9 proto bgp")).unwrap();
    way_out("add");
    let times = "[discovery.lan.ipv4]\ninterval = \"4s\"\n";
    let tracks = "preference = 5\ntrack = [{ route = \"0.0.0.0/0\", from = \"bgp\", lower = 10 }]";
    let one = Router::start(&net.one, &config(&format!("{times}{tracks}"))).unwrap();
    let two = Router::start(&net.two, &config(&format!("{times}preference = 0"))).unwrap();
    if !one.is_bifrost() {
        return;
    }
    let _host = Finder::start(&net.customer);
    uses(&net.customer, &["10.1.0.2"], SOON);
    way_out("del");
    uses(&net.customer, &["10.1.0.3"], SOON);
    let shown = one.ask("show discovery").unwrap();
    assert!(shown.contains("route 0.0.0.0/0 from bgp is not there") && shown.contains(" -5 "), "{shown}");
    way_out("add");
    uses(&net.customer, &["10.1.0.2"], SOON);
    // A router that is never to be used, and one that is gone from the configuration: none is left.
    two.configure(&config(&format!("{times}preference = \"never\""))).unwrap();
    two.ask("reload").unwrap();
    one.configure("[[port]]\nname = \"left\"\n[[port]]\nname = \"right\"\n").unwrap();
    one.ask("reload").unwrap();
    uses(&net.customer, &[], SOON);
}

#[test]
fn and_get_addresses_of_ipv6_and_more() {
    let net = network("rd-six");
    net.one.run("ip address add 2001:db8:1::2/64 dev left nodad").unwrap();
    net.two.run("ip address add 2001:db8:1::3/64 dev left nodad").unwrap();
    let times = "[discovery.lan.ipv6]\ninterval = \"4s\"\n";
    let more = "preference = \"high\"\nmtu = 1480\nhop_limit = 63\ndns = [\"2001:db8::53\"]\nsearch = [\"example.net\"]\n\
                routes = [{ prefix = \"2001:db8:2::/48\", preference = \"low\" }]\npref64 = \"64:ff9b::/96\"\n\
                captive_portal = \"https://portal.example.net/\"\n\
                track = [{ route = \"2001:db8:ffff::/48\", lower = \"low\" }]";
    let tracked =
        |verb: &str| net.one.run(&format!("ip -6 route {verb} 2001:db8:ffff::/48 dev right")).unwrap();
    tracked("add");
    let one = Router::start(&net.one, &config(&format!("{times}{more}"))).unwrap();
    let mut two = Router::start(&net.two, &config(times)).unwrap();
    if !one.is_bifrost() {
        return;
    }
    let hosts = |wanted: &str, there: bool, command: &str| {
        wait_for(&format!("{wanted}: {there}"), SOON, || {
            let shown = net.customer.run(command).unwrap();
            if shown.contains(wanted) == there { Ok(()) } else { Err(shown) }
        })
        .unwrap();
    };
    let link_local = |host: &Host| {
        let shown = host.run("ip -6 -o address show dev left scope link").unwrap();
        shown.split_whitespace().find_map(|word| word.strip_suffix("/64")).unwrap().to_owned()
    };
    let [first, second] = [&net.one, &net.two].map(link_local);
    let routes = "ip -6 route show default";
    hosts(&format!("via {first} "), true, routes);
    hosts(&format!("via {second} "), true, routes);
    hosts("pref high", true, routes);
    hosts("hoplimit 63", true, routes);
    hosts("mtu 1480", true, "ip -6 route show");
    hosts("2001:db8:1:", true, "ip -6 address show dev eth0 scope global");
    // What Linux does not read is in what it is answered.
    let asked =
        net.customer.run(&format!("rdisc6 -m -w 2000 -r 1 eth0; ip -6 neighbour show {first}")).unwrap();
    for said in ["2001:db8:1::/64", "2001:db8::53", "example.net", "2001:db8:2::/48", "1480 bytes", "63 ("] {
        assert!(asked.contains(said), "{said} is missing in {asked}");
    }
    let shown = one.ask("show discovery").unwrap();
    assert!(shown.contains(&format!("{second} (medium)")), "{shown}");
    assert!(one.log().contains("tells hosts otherwise"), "{}", one.log());
    // What is tracked decides, and other prefixes take the place of those before.
    tracked("del");
    hosts("pref low", true, routes);
    hosts("pref high", false, routes);
    net.one
        .run("ip address del 2001:db8:1::2/64 dev left; ip address add 2001:db8:9::2/64 dev left nodad")
        .unwrap();
    let addresses = "ip -6 -o address show dev eth0 scope global";
    hosts("2001:db8:9:", true, addresses);
    two.stop().unwrap();
    hosts(&format!("via {second} "), false, routes);
    hosts(&format!("via {first} "), true, routes);
    hosts("deprecated", true, addresses);
}

/// Hosts are told of a virtual router by whoever is active, and keep it when that one dies.
#[test]
fn and_keep_a_virtual_one_when_another_router_takes_over() {
    let net = network("rd-vrrp");
    let lines = |priority| {
        config(&format!(
            "[discovery.lan.ipv6]\ninterval = \"4s\"\nvrrp = \"lan6\"\n\
             [discovery.lan.ipv4]\ninterval = \"4s\"\nvrrp = \"lan\"\npreference = 3\n\
             [vrrp.lan]\ninterface = \"left\"\nid = 7\naddresses = [\"10.1.0.1\"]\ninterval = \"100ms\"\n\
             priority = {priority}\n\
             [vrrp.lan6]\ninterface = \"left\"\nid = 7\naddresses = [\"fe80::1\"]\ninterval = \"100ms\"\n\
             priority = {priority}"
        ))
    };
    let mut one = Router::start(&net.one, &lines(200)).unwrap();
    let two = Router::start(&net.two, &lines(100)).unwrap();
    if !one.is_bifrost() {
        return;
    }
    for name in ["lan", "lan6"] {
        becomes(&one, name, "active");
    }
    let _host = Finder::start(&net.customer);
    let routes = || net.customer.run("ip route show default; ip -6 route show default").unwrap();
    let both = || {
        let shown = routes();
        let right = shown.contains("via 10.1.0.1 ") && shown.contains("via fe80::1 ");
        if right { Ok(()) } else { Err(shown) }
    };
    wait_for("routes by the virtual router", SOON, both).unwrap();
    let neighbour = net.customer.run("ip -6 neighbour show fe80::1").unwrap();
    assert!(neighbour.contains("00:00:5e:00:02:07"), "{neighbour}");
    let shown = two.ask("show discovery").unwrap();
    assert!(shown.contains("[vrrp.lan6] is not active here"), "{shown}");
    // Handed over, and taken over: no host is told to look for another router.
    let log = net.customer.folder().join("routes.log");
    let watch = net.customer.run(&format!("ip monitor route > {} 2>&1 & echo $!", log.display())).unwrap();
    one.stop().unwrap();
    becomes(&two, "lan6", "active");
    wait_for("the other one to speak", SOON, || {
        let all = two.show("discovery").unwrap();
        let sent = all.as_array().map_or(0, |all| all.iter().filter_map(|one| one["sent"].as_u64()).sum());
        if sent >= 2 { Ok(()) } else { Err(format!("{all}")) }
    })
    .unwrap();
    both().unwrap();
    let log = net.customer.run(&format!("kill {}; cat {}", watch.trim(), log.display())).unwrap();
    assert!(!log.contains("Deleted default"), "{log}");
}
