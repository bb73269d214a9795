//! The filter's classifier alone, one core, batches of 64, over 65,536 packets: what a router with
//! rules pays above one without is a row minus `rules/none`.
//!
//! Rule lists are of three kinds, as ClassBench's seeds are (Taylor and Turner 2007): access lists
//! (both addresses mostly known), firewalls (often one of them, more ports) and pairs of hosts.
//! Addresses cluster in sites, subnets and hosts. Packets either match the last rule only (`600`,
//! `10000`: random addresses), or each a random rule (`.../hits`).

use crate::ruler::Ruler;
use ::rules::{BATCH, Compiled, Context, Decision, Filter, FlowState, Hook, Ledger, Now};
use lab::prefixes::Random;
use std::fmt::Write;
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;
use wire::{Headers, headers::mapped};

const PACKETS: usize = 65_536;
const CHANGES: usize = 30;

/// What a list looks like.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// Rules about single hosts, nothing else.
    Hosts,
    AccessList,
    Firewall,
    Pairs,
    /// An access list in IPv6.
    Six,
}

/// Name for packets that match the last rule, name for packets that each match some rule, kind,
/// length.
const LISTS: [(&str, &str, Style, usize); 8] = [
    ("rules/600", "rules/600/hits", Style::AccessList, 600),
    ("rules/600-hosts", "rules/600-hosts/hits", Style::Hosts, 600),
    ("rules/600-firewall", "rules/600-firewall/hits", Style::Firewall, 600),
    ("rules/10000", "rules/10000/hits", Style::AccessList, 10_000),
    ("rules/10000-hosts", "rules/10000-hosts/hits", Style::Hosts, 10_000),
    ("rules/10000-firewall", "rules/10000-firewall/hits", Style::Firewall, 10_000),
    ("rules/10000-pairs", "rules/10000-pairs/hits", Style::Pairs, 10_000),
    ("rules/10000-ipv6", "rules/10000-ipv6/hits", Style::Six, 10_000),
];

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    if !ruler.wants_family("rules/") {
        return;
    }
    if ruler.wants("rules/none") {
        let filter = compiled(&read("chain forward\naccept\n"), &mut Ledger::new(1));
        let packets = random_packets(&mut Random(1), Style::AccessList);
        measure(ruler, "rules/none", &filter, &packets);
    }
    for (last, hits, style, length) in LISTS {
        let memory = "rules/10000/memory";
        if ![last, hits, memory].iter().any(|name| ruler.wants(name)) {
            continue;
        }
        let mut random = Random(20_261_121);
        let rules = list(&mut random, style, length);
        let filter = compiled(&read(&text(&rules)), &mut Ledger::new(1));
        let packets = random_packets(&mut random, style);
        measure(ruler, last, &filter, &packets);
        let packets = hitting_packets(&mut random, &rules);
        measure(ruler, hits, &filter, &packets);
        if last == "rules/10000" && ruler.wants(memory) {
            ruler.record(memory, "MB", vec![filter.bytes() as f64 / 1e6]);
        }
    }
    update(ruler);
}

/// A change of one rule among 10,000, from the changed filter to one that workers can take over.
fn update(ruler: &mut Ruler) {
    for (name, style) in
        [("rules/10000/change", Style::AccessList), ("rules/10000-firewall/change", Style::Firewall)]
    {
        if !ruler.wants(name) {
            continue;
        }
        let mut rules = list(&mut Random(20_261_121), style, 10_000);
        let mut ledger = Ledger::new(1);
        let mut now = compiled(&read(&text(&rules)), &mut ledger);
        let samples = (0..CHANGES).map(|n| {
            rules[n * 300].action = if n % 2 == 0 { "count" } else { "reject" };
            let filter = read(&text(&rules));
            let start = Instant::now();
            now = compiled(&filter, &mut ledger);
            start.elapsed().as_secs_f64() * 1e3
        });
        let samples = samples.collect();
        black_box(&now);
        ruler.record(name, "ms", samples);
    }
}

