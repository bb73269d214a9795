//! The definitions.

use std::path::PathBuf;

use crate::control::{Filter, Question, WordError};
use crate::subject::{self, Entry};
use clap::{ArgGroup, ArgMatches, Args as Arguments, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::{ArgValueCandidates, Shell};
use ipnet::IpNet;

use super::click::Click;
use super::commit::{Commit, Compare, Rollback};
use super::doctor::Doctor;
use super::experiment::Experiment;
use super::r#gen::Gen;
use super::interfaces;
use super::rfc2544::Rfc2544;
use super::sink::Sink;

/// A router for Linux.
///
/// Linux is the control plane: interfaces, addresses, neighbours and routing daemons stay where you
/// know them. Bifrost takes the ports that you name and forwards what passes through, along Linux's
/// routes.
#[derive(Debug, Parser)]
#[command(
    name = "bifrost",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    infer_subcommands = true
)]
pub struct Args {
    /// Socket of the daemon [default: /run/bifrost/control.sock; for `run`: control.socket in the
    /// file]
    #[arg(long, global = true, value_name = "PATH", display_order = 1000)]
    pub socket: Option<PathBuf>,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take ports and forward
    ///
    /// Adopts the addresses, neighbours and routes that Linux has, and follows their changes. The
    /// file is checked whole before anything is touched. On SIGTERM the ports go back to Linux,
    /// which then forwards.
    Run(Run),
    /// Check a configuration file, and say everything that is wrong with it
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// How
        #[command(flatten)]
        output: Output,
    },
    /// Have the running daemon read its configuration file again
    ///
    /// [[port]], [police], [graph], [filter], [nat], [flow_log], [sflow] and [mirror] take effect
    /// at once. When anything in the file is wrong, all stays as it is and you are told what.
    Reload(Reload),
    /// Put a configuration in force, into the file and into the history; whole or not at all
    ///
    /// Without FILE it is the file that the daemon starts from, as it was edited. With FILE that
    /// one gets its text. Says what will change, and then does it. Files that it names are looked
    /// for where the daemon's file is.
    Commit(Commit),
    /// Have the program that is installed take over from the one that runs, without losing a packet
    ///
    /// The new one starts beside the old one, with the same words and the file as it is now. When
    /// it knows all that Linux has, the old one hands over its ports and its flows, and ends. If
    /// anything goes wrong, the old one stays.
    Upgrade(Output),
    /// Keep what was committed with --confirmed
    Confirm(Output),
    /// Put an earlier configuration in force again, as a new revision
    Rollback(Rollback),
    /// Show the configurations that were in force: when, by whom, from where, and why
    History(Output),
    /// Compare two configurations, their secrets covered
    ///
    /// Each is `running`, `disk` (the file that the daemon starts from), the number of a revision,
    /// or a file. With one, what runs is compared with it; with none, with the file.
    Compare(Compare),
    /// Look, configure and commit in a shell
    ///
    /// Two modes: operate and configure. Tab completes, `?` says what could follow, `help` lists
    /// the commands. Without a terminal lines are read from standard input, up to the first that
    /// fails. It can be a login shell.
    Cli(crate::shell::Cli),
    /// Print the JSON Schema of router.toml
    Schema,
    /// Make a token for the interface for programs ([api]), and print it
    ///
    /// FILE gets its hash, with the name and the role: a viewer reads, an operator also does what
    /// leaves the configuration as it is, an admin changes it. A token cannot be printed again.
    Token(super::token::Token),
    /// Turn what is there into a router.toml: Linux's interfaces and routes, and what FRR is told
    ///
    /// Without ORIGIN both are asked. What comes out changes nothing when it is put in force: it
    /// says what is there. What it cannot say is told, and listed at its end. Without --output it
    /// is printed, with secrets covered.
    Import(Import),
    /// Change the members of an address set of the filter, while it runs
    ///
    /// The change is in force with the next batch of packets, in Linux's copy of the filter as
    /// well, and lasts until the configuration is read again: to keep it, change the file too.
    Set(Set),
    /// Hand a virtual router over to another router, or take part in it as before
    ///
    /// What is released goes on until another router has taken over: no packet is lost. Virtual
    /// routers of one `sync` go together.
    #[command(subcommand, infer_subcommands = true)]
    Redundancy(Redundancy),
    /// Have a daemon start anew that serves hosts, or FRR
    ///
    /// Which there are, the file says; a name that is none is answered with those. The daemon is
    /// told nothing new. FRR's sessions end and are set up again. With graceful restart, forwarding
    /// goes on meanwhile. To restart Bifrost itself: `bifrost upgrade`.
    Restart(Restart),
    /// End flows that live: those of a host, a port or a protocol, or all
    ///
    /// Their next packets begin flows anew, judged and translated by the rules as they are now.
    /// Connections that Linux keeps track of alone (`conntrack -L`) stay.
    Clear(Clear),
    /// Read a handler of an element in the running graph, such as `forward4/counter.count`
    Read(Read),
    /// Write a handler of an element in the running graph, on every worker
    Write(Write),
    /// Show what the running daemon knows
    #[command(subcommand, infer_subcommands = true)]
    Show(Show),
    /// Watch ports, workers, routes and drops live
    ///
    /// Keys: q quits, space holds the picture still. Without a terminal
    /// it prints a line each interval.
    Top(Top),
    /// Watch the flow table: a line each interval, with what was found, begun and removed a second
    Rtstat(Rtstat),
    /// Search the flow log, and the flows that live
    ///
    /// Reads the router's files (or those that are named) and asks the running daemon for what has
    /// not ended. Without one, and with named files, files are all. Times are those of the machine
    /// that reads.
    Flows(flowlog::query::Flows),
    /// Say what would happen to a packet, step by step, without sending one
    ///
    /// The packet: SRC > DST [PROTOCOL [[SPORT:]DPORT]] [in PORT] [ttl N] [len N] [df]. What is
    /// left out is a ping with TTL 64 and 84 bytes.
    Explain(Explain),
    /// Follow packets through the elements
    ///
    /// The filter: [SRC > DST] [PROTOCOL [[SPORT:]DPORT]] [in PORT] [ttl N] [len N] [df], where SRC
    /// and DST are an address, a prefix or `any`. Matching packets take the worker lane while they
    /// are followed.
    Trace(Trace),
    /// Copy packets to a pcapng file, for Wireshark
    ///
    /// The filter is that of `trace`. With `-w -` the file goes to standard output:
    /// `bifrost capture 'tcp 179' -w - | tshark -r -`.
    Capture(Capture),
    /// Show what passes the ports, as tcpdump does, with its options and filters
    ///
    /// Everything that comes in by a port, and everything that leaves by it, whoever forwards it:
    /// driver, worker or Linux. The packets keep to their way. `-i PORT` (or `any`, as without it),
    /// `-Q in`, `-c`, `-s`, `-F`, `-D` are as tcpdump's; all options about what to show or write
    /// (`-n -e -v -X -A -w FILE ...`) are passed to tcpdump, which must be installed. `bifrost
    /// tcpdump -ni eth1 'tcp port 179'`
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Tcpdump {
        /// tcpdump's options, then its expression
        #[arg(value_name = "OPTION|EXPRESSION", num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Run BFD sessions of FRR's beside the daemon, which starts this by itself
    ///
    /// It waits beside the daemon's socket until the daemon wants sessions. `bifrost-bfd.service`
    /// is this.
    Bfd,
    /// Make the machine's own settings as [system] of the file says
    ///
    /// The daemon may not. It writes what is wanted, and has `bifrost-system.service` restarted,
    /// which is this. Without FILE all is as it was before.
    Settings {
        /// What is wanted
        #[arg(value_name = "FILE", default_value = services::SETTINGS)]
        file: PathBuf,
    },
    /// Answer Wireshark, which runs this from its extcap folder
    ///
    /// With the file `bifrost` in that folder, which `make install` puts there (`tshark -G folders`
    /// says where it is), Wireshark and tshark list Bifrost's ports among their interfaces: `tshark
    /// -i bifrost-eth1`.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Extcap {
        /// Wireshark's options
        #[arg(value_name = "OPTION", num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Send packets, at any rate a port carries, and judge what arrives of them
    ///
    /// One stream by options, or many by a file. With --sink both ends are on this machine, with
    /// --control the other end is a `bifrost sink` elsewhere, without either packets are only sent.
    /// Ends with 0 when all arrived once and whole, 3 when some were lost, doubled or changed, 1
    /// when it could not be done.
    Gen(Box<Gen>),
    /// Judge packets that a `bifrost gen --control` on another machine sends
    Sink(Sink),
    /// Run a configuration in Click's language, as Click's user-level driver does
    ///
    /// Its options are Click's. The program does the same when it is called by the name `click`.
    Click(Click),
    /// Say whether this machine is fit to be a router, and what would make it fitter
    ///
    /// Only looks: nothing is changed. Each finding is ok, advice, a problem or unknown, with the
    /// command that mends it. Ends with 1 when something is a problem, with 0 otherwise. Without
    /// root less can be read.
    Doctor(Doctor),
    /// Measure what a device between two ports carries, as RFC 2544 has it
    ///
    /// Throughput, latency, loss, bursts, recovery and reset, in minutes (RFC 9971) or in the RFC's
    /// own durations. A device that is a router needs its MAC addresses said (--from-mac,
    /// --to-mac), and routes to the hosts behind each port by a neighbour that it knows: the tester
    /// answers no ARP. Every trial is in a log, from which an interrupted run is taken up.
    Rfc2544(Box<Rfc2544>),
    /// Measure this machine by the tables that software routers were once measured by
    ///
    /// Each experiment runs by itself, in memory or in network namespaces that it makes and takes
    /// away again, in a minute or a few, and prints figures of then beside those of now. `all
    /// --report FILE.html` makes one page of all. Progress goes to standard error. Ends with 1 when
    /// one could not be made whole; what was measured is printed all the same.
    Experiment(Experiment),
    /// Gather all that whoever helps would ask for, in one archive
    ///
    /// What the router knows, its configuration and its log, and what Linux and FRR say of
    /// themselves. Secrets are covered, and what packets carry is not in it; addresses are.
    Support(super::support::Support),
    /// Print a shell's completions
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages
    Man {
        /// Directory to write them to
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// `run`.
#[derive(Debug, Arguments)]
pub struct Run {
    /// The configuration file (default: /etc/bifrost/router.toml, where no port is named)
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where configurations that were in force are kept, by file
    #[arg(long, value_name = "DIR", default_value = "/var/lib/bifrost")]
    pub state: PathBuf,
    /// Only check the file
    #[arg(long)]
    pub check: bool,
    /// What was found, as JSON; names are stable (docs/json.md)
    #[arg(long, requires = "check")]
    pub json: bool,
    /// With ports: what to do where Linux has a filter of its own (nftables, iptables) that packets
    /// forwarded by Bifrost would not pass: leave to Linux what it could touch, judge as it does,
    /// or pass it by
    #[arg(long, value_name = "WHAT", conflicts_with = "config", value_parser = ["respect", "adopt", "ignore"])]
    pub linux_filter: Option<String>,
    /// Take over from the process at standard input (`bifrost upgrade` starts it so)
    #[arg(long, hide = true, conflicts_with = "check")]
    pub take_over: bool,
    /// Names or patterns of ports, all at their defaults, instead of those of a file
    #[arg(value_name = "PORT", conflicts_with = "config", add = ArgValueCandidates::new(interfaces::candidates))]
    pub ports: Vec<config::Pattern>,
}

/// `set`.
#[derive(Debug, Arguments)]
pub struct Set {
    /// The set's name in router.toml
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Addresses and prefixes that come
    #[arg(long, value_name = "PREFIX", num_args = 1.., value_delimiter = ',', value_parser = member)]
    pub add: Vec<IpNet>,
    /// Addresses and prefixes that go
    #[arg(long, value_name = "PREFIX", num_args = 1.., value_delimiter = ',', value_parser = member)]
    pub remove: Vec<IpNet>,
    /// Prefixes that come, a line each: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub add_from: Option<PathBuf>,
    /// Prefixes that go, a line each: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub remove_from: Option<PathBuf>,
    /// How
    #[command(flatten)]
    pub output: Output,
}

/// `redundancy`.
#[derive(Debug, Subcommand)]
pub enum Redundancy {
    /// Hand it over; then it takes over from nobody, unless the other one goes
    Release(VirtualRouter),
    /// Take part in it as before it was released
    Resume(VirtualRouter),
}

/// `restart`.
#[derive(Debug, Arguments)]
pub struct Restart {
    /// dns, dhcp, frr...
    #[arg(value_name = "SERVICE")]
    pub name: String,
    /// How
    #[command(flatten)]
    pub output: Output,
}

/// Which virtual router.
#[derive(Debug, Arguments)]
pub struct VirtualRouter {
    /// Its name in router.toml: NAME of `[vrrp.NAME]`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// How
    #[command(flatten)]
    pub output: Output,
}

/// `clear`.
#[derive(Debug, Arguments)]
#[command(infer_subcommands = true)]
pub struct Clear {
    /// What of the daemon
    #[command(subcommand)]
    pub what: Clearable,
}

/// What can be cleared.
#[derive(Debug, Subcommand)]
pub enum Clearable {
    /// Flows, by one of these at least
    #[command(group(ArgGroup::new("some").args(["host", "port", "proto", "all"]).required(true).multiple(true)))]
    Flows {
        /// Which
        #[command(flatten)]
        which: WhichFlows,
        /// All of them
        #[arg(long, conflicts_with_all = ["host", "port", "proto"])]
        all: bool,
        /// How
        #[command(flatten)]
        output: Output,
    },
}

/// Flows by what they are.
#[derive(Debug, Arguments)]
pub struct WhichFlows {
    /// Only those of this address or prefix, before or after translation
    #[arg(long, value_name = "ADDRESS|PREFIX", value_parser = host)]
    pub host: Option<IpNet>,
    /// Only those with this port at an end
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Only those of this protocol: a name or a number
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol)]
    pub proto: Option<crate::control::Protocol>,
}

