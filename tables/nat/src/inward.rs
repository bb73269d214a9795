//! Where a new flow really goes: the first rule that says something about its destination.

use std::net::Ipv6Addr;
use std::sync::atomic::Ordering::Relaxed;

use flow::Tuple;
use wire::headers::mapped;

use crate::addresses::{address, octets};
use crate::compiled::{Compiled, Ruleset};
use crate::mapping::Endpoint;
use crate::nat::{Nat, Refusal};
use crate::outward::refused;
use crate::rewrite::is_ipv4;
use crate::rule::{Action, Filtering, Spread, Target, moved};
use crate::space::Class;

/// Where a flow really goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The address to look the route up for; IPv4-mapped for NAT64.
    pub address: [u8; 16],
    /// The port there; the original one where there are none.
    pub port: u16,
    pub(crate) way: Way,
}

impl Destination {
    /// The number of the rule that says so, if it is one.
    pub fn rule(&self) -> Option<usize> {
        match self.way {
            Way::Rule(at) | Way::Hairpin(at) | Way::Inward(at) | Way::Mapping(at) => Some(at),
            Way::HairpinMapping(at) | Way::Nat64(at) | Way::Nat64Mapping(at) => Some(at),
            Way::Expected => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By a rule; with the number of the rule.
    Rule(usize),
    /// By a rule that also hides the source of hosts on the target's own port.
    Hairpin(usize),
    /// From inside to an outside address of the same rule: the source is to be translated by it
    /// too.
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

impl Nat {
    /// Where a new flow that came by port `input` really goes; `None`: where it says.
    pub fn destination(&self, original: &Tuple, input: u16) -> Result<Option<Destination>, Refusal> {
        if self.expecting.load(Relaxed) > 0
            && let Some(found) = self.expected().find(original)
            && (found.inside.address, found.inside.port) != (original.destination, original.destination_port)
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
        if set.gives_out(&original.destination, input) { Err(Refusal::Nobody) } else { Ok(None) }
    }

    /// Whether a packet that belongs to no flow and opens none, and came by port `input`, is for an
    /// address that a rule gives out.
    pub fn gives_out(&self, destination: &[u8; 16], input: u16) -> bool {
        self.ruleset().gives_out(destination, input)
    }

    /// Whether a packet comes from where flows from outside are led to: what answers there leaves
    /// by the address that they called.
    pub fn is_of_target(&self, packet: &Tuple) -> bool {
        let (host, port) = (address(&packet.source), packet.source_port);
        self.ruleset().rules.iter().any(|compiled| match &compiled.rule.action {
            Action::Destination { targets, .. } => targets.iter().any(|target| {
                let matches = &compiled.rule.matches;
                let protocol = matches.protocols.is_empty() || matches.protocols.contains(&packet.protocol);
                let ports = target.ports.as_ref();
                let ranges = ports.map_or(&matches.destination_ports[..], std::slice::from_ref);
                protocol && target.net.contains(&host) && ranges.iter().any(|range| range.contains(&port))
            }),
            _ => false,
        })
    }

    /// A mapping that the flow may reach (RFC 4787, REQ-8 and REQ-9).
    fn to_mapping(&self, set: &Ruleset, original: &Tuple, input: u16) -> Option<Destination> {
        let class = Class::of(original.protocol)?;
        let outside = Endpoint { address: original.destination, port: original.destination_port };
        let mapping = self.mappings().behind(&outside, class)?;
        let at = *set.by_scope.get(&mapping.inside.scope.rule)?;
        let compiled = &set.rules[at];
        let dynamic = compiled.rule.action.dynamic()?;
        let nat64 = matches!(compiled.rule.action, Action::Nat64 { .. });
        let from_inside = !nat64 && !compiled.output.has(input);
        let way = match (from_inside, dynamic.hairpin, dynamic.filtering) {
            // An ICMP query has one identifier, where this needs two: of who asks and of who
            // answers.
            (true, true, _) if class != Class::Icmp => Way::HairpinMapping(at),
            (false, _, Filtering::EndpointIndependent) => Way::Mapping(at),
            _ => return None,
        };
        let Endpoint { address, port } = mapping.inside.endpoint;
        Some(Destination { address, port, way })
    }

    /// What a rule says about where a flow goes: `Some(None)` is "nothing, and no other rule
    /// either".
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
                let exempt = compiled.rule.matches.leaves_anywhere()
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
                if prefix.extract(&original.source).is_some() {
                    return Err(refused(compiled, Refusal::Loop));
                }
                if !private && !prefix.may_hold(embedded) {
                    return Err(refused(compiled, Refusal::NotGlobal));
                }
                let outside = Endpoint { address: mapped(embedded), port: original.destination_port };
                let class =
                    Class::of(original.protocol).ok_or_else(|| refused(compiled, Refusal::Protocol))?;
                let hairpin = compiled.rule.action.dynamic().is_some_and(|dynamic| dynamic.hairpin);
                let neighbour = self.mappings().behind(&outside, class);
                let neighbour = neighbour.filter(|_| hairpin && class != Class::Icmp);
                match neighbour.filter(|mapping| mapping.inside.scope.rule == compiled.scope) {
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
