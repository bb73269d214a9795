//! Several workers on the same few flows: nothing twice, nothing lost.

use chance::Random;
use flow::{Direction, End, Inserted, Key, Opening, Refused, Settings, Table, Tracked, Tuple, Worker};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use wire::headers::mapped;
use wire::{Headers, protocol};

const FLOWS: u16 = 48;

fn tuple(number: u16) -> Tuple {
    Tuple {
        source: mapped([10, 0, 0, 1]),
        destination: mapped([10, 0, 0, 2]),
        source_port: number,
        destination_port: 53,
        protocol: protocol::UDP,
        table: 0,
    }
}

/// What a translation makes of it: every third over IPv4, every fourth into IPv6.
fn reply(number: u16) -> Option<Tuple> {
    let back = tuple(number).reversed();
    match number % 12 {
        0 | 3 | 6 | 9 => Some(Tuple { destination: mapped([192, 0, 2, 9]), ..back }),
        4 | 8 => Some(Tuple { source: [9; 16], destination: [8; 16], ..back }),
        _ => None,
    }
}

fn headers(tuple: &Tuple) -> Headers {
    Headers {
        source: tuple.source,
        destination: tuple.destination,
        version: if tuple.is_ipv4() { 4 } else { 6 },
        protocol: tuple.protocol,
        source_port: tuple.source_port,
        destination_port: tuple.destination_port,
        length: 100,
        ..Headers::default()
    }
}

/// A number of 31 bits.
fn random(state: &mut Random) -> u64 {
    state.next() >> 33
}

/// Sends packets one way, always the same: each direction has one worker, as with a NIC's queues.
fn carry(worker: &mut Worker, way: Direction, seed: u64, rounds: u64, clock: &AtomicU64) -> [u64; 3] {
    let (mut state, mut sent, mut accounted, mut ended) = (Random(seed), 0, 0, 0);
    for _ in 0..rounds {
        let now = clock.fetch_add(1_000_000, SeqCst);
        let mut keys = [Key::of(&tuple(0)); 16];
        let mut numbers = [0; 16];
        let face = |number: u16| match way {
            Direction::Original => tuple(number),
            Direction::Reply => reply(number).unwrap_or(tuple(number).reversed()),
        };
        for (key, number) in keys.iter_mut().zip(&mut numbers) {
            *number = (random(&mut state) % u64::from(FLOWS)) as u16;
            *key = Key::of(&face(*number));
        }
        let mut hits = [None; 16];
        worker.lookup(&keys, &mut hits);
        for (hit, number) in hits.iter().zip(numbers) {
            let shown = headers(&face(number));
            let hit = match hit {
                Some(hit) => *hit,
                None => {
                    // Flows that are not translated, either end may begin; the translated ones the
                    // first.
                    let reply = reply(number);
                    if way == Direction::Reply && reply.is_some() {
                        continue;
                    }
                    let original = face(number);
                    let opening =
                        Opening { headers: &shown, ip: &[0; 40], original, reply, ports: [0, 1], mark: 0 };
                    match worker.insert(&opening, now) {
                        Ok(Inserted::New(_)) => {
                            sent += 1;
                            continue;
                        }
                        Ok(Inserted::Existing(hit)) => hit,
                        // The same tuple's flow that another is just about to give up.
                        Err(Refused::ReplyInUse(_)) => continue,
                        Err(error) => panic!("{error}"),
                    }
                }
            };
            assert!(matches!(worker.track(&hit, &shown, &[0; 40], now, || true), Tracked::Is(_)));
            sent += 1;
            if random(&mut state).is_multiple_of(64) {
                worker.end(&hit, End::Flushed);
            }
        }
        worker.maintain(now, &mut |account| {
            accounted += account.packets[0] + account.packets[1];
            ended += 1;
        });
    }
    [sent, accounted, ended]
}

