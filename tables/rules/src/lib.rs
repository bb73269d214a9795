//! The filter: its language, and the classifier it compiles to.
//!
//! ```text
//!   router.toml ─┐                    ┌─ evaluate ── what it means: rules from the top (and explain, in words)
//!                ├─ language ─ Filter ─┼─ classifier ─ what workers ask: 64 packets at once (and check, on its regions)
//!   rule lists ──┘    (model)         └─ nftables ── the same for Linux
//! ```
//!
//! A [`Filter`] is chains of rules. Three chains are there without being asked for, the hooks that
//! transit passes one after the other, and each must let a packet pass:
//!
//! - *input*: all that comes in by a port, before it is routed. What is for the router itself
//!   passes it too; as that never comes to the plane, Linux asks the same rules
//!   ([`Filter::nftables`]).
//! - *forward*: transit, when the way of a packet, and so its output port, is known.
//! - *output*: all that leaves by a port; of what the router itself sends, Linux takes care again.
//!
//! So a rule that protects the router stands in *input*, where it also holds for transit unless it
//! asks for the router's addresses; a rule about transit only stands in *forward*. Whoever makes
//! *drop* the policy of *input* or *output* has to let pass what the router itself lives on:
//! routing protocols, and neighbour discovery in IPv6.
//!
//! A packet's state and a flow's decision belong together: [`Decision::varies`] says whether the
//! decision also holds for the later packets of the same flow, direction and state, so that a
//! router may keep it with the flow and ask no more. A flow whose state changes (new, established)
//! is to be asked about again. While a decision is kept, the rules that were passed on the way
//! (jumps, marks) count only the packets that were asked about.

// The pools of random rules are shared with tests from outside.
#[cfg(test)]
extern crate self as rules;

mod check;
mod classifier;
mod evaluate;
pub mod expect;
mod explain;
mod language;
mod ledger;
mod matches;
mod matching;
mod meter;
mod mistake;
mod model;
mod moment;
mod names;
mod nftables;
mod set;
mod settings;

pub use check::Warning;
pub use classifier::routing::{
    ANY_DSCP, Action, MOST_ROUTING_RULES, RoutingRule, RoutingRules, Seen, Selector,
};
pub use classifier::{BATCH, Compiled, Foreseen, MOST_STEPS, Plain4, Plain6, Shown, TooLong};
pub use evaluate::{Decision, Outcome, Step};
pub use explain::Explanation;
pub use ledger::{Accounts, Counter, Ledger};
pub use matches::code_point;
pub use matching::Context;
pub use mistake::{Mistake, Mistakes};
pub use model::*;
pub use moment::Now;
pub use nftables::{Inexpressible, TABLE};
pub use set::Set;
