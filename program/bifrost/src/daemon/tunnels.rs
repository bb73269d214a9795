//! Tunnels of Linux's that the plane has adopted: where they end, which the driver is told; how
//! long a packet may be on the way to the other end, and from which address it comes, which Linux
//! knows and tells who asks; and whether the router's own rules leave their packets to the plane.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use elements::router::{Barred, Outer};
use fib::{HopKind, InterfaceId, Tunnel};
use mirror::kind::Unsourced;
use mirror::model::{Link, Links};
use port::driver::TunnelEnds;
use rules::Compiled;
use tracing::warn;

use super::forwarding::Forwarding;
use super::interfaces;

/// Pause between two rounds of questions for the paths' MTUs.
const ROUND: Duration = Duration::from_secs(1);
/// Questions at once.
const QUESTIONS: usize = 64;

/// See the module's description.
#[derive(Default)]
pub(crate) struct Tunnels {
    /// Those of this round that are still to be asked for.
    waiting: Vec<InterfaceId>,
    unsourced: Vec<Unsourced>,
    begun: Option<Instant>,
}

impl Tunnels {
    /// Asks Linux from which addresses VXLANs without one send, and for the MTU of the paths to
    /// some tunnels' other ends: packets that are longer are Linux's from then on, which tells
    /// their senders.
    pub(super) fn ask(&mut self, forwarding: &mut Forwarding) {
        let waits = !self.waiting.is_empty() || !self.unsourced.is_empty();
        if !waits && self.begun.is_none_or(|begun| begun.elapsed() >= ROUND) {
            self.begun = Some(Instant::now());
            self.waiting = forwarding.plane.tunnels().map(|(id, ..)| id).collect();
            self.unsourced = forwarding.mirror.unsourced().collect();
        }
        let asked = self.unsourced.len().min(QUESTIONS);
        self.unsourced.drain(..asked).for_each(|end| forwarding.mirror.ask_source(end));
        let asked: HashSet<_> = self.waiting.drain(..self.waiting.len().min(QUESTIONS)).collect();
        let Forwarding { plane, tables, .. } = forwarding;
        for (id, _, tunnel) in plane.tunnels().filter(|(id, ..)| asked.contains(id)) {
            // Where Linux knows no way, nothing is sent.
            let sending = mirror::sending(Some(tunnel.over.local()), tunnel.over.remote(), None);
            let mtu = sending.ok().and_then(|sending| sending.mtu);
            tables.set_path_mtu(id, mtu.unwrap_or(u32::MAX));
        }
    }
}

/// Those whose adoption depends on a tunnel, because they have the same ends.
pub(super) fn twins(link: &Link, links: &Links) -> Vec<u32> {
    links.twins(link).map(|twin| twin.ifindex).collect()
}

/// The interfaces by which packets of a tunnel leave for the other end now.
pub(crate) fn ways(tunnel: &Tunnel, forwarding: &Forwarding) -> BTreeSet<InterfaceId> {
    let view = forwarding.tables.view();
    let hop = view.hop(match tunnel.over.remote() {
        IpAddr::V4(remote) => view.lookup4(remote.into()),
        IpAddr::V6(remote) => view.lookup6(remote.into()),
    });
    if hop.kind() != HopKind::Forward {
        return BTreeSet::new();
    }
    (0..1 << hop.log2()).map(|hash| view.adjacency(view.select(hop, hash)).interface()).collect()
}

/// Why all VXLANs are Linux's before Linux 6.6: it does not find neighbours by what it is handed.
const UNHEARD: &str = "this kernel does not take packets of neighbours in it from Bifrost (6.6 does)";

/// Why a VXLAN that is on an interface (`dev`) is Linux's: the way to an end is by another one.
fn leads_elsewhere(link: &Link, tunnel: &Tunnel, forwarding: &Forwarding) -> Option<String> {
    let by = link.vxlan().map(|vxlan| vxlan.by).filter(|by| *by != 0)?;
    let view = forwarding.tables.view();
    let ways = ways(tunnel, forwarding);
    let elsewhere = ways.into_iter().find(|way| view.interface(*way).ifindex() != by)?;
    let name = forwarding.interface_name(elsewhere).unwrap_or_else(|| "another interface".to_owned());
    Some(format!("the way to {} is by {name}, not by the interface that it is on", tunnel.over.remote()))
}