#[test]
fn nothing_twice_and_nothing_lost() {
    for seed in 0..4 {
        let table = Table::new(&Settings { memory: 4 << 20, ..Settings::default() }).unwrap();
        let clock = AtomicU64::new(1_000_000_000);
        let threads = std::thread::scope(|scope| {
            let threads: Vec<_> = [Direction::Original, Direction::Reply]
                .into_iter()
                .map(|way| {
                    let (mut worker, clock) = (table.worker().unwrap(), &clock);
                    scope.spawn(move || carry(&mut worker, way, seed * 2 + way as u64, 20_000, clock))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        // The two have left what they had not accounted for yet.
        let mut worker = table.worker().unwrap();
        let now = clock.load(SeqCst);
        let mut seen = HashSet::new();
        let mut hits = Vec::new();
        worker.flows(0, u32::MAX, now, &mut |hit, account| {
            assert!(seen.insert(account.original) && seen.insert(account.original.reversed()));
            assert!(!account.is_translated() || seen.insert(account.reply));
            hits.push(*hit);
        });
        assert_eq!(table.counters().size, hits.len() as u64);
        hits.iter().for_each(|hit| assert!(worker.end(hit, End::Flushed)));
        let [mut accounted, mut ended] = [0; 2];
        for _ in 0..10 {
            worker.maintain(now, &mut |account| {
                accounted += account.packets[0] + account.packets[1];
                ended += 1;
            });
        }
        let total = |index: usize| threads.iter().map(|counts| counts[index]).sum::<u64>();
        let counters = table.counters();
        assert_eq!(total(2) + ended, counters.new, "each flow has one account");
        assert_eq!(total(1) + accounted, total(0), "each packet is in one account");
        assert_eq!((counters.size, counters.flushed), (0, counters.new));
        assert!(counters.new > 1000, "{counters:?}");
        nothing_leaks(&mut worker, now);
    }
}

/// Both ends send the first packet at the same moment, again and again.
#[test]
fn two_workers_who_insert_the_same_flow_at_once_make_one() {
    const ROUNDS: u64 = 20_000;
    let table = Table::new(&Settings { memory: 8 << 20, ..Settings::default() }).unwrap();
    let (ready, made) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for way in 0..2 {
            let (mut worker, ready, made) = (table.worker().unwrap(), &ready, &made);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let one =
                        Tuple { source: mapped((0x0a00_0000 + round as u32).to_be_bytes()), ..tuple(7) };
                    let original = if way == 0 { one } else { one.reversed() };
                    let shown = headers(&original);
                    ready.fetch_add(1, SeqCst);
                    let mut spins = 0u32;
                    while ready.load(SeqCst) < 2 * (round + 1) {
                        spins += 1;
                        if spins > 1000 {
                            std::thread::yield_now();
                        }
                    }
                    let ports = [0, 1];
                    let opening =
                        Opening { headers: &shown, ip: &[0; 40], original, reply: None, ports, mark: 0 };
                    made.fetch_add(
                        u64::from(matches!(worker.insert(&opening, 1), Ok(Inserted::New(_)))),
                        SeqCst,
                    );
                }
                worker.offline();
            });
        }
    });
    assert_eq!((made.load(SeqCst), table.counters().size), (ROUNDS, ROUNDS));
}

/// All entries can be used again: as many flows as there is room for, still.
fn nothing_leaks(worker: &mut Worker, now: u64) {
    let capacity = worker.table().capacity();
    let mut made = 0;
    for number in 0..capacity as u32 * 2 {
        let source = mapped((0x0b00_0000 + number).to_be_bytes());
        let original = Tuple { source, ..tuple(1) };
        let shown = headers(&original);
        let opening =
            Opening { headers: &shown, ip: &[0; 40], original, reply: None, ports: [0, 1], mark: 0 };
        // No call of `maintain`: nothing is evicted but for want of a slot, and that evicts one for
        // one.
        made += usize::from(matches!(worker.insert(&opening, now), Ok(Inserted::New(_))));
    }
    assert_eq!(made, capacity);
}

#[test]
fn a_worker_that_sleeps_or_leaves_holds_nothing_up() {
    let table = Table::new(&Settings { memory: 4 << 20, ..Settings::default() }).unwrap();
    let mut worker = table.worker().unwrap();
    let (sleeper, mut leaver) = (table.worker().unwrap(), table.worker().unwrap());
    let begin = |worker: &mut Worker, number: u16| {
        let (original, shown) = (tuple(number), headers(&tuple(number)));
        let opening =
            Opening { headers: &shown, ip: &[0; 40], original, reply: None, ports: [0, 1], mark: 0 };
        match worker.insert(&opening, 1) {
            Ok(Inserted::New(hit)) => hit,
            other => panic!("{other:?}"),
        }
    };
    let (one, two) = (begin(&mut worker, 1), begin(&mut leaver, 2));
    let accounts = |worker: &mut Worker| {
        let mut accounts = 0;
        (0..4).for_each(|_| _ = worker.maintain(1, &mut |_| accounts += 1));
        accounts
    };
    assert!(worker.end(&one, End::Flushed) && leaver.end(&two, End::Flushed));
    assert!(worker.find(&Key::of(&tuple(1))).is_none(), "an ended flow is invisible at once");
    assert_eq!(accounts(&mut worker), 0, "two others may still see it");
    drop(leaver);
    assert_eq!(accounts(&mut worker), 0, "one other may still see it");
    sleeper.offline();
    assert_eq!(accounts(&mut worker), 2, "its own, and that of the one that left");
    sleeper.online();
    let three = begin(&mut worker, 3);
    worker.end(&three, End::Flushed);
    assert_eq!(accounts(&mut worker), 0);
}
