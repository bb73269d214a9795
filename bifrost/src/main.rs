//! Bifrost, the program: the daemon and the command line that talks to it.
//!
//! Exit codes: 0 done, 1 failed (the reason is on standard error), 2 the command line makes no sense.

mod command;
mod daemon;
mod pcapng;

use std::process::ExitCode;

use clap::Parser;

use command::{Failure, args::Args};

fn main() -> ExitCode {
    let args = Args::parse();
    match command::execute(args) {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprintln!("bifrost: {message}");
            ExitCode::from(2)
        }
        Err(failure) => {
            eprintln!("bifrost: {failure}");
            ExitCode::FAILURE
        }
    }
}
