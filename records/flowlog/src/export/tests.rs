//! What collectors make of what we send, field by field.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::record::{ICMP, ICMP6, Record};
use crate::samples::{NOON, records};
use crate::settings::Times;
use crate::sink::{Line, Sink};
use crate::tally::{Loss, Tally};
use crate::tools::{Collector, all, free_port, tshark, wait};

const UNIFLOW: Dialect = Dialect::Ipfix { biflow: false, times: Times::Milliseconds };
const BIFLOW: Dialect = Dialect::Ipfix { biflow: true, times: Times::Nanoseconds };

fn style(dialect: Dialect) -> Style {
    Style { dialect, limit: 1472, domain: 7, sampling: 1, refresh: None, refresh_messages: 100 }
}

fn encode(style: Style, records: &[Record]) -> Vec<Message> {
    let (mut encoder, mut out) = (Encoder::new(style, NOON), Vec::new());
    for record in records {
        encoder.add(record, NOON, &mut out);
    }
    encoder.flush(NOON, &mut out);
    out
}

/// One direction, as a collector should see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    ends: [String; 2],
    ports: [u64; 2],
    protocol: u64,
    flags: u64,
    counts: [u64; 2],
    interfaces: [u64; 2],
    systems: [u64; 2],
    table: u64,
    hop: String,
    behind: Option<([String; 2], [u64; 2])>,
    /// In milliseconds.
    times: [u64; 2],
}

/// Told from the record anew, not by the code that is tested.
fn expected(records: &[Record]) -> Vec<Seen> {
    let mut all = Vec::new();
    for r in records {
        let (k, ms) = (&r.key, |time: u64| time / 1_000_000);
        let icmp = matches!(k.protocol, ICMP | ICMP6);
        let text = |a: IpAddr| a.to_string();
        let any = |v6: bool| if v6 { "::" } else { "0.0.0.0" }.to_owned();
        let last_is_six = r.translated.map_or(k.source, |t| t.source).is_ipv6();
        let forward = Seen {
            ends: [text(k.source), text(k.destination)],
            ports: match icmp {
                true => [0, u64::from(k.icmp_type) << 8],
                false => [u64::from(k.source_port), u64::from(k.destination_port)],
            },
            protocol: u64::from(k.protocol),
            flags: u64::from(r.forward.tcp_flags),
            counts: [r.forward.packets, r.forward.bytes],
            interfaces: [2, 3],
            systems: [u64::from(r.source_as), u64::from(r.destination_as)],
            table: u64::from(k.table),
            hop: r.next_hop.map_or(any(last_is_six), text),
            behind: r.translated.map(|t| {
                let ports = [u64::from(t.source_port), u64::from(t.destination_port)];
                ([text(t.source), text(t.destination)], ports)
            }),
            times: [ms(r.start), ms(r.end)],
        };
        if r.reply.packets > 0 {
            let (source, destination) = (k.source, k.destination);
            let key_ports = [u64::from(k.destination_port), u64::from(k.source_port)];
            let (from, ports, behind) = match r.translated {
                None => ([text(destination), text(source)], key_ports, None),
                Some(t) => (
                    [text(t.destination), text(t.source)],
                    [u64::from(t.destination_port), u64::from(t.source_port)],
                    Some(([text(destination), text(source)], key_ports)),
                ),
            };
            all.push(Seen {
                ends: from,
                ports: match k.protocol {
                    ICMP => [0, 0],
                    ICMP6 => [0, 129 << 8],
                    _ => ports,
                },
                flags: u64::from(r.reply.tcp_flags),
                counts: [r.reply.packets, r.reply.bytes],
                interfaces: [3, 2],
                systems: [u64::from(r.destination_as), u64::from(r.source_as)],
                hop: any(source.is_ipv6()),
                behind,
                ..forward.clone()
            });
        }
        all.push(forward);
    }
    all.sort();
    all
}

fn number(value: &Value) -> u64 {
    match value {
        Value::String(text) => match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
            None => text.parse().unwrap(),
        },
        value => value.as_u64().unwrap(),
    }
}

