//! What is odd: headers that lie, addresses that nobody has, what is for the router and its
//! protocols, and every kind of route.

use wire::tcp::flag::{ACK, SYN};
use wire::{ethernet, ipv4, protocol};

use super::build::{filling, frame, icmp, packet, raw, summed, tcp, typed, udp};
use super::flows::{NEXT, OPEN_TCP, OPEN_UDP};
use super::{Change, Frame, IN, OUT, OWN, Pair};

/// Where the IP header begins.
const IP: usize = ethernet::HEADER;

fn ttl(frame: &mut [u8], ttl: u8) {
    frame[IP + if is_six(frame) { 7 } else { 8 }] = ttl;
}

fn is_six(frame: &[u8]) -> bool {
    frame[IP] >> 4 == 6
}

/// Of both families.
const BOTH: [Change; 15] = [
    ("as it is", |_| {}),
    ("TTL 2", |frame| ttl(frame, 2)),
    ("TTL 1", |frame| ttl(frame, 1)),
    ("TTL 0", |frame| ttl(frame, 0)),
    ("TTL 255", |frame| ttl(frame, 255)),
    ("padding", |frame| frame.extend([0xaa; 7])),
    ("much padding", |frame| frame.extend([0xaa; 700])),
    ("another link address", |frame| frame[5] ^= 0x40),
    ("a link broadcast", |frame| frame[..6].fill(0xff)),
    ("a link group", |frame| frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1])),
    ("the other port's link address", |frame| frame[5] ^= 3),
    ("cut within the upper header", |frame| frame.truncate(IP + if is_six(frame) { 44 } else { 24 })),
    ("cut at the IP header's end", |frame| frame.truncate(IP + if is_six(frame) { 40 } else { 20 })),
    ("cut within the IP header", |frame| frame.truncate(IP + if is_six(frame) { 39 } else { 19 })),
    ("version 5", |frame| frame[IP] = 0x50 | frame[IP] & 15),
];

/// Of IPv4; checksums are made right afterwards, where the header is long enough.
const FOUR: [Change; 27] = [
    ("DSCP and ECN", |frame| frame[IP + 1] = 0xbb),
    ("don't fragment", |frame| frame[IP + 6] = 0x40),
    ("the reserved flag", |frame| frame[IP + 6] = 0x80),
    ("a first fragment", |frame| frame[IP + 6..IP + 8].copy_from_slice(&ipv4::MORE_FRAGMENTS.to_be_bytes())),
    ("a later fragment", |frame| frame[IP + 6..IP + 8].copy_from_slice(&[0, 4])),
    ("a middle fragment", |frame| frame[IP + 6..IP + 8].copy_from_slice(&[0x20, 8])),
    ("an orphan", |frame| frame[IP + 4..IP + 8].copy_from_slice(&[9, 9, 0, 4])),
    ("an overlapping fragment", |frame| frame[IP + 6..IP + 8].copy_from_slice(&[0, 1])),
    ("a header of 4 words", |frame| frame[IP] = 0x44),
    ("a header of 15 words", |frame| frame[IP] = 0x4f),
    ("options of nothing", |frame| options(frame, &[1, 1, 1, 0])),
    ("router alert", |frame| options(frame, &[0x94, 4, 0, 0])),
    ("record route", |frame| options(frame, &[7, 7, 4, 0, 0, 0, 0, 0])),
    ("loose source route", |frame| options(frame, &[131, 7, 4, 198, 18, 0, 9, 0])),
    ("an option that lies", |frame| options(frame, &[7, 40, 4, 0])),
    ("a total length of 19", |frame| frame[IP + 2..IP + 4].copy_from_slice(&[0, 19])),
    ("a total length of 20", |frame| frame[IP + 2..IP + 4].copy_from_slice(&[0, 20])),
    ("a total length of 0", |frame| frame[IP + 2..IP + 4].fill(0)),
    ("a total length beyond the end", |frame| frame[IP + 3] += 1),
    ("a total length of 65535", |frame| frame[IP + 2..IP + 4].fill(0xff)),
    ("a total length before the end", |frame| frame[IP + 3] -= 1),
    ("source 127.0.0.1", |frame| frame[IP + 12..IP + 16].copy_from_slice(&[127, 0, 0, 1])),
    ("source 0.0.0.0", |frame| frame[IP + 12..IP + 16].fill(0)),
    ("source 0.1.2.3", |frame| frame[IP + 12..IP + 16].copy_from_slice(&[0, 1, 2, 3])),
    ("source 224.0.0.1", |frame| frame[IP + 12..IP + 16].copy_from_slice(&[224, 0, 0, 1])),
    ("source 255.255.255.255", |frame| frame[IP + 12..IP + 16].fill(0xff)),
    ("source 240.1.2.3", |frame| frame[IP + 12..IP + 16].copy_from_slice(&[240, 1, 2, 3])),
];

