//! The driver's walk (forwarding/bpf/fib.h, compiled for user space) against the workers', over the
//! driver's own copy.

use fib::{Capacity, DriverMemory, NextHop, NextHopId, Region, TableId, Tables};
use ipnet::{Ipv4Net, Ipv6Net};
use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::ptr::NonNull;

/// The layouts of the IPv4 table: for many routes, and for few. So many that blocks do not run out.
const CAPACITIES: [Capacity; 2] = [
    Capacity { ipv4: 10_000_000, ipv6: 400_000, next_hops: 1000 },
    Capacity { ipv4: 32_768, ipv6: 400_000, next_hops: 1000 },
];

/// A table beside the main one, with the same routes.
const BESIDE: TableId = TableId(TableId::COUNT as u16 - 1);

#[repr(C)]
struct Map {
    blocks: *const c_void,
    count: u32,
}

/// The walks of `walk.c`.
struct Walk {
    maps: extern "C" fn(Map, Map, u32),
    four: extern "C" fn(u32) -> u32,
    six: extern "C" fn(u64, u64) -> u32,
    beside4: extern "C" fn(u32, u32) -> u32,
    beside6: extern "C" fn(u32, u64, u64) -> u32,
}

impl Walk {
    fn compile() -> Walk {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/walk.c");
        let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join("walk.so");
        let headers = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(headers.join("facts.h"), abi::facts()).unwrap();
        let mut compiler = Command::new("clang");
        compiler
            .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-I"])
            .arg(headers)
            .arg("-o")
            .arg(&object)
            .arg(source);
        assert!(compiler.status().expect("clang is installed").success());
        let name = CString::new(object.to_str().unwrap()).unwrap();
        // SAFETY: a library of our own without constructors; it stays loaded.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        let symbol = |name: &std::ffi::CStr| {
            // SAFETY: the handle is open, the name ends with a zero.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!symbol.is_null(), "{name:?}");
            symbol
        };
        // SAFETY: the signatures are those in walk.c.
        unsafe {
            Walk {
                maps: std::mem::transmute::<*mut c_void, extern "C" fn(Map, Map, u32)>(symbol(c"walk_maps")),
                four: std::mem::transmute::<*mut c_void, extern "C" fn(u32) -> u32>(symbol(c"walk4")),
                six: std::mem::transmute::<*mut c_void, extern "C" fn(u64, u64) -> u32>(symbol(c"walk6")),
                beside4: std::mem::transmute::<*mut c_void, extern "C" fn(u32, u32) -> u32>(symbol(
                    c"walk_beside4",
                )),
                beside6: std::mem::transmute::<*mut c_void, extern "C" fn(u32, u64, u64) -> u32>(symbol(
                    c"walk_beside6",
                )),
            }
        }
    }
}

fn region(bytes: usize) -> Region {
    let flags: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which is never unmapped.
    unsafe {
        let base = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert!(base != libc::MAP_FAILED);
        Region::new(NonNull::new(base.cast()).unwrap(), bytes)
    }
}

fn memory(capacity: &Capacity) -> (DriverMemory, Map, Map) {
    let sizes = capacity.sizes();
    let memory = DriverMemory {
        fib4: region(sizes.fib4),
        fib6: region(sizes.fib6),
        nexthops: region(sizes.nexthops),
        buckets: region(sizes.buckets),
        adjacencies: region(sizes.adjacencies),
        used: region(sizes.used),
        interfaces: region(sizes.interfaces),
        tags: region(sizes.tags),
        owner: Box::new(()),
    };
    let map = |region: &Region| Map {
        blocks: region.base().as_ptr().cast(),
        count: (region.bytes() / 4096) as u32,
    };
    let (four, six) = (map(&memory.fib4), map(&memory.fib6));
    (memory, four, six)
}

