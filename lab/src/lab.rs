//! A lab: made, and taken away again whatever happens.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, Once},
    thread,
    time::Duration,
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::{Signal, kill},
    unistd::{Pid, geteuid},
};
use signal_hook::{consts::TERM_SIGNALS, iterator::Signals};

use crate::{Host, LabError, Result, wait_for};

const LABS: &str = "/run/bifrost-lab";
/// Held while folders come and go: what is being made, or taken away, has no owner for a moment,
/// and would be taken for dead.
const LOCK: &str = "/run/bifrost-lab.lock";

/// The labs of this process (folders), for the signal handler; and what else is to be done before
/// it exits.
static RUNNING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static FAREWELL: Mutex<Option<fn()>> = Mutex::new(None);

/// A network of hosts in namespaces. Dropping it ends every process in them and removes everything.
pub struct Lab {
    name: String,
    folder: PathBuf,
}

impl Lab {
    /// An empty lab. `wanted` becomes part of the namespaces' names: short, of letters, digits and
    /// dashes. Where this process has a lab of this name already, a number follows it.
    ///
    /// Labs left behind by processes that are gone are swept first.
    ///
    /// # Errors
    /// [`LabError::NotRoot`], or [`LabError::Busy`] when another process has a lab of this name.
    pub fn new(wanted: &str) -> Result<Lab> {
        if !geteuid().is_root() {
            return Err(LabError::NotRoot);
        }
        sweep_on_signals()?;
        let alone = alone().map_err(LabError::io(LOCK))?;
        sweep_the_dead();
        fs::create_dir_all(LABS).map_err(LabError::io(LABS))?;
        let me = std::process::id() as i32;
        let (mut name, mut number) = (wanted.to_owned(), 1);
        let folder = loop {
            let folder = Path::new(LABS).join(&name);
            match fs::create_dir(&folder) {
                Ok(()) => break folder,
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(LabError::io(folder.display().to_string())(e));
                }
                Err(_) if owner(&folder) == Some(me) => {
                    number += 1;
                    name = format!("{wanted}-{number}");
                }
                Err(_) => return Err(LabError::Busy { pid: owner(&folder).unwrap_or(0), lab: name }),
            }
        };
        running().push(folder.clone());
        let lab = Lab { name, folder };
        let owner = format!("{me} {}", started(me).unwrap_or_default());
        let written = fs::write(lab.folder.join("owner"), owner).map_err(LabError::io("owner"));
        // Before the lab is dropped, which waits for it.
        drop(alone);
        written.map(|()| lab)
    }

    /// A new host that does not forward.
    pub fn host(&self, name: &str) -> Result<Host> {
        let host = Host::new(&self.name, name, &self.folder)?;
        // Addresses are usable at once (no duplicate detection), and nobody talks without being
        // asked.
        host.sysctl(&[
            ("net.ipv6.conf.all.accept_dad", "0"),
            ("net.ipv6.conf.default.accept_dad", "0"),
            ("net.ipv6.conf.default.dad_transmits", "0"),
            ("net.ipv6.conf.default.router_solicitations", "0"),
            ("net.ipv4.conf.all.rp_filter", "0"),
            ("net.ipv4.conf.default.rp_filter", "0"),
        ])?;
        host.run("ip link set lo up")?;
        Ok(host)
    }

    /// A new host that forwards both families.
    pub fn router(&self, name: &str) -> Result<Host> {
        let host = self.host(name)?;
        host.sysctl(&[("net.ipv4.ip_forward", "1"), ("net.ipv6.conf.all.forwarding", "1")])?;
        Ok(host)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        sweep(&self.folder);
        running().retain(|f| *f != self.folder);
    }
}

/// What a program wants done before Ctrl-C ends it, after its labs are gone: say, giving the
/// terminal back.
pub fn on_interrupt(farewell: fn()) {
    *FAREWELL.lock().unwrap_or_else(|p| p.into_inner()) = Some(farewell);
}

fn running() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    RUNNING.lock().unwrap_or_else(|p| p.into_inner())
}

