//! `bifrost rfc2544`: what a device between two ports carries, and how long it takes.

mod screen;

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::{Args, Subcommand};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use traffic::range::{Addresses, Macs};
use traffic::rate::Rate;
use traffic::{Port, Stream};
use trial::log::Log;
use trial::report::Report;
use trial::{
    Commands, Direction, End, Family, Frames, Modifiers, Pair, Plan, RunError, Test, Tester, html_page,
};

use super::table::print;
use super::{Failure, result_file};
use crate::service::Signals;

use screen::{Screen, text};

/// The line of a port that does not tell.
const LINE: f64 = 10e9;

/// `rfc2544`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Rfc2544 {
    /// What else than to measure
    #[command(subcommand)]
    pub other: Option<Other>,
    /// The port that sends: eth1, eth1@NAMESPACE, memif:SOCKET, ...
    #[arg(value_name = "FROM", required = true, add = clap_complete::ArgValueCandidates::new(super::interfaces::candidates))]
    pub from: Option<String>,
    /// The port that receives
    #[arg(value_name = "TO", required = true, add = clap_complete::ArgValueCandidates::new(super::interfaces::candidates))]
    pub to: Option<String>,
    /// More ports that send and receive at the same time, and what is otherwise there than said
    /// below: from-mac=, to-mac=, from-hosts=, to-hosts=
    #[arg(long = "pair", value_name = "FROM,TO[,NAME=VALUE]", value_parser = pair)]
    pub pairs: Vec<Ports>,
    /// The tests: throughput, latency, loss, back-to-back, recovery, reset [default: all that can
    /// be made]
    #[arg(long, value_name = "TEST", value_delimiter = ',')]
    pub tests: Vec<Test>,
    /// Frame sizes with the FCS, mixes among them: 64,1518,imix,64:7,594:4,1518:1 [default: 64 to
    /// 1518, and imix]
    #[arg(long, value_name = "SIZES", value_parser = sizes)]
    pub sizes: Option<Sizes>,
    /// Short trials: MLRsearch for 0 % and 0.5 % of loss (RFC 9971). This is the default
    #[arg(long, conflicts_with = "rfc")]
    pub mlr: bool,
    /// RFC 2544's own trials and repetitions, which take hours
    #[arg(long)]
    pub rfc: bool,
    /// Seconds of a trial; others go with it [default: 1, with --rfc 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<f64>,
    /// Send from both ports
    #[arg(long)]
    pub bidirectional: bool,
    /// IPv6 (RFC 5180)
    #[arg(long)]
    pub ipv6: bool,
    /// The device's MAC address at FROM, where it is a router [default: that of TO]
    #[arg(long, value_name = "MAC")]
    pub from_mac: Option<Macs>,
    /// The device's MAC address at TO [default: that of FROM]
    #[arg(long, value_name = "MAC")]
    pub to_mac: Option<Macs>,
    /// Addresses of the hosts behind FROM [default: 198.18.0.0/16]
    #[arg(long, value_name = "ADDRESSES")]
    pub from_hosts: Option<Addresses>,
    /// Addresses of the hosts behind TO [default: 198.19.0.0/16]
    #[arg(long, value_name = "ADDRESSES")]
    pub to_hosts: Option<Addresses>,
    /// Flows that the load is spread over [default: 65536, or as many as the hosts make]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub flows: Option<u32>,
    /// What the line carries [default: what FROM says, or 10Gbps]
    #[arg(long, value_name = "RATE")]
    pub line_rate: Option<Rate>,
    /// The most that this machine can offer a port: found by a run without a device between the
    /// ports
    #[arg(long, value_name = "RATE")]
    pub tester_rate: Option<Rate>,
    /// Cores that send
    #[arg(long, value_name = "CORE", value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// Use interfaces that this machine itself lives on
    #[arg(long)]
    pub force: bool,
    /// Rules in the device's filter, loaded by --filter-command
    #[arg(long, value_name = "N", requires = "filter_command", default_value_t = 0)]
    pub filters: u32,
    /// Loads a filter of $COUNT rules into the device
    #[arg(long, value_name = "COMMAND")]
    pub filter_command: Option<String>,
    /// Prefixes of a routing update every 30 s during trials, sent by --route-command
    #[arg(long, value_name = "N", requires = "route_command", default_value_t = 0)]
    pub route_updates: u32,
    /// Sends the device a routing update of $COUNT prefixes
    #[arg(long, value_name = "COMMAND")]
    pub route_command: Option<String>,
    /// Seconds between routing updates
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub route_interval: u32,
    /// Resets the device, for the test `reset`
    #[arg(long, value_name = "COMMAND")]
    pub reset_command: Option<String>,
    /// One broadcast among a hundred frames
    #[arg(long)]
    pub broadcast: bool,
    /// What is tested, as it is called in the report
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Directory of the log of trials [default: rfc2544-DATE-TIME]
    #[arg(long, value_name = "DIR")]
    pub log: Option<PathBuf>,
    /// Take up the run whose log is in --log
    #[arg(long, requires = "log")]
    pub resume: bool,
    /// Write the report as JSON; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as a page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What else than to measure.
