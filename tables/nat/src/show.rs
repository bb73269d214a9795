//! What operators see: mappings, pools, rules.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;

use crate::Nat;
use crate::addresses::address;

/// A live mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MappingShown {
    /// By which rule; `None` if that is gone or says something else now.
    pub rule: Option<String>,
    /// The routing table of the host.
    pub table: u16,
    /// Protocol number; 1 for ICMPv6 as well.
    pub protocol: u8,
    /// The host.
    pub inside: IpAddr,
    /// Its port or identifier.
    pub inside_port: u16,
    /// What stands for it outside.
    pub outside: IpAddr,
    /// Its port or identifier outside.
    pub outside_port: u16,
    /// Live flows.
    pub flows: u32,
    /// When it was made, in seconds of the clock that [`Nat::bind`] was given.
    pub since: u32,
}

/// Ports in use of one outside address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolShown {
    /// The address.
    pub address: IpAddr,
    /// Ports taken, with those kept free for port forwards, by protocol number.
    pub taken: BTreeMap<u8, u32>,
}

/// What a rule has done since it was first installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleShown {
    /// Its name.
    pub name: String,
    /// Its type.
    pub action: &'static str,
    /// Flows translated by it.
    pub flows: u64,
    /// Mappings made.
    pub mappings: u64,
    /// Flows refused because no port was free.
    pub exhausted: u64,
    /// Mappings that one host may have; `None`: any number, or none at all.
    pub host_limit: Option<u32>,
    /// Flows refused because the host had its share.
    pub limited: u64,
    /// Flows refused for other reasons.
    pub refused: u64,
}

impl Nat {
    /// Shows every mapping. Those made or ended meanwhile may be missing.
    pub fn each_mapping(&self, mut show: impl FnMut(MappingShown)) {
        let set = self.ruleset();
        self.mappings().each(|mapping| {
            let rule =
                set.by_scope.get(&mapping.inside.scope.rule).map(|at| set.rules[*at].rule.name.clone());
            show(MappingShown {
                rule,
                table: mapping.inside.table,
                protocol: mapping.inside.class.protocol(),
                inside: address(&mapping.inside.endpoint.address),
                inside_port: mapping.inside.endpoint.port,
                outside: address(&mapping.outside.address),
                outside_port: mapping.outside.port,
                flows: mapping.flows,
                since: mapping.since,
            });
        });
    }

    /// Live mappings.
    pub fn len(&self) -> usize {
        self.mappings().len()
    }

    /// Whether there is no mapping.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every outside address of which a port is or was in use, by address.
    pub fn pools(&self) -> Vec<PoolShown> {
        let mut pools: BTreeMap<IpAddr, BTreeMap<u8, u32>> = BTreeMap::new();
        for space in self.mappings().spaces() {
            pools.entry(address(&space.address)).or_default().insert(space.class.protocol(), space.taken);
        }
        pools.into_iter().map(|(address, taken)| PoolShown { address, taken }).collect()
    }

    /// The rules in their order.
    pub fn rules(&self) -> Vec<RuleShown> {
        let set = self.ruleset();
        let shown = set.rules.iter().map(|compiled| {
            let counters = &compiled.counters;
            RuleShown {
                name: compiled.rule.name.clone(),
                action: compiled.rule.action.name(),
                flows: counters.flows.load(Relaxed),
                mappings: counters.mappings.load(Relaxed),
                exhausted: counters.exhausted.load(Relaxed),
                host_limit: compiled.rule.action.dynamic().and_then(|dynamic| dynamic.host_limit),
                limited: counters.limited.load(Relaxed),
                refused: counters.refused.load(Relaxed),
            }
        });
        shown.collect()
    }
}
