//! What each of a router's tricks brings, one switched off at a time: batches, prefetching, huge
//! pages, queues.

use std::hint::black_box;
use std::sync::Barrier;

use fib::NextHopId;
use lab::prefixes::{Random, inside4, ipv4};
use nix::libc;

use crate::frames::flows_inside;
use crate::measure::{cores, cycles, cycles_per_second, median, on_last_core, pin};
use crate::memory::{self, How, Router};
use crate::outcome::{Cell, Table};
use crate::ruleset::Judge;
use crate::{Experiment, ExperimentError, Outcome, Run};

pub const EXPERIMENT: Experiment = Experiment {
    name: "factors",
    question: "What does each of them bring: batches, fetching ahead, huge pages, more queues?",
    source: "RouteBricks 2009: 64-byte static forwarding, 8 cores of 2.8 GHz",
    needs_root: false,
    work,
};

/// A full table, whose lookups go to memory.
const ROUTES: usize = 1_000_000;
const FLOWS: usize = 65_536;

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    on_last_core(|| measure(run, outcome))
}

fn measure(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let mut published = Table::new("the paper's chart", &["what", "Mpps", "factor"]);
    for (what, rate, factor) in [
        ("2008's server (shared bus)", 1.2, None),
        ("2009's server", 2.8, Some(2.3)),
        ("+ batches (32 a poll, 16 descriptors a transfer)", 5.9, Some(2.1)),
        ("+ several queues", 19.0, Some(3.2)),
    ] {
        published.row(what, [rate.into(), factor.into()]);
    }
    outcome.tables.push(published);
    let samples = run.either(31, 3);
    let mut random = Random(20_261_121);
    let routes = ipv4(run.either(ROUTES, 2000), &mut random);
    let tables = memory::tables(&routes)?;
    let frames = memory::frames(flows_inside(&routes, FLOWS, &mut random), &[64]);
    let mut router = Router::new(&tables.view(), Judge::Nothing)?;

    let mut table = Table::new(
        "batches: the whole router, a full table, one core",
        &["packets of a batch", "cycles a packet", "kpps", "factor"],
    );
    let mut first = None;
    for batch in [1, 2, 4, 8, 16, 32, 64] {
        run.say(&format!("batches of {batch}"));
        let cost = memory::cost(&mut router, &frames, How { batch, ..How::new(samples) })?;
        let one = *first.get_or_insert(cost.cycles);
        table.row(batch.to_string(), [cost.cycles, cost.kpps(), one / cost.cycles].map(Cell::from));
    }
    outcome.tables.push(table);

    run.say("fetching ahead");
    let addresses: Vec<u32> = (0..run.either(1 << 22, FLOWS))
        .map(|_| inside4(routes[random.below(routes.len())], &mut random))
        .collect();
    let view = tables.view();
    let ahead = parts(&addresses, |part| {
        let mut ids = [NextHopId::NONE; 64];
        for batch in part.as_chunks::<64>().0 {
            view.lookup4_batch(batch, &mut ids);
            black_box(&mut ids);
        }
    });
    // Each waits for the one before, as it does for a packet at a time.
    let chained = parts(&addresses, |part| {
        part.iter().fold(0, |last, address| black_box(view.lookup4(address ^ black_box(last) >> 31).0));
    });
    let mut table = Table::new(
        "fetching ahead: lookups in a full table, each address once",
        &["how", "ns a lookup", "factor"],
    );
    table.row("one after the other", [Cell::from(chained), 1.0.into()]);
    table.row("64 together, fetched ahead", [Cell::from(ahead), (chained / ahead).into()]);
    outcome.tables.push(table);

    run.say("huge pages");
    let mut table = Table::new(
        "huge pages: reads at random places of 64 MiB, as much as a full table takes",
        &["pages", "ns a read", "factor"],
    );
    let plain = reads(libc::MADV_NOHUGEPAGE, samples)?;
    let huge = reads(libc::MADV_HUGEPAGE, samples)?;
    table.row("4 KiB", [Cell::from(plain), 1.0.into()]);
    table.row("2 MiB", [Cell::from(huge), (plain / huge).into()]);
    outcome.tables.push(table);

    run.say("queues");
    let cores = cores();
    let mut table = Table::new(
        "queues: a worker with a queue of its own on each core, all on one table",
        &["workers", "kpps together", "factor"],
    );
    let mut one = f64::NAN;
    for workers in [1, 2, 4, 8].into_iter().filter(|workers| *workers <= cores.len()) {
        let together = together(&view, &frames, &cores[cores.len() - workers..], samples)?;
        one = if workers == 1 { together } else { one };
        table.row(workers.to_string(), [together, together / one].map(Cell::from));
    }
    outcome.tables.push(table);
    outcome.note("In memory: what a network card's bus costs (the paper's first two rows and its descriptors in transfers) cannot be switched here.");
    outcome.note("Elements fetch packets and tables ahead whenever a batch has more than one packet; that cannot be switched off by itself, so batches bring both, and the lookups alone show the second.");
    Ok(())
}

