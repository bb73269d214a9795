use std::{io, time::Duration};

/// What can go wrong in a lab, with enough words to act on it.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Namespaces need privileges.
    #[error("a lab makes network namespaces: run it as root")]
    NotRoot,
    /// Another living process has a lab of this name.
    #[error("the lab '{lab}' is already running (process {pid}): end that one first")]
    Busy {
        /// Name of the lab.
        lab: String,
        /// The process that has it.
        pid: i32,
    },
    /// A command on a host ended with an error.
    #[error("on {host}: `{command}` failed ({status}): {said}")]
    Command {
        /// The host it ran on.
        host: String,
        /// The command, as a shell would take it.
        command: String,
        /// How it ended.
        status: String,
        /// The end of what it printed.
        said: String,
    },
    /// A condition did not come true in time.
    #[error("waited {after:?} in vain for {what}{}", if .last.is_empty() { String::new() } else { format!(": {}", .last) })]
    Timeout {
        /// The condition.
        what: String,
        /// How long it had.
        after: Duration,
        /// What was seen last instead.
        last: String,
    },
    /// A program printed something else than was expected of it.
    #[error("{program} printed what cannot be read as {expected}: {got}")]
    Output {
        /// Which program.
        program: String,
        /// What was expected.
        expected: &'static str,
        /// What came.
        got: String,
    },
    /// A virtual machine could not be made, or is gone.
    #[error("the machine with kernel {kernel} {what}{}", if .console.is_empty() { String::new() } else { format!("; its console:\n{console}") })]
    Machine {
        /// The kernel it was to have.
        kernel: String,
        /// What is wrong with it.
        what: String,
        /// The end of what its console said.
        console: String,
    },
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Its answer.
        source: io::Error,
    },
}

/// A result whose error is a [`LabError`].
pub type Result<T> = std::result::Result<T, LabError>;

impl LabError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let what = what.into();
        move |source| LabError::Io { what, source }
    }
}
