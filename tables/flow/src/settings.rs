//! What an operator decides: how long a flow lives, and how large the table is.

use crate::{Error, Phase};
use std::time::Duration;
use wire::protocol;

/// How long a flow lives without a packet, by its phase, and a few other times. Each at most
/// [`Timeouts::LONGEST`].
///
/// | | here | Linux 6.x | asked for |
/// |---|---|---|---|
/// | `tcp_opening` | 4 min | 2 min, 1 min | at least 4 min (RFC 5382, REQ-5) |
/// | `tcp_established` | 2 h 4 min | 5 days | at least 2 h 4 min (RFC 5382, REQ-5) |
/// | `tcp_closing` | 4 min | 2 min to 30 s | at least 4 min (RFC 5382, REQ-5) |
/// | `tcp_finished` | 10 s | 2 min after FIN, 10 s after RST | - |
/// | `udp` | 2 min | 30 s | at least 2 min (RFC 4787, REQ-5) |
/// | `udp_stream` | 5 min | 2 min | 5 min recommended (RFC 4787, REQ-5) |
/// | `icmp` | 1 min | 30 s | at least 1 min (RFC 5508, REQ-2) |
/// | `other` | 10 min | 10 min | - |
/// | `fragment` | 30 s | 30 s | at most 60 s (RFC 8200, 4.5) |
/// | `active` | 30 min | - | 30 min is NetFlow's custom |
///
/// The long ones cost nothing under pressure: what is half open or unanswered goes first then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP that is not open yet; without an answer, from the first SYN on.
    pub tcp_opening: Duration,
    /// TCP that is open.
    pub tcp_established: Duration,
    /// TCP of which one side or both have sent FIN.
    pub tcp_closing: Duration,
    /// TCP that is over: the grace for what is still under way.
    pub tcp_finished: Duration,
    /// UDP (and UDP-Lite) that was not answered, or answered only once.
    pub udp: Duration,
    /// UDP (and UDP-Lite) that went on after the answer.
    pub udp_stream: Duration,
    /// ICMP queries.
    pub icmp: Duration,
    /// Every other protocol.
    pub other: Duration,
    /// How long later fragments are known by their first.
    pub fragment: Duration,
    /// After how long a flow that goes on is accounted for; `None`: only when it ends.
    pub active: Option<Duration>,
    /// Under pressure a flow that both sides want may still be ended after this long without a
    /// packet.
    pub pressed: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Timeouts {
            tcp_opening: minutes(4),
            tcp_established: minutes(124),
            tcp_closing: minutes(4),
            tcp_finished: Duration::from_secs(10),
            udp: minutes(2),
            udp_stream: minutes(5),
            icmp: minutes(1),
            other: minutes(10),
            fragment: Duration::from_secs(30),
            active: Some(minutes(30)),
            pressed: minutes(1),
        }
    }
}

impl Timeouts {
    /// The longest that the table's clock can tell.
    pub const LONGEST: Duration = Duration::from_secs(6 * 86_400);

    /// Whether the table's clock can tell all of them.
    ///
    /// # Errors
    /// [`Error::Timeout`] for the first that is longer than [`Timeouts::LONGEST`].
    pub fn check(&self) -> Result<(), Error> {
        let long = |(_, timeout): &(&'static str, Duration)| *timeout > Timeouts::LONGEST;
        let wrong = self.all().into_iter().find(long);
        wrong.map_or(Ok(()), |(name, timeout)| Err(Error::Timeout { name, seconds: timeout.as_secs() }))
    }

    /// Every one of them with its name.
    fn all(&self) -> [(&'static str, Duration); 11] {
        [
            ("tcp_opening", self.tcp_opening),
            ("tcp_established", self.tcp_established),
            ("tcp_closing", self.tcp_closing),
            ("tcp_finished", self.tcp_finished),
            ("udp", self.udp),
            ("udp_stream", self.udp_stream),
            ("icmp", self.icmp),
            ("other", self.other),
            ("fragment", self.fragment),
            ("active", self.active.unwrap_or_default()),
            ("pressed", self.pressed),
        ]
    }

    /// How long a flow of this protocol and phase lives without a packet.
    pub fn of(&self, protocol: u8, phase: Phase) -> Duration {
        match (phase, protocol) {
            (Phase::Opening | Phase::Answered, _) => self.tcp_opening,
            (Phase::Open, _) => self.tcp_established,
            (Phase::Closing, _) => self.tcp_closing,
            (Phase::Finished | Phase::Reset, _) => self.tcp_finished,
            (Phase::Unreplied | Phase::Replied, protocol::UDP | protocol::UDP_LITE) => self.udp,
            (Phase::Stream, protocol::UDP | protocol::UDP_LITE) => self.udp_stream,
            (_, protocol::ICMP | protocol::ICMP6) => self.icmp,
            _ => self.other,
        }
    }
}

/// What a table is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of memory, never exceeded: about 119 for a flow, 126 with `translation`.
    pub memory: usize,
    /// Whether most flows are translated, so that the index needs room for two keys a flow. Off, a
    /// table full of translated flows would have no room left for six tenths of them.
    pub translation: bool,
    /// Fragmented packets that are known at the same time.
    pub fragments: usize,
    /// How long flows live.
    pub timeouts: Timeouts,
    /// Whether a TCP connection that is met in mid-stream becomes a flow. Off, its segments are
    /// [`Invalid`](crate::State).
    pub pickup: bool,
}

impl Default for Settings {
    /// 128 MiB, about a million flows. Connections are picked up in mid-stream, as Linux does by
    /// default: or those that live when the router starts would end.
    fn default() -> Settings {
        Settings {
            memory: 128 << 20,
            translation: false,
            fragments: 4096,
            timeouts: Timeouts::default(),
            pickup: true,
        }
    }
}