#[test]
fn the_drivers_walk_answers_as_the_workers_does() {
    let walk = Walk::compile();
    for (capacity, changes) in CAPACITIES.into_iter().zip([2500, 250]) {
        answers_equal(&walk, capacity, changes);
    }
}

fn answers_equal(walk: &Walk, capacity: Capacity, changes: usize) {
    let (memory, four, six) = memory(&capacity);
    let mut tables = Tables::new(capacity, Some(memory)).unwrap();
    (walk.maps)(four, six, capacity.sizes().rest4);
    let ids: Vec<NextHopId> = (0..1000).map(|_| tables.add_next_hop(&NextHop::Local).unwrap()).collect();
    let view = tables.view();
    let mut random = chance::Random(7);
    let (mut nets4, mut nets6): (Vec<Ipv4Net>, Vec<Ipv6Net>) = (Vec::new(), Vec::new());
    for round in 0..40 {
        for _ in 0..changes {
            let id = ids[random.next() as usize % ids.len()];
            // Half of the prefixes lie beside one that is there, some bits longer or shorter, so
            // that they nest.
            let near = random.next().is_multiple_of(2) && !nets4.is_empty();
            let pick = random.next() as usize;
            let bits = random.next() as u32;
            let net = if near {
                let net = nets4[pick % nets4.len()];
                let length = (net.prefix_len() + random.next() as u8 % 9).min(32);
                Ipv4Net::new((net.network().to_bits() | bits & net.hostmask().to_bits()).into(), length)
            } else {
                Ipv4Net::new(bits.into(), 8 + random.next() as u8 % 25)
            };
            let net = net.unwrap().trunc();
            tables.insert4(net, id).unwrap();
            tables.insert(BESIDE, net.into(), id).unwrap();
            nets4.push(net);
            let bits = u128::from(random.next()) << 64 | u128::from(random.next());
            let net = if near {
                let net = nets6[pick % nets6.len()];
                let length = (net.prefix_len() + random.next() as u8 % 33).min(128);
                Ipv6Net::new((net.network().to_bits() | bits & net.hostmask().to_bits()).into(), length)
            } else {
                Ipv6Net::new((0x2a00 << 112 | bits >> 12).into(), 16 + random.next() as u8 % 49)
            };
            let net = net.unwrap().trunc();
            tables.insert6(net, id).unwrap();
            tables.insert(BESIDE, net.into(), id).unwrap();
            nets6.push(net);
        }
        if round % 4 == 3 {
            for _ in 0..changes * 8 / 5 {
                let four = nets4.swap_remove(random.next() as usize % nets4.len());
                tables.remove4(four);
                tables.remove(BESIDE, four.into());
                let six = nets6.swap_remove(random.next() as usize % nets6.len());
                tables.remove6(six);
                tables.remove(BESIDE, six.into());
            }
        }
        for _ in 0..20_000 {
            let bits = random.next() as u32;
            let net = nets4[random.next() as usize % nets4.len()];
            for address in [bits, net.network().to_bits() | bits & net.hostmask().to_bits()] {
                let answer = view.lookup4(address).0;
                assert_eq!((walk.four)(address), answer, "{address:#x}");
                assert_eq!((walk.beside4)(BESIDE.0.into(), address), answer, "{address:#x}");
            }
            let bits = u128::from(random.next()) << 64 | u128::from(random.next());
            let net = nets6[random.next() as usize % nets6.len()];
            let edges = [
                net.network().to_bits(),
                net.broadcast().to_bits(),
                net.broadcast().to_bits().wrapping_add(1),
            ];
            for address in
                [bits, net.network().to_bits() | bits & net.hostmask().to_bits()].into_iter().chain(edges)
            {
                let (high, low) = ((address >> 64) as u64, address as u64);
                let answer = view.lookup6(address).0;
                assert_eq!((walk.six)(high, low), answer, "{address:#x}");
                assert_eq!((walk.beside6)(BESIDE.0.into(), high, low), answer, "{address:#x}");
            }
        }
    }
}
