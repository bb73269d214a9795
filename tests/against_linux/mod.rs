//! The same packets through Linux and through both lanes of Bifrost: what comes out must be the
//! same, byte for byte or in whatever a test looks at. Each file here is a kind of case; cases are
//! lines of a text beside it, so that another one costs a line.
//!
//! The network is that of `network.rs`, with hosts that nobody plays: on either side the router
//! knows [`HOSTS`] by a MAC address that is no one's, so frames can be sent in their names and
//! caught on their way to them, and no stack answers. Frames carry a number (the identification of
//! IPv4, the flow label of IPv6) by which they are known again. They are sent in rounds: all of a
//! round are through, or lost, before the next begins.
//!
//! Linux is asked first, before Bifrost starts.

mod histories;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lab::Host;

use crate::network::Line;

/// The last numbers of the addresses that are nobody's: 10.1.0.10 and 2001:db8:1::10 on the left.
pub const HOSTS: [u8; 2] = [10, 11];
/// Where frames for them go.
const NOBODY: &str = "02:00:00:00:ee:ee";

/// A side of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    pub fn other(self) -> Side {
        if self == Side::Left { Side::Right } else { Side::Left }
    }
}

/// An IP packet, and where it comes in.
#[derive(Clone, Debug)]
pub struct Sent {
    pub side: Side,
    pub ip: Vec<u8>,
}

/// Sends the frames of a file, `SIDE HEX` a line, with an empty line behind each round; prints
/// those that come out, in the same form. Arguments: the file, both hosts' namespaces, the MAC
/// address that frames go to.
const THROUGH: &str = r#"
import ctypes, os, select, socket, sys, time
names = ["left", "right"]
libc = ctypes.CDLL(None, use_errno=True)
sockets = []
for namespace in sys.argv[2:4]:
    with open(f"/run/netns/{namespace}") as there:
        assert libc.setns(there.fileno(), 0x40000000) == 0, os.strerror(ctypes.get_errno())
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
    s.bind(("eth0", 3)); s.setblocking(False)
    sockets.append(s)
nobody = bytes.fromhex(sys.argv[4].replace(":", ""))
def catch(limit):
    """Takes what comes until there is so much or a while nothing."""
    caught = 0
    while caught < limit:
        ready, _, _ = select.select(sockets, [], [], 0.4)
        if not ready: return
        for s in ready:
            frame, address = s.recvfrom(70000)
            if address[2] != socket.PACKET_OUTGOING and frame[:6] == nobody:
                print(names[sockets.index(s)], frame[14:].hex()); caught += 1
sent = 0
for line in open(sys.argv[1]):
    if not line.strip():
        catch(sent); sent = 0
        continue
    side, frame = line.split()
    sockets[names.index(side)].send(bytes.fromhex(frame)); sent += 1
    if sent % 100 == 0: time.sleep(0.002)
"#;

/// The network, its plane not started, and who may be spoken for.
pub fn network(name: &str, config: &str) -> Line {
    let net = Line::stopped(name, config);
    let known = ["left", "right"].into_iter().zip([1, 2]).flat_map(|(interface, number)| {
        HOSTS.into_iter().map(move |host| {
            format!(
                "neighbour replace 10.{number}.0.{host} lladdr {NOBODY} dev {interface} nud permanent\n\
                 neighbour replace 2001:db8:{number}::{host} lladdr {NOBODY} dev {interface} nud permanent\n"
            )
        })
    });
    net.router.host().ip_batch(&known.collect::<String>()).unwrap();
    net
}

/// What comes out of rounds of packets, by their numbers, and on which side.
pub fn through(net: &Line, rounds: &[Vec<Sent>]) -> BTreeMap<u32, Sent> {
    let router = net.router.host();
    let mac = |interface| router.mac(interface).unwrap().replace(':', "");
    let macs = [mac("left"), mac("right")];
    let mut frames = String::new();
    for round in rounds {
        for Sent { side, ip } in round {
            let (name, mac) = match side {
                Side::Left => ("left", &macs[0]),
                Side::Right => ("right", &macs[1]),
            };
            let kind = if ip[0] >> 4 == 4 { "0800" } else { "86dd" };
            let _ = write!(frames, "{name} {mac}020000000001{kind}");
            ip.iter().for_each(|byte| _ = write!(frames, "{byte:02x}"));
            frames.push('\n');
        }
        frames.push('\n');
    }
    let file = |host: &Host, name: &str, text: &str| {
        let path = host.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (script, frames) =
        (file(&net.customer, "through.py", THROUGH), file(&net.customer, "frames", &frames));
    let [customer, server] = [&net.customer, &net.server].map(|host| host.namespace().to_owned());
    let said = net
        .customer
        .run(&format!("timeout 60 python3 {script} {frames} {customer} {server} {NOBODY}"))
        .unwrap();
    said.lines().map(read).collect()
}

/// A line of what came out.
fn read(line: &str) -> (u32, Sent) {
    let (side, hex) = line.split_once(' ').expect("side and packet");
    let side = if side == "left" { Side::Left } else { Side::Right };
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    let ip: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    (number(&ip), Sent { side, ip })
}

/// The number that a packet carries.
fn number(ip: &[u8]) -> u32 {
    match ip[0] >> 4 {
        4 => u16::from_be_bytes([ip[4], ip[5]]).into(),
        _ => u32::from_be_bytes([0, ip[1] & 15, ip[2], ip[3]]),
    }
}
