//! Flows: of every protocol, from their first packet on, with what may go wrong on the way.

use wire::tcp::flag::{ACK, FIN, PSH, RST, SYN};
use wire::{icmp4, icmp6, protocol};

use super::build::{filling, frame, icmp, packet, raw, summed, tcp, udp};
use super::{Change, Frame, IN, OUT, Pair};

/// Which end sends: the one inside, or the one outside.
const OURS: usize = 0;
const THEIRS: usize = 1;

/// The ports of the connection and of the row of datagrams that stay open.
pub const OPEN_TCP: [u16; 2] = [2000, 4001];
pub const OPEN_UDP: [u16; 2] = [2001, 4001];
/// What comes next in that connection.
pub const NEXT: [u32; 2] = [2000, 8000];

/// A frame from one of both ends; from the outer one to both of the inner one's addresses.
fn say(frames: &mut Vec<Frame>, pair: Pair, end: usize, what: &str, make: impl Fn([&str; 2]) -> Vec<u8>) {
    let Pair { inside, outside, seen } = pair;
    if end == OURS {
        let (name, bytes) = (format!("{inside} to {outside}: {what}"), frame(IN, &make([inside, outside])));
        return frames.push(Frame { name, input: IN, bytes });
    }
    for to in if seen == inside { vec![inside] } else { vec![seen, inside] } {
        let (name, bytes) = (format!("{outside} to {to}: {what}"), frame(OUT, &make([outside, to])));
        frames.push(Frame { name, input: OUT, bytes });
    }
}

fn turned(ports: [u16; 2], end: usize) -> [u16; 2] {
    if end == OURS { ports } else { [ports[1], ports[0]] }
}

pub fn add(frames: &mut Vec<Frame>, pair: Pair) {
    connections(frames, pair);
    datagrams(frames, pair);
    others(frames, pair);
    errors(frames, pair);
    refused(frames, pair);
}

