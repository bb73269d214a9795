//! The model: what a Bifrost router can be told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{Api, Role};
use crate::bfd::Bfd;
use crate::cores::Cores;
use crate::dhcp_relay::DhcpRelay;
use crate::discovery::Discovery;
use crate::interface::Interface;
use crate::memif::Memif;
use crate::mirror_port::MirrorPort;
use crate::pattern::Pattern;
use crate::repair::Repair;
use crate::route::Route;
use crate::routing::Routing;
use crate::rule::RoutingRule;
use crate::service::Services;
use crate::sharing::Sharing;
use crate::system::System;
use crate::virtual_router::VirtualRouter;

/// A checked configuration. Without a file it is [`Router::default`] with the ports named on the
/// command line.
#[derive(Clone, Debug, Default)]
pub struct Router {
    /// Interfaces of Linux's that Bifrost makes, by name.
    pub interfaces: Vec<Interface>,
    /// Static routes that Bifrost gives to Linux, in the order of the file.
    pub routes: Vec<Route>,
    /// Routing rules that Bifrost gives to Linux, in the order of the file.
    pub routing_rules: Vec<RoutingRule>,
    /// What FRR's daemons are told.
    pub routing: Routing,
    /// Which interfaces Bifrost takes, in the order of the file.
    pub ports: Vec<PortRule>,
    /// The worker threads.
    pub workers: Workers,
    /// Packet memory.
    pub memory: Memory,
    /// Sizes of the tables.
    pub tables: Tables,
    /// Which of several equal paths flows take.
    pub paths: Paths,
    /// Limits on what is handed to Linux.
    pub police: Police,
    /// What is done where Linux has a filter of its own.
    pub linux_filter: Foreign,
    /// What is done where Linux has routing rules that the plane does not follow; ignored, none is
    /// followed.
    pub linux_rules: Foreign,
    /// What stands at the hooks of the graph.
    pub graph: Graph,
    /// The filter; without rules it lets everything pass.
    pub filter: rules::Filter,
    /// The flow table; absent: flows are tracked only when the filter asks for their state.
    pub flow: Option<flow::Settings>,
    /// Whether what FTP's control connections announce is left alone, where flows are tracked.
    pub ftp_off: bool,
    /// The rules of address translation; absent: nothing is translated.
    pub nat: Option<nat::Rules>,
    /// What is to stay true whatever is changed, in the order of the file.
    pub expect: Vec<rules::expect::Sentence>,
    /// The flow log; absent: flows are forgotten when they end.
    pub flow_log: Option<flowlog::settings::Plan>,
    /// sFlow; absent: no packets are sampled.
    pub sflow: Option<flowlog::settings::SflowPlan>,
    /// Where copies of packets are sent; absent: nowhere.
    pub mirror: Option<MirrorPort>,
    /// Addresses that this router has together with others, by name.
    pub vrrp: Vec<VirtualRouter>,
    /// Interfaces on which this router tells hosts of itself, by name.
    pub discovery: Vec<Discovery>,
    /// Relays of DHCP, by name.
    pub dhcp_relays: Vec<DhcpRelay>,
    /// BFD sessions of FRR's are run here; absent: none.
    pub bfd: Option<Bfd>,
    /// Flows are shared with another router; absent: they are not.
    pub sharing: Option<Sharing>,
    /// By whom packets go while a gateway is lost, in the order of the file.
    pub repairs: Vec<Repair>,
    /// The machine itself.
    pub system: System,
    /// What other daemons serve to hosts.
    pub services: Services,
    /// FRR's FPM as a source of routes; absent: netlink only.
    pub fpm: Option<Fpm>,
    /// The comparison of the plane with Linux.
    pub audit: Audit,
    /// The control socket.
    pub control: Control,
    /// The interface for programs; absent: nothing listens.
    pub api: Option<Api>,
    /// The Prometheus endpoint; absent: none.
    pub metrics: Option<Metrics>,
    /// The log.
    pub log: Log,
    /// The file as it was read, its secrets covered; empty without a file.
    pub text: String,
    /// The same with its secrets: for the history, and nobody's eyes.
    pub raw: Arc<str>,
}

