//! What the daemon and its threads may do.
//!
//! Whoever starts the daemon is root as a rule, and the daemon needs little of what root may do.
//! Three steps, each for good:
//!
//! | who | what is left |
//! |---|---|
//! | [`process`]: the daemon, before its first thread | the capabilities of [`NEEDED`]; no program that it runs gains any |
//! | [`client`]: threads that answer those who may use the control socket | no capability |
//! | [`reader`]: threads that read what strangers write (metrics, HTTPS, FPM, memif) | no capability, and no system call of [`calls`] |
//!
//! All threads share one memory, so that this is a second wall and not the first: the first is that
//! no byte that comes in is believed. What stands behind it is what a fault in a parser could be
//! used for.
//!
//! Capabilities and filters belong to a thread, and a new thread has those of the one that started
//! it. So [`process`] comes before any thread is started, and a thread that is not confined itself
//! has what the daemon has.

mod calls;

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use nix::unistd::{Group, getgroups, setgroups};
use tracing::{debug, warn};

/// The capabilities that the daemon works with, and what for. The unit's `CapabilityBoundingSet` is
/// this list and [`LOCKING`].
pub const NEEDED: [(Capability, &str); 6] = [
    (Capability::CAP_NET_ADMIN, "interfaces, routes, rules, the programs at the ports"),
    (Capability::CAP_NET_RAW, "AF_XDP sockets, and packets that Linux sends on"),
    (
        Capability::CAP_NET_BIND_SERVICE,
        "metrics, the interface for programs and relays of DHCP, at ports below 1024",
    ),
    (Capability::CAP_BPF, "maps and programs"),
    (Capability::CAP_PERFMON, "programs that the kernel does not slow down against guesses"),
    (Capability::CAP_CHOWN, "the group of the control socket"),
];

/// What the daemon keeps besides, where locked memory has a limit that cannot be lifted (in a
/// container, where the unit's `LimitMEMLOCK` has no effect either): the kernel locks packet
/// memory.
pub const LOCKING: Capability = Capability::CAP_IPC_LOCK;

/// What the daemon keeps besides, where threads may not become urgent and that limit cannot be
/// lifted either: the one that speaks VRRP must not wait for others.
pub const HURRYING: Capability = Capability::CAP_SYS_NICE;

/// The real-time priority that a thread may have. The unit's `LimitRTPRIO` is the same.
const URGENT: u64 = 1;

/// Why the daemon could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// A capability stays.
    #[error("cannot give up capabilities: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
    /// Programs that are run could gain some.
    #[error("cannot forbid that programs gain privileges: {0}")]
    NewPrivileges(#[from] nix::Error),
    /// The filter of system calls.
    #[error("cannot filter system calls: {0}")]
    Calls(#[from] seccompiler::Error),
}

/// Gives up, for this thread and those that it starts, all capabilities but [`NEEDED`], and
/// [`LOCKING`] where that is needed.
///
/// # Errors
/// When the kernel refuses, which it does not.
pub fn process() -> Result<(), ConfineError> {
    let needed = needed();
    nix::sys::prctl::set_no_new_privs()?;
    // Without this capability nothing can be taken from the bounding set, nor need it be: what is
    // not permitted now is never gained.
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        for capability in caps::read(None, CapSet::Bounding)?.difference(&needed) {
            caps::drop(None, CapSet::Bounding, *capability)?;
        }
    }
    keep(&needed)
}

/// Joins a group, where there is one of that name and the process may: before [`process`], and
/// before the first thread. Else whoever starts the daemon says so (`SupplementaryGroups` of the
/// unit).
pub fn join(name: &str) {
    let joined = || -> nix::Result<()> {
        let Some(group) = Group::from_name(name)? else { return Ok(()) };
        let mut groups = getgroups()?;
        if !groups.contains(&group.gid) {
            groups.push(group.gid);
            setgroups(&groups)?;
        }
        Ok(())
    };
    if let Err(error) = joined() {
        debug!("it cannot join the group {name}: {error}");
    }
}

