//! New flows: where they go, and what they say they come from.
//!
//! A flow is asked for twice. Before its route is looked up [`Nat::destination`] says where it
//! really goes. When the port it leaves by is known [`Nat::bind`] says what answers will look like:
//! the reply tuple, with which the flow table can do the rest. When a flow has ended
//! [`Nat::release`] gives its ports back. None of this is on the path of established packets.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flow::{Account, End, Tuple};
use wire::headers::{mapped, unmapped};
use wire::protocol::has_ports;
use wire::{flow_hash6, protocol};

use crate::Prefix64;
use crate::compiled::{Counters, Ruleset};
use crate::inward::{Destination, Way};
use crate::mapping::{Endpoint, Mapping};
use crate::nat::{Nat, Refusal};
use crate::outward::{Outward, outside_port};
use crate::record::{Event, Record};
use crate::rewrite::is_ipv4;
use crate::rule::Action;
use crate::space::Class;

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

/// The ports that somebody with this one may seem to speak from: servers that trust ports below
/// 1,024 go on to.
fn alike(port: u16) -> RangeInclusive<u16> {
    if port < 1024 { 512..=1023 } else { 1024..=u16::MAX }
}

/// What answers to a flow say whose source speaks from another port, where those to the port it has
/// (`reply`) are another flow's: a host may call one server by two names of it, from one port. The
/// other port follows from the flow, and from how often it was asked for. `None` where the source
/// is another already, or there are no ports.
pub fn other_port(original: &Tuple, reply: &Tuple, attempt: u32) -> Option<Tuple> {
    let kept = (reply.destination, reply.protocol) == (original.source, original.protocol);
    let ports = alike(original.source_port);
    let hash = flow_hash6(
        u128::from_be_bytes(original.source),
        u128::from_be_bytes(original.destination),
        original.protocol,
        u32::from(original.source_port) << 16 | u32::from(original.destination_port),
    );
    let choice = hash.wrapping_add(attempt) % (u32::from(ports.end() - ports.start()) + 1);
    (kept && has_ports(original.protocol))
        .then(|| Tuple { destination_port: ports.start() + choice as u16, ..*reply })
}

