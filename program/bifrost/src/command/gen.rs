//! `bifrost gen`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args as Arguments;
use traffic::plan::Plan;
use traffic::range::{Addresses, Macs, Ports};
use traffic::rate::{Pattern, Rate};
use traffic::size::Sizes;
use traffic::stream::{Extension, Fill, Protocol, TcpFlags};
use traffic::{Control, Port, Stream, TrafficError, Trial};

use super::Failure;
use super::trial_view::{self, Show};

/// Something arrived otherwise than it was sent, or a port broke.
const FLAWED: u8 = 3;

/// `gen`.
#[derive(Debug, Arguments)]
pub struct Gen {
    /// Where to send: IFACE, IFACE@NAMESPACE, xsk:IFACE, live:IFACE,
    /// memif:SOCKET[,id=N][,role=client], pcap:FILE, memory
    #[arg(value_name = "PORT", add = clap_complete::ArgValueCandidates::new(super::interfaces::candidates))]
    pub port: String,
    /// Where it arrives, on this machine, and is judged
    #[arg(long, value_name = "PORT", conflicts_with = "control", add = clap_complete::ArgValueCandidates::new(super::interfaces::candidates))]
    pub sink: Option<String>,
    /// A `bifrost sink` on another machine that judges it
    #[arg(long, value_name = "HOST:PORT", requires = "token_file")]
    pub control: Option<String>,
    /// A file whose first line is the token that both machines have
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// How long to send, such as 10s, 500ms, 2m [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Packets of each stream at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Cores that send, each its part of every stream's flows
    #[arg(long, value_name = "CORE", value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// The core that receives, where a thread does
    #[arg(long, value_name = "CORE")]
    pub sink_core: Option<usize>,
    /// What the line carries, for rates in percent, such as 10Gbps [default: what the port says]
    #[arg(long, value_name = "RATE", value_parser = line)]
    pub line: Option<f64>,
    /// Send even by an interface that this machine is reached by
    #[arg(long)]
    pub force: bool,
    /// Say the result as JSON, and nothing else
    #[arg(long)]
    pub json: bool,
    /// A file of streams (TOML, [[stream]]), with the same words as the options below
    #[arg(long, value_name = "FILE", conflicts_with = "Flags")]
    pub streams: Option<PathBuf>,
    /// How often packets are sent: 1.5Mpps, 10Gbps (layer 1), 8Gbps-l2, 50%, max; of every stream,
    /// with a file [default: max]
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// The stream.
    #[command(flatten)]
    pub flags: Flags,
}

