//! Address translation before real hosts: a customer whose network nobody outside knows reaches the
//! server from the router's own address, by TCP, UDP, ping and traceroute; the server reaches what
//! is forwarded; what nobody asked for stays outside; fragments and path MTU discovery work through
//! it. (The network of `network.rs`.)

use std::time::Duration;

use lab::{Ping, Process, wait_for};

use crate::network::{Line, overheard, ports};

const NAT: &str = r#"
[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
source = "10.1.0.0/24"

[[nat.rule]]
name = "web"
type = "destination"
in = "right"
protocol = "tcp"
destination = "10.2.0.1/32"
ports = "8080"
to = "10.1.0.2:8000"
hairpin = true

[[nat.rule]]
name = "also"
type = "destination"
in = "right"
protocol = "tcp"
destination = "10.2.0.1/32"
ports = "8081"
to = "10.1.0.2:8000"
"#;

/// Asks for a page by two connections at a time.
const TWICE: &str = r#"
import socket
def call(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.settimeout(3)
    s.bind(("10.2.0.2", 45678))
    s.connect(("10.2.0.1", port))
    return s
both = [call(8080), call(8081)]
for s in both:
    s.send(b"GET / HTTP/1.0\r\n\r\n")
    assert s.recv(100).startswith(b"HTTP/1.0 200"), "no answer"
"#;

fn config() -> String {
    ports("worker", &["left", "right"]) + "[flow]\nmemory = 16\n" + NAT
}

/// The network, in which the server has no way back to the customer's addresses.
fn network(name: &str, mtu: u32) -> Option<Line> {
    let net = Line::made(name, &config(), mtu, 1);
    if !net.router.is_bifrost() {
        return None;
    }
    net.server.run("ip route del default; ip route add 10.2.0.0/24 dev eth0 2>/dev/null || true").unwrap();
    let mut net = net;
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    Some(net)
}

#[test]
fn and_the_world_reaches_what_is_forwarded() {
    let Some(net) = network("nat", 1500) else { return };
    let seen = overheard(&net.server, "src host 10.1.0.2");

    let ping = Ping::start(&net.customer, "10.2.0.2", Duration::from_millis(10)).unwrap();
    let mut web = net.server.command("python3");
    web.args(["-m", "http.server", "--bind", "10.2.0.2", "8000"]);
    let web = net.server.spawn("web", web).unwrap();
    net.server.listens(8000).unwrap();
    for _ in 0..20 {
        net.customer.run("curl -sf --max-time 5 http://10.2.0.2:8000/ >/dev/null").unwrap();
    }
    let log = web.output();
    assert!(log.contains("10.2.0.1 - -") && !log.contains("10.1.0.2 - -"), "{log}");

    // Bulk both ways, and datagrams in fragments.
    let mut server = net.server.command("iperf3");
    server.args(["-s", "--forceflush"]);
    let _server = net.server.spawn("iperf3", server).unwrap();
    net.server.listens(5201).unwrap();
    for options in ["-t 1", "-t 1 -R", "-u -b 20M -l 4000 -t 1"] {
        let said = net.customer.run(&format!("iperf3 -c 10.2.0.2 {options} -J")).unwrap();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let sum = &said["end"]["sum_received"];
        let bytes = sum["bytes"].as_f64().or(said["end"]["sum"]["bytes"].as_f64()).unwrap();
        assert!(bytes > 1e6, "{options}: {said}");
    }

    // Who answers on the way is the router, and then the server.
    let way = net.customer.run("traceroute -n -q 1 -w 1 10.2.0.2").unwrap();
    let hops: Vec<&str> = way.lines().skip(1).collect();
    assert!(hops.len() == 2 && hops[0].contains("10.1.0.1") && hops[1].contains("10.2.0.2"), "{way}");

    // From outside: only what is forwarded.
    let mut inside = net.customer.command("python3");
    inside.args(["-m", "http.server", "--bind", "10.1.0.2", "8000"]);
    let inside = net.customer.spawn("inside", inside).unwrap();
    net.customer.listens(8000).unwrap();
    net.server.run("curl -sf --max-time 5 http://10.2.0.1:8080/ >/dev/null").unwrap();
    assert!(inside.output().contains("10.2.0.2 - -"), "{}", inside.output());
    assert!(net.server.run("curl -sf --max-time 2 http://10.2.0.1:8000/").is_err());
    // By two ports, from one and the same: to the host inside they would be one connection.
    net.server.run(&format!("timeout 10 python3 -c '{TWICE}'")).unwrap();
    // Its own network calls it by the same address, and no packet of such a connection goes another
    // way than the others.
    for _ in 0..3 {
        net.customer.run("curl -sf --max-time 2 http://10.2.0.1:8080/ >/dev/null").unwrap();
    }

    // Both are explained, and begin no flow.
    for (question, said) in [
        (
            "10.2.0.2 > 10.2.0.1 tcp 5000:8080 in right",
            [
                "goes to 10.1.0.2:8000",
                "rule web: destination",
                "10.2.0.1:8080 becomes 10.2.0.2:5000 > 10.1.0.2:8000",
            ],
        ),
        (
            "10.1.0.2 > 10.2.0.2 udp 5000:53 in left",
            [
                "comes from 10.2.0.1:5000",
                "rule home: masquerade",
                "10.2.0.2:53 becomes 10.2.0.1:5000 > 10.2.0.2:53",
            ],
        ),
    ] {
        let explained = net.router.ask(&format!("explain '{question}'")).unwrap();
        assert!(said.iter().all(|said| explained.contains(said)), "{explained}");
    }

    // What comes back is of the flow that lives, and not what nobody has asked for.
    net.customer
        .run("python3 -c 'import socket as s; u = s.socket(s.AF_INET, s.SOCK_DGRAM); u.bind((\"\", 5353)); u.sendto(b\"?\", (\"10.2.0.2\", 53))'")
        .unwrap();
    let explained = net.router.ask("explain '10.2.0.2 > 10.2.0.1 udp 53:5353 in right'").unwrap();
    for said in ["of one that lives: 10.1.0.2:5353 > 10.2.0.2:53", "goes to 10.1.0.2:5353", "sent by left"] {
        assert!(explained.contains(said), "{explained}");
    }

    // What is chosen by chance (the port for one below 1,024) is the same in each of its lines.
    let explained = net.router.ask("explain '10.1.0.2 > 10.2.0.2 udp 53 in left'").unwrap();
    let given =
        explained.split("comes from ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    assert!(explained.contains(&format!("becomes {given} > 10.2.0.2:53")), "{explained}");

    let ping = ping.stop();
    assert_eq!(ping.lost(), 0, "{ping:?}");
    let nat = net.router.subject("nat").unwrap();
    let rule = |name: &str| {
        nat["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == name).unwrap().clone()
    };
    assert!(rule("home")["flows"].as_u64().unwrap() > 20 && rule("web")["flows"] == 5, "{nat}");
    let shown = net.router.ask("show nat").unwrap();
    assert!(shown.contains("masquerade") && shown.contains("10.2.0.1"), "{shown}");
    assert!(!seen.output().contains("10.1.0.2"), "an inside address was outside: {}", seen.output());
}

/// Rules that have two ports to give, in each family.
const FEW: &str = r#"
[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
pool_ports = "50000-50001"

[[nat.rule]]
name = "six"
type = "nat64"
prefix = "64:ff9b::/96"
private = true
pool = "192.0.2.64"
pool_ports = "50000-50001"
fallback = "closed"
"#;

/// From two hosts to one by a protocol without ports, of which one address can have but one: what
/// each is told.
const PORTLESS: &str = r#"
import socket
for host in ("10.1.0.2", "10.1.0.3"):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 50)
    s.setsockopt(socket.IPPROTO_IP, 11, 1)
    s.bind((host, 0)); s.settimeout(1); s.connect(("10.2.0.2", 0)); s.send(bytes(24))
    try: s.recv(99)
    except TimeoutError: print("nothing", flush=True)
    except OSError as error: print(error.strerror, flush=True)
"#;

/// Datagrams by four sockets, one after the other: what each is told, that what it is told of may
/// pass (IP_RECVERR) as well.
const FOUR: &str = r#"
import socket, sys
six = ":" in sys.argv[1]
for n in range(4):
    s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(*((socket.IPPROTO_IPV6, 25, 1) if six else (socket.IPPROTO_IP, 11, 1)))
    s.settimeout(1); s.connect((sys.argv[1], 4999)); s.send(b"x")
    try: s.recv(9)
    except TimeoutError: print("nothing", flush=True)
    except OSError as error: print(error.strerror, flush=True)
"#;

#[test]
fn or_are_told_that_no_port_is_left() {
    let config = ports("worker", &["left", "right"]) + "[flow]\nmemory = 16\n" + FEW;
    let net = Line::made("nat-few", &config, 1500, 1);
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    // What hears all and says nothing.
    let mut deaf = net.server.command("python3");
    deaf.args(["-c", "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"\", 4999)); time.sleep(60)"]);
    let _deaf = net.server.spawn("deaf", deaf).unwrap();
    lab::wait_for("it to hear", Duration::from_secs(5), || {
        match net.server.run("ss -Hlun sport = :4999").map_err(|error| error.to_string())? {
            heard if heard.contains("4999") => Ok(()),
            heard => Err(heard),
        }
    })
    .unwrap();
    for to in ["10.2.0.2", "64:ff9b::10.2.0.2"] {
        let said = net.customer.run(&format!("timeout 20 python3 -c '{FOUR}' {to}")).unwrap();
        let said: Vec<&str> = said.lines().collect();
        assert_eq!(said, ["nothing", "nothing", "No route to host", "No route to host"], "{to}");
    }
    let nat = net.router.subject("nat").unwrap();
    for rule in 0..2 {
        assert_eq!(nat["rules"][rule]["exhausted"], 2, "{nat}");
    }
    // The server says nothing of protocols that it does not know.
    net.server.run("nft 'table ip mute { chain out { type filter hook output priority 0; icmp type destination-unreachable drop; }; }'").unwrap();
    // Who asks for the router is known to it.
    net.customer.run("ip address add 10.1.0.3/24 dev eth0; ping -c 1 -W 2 -I 10.1.0.3 10.1.0.1").unwrap();
    let flows = nat["rules"][0]["flows"].as_u64().unwrap();
    let said = net.customer.run(&format!("timeout 20 python3 -c '{PORTLESS}'")).unwrap();
    assert_eq!(said.lines().collect::<Vec<_>>(), ["nothing", "No route to host"]);
    let nat = net.router.subject("nat").unwrap();
    let home = &nat["rules"][0];
    assert_eq!((home["flows"].as_u64().unwrap(), &home["exhausted"]), (flows + 1, &3.into()), "{nat}");
    let drops = net.router.ask("show drops").unwrap();
    let counted: u64 = drops
        .lines()
        .filter(|line| line.contains("ports_exhausted"))
        .flat_map(|line| line.split_whitespace().filter_map(|word| word.parse::<u64>().ok()))
        .sum();
    assert!(counted >= 4, "{drops}");
}

#[test]
fn though_they_spoke_before_its_port_was_there() {
    let Some(net) = network("nat-early", 1500) else { return };
    let change = |config: &str| {
        net.router.configure(config).unwrap();
        net.router.ask("reload").unwrap();
    };
    // As when the daemon starts: the port that leads inside is taken before the one that leads out.
    change(&(ports("worker", &["left"]) + "[flow]\nmemory = 16\n" + NAT));
    // Of those that came while the network was made.
    let translated = || {
        let nat = net.router.subject("nat").unwrap();
        let rules = nat["rules"].as_array().unwrap().iter();
        rules.filter(|rule| rule["name"] == "home").filter_map(|rule| rule["flows"].as_u64()).sum::<u64>()
    };
    let before = translated();
    let seen = overheard(&net.server, "icmp[icmptype] == icmp-echo");
    let ping = Ping::start(&net.customer, "10.2.0.2", Duration::from_millis(10)).unwrap();
    wait_for("its first packets", Duration::from_secs(5), || match ping.statistics() {
        so_far if so_far.sent >= 20 => Ok(()),
        so_far => Err(format!("{so_far:?}")),
    })
    .unwrap();
    assert_eq!(translated(), before, "its way out is Linux's, which translates by the same rules");
    change(&config());
    wait_for("the flow to be translated", Duration::from_secs(5), || match translated() {
        now if now > before => Ok(()),
        now => Err(now.to_string()),
    })
    .unwrap();
    let so_far = seen.output().matches("10.2.0.1 > 10.2.0.2").count();
    wait_for("packets", Duration::from_secs(5), || match seen.output() {
        output if output.matches("10.2.0.1 > 10.2.0.2").count() >= so_far + 50 => Ok(()),
        output => Err(output),
    })
    .unwrap();
    assert!(!seen.output().contains("10.1.0.2 >"), "an inside address was outside: {}", seen.output());
    ping.stop();
}

#[test]
fn though_nobody_knows_their_next_hop_yet() {
    let Some(net) = network("nat-arp", 1500) else { return };
    let mut inside = net.customer.command("python3");
    inside.args(["-m", "http.server", "--bind", "10.1.0.2", "8000"]);
    let _inside = net.customer.spawn("inside", inside).unwrap();
    net.customer.listens(8000).unwrap();
    let seen = overheard(&net.server, "ip");
    // The first packet of a flow, outwards and to a forwarded port, with a next hop that answers
    // only when it was asked in vain.
    for (deaf, port, from, first) in [
        (&net.server, "right", &net.customer, "ping -c 1 -W 5 10.2.0.2"),
        (&net.customer, "left", &net.server, "curl -sf --max-time 8 http://10.2.0.1:8080/"),
    ] {
        let router = net.router.host();
        deaf.run("ip link set eth0 arp off").unwrap();
        router.run(&format!("ip neighbour flush dev {port}")).unwrap();
        wait_for("the plane to forget it", Duration::from_secs(5), || {
            let known = net.router.subject("neighbours").map_err(|e| e.to_string())?;
            let mut all = known.as_array().unwrap().iter();
            match all.any(|one| one["dev"] == port && one["programmed"] == true) {
                true => Err(known.to_string()),
                false => Ok(()),
            }
        })
        .unwrap();
        let mut command = from.command("sh");
        command.args(["-c", first]);
        let mut asking = from.spawn("first", command).unwrap();
        wait_for("Linux to ask for it", Duration::from_secs(5), || {
            match router.run(&format!("ip neighbour show dev {port}")).unwrap() {
                known if known.contains("INCOMPLETE") => Ok(()),
                known => Err(known),
            }
        })
        .unwrap_or_else(|e| panic!("{first}: {e}\n{}\n{}", asking.output(), net.state()));
        deaf.run("ip link set eth0 arp on").unwrap();
        let ended = asking.wait(Duration::from_secs(10)).unwrap();
        assert!(ended.success(), "{first}: {}\n{}", asking.output(), net.router.log());
    }
    assert!(seen.output().contains("10.2.0.1 > 10.2.0.2: ICMP echo request"), "{}", seen.output());
    assert!(!seen.output().contains("10.1.0.2"), "an inside address was outside: {}", seen.output());
}

/// A host that goes on sending from one port, as telephones and tunnels do, and says by which
/// address it is heard.
fn talk(net: &Line, to: &str) -> [Process; 2] {
    let mut listen = net.server.command("python3");
    listen.args([
        "-c",
        &format!(
            "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('{to}', 9000))
while True:
    _, sender = s.recvfrom(100)
    s.sendto(sender[0].encode(), sender)"
        ),
    ]);
    let listen = net.server.spawn("listen", listen).unwrap();
    let mut talk = net.customer.command("python3");
    talk.args([
        "-c",
        &format!(
            "import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 5555))
s.settimeout(0.05)
while True:
    s.sendto(b'', ('{to}', 9000))
    time.sleep(0.02)
    try: print(s.recv(100).decode(), flush=True)
    except OSError: pass"
        ),
    ]);
    [net.customer.spawn("talk", talk).unwrap(), listen]
}

/// Waits until the last that was heard comes from this address.
fn is_heard_by(talk: &Process, address: &str) {
    wait_for(address, Duration::from_secs(10), || match talk.output() {
        output if output.trim_end().ends_with(&format!("{address}\n{address}\n{address}")) => Ok(()),
        output => Err(output.chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect()),
    })
    .unwrap();
}

#[test]
fn though_their_port_gets_another_address() {
    let Some(net) = network("nat-lease", 1500) else { return };
    let [talk, _listen] = talk(&net, "10.2.0.2");
    is_heard_by(&talk, "10.2.0.1");
    let router = net.router.host();
    let behind = net.router.ask("show flows --host 10.2.0.1 --proto udp").unwrap();
    assert!(behind.contains("10.1.0.2:5555") && behind.contains("from 10.2.0.1:5555"), "{behind}");
    // One more takes none away.
    let packets = || {
        let flows = net.router.show("flows --proto udp --port 5555").unwrap();
        flows["flows"][0]["packets"][0].as_u64().unwrap_or_else(|| panic!("{flows}"))
    };
    let before = packets();
    router.run("ip address add 10.2.0.78/24 dev right").unwrap();
    router.run("ip address del 10.2.0.78/24 dev right").unwrap();
    wait_for("packets of the same flow", Duration::from_secs(5), || match packets() {
        now if now > before + 20 => Ok(()),
        now => Err(now.to_string()),
    })
    .unwrap();
    is_heard_by(&talk, "10.2.0.1");
    router.run("ip address del 10.2.0.1/24 dev right; ip address add 10.2.0.77/24 dev right").unwrap();
    is_heard_by(&talk, "10.2.0.77");
}

#[test]
fn though_another_line_takes_over() {
    let Some(net) = network("nat-lines", 1500) else { return };
    let router = net.router.host();
    net.lab
        .link(net.server.end("eth1").address("10.3.0.2/24"), router.end("second").address("10.3.0.1/24"))
        .unwrap();
    net.server.run("ip address add 10.9.9.9/32 dev lo").unwrap();
    let rule = "[flow]\nmemory = 16\n[[nat.rule]]\nname = \"home\"\ntype = \"masquerade\"\n\
                out = [\"right\", \"second\"]\nsource = \"10.1.0.0/24\"\n";
    net.router.configure(&(ports("worker", &["left", "right", "second"]) + rule)).unwrap();
    net.router.ask("reload").unwrap();
    router.run("ip route add 10.9.9.9 via 10.2.0.2").unwrap();
    let [talk, _listen] = talk(&net, "10.9.9.9");
    is_heard_by(&talk, "10.2.0.1");
    for (gateway, own) in [("10.3.0.2", "10.3.0.1"), ("10.2.0.2", "10.2.0.1")] {
        router.run(&format!("ip route replace 10.9.9.9 via {gateway}")).unwrap();
        is_heard_by(&talk, own);
    }
}

#[test]
fn with_a_narrow_way_behind_it() {
    let Some(net) = network("nat-mtu", 1300) else { return };
    let told = net.customer.run("ping -c 1 -W 5 -M do -s 1400 10.2.0.2 || true").unwrap();
    assert!(told.contains("10.1.0.1") && told.contains("mtu = 1300"), "{told}");
    let path = net.customer.run("ip route get 10.2.0.2").unwrap();
    assert!(path.contains("mtu 1300"), "the customer has learnt the MTU: {path}");
    // A datagram that may be fragmented is, by the router.
    net.customer.run("ping -c 2 -i 0.2 -W 2 -M dont -s 1400 10.2.0.2 >/dev/null").unwrap();
}

#[test]
fn with_a_narrow_way_to_an_unknown_neighbour() {
    let Some(net) = network("nat-mtu-arp", 1300) else { return };
    let forget = || {
        net.server.run("ip link set eth0 arp off").unwrap();
        net.router.host().run("ip neighbour flush dev right").unwrap();
    };
    forget();
    let told = net.customer.run("ping -c 1 -W 5 -M do -s 1400 10.2.0.2 || true").unwrap();
    assert!(told.contains("10.1.0.1") && told.contains("mtu = 1300"), "{told}\n{}", net.router.log());
    // What may be fragmented waits for the neighbour in pieces.
    net.customer.run("ip route flush cache").unwrap();
    forget();
    let mut command = net.customer.command("ping");
    command.args(["-c", "1", "-W", "8", "-M", "dont", "-s", "2000", "10.2.0.2"]);
    let mut asking = net.customer.spawn("first", command).unwrap();
    wait_for("Linux to ask for it", Duration::from_secs(5), || {
        match net.router.host().run("ip neighbour show dev right").unwrap() {
            known if known.contains("INCOMPLETE") => Ok(()),
            known => Err(known),
        }
    })
    .unwrap();
    net.server.run("ip link set eth0 arp on").unwrap();
    let ended = asking.wait(Duration::from_secs(10)).unwrap();
    assert!(ended.success(), "{}\n{}", asking.output(), net.router.log());
}

#[test]
fn with_a_narrow_way_by_what_is_no_port() {
    let Some(net) = network("nat-tunnel", 1500) else { return };
    let (router, annex) = (net.router.host(), net.lab.host("annex").unwrap());
    net.lab
        .link(
            annex.end("eth0").address("10.3.0.2/24").mtu(1300),
            router.end("annex").address("10.3.0.1/24").mtu(1300),
        )
        .unwrap();
    // A flow that began by a port goes on by a tunnel, as its way has changed.
    let mut talk = net.customer.command("python3");
    talk.args([
        "-c",
        "import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 2)
s.connect(('10.2.0.2', 9000))
for size in [10] * 20 + [1400] * 50:
    try: s.send(bytes(size))
    except OSError as error: print(error.strerror, s.getsockopt(socket.IPPROTO_IP, 14), flush=True)
    time.sleep(0.1)",
    ]);
    let talk = net.customer.spawn("talk", talk).unwrap();
    wait_for("its flow", Duration::from_secs(5), || {
        let flows =
            net.router.ask("show flows --proto udp --port 9000").map_err(|error| error.to_string())?;
        if flows.contains("10.1.0.2") { Ok(()) } else { Err(flows) }
    })
    .unwrap();
    router.run("ip route add 10.2.0.2/32 via 10.3.0.2").unwrap();
    wait_for("the MTU to be told", Duration::from_secs(10), || match talk.output() {
        output if output.contains("Message too long 1300") => Ok(()),
        output => Err(output),
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", net.router.ask("show drops").unwrap()));
}

#[test]
fn with_fragments_that_overtake_their_first() {
    let Some(net) = network("nat-pieces", 1500) else { return };
    // A datagram of 2,000 bytes in three fragments, the last one first: also the one that begins
    // the flow.
    let send = "import itertools, socket, struct
number = itertools.count(1)
def send(source, to, ports):
    ident = next(number)
    data = struct.pack('!HHHH', *ports, 2008, 0) + bytes(2000)
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for at in (1600, 800, 0):
        more = 0x2000 if at < 1600 else 0
        ip = struct.pack('!BBHHHBBH', 0x45, 0, 0, ident, more | at // 8, 64, 17, 0)
        raw.sendto(ip + socket.inet_aton(source) + socket.inet_aton(to) + data[at:at + 800], (to, 0))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
";
    let python = |host: &lab::Host, name: &str, script: &str| {
        let mut command = host.command("python3");
        command.args(["-c", &format!("{send}{script}")]);
        host.spawn(name, command).unwrap()
    };
    let _server = python(
        &net.server,
        "server",
        "s.bind(('10.2.0.2', 9000))
while True:
    data, peer = s.recvfrom(4000)
    assert len(data) == 2000 and peer[0] == '10.2.0.1', peer
    send('10.2.0.2', peer[0], (9000, peer[1]))",
    );
    wait_for("the server", Duration::from_secs(5), || match net.server.run("ss -Hlun sport = :9000") {
        Ok(listening) if !listening.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    let mut customer = python(
        &net.customer,
        "customer",
        // On a busy machine a sender may well stop between two fragments for longer than these
        // wait.
        "s.bind(('10.1.0.2', 4000))
s.settimeout(2)
for _ in range(5):
    for again in range(4, -1, -1):
        send('10.1.0.2', '10.2.0.2', (4000, 9000))
        try:
            assert len(s.recv(4000)) == 2000
            break
        except TimeoutError:
            assert again",
    );
    let ended = customer.wait(Duration::from_secs(60)).unwrap();
    assert!(ended.success(), "{}\n{}", customer.output(), net.router.ask("show drops").unwrap());
}