/// An access list of 600 rules, of which the last one takes everything.
pub(crate) fn six_hundred() -> String {
    text(&list(&mut Random(20_261_121), Style::AccessList, 600))
}

fn read(text: &str) -> Arc<Filter> {
    let filter = Filter::read("bench", text, &mut |_| Err(std::io::ErrorKind::NotFound.into()));
    Arc::new(filter.unwrap_or_else(|mistakes| panic!("{mistakes}")))
}

fn compiled(filter: &Arc<Filter>, ledger: &mut Ledger) -> Compiled {
    Compiled::new(filter.clone(), ledger.open(filter)).expect("without jumps no list is too long")
}

fn measure(ruler: &mut Ruler, name: &'static str, filter: &Compiled, packets: &[(Headers, Context)]) {
    let (headers, contexts): (Vec<Headers>, Vec<Context>) = packets.iter().copied().unzip();
    let now = Now { monotonic: 1, ..Now::default() };
    let mut decisions = [Decision::default(); BATCH];
    ruler.cycles(name, packets.len(), 201, || {
        for (headers, contexts) in headers.chunks(BATCH).zip(contexts.chunks(BATCH)) {
            filter.classify(0, Hook::Forward, &now, headers, contexts, &mut decisions);
            black_box(&mut decisions);
        }
    });
}

/// A prefix, of either family.
#[derive(Clone, Copy)]
struct Prefix {
    value: u128,
    length: u8,
    six: bool,
}

impl Prefix {
    fn text(&self) -> String {
        match (self.length, self.six) {
            (0, _) => "any".to_owned(),
            (length, false) => format!("{}/{length}", Ipv4Addr::from(self.value as u32)),
            (length, true) => format!("{}/{length}", Ipv6Addr::from(self.value)),
        }
    }

    fn address(&self, random: &mut Random) -> [u8; 16] {
        if self.six {
            let host = u128::from(random.next()) << 64 | u128::from(random.next());
            let mask = u128::MAX.checked_shr(u32::from(self.length)).unwrap_or(0);
            (self.value | host & mask).to_be_bytes()
        } else {
            let mask = u32::MAX.checked_shr(u32::from(self.length)).unwrap_or(0);
            mapped((self.value as u32 | random.next() as u32 & mask).to_be_bytes())
        }
    }
}

/// A rule as the generator makes it.
struct Line {
    action: &'static str,
    protocol: u8,
    from: Prefix,
    to: Prefix,
    from_ports: (u16, u16),
    to_ports: (u16, u16),
}

const ANY: (u16, u16) = (0, 65_535);
const SERVICES: [u16; 16] = [80, 443, 22, 25, 53, 110, 143, 993, 3306, 5432, 8080, 389, 636, 161, 179, 1433];

/// A list that ends with a rule for everything.
fn list(random: &mut Random, style: Style, length: usize) -> Vec<Line> {
    let six = style == Style::Six;
    let sites: Vec<u128> = (0..12 + length / 200).map(|_| site(random, six)).collect();
    let any = Prefix { value: 0, length: 0, six };
    let mut rules: Vec<Line> = (1..length)
        .map(|_| {
            let mut address =
                |wild: usize| if random.chance(wild) { any } else { place(random, &sites, six, style) };
            let (from, to) = match style {
                Style::Hosts => (any, address(0)),
                Style::AccessList | Style::Six => (address(12), address(4)),
                Style::Firewall => (address(35), address(25)),
                Style::Pairs => (address(2), address(2)),
            };
            let protocol = if random.chance(75) { 6 } else { 17 };
            let service = SERVICES[random.below(SERVICES.len())];
            let to_ports = match random.below(10) {
                _ if style == Style::Hosts => ANY,
                0..6 => (service, service),
                6 => (1024, 65_535),
                7 => (service, service + random.below(100) as u16),
                _ => ANY,
            };
            let from_ports = if style == Style::Firewall && random.chance(15) { (1024, 65_535) } else { ANY };
            let action = if random.chance(60) { "accept" } else { "drop" };
            Line { action, protocol, from, to, from_ports, to_ports }
        })
        .collect();
    rules.push(Line { action: "accept", protocol: 0, from: any, to: any, from_ports: ANY, to_ports: ANY });
    rules
}

