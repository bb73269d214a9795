//! What translation costs, in cycles of the time stamp counter: `cargo bench -p nat`. Of packets
//! the least and the median of many runs; packets and tuples are in the first-level cache, as they
//! are right after a lookup. Of bindings one pass over a million.

use flow::Tuple;
use nat::{Nat, Port, Text, rewrite};
use wire::checksum::{pseudo4, pseudo6};
use wire::{Headers, ipv4, ipv6, protocol, udp};

const PACKETS: usize = 64;
const RUNS: usize = 2001;

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 has a time stamp counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed().as_nanos() as u64
}

fn measure(name: &str, items: usize, runs: usize, mut work: impl FnMut()) {
    work();
    let mut samples: Vec<f64> = (0..runs)
        .map(|_| {
            let start = ticks();
            work();
            (ticks() - start) as f64 / items as f64
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    println!("{name:<28} {:>9.1} least {:>9.1} median", samples[0], samples[samples.len() / 2]);
}

fn packet(version: u8, upper: u8, n: u8) -> Vec<u8> {
    let payload = [n; 22];
    if version == 4 {
        let (source, destination) = ([10, 0, 0, n], [198, 51, 100, n]);
        let pseudo = pseudo4(u32::from_be_bytes(source), u32::from_be_bytes(destination), protocol::UDP, 30);
        let repr = ipv4::Repr { protocol: upper, ..ipv4::Repr::new(source.into(), destination.into()) };
        return [&repr.header(30)[..], &udp::header(1000, 2000, &payload, pseudo), &payload].concat();
    }
    let (source, destination) = (0x2001_0db8 << 96 | u128::from(n), 0x2001_0db9 << 96 | u128::from(n));
    let pseudo = pseudo6(source, destination, protocol::UDP, 30);
    let repr = ipv6::Repr { next_header: upper, ..ipv6::Repr::new(source.into(), destination.into()) };
    [&repr.header(30)[..], &udp::header(1000, 2000, &payload, pseudo), &payload].concat()
}

fn rewriting(name: &str, version: u8, upper: u8) {
    let mut batch: Vec<(Vec<u8>, Headers, Tuple)> = (0..PACKETS)
        .map(|n| {
            let mut packet = packet(version, upper, n as u8);
            // A data offset, where TCP has it.
            packet[if version == 4 { 32 } else { 52 }] = 0x50;
            let headers = Headers::parse(&packet).expect("a good packet");
            (packet, headers, Tuple::of(&headers, 0).reversed())
        })
        .collect();
    measure(name, PACKETS, RUNS, || {
        for (packet, headers, to) in &mut batch {
            let _ = std::hint::black_box(rewrite(packet, headers, to));
        }
    });
}

fn main() {
    rewriting("rewrite/v4/tcp", 4, protocol::TCP);
    rewriting("rewrite/v4/udp", 4, protocol::UDP);
    rewriting("rewrite/v6/tcp", 6, protocol::TCP);
    rewriting("rewrite/v6/udp", 6, protocol::UDP);
    bindings();
}

/// A million mappings of a pool of 32 addresses: made, looked at again, and ended.
fn bindings() {
    const FLOWS: u32 = 1_000_000;
    let text = Text {
        rule: vec![nat::RuleText {
            name: Some("pool".to_owned()),
            r#type: Some("source".to_owned()),
            pool: Some(nat::Words::One("203.0.113.0/27".to_owned())),
            pooling: Some("arbitrary".to_owned()),
            ..nat::RuleText::default()
        }],
        ..Text::default()
    };
    let nat = Nat::new();
    let port = Port { number: 1, name: "wan0".to_owned(), addresses: Vec::new() };
    nat.install(&text.check().expect("good rules"), &[port], |word, name| word == name);
    let flow = |n: u32| Tuple {
        source: wire::headers::mapped((0x0a00_0000 + n / 16).to_be_bytes()),
        destination: wire::headers::mapped([198, 51, 100, 1]),
        source_port: 40_000 + (n % 16) as u16,
        destination_port: 443,
        protocol: protocol::TCP,
        table: 0,
    };
    let mut replies = Vec::with_capacity(FLOWS as usize);
    let each = |name: &str, start: u64| {
        let ns = (on_core() - start) as f64 / f64::from(FLOWS);
        println!("{name:<28} {ns:>9.1} ns a flow, {} mappings", nat.len());
    };
    let start = on_core();
    for n in 0..FLOWS {
        match nat.bind(&flow(n), None, [2, 1], 0) {
            Ok(Some(binding)) => replies.push(binding.reply),
            other => panic!("flow {n}: {other:?}"),
        }
    }
    each("bind/new", start);
    let start = on_core();
    for (n, reply) in replies.iter().enumerate() {
        nat.release_tuples(&flow(n as u32), reply, 0, &mut |_| {});
    }
    each("bind/end", start);
}

/// For how many ns this thread has been on a core: one long pass shares the machine with others.
fn on_core() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}