/// Puts options behind the header.
fn options(frame: &mut Vec<u8>, options: &[u8]) {
    frame.splice(IP + 20..IP + 20, options.iter().copied());
    let length = (frame.len() - IP) as u16;
    frame[IP] = 0x45 + (options.len() / 4) as u8;
    frame[IP + 2..IP + 4].copy_from_slice(&length.to_be_bytes());
}

const SIX: [Change; 24] = [
    ("a traffic class and a label", |frame| frame[IP..IP + 4].copy_from_slice(&[0x6b, 0xb1, 2, 3])),
    ("hop-by-hop padding", |frame| extension(frame, 0, &[1, 4, 0, 0, 0, 0])),
    ("router alert", |frame| extension(frame, 0, &[5, 2, 0, 0, 1, 0])),
    ("a hop-by-hop option that is refused", |frame| extension(frame, 0, &[0x9e, 4, 0, 0, 0, 0])),
    ("destination options", |frame| extension(frame, 60, &[1, 4, 0, 0, 0, 0])),
    ("a routing header that is through", |frame| extension(frame, 43, &[4, 0, 0, 0, 0, 0])),
    ("a routing header that goes on", |frame| extension(frame, 43, &[4, 1, 0, 0, 0, 0])),
    ("an atomic fragment", |frame| extension(frame, 44, &[0, 0, 0, 0, 0, 7])),
    ("a first fragment", |frame| extension(frame, 44, &[0, 1, 0, 0, 0, 8])),
    ("a later fragment", |frame| extension(frame, 44, &[0, 32, 0, 0, 0, 8])),
    ("a middle fragment", |frame| extension(frame, 44, &[0, 65, 0, 0, 0, 8])),
    ("an orphan", |frame| extension(frame, 44, &[0, 32, 0, 0, 0, 9])),
    ("an authentication header", |frame| {
        extension(frame, 51, &[0, 0, 0, 0, 0, 1]);
        frame[IP + 41] = 0;
    }),
    ("an extension beyond the end", |frame| {
        extension(frame, 60, &[1, 4, 0, 0, 0, 0]);
        frame[IP + 41] = 200;
    }),
    ("five extensions", |frame| (0..5).for_each(|_| extension(frame, 60, &[1, 4, 0, 0, 0, 0]))),
    ("hop-by-hop behind another", |frame| {
        extension(frame, 0, &[1, 4, 0, 0, 0, 0]);
        extension(frame, 60, &[1, 4, 0, 0, 0, 0]);
    }),
    ("a payload length beyond the end", |frame| frame[IP + 5] += 1),
    ("a payload length of 65535", |frame| frame[IP + 4..IP + 6].fill(0xff)),
    ("a payload length of 0", |frame| frame[IP + 4..IP + 6].fill(0)),
    ("a payload length before the end", |frame| frame[IP + 5] -= 1),
    ("source ::", |frame| frame[IP + 8..IP + 24].fill(0)),
    ("source ::1", |frame| {
        frame[IP + 8..IP + 24].fill(0);
        frame[IP + 23] = 1;
    }),
    ("source ff02::1", |frame| frame[IP + 8..IP + 10].copy_from_slice(&[0xff, 2])),
    ("source ::ffff:a.b.c.d", |frame| {
        frame[IP + 8..IP + 18].fill(0);
        frame[IP + 18..IP + 20].fill(0xff);
    }),
];

/// Puts an extension header of 8 bytes behind the IPv6 header.
fn extension(frame: &mut Vec<u8>, kind: u8, body: &[u8; 6]) {
    let header = [&[frame[IP + 6], 0], &body[..]].concat();
    frame[IP + 6] = kind;
    frame.splice(IP + 40..IP + 40, header);
    let length = (frame.len() - IP - 40) as u16;
    frame[IP + 4..IP + 6].copy_from_slice(&length.to_be_bytes());
}

