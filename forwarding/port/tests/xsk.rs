//! Real packets through AF_XDP, between two hosts in namespaces.

mod rig;

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fib::{Capacity, InterfaceEntry, InterfaceFlags, PortId, Tables};
use port::device::Device;
use port::traffic::Source;
use port::{Driver, HugePages, Memory, Mode, Packet, Pool, Queue, Xsk, XskOptions, ZeroCopy};
use rig::{HOST_MAC, ROUTER_MAC, Rig, frame, ipv4};

const FRAMES: usize = 16_384;

/// The router's ports 0 and 1, worker lane only, all queues here.
struct Router {
    driver: Driver,
    tables: Tables,
    queues: Vec<Xsk>,
    pool: Option<Pool>,
}

impl Router {
    fn new(rig: &Rig, queues: u32) -> Router {
        let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 1000 };
        let driver = Driver::new(&capacity.sizes()).unwrap();
        let tables = Tables::new(capacity, Some(driver.table_memory().unwrap())).unwrap();
        let pool = Memory::new(1, FRAMES, HugePages::Auto).unwrap().pool(0).unwrap();
        let mut router = Router { driver, tables, queues: Vec::new(), pool: Some(pool) };
        (0..2).for_each(|i| router.open(rig, i, queues));
        router
    }

    fn open(&mut self, rig: &Rig, i: u16, queues: u32) {
        let (port, ifindex) = (PortId(i), rig.ifindex(i.into()));
        let flags = InterfaceFlags::UP | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
        let entry = InterfaceEntry::of_port(port, ifindex, 1500, ROUTER_MAC[i as usize], flags);
        self.tables.set_interface(port.interface(), Some(entry)).unwrap();
        let attachment = self.driver.attach(port, ifindex, Mode::Native).unwrap();
        assert!(attachment.native);
        let pool = self.pool.as_ref().expect("opened before the pool is installed");
        for queue in 0..queues {
            let xsk = Xsk::open(port, ifindex, queue, pool, &XskOptions::default()).unwrap();
            assert!(!xsk.mode().zero_copy);
            assert_eq!(xsk.mode().why, ["zero-copy: the driver has none"]);
            self.driver.set_socket(port, queue, &xsk).unwrap();
            self.queues.push(xsk);
        }
    }

    fn install(&mut self) {
        self.pool.take().unwrap().install();
        self.queues.iter_mut().for_each(Queue::kick);
    }

    /// One round: everything received leaves by the other port, with new MACs.
    fn round(&mut self) -> usize {
        let mut moved = 0;
        let mut packets = Vec::new();
        for from in 0..self.queues.len() {
            moved += self.queues[from].receive(&mut packets, 64);
            let input = self.queues[from].port().0 as usize;
            let half = self.queues.len() / 2;
            for packet in &mut packets {
                assert_eq!(packet.input.0 as usize, input);
                packet.data_mut()[..6].copy_from_slice(&HOST_MAC[1 - input]);
                packet.data_mut()[6..12].copy_from_slice(&ROUTER_MAC[1 - input]);
            }
            self.queues[(from + half) % (2 * half)].transmit(&mut packets);
            packets.clear();
        }
        self.queues.iter_mut().for_each(Queue::kick);
        moved
    }

    fn run_until(&mut self, mut done: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !done() {
            assert!(Instant::now() < end, "not done after 30 s: {:?}", self.queues[0].counters());
            if self.round() == 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Chunks in the pool and in the kernel; what is missing has leaked.
    fn accounted(&self) -> usize {
        port::pool::available() + self.queues.iter().map(Xsk::leased).sum::<usize>()
    }
}

fn numbered(number: u32, size: usize) -> Vec<u8> {
    let mut payload = vec![(number % 251) as u8; size];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let source = [10, 0, (number >> 8) as u8, number as u8];
    frame(0x0800, &ipv4(source, [198, 18, 0, 1], 64, &payload))
}

#[test]
fn packets_pass_both_ways_unchanged_and_every_frame_comes_home() {
    let rig = Rig::new(1);
    let wires = [rig.wire(0), rig.wire(1)];
    rig.router.inside(|| {
        let mut router = Router::new(&rig, 1);
        router.install();
        assert_eq!(router.accounted(), FRAMES);
        for direction in [0, 1] {
            let (from, to) = (&wires[direction], &wires[1 - direction]);
            for number in 0..2000u32 {
                let mut sent = numbered(number, 4 + number as usize % 1400);
                sent[..6].copy_from_slice(&ROUTER_MAC[direction]);
                from.send(&sent);
                let mut got = None;
                router.run_until(|| {
                    got = to.receive();
                    got.is_some()
                });
                let got = got.unwrap();
                assert_eq!(got[..6], HOST_MAC[1 - direction]);
                assert_eq!(got[12..], sent[12..]);
            }
        }
        assert_eq!(router.accounted(), FRAMES);
        let counters = router.queues[0].counters();
        assert_eq!((counters.rx_packets, counters.tx_packets, counters.corrupt), (2000, 2000, 0));
    });
}

#[test]
fn frames_above_a_chunk_pass_as_chains() {
    let rig = Rig::new(1);
    for (namespace, link) in [(&rig.router, "r"), (&rig.hosts[0], "h"), (&rig.hosts[1], "h")] {
        for i in 0..2 {
            if link == "r" || namespace.0.ends_with(&format!("h{i}")) {
                namespace.ip(&format!("link set {link}{i} mtu 9000"));
            }
        }
    }
    let wires = [rig.wire(0), rig.wire(1)];
    rig.router.inside(|| {
        let mut router = Router::new(&rig, 1);
        assert!(router.queues[0].mode().segments);
        router.install();
        for size in [3000, 3797, 3798, 3799, 5000, 8900] {
            let sent = numbered(size as u32, size);
            wires[0].send(&sent);
            let mut got = None;
            router.run_until(|| {
                got = wires[1].receive();
                got.is_some()
            });
            assert_eq!(got.unwrap()[12..], sent[12..], "{size}");
        }
        assert_eq!(router.accounted(), FRAMES);
        assert_eq!(router.queues[0].counters().corrupt, 0);
    });
}

#[test]
fn a_flood_on_two_queues_leaks_nothing() {
    let rig = Rig::new(2);
    let wires = [rig.wire(0), rig.wire(1)];
    rig.router.inside(|| {
        let mut router = Router::new(&rig, 2);
        router.install();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (rig, wire, stop) = (&rig, &wires[0], &stop);
            scope.spawn(move || {
                // Spread over the queues, and then a million at the speed of the kernel.
                (0..100_000).for_each(|number| wire.send(&numbered(number, 18)));
                rig.hosts[0].inside(|| {
                    let index = Device::named("h0").unwrap().ifindex;
                    let (from, to) = (HOST_MAC[0], ROUTER_MAC[0]);
                    let addresses = ["10.0.0.5", "198.18.0.1"].map(|address| address.parse().unwrap());
                    let source = Source::new(from, to, addresses[0], &addresses[1..]).unwrap();
                    source.send(index, 1_000_000).unwrap();
                });
                stop.store(true, Ordering::Relaxed);
            });
            let mut quiet = 0;
            router.run_until(|| {
                while wires[1].receive().is_some() {
                    quiet = 0;
                }
                quiet += 1;
                stop.load(Ordering::Relaxed) && quiet > 50
            });
        });
        let each: Vec<u64> = router.queues[..2].iter().map(|queue| queue.counters().rx_packets).collect();
        assert!(each.iter().all(|&packets| packets > 1000), "{each:?}");
        assert_eq!(router.accounted(), FRAMES);
        assert!(router.queues.iter().all(|queue| queue.counters().corrupt == 0));
    });
}