/// The prefix of a site: /16 or /32.
fn site(random: &mut Random, six: bool) -> u128 {
    let value = 1 + random.below(223) as u128;
    let below = random.below(256) as u128;
    if six { 0x2001u128 << 112 | (value << 8 | below) << 96 } else { value << 24 | below << 16 }
}

/// A host, a subnet or all of a site.
fn place(random: &mut Random, sites: &[u128], six: bool, style: Style) -> Prefix {
    let site = sites[random.below(sites.len())];
    let (subnet, host) = (random.below(if six { 4096 } else { 256 }) as u128, random.below(256) as u128);
    let kind = if style == Style::Hosts { 0 } else { random.below(20) };
    let (length, value) = match (kind, six) {
        (0..10, false) => (32, site | subnet << 8 | host),
        (10..12, false) => (28, site | subnet << 8 | host & 0xf0),
        (12..19, false) => (24, site | subnet << 8),
        (_, false) => (16, site),
        (0..8, true) => (128, site | subnet << 64 | host),
        (8..18, true) => (64, site | subnet << 64),
        (_, true) => (32, site),
    };
    Prefix { value, length, six }
}

fn text(rules: &[Line]) -> String {
    let mut text = String::from("chain forward policy drop\n");
    for Line { action, protocol, from, to, from_ports, to_ports } in rules {
        let ports = |(first, last): (u16, u16)| {
            if (first, last) == ANY { String::new() } else { format!("port {first}-{last}") }
        };
        let protocol = ["", "tcp", "udp"][usize::from(*protocol != 0) + usize::from(*protocol == 17)];
        let (from, to) = (from.text(), to.text());
        // Invariant: writing to a text does not fail.
        writeln!(text, "{action} {protocol} from {from} {} to {to} {}", ports(*from_ports), ports(*to_ports))
            .expect("a text");
    }
    text
}

fn packet(
    source: [u8; 16],
    destination: [u8; 16],
    protocol: u8,
    ports: (u16, u16),
    six: bool,
) -> (Headers, Context) {
    let headers = Headers {
        source,
        destination,
        version: if six { 6 } else { 4 },
        protocol,
        source_port: ports.0,
        destination_port: ports.1,
        ttl: 64,
        length: 46,
        transport: if six { 40 } else { 20 },
        ..Headers::default()
    };
    (headers, Context { out_port: Some(1), state: FlowState::New, ..Context::default() })
}

/// Packets of anywhere to anywhere, among them few that any rule but the last knows.
fn random_packets(random: &mut Random, style: Style) -> Vec<(Headers, Context)> {
    let six = style == Style::Six;
    let all =
        Prefix { value: if six { 0x2001u128 << 112 } else { 0 }, length: if six { 16 } else { 0 }, six };
    let mut one = || {
        let (source, destination) = (all.address(random), all.address(random));
        let ports = (1024 + random.below(60_000) as u16, SERVICES[random.below(SERVICES.len())]);
        packet(source, destination, if random.chance(75) { 6 } else { 17 }, ports, six)
    };
    (0..PACKETS).map(|_| one()).collect()
}

/// Packets that each match a rule (and perhaps one before it).
fn hitting_packets(random: &mut Random, rules: &[Line]) -> Vec<(Headers, Context)> {
    let mut one = || {
        let Line { protocol, from, to, from_ports, to_ports, .. } = &rules[random.below(rules.len())];
        let port = |random: &mut Random, (first, last): (u16, u16)| {
            first + random.below(usize::from(last - first) + 1) as u16
        };
        let ports = (port(random, *from_ports), port(random, *to_ports));
        let (source, destination) = (from.address(random), to.address(random));
        packet(source, destination, if *protocol == 0 { 6 } else { *protocol }, ports, from.six)
    };
    (0..PACKETS).map(|_| one()).collect()
}