impl Router {
    /// The rule for an interface of this name: the first that matches, or none (the interface stays
    /// Linux's).
    pub fn port(&self, name: &str) -> Option<&PortRule> {
        self.ports.iter().find(|rule| rule.name.matches(name))
    }
}

/// What to do with the interfaces that a name or pattern matches: one `[[port]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct PortRule {
    /// Name of a Linux interface, or a pattern.
    pub name: Pattern,
    /// Which lane plain transit takes.
    pub lane: LaneChoice,
    /// Receive queues to use; `None`: as many as there are workers (and the device has).
    pub queues: Option<u16>,
    /// How the XDP program is attached.
    pub mode: ModeChoice,
    /// Whether the driver fills Bifrost's memory directly.
    pub zero_copy: Switch,
    /// The reverse-path check of what arrives.
    pub reverse_path: ReversePath,
    /// Shared memory, if the port is that and no device.
    pub memif: Option<Memif>,
}

impl PortRule {
    /// All at its default for these interfaces.
    pub fn new(name: Pattern) -> PortRule {
        PortRule {
            name,
            lane: LaneChoice::default(),
            queues: None,
            mode: ModeChoice::default(),
            zero_copy: Switch::default(),
            reverse_path: ReversePath::default(),
            memif: None,
        }
    }
}

/// Which lane plain transit takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneChoice {
    /// The worker lane where the port has zero-copy, else the express lane.
    #[default]
    Auto,
    /// In the driver.
    Express,
    /// Through a worker's graph.
    Worker,
}

/// How the XDP program is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModeChoice {
    /// In the driver where it can, else generic.
    #[default]
    Auto,
    /// In the driver or not at all.
    Native,
    /// In Linux's generic path.
    Generic,
}

/// On, off, or where the machine can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// Where it is available.
    #[default]
    Auto,
    /// Required: without it the port or the memory is refused.
    On,
    /// Never.
    Off,
}

/// The reverse-path check (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReversePath {
    /// What Linux's `rp_filter` says for the interface (IPv4).
    #[default]
    Linux,
    /// No check.
    Off,
    /// The route back must leave by the port the packet came by.
    Strict,
    /// There must be a route back.
    Loose,
}

/// `[workers]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workers {
    /// Cores to pin a worker to, each once; `None`: all but the first, or the first where there is
    /// one.
    pub cores: Option<Cores>,
    /// Poll the driver from the socket (SO_PREFER_BUSY_POLL).
    pub busy_poll: Switch,
}

impl Workers {
    /// The cores to use among these: those configured, or all but the first (the only one where
    /// there is one).
    pub fn cores_among(&self, online: &[usize]) -> Vec<usize> {
        match &self.cores {
            Some(cores) => cores.0.clone(),
            None if online.len() > 1 => online[1..].to_vec(),
            None => online.to_vec(),
        }
    }
}

/// `[memory]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Packet buffers in all, 4096 bytes each; `None`: by the number of queues.
    pub frames: Option<u32>,
    /// Keep them in huge pages.
    pub hugepages: Switch,
}

/// `[paths]`: which of several equal paths flows take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// What the choice is made with; `None`: what this boot of the machine has for itself.
    pub key: Option<String>,
}

/// `[tables]`: the most entries that each can hold. What does not fit stays with Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    /// IPv4 routes.
    pub ipv4: u32,
    /// IPv6 routes.
    pub ipv6: u32,
    /// Next hops.
    pub next_hops: u32,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables { ipv4: 1_500_000, ipv6: 500_000, next_hops: 131_072 }
    }
}

/// `[police]`: limits on what is handed to Linux, by class, so that a flood of one kind cannot
/// starve another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Police {
    /// Routing protocols, BFD, VRRP and non-IP.
    pub routing: Limit,
    /// SSH, SNMP, DNS, NTP, DHCP, HTTP(S), NETCONF and the like.
    pub management: Limit,
    /// ICMP.
    pub icmp: Limit,
    /// Everything else for this machine.
    pub rest: Limit,
    /// Transit whose neighbour Linux shall resolve.
    pub unresolved: Limit,
    /// Transit that Linux forwards; `None`: as fast as it can.
    pub transit: Option<Limit>,
    /// ARP and neighbour discovery.
    pub neighbour: Limit,
}

