//! What the standard router's elements work on: the tables and the addresses of the plane that runs
//! them.

use std::sync::Arc;

use fib::{Multicast, View};
use graph::arguments::{Arguments, Blame, Refused};
use graph::{Element, Setup};

use super::context::SharedContext;
use super::rulebook::{Reader, Rulebook};
use super::steer::Steering;
use super::{IcmpPolicy, Sources};

/// What a program that runs the standard router's elements shares with them, by its
/// [`Environment`](graph::Environment).
#[derive(Clone)]
pub struct RouterContext {
    /// The tables.
    pub view: View,
    /// The router's own addresses.
    pub sources: Arc<Sources>,
    /// Which ICMP errors it sends.
    pub icmp: Arc<IcmpPolicy>,
    /// Linux's routing rules.
    pub steering: Arc<Steering>,
    /// Linux's multicast routes.
    pub multicast: Arc<Multicast>,
}

impl RouterContext {
    /// Of `workers` workers, which send ICMP errors as Linux does by default.
    pub fn new(view: View, sources: Arc<Sources>, workers: usize) -> RouterContext {
        let (icmp, steering, multicast) = (IcmpPolicy::new(workers), Steering::new(), Multicast::new());
        RouterContext { view, sources, icmp, steering, multicast }
    }
}

/// A worker's context, where there is one.
pub(super) fn context_of(setup: &Setup<'_>) -> Option<SharedContext> {
    setup.environment.get::<SharedContext>().map(|context| (*context).clone())
}

/// An element without arguments that works on the plane's tables.
pub(super) fn on_tables<E: Element>(
    arguments: &mut Arguments<'_>,
    setup: &Setup<'_>,
    make: impl FnOnce(&RouterContext) -> E,
) -> Result<Box<dyn Element>, Refused> {
    let router_context = setup.environment.get::<RouterContext>();
    if router_context.is_none() {
        let message =
            "this element works on the tables of a running router, which are not here; use it in router.toml";
        arguments.wrong(Blame::Element, message);
    }
    arguments.finish()?;
    let router_context = router_context.ok_or(Refused)?;
    Ok(Box::new(make(&router_context)))
}

/// An element without arguments that works on the flows of a worker's context, and the plane's
/// tables.
pub(super) fn on_flows<E: Element>(
    arguments: &mut Arguments<'_>,
    setup: &Setup<'_>,
    make: impl FnOnce(View, SharedContext) -> E,
) -> Result<Box<dyn Element>, Refused> {
    let (context, tables) =
        (setup.environment.get::<SharedContext>(), setup.environment.get::<RouterContext>());
    if context.is_none() || tables.is_none() {
        let message = "this element works on the flows of a running router, which are not here";
        arguments.wrong(Blame::Element, message);
    }
    arguments.finish()?;
    Ok(Box::new(make(tables.ok_or(Refused)?.view.clone(), (*context.ok_or(Refused)?).clone())))
}

/// An element without arguments that forwards by the plane's tables and by its policy: at a
/// worker's context, by the rules in force.
pub(super) fn on_policy<E: Element>(
    arguments: &mut Arguments<'_>,
    setup: &Setup<'_>,
    make: impl FnOnce(RouterContext, SharedContext, Reader) -> E,
) -> Result<Box<dyn Element>, Refused> {
    let router_context = setup.environment.get::<RouterContext>();
    let (context, book) =
        (setup.environment.get::<SharedContext>(), setup.environment.get::<Arc<Rulebook>>());
    if router_context.is_none() || context.is_none() || book.is_none() {
        let message = "this element applies the rules of a running router, which are not here";
        arguments.wrong(Blame::Element, message);
    }
    arguments.finish()?;
    let (router_context, context) = (router_context.ok_or(Refused)?, context.ok_or(Refused)?);
    let reader = Reader::new((*book.ok_or(Refused)?).clone());
    Ok(Box::new(make((*router_context).clone(), (*context).clone(), reader)))
}