/// The first of these keys that is there.
fn first<'v>(value: &'v Value, keys: [&str; 2]) -> &'v Value {
    keys.iter().find_map(|key| value.get(key)).unwrap_or_else(|| panic!("none of {keys:?} in {value}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn by_nfdump(records: &[Value]) -> Vec<Seen> {
    let time = |value: &Value| {
        let text = format!("{}Z", value.as_str().unwrap());
        chrono::DateTime::parse_from_rfc3339(&text).unwrap().timestamp_millis() as u64
    };
    let seen = |r: &Value| {
        let icmp = r.get("icmp_type").map(|kind| number(kind) << 8 | number(&r["icmp_code"]));
        let flags = r.get("tcp_flags").map_or("", |flags| flags.as_str().unwrap());
        let flags = flags.chars().fold(0, |bits, c| bits << 1 | u64::from(c != '.'));
        let behind = ["src4_xlt_ip", "src6_xlt_ip"].iter().any(|key| r.get(key).is_some());
        Seen {
            ends: [text(first(r, ["src4_addr", "src6_addr"])), text(first(r, ["dst4_addr", "dst6_addr"]))],
            ports: icmp.map_or_else(|| [number(&r["src_port"]), number(&r["dst_port"])], |icmp| [0, icmp]),
            protocol: number(&r["proto"]),
            flags,
            counts: [number(&r["in_packets"]), number(&r["in_bytes"])],
            interfaces: [number(&r["input_snmp"]), number(&r["output_snmp"])],
            systems: [number(&r["src_as"]), number(&r["dst_as"])],
            table: number(&r["ingress_vrf"]),
            hop: text(first(r, ["ip4_next_hop", "ip6_next_hop"])),
            behind: behind.then(|| {
                let source = text(first(r, ["src4_xlt_ip", "src6_xlt_ip"]));
                let destination = text(first(r, ["dst4_xlt_ip", "dst6_xlt_ip"]));
                ([source, destination], [number(&r["src_xlt_port"]), number(&r["dst_xlt_port"])])
            }),
            times: [time(&r["first"]), time(&r["last"])],
        }
    };
    let mut all = records.iter().map(seen).collect::<Vec<_>>();
    all.sort();
    all
}

/// Every `Flow N` of tshark's.
fn flows(packets: &[Value]) -> Vec<&Value> {
    fn find<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
        if let Value::Object(object) = value {
            for (name, value) in object {
                if name.starts_with("Flow ") && value.get("cflow.packets").is_some() {
                    found.push(value);
                }
                find(value, found);
            }
        }
    }
    let mut found = Vec::new();
    packets.iter().for_each(|packet| find(packet, &mut found));
    found
}

fn by_tshark(f: &Value) -> Seen {
    let milliseconds = |key: [&str; 2]| {
        let time = text(first(&f["cflow.timedelta_tree"], key));
        match time.parse::<f64>() {
            // NetFlow 9: seconds since the exporter says it started.
            Ok(seconds) => (NOON / 1_000_000_000 - 3600) * 1000 + (seconds * 1000.0).round() as u64,
            Err(_) => {
                let time = chrono::NaiveDateTime::parse_from_str(&time, "%b %d, %Y %H:%M:%S%.f UTC").unwrap();
                time.and_utc().timestamp_millis() as u64
            }
        }
    };
    let behind = f.get("cflow.post_naptsource_transport_port").map(|port| {
        let keys = |end: &str| {
            [format!("cflow.post_nat{end}_ipv4_address"), format!("cflow.post_nat_{end}_ipv6_address")]
        };
        let address = |end: &str| text(first(f, keys(end).each_ref().map(String::as_str)));
        let ports = [number(port), number(&f["cflow.post_naptdestination_transport_port"])];
        ([address("source"), address("destination")], ports)
    });
    Seen {
        ends: [
            text(first(f, ["cflow.srcaddr", "cflow.srcaddrv6"])),
            text(first(f, ["cflow.dstaddr", "cflow.dstaddrv6"])),
        ],
        ports: [number(&f["cflow.srcport"]), number(&f["cflow.dstport"])],
        protocol: number(&f["cflow.protocol"]),
        flags: number(&f["cflow.tcpflags"]),
        counts: [number(&f["cflow.packets"]), number(&f["cflow.octets"])],
        interfaces: [number(&f["cflow.inputint"]), number(&f["cflow.outputint"])],
        systems: [number(&f["cflow.srcas"]), number(&f["cflow.dstas"])],
        table: number(&f["cflow.ingress_vrfid"]),
        hop: text(first(f, ["cflow.nexthop", "cflow.nexthopv6"])),
        behind,
        times: [
            milliseconds(["cflow.abstimestart", "cflow.timestart"]),
            milliseconds(["cflow.abstimeend", "cflow.timeend"]),
        ],
    }
}

fn send(messages: &[Message], port: u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for message in messages {
        socket.send_to(&message.bytes, ("127.0.0.1", port)).unwrap();
    }
}

fn bytes(messages: &[Message]) -> Vec<Vec<u8>> {
    messages.iter().map(|message| message.bytes.clone()).collect()
}

