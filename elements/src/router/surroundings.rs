//! What the standard router's elements work on: the tables and the addresses of the plane that runs them.

use std::sync::Arc;

use fib::View;
use graph::arguments::{Arguments, Blame, Refused};
use graph::{Element, Setup};

use super::rulebook::{Reader, Rulebook};
use super::seat::SharedSeat;
use super::{IcmpLimits, Sources};

/// What a program that runs the standard router's elements shares with them, by its
/// [`Environment`](graph::Environment).
#[derive(Clone)]
pub struct Surroundings {
    /// The tables.
    pub view: View,
    /// The router's own addresses.
    pub sources: Arc<Sources>,
    /// How many ICMP errors one worker may send, for IPv4 and for IPv6.
    pub limits: [IcmpLimits; 2],
}

impl Surroundings {
    /// One of `workers` that share Linux's default limits.
    pub fn new(view: View, sources: Arc<Sources>, workers: usize) -> Surroundings {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX);
        Surroundings {
            view,
            sources,
            limits: [IcmpLimits::V4, IcmpLimits::V6].map(|limits| limits.share(workers)),
        }
    }
}

/// An element without arguments that works on the plane's tables.
pub(super) fn on_tables<E: Element>(
    arguments: &mut Arguments<'_>,
    setup: &Setup<'_>,
    make: impl FnOnce(&Surroundings) -> E,
) -> Result<Box<dyn Element>, Refused> {
    let surroundings = setup.environment.get::<Surroundings>();
    if surroundings.is_none() {
        let message =
            "this element works on the tables of a running router, which are not here; use it in router.toml";
        arguments.wrong(Blame::Element, message);
    }
    arguments.finish()?;
    let surroundings = surroundings.ok_or(Refused)?;
    Ok(Box::new(make(&surroundings)))
}

/// An element without arguments that works on the flows of a worker's seat.
pub(super) fn on_flows<E: Element>(
    arguments: &mut Arguments<'_>,
    setup: &Setup<'_>,
    make: impl FnOnce(SharedSeat) -> E,
) -> Result<Box<dyn Element>, Refused> {
    let seat = setup.environment.get::<SharedSeat>();
    if seat.is_none() {
        let message = "this element works on the flows of a running router, which are not here";
        arguments.wrong(Blame::Element, message);
    }
    arguments.finish()?;
    Ok(Box::new(make((*seat.ok_or(Refused)?).clone())))
}

/// An element without arguments that forwards by the plane's tables and by its policy: at a worker's seat, by the rules in force.
pub(super) fn on_policy<E: Element>(
    arguments: &mut Arguments<'_>,
    setup: &Setup<'_>,
    make: impl FnOnce(Surroundings, SharedSeat, Reader) -> E,
) -> Result<Box<dyn Element>, Refused> {
    let surroundings = setup.environment.get::<Surroundings>();
    let (seat, book) = (setup.environment.get::<SharedSeat>(), setup.environment.get::<Arc<Rulebook>>());
    if surroundings.is_none() || seat.is_none() || book.is_none() {
        let message = "this element applies the rules of a running router, which are not here";
        arguments.wrong(Blame::Element, message);
    }
    arguments.finish()?;
    let (surroundings, seat) = (surroundings.ok_or(Refused)?, seat.ok_or(Refused)?);
    let reader = Reader::new((*book.ok_or(Refused)?).clone());
    Ok(Box::new(make((*surroundings).clone(), (*seat).clone(), reader)))
}
