//! A worker that panics or hangs takes only itself down: Linux has its queues until it is started
//! again. One that is held up when a port is taken serves it as soon as it can.

mod one_worker;
#[path = "../../port/tests/rig/mod.rs"]
mod rig;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use fib::{Adjacency, NextHop, Path, Tables};
use graph::{Batch, NodeId, Observer};
use nix::unistd::{Pid, gettid};
use one_worker::interface;
use plane::meter::State;
use plane::worker::WorkerCommand;
use plane::{LaneChoice, Plane, PolicySettings, PortSettings};
use port::Lane;
use rig::{HOST_MAC, Rig, frame, ipv4, wait};

/// Between two looks not more is counted.
const LOOK: Duration = Duration::from_millis(250);

fn linux_forwards(rig: &Rig) {
    rig.router.exec("sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0");
    for (i, host) in [(0, "10.0.0.2"), (1, "10.0.1.2")] {
        rig.router.ip(&format!("addr add 10.0.{i}.1/24 dev r{i}"));
        rig.router.ip(&format!("neigh replace {host} lladdr 02:00:00:00:02:0{i} dev r{i}"));
    }
    rig.router.ip("route add 198.18.0.0/15 via 10.0.1.2");
}

/// Holds a worker up when it is to look away.
struct Absorbing(Duration);

impl Observer for Absorbing {
    fn entered(&mut self, _node: NodeId, _input: usize, _batch: &Batch) {}
}

impl Drop for Absorbing {
    fn drop(&mut self) {
        std::thread::sleep(self.0);
    }
}

/// Holds a worker up when it is to look away, until somebody lets it go.
struct Held(SyncSender<()>, Receiver<()>);

impl Observer for Held {
    fn entered(&mut self, _node: NodeId, _input: usize, _batch: &Batch) {}
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.send(());
        let _ = self.1.recv();
    }
}

/// Holds a worker up for ever when it is to look away.
struct Hang(How, SyncSender<Pid>);

#[derive(Clone, Copy)]
enum How {
    InALoop,
    InTheKernel,
}

impl Observer for Hang {
    fn entered(&mut self, _node: NodeId, _input: usize, _batch: &Batch) {}
}

impl Drop for Hang {
    fn drop(&mut self) {
        let _ = self.1.send(gettid());
        loop {
            match self.0 {
                How::InALoop => std::hint::spin_loop(),
                How::InTheKernel => std::thread::sleep(Duration::from_secs(1000)),
            }
        }
    }
}

/// Hangs the worker; its thread.
fn hang(plane: &Plane, how: How) -> Pid {
    let (says, said) = sync_channel(1);
    absorb(plane, Box::new(Hang(how, says)));
    said.recv_timeout(Duration::from_secs(20)).expect("the worker to come to it")
}

/// How long a thread of this process has waited for a core, as the kernel counts it.
fn waited(thread: Pid) -> Duration {
    let counts = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap();
    Duration::from_nanos(counts.split_whitespace().nth(1).unwrap().parse().unwrap())
}

/// Has the worker take an observer and let it go again, which is where it stays.
fn absorb(plane: &Plane, observer: Box<dyn Observer>) {
    for observer in [Some(observer), None] {
        plane.worker_pool().order(0, WorkerCommand::Observe(observer, sync_channel(1).0));
    }
}

#[test]
fn a_port_is_served_although_its_worker_was_held_up_when_it_was_taken() {
    let rig = Rig::new(1);
    linux_forwards(&rig);
    rig.router.inside(|| {
        // The programs are not loaded while the worker is held up.
        let (mut plane, mut tables) =
            one_worker::start_with(PolicySettings::default(), |driver| driver.prepare().unwrap());
        absorb(&plane, Box::new(Absorbing(Duration::from_millis(2500))));
        let settings = PortSettings { lane: LaneChoice::Worker, ..PortSettings::default() };
        let id = plane.expect("r0", settings).unwrap();
        assert!(plane.take(id, interface(&rig, 0), &mut tables));
        let taken = |plane: &Plane| {
            let taken = plane.ports()[0].taken.as_ref().unwrap();
            (taken.queues.len(), taken.why.iter().any(|reason| reason.contains("does not answer")))
        };
        assert_eq!(taken(&plane), (0, true), "the worker was to be held up for longer than anybody waits");
        wait("the queue to be served", || {
            plane.supervise(&mut tables);
            taken(&plane) == (1, false)
        });
        plane.stop(&mut tables);
    });
}

