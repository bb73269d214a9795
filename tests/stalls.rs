//! How long the machine kept its cores from everybody.
//!
//! A hypervisor that is short of processors takes a core away for tens of milliseconds, and a
//! kernel may keep one as long. What is sent meanwhile from another core overflows the ring of a
//! veth (256 places), whatever the router does. So a thread on each core, which runs before all
//! others, looks each millisecond whether it was on time; tests that count losses take off what the
//! machine lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{JoinHandle, available_parallelism, sleep, spawn};
use std::time::{Duration, Instant};

use lab::run_on_core;

/// A thread that is on time is not later than this.
const PUNCTUAL: Duration = Duration::from_millis(5);

/// A measurement that runs until it is asked.
pub struct Stalls {
    ends: Arc<AtomicBool>,
    missed: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Stalls {
    pub fn start() -> Stalls {
        let (ends, missed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let cores = available_parallelism().map_or(1, usize::from);
        let watch = |core| {
            let (ends, missed) = (ends.clone(), missed.clone());
            spawn(move || {
                // Without either, what other programs have is counted as well: more is forgiven.
                let _ = run_on_core(core);
                let _ = port::urgent();
                while !ends.load(Relaxed) {
                    let before = Instant::now();
                    sleep(Duration::from_millis(1));
                    let late = before.elapsed();
                    if late > PUNCTUAL {
                        missed.fetch_add(late.as_micros() as u64, Relaxed);
                    }
                }
            })
        };
        let threads = (0..cores).map(watch).collect();
        Stalls { ends, missed, threads }
    }

    /// Ends it; for how long cores were away, added up.
    pub fn stop(self) -> Duration {
        self.ends.store(true, Relaxed);
        for thread in self.threads {
            thread.join().expect("it only sleeps");
        }
        Duration::from_micros(self.missed.load(Relaxed))
    }
}
