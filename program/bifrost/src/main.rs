//! Bifrost, the program. All of it is in the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    bifrost::program::main(&[])
}
