//! One of every kind of frame that a router meets, by name and in a fixed order: first flows from
//! their beginning, then what is odd.
//!
//! ```text
//! 10.1.0.2, 2001:db8:1::2
//! 10.3.0.2, 2001:db8:3::2 --- IN  router  OUT --- 198.18.0.0/15, 2001:db8:f::/48
//! ```
//!
//! Where addresses are translated, the first host of each family is seen outside as 192.0.2.2 or
//! 2001:db8:ab::2; what comes in for it comes for both of its addresses, so that the corpus is the
//! same with and without translation.

mod build;
mod flows;
mod odd;

use fib::{InterfaceId, PortId, Priorities, TableId, Tag, Tags};

pub use build::{HOST, MACS, OTHER};

/// Where the hosts are, and where the world is.
pub const IN: PortId = PortId(1);
pub const OUT: PortId = PortId(2);

/// How the hosts and the world are connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// By a VLAN on each port, the world by one inside another; else by the ports themselves.
    pub tagged: bool,
    /// Both interfaces belong to a VRF.
    pub vrf: bool,
    /// Routing rules choose the table of both interfaces' packets.
    pub ruled: bool,
    /// By a bridge on each port, which tells VLANs apart where there are some, or by none.
    pub bridge: Option<Hosts>,
}

/// Who sends by a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Hosts that Linux knows behind the member that they send by.
    Known,
    /// Hosts that it does not know there.
    Strangers,
}

impl Kind {
    /// The table of both interfaces.
    pub fn table(self) -> TableId {
        match self {
            Kind { ruled: true, .. } => TableId::BY_RULES,
            Kind { vrf: true, .. } => TableId(7),
            _ => TableId::MAIN,
        }
    }

    /// The table with the routes between them.
    pub fn routes(self) -> TableId {
        if self.vrf || self.ruled { TableId(7) } else { TableId::MAIN }
    }
}

/// The interface on a port.
pub fn interface(port: PortId, kind: Kind) -> InterfaceId {
    if kind.tagged { InterfaceId(InterfaceId::FIRST_LOGICAL.0 + port.0) } else { port.interface() }
}

/// The tags of these VLANs.
pub fn tags(port: PortId, kind: Kind) -> Tags {
    match (kind.tagged, port) {
        (false, _) => Tags::None,
        (true, IN) => Tags::One(Tag { service: false, id: 10 }),
        (true, _) => Tags::Two(Tag { service: true, id: 300 }, 7),
    }
}

/// The priorities in them.
pub const PRIORITIES: Priorities = Priorities([[5, 0, 2, 7], [1, 6, 0, 3]]);

/// The router's own addresses, inside and outside.
pub const OWN: [[&str; 2]; 2] = [["10.1.0.1", "2001:db8:1::1"], ["10.2.0.1", "2001:db8:2::1"]];

/// A frame as it comes in.
pub struct Frame {
    pub name: String,
    pub input: PortId,
    pub bytes: Vec<u8>,
}

/// A host inside: its address, one of the world that it talks to, and how it is seen there where it
/// is translated.
#[derive(Clone, Copy)]
struct Pair {
    inside: &'static str,
    outside: &'static str,
    seen: &'static str,
}

const PAIRS: [Pair; 4] = [
    Pair { inside: "10.1.0.2", outside: "198.18.0.1", seen: "192.0.2.2" },
    Pair { inside: "10.3.0.2", outside: "198.18.0.2", seen: "10.3.0.2" },
    Pair { inside: "2001:db8:1::2", outside: "2001:db8:f::1", seen: "2001:db8:ab::2" },
    Pair { inside: "2001:db8:3::2", outside: "2001:db8:f::2", seen: "2001:db8:3::2" },
];

/// Something that is done to a frame or to a part of it, and what it is called.
type Change = (&'static str, fn(&mut Vec<u8>));

/// All of them.
pub fn frames() -> Vec<Frame> {
    let mut frames = Vec::new();
    for pair in PAIRS {
        flows::add(&mut frames, pair);
    }
    for pair in PAIRS {
        odd::add(&mut frames, pair);
    }
    odd::add_others(&mut frames);
    frames
}
