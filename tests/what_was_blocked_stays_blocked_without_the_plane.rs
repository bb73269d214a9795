//! The same few hundred packets get through Bifrost and, when it has been killed, through Linux:
//! what was blocked stays blocked, and what passed passes. 600 rules from a file, of both families,
//! with sets, ports, flags, types and lengths. (The network of `network.rs`.)

use std::collections::BTreeSet;
use std::time::Duration;

use crate::network::{Line, ports};

/// Sends packets that differ in what rules look at, each with its number in the payload, and says
/// how many that were.
const SEND: &str = r#"
import random, socket, struct, sys, time
random.seed(20261121)
def checksum(data):
    if len(data) % 2: data += b'\0'
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
raw4 = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
raw6 = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
sent = 0
for number in range(400):
    six = number % 3 == 0
    source = ('2001:db8:1::%x' if six else '10.1.0.%d') % random.randint(2, 200)
    to = '2001:db8:2::2' if six else '10.2.0.2'
    family = socket.AF_INET6 if six else socket.AF_INET
    addresses = socket.inet_pton(family, source) + socket.inet_pton(family, to)
    body = b'packet %04d ' % number + b'x' * random.choice([0, 0, 100, 900])
    protocol = random.choice([6, 6, 17, 17, 58 if six else 1])
    if protocol == 6:
        flags = random.choice([2, 2, 2, 16, 18, 3, 41])
        upper = struct.pack('!HHIIBBHHH', random.randint(1024, 65535), random.randint(1, 700), number, 0, 0x50, flags, 1000, 0, 0) + body
        place = 16
    elif protocol == 17:
        upper = struct.pack('!HHHH', random.randint(1024, 65535), random.randint(1, 700), 8 + len(body), 0) + body
        place = 6
    else:
        kind = random.choice([128, 128, 3] if six else [8, 8, 13])
        upper = struct.pack('!BBHHH', kind, 0, 0, number + 1, 1) + body
        place = 2
    pseudo = b'' if protocol == 1 else addresses + (struct.pack('!IHBB', len(upper), 0, 0, protocol) if six else struct.pack('!BBH', 0, protocol, len(upper)))
    total = checksum(pseudo + upper)
    upper = upper[:place] + struct.pack('!H', total) + upper[place + 2:]
    dscp = random.choice([0, 0, 46])
    if six:
        header = struct.pack('!IHBB', 6 << 28 | dscp << 22, len(upper), protocol, 64) + addresses
        raw6.sendto(header + upper, (to, 0))
    else:
        header = struct.pack('!BBHHHBBH', 0x45, dscp << 2, 20 + len(upper), number, 0, 64, protocol, 0) + addresses
        raw4.sendto(header + upper, (to, 0))
    sent += 1
    time.sleep(0.002)
print(sent)
"#;

/// 600 rules, in which what decides is spread from the first to the last.
fn rules() -> String {
    let mut text = String::from("accept state established,related\ndrop state invalid\n");
    text += "accept icmp from 10.1.0.2\naccept icmpv6 type 135,136\n";
    for n in 0..580 {
        let verdict = if n % 3 == 0 { "drop" } else { "accept" };
        text += &match n % 5 {
            0 => format!("{verdict} tcp from 10.1.0.0/24 to any port {}\n", n + 1),
            1 => format!("{verdict} udp from 2001:db8:1::/64 to any port {}\n", n + 1),
            2 => format!(
                "{verdict} tcp from 2001:db8:1::/64 to any port {} flags syn/syn+ack+fin+rst\n",
                n + 1
            ),
            3 => format!("{verdict} udp from 10.1.0.{} to any port {}-{}\n", n % 250 + 1, n, n + 20),
            _ => format!("{verdict} tcp from 10.1.0.{} to 10.2.0.2 port {}\n", n % 250 + 1, n),
        };
    }
    text += "drop from 10.1.0.64/27\naccept icmp type echo-request length 0-500\naccept icmpv6 type echo-request length 0-500\n";
    text += "drop udp dscp ef\naccept udp to any port 600-700\nreject tcp to any port 600-650\naccept tcp to any port 651-700 state new\n";
    for n in 0..9 {
        text += &format!("drop tcp from 10.1.0.{} to any port 1-600\n", 201 + n);
    }
    text
}

/// The numbers of the packets that reach the server.
fn through(net: &Line) -> BTreeSet<String> {
    let mut seen = net.server.command("tcpdump");
    seen.args(["-n", "-l", "-A", "-i", "eth0", "-Q", "in"]);
    let mut seen = net.server.spawn("tcpdump", seen).unwrap();
    lab::wait_for("tcpdump", Duration::from_secs(5), || match seen.output().contains("listening") {
        true => Ok(()),
        false => Err(seen.output()),
    })
    .unwrap();
    let file = net.customer.folder().join("send.py");
    std::fs::write(&file, SEND).unwrap();
    assert_eq!(net.customer.run(&format!("python3 {}", file.display())).unwrap().trim(), "400");
    // All is there when a second brings nothing more.
    let mut output = seen.output();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = seen.output();
        if now.len() == output.len() {
            break;
        }
        output = now;
    }
    seen.kill();
    let numbers = output.match_indices("packet ").map(|(at, _)| output[at + 7..].chars().take(4).collect());
    numbers.filter(|number: &String| number.chars().all(|c| c.is_ascii_digit())).collect()
}

#[test]
fn and_passes_what_passed() {
    pass_alike("judge", "on");
}

