//! The tables against a list and a loop: random operations, with readers running.
//!
//! The model of an address is the last answer it must give, and a log of the answers it had to give
//! before. A reader notes the log's length before and after its lookup: whatever it was told must
//! be one of the answers between.

use chance::Random;
use fib::{Capacity, NextHop, NextHopId, TableId, Tables, View, Walk};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What differs between the families.
trait Family {
    type Net: Copy + Eq + std::hash::Hash + std::fmt::Debug;
    type Address: Copy + Send + Sync;
    fn prefix(random: &mut Random) -> Self::Net;
    fn within(net: Self::Net, random: &mut Random) -> Self::Address;
    fn covers(net: Self::Net, address: Self::Address) -> bool;
    fn length(net: Self::Net) -> u8;
    fn insert(tables: &mut Tables, net: Self::Net, id: NextHopId) -> Option<NextHopId>;
    fn remove(tables: &mut Tables, net: Self::Net) -> Option<NextHopId>;
    fn lookup(view: &View, addresses: &[Self::Address], ids: &mut [NextHopId]);
    fn lookup_one(view: &View, address: Self::Address) -> NextHopId;
    fn all(tables: &Tables) -> HashMap<Self::Net, NextHopId>;
}

struct V4;

impl Family for V4 {
    type Net = Ipv4Net;
    type Address = u32;
    fn prefix(random: &mut Random) -> Ipv4Net {
        // Few enough different bits that prefixes nest and collide; every length; now and then a
        // short one.
        let spread = [0xc000_0000, 0xc0a8_0000, 0xc0a8_0100, 0xc0a8_01fe][random.below(4)];
        let address = spread
            ^ random.next() as u32 & [0x0000_0003, 0x0000_0f0f, 0x0103_0180, 0x0000_01ff][random.below(4)];
        let length = if random.below(1000) == 0 { 4 + random.below(8) } else { 12 + random.below(21) };
        Ipv4Net::new(address.into(), length as u8).unwrap().trunc()
    }
    fn within(net: Ipv4Net, random: &mut Random) -> u32 {
        net.network().to_bits() | random.next() as u32 & net.hostmask().to_bits()
    }
    fn covers(net: Ipv4Net, address: u32) -> bool {
        net.contains(&std::net::Ipv4Addr::from(address))
    }
    fn length(net: Ipv4Net) -> u8 {
        net.prefix_len()
    }
    fn insert(tables: &mut Tables, net: Ipv4Net, id: NextHopId) -> Option<NextHopId> {
        tables.insert4(net, id).unwrap()
    }
    fn remove(tables: &mut Tables, net: Ipv4Net) -> Option<NextHopId> {
        tables.remove4(net)
    }
    fn lookup(view: &View, addresses: &[u32], ids: &mut [NextHopId]) {
        view.lookup4_batch(addresses, ids);
    }
    fn lookup_one(view: &View, address: u32) -> NextHopId {
        view.lookup4(address)
    }
    fn all(tables: &Tables) -> HashMap<Ipv4Net, NextHopId> {
        assert_eq!(tables.iter4().count(), tables.len4());
        tables.iter4().collect()
    }
}

struct V6;

