//! FRR on a host: the routing daemons a router of ours would run, each with its sockets and files
//! in the host's folder.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use crate::{Host, LabError, Process, Result, wait_for};

/// Where Debian puts the daemons.
const DAEMONS: &str = "/usr/lib/frr";

/// Running FRR daemons of one host.
pub struct Frr {
    host: Host,
    folder: PathBuf,
    _processes: Vec<Process>,
}

impl Frr {
    /// Starts zebra and the named daemons (`bgpd`, `staticd`, `ospfd`, ...), and gives them
    /// `config`, one file for all. A name may have options behind it (`bfdd --dplaneaddr ...`).
    ///
    /// With `fpm` zebra also sends its routes to a forwarding plane listening at 127.0.0.1:2620
    /// (netlink messages; it connects again when that one comes later).
    pub fn start(host: &Host, daemons: &[&str], config: &str, fpm: bool) -> Result<Frr> {
        let folder = host.folder().join("frr");
        fs::create_dir(&folder).map_err(LabError::io("frr's folder"))?;
        let fpm_line = if fpm { "fpm address 127.0.0.1\n" } else { "" };
        let file =
            format!("hostname {}\nlog file {}/frr.log\n{fpm_line}{config}\n", host.name(), folder.display());
        fs::write(folder.join("frr.conf"), file).map_err(LabError::io("frr.conf"))?;
        let names = daemons.iter().filter_map(|daemon| daemon.split(' ').next());
        for name in ["vtysh", "zebra"].into_iter().chain(names) {
            fs::write(folder.join(format!("{name}.conf")), "").map_err(LabError::io(name))?;
        }
        host.run(&format!("chown -R frr:frr {}", folder.display()))?;

        let mut frr = Frr { host: host.clone(), folder, _processes: Vec::new() };
        let zebra_options: &[&str] = if fpm { &["-M", "dplane_fpm_nl"] } else { &[] };
        frr.daemon("zebra", zebra_options)?;
        for daemon in daemons {
            let mut words = daemon.split(' ');
            let name = words.next().unwrap_or_default();
            frr.daemon(name, &words.collect::<Vec<_>>())?;
        }
        host.run(&format!("vtysh --vty_socket {0} --config_dir {0} -b", frr.folder.display()))?;
        Ok(frr)
    }

    fn daemon(&mut self, name: &str, options: &[&str]) -> Result<()> {
        let at = |end: &str| self.folder.join(format!("{name}.{end}"));
        let mut command = self.host.command(&format!("{DAEMONS}/{name}"));
        command.args(["-u", "frr", "-g", "frr", "-A", "127.0.0.1", "-P", "0", "--log", "stdout"]);
        command.arg("--vty_socket").arg(&self.folder).arg("-z").arg(self.folder.join("zserv.api"));
        command.arg("-i").arg(at("pid")).arg("-f").arg(at("conf")).args(options);
        let mut process = self.host.spawn(name, command)?;
        let socket = at("vty");
        wait_for(&format!("{name} to start"), Duration::from_secs(10), || match process.ended() {
            Some(_) => Err(process.output()),
            None if socket.exists() => Ok(()),
            None => Err("no socket yet".to_owned()),
        })?;
        self._processes.push(process);
        Ok(())
    }

    /// Where its daemons have the sockets by which its shell asks them.
    pub fn sockets(&self) -> &Path {
        &self.folder
    }

    /// Runs a command in its shell (`show ip route`); several lines configure it.
    pub fn vtysh(&self, lines: &str) -> Result<String> {
        let commands: Vec<String> = lines.lines().map(|line| format!("-c '{line}'")).collect();
        self.host.run(&format!("vtysh --vty_socket {} {}", self.folder.display(), commands.join(" ")))
    }

    /// The answer to a `show ... json`.
    pub fn show(&self, command: &str) -> Result<Value> {
        let text = self.vtysh(command)?;
        serde_json::from_str(&text).map_err(|_| LabError::Output {
            program: format!("vtysh -c '{command}'"),
            expected: "JSON",
            got: text,
        })
    }

    /// State of its BGP sessions, as `(family, neighbour, state, prefixes received)`.
    pub fn sessions(&self) -> Result<Vec<(String, String, String, u64)>> {
        let summary = self.show("show bgp summary json")?;
        let mut sessions = Vec::new();
        for (family, body) in summary.as_object().into_iter().flatten() {
            for (peer, facts) in body["peers"].as_object().into_iter().flatten() {
                let state = facts["state"].as_str().unwrap_or("unknown").to_owned();
                let family = family.trim_end_matches("Unicast").to_owned();
                sessions.push((family, peer.clone(), state, facts["pfxRcd"].as_u64().unwrap_or(0)));
            }
        }
        Ok(sessions)
    }
}
