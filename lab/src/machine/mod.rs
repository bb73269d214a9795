//! Virtual machines: for what the kernel of this machine lacks, and for other kernels than this
//! machine's.
//!
//! A [`Machine`] runs one of Debian's own kernels ([`KERNELS`], fetched by `lab/setup.sh machines`)
//! in QEMU. Its root is this machine's own, read-only, under a layer in memory that takes what the
//! guest writes. So the programs that were built and all that is installed here are there too, by
//! the same paths, and nothing is copied. A second share holds the machine's folder: an agent in
//! the guest takes the number of a script by a serial port ([`Machine::run`]), and leaves there
//! what the script prints.
//!
//! A machine ends when it is dropped, and when this process ends, in whatever way: a small script
//! keeps it on a leash (`leash.sh`), the other end of which this process holds.

mod hardware;
mod initrd;
mod inside;
mod monitor;
mod nic;
mod pool;

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

pub use hardware::Hardware;
pub use inside::inside;
pub use nic::Nic;

use crate::{LabError, Result};

/// The kernels that a machine can have: two of Debian's stable releases, and the newest that Debian
/// has for one.
pub const KERNELS: [&str; 3] = ["6.1", "6.12", "newest"];

/// Where `lab/machines.sh` puts them.
const CACHE: &str = "/var/cache/bifrost-lab/machines";
/// A folder for each machine that runs.
const FOLDERS: &str = "/run/bifrost-machines";

/// Emulated, a kernel takes some 20 seconds to boot; this is for two of them on a machine that is
/// busy.
const BOOT: Duration = Duration::from_secs(120);
/// For the agent to tell that a script was ended, beyond the time that the script had.
const ANSWER: Duration = Duration::from_secs(20);

/// Cores of a machine that tests share. With one, the driver leaves a quarter of what crosses a
/// router to Linux 6.1, again and again for a second.
fn cores_for(kernel: &str) -> u32 {
    if kernel == "6.1" { 2 } else { 1 }
}

/// A virtual machine that runs.
pub struct Machine {
    kernel: String,
    folder: PathBuf,
    leash: Mutex<Child>,
    agent: Mutex<BufReader<UnixStream>>,
    jobs: AtomicU32,
    nics: Vec<Nic>,
}

impl Machine {
    /// Boots a machine with one of [`KERNELS`] and no network but its own: four virtio-net cards,
    /// the first joined to the second and the third to the fourth by a cable. Other hardware:
    /// [`Hardware`].
    ///
    /// # Errors
    /// [`LabError::Machine`] with the end of what its console said, or with what has to be
    /// installed first.
    pub fn boot(kernel: &str) -> Result<Machine> {
        let cards = [0, 0, 1, 1].map(|cable| Nic::virtio(1).cable(cable));
        let hardware = Hardware::new(kernel).cores(cores_for(kernel));
        cards.into_iter().fold(hardware, Hardware::nic).boot()
    }

    /// Does some work with a machine with this kernel that the tests of this process share
    /// ([`pool`]).
    ///
    /// # Errors
    /// What the work says, and as [`Machine::boot`]. A kernel that did not boot is not tried again.
    pub fn on<T>(kernel: &str, work: impl FnOnce(&Machine) -> Result<T>) -> Result<T> {
        let turn = pool::turn(cores_for(kernel));
        let machine = turn.machine(kernel)?;
        let done = work(&machine);
        // One in which something failed may hold what is left of it.
        if done.is_ok() {
            turn.give_back(machine);
        }
        done
    }

    /// Runs a script (bash) in the machine, one at a time, and gives how it ended and what it
    /// printed.
    ///
    /// What the script leaves running in the background stays.
    ///
    /// # Errors
    /// [`LabError::Timeout`] when it takes longer than `limit`, [`LabError::Machine`] when the
    /// machine is gone.
    pub fn output(&self, script: &str, limit: Duration) -> Result<Output> {
        let mut agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let job = self.jobs.fetch_add(1, Relaxed).to_string();
        let folder = self.folder.join(&job);
        let failed = |error: io::Error| self.error(format!("does not take a script: {error}"));
        fs::create_dir(&folder).map_err(failed)?;
        fs::write(folder.join("script"), script).map_err(failed)?;
        let began = Instant::now();
        writeln!(agent.get_mut(), "{job} {}", limit.as_secs().max(1)).map_err(failed)?;
        let code = loop {
            // An answer to an earlier script, which was given up, may be under way.
            let answer = self.line(&mut agent, limit + ANSWER)?;
            match answer.split_once(' ') {
                Some((number, code)) if number == job => break code.parse::<i32>().unwrap_or(255),
                _ => (),
            }
        };
        let said = |name: &str| fs::read(folder.join(name)).map_err(LabError::io(name));
        let (stdout, stderr) = (said("out")?, said("err")?);
        let _it_goes_with_the_machine = fs::remove_dir_all(&folder);
        // What timeout(1) ends with when it had to end a script, or to kill it.
        if matches!(code, 124 | 137) && began.elapsed() >= limit {
            let last = [stdout, stderr].concat();
            let last = tail(&String::from_utf8_lossy(&last)).to_owned();
            return Err(LabError::Timeout { what: self.to_string(), after: limit, last });
        }
        let status = std::os::unix::process::ExitStatusExt::from_raw(code << 8);
        Ok(Output { status, stdout, stderr })
    }

