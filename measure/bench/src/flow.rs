//! The flow table: TCP connections between random IPv4 addresses (and IPv6 where a name says so),
//! all of them live, in batches of 64 on one core. Lookups go from a packet's key to its flow; the
//! table is four fifths full, but for the flood, when it is full.

use crate::ruler::{Ruler, TICK, ticks};
use dashmap::DashMap;
use flow::{
    BATCH, Direction, End, Hit, Inserted, Key, Opening, Settings, State, Table, Tracked, Tuple, Worker,
};
use lab::prefixes::Random;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use wire::headers::mapped;
use wire::{Headers, protocol, tcp};

/// Small enough for the second-level cache.
const PART: usize = 2048;
const PARTS: usize = 401;
const ONE: usize = 1_000_000;
const TEN: usize = 10_000_000;
/// Bytes that the tables are given for a flow that is there, so that there is room for a quarter
/// more.
const EACH: usize = 149;

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    if !ruler.wants_family("flow/") {
        return;
    }
    let mut random = Random(20261121);
    let one = [
        "flow/bytes",
        "flow/lookup/1m",
        "flow/lookup-v6/1m",
        "flow/packet/1m",
        "flow/churn",
        "flow/flood",
        "flow/dashmap/1m",
    ];
    if one.iter().any(|name| ruler.wants(name)) {
        of_one_million(ruler, &mut random);
    }
    if ruler.wants("flow/lookup/10m") {
        let tuples = tuples(TEN, &mut random);
        let mut filled = Filled::new(&tuples);
        let order = shuffled(&tuples, &mut random);
        ruler.record("flow/lookup/10m", TICK, filled.lookups(&order));
    }
}