/// SIGINT, SIGTERM and SIGQUIT sweep this process's labs and end it with the code a shell expects.
fn sweep_on_signals() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| {
        let mut signals = match Signals::new(TERM_SIGNALS) {
            Ok(signals) => signals,
            Err(e) => return result = Err(LabError::io("signal handlers")(e)),
        };
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                let folders = running().clone();
                folders.iter().for_each(|folder| sweep(folder));
                if let Some(farewell) = *FAREWELL.lock().unwrap_or_else(|p| p.into_inner()) {
                    farewell();
                }
                std::process::exit(128 + signal);
            }
        });
    });
    result
}

/// Waits until no other lab begins or ends.
fn alone() -> std::io::Result<Flock<File>> {
    let file = File::create(LOCK)?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
}

/// Removes the labs whose process is gone. The caller is [`alone`].
fn sweep_the_dead() {
    let Ok(labs) = fs::read_dir(LABS) else { return };
    for folder in labs.flatten().map(|entry| entry.path()) {
        if owner(&folder).is_none() {
            end(&folder);
            remove(&folder);
        }
    }
}

/// The living process a lab belongs to. Its start time is compared too, as process numbers are used
/// again.
fn owner(folder: &Path) -> Option<i32> {
    let text = fs::read_to_string(folder.join("owner")).ok()?;
    let (pid, start) = text.split_once(' ')?;
    let pid = pid.parse().ok()?;
    (started(pid)? == start).then_some(pid)
}

/// When a process started, in clock ticks since boot (field 22 of proc(5)'s stat; the name may hold
/// spaces).
fn started(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

/// Ends everything that runs in a lab of this process, and removes it.
fn sweep(folder: &Path) {
    end(folder);
    let _alone = alone();
    remove(folder);
}

/// Ends everything that runs in a lab. Goes on when a step fails: there is nothing better to do.
fn end(folder: &Path) {
    let Some(lab) = folder.file_name().and_then(|n| n.to_str()) else { return };
    let namespaces: Vec<String> = (fs::read_dir(folder).into_iter().flatten().flatten())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| format!("bf-{lab}-{}", entry.file_name().to_string_lossy()))
        .collect();
    for namespace in &namespaces {
        for pid in processes(namespace) {
            let _gone_already = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    let _too_slow = wait_for("the lab's processes to end", Duration::from_secs(2), || {
        if namespaces.iter().all(|n| processes(n).is_empty()) { Ok(()) } else { Err(String::new()) }
    });
    for namespace in &namespaces {
        let _not_made_yet = Command::new("ip").args(["netns", "del", namespace]).output();
    }
}

/// Removes a lab's folder, and what a killed test has mounted there. The caller is [`alone`].
fn remove(folder: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for place in places.filter(|place| Path::new(place).starts_with(folder)) {
        let _gone_already = Command::new("umount").args(["--lazy", place]).output();
    }
    let _gone_already = fs::remove_dir_all(folder);
    let _others_are_running = fs::remove_dir(LABS);
}

/// The processes inside a namespace, without zombies (their parent has yet to look) and without
/// this one.
fn processes(namespace: &str) -> Vec<i32> {
    let Ok(output) = Command::new("ip").args(["netns", "pids", namespace]).output() else {
        return Vec::new();
    };
    String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .filter(|pid| *pid != std::process::id() as i32)
        .filter(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is mounted in it does not keep a lab from going.
    #[test]
    fn mounts_go_with_it() {
        let lab = Lab::new("mounts").unwrap();
        let (folder, place) = (lab.folder.clone(), lab.folder.join("host/place"));
        fs::create_dir_all(&place).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&place).status().unwrap();
        assert!(mount.success());
        drop(lab);
        assert!(!folder.exists());
    }

    /// Labs that begin and end at the same time do not take each other for dead.
    #[test]
    fn many_begin_and_end_at_once() {
        let turns = |thread: u32| {
            let turn = move |turn: u32| {
                let lab = Lab::new(&format!("many{thread}")).unwrap_or_else(|e| panic!("turn {turn}: {e}"));
                let owned = owner(&lab.folder);
                assert_eq!(owned, Some(std::process::id() as i32), "turn {turn}");
                assert_eq!(Lab::new(&lab.name).unwrap().name, format!("many{thread}-2"));
            };
            (0..200).for_each(turn);
        };
        thread::scope(|scope| (0..4).for_each(|number| drop(scope.spawn(move || turns(number)))));
    }
}
