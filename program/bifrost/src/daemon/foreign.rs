//! What Linux does to packets and the plane does not: filters of others (nftables, legacy iptables,
//! `tc`, programs by tcx, IPsec), routing rules that are not followed, and queueing disciplines.
//!
//! A firewall that is passed by without a word is worse than none. So transit that such a rule
//! could touch is Linux's, in both lanes and without a limit, from before the first port is taken,
//! until the rule is gone or the operator says that it is not meant for what Bifrost forwards
//! (`linux_filter = "ignore"`, `linux_rules = "ignore"`). By families, and by the interface that
//! packets come in by where a rule says so; which packets exactly a rule matches is not asked.

use std::time::{Duration, Instant};

use config::Foreign as Wish;
use mirror::model::{Link, Links};
use mirror::{Beyond, Reach};
use tracing::{info, warn};

use super::forwarding::Forwarding;
use super::interfaces::is_ours;
use super::steering::Steering;
use super::tunnels::TunnelRules;

/// Pause between two looks for programs, of which nobody tells.
const LOOK: Duration = Duration::from_millis(500);

/// What Linux has, and what is done about it.
#[derive(Default)]
pub(crate) struct Foreign {
    pub(crate) beyond: Beyond,
    wishes: [Wish; 2],
    /// The families for which the plane judges as nftables' chains do.
    adopted: [bool; 2],
    /// Programs of others by tcx: the port, and whether at its way out.
    programs: Vec<(String, bool)>,
    looked: Option<Instant>,
    /// What is left to Linux.
    pub(crate) reach: Reach,
    /// Linux's routing rules that are followed.
    pub(crate) steering: Steering,
    /// Tunnels that the router's own rules leave to Linux.
    pub(crate) tunnels: TunnelRules,
    /// Transit depends on flows.
    tracked: bool,
}

impl Foreign {
    /// Takes note of what Linux has now, where the plane judges packets of the families `adopted`
    /// as nftables' chains do. True: what is left to Linux is another than before, which ports are
    /// to be told.
    pub(super) fn look(&mut self, forwarding: &Forwarding, adopted: [bool; 2]) -> bool {
        self.look_for_programs(forwarding);
        let router = &forwarding.router;
        let links = &forwarding.mirror.model().links;
        let mut beyond = forwarding.mirror.beyond().of_ports(|name| is_ours(name, links, router));
        self.programs.iter().for_each(|(port, egress)| beyond.add_program(port, *egress));
        let wishes = [router.linux_filter, router.linux_rules];
        let tracked = forwarding.plane.policy().depends_on_flows();
        let anew = std::mem::replace(&mut self.tracked, tracked) != tracked;
        let barred = self.tunnels.ask(forwarding);
        let steered = self.steering.follow(&mut beyond, forwarding, wishes[1]) || anew || barred;
        let same = beyond == self.beyond && wishes == self.wishes && adopted == self.adopted;
        if same {
            return steered;
        }
        let had = std::mem::replace(&mut self.beyond, beyond);
        (self.wishes, self.adopted) = (wishes, adopted);
        let Beyond { chains, filters, rules, shapers, .. } = &self.beyond;
        for (interface, kind) in shapers.iter().filter(|new| !had.shapers.contains(new)) {
            warn!("{interface}: Linux's queueing discipline {kind} does not shape what Bifrost forwards");
        }
        tell("filter", &had.chains, chains, wishes[0]);
        tell("filter", &had.filters, filters, wish_of_others(wishes[0]));
        tell("routing rule", &had.rules, rules, wishes[1]);
        let reach = left_to_linux(&self.beyond, wishes, adopted);
        let (tunnels, before) = (self.reaches_tunnels(), had);
        let changed = std::mem::replace(&mut self.reach, reach) != self.reach || steered;
        let others = before.own != self.beyond.own || before.bridged != self.beyond.bridged;
        changed || others || tunnels != self.reaches_tunnels()
    }

    /// Why a bridge is Linux's that the plane could do by itself.
    pub(crate) fn why_not_bridge(&self, bridge: &Link, links: &Links) -> Option<String> {
        let learns = |member: &&Link| member.bridged.is_some_and(|bridged| bridged.learns);
        if let Some(mute) = links.members(bridge.ifindex).find(|member| !learns(member) && !member.is_vxlan())
            && self.tracked
        {
            // Linux is to learn from frames that workers forward, but must not.
            return Some(format!(
                "its member {} learns nobody by itself (learning off, or locked), which translation and rules \
                 that ask for states need",
                mute.name
            ));
        }
        let chain = self.beyond.bridged.first().filter(|_| self.wishes[0] != Wish::Ignore)?;
        Some(format!("Linux's filter {chain} could touch what passes bridges"))
    }

    /// Whether something of Linux's could touch the headers of tunnels over IPv4, and over IPv6,
    /// which this machine itself sends and receives. Workers ask no routing rules for the way of
    /// these.
    pub(super) fn reaches_tunnels(&self) -> [bool; 2] {
        let steered = self.steering.concerns.families();
        let own = self.beyond.own.map(|own| own && self.wishes[0] != Wish::Ignore);
        std::array::from_fn(|family| self.reach.all[family] || steered[family] || own[family])
    }

    fn look_for_programs(&mut self, forwarding: &Forwarding) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        let ours = |ifindex: u32| {
            forwarding.plane.ports().iter().any(|port| {
                port.interface.as_ref().is_some_and(|link| link.ifindex == ifindex)
                    && forwarding.plane.driver().copies_stack(port.id)
            })
        };
        let links = &forwarding.mirror.model().links;
        let ports = links.iter().filter(|link| is_ours(&link.name, links, &forwarding.router));
        let hooks = ports.flat_map(|link| [false, true].map(|egress| (link, egress)));
        let foreign = hooks.filter(|(link, egress)| {
            port::tcx::programs(link.ifindex, *egress) > usize::from(*egress && ours(link.ifindex))
        });
        self.programs = foreign.map(|(link, egress)| (link.name.clone(), egress)).collect();
    }
}

/// Which packets that arrive are Linux's, as the operator wishes.
fn left_to_linux(beyond: &Beyond, [filter, rules]: [Wish; 2], adopted: [bool; 2]) -> Reach {
    let wanted = |wish: Wish, reach: Reach| match wish {
        Wish::Respect | Wish::Adopt => reach,
        Wish::Ignore => Reach::default(),
    };
    let filtered = beyond.filtered.clone().or(&beyond.chained.clone().without(adopted));
    wanted(filter, filtered).or(&wanted(rules, beyond.ruled.clone()))
}

/// What is done about filters that are no chains of nftables: none of them can be adopted.
pub(crate) fn wish_of_others(wish: Wish) -> Wish {
    if wish == Wish::Adopt { Wish::Respect } else { wish }
}

fn tell(kind: &str, had: &[String], has: &[String], wish: Wish) {
    for new in has.iter().filter(|new| !had.contains(new)) {
        match wish {
            // Whether it is adopted is told with what stands in the way.
            Wish::Adopt => {}
            Wish::Respect => warn!(
                "Linux's {kind} {new:?} is not Bifrost's: transit that it could touch is left to Linux, which is slower"
            ),
            Wish::Ignore => warn!("Linux's {kind} {new:?} is passed by, as configured"),
        }
    }
    for old in had.iter().filter(|old| !has.contains(old)) {
        info!("Linux's {kind} {old:?} is gone, or lets everything pass");
    }
}
