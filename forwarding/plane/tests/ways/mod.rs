//! One router in each of its ways: the elements alone, what takes their place for plain packets,
//! and the driver in front of them; with whichever stages a configuration has. Each tells what
//! becomes of every frame.

mod front;
mod router;
mod tables;

pub use front::Front;
pub use router::Router;
pub use router::TRANSLATED;
pub use tables::ASTRAY;

use fib::{InterfaceFlags, PortId};
use graph::Hand;
use wire::{Class, Reason};

use crate::corpus::Kind;

/// By which code packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The elements, one after the other.
    Elements,
    /// `FastPath`, `RulesPath` or `FlowPath`, if the stages have one, and the elements behind it.
    Short,
    /// The same behind the driver's classifier.
    Classified,
    /// The same behind the express lane.
    Express,
    /// The same, and flows that are decided are offloaded to the driver.
    Offloaded,
}

/// What stands at the hooks: elements that change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooked {
    Nothing,
    /// Where short ways would go past.
    Within,
    /// Where they come by.
    Behind,
}

/// How sources are checked.
pub const REVERSE_PATHS: [(&str, InterfaceFlags); 3] = [
    ("off", InterfaceFlags::empty()),
    ("strict", InterfaceFlags::RPF4_STRICT.union(InterfaceFlags::RPF6_STRICT)),
    ("loose", InterfaceFlags::RPF4_LOOSE.union(InterfaceFlags::RPF6_LOOSE)),
];

/// The filter.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub name: &'static str,
    pub text: &'static str,
    /// Whether flows are known though no rule asks for them.
    pub known: bool,
}

/// What a configuration asks for, and the lane.
#[derive(Clone, Copy, Debug)]
pub struct Stages {
    pub rules: Rules,
    pub nat: bool,
    pub hooks: Hooked,
    pub sampling: bool,
    /// By what interfaces frames come and go.
    pub kind: Kind,
    pub lane: Lane,
}

impl std::fmt::Display for Stages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Stages { rules, nat, hooks, sampling, kind, lane } = self;
        write!(f, "{lane:?}, filter {}, NAT {nat}, hooks {hooks:?}, ", rules.name)?;
        write!(f, "sampling {sampling}, {kind:?}")
    }
}

/// What became of a frame, and what was counted for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By which ports it left, or its answer did.
    pub sent: Vec<(PortId, Vec<u8>)>,
    /// What Linux got, without what stands behind the packet.
    pub linux: Vec<(Class, Hand, Vec<u8>)>,
    /// Why something was dropped, and how often.
    pub dropped: Vec<(Reason, u64)>,
    /// Packets and bytes that were counted with rules, by their numbers.
    pub rules: Vec<(usize, u64, u64)>,
}

/// Bytes of a frame that are shown.
const SHOWN: usize = 74;

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hex = |bytes: &[u8]| {
            let shown = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect::<String>();
            format!("{} bytes, {shown}", bytes.len())
        };
        for (port, bytes) in &self.sent {
            write!(f, "sent by {}: {}; ", port.0, hex(bytes))?;
        }
        for (class, hand, bytes) in &self.linux {
            write!(f, "to Linux ({class:?}, {hand:?}): {}; ", hex(bytes))?;
        }
        write!(f, "dropped {:?}; rules {:?}", self.dropped, self.rules)
    }
}

/// A sample for sFlow: what was kept, and what is said about it.
pub type Sample = (Vec<u8>, u32, String);

/// What became of all frames.
pub struct Round {
    pub outcomes: Vec<Outcome>,
    /// What was sampled of each frame; `None`: no worker saw it.
    pub samples: Vec<Option<Vec<Sample>>>,
    /// The accounts of all flows, without their times; `None` where flows are not known.
    pub accounts: Option<Vec<String>>,
    /// How many frames the lane itself took, in front of the elements.
    pub taken: u64,
}