impl Default for Police {
    fn default() -> Police {
        Police {
            routing: Limit { rate: 20_000, burst: 4_000 },
            management: Limit { rate: 20_000, burst: 4_000 },
            icmp: Limit { rate: 5_000, burst: 1_000 },
            rest: Limit { rate: 50_000, burst: 10_000 },
            unresolved: Limit { rate: 20_000, burst: 4_000 },
            transit: None,
            neighbour: Limit { rate: 20_000, burst: 4_000 },
        }
    }
}

/// What is done about something that Linux would do to packets and the plane does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Foreign {
    /// What it could touch is left to Linux.
    #[default]
    Respect,
    /// The plane does it as well, where it is wholly understood; else it is respected. Of filters
    /// alone.
    Adopt,
    /// Packets are forwarded past it.
    Ignore,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Packets a second, from 1.
    pub rate: u64,
    /// Packets at once, from 1.
    pub burst: u64,
}

/// `[fpm]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fpm {
    /// Where zebra's `dplane_fpm_nl` connects to.
    pub listen: SocketAddr,
    /// Users of this machine that may, besides root.
    pub users: Vec<String>,
}

/// `[audit]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Time for one whole comparison of the plane with Linux.
    pub interval: Duration,
}

impl Default for Audit {
    fn default() -> Audit {
        Audit { interval: Duration::from_secs(10) }
    }
}

/// `[control]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Path of the Unix socket.
    pub socket: PathBuf,
    /// Group that may use it; `None`: root's.
    pub group: Option<String>,
    /// Group that may do what leaves the configuration as it is; `None`: nobody else.
    pub operate_group: Option<String>,
    /// Group that may ask, and change nothing; `None`: nobody else.
    pub read_group: Option<String>,
    /// Its permissions.
    pub mode: u32,
    /// How many configurations that were in force are kept, from 2.
    pub revisions: usize,
}

impl Control {
    /// The key of a role's group, and that.
    pub fn group_of(&self, role: Role) -> (&'static str, Option<&str>) {
        let (key, group) = match role {
            Role::Admin => ("group", &self.group),
            Role::Operator => ("operate_group", &self.operate_group),
            Role::Viewer => ("read_group", &self.read_group),
        };
        (key, group.as_deref())
    }
}

impl Default for Control {
    fn default() -> Control {
        Control {
            socket: PathBuf::from("/run/bifrost/control.sock"),
            group: None,
            operate_group: None,
            read_group: None,
            mode: 0o660,
            revisions: 100,
        }
    }
}

/// `[metrics]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Where Prometheus scrapes (`http://LISTEN/metrics`).
    pub listen: SocketAddr,
}

/// `[graph]`: the bodies of compound elements in Click's language, with `input` and `output`.
/// Empty: nothing stands there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Before the lookup of the route.
    pub prerouting: String,
    /// Between the lookup and the decrement of the TTL.
    pub forward: String,
    /// When a frame is ready to leave.
    pub postrouting: String,
    /// On the way from a worker to Linux.
    pub punt: String,
}

impl Graph {
    /// The hooks that transit passes and something stands at.
    pub fn on_transit(&self) -> impl Iterator<Item = &'static str> {
        let hooks = [
            ("prerouting", &self.prerouting),
            ("forward", &self.forward),
            ("postrouting", &self.postrouting),
        ];
        hooks.into_iter().filter(|(_, body)| !body.trim().is_empty()).map(|(name, _)| name)
    }
}

/// `[log]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The least important messages that are logged.
    pub level: Level,
}

/// Importance of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something works worse than it could.
    Warn,
    /// Something changed.
    #[default]
    Info,
    /// How it works inside.
    Debug,
    /// Every step.
    Trace,
}
