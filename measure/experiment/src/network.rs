//! A router between a source and a sink, in network namespaces: Linux, or Bifrost's own daemon, in
//! the same place.
//!
//! ```text
//!  source  src0 --- in0                out0 --- snk0  sink
//!  second  src1 --- in1     router
//!  client  cli0 --- ctl0
//! ```
//!
//! Links are veth. The router's inputs poll in kernel threads of their own (threaded NAPI), pinned
//! to the forwarding core; what makes load and counts it runs on the tester's core. Where there are
//! two cores, the tester's is the router's control core as well: the figures are then a little too
//! low for control, never for forwarding.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ipnet::Ipv4Net;
use lab::{Host, Lab, wait_for};
use port::traffic::Sink;
use serde_json::Value;

use crate::ExperimentError;
use crate::measure::{cores, pin};
use crate::ruleset::Judge;

/// Neighbours that the routes go by.
const GATEWAYS: usize = 16;
/// How long a full table may take to reach the plane.
const PATIENCE: Duration = Duration::from_secs(90);
/// The router's addresses, one on each link.
pub const ROUTER: [&str; 4] = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1"];

/// Who forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder {
    /// The kernel.
    Linux,
    /// Bifrost's daemon.
    Bifrost,
}

impl Forwarder {
    /// Both, in the order in which they are measured: Linux's routes are there first.
    pub const BOTH: [Forwarder; 2] = [Forwarder::Linux, Forwarder::Bifrost];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Forwarder::Linux => "Linux",
            Forwarder::Bifrost => "Bifrost",
        }
    }
}

/// What runs where.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    /// Routing daemons, and whatever else is the router's own.
    pub control: usize,
    /// Forwards.
    pub forwarding: usize,
    /// Makes load, counts what arrives, and is the client of transactions.
    pub tester: usize,
}

impl Cores {
    fn here() -> Result<Cores, ExperimentError> {
        match *cores() {
            [] | [_] => Err(ExperimentError::Machine("this needs two cores: one makes the load".to_owned())),
            [control, forwarding] => Ok(Cores { control, forwarding, tester: control }),
            [control, forwarding, .., tester] => Ok(Cores { control, forwarding, tester }),
        }
    }

    /// Whether the tester has a core of its own.
    pub fn are_apart(self) -> bool {
        self.control != self.tester
    }

    /// What the reader of the figures should know of the cores.
    pub fn note(self) -> String {
        let shared = if self.are_apart() {
            format!("core {} makes the load and counts", self.tester)
        } else {
            format!(
                "core {}, the control core, makes the load and counts as well (there are two)",
                self.tester
            )
        };
        format!("In namespaces over veth; one core (core {}) forwards, {shared}.", self.forwarding)
    }
}

/// The namespaces, and what forwards. Fields go in the order in which they are dropped.
pub struct Network {
    plane: Option<lab::Router>,
    /// The router.
    pub router: Host,
    /// Sends.
    pub source: Host,
    /// Receives.
    pub sink: Host,
    /// What runs where.
    pub cores: Cores,
    /// The router's interfaces.
    ports: Vec<&'static str>,
    lab: Lab,
}