    /// Runs a script as [`Machine::output`] does, and gives what it printed.
    ///
    /// # Errors
    /// Those, and [`LabError::Command`] with what was said, when it does not end well.
    pub fn run(&self, script: &str, limit: Duration) -> Result<String> {
        let output = self.output(script, limit)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(LabError::Command {
            host: self.to_string(),
            command: script.to_owned(),
            status: output.status.to_string(),
            said: tail(&String::from_utf8_lossy(&said)).to_owned(),
        })
    }

    /// What its console said so far.
    pub fn console(&self) -> String {
        console(&self.folder)
    }

    /// What the agent says next.
    fn line(&self, agent: &mut BufReader<UnixStream>, limit: Duration) -> Result<String> {
        let end = Instant::now() + limit;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let failed = |error: io::Error| self.error(format!("is not heard: {error}"));
            agent.get_mut().set_read_timeout(Some(left)).map_err(failed)?;
            match agent.read_until(b'\n', &mut line) {
                Ok(0) => return Err(self.error("has ended")),
                Ok(_) => (),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
                {
                    if Instant::now() >= end {
                        return Err(self.error(format!("said nothing for {limit:?}")));
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(String::from_utf8_lossy(&line).trim().to_owned())
    }

    fn error(&self, what: impl Into<String>) -> LabError {
        LabError::Machine {
            kernel: self.kernel.clone(),
            what: what.into(),
            console: tail(&self.console()).to_owned(),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the machine with kernel {}", self.kernel)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let leash = self.leash.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(leash.stdin.take());
        let _gone_already = leash.wait();
    }
}

/// Starts QEMU on a leash and waits for the agent.
fn start(hardware: &Hardware, folder: &Path, qemu: &[String], limit: Duration) -> Result<Machine> {
    let failed = |what: String| LabError::Machine {
        kernel: hardware.kernel.clone(),
        what,
        console: [said_by_qemu(folder), tail(&console(folder)).to_owned()].concat(),
    };
    let log = fs::File::create(folder.join("qemu.log")).map_err(LabError::io("qemu.log"))?;
    let copy = log.try_clone().map_err(LabError::io("qemu.log"))?;
    let mut command = Command::new("bash");
    command.args(["-c", include_str!("leash.sh"), "leash"]).args(qemu).env("FOLDER", folder);
    // A process group of its own: Ctrl-C reaches this process, with which the leash goes.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let leash = command.stdin(Stdio::piped()).stdout(log).stderr(copy).spawn();
    let mut leash = leash.map_err(|error| failed(format!("cannot be started: {error}")))?;

    let end = Instant::now() + limit;
    let socket = loop {
        match UnixStream::connect(folder.join("agent.sock")) {
            Ok(socket) => break socket,
            Err(_) if Instant::now() < end && !said_by_qemu(folder).contains("ended: ") => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => {
                let error = failed(format!("does not start: {error}"));
                drop(leash.stdin.take());
                let _gone_already = leash.wait();
                return Err(error);
            }
        }
    };
    let machine = Machine {
        kernel: hardware.kernel.clone(),
        folder: folder.to_owned(),
        leash: Mutex::new(leash),
        agent: Mutex::new(BufReader::new(socket)),
        jobs: AtomicU32::new(1),
        nics: hardware.nics.clone(),
    };
    let mut agent = machine.agent.lock().unwrap_or_else(PoisonError::into_inner);
    machine.line(&mut agent, end.saturating_duration_since(Instant::now()))?;
    drop(agent);
    hardware.connect()?;
    Ok(machine)
}

fn console(folder: &Path) -> String {
    String::from_utf8_lossy(&fs::read(folder.join("console")).unwrap_or_default()).into_owned()
}

fn said_by_qemu(folder: &Path) -> String {
    fs::read_to_string(folder.join("qemu.log")).unwrap_or_default()
}

/// The end of a long text.
fn tail(text: &str) -> &str {
    let start = text.char_indices().rev().nth(3000).map_or(0, |(i, _)| i);
    text[start..].trim()
}