impl Family for V6 {
    type Net = Ipv6Net;
    type Address = u128;
    fn prefix(random: &mut Random) -> Ipv6Net {
        let host = (random.next() as u128) << 64 | random.next() as u128;
        // Nested at every depth: allocations, sites, networks, hosts; and all over one network (a
        // tree that grows).
        let mask: u128 = [
            0x0003_0000_0000_0000_0000_0000_0000_0000,
            0x0000_0f03_0001_0000_0000_0000_0000_0000,
            0x0000_0001_0003_0101_0000_0000_0000_0003,
            0x0000_0000_0001_0001_8000_0000_0000_00ff,
            0x0000_0000_0000_ffff_0000_0000_0000_0000,
            0x0000_0000_0001_000f_0000_0f00_000f_0000,
        ][random.below(6)];
        let address = 0x2001_0db8_0000_0000_0000_0000_0000_0000 ^ host & mask;
        let length = match random.below(2000) {
            0 => random.below(20),
            1..1000 => 20 + random.below(45),
            _ => 64 + random.below(65),
        };
        Ipv6Net::new(address.into(), length as u8).unwrap().trunc()
    }
    fn within(net: Ipv6Net, random: &mut Random) -> u128 {
        let host = (random.next() as u128) << 64 | random.next() as u128;
        net.network().to_bits() | host & net.hostmask().to_bits()
    }
    fn covers(net: Ipv6Net, address: u128) -> bool {
        net.contains(&std::net::Ipv6Addr::from(address))
    }
    fn length(net: Ipv6Net) -> u8 {
        net.prefix_len()
    }
    fn insert(tables: &mut Tables, net: Ipv6Net, id: NextHopId) -> Option<NextHopId> {
        tables.insert6(net, id).unwrap()
    }
    fn remove(tables: &mut Tables, net: Ipv6Net) -> Option<NextHopId> {
        tables.remove6(net)
    }
    fn lookup(view: &View, addresses: &[u128], ids: &mut [NextHopId]) {
        view.lookup6_batch(addresses, ids);
    }
    fn lookup_one(view: &View, address: u128) -> NextHopId {
        view.lookup6(address)
    }
    fn all(tables: &Tables) -> HashMap<Ipv6Net, NextHopId> {
        assert_eq!(tables.iter6().count(), tables.len6());
        tables.iter6().collect()
    }
}

/// What tables beside the main one need to know of a family.
trait Plain: Family {
    const IPV6: bool;
    fn net(net: Self::Net) -> IpNet;
    fn of(net: IpNet) -> Option<Self::Net>;
    fn ip(address: Self::Address) -> IpAddr;
    fn walk(table: TableId, address: Self::Address) -> Walk;
}

impl Plain for V4 {
    const IPV6: bool = false;
    fn net(net: Ipv4Net) -> IpNet {
        net.into()
    }
    fn of(net: IpNet) -> Option<Ipv4Net> {
        if let IpNet::V4(net) = net { Some(net) } else { None }
    }
    fn ip(address: u32) -> IpAddr {
        IpAddr::V4(address.into())
    }
    fn walk(table: TableId, address: u32) -> Walk {
        Walk::ipv4(table, address)
    }
}

impl Plain for V6 {
    const IPV6: bool = true;
    fn net(net: Ipv6Net) -> IpNet {
        net.into()
    }
    fn of(net: IpNet) -> Option<Ipv6Net> {
        if let IpNet::V6(net) = net { Some(net) } else { None }
    }
    fn ip(address: u128) -> IpAddr {
        IpAddr::V6(address.into())
    }
    fn walk(table: TableId, address: u128) -> Walk {
        Walk::ipv6(table, address)
    }
}

/// A family in tables beside the main one, of which none must answer for another.
struct Beside<F>(PhantomData<F>);

impl<F: Plain> Family for Beside<F> {
    type Net = (TableId, F::Net);
    type Address = (TableId, F::Address);
    fn prefix(random: &mut Random) -> Self::Net {
        let net = F::net(F::prefix(random));
        // Every length, also those that take the whole table.
        let length = if random.below(500) == 0 { random.below(12) as u8 } else { net.prefix_len() };
        (beside(random), F::of(IpNet::new(net.addr(), length).unwrap().trunc()).unwrap())
    }
    fn within((table, net): Self::Net, random: &mut Random) -> Self::Address {
        (table, F::within(net, random))
    }
    fn covers((table, net): Self::Net, (of, address): Self::Address) -> bool {
        table == of && F::covers(net, address)
    }
    fn length((_, net): Self::Net) -> u8 {
        F::length(net)
    }
    fn insert(tables: &mut Tables, (table, net): Self::Net, id: NextHopId) -> Option<NextHopId> {
        tables.insert(table, F::net(net), id).unwrap()
    }
    fn remove(tables: &mut Tables, (table, net): Self::Net) -> Option<NextHopId> {
        tables.remove(table, F::net(net))
    }
    fn lookup(view: &View, addresses: &[Self::Address], ids: &mut [NextHopId]) {
        let walks: Vec<Walk> = addresses.iter().map(|(table, address)| F::walk(*table, *address)).collect();
        view.lookup_beside(&walks, ids);
    }
    fn lookup_one(view: &View, (table, address): Self::Address) -> NextHopId {
        view.lookup(table, F::ip(address))
    }
    fn all(tables: &Tables) -> HashMap<Self::Net, NextHopId> {
        assert_eq!(tables.iter().count(), tables.len()[usize::from(F::IPV6)]);
        tables.iter().map(|(table, net, id)| ((table, F::of(net).unwrap()), id)).collect()
    }
}