#[test]
fn what_is_on_its_way_has_landed_when_its_worker_went_on() {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let (mut plane, mut tables) = one_worker::start_with(PolicySettings::default(), |_| ());
        let workers = plane.worker_pool();
        let sleeps = workers.in_flight();
        wait("a worker that has nothing", || workers.has_landed(&sleeps));
        let ((says, said), (go, waits)) = (sync_channel(1), sync_channel(1));
        absorb(&plane, Box::new(Held(says, waits)));
        said.recv_timeout(Duration::from_secs(20)).expect("the worker to come to it");
        let held = workers.in_flight();
        assert!(!workers.has_landed(&held), "its worker has not moved");
        go.send(()).unwrap();
        wait("it to land", || workers.has_landed(&held));
        plane.stop(&mut tables);
    });
}

#[test]
fn a_worker_that_hangs_is_found_within_a_second_and_started_again() {
    forwarding(|plane, tables, cross, lanes| {
        for (restarts, how) in [How::InALoop, How::InTheKernel].into_iter().enumerate() {
            let before = lanes(plane).0;
            cross(1);
            assert_eq!(lanes(plane).0, before + 1);
            let thread = hang(plane, how);
            // Time in which the worker had a core or asked for none, and in which somebody looked:
            // other work on this machine may make a second of it last longer.
            let (waits, mut looked, mut stood) = (waited(thread), Instant::now(), Duration::ZERO);
            wait("the worker to be started again", || {
                std::thread::sleep(Duration::from_millis(80));
                plane.supervise(tables);
                stood += std::mem::replace(&mut looked, Instant::now()).elapsed().min(LOOK);
                plane.worker_pool().handles()[0].restarts == restarts as u64 + 1
            });
            let stood = stood.saturating_sub(waited(thread) - waits);
            assert!(stood <= Duration::from_secs(1) + LOOK, "it stood still for {stood:?}");
            wait("its queues", || {
                plane.supervise(tables);
                plane
                    .ports()
                    .iter()
                    .all(|port| port.taken.as_ref().is_some_and(|taken| taken.queues.len() == 1))
            });
            cross(2);
            assert_eq!(lanes(plane).0, before + 2, "the new worker forwarded it");
        }
        hang(plane, How::InALoop);
        let begun = Instant::now();
        plane.stop(tables);
        assert!(begun.elapsed() < Duration::from_secs(2), "it took {:?} to stop", begun.elapsed());
        cross(4);
    });
}

#[test]
fn linux_forwards_while_a_worker_is_down_and_the_worker_comes_back() {
    forwarding(|plane, tables, cross, lanes| {
        cross(1);
        assert_eq!(lanes(plane).0, 1);

        plane.fail_worker(0);
        wait("the worker to be down", || plane.worker_pool().handles()[0].meter.state() == State::Failed);
        let (_, before) = lanes(plane);
        cross(2);
        assert_eq!(lanes(plane), (1, before + 1), "Linux forwarded it");

        wait("the worker to be back with its queues", || {
            plane.supervise(tables);
            plane.worker_pool().handles()[0].restarts == 1
                && plane
                    .ports()
                    .iter()
                    .all(|port| port.taken.as_ref().is_some_and(|taken| taken.queues.len() == 1))
        });
        cross(3);
        assert_eq!(lanes(plane).0, 2, "the worker forwarded it");
        plane.stop(tables);
        cross(4);
    });
}

/// Runs `test` with a plane of one worker that forwards, something that has a packet cross, and
/// something that says how many went to the worker and how many passed.
fn forwarding(test: impl Send + FnOnce(&mut Plane, &mut Tables, &dyn Fn(u8), &dyn Fn(&Plane) -> (u64, u64))) {
    let rig = Rig::new(1);
    linux_forwards(&rig);
    let wires = [rig.wire(0), rig.wire(1)];
    rig.router.inside(|| {
        let (mut plane, mut tables) = one_worker::start(PolicySettings::default());
        for i in 0..2 {
            let settings = PortSettings { lane: LaneChoice::Worker, ..PortSettings::default() };
            let id = plane.expect(&format!("r{i}"), settings).unwrap();
            assert!(plane.take(id, interface(&rig, i), &mut tables));
        }
        let mac = Some(HOST_MAC[1]);
        let adjacency =
            tables.add_adjacency(&Adjacency { interface: fib::InterfaceId(1), mtu: 1500, mac }).unwrap();
        let hop = tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
        tables.insert4("198.18.0.0/15".parse().unwrap(), hop).unwrap();

        let cross = |number: u8| {
            wires[0].send(&frame(0x0800, &ipv4([10, 0, 0, 2], [198, 18, 0, number], 64, &[number; 30])));
            let arrived = |frame: &[u8]| frame.len() > 33 && frame[30..34] == [198, 18, 0, number];
            wires[1].expect("forwarded packet", arrived);
        };
        let lanes = |plane: &Plane| {
            let counters = plane.driver_counters(&plane.ports()[0]);
            (counters.lane(Lane::Worker).packets, counters.lane(Lane::Pass).packets)
        };
        test(&mut plane, &mut tables, &cross, &lanes);
    });
}
