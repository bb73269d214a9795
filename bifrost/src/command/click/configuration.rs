//! A configuration on its way from text to graph, also more than once: `hotconfig` makes another graph of another text
//! with the same surroundings.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use graph::language::{self, Report, Texts};
use graph::{Environment, Graph, Manner, Program, Refusal, Registry};

use super::Failure;
use super::options::{Parameters, Source};

/// The directory that libraries are looked for in when nothing else is said.
const LIBRARIES: &str = "/usr/share/bifrost/click";

/// Where the text comes from, and everything that is needed to make a graph of it.
pub struct Configuration {
    pub source: Source,
    pub parameters: Parameters,
    /// Configurations of ControlSockets that the command line adds.
    pub control: Vec<String>,
    /// Directories with libraries.
    pub libraries: Vec<PathBuf>,
    pub registry: Registry,
    pub environment: Environment,
    pub manner: Manner,
}

impl Configuration {
    /// Reads the text.
    pub fn read(&self) -> io::Result<String> {
        let mut bytes = Vec::new();
        match &self.source {
            Source::Expression(text) => return Ok(text.clone()),
            Source::File(Some(path)) => bytes = std::fs::read(path)?,
            Source::File(None) => {
                io::stdin().read_to_end(&mut bytes)?;
            }
        }
        String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text"))
    }

    /// Checks a text.
    pub fn compile(&self, text: &str) -> Result<Program, Refusal> {
        let mut texts = Texts::new();
        let number = texts.add(&self.source.name(), text);
        Program::compile(texts, number, &self.parameters, &self.registry, &self.environment)
    }

    /// Makes a graph of a text, for the running one to change to.
    pub fn make(&self, text: &str) -> Result<Graph, String> {
        let made = self
            .compile(text)
            .and_then(|program| program.instantiate(&self.environment, self.manner.clone()));
        made.map_err(|refusal| refusal.to_string())
    }

    /// Prints the text tidied up.
    pub fn format(&self, text: &str) -> Result<ExitCode, Failure> {
        let mut texts = Texts::new();
        let number = texts.add(&self.source.name(), text);
        let mut report = Report::new();
        let tree = language::parse(&texts, number, &mut report);
        if report.has_errors() {
            eprint!("{}", report.render(&texts));
            return Ok(ExitCode::FAILURE);
        }
        io::stdout().write_all(language::format(&tree).as_bytes()).map_err(Failure::output)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The directories of a `CLICKPATH`. An empty one stands for ours.
pub fn libraries(path: Option<&str>) -> Vec<PathBuf> {
    let ours = || PathBuf::from(LIBRARIES);
    path.unwrap_or("")
        .split(':')
        .map(|directory| if directory.is_empty() { ours() } else { directory.into() })
        .collect()
}

/// What the system says of an error, without the number that Rust puts behind it.
pub fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}
