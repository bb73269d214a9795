//! New flows: where they go, and what they say they come from.
//!
//! A flow is asked for twice. Before its route is looked up [`Nat::destination`] says where it really goes. When the port it
//! leaves by is known [`Nat::bind`] says what answers will look like: the reply tuple, with which the flow table can do the rest. When a
//! flow has ended [`Nat::release`] gives its ports back. None of this is on the path of established packets.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use flow::{Account, End, Tuple};
use wire::headers::{mapped, unmapped};
use wire::protocol;

use crate::addresses::{address, octets};
use crate::compiled::{Compiled, Port, PortSet, Ruleset};
use crate::expect::{Expectation, Expectations};
use crate::mapping::{Class, Endpoint, Full, Inside, Mapping, Mappings, Pool, Wanted};
use crate::record::{Event, Record};
use crate::rewrite::is_ipv4;
use crate::rule::{Action, Dynamic, Filtering, Pooling, Rules, Spread, Target, moved};
use crate::{Addresses, Prefix64};

/// Address translation of one router: its rules and its mappings. Shared by all workers.
pub struct Nat {
    rules: RwLock<Arc<Ruleset>>,
    mappings: Mappings,
    expected: Mutex<Expectations>,
    /// How many are expected: mostly none, and then nobody takes the lock.
    expecting: AtomicUsize,
}

/// Where a flow really goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The address to look the route up for; IPv4-mapped for NAT64.
    pub address: [u8; 16],
    /// The port there; the original one where there are none.
    pub port: u16,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By a rule; with the number of the rule.
    Rule(usize),
    /// By a rule that also hides the source of hosts on the target's own port.
    Hairpin(usize),
    /// From inside to an outside address of the same rule: the source is to be translated by it too.
    Inward(usize),
    /// To a mapping of a rule.
    Mapping(usize),
    /// From inside to a mapping of the same rule.
    HairpinMapping(usize),
    /// IPv6 to IPv4.
    Nat64(usize),
    /// IPv6 to a mapping of another IPv6 host.
    Nat64Mapping(usize),
    /// Announced in a control connection.
    Expected,
}

/// What was decided for a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// What answers say as they come.
    pub reply: Tuple,
    /// The numbers of the rules for destination and source, where there was one.
    pub rules: [Option<usize>; 2],
    /// What to log, if a mapping was made for it.
    pub record: Option<Record>,
}

