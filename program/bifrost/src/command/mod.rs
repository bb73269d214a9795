//! The command line: one definition, from which the help, the shell completions and the manual
//! pages are made as well.

pub mod args;
mod beyond;
mod capture;
mod check;
mod click;
mod commit;
mod doctor;
mod expect;
mod experiment;
mod explain;
mod extcap;
mod flow_log;
pub(crate) mod flows;
mod r#gen;
mod generate;
mod handle;
pub(crate) mod import;
mod interfaces;
pub(crate) mod listing;
mod picture;
mod result_file;
mod rfc2544;
mod run;
mod set;
mod settings;
mod show;
mod sink;
mod support;
pub(crate) mod table;
mod tcpdump;
mod token;
mod top;
mod trace;
mod trial_view;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::control::{Client, ClientError, DEFAULT_SOCKET, WordError};

use args::{Args, Clear, Clearable, Command};

pub(crate) use commit::{minutes, origin};
pub use generate::offer;
pub(crate) use interfaces::names as interfaces;

/// A daemon whose stream is silent for so long is reported as stuck.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(15);

/// Why a command failed. Shown to the operator as it is.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The daemon.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Writing the answer, or a file.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        error: io::Error,
    },
    /// A packet or filter that makes no sense.
    #[error(transparent)]
    Usage(#[from] WordError),
    /// Anything else, as a sentence.
    #[error("{0}")]
    Said(String),
    /// Whoever read our output has enough.
    #[error("nobody reads the output any more")]
    OutputClosed,
}

impl Failure {
    /// Something went wrong with the output.
    pub(crate) fn output(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Io { what: "cannot write the output".to_owned(), error },
        }
    }
}

/// Does what the command line says. `extra` are classes of elements beside those of the library.
pub fn execute(args: Args, extra: &[&'static graph::Class]) -> Result<ExitCode, Failure> {
    let socket = args.socket.as_deref().unwrap_or(Path::new(DEFAULT_SOCKET));
    let done = match args.command {
        Command::Click(options) => return click::click(&options, extra),
        Command::Doctor(options) => return doctor::doctor(options),
        Command::Experiment(options) => return experiment::experiment(&options),
        Command::Gen(options) => return r#gen::run(&options),
        Command::Rfc2544(options) => rfc2544::rfc2544(*options),
        Command::Sink(sink) => sink::run(&sink),
        Command::Run(run) => run::run(run, args.socket, registry(extra)),
        Command::Check { file, output } => check::check(&file, &registry(extra), output),
        Command::Commit(args) => commit::commit(args, connect(socket)?),
        Command::Confirm(output) => commit::confirm(output, connect(socket)?),
        Command::Rollback(args) => commit::rollback(args, connect(socket)?),
        Command::History(output) => commit::history(output, connect(socket)?),
        Command::Compare(args) => commit::compare(args, connect(socket)?),
        Command::Cli(cli) => return crate::shell::run(cli, socket),
        Command::Schema => schema(),
        Command::Token(args) => token::token(args),
        Command::Import(asked) => import::import(&asked),
        Command::Reload(args) => handle::reload(args, connect(socket)?),
        Command::Upgrade(output) => handle::upgrade(&output, connect(socket)?),
        Command::Set(set) => set::set(&set, connect(socket)?),
        Command::Redundancy(what) => handle::redundancy(what, connect(socket)?),
        Command::Restart(args) => handle::restart(args, connect(socket)?),
        Command::Clear(Clear { what: Clearable::Flows { which, output, .. } }) => {
            flows::clear(connect(socket)?, &which, output)
        }
        Command::Read(read) => handle::read(&read, connect(socket)?),
        Command::Write(write) => handle::write(&write, connect(socket)?),
        Command::Show(what) => show::show(what, connect(socket)?),
        Command::Flows(asked) => flow_log::flows(asked, socket),
        Command::Rtstat(rtstat) => flows::rtstat(connect(socket)?, &rtstat),
        Command::Top(top) => top::top(&top, connect(socket)?),
        Command::Explain(explain) => explain::explain(&explain, socket),
        Command::Trace(trace) => trace::trace(&trace, socket),
        Command::Capture(capture) => capture::capture(&capture, socket),
        Command::Tcpdump { words } => return tcpdump::tcpdump(&words, socket),
        Command::Bfd => run::bfd(socket),
        Command::Support(args) => support::support(&args, socket),
        Command::Settings { file } => settings::settings(&file),
        Command::Extcap { words } => extcap::extcap(&words, socket),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { directory } => generate::manual(&directory),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// The classes of the library and these.
fn registry(extra: &[&'static graph::Class]) -> graph::Registry {
    let mut registry = elements::registry();
    registry.add(extra);
    registry
}

fn connect(socket: &Path) -> Result<Client, Failure> {
    Ok(Client::connect(socket)?)
}

/// `schema`.
fn schema() -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(&config::schema::json_schema());
    table::print(&(json.map_err(|error| Failure::output(error.into()))? + "\n"))
}
