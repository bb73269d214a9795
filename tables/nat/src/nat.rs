//! Address translation of one router: rules, mappings, and what is expected, shared by all workers.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use flow::Tuple;
use wire::headers::mapped;

use crate::compiled::{CompiledClamp, Port, Ruleset};
use crate::expect::Expectations;
use crate::mapping::{Endpoint, Mapping, Mappings};
use crate::record::{Event, Record};
use crate::rule::{Action, Rules};
use crate::shortage::Shortages;
use crate::space::Class;
use crate::{Clamp, Prefix64};

/// Room for the new mappings of a dry run: more than one packet can need.
const FOR_DRY_RUN: usize = 64;

/// Rules and mappings.
pub struct Nat {
    rules: RwLock<Arc<Ruleset>>,
    mappings: Mappings,
    pub(crate) shortages: Shortages,
    pub(crate) expected: Mutex<Expectations>,
    /// How many are expected: mostly none, and then nobody takes the lock.
    pub(crate) expecting: AtomicUsize,
    version: AtomicU64,
}

/// Why a flow cannot be translated. The packet is to be dropped: let through, it would show an
/// inside address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// Every port of the address, the block or the pool is taken.
    #[error("no port is free")]
    Exhausted,
    /// The host has as many mappings as it may.
    #[error("the host has as many mappings as it may")]
    HostLimit,
    /// There are as many mappings as memory is given for.
    #[error("the table of mappings is full")]
    TableFull,
    /// The port that it leaves by has no address of the family.
    #[error("the port that it leaves by has no address")]
    NoAddress,
    /// NPTv6 cannot translate this address (RFC 6296).
    #[error("NPTv6 has no address for it")]
    NoPrefix,
    /// The well-known prefix with an address that is not global (RFC 6052, 3.1).
    #[error("64:ff9b::/96 stands before an address that is not global")]
    NotGlobal,
    /// NAT64 of what comes from behind its own prefix, where no host is: answers would come back to
    /// it, and go round (RFC 6146, 3.5).
    #[error("no host is behind the prefix of NAT64 that it comes from")]
    Loop,
    /// NAT64 of a protocol without ports, or of ICMPv6 that has no like.
    #[error("NAT64 does not know the protocol")]
    Protocol,
    /// From outside to an address that a rule gives out, of which nobody has the port. No host has
    /// the address itself: let through, the packet would go back to where it came from, and come
    /// again.
    #[error("nobody is behind the address")]
    Nobody,
    /// The packet cannot grow by what a helper has to write into it.
    #[error("the packet cannot grow")]
    NoRoom,
    /// The mapping ended between the two questions, or the rules were changed.
    #[error("the mapping has ended")]
    Gone,
}

impl Default for Nat {
    fn default() -> Nat {
        Nat::new()
    }
}

impl Nat {
    /// Without rules.
    pub fn new() -> Nat {
        Nat {
            rules: RwLock::default(),
            mappings: Mappings::new(0),
            shortages: Shortages::default(),
            expected: Mutex::default(),
            expecting: AtomicUsize::new(0),
            version: AtomicU64::new(0),
        }
    }

    /// Another one whenever rules, ports or their addresses have changed.
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// The same rules with nothing counted, for a packet that is only thought of: with the mappings
    /// of its source and those that it may call, and no others.
    pub fn for_dry_run(&self, packet: &Tuple) -> Nat {
        let set = self.ruleset().for_dry_run();
        let for_dry_run = Nat { mappings: self.mappings.for_dry_run(), ..Nat::new() };
        for_dry_run.mappings.reserve(set.reserved());
        let called = self.prefixes64().into_iter().filter_map(|prefix| prefix.extract(&packet.destination));
        let called = called.map(mapped).chain([packet.destination]);
        let behind = |address| {
            let outside = Endpoint { address, port: packet.destination_port };
            self.mappings.behind(&outside, Class::of(packet.protocol)?)
        };
        let live = [self.mappings.of_host(&packet.source), called.filter_map(behind).collect()].concat();
        for_dry_run.mappings.set_capacity(live.len() + FOR_DRY_RUN);
        live.iter().for_each(|mapping| for_dry_run.mappings.adopt(mapping));
        *for_dry_run.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        for_dry_run
    }

    /// Sets the rules, for these ports: at the start, and whenever rules, ports or addresses of
    /// ports have changed. `named` says whether a word of a rule (a name or a pattern) means the
    /// interface of a name. Mappings live on; those of a rule that is gone or says something else
    /// now serve the flows that they have, and no more. True if a port has an address no more: then
    /// flows may have [lost](Nat::has_lost) theirs.
    pub fn install(&self, rules: &Rules, ports: &[Port], named: impl Fn(&str, &str) -> bool) -> bool {
        let mut current = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let set = Ruleset::new(rules, ports, &named, &current);
        self.mappings.set_capacity(rules.capacity);
        self.mappings.reserve(set.reserved());
        let withdrawn = set.has_withdrawn(&current);
        *current = Arc::new(set);
        self.version.fetch_add(1, Release);
        withdrawn
    }

    pub(crate) fn ruleset(&self) -> Arc<Ruleset> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// How TCP's segment size is held down between two ports, for packets that leave as this
    /// version of IP: by the least of all limits that are said of them.
    pub fn clamp(&self, version: u8, ports: [u16; 2], limit: impl Fn(Clamp) -> u16) -> Option<u16> {
        let set = self.ruleset();
        let concerned = |clamp: &&CompiledClamp| {
            let [input, output] = [0, 1].map(|n| clamp.ports[n].has(ports[n]));
            input && output && clamp.families[usize::from(version == 6)]
        };
        set.clamps.iter().filter(concerned).map(|clamp| limit(clamp.mss)).min()
    }

    /// How large IPv6 packets are at most that NAT64 makes of IPv4 packets that may be fragmented.
    pub fn lowest_ipv6_mtu(&self) -> u16 {
        self.ruleset().lowest_ipv6_mtu
    }

    /// The prefixes of NAT64, for [`Translator`](crate::Translator).
    pub fn prefixes64(&self) -> Vec<Prefix64> {
        let set = self.ruleset();
        let prefixes = set.rules.iter().filter_map(|compiled| match &compiled.rule.action {
            Action::Nat64 { prefix, .. } => Some(*prefix),
            _ => None,
        });
        prefixes.collect()
    }

    /// What there is to log; nothing of what follows by arithmetic.
    pub(crate) fn record(&self, set: &Ruleset, mapping: &Mapping, event: Event, now: u64) -> Option<Record> {
        let rule = set.by_scope.get(&mapping.inside.scope.rule).map(|at| &set.rules[*at].rule);
        if rule.is_some_and(|rule| matches!(rule.action, Action::Deterministic { .. })) {
            return None;
        }
        let name = rule.map(|rule| rule.name.clone()).unwrap_or_default();
        Some(Record::new(mapping, event, now, name))
    }
}