/// `read`.
#[derive(Debug, Arguments)]
pub struct Read {
    /// The element, a dot, and its handler; `ELEMENT.handlers` lists them, `list` the elements
    #[arg(value_name = "ELEMENT.HANDLER")]
    pub handler: String,
    /// How
    #[command(flatten)]
    pub output: Output,
}

/// `reload`.
#[derive(Debug, Arguments)]
pub struct Reload {
    /// Only say what would change: the file is read and judged, and nothing is put in force
    ///
    /// What can be refused only when it is tried (a directory, a socket, memory, an element of the
    /// graph) is not tried.
    #[arg(long)]
    pub dry_run: bool,
    /// How
    #[command(flatten)]
    pub output: Output,
}

/// `write`.
#[derive(Debug, Arguments)]
pub struct Write {
    /// The element, a dot, and its handler
    #[arg(value_name = "ELEMENT.HANDLER")]
    pub handler: String,
    /// What to write
    #[arg(value_name = "VALUE", num_args = 0..)]
    pub value: Vec<String>,
}

/// `show`: a subject, or what is asked for with arguments.
#[derive(Debug)]
pub enum Show {
    /// Whole, as it is.
    Subject(&'static Entry, Output),
    /// With arguments of its own.
    With(ShowWith),
}

/// What `show` takes arguments for.
#[derive(Debug, Subcommand)]
pub enum ShowWith {
    /// Ports: state, mode, lane and why, packets by lane
    Ports {
        /// Only these: names or patterns
        #[arg(value_name = "PORT", add = ArgValueCandidates::new(interfaces::candidates))]
        names: Vec<config::Pattern>,
        /// How
        #[command(flatten)]
        output: Output,
    },
    /// Routes: all, those inside a prefix, or the longest match of an address
    Routes {
        /// A prefix or an address
        #[arg(value_name = "PREFIX|ADDRESS", value_parser = place)]
        place: Option<Place>,
        /// Show at most so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
        /// Those of a VRF
        #[arg(long, value_name = "VRF")]
        vrf: Option<String>,
        /// How
        #[command(flatten)]
        output: Output,
    },
    /// The graph as a text in Click's language, with packets, cost and drops of each element
    Graph {
        /// As a drawing for Graphviz, with what it does in a second: `bifrost show graph --dot |
        /// dot -Tsvg`
        #[arg(long, conflicts_with = "json")]
        dot: bool,
        /// As a drawing, with what it does in a second: `bifrost show graph --svg >graph.svg`
        #[arg(long, conflicts_with_all = ["json", "dot"])]
        svg: bool,
        /// How
        #[command(flatten)]
        output: Output,
    },
    /// Flows: all or those of a host or port, the fastest first
    Flows(ShowFlows),
    /// What is to stay true, and whether it is
    Expect(Output),
}

impl FromArgMatches for Show {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Show, clap::Error> {
        match matches.subcommand() {
            Some((name, given)) if !ShowWith::has_subcommand(name) => match subject::named(name) {
                Some(entry) => Ok(Show::Subject(entry, Output::from_arg_matches(given)?)),
                None => ShowWith::from_arg_matches(matches).map(Show::With),
            },
            _ => ShowWith::from_arg_matches(matches).map(Show::With),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Show::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Show {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        let command = ShowWith::augment_subcommands(command).subcommand_required(true);
        let plain = subject::ALL.into_iter().filter(|entry| !ShowWith::has_subcommand(entry.name));
        plain.fold(command, |command, entry| {
            let one = clap::Command::new(entry.name).visible_aliases(entry.aliases);
            // What the arguments are about is not what the subject is.
            command.subcommand(Output::augment_args(one).about(entry.about))
        })
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Show::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        ShowWith::has_subcommand(name) || subject::named(name).is_some()
    }
}

/// `show flows`.
#[derive(Debug, Arguments)]
pub struct ShowFlows {
    /// Which
    #[command(flatten)]
    pub which: WhichFlows,
    /// So many of them (100)
    #[arg(long, value_name = "N")]
    pub top: Option<u64>,
    /// The first ones by what
    #[arg(long, value_name = "WHAT", default_value = "rate")]
    pub by: Order,
    /// How
    #[command(flatten)]
    pub output: Output,
}

/// In what order flows are shown.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Order {
    /// The fastest
    Rate,
    /// The largest
    Bytes,
    /// The oldest
    Age,
}

impl From<Order> for crate::control::status::FlowOrder {
    fn from(order: Order) -> Self {
        match order {
            Order::Rate => Self::Rate,
            Order::Bytes => Self::Bytes,
            Order::Age => Self::Age,
        }
    }
}

fn host(text: &str) -> Result<IpNet, String> {
    match place(text)? {
        Place::Prefix(net) => Ok(net),
        Place::Address(address) => Ok(address.into()),
    }
}

fn protocol(text: &str) -> Result<crate::control::Protocol, String> {
    text.parse().map_err(|_| "expected a protocol such as tcp, or its number".to_owned())
}

/// `rtstat`.
#[derive(Debug, Arguments)]
pub struct Rtstat {
    /// Seconds between two lines
    #[arg(short, long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
    /// End after so many lines
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// As JSON, an object a line: the table's totals
    #[arg(long)]
    pub json: bool,
}

/// How to show.
#[derive(Clone, Copy, Debug, Arguments)]
pub struct Output {
    /// As JSON; names are stable (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// What routes to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Those inside a prefix.
    Prefix(IpNet),
    /// The longest match of an address.
    Address(std::net::IpAddr),
}

fn place(text: &str) -> Result<Place, String> {
    match text.parse() {
        Ok(address) => Ok(Place::Address(address)),
        Err(_) => prefix(text).map(Place::Prefix),
    }
}

/// A prefix, or an address as the prefix of it alone.
pub(super) fn prefix(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<std::net::IpAddr>() {
        return Ok(IpNet::from(address));
    }
    match text.parse::<IpNet>() {
        Ok(net) => Ok(net.trunc()),
        Err(_) => Err(format!("expected a prefix such as 10.0.0.0/8, or an address, not {text:?}")),
    }
}

/// A prefix that is meant as it is written: what is changed by it would be more than the one
/// address that stands there.
pub(super) fn member(text: &str) -> Result<IpNet, String> {
    let net = prefix(text)?;
    match text.parse::<IpNet>() {
        Ok(written) if written != net => {
            Err(format!("{text} has bits behind its length; the prefix is {net}"))
        }
        _ => Ok(net),
    }
}

/// `top`.
#[derive(Debug, Arguments)]
pub struct Top {
    /// Seconds between two pictures
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub interval: f64,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<u64>,
    /// No picture: all figures of each interval as JSON, an object a line; names are stable
    /// (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected 0.1 to 60 seconds".to_owned()),
    }
}

/// `explain`.
#[derive(Debug, Arguments)]
pub struct Explain {
    /// The packet, as in '198.18.0.9 > 203.0.113.7 udp 53 in eth0'
    #[arg(value_name = "PACKET", required = true, num_args = 1..)]
    pub packet: Vec<String>,
    /// How
    #[command(flatten)]
    pub output: Output,
}

impl Explain {
    /// The packet that is meant.
    pub fn question(&self) -> Result<Question, WordError> {
        self.packet.join(" ").parse()
    }
}

/// `trace`.
#[derive(Debug, Arguments)]
pub struct Trace {
    /// Which packets, as in 'any > 203.0.113.0/24 udp 53'
    #[arg(value_name = "FILTER", num_args = 0..)]
    pub filter: Vec<String>,
    /// End after so many packets
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub count: u64,
    /// End after so many seconds
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// How
    #[command(flatten)]
    pub output: Output,
}

/// `capture`.
#[derive(Debug, Arguments)]
pub struct Capture {
    /// Which packets, as in 'any > 203.0.113.0/24 udp 53'
    #[arg(value_name = "FILTER", num_args = 0..)]
    pub filter: Vec<String>,
    /// The file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub write: PathBuf,
    /// Element to copy packets at, as they enter it (default: as they arrive)
    #[arg(long, value_name = "ELEMENT")]
    pub at: Option<String>,
    /// End after so many packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: Option<u64>,
    /// Bytes to keep of each packet
    #[arg(long, value_name = "BYTES", default_value_t = 65_535, value_parser = clap::value_parser!(u32).range(14..=65_535))]
    pub snap: u32,
}

#[derive(Debug, clap::Args)]
pub struct Import {
    /// Where from; default: Linux and FRR of this machine
    #[arg(value_enum)]
    pub origin: Option<Origin>,
    /// Files, of an origin that is one; default: where they usually are
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write it here, for you alone to read, with its secrets
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// A router.toml that comes first; what it says already stays as it is
    #[arg(long, value_name = "FILE")]
    pub add_to: Option<PathBuf>,
    /// Where FRR's daemons have their sockets
    #[arg(long, value_name = "FOLDER", default_value = "/run/frr")]
    pub sockets: PathBuf,
}

/// Where an import comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Origin {
    /// Interfaces, addresses and static routes that Linux has now
    Linux,
    /// FRR's running configuration
    Frr,
    /// /etc/network/interfaces (ifupdown), and what it sources
    Interfaces,
    /// /etc/netplan/*.yaml
    Netplan,
    /// /config/config.boot of VyOS: interfaces, VRFs and static routes
    Vyos,
}

