//! The way of a service from what it is told to what it is to be told.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::file::{FileError, Managed, Standing};
use crate::manager::{LIMIT, Manager, ManagerError, run};
use crate::tool;

/// A daemon, and what it is to be told.
#[derive(Clone, Debug)]
pub struct Service {
    /// By which operators call it.
    pub name: &'static str,
    /// Its section of `router.toml`.
    pub section: &'static str,
    /// By which it is started and stopped.
    pub unit: &'static str,
    /// Who has it.
    pub package: &'static str,
    /// What a restart does to those whom it serves.
    pub restarts: &'static str,
    /// What it reads.
    pub file: Managed,
    /// What it reads first, where the file is one among others, and a word there that leads to it.
    pub base: Option<(PathBuf, &'static str)>,
    /// Who sees whether it would take a text.
    pub check: Check,
    /// It does its work once, and is active from then on. Without a text it undoes it. What it
    /// fails at is written beside its file.
    pub once: bool,
    /// Interfaces that must be there.
    pub interfaces: Vec<String>,
    /// What it is told; `None`: nothing.
    pub text: Option<String>,
}

/// Who sees whether a daemon would take a text.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// A program, and what stands in front of the file.
    Program(&'static str, &'static [&'static str]),
    /// A function of ours.
    Own(fn(&str) -> Result<(), String>),
    /// Nobody: the daemon has no check, or one that needs what is there only while it runs.
    Nobody,
}

/// What is done to a service.
#[derive(Clone, Debug)]
pub struct Step {
    service: Service,
    /// What it was told by Bifrost.
    was: Option<String>,
    /// Whether it ran.
    ran: bool,
    /// Whether it runs when that is done.
    runs: bool,
}

/// Why a service cannot be as the file says.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Its file.
    #[error("{section}: {error}")]
    File {
        /// The section.
        section: &'static str,
        /// Why.
        error: FileError,
    },
    /// Its daemon does not take it.
    #[error("{section}: {unit} refuses it: {said}")]
    Refused {
        /// The section.
        section: &'static str,
        /// The unit.
        unit: &'static str,
        /// What it says.
        said: String,
    },
    /// Its daemon does not do as it is told.
    #[error("{section}: {error}")]
    Manager {
        /// The section.
        section: &'static str,
        /// Why.
        error: ManagerError,
    },
    /// What it listens at is not there.
    #[error("{section}: there is no interface {name}")]
    NoInterface {
        /// The section.
        section: &'static str,
        /// The interface.
        name: String,
    },
    /// It failed, and what was before could not be made again.
    #[error("{wrong}; and what was before cannot be made again: {error}")]
    Lost {
        /// What failed.
        wrong: Box<ServiceError>,
        /// What the way back failed at.
        error: Box<ServiceError>,
    },
    /// What Bifrost writes would not be read.
    #[error(
        "{section}: {} does not read {}: it has to include that folder, as the package's does",
        base.display(), folder.display()
    )]
    NotRead {
        /// The section.
        section: &'static str,
        /// What the daemon reads.
        base: PathBuf,
        /// What it does not.
        folder: PathBuf,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Service { section, unit, restarts, text, .. } = &self.service;
        match (text, self.ran, self.runs) {
            (Some(_), true, _) => write!(f, "{unit} restarts ({section}); {restarts}"),
            (Some(_), false, _) => write!(f, "{unit} starts ({section})"),
            (None, _, true) => write!(f, "{unit} restarts without {section}; {restarts}"),
            (None, _, false) => write!(f, "{unit} stops: there is no {section}"),
        }
    }
}

impl Service {
    fn file_error(&self) -> impl Fn(FileError) -> ServiceError + use<> {
        let section = self.section;
        move |error| ServiceError::File { section, error }
    }

    fn manager_error(&self) -> impl Fn(ManagerError) -> ServiceError + use<> {
        let section = self.section;
        move |error| ServiceError::Manager { section, error }
    }

    /// Whether its daemon would take what it is to be told.
    fn check(&self, text: &str) -> Result<(), ServiceError> {
        if let Some((base, word)) = &self.base {
            let reads = |text: String| text.lines().any(|line| line.contains(word) && !is_comment(line));
            if !fs::read_to_string(base).is_ok_and(reads) {
                let folder = self.file.path().parent().unwrap_or(Path::new("/")).to_owned();
                return Err(ServiceError::NotRead { section: self.section, base: base.clone(), folder });
            }
        }
        let refused = |said: String| ServiceError::Refused {
            section: self.section,
            unit: self.unit,
            said: told(&said),
        };
        let (program, before) = match self.check {
            Check::Program(program, before) => (program, before),
            Check::Own(check) => return check(text).map_err(refused),
            Check::Nobody => return Ok(()),
        };
        let missing = |said| self.manager_error()(ManagerError::Missing(said));
        let mut command = tool::command(program, self.package).map_err(missing)?;
        let new = self.file.stage(text, self.package).map_err(self.file_error())?;
        // Kea's would lock a file of the daemon's.
        command.args(before).arg(&new).env("KEA_LOCKFILE_DIR", "none");
        let checked = run(&command);
        self.file.unstage();
        // Its name for the text is not one that anybody looks for.
        let refused = |said: String| refused(said.replace(&format!("{}", new.display()), "the file"));
        match checked.map_err(self.manager_error())? {
            Some((true, _)) => Ok(()),
            Some((false, said)) => Err(refused(said)),
            None => Err(refused(format!("its check takes longer than {LIMIT} seconds"))),
        }
    }