fn needed() -> CapsHashSet {
    let mut needed: CapsHashSet = NEEDED.iter().map(|(capability, _)| *capability).collect();
    if setrlimit(Resource::RLIMIT_RTPRIO, URGENT, URGENT).is_err() {
        needed.insert(HURRYING);
    }
    if setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY).is_err() {
        needed.insert(LOCKING);
    }
    needed
}

/// Gives up all capabilities of this thread, which answers clients. That it could not is logged.
pub fn client() {
    log("answers clients", keep(&CapsHashSet::new()));
}

/// Gives up all capabilities of this thread, which reads what strangers write, and the system calls
/// that it does not need. That it could not is logged: the thread works all the same.
pub fn reader() {
    let confined = keep(&CapsHashSet::new()).and_then(|()| {
        nix::sys::prctl::set_no_new_privs()?;
        Ok(calls::forbid()?)
    });
    log("reads what strangers write", confined);
}

fn log(what: &str, confined: Result<(), ConfineError>) {
    if let Err(error) = confined {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default();
        warn!("the thread {name}, which {what}, may do more than it needs: {error}");
    }
}

/// Of what this thread has, keeps no more than this. The ambient set follows by itself.
fn keep(kept: &CapsHashSet) -> Result<(), ConfineError> {
    for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        let left = caps::read(None, set)?.intersection(kept).copied().collect();
        caps::set(None, set, &left)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each thread has its own; another test's stay.
    fn apart<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(body).join().unwrap()
    }

    fn status(key: &str) -> String {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_start_matches(':').trim().to_owned()
    }

    #[test]
    fn the_daemon_and_what_it_runs_keep_what_is_needed() {
        let needed: u64 = needed().iter().fold(0, |all, capability| all | 1 << capability.index());
        apart(move || {
            let had = u64::from_str_radix(&status("CapPrm"), 16).unwrap();
            process().unwrap();
            for set in ["CapPrm", "CapEff"] {
                assert_eq!(u64::from_str_radix(&status(set), 16).unwrap(), had & needed, "{set}");
            }
            assert_eq!(status("NoNewPrivs"), "1");
            let run = std::process::Command::new("/bin/cat").arg("/proc/self/status").output().unwrap();
            let text = String::from_utf8(run.stdout).unwrap();
            let line = text.lines().find(|line| line.starts_with("CapEff")).unwrap();
            let gained = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
            assert_eq!(gained & !needed, 0, "{text}");
            // Root's programs have what root has.
            if had & needed == needed && nix::unistd::geteuid().is_root() {
                assert_eq!(gained, needed, "{text}");
            }
        });
    }

    #[test]
    fn a_client_has_no_capability() {
        apart(|| {
            client();
            for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
                assert_eq!(u64::from_str_radix(&status(set), 16).unwrap(), 0, "{set}");
            }
            std::fs::File::open("/proc/self/status").unwrap();
        });
    }

    #[test]
    fn a_reader_opens_runs_and_traces_nothing_and_still_talks() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = std::thread::spawn(move || {
            reader();
            let denied = |error: std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
            assert!(denied(std::fs::File::open("/etc/hostname").unwrap_err()));
            assert!(denied(std::fs::write("/tmp/bifrost-never", "").unwrap_err()));
            assert!(denied(std::fs::remove_file("/tmp/bifrost-never").unwrap_err()));
            assert!(denied(std::process::Command::new("/bin/true").status().unwrap_err()));
            assert_eq!(nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS), Err(nix::Error::EPERM));
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).unwrap();
            // Threads that it starts are confined as well.
            apart(|| assert!(std::fs::File::open("/etc/hostname").is_err()));
            stream.write_all(&bytes).unwrap();
        });
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(b"ping").unwrap();
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).unwrap();
        served.join().unwrap();
        // Nobody else is.
        std::fs::File::open("/proc/self/status").unwrap();
    }
}