/// Nanoseconds of an item, the median of parts of one pass.
fn parts(items: &[u32], work: impl Fn(&[u32])) -> f64 {
    let each = |part: &[u32]| cycles(|| work(part)) / part.len() as f64 / cycles_per_second() * 1e9;
    median(&items.chunks(16_384).map(each).collect::<Vec<_>>())
}

/// Nanoseconds of a read at a random place, where each read says where the next one is.
fn reads(advice: i32, samples: usize) -> Result<f64, ExperimentError> {
    const WORDS: usize = (64 << 20) / 4;
    let mut memory = Pages::new(4 * WORDS, advice)?;
    let words = memory.words();
    (0..WORDS as u32).for_each(|n| words[n as usize] = n.wrapping_mul(0x9e37_79b1));
    let mut at = 1usize;
    let mut sample = || {
        let spent = cycles(|| {
            for step in 0..100_000u32 {
                at = (words[at % WORDS].wrapping_add(step) >> 4) as usize;
            }
        });
        black_box(at);
        spent / 1e5 / cycles_per_second() * 1e9
    };
    sample();
    Ok(median(&(0..samples).map(|_| sample()).collect::<Vec<_>>()))
}

/// Memory whose pages are as they were asked for.
struct Pages {
    base: *mut u8,
    whole: usize,
    bytes: usize,
    skip: usize,
}

impl Pages {
    fn new(bytes: usize, advice: i32) -> Result<Pages, ExperimentError> {
        const HUGE: usize = 2 << 20;
        let whole = bytes + HUGE;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of no file; it fails or is ours.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), whole, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(ExperimentError::io("memory")(std::io::Error::last_os_error()));
        }
        let skip = base.cast::<u8>().align_offset(HUGE);
        // SAFETY: the mapping is that long; advice changes nothing but the pages that it will have.
        unsafe { libc::madvise(base.cast::<u8>().add(skip).cast(), bytes, advice) };
        Ok(Pages { base: base.cast(), whole, bytes, skip })
    }

    fn words(&mut self) -> &mut [u32] {
        // SAFETY: zeroed pages of our own, aligned to more than a word, `bytes` long behind `skip`.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(self.skip).cast(), self.bytes / 4) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody has it any more.
        unsafe { libc::munmap(self.base.cast(), self.whole) };
    }
}

/// Thousands of packets a second of workers on these cores, all at the same time.
fn together(
    view: &fib::View,
    frames: &crate::frames::Frames,
    cores: &[usize],
    samples: usize,
) -> Result<f64, ExperimentError> {
    let begin = Barrier::new(cores.len());
    std::thread::scope(|scope| {
        let begin = &begin;
        let worker = |core: &usize| {
            let (core, view) = (*core, view.clone());
            scope.spawn(move || -> Result<f64, ExperimentError> {
                let made = pin(0, core).and_then(|()| Router::new(&view, Judge::Nothing));
                begin.wait();
                Ok(memory::cost(&mut made?, frames, How::new(4 * samples))?.kpps())
            })
        };
        let workers: Vec<_> = cores.iter().map(worker).collect();
        let panicked = || ExperimentError::Wrong("a worker panicked".to_owned());
        workers.into_iter().map(|worker| worker.join().map_err(|_| panicked())?).sum()
    })
}
