//! Copies of what passes ports: asked for by `bifrost tcpdump` and by Wireshark, or sent out by a
//! mirror port.

use serde::{Deserialize, Serialize};
use wire::capture::PacketFilter;

/// Copy what passes ports, wherever it goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyRequest {
    /// Ports; none: all.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Which packets: a program of classic BPF, as `tcpdump -y EN10MB -ddd` prints it.
    #[serde(default = "PacketFilter::everything")]
    pub filter: PacketFilter,
    /// Which way they go.
    #[serde(default)]
    pub direction: Directions,
    /// End after so many packets; absent: no limit.
    pub count: Option<u64>,
    /// Bytes kept of each frame.
    pub snap: u32,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    /// In by the port.
    In,
    /// Out by it.
    Out,
    /// Both.
    #[default]
    Both,
}

/// One packet that passed a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeenPacket {
    /// Nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// The port.
    pub port: String,
    /// Whether it was leaving.
    pub outgoing: bool,
    /// Its whole length as a frame, bytes.
    pub length: u32,
    /// The frame from the Ethernet header, cut at the snap length; hexadecimal in JSON.
    #[serde(with = "super::hex")]
    pub frame: Vec<u8>,
}
