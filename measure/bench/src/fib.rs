//! The FIB: 1,000,000 IPv4 and 240,000 IPv6 routes of the Internet's length mix with 16,000 next
//! hops, lookups in batches of 64 on one core.

use crate::ruler::{Ruler, TICK, ticks};
use fib::{
    Adjacency, AdjacencyId, Capacity, DriverMemory, FibError, NextHop, NextHopId, Path, Region, Sizes, Tables,
};
use ipnet::{Ipv4Net, Ipv6Net};
use lab::prefixes::{Random, inside4, inside6, ipv4, ipv6};
use std::hint::black_box;
use std::ptr::NonNull;
use std::time::Instant;

const ROUTES4: usize = 1_000_000;
const ROUTES6: usize = 240_000;
const NEXT_HOPS: usize = 16_000;
const BATCH: usize = 64;
const WARM: usize = 65_536;
const COLD: usize = 8_000_000;
/// Short enough that most samples see no other process on the core.
const COLD_SAMPLES: usize = 125;
const UPDATES: usize = 1_000_000;
const UPDATE_SAMPLES: usize = 100;

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    if !ruler.wants_family("fib/") {
        return;
    }
    let mut random = Random(20261121);
    let routes4 = ipv4(ROUTES4, &mut random);
    let routes6 = ipv6(ROUTES6, &mut random);
    // Invariant of all `expect`s here: a bench that cannot make its tables has nothing to measure.
    let mut table = Loaded::new(&routes4, &routes6, None).expect("tables");
    lookups(ruler, &table.tables, &routes4, &routes6, &mut random);
    let both = ["fib/memory-both", "fib/update-both", "fib/v4/default-route-both"];
    let megabytes = |tables: &Tables| {
        let memory = tables.memory();
        (memory.worker_bytes + memory.driver_bytes + memory.writer_bytes) as f64 / 1e6
    };
    if ruler.wants("fib/memory") {
        ruler.record("fib/memory", "MB", vec![megabytes(&table.tables)]);
    }
    writes(ruler, &mut table, &routes4);
    if ruler.wants("fib/update") {
        ruler.record("fib/update", "updates/s", updates(&mut table, &routes4, &routes6, &mut random));
    }
    drop(table);
    if both.iter().any(|name| ruler.wants(name)) {
        let mut table = Loaded::new(&routes4, &routes6, Some(driver_memory())).expect("tables");
        if ruler.wants("fib/memory-both") {
            ruler.record("fib/memory-both", "MB", vec![megabytes(&table.tables)]);
        }
        if ruler.wants("fib/v4/default-route-both") {
            ruler.record("fib/v4/default-route-both", "ms", default_routes(&mut table));
        }
        if ruler.wants("fib/update-both") {
            ruler.record(
                "fib/update-both",
                "updates/s",
                updates(&mut table, &routes4, &routes6, &mut random),
            );
        }
    }
}

/// Full tables, and what they took to fill.
struct Loaded {
    tables: Tables,
    ids: Vec<NextHopId>,
    adjacencies: Vec<AdjacencyId>,
    seconds: f64,
}

impl Loaded {
    fn new(
        routes4: &[Ipv4Net],
        routes6: &[Ipv6Net],
        driver: Option<DriverMemory>,
    ) -> Result<Loaded, FibError> {
        let start = Instant::now();
        let mut tables = Tables::new(Capacity::default(), driver)?;
        let adjacency =
            Adjacency { interface: fib::InterfaceId(0), mtu: 1500, mac: Some([2, 0, 0, 0, 0, 1]) };
        let adjacencies = (0..NEXT_HOPS)
            .map(|_| tables.add_adjacency(&adjacency))
            .collect::<Result<Vec<AdjacencyId>, _>>()?;
        let hop = |&adjacency| NextHop::Forward(vec![Path { adjacency, weight: 1 }]);
        let ids = adjacencies
            .iter()
            .map(|adjacency| tables.add_next_hop(&hop(adjacency)))
            .collect::<Result<Vec<NextHopId>, _>>()?;
        for (i, &net) in routes4.iter().enumerate() {
            tables.insert4(net, ids[i % NEXT_HOPS])?;
        }
        for (i, &net) in routes6.iter().enumerate() {
            tables.insert6(net, ids[i % NEXT_HOPS])?;
        }
        tables.reclaim();
        Ok(Loaded { tables, ids, adjacencies, seconds: start.elapsed().as_secs_f64() })
    }
}

