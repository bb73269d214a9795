//! The filter before real hosts: what the rules name passes, the rest does not, and senders are
//! told when the rules say so; answers pass as part of their flow; a change of the rules reaches
//! flows at once. (The network of `network.rs`.)

use std::time::Duration;

use lab::{Process, wait_for};

use crate::network::{Line, SERVER, ports};

const RULES: &str = r#"
accept state established,related name answers
drop state invalid
accept icmp from 10.1.0.0/24
accept icmpv6 from 2001:db8:1::/64
accept tcp from 10.1.0.0/24,2001:db8:1::/64 to any port 5201,8000 state new name web
reject tcp to any port 23
reject with prohibited udp to any port 9
drop
"#;

fn config(rules: &str) -> String {
    ports("worker", &["left", "right"])
        + &format!("[flow]\nmemory = 16\n[filter.forward]\nrules = '''{rules}'''\n")
}

/// How an attempt to open a TCP connection from the customer ends: `open`, `refused`, `silent`, or
/// what the system says.
fn connect(net: &Line, address: &str, port: u16) -> String {
    let script = format!(
        "import socket, errno\ns = socket.create_connection\ntry:\n s(('{address}', {port}), 1); print('open')\n\
         except TimeoutError: print('silent')\nexcept OSError as e: print({{errno.ECONNREFUSED: 'refused'}}.get(e.errno, e))"
    );
    net.customer.run(&format!("python3 -c \"{script}\"")).unwrap().trim().to_owned()
}

fn show(net: &Line, what: &str) -> serde_json::Value {
    serde_json::from_str(&net.router.ask(&format!("show {what} --json")).unwrap()).unwrap()
}

/// Packets that a rule of the chain `forward` has matched.
fn matched(net: &Line, rule: usize) -> u64 {
    let filter = show(net, "filter");
    let forward = filter.as_array().unwrap().iter().find(|chain| chain["chain"] == "forward").unwrap();
    forward["rules"][rule]["packets"].as_u64().unwrap()
}

#[test]
fn until_the_rules_change() {
    let net = Line::stopped("rules", &config(RULES));
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let mut web = net.server.command("python3");
    web.args(["-m", "http.server", "--bind", "::", "8000"]);
    let _web = net.server.spawn("web", web).unwrap();
    net.server.listens(8000).unwrap();
    for address in SERVER {
        assert_eq!(connect(&net, address, 8000), "open");
        assert_eq!(connect(&net, address, 23), "refused");
        assert_eq!(connect(&net, address, 24), "silent");
        let url = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        net.customer.run(&format!("curl -sf --max-time 5 http://{url}:8000/ >/dev/null")).unwrap();
    }
    // Nobody is called from outside.
    assert!(net.server.run("ping -c 2 -i 0.2 -W 1 10.1.0.2").is_err());
    let told = net.customer.run(
        "python3 -c \"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
s.setsockopt(socket.IPPROTO_IP, 11, 1); s.connect(('10.2.0.2', 9)); s.send(b'x')
try: s.recv(1)
except OSError as error: print(error.strerror)\"",
    );
    assert_eq!(told.unwrap().trim(), "No route to host");
    assert!(matched(&net, 0) > 10, "answers are counted, though they are not judged again");
    assert_eq!((matched(&net, 5), matched(&net, 6)), (2, 1));

    // A connection that goes on, and its flow.
    let call = || {
        let mut server = net.server.command("iperf3");
        server.args(["-s", "-1", "--forceflush"]);
        let server = net.server.spawn("iperf3", server).unwrap();
        net.server.listens(5201).unwrap();
        let mut client = net.customer.command("iperf3");
        client.args(["-c", SERVER[0], "-t", "30", "-b", "20M"]);
        [server, net.customer.spawn("iperf3", client).unwrap()]
    };
    let mut connection = call();
    let bytes = || {
        let flows = show(&net, "flows --port 5201");
        let sum = |flow: &serde_json::Value| {
            flow["bytes"][0].as_u64().unwrap() + flow["bytes"][1].as_u64().unwrap()
        };
        flows["flows"].as_array().unwrap().iter().map(sum).sum::<u64>()
    };
    let grows = |by: u64| {
        let before = bytes();
        wait_for("the flow to grow", Duration::from_secs(5), || match bytes() {
            now if now > before + by => Ok(()),
            now => Err(format!("{now} after {before}")),
        })
    };
    grows(1_000_000).unwrap();
    let shown = net.router.ask("show flows --port 5201").unwrap();
    assert!(shown.contains("open") && shown.contains("left > right"), "{shown}");

    // Other rules, the same answer: the flow goes on, and the rules that stay keep what they
    // counted.
    let answers = matched(&net, 0);
    net.router.configure(&config(&RULES.replace("port 5201,8000", "port 8000,5201,80"))).unwrap();
    net.router.ask("reload").unwrap();
    grows(1_000_000).unwrap();
    assert!(matched(&net, 0) > answers, "the first rule is the same rule");

    // Rules that would not let it begin any more: it goes on, for it is established, until it is
    // ended.
    net.router.configure(&config(&RULES.replace("port 5201,8000", "port 8000"))).unwrap();
    net.router.ask("reload").unwrap();
    grows(1_000_000).unwrap();
    let ended = net.router.ask("clear flows --host 10.1.0.0/24 --port 5201 --proto tcp").unwrap();
    assert!(ended.trim().ends_with("flows ended") && !ended.starts_with("0 "), "{ended}");
    wait_for("the flow to be gone", Duration::from_secs(5), || match show(&net, "flows --port 5201") {
        flows if flows["matching"] == 0 => Ok(()),
        flows => Err(flows.to_string()),
    })
    .unwrap();
    connection.iter_mut().for_each(Process::kill);
    net.router.configure(&config(RULES)).unwrap();
    net.router.ask("reload").unwrap();
    connection = call();
    grows(1_000_000).unwrap();

    // Rules that do not let it pass any more: it stops at once.
    net.router.configure(&config(&RULES.replace("drop state invalid", "drop tcp to any port 5201"))).unwrap();
    net.router.ask("reload").unwrap();
    net.router.configure(&config("drop tcp port 5201\ndrop tcp to any port 5201\naccept\n")).unwrap_or(());
    let wrong = net.router.ask("reload").unwrap_err().to_string();
    assert!(wrong.contains("router.toml") && wrong.contains('^'), "{wrong}");
    net.router
        .configure(&config("drop tcp to any port 5201\ndrop tcp from any port 5201\naccept\n"))
        .unwrap();
    net.router.ask("reload").unwrap();
    let before = bytes();
    assert!(matched(&net, 0) + matched(&net, 1) < 1000);
    std::thread::sleep(Duration::from_millis(500));
    assert!(bytes() < before + 500_000, "{} after {before}", bytes());
    connection.iter_mut().for_each(Process::kill);
    let line = net.router.ask("rtstat --interval 1 --count 1").unwrap();
    assert!(line.contains("hit") && line.lines().count() == 2, "{line}");
}