#[derive(Debug, Subcommand)]
pub enum Other {
    /// Make one page of several reports
    Compare {
        /// Reports that --json wrote
        #[arg(value_name = "FILE", required = true)]
        reports: Vec<PathBuf>,
        /// The page
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

/// Sizes to measure.
#[derive(Clone, Debug)]
pub struct Sizes(Vec<Frames>);

fn sizes(text: &str) -> Result<Sizes, String> {
    // The parts of a mix with weights have colons; others stand alone.
    let mut sizes: Vec<String> = Vec::new();
    for part in text.split(',') {
        match sizes.last_mut() {
            Some(last) if part.contains(':') && last.contains(':') => *last += &format!(",{part}"),
            _ => sizes.push(part.to_owned()),
        }
    }
    sizes
        .iter()
        .map(|size| size.parse().map_err(|error: trial::FramesError| error.to_string()))
        .collect::<Result<_, _>>()
        .map(Sizes)
}

/// Two ports, and what is behind them where that is said.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    from: Side,
    to: Side,
}

/// One of them.
#[derive(Clone, Debug, Default)]
struct Side {
    port: String,
    device_mac: Option<Macs>,
    hosts: Option<Addresses>,
}

fn pair(text: &str) -> Result<Ports, String> {
    let mut pair = Ports::default();
    let mut rest = text;
    // From the end, for ports may have settings of their own.
    while let Some((before, last)) = rest.rsplit_once(',')
        && let Some((name @ ("from-mac" | "to-mac" | "from-hosts" | "to-hosts"), value)) =
            last.split_once('=')
    {
        let side = if name.starts_with("from") { &mut pair.from } else { &mut pair.to };
        let wrong = |error: &dyn std::fmt::Display| format!("{name}: {error}");
        if name.ends_with("mac") {
            side.device_mac = Some(value.parse().map_err(|error| wrong(&error))?);
        } else {
            side.hosts = Some(value.parse().map_err(|error| wrong(&error))?);
        }
        rest = before;
    }
    let (from, to) = rest.split_once(',').ok_or("expected two ports with a comma between them")?;
    (pair.from.port, pair.to.port) = (from.to_owned(), to.to_owned());
    Ok(pair)
}

fn seconds(text: &str) -> Result<f64, String> {
    match notation::seconds(text).map(|time| time.as_secs_f64()) {
        Some(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected 0.01 to 3600 seconds".to_owned()),
    }
}

/// Measures, or compares.
pub fn rfc2544(args: Rfc2544) -> Result<(), Failure> {
    if let Some(Other::Compare { reports, out }) = args.other {
        let said = |error: trial::report::ReportError| Failure::Said(error.to_string());
        let reports: Vec<Report> =
            reports.iter().map(|path| Report::open(path)).collect::<Result<_, _>>().map_err(said)?;
        return result_file::keep(&out, &html_page(&reports).html());
    }
    let plan = plan(&args);
    if plan.wants(Test::Reset) && args.reset_command.is_none() {
        return Err(Failure::Said(
            "the test reset needs the command that resets the device (--reset-command)".to_owned(),
        ));
    }
    plan.check().map_err(|error| Failure::Said(error.to_string()))?;
    let files = [&args.json, &args.html].into_iter().flatten();
    files.filter(|file| *file != Path::new("-")).try_for_each(|file| result_file::can_be(file))?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut tester = tester(&args, stop.clone())?;
    let (log, directory) = log(&args, &tester, &plan)?;
    stop_on_signal(stop.clone())?;
    let mut screen = Screen::default();
    let ran = trial::run(&mut tester, &plan, Some(log), &stop, &mut |progress| screen.show(progress));
    screen.clear();
    let resume = format!("to go on: the same command with --resume --log {}", directory.display());
    let mut report = match ran {
        Ok(report) => report,
        Err(RunError::Stopped) => return Err(Failure::Said(format!("stopped; {resume}"))),
        Err(error) => return Err(Failure::Said(format!("{error}; {resume}"))),
    };
    let quick = doctor::Options { quick: true, ..doctor::Options::default() };
    report.machine = doctor::examine(&doctor::Place::new("/"), &doctor::Kernel, &quick).machine;
    let page = args
        .html
        .as_ref()
        .map_or(Ok(()), |path| result_file::keep(path, &html_page(std::slice::from_ref(&report)).html()));
    let json = match &args.json {
        Some(path) if path == Path::new("-") => print(&report.json()),
        Some(path) => {
            let kept = result_file::keep(path, &report.json());
            print(&text(&report)).and(kept)
        }
        None => print(&text(&report)),
    };
    page.and(json).map_err(|failure| match failure {
        Failure::Io { .. } => Failure::Said(format!("{failure}; the trials are in the log; {resume}")),
        closed => closed,
    })
}

fn plan(args: &Rfc2544) -> Plan {
    let mut plan = match args.rfc {
        true => Plan::rfc(args.duration.unwrap_or(60.0)),
        false => Plan::short(args.duration.unwrap_or(1.0)),
    };
    if args.reset_command.is_some() {
        plan.tests.push(Test::Reset);
    }
    if !args.tests.is_empty() {
        plan.tests.clone_from(&args.tests);
    }
    if let Some(Sizes(sizes)) = &args.sizes {
        plan.frames.clone_from(sizes);
    }
    plan.family = if args.ipv6 { Family::V6 } else { Family::V4 };
    plan.direction = if args.bidirectional { Direction::Both } else { Direction::OneWay };
    plan.modifiers = Modifiers {
        filters: args.filters,
        route_updates: args.route_updates,
        route_interval: args.route_interval,
        broadcast: args.broadcast,
        management: false,
    };
    plan
}

fn tester(args: &Rfc2544, stop: Arc<AtomicBool>) -> Result<Tester, Failure> {
    let plan_family = if args.ipv6 { Family::V6 } else { Family::V4 };
    let (near, far) = trial::hosts(plan_family);
    let hosts = |given: &Option<Addresses>, else_: &str| match given {
        Some(hosts) => Ok(hosts.clone()),
        None => else_.parse().map_err(|error| Failure::Said(format!("{else_}: {error}"))),
    };
    let first = args.from.clone().zip(args.to.clone()).map(|(from, to)| Ports {
        from: Side { port: from, ..Side::default() },
        to: Side { port: to, ..Side::default() },
    });
    let named = first.iter().chain(&args.pairs).flat_map(|pair| [&pair.from.port, &pair.to.port]);
    if let Some(twice) = named_twice(named.map(String::as_str)) {
        return Err(Failure::Said(format!("{twice} is named twice: a port is one end of one pair")));
    }
    let mut pairs: Vec<Pair> = Vec::new();
    for Ports { from, to } in first.iter().chain(&args.pairs) {
        let end = |side: &Side, usual: &Option<Addresses>, else_: &str, device_mac| {
            let port = Port::open_to_receive(&side.port, args.force)
                .map_err(|error| Failure::Said(error.to_string()))?;
            let hosts = hosts(if side.hosts.is_some() { &side.hosts } else { usual }, else_)?;
            Ok::<End, Failure>(End { port, hosts, device_mac: side.device_mac.or(device_mac) })
        };
        let pair = Pair {
            from: end(from, &args.from_hosts, near, args.from_mac)?,
            to: end(to, &args.to_hosts, far, args.to_mac)?,
        };
        // A router sends all that is for the same hosts by one port.
        let same = |other: &&Pair| pair.from.device_mac.is_some() && other.to.hosts == pair.to.hosts;
        if let Some(other) = pairs.iter().find(same) {
            return Err(Failure::Said(format!(
                "{} and {} have the same hosts behind them, which a router has behind one port: give each its own \
                 (--pair {},{},from-hosts=198.18.1.0/24,to-hosts=198.19.1.0/24)",
                other.to.port.name(),
                to.port,
                from.port,
                to.port
            )));
        }
        pairs.push(pair);
    }
    let from = pairs.first().map(|pair: &Pair| pair.from.port.clone());
    let line = match args.line_rate {
        Some(Rate::Layer1(bits)) => bits,
        Some(_) => return Err(Failure::Said("--line-rate is in bits a second, as 10Gbps".to_owned())),
        None => from.as_ref().and_then(Port::line).unwrap_or_else(|| {
            eprintln!("bifrost: no line rate is known; 10 Gb/s are assumed (--line-rate)");
            LINE
        }),
    };
    let rate = match args.tester_rate {
        None => None,
        Some(Rate::Packets(rate)) => Some(rate),
        Some(_) => return Err(Failure::Said("--tester-rate is in packets a second, as 8Mpps".to_owned())),
    };
    let name = args.name.clone().unwrap_or_else(|| "the device".to_owned());
    let mut tester = Tester::new(name, pairs, line, stop);
    tester.rate = rate;
    tester.flows = flows(args.flows, &tester)?;
    tester.cores.clone_from(&args.cores);
    tester.commands = Commands {
        reset: args.reset_command.clone(),
        filter: args.filter_command.clone(),
        routes: args.route_command.clone(),
    };
    Ok(tester)
}

/// Flows of each port, which differ in the hosts that they are between.
fn flows(wanted: Option<u32>, tester: &Tester) -> Result<u32, Failure> {
    let mut flows = wanted.unwrap_or(tester.flows);
    for Pair { from, to } in &tester.pairs {
        let between = |source: &End, destination: &End| {
            let (source, destination) = (source.hosts.clone(), destination.hosts.clone());
            Stream { source, destination, ..Stream::default() }.most_flows()
        };
        let most = between(from, to).and_then(|one| Ok(one.min(between(to, from)?)));
        let most = most.map_err(|error| Failure::Said(error.to_string()))?;
        if wanted.is_some_and(|wanted| wanted > most) {
            return Err(Failure::Said(format!(
                "--flows {flows} are more than the {most} that {} - {} make (ranges that count do it together, \
                 `random` ones do not): say fewer, or more hosts",
                from.hosts, to.hosts
            )));
        }
        flows = flows.min(most);
    }
    Ok(flows)
}

/// A port that is named more than once, however it is to be used; each `memory` is another one.
fn named_twice<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    let ports = names.map(|name| name.trim_start_matches("live:").trim_start_matches("xsk:"));
    ports.filter(|name| *name != "memory").find(|name| !seen.insert(*name))
}

fn log(args: &Rfc2544, tester: &Tester, plan: &Plan) -> Result<(Log, PathBuf), Failure> {
    let now = chrono::Local::now();
    let default = || PathBuf::from(now.format("rfc2544-%Y%m%d-%H%M%S").to_string());
    let directory = args.log.clone().unwrap_or_else(default);
    let device = trial::Device::describe(tester);
    let log = match args.resume {
        true => Log::resume(&directory, &device, plan),
        false => Log::begin(&directory, &device, plan, now.timestamp().max(0) as u64),
    };
    let log = log.map_err(|error| Failure::Said(error.to_string()))?;
    eprintln!("log: {}", log.path().display());
    if log.earlier() > 0 {
        eprintln!("{} trials are in the log already", log.earlier());
    }
    Ok((log, directory))
}

/// Ctrl-C ends the run, not the program: the log is kept whole.
fn stop_on_signal(stop: Arc<AtomicBool>) -> Result<(), Failure> {
    let fail = |error| Failure::Io { what: "cannot take over the signals".to_owned(), error };
    let mut signals = Signals::install().map_err(fail)?;
    let wait = move || {
        while signals.take().is_none() {
            let _ = poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE);
        }
        stop.store(true, Ordering::Relaxed);
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(fail)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Rfc2544,
    }

