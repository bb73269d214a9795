//! What sFlow collectors make of what we send.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::*;
use crate::settings::SflowPlan;
use crate::tally::Loss;
use crate::tools::{Collector, all, free_port, tshark, wait};
use flow::sample::{Fate, Sample};

/// A UDP packet of IPv4 in a frame of so many bytes.
fn frame(length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend(((length - 14) as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 9, 198, 18, 1, 7, 0x30, 0x39, 1, 187]);
    frame.extend(((length - 34) as u16).to_be_bytes());
    frame.resize(length, 0);
    frame
}

fn counters() -> Vec<InterfaceCounters> {
    let direction = |base: u32| DirectionCounters {
        bytes: 10_000_000_000 + u64::from(base),
        unicast: base + 1,
        multicast: base + 2,
        broadcast: base + 3,
        discards: base + 4,
        errors: base + 5,
    };
    vec![InterfaceCounters {
        index: 2,
        kind: 6,
        speed: 10_000_000_000,
        full_duplex: true,
        admin_up: true,
        oper_up: true,
        promiscuous: false,
        input: direction(100),
        input_unknown_protocols: u32::MAX,
        output: direction(200),
    }]
}

fn plan(collectors: Vec<SocketAddr>) -> SflowPlan {
    SflowPlan {
        agent: IpAddr::from([192, 0, 2, 1]),
        collectors,
        sample: 1,
        header: 128,
        counters: Duration::from_secs(3600),
        mtu: 1500,
    }
}

/// What an agent sends for these samples, with counters at its end.
fn sent(fates: &[Fate], length: usize) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let agent = Agent::start(plan(vec![socket.local_addr().unwrap()]), Box::new(counters)).unwrap();
    let mut sampler = agent.sampler(2);
    for fate in fates {
        assert_eq!(sampler.pick(1), Some(0));
        let mut sample = Sample::of(&frame(length), sampler.header(), *fate);
        sample.next_hop = Some(IpAddr::from([198, 18, 1, 254]));
        (sample.source_prefix, sample.destination_prefix) = (16, 24);
        (sample.input_vlan, sample.output_vlan) = (100, 200);
        sampler.push(sample);
    }
    drop(agent);
    let mut datagrams = Vec::new();
    let mut buffer = [0; 2000];
    while let Ok(length) = socket.recv(&mut buffer) {
        datagrams.push(buffer[..length].to_vec());
    }
    datagrams
}

#[test]
fn tshark_reads_every_field() {
    let datagrams = sent(&[Fate::Forwarded(3)], 600);
    let packets = tshark(&datagrams, 6343, "sflow");
    for (key, value) in [
        ("sflow_245.agent", "192.0.2.1"),
        ("sflow_245.header_protocol", "1"),
        ("sflow_245.header.frame_length", "604"),
        ("sflow.flow_sample.sampling_rate", "1"),
        ("sflow.flow_sample.sample_pool", "1"),
        ("sflow.flow_sample.dropped_packets", "0"),
        ("sflow_245.vlan.in", "100"),
        ("sflow_245.vlan.out", "200"),
        ("sflow_245.nexthop", "198.18.1.254"),
        ("sflow_245.nexthop.src_mask", "16"),
        ("sflow_245.nexthop.dst_mask", "24"),
        ("ip.src", "198.18.0.9"),
        ("udp.dstport", "443"),
        ("sflow_245.ifindex", "2"),
        ("sflow_245.ifspeed", "10000000000"),
        ("sflow_245.ifinoct", "10000000100"),
        ("sflow_245.ifinpkt", "101"),
        ("sflow_245.ifindisc", "104"),
        ("sflow_245.ifoutoct", "10000000200"),
        ("sflow_245.ifouterr", "205"),
        ("sflow_245.ifdirection", "1"),
    ] {
        // The datagram's own addresses and ports are among them.
        let found = packets.iter().flat_map(|packet| all(packet, key)).collect::<Vec<_>>();
        assert!(found.iter().any(|found| **found == value), "{key} is {found:?} in {packets:#?}");
    }
    for packet in &packets {
        assert!(all(packet, "_ws.malformed").is_empty(), "{packet}");
    }
}

#[test]
fn a_way_that_is_not_known_is_not_told() {
    let told = |sample: &Sample| {
        let (mut datagrams, mut out) = (Datagrams::new(IpAddr::from([192, 0, 2, 1]), 1472), Vec::new());
        datagrams.packet(Source { input: 2, sequence: 1, rate: 1, pool: 1, drops: 0 }, sample, 0, &mut out);
        datagrams.flush(&mut out);
        tshark(&out, 6343, "sflow").iter().map(|packet| all(packet, "sflow_245.nexthop").len()).sum::<usize>()
    };
    let mut sample = Sample::of(&frame(100), 64, Fate::Forwarded(3));
    assert_eq!(told(&sample), 0);
    sample.destination_prefix = 24;
    assert_eq!(told(&sample), 1);
}

#[test]
fn sfcapd_reads_samples() {
    let collector = Collector::start("sfcapd");
    let to = SocketAddr::from(([127, 0, 0, 1], collector.port));
    let agent = Agent::start(plan(vec![to]), Box::new(counters)).unwrap();
    let mut sampler = agent.sampler(2);
    for _ in 0..100 {
        assert_eq!(sampler.pick(1), Some(0));
        sampler.keep(&frame(600), Fate::Forwarded(3));
    }
    wait("they are sent", || agent.count().collectors[0].records == 100);
    assert_eq!(agent.count().seen, 100);
    drop(agent);
    let records = collector.read();
    let text = |record: &serde_json::Value, key: &str| record[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(records.len(), 100);
    for record in &records {
        assert_eq!(
            (text(record, "src4_addr").as_str(), record["dst_port"].as_u64()),
            ("198.18.0.9", Some(443))
        );
        assert_eq!((record["input_snmp"].as_u64(), record["output_snmp"].as_u64()), (Some(2), Some(3)));
    }
}

#[test]
fn datagrams_keep_to_the_size_and_count_on() {
    let datagrams = sent(&[Fate::Dropped, Fate::Local, Fate::Unknown].repeat(30), 1514);
    assert!(datagrams.len() > 10 && datagrams.iter().all(|bytes| bytes.len() <= 1472));
    let word = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let numbers = datagrams.iter().map(|bytes| word(bytes, 16)).collect::<Vec<_>>();
    assert_eq!(numbers, (1..=datagrams.len() as u32).collect::<Vec<_>>());
    let samples = datagrams.iter().map(|bytes| word(bytes, 24)).sum::<u32>();
    assert_eq!(samples, 91);
    for packet in tshark(&datagrams, 6343, "sflow") {
        assert!(all(&packet, "_ws.malformed").is_empty());
    }
}

#[test]
fn a_collector_that_is_not_there_does_not_keep_samples_from_another() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let absent = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let agent = Agent::start(plan(vec![absent, socket.local_addr().unwrap()]), Box::new(Vec::new)).unwrap();
    let mut sampler = agent.sampler(2);
    for _ in 0..5 {
        for _ in 0..20 {
            sampler.pick(1);
            sampler.keep(&frame(100), Fate::Unknown);
        }
        std::thread::sleep(Duration::from_millis(120));
    }
    wait("they are sent", || agent.count().collectors[1].records == 100);
    let count = agent.count();
    let missing = &count.collectors[0];
    assert!(missing.lost.contains_key(&Loss::Send) && missing.faults > 0, "{missing:?}");
}