/// Packets of open flows, and one of none, with everything that may be odd about them.
pub fn add(frames: &mut Vec<Frame>, pair: Pair) {
    let hosts = [pair.inside, pair.outside];
    let open_tcp = packet(hosts, protocol::TCP, 64, tcp(OPEN_TCP, NEXT, ACK, 20));
    let open_udp = packet(hosts, protocol::UDP, 64, udp(OPEN_UDP, 40));
    let new_udp = packet(hosts, protocol::UDP, 64, udp([2200, 4001], 40));
    let six = pair.inside.contains(':');
    let family = if six { &SIX[..] } else { &FOUR[..] };
    for (flow, ip) in [("TCP", open_tcp), ("UDP", open_udp), ("new UDP", new_udp)] {
        for (what, change) in BOTH.iter().chain(family) {
            let mut bytes = frame(IN, &ip);
            change(&mut bytes);
            let header = 4 * usize::from(bytes[IP] & 15);
            if !six && header >= 20 && bytes.len() >= IP + header {
                ipv4::set_checksum(&mut bytes[IP..IP + header]);
            }
            frames.push(Frame { name: format!("{} {flow}, {what}", hosts[0]), input: IN, bytes });
        }
        let mut bytes = frame(IN, &ip);
        bytes[IP + 10] ^= 0x40;
        frames.push(Frame { name: format!("{} {flow}, a wrong header sum", hosts[0]), input: IN, bytes });
    }
    if pair.seen != pair.inside {
        let name = |what: &str| format!("{what} as {} is seen outside, from inside", pair.inside);
        let hosts = [pair.seen, pair.outside];
        for (what, number, upper) in
            [("TCP", protocol::TCP, tcp(OPEN_TCP, NEXT, ACK, 20)), ("UDP", protocol::UDP, udp(OPEN_UDP, 40))]
        {
            let bytes = frame(IN, &packet(hosts, number, 64, upper));
            frames.push(Frame { name: name(what), input: IN, bytes });
        }
    }
    // Sizes around the MTU of the way, which is 1400, and of the one that is 1000.
    let narrow = if six { "2001:db8:f:16::1" } else { "198.18.16.1" };
    for (to, sizes) in [(hosts[1], &[1400, 1401, 1500][..]), (narrow, &[1000, 1001, 1280, 1281])] {
        for &size in sizes {
            let header = if six { 40 } else { 20 };
            for fragment in [0x00, 0x40] {
                for ttl in [64, 1] {
                    for number in [protocol::TCP, protocol::UDP] {
                        let mut upper = udp(OPEN_UDP, size - header - 8);
                        if number == protocol::TCP {
                            upper = tcp(OPEN_TCP, NEXT, ACK, size - header - 20);
                        }
                        let mut ip = packet([hosts[0], to], number, ttl, upper);
                        if !six {
                            ip[6] = fragment;
                            ipv4::set_checksum(&mut ip[..20]);
                        }
                        let name = format!(
                            "{} to {to}, {size} bytes of {number}, flags {fragment:#x}, TTL {ttl}",
                            hosts[0]
                        );
                        frames.push(Frame { name, input: IN, bytes: frame(IN, &ip) });
                    }
                }
            }
        }
    }
}

/// What is of no flow.
pub fn add_others(frames: &mut Vec<Frame>) {
    for (family, from) in ["10.1.0.2", "2001:db8:1::2"].into_iter().enumerate() {
        routes(frames, family, from);
        control(frames, family, from);
        sources(frames, family);
    }
    links(frames);
}

