//! The routers that are measured, and what each forwards.

use fib::{Tag, Tags};

/// One bench.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub version: u8,
    pub routes: usize,
    /// The rules of the chain `forward`.
    pub rules: Rules,
    pub nat: bool,
    /// So many routing rules, of which the last matches.
    pub steered: usize,
    pub tunnel: Way,
    pub trunk: Trunk,
    /// So many addresses of the router's own.
    pub own: u32,
    /// What the router does besides.
    pub besides: Besides,
    pub load: Load,
    /// Frames lie in memory and in no cache.
    pub cold: bool,
    /// Packets that come at once.
    pub burst: usize,
    /// Receiving and sending count as well.
    pub whole: bool,
    /// The name of a row for the rate of one core, in bits.
    pub rate: Option<&'static str>,
}

/// Whether packets are in a tunnel (GRE), and when.
#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    Plain,
    /// When they leave.
    Out,
    /// When they come in.
    In,
}

/// What VLANs there are on both ports, by which packets come and leave.
#[derive(Clone, Copy, PartialEq)]
pub enum Trunk {
    /// None: frames have no tags.
    None,
    /// One of 802.1Q's.
    Vlan,
    /// One of 802.1Q's in one of 802.1ad's.
    QinQ,
    /// So many of 802.1Q's, each in a VRF of its own, among which the routes are shared out.
    Vrfs(u16),
}

impl Trunk {
    /// The tags of each VLAN.
    pub fn tags(self) -> Vec<Tags> {
        match self {
            Trunk::None => Vec::new(),
            Trunk::Vlan => vec![Tags::One(Tag { service: false, id: 100 })],
            Trunk::QinQ => vec![Tags::Two(Tag { service: true, id: 100 }, 200)],
            Trunk::Vrfs(count) => (1..=count).map(|id| Tags::One(Tag { service: false, id })).collect(),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Rules {
    None,
    SixHundred,
    Stateful,
}

/// What a router may do besides forwarding.
#[derive(Clone, Copy, PartialEq)]
pub enum Besides {
    Nothing,
    /// Asks whether sources are where packets come from, strictly.
    ReversePath,
    /// Counts packets at a hook.
    Hook,
    /// Keeps one packet in 1,000 for sFlow.
    Samples,
    /// Keeps flows, for the flow log.
    Flows,
}

/// The frames, all of which are to different destinations.
#[derive(Clone, Copy, PartialEq)]
pub enum Load {
    /// 64 bytes, UDP, one sender, one port.
    Uniform,
    /// The same, each from a sender of its own.
    Senders,
    /// As `Senders`, of 64, 594 and 1,518 bytes, seven to four to one.
    Imix,
    /// As `Imix`; every second one TCP, all kinds of ports, half of them the other way.
    Mixed,
}

impl Load {
    pub fn has_senders(self) -> bool {
        self != Load::Uniform
    }

    pub fn has_sizes(self) -> bool {
        matches!(self, Load::Imix | Load::Mixed)
    }
}

const SMALL: Case = Case {
    name: "plane/v4/small",
    version: 4,
    routes: 16,
    rules: Rules::None,
    nat: false,
    steered: 0,
    tunnel: Way::Plain,
    trunk: Trunk::None,
    own: 0,
    besides: Besides::Nothing,
    load: Load::Uniform,
    cold: false,
    burst: graph::BATCH,
    whole: false,
    rate: None,
};
pub const FULL: Case = Case { name: "plane/v4/full", routes: 1_000_000, ..SMALL };
const SENDERS: Case = Case { load: Load::Senders, ..FULL };
const STATEFUL: Case = Case { name: "plane/v4/stateful", rules: Rules::Stateful, ..FULL };
const SIX: Case = Case { name: "plane/v6/full", version: 6, routes: 240_000, ..SMALL };

pub const CASES: [Case; 35] = [
    SMALL,
    Case { name: "plane/v4/gre-out", tunnel: Way::Out, ..SMALL },
    Case { name: "plane/v4/gre-in", tunnel: Way::In, ..SMALL },
    Case { name: "plane/v4/vlan", trunk: Trunk::Vlan, ..SMALL },
    Case { name: "plane/v4/qinq", trunk: Trunk::QinQ, ..SMALL },
    Case { name: "plane/v4/vrf-1000", trunk: Trunk::Vrfs(1000), ..FULL },
    Case { name: "plane/v4/policy-64", steered: 64, ..SMALL },
    FULL,
    Case { name: "plane/v4/full/own-0", ..SENDERS },
    Case { name: "plane/v4/full/own-10", own: 10, ..SENDERS },
    Case { name: "plane/v4/full/own-100", own: 100, ..SENDERS },
    Case { name: "plane/v4/full/own-1000", own: 1000, ..SENDERS },
    Case { name: "plane/v4/full/urpf", besides: Besides::ReversePath, ..FULL },
    Case { name: "plane/v4/full/urpf-senders", besides: Besides::ReversePath, ..SENDERS },
    Case { name: "plane/v4/full/hook", besides: Besides::Hook, ..FULL },
    Case { name: "plane/v4/full/sflow", besides: Besides::Samples, ..FULL },
    Case { name: "plane/v4/full/flows", besides: Besides::Flows, ..FULL },
    Case { name: "plane/v4/full/burst-1", burst: 1, ..FULL },
    Case { name: "plane/v4/full/burst-4", burst: 4, ..FULL },
    Case { name: "plane/v4/full/burst-16", burst: 16, ..FULL },
    Case { name: "plane/v4/small/burst-1", burst: 1, ..SMALL },
    Case { name: "plane/v4/full/imix", load: Load::Imix, rate: Some("plane/v4/full/imix/rate"), ..FULL },
    Case { name: "plane/v4/full/mixed", load: Load::Mixed, ..FULL },
    SIX,
    Case { name: "plane/v6/full/urpf", besides: Besides::ReversePath, ..SIX },
    Case { name: "plane/v4/rules-600", rules: Rules::SixHundred, ..FULL },
    STATEFUL,
    Case { name: "plane/v4/stateful/own-0", load: Load::Senders, ..STATEFUL },
    Case { name: "plane/v4/stateful/own-1000", own: 1000, load: Load::Senders, ..STATEFUL },
    Case { name: "plane/v4/stateful/urpf", besides: Besides::ReversePath, ..STATEFUL },
    Case { name: "plane/v4/nat44", nat: true, ..FULL },
    Case { name: "plane/v4/full-cold", cold: true, ..FULL },
    Case { name: "plane/whole/v4/full", whole: true, ..FULL },
    Case {
        name: "plane/whole/v4/full/mixed",
        whole: true,
        load: Load::Mixed,
        rate: Some("plane/whole/v4/full/mixed/rate"),
        ..FULL
    },
    Case { name: "plane/whole/v6/full", whole: true, ..SIX },
];