/// Why a flow cannot be translated. The packet is to be dropped: let through, it would show an inside address.
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
    /// NAT64 of a protocol without ports, or of ICMPv6 that has no like.
    #[error("NAT64 does not know the protocol")]
    Protocol,
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
            expected: Mutex::default(),
            expecting: AtomicUsize::new(0),
        }
    }

    /// Sets the rules, for these ports: at the start, and whenever rules, ports or addresses of ports have changed. `named` says whether a
    /// word of a rule (a name or a pattern) means the interface of a name. Mappings live on; those of a rule that
    /// is gone or says something else now serve the flows that they have, and no more.
    pub fn install(&self, rules: &Rules, ports: &[Port], named: impl Fn(&str, &str) -> bool) {
        let mut current = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let set = Ruleset::new(rules, ports, &named, &current);
        self.mappings.set_capacity(rules.capacity);
        self.mappings.reserve(set.reserved());
        *current = Arc::new(set);
    }

    pub(crate) fn ruleset(&self) -> Arc<Ruleset> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// Where a new flow that came by port `input` really goes; `None`: where it says.
    pub fn destination(&self, original: &Tuple, input: u16) -> Result<Option<Destination>, Refusal> {
        if self.expecting.load(Relaxed) > 0
            && let Some(found) = self.expected().find(original)
        {
            let (address, port) = (found.inside.address, found.inside.port);
            return Ok(Some(Destination { address, port, way: Way::Expected }));
        }
        let set = self.ruleset();
        if let Some(found) = self.to_mapping(&set, original, input) {
            return Ok(Some(found));
        }
        for (at, compiled) in set.rules.iter().enumerate() {
            if let Some(found) = self.apply_inward(&set, at, compiled, original, input)? {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// A mapping that the flow may reach (RFC 4787, REQ-8 and REQ-9).
    fn to_mapping(&self, set: &Ruleset, original: &Tuple, input: u16) -> Option<Destination> {
        let class = Class::of(original.protocol)?;
        let outside = Endpoint { address: original.destination, port: original.destination_port };
        let mapping = self.mappings.behind(&outside, class)?;
        let at = *set.by_scope.get(&mapping.inside.scope)?;
        let compiled = &set.rules[at];
        let dynamic = compiled.rule.action.dynamic()?;
        let nat64 = matches!(compiled.rule.action, Action::Nat64 { .. });
        let from_inside = !nat64 && !compiled.output.has(input);
        let way = match (from_inside, dynamic.hairpin, dynamic.filtering) {
            // An ICMP query has one identifier, where this needs two: of who asks and of who answers.
            (true, true, _) if class != Class::Icmp => Way::HairpinMapping(at),
            (false, _, Filtering::EndpointIndependent) => Way::Mapping(at),
            _ => return None,
        };
        let Endpoint { address, port } = mapping.inside.endpoint;
        Some(Destination { address, port, way })
    }

    /// What a rule says about where a flow goes: `Some(None)` is "nothing, and no other rule either".
    fn apply_inward(
        &self,
        set: &Ruleset,
        at: usize,
        compiled: &Compiled,
        original: &Tuple,
        input: u16,
    ) -> Result<Option<Option<Destination>>, Refusal> {
        let found = |address, port, way| Ok(Some(Some(Destination { address, port, way })));
        match &compiled.rule.action {
            Action::None => {
                let exempt = compiled.rule.matches.output.is_empty()
                    && compiled.input.has(input)
                    && compiled.takes(original);
                Ok(exempt.then_some(None))
            }
            Action::Destination { targets, spread, hairpin } => {
                let here = compiled.input.has(input) || *hairpin;
                let own = !compiled.rule.matches.destination.is_empty()
                    || set.is_own(compiled, &original.destination);
                if !here || !own || !compiled.takes(original) {
                    return Ok(None);
                }
                let target = self.choose(compiled, targets, *spread, original);
                let Some((address, port)) = reach(target, compiled, original) else { return Ok(None) };
                found(address, port, if *hairpin { Way::Hairpin(at) } else { Way::Rule(at) })
            }
            Action::OneToOne { inside, outside, hairpin } => {
                let destination = address(&original.destination);
                let outward = compiled.output.has(input);
                if !outside.contains(&destination) || !(outward || *hairpin) {
                    return Ok(None);
                }
                let way = if outward { Way::Rule(at) } else { Way::Inward(at) };
                found(octets(moved(destination, *inside)), original.destination_port, way)
            }
            Action::Nptv6(nptv6) => {
                let destination = Ipv6Addr::from(original.destination);
                if !compiled.output.has(input) || !nptv6.outside().contains(&destination) {
                    return Ok(None);
                }
                match nptv6.inward(original.destination) {
                    Ok(address) => found(address, original.destination_port, Way::Rule(at)),
                    Err(_) => Err(refused(compiled, Refusal::NoPrefix)),
                }
            }
            Action::Nat64 { prefix, private, .. } => {
                let Some(embedded) = prefix.extract(&original.destination) else { return Ok(None) };
                if !compiled.input.has(input) || is_ipv4(&original.source) || !compiled.takes(original) {
                    return Ok(None);
                }
                if !private && !prefix.may_hold(embedded) {
                    return Err(refused(compiled, Refusal::NotGlobal));
                }
                let outside = Endpoint { address: mapped(embedded), port: original.destination_port };
                let class = Class::of(original.protocol).ok_or(refused(compiled, Refusal::Protocol))?;
                let hairpin = compiled.rule.action.dynamic().is_some_and(|dynamic| dynamic.hairpin);
                let neighbour = self.mappings.behind(&outside, class);
                let neighbour = neighbour.filter(|_| hairpin && class != Class::Icmp);
                match neighbour.filter(|mapping| mapping.inside.scope == compiled.scope) {
                    Some(mapping) => {
                        let Endpoint { address, port } = mapping.inside.endpoint;
                        found(address, port, Way::Nat64Mapping(at))
                    }
                    None => found(outside.address, original.destination_port, Way::Nat64(at)),
                }
            }
            _ => Ok(None),
        }
    }

    fn choose<'t>(
        &self,
        compiled: &Compiled,
        targets: &'t [Target],
        spread: Spread,
        original: &Tuple,
    ) -> &'t Target {
        let n = match spread {
            _ if targets.len() == 1 => 0,
            Spread::Hash => wire::flow_hash6(u128::from_be_bytes(original.source), 0, 0, 0) as usize,
            Spread::RoundRobin => compiled.counters.next.fetch_add(1, Relaxed) as usize,
        };
        // Invariant of rules: at least one target.
        &targets[n % targets.len()]
    }

    /// What answers to a new flow will say, which came by port `input`, goes to `destination` and leaves by port `output`; `None`: it is
    /// not translated. `now` is in ns.
    ///
    /// A binding holds its mapping until [`Nat::release`]: also when the flow, after all, gets no place in the flow table.
    pub fn bind(
        &self,
        original: &Tuple,
        destination: Option<&Destination>,
        [input, output]: [u16; 2],
        now: u64,
    ) -> Result<Option<Binding>, Refusal> {
        let set = self.ruleset();
        let seconds = (now / 1_000_000_000) as u32;
        // What the packet is to say as it leaves.
        let mut leaving = *original;
        if let Some(found) = destination {
            leaving.destination = found.address;
            leaving.destination_port = found.port;
        }
        let mut rules = [None, None];
        let mut joined = None;
        let source = match destination.map(|found| found.way) {
            None => self.outward(&set, &leaving, input, output, seconds)?,
            Some(Way::Rule(at)) => {
                rules[0] = Some(at);
                self.outward(&set, &leaving, input, output, seconds)?
            }
            Some(Way::Hairpin(at)) => {
                rules[0] = Some(at);
                let hidden = match input == output {
                    true => Some(self.as_if_outside(&set, at, original, &leaving, seconds)?),
                    false => None,
                };
                match hidden {
                    Some(hidden) => Some(hidden),
                    None => self.outward(&set, &leaving, input, output, seconds)?,
                }
            }
            Some(Way::Inward(at)) => {
                rules[0] = Some(at);
                Some(self.as_if_outside(&set, at, original, &leaving, seconds)?)
            }
            Some(Way::Mapping(at)) => {
                rules[0] = Some(at);
                if let Action::Nat64 { prefix, .. } = &set.rules.get(at).ok_or(Refusal::Gone)?.rule.action {
                    leaving.source = prefix.embed(unmapped(&original.source).ok_or(Refusal::Protocol)?);
                    leaving.protocol = protocol6(original.protocol);
                }
                joined = Some(self.join(original, &leaving)?);
                None
            }
            Some(Way::HairpinMapping(at)) => {
                rules[0] = Some(at);
                let compiled = set.rules.get(at).ok_or(Refusal::Gone)?;
                joined = Some(self.join(original, &leaving)?);
                let port = outside_port(&set, &compiled.output, &original.destination);
                let outward = self.apply_outward(&set, at, compiled, &leaving, port, seconds);
                self.undo_on_error(outward, joined.as_ref())?
            }
            Some(Way::Nat64(at)) => {
                rules[0] = Some(at);
                let compiled = set.rules.get(at).ok_or(Refusal::Gone)?;
                leaving.protocol = protocol4(original.protocol);
                self.apply_outward(&set, at, compiled, &leaving, None, seconds)?
            }
            Some(Way::Nat64Mapping(at)) => {
                rules[0] = Some(at);
                let compiled = set.rules.get(at).ok_or(Refusal::Gone)?;
                let prefix = match &compiled.rule.action {
                    Action::Nat64 { prefix, .. } => *prefix,
                    _ => return Err(Refusal::Gone),
                };
                joined = Some(self.join_nat64(original, &leaving, prefix)?);
                let outward = self.apply_outward(&set, at, compiled, &leaving, None, seconds);
                let outside = self.undo_on_error(outward, joined.as_ref())?;
                outside.map(|found| Outward {
                    address: prefix.embed(unmapped(&found.address).unwrap_or_default()),
                    ..found
                })
            }
            Some(Way::Expected) => {
                let mapping = self.settle(original)?;
                let outward = self.outward(&set, &leaving, input, output, seconds);
                self.undo_on_error(outward, mapping.as_ref())?
            }
        };
        let mut record = None;
        if let Some(found) = &source {
            leaving.source = found.address;
            if let Some(port) = found.port {
                leaving.source_port = port;
                if Class::of(leaving.protocol) == Some(Class::Icmp) {
                    leaving.destination_port = port;
                }
            }
            rules[1] = found.rule;
            record = found.made.map(|mapping| self.record(&set, &mapping, Event::Made, now));
        }
        if let Some(mapping) = &joined
            && Class::of(leaving.protocol) == Some(Class::Icmp)
        {
            leaving.source_port = mapping.inside.endpoint.port;
            leaving.destination_port = leaving.source_port;
        }
        for at in rules.into_iter().flatten() {
            if let Some(compiled) = set.rules.get(at) {
                compiled.counters.flows.fetch_add(1, Relaxed);
            }
        }
        let changed = leaving != *original;
        Ok(changed.then(|| Binding { reply: leaving.reversed(), rules, record }))
    }

    /// The first rule that says something about where the flow seems to come from.
    fn outward(
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

    /// Where a host inside seems to come from when it reaches another by an address outside: from where it would seem to come
    /// if it were sent out by the ports that rule `at` calls outside; failing that, from the address that it called.
    fn as_if_outside(
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
            ports: 1024..=65_535,
            paired: true,
            host_limit: None,
        };
        self.map(rule, at, leaving, &wanted, now)
    }

    /// Where a flow seems to come from by a rule; `None`: it says nothing of this source.
    fn apply_outward(
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
                let wanted = wanted(dynamic, Pool::One(own));
                self.map(compiled, at, leaving, &wanted, now).map(Some)
            }
            Action::Source { addresses, dynamic } => {
                self.from_pool(compiled, at, leaving, addresses, dynamic, now)
            }
            Action::Nat64 { addresses, dynamic, .. } => {
                if Class::of(leaving.protocol).is_none() {
                    return Err(refused(compiled, Refusal::Protocol));
                }
                self.from_pool(compiled, at, leaving, addresses, dynamic, now)
            }
            Action::Deterministic { blocks, dynamic } => {
                let IpAddr::V4(host) = address(&leaving.source) else { return Ok(None) };
                let Some(block) = blocks.block(host) else { return Ok(None) };
                let outside = mapped(block.outside.octets());
                let wanted = Wanted { ports: block.ports(), ..wanted(dynamic, Pool::One(outside)) };
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
    fn from_pool(
        &self,
        compiled: &Compiled,
        at: usize,
        leaving: &Tuple,
        addresses: &Addresses,
        dynamic: &Dynamic,
        now: u32,
    ) -> Result<Option<Outward>, Refusal> {
        let nat64 = matches!(compiled.rule.action, Action::Nat64 { .. });
        let ipv6 = addresses.ranges().iter().any(|range| range.is_ipv6());
        if !nat64 && ipv6 == is_ipv4(&leaving.source) {
            return Ok(None);
        }
        let wanted = wanted(dynamic, Pool::Many(addresses));
        self.map(compiled, at, leaving, &wanted, now).map(Some)
    }

    /// A mapping for the flow's source; of a protocol without ports only an address, the same for a host each time.
    fn map(
        &self,
        compiled: &Compiled,
        at: usize,
        leaving: &Tuple,
        wanted: &Wanted<'_>,
        now: u32,
    ) -> Result<Outward, Refusal> {
        let Some(class) = Class::of(leaving.protocol) else {
            let n = wire::flow_hash6(u128::from_be_bytes(leaving.source), 0, 0, 0);
            let address = wanted.pool.get(u64::from(n)).ok_or(Refusal::NoAddress)?;
            return Ok(Outward { address, port: None, rule: Some(at), made: None });
        };
        let inside = Inside {
            endpoint: Endpoint { address: leaving.source, port: leaving.source_port },
            class,
            table: leaving.table,
            scope: compiled.scope,
        };
        match self.mappings.acquire(&inside, wanted, now) {
            Ok((mapping, fresh)) => {
                compiled.counters.mappings.fetch_add(u64::from(fresh), Relaxed);
                let Endpoint { address, port } = mapping.outside;
                Ok(Outward { address, port: Some(port), rule: Some(at), made: fresh.then_some(mapping) })
            }
            Err(Full::Ports) => {
                compiled.counters.exhausted.fetch_add(1, Relaxed);
                Err(Refusal::Exhausted)
            }
            Err(Full::Host) => {
                compiled.counters.limited.fetch_add(1, Relaxed);
                Err(Refusal::HostLimit)
            }
            Err(Full::Table) => Err(refused(compiled, Refusal::TableFull)),
        }
    }

    /// One flow more towards the mapping that it calls.
    fn join(&self, original: &Tuple, leaving: &Tuple) -> Result<Mapping, Refusal> {
        let class = Class::of(original.protocol).ok_or(Refusal::Gone)?;
        let outside = Endpoint { address: original.destination, port: original.destination_port };
        let inside = Endpoint { address: leaving.destination, port: leaving.destination_port };
        self.mappings.join(&outside, class, &inside).ok_or(Refusal::Gone)
    }

    fn join_nat64(&self, original: &Tuple, leaving: &Tuple, prefix: Prefix64) -> Result<Mapping, Refusal> {
        let embedded = prefix.extract(&original.destination).ok_or(Refusal::Gone)?;
        self.join(&Tuple { destination: mapped(embedded), ..*original }, leaving)
    }

    fn undo_on_error<T>(&self, found: Result<T, Refusal>, joined: Option<&Mapping>) -> Result<T, Refusal> {
        if let (Err(_), Some(mapping)) = (&found, joined) {
            self.mappings.release(&mapping.outside, mapping.inside.class, &mapping.inside.endpoint);
        }
        found
    }

    /// A flow has ended: its mappings have one flow less, and those without flows end. What to log is handed to `log`. Accounts of flows
    /// that go on, and of such as were not translated, change nothing.
    pub fn release(&self, account: &Account, now: u64, mut log: impl FnMut(Record)) {
        if account.end != End::Slice {
            self.release_tuples(&account.original, &account.reply, now, &mut log);
        }
    }

    /// As [`Nat::release`], for a binding that came to nothing.
    pub fn release_tuples(&self, original: &Tuple, reply: &Tuple, now: u64, log: &mut dyn FnMut(Record)) {
        let set = self.ruleset();
        let Some(class) = Class::of(original.protocol) else { return };
        let mut give = |outside: Endpoint, inside: Endpoint| {
            if let Some(mapping) = self.mappings.release(&outside, class, &inside)
                && mapping.flows == 0
            {
                log(self.record(&set, &mapping, Event::Ended, now));
            }
        };
        // The source as answers call it, and the source as it is.
        let inside = Endpoint { address: original.source, port: original.source_port };
        let outside = Endpoint { address: reply.destination, port: reply.destination_port };
        if inside != outside {
            give(self.unembedded(&set, original, outside), inside);
        }
        // The destination as it was called, and the destination as it is.
        let inside = Endpoint { address: reply.source, port: reply.source_port };
        let outside = Endpoint { address: original.destination, port: original.destination_port };
        if inside != outside {
            give(self.unembedded(&set, original, outside), inside);
        }
    }

    /// An outside endpoint of NAT64 as its mapping knows it, where the other end was called by IPv6.
    fn unembedded(&self, set: &Ruleset, original: &Tuple, outside: Endpoint) -> Endpoint {
        if is_ipv4(&outside.address) || is_ipv4(&original.source) {
            return outside;
        }
        let found = set.rules.iter().find_map(|compiled| match &compiled.rule.action {
            Action::Nat64 { prefix, .. } => prefix.extract(&outside.address),
            _ => None,
        });
        Endpoint { address: found.map_or(outside.address, mapped), port: outside.port }
    }

    fn record(&self, set: &Ruleset, mapping: &Mapping, event: Event, now: u64) -> Record {
        let rule = set.by_scope.get(&mapping.inside.scope).map(|at| set.rules[*at].rule.name.clone());
        Record::new(mapping, event, now, rule.unwrap_or_default())
    }

    fn expected(&self) -> std::sync::MutexGuard<'_, Expectations> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects a connection that a control connection has announced (see [`Ftp`](crate::Ftp)), and returns the port to announce in
    /// its stead: a mapping of the same rule as the control connection's if its host is translated there, else the port itself. `None` when no port is
    /// free, or too many are expected: then nothing is to be announced.
    pub fn expect(&self, announced: &Expectation, now: u64) -> Option<u16> {
        let mut made = None;
        let mut port = announced.inside_port;
        if announced.inside != announced.outside {
            let outside = announced.outside;
            let set = self.ruleset();
            // The rule that made the control connection's mapping, if one did.
            let control = Endpoint { address: outside, port: announced.control_port };
            let scope = self.mappings.behind(&control, Class::Tcp).map_or(0, |mapping| mapping.inside.scope);
            let ports = set.by_scope.get(&scope).and_then(|at| set.rules[*at].rule.action.dynamic());
            let ports = ports.map_or(1024..=65_535, |dynamic| dynamic.ports.clone());
            let wanted = Wanted { pool: Pool::One(outside), ports, paired: false, host_limit: None };
            let endpoint = Endpoint { address: announced.inside, port: announced.inside_port };
            let inside = Inside { endpoint, class: Class::Tcp, table: announced.table, scope };
            let (mapping, _) = self.mappings.acquire(&inside, &wanted, (now / 1_000_000_000) as u32).ok()?;
            if mapping.outside.address != outside {
                self.mappings.release(&mapping.outside, Class::Tcp, &endpoint);
                return None;
            }
            port = mapping.outside.port;
            made = Some(mapping);
        }
        let mut expected = self.expected();
        let ended = expected.insert(announced, port, made, now);
        self.expecting.store(expected.len(), Relaxed);
        drop(expected);
        let full = ended.full;
        for mapping in ended.mappings {
            self.mappings.release(&mapping.outside, Class::Tcp, &mapping.inside.endpoint);
        }
        (!full).then_some(port)
    }

    /// The expected flow has come: the mapping made for it is its own from now on, and released with it.
    fn settle(&self, original: &Tuple) -> Result<Option<Mapping>, Refusal> {
        let mut expected = self.expected();
        let found = expected.remove(original).ok_or(Refusal::Gone);
        self.expecting.store(expected.len(), Relaxed);
        found
    }

    /// Whether a new flow was announced by a control connection, so that it is related to one (for the filter).
    pub fn is_expected(&self, original: &Tuple) -> bool {
        self.expecting.load(Relaxed) > 0 && self.expected().find(original).is_some()
    }

    /// Forgets what was expected and has not come; to be called now and then.
    pub fn expire(&self, now: u64) {
        if self.expecting.load(Relaxed) == 0 {
            return;
        }
        let mut expected = self.expected();
        let mappings = expected.expire(now);
        self.expecting.store(expected.len(), Relaxed);
        drop(expected);
        for mapping in mappings {
            self.mappings.release(&mapping.outside, Class::Tcp, &mapping.inside.endpoint);
        }
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
}

/// What a source becomes.
#[derive(Clone, Copy, Debug)]
struct Outward {
    address: [u8; 16],
    /// `None`: as it was.
    port: Option<u16>,
    rule: Option<usize>,
    /// The mapping, if it is new.
    made: Option<Mapping>,
}

fn refused(compiled: &Compiled, refusal: Refusal) -> Refusal {
    compiled.counters.refused.fetch_add(1, Relaxed);
    refusal
}

fn wanted<'a>(dynamic: &Dynamic, pool: Pool<'a>) -> Wanted<'a> {
    Wanted {
        pool,
        ports: dynamic.ports.clone(),
        paired: dynamic.pooling == Pooling::Paired,
        host_limit: dynamic.host_limit,
    }
}