    fn parsed(line: &str) -> Rfc2544 {
        Line::try_parse_from(line.split_whitespace())
            .map(|line| line.args)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_command_line_says_the_plan() {
        let args = parsed(
            "x eth1 eth2 --sizes 64,64:7,594:4,1518:1,imix --bidirectional --ipv6 --duration 0.5 --tests loss,latency",
        );
        let plan = plan(&args);
        let names: Vec<String> = plan.frames.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["64", "64:7,594:4,1518:1", "imix"]);
        assert_eq!((plan.family, plan.direction), (Family::V6, Direction::Both));
        assert_eq!(plan.tests, [Test::Loss, Test::Latency]);
        assert_eq!(plan.times.loss, 0.5);
        assert!(super::plan(&parsed("x a b --reset-command reboot")).wants(Test::Reset));
        assert!(matches!(
            super::plan(&parsed("x a b --rfc")).method,
            trial::Method::Rfc { seconds: 60.0, .. }
        ));
        assert!(matches!(parsed("x compare a.json b.json --out c.html").other, Some(Other::Compare { .. })));
    }

    #[test]
    fn a_pair_says_what_is_otherwise_there() {
        let args = parsed(
            "x a b --pair c,memif:d,id=2,role=client,to-mac=02:00:00:00:00:09,from-hosts=198.18.1.0/24",
        );
        let Ports { from, to } = &args.pairs[0];
        assert_eq!((from.port.as_str(), to.port.as_str()), ("c", "memif:d,id=2,role=client"));
        assert_eq!((from.device_mac, &to.hosts), (None, &None));
        assert_eq!(from.hosts, Some("198.18.1.0/24".parse().unwrap()));
        assert_eq!(to.device_mac, Some("02:00:00:00:00:09".parse().unwrap()));
    }

