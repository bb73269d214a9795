//! Where a filter and translation stand, what they have decided is offloaded to the driver: a
//! gigabyte in each family arrives byte for byte, nearly all of it past the workers, while somebody
//! outside sprays segments that are of no window; the flow's figures and the rules' count all of
//! it. Echo, GRE, ESP and the rest of half a connection are offloaded as well. (The network of
//! `network.rs`.)

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use lab::{Capture, Ping, wait_for};

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
    tcp = struct.pack('!HHIIBBHHH', 5201, int(sys.argv[2]) + n % 2, random.getrandbits(32), random.getrandbits(32), 0x50, flags, 512, 0, 0)
    tcp = tcp[:16] + struct.pack('!H', total(pseudo + tcp)) + tcp[18:]
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 40, n & 0xffff, 0, 64, 6, 0, socket.inet_aton(source), socket.inet_aton(destination))
    s.sendto(ip + tcp, (destination, 0))
"#;

fn config(nat: &str) -> String {
    ports("auto", &["left", "right"])
        + &format!("[flow]\nmemory = 16\n[filter.forward]\nrules = '''{RULES}'''\n{nat}")
}

/// The same since then.
fn since(net: &Line, before: (u64, u64)) -> (u64, u64) {
    let after = net.lanes();
    (after.0 - before.0, after.1 - before.1)
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
        let before = net.lanes();
        for address in SERVER {
            let sent =
                lab::transfer(&net.customer, &net.server, address.parse().unwrap(), 256 << 20).unwrap();
            assert_eq!(sent.sent, sent.arrived, "{address}");
        }
        let (offloaded, worker) = since(&net, before);
        assert!(offloaded > 20 * worker && offloaded > 100_000, "{offloaded} offloaded, {worker} by workers");

        // Both ways, and strangers between.
        let mut server = net.server.command("iperf3");
        server.args(["-s", "--forceflush"]);
        let _server = net.server.spawn("iperf3", server).unwrap();
        net.server.listens(5201).unwrap();
        // Each from a port of its own: that of a finished connection stays taken for a minute where
        // the client ended it. Linux gives neither to anybody who asks for any port.
        for (port, direction) in [("20000", ""), ("21000", "-R")] {
            let mut spray = net.server.command("python3");
            // What the client is called by on that side.
            spray.args(["-c", SPRAY, if nat.is_empty() { "10.1.0.2" } else { "10.2.0.1" }, port]);
            let _spray = net.server.spawn("spray", spray).unwrap();
            let said = iperf(&net, &format!("-c 10.2.0.2 --cport {port} -t 2 {direction}"));
            assert!(said["error"].is_null(), "{said}");
            let bytes = said["end"]["sum_received"]["bytes"].as_f64().unwrap();
            assert!(bytes > 1e6, "{port} {direction}: {said}");
        }
        for options in ["-c 2001:db8:2::2 -t 1", "-c 2001:db8:2::2 -t 1 -R", "-c 10.2.0.2 -u -b 50M -t 1"] {
            assert!(iperf(&net, options)["error"].is_null(), "{options}");
        }
        let filter = net.router.subject("filter").unwrap();
        let forward = filter.as_array().unwrap().iter().find(|chain| chain["chain"] == "forward").unwrap();
        let packets = |rule: usize| forward["rules"][rule]["packets"].as_u64().unwrap();
        let (offloaded, worker) = net.lanes();
        assert!(packets(0) > 1000, "strangers were refused: {filter}");
        assert!(packets(1) > offloaded * 9 / 10, "{offloaded} offloaded, {worker} by workers: {filter}");
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

/// Sends a hundred packets each of GRE with a key and without, and of ESP, in both families.
const TUNNELS: &str = r#"
out = {4: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW), 6: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)}
import time
for n in range(100):
    for ip in (IP(src="10.1.0.2", dst="10.2.0.2"), IPv6(src="2001:db8:1::2", dst="2001:db8:2::2")):
        for upper in (GRE(key_present=1, chksum_present=1, key=0x12345678, proto=0x800), GRE(proto=0x800), ESP(spi=77, seq=n, data=bytes(32))):
            out[ip.version].sendto(bytes(ip / upper / (b"tunnel %04d" % n)), (ip.dst, 0))
    time.sleep(0.002)
"#;

/// A conversation of which the server closes its side at once, and the customer goes on for a
/// while.
fn half_closed(net: &Line, address: &str) {
    let at =
        format!("{}:7000", if address.contains(':') { format!("[{address}]") } else { address.to_owned() });
    let bind = at.clone();
    let listener = net.server.inside(move || TcpListener::bind(bind).unwrap()).unwrap().join().unwrap();
    let sent: Vec<u8> = (0..8_000_000u32).map(|n| ((n * 31) >> 5) as u8).collect();
    let expected = sent.clone();
    let client = net.customer.inside(move || {
        let mut stream = TcpStream::connect(at).unwrap();
        // The other side has nothing to say.
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        stream.write_all(&sent).unwrap();
    });
    let client = client.unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut came = Vec::new();
    stream.read_to_end(&mut came).unwrap();
    client.join().unwrap();
    assert!(came == expected, "{} bytes came of {}", came.len(), expected.len());
}

#[test]
fn echo_and_tunnels_and_half_a_connection() {
    for nat in ["", NAT] {
        let mut net = Line::made("carried-rest", &config(nat), 1500, 1);
        if !net.router.is_bifrost() {
            return;
        }
        net.router.restart().unwrap();
        // It answers every ping.
        let limits = "net.ipv6.icmp.ratelimit=0 net.ipv4.icmp_msgs_per_sec=100000";
        net.server.run(&format!("sysctl -qw {limits}")).unwrap();
        for address in SERVER {
            net.customer.reaches(address, Duration::from_secs(10)).unwrap();
            let before = net.lanes();
            let ping = Ping::start(&net.customer, address, Duration::from_millis(5)).unwrap();
            wait_for("a thousand pings", Duration::from_secs(10), || match ping.statistics().sent {
                sent if sent >= 1000 => Ok(()),
                sent => Err(format!("{sent}")),
            })
            .unwrap();
            let ping = ping.stop();
            let (offloaded, worker) = since(&net, before);
            assert!(ping.lost() * 100 <= ping.sent, "{address}: {ping:?}");
            assert!(
                offloaded > 1900 && worker < 100,
                "{address}: {offloaded} offloaded, {worker} by workers"
            );

            let before = net.lanes();
            half_closed(&net, address);
            let (offloaded, worker) = since(&net, before);
            assert!(
                offloaded > 20 * worker && offloaded > 5000,
                "{address}: {offloaded} offloaded, {worker} by workers"
            );
        }
        let closed = net.router.show("flows --port 7000").unwrap();
        let phases: Vec<&serde_json::Value> =
            closed["flows"].as_array().unwrap().iter().map(|flow| &flow["phase"]).collect();
        assert!(phases.iter().all(|phase| *phase == "finished"), "{closed}");

        if nat.is_empty() {
            let mut seen =
                Capture::start(&net.server, "eth0", "(ip proto 47 or 50 or ip6 proto 47 or 50) and inbound")
                    .unwrap();
            let before = net.lanes();
            net.customer.scapy(TUNNELS).unwrap();
            let (offloaded, worker) = since(&net, before);
            // What is under way has come.
            std::thread::sleep(Duration::from_millis(300));
            let packets = seen.decode().unwrap();
            // Tcpdump may miss some on a busy machine.
            assert!(packets.len() > 540, "{} of 600 came", packets.len());
            assert!(offloaded > 560, "{offloaded} offloaded, {worker} by workers");
        }
    }
}