/// One of three tables, the last that there can be among them.
fn beside(random: &mut Random) -> TableId {
    TableId([1, 2, TableId::COUNT as u16 - 1][random.below(3)])
}

/// An address that readers look up all the time, and what it was told to answer.
struct Watched<A> {
    address: A,
    /// All answers so far, the last one current. The writer appends *before* it changes the table.
    answers: Mutex<Vec<NextHopId>>,
    /// Answers that have been in force: up to here the table has been changed.
    settled: AtomicU64,
}

fn against_the_naive_table<F: Family>(capacity: usize, operations: usize, prefixes: usize, seed: u64) {
    let capacity = Capacity { ipv4: capacity, ipv6: capacity, next_hops: 1000 };
    let mut tables = Tables::new(capacity, None).unwrap();
    let ids: Vec<NextHopId> = (0..100).map(|_| tables.add_next_hop(&NextHop::Blackhole).unwrap()).collect();
    let mut random = Random(seed);
    let pool: Vec<F::Net> = (0..prefixes).map(|_| F::prefix(&mut random)).collect();
    let watched: Vec<Watched<F::Address>> = (0..64)
        .map(|_| Watched {
            address: F::within(pool[random.below(prefixes)], &mut random),
            answers: Mutex::new(vec![NextHopId::NONE]),
            settled: AtomicU64::new(0),
        })
        .collect();
    let covering: HashMap<F::Net, Vec<usize>> = pool
        .iter()
        .map(|&net| (net, (0..watched.len()).filter(|&i| F::covers(net, watched[i].address)).collect()))
        .collect();
    let done = AtomicBool::new(false);
    let looked_up = AtomicU64::new(0);

    std::thread::scope(|scope| {
        for reader_seed in 1..3 {
            let (view, watched, done, looked_up) = (tables.view(), &watched, &done, &looked_up);
            scope.spawn(move || {
                let reader = view.reader();
                let mut random = Random(seed + reader_seed);
                while !done.load(Ordering::Relaxed) {
                    let these: Vec<&Watched<_>> =
                        (0..64).map(|_| &watched[random.below(watched.len())]).collect();
                    let addresses: Vec<F::Address> = these.iter().map(|watched| watched.address).collect();
                    let mut answers = vec![NextHopId::NONE; these.len()];
                    let since: Vec<u64> = these.iter().map(|w| w.settled.load(Ordering::SeqCst)).collect();
                    F::lookup(&view, &addresses, &mut answers);
                    for ((watched, since), answer) in these.iter().zip(since).zip(answers) {
                        let told = watched.answers.lock().unwrap();
                        let valid = &told[since as usize..];
                        assert!(valid.contains(&answer), "{answer:?} is none of {valid:?}");
                    }
                    looked_up.fetch_add(64, Ordering::Relaxed);
                    reader.quiescent();
                    std::thread::sleep(std::time::Duration::from_micros(20));
                }
            });
        }

        let mut model: HashMap<F::Net, NextHopId> = HashMap::new();
        let answer = |model: &HashMap<F::Net, NextHopId>, address: F::Address| {
            let best = model
                .iter()
                .filter(|&(&net, _)| F::covers(net, address))
                .max_by_key(|&(&net, _)| F::length(net));
            best.map_or(NextHopId::NONE, |(_, &id)| id)
        };
        // The naive answer for the watched addresses, kept as the list of their covering routes.
        let mut routes_of: Vec<Vec<(u8, NextHopId)>> = vec![Vec::new(); watched.len()];
        let view = tables.view();
        let removals = pool.iter().map(|&net| (net, None)).collect::<Vec<_>>();
        let changes = (0..operations).map(|operation| {
            // Phases of growth and of decay, so that trees both split and collapse; at the end, all
            // goes.
            let growing = (operation / (operations / 8)).is_multiple_of(2);
            let net = pool[random.below(prefixes)];
            let new = (random.below(10) < if growing { 7 } else { 3 }).then(|| ids[random.below(ids.len())]);
            (net, new)
        });
        for (operation, (net, new)) in changes.chain(removals).enumerate() {
            let touched = &covering[&net];
            for &i in touched {
                routes_of[i].retain(|&(length, _)| length != F::length(net));
                routes_of[i].extend(new.map(|id| (F::length(net), id)));
                let answer = routes_of[i].iter().max().map_or(NextHopId::NONE, |&(_, id)| id);
                watched[i].answers.lock().unwrap().push(answer);
            }
            let (old, expected) = match new {
                Some(id) => (F::insert(&mut tables, net, id), model.insert(net, id)),
                None => (F::remove(&mut tables, net), model.remove(&net)),
            };
            assert_eq!(old, expected, "{net:?}");
            for &i in touched {
                let latest = *watched[i].answers.lock().unwrap().last().unwrap();
                assert_eq!(
                    F::lookup_one(&view, watched[i].address),
                    latest,
                    "operation {operation}, {net:?}"
                );
                watched[i].settled.fetch_add(1, Ordering::SeqCst);
            }
            if operation % (operations / 20) == 0 {
                for _ in 0..20 {
                    let address = F::within(pool[operation % prefixes], &mut Random(operation as u64));
                    assert_eq!(F::lookup_one(&view, address), answer(&model, address));
                }
                assert_eq!(F::all(&tables), model);
            }
        }
        assert!(F::all(&tables).is_empty());
        done.store(true, Ordering::Relaxed);
    });
    assert!(looked_up.into_inner() > 0, "readers ran");
}