impl Nat {
    /// What answers to a new flow will say, which came by port `input`, goes to `destination` and
    /// leaves by port `output`; `None`: it is not translated. `now` is in ns.
    ///
    /// A binding holds its mapping until [`Nat::release`]: also when the flow, after all, gets no
    /// place in the flow table. What becomes of that is said by [`Nat::count`] or
    /// [`Nat::count_exhausted`].
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
        let way = destination.map(|found| found.way);
        if way != Some(Way::Expected) && self.is_expected(original) {
            // Announced as it is called: no mapping waits with it.
            self.settle(original)?;
        }
        let source = match way {
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
                let outward = if is_ipv4(&original.source) == is_ipv4(&leaving.destination) {
                    self.outward(&set, &leaving, input, output, seconds)
                } else {
                    leave_ipv4(&set, mapping.as_ref(), &original.source).map(|source| {
                        leaving.source = source;
                        None
                    })
                };
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
            record = found.made.and_then(|mapping| self.record(&set, &mapping, Event::Made, now));
        }
        if let Some(mapping) = &joined
            && Class::of(leaving.protocol) == Some(Class::Icmp)
        {
            leaving.source_port = mapping.inside.endpoint.port;
            leaving.destination_port = leaving.source_port;
        }
        let changed = leaving != *original;
        Ok(changed.then(|| Binding { reply: leaving.reversed(), rules, record }))
    }

    /// Counts a flow that came about with the rules that translate it.
    pub fn count(&self, binding: &Binding) {
        self.each_of(binding, |counters| &counters.flows);
    }

    /// Counts one of this host that did not: who answers to it answers to another already, and
    /// there was no other port for it.
    pub fn count_exhausted(&self, binding: &Binding, host: &[u8; 16]) {
        let scope = self.each_of(binding, |counters| &counters.exhausted);
        scope.iter().for_each(|scope| self.shortages.note(*scope, *host, Refusal::Exhausted));
    }

    /// Counts with each rule of a binding; the scope of the last of them.
    fn each_of(&self, binding: &Binding, counter: impl Fn(&Counters) -> &AtomicU64) -> Option<u32> {
        let set = self.ruleset();
        // One rule may have said both where it goes and where it comes from.
        let [towards, from] = binding.rules;
        let mut scope = None;
        for at in [towards, from.filter(|_| from != towards)].into_iter().flatten() {
            if let Some(compiled) = set.rules.get(at) {
                counter(&compiled.counters).fetch_add(1, Relaxed);
                scope = Some(compiled.scope);
            }
        }
        scope
    }

    /// One flow more towards the mapping that it calls.
    fn join(&self, original: &Tuple, leaving: &Tuple) -> Result<Mapping, Refusal> {
        let class = Class::of(original.protocol).ok_or(Refusal::Gone)?;
        let outside = Endpoint { address: original.destination, port: original.destination_port };
        let inside = Endpoint { address: leaving.destination, port: leaving.destination_port };
        self.mappings().join(&outside, class, &inside).ok_or(Refusal::Gone)
    }

    fn join_nat64(&self, original: &Tuple, leaving: &Tuple, prefix: Prefix64) -> Result<Mapping, Refusal> {
        let embedded = prefix.extract(&original.destination).ok_or(Refusal::Gone)?;
        self.join(&Tuple { destination: mapped(embedded), ..*original }, leaving)
    }

    fn undo_on_error<T>(&self, found: Result<T, Refusal>, joined: Option<&Mapping>) -> Result<T, Refusal> {
        if let (Err(_), Some(mapping)) = (&found, joined) {
            self.mappings().release(&mapping.outside, mapping.inside.class, &mapping.inside.endpoint);
        }
        found
    }

    /// A flow has ended: its mappings have one flow less, and those without flows end. What to log
    /// is handed to `log`. Accounts of flows that go on, and of such as were not translated, change
    /// nothing.
    pub fn release(&self, account: &Account, now: u64, mut log: impl FnMut(Record)) {
        if account.end != End::Slice {
            self.release_tuples(&account.original, &account.reply, now, &mut log);
        }
    }

    /// As [`Nat::release`], for a binding that came to nothing.
    pub fn release_tuples(&self, original: &Tuple, reply: &Tuple, now: u64, log: &mut dyn FnMut(Record)) {
        let set = self.ruleset();
        let Some(class) = Class::of(original.protocol) else { return };
        for (outside, inside) in endpoints(&set, original, reply).into_iter().flatten() {
            if let Some(mapping) = self.mappings().release(&outside, class, &inside)
                && mapping.flows == 0
            {
                self.record(&set, &mapping, Event::Ended, now).map(&mut *log);
            }
        }
    }
}

/// The endpoints of a flow that are translated, each as it is called and as it is: of the source,
/// and of the destination. There may be a mapping behind each.
pub(crate) fn endpoints(set: &Ruleset, original: &Tuple, reply: &Tuple) -> [Option<(Endpoint, Endpoint)>; 2] {
    // Where the other end was called by IPv6, a mapping of NAT64 knows itself by IPv4.
    let plain = |called: Endpoint| {
        if is_ipv4(&called.address) || is_ipv4(&original.source) {
            return called;
        }
        let found = set.rules.iter().find_map(|compiled| match &compiled.rule.action {
            Action::Nat64 { prefix, .. } => prefix.extract(&called.address),
            _ => None,
        });
        Endpoint { address: found.map_or(called.address, mapped), port: called.port }
    };
    let pair = |address, port, called, called_port| {
        let real = Endpoint { address, port };
        let called = Endpoint { address: called, port: called_port };
        (called != real).then(|| (plain(called), real)).filter(|(called, real)| called != real)
    };
    let Tuple { source, source_port, destination, destination_port, .. } = *original;
    [
        pair(source, source_port, reply.destination, reply.destination_port),
        pair(reply.source, reply.source_port, destination, destination_port),
    ]
}

/// The IPv6 address of an IPv4 host, for who has this mapping of NAT64.
fn leave_ipv4(set: &Ruleset, mapping: Option<&Mapping>, source: &[u8; 16]) -> Result<[u8; 16], Refusal> {
    let at = mapping.and_then(|mapping| set.by_scope.get(&mapping.inside.scope.rule));
    match at.and_then(|at| set.rules.get(*at)).map(|compiled| &compiled.rule.action) {
        Some(Action::Nat64 { prefix, .. }) => Ok(prefix.embed(unmapped(source).ok_or(Refusal::Protocol)?)),
        _ => Err(Refusal::Gone),
    }
}

fn protocol4(number: u8) -> u8 {
    if number == protocol::ICMP6 { protocol::ICMP } else { number }
}

fn protocol6(number: u8) -> u8 {
    if number == protocol::ICMP { protocol::ICMP6 } else { number }
}
