//! Programs that a router loads only when they have work: the kernel takes its time to check each.

use abi::Step;

/// Programs that a router need not load for which they have no work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// For frames of interfaces in a VRF: the express lane. Until they are there, workers forward.
    Vrfs,
    /// For frames of hosts that their bridge does not know, where transit depends on flows: Linux
    /// is to learn.
    Strangers,
}

impl Extra {
    /// What is so without them.
    pub fn without(self) -> &'static str {
        match self {
            Extra::Vrfs => "what comes in by interfaces of VRFs is forwarded by workers only",
            Extra::Strangers => "Linux does not learn hosts on bridges from what workers forward",
        }
    }

    /// In the order in which they come: what leads to another comes last.
    pub(super) fn steps(self) -> &'static [Step] {
        match self {
            Extra::Vrfs => &[Step::Routed, Step::Beside],
            Extra::Strangers => &[Step::Strange],
        }
    }
}
