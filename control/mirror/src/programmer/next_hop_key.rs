//! What a route does to packets, as something that can be compared: the key under which next hops
//! are shared.
//!
//! All routes with the same key share one next hop in the tables. A key says what is wanted ("as
//! target 7 says"); [`resolve`] says what that comes to at the moment, given interfaces, neighbours
//! and ports.

use super::adjacency::{Behind, Key};
use super::legs::Legs;
use crate::model::{Gateway, Gateways, Kind, Model, Path, Route, TargetId, Ways};
use fib::NextHop;
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;

/// See the module's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NextHopKey {
    /// To this machine.
    Local,
    /// Dropped silently.
    Blackhole,
    /// Dropped, host unreachable.
    Unreachable,
    /// Dropped, administratively prohibited.
    Prohibit,
    /// As if there were no route (`throw`).
    NoRoute,
    /// Linux forwards it.
    Linux,
    /// As the target says.
    Target {
        /// Where the routes point.
        target: TargetId,
        /// Their MTU, 0 = none.
        mtu: u32,
        /// Which family's settings count.
        ipv6: bool,
        /// Whether they name a source of their own.
        sourced: bool,
    },
    /// To one host on a connected network.
    Host {
        /// Its interface.
        ifindex: u32,
        /// Its address.
        address: IpAddr,
        /// The route's MTU, 0 = none.
        mtu: u32,
        /// Whether the route names a source of its own.
        sourced: bool,
    },
}

impl NextHopKey {
    /// Whether its routes name a source of their own.
    pub(crate) fn is_sourced(self) -> bool {
        matches!(self, NextHopKey::Target { sourced: true, .. } | NextHopKey::Host { sourced: true, .. })
    }

    /// Which packets it is for, for the log.
    pub(crate) fn in_words(self, model: &Model) -> String {
        match self {
            NextHopKey::Target { target, .. } => {
                let Ways::Paths(paths) = model.ways(target) else { return "of a blackhole".to_owned() };
                let gateways =
                    paths.iter().filter_map(|path| path.gateway).map(|gateway| gateway.to_string());
                match gateways.collect::<Vec<_>>() {
                    none if none.is_empty() => "to a connected network".to_owned(),
                    gateways => format!("by way of {}", gateways.join(", ")),
                }
            }
            NextHopKey::Host { address, .. } => format!("to the neighbour {address}"),
            other => format!("of routes of kind {other:?}").to_lowercase(),
        }
    }
}

/// What a key comes to.
pub(crate) enum Outcome {
    /// Nothing that needs adjacencies.
    Fixed(NextHop),
    /// Linux has it, by these ways: what they hang on is looked after.
    Foreign(NextHop, Vec<Key>),
    /// These ways, each with its weight and whether it takes part now.
    Ways(Vec<(Key, u16, bool)>),
}

/// Which interfaces are Bifrost's.
pub(crate) type Ports = HashMap<u32, Legs>;

/// The key of a usable route of `prefix`.
pub(crate) fn next_hop_key(prefix: &IpNet, route: &Route, model: &Model) -> NextHopKey {
    match route.kind {
        Kind::Local | Kind::Broadcast | Kind::Anycast | Kind::Multicast => NextHopKey::Local,
        Kind::Blackhole => NextHopKey::Blackhole,
        Kind::Unreachable => NextHopKey::Unreachable,
        Kind::Prohibit => NextHopKey::Prohibit,
        Kind::Throw => NextHopKey::NoRoute,
        Kind::Other => NextHopKey::Linux,
        Kind::Unicast => match on_link(model, route) {
            Some(ifindex) if prefix.prefix_len() == prefix.max_prefix_len() => {
                NextHopKey::Host { ifindex, address: prefix.addr(), mtu: route.mtu, sourced: route.sourced }
            }
            _ => NextHopKey::Target {
                target: route.target,
                mtu: route.mtu,
                ipv6: prefix.addr().is_ipv6(),
                sourced: route.sourced,
            },
        },
    }
}

/// What about a target decides which routes are chosen and which hosts have entries of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nature {
    alive4: bool,
    alive6: bool,
    on_link: Option<u32>,
}

/// The target's nature now.
pub(crate) fn nature(model: &Model, target: TargetId) -> Nature {
    Nature {
        alive4: alive(model, target, false),
        alive6: alive(model, target, true),
        on_link: target_on_link(model, target),
    }
}

/// The interface on whose link the route's destinations are, when that is all it says.
pub(crate) fn on_link(model: &Model, route: &Route) -> Option<u32> {
    if route.kind != Kind::Unicast {
        return None;
    }
    target_on_link(model, route.target)
}

fn target_on_link(model: &Model, target: TargetId) -> Option<u32> {
    match model.ways(target) {
        Ways::Paths(paths) => match paths.as_slice() {
            [Path { ifindex, gateway: None, encap: false, .. }] if has_neighbours(model, *ifindex) => {
                Some(*ifindex)
            }
            _ => None,
        },
        Ways::Blackhole => None,
    }
}

