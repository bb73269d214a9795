//! One host: a network namespace, and a folder for the files of what runs in it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, LazyLock},
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::sched::{CloneFlags, setns};

use crate::{LabError, Process, Result, wait_for};

/// A host of a lab; a handle that may be cloned.
#[derive(Clone, Debug)]
pub struct Host(Arc<Identity>);

#[derive(Debug)]
struct Identity {
    name: String,
    namespace: String,
    folder: PathBuf,
}

impl Host {
    pub(crate) fn new(lab: &str, name: &str, lab_folder: &Path) -> Result<Host> {
        let folder = lab_folder.join(name);
        let namespace = format!("bf-{lab}-{name}");
        fs::create_dir(&folder).map_err(LabError::io(folder.display().to_string()))?;
        let made = Command::new("ip").args(["netns", "add", &namespace]).output();
        let made = made.map_err(LabError::io("ip netns add"))?;
        let host = Host(Arc::new(Identity { name: name.to_owned(), namespace, folder }));
        host.check("ip netns add", made)?;
        Ok(host)
    }

    /// Its name in the lab.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The name of its namespace, as `ip netns` takes it.
    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// A folder of its own, which goes when the lab goes.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// A command that will run on this host. Programs are Debian's own where it has them:
    /// `lab/setup.sh` has installed those, and another Python may lack what belongs to it.
    pub fn command(&self, program: &str) -> Command {
        static PATH: LazyLock<String> = LazyLock::new(|| {
            let own = "/usr/sbin:/usr/bin:/sbin:/bin";
            std::env::var("PATH").map_or(own.to_owned(), |rest| format!("{own}:{rest}"))
        });
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.namespace(), program]).env("PATH", &*PATH);
        command
    }

    /// Runs lines of shell on this host and gives what they printed.
    ///
    /// # Errors
    /// [`LabError::Command`] with what was said, when one of them fails.
    pub fn run(&self, script: &str) -> Result<String> {
        let output =
            self.command("sh").args(["-ec", script]).output().map_err(LabError::io("ip netns exec"))?;
        self.check(script, output)
    }

    /// Many lines for `ip`, without starting it for each.
    pub fn ip_batch(&self, lines: &str) -> Result<()> {
        let file = self.folder().join("ip.batch");
        fs::write(&file, lines).map_err(LabError::io("ip.batch"))?;
        self.run(&format!("ip -batch {}", file.display())).map(drop)
    }

    /// Starts a program that stays; what it prints goes to `<name>.log` in the host's folder.
    pub fn spawn(&self, name: &str, command: Command) -> Result<Process> {
        Process::spawn(name, command, self.folder().join(format!("{name}.log")))
    }

    /// Sets kernel parameters (`net.ipv4.ip_forward`).
    pub fn sysctl(&self, settings: &[(&str, &str)]) -> Result<()> {
        let settings: Vec<String> = settings.iter().map(|(key, value)| format!("'{key}={value}'")).collect();
        self.run(&format!("sysctl -qw {}", settings.join(" "))).map(drop)
    }

    /// Moves this thread into the host: the sockets that it opens from now on are the host's.
    pub fn enter(&self) -> Result<()> {
        setns(self.open()?, CloneFlags::CLONE_NEWNET).map_err(|e| LabError::io("setns")(e.into()))
    }

    fn open(&self) -> Result<File> {
        let path = Path::new("/run/netns").join(self.namespace());
        File::open(&path).map_err(LabError::io(path.display().to_string()))
    }

    /// Runs code on a thread of its own whose sockets are this host's.
    pub fn inside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>> {
        let namespace = self.open()?;
        let (ready, entered) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let result = setns(&namespace, CloneFlags::CLONE_NEWNET);
            let inside = result.is_ok();
            let _receiver_waits = ready.send(result);
            inside.then(work)
        });
        match entered.recv() {
            Ok(Ok(())) => Ok(thread::spawn(move || match thread.join() {
                Ok(value) => value.expect("the thread is inside, so it did the work"),
                Err(panic) => std::panic::resume_unwind(panic),
            })),
            Ok(Err(e)) => Err(LabError::io("setns")(e.into())),
            Err(_) => Err(LabError::io("setns")(std::io::Error::other("the thread ended"))),
        }
    }

    /// The number a kernel file of one of its interfaces holds (`statistics/rx_packets`,
    /// `ifindex`).
    pub fn interface_number(&self, interface: &str, file: &str) -> Result<u64> {
        let text = self.run(&format!("cat /sys/class/net/{interface}/{file}"))?;
        text.trim().parse().map_err(|_| LabError::Output {
            program: file.to_owned(),
            expected: "a number",
            got: text,
        })
    }

    /// How many packets Linux itself has forwarded here, of both families: the witness that Bifrost
    /// cannot influence.
    pub fn linux_forwarded(&self) -> Result<u64> {
        let text = self.run("cat /proc/net/snmp /proc/net/snmp6")?;
        let mut ip = text.lines().filter(|line| line.starts_with("Ip: "));
        let (names, values) = (ip.next().unwrap_or_default(), ip.next().unwrap_or_default());
        let v4 = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "ForwDatagrams");
        let v6 = text.lines().find_map(|line| line.strip_prefix("Ip6OutForwDatagrams"));
        match (v4.and_then(|(_, n)| n.parse::<u64>().ok()), v6.and_then(|n| n.trim().parse::<u64>().ok())) {
            (Some(v4), Some(v6)) => Ok(v4 + v6),
            _ => Err(LabError::Output {
                program: "/proc/net/snmp".to_owned(),
                expected: "counters",
                got: text,
            }),
        }
    }

    /// Waits until something listens on a TCP port here.
    pub fn listens(&self, port: u16) -> Result<()> {
        wait_for(&format!("port {port} to listen"), Duration::from_secs(5), || {
            let listening = self.run(&format!("ss -Hltn sport = :{port}")).map_err(|e| e.to_string())?;
            if listening.is_empty() { Err("nobody listens".to_owned()) } else { Ok(()) }
        })
    }

    /// The Ethernet address of one of its interfaces.
    pub fn mac(&self, interface: &str) -> Result<String> {
        Ok(self.run(&format!("cat /sys/class/net/{interface}/address"))?.trim().to_owned())
    }

    pub(crate) fn check(&self, command: &str, output: Output) -> Result<String> {
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let end = said.char_indices().rev().nth(1500).map_or(0, |(i, _)| i);
        Err(LabError::Command {
            host: self.name().to_owned(),
            command: command.to_owned(),
            status: output.status.to_string(),
            said: said[end..].trim().to_owned(),
        })
    }
}