    #[test]
    fn what_cannot_be_measured_is_refused_before_anything_is() {
        let refused = |line: &str| match rfc2544(parsed(line)) {
            Err(Failure::Said(why)) => why,
            other => panic!("{line}: {other:?}"),
        };
        assert!(refused("x memory memory --tests throughput,reset").contains("--reset-command"));
        assert!(refused("x memory memory --html /nowhere/at/all.html").contains("no folder /nowhere/at"));
        for line in ["x a@b a@b", "x a live:a", "x a b --pair c,xsk:a", "x a b --pair c,c"] {
            assert!(refused(line).contains("named twice"), "{line}");
        }
    }

    #[test]
    fn a_router_is_not_asked_for_the_same_hosts_behind_two_ports() {
        let line = "x memory memory --pair memory,memory --line-rate 1Gbps";
        let tester = |more: &str| super::tester(&parsed(&format!("{line}{more}")), Arc::default());
        assert_eq!(tester("").unwrap().pairs.len(), 2, "as between bridged ports");
        let Err(refused) = tester(" --from-mac 02:00:00:00:00:01") else { panic!("it was taken") };
        assert!(refused.to_string().contains("same hosts"), "{refused}");
        let more = ",to-hosts=198.19.1.0/24 --from-mac 02:00:00:00:00:01";
        let line = line.replace("memory,memory", &format!("memory,memory{more}"));
        assert!(super::tester(&parsed(&line), Arc::default()).is_ok());
    }

    #[test]
    fn flows_are_those_that_the_hosts_make() {
        let flows = |more: &str| {
            let line = format!("x memory memory --line-rate 1Gbps {more}");
            super::tester(&parsed(&line), Arc::default()).map(|tester| tester.flows)
        };
        assert_eq!(flows("").unwrap(), 65_536);
        assert_eq!(flows("--flows 100").unwrap(), 100);
        let few = "--from-hosts 10.0.0.1-10.0.0.4 --to-hosts 10.0.1.1-10.0.1.6";
        assert_eq!(flows(few).unwrap(), 12, "what is not asked for is no contradiction");
        let refused = flows(&format!("{few} --flows 13")).unwrap_err().to_string();
        assert!(refused.contains("more than the 12 that"), "{refused}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "x",
            "x a",
            "x a b --sizes 63",
            "x a b --tests speed",
            "x a b --duration 0",
            "x a b --rfc --mlr",
            "x a b --resume",
            "x a b --filters 25",
            "x compare --out a",
            "x a b --pair c",
            "x a b --pair c,d,to-mac=nine",
            "x a b --pair c,from-hosts=198.18.1.0/24",
        ] {
            assert!(Line::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }
}