/// Whether what leaves by an interface goes to neighbours on its link.
fn has_neighbours(model: &Model, ifindex: u32) -> bool {
    model.links.by_index(ifindex).is_none_or(|link| link.is.kind().has_neighbours())
}

/// Whether Linux would use this target: some way of it leads through an interface that is up (or it
/// drops).
pub(crate) fn alive(model: &Model, target: TargetId, ipv6: bool) -> bool {
    match model.ways(target) {
        Ways::Blackhole => true,
        Ways::Paths(paths) => paths.iter().any(|path| path_alive(model, path, ipv6)),
    }
}

/// `RTNH_F_DEAD` and `RTNH_F_LINKDOWN`, from the interfaces' state: Linux sets these flags without
/// telling.
fn path_alive(model: &Model, path: &Path, ipv6: bool) -> bool {
    if path.ifindex == 0 {
        return true;
    }
    model.links.by_index(path.ifindex).is_some_and(|link| {
        let ignored = if ipv6 { link.ignore_linkdown6 } else { link.ignore_linkdown4 };
        link.up && (link.running || !ignored)
    })
}

/// Whether what the key comes to depends on this interface.
pub(crate) fn uses(next_hop_key: &NextHopKey, model: &Model, ifindex: u32) -> bool {
    match next_hop_key {
        NextHopKey::Host { ifindex: own, .. } => *own == ifindex,
        NextHopKey::Target { target, .. } => match model.ways(*target) {
            Ways::Paths(paths) => paths.iter().any(|path| {
                let backup = || model.backup_of(path);
                path.ifindex == ifindex || backup().is_some_and(|path| path.ifindex == ifindex)
            }),
            Ways::Blackhole => false,
        },
        _ => false,
    }
}

/// Whether a way of the key's is by this gateway.
pub(crate) fn leads_by(next_hop_key: &NextHopKey, model: &Model, gateway: Gateway) -> bool {
    let NextHopKey::Target { target, .. } = next_hop_key else { return false };
    let Ways::Paths(paths) = model.ways(*target) else { return false };
    let by = |ifindex: u32| Some(ifindex) == gateway.ifindex || gateway.ifindex.is_none();
    paths.iter().any(|path| path.gateway == Some(gateway.address) && by(path.ifindex))
}

/// Whether what the key comes to is another by other gateways.
pub(crate) fn differs_by(next_hop_key: &NextHopKey, model: &Model, other: &Gateways) -> bool {
    match next_hop_key {
        NextHopKey::Target { target, .. } => match model.ways(*target) {
            Ways::Paths(paths) => paths.iter().any(|path| model.gateways.differ(other, path)),
            Ways::Blackhole => false,
        },
        _ => false,
    }
}

/// What the key comes to now.
pub(crate) fn resolve(next_hop_key: &NextHopKey, model: &Model, ports: &Ports) -> Outcome {
    let fixed = match next_hop_key {
        NextHopKey::Local => NextHop::Local,
        NextHopKey::Blackhole => NextHop::Blackhole,
        NextHopKey::Unreachable => NextHop::Unreachable,
        NextHopKey::Prohibit => NextHop::Prohibit,
        NextHopKey::NoRoute => NextHop::None,
        NextHopKey::Linux => NextHop::Punt,
        NextHopKey::Host { ifindex, address, mtu, .. } => match ports.get(ifindex) {
            Some(legs) if path_alive(model, &bare(*ifindex), address.is_ipv6()) => {
                let keys = keys(legs, *ifindex, *address, *mtu, model);
                if keys.iter().all(Key::is_foreign) {
                    return Outcome::Foreign(foreign(&[&bare(*ifindex)], *mtu, model), keys);
                }
                return Outcome::Ways(keys.into_iter().map(|key| (key, 1, true)).collect());
            }
            _ => foreign(&[&bare(*ifindex)], *mtu, model),
        },
        NextHopKey::Target { target, mtu, ipv6, .. } => match model.ways(*target) {
            Ways::Blackhole => NextHop::Blackhole,
            Ways::Paths(paths) => return ways(&paths, *mtu, *ipv6, model, ports),
        },
    };
    Outcome::Fixed(fixed)
}

fn bare(ifindex: u32) -> Path {
    Path { ifindex, gateway: None, weight: 1, encap: false }
}

/// By interfaces that are no ports: Linux's, with the MTU of the narrowest way.
fn foreign(paths: &[&Path], mtu: u32, model: &Model) -> NextHop {
    let links = paths.iter().filter_map(|path| model.links.by_index(path.ifindex));
    let widths = links.map(|link| link.mtu).chain([mtu]).filter(|mtu| *mtu != 0);
    widths.min().map_or(NextHop::Punt, NextHop::Foreign)
}

