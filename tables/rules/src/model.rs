//! What a filter is: chains of rules, each a match ([`crate::matches`]), effects, and a verdict.
//!
//! Plain values. [`crate::language`] makes them from text and prints them as text,
//! [`Filter::evaluate`] says what they mean, and everything else (classifier, nftables, check) has
//! to agree with that.

use std::fmt;
use std::hash::{Hash, Hasher};

use wire::IcmpError;

pub use crate::matches::{
    Address, Examples, Family, Flags, FlowState, Icmp, Interface, List, Manual, Mark, Match, RateMatch, Span,
    Translated, Window, Zone, fragment,
};
use crate::set::Set;

/// Where a packet meets the filter. Each hook is a chain that exists without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// All that comes in by a port, before it is routed: transit, and what is for the router
    /// itself.
    Input = 0,
    /// Transit, when its way is known.
    Forward = 1,
    /// All that leaves by a port: transit, and what the router itself sends.
    Output = 2,
}

impl Hook {
    /// All hooks, in the order in which transit passes them.
    pub const ALL: [Hook; 3] = [Hook::Input, Hook::Forward, Hook::Output];

    /// The name of its chain.
    pub const fn name(self) -> &'static str {
        match self {
            Hook::Input => "input",
            Hook::Forward => "forward",
            Hook::Output => "output",
        }
    }
}

/// A whole filter. [`Filter::default`] lets everything pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// The chains: the three hooks first, in the order of [`Hook::ALL`], then the others.
    pub chains: Vec<Chain>,
    /// Address sets, by name.
    pub sets: Vec<(String, Set)>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { chains: Hook::ALL.map(|hook| Chain::new(hook.name())).into(), sets: Vec::new() }
    }
}

impl Filter {
    /// The chain of a hook.
    pub fn hook(&self, hook: Hook) -> &Chain {
        &self.chains[hook as usize]
    }

    /// All rules with the chains they stand in, in order.
    pub fn rules(&self) -> impl Iterator<Item = (&Chain, &Rule)> {
        self.chains.iter().flat_map(|chain| chain.rules.iter().map(move |rule| (chain, rule)))
    }

    /// The rule of a number, and its chain.
    pub fn rule(&self, id: RuleId) -> Option<(&Chain, &Rule)> {
        let mut before = 0;
        for chain in &self.chains {
            if let Some(rule) = chain.rules.get(id.0 as usize - before) {
                return Some((chain, rule));
            }
            before += chain.rules.len();
        }
        None
    }

    /// The number of the first rule of each chain.
    pub(crate) fn first_rules(&self) -> Vec<u32> {
        let starts = self.chains.iter().scan(0, |next, chain| {
            let first = *next;
            *next += chain.rules.len() as u32;
            Some(first)
        });
        starts.collect()
    }

    /// Fills in which ports the interface names of the rules mean now; to be called again when
    /// ports come or go. `ports` says the numbers of all ports that a name, or a pattern with a
    /// trailing `*`, stands for.
    pub fn resolve(&mut self, ports: impl Fn(&str) -> Vec<u16>) {
        for rule in self.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
            let lists = [&mut rule.matches.in_ports, &mut rule.matches.out_ports];
            for interface in lists.into_iter().flatten().flat_map(|list| &mut list.items) {
                interface.numbers = ports(&interface.name);
            }
        }
    }

    /// The set of a name.
    pub fn set(&self, name: &str) -> Option<usize> {
        self.sets.iter().position(|(known, _)| known == name)
    }
}

/// The number of a rule in the order of [`Filter::rules`]. It means something only for the filter
/// it was got from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);

/// Rules, tried from the top.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// What becomes of a packet that no rule of a hook's chain decides. A chain that is jumped to
    /// returns instead.
    pub policy: Policy,
    /// A packet that is accepted here, or in a chain that this one jumps to, goes on behind the
    /// jump that led here: so a base chain of nftables hands it to the next one. The language has
    /// no such chains.
    pub base: bool,
    /// The rules.
    pub rules: Vec<Rule>,
}

