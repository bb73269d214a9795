//! Shell completions and manual pages, from the definitions of the command line.
//!
//! A shell's script asks the program itself what could follow ([`offer`]): so it knows the
//! interfaces of the moment.

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

/// The page of the configuration: the commented sample, as it stands.
fn configuration() -> String {
    let mut page = ".TH router.toml 5\n.SH NAME\nrouter.toml \\- configuration of Bifrost\n.SH SYNOPSIS\n\
                    /etc/bifrost/router.toml\n.SH DESCRIPTION\nA file in TOML. \\fBbifrost check FILE\\fR says what is \
                    wrong with one. Here are all of its keys; those behind # are examples, the others have their \
                    defaults.\n.PP\n.nf\n"
        .to_owned();
    for line in include_str!("../../../../docs/router.toml").lines() {
        // A dot or quote in front would be a command of roff's.
        page += &format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-"));
    }
    page + ".fi\n.SH SEE ALSO\n\\fBbifrost\\fR(1)\n"
}

pub fn manual(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Args::command(), directory))
        .and_then(|()| std::fs::write(directory.join("router.toml.5"), configuration()))
        .map_err(|error| Failure::Io {
            what: format!("cannot write the manual to {}", directory.display()),
            error,
        })
}
