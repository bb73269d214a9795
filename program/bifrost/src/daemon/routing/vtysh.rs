//! FRR's shell: by it FRR is asked what it has, and told what changes.

use std::fs::File;
use std::io::{ErrorKind, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use config::{Router, Routing};
use frr::Config;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::daemon::tool;

/// Its shell.
const SHELL: &str = "vtysh";
/// Seconds that it may take.
const LIMIT: &str = "10";
/// By which `timeout` says that it took longer.
const TIMED_OUT: i32 = 124;
/// Who has it.
const PACKAGE: &str = "frr";

/// FRR, by the folder of its sockets.
pub(super) struct Frr<'a> {
    sockets: &'a Path,
}

/// A line that FRR refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Its number in what FRR was told, from 1.
    pub line: usize,
    /// What FRR says.
    pub why: String,
}

/// The daemons that a file needs, and the section that needs each.
fn needed(routing: &Routing) -> Vec<(&'static str, &'static str)> {
    let mut needed = vec![("zebra", "routing")];
    needed.extend(routing.bgp.as_ref().map(|_| ("bgpd", "[bgp]")));
    needed.extend(routing.ospf.as_ref().map(|_| ("ospfd", "[ospf]")));
    needed.extend(routing.ospf6.as_ref().map(|_| ("ospf6d", "[ospf6]")));
    for (name, daemon, section) in [
        ("isis", "isisd", "[isis]"),
        ("rip", "ripd", "[rip]"),
        ("ripng", "ripngd", "[ripng]"),
        ("pim", "pimd", "[pim]"),
    ] {
        let has = routing.protocols().iter().any(|(other, it)| *other == name && it.is_some());
        needed.extend(has.then_some((daemon, section)));
    }
    needed.extend(routing.bfd.as_ref().map(|_| ("bfdd", "[routing.bfd]")));
    needed
}

