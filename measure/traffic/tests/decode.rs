//! What others make of the packets: tshark and scapy read every field of every kind of stream, and
//! check every checksum.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use port::Pool;
use traffic::maker::{Maker, Part};
use traffic::plan::{Ends, Plan};
use traffic::stamp::Stamp;
use traffic::{Port, Stream, Trial};
use wire::capture::pcap;

const PACKETS: usize = 40;

/// The frames of a stream's first packets.
fn frames(stream: &str) -> Vec<Vec<u8>> {
    Pool::heap(256).install();
    let stream = Stream::parse_all(&format!("[[stream]]\n{stream}")).unwrap().remove(0);
    let plan = Arc::new(Plan::new(&stream, Ends::NONE).unwrap());
    let mut maker = Maker::new(plan, Part { mark: 0xb1f0, lane: 3, index: 0, of: 1 });
    let mut packets = Vec::new();
    (0..PACKETS).for_each(|i| assert!(maker.make(1000 * i as u64, &mut packets)));
    packets.iter().map(|packet| packet.to_vec()).collect()
}

fn file(name: &str, frames: &[Vec<u8>]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("bifrost-{name}-{}.pcap", std::process::id()));
    let mut bytes = pcap::header(true, 65_535, 1).to_vec();
    for (i, frame) in frames.iter().enumerate() {
        let length = frame.len() as u32;
        bytes.extend(pcap::record(true, i as i64 * 1_000_000, length, length));
        bytes.extend(frame);
    }
    std::fs::write(&path, bytes).unwrap();
    path
}

/// These fields of every packet, as tshark reads them; all layers' occurrences with commas between.
fn tshark(path: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-r"]).arg(path).args(["-T", "fields", "-E", "separator=|"]);
    for protocol in ["ip", "udp", "tcp"] {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let rows: Vec<Vec<String>> =
        text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect();
    assert_eq!(rows.len(), PACKETS, "{said}");
    rows
}

/// Whether scapy, which makes all lengths and checksums anew, makes the same bytes of what it read.
fn scapy_agrees(path: &Path) {
    let script = format!(
        "import logging; logging.disable(logging.WARNING)\n\
         from scapy.all import *\n\
         from scapy.contrib.mpls import MPLS\n\
         n = 0\n\
         for p in rdpcap({path:?}):\n\
        \x20   raw = bytes(p); n += 1; layer = p\n\
        \x20   while layer:\n\
        \x20       for field in ('len', 'plen', 'chksum', 'cksum'):\n\
        \x20           if field in layer.fields and not (field == 'chksum' and layer.name == 'UDP' and layer.chksum == 0): del layer.fields[field]\n\
        \x20       layer = layer.payload\n\
        \x20   made = bytes(p)\n\
        \x20   assert made == raw, (n, raw.hex(), made.hex())\n\
         print(n)\n",
        path = path.to_str().unwrap()
    );
    let output = Command::new("/usr/bin/python3").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), PACKETS.to_string(), "{said}");
}

fn column(rows: &[Vec<String>], at: usize) -> Vec<&str> {
    rows.iter().map(|row| row[at].as_str()).collect()
}