#[test]
fn nfdump_reads_every_field() {
    let records = records(84);
    for dialect in [UNIFLOW, Dialect::NetFlow9] {
        let collector = Collector::start("nfcapd");
        send(&encode(style(dialect), &records), collector.port);
        let mut expected = expected(&records);
        // Of NAT64's replies it does not know the inner addresses in IPFIX (281, 282), though in
        // NetFlow 9 it does.
        for flow in expected.iter_mut().filter(|_| dialect == UNIFLOW) {
            flow.behind.take_if(|(ends, _)| ends[0].contains(':'));
        }
        expected.sort();
        let seen = by_nfdump(&collector.read());
        for (seen, expected) in seen.iter().zip(&expected) {
            assert_eq!(seen, expected, "{dialect:?}");
        }
        assert_eq!(seen.len(), expected.len());
    }
}

#[test]
fn tshark_reads_every_field() {
    let records = records(84);
    for dialect in [UNIFLOW, Dialect::NetFlow9] {
        let packets = tshark(&bytes(&encode(style(dialect), &records)), 4739, "cflow");
        let mut seen = flows(&packets).into_iter().map(by_tshark).collect::<Vec<_>>();
        seen.sort();
        assert_eq!(seen, expected(&records), "{dialect:?}");
        let mut names = packets.iter().flat_map(|packet| all(packet, "cflow.if_name")).collect::<Vec<_>>();
        names.sort_by_key(|name| name.to_string());
        assert_eq!(names, ["lan0", "wan0"]);
        for packet in &packets {
            assert!(
                all(packet, "_ws.expert").is_empty() && all(packet, "_ws.malformed").is_empty(),
                "{packet}"
            );
        }
    }
}

#[test]
fn a_biflow_has_both_directions_and_nanoseconds() {
    let records = records(84);
    let packets = tshark(&bytes(&encode(style(BIFLOW), &records)), 4739, "cflow");
    let found = flows(&packets);
    assert_eq!(found.len(), records.len());
    for flow in found {
        let record = records[number(&flow["cflow.flow_id"]) as usize];
        let pair = |key: &str| {
            let both = flow[key].as_array().unwrap();
            assert_eq!(both.len(), 2);
            [number(&both[0]), number(&both[1])]
        };
        assert_eq!(pair("cflow.packets"), [record.forward.packets, record.reply.packets]);
        assert_eq!(pair("cflow.octets"), [record.forward.bytes, record.reply.bytes]);
        let flags = [u64::from(record.forward.tcp_flags), u64::from(record.reply.tcp_flags)];
        assert_eq!(pair("cflow.tcpflags"), flags);
        assert_eq!(number(&flow["cflow.flow_end_reason"]), record.reason.map_or(0, |reason| reason as u64));
        let start = chrono::DateTime::from_timestamp_nanos(record.start as i64);
        let start = start.format("%b %e, %Y %H:%M:%S%.9f UTC").to_string();
        assert_eq!(flow["cflow.timedelta_tree"]["cflow.abstimestart"], start);
    }
}

/// Why a biflow is not the default: of a popular collector's reading.
#[test]
fn nfdump_takes_the_reverse_flags_of_a_biflow_for_its_own() {
    let biflow = Dialect::Ipfix { biflow: true, times: Times::Milliseconds };
    let record = records(2)[1];
    let collector = Collector::start("nfcapd");
    send(&encode(style(biflow), &[record]), collector.port);
    let seen = by_nfdump(&collector.read());
    assert_eq!(seen[0].counts, [record.forward.packets, record.forward.bytes]);
    assert_eq!(seen[0].flags, u64::from(record.reply.tcp_flags));
}

#[test]
fn the_sampling_interval_is_told_as_an_option() {
    for dialect in [UNIFLOW, Dialect::NetFlow9] {
        let messages = encode(Style { sampling: 10, ..style(dialect) }, &records(3));
        let packets = tshark(&bytes(&messages), 4739, "cflow");
        let told = |key: &str| all(&packets[0], key).into_iter().map(number).collect::<Vec<_>>();
        assert_eq!(told("cflow.sampling_interval"), [10], "{dialect:?}");
        assert_eq!(told("cflow.sampling_algorithm"), [2], "{dialect:?}");
        assert!(!bytes(&encode(style(dialect), &records(3)))[0].windows(2).any(|pair| pair == [1, 64]));
    }
}