#[test]
fn an_interface_deleted_and_made_again_works_again() {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let mut router = Router::new(&rig, 1);
        let pool = router.pool.take().unwrap();
        rig.router.ip("link del r0");
        router.queues.remove(0);
        router.driver.detach(PortId(0));
        rig.connect(0, 1);
        router.pool = Some(pool);
        router.open(&rig, 0, 1);
        router.queues.swap(0, 1);
        router.install();
        let wires = [rig.wire(0), rig.wire(1)];
        wires[0].send(&numbered(7, 100));
        router.run_until(|| wires[1].receive().is_some());
        assert_eq!(router.accounted(), FRAMES);
    });
}

#[test]
fn an_empty_fill_ring_recovers() {
    let rig = Rig::new(1);
    let wires = [rig.wire(0), rig.wire(1)];
    rig.router.inside(|| {
        let mut router = Router::new(&rig, 1);
        router.install();
        // Take all there is, so that nothing can be given to the kernel; then flood until its own
        // frames are used up.
        let mut hoard = Vec::new();
        while let Some(packet) = Packet::new(b"mine") {
            hoard.push(packet);
        }
        let mut starved = Vec::new();
        for number in 0..5000 {
            wires[0].send(&numbered(number, 18));
            router.queues[0].receive(&mut starved, 64);
        }
        rig::wait("the kernel to run out of frames", || {
            router.queues[0].receive(&mut starved, 4096);
            router.queues[0].counters().rx_no_frame > 0
        });
        starved.clear();
        hoard.clear();
        router.queues.iter_mut().for_each(Queue::kick);
        wires[0].send(&numbered(1, 18));
        router.run_until(|| wires[1].receive().is_some());
        assert_eq!(router.accounted(), FRAMES);
    });
}

#[test]
fn a_sleeper_is_woken_by_every_packet() {
    let rig = Rig::new(1);
    let wires = [rig.wire(0), rig.wire(1)];
    rig.router.inside(|| {
        let mut router = Router::new(&rig, 1);
        router.install();
        for number in 0..500 {
            wires[0].send(&numbered(number, 18));
            let mut got = None;
            while got.is_none() {
                let fd = router.queues[0].fd().unwrap().as_raw_fd();
                let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                // SAFETY: one valid descriptor.
                let ready = unsafe { libc::poll(&mut poll, 1, 2000) };
                assert_eq!(ready, 1, "packet {number} lies in the ring, and nobody was woken");
                router.round();
                got = wires[1].receive();
            }
        }
    });
}

#[test]
fn busy_polling_is_had_where_the_kernel_has_it() {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let pool = Pool::heap(256);
        let options = XskOptions { busy_poll: port::BusyPoll::On, ..Default::default() };
        let xsk = Xsk::open(PortId(0), rig.ifindex(0), 0, &pool, &options).unwrap();
        assert!(xsk.mode().busy_poll, "{:?}", xsk.mode().why);
    });
}

#[test]
fn what_cannot_be_had_is_said() {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let pool = Pool::heap(256);
        let ifindex = rig.ifindex(0);
        let options = XskOptions { zero_copy: ZeroCopy::On, ..Default::default() };
        let error = Xsk::open(PortId(0), ifindex, 0, &pool, &options).err().unwrap();
        assert!(error.to_string().contains("bind"), "{error}");
        let error = Xsk::open(PortId(0), ifindex, 7, &pool, &XskOptions::default()).err().unwrap();
        assert!(error.to_string().contains("fewer queues"), "{error}");
        let first = Xsk::open(PortId(0), ifindex, 0, &pool, &XskOptions::default()).unwrap();
        let error = Xsk::open(PortId(0), ifindex, 0, &pool, &XskOptions::default()).err().unwrap();
        assert!(error.to_string().contains("another program"), "{error}");
        drop(first);
    });
}