/// A link of the router: the host, its interface, the router's, and the third byte of its
/// addresses.
struct Link(&'static str, &'static str, &'static str, u8);

const SOURCE: Link = Link("source", "src0", "in0", 1);
const SINK: Link = Link("sink", "snk0", "out0", 2);
const CLIENT: Link = Link("client", "cli0", "ctl0", 3);
const SECOND: Link = Link("second", "src1", "in1", 4);

/// The Ethernet address of the host's end of a link, or of the router's.
pub fn mac(link: u8, is_router: bool) -> [u8; 6] {
    [2, 0, 0, 0xe0, u8::from(is_router), link]
}

impl Network {
    /// The namespaces and their links, Linux forwarding.
    pub fn new() -> Result<Network, ExperimentError> {
        let cores = Cores::here()?;
        let lab = Lab::new("experiment")?;
        let router = lab.router("router")?;
        let (source, sink) = (lab.host(SOURCE.0)?, lab.host(SINK.0)?);
        let mut network = Network { plane: None, router, source, sink, cores, ports: Vec::new(), lab };
        network.link(&network.source.clone(), &SOURCE)?;
        network.link(&network.sink.clone(), &SINK)?;
        network.router.sysctl(&[("net.ipv4.conf.all.send_redirects", "0")])?;
        for (host, interface, core) in [
            (&network.router, SOURCE.2, cores.forwarding),
            (&network.router, SINK.2, cores.forwarding),
            (&network.sink, SINK.1, cores.tester),
            (&network.source, SOURCE.1, cores.tester),
        ] {
            polls(host, interface, core)?;
        }
        Ok(network)
    }

    /// With a client of the router's own, on a link that carries nothing else.
    pub fn with_client() -> Result<(Network, Host), ExperimentError> {
        let mut network = Network::new()?;
        let client = network.lab.host(CLIENT.0)?;
        network.link(&client, &CLIENT)?;
        Ok((network, client))
    }

    /// With a second source.
    pub fn with_second() -> Result<(Network, Host), ExperimentError> {
        let mut network = Network::new()?;
        let second = network.lab.host(SECOND.0)?;
        network.link(&second, &SECOND)?;
        polls(&network.router, SECOND.2, network.cores.forwarding)?;
        Ok((network, second))
    }

    fn link(&mut self, host: &Host, link: &Link) -> Result<(), ExperimentError> {
        let Link(_, interface, port, n) = *link;
        let end = |host: &Host, interface: &str, address: u8| {
            let mac = mac(n, address == 1).map(|byte| format!("{byte:02x}")).join(":");
            host.end(interface).address(&format!("10.{n}.0.{address}/24")).mac(&mac)
        };
        self.lab.link(end(&self.router, port, 1), end(host, interface, 2))?;
        host.run(&format!("ip route add 10.0.0.0/8 via 10.{n}.0.1"))?;
        let theirs = mac(n, false).map(|byte| format!("{byte:02x}")).join(":");
        let gateways = if n == SINK.3 { GATEWAYS } else { 1 };
        let neighbours = (2..gateways + 2).map(|gateway| {
            format!("neigh replace 10.{n}.0.{gateway} lladdr {theirs} nud permanent dev {port}\n")
        });
        self.router.ip_batch(&neighbours.collect::<String>())?;
        self.ports.push(port);
        Ok(())
    }

    /// Gives Linux these routes, by the neighbours behind the sink's link.
    pub fn route(&self, routes: &[Ipv4Net]) -> Result<(), ExperimentError> {
        let lines = routes.iter().enumerate();
        let lines =
            lines.map(|(n, net)| format!("route replace {net} via 10.2.0.{} dev out0\n", n % GATEWAYS + 2));
        Ok(self.router.ip_batch(&lines.collect::<String>())?)
    }

    /// Lets `forwarder` forward, judging by `judge`; the routes are there. More of router.toml may
    /// be given.
    pub fn start(&mut self, forwarder: Forwarder, judge: Judge, toml: &str) -> Result<(), ExperimentError> {
        self.stop()?;
        match forwarder {
            Forwarder::Linux if judge == Judge::Nothing => {}
            Forwarder::Linux => {
                let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
                let ruleset = judge.filter()?.nftables(&ports, None, true);
                let ruleset =
                    ruleset.map_err(|why| ExperimentError::Words(format!("not for nftables: {why:?}")))?;
                self.nft(&ruleset)?;
            }
            Forwarder::Bifrost => {
                let port = |port: &&str| format!("[[port]]\nname = \"{port}\"\n");
                let ports: String = self.ports.iter().map(port).collect();
                let config = format!(
                    "{ports}[workers]\ncores = [{}]\n[police]\nrest = {{ rate = 500_000, burst = 50_000 }}\n{}{toml}",
                    self.cores.forwarding,
                    judge.toml()
                );
                let plane = lab::Router::start(&self.router, &config)?;
                if !plane.is_bifrost() {
                    return Err(ExperimentError::Machine(
                        "ROUTER=linux is set: it has no Bifrost to measure".to_owned(),
                    ));
                }
                self.synced(&plane)?;
                self.plane = Some(plane);
            }
        }
        // A program that comes or goes may begin the polling anew.
        for port in self.ports.iter().filter(|port| **port != CLIENT.2) {
            polls_on(port, self.cores.forwarding, Urgency::First)?;
        }
        polls_on(SINK.1, self.cores.tester, Urgency::First)
    }

    /// Leaves forwarding to Linux, without rules.
    pub fn stop(&mut self) -> Result<(), ExperimentError> {
        if let Some(mut plane) = self.plane.take() {
            plane.stop()?;
        }
        // Where there is no nft there are no rules either.
        if self.router.run("command -v nft").is_ok() {
            self.nft("flush ruleset\n")?;
        }
        Ok(())
    }

    fn nft(&self, ruleset: &str) -> Result<(), ExperimentError> {
        let told = ExperimentError::io("nft");
        let mut command = self.router.command("nft");
        let child = command.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let output = child.and_then(|mut child| {
            if let Some(mut input) = child.stdin.take() {
                input.write_all(ruleset.as_bytes())?;
            }
            child.wait_with_output()
        });
        let output = output.map_err(told)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(ExperimentError::Machine(format!("nft: {}", said.lines().next().unwrap_or("refused"))))
    }

    /// Waits until the plane has all of Linux's routes.
    fn synced(&self, plane: &lab::Router) -> Result<(), ExperimentError> {
        wait_for("the plane to have Linux's routes", PATIENCE, || {
            std::thread::sleep(Duration::from_millis(100));
            let mirror = plane.subject("mirror").map_err(|error| error.to_string())?;
            match mirror.get("synced").and_then(Value::as_bool) {
                Some(true) => Ok(()),
                _ => Err("it is still reading".to_owned()),
            }
        })?;
        Ok(())
    }

    /// The daemon's process number, while it runs.
    pub fn daemon(&mut self) -> Option<u32> {
        Some(self.plane.as_mut()?.process()?.pid())
    }

    /// Whether Bifrost forwards.
    pub fn has_plane(&self) -> bool {
        self.plane.is_some()
    }

    /// Counts and drops all that reaches the sink.
    pub fn count(&self) -> Result<Sink, ExperimentError> {
        let index = self.sink.interface_number("snk0", "ifindex")? as u32;
        let attached = self.sink.inside(move || Sink::attach(index))?.join();
        let sink =
            attached.map_err(|_| ExperimentError::Wrong("attaching the sink panicked".to_owned()))??;
        polls_on("snk0", self.cores.tester, Urgency::First)?;
        Ok(sink)
    }

    /// A file with these addresses, for the generator; it goes when the network goes.
    pub fn addresses(
        &self,
        name: &str,
        addresses: impl Iterator<Item = u32>,
    ) -> Result<PathBuf, ExperimentError> {
        let path = self.source.folder().join(name);
        let lines: String =
            addresses.map(|address| format!("{}\n", std::net::Ipv4Addr::from_bits(address))).collect();
        fs::write(&path, lines).map_err(ExperimentError::io(path.display().to_string()))?;
        Ok(path)
    }
}

/// What an interface's polling thread yields to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Nothing that runs on the core.
    First,
    /// Shares the core with whatever else of the experiment runs there.
    Equal,
}

