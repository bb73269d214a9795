//! The router under test: Bifrost in a host's namespace, or Linux alone in the same place.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::OnceLock,
    time::Duration,
};

use serde_json::Value;

use crate::{
    Host, LabError, Process, Result,
    routes::{self, Routes},
    wait_for,
};

/// Who forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// Bifrost, as is meant.
    Bifrost,
    /// Linux alone: what a test still expects then shows that the test itself is right.
    Linux,
}

impl Plane {
    /// Linux when the environment says `ROUTER=linux`, else Bifrost.
    pub fn from_environment() -> Plane {
        if std::env::var("ROUTER").is_ok_and(|r| r == "linux") { Plane::Linux } else { Plane::Bifrost }
    }
}

/// A host's forwarding plane.
pub struct Router {
    host: Host,
    program: PathBuf,
    config: PathBuf,
    socket: PathBuf,
    process: Option<Process>,
    plane: Plane,
}

impl Router {
    /// Starts `bifrost run` on a host with this router.toml and waits until it answers. The control
    /// socket is added to it.
    ///
    /// # Errors
    /// What the daemon printed, when it ends at once; that it has to be built, when it is missing.
    pub fn start(host: &Host, config: &str) -> Result<Router> {
        let mut router = Router::stopped(host, config)?;
        router.restart()?;
        Ok(router)
    }

    /// A router whose plane is not running yet.
    pub fn stopped(host: &Host, config: &str) -> Result<Router> {
        let plane = Plane::from_environment();
        let socket = host.folder().join("control.sock");
        let router = Router {
            host: host.clone(),
            program: if plane == Plane::Bifrost { program()? } else { PathBuf::new() },
            config: host.folder().join("router.toml"),
            socket,
            process: None,
            plane,
        };
        router.configure(config)?;
        Ok(router)
    }

    /// Writes another router.toml, for the next start.
    pub fn configure(&self, config: &str) -> Result<()> {
        let text = format!("{config}\n[control]\nsocket = \"{}\"\n", self.socket.display());
        fs::write(&self.config, text).map_err(LabError::io(self.config.display().to_string()))
    }

    /// Takes another program for Bifrost from the next start on: one with elements of its own.
    pub fn use_program(&mut self, program: &Path) {
        self.program = program.to_owned();
    }