#[test]
fn ipv4_answers_as_a_list_and_a_loop_would_while_readers_run() {
    against_the_naive_table::<V4>(100_000, 1_000_000, 3000, 1);
}

#[test]
fn so_does_a_table_for_few_routes() {
    against_the_naive_table::<V4>(10_000, 1_000_000, 3000, 3);
}

#[test]
fn tables_beside_the_main_one_answer_so_each_for_itself() {
    against_the_naive_table::<Beside<V4>>(100_000, 500_000, 6000, 4);
    against_the_naive_table::<Beside<V6>>(100_000, 500_000, 12_000, 5);
}

#[test]
fn what_a_table_beside_does_not_say_the_main_one_does() {
    let mut tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 10 }, None).unwrap();
    let [main, own, throw] = [NextHop::Local, NextHop::Blackhole, NextHop::None]
        .map(|next_hop| tables.add_next_hop(&next_hop).unwrap());
    let table = TableId(9);
    for (of, net, id) in [
        (TableId::MAIN, "0.0.0.0/0", main),
        (table, "10.0.0.0/8", own),
        (table, "10.1.0.0/16", throw),
        (TableId::MAIN, "::/0", main),
        (table, "2001:db8::/32", own),
    ] {
        tables.insert(of, net.parse().unwrap(), id).unwrap();
    }
    let view = tables.view();
    let says = |address: &str| view.lookup(table, address.parse().unwrap());
    assert_eq!(["10.2.0.1", "10.1.0.1", "11.0.0.1"].map(says), [own, main, main]);
    assert_eq!(["2001:db8::1", "2001:db9::1"].map(says), [own, main]);
    assert!(tables.insert(TableId(TableId::COUNT as u16), "10.0.0.0/8".parse().unwrap(), own).is_err());
}

#[test]
fn a_thousand_tables_of_a_hundred_routes_take_little() {
    let mut tables = Tables::new(Capacity::default(), None).unwrap();
    let id = tables.add_next_hop(&NextHop::Blackhole).unwrap();
    let before = tables.memory();
    let mut random = Random(6);
    for table in 1..=1000 {
        for _ in 0..100 {
            let net = Ipv4Net::new((random.next() as u32).into(), 16 + random.below(17) as u8).unwrap();
            tables.insert(TableId(table), net.trunc().into(), id).unwrap();
        }
    }
    let after = tables.memory();
    let took = after.worker_bytes + after.writer_bytes - before.worker_bytes - before.writer_bytes;
    assert!(took < 20 << 20, "{took} bytes");
}

#[test]
fn ipv6_answers_as_a_list_and_a_loop_would_while_readers_run() {
    against_the_naive_table::<V6>(100_000, 1_000_000, 12_000, 2);
}
