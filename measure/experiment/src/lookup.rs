//! The longest match alone: tables of a thousand to two million routes, sequential and random
//! addresses.

use std::hint::black_box;
use std::time::Instant;

use fib::{NextHopId, View};
use lab::prefixes::{Random, inside4, ipv4};
use trial::page::{Axis, Chart, Series};

use crate::measure::{cycles, cycles_per_second, median, on_last_core};
use crate::outcome::Table;
use crate::{Experiment, ExperimentError, Outcome, Run, memory};

pub const EXPERIMENT: Experiment = Experiment {
    name: "lookup",
    question: "What does a longest-prefix match cost, by the size of the table and the order of addresses?",
    source: "Kongress 2008 (fib_trie), RouteBricks 2009 (about 300,000 routes)",
    needs_root: false,
    work,
};

const BATCH: usize = 64;
/// Addresses that come again and again.
const WARM: usize = 65_536;
/// Addresses that each come once.
const COLD: usize = 4 << 20;
/// Nanoseconds that Linux's fib_trie takes for one, in a full table (facts of its authors and of
/// later measurements).
const FIB_TRIE: f64 = 50.0;

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    on_last_core(|| measure(run, outcome))
}

fn measure(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let sizes: &[usize] =
        run.either(&[1000, 10_000, 100_000, 300_000, 1_000_000, 2_000_000], &[1000, 100_000]);
    let (samples, cold) = run.either((31, COLD), (5, WARM));
    let mut table = Table::new(
        "nanoseconds a lookup, IPv4, one core (then: fib_trie)",
        &[
            "routes",
            "then",
            "in sequence",
            "65,536 at random",
            "the same, one by one",
            "each once, at random",
            "table, MB",
            "built, s",
        ],
    );
    let mut lines: [Vec<(f64, f64)>; 3] = Default::default();
    for &count in sizes {
        run.say(&format!("{count} routes"));
        let mut random = Random(20_261_121);
        let routes = ipv4(count, &mut random);
        let begin = Instant::now();
        let tables = memory::tables(&routes)?;
        let filled = begin.elapsed().as_secs_f64();
        let view = tables.view();
        let mut some = |many: usize| -> Vec<u32> {
            (0..many).map(|_| inside4(routes[random.below(routes.len())], &mut random)).collect()
        };
        let (warm, once) = (some(WARM), some(cold));
        // From a route's own address on: neighbouring addresses, as a scan or a large subnet makes
        // them.
        let first = routes[0].network().to_bits();
        let sequence: Vec<u32> = (0..WARM as u32).map(|n| first.wrapping_add(n)).collect();
        let in_sequence = nanoseconds(samples, &sequence, |part| batches(&view, part));
        let at_random = nanoseconds(samples, &warm, |part| batches(&view, part));
        let one_by_one = nanoseconds(samples, &warm, |part| {
            for address in part {
                black_box(view.lookup4(*address));
            }
        });
        let parts: Vec<f64> =
            once.chunks(WARM).map(|part| per_item(part, |part| batches(&view, part))).collect();
        let each_once = median(&parts);
        for (line, value) in lines.iter_mut().zip([in_sequence, at_random, each_once]) {
            line.push((count as f64, value));
        }
        let published = if count == 300_000 || count == 1_000_000 { FIB_TRIE.into() } else { "".into() };
        let megabytes = tables.memory().worker_bytes as f64 / 1e6;
        table.row(
            notation::grouped(count as u64),
            [
                published,
                in_sequence.into(),
                at_random.into(),
                one_by_one.into(),
                each_once.into(),
                megabytes.into(),
                filled.into(),
            ],
        );
    }
    outcome.tables.push(table);
    let [sequence, warm, once] = lines;
    outcome.charts.push(
        Chart::new("A lookup by the size of the table", Axis::log("routes"), Axis::linear("ns").from(0.0))
            .series(Series::line("in sequence", sequence))
            .series(Series::line("65,536 at random", warm.clone()))
            .series(Series::line("each once, at random", once))
            .series(Series::reference("fib_trie, full table", warm.iter().map(|(x, _)| (*x, FIB_TRIE)))),
    );
    outcome.note(format!(
        "Lookups in batches of {BATCH}, whose memory is fetched ahead, but for `one by one`. Each once: {cold} addresses in one pass, so that caches help little. Medians."
    ));
    outcome.note("The old tables give forwarding rates and not lookups; 50 ns is what fib_trie takes in a full table on later machines.");
    Ok(())
}

fn batches(view: &View, addresses: &[u32]) {
    let mut ids = [NextHopId::NONE; BATCH];
    for batch in addresses.as_chunks::<BATCH>().0 {
        view.lookup4_batch(batch, &mut ids);
        black_box(&mut ids);
    }
}

fn per_item(items: &[u32], work: impl Fn(&[u32])) -> f64 {
    cycles(|| work(items)) / items.len() as f64 / cycles_per_second() * 1e9
}

fn nanoseconds(samples: usize, addresses: &[u32], work: impl Fn(&[u32])) -> f64 {
    work(addresses);
    median(&(0..samples).map(|_| per_item(addresses, &work)).collect::<Vec<_>>())
}
