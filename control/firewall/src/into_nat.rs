//! What was read of chains that translate, as rules of the plane's: in one list, those for
//! destinations first.

use std::ops::RangeInclusive;

use ipnet::IpNet;
use nat::{Action, Match};
use rules::{Address, Family, Interface, List};

use crate::prefixes;
use crate::ruleset::{Base, Chain};
use crate::translate::{families, name};
use crate::translation::{Piece, Translation};
use crate::{Problem, Why};

/// Rules at most: each new flow is compared with one after the other.
pub(crate) const MOST: usize = 1024;

/// A piece as rules match.
struct Ready {
    piece: Piece,
    matches: Vec<Match>,
}

/// Writes rules for what was read at one hook.
pub(crate) fn write(
    into: &mut Translation,
    pieces: Vec<Piece>,
    bases: &[(&Chain, &Base)],
    adopted: [bool; 2],
) {
    let mut ready = Vec::new();
    for piece in pieces {
        let matches: Result<Vec<Option<Match>>, Why> =
            piece.of.of.iter().map(|of| matches(&piece, of, adopted)).collect();
        match matches {
            Ok(matches) => ready.push(Ready { piece, matches: matches.into_iter().flatten().collect() }),
            Err(why) => into.problems.push(problem(&piece, adopted, why)),
        }
    }
    for (n, one) in ready.iter().enumerate() {
        match one.why_not(&ready[n + 1..], bases) {
            Err(why) => into.problems.push(problem(&one.piece, adopted, why)),
            Ok(true) => one.write(into),
            Ok(false) => {}
        }
    }
}

fn problem(piece: &Piece, adopted: [bool; 2], why: Why) -> Problem {
    let possible = |n: usize| piece.of.of.iter().any(|of| of.possible_in(Family::BOTH[n]));
    let families = [0, 1].map(|n| adopted[n] && families(&piece.chain)[n] && possible(n));
    Problem { families, chain: name(&piece.chain), handle: Some(piece.handle), why }
}

impl Ready {
    /// Whether it is to be written, with these behind it; else why it cannot be understood.
    fn why_not(&self, behind: &[Ready], bases: &[(&Chain, &Base)]) -> Result<bool, Why> {
        let exempts = self.piece.action.is_none();
        let (here, elsewhere): (Vec<&Ready>, Vec<&Ready>) =
            behind.iter().partition(|other| other.piece.base == self.piece.base);
        let base = |ready: &Ready| bases[ready.piece.base];
        // Where it decides nothing for others, there is nothing to be exempt from.
        let before_others =
            exempts && here.iter().any(|other| other.piece.action.is_some() && self.overlaps(other));
        let other = elsewhere.into_iter().find(|other| self.overlaps(other)).map(base);
        if let Some((chain, of)) = other {
            let beside = name(&chain.key);
            if of.priority == base(self).1.priority {
                return Err(format!("its order beside {beside} is not told, and both translate"));
            }
            if before_others {
                return Err(format!("it returns to {beside}, which translates too"));
            }
        }
        match base(self).1.hook == "prerouting" && before_others {
            true => Err("an exemption before other destinations".to_owned()),
            false => Ok(!exempts || before_others),
        }
    }

    fn overlaps(&self, other: &Ready) -> bool {
        self.matches.iter().any(|one| other.matches.iter().any(|other| overlap(one, other)))
    }

    fn write(&self, into: &mut Translation) {
        let base = format!("{} handle {}", name(&self.piece.chain), self.piece.handle);
        for matches in &self.matches {
            // A rule may be reached by several ways, and stand for several.
            let had = into.rules.iter().filter(|rule| rule.name.starts_with(&base)).count();
            let name = if had == 0 { base.clone() } else { format!("{base} ({})", had + 1) };
            let action = self.piece.action.clone().unwrap_or(Action::None);
            into.rules.push(nat::Rule { name, matches: matches.clone(), action, fallback: None });
        }
    }
}

