//! The program: what its command line says is done, and how it ends.
//!
//! Exit codes: 0 done, 1 failed (the reason is on standard error), 2 the command line makes no sense.

use std::process::ExitCode;

use clap::Parser;

use crate::command::{self, Failure, args::Args};

/// Runs the program.
pub fn main() -> ExitCode {
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