fn protocol4(number: u8) -> u8 {
    if number == protocol::ICMP6 { protocol::ICMP } else { number }
}

fn protocol6(number: u8) -> u8 {
    if number == protocol::ICMP { protocol::ICMP6 } else { number }
}

/// The address and port of a target for a flow; `None` where the families differ.
fn reach(target: &Target, compiled: &Compiled, original: &Tuple) -> Option<([u8; 16], u16)> {
    let destination = address(&original.destination);
    if destination.is_ipv4() != target.net.addr().is_ipv4() {
        return None;
    }
    let port = match &target.ports {
        None => original.destination_port,
        Some(ports) => {
            let from = compiled.rule.matches.destination_ports.first().map_or(0, |range| *range.start());
            let wide = ports.start() != ports.end();
            let offset = if wide { original.destination_port - from } else { 0 };
            // Invariant of rules: both ranges are equally wide.
            ports.start() + offset
        }
    };
    Some((octets(moved(destination, target.net)), port))
}

/// The port of these that has the address; failing that, the first of them.
fn outside_port(set: &Ruleset, side: &PortSet, called: &[u8; 16]) -> Option<u16> {
    let owns = |port: &&Port| port.addresses.iter().any(|own| octets(*own) == *called);
    let mut ports = set.ports.iter().filter(|port| side.has(port.number));
    ports.clone().find(owns).or_else(|| ports.next()).map(|port| port.number)
}
