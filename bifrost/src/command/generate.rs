//! Shell completions and manual pages, from the definitions of the command line.
//!
//! A shell's script asks the program itself what could follow ([`offer`]): so it knows the interfaces of the moment.

use std::io::{Write, stdout};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

use super::Failure;
use super::args::Args;

/// The variable by which a shell's script asks.
const ASKED: &str = "BIFROST_COMPLETE";

/// Answers a shell that asks what could follow, and ends the program; does nothing when none asks.
pub fn offer() {
    CompleteEnv::with_factory(Args::command).var(ASKED).complete();
}

pub fn completions(shell: Shell) -> Result<(), Failure> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let completer =
        shells.completer(&name).ok_or_else(|| Failure::Said(format!("no completions for {name}")))?;
    let mut script = Vec::new();
    completer
        .write_registration(ASKED, "bifrost", "bifrost", "bifrost", &mut script)
        .and_then(|()| stdout().write_all(&script))
        .map_err(Failure::output)
}

pub fn manual(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Args::command(), directory))
        .map_err(|error| Failure::Io {
            what: format!("cannot write the manual to {}", directory.display()),
            error,
        })
}