/// Gives an interface's polling to kernel threads, on a core.
fn polls(host: &Host, interface: &str, core: usize) -> Result<(), ExperimentError> {
    host.run(&format!("echo 1 > /sys/class/net/{interface}/threaded"))?;
    polls_on(interface, core, Urgency::First)
}

/// Keeps the polling threads of an interface on a core.
pub fn polls_on(interface: &str, core: usize, urgency: Urgency) -> Result<(), ExperimentError> {
    let threads = wait_for("the polling threads (threaded NAPI)", Duration::from_secs(2), || {
        let threads = polling(interface);
        if threads.is_empty() { Err(format!("none of {interface}")) } else { Ok(threads) }
    })?;
    for thread in threads {
        pin(thread, core)?;
        let thread = thread.to_string();
        match urgency {
            Urgency::First => command("chrt", &["-f", "-p", "1", &thread])?,
            Urgency::Equal => {
                command("chrt", &["-o", "-p", "0", &thread])?;
                command("renice", &["-n", "-20", "-p", &thread])?;
            }
        }
    }
    Ok(())
}

fn command(program: &'static str, arguments: &[&str]) -> Result<(), ExperimentError> {
    let output = Command::new(program).args(arguments).output().map_err(ExperimentError::io(program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ExperimentError::Machine(format!("{program}: {said}")))
}

/// The kernel's threads that poll an interface of this name.
pub fn polling(interface: &str) -> Vec<i32> {
    let wanted = format!("napi/{interface}-");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with(&wanted))
    })
    .collect()
}