#[test]
fn messages_keep_to_their_size_and_number() {
    let records = records(500);
    for (dialect, limit) in
        [(UNIFLOW, 1472), (BIFLOW, 528), (Dialect::NetFlow9, 1472), (Dialect::NetFlow9, 528)]
    {
        let messages = encode(Style { limit, sampling: 3, ..style(dialect) }, &records);
        assert_eq!(messages.iter().map(|message| message.records).sum::<usize>(), records.len());
        assert!(messages.iter().all(|message| message.bytes.len() <= limit));
        // Most of the room is used: a record more would not have fitted.
        let full = messages.iter().filter(|message| message.bytes.len() + 200 > limit).count();
        assert!(full + 3 >= messages.len(), "{full} of {}", messages.len());
        let (mut next, mut templates) = (0, HashMap::new());
        for message in &messages {
            let at = if dialect == Dialect::NetFlow9 { 12 } else { 8 };
            let number = u32::from_be_bytes(message.bytes[at..at + 4].try_into().unwrap());
            assert_eq!(u64::from(number), next, "{dialect:?}");
            next += match dialect {
                Dialect::NetFlow9 => 1,
                Dialect::Ipfix { .. } => data_records(&message.bytes, &mut templates),
            };
        }
    }
}

/// Records in the data sets of a message, by the templates that came so far.
fn data_records(message: &[u8], templates: &mut HashMap<usize, usize>) -> u64 {
    let word = |at: usize| usize::from(u16::from_be_bytes([message[at], message[at + 1]]));
    let (mut at, mut found) = (16, 0);
    while at < message.len() {
        let (set, length) = (word(at), word(at + 2));
        let end = at + length;
        let mut inside = at + 4;
        match set {
            2 | 3 => {
                while inside + 6 <= end {
                    let (id, fields) = (word(inside), word(inside + 2));
                    inside += if set == 3 { 6 } else { 4 };
                    let mut size = 0;
                    for _ in 0..fields {
                        size += word(inside + 2);
                        inside += if word(inside) & 0x8000 != 0 { 8 } else { 4 };
                    }
                    templates.insert(id, size);
                }
            }
            id => {
                found += ((length - 4) / templates[&id]) as u64;
            }
        }
        at = end;
    }
    found
}

#[test]
fn templates_are_announced_again_by_time_and_by_messages() {
    let records = records(60);
    let announced = |messages: &[Message]| {
        let packets = tshark(&bytes(messages), 4739, "cflow");
        packets.iter().filter(|packet| !all(packet, "cflow.template_ipfix_field_type").is_empty()).count()
    };
    let once = Style { limit: 528, ..style(UNIFLOW) };
    let often = Style { refresh: Some(Duration::from_secs(3600)), refresh_messages: 2, ..once.clone() };
    let always = Style { refresh: Some(Duration::ZERO), refresh_messages: 1000, ..once.clone() };
    let (once, often, always) =
        (encode(once, &records), encode(often, &records), encode(always, &records[..5]));
    assert!(often.len() > once.len());
    assert!(announced(&often) > announced(&once) + 5, "{} and {}", announced(&often), announced(&once));
    assert!(announced(&always) >= 4);
    // A collector that was started in the middle reads what follows.
    let late = Collector::start("nfcapd");
    send(&often[often.len() / 2..], late.port);
    assert!(late.read().len() > 20);
}

