//! What can be tracked: a condition that a router's part depends on.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;

/// What can be tracked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// An interface that is up.
    Interface(String),
    /// A BFD session to this address that is up.
    Bfd(IpAddr),
    /// The flows that the other router of `[sharing]` has, unless that one is not there.
    Flows,
    /// A route to exactly this prefix, which does not reject.
    Route {
        /// The prefix.
        prefix: IpNet,
        /// Who must have made it, as `ip route` names it (`bgp`, `ospf`, `static`); without:
        /// anybody.
        from: Option<String>,
    },
}

impl fmt::Display for Tracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tracked::Interface(name) => write!(f, "interface {name}"),
            Tracked::Bfd(peer) => write!(f, "bfd {peer}"),
            Tracked::Flows => f.write_str("flows shared"),
            Tracked::Route { prefix, from: None } => write!(f, "route {prefix}"),
            Tracked::Route { prefix, from: Some(from) } => write!(f, "route {prefix} from {from}"),
        }
    }
}

/// An entry of a list `track`, with what the section adds about its absence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written<Lower> {
    interface: Option<String>,
    route: Option<IpNet>,
    bfd: Option<IpAddr>,
    flows: Option<Flows>,
    from: Option<String>,
    pub(crate) lower: Option<Lower>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flows {
    Shared,
}

/// What an entry should be.
pub(crate) const EXPECTED: &str = "{ interface = \"wan0\" }, { bfd = \"192.0.2.1\" }, { flows = \"shared\" }, or \
                                   { route = \"0.0.0.0/0\" }, also with from = \"bgp\"";

impl<Lower> Written<Lower> {
    /// `None`: it is not one thing.
    pub(crate) fn what(&self) -> Option<Tracked> {
        match (&self.interface, self.bfd, self.flows, self.route, &self.from) {
            (Some(name), None, None, None, None) => Some(Tracked::Interface(name.clone())),
            (None, Some(peer), None, None, None) => Some(Tracked::Bfd(peer)),
            (None, None, Some(Flows::Shared), None, None) => Some(Tracked::Flows),
            (None, None, None, Some(prefix), from) => {
                Some(Tracked::Route { prefix: prefix.trunc(), from: from.clone() })
            }
            _ => None,
        }
    }
}
