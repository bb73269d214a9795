//! Shell completions and manual pages, from the definitions of the command line.

use std::io::{Write, stdout};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Failure;
use super::args::Args;

pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "bifrost", &mut script);
    stdout().write_all(&script).map_err(Failure::output)
}

pub fn manual(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Args::command(), directory))
        .map_err(|error| Failure::Io {
            what: format!("cannot write the manual to {}", directory.display()),
            error,
        })
}
