//! How the driver's programs come past the kernel's verifier.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fib::{Capacity, PortId};
use port::Driver;

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