fn lookups(
    ruler: &mut Ruler,
    tables: &Tables,
    routes4: &[Ipv4Net],
    routes6: &[Ipv6Net],
    random: &mut Random,
) {
    let view = tables.view();
    let lookup4 = |addresses: &[u32]| {
        let mut ids = [NextHopId::NONE; BATCH];
        for batch in addresses.as_chunks::<BATCH>().0 {
            view.lookup4_batch(batch, &mut ids);
            black_box(&mut ids);
        }
    };
    let lookup6 = |addresses: &[u128]| {
        let mut ids = [NextHopId::NONE; BATCH];
        for batch in addresses.as_chunks::<BATCH>().0 {
            view.lookup6_batch(batch, &mut ids);
            black_box(&mut ids);
        }
    };
    let mut inside4 = || inside4(routes4[random.below(routes4.len())], random);
    if ruler.wants("fib/v4/lookup") {
        let addresses: Vec<u32> = (0..WARM).map(|_| inside4()).collect();
        ruler.cycles("fib/v4/lookup", WARM, 101, || lookup4(&addresses));
    }
    if ruler.wants("fib/v4/lookup-cold") {
        let addresses = different(&mut inside4);
        ruler.record("fib/v4/lookup-cold", TICK, one_pass(&addresses, lookup4));
    }
    let mut random = Random(20261122);
    let mut inside6 = || inside6(routes6[random.below(routes6.len())], &mut random);
    if ruler.wants("fib/v6/lookup") {
        let addresses: Vec<u128> = (0..WARM).map(|_| inside6()).collect();
        ruler.cycles("fib/v6/lookup", WARM, 101, || lookup6(&addresses));
    }
    if ruler.wants("fib/v6/lookup-cold") {
        let addresses = different(&mut inside6);
        ruler.record("fib/v6/lookup-cold", TICK, one_pass(&addresses, lookup6));
    }
}

/// 8 M addresses, each once, in random order.
fn different<A: Ord + Copy>(make: &mut impl FnMut() -> A) -> Vec<A> {
    let mut addresses = Vec::new();
    while addresses.len() < COLD {
        addresses.extend((addresses.len()..COLD + COLD / 50).map(|_| make()));
        addresses.sort_unstable();
        addresses.dedup();
    }
    Random(1).shuffle(&mut addresses);
    addresses.truncate(COLD);
    addresses
}

/// Cycles a lookup, in equal parts of the one pass.
fn one_pass<A>(addresses: &[A], lookup: impl Fn(&[A])) -> Vec<f64> {
    let part = COLD / COLD_SAMPLES;
    addresses.chunks(part).map(|part| ticks(|| lookup(part)) as f64 / part.len() as f64).collect()
}

