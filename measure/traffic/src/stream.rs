//! What is sent: the model, as a file or flags say it.
//!
//! ```toml
//! [[stream]]
//! name = "web"
//! size = "imix"
//! rate = "2Mpps"
//! pattern = "poisson"
//! flows = 65536
//! flow_length = 10
//! source = "random 10.0.0.0/16"
//! destination = "file:table.txt"
//! destination_port = "random 1024-65535"
//! ```

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::TrafficError;
use crate::contradiction::different;
use crate::range::{Addresses, Macs, Ports, Range};
use crate::rate::{Pattern, Rate};
use crate::size::Sizes;
use crate::text::as_text;

/// Streams at once.
pub const MOST_STREAMS: usize = 256;
/// Flows of a stream at once.
pub const MOST_FLOWS: u32 = 1 << 22;

/// A stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// What it is called; made up when empty.
    pub name: String,
    /// Sizes of frames.
    pub size: Sizes,
    /// How often they are sent.
    pub rate: Rate,
    /// In which rhythm.
    pub pattern: Pattern,
    /// Flows at a time, sent in turn; 1 to [`MOST_FLOWS`].
    pub flows: u32,
    /// Packets of a flow, after which a new one takes its place; 0: it never ends.
    pub flow_length: u32,
    /// Ethernet source; the port's own when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_mac: Option<Macs>,
    /// Ethernet destination; that of the receiving port when not given and there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_mac: Option<Macs>,
    /// VLANs, outermost first: one for 802.1Q, two for QinQ (802.1ad).
    pub vlan: Vec<u16>,
    /// Priority in the tags, 0 to 7.
    pub vlan_priority: u8,
    /// MPLS labels, outermost first (RFC 3032).
    pub mpls: Vec<u32>,
    /// IP source.
    pub source: Addresses,
    /// IP destination, of the same family.
    pub destination: Addresses,
    /// What is in the IP packets.
    pub protocol: Protocol,
    /// Source ports; for ICMP the identifier. Where several flows are wanted and neither these nor
    /// any addresses are said, they count from 1024 on.
    pub source_port: Ports,
    /// Destination ports.
    pub destination_port: Ports,
    /// Flags of TCP segments.
    pub tcp_flags: TcpFlags,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Whether UDP datagrams have a checksum. Without one only over IPv4 (RFC 8200, 8.1).
    pub udp_checksum: bool,
    /// IPv6 extension headers, in this order.
    pub extension_headers: Vec<Extension>,
    /// Bytes of the payload behind the stamp.
    pub fill: Fill,
    /// Whether packets carry a stamp, without which the sink only counts.
    pub stamp: bool,
    /// A file of packets (pcap or pcapng) to send instead, as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<PathBuf>,
    /// How fast, beside the file's own time; 0: at `rate`. When not given 1, or 0 if there is a
    /// rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_speed: Option<f64>,
    /// How often, once when not given; 0: until the trial ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_loops: Option<u32>,
}

impl Default for Stream {
    /// One UDP flow of 64-byte frames between addresses for benchmarks (RFC 2544, C.2.2), as fast
    /// as it goes.
    fn default() -> Stream {
        Stream {
            name: String::new(),
            size: Sizes::default(),
            rate: Rate::Max,
            pattern: Pattern::Constant,
            flows: 1,
            flow_length: 0,
            source_mac: None,
            destination_mac: None,
            vlan: Vec::new(),
            vlan_priority: 0,
            mpls: Vec::new(),
            source: Addresses::of([198, 18, 0, 1].into()),
            destination: Addresses::of([198, 19, 0, 1].into()),
            protocol: Protocol::Udp,
            source_port: Range::of(5000),
            destination_port: Range::of(9),
            tcp_flags: TcpFlags(wire::tcp::flag::ACK),
            dscp: 0,
            ttl: 64,
            udp_checksum: true,
            extension_headers: Vec::new(),
            fill: Fill::Zero,
            stamp: true,
            replay: None,
            replay_speed: None,
            replay_loops: None,
        }
    }
}

/// The file's outermost table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    stream: Vec<Stream>,
}

impl Stream {
    /// The streams of a file's text (TOML, `[[stream]]`), with names.
    pub fn parse_all(text: &str) -> Result<Vec<Stream>, TrafficError> {
        let wrong = |error: toml::de::Error| {
            let single = text.lines().any(|line| line.trim() == "[stream]");
            let hint = if single { "; each stream begins with [[stream]], in two brackets" } else { "" };
            TrafficError::File(format!("{}{hint}", error.to_string().trim_end()))
        };
        let file: File = toml::from_str(text).map_err(wrong)?;
        Ok(file.stream)
    }

