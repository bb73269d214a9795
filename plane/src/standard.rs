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

use elements::{
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

    let entry = graph.element("classify", Classify::new(view()));
    let rewrite = graph.element("rewrite", Rewrite::new(view()));
    let transmit = graph.element("transmit", Transmit::new());
    let linux = graph.element("linux", Punt::transit());
    let local = graph.element("local", Punt::local());
    graph.link(entry, "other", local).link(rewrite, "out", transmit);

    let check = graph.element("check4", CheckIpHeader4::new(sources.clone()));
    let lookup = graph.element("lookup4", Lookup4::new(view()));
    let reverse = graph.element("reverse4", ReversePath4::new(view()));
    let redirect = graph.element("redirect4", Redirect::<V4>::new());
    let mtu = graph.element("mtu4", Mtu4::new(view()));
    let fragment = graph.element("fragment4", Fragment4::new(view()));
    let ttl = graph.element("ttl4", DecrementTtl4::new());
    let icmp = graph.element("icmp4", IcmpError4::new(view(), sources.clone(), share(IcmpLimits::V4)));
    graph.link(entry, "ipv4", check).link(check, "valid", lookup).link(check, "linux", linux);
    graph.link(lookup, "forward", reverse).link(lookup, "local", local).link(lookup, "linux", linux);
    graph.link(reverse, "valid", redirect).link(redirect, "forward", mtu).link(redirect, "linux", linux);
    graph.link(mtu, "fits", ttl).link(mtu, "fragment", fragment).link(fragment, "fragments", ttl);
    graph.link(ttl, "forward", rewrite).link(icmp, "reply", rewrite).link(icmp, "linux", linux);
    for (from, output, input) in [
        (lookup, "no_route", IcmpError4::NO_ROUTE),
        (lookup, "unreachable", IcmpError4::UNREACHABLE),
        (lookup, "prohibit", IcmpError4::PROHIBIT),
        (mtu, "too_big", IcmpError4::TOO_BIG),
        (ttl, "expired", IcmpError4::TIME_EXCEEDED),
    ] {
        graph.link_to(from, output, icmp, input);
    }

    let check = graph.element("check6", CheckIpHeader6::new());
    let lookup = graph.element("lookup6", Lookup6::new(view()));
    let reverse = graph.element("reverse6", ReversePath6::new(view()));
    let redirect = graph.element("redirect6", Redirect::<V6>::new());
    let mtu = graph.element("mtu6", Mtu6::new(view()));
    let ttl = graph.element("ttl6", DecrementTtl6::new());
    let icmp = graph.element("icmp6", IcmpError6::new(view(), sources.clone(), share(IcmpLimits::V6)));
    graph.link(entry, "ipv6", check).link(check, "valid", lookup).link(check, "linux", linux);
    graph.link(lookup, "forward", reverse).link(lookup, "local", local).link(lookup, "linux", linux);
    graph.link(reverse, "valid", redirect).link(redirect, "forward", mtu).link(redirect, "linux", linux);
    graph
        .link(mtu, "fits", ttl)
        .link(ttl, "forward", rewrite)
        .link(icmp, "reply", rewrite)
        .link(icmp, "linux", linux);
    for (from, output, input) in [
        (lookup, "no_route", IcmpError6::NO_ROUTE),
        (lookup, "unreachable", IcmpError6::UNREACHABLE),
        (lookup, "prohibit", IcmpError6::PROHIBIT),
        (mtu, "too_big", IcmpError6::TOO_BIG),
        (ttl, "expired", IcmpError6::TIME_EXCEEDED),
    ] {
        graph.link_to(from, output, icmp, input);
    }
    Ok(Standard { graph: graph.build()?, entry })
}