#[test]
fn members_of_a_set_come_and_go() {
    let rules = "[filter.forward]\nrules = [\"drop from @guests\", \"accept\"]\n[filter.sets]\nguests = [\"192.0.2.0/24\"]\n";
    let net = Line::stopped("set", &(ports("worker", &["left", "right"]) + rules));
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let reaches = || net.customer.run("ping -c 1 -W 1 10.2.0.2").is_ok();
    assert!(reaches());
    assert_eq!(net.router.ask("set guests --add 10.1.0.2").unwrap().trim(), "guests: 2 members");
    assert!(!reaches());
    let linux = net.router.host().run("nft list table inet bifrost").unwrap();
    assert!(linux.contains("10.1.0.2"), "Linux's copy knows it: {linux}");
    let emptied = net.router.ask("set guests --remove 10.1.0.2 192.0.2.0/24").unwrap();
    assert_eq!(emptied.trim(), "guests: 0 members");
    assert!(reaches());
    // A long list, in pieces.
    let list: String = (0..3000).map(|n| format!("198.18.{}.{}\n", n / 250, n % 250)).collect();
    let file = net.router.host().folder().join("list");
    std::fs::write(&file, list + "10.1.0.0/24 # the customer\n").unwrap();
    let said = net.router.ask(&format!("set guests --add-from {}", file.display())).unwrap();
    assert_eq!(said.trim(), "guests: 3001 members");
    assert!(!reaches());
    let wrong = net.router.ask("set gusts --add 10.1.0.2").unwrap_err().to_string();
    assert!(wrong.contains("guests"), "{wrong}");
}

#[test]
fn the_first_packet_of_a_flow_may_come_in_fragments() {
    let net = Line::stopped("pieces", &config(RULES));
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    for address in SERVER {
        net.customer.reaches(address, Duration::from_secs(10)).unwrap();
        // Each is a flow of its own, and its fragments come in one batch.
        for _ in 0..5 {
            net.customer.run(&format!("ping -c 1 -W 1 -s 5000 {address}")).unwrap();
        }
    }
}