/// A dead target becomes Linux's: it knows at once whether another route takes over, while here
/// that is worked out in the background. So do paths by interfaces that are not Bifrost's, and
/// destinations on several links at once.
fn ways(paths: &[Path], mtu: u32, ipv6: bool, model: &Model, ports: &Ports) -> Outcome {
    let alive: Vec<&Path> = paths.iter().filter(|path| path_alive(model, path, ipv6)).collect();
    if let [path] = alive.as_slice()
        && let (None, false, Some(legs)) = (path.gateway, path.encap, ports.get(&path.ifindex))
        && has_neighbours(model, path.ifindex)
        && let Some(interface) = legs.first()
    {
        return Outcome::Fixed(NextHop::Glean(interface));
    }
    let ways: Vec<Way> = alive.iter().map(|path| Way::of(path, mtu, model, ports)).collect();
    if ways.iter().flat_map(|way| &way.keys).all(Key::is_foreign) {
        let keys = ways.into_iter().flat_map(|way| way.keys).collect();
        return Outcome::Foreign(foreign(&alive, mtu, model), keys);
    }
    // Who takes the place of those that are lost, if all are. Until then no packet goes there, but
    // who it is must be known by then; and one that fails may answer again.
    let backups = alive.iter().filter_map(|path| model.backup_of(path));
    let backups = backups.filter(|path| path_alive(model, path, ipv6));
    let backups = backups.map(|path| Way::of(&path, mtu, model, ports)).filter(Way::is_to_neighbour);
    let (own, ways) = (ways.len(), ways.into_iter().chain(backups).collect::<Vec<Way>>());
    let lost = ways[..own].iter().all(|way| way.failed);
    // Where no neighbour answers, all own ways stay: Linux gets the packets, asks again, and tells
    // the senders.
    let none = lost && ways[own..].iter().all(|way| way.failed);
    // Each way keeps its share, however many members it is spread over.
    let fold = ways.iter().map(|way| way.spread()).fold(1, lcm);
    let weights = ways.iter().map(|way| way.weight * fold / way.spread());
    let most = weights.clone().max().unwrap_or(1);
    let scaled = weights.map(|weight| match most > u128::from(u16::MAX) {
        true => (weight * u128::from(u16::MAX) / most).max(1) as u16,
        false => weight as u16,
    });
    let spread = ways.iter().zip(scaled).enumerate().flat_map(|(at, (way, weight))| {
        let keys = if way.keys.is_empty() { &[Key::FOREIGN][..] } else { &way.keys };
        let takes_part = if at < own { none || !way.failed } else { lost && !way.failed };
        keys.iter().map(move |key| (*key, weight, takes_part))
    });
    Outcome::Ways(spread.collect())
}

/// One of the ways of a target.
struct Way {
    /// The adjacencies that it is spread over; none where it is Linux's.
    keys: Vec<Key>,
    weight: u128,
    /// The neighbour does not answer, or is lost.
    failed: bool,
}

impl Way {
    fn of(path: &Path, mtu: u32, model: &Model, ports: &Ports) -> Way {
        let weight = u128::from(path.weight).max(1);
        let none = Way { keys: Vec::new(), weight, failed: false };
        let (false, Some(legs)) = (path.encap, ports.get(&path.ifindex)) else { return none };
        if !has_neighbours(model, path.ifindex) {
            // Whatever the gateway: it is at the other end.
            let (ifindex, behind) = (path.ifindex, Behind::Any);
            let key = |interface| Key { ifindex, gateway: None, mtu, interface, behind };
            return Way { keys: legs.first().map(key).into_iter().collect(), ..none };
        }
        let Some(gateway) = path.gateway else { return none };
        let keys = keys(legs, path.ifindex, gateway, mtu, model);
        let known = model.neighbours.find(path.ifindex, gateway);
        let unanswered = known.is_some_and(|neighbour| neighbour.failed()) || model.is_lost(path);
        let failed = !keys.is_empty() && unanswered;
        Way { keys, weight, failed }
    }

    /// Whether all of it leads to a neighbour, and nothing to Linux.
    fn is_to_neighbour(&self) -> bool {
        !self.keys.is_empty() && !self.keys.iter().any(Key::is_foreign)
    }

    /// Over how many adjacencies it is spread.
    fn spread(&self) -> u128 {
        self.keys.len().max(1) as u128
    }
}

/// The adjacencies to a neighbour on an interface of the plane's.
fn keys(legs: &Legs, ifindex: u32, gateway: IpAddr, mtu: u32, model: &Model) -> Vec<Key> {
    let key = |(interface, behind)| Key { ifindex, gateway: Some(gateway), mtu, interface, behind };
    legs.towards(ifindex, gateway, model).into_iter().map(key).collect()
}

fn lcm(a: u128, b: u128) -> u128 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
