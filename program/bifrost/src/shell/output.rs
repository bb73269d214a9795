//! Where output goes: to the terminal, a screen at a time, or to whoever reads.

use std::io::{BufReader, IsTerminal, Write, stdout};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::ShellError;
use super::pipe::Pipes;
use crate::command::Failure;

/// This program once more, as a client of the same daemon.
pub(super) fn ourselves(socket: &std::path::Path) -> Command {
    // Also when another release has been installed meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("bifrost").arg("--socket").arg(socket);
    command
}

/// Runs a program. With `paged` its output is shown a screen at a time.
pub(super) fn run(mut command: Command, pipes: &Pipes, paged: bool) -> Result<(), ShellError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => ShellError::said(format!("{name} is not installed here")),
        _ => ShellError::said(format!("cannot run {name}: {error}")),
    };
    let pager = if paged { pager(pipes) } else { None };
    if pipes.passes() && pager.is_none() {
        return ended(command.status().map_err(failed)?);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let Some(output) = child.stdout.take() else { return Err(ShellError::said("no output")) };
    let written = write(pipes, &mut BufReader::new(output), pager);
    // Whoever has enough has ended the reading; the program notices when it writes.
    let status = child.wait().map_err(failed)?;
    written?;
    // Its reader may have gone first.
    if status.code().is_none() && !pipes.passes() { Ok(()) } else { ended(status) }
}

/// Shows a text.
pub(super) fn show(text: &str, pipes: &Pipes) -> Result<(), ShellError> {
    write(pipes, &mut text.as_bytes(), pager(pipes))
}

fn write(pipes: &Pipes, from: &mut dyn std::io::BufRead, pager: Option<Child>) -> Result<(), ShellError> {
    let Some(mut pager) = pager else { return Ok(pipes.run(from, &mut stdout().lock())?) };
    let Some(mut into) = pager.stdin.take() else { return Ok(()) };
    let done = pipes.run(from, &mut into);
    drop(into);
    let _ = pager.wait();
    match done {
        // Enough was seen.
        Err(Failure::OutputClosed) => Ok(()),
        done => Ok(done?),
    }
}

/// What shows a screen at a time, where there is a screen.
fn pager(pipes: &Pipes) -> Option<Child> {
    if pipes.all_at_once
        || !stdout().is_terminal()
        || std::env::var_os("TERM").is_none_or(|term| term == "dumb")
    {
        return None;
    }
    let mut less = Command::new("less");
    // What fits is printed, and nothing else is run or read from there.
    less.args(["-F", "-X", "-R", "-K"]).env("LESSSECURE", "1").env_remove("LESS").stdin(Stdio::piped());
    stdout().flush().ok()?;
    less.spawn().ok()
}

fn ended(status: std::process::ExitStatus) -> Result<(), ShellError> {
    use std::os::unix::process::ExitStatusExt;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(ShellError::Program(u8::try_from(code).unwrap_or(1))),
        // Ctrl-C, as a shell says it.
        None => {
            Err(ShellError::Program(status.signal().map_or(1, |signal| 128u8.wrapping_add(signal as u8))))
        }
    }
}