#[test]
fn a_collector_that_is_not_there_is_counted_and_found_when_it_comes() {
    let to = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let tally = Arc::new(Tally::new("test"));
    let mut sink = Datagrams::new(to, None, Encoder::new(style(UNIFLOW), NOON), Arc::clone(&tally));
    let records = records(400);
    for record in &records {
        sink.take(&[*record]);
    }
    sink.close();
    let count = tally.count();
    assert!(count.lost[&Loss::Send] > 390 && count.faults > 0, "{count:?}");
    assert_eq!(count.records + count.lost(), records.len() as u64);
    assert!(count.last_fault.unwrap().contains("refused"));
    // Now it is there: what it gets begins with templates.
    let socket = UdpSocket::bind(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let before = tally.count().records;
    let mut buffer = [0; 2000];
    sink.take(&records[..1]);
    sink.close();
    let length = socket.recv(&mut buffer).unwrap();
    let packets = tshark(&[buffer[..length].to_vec()], 4739, "cflow");
    assert!(!all(&packets[0], "cflow.template_ipfix_field_type").is_empty());
    assert_eq!(tally.count().records, before + 1);
}

fn stream(to: SocketAddr, tally: &Arc<Tally>, stalled: Duration, limit: usize) -> Line {
    let stop = Arc::new(AtomicBool::new(false));
    let encoder = Encoder::new(Style { limit: 16_384, ..style(UNIFLOW) }, NOON);
    let sink = Stream::new(to, encoder, Arc::clone(tally), Arc::clone(&stop), stalled);
    Line::start(sink, "test-tcp", limit, Arc::clone(tally), stop).unwrap()
}

/// Messages of a whole session, cut at their lengths.
fn messages_in(session: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut rest = session;
    while rest.len() >= 16 {
        let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        if rest.len() < length {
            break;
        }
        messages.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    messages
}

#[test]
fn over_tcp_all_comes_even_when_the_collector_comes_late() {
    let records = records(3000);
    let reserved = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = reserved.local_addr().unwrap();
    drop(reserved);
    let tally = Arc::new(Tally::new("test"));
    let line = stream(to, &tally, Duration::from_secs(10), 100_000);
    line.give(&records.as_slice().into());
    wait("it has failed to connect", || tally.count().faults > 0);
    let listener = TcpListener::bind(to).unwrap();
    let read = std::thread::spawn(move || {
        let mut session = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut session).unwrap();
        session
    });
    wait("all is sent", || tally.count().records == 3000);
    drop(line);
    let packets = tshark(&messages_in(&read.join().unwrap()), 4739, "cflow");
    let mut seen = flows(&packets).into_iter().map(by_tshark).collect::<Vec<_>>();
    seen.sort();
    assert_eq!(seen, expected(&records));
    assert_eq!(tally.count().lost(), 0);
}

#[test]
fn a_collector_that_does_not_read_costs_its_own_records_only() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tally = Arc::new(Tally::new("test"));
    let line = stream(listener.local_addr().unwrap(), &tally, Duration::from_millis(600), 5000);
    let batch: Arc<[Record]> = records(1000).into();
    let (mut mute, _) = {
        line.give(&batch);
        listener.accept().unwrap()
    };
    // Far more than the socket's buffers hold (a batch is 200 kB), without ever waiting.
    let since = std::time::Instant::now();
    let given = 200;
    for _ in 1..given {
        line.give(&batch);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(since.elapsed() < Duration::from_secs(5));
    // Why it is given up is told last.
    wait("the connection is given up", || {
        let count = tally.count();
        count.lost.contains_key(&Loss::Connection) && count.last_fault.is_some()
    });
    let count = tally.count();
    assert!(count.lost[&Loss::Queue] >= 5000, "{count:?}");
    assert!(count.last_fault.as_ref().unwrap().contains("nothing read"), "{count:?}");
    // At once: nothing goes on waiting for somebody who does not read.
    let mut little = Vec::new();
    assert_eq!(mute.read_to_end(&mut little).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(little.len() < 4 << 20, "{} bytes", little.len());
    drop(mute);
    // The next connection is a session of its own, and what is in it can be read.
    let (mut next, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let mut session = Vec::new();
        next.read_to_end(&mut session).unwrap();
        session
    });
    line.give(&batch);
    wait("the rest is sent", || {
        let count = tally.count();
        count.records + count.lost() == count.given
    });
    drop(line);
    let session = messages_in(&reader.join().unwrap());
    // What waited on this side of the first connection was not sent.
    let arrived = [messages_in(&little), session.clone()].concat();
    assert_eq!(tally.count().bytes, arrived.iter().map(Vec::len).sum::<usize>() as u64);
    let packets = tshark(&session[..3], 4739, "cflow");
    assert_eq!(number(all(&packets[0], "cflow.sequence")[0]), 0);
    assert!(!flows(&packets).is_empty());
    let count = tally.count();
    assert_eq!((count.given, count.records + count.lost()), (given * 1000 + 1000, count.given));
}

#[test]
fn a_session_that_the_collector_ends_goes_on_in_another() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tally = Arc::new(Tally::new("test"));
    let line = stream(listener.local_addr().unwrap(), &tally, Duration::from_secs(10), 100_000);
    // So few that a connection holds them which nobody reads yet.
    let batch: Arc<[Record]> = records(300).into();
    line.give(&batch);
    let (first, _) = listener.accept().unwrap();
    drop(first);
    wait("what was sent is sent", || tally.count().records + tally.count().lost() == 300);
    line.give(&batch);
    let (mut second, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let mut session = Vec::new();
        second.read_to_end(&mut session).unwrap();
        session
    });
    wait("all has gone one way or the other", || {
        let count = tally.count();
        count.records + count.lost() == 600
    });
    drop(line);
    let messages = messages_in(&reader.join().unwrap());
    assert!(!flows(&tshark(&messages, 4739, "cflow")).is_empty());
}
