use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{LabError, Result};

/// A program that was started on a host; it is ended when this is dropped.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// Who has taken over from it.
    successor: Option<Pid>,
}

impl Process {
    /// In a process group of its own, so that Ctrl-C reaches the lab alone, which then ends it in
    /// order.
    pub(crate) fn spawn(name: &str, mut command: Command, log: PathBuf) -> Result<Process> {
        let file = File::create(&log).map_err(LabError::io(log.display().to_string()))?;
        let copy = file.try_clone().map_err(LabError::io(log.display().to_string()))?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(copy).process_group(0).spawn();
        let child = child.map_err(LabError::io(format!("starting {name}")))?;
        Ok(Process { name: name.to_owned(), child, log, successor: None })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.successor.map_or(self.child.id(), |successor| successor.as_raw() as u32)
    }

    /// Another process takes over from it, and has its output: waits for its end, and means that
    /// one from then on.
    pub fn succeed(&mut self, pid: u32, limit: Duration) -> Result<()> {
        self.wait(limit)?;
        self.successor = Some(Pid::from_raw(pid as i32));
        Ok(())
    }

    /// What it printed so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Whether it still runs, and if not, how it ended, as far as that can be known.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if let Some(successor) = self.successor {
            let text = fs::read_to_string(format!("/proc/{successor}/stat")).unwrap_or_default();
            let state = text.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
            return matches!(state, None | Some("Z" | "X")).then(ExitStatus::default);
        }
        self.child.try_wait().ok().flatten()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let _gone_already = kill(Pid::from_raw(self.pid() as i32), signal);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`LabError::Timeout`] with the last it printed, when it goes on.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if start.elapsed() > limit {
                let output = self.output();
                let last = output.lines().last().unwrap_or_default().to_owned();
                return Err(LabError::Timeout {
                    what: format!("the end of {}", self.name),
                    after: limit,
                    last,
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks it to end (SIGTERM) and waits.
    pub fn stop(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM);
        self.wait(limit)
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(&mut self) {
        if self.successor.is_some() {
            self.signal(Signal::SIGKILL);
            let _it_was_told = self.wait(Duration::from_secs(10));
        }
        let _gone_already = self.child.kill();
        let _its_status_says_killed = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