fn of_one_million(ruler: &mut Ruler, random: &mut Random) {
    let tuples4 = tuples(ONE, random);
    let order = shuffled(&tuples4, random);
    let mut filled = Filled::new(&tuples4);
    if ruler.wants("flow/bytes") {
        let bytes = filled.table.bytes() as f64 / filled.table.capacity() as f64;
        ruler.record("flow/bytes", "bytes", vec![bytes]);
    }
    if ruler.wants("flow/lookup/1m") {
        ruler.record("flow/lookup/1m", TICK, filled.lookups(&order));
    }
    if ruler.wants("flow/packet/1m") {
        ruler.record("flow/packet/1m", TICK, filled.packets(&order));
    }
    drop(filled);
    if ruler.wants("flow/churn") {
        ruler.record("flow/churn", "flows/s", churn(&tuples4, random));
    }
    if ruler.wants("flow/flood") {
        ruler.record("flow/flood", TICK, flood(&tuples4, random));
    }
    if ruler.wants("flow/dashmap/1m") {
        ruler.record("flow/dashmap/1m", TICK, dashmap(&tuples4, &order));
    }
    if ruler.wants("flow/lookup-v6/1m") {
        let tuples6: Vec<Tuple> = tuples4
            .iter()
            .map(|tuple| {
                let wide = |mut address: [u8; 16]| {
                    address.copy_within(12..16, 4);
                    address[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
                    address
                };
                Tuple { source: wide(tuple.source), destination: wide(tuple.destination), ..*tuple }
            })
            .collect();
        let order = shuffled(&tuples6, random);
        let mut filled = Filled::new(&tuples6);
        ruler.record("flow/lookup-v6/1m", TICK, filled.lookups(&order));
    }
}

/// So many different connections.
fn tuples(count: usize, random: &mut Random) -> Vec<Tuple> {
    (0..count as u64)
        .map(|number| {
            // An odd factor permutes the numbers, so that each is there once.
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let client = (0x0a00_0000 | (mixed >> 40) as u32 & 0xff_ffff).to_be_bytes();
            let server = (random.below(1 << 31) as u32 | 0x8000_0000).to_be_bytes();
            Tuple {
                source: mapped(client),
                destination: mapped(server),
                source_port: 1024 + (mixed >> 20) as u16 % 60_000,
                destination_port: 443,
                protocol: protocol::TCP,
                table: 0,
            }
        })
        .collect()
}

/// Each connection once, in random order, half of them as their answers come.
fn shuffled(tuples: &[Tuple], random: &mut Random) -> Vec<Tuple> {
    let mut order: Vec<Tuple> =
        tuples.iter().map(|tuple| if random.chance(50) { *tuple } else { tuple.reversed() }).collect();
    random.shuffle(&mut order);
    order
}

fn headers(tuple: &Tuple, flags: u8) -> Headers {
    Headers {
        source: tuple.source,
        destination: tuple.destination,
        version: if tuple.is_ipv4() { 4 } else { 6 },
        protocol: tuple.protocol,
        source_port: tuple.source_port,
        destination_port: tuple.destination_port,
        tcp_flags: flags,
        length: 40,
        transport: 20,
        ..Headers::default()
    }
}

/// The bytes of a TCP segment of which only the numbers count.
fn segment(sequence: u32, acknowledgement: u32, flags: u8) -> [u8; 46] {
    let mut ip = [0; 46];
    ip[24..28].copy_from_slice(&sequence.to_be_bytes());
    ip[28..32].copy_from_slice(&acknowledgement.to_be_bytes());
    ip[32..36].copy_from_slice(&[0x50, flags, 0xff, 0xff]);
    ip
}

/// A table full of open connections.
struct Filled {
    table: Arc<Table>,
    worker: Worker,
}

impl Filled {
    fn new(tuples: &[Tuple]) -> Filled {
        let settings = Settings { memory: tuples.len().max(ONE) * EACH, ..Settings::default() };
        // Invariant of all `expect`s here: a bench that cannot make its tables has nothing to
        // measure.
        let table = Table::new(&settings).expect("memory");
        let mut worker = table.worker().expect("the first worker");
        let opening = segment(0, 0, tcp::flag::SYN);
        let answer = segment(0, 1, tcp::flag::SYN | tcp::flag::ACK);
        let open = segment(1, 1, tcp::flag::ACK);
        let mut missing = 0;
        for tuple in tuples {
            let Some(hit) = insert(&mut worker, tuple, &opening) else {
                missing += 1;
                continue;
            };
            let mut back = hit;
            back.direction = Direction::Reply;
            worker.track(&back, &headers(&tuple.reversed(), 0), &answer, 1, || true);
            let tracked = worker.track(&hit, &headers(tuple, 0), &open, 1, || true);
            assert_eq!(tracked, Tracked::Is(State::Established));
        }
        assert!(missing * 1000 < tuples.len(), "{missing} of {} found no room", tuples.len());
        Filled { table, worker }
    }

    /// Cycles a lookup.
    fn lookups(&mut self, order: &[Tuple]) -> Vec<f64> {
        let worker = &mut self.worker;
        parts(order, |_, keys| {
            let mut hits = [None; BATCH];
            for batch in keys.as_chunks::<BATCH>().0 {
                worker.lookup(batch, &mut hits);
                black_box(&mut hits);
            }
        })
    }

    /// Cycles a packet: lookup, TCP state and windows, counting, and what there is to do between
    /// batches.
    fn packets(&mut self, order: &[Tuple]) -> Vec<f64> {
        let worker = &mut self.worker;
        let ip = segment(1, 1, tcp::flag::ACK);
        let mut now = 1;
        parts(order, |tuples, keys| {
            let mut hits = [None; BATCH];
            for (batch, keys) in tuples.as_chunks::<BATCH>().0.iter().zip(keys.as_chunks::<BATCH>().0) {
                worker.lookup(keys, &mut hits);
                worker.prepare(&hits);
                for (tuple, hit) in batch.iter().zip(&hits) {
                    let Some(hit) = hit else { continue };
                    black_box(worker.track(hit, &headers(tuple, tcp::flag::ACK), &ip, now, || true));
                }
                now += 5_000;
                worker.maintain(now, &mut |account| _ = black_box(account));
            }
        })
    }
}

fn insert(worker: &mut Worker, tuple: &Tuple, ip: &[u8]) -> Option<Hit> {
    let headers = headers(tuple, ip[33]);
    let opening = Opening { headers: &headers, ip, original: *tuple, reply: None, ports: [0, 1], mark: 0 };
    match worker.insert(&opening, 1) {
        Ok(Inserted::New(hit)) => Some(hit),
        _ => None,
    }
}

/// Cycles an item, in parts of one pass. Their tuples and keys are in the cache, as those of
/// packets are that just came.
fn parts(order: &[Tuple], mut work: impl FnMut(&[Tuple], &[Key])) -> Vec<f64> {
    let (mut tuples, mut keys) = (Vec::new(), Vec::new());
    order
        .chunks_exact(PART)
        .take(PARTS)
        .map(|part| {
            tuples.clear();
            tuples.extend_from_slice(part);
            keys.clear();
            keys.extend(part.iter().map(Key::of));
            ticks(|| work(&tuples, &keys)) as f64 / part.len() as f64
        })
        .collect()
}

/// Flows a second that begin while as many end, in a table of a million: each is looked up and not
/// found, inserted, and later found, ended, and accounted for.
fn churn(tuples: &[Tuple], random: &mut Random) -> Vec<f64> {
    let mut filled = Filled::new(&tuples[..ONE / 10 * 9]);
    let opening = segment(0, 0, tcp::flag::SYN);
    // Newcomers, which begin while those before them end.
    let mut newcomers = self::tuples(ONE, random);
    newcomers.iter_mut().for_each(|tuple| tuple.protocol = protocol::UDP);
    let worker = &mut filled.worker;
    let (mut accounts, mut now) = (0usize, 1);
    let mut hits = [None; BATCH];
    let parts = tuples.chunks_exact(PART).zip(newcomers.chunks_exact(PART));
    let samples = parts.take(PARTS).map(|(old, new)| {
        let keys = |tuples: &[Tuple]| tuples.iter().map(Key::of).collect::<Vec<Key>>();
        let (old_keys, new_keys) = (keys(old), keys(new));
        let start = Instant::now();
        for batch in 0..PART / BATCH {
            let batch = batch * BATCH..(batch + 1) * BATCH;
            worker.lookup(&new_keys[batch.clone()], &mut hits);
            for tuple in &new[batch.clone()] {
                black_box(insert(worker, tuple, &opening));
            }
            worker.lookup(&old_keys[batch], &mut hits);
            for hit in hits.iter().flatten() {
                worker.end(hit, End::Flushed);
            }
            now += 12_800;
            worker.maintain(now, &mut |account| {
                black_box(account);
                accounts += 1;
            });
        }
        new.len() as f64 / start.elapsed().as_secs_f64()
    });
    let samples = samples.collect();
    assert!(accounts > (PARTS - 1) * PART, "{accounts} flows ended");
    samples
}

/// Cycles for each SYN of a flood, each of another source, when the table is full: room for it is
/// made, and it begins.
fn flood(tuples: &[Tuple], random: &mut Random) -> Vec<f64> {
    let mut filled = Filled::new(&tuples[..ONE / 2]);
    let opening = segment(0, 0, tcp::flag::SYN);
    let mut syns = self::tuples(PART * (PARTS + 512), random);
    syns.iter_mut().for_each(|tuple| tuple.source[15] ^= 0x80);
    let worker = &mut filled.worker;
    let (mut hits, mut now) = ([None; BATCH], 1);
    let mut flood = |tuples: &[Tuple], keys: &[Key]| {
        for (tuples, keys) in tuples.as_chunks::<BATCH>().0.iter().zip(keys.as_chunks::<BATCH>().0) {
            worker.lookup(keys, &mut hits);
            for tuple in tuples {
                black_box(insert(worker, tuple, &opening));
            }
            now += 12_800;
            worker.maintain(now, &mut |account| _ = black_box(account));
        }
    };
    let (fill, rest) = syns.split_at(512 * PART);
    flood(fill, &fill.iter().map(Key::of).collect::<Vec<Key>>());
    let samples = parts(rest, flood);
    let counters = filled.table.counters();
    assert!(counters.passive > 400_000 && counters.overflow * 1000 < counters.new, "{counters:?}");
    samples
}

/// A concurrent map of the same flows, looked up with the same tuples in one order of their ends.
fn dashmap(tuples: &[Tuple], order: &[Tuple]) -> Vec<f64> {
    let ordered = |tuple: &Tuple| (*tuple).min(tuple.reversed());
    let map: DashMap<Tuple, [u64; 8]> = tuples.iter().map(|tuple| (ordered(tuple), [1; 8])).collect();
    parts(order, |tuples, _| {
        for tuple in tuples {
            black_box(map.get(&ordered(tuple)).map(|flow| flow[0]));
        }
    })
}
