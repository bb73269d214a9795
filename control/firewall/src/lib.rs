//! Linux's own firewall as a filter of the plane's: a ruleset of nftables, as `nft -j list ruleset`
//! tells it, becomes [`rules::Filter`].
//!
//! ```text
//!   nft -j ── ruleset ── base chains that transit passes ─┬─ translate ── layers ── Filter
//!                                                         │      │
//!                                                         │  field, condition, statement, writing
//!                                                         │      │
//!                                                         └─ translation ── into_nat ── nat::Rules
//! ```
//!
//! **Whole or not at all.** A rule that is understood by half would let pass what Linux drops. So a
//! family (IPv4, IPv6) is adopted when all is understood that its transit could meet, and else not:
//! its transit stays Linux's, and every rule that stands in the way is named with its handle and
//! the reason ([`Problem`]).
//!
//! **Layers.** Linux may have several base chains at one place of a packet's way. What one of them
//! accepts goes on to the next, what one drops is gone. Each becomes a chain of the filter that a
//! hook jumps to ([`rules::Chain::base`]), in the order of priorities. Chains at `prerouting`
//! become part of the hook input, those at `forward` of forward, and those at `postrouting` of
//! output.
//!
//! **Translation.** Base chains of the type `nat` become rules of the plane's translation, in one
//! list (`translation`). Linux keeps its chains: what the plane does not forward meets them. So do
//! rules for the segment size of TCP (`clamps`), with which a chain begins, and those that ask for
//! the way back to a source (`reverse`).
//!
//! **What is not adopted**: chains at the ingress or egress of an interface, dynamic sets and those
//! with timeouts, quotas and counts of connections, marks and other data of conntrack but the
//! state, other lookups in the routing table (`fib`), `redirect`, translation at random, of
//! prefixes, or to one of several destinations, changes of payload, what iptables says in its own
//! words (`xt`), and all that no match of the filter asks for. Counters of nftables do not count
//! what the plane forwards; the filter's do.

mod both;
mod clamps;
mod condition;
mod field;
mod into_nat;
mod layers;
mod prefixes;
mod reverse;
mod ruleset;
mod statement;
mod target;
mod translate;
mod translation;
mod value;
mod writing;

use std::fmt;

use rules::Filter;

pub use reverse::Reverse;
pub use ruleset::Unreadable;

/// Why something is not understood.
type Why = String;

/// What was made of a ruleset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adopted {
    /// The filter: of the families that are adopted, and nothing of the others.
    pub filter: Filter,
    /// Whether IPv4, IPv6 are adopted: all that their transit could meet is in the filter.
    pub families: [bool; 2],
    /// The rules of translation of the families that are adopted, if there are any.
    pub nat: Option<nat::Rules>,
    /// What is asked of sources, of IPv4 and IPv6.
    pub reverse: [Option<Reverse>; 2],
    /// What stands in the way of a family.
    pub problems: Vec<Problem>,
    /// Linux keeps track of connections, and so puts fragments together before most chains.
    pub tracks: bool,
}

/// Why a family is not adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which families: IPv4, IPv6.
    pub families: [bool; 2],
    /// The chain, as `nft` names it: `inet filter forward`.
    pub chain: String,
    /// The rule's handle (`nft -a list ruleset`); `None`: the chain itself.
    pub handle: Option<u64>,
    /// What is not understood.
    pub why: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.handle {
            Some(handle) => write!(f, "{} handle {handle}: {}", self.chain, self.why),
            None => write!(f, "{}: {}", self.chain, self.why),
        }
    }
}

/// Reads what `nft -j list ruleset` printed. `translates`: the router translates addresses by rules
/// of its own, beside which those of Linux are not adopted.
///
/// # Errors
/// It is not that.
pub fn adopt(json: &str, translates: bool) -> Result<Adopted, Unreadable> {
    let mut ruleset = ruleset::Ruleset::read(json)?;
    ruleset.translates |= translates;
    Ok(layers::adopt(&ruleset, translates))
}

/// Fed any bytes by a fuzzer, comes back.
pub fn fuzz(bytes: &[u8]) {
    let Ok(adopted) = adopt(&String::from_utf8_lossy(bytes), bytes.len() % 2 == 1) else { return };
    let mut filter = adopted.behind(&adopted.filter);
    filter.resolve(|name| vec![name.len() as u16]);
    for (_, rule) in filter.rules() {
        let _ = rule.to_string();
    }
    adopted.problems.iter().for_each(|problem| drop(problem.to_string()));
    let _ = filter.check();
}

impl Adopted {
    /// Whether it says anything about transit.
    #[must_use]
    pub fn judges(&self) -> bool {
        self.nat.is_some() || self.reverse != [None; 2] || self.filter.rules().next().is_some()
    }

    /// The filter behind one of the plane's own: what both let pass passes.
    #[must_use]
    pub fn behind(&self, own: &Filter) -> Filter {
        layers::behind(own, &self.filter)
    }
}