#[test]
fn udp_over_ipv4_with_ranges_and_a_mix_of_sizes() {
    let frames = frames(
        "size = 'imix'\nflows = 20\nsource = '10.0.0.1-10.0.0.5'\ndestination = 'random 192.168.0.0/16'\n\
         source_port = '1000-1009'\ndestination_port = 'random 2000-2999'\ndscp = 46\nttl = 17\nfill = 'count'\n\
         source_mac = '02:00:00:00:00:10..02:00:00:00:00:13'\ndestination_mac = '02:aa:00:00:00:01'",
    );
    let path = file("udp4", &frames);
    let rows = tshark(
        &path,
        &[
            "eth.src",
            "eth.dst",
            "ip.src",
            "ip.dst",
            "ip.dsfield.dscp",
            "ip.ttl",
            "ip.checksum.status",
            "udp.srcport",
            "udp.dstport",
            "udp.checksum.status",
            "ip.len",
            "frame.len",
            "ip.flags.df",
            "udp.length",
        ],
    );
    for (i, row) in rows.iter().enumerate() {
        let flow = i % 20;
        assert_eq!(row[0], format!("02:00:00:00:00:1{}", flow % 4));
        assert_eq!(row[1], "02:aa:00:00:00:01");
        assert_eq!(row[2], format!("10.0.0.{}", 1 + flow % 5));
        assert!(row[3].starts_with("192.168."));
        assert_eq!(row[3], rows[flow][3], "the same flow, the same address");
        assert_eq!([&row[4], &row[5], &row[6], &row[9]], ["46", "17", "1", "1"]);
        assert_eq!(row[7], (1000 + flow % 10).to_string());
        assert!((2000..3000).contains(&row[8].parse::<u32>().unwrap()));
        let frame: usize = row[11].parse().unwrap();
        assert!([60, 590, 1514].contains(&frame));
        assert_eq!([&row[10], &row[13]], [&(frame - 14).to_string(), &(frame - 34).to_string()]);
        assert!(row[12] == "1" || row[12] == "True");
        let stamp = Stamp::read(&frames[i][42..]).unwrap();
        assert_eq!(
            (stamp.mark, stamp.lane, stamp.sequence, stamp.time),
            (0xb1f0, 3, i as u64, 1000 * i as u64)
        );
        assert!(wire::checksum::verify(&frames[i][42..]));
        assert!(frames[i][60..].iter().enumerate().all(|(at, &byte)| byte == (60 + at) as u8));
    }
    let mut sizes = column(&rows, 11)[..12].to_vec();
    sizes.sort_unstable();
    assert_eq!(sizes, ["1514", "590", "590", "590", "590", "60", "60", "60", "60", "60", "60", "60"]);
    scapy_agrees(&path);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn tcp_over_ipv6_behind_two_tags_with_extension_headers() {
    let path = file(
        "tcp6",
        &frames(
            "size = '150-300'\nflows = 7\nsource = '2001:db8::1'\ndestination = '2001:db8:1::/120'\nprotocol = 'tcp'\n\
             tcp_flags = 'SYN,ECE'\nvlan = [200, 100]\nvlan_priority = 5\nttl = 3\ndscp = 10\n\
             extension_headers = ['hop-by-hop', 'destination', 'routing', 'fragment']",
        ),
    );
    let rows = tshark(
        &path,
        &[
            "vlan.id",
            "ieee8021ad.id",
            "vlan.priority",
            "ipv6.dst",
            "ipv6.hlim",
            "ipv6.tclass.dscp",
            "tcp.flags",
            "tcp.checksum.status",
            "ipv6.fraghdr.nxt",
            "tcp.dstport",
            "ieee8021ad.priority",
        ],
    );
    for (i, row) in rows.iter().enumerate() {
        assert_eq!([&row[0], &row[1], &row[2], &row[10]], ["100", "200", "5", "5"]);
        let last = i % 7;
        let address = if last == 0 { "2001:db8:1::".to_owned() } else { format!("2001:db8:1::{last:x}") };
        assert_eq!(row[3], address);
        assert_eq!([&row[4], &row[5], &row[7], &row[8], &row[9]], ["3", "10", "1", "6", "9"]);
        assert_eq!(row[6], "0x0042");
    }
    scapy_agrees(&path);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn echo_requests_of_both_families_and_labels() {
    let path = file(
        "icmp4",
        &frames(
            "size = 100\nprotocol = 'icmp'\nsource_port = '7-8'\nflows = 2\nmpls = [16, 1048575]\nttl = 9",
        ),
    );
    let rows = tshark(
        &path,
        &[
            "mpls.label",
            "mpls.bottom",
            "mpls.ttl",
            "icmp.type",
            "icmp.checksum.status",
            "icmp.ident",
            "ip.checksum.status",
        ],
    );
    for (i, row) in rows.iter().enumerate() {
        assert_eq!([&row[0], &row[2], &row[3], &row[4], &row[6]], ["16,1048575", "9,9", "8", "1", "1"]);
        assert!(["0,1", "False,True"].contains(&row[1].as_str()), "{}", row[1]);
        assert_eq!(row[5].split(',').next().unwrap(), (7 + i % 2).to_string());
    }
    scapy_agrees(&path);
    std::fs::remove_file(&path).unwrap();

    let path = file(
        "icmp6",
        &frames(
            "size = '90-99'\nprotocol = 'icmp'\nsource = '::1'\ndestination = 'fe80::1'\nfill = 'random'",
        ),
    );
    let rows = tshark(&path, &["icmpv6.type", "icmpv6.checksum.status", "ipv6.dst"]);
    assert!(rows.iter().all(|row| row == &["128", "1", "fe80::1"]));
    scapy_agrees(&path);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn without_stamp_and_without_udp_checksum() {
    let path = file(
        "bare",
        &frames(
            "size = '64-200'\nstamp = false\nfill = '0xa5'\nflows = 3\nflow_length = 2\nsource = '10.0.0.0/24'",
        ),
    );
    let rows = tshark(&path, &["udp.checksum.status", "ip.src", "udp.payload"]);
    for row in &rows {
        assert_eq!(row[0], "1");
        assert!(row[2].bytes().collect::<Vec<_>>().chunks(2).all(|byte| byte == b"a5"));
    }
    // Slots begin at different points of their flows' lives, and every flow has two packets but the
    // first ones.
    assert_eq!(
        column(&rows, 1)[..9],
        [
            "10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.0", "10.0.0.4", "10.0.0.2", "10.0.0.3", "10.0.0.4",
            "10.0.0.5"
        ]
    );
    scapy_agrees(&path);
    std::fs::remove_file(&path).unwrap();
    let path = file("nosum", &frames("udp_checksum = false"));
    assert!(tshark(&path, &["udp.checksum"]).iter().all(|row| row[0] == "0x0000"));
    scapy_agrees(&path);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_cannot_be_is_refused_with_stream_and_field() {
    for (stream, field) in [
        ("size = 64\nprotocol = 'tcp'", "size"),
        ("vlan = [4095]", "vlan"),
        ("vlan = [1, 2, 3]", "vlan"),
        ("mpls = [1048576]", "mpls"),
        ("dscp = 64", "dscp"),
        ("flows = 0", "flows"),
        ("source = '::1'", "destination"),
        ("extension_headers = ['fragment']", "extension_headers"),
        ("source = 'file:/no/such/file'", "source"),
        ("size = 100\nsource = '::1'\ndestination = '::2'\nudp_checksum = false", "udp_checksum"),
        ("rate = '10%'", "rate"),
        ("pattern = 'poisson'", "pattern"),
        ("[[stream]]\nname = 'odd'", "name"),
        ("replay = '/no/such/file.pcap'", "/no/such/file.pcap"),
    ] {
        let streams = Stream::parse_all(&format!("[[stream]]\nname = 'odd'\n{stream}")).unwrap();
        let trial = Trial { streams, ..Trial::new(Port::of_queues("none", Vec::new())) };
        let error = trial.run().unwrap_err().to_string();
        assert!(
            error.contains(field) && (error.contains("`odd`") || field.starts_with('/')),
            "{stream}: {error}"
        );
    }
    for text in ["x", "[[stream]]\nsize = 'x'", "[[stream]]\nrat = 'max'", "[[stream]]\nttl = 256"] {
        let error = Stream::parse_all(text).unwrap_err().to_string();
        assert!(error.starts_with("the file of streams: "), "{error}");
    }
    let error = Stream::parse_all("[stream]\nrate = '1kpps'").unwrap_err().to_string();
    assert!(error.contains("begins with [[stream]]"), "{error}");
}
