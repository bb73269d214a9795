//! Every measured figure, one ruler: `make bench`, or `make bench ONLY=fib`.
//!
//! A family of benches is one file with a `run(&mut Ruler)`, listed in [`FAMILIES`]. It asks the
//! ruler which of its names are wanted, measures, and records samples; the ruler prints them as a
//! table and writes `target/bench.json`.

mod baseline;
mod device;
mod fib;
mod flow;
mod frames;
mod generator;
mod graph;
mod memif;
mod mirror;
mod multicast;
mod plane;
mod policy;
mod reference;
mod ruler;
mod rules;

use clap::Parser;
use ruler::Ruler;

/// In the order of the table. `reference` comes first: every other row shows its ratio to it.
const FAMILIES: &[fn(&mut Ruler)] = &[
    reference::run,
    fib::run,
    flow::run,
    generator::run,
    graph::run,
    rules::run,
    plane::run,
    multicast::run,
    memif::run,
    mirror::run,
    policy::run,
    device::run,
];

#[derive(Parser)]
#[command(about = "Measures Bifrost on this machine")]
struct Arguments {
    /// Only the benches whose names start so (and the reference).
    #[arg(long, value_name = "PREFIX", default_value = "")]
    only: String,
    /// Where the figures go, as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/bench.json")]
    json: std::path::PathBuf,
    /// Keeps the figures in this file (measure/bench/baseline.json), to be compared with from now
    /// on.
    #[arg(long, value_name = "FILE")]
    keep: Option<std::path::PathBuf>,
}

fn main() -> std::process::ExitCode {
    if memif::forward_if_asked() {
        return std::process::ExitCode::SUCCESS;
    }
    let arguments = Arguments::parse();
    let mut ruler = Ruler::new(arguments.only);
    FAMILIES.iter().for_each(|run| run(&mut ruler));
    match ruler.finish(&arguments.json, arguments.keep.as_deref()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
