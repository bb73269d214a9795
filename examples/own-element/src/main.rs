//! Bifrost, with one element more.

mod ttl_histogram;

use std::process::ExitCode;

fn main() -> ExitCode {
    bifrost::program::main(&[&ttl_histogram::CLASS])
}