#[test]
fn and_what_is_met_in_mid_stream_stays_invalid() {
    pass_alike("judge-strict", "off");
}

/// Compares what Bifrost and Linux let pass.
fn pass_alike(lab_name: &str, pickup: &str) {
    let rules = rules();
    assert!(rules.lines().count() >= 600);
    let mut net = Line::stopped(lab_name, "");
    if !net.router.is_bifrost() {
        return;
    }
    let file = net.router.host().folder().join("campus.rules");
    std::fs::write(&file, &rules).unwrap();
    let config = ports("worker", &["left", "right"])
        + &format!(
            "[flow]\nmemory = 16\npickup = \"{pickup}\"\n[filter.forward]\nrules_file = \"{}\"\npolicy = \"drop\"\n",
            file.display()
        );
    net.router.configure(&config).unwrap();
    // Answers of the server would make flows established: it has none to give.
    net.server.run("ip route del default; ip -6 route del default").unwrap();
    net.customer.run("sysctl -qw net.ipv6.conf.all.use_tempaddr=0").unwrap();
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(1)).unwrap_err();
    net.customer.run("ping -c 1 -W 1 10.1.0.1; ping -6 -c 1 -W 1 2001:db8:1::1").unwrap();

    let by_bifrost = through(&net);
    let filter = net.router.subject("filter").unwrap();
    assert!(by_bifrost.len() > 50 && by_bifrost.len() < 350, "{} of 400 passed", by_bifrost.len());
    assert!(filter.to_string().contains("\"packets\""), "{filter}");
    net.router.kill_nine();
    let by_linux = through(&net);
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    assert_eq!(
        (only(&by_bifrost, &by_linux), only(&by_linux, &by_bifrost)),
        (Vec::new(), Vec::new()),
        "of {} by Bifrost and {} by Linux",
        by_bifrost.len(),
        by_linux.len()
    );
}

#[test]
fn and_what_is_forwarded_is_judged_by_where_it_goes() {
    let forwarded = |name: &str, port: u16, to: u16| {
        format!(
            "[[nat.rule]]\nname = \"{name}\"\ntype = \"destination\"\nin = \"right\"\nprotocol = \"tcp\"\n\
             destination = \"10.2.0.1/32\"\nports = \"{port}\"\nto = \"10.1.0.2:{to}\"\n"
        )
    };
    let rules = "[filter.forward]\npolicy = \"drop\"\nrules = '''\naccept state established,related\naccept in left state new\n\
                 accept tcp to 10.1.0.2 port 8000 state new\naccept tcp to 10.2.0.1 port 8081 state new\n'''\n";
    let config = ports("worker", &["left", "right"])
        + "[flow]\nmemory = 16\n"
        + rules
        + &forwarded("web", 8080, 8000)
        + &forwarded("hidden", 8081, 8001);
    let mut net = Line::stopped("forwarded", &config);
    if !net.router.is_bifrost() {
        return;
    }
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let _webs = [8000, 8001].map(|port| {
        let mut web = net.customer.command("python3");
        web.args(["-m", "http.server", &port.to_string()]);
        let web = net.customer.spawn(&format!("web{port}"), web).unwrap();
        net.customer.listens(port).unwrap();
        web
    });
    let fetched = |port: u16| {
        net.server.run(&format!("curl -sf --max-time 2 http://10.2.0.1:{port}/ >/dev/null")).is_ok()
    };
    let explained = net.router.ask("explain '10.2.0.2 > 10.2.0.1 tcp 5000:8080 in right'").unwrap();
    assert!(
        explained.contains("accept tcp to 10.1.0.2 port 8000") && explained.contains("sent by left"),
        "{explained}"
    );
    assert_eq!((fetched(8080), fetched(8081)), (true, false), "by Bifrost");
    net.router.kill_nine();
    assert_eq!((fetched(8080), fetched(8081)), (true, false), "by Linux");
}

/// Owns Linux's table of the router's name for a minute at most; nft ends with the pipe.
const OWN: &str = r#"
import subprocess, time
nft = subprocess.Popen(["nft", "-i"], stdin=subprocess.PIPE, text=True)
nft.stdin.write("add table inet bifrost { flags owner; }\n")
nft.stdin.flush()
time.sleep(60)
"#;

/// Whether this stands in the router's tables of nftables.
fn has(net: &Line, what: &str) -> Result<(), String> {
    let tables = net.router.host().run("nft list ruleset").unwrap();
    if tables.contains(what) { Ok(()) } else { Err(tables) }
}

#[test]
fn though_linux_refused_the_filter_at_first() {
    let config =
        ports("worker", &["left", "right"]) + "[filter.forward]\nrules = \"drop tcp to any port 23\"\n";
    let mut net = Line::stopped("refused", &config);
    if !net.router.is_bifrost() {
        return;
    }
    // A table of that name is another program's as long as that lives.
    let mut owner = net.router.host().command("python3");
    owner.args(["-c", OWN]);
    let mut owner = net.router.host().spawn("owner", owner).unwrap();
    lab::wait_for("the table", Duration::from_secs(5), || has(&net, "owner")).unwrap();
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let refused = || net.router.subject("mirror").unwrap()["filter_refused"].clone();
    assert!(refused().as_str().is_some_and(|why| why.contains("not permitted")), "{}", refused());
    owner.kill();
    lab::wait_for("Linux to be asked again", Duration::from_secs(20), || has(&net, "dport 23")).unwrap();
    assert!(refused().is_null(), "{}", refused());
}
