//! What the standard router's elements work on: the tables and the addresses of the plane that runs them.

use std::sync::Arc;

use fib::View;
use graph::arguments::{Arguments, Blame, Refused};
use graph::{Element, Setup};

use super::rulebook::{Reader, Rulebook};
use super::seat::SharedSeat;
use super::{IcmpPolicy, Sources};

/// What a program that runs the standard router's elements shares with them, by its
/// [`Environment`](graph::Environment).
#[derive(Clone)]
pub struct Surroundings {
    /// The tables.
    pub view: View,
    /// The router's own addresses.
    pub sources: Arc<Sources>,
    /// Which ICMP errors it sends.
    pub icmp: Arc<IcmpPolicy>,
}

impl Surroundings {
    /// Of `workers` workers, which send ICMP errors as Linux does by default.
    pub fn new(view: View, sources: Arc<Sources>, workers: usize) -> Surroundings {
        Surroundings { view, sources, icmp: IcmpPolicy::new(workers) }
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