    /// Flows that differ in address or port, at most; as many as there may be of a stream if there
    /// are more.
    ///
    /// # Errors
    /// When a file of addresses cannot be read.
    pub fn most_flows(&self) -> Result<u32, TrafficError> {
        let load = |field, addresses: &Addresses| {
            let stream = || self.name.clone();
            addresses.load().map_err(|source| TrafficError::Addresses { stream: stream(), field, source })
        };
        let all = different(self, &load("source", &self.source)?, &load("destination", &self.destination)?);
        Ok(u32::try_from(all).map_or(MOST_FLOWS, |all| all.min(MOST_FLOWS)))
    }

    /// How fast a file's packets are sent, beside its own time; 0: at the stream's rate.
    pub fn speed(&self) -> f64 {
        self.replay_speed.unwrap_or(if self.rate == Rate::Max { 1.0 } else { 0.0 })
    }
}

/// What is in IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// UDP (RFC 768).
    #[default]
    Udp,
    /// TCP (RFC 9293): segments that belong to no connection.
    Tcp,
    /// Echo requests (RFC 792, RFC 4443).
    Icmp,
}

/// An IPv6 extension header (RFC 8200, 4), 8 bytes long, that means nothing to anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extension {
    /// Hop-by-hop options: padding.
    HopByHop,
    /// Destination options: padding.
    Destination,
    /// Routing, type 253 (RFC 4727: for experiments) with no segments left.
    Routing,
    /// Fragment header of a whole packet (RFC 6946).
    Fragment,
}

/// A name that is none of the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is none of {choices}")]
pub struct ChoiceError {
    text: String,
    choices: &'static str,
}

impl FromStr for Protocol {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Protocol, ChoiceError> {
        match text {
            "udp" => Ok(Protocol::Udp),
            "tcp" => Ok(Protocol::Tcp),
            "icmp" => Ok(Protocol::Icmp),
            _ => Err(ChoiceError { text: text.to_owned(), choices: "udp, tcp, icmp" }),
        }
    }
}

impl FromStr for Extension {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Extension, ChoiceError> {
        match text {
            "hop-by-hop" => Ok(Extension::HopByHop),
            "destination" => Ok(Extension::Destination),
            "routing" => Ok(Extension::Routing),
            "fragment" => Ok(Extension::Fragment),
            _ => Err(ChoiceError {
                text: text.to_owned(),
                choices: "hop-by-hop, destination, routing, fragment",
            }),
        }
    }
}

/// Flags of a TCP segment, as text `SYN,ACK`; `none` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

const FLAGS: [(&str, u8); 8] =
    [("FIN", 1), ("SYN", 2), ("RST", 4), ("PSH", 8), ("ACK", 16), ("URG", 32), ("ECE", 64), ("CWR", 128)];

impl FromStr for TcpFlags {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<TcpFlags, ChoiceError> {
        let wrong =
            || ChoiceError { text: text.to_owned(), choices: "FIN, SYN, RST, PSH, ACK, URG, ECE, CWR, none" };
        if text == "none" {
            return Ok(TcpFlags(0));
        }
        let flag = |name: &str| FLAGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
        let add = |sum, name| flag(name).map(|(_, bit)| sum | bit).ok_or_else(wrong);
        text.split(',').try_fold(0, add).map(TcpFlags)
    }
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> =
            FLAGS.iter().filter(|(_, bit)| self.0 & bit != 0).map(|(name, _)| *name).collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(",") }.as_str())
    }
}

/// Bytes of a payload.
///
/// As text: `zero`, `count` (each byte its place in the frame, modulo 256), `random` (the same in
/// each packet), `0xa5`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Zeros.
    #[default]
    Zero,
    /// Counting up.
    Count,
    /// Random.
    Random,
    /// A byte.
    Byte(u8),
}

impl Fill {
    /// The first `length` bytes of a frame, of which the payload begins somewhere.
    pub fn bytes(self, length: usize) -> Vec<u8> {
        let mut random = crate::random::Random(0xf111);
        (0..length)
            .map(|at| match self {
                Fill::Zero => 0,
                Fill::Count => at as u8,
                Fill::Random => random.next() as u8,
                Fill::Byte(byte) => byte,
            })
            .collect()
    }
}

impl FromStr for Fill {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Fill, ChoiceError> {
        let byte = || u8::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        match text {
            "zero" => Ok(Fill::Zero),
            "count" => Ok(Fill::Count),
            "random" => Ok(Fill::Random),
            _ => byte()
                .map(Fill::Byte)
                .ok_or(ChoiceError { text: text.to_owned(), choices: "zero, count, random, a byte as 0xa5" }),
        }
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fill::Zero => f.write_str("zero"),
            Fill::Count => f.write_str("count"),
            Fill::Random => f.write_str("random"),
            Fill::Byte(byte) => write!(f, "{byte:#04x}"),
        }
    }
}

as_text!(TcpFlags, Fill);
