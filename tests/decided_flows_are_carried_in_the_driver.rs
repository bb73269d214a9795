//! Where a filter and translation stand, the driver carries what they have decided: a gigabyte in each family arrives byte for
//! byte, nearly all of it past the workers, while somebody outside sprays segments that are of no window; the flow's figures and
//! the rules' count all of it. (The network of `network.rs`.)

use std::time::Duration;

use lab::wait_for;

use crate::network::{Line, SERVER, ports};

const RULES: &str = r#"
drop state invalid name strangers
accept state established,related name answers
accept in left
drop
"#;

const NAT: &str = r#"
[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
source = ["10.1.0.0/24", "2001:db8:1::/64"]
"#;

/// Sends resets and data with any sequence numbers to a connection's end, as if from its other end.
const SPRAY: &str = r#"
import random, socket, struct, sys
source, destination = '10.2.0.2', sys.argv[1]
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def total(data):
    n = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    while n > 0xffff: n = (n & 0xffff) + (n >> 16)
    return ~n & 0xffff
pseudo = socket.inet_aton(source) + socket.inet_aton(destination) + struct.pack('!HH', 6, 20)
for n in range(20000):
    flags = random.choice([4, 20, 16, 17])
    tcp = struct.pack('!HHIIBBHHH', 5201, 40000 + n % 2, random.getrandbits(32), random.getrandbits(32), 0x50, flags, 512, 0, 0)
    tcp = tcp[:16] + struct.pack('!H', total(pseudo + tcp)) + tcp[18:]
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 40, n & 0xffff, 0, 64, 6, 0, socket.inet_aton(source), socket.inet_aton(destination))
    s.sendto(ip + tcp, (destination, 0))
"#;

fn config(nat: &str) -> String {
    ports("auto", &["left", "right"])
        + &format!("[flow]\nmemory = 16\n[filter.forward]\nrules = '''{RULES}'''\n{nat}")
}

/// Packets that arrived by all ports: carried, and for workers.
fn lanes(net: &Line) -> (u64, u64) {
    let shown = net.router.show("ports").unwrap();
    let sum = |lane: &str| {
        let ports = shown.as_array().unwrap().iter();
        ports.map(|port| port["received"][lane]["packets"].as_u64().unwrap()).sum()
    };
    (sum("express"), sum("worker"))
}

fn iperf(net: &Line, options: &str) -> serde_json::Value {
    let said = net.customer.run(&format!("iperf3 {options} -J")).unwrap();
    serde_json::from_str(&said).unwrap()
}

#[test]
fn with_and_without_translation() {
    for nat in ["", NAT] {
        let mut net = Line::made("carried", &config(nat), 1500, 1);
        if !net.router.is_bifrost() {
            return;
        }
        net.router.restart().unwrap();
        for address in SERVER {
            net.customer.reaches(address, Duration::from_secs(10)).unwrap();
        }
        let before = lanes(&net);
        for address in SERVER {
            let sent =
                lab::transfer(&net.customer, &net.server, address.parse().unwrap(), 256 << 20).unwrap();
            assert_eq!(sent.sent, sent.arrived, "{address}");
        }
        let after = lanes(&net);
        let (carried, worker) = (after.0 - before.0, after.1 - before.1);
        assert!(carried > 20 * worker && carried > 100_000, "{carried} carried, {worker} by workers");

        // Both ways, and strangers between.
        let mut server = net.server.command("iperf3");
        server.args(["-s", "--forceflush"]);
        let _server = net.server.spawn("iperf3", server).unwrap();
        net.server.listens(5201).unwrap();
        for options in ["-c 10.2.0.2 --cport 40000 -t 2", "-c 10.2.0.2 --cport 40000 -t 2 -R"] {
            let mut spray = net.server.command("python3");
            // What the client is called by on that side.
            spray.args(["-c", SPRAY, if nat.is_empty() { "10.1.0.2" } else { "10.2.0.1" }]);
            let _spray = net.server.spawn("spray", spray).unwrap();
            let said = iperf(&net, options);
            assert!(said["error"].is_null(), "{said}");
            let bytes = said["end"]["sum_received"]["bytes"].as_f64().unwrap();
            assert!(bytes > 1e6, "{options}: {said}");
        }
        for options in ["-c 2001:db8:2::2 -t 1", "-c 2001:db8:2::2 -t 1 -R", "-c 10.2.0.2 -u -b 50M -t 1"] {
            assert!(iperf(&net, options)["error"].is_null(), "{options}");
        }
        let filter = net.router.show("filter").unwrap();
        let forward = filter.as_array().unwrap().iter().find(|chain| chain["chain"] == "forward").unwrap();
        let packets = |rule: usize| forward["rules"][rule]["packets"].as_u64().unwrap();
        let (carried, worker) = lanes(&net);
        assert!(packets(0) > 1000, "strangers were refused: {filter}");
        assert!(packets(1) > carried * 9 / 10, "{carried} carried, {worker} by workers: {filter}");
        // Finished connections leave.
        wait_for("the connections to leave", Duration::from_secs(20), || {
            let shown = net.router.show("flows").map_err(|error| error.to_string())?;
            let flows = shown["flows"].as_array().ok_or("no list")?;
            match flows.iter().find(|flow| flow["protocol"] == "tcp" && flow["phase"] == "open") {
                None => Ok(()),
                Some(open) => Err(open.to_string()),
            }
        })
        .unwrap();
    }
}
