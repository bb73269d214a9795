//! `bifrost cli`: a shell with two modes. *Operate* asks and acts, *configure* edits a candidate
//! and commits it.
//!
//! ```text
//!   a line ──► words, pipes ──► a word of others? ──► operate ──► this program again, ping, vtysh
//!                                                └──► configure ──► the candidate ──► the daemon
//! ```
//!
//! Commands of operate mode are run as processes: so Ctrl-C ends one and not the shell, and the
//! shell prints what the command prints. What the shell knows of a router it asks the daemon, as
//! any client does.

mod commit;
mod complete;
mod configure;
mod editing;
mod foreign;
mod lock;
mod operate;
mod output;
mod pipe;
mod prompt;
mod session;
mod user_state;
mod views;

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as Arguments;

use crate::command::Failure;
use session::{Next, Session};

/// `cli`.
#[derive(Debug, Arguments)]
pub struct Cli {
    /// Do this and end; several are done one after the other, up to the first that fails
    #[arg(short = 'c', long = "command", value_name = "LINE")]
    pub lines: Vec<String>,
    /// Where your candidate and the lines that you typed are kept [default:
    /// /var/lib/bifrost/candidates for root, else ~/.local/state/bifrost]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// Why a line was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShellError {
    /// The daemon, files, the terminal.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// The candidate.
    #[error(transparent)]
    Edit(#[from] candidate::EditError),
    /// A program, which has said why.
    #[error("it ended with {0}")]
    Program(u8),
}

impl From<crate::control::ClientError> for ShellError {
    fn from(error: crate::control::ClientError) -> ShellError {
        ShellError::Failure(error.into())
    }
}

impl ShellError {
    fn said(text: impl Into<String>) -> ShellError {
        ShellError::Failure(Failure::Said(text.into()))
    }

    /// Says it, and where it was; gives the code to end with.
    fn tell(&self, place: &str) -> u8 {
        match self {
            ShellError::Program(code) => return *code,
            ShellError::Failure(Failure::OutputClosed) => return 0,
            error => eprintln!("bifrost: {place}{error}"),
        }
        1
    }
}

/// Runs the shell.
pub fn run(cli: Cli, socket: &Path) -> Result<ExitCode, Failure> {
    let on_terminal = cli.lines.is_empty() && std::io::stdin().is_terminal();
    let mut session = Session::new(socket, cli.state, on_terminal);
    if on_terminal {
        return prompt::run(session);
    }
    if !cli.lines.is_empty() {
        return Ok(each(&mut session, cli.lines.into_iter().map(Ok), |_| String::new()));
    }
    Ok(each(&mut session, std::io::stdin().lock().lines(), |number| format!("line {number}: ")))
}

/// Does lines up to the first that fails: what follows may build on it.
fn each(
    session: &mut Session,
    lines: impl Iterator<Item = std::io::Result<String>>,
    place: impl Fn(usize) -> String,
) -> ExitCode {
    for (before, line) in lines.enumerate() {
        let done = match line {
            Ok(line) => session.line(&line),
            Err(error) => Err(ShellError::said(format!("cannot read the lines: {error}"))),
        };
        match done {
            Ok(Next::Line) => {}
            Ok(Next::End) => break,
            Err(error) => return ExitCode::from(error.tell(&place(before + 1))),
        }
    }
    session.close();
    ExitCode::SUCCESS
}
