//! Tunnels of Linux's that the plane has adopted: where they end, which the driver is told; how
//! long a packet may be on the way to the other end, which Linux learns and tells who asks; and
//! whether the router's own rules leave their packets to the plane.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use elements::router::Outer;
use fib::{HopKind, InterfaceId};
use mirror::model::{Link, Links};
use rules::Compiled;
use tracing::warn;

use super::forwarding::Forwarding;

/// Pause between two rounds of questions for the paths' MTUs.
const ROUND: Duration = Duration::from_secs(1);
/// Questions at once.
const QUESTIONS: usize = 64;

/// See the module's description.
#[derive(Default)]
pub(crate) struct Tunnels {
    /// Those of this round that are still to be asked for.
    waiting: Vec<InterfaceId>,
    begun: Option<Instant>,
}

impl Tunnels {
    /// Asks Linux for the MTU of the paths to some tunnels' other ends: packets that are longer are
    /// Linux's from then on, which tells their senders.
    pub(super) fn ask(&mut self, forwarding: &mut Forwarding) {
        if self.waiting.is_empty() && self.begun.is_none_or(|begun| begun.elapsed() >= ROUND) {
            self.begun = Some(Instant::now());
            self.waiting = forwarding.plane.tunnels().map(|(id, ..)| id).collect();
        }
        let asked: HashSet<_> = self.waiting.drain(..self.waiting.len().min(QUESTIONS)).collect();
        let Forwarding { plane, tables, .. } = forwarding;
        for (id, _, tunnel) in plane.tunnels().filter(|(id, ..)| asked.contains(id)) {
            // Where Linux knows no way, nothing is sent.
            let mtu = mirror::path_mtu(tunnel.local, tunnel.remote).ok().flatten();
            tables.set_path_mtu(id, mtu.unwrap_or(u32::MAX));
        }
    }
}

/// Those whose adoption depends on a tunnel, because they have the same ends.
pub(super) fn twins(link: &Link, links: &Links) -> Vec<u32> {
    links.twins(link).map(|twin| twin.ifindex).collect()
}

/// The rules in force, as they are asked about the packets that tunnels are made of.
pub(crate) struct TunnelRules<'f> {
    forwarding: &'f Forwarding,
    rules: Compiled,
}

impl TunnelRules<'_> {
    /// Why workers leave the packets of a tunnel to Linux, by the way that they take now; `None`:
    /// they do not. See [`Outer`].
    pub(crate) fn why_not(&self, id: InterfaceId) -> Option<String> {
        let Forwarding { plane, tables, .. } = self.forwarding;
        let (view, policy) = (tables.view(), plane.policy());
        let tunnel = view.hops().tunnel(id)?;
        let hop = view.hop(view.lookup4(tunnel.remote()));
        if hop.kind() != HopKind::Forward {
            return None;
        }
        let by = view.adjacency(view.select(hop, 0)).interface();
        let tracked = policy.table().is_some();
        let (_, _, spec) = plane.tunnels().find(|(known, ..)| *known == id)?;
        // Where no flows are known, workers judge each packet that comes in.
        let received = tracked.then(|| Outer::received(&spec.ends(), by));
        let nat = policy.bindings().map(AsRef::as_ref);
        received.into_iter().chain([Outer::sent(&tunnel, by)]).find_map(|outer| {
            let barred = outer.pass(&self.rules, nat, tracked).err()?;
            let way = if outer.leaves() { "that leave" } else { "that come in" };
            Some(format!("its own packets {way} are {}", outer.explain(barred, self.rules.filter())))
        })
    }
}

impl Forwarding {
    /// What the rules in force say of tunnels.
    pub(crate) fn tunnel_rules(&self) -> TunnelRules<'_> {
        let (rules, _) = self.plane.policy().book().current();
        TunnelRules { forwarding: self, rules: rules.for_dry_run() }
    }

    /// Tells the driver at which addresses tunnels end.
    pub(super) fn tell_ends(&mut self) {
        let ends: HashSet<_> = self.plane.tunnels().map(|(_, _, tunnel)| tunnel.local).collect();
        if let Err(error) = self.plane.driver_mut().set_tunnel_ends(ends) {
            warn!("tunnels: {error}");
        }
    }
}