/// What a rule of the plane's asks for; `None`: no packet of these families.
fn matches(piece: &Piece, of: &rules::Match, adopted: [bool; 2]) -> Result<Option<Match>, Why> {
    let asks = rules::Match {
        family: None,
        in_ports: None,
        out_ports: None,
        source: None,
        destination: None,
        protocols: None,
        source_ports: None,
        destination_ports: None,
        ..of.clone()
    };
    if asks != rules::Match::default() {
        return Err("translation by more than addresses, protocols, ports and interfaces".to_owned());
    }
    let to = match &piece.action {
        Some(Action::Source { addresses, .. }) => addresses.ranges().first().map(|range| range.first()),
        Some(Action::Destination { targets, .. }) => targets.first().map(|target| target.net.addr()),
        _ => None,
    };
    let of_action = to.map(|to| if to.is_ipv6() { Family::Ipv6 } else { Family::Ipv4 });
    let only = match adopted {
        [true, false] => Some(Family::Ipv4),
        [false, true] => Some(Family::Ipv6),
        _ => None,
    };
    let mut wanted = [of.family, of_action, only].into_iter().flatten();
    let family = wanted.next();
    if wanted.any(|other| Some(other) != family) {
        return Ok(None);
    }
    // Who asks for addresses asks for a family.
    let of_family = |list| family.map(|family| nets(list, family)).unwrap_or_default();
    let mut found = Match {
        source: of_family(of.source.as_ref()),
        destination: if of.destination.is_some() { of_family(of.destination.as_ref()) } else { Vec::new() },
        protocols: of.protocols.as_ref().map(listed).unwrap_or_default(),
        source_ports: ranges(of.source_ports.as_ref()),
        destination_ports: ranges(of.destination_ports.as_ref()),
        ..Match::default()
    };
    (found.input, found.not_input) = named(of.in_ports.as_ref());
    (found.output, found.not_output) = named(of.out_ports.as_ref());
    if matches!(piece.action, Some(Action::Destination { .. })) {
        let everywhere = found.input.is_empty() && found.not_input.is_empty();
        match (piece.of.own, family) {
            (true, _) if found.destination.is_empty() && everywhere => {}
            (true, _) => return Err("the router's own addresses, beside an interface or address".to_owned()),
            (false, Some(family)) if found.destination.is_empty() => found.destination = vec![all(family)],
            (false, _) => {}
        }
    } else if piece.of.own {
        return Err("it asks for what is to the router itself".to_owned());
    }
    Ok(Some(found))
}

fn all(family: Family) -> IpNet {
    match family {
        Family::Ipv4 => IpNet::V4(ipnet::Ipv4Net::default()),
        Family::Ipv6 => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}

/// The addresses of a family that a list holds; without a list all.
fn nets(list: Option<&List<Address>>, family: Family) -> Vec<IpNet> {
    let Some(list) = list else { return vec![all(family)] };
    let items = list.items.iter().filter_map(|item| match item {
        Address::Net(net) => Some(*net),
        _ => None,
    });
    let items: Vec<IpNet> = items.collect();
    if list.not { prefixes::without(&[all(family)], &items) } else { items }
}

/// The protocols that a list holds.
fn listed(list: &List<u8>) -> Vec<u8> {
    (0..=u8::MAX).filter(|number| list.items.contains(number) != list.not).collect()
}

fn ranges(list: Option<&List<rules::Span>>) -> Vec<RangeInclusive<u16>> {
    list.into_iter().flat_map(List::spans).map(|span| span.first..=span.last).collect()
}

/// The interfaces that are meant, and those that are not.
fn named(list: Option<&List<Interface>>) -> (Vec<String>, Vec<String>) {
    let Some(list) = list else { return (Vec::new(), Vec::new()) };
    let names = list.items.iter().map(|item| item.name.clone()).collect();
    if list.not { (Vec::new(), names) } else { (names, Vec::new()) }
}

/// Whether one packet may match both: for all that is known here.
fn overlap(one: &Match, other: &Match) -> bool {
    let meet = |one: &[IpNet], other: &[IpNet]| {
        one.is_empty() || other.is_empty() || !prefixes::both(one, other).is_empty()
    };
    let ranges = |one: &[RangeInclusive<u16>], other: &[RangeInclusive<u16>]| {
        let pairs = |range: &RangeInclusive<u16>| {
            other.iter().any(|other| range.start() <= other.end() && other.start() <= range.end())
        };
        one.is_empty() || other.is_empty() || one.iter().any(pairs)
    };
    let names = |[one, not_one]: [&[String]; 2], [other, not_other]: [&[String]; 2]| {
        let patterns = [one, not_one, other, not_other].concat().iter().any(|name| name.contains('*'));
        let within = |names: &[String], not: &[String]| {
            !names.is_empty() && names.iter().all(|name| not.contains(name))
        };
        let apart = !one.is_empty() && !other.is_empty() && !one.iter().any(|name| other.contains(name));
        patterns || !(apart || within(one, not_other) || within(other, not_one))
    };
    let protocols = one.protocols.is_empty()
        || other.protocols.is_empty()
        || one.protocols.iter().any(|number| other.protocols.contains(number));
    protocols
        && meet(&one.source, &other.source)
        && meet(&one.destination, &other.destination)
        && ranges(&one.source_ports, &other.source_ports)
        && ranges(&one.destination_ports, &other.destination_ports)
        && names([&one.input, &one.not_input], [&other.input, &other.not_input])
        && names([&one.output, &one.not_output], [&other.output, &other.not_output])
}
