//! The ruler: what a bench measures with, and where its figures go.
//!
//! Time is the TSC's cycles, which run at a constant rate whatever the core's clock does; where
//! there is none (not x86-64) it is nanoseconds, and the unit says so. The bench runs pinned to the
//! last core. A figure is the median of all its samples; quartiles and range show how far to trust
//! it.

use crate::baseline;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// The row that all others are compared with.
const REFERENCE: &str = "reference/copy";

/// One measured figure.
#[derive(Serialize)]
pub struct Row {
    pub name: &'static str,
    pub unit: String,
    pub median: f64,
    pub min: f64,
    pub lower_quartile: f64,
    pub upper_quartile: f64,
    pub max: f64,
    pub samples: usize,
}

impl Row {
    /// A figure from its samples, of which there is at least one.
    pub fn new(name: &'static str, unit: impl Into<String>, mut samples: Vec<f64>) -> Row {
        samples.sort_by(f64::total_cmp);
        let at = |quarters: usize| samples[(samples.len() - 1) * quarters / 4];
        Row {
            name,
            unit: unit.into(),
            median: samples[samples.len() / 2],
            min: at(0),
            lower_quartile: at(1),
            upper_quartile: at(3),
            max: at(4),
            samples: samples.len(),
        }
    }
}

/// Collects the figures of one run.
pub struct Ruler {
    only: String,
    rows: Vec<Row>,
    cores: Vec<usize>,
}

impl Ruler {
    /// `only`: the prefix of the wanted names, empty for all.
    pub fn new(only: String) -> Ruler {
        let cores = cores();
        let core = cores.last().copied().unwrap_or(0);
        run_on(core);
        if let Some(hz) = ticks_per_second() {
            eprintln!("core {core}, TSC {:.3} GHz", hz / 1e9);
        }
        eprintln!(
            "{:<26} {:>10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>8} {:>12}",
            "name", "unit", "median", "min", "quarter", "3 quarters", "max", "samples", "x reference"
        );
        Ruler { only, rows: Vec::new(), cores }
    }

    /// The cores that this program may use: it runs on the last of them.
    pub fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// Whether the bench of this name is to run. `reference/copy` always is.
    pub fn wants(&self, name: &str) -> bool {
        name.starts_with(&self.only) || name == REFERENCE
    }

    /// Whether any bench of this family (`"fib/"`) may be wanted: is it worth setting up?
    pub fn wants_family(&self, family: &str) -> bool {
        family.starts_with(&self.only) || self.only.starts_with(family)
    }

    /// Records a figure from its samples (at least one), and prints it.
    pub fn record(&mut self, name: &'static str, unit: impl Into<String>, samples: Vec<f64>) {
        let row = Row::new(name, unit, samples);
        let reference =
            self.rows.iter().chain([&row]).find(|row| row.name == REFERENCE).map(|row| row.median);
        println!(
            "{:<26} {:>10} {:>11.2} {:>11.2} {:>11.2} {:>11.2} {:>11.2} {:>8} {:>12.3}",
            row.name,
            row.unit,
            row.median,
            row.min,
            row.lower_quartile,
            row.upper_quartile,
            row.max,
            row.samples,
            row.median / reference.unwrap_or(f64::NAN)
        );
        self.rows.push(row);
    }

    /// Measures `work`, which does `items` things a call: a warm-up call, then `samples` calls.
    pub fn cycles(&mut self, name: &'static str, items: usize, samples: usize, mut work: impl FnMut()) {
        if !self.wants(name) {
            return;
        }
        work();
        let samples = (0..samples).map(|_| ticks(&mut work) as f64 / items as f64).collect();
        self.record(name, TICK, samples);
    }

    /// Says how the figures are beside those kept, keeps them in `keep` if that is wanted, and
    /// writes the JSON file.
    pub fn finish(self, json: &Path, keep: Option<&Path>) -> std::io::Result<()> {
        if let Some(reference) = self.rows.iter().find(|row| row.name == REFERENCE) {
            println!();
            baseline::beside(&self.rows, reference.median).iter().for_each(|line| println!("{line}"));
            keep.map_or(Ok(()), |file| baseline::keep(&self.rows, reference.median, file))?;
        }
        if let Some(directory) = json.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(json, serde_json::to_string_pretty(&self.rows)? + "\n")
    }
}

/// The unit of [`ticks`].
#[cfg(target_arch = "x86_64")]
pub const TICK: &str = "cycles";
/// The unit of [`ticks`].
#[cfg(not(target_arch = "x86_64"))]
pub const TICK: &str = "ns";

/// How long `work` takes, in ticks.
#[cfg(target_arch = "x86_64")]
pub fn ticks(work: impl FnOnce()) -> u64 {
    use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};
    let mut core = 0;
    // SAFETY: every x86-64 has these instructions; the fences keep the work between the two
    // readings.
    unsafe {
        _mm_lfence();
        let start = _rdtsc();
        _mm_lfence();
        work();
        let end = __rdtscp(&mut core);
        _mm_lfence();
        end - start
    }
}

/// How long `work` takes, in ticks.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks(work: impl FnOnce()) -> u64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as u64
}

/// Whether [`evict`] does what it says.
pub const CAN_EVICT: bool = cfg!(target_arch = "x86_64");

/// Puts memory out of all caches.
pub fn evict(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        const LINE: usize = 64;
        use std::arch::x86_64::{_mm_clflush, _mm_mfence};
        let lines = bytes.as_ptr_range();
        let mut line = lines.start as usize & !(LINE - 1);
        // SAFETY: every x86-64 has these instructions; a line that has a byte of the slice may be
        // named, and its content stays.
        unsafe {
            while line < lines.end as usize {
                _mm_clflush(line as *const u8);
                line += LINE;
            }
            _mm_mfence();
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// The TSC's rate against the clock; `None` where ticks are nanoseconds.
pub fn ticks_per_second() -> Option<f64> {
    if TICK == "ns" {
        return None;
    }
    let start = Instant::now();
    let ticks = ticks(|| std::thread::sleep(Duration::from_millis(20)));
    Some(ticks as f64 / start.elapsed().as_secs_f64())
}

fn cores() -> Vec<usize> {
    // SAFETY: a set of cores is plain bits; the call writes it. When it fails the set stays empty.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        (0..libc::CPU_SETSIZE as usize).filter(|&core| libc::CPU_ISSET(core, &set)).collect()
    }
}

/// Keeps this thread, and those that it will start, on a core. When that fails, it runs where it
/// is.
pub fn run_on(core: usize) {
    if let Err(error) = lab::run_on_core(core) {
        eprintln!("not on core {core}: {error}");
    }
}
