//! What can be tracked: a condition that a router's part depends on.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use notation::duration;
use serde::Deserialize;

/// What can be tracked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// An interface that is up.
    Interface(String),
    /// A BFD session to this address that is up.
    Bfd(IpAddr),
    /// A host that answers.
    Ping(Ping),
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

/// A host that is asked from time to time whether it is there (ICMP echo).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ping {
    /// The host: no group, and no address that only means something on one link.
    pub address: IpAddr,
    /// How often, 100 ms to a minute.
    pub interval: Duration,
    /// So many in a row, 1 to 100, must be unanswered before it is lost, and answered before it is
    /// back.
    pub count: u8,
}

impl fmt::Display for Tracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tracked::Interface(name) => write!(f, "interface {name}"),
            Tracked::Bfd(peer) => write!(f, "bfd {peer}"),
            Tracked::Ping(ping) => write!(f, "ping {}", ping.address),
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
    ping: Option<IpAddr>,
    flows: Option<Flows>,
    from: Option<String>,
    interval: Option<String>,
    count: Option<u64>,
    pub(crate) lower: Option<Lower>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flows {
    Shared,
}

/// What is wrong with an entry, and what is expected.
pub(crate) type Wrong = (String, &'static str);

const EXPECTED: &str = "{ interface = \"wan0\" }, { bfd = \"192.0.2.1\" }, { flows = \"shared\" }, \
                        { ping = \"192.0.2.1\" }, also with interval = \"1s\" and count = 3, or \
                        { route = \"0.0.0.0/0\" }, also with from = \"bgp\"";

const INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];
const USUAL_INTERVAL: Duration = Duration::from_secs(1);
const COUNTS: [u64; 2] = [1, 100];
const USUAL_COUNT: u8 = 3;

impl<Lower> Written<Lower> {
    pub(crate) fn what(&self) -> Result<Tracked, Wrong> {
        let all = (&self.interface, self.bfd, self.ping, self.flows, self.route);
        let what = match all {
            (Some(name), None, None, None, None) => Tracked::Interface(name.clone()),
            (None, Some(peer), None, None, None) => Tracked::Bfd(peer),
            (None, None, Some(address), None, None) => Tracked::Ping(self.ping(address)?),
            (None, None, None, Some(Flows::Shared), None) => Tracked::Flows,
            (None, None, None, None, Some(prefix)) => {
                Tracked::Route { prefix: prefix.trunc(), from: self.from.clone() }
            }
            _ => return Err(("what is tracked is one thing".to_owned(), EXPECTED)),
        };
        let stray = |key: &str, of: &str| Err((format!("{key} is for {of}"), EXPECTED));
        match &what {
            Tracked::Route { .. } if self.interval.is_some() => stray("interval", "ping"),
            Tracked::Route { .. } if self.count.is_some() => stray("count", "ping"),
            Tracked::Route { .. } => Ok(what),
            _ if self.from.is_some() => stray("from", "route"),
            Tracked::Ping(_) => Ok(what),
            _ if self.interval.is_some() => stray("interval", "ping"),
            _ if self.count.is_some() => stray("count", "ping"),
            _ => Ok(what),
        }
    }

    fn ping(&self, address: IpAddr) -> Result<Ping, Wrong> {
        let is_host = match address {
            IpAddr::V4(four) => {
                !four.is_link_local() && !four.is_broadcast() && !four.is_multicast() && four.octets()[0] != 0
            }
            IpAddr::V6(six) => !six.is_unicast_link_local() && !six.is_multicast() && !six.is_unspecified(),
        };
        if !is_host || address.is_loopback() {
            let message = format!("{address} is no host that can be asked from here");
            return Err((message, "an address beyond this machine, and not of one link alone"));
        }
        let interval = match &self.interval {
            None => USUAL_INTERVAL,
            Some(text) => duration(text)
                .filter(|interval| (INTERVALS[0]..=INTERVALS[1]).contains(interval))
                .ok_or_else(|| (format!("interval {text:?} cannot be that"), "a time from 100ms to 60s"))?,
        };
        let count = match self.count {
            None => USUAL_COUNT,
            Some(count) => u8::try_from(count)
                .ok()
                .filter(|_| (COUNTS[0]..=COUNTS[1]).contains(&count))
                .ok_or_else(|| (format!("count {count} cannot be that"), "a whole number from 1 to 100"))?,
        };
        Ok(Ping { address, interval, count })
    }
}
