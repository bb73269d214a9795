//! Where a new flow seems to come from: the first rule that says something about its source.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::Ordering::Relaxed;

use flow::Tuple;
use wire::headers::mapped;

use crate::Addresses;
use crate::addresses::{address, octets};
use crate::compiled::{Compiled, Port, PortSet, Ruleset};
use crate::mapping::{Endpoint, Full, Inside, Mapping, Pool, Wanted};
use crate::nat::{Nat, Refusal};
use crate::rewrite::is_ipv4;
use crate::rule::{Action, Dynamic, Pooling, moved};
use crate::space::Class;

/// What a source becomes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outward {
    pub address: [u8; 16],
    /// `None`: as it was.
    pub port: Option<u16>,
    pub rule: Option<usize>,
    /// The mapping, if it is new.
    pub made: Option<Mapping>,
}

impl Nat {
    /// The first rule that says something about where the flow seems to come from.
    pub(crate) fn outward(
        &self,
        set: &Ruleset,
        leaving: &Tuple,
        input: u16,
        output: u16,
        now: u32,
    ) -> Result<Option<Outward>, Refusal> {
        for (at, compiled) in set.rules.iter().enumerate() {
            let bidirectional = matches!(compiled.rule.action, Action::OneToOne { .. } | Action::Nptv6(_));
            let ports = compiled.output.has(output) && (bidirectional || compiled.input.has(input));
            if !ports || !compiled.takes(leaving) {
                continue;
            }
            match compiled.rule.action {
                Action::None => return Ok(None),
                Action::Nat64 { .. } | Action::Destination { .. } => continue,
                _ => {}
            }
            if let Some(found) = self.apply_outward(set, at, compiled, leaving, Some(output), now)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Whether a new flow like this would be translated at its source, or into the other family:
    /// then a packet that belongs to no flow and opens none is not to pass as it is.
    pub fn concerns(&self, leaving: &Tuple, [input, output]: [u16; 2]) -> bool {
        let set = self.ruleset();
        for compiled in &set.rules {
            let source = address(&leaving.source);
            let both = matches!(compiled.rule.action, Action::OneToOne { .. } | Action::Nptv6(_));
            if !compiled.takes(leaving) || !(both || compiled.input.has(input)) {
                continue;
            }
            let here = match &compiled.rule.action {
                Action::Nat64 { prefix, .. } => prefix.extract(&leaving.destination).is_some(),
                _ if !compiled.output.has(output) => false,
                Action::None => return false,
                Action::Destination { .. } => false,
                Action::Masquerade(_) => true,
                Action::Source { addresses, .. } => {
                    addresses.ranges().iter().any(|range| range.is_ipv6() == source.is_ipv6())
                }
                Action::Deterministic { blocks, .. } => {
                    matches!(source, IpAddr::V4(host) if blocks.block(host).is_some())
                }
                Action::OneToOne { inside, .. } => inside.contains(&source),
                Action::Nptv6(nptv6) => {
                    matches!(source, IpAddr::V6(host) if nptv6.inside().contains(&host))
                }
            };
            if here {
                return true;
            }
        }
        false
    }

    /// Where a host inside seems to come from when it reaches another by an address outside: from
    /// where it would seem to come if it were sent out by the ports that rule `at` calls outside;
    /// failing that, from the address that it called.
    pub(crate) fn as_if_outside(
        &self,
        set: &Ruleset,
        at: usize,
        original: &Tuple,
        leaving: &Tuple,
        now: u32,
    ) -> Result<Outward, Refusal> {
        let rule = set.rules.get(at).ok_or(Refusal::Gone)?;
        let side =
            if matches!(rule.rule.action, Action::Destination { .. }) { &rule.input } else { &rule.output };
        let outside = outside_port(set, side, &original.destination);
        for (at, compiled) in set.rules.iter().enumerate() {
            let source_rule = !matches!(
                compiled.rule.action,
                Action::None | Action::Nat64 { .. } | Action::Destination { .. }
            );
            if !source_rule
                || !outside.is_none_or(|port| compiled.output.has(port))
                || !compiled.takes(leaving)
            {
                continue;
            }
            if let Some(found) = self.apply_outward(set, at, compiled, leaving, outside, now)? {
                return Ok(found);
            }
        }
        let wanted = Wanted {
            pool: Pool::One(original.destination),
            ports: set.given_out(&(1024..=65_535)),
            paired: true,
            host_limit: None,
        };
        self.map(rule, at, leaving, &wanted, now)
    }

    /// Where a flow seems to come from by a rule; `None`: it says nothing of this source.
    pub(crate) fn apply_outward(
        &self,
        set: &Ruleset,
        at: usize,
        compiled: &Compiled,
        leaving: &Tuple,
        output: Option<u16>,
        now: u32,
    ) -> Result<Option<Outward>, Refusal> {
        let ipv4 = is_ipv4(&leaving.destination);
        let plain = |address| Ok(Some(Outward { address, port: None, rule: Some(at), made: None }));
        match &compiled.rule.action {
            Action::Masquerade(dynamic) => {
                let port = output.and_then(|number| set.port(number));
                let own = port.and_then(|port| port.address(ipv4));
                let own = own.ok_or_else(|| refused(compiled, Refusal::NoAddress))?;
                let wanted = wanted(set, dynamic, Pool::One(own));
                self.map(compiled, at, leaving, &wanted, now).map(Some)
            }
            Action::Source { addresses, dynamic } => {
                self.pooled(set, at, compiled, leaving, (addresses, dynamic), now)
            }
            Action::Nat64 { addresses, dynamic, .. } => {
                if Class::of(leaving.protocol).is_none() {
                    return Err(refused(compiled, Refusal::Protocol));
                }
                self.pooled(set, at, compiled, leaving, (addresses, dynamic), now)
            }
            Action::Deterministic { blocks, dynamic } => {
                let IpAddr::V4(host) = address(&leaving.source) else { return Ok(None) };
                let Some(block) = blocks.block(host) else { return Ok(None) };
                let outside = mapped(block.outside.octets());
                let wanted = Wanted {
                    ports: set.given_out(&block.ports()),
                    ..wanted(set, dynamic, Pool::One(outside))
                };
                self.map(compiled, at, leaving, &wanted, now).map(Some)
            }
            Action::OneToOne { inside, outside, .. } => {
                let source = address(&leaving.source);
                match inside.contains(&source) {
                    true => plain(octets(moved(source, *outside))),
                    false => Ok(None),
                }
            }
            Action::Nptv6(nptv6) => {
                if !nptv6.inside().contains(&Ipv6Addr::from(leaving.source)) {
                    return Ok(None);
                }
                match nptv6.outward(leaving.source) {
                    Ok(address) => plain(address),
                    Err(_) => Err(refused(compiled, Refusal::NoPrefix)),
                }
            }
            Action::None | Action::Destination { .. } => Ok(None),
        }
    }

    /// From a pool of the flow's family.
    fn pooled(
        &self,
        set: &Ruleset,
        at: usize,
        compiled: &Compiled,
        leaving: &Tuple,
        (addresses, dynamic): (&Addresses, &Dynamic),
        now: u32,
    ) -> Result<Option<Outward>, Refusal> {
        let nat64 = matches!(compiled.rule.action, Action::Nat64 { .. });
        let ipv6 = addresses.ranges().iter().any(|range| range.is_ipv6());
        if !nat64 && ipv6 == is_ipv4(&leaving.source) {
            return Ok(None);
        }
        let wanted = wanted(set, dynamic, Pool::Many(addresses));
        self.map(compiled, at, leaving, &wanted, now).map(Some)
    }

    /// A mapping for the flow's source; of a protocol without ports only an address: that of the
    /// host's mappings, if it has any (IPsec's keys are exchanged over UDP, and its peers expect
    /// both from one address).
    fn map(
        &self,
        compiled: &Compiled,
        at: usize,
        leaving: &Tuple,
        wanted: &Wanted<'_>,
        now: u32,
    ) -> Result<Outward, Refusal> {
        let Some(class) = Class::of(leaving.protocol) else {
            let scope = compiled.scope(&wanted.pool.get(0).unwrap_or_default());
            let address = self.mappings().address_of(scope, leaving.table, &leaving.source, &wanted.pool);
            let address = address.ok_or(Refusal::NoAddress)?;
            return Ok(Outward { address, port: None, rule: Some(at), made: None });
        };
        let inside = Inside {
            endpoint: Endpoint { address: leaving.source, port: leaving.source_port },
            class,
            table: leaving.table,
            scope: compiled.scope(&wanted.pool.get(0).unwrap_or_default()),
        };
        let short = |refusal| {
            self.shortages.note(compiled.scope, leaving.source, refusal);
            refusal
        };
        match self.mappings().acquire(&inside, wanted, now) {
            Ok((mapping, fresh)) => {
                compiled.counters.mappings.fetch_add(u64::from(fresh), Relaxed);
                let Endpoint { address, port } = mapping.outside;
                Ok(Outward { address, port: Some(port), rule: Some(at), made: fresh.then_some(mapping) })
            }
            Err(Full::Ports) => {
                compiled.counters.exhausted.fetch_add(1, Relaxed);
                Err(short(Refusal::Exhausted))
            }
            Err(Full::Host) => {
                compiled.counters.limited.fetch_add(1, Relaxed);
                Err(short(Refusal::HostLimit))
            }
            Err(Full::Table) => Err(short(refused(compiled, Refusal::TableFull))),
        }
    }
}

pub(crate) fn refused(compiled: &Compiled, refusal: Refusal) -> Refusal {
    compiled.counters.refused.fetch_add(1, Relaxed);
    refusal
}

fn wanted<'a>(set: &Ruleset, dynamic: &Dynamic, pool: Pool<'a>) -> Wanted<'a> {
    Wanted {
        pool,
        ports: set.given_out(&dynamic.ports),
        paired: dynamic.pooling == Pooling::Paired,
        host_limit: dynamic.host_limit,
    }
}

/// The port of these that has the address; failing that, the first of them.
pub(crate) fn outside_port(set: &Ruleset, side: &PortSet, called: &[u8; 16]) -> Option<u16> {
    let owns = |port: &&Port| port.addresses.iter().any(|own| octets(*own) == *called);
    let mut ports = set.ports.iter().filter(|port| side.has(port.number));
    ports.clone().find(owns).or_else(|| ports.next()).map(|port| port.number)
}