    /// Has its daemon start anew, with what it is told already. Whether it runs then is seen.
    ///
    /// # Errors
    /// It does not.
    pub fn restart(&self, manager: Option<&Path>) -> Result<(), ServiceError> {
        let manager = Manager::of(manager).map_err(self.manager_error())?;
        manager.restart(self.unit, false).map_err(self.manager_error())
    }

    /// An interface that is not there.
    fn missing(&self) -> Option<&String> {
        self.interfaces.iter().find(|name| !Path::new("/sys/class/net").join(name).exists())
    }

    /// Whether there is something for its daemon to read, besides what Bifrost makes.
    fn has_others(&self) -> bool {
        match &self.base {
            Some((base, _)) => base.exists(),
            None => self.file.path().exists(),
        }
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// The end of what a check says, where the reason is.
fn told(said: &str) -> String {
    const MOST: usize = 600;
    // Kea's words in front of it.
    let said = said.rsplit("Error encountered: ").next().unwrap_or(said);
    let start = said.len().saturating_sub(MOST);
    let start = (start..said.len()).find(|at| said.is_char_boundary(*at)).unwrap_or(0);
    said[start..].to_owned()
}

/// What has to be done for all of them to be as they are to be. Each daemon has checked what it
/// shall be told.
///
/// # Errors
/// The first that cannot be so.
pub fn plan(services: &[Service], manager: Option<&Path>) -> Result<Vec<Step>, ServiceError> {
    let mut steps = Vec::new();
    for service in services {
        let standing = service.file.standing().map_err(service.file_error())?;
        let due = service.file.is_due();
        let was = match standing {
            Standing::Ours(text) => Some(text),
            Standing::Others if service.text.is_some() => {
                let path = service.file.path().to_owned();
                return Err(service.file_error()(FileError::Others { path }));
            }
            _ => None,
        };
        if was.is_none() && service.text.is_none() && !due {
            continue;
        }
        let manager = Manager::of(manager).map_err(service.manager_error())?;
        let ran = manager.is_active(service.unit).map_err(service.manager_error())?;
        if was == service.text && ran && !due {
            continue;
        }
        // Kea looks for interfaces; one that is made by the same commit is there when it is told.
        if let (Some(text), None) = (&service.text, service.missing()) {
            service.check(text)?;
        }
        // What a package brought comes back, and is served again.
        let without = service.once || (ran && (service.base.is_some() || service.file.is_kept()));
        let runs = service.text.is_some() || without;
        steps.push(Step { service: service.clone(), was, ran, runs });
    }
    Ok(steps)
}

/// Does them; what was done before one that fails is undone. `at_once`: whether daemons start is
/// not awaited.
///
/// # Errors
/// The first that failed.
pub fn go(steps: &[Step], manager: Option<&Path>, at_once: bool) -> Result<(), ServiceError> {
    for Step { service, .. } in steps.iter().filter(|step| step.service.text.is_some()) {
        if let Some(name) = service.missing() {
            return Err(ServiceError::NoInterface { section: service.section, name: name.clone() });
        }
    }
    for (number, step) in steps.iter().enumerate() {
        let done = make(&step.service, step.service.text.as_deref(), step.runs, manager, at_once);
        if let Err(wrong) = done {
            return Err(match undo(&steps[..=number], manager) {
                Ok(()) => wrong,
                Err(error) => ServiceError::Lost { wrong: Box::new(wrong), error: Box::new(error) },
            });
        }
    }
    Ok(())
}

/// Makes what was before steps.
///
/// # Errors
/// The first that could not be; the others are.
pub fn undo(steps: &[Step], manager: Option<&Path>) -> Result<(), ServiceError> {
    let undone =
        steps.iter().rev().map(|step| make(&step.service, step.was.as_deref(), step.ran, manager, false));
    // All of them, whatever becomes of one.
    undone.collect::<Vec<_>>().into_iter().collect()
}

fn make(
    service: &Service,
    text: Option<&str>,
    runs: bool,
    manager: Option<&Path>,
    at_once: bool,
) -> Result<(), ServiceError> {
    let manager = Manager::of(manager).map_err(service.manager_error())?;
    service.file.make(text, service.package).map_err(service.file_error())?;
    let done = match runs && (text.is_some() || service.once || service.has_others()) {
        true => manager.restart(service.unit, at_once),
        false => manager.stop(service.unit),
    };
    done.map_err(|error| match service.once.then(|| service.file.failure()).flatten() {
        Some(said) => ServiceError::Refused { section: service.section, unit: service.unit, said },
        None => service.manager_error()(error),
    })?;
    service.file.told();
    Ok(())
}