/// Segments: who sends, sequence and acknowledgement, flags, bytes of data.
type Segment = (&'static str, usize, u32, u32, u8, usize);

const HANDSHAKE: [Segment; 3] = [
    ("SYN", OURS, 999, 0, SYN, 0),
    ("SYN and ACK", THEIRS, 4999, 1000, SYN | ACK, 0),
    ("ACK", OURS, 1000, 5000, ACK, 0),
];
const TALK: [Segment; 10] = [
    ("data", OURS, 1000, 5000, ACK, 100),
    ("data", OURS, 1100, 5000, ACK | PSH, 900),
    ("data", THEIRS, 5000, 2000, ACK, 1000),
    ("data", THEIRS, 6000, 2000, ACK, 1000),
    ("data", THEIRS, 7000, 2000, ACK, 1000),
    ("ACK", OURS, 2000, 8000, ACK, 0),
    ("ACK once more", OURS, 2000, 8000, ACK, 0),
    ("data once more", THEIRS, 7000, 2000, ACK, 1000),
    ("beyond the window", OURS, 2000 + (1 << 24), 8000, ACK, 10),
    ("of what was never sent", THEIRS, 8000, 2000 + (1 << 24), ACK, 10),
];
const ODD: [Segment; 7] = [
    ("no flags", OURS, 2000, 8000, 0, 10),
    ("all flags", OURS, 2000, 8000, 0xff, 0),
    ("SYN in the middle", OURS, 2000, 0, SYN, 0),
    ("its answer", THEIRS, 8000, 2000, ACK, 0),
    ("RST beyond the window", THEIRS, 8000 + (1 << 24), 2000, RST | ACK, 0),
    ("data again", OURS, 2000, 8000, ACK, 0),
    ("answer again", THEIRS, 8000, 2000, ACK, 0),
];
const END: [Segment; 8] = [
    ("FIN", OURS, 1000, 5000, FIN | ACK, 0),
    ("ACK between", THEIRS, 5000, 1001, ACK, 10),
    ("ACK between, again", THEIRS, 5010, 1001, ACK, 10),
    ("ACK of that", OURS, 1001, 5020, ACK, 0),
    ("FIN", THEIRS, 5020, 1001, FIN | ACK, 0),
    ("last ACK", OURS, 1001, 5021, ACK, 0),
    ("after the end", OURS, 1001, 5021, ACK, 5),
    ("SYN after the end", OURS, 90_000, 0, SYN, 0),
];
const RESET: [Segment; 4] = [
    ("data", OURS, 1000, 5000, ACK, 10),
    ("RST", THEIRS, 5000, 1010, RST | ACK, 0),
    ("after RST", OURS, 1010, 5000, ACK, 10),
    ("after RST", THEIRS, 5000, 1010, ACK, 10),
];
const STRAY: [Segment; 4] = [
    ("without SYN", OURS, 1000, 5000, ACK, 10),
    ("without SYN", THEIRS, 5000, 1010, ACK, 10),
    ("SYN and ACK", THEIRS, 5000, 1010, SYN | ACK, 0),
    ("RST", THEIRS, 5000, 1010, RST, 0),
];
const CALLED: [Segment; 2] =
    [("SYN from outside", THEIRS, 7, 0, SYN, 0), ("SYN from outside, again", THEIRS, 7, 0, SYN, 0)];

fn connections(frames: &mut Vec<Frame>, pair: Pair) {
    let mut talk = |title: &str, ports: [u16; 2], segments: &[Segment]| {
        for (what, end, sequence, ack, flags, data) in segments.iter().copied() {
            let make = |hosts: [&str; 2]| {
                let upper = tcp(turned(ports, end), [sequence, ack], flags, data);
                packet(hosts, protocol::TCP, 64, upper)
            };
            say(frames, pair, end, &format!("{title}, {what}"), make);
        }
    };
    talk("TCP", OPEN_TCP, &[&HANDSHAKE[..], &TALK].concat());
    talk("TCP, odd", [2010, 4001], &[&HANDSHAKE[..], &TALK, &ODD].concat());
    talk("TCP that ends", [2011, 4001], &[&HANDSHAKE[..], &END].concat());
    talk("TCP that is reset", [2012, 4001], &[&HANDSHAKE[..], &RESET].concat());
    talk("TCP, stray", [2013, 4001], &STRAY);
    talk("TCP, called", [2014, 4001], &CALLED);
    talk("FTP", [2015, 21], &[&HANDSHAKE[..], &TALK].concat());
    for (what, at, change) in [
        ("wrong sum", 16, 0x10u8),
        ("its header longer than the packet", 12, 0xa0),
        ("its header too short", 12, 0x10),
        ("another urgent pointer, wrong sum", 19, 1),
    ] {
        for (kind, flags) in [("data", ACK), ("FIN", ACK | FIN), ("RST", RST), ("SYN", SYN)] {
            let make = |hosts: [&str; 2]| {
                let upper = tcp(OPEN_TCP, NEXT, flags, 10);
                let mut upper = summed(hosts, protocol::TCP, upper);
                upper[at] ^= change;
                raw(hosts, protocol::TCP, 64, &upper)
            };
            say(frames, pair, OURS, &format!("TCP, {kind} with {what}"), make);
        }
    }
}

fn datagrams(frames: &mut Vec<Frame>, pair: Pair) {
    let row = [
        ("first", OURS),
        ("second", OURS),
        ("answer", THEIRS),
        ("answer again", THEIRS),
        ("third", OURS),
        ("answer", THEIRS),
        ("fourth", OURS),
        ("answer", THEIRS),
    ];
    for ports in [OPEN_UDP, [2020, 53], [2021, 5004], [21, 2021]] {
        for (n, (what, end)) in row.into_iter().enumerate() {
            let make = |hosts: [&str; 2]| packet(hosts, protocol::UDP, 64, udp(turned(ports, end), n * 111));
            say(frames, pair, end, &format!("UDP to {}, {what}", ports[1]), make);
        }
    }
    let changed: [Change; 6] = [
        ("no sum", |upper| upper[6..8].fill(0)),
        ("wrong sum", |upper| upper[7] ^= 1),
        ("a length beyond the packet", |upper| upper[4] = 9),
        ("a length within the header", |upper| upper[4..6].copy_from_slice(&[0, 4])),
        ("a length before the end", |upper| upper[4..6].copy_from_slice(&[0, 12])),
        ("port 0", |upper| upper[2..4].fill(0)),
    ];
    for ports in [OPEN_UDP, [2022, 4001]] {
        for (what, change) in changed {
            let make = |hosts: [&str; 2]| {
                let mut upper = summed(hosts, protocol::UDP, udp(ports, 20));
                change(&mut upper);
                raw(hosts, protocol::UDP, 64, &upper)
            };
            say(frames, pair, OURS, &format!("UDP from {}, {what}", ports[0]), make);
        }
    }
}

/// Protocols without ports, or with others.
fn others(frames: &mut Vec<Frame>, pair: Pair) {
    let six = pair.inside.contains(':');
    let (icmp_number, ask, answer) = match six {
        false => (protocol::ICMP, icmp4::ECHO, icmp4::ECHO_REPLY),
        true => (protocol::ICMP6, icmp6::ECHO, icmp6::ECHO_REPLY),
    };
    let echo = |kind: u8| icmp(kind, 0, 0x1234_0001, &filling(30));
    let init = [&[0x07, 0xd0, 0x0f, 0xa1][..], &[0; 8], &[1, 0, 0, 20], &[7; 16]].concat();
    let chunk = [&[0x0f, 0xa1, 0x07, 0xd0][..], &[7; 4], &[0; 4], &[2, 0, 0, 20], &[7; 16]].concat();
    let data = [&[0x07, 0xd0, 0x0f, 0xa1][..], &[7; 4], &[0; 4], &[0, 3, 0, 17], &[7; 17]].concat();
    let inner = raw(["10.9.0.1", "10.9.0.2"], protocol::UDP, 64, &udp([1, 2], 9));
    let gre = [&[0, 0, 8, 0][..], &inner].concat();
    let keyed = [&[0x20, 0, 8, 0, 0, 0, 0, 5][..], &inner].concat();
    let with_sum = [&[0xa0, 0, 8, 0, 9, 9, 0, 0, 0, 0, 0, 5][..], &inner].concat();
    let point = [&[0x30, 1, 0x88, 0x0b, 0, 4, 0, 5, 0, 0, 0, 0][..], &[9; 4]].concat();
    let esp = [&[0, 0, 0x10, 1, 0, 0, 0, 1][..], &filling(40)].concat();
    let other = filling(40);
    let lite = udp([2030, 4001], 20);
    let rows: [(&str, u8, Vec<u8>, Vec<u8>); 14] = [
        ("echo", icmp_number, echo(ask), echo(answer)),
        ("an answer to no echo", icmp_number, icmp(answer, 0, 0x777, b"x"), icmp(answer, 0, 0x777, b"x")),
        ("timestamp", icmp_number, icmp(13, 0, 1, &[0; 12]), icmp(14, 0, 1, &[0; 12])),
        ("the other family's ICMP", icmp_number ^ (protocol::ICMP ^ protocol::ICMP6), echo(8), echo(0)),
        ("SCTP", protocol::SCTP, init, chunk),
        ("SCTP, data", protocol::SCTP, data.clone(), data),
        ("GRE", protocol::GRE, gre.clone(), gre),
        ("GRE with a key", protocol::GRE, keyed.clone(), keyed),
        ("GRE with sum and key", protocol::GRE, with_sum.clone(), with_sum),
        ("PPTP's GRE", protocol::GRE, point.clone(), point),
        ("ESP", protocol::ESP, esp.clone(), esp),
        ("UDP-Lite", protocol::UDP_LITE, lite.clone(), lite),
        ("protocol 253", 253, other.clone(), other),
        ("no next header", protocol::NO_NEXT, Vec::new(), Vec::new()),
    ];
    for (title, number, out, back) in rows {
        for (n, end) in [OURS, OURS, THEIRS, THEIRS, OURS, THEIRS, OURS].into_iter().enumerate() {
            let upper = [&out, &back][end];
            let make = |hosts: [&str; 2]| packet(hosts, number, 64, upper.clone());
            say(frames, pair, end, &format!("{title}, {n}"), make);
        }
    }
}

/// What routers and hosts say about the datagrams that were sent.
fn errors(frames: &mut Vec<Frame>, pair: Pair) {
    let six = pair.inside.contains(':');
    let number = if six { protocol::ICMP6 } else { protocol::ICMP };
    let kinds: &[(u8, u8)] = match six {
        false => &[(3, 3), (3, 4), (11, 0), (12, 0), (5, 1), (4, 0)],
        true => &[(1, 4), (2, 0), (3, 0), (4, 0), (137, 0), (100, 0)],
    };
    for (kind, code) in kinds.iter().copied() {
        for (what, end, from, ports) in [
            ("of a flow", THEIRS, "", OPEN_UDP),
            ("of none", THEIRS, "", [2999, 4001]),
            ("about an answer", OURS, "", [OPEN_UDP[1], OPEN_UDP[0]]),
            ("by a router on the way", THEIRS, "far", OPEN_UDP),
        ] {
            for damage in [false, true] {
                let make = |[from_host, to]: [&str; 2]| {
                    // What was sent by whom it goes to.
                    let quoted = packet([to, from_host], protocol::UDP, 60, udp(ports, 50));
                    let router = if six { "2001:db8:f:9::1" } else { "198.19.9.9" };
                    let hosts = [if from.is_empty() { from_host } else { router }, to];
                    let message = icmp(kind, code, 1300, &quoted);
                    let mut upper = summed(hosts, number, message);
                    upper[3] ^= u8::from(damage);
                    raw(hosts, number, 64, &upper)
                };
                let damaged = if damage { ", wrong sum" } else { "" };
                say(frames, pair, end, &format!("error {kind}.{code} {what}{damaged}"), make);
            }
        }
    }
}

/// What rules drop or refuse.
fn refused(frames: &mut Vec<Frame>, pair: Pair) {
    for port in [23, 24, 25, 26, 9, 5] {
        for n in 0..2 {
            let make = |hosts: [&str; 2]| packet(hosts, protocol::TCP, 64, tcp([2100, port], [1, 0], SYN, 0));
            say(frames, pair, OURS, &format!("SYN to {port}, {n}"), make);
            let make = |hosts: [&str; 2]| packet(hosts, protocol::UDP, 64, udp([2100, port], 40));
            say(frames, pair, OURS, &format!("UDP to {port}, {n}"), make);
        }
    }
}
