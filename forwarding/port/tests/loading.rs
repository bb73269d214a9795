//! How the driver's programs come past the kernel's verifier.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fib::{Capacity, PortId};
use port::Driver;
use port::traffic::{MOST_LANES, StreamLane, StreamSize, Streams};

fn driver() -> Driver {
    Driver::new(&Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }.sizes()).unwrap()
}

/// Of the first program, which needs the most.
#[test]
fn the_kernels_verifier_is_not_asked_too_much() {
    let mut driver = driver();
    driver.load(PortId(0)).unwrap();
    let mut programs = 0;
    for file in std::fs::read_dir("/proc/self/fdinfo").unwrap() {
        // Some are of the other test, and gone by now.
        let Ok(text) = std::fs::read_to_string(file.unwrap().path()) else { continue };
        let Some(looked_at) = text.lines().find_map(|line| line.strip_prefix("verified_insns:")) else {
            continue;
        };
        programs += 1;
        // It gives up at a million; and what it looks at takes time whenever a port is attached.
        let looked_at: u32 = looked_at.trim().parse().unwrap();
        assert!(looked_at < 500_000, "{looked_at} instructions");
    }
    assert!(programs >= 1);
}

#[test]
fn as_many_streams_as_there_may_be_are_taken_at_once() {
    let lane = |paced| StreamLane {
        six: false,
        udp: true,
        check: None,
        stamp: true,
        layers: [14, 34, 42],
        names: 1,
        sizes: vec![StreamSize { frame: 60, ip: 46, udp: 26, gap: 1 << 26, ..StreamSize::default() }],
        headers: vec![0; 64],
        lines: 1,
        length: 60,
        slots: 1,
        generations: 1,
        life: 0,
        stagger: (0, 0),
        paced,
        random: false,
        due: 0,
        count: 1,
        burst: (0, 0),
        frame: vec![0; 60],
    };
    for paced in [Some(true), Some(false), None] {
        let lanes: Vec<StreamLane> =
            (0..MOST_LANES).map(|number| lane(paced.unwrap_or(number % 2 == 0))).collect();
        Streams::new(&lanes, &[1 << 16; 4096], 32).unwrap();
    }
}

#[test]
fn signals_do_not_keep_a_program_from_its_port() {
    extern "C" fn nothing(_: libc::c_int) {}
    let mut driver = driver();
    // SAFETY: the handler does nothing; a thread's number is its own.
    let (loader, handler) = unsafe {
        let handler: extern "C" fn(libc::c_int) = nothing;
        (libc::pthread_self() as usize, libc::signal(libc::SIGURG, handler as libc::sighandler_t))
    };
    assert_ne!(handler, libc::SIG_ERR);
    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) && sent.load(Ordering::Relaxed) < 6 {
                // Each is to meet a try of its own.
                std::thread::sleep(Duration::from_millis(5));
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(loader as libc::pthread_t, libc::SIGURG) };
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
        let loaded = driver.load(PortId(0));
        stop.store(true, Ordering::Relaxed);
        loaded.unwrap();
    });
    assert!(sent.load(Ordering::Relaxed) > 1, "it was not disturbed");
}