    /// Starts the daemon (again) and waits until every port it has been given is up.
    pub fn restart(&mut self) -> Result<()> {
        if self.plane == Plane::Linux {
            return Ok(());
        }
        self.process = None;
        let mut process = self.begin()?;
        let limit = Duration::from_secs(60);
        wait_for("bifrost to answer", limit, || match process.ended() {
            Some(status) => Ok(Err(status)),
            None => self.subject("ports").map(|_| Ok(())).map_err(|e| e.to_string()),
        })?
        .map_err(|status: ExitStatus| LabError::Command {
            host: self.host.name().to_owned(),
            command: "bifrost run".to_owned(),
            status: status.to_string(),
            said: process.output(),
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Has the program take over from itself, or from the one that it has replaced, and gives what
    /// was said of it.
    pub fn upgrade(&mut self) -> Result<String> {
        let said = self.ask("upgrade")?;
        let pid = said.split("process ").nth(1).and_then(|rest| rest.split(':').next()?.parse().ok());
        let pid = pid.ok_or_else(|| LabError::Output {
            program: "bifrost upgrade".to_owned(),
            expected: "the number of a process",
            got: said.clone(),
        })?;
        if let Some(process) = &mut self.process {
            process.succeed(pid, Duration::from_secs(10))?;
        }
        Ok(said)
    }

    /// Where it keeps its revisions.
    pub fn state(&self) -> PathBuf {
        self.host.folder().join("state")
    }

    /// Starts the daemon, and does not wait until it is ready.
    pub fn begin(&self) -> Result<Process> {
        let mut command = self.host.command(&self.program.display().to_string());
        command.arg("run").arg("-c").arg(&self.config).arg("--state").arg(self.state());
        self.host.spawn("bifrost", command)
    }

    /// Starts the daemon and waits for its end: what a refused configuration does. Its status, and
    /// what it printed.
    pub fn run_to_its_end(&self, limit: Duration) -> Result<(ExitStatus, String)> {
        let mut command = self.host.command(&self.program.display().to_string());
        command.arg("run").arg("-c").arg(&self.config).arg("--state").arg(self.state());
        let mut process = self.host.spawn("bifrost-refused", command)?;
        Ok((process.wait(limit)?, process.output()))
    }

    /// A subject of `bifrost show` by its name over the socket. No program is started for it: this
    /// is what asks again and again.
    ///
    /// # Errors
    /// Nobody answers within ten seconds, or what the daemon says instead.
    pub fn subject(&self, name: &str) -> Result<Value> {
        let failed = LabError::io(self.socket.display().to_string());
        let ask = || {
            let mut stream = UnixStream::connect(&self.socket)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            writeln!(stream, "{}", serde_json::json!({ "ask": name }))?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).map(|_| line)
        };
        let line = ask().map_err(failed)?;
        let reply = serde_json::from_str(&line).ok();
        let answer = reply.and_then(|mut reply: Value| reply.get_mut("ok").map(Value::take));
        answer.ok_or_else(|| LabError::Output {
            program: format!("the daemon, asked for {name}"),
            expected: "an answer",
            got: line,
        })
    }

    /// `bifrost show <what> --json`.
    pub fn show(&self, what: &str) -> Result<Value> {
        let text = self.ask(&format!("show {what} --json"))?;
        serde_json::from_str(&text).map_err(|_| LabError::Output {
            program: format!("bifrost show {what} --json"),
            expected: "JSON",
            got: text,
        })
    }

    /// Runs a client command (`explain '...'`) against this daemon and gives what it printed.
    pub fn ask(&self, arguments: &str) -> Result<String> {
        self.host.run(&self.client(arguments))
    }

    /// As [`Router::ask`], where the program that it runs is not there, or is another one.
    pub fn ask_with(&self, program: &Path, arguments: &str) -> Result<String> {
        self.host.run(&format!("{} {arguments} --socket {}", program.display(), self.socket.display()))
    }

    /// The program that is Bifrost.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The words by which a shell of this host runs a client command.
    pub fn client(&self, arguments: &str) -> String {
        format!("{} {arguments} --socket {}", self.program.display(), self.socket.display())
    }

    /// The program as a client of this daemon, its words still to come: for what reads all that
    /// follows as its own.
    pub fn command(&self) -> std::process::Command {
        let mut command = self.host.command(&self.program.display().to_string());
        command.arg("--socket").arg(&self.socket);
        command
    }

    /// Waits until the plane's routes are those of Linux's main table: the same prefixes by the
    /// same next hops.
    ///
    /// # Errors
    /// [`LabError::Timeout`] with how many differ and the first of them.
    pub fn equals_linux(&self, limit: Duration) -> Result<()> {
        wait_for("the plane's routes to equal Linux's", limit, || {
            let plane = self.routes().map_err(|e| e.to_string())?;
            let linux = self.linux_routes().map_err(|e| e.to_string())?;
            routes::compare(&plane, &linux)
        })
    }

    /// The routes of the plane's main table.
    pub fn routes(&self) -> Result<Routes> {
        let text = self.ask("show routes --json")?;
        routes::of_plane(&text).ok_or_else(|| LabError::Output {
            program: "bifrost show routes --json".to_owned(),
            expected: "a list of routes",
            got: text.chars().take(300).collect(),
        })
    }

    /// Linux's main table, as `ip route` prints it.
    pub fn linux_routes(&self) -> Result<Routes> {
        routes::of_linux(&self.host)
    }

    /// Who forwards.
    pub fn plane(&self) -> Plane {
        self.plane
    }

    /// Whether Bifrost is what forwards, so that its own words can be asked for.
    pub fn is_bifrost(&self) -> bool {
        self.plane == Plane::Bifrost
    }

    /// The host it runs on.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Its control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The daemon's process, while it runs.
    pub fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// What the daemon logged since its last start.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::output).unwrap_or_default()
    }

    /// SIGKILL: the end that nobody can prepare for.
    pub fn kill_nine(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// SIGTERM: drains, and leaves Linux forwarding.
    pub fn stop(&mut self) -> Result<()> {
        match self.process.take() {
            Some(mut process) => process.stop(Duration::from_secs(10)).map(drop),
            None => Ok(()),
        }
    }
}

impl Host {
    /// Starts `bifrost gen` on this host: a load, made in the kernel.
    pub fn generate(&self, arguments: &[&str]) -> Result<Process> {
        let mut command = self.command(&program()?.display().to_string());
        command.arg("gen").args(arguments);
        self.spawn("generator", command)
    }
}

/// The program that [`use_program`] named.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the program that is Bifrost, for all labs of this process: one that is Bifrost itself may
/// be called anything.
pub fn use_program(program: PathBuf) {
    PROGRAM.get_or_init(|| program);
}

/// Bifrost: what was named, else what was built beside this program, or beside the folder of test
/// programs it is in (target/debug/deps).
pub(crate) fn program() -> Result<PathBuf> {
    if let Some(program) = PROGRAM.get() {
        return Ok(program.clone());
    }
    let me = std::env::current_exe().map_err(LabError::io("the path of this program"))?;
    let found =
        me.ancestors().skip(1).take(2).map(|folder| folder.join("bifrost")).find(|path| path.is_file());
    found.ok_or_else(|| LabError::Io {
        what: "the program bifrost is not built: cargo build --workspace".to_owned(),
        source: std::io::ErrorKind::NotFound.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_named_is_taken_whatever_it_is_called() {
        use_program("/opt/router-2".into());
        assert_eq!(program().unwrap(), Path::new("/opt/router-2"));
    }
}