impl Chain {
    /// An empty chain.
    pub fn new(name: impl Into<String>) -> Chain {
        Chain { name: name.into(), policy: Policy::Accept, base: false, rules: Vec::new() }
    }
}

/// What becomes of what no rule decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// It passes.
    #[default]
    Accept,
    /// It doesn't.
    Drop,
}

/// One rule: what it matches, what it does on the way, and what it decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// All of it must hold.
    pub matches: Match,
    /// What is done with a packet that matches.
    pub effects: Effects,
    /// What then becomes of it; `None`: the next rule is tried.
    pub verdict: Option<Verdict>,
    /// By which counters and explanations call it.
    pub name: Option<String>,
    /// For people.
    pub comment: Option<String>,
    /// What the kernel shall do where it cannot express the rule.
    pub fallback: Option<Fallback>,
    /// Where it stands.
    pub place: Place,
}

/// Where a rule was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file; empty for a rule that no file has.
    pub file: std::sync::Arc<str>,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What a rule decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet passes this hook.
    Accept,
    /// The packet vanishes.
    Drop,
    /// The packet vanishes, and its sender is told.
    Reject(Reject),
    /// The rules of another chain are tried, and then the next one here.
    Jump {
        /// The other chain's name.
        chain: String,
        /// Its number in [`Filter::chains`].
        number: usize,
    },
    /// No more rules of this chain: on behind the jump, or the policy.
    Return,
}

/// What was written counts, not what numbers it got.
impl Hash for Verdict {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Verdict::Jump { chain, .. } => chain.hash(state),
            Verdict::Reject(kind) => kind.hash(state),
            Verdict::Accept | Verdict::Drop | Verdict::Return => {}
        }
    }
}

/// How a sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// A TCP RST to TCP, port unreachable to the rest (RFC 1122, 3.2.2.1).
    Auto,
    /// A TCP RST; the rule must be about TCP.
    TcpReset,
    /// An ICMP error: one that rules can ask for ([`IcmpError::asked`]).
    Icmp(IcmpError),
}

/// What the kernel's filter shall do where it cannot express a rule that the plane can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Let pass rather too much: an accepting rule is widened to what can be expressed, a dropping
    /// one left out.
    Open,
    /// Let pass rather too little: an accepting rule is left out, a dropping one widened.
    Closed,
}

/// What is done with a packet that matches, in this order, before the verdict.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct Effects {
    /// Said to be counted. (Every rule counts; one that only counts says so, and is not passed over
    /// for cached flows.)
    pub count: bool,
    /// What exceeds this rate is dropped here, and nothing further is done with it.
    pub police: Option<Rate>,
    /// A line in the log.
    pub log: Option<Log>,
    /// The packet's mark becomes this.
    pub mark: Option<u32>,
    /// The packet's DSCP becomes this (0 to 63).
    pub dscp: Option<u8>,
}

/// How often a rule logs.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
pub struct Log {
    /// One packet in so many, from 1.
    pub every: u32,
    /// And at most so many lines a second.
    pub limit: Rate,
}

/// A rate and the burst that it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// How many a second, from 1.
    pub per_second: u64,
    /// Packets, or bits of IP packets.
    pub unit: Unit,
    /// How many at once: packets, or bytes. From 1.
    pub burst: u64,
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bits of IP packets with their headers.
    Bits,
}

impl Rate {
    /// A rate with its ordinary burst: what it brings in a tenth of a second, but 5 packets or
    /// 15,000 bytes (ten full Ethernet frames) at least.
    pub fn new(per_second: u64, unit: Unit) -> Rate {
        let burst = match unit {
            Unit::Packets => (per_second / 10).max(5),
            Unit::Bits => (per_second / 80).max(15_000),
        };
        Rate { per_second, unit, burst }
    }
}