/// The filter that is meant by the words of the command line.
pub fn filter(words: &[String]) -> Result<Filter, WordError> {
    words.join(" ").parse()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// What prints no answer, but a text that has its own language, or nothing; `compare` shows two
    /// reports that are JSON.
    const NO_ANSWER: [&str; 14] = [
        "bfd",
        "capture",
        "cli",
        "click",
        "compare",
        "completions",
        "extcap",
        "import",
        "man",
        "schema",
        "settings",
        "support",
        "tcpdump",
        "write",
    ];

    fn each_leaf(command: &clap::Command, visit: &mut impl FnMut(&clap::Command)) {
        match command.has_subcommands() {
            true => command.get_subcommands().for_each(|one| each_leaf(one, visit)),
            false => visit(command),
        }
    }

    #[test]
    fn every_command_that_prints_an_answer_prints_it_as_json() {
        let (mut with, mut without) = (0, Vec::new());
        each_leaf(&Args::command(), &mut |command| match command
            .get_arguments()
            .any(|argument| argument.get_long() == Some("json"))
        {
            true => with += 1,
            false => without.push(command.get_name().to_owned()),
        });
        without.sort();
        assert_eq!(without, NO_ANSWER);
        assert!(with > 20, "{with}");
    }

    #[test]
    fn what_is_unambiguous_may_be_short() {
        let parse = |line: &str| Args::try_parse_from(line.split(' ')).map(|args| args.command);
        let ports = |text| matches!(parse(text), Ok(Command::Show(Show::With(ShowWith::Ports { .. }))));
        assert!(ports("bifrost sh po") && !ports("bifrost show interfaces"));
        let neighbours = |text| match parse(text) {
            Ok(Command::Show(Show::Subject(entry, _))) => entry.name == "neighbours",
            _ => false,
        };
        assert!(neighbours("bifrost show nei") && neighbours("bifrost show neighbors"));
        assert!(matches!(parse("bifrost cle fl --all"), Ok(Command::Clear(_))));
        assert!(parse("bifrost s po").is_err(), "set, show and sink");
        assert!(parse("bifrost show flow").is_err(), "flows and flowlog");
    }
}