/// Every kind of next hop and of address that is none.
fn routes(frames: &mut Vec<Frame>, family: usize, from: &str) {
    let four = (9..=17).map(|n| format!("198.18.{n}.1"));
    let six = (9..=17).map(|n| format!("2001:db8:f:{n}::1"));
    let odd4 = ["203.0.113.1", "10.1.0.3", "127.0.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "239.1.1.1"];
    let more4 = ["255.255.255.255", "240.1.1.1", "169.254.1.1", "192.0.2.77", "192.0.3.1"];
    let odd6 = ["2001:dead::1", "2001:db8:1::3", "::1", "::", "ff02::1", "ff05::2", "fe80::1", "fd00::1"];
    let more6 = ["::ffff:198.18.0.1", "::198.18.0.1", "64:ff9b::c612:1", "2001:db8:ab::77", "ff02::1:ff00:1"];
    let all: Vec<String> = match family {
        0 => four.chain(odd4.into_iter().chain(more4).map(str::to_owned)).collect(),
        _ => six.chain(odd6.into_iter().chain(more6).map(str::to_owned)).collect(),
    };
    for to in &all {
        for (what, number, upper) in [
            ("UDP", protocol::UDP, udp([2300, 4001], 30)),
            ("SYN", protocol::TCP, tcp([2301, 8080], [1, 0], SYN, 0)),
            ("ACK", protocol::TCP, tcp([2302, 4001], [1, 1], ACK, 9)),
        ] {
            for ttl in [64, 1] {
                // A later packet of the same flow meets what the first has left.
                for n in 0..if ttl == 64 { 2 } else { 1 } {
                    let bytes = frame(IN, &packet([from, to], number, ttl, upper.clone()));
                    frames.push(Frame { name: format!("{what} to {to}, TTL {ttl}, {n}"), input: IN, bytes });
                }
            }
        }
    }
    // What the rules for what comes in would drop, to where only Linux leads.
    let punt = ["198.18.14.1", "2001:db8:f:14::1"][family];
    let bytes = frame(IN, &packet([from, punt], protocol::UDP, 64, udp([2304, 25], 30)));
    frames.push(Frame { name: format!("UDP of port 25 to {punt}"), input: IN, bytes });
    // And from outside, to what a rule translates.
    let to = ["192.0.3.1", "2001:db8:ac::1"][family];
    let far = ["198.18.0.7", "2001:db8:f::7"][family];
    for n in 0..2 {
        let upper = tcp([2303, 8080], [1, 0], SYN, 0);
        let bytes = frame(OUT, &packet([far, to], protocol::TCP, 64, upper));
        frames.push(Frame { name: format!("SYN to {to}, forwarded, {n}"), input: OUT, bytes });
    }
}

/// Sources that are wrong where they come from.
fn sources(frames: &mut Vec<Frame>, family: usize) {
    let four =
        ["10.1.0.1", "10.2.0.1", "198.18.0.5", "203.0.113.5", "169.254.1.1", "198.18.10.5", "198.18.14.5"];
    let six = [
        "2001:db8:1::1",
        "2001:db8:2::1",
        "2001:db8:f::5",
        "2001:dead::5",
        "fe80::5",
        "2001:db8:f:10::5",
        "2001:db8:f:14::5",
    ];
    let to = ["198.18.0.1", "2001:db8:f::1"][family];
    for from in if family == 0 { four } else { six } {
        for n in 0..2 {
            let bytes = frame(IN, &packet([from, to], protocol::UDP, 64, udp([2400, 4001], 30)));
            frames.push(Frame { name: format!("UDP from {from}, {n}"), input: IN, bytes });
        }
    }
    // Back out by where it came in.
    let bytes =
        frame(OUT, &packet([["198.18.0.5", "2001:db8:f::5"][family], to], protocol::UDP, 64, udp([1, 2], 9)));
    frames.push(Frame { name: format!("UDP to {to}, out where it came in"), input: OUT, bytes });
}

/// What is for the router or its protocols.
fn control(frames: &mut Vec<Frame>, family: usize, from: &str) {
    for to in [OWN[0][family], OWN[1][family]] {
        for (what, number, upper) in [
            ("UDP", protocol::UDP, udp([3000, 4001], 20)),
            ("BGP", protocol::TCP, tcp([3000, 179], [1, 0], SYN, 0)),
        ] {
            let changes = if family == 0 { &FOUR[9..15] } else { &SIX[1..6] };
            for (how, change) in changes {
                let mut bytes = frame(IN, &packet([from, to], number, 64, upper.clone()));
                change(&mut bytes);
                let header = 4 * usize::from(bytes[IP] & 15);
                if family == 0 && bytes.len() >= IP + header {
                    ipv4::set_checksum(&mut bytes[IP..IP + header]);
                }
                frames.push(Frame { name: format!("{what} to {to}, {how}"), input: IN, bytes });
            }
        }
    }
    let groups = [["224.0.0.5", "224.0.0.13", "239.1.1.1"], ["ff02::5", "ff02::d", "ff05::1"]][family];
    let own = [OWN[0][family], OWN[1][family]];
    let mut add = |what: String, to: &str, number: u8, ttl: u8, upper: Vec<u8>| {
        let bytes = frame(IN, &packet([from, to], number, ttl, upper));
        frames.push(Frame { name: format!("{what} to {to}, TTL {ttl}"), input: IN, bytes });
    };
    for to in [own[0], groups[0]] {
        for port in [
            22, 49, 53, 67, 68, 80, 123, 161, 162, 179, 443, 520, 521, 546, 547, 646, 830, 1812, 1813, 3784,
            3785, 4784, 6784, 4001,
        ] {
            for ttl in [255, 64] {
                add(format!("UDP port {port}"), to, protocol::UDP, ttl, udp([3000, port], 20));
                add(format!("UDP from port {port}"), to, protocol::UDP, ttl, udp([port, 3000], 20));
                add(format!("TCP port {port}"), to, protocol::TCP, ttl, tcp([3000, port], [1, 0], SYN, 0));
                add(
                    format!("TCP from port {port}"),
                    to,
                    protocol::TCP,
                    ttl,
                    tcp([port, 3000], [1, 1], ACK, 0),
                );
            }
        }
    }
    for to in own.into_iter().chain(groups) {
        for number in [1, 2, 46, 47, 50, 51, 58, 88, 89, 103, 112, 132, 0, 41, 59, 255] {
            for ttl in [255, 1] {
                add(format!("protocol {number}"), to, number, ttl, filling(24));
            }
        }
        for kind in [0, 8, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 143, 1, 3] {
            let number = [protocol::ICMP, protocol::ICMP6][family];
            [255, 64]
                .into_iter()
                .for_each(|ttl| add(format!("ICMP {kind}"), to, number, ttl, icmp(kind, 0, 0, &[0; 24])));
        }
    }
}

/// What is not IP, or not at once.
fn links(frames: &mut Vec<Frame>) {
    let four = packet(["10.1.0.2", "198.18.0.1"], protocol::UDP, 64, udp(OPEN_UDP, 40));
    let own = packet(["10.1.0.2", "10.1.0.1"], protocol::TCP, 64, tcp([3000, 179], [1, 0], SYN, 0));
    let six = packet(["2001:db8:1::2", "2001:db8:f::1"], protocol::UDP, 64, udp(OPEN_UDP, 40));
    let own6 = raw(
        ["2001:db8:1::2", "2001:db8:1::1"],
        58,
        255,
        &summed(["2001:db8:1::2", "2001:db8:1::1"], 58, icmp(135, 0, 0, &[1; 16])),
    );
    let mut add = |name: String, bytes| frames.push(Frame { name, input: IN, bytes });
    for kind in
        [0x0000, 0x05dc, 0x0800, 0x0806, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x8863, 0x88cc, 0x9000, 0xffff]
    {
        for (what, payload) in [("nothing", &[][..]), ("zeros", &[0; 46]), ("IPv4", &four), ("IPv6", &six)] {
            add(format!("type {kind:#06x} with {what}"), typed(IN, kind, payload));
        }
    }
    for (what, kind, ip) in [
        ("transit", ethernet::IPV4, &four),
        ("BGP", ethernet::IPV4, &own),
        ("transit", ethernet::IPV6, &six),
        ("solicitation", ethernet::IPV6, &own6),
    ] {
        let inner = [&[0, 7][..], &kind.to_be_bytes(), ip].concat();
        let twice = [&[0, 8][..], &ethernet::VLAN.to_be_bytes(), &inner].concat();
        let thrice = [&[0, 9][..], &ethernet::VLAN.to_be_bytes(), &twice].concat();
        for (tags, outer, payload) in
            [(1, ethernet::VLAN, inner), (2, ethernet::QINQ, twice), (3, ethernet::QINQ, thrice)]
        {
            add(format!("{tags} tags before {what} of {kind:#06x}"), typed(IN, outer, &payload));
        }
        for mac in [[0xff; 6], [1, 0, 0x5e, 0, 0, 5], [0, 0, 0x5e, 0, 1, 1]] {
            let mut bytes = typed(IN, kind, ip);
            bytes[..6].copy_from_slice(&mac);
            add(format!("{what} of {kind:#06x} to {mac:02x?}"), bytes);
        }
    }
    // The kernel takes no test frame without an Ethernet header.
    for length in [14, 15, 33, 34, 53] {
        for ip in [&four, &six] {
            let mut bytes = frame(IN, ip);
            bytes.truncate(length);
            add(format!("{length} bytes of IPv{}", ip[0] >> 4), bytes);
        }
    }
}