/// One stream by flags.
#[derive(Debug, Arguments)]
#[group(id = "Flags", multiple = true)]
#[command(next_help_heading = "The stream")]
pub struct Flags {
    /// Sizes with the check sequence: 64, 64-1518, 64:7,594:4,1518:1, imix [default: 64, or what
    /// the headers take]
    #[arg(long, value_name = "SIZES")]
    size: Option<Sizes>,
    /// Rhythm: constant, poisson, 'burst 32 gap 1ms' [default: constant]
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<Pattern>,
    /// Flows at a time
    #[arg(long, value_name = "N")]
    flows: Option<u32>,
    /// Packets of a flow, after which a new one begins [default: it never ends]
    #[arg(long, value_name = "N")]
    flow_length: Option<u32>,
    /// IP source: 10.0.0.1, 10.0.0.1-10.0.0.9, 10.0.0.0/24, file:PATH, each with `random ` in front
    /// if wanted
    #[arg(long, value_name = "ADDRESSES")]
    source: Option<Addresses>,
    /// IP destination, likewise; file: may be a routing table
    #[arg(long, value_name = "ADDRESSES")]
    destination: Option<Addresses>,
    /// Ethernet source: one, or FIRST..LAST [default: the port's]
    #[arg(long, value_name = "MACS")]
    source_mac: Option<Macs>,
    /// Ethernet destination [default: the sink's]
    #[arg(long, value_name = "MACS")]
    destination_mac: Option<Macs>,
    /// udp, tcp or icmp
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<Protocol>,
    /// Source ports: 5000, 1024-65535, 'random 1024-65535'
    #[arg(long, value_name = "PORTS")]
    source_port: Option<Ports>,
    /// Destination ports
    #[arg(long, value_name = "PORTS")]
    destination_port: Option<Ports>,
    /// Flags of TCP segments: SYN,ACK
    #[arg(long, value_name = "FLAGS")]
    tcp_flags: Option<TcpFlags>,
    /// VLANs, the outer one first
    #[arg(long, value_name = "VLAN", value_delimiter = ',')]
    vlan: Vec<u16>,
    /// Priority in the tags
    #[arg(long, value_name = "0-7")]
    vlan_priority: Option<u8>,
    /// MPLS labels, the outermost first
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    mpls: Vec<u32>,
    /// Differentiated services code point
    #[arg(long, value_name = "0-63")]
    dscp: Option<u8>,
    /// Time to live, or hop limit
    #[arg(long, value_name = "TTL")]
    ttl: Option<u8>,
    /// UDP without checksum
    #[arg(long)]
    no_udp_checksum: bool,
    /// IPv6 extension headers: hop-by-hop, destination, routing, fragment
    #[arg(long, value_name = "HEADER", value_delimiter = ',')]
    extension_headers: Vec<Extension>,
    /// Payload: zero, count, random, 0xa5
    #[arg(long, value_name = "FILL")]
    fill: Option<Fill>,
    /// No stamps: the sink then only counts
    #[arg(long)]
    no_stamp: bool,
    /// Send the packets of a capture file (pcap, pcapng) instead
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// How fast, beside the file's own time; 0: at --rate [default: 1, with --rate 0]
    #[arg(long, value_name = "FACTOR", requires = "replay")]
    replay_speed: Option<f64>,
    /// How often; 0: for ever
    #[arg(long, value_name = "N", requires = "replay")]
    replay_loops: Option<u32>,
}

/// A length of time.
fn time(text: &str) -> Result<Duration, String> {
    let time = traffic::duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "write 10s, 500ms or 2m".to_owned())
}

/// Bits a second of a line.
fn line(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(Rate::Layer1(rate)) => Ok(rate),
        _ => Err("write 10Gbps".to_owned()),
    }
}

impl Flags {
    fn stream(&self) -> Result<Stream, TrafficError> {
        let usual = Stream::default();
        let flags = self;
        let mut stream = Stream {
            name: "stream 1".to_owned(),
            size: flags.size.clone().unwrap_or(usual.size),
            pattern: flags.pattern.unwrap_or(usual.pattern),
            flows: flags.flows.unwrap_or(usual.flows),
            flow_length: flags.flow_length.unwrap_or(usual.flow_length),
            source_mac: flags.source_mac,
            destination_mac: flags.destination_mac,
            vlan: flags.vlan.clone(),
            vlan_priority: flags.vlan_priority.unwrap_or(usual.vlan_priority),
            mpls: flags.mpls.clone(),
            source: flags.source.clone().unwrap_or(usual.source),
            destination: flags.destination.clone().unwrap_or(usual.destination),
            protocol: flags.protocol.unwrap_or(usual.protocol),
            source_port: flags.source_port.unwrap_or(usual.source_port),
            destination_port: flags.destination_port.unwrap_or(usual.destination_port),
            tcp_flags: flags.tcp_flags.unwrap_or(usual.tcp_flags),
            dscp: flags.dscp.unwrap_or(usual.dscp),
            ttl: flags.ttl.unwrap_or(usual.ttl),
            udp_checksum: !flags.no_udp_checksum,
            extension_headers: flags.extension_headers.clone(),
            fill: flags.fill.unwrap_or(usual.fill),
            stamp: !flags.no_stamp,
            replay: flags.replay.clone(),
            replay_speed: flags.replay_speed,
            replay_loops: flags.replay_loops,
            ..Stream::default()
        };
        // Tags, labels and IPv6 may well need more than the 64 bytes that nobody asked for.
        if flags.size.is_none()
            && flags.replay.is_none()
            && let Ok(size) = Sizes::fixed(Plan::least(&stream)?)
        {
            stream.size = size;
        }
        Ok(stream)
    }
}

