//! The standard router: the graph that every worker runs an instance of.
//!
//! It fits on a page. What no element can complete leads to `linux`; what deserves an answer leads to `icmp`, whose
//! replies find their own way and leave through the same `rewrite` as everything else.
//!
//! ```text
//! classify -> check4 -> lookup4 -> reverse4 -> redirect4 -> mtu4 -> ttl4 -> rewrite -> transmit
//!                         |                                  |       |        ^
//!                         |                          fragment4       |        |
//!                         +------ no route, ... --------- icmp4 <----+ -------+
//! ```
//!
//! IPv6 is the same with 6 for 4, without `fragment4`.

use std::sync::Arc;

use elements::router::{
    CheckIpHeader4, CheckIpHeader6, Classify, DecrementTtl4, DecrementTtl6, Fragment4, IcmpError4,
    IcmpError6, IcmpLimits, Lookup4, Lookup6, Mtu4, Mtu6, Punt, Redirect, ReversePath4, ReversePath6,
    Rewrite, Sources, Transmit, V4, V6,
};
use fib::View;
use graph::{Graph, GraphBuilder, NodeId};

use crate::PlaneError;

/// An instance of the standard router graph.
pub struct Standard {
    /// The graph.
    pub graph: Graph,
    /// Where received frames enter it.
    pub entry: NodeId,
}

/// Builds an instance over these tables, one of `workers`, which answers from these addresses.
pub fn standard(view: &View, sources: &Arc<Sources>, workers: usize) -> Result<Standard, PlaneError> {
    let mut graph = GraphBuilder::new();
    let view = || view.clone();
    let share = |limits: IcmpLimits| limits.share(workers as u32);

    // In the order in which packets meet them, which is the order they are shown in.
    let entry = graph.element("classify", Classify::new(view()));
    let check4 = graph.element("check4", CheckIpHeader4::new(sources.clone()));
    let lookup4 = graph.element("lookup4", Lookup4::new(view()));
    let reverse4 = graph.element("reverse4", ReversePath4::new(view()));
    let redirect4 = graph.element("redirect4", Redirect::<V4>::new());
    let mtu4 = graph.element("mtu4", Mtu4::new(view()));
    let fragment4 = graph.element("fragment4", Fragment4::new(view()));
    let ttl4 = graph.element("ttl4", DecrementTtl4::new());
    let icmp4 = graph.element("icmp4", IcmpError4::new(view(), sources.clone(), share(IcmpLimits::V4)));
    let check6 = graph.element("check6", CheckIpHeader6::new());
    let lookup6 = graph.element("lookup6", Lookup6::new(view()));
    let reverse6 = graph.element("reverse6", ReversePath6::new(view()));
    let redirect6 = graph.element("redirect6", Redirect::<V6>::new());
    let mtu6 = graph.element("mtu6", Mtu6::new(view()));
    let ttl6 = graph.element("ttl6", DecrementTtl6::new());
    let icmp6 = graph.element("icmp6", IcmpError6::new(view(), sources.clone(), share(IcmpLimits::V6)));
    let rewrite = graph.element("rewrite", Rewrite::new(view()));
    let transmit = graph.element("transmit", Transmit::new());
    let local = graph.element("local", Punt::local());
    let linux = graph.element("linux", Punt::transit());

    graph.link(entry, "ipv4", check4).link(entry, "ipv6", check6).link(entry, "other", local);
    for (check, lookup, reverse, redirect, mtu, ttl, icmp) in [
        (check4, lookup4, reverse4, redirect4, mtu4, ttl4, icmp4),
        (check6, lookup6, reverse6, redirect6, mtu6, ttl6, icmp6),
    ] {
        graph.link(check, "valid", lookup).link(check, "local", local).link(check, "linux", linux);
        graph.link(lookup, "forward", reverse).link(lookup, "local", local).link(lookup, "linux", linux);
        graph.link(reverse, "valid", redirect).link(redirect, "forward", mtu).link(redirect, "linux", linux);
        graph.link(mtu, "fits", ttl).link(ttl, "forward", rewrite);
        graph.link(icmp, "reply", rewrite).link(icmp, "linux", linux);
    }
    graph.link(mtu4, "fragment", fragment4).link(fragment4, "fragments", ttl4);
    for (lookup, mtu, ttl, icmp, [expired, no_route, unreachable, prohibit, too_big]) in [
        (
            lookup4,
            mtu4,
            ttl4,
            icmp4,
            [
                IcmpError4::TIME_EXCEEDED,
                IcmpError4::NO_ROUTE,
                IcmpError4::UNREACHABLE,
                IcmpError4::PROHIBIT,
                IcmpError4::TOO_BIG,
            ],
        ),
        (
            lookup6,
            mtu6,
            ttl6,
            icmp6,
            [
                IcmpError6::TIME_EXCEEDED,
                IcmpError6::NO_ROUTE,
                IcmpError6::UNREACHABLE,
                IcmpError6::PROHIBIT,
                IcmpError6::TOO_BIG,
            ],
        ),
    ] {
        graph.link_to(ttl, "expired", icmp, expired).link_to(lookup, "no_route", icmp, no_route);
        graph.link_to(lookup, "unreachable", icmp, unreachable).link_to(lookup, "prohibit", icmp, prohibit);
        graph.link_to(mtu, "too_big", icmp, too_big);
    }
    graph.link(rewrite, "out", transmit);
    Ok(Standard { graph: graph.build()?, entry })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_output_leads_somewhere() {
        let tables = fib::Tables::new(fib::Capacity { ipv4: 100, ipv6: 100, next_hops: 100 }, None).unwrap();
        let Standard { graph, entry } = standard(&tables.view(), &Sources::new(), 1).unwrap();
        assert_eq!(graph.description().nodes[entry.0].name, "classify");
    }
}
