//! Who starts and stops daemons: systemd, or where that does not run a program that understands the
//! same words, `PROGRAM restart UNIT`, `PROGRAM stop UNIT`, `PROGRAM is-active UNIT`.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::tool;

/// That systemd runs.
const SYSTEMD: &str = "/run/systemd/system";
/// Seconds that an order may take.
pub(crate) const LIMIT: &str = "10";
/// By which `timeout` says that it took longer.
const TIMED_OUT: i32 = 124;
/// A daemon that cannot go on says so by ending, soon after it was started.
const LOOKS: u32 = 5;
const LOOK: Duration = Duration::from_millis(100);

/// Who starts and stops daemons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manager {
    /// systemd.
    Systemd,
    /// A program.
    Program(PathBuf),
}

/// Why a daemon does not do as it is told.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// There is nobody to tell.
    #[error("systemd does not run here: [service] manager names a program that starts and stops daemons")]
    Nobody,
    /// The program is not one that root alone can change.
    #[error("{}: not root alone can change it, so it is not run", .0.display())]
    Untrusted(PathBuf),
    /// No answer.
    #[error("{order} {unit} takes longer than {LIMIT} seconds: `systemctl status {unit}`")]
    Late {
        /// What it was told.
        order: &'static str,
        /// The unit.
        unit: &'static str,
    },
    /// It is refused.
    #[error("{order} {unit} fails: {said}")]
    Refused {
        /// What it was told.
        order: &'static str,
        /// The unit.
        unit: &'static str,
        /// What was said.
        said: String,
    },
    /// It ends again.
    #[error("{unit} ends as soon as it is started: `journalctl -u {unit}`")]
    Ends {
        /// The unit.
        unit: &'static str,
    },
    /// The system.
    #[error("cannot run {program}: {error}")]
    Io {
        /// What was run.
        program: String,
        /// What it said.
        error: io::Error,
    },
    /// It is not installed.
    #[error("{0}")]
    Missing(String),
}

impl Manager {
    /// The one of this machine, or the program that is named.
    ///
    /// # Errors
    /// There is none, or one that others than root can change.
    pub fn of(named: Option<&Path>) -> Result<Manager, ManagerError> {
        match named {
            Some(program) if is_roots_own(program) => Ok(Manager::Program(program.to_owned())),
            Some(program) => Err(ManagerError::Untrusted(program.to_owned())),
            None if Path::new(SYSTEMD).is_dir() => Ok(Manager::Systemd),
            None => Err(ManagerError::Nobody),
        }
    }

    /// Whether a unit runs.
    ///
    /// # Errors
    /// When that cannot be asked.
    pub fn is_active(&self, unit: &'static str) -> Result<bool, ManagerError> {
        Ok(self.ask("is-active", unit, &[])?.0)
    }

    /// Starts a unit anew, and sees that it runs then. `at_once`: what comes of it is not awaited.
    ///
    /// # Errors
    /// It does not run.
    pub fn restart(&self, unit: &'static str, at_once: bool) -> Result<(), ManagerError> {
        if *self == Manager::Systemd {
            // Who commits often is not a daemon that fails often.
            self.ask("reset-failed", unit, &[])?;
        }
        let more: &[&str] = if at_once && *self == Manager::Systemd { &["--no-block"] } else { &[] };
        self.order("restart", unit, more)?;
        if at_once {
            return Ok(());
        }
        for _ in 0..LOOKS {
            sleep(LOOK);
            if !self.is_active(unit)? {
                return Err(ManagerError::Ends { unit });
            }
        }
        Ok(())
    }

    /// Ends a unit.
    ///
    /// # Errors
    /// It does not end.
    pub fn stop(&self, unit: &'static str) -> Result<(), ManagerError> {
        self.order("stop", unit, &[])
    }

    fn order(&self, order: &'static str, unit: &'static str, more: &[&str]) -> Result<(), ManagerError> {
        match self.ask(order, unit, more)? {
            (true, _) => Ok(()),
            (false, said) => Err(ManagerError::Refused { order, unit, said }),
        }
    }

    fn ask(
        &self,
        order: &'static str,
        unit: &'static str,
        more: &[&str],
    ) -> Result<(bool, String), ManagerError> {
        let mut command = match self {
            Manager::Systemd => tool::command("systemctl", "systemd").map_err(ManagerError::Missing)?,
            Manager::Program(program) => {
                let mut command = Command::new(program);
                command.env_clear().stdin(Stdio::null());
                command
            }
        };
        command.arg(order).args(more).arg(unit);
        run(&command)?.ok_or(ManagerError::Late { order, unit })
    }
}

/// Runs a command for a limited time: whether it succeeds, and what it says; `None`: it took
/// longer.
pub(crate) fn run(command: &Command) -> Result<Option<(bool, String)>, ManagerError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| ManagerError::Io { program: program.clone(), error };
    let mut limited = tool::command("timeout", "coreutils").map_err(ManagerError::Missing)?;
    limited.args(["--kill-after=1", LIMIT]).arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    // In memory, and not by a pipe, which a daemon that it starts would hold.
    let memory = memfd_create(c"said", MFdFlags::MFD_CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut said = File::from(memory);
    let both = || said.try_clone().map_err(failed);
    let status = limited.stdout(both()?).stderr(both()?).status().map_err(failed)?;
    let mut text = Vec::new();
    said.rewind().and_then(|()| said.read_to_end(&mut text)).map_err(failed)?;
    let lines = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Ok((status.code() != Some(TIMED_OUT)).then(|| (status.success(), lines.join("; "))))
}

/// Whether nobody but root (or who this process is) can change what this path leads to: who may
/// write router.toml need not be root, and is not to become so.
fn is_roots_own(path: &Path) -> bool {
    const OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let this = nix::unistd::geteuid().as_raw();
    let Ok(whole) = fs::canonicalize(path) else { return false };
    whole.ancestors().all(|part| {
        fs::metadata(part).is_ok_and(|facts| {
            let safe = facts.mode() & OTHERS == 0 || (facts.is_dir() && facts.mode() & STICKY != 0);
            (facts.uid() == 0 || facts.uid() == this) && safe
        })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_that_others_can_change_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("manager");
        // What sleeps stands for a daemon that goes on when the program has ended.
        fs::write(&program, "#!/bin/sh\necho \"$1 of $2\"; sleep 60 & [ $2 != bad ]\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let manager = Manager::of(Some(&program)).unwrap();
        assert!(manager.is_active("good").unwrap());
        // What it leaves behind does not hold who asked.
        let said = manager.stop("bad").unwrap_err().to_string();
        assert_eq!(said, "stop bad fails: stop of bad");
        for mode in [0o775, 0o757] {
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(Manager::of(Some(&program)), Err(ManagerError::Untrusted(_))));
        }
    }
}