/// Updates a second as BGP makes them, in equal parts of one sequence: a route that is there
/// changes its next hop or vanishes, one that is not comes back. Both families, in the proportion
/// of their tables.
fn updates(table: &mut Loaded, routes4: &[Ipv4Net], routes6: &[Ipv6Net], random: &mut Random) -> Vec<f64> {
    let routes = routes4.len() + routes6.len();
    let mut there = vec![true; routes];
    let changes: Vec<(usize, Option<NextHopId>)> = (0..UPDATES)
        .map(|_| {
            let route = random.below(routes);
            there[route] = !there[route] || random.chance(50);
            (route, there[route].then(|| table.ids[random.below(table.ids.len())]))
        })
        .collect();
    let tables = &mut table.tables;
    let mut update = |route: usize, id: Option<NextHopId>| match (routes4.get(route), id) {
        (Some(&net), Some(id)) => tables.insert4(net, id).expect("there was room before"),
        (Some(&net), None) => tables.remove4(net),
        (None, Some(id)) => {
            tables.insert6(routes6[route - routes4.len()], id).expect("there was room before")
        }
        (None, None) => tables.remove6(routes6[route - routes4.len()]),
    };
    changes
        .chunks(UPDATES / UPDATE_SAMPLES)
        .map(|part| {
            let start = Instant::now();
            for &(route, id) in part {
                black_box(update(route, id));
            }
            part.len() as f64 / start.elapsed().as_secs_f64()
        })
        .collect()
}

/// What single writes cost the control thread.
fn writes(ruler: &mut Ruler, table: &mut Loaded, routes4: &[Ipv4Net]) {
    if ruler.wants("fib/load") {
        ruler.record("fib/load", "s", vec![table.seconds]);
    }
    if ruler.wants("fib/v4/default-route") {
        ruler.record("fib/v4/default-route", "ms", default_routes(table));
    }
    if ruler.wants("fib/v6/default-route") {
        let samples = (0..6).map(|i| {
            let start = Instant::now();
            table.tables.insert6(Ipv6Net::default(), table.ids[i]).expect("room for one route");
            start.elapsed().as_secs_f64() * 1e3
        });
        ruler.record("fib/v6/default-route", "ms", samples.collect());
        table.tables.remove6(Ipv6Net::default());
    }
    if ruler.wants("fib/redirect") {
        let shared = table.ids[0];
        for &net in &routes4[..routes4.len() / 2] {
            table.tables.insert4(net, shared).expect("replaces a route");
        }
        let samples = (0..100).map(|i| {
            let path = Path { adjacency: table.adjacencies[i], weight: 1 };
            let next_hop = NextHop::Forward(vec![path]);
            let start = Instant::now();
            table.tables.set_next_hop(shared, &next_hop).expect("both exist");
            start.elapsed().as_nanos() as f64
        });
        ruler.record("fib/redirect", "ns", samples.collect());
    }
}

/// Milliseconds to change the IPv4 default route: of all changes the one that writes most.
fn default_routes(table: &mut Loaded) -> Vec<f64> {
    let samples = (0..6).map(|i| {
        let start = Instant::now();
        table.tables.insert4(Ipv4Net::default(), table.ids[i]).expect("room for one route");
        start.elapsed().as_secs_f64() * 1e3
    });
    let samples = samples.collect();
    table.tables.remove4(Ipv4Net::default());
    samples
}

/// Memory of the size and page size of the driver's arrays (which only the kernel can make).
fn driver_memory() -> DriverMemory {
    #[repr(align(4096))]
    #[derive(Clone)]
    struct Page([u8; 4096]);
    let mut owned: Vec<Vec<Page>> = Vec::new();
    let mut region = |bytes: usize| {
        let mut pages = vec![Page([0; 4096]); bytes / 4096];
        black_box(&mut pages[0].0);
        let base = NonNull::from(pages.as_mut_slice()).cast();
        owned.push(pages);
        // SAFETY: aligned, zeroed, `bytes` long, and owned by the `DriverMemory`, whose owner
        // nobody looks into.
        unsafe { Region::new(base, bytes) }
    };
    let Sizes { fib4, fib6, nexthops, buckets, adjacencies, used, interfaces, tags, .. } =
        Capacity::default().sizes();
    DriverMemory {
        fib4: region(fib4),
        fib6: region(fib6),
        nexthops: region(nexthops),
        buckets: region(buckets),
        adjacencies: region(adjacencies),
        used: region(used),
        interfaces: region(interfaces),
        tags: region(tags),
        owner: Box::new(owned),
    }
}