/// Which tunnels are Linux's because of the router's own rules. See [`Outer`].
#[derive(Default)]
pub(crate) struct TunnelRules {
    /// Of the answers: of the filter and of the translation, and whether flows are known.
    version: Option<(u32, u64, bool)>,
    /// To be asked.
    rules: Option<Compiled>,
    known: HashMap<Outer, Option<Barred>>,
    /// By Linux's index: why, in words.
    barred: BTreeMap<u32, String>,
}

impl TunnelRules {
    /// Asks the rules in force about all tunnels that the plane could have. True: others are
    /// Linux's than before.
    pub(super) fn ask(&mut self, forwarding: &Forwarding) -> bool {
        let links = &forwarding.mirror.model().links;
        // And bridges with a VXLAN, and what lies on these.
        let vxlans = links.iter().filter(|link| link.is_vxlan());
        let bridges: HashSet<u32> = vxlans.filter_map(|vxlan| vxlan.master).collect();
        let on_one = |link: &Link| {
            let within = || links.within_bridge(link);
            !bridges.is_empty() && within().is_some_and(|(bridge, _)| bridges.contains(&bridge.ifindex))
        };
        let tunnels = links.iter().filter(|link| link.is.kind().is_tunnel() || on_one(link));
        let tunnels = tunnels.filter_map(|link| {
            let place = interfaces::place(link, links, &forwarding.router).ok()?;
            let vxlan = place.vxlan.and_then(|vxlan| links.by_index(vxlan));
            Some(place.tunnels.into_iter().map(move |tunnel| (link.ifindex, vxlan, tunnel)))
        });
        let tunnels = tunnels.flatten().collect::<Vec<_>>();
        if !tunnels.is_empty() {
            self.refresh(forwarding);
        }
        let barred = tunnels.into_iter();
        let barred = barred.filter_map(|(is, vxlan, tunnel)| {
            let why = vxlan.and_then(|vxlan| {
                let learns = forwarding.plane.hands_by_true_interface();
                leads_elsewhere(vxlan, &tunnel, forwarding).or((!learns).then(|| UNHEARD.to_owned()))
            });
            Some((is, why.or_else(|| self.why_not(&tunnel, forwarding))?))
        });
        let barred = barred.collect();
        std::mem::replace(&mut self.barred, barred) != self.barred
    }

    /// Why a tunnel is Linux's, by its index; `None`: not because of rules.
    pub(crate) fn barred(&self, ifindex: u32) -> Option<&str> {
        self.barred.get(&ifindex).map(String::as_str)
    }

    /// Forgets what rules have said that are not in force any more.
    fn refresh(&mut self, forwarding: &Forwarding) {
        let policy = forwarding.plane.policy();
        let (rules, generation) = policy.book().current();
        let version = policy.bindings().map_or(0, |nat| nat.version());
        let now = Some((generation, version, policy.table().is_some()));
        if std::mem::replace(&mut self.version, now) != now {
            self.rules = Some(rules.for_dry_run());
            self.known.clear();
        }
    }

    /// Why the packets of a tunnel are Linux's on one of the ways that they may take now.
    fn why_not(&mut self, tunnel: &Tunnel, forwarding: &Forwarding) -> Option<String> {
        let TunnelRules { rules, known, .. } = self;
        let (rules, policy) = (rules.as_ref()?, forwarding.plane.policy());
        let (nat, tracked) = (policy.bindings().map(AsRef::as_ref), policy.table().is_some());
        for by in ways(tunnel, forwarding) {
            // Where no flows are known, workers judge each packet that comes in.
            let asked = Outer::all(tunnel, by).filter(|outer| tracked || outer.leaves());
            for outer in asked {
                let barred = known.entry(outer).or_insert_with(|| outer.pass(rules, nat, tracked).err());
                if let Some(barred) = *barred {
                    let way = if outer.leaves() { "leave" } else { "come in" };
                    let why = outer.explain(barred, rules.filter());
                    return Some(format!("its own packets that {way} are {why}"));
                }
            }
        }
        None
    }
}

impl Forwarding {
    /// Tells the driver at which addresses tunnels end.
    pub(super) fn tell_ends(&mut self) {
        let mut ends = TunnelEnds::new();
        for (_, _, tunnel) in self.plane.tunnels() {
            let end = ends.entry(tunnel.over.local()).or_default();
            match tunnel.payload.vxlan() {
                Some(_) => end.vxlan = true,
                None => end.others = true,
            }
        }
        if let Err(error) = self.plane.driver_mut().set_tunnel_ends(ends) {
            warn!("tunnels: {error}");
        }
    }
}
