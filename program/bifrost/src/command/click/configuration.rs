//! A configuration on its way from text to graph, also more than once: `hotconfig` makes another
//! graph of another text in the same context.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use graph::language::{self, Report, Texts};
use graph::{Environment, Graph, Manner, Program, Refusal, Registry, Sources};

use super::Failure;
use super::options::{Parameters, Source};

/// The directory that libraries are looked for in when nothing else is said.
const LIBRARIES: &str = "/usr/share/bifrost/click";

/// What is said last when it is the elements that object.
pub const NOT_INITIALIZED: &str = "Router could not be initialized!";

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
        // Click takes any bytes. What is not UTF-8 is Latin-1, as such texts mostly are: then every
        // byte is a character.
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| error.as_bytes().iter().copied().map(char::from).collect()))
    }

    /// Checks a text.
    pub fn compile(&self, text: &str) -> Result<Program, Refusal> {
        let mut texts = Texts::new();
        let number = texts.add(&self.source.name(), text);
        let mut find = |name: &str, requirer: &str| self.library(name, requirer);
        let sources =
            Sources { defines: &self.parameters, libraries: Some(&mut find), additions: &self.additions() };
        Program::compile_with(texts, number, sources, &self.registry, &self.environment)
    }

    /// The elements that the command line adds to the text.
    fn additions(&self) -> Vec<(String, String, String)> {
        let name = |number: usize| match number {
            0 => "click_driver@@ControlSocket".to_owned(),
            number => format!("click_driver@@ControlSocket@{number}"),
        };
        let control = self.control.iter().enumerate();
        control.map(|(number, text)| (name(number), "ControlSocket".to_owned(), text.clone())).collect()
    }

    /// The name and the text of a library that is required in a file: it is looked for beside that
    /// file, then here, then in the directories of libraries.
    fn library(&self, name: &str, requirer: &str) -> Result<(String, String), String> {
        let beside = Path::new(requirer).parent().map(|directory| directory.join(name));
        let places = [PathBuf::from(name)]
            .into_iter()
            .chain(self.libraries.iter().map(|directory| directory.join(name)));
        let places = beside.into_iter().chain(places);
        for path in places {
            if let Ok(text) = std::fs::read_to_string(&path) {
                return Ok((path.display().to_string(), text));
            }
        }
        Err(format!("can't find library '{name}'"))
    }

    /// Makes a graph of a text, for the running one to change to.
    pub fn make(&self, text: &str) -> Result<Graph, String> {
        let made = self
            .compile(text)
            .and_then(|program| program.instantiate(&self.environment, self.manner.clone()));
        made.map_err(|refusal| {
            let last = if refusal.understood { NOT_INITIALIZED } else { "" };
            refusal.lines + last
        })
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
