//! BIRD on a host: another implementation of BGP, to learn routes from, and of BFD.

use std::{fmt::Write, fs, net::IpAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;

use crate::{Host, LabError, Process, Result, wait_for};

/// A running BIRD.
pub struct Bird {
    host: Host,
    config: PathBuf,
    socket: PathBuf,
    _process: Process,
}

/// What a BIRD is to say, and to whom.
pub struct Speaker<'a> {
    /// Its autonomous system.
    pub asn: u32,
    /// Its router identifier, an IPv4 address.
    pub router_id: &'a str,
    /// Its neighbours: address and autonomous system. Each gets all groups of its address's family.
    pub neighbours: &'a [(IpAddr, u32)],
    /// The prefixes it announces, in named groups which can be withdrawn and announced again as a
    /// whole. A group holds one family; names are of letters, digits and `_`.
    pub groups: &'a [(&'a str, Vec<IpNet>)],
}

impl Bird {
    /// Starts BIRD and waits until it answers; sessions come up afterwards ([`Bird::established`]).
    pub fn start(host: &Host, speaker: &Speaker<'_>) -> Result<Bird> {
        Bird::start_with(host, &render(speaker))
    }

    /// The same with a configuration of one's own.
    pub fn start_with(host: &Host, text: &str) -> Result<Bird> {
        let folder = host.folder().join("bird");
        fs::create_dir(&folder).map_err(LabError::io("bird's folder"))?;
        let (config, socket) = (folder.join("bird.conf"), folder.join("bird.ctl"));
        fs::write(&config, text).map_err(LabError::io("bird.conf"))?;
        let mut command = host.command("/usr/sbin/bird");
        command.arg("-f").arg("-c").arg(&config).arg("-s").arg(&socket).arg("-P").arg(folder.join("pid"));
        let mut process = host.spawn("bird", command)?;
        wait_for("bird to start", Duration::from_secs(20), || match process.ended() {
            Some(_) => Err(process.output()),
            None if socket.exists() => Ok(()),
            None => Err("no control socket yet".to_owned()),
        })?;
        Ok(Bird { host: host.clone(), config, socket, _process: process })
    }

    /// Gives it another configuration.
    pub fn configure(&self, text: &str) -> Result<()> {
        fs::write(&self.config, text).map_err(LabError::io("bird.conf"))?;
        let said = self.host.run(&format!("/usr/sbin/birdc -s {} configure", self.socket.display()))?;
        match said.contains("Reconfigur") {
            true => Ok(()),
            false => Err(LabError::Output {
                program: "birdc configure".to_owned(),
                expected: "no error",
                got: said,
            }),
        }
    }

    /// Asks it something, as `birdc` would.
    pub fn ask(&self, question: &str) -> Result<String> {
        self.host.run(&format!("/usr/sbin/birdc -r -s {} {question}", self.socket.display()))
    }

    /// Tells it to do something.
    pub fn tell(&self, order: &str) -> Result<()> {
        self.host.run(&format!("/usr/sbin/birdc -s {} {order}", self.socket.display())).map(drop)
    }

    /// Withdraws a group of prefixes.
    pub fn withdraw(&self, group: &str) -> Result<()> {
        self.tell(&format!("disable {group}"))
    }

    /// Announces a group again.
    pub fn announce(&self, group: &str) -> Result<()> {
        self.tell(&format!("enable {group}"))
    }

    /// Waits until every session is up.
    pub fn established(&self, limit: Duration) -> Result<()> {
        wait_for("bird's sessions", limit, || {
            let protocols = self.ask("show protocols").map_err(|e| e.to_string())?;
            let sessions: Vec<_> = protocols.lines().filter(|l| l.starts_with("neighbour")).collect();
            let down = sessions.iter().find(|l| !l.contains("Established"));
            down.map_or(Ok(()), |line| Err((*line).to_owned()))
        })
    }
}

fn render(speaker: &Speaker<'_>) -> String {
    let mut text = format!("router id {};\nlog stderr all;\nprotocol device {{ }}\n", speaker.router_id);
    for family in ["ipv4", "ipv6"] {
        // What it learns goes to its own Linux; what it announces is somebody else's and stays out
        // of it.
        let _infallible =
            writeln!(text, "protocol kernel {{ {family} {{ export where source = RTS_BGP; }}; }}");
    }
    for (name, prefixes) in speaker.groups {
        let family = if matches!(prefixes.first(), Some(IpNet::V6(_))) { "ipv6" } else { "ipv4" };
        let _infallible = writeln!(text, "protocol static {name} {{\n  {family};");
        for prefix in prefixes {
            let _infallible = writeln!(text, "  route {prefix} blackhole;");
        }
        text += "}\n";
    }
    for (n, (address, asn)) in speaker.neighbours.iter().enumerate() {
        let family = if address.is_ipv6() { "ipv6" } else { "ipv4" };
        let _infallible = writeln!(
            text,
            "protocol bgp neighbour{n} {{\n  local as {};\n  neighbor {address} as {asn};\n  connect retry time 1;\n  \
             error wait time 1, 2;\n  {family} {{ import all; export where source = RTS_STATIC; next hop self; }};\n}}",
            speaker.asn
        );
    }
    text
}
