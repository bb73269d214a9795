//! What Linux does to packets and the plane does not: filters of others (nftables, legacy iptables, `tc`, IPsec), policy rules, and
//! queueing disciplines that shape.
//!
//! A firewall that is passed by without a word is worse than none. So transit that such a rule could touch is Linux's, in both lanes
//! and without a limit, from before the first port is taken, until the rule is gone or the operator says that it is not meant for what
//! Bifrost forwards (`linux_filter = "ignore"`, `linux_rules = "ignore"`). By families, and by the interface that packets come in by where
//! a rule says so; which packets exactly a rule matches is not asked.

use config::Foreign as Wish;
use mirror::{Beyond, Reach};
use tracing::{info, warn};

use super::control::Control;

/// What Linux has, and what is done about it.
#[derive(Default)]
pub(super) struct Foreign {
    pub(super) beyond: Beyond,
    wishes: [Wish; 2],
    /// What is left to Linux.
    pub(super) reach: Reach,
}

impl Control {
    /// Takes note of what Linux has now; what changes for a port takes effect at once.
    pub(super) fn respect_linux(&mut self) {
        let beyond = self.mirror.beyond().of_ports(|name| self.router.port(name).is_some());
        let wishes = [self.router.linux_filter, self.router.linux_rules];
        if beyond == self.foreign.beyond && wishes == self.foreign.wishes {
            return;
        }
        let had = std::mem::replace(&mut self.foreign.beyond, beyond);
        self.foreign.wishes = wishes;
        let Beyond { filters, rules, shapers, .. } = &self.foreign.beyond;
        for (interface, kind) in shapers.iter().filter(|new| !had.shapers.contains(new)) {
            warn!("{interface}: Linux's queueing discipline {kind} does not shape what Bifrost forwards");
        }
        tell("filter", &had.filters, filters, wishes[0]);
        tell("policy rule", &had.rules, rules, wishes[1]);
        let reach = left_to_linux(&self.foreign.beyond, wishes);
        if std::mem::replace(&mut self.foreign.reach, reach) == self.foreign.reach {
            return;
        }
        let taken = self.plane.ports().iter().filter_map(|port| Some(port.interface.as_ref()?.ifindex));
        taken.collect::<Vec<_>>().into_iter().for_each(|ifindex| self.look_at(ifindex));
    }
}

/// Which packets that arrive are Linux's, as the operator wishes.
fn left_to_linux(beyond: &Beyond, [filter, rules]: [Wish; 2]) -> Reach {
    let wanted = |wish: Wish, reach: &Reach| match wish {
        Wish::Respect => reach.clone(),
        Wish::Ignore => Reach::default(),
    };
    wanted(filter, &beyond.filtered).or(&wanted(rules, &beyond.ruled))
}

fn tell(kind: &str, had: &[String], has: &[String], wish: Wish) {
    for new in has.iter().filter(|new| !had.contains(new)) {
        match wish {
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