/// Sends, shows how it goes, and says what came of it.
pub fn run(args: &Gen) -> Result<ExitCode, Failure> {
    let mut streams = match &args.streams {
        Some(path) => Stream::parse_all(&read(path)?).map_err(said)?,
        None => vec![args.flags.stream().map_err(said)?],
    };
    if let Some(rate) = args.rate {
        streams.iter_mut().for_each(|stream| stream.rate = rate);
    }
    let control = match (&args.control, &args.token_file) {
        (Some(address), Some(path)) => Some(Control {
            address: address.clone(),
            token: traffic::control::token(&read(path)?).map_err(said)?,
        }),
        _ => None,
    };
    args.sink.as_deref().map_or(Ok(()), Port::may_receive).map_err(said)?;
    let open = |name: &String| Port::open(name, args.force).map_err(said);
    keeps_its_sources(&args.port, &streams)?;
    let from = open(&sender(&args.port, &streams))?;
    let to = match &args.sink {
        // A pipe in this process has two ends.
        Some(name) if *name == args.port => Some(from.clone()),
        Some(name) => Some(open(name)?),
        None => None,
    };
    let trial = Trial {
        streams,
        to,
        control,
        duration: args.duration,
        count: args.count,
        cores: args.cores.clone(),
        sink_core: args.sink_core,
        line: args.line,
        ..Trial::new(from)
    };
    let running = trial.start().map_err(said)?;
    let title = format!(
        "{} to {}",
        args.port,
        args.sink.as_ref().or(args.control.as_ref()).map_or("nobody", |to| to)
    );
    trial_view::watch(&running, &title, if args.json { Show::Nothing } else { Show::Progress })?;
    let report = running.wait().map_err(said)?;
    trial_view::result(&report, args.json)?;
    let flawed = report.interrupted.is_some()
        || report.streams.iter().any(|stream| {
            [stream.lost, stream.duplicates, stream.corrupt].into_iter().flatten().any(|packets| packets != 0)
        });
    Ok(if flawed { ExitCode::from(FLAWED) } else { ExitCode::SUCCESS })
}

/// Refuses a file to write that is one of those to replay: it would be empty before it is read.
fn keeps_its_sources(port: &str, streams: &[Stream]) -> Result<(), Failure> {
    let written = port.strip_prefix("pcap:").and_then(|file| Path::new(file).canonicalize().ok());
    let replayed = streams.iter().filter_map(|stream| stream.replay.as_ref()?.canonicalize().ok());
    match replayed.into_iter().find(|file| Some(file) == written.as_ref()) {
        Some(file) => Err(Failure::Said(format!(
            "{} is to be replayed and written: name another file to write",
            file.display()
        ))),
        None => Ok(()),
    }
}

/// The port that can send these streams: packets of files go by AF_XDP, the kernel's own sender
/// makes its packets itself.
fn sender(port: &str, streams: &[Stream]) -> String {
    let chosen = port == "memory" || port.contains(':');
    let replays = streams.iter().any(|stream| stream.replay.is_some());
    if replays && !chosen { format!("xsk:{port}") } else { port.to_owned() }
}

pub(super) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::Io { what: path.display().to_string(), error })
}

pub(super) fn said(error: TrafficError) -> Failure {
    Failure::Said(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_replayed_into_itself() {
        let file = std::env::temp_dir().join(format!("bifrost-itself-{}.pcap", std::process::id()));
        std::fs::write(&file, "packets").unwrap();
        let streams = [Stream { replay: Some(file.clone()), ..Stream::default() }];
        let refused = |port: &str| keeps_its_sources(port, &streams).is_err();
        assert!(refused(&format!("pcap:{}", file.display())));
        assert!(refused(&format!("pcap:/tmp/../{}", file.display())), "by another name");
        assert!(!refused(&format!("pcap:{}.new", file.display())) && !refused("eth1"));
        std::fs::remove_file(file).unwrap();
    }
}
