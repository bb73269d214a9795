//! What `tc` has made of the interfaces: queueing disciplines that shape what is sent, and filters
//! at the way in and out.

use crate::netlink::tc::{Filter, Qdisc};
use std::collections::BTreeMap;

/// Qdiscs that shape, and filters, by interface.
#[derive(Default)]
pub(super) struct Traffic {
    /// Interface and kind.
    shapers: Vec<(String, String)>,
    filters: BTreeMap<Hook, Filters>,
}

/// A place where filters see all packets of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hook {
    pub ifindex: u32,
    pub egress: bool,
}

/// The filters at a hook.
#[derive(Default)]
pub(super) struct Filters {
    kinds: Vec<String>,
    families: [bool; 2],
}

/// What is at one hook.
pub(super) struct AtHook {
    /// The interface.
    pub interface: String,
    pub egress: bool,
    /// Whether packets of IPv4, of IPv6 could be touched.
    pub families: [bool; 2],
    /// For people.
    pub words: String,
}

impl Filters {
    pub fn add(&mut self, filter: Filter) {
        if filter.families != [false; 2] && !self.kinds.contains(&filter.kind) {
            self.kinds.push(filter.kind);
        }
        self.families = [0, 1].map(|family| self.families[family] || filter.families[family]);
    }
}

impl Traffic {
    /// Takes over all qdiscs, and says which hooks are to be read.
    pub fn set_qdiscs(&mut self, qdiscs: &[Qdisc]) -> Vec<Hook> {
        let shape = |qdisc: &&Qdisc| !qdisc.only_queues() && qdisc.hooks() == [false; 2];
        let named = |qdisc: &Qdisc| Some((name(qdisc.ifindex)?, qdisc.kind.clone()));
        self.shapers = qdiscs.iter().filter(shape).filter_map(named).collect();
        self.shapers.sort();
        self.shapers.dedup();
        let of = |qdisc: &Qdisc| {
            let ifindex = qdisc.ifindex;
            let hooks = [false, true].into_iter().zip(qdisc.hooks()).filter(|(_, there)| *there);
            hooks.map(move |(egress, _)| Hook { ifindex, egress })
        };
        let hooks: Vec<Hook> = qdiscs.iter().flat_map(of).collect();
        self.filters.retain(|hook, _| hooks.contains(hook));
        hooks
    }

    pub fn set_filters(&mut self, hook: Hook, filters: Filters) {
        self.filters.insert(hook, filters);
    }

    /// Interfaces and the kinds of what shapes there.
    pub fn shapers(&self) -> &[(String, String)] {
        &self.shapers
    }

    /// Hooks with filters that forwarded packets meet.
    pub fn hooks(&self) -> impl Iterator<Item = AtHook> {
        let met = self.filters.iter().filter(|(_, filters)| filters.families != [false; 2]);
        met.filter_map(|(hook, filters)| {
            let interface = name(hook.ifindex)?;
            let way = if hook.egress { "egress" } else { "ingress" };
            let words = format!("tc {way} {interface} ({})", filters.kinds.join(", "));
            Some(AtHook { interface, egress: hook.egress, families: filters.families, words })
        })
    }
}

/// The interface's name, while it is there.
fn name(ifindex: u32) -> Option<String> {
    nix::net::if_::if_indextoname(ifindex).ok().and_then(|name| name.into_string().ok())
}