impl<'a> Frr<'a> {
    pub fn of(router: &'a Router) -> Frr<'a> {
        Frr { sockets: &router.routing.sockets }
    }

    fn socket(&self, daemon: &str) -> PathBuf {
        self.sockets.join(format!("{daemon}.vty"))
    }

    /// Whether all daemons are there that a file needs.
    ///
    /// # Errors
    /// Which one is not, and what helps.
    pub fn is_there(&self, routing: &Routing) -> Result<(), String> {
        for (daemon, section) in needed(routing) {
            let socket = self.socket(daemon);
            let Err(error) = UnixStream::connect(&socket) else { continue };
            let place = socket.display();
            return Err(match error.kind() {
                ErrorKind::PermissionDenied => format!(
                    "Bifrost may not speak with FRR ({place}): it must be in the group frrvty; \
                     `systemctl edit bifrost`, [Service], SupplementaryGroups=frrvty, and restart it"
                ),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused if daemon == "zebra" => format!(
                    "FRR does not run ({place}: {error}): install the package frr and start it, \
                     `systemctl start frr`"
                ),
                _ => format!(
                    "{section} needs FRR's {daemon}, which does not run ({place}: {error}): say {daemon}=yes in \
                     /etc/frr/daemons, and `systemctl restart frr`"
                ),
            });
        }
        Ok(())
    }

    /// Tells one start of a file's daemons from another; `None`: one of them is not there.
    pub fn start(&self, routing: &Routing) -> Option<Vec<(u64, i64, i64)>> {
        let of = |daemon: &str| {
            let socket = std::fs::metadata(self.socket(daemon)).ok()?;
            Some((socket.ino(), socket.ctime(), socket.ctime_nsec()))
        };
        needed(routing).into_iter().map(|(daemon, _)| of(daemon)).collect()
    }

    /// FRR, by the folder of its sockets.
    pub fn at(sockets: &'a Path) -> Frr<'a> {
        Frr { sockets }
    }

    /// What FRR has.
    pub fn running(&self) -> Result<Config, String> {
        Ok(Config::parse(&self.shown()?))
    }

    /// What FRR has, as it shows it.
    pub fn shown(&self) -> Result<String, String> {
        let output = self.run(self.shell()?.args(["-c", "show running-config"]))?;
        match output.0 {
            true => Ok(output.1),
            false => Err(format!("FRR does not say what it has: {}", said(&output.2))),
        }
    }

    /// Whether its shell is there.
    pub fn is_installed() -> bool {
        tool::command(SHELL, PACKAGE).is_ok()
    }

    /// Whether FRR's grammar has these lines; those that it has not.
    pub fn check(text: &str) -> Result<Vec<Refused>, String> {
        let frr = Frr { sockets: Path::new("/run/frr") };
        frr.read(text, &["-C"])
    }

    /// Tells FRR these lines; those that it refuses. It goes on behind them.
    pub fn tell(&self, text: &str) -> Result<Vec<Refused>, String> {
        self.read(text, &[])
    }

    /// Has FRR do something at once.
    pub fn order(&self, orders: &[String]) -> Result<(), String> {
        if orders.is_empty() {
            return Ok(());
        }
        let mut shell = self.shell()?;
        orders.iter().for_each(|order| {
            shell.args(["-c", order]);
        });
        let output = self.run(&mut shell)?;
        if output.0 { Ok(()) } else { Err(said(&[output.1, output.2].concat())) }
    }

    fn read(&self, text: &str, how: &[&str]) -> Result<Vec<Refused>, String> {
        let failed = |error: std::io::Error| format!("cannot run vtysh: {error}");
        // In memory: it may have passwords.
        let memory = memfd_create(c"lines", MFdFlags::MFD_CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut lines = File::from(memory);
        lines.write_all(text.as_bytes()).and_then(|()| lines.rewind()).map_err(failed)?;
        let mut shell = self.shell()?;
        shell.args(how).args(["-f", "/dev/stdin"]).stdin(lines);
        let (success, out, err) = self.run(&mut shell)?;
        let refused = refused(&out, &err);
        match success || !refused.is_empty() {
            true => Ok(refused),
            false => Err(format!("FRR's vtysh fails: {}", said(&[out, err].concat()))),
        }
    }

    /// It waits for a daemon as long as that takes, and the control thread for it: so it is ended.
    fn shell(&self) -> Result<Command, String> {
        let vtysh = tool::command(SHELL, PACKAGE)?;
        let mut shell = tool::command("timeout", "coreutils")?;
        shell.args(["--kill-after=1", LIMIT]).arg(vtysh.get_program());
        shell.arg("--vty_socket").arg(self.sockets);
        Ok(shell)
    }

    fn run(&self, shell: &mut Command) -> Result<(bool, String, String), String> {
        let output = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = output.map_err(|error| format!("cannot run vtysh: {error}"))?;
        if output.status.code() == Some(TIMED_OUT) {
            return Err(format!("FRR does not answer within {LIMIT} seconds: is one of its daemons stuck?"));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.success(), text(&output.stdout), text(&output.stderr)))
    }
}

/// What the shell says, without what it always says here: its own configuration is FRR's alone.
fn said(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let told = lines.filter(|line| !(line.is_empty() || line.contains("Can't open configuration file")));
    told.collect::<Vec<_>>().join("; ")
}

/// The lines that were refused. Which ones says the shell, and why the daemons, in the same order.
fn refused(out: &str, err: &str) -> Vec<Refused> {
    let mut reasons = out.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains("XFRR_"));
    let mut found = Vec::new();
    for line in err.lines().chain(out.lines()) {
        let Some((number, rest)) = line.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        let Ok(line) = number.parse() else { continue };
        let why = if rest.starts_with("Failure") {
            reasons.next().unwrap_or(rest).trim_start_matches(['%', ' ']).to_owned()
        } else {
            // Its words, without the number of its state and the line.
            rest.trim_start_matches(['%', ' ']).split(['[', ':']).next().unwrap_or(rest).to_owned()
        };
        if !found.iter().any(|other: &Refused| other.line == line) {
            found.push(Refused { line, why });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_frr_refuses_is_told_of_the_line() {
        let out = "% ebgp-multihop and ttl-security cannot be configured together\n\
                   BGP is already running; AS is 65001\n% [ZEBRA] Unknown command: XFRR_end_configuration\n";
        let err = "% Can't open configuration file /etc/frr/vtysh.conf due to 'Permission denied'.\n\
                   line 2: Failure to communicate[13] to bgpd, line:  neighbor 192.0.2.2 ttl-security hops 2\n\n\
                   line 3: % Unknown command[25]:  neighbor 192.0.2.2 frobnicate\n\
                   line 7: Failure to communicate[13] to bgpd, line: router bgp 65007\n\n";
        let told: Vec<(usize, String)> =
            refused(out, err).into_iter().map(|refused| (refused.line, refused.why)).collect();
        assert_eq!(
            told,
            [
                (2, "ebgp-multihop and ttl-security cannot be configured together".to_owned()),
                (3, "Unknown command".to_owned()),
                (7, "BGP is already running; AS is 65001".to_owned()),
            ]
        );
        assert!(refused("", "").is_empty());
    }
}
