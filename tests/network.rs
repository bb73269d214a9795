//! The network most tests start from, and the parts they share.
//!
//! ```text
//!   customer ------------ router ------------ server
//!        .2  10.1.0.0/24  .1  .1  10.2.0.0/24  .2
//!       ::2  2001:db8:1:: ::1 ::1 2001:db8:2:: ::2
//!      eth0             left  right            eth0
//! ```

use std::{
    net::SocketAddr,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use lab::{End, Flows, Host, Lab, Process, Router, Sink, wait_for};

/// Tracks flows, and lets in only the answers to what `left` asks for.
pub const STATEFUL: &str = r#"
[flow]
memory = 16

[filter.forward]
rules = '''
accept state established,related
accept in left state new
drop
'''
"#;

/// The server's address in each family.
pub const SERVER: [&str; 2] = ["10.2.0.2", "2001:db8:2::2"];

/// Both lanes a packet can take; tests of forwarding run in each.
pub const LANES: [&str; 2] = ["express", "worker"];

/// What FRR is told at `eth0` of a host that is soon a neighbour by OSPF.
pub const OSPF: &str = "
interface eth0
 ip ospf area 0
 ip ospf hello-interval 1
 ip ospf dead-interval 4
 ip ospf network point-to-point
exit
";

/// A rule by which hosts that have only IPv6 reach IPv4.
pub const NAT64: &str = r#"
[[nat.rule]]
name = "six"
type = "nat64"
prefix = "64:ff9b::/96"
private = true
pool = "192.0.2.64/28"
fallback = "closed"
"#;

/// Tests that have the machine at once: they wait more than they work.
const PLACES: usize = 3;

/// Sentences about moments: who proves one has the machine alone.
const ALONE: &[&str] = &[
    "a_flood_at_the_router_does_not_starve_bgp",
    "a_flooded_port_starves_no_other",
    "a_stopped_router_leaves_packets_to_linux",
    "a_syn_flood_leaves_established_flows_alone",
    "a_withdrawn_route_stops_within_100_ms",
    "a_worker_that_hangs_takes_only_itself_down",
    "an_upgrade_loses_nothing",
    "another_router_takes_over",
    "bfd_sessions_of_frr_are_run_here",
    "floods_at_the_router_starve_no_routing_protocol",
    "keepalived_and_frr_speak_vrrp_with_bifrost",
    "kill_nine_leaves_linux_forwarding",
    "links_flap_and_interfaces_come_back",
    "malformed_packets_by_the_million",
    "packets_are_fragmented_on_the_way",
    "routes_by_a_lost_gateway_are_repaired_at_once",
    "routes_flap_under_traffic_without_loss",
    "the_graph_changes_under_traffic_without_loss",
    "two_routers_outlive_failures_in_a_row",
];

/// Places that are free.
static FREE: (Mutex<usize>, Condvar) = (Mutex::new(PLACES), Condvar::new());

/// Held by a test that runs: the places that it takes.
pub struct Turn(usize);

/// Waits for this test's turn.
pub fn turn() -> Turn {
    // A test's thread bears its name.
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let places = if ALONE.iter().any(|sentence| test.starts_with(sentence)) { PLACES } else { 1 };
    let free = FREE.0.lock().unwrap_or_else(PoisonError::into_inner);
    let wait = FREE.1.wait_while(free, |free| *free < places);
    *wait.unwrap_or_else(PoisonError::into_inner) -= places;
    Turn(places)
}

impl Drop for Turn {
    fn drop(&mut self) {
        *FREE.0.lock().unwrap_or_else(PoisonError::into_inner) += self.0;
        FREE.1.notify_all();
    }
}

/// A customer and a server with a router between them. Fields go in the order they are dropped.
pub struct Line {
    pub router: Router,
    pub customer: Host,
    pub server: Host,
    pub lab: Lab,
    _turn: Turn,
}

impl Line {
    /// The network with every port in `lane`, the plane running and both families reachable.
    pub fn new(name: &str, lane: &str) -> Line {
        let line = Line::stopped(name, &ports(lane, &["left", "right"]));
        line.started()
    }

    /// Whether the customer is answered one of a few ICMPv6 echo requests of this identifier,
    /// behind headers as scapy has them.
    pub fn is_answered(&self, headers: &str, id: u16) -> bool {
        let gateway = self.router.host().mac("left").unwrap();
        let said = self.customer.scapy(&format!(
            "packet = {headers} / ICMPv6EchoRequest(id={id}, data=bytes(32))
answers = AsyncSniffer(iface='eth0', lfilter=lambda p: ICMPv6EchoReply in p and p[ICMPv6EchoReply].id == {id} and p[IPv6].dst == '2001:db8:1::2', count=1, timeout=3)
answers.start()
for _ in range(20):
    if not answers.running: break
    sendp(Ether(dst='{gateway}') / packet, iface='eth0', verbose=False)
    time.sleep(0.1)
if answers.running: answers.stop()
print(len(answers.results))"
        ));
        said.unwrap().trim() == "1"
    }

    /// The network, its plane not yet started.
    pub fn stopped(name: &str, config: &str) -> Line {
        Line::made(name, config, 1500, 1)
    }

    /// As [`Line::stopped`], with the MTU of the link to the server, and the queues of both.
    pub fn made(name: &str, config: &str, mtu: u32, queues: u32) -> Line {
        Line::joined(name, config, mtu, |lab, a, b| lab.link_with_queues(a, b, queues).unwrap())
    }

    /// The network, whose two links are made by `join`.
    pub fn joined(name: &str, config: &str, mtu: u32, join: impl Fn(&Lab, End, End)) -> Line {
        let turn = turn();
        let lab = Lab::new(name).unwrap();
        let (customer, host, server) =
            (lab.host("customer").unwrap(), lab.router("router").unwrap(), lab.host("server").unwrap());
        join(
            &lab,
            customer.end("eth0").address("10.1.0.2/24").address("2001:db8:1::2/64"),
            host.end("left").address("10.1.0.1/24").address("2001:db8:1::1/64"),
        );
        join(
            &lab,
            host.end("right").address("10.2.0.1/24").address("2001:db8:2::1/64").mtu(mtu),
            server.end("eth0").address("10.2.0.2/24").address("2001:db8:2::2/64").mtu(mtu),
        );
        customer.run("ip route add default via 10.1.0.1; ip -6 route add default via 2001:db8:1::1").unwrap();
        server.run("ip route add default via 10.2.0.1; ip -6 route add default via 2001:db8:2::1").unwrap();
        let router = Router::stopped(&host, config).unwrap();
        Line { router, customer, server, lab, _turn: turn }
    }

    /// Starts the plane and waits until both families get through.
    pub fn started(mut self) -> Line {
        self.router.restart().unwrap();
        self.reachable();
        self
    }

    /// Packets that arrived by all ports: carried in the driver, and for workers.
    pub fn lanes(&self) -> (u64, u64) {
        let shown = self.router.subject("ports").unwrap();
        let sum = |lane: &str| {
            let ports = shown.as_array().unwrap().iter();
            ports.map(|port| port["received"][lane]["packets"].as_u64().unwrap()).sum()
        };
        (sum("express"), sum("worker"))
    }

    /// What Linux and the plane know about the way: for the message of a failure.
    pub fn state(&self) -> String {
        let linux = self.router.host().run("ip address; ip route; ip -6 route; ip neighbour").unwrap();
        let plane = ["ports", "neighbours", "drops", "classifier"]
            .map(|what| self.router.ask(&format!("show {what}")).unwrap_or_else(|e| e.to_string()));
        format!("{linux}\n{}\n{}", plane.join("\n"), self.router.log())
    }

    /// Waits until the server answers in both families.
    pub fn reachable(&self) {
        for address in SERVER {
            self.customer
                .reaches(address, Duration::from_secs(5))
                .unwrap_or_else(|e| panic!("{e}\n{}", self.state()));
        }
    }
}

/// What passes a host's `eth0` from now on and this filter takes, as tcpdump tells it.
pub fn overheard(host: &Host, filter: &str) -> Process {
    let mut tcpdump = host.command("tcpdump");
    tcpdump.args(["-n", "-l", "-i", "eth0", filter]);
    let tcpdump = host.spawn("tcpdump", tcpdump).unwrap();
    wait_for("tcpdump", Duration::from_secs(5), || match tcpdump.output() {
        output if output.contains("listening") => Ok(()),
        output => Err(output),
    })
    .unwrap();
    tcpdump
}

/// The part of a router.toml that gives these ports to the plane in one lane, with one worker on
/// the last core.
pub fn ports(lane: &str, names: &[&str]) -> String {
    let last = std::thread::available_parallelism().map_or(1, |n| n.get()) - 1;
    let port = |name: &&str| format!("[[port]]\nname = \"{name}\"\nlane = \"{lane}\"\n");
    names.iter().map(port).collect::<String>() + &format!("[workers]\ncores = [{last}]\n")
}

/// A server of DHCP, `kea-dhcp4` or `kea-dhcp6`, that has a configuration.
pub fn kea(host: &Host, program: &str, config: &str) -> Process {
    let file = host.folder().join(format!("{program}.conf"));
    std::fs::write(&file, config).unwrap();
    let mut command = host.command(program);
    command.arg("-c").arg(file).env("KEA_LOCKFILE_DIR", "none").env("KEA_PIDFILE_DIR", host.folder());
    host.spawn(program, command).unwrap()
}

/// A socket address from its words.
pub fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

/// What a router knows of a transfer by iperf3: how the answers of its flow come, and how many
/// bytes it had.
pub fn flow_of_iperf(router: &Router) -> Result<(String, u64), String> {
    let shown = router.show("flows --port 5201").map_err(|error| error.to_string())?;
    let flows = shown["flows"].as_array().cloned().unwrap_or_default();
    let bytes =
        |flow: &serde_json::Value| flow["bytes"][0].as_u64().unwrap() + flow["bytes"][1].as_u64().unwrap();
    let most = flows.iter().max_by_key(|flow| bytes(flow)).ok_or("there is no flow")?;
    Ok((most["reply"].to_string(), bytes(most)))
}

/// Sends `count` datagrams over 50 flows to each address, whose host counts them at `sink`; all
/// must arrive, and it must have been the plane that forwarded them: Linux may have helped with 2 %
/// (neighbours that had to be resolved).
pub fn all_arrive(router: &Router, from: &Host, to: &Host, addresses: &[&str], count: u64) {
    let before = router.host().linux_forwarded().unwrap();
    let sink = Sink::start(to, 9000).unwrap();
    for address in addresses {
        let already = sink.received();
        let flows = Flows::start(from, vec![at(address, 9000)], 50, 64, 10_000).unwrap();
        sink.has_received(already + count, Duration::from_secs(10)).unwrap();
        let sent = flows.stop();
        sink.has_received(already + sent, Duration::from_secs(2)).unwrap();
    }
    let by_linux = router.host().linux_forwarded().unwrap() - before;
    let allowed = sink.received() / 50;
    assert!(
        !router.is_bifrost() || by_linux <= allowed,
        "of {} packets Linux forwarded {by_linux}: {}",
        sink.received(),
        router.ask("show ports").unwrap()
    );
}
