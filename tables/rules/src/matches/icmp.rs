//! `type LIST`, behind `icmp` or `icmpv6`: types of messages, and codes.

use wire::{Fragment, icmp4, icmp6, protocol};

use super::protocol::is;
use super::{Complain, Condition, Family, List, Match, Row, Span, Test};
use crate::language::{Item, Line, Word};
use crate::mistake::Hint;
use crate::names::{self, Names};
use crate::nftables::{Sentence, range};

/// ICMP or ICMPv6 types, with all of their codes or some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Icmp {
    /// The first type and the last.
    pub kinds: (u8, u8),
    /// The first code and the last.
    pub codes: (u8, u8),
}

impl Icmp {
    /// The first of all codes and the last.
    pub const ANY: (u8, u8) = (0, u8::MAX);

    /// Whether a packet's type and code are among these.
    pub const fn holds(&self, kind: u8, code: u8) -> bool {
        let Icmp { kinds, codes } = *self;
        kinds.0 <= kind && kind <= kinds.1 && codes.0 <= code && code <= codes.1
    }
}

/// ICMP types, with a code where the name means one (IANA "ICMP Parameters"; RFC 792, RFC 1812).
const ICMP: &Names<(u8, Option<u8>)> = &[
    ("echo-reply", (icmp4::ECHO_REPLY, None)),
    ("unreachable", (icmp4::UNREACHABLE, None)),
    ("net-unreachable", (icmp4::UNREACHABLE, Some(icmp4::unreachable::NET))),
    ("host-unreachable", (icmp4::UNREACHABLE, Some(icmp4::unreachable::HOST))),
    ("protocol-unreachable", (icmp4::UNREACHABLE, Some(icmp4::unreachable::PROTOCOL))),
    ("port-unreachable", (icmp4::UNREACHABLE, Some(icmp4::unreachable::PORT))),
    ("fragmentation-needed", (icmp4::UNREACHABLE, Some(icmp4::unreachable::FRAGMENTATION_NEEDED))),
    ("prohibited", (icmp4::UNREACHABLE, Some(icmp4::unreachable::PROHIBITED))),
    ("source-quench", (icmp4::SOURCE_QUENCH, None)),
    ("redirect", (icmp4::REDIRECT, None)),
    ("echo-request", (icmp4::ECHO, None)),
    ("router-advertisement", (9, None)),
    ("router-solicitation", (10, None)),
    ("time-exceeded", (icmp4::TIME_EXCEEDED, None)),
    ("parameter-problem", (icmp4::PARAMETER_PROBLEM, None)),
    ("timestamp-request", (13, None)),
    ("timestamp-reply", (14, None)),
];

/// ICMPv6 types (IANA "ICMPv6 Parameters"; RFC 4443, RFC 4861).
const ICMP6: &Names<(u8, Option<u8>)> = &[
    ("unreachable", (icmp6::UNREACHABLE, None)),
    ("no-route", (icmp6::UNREACHABLE, Some(icmp6::unreachable::NO_ROUTE))),
    ("prohibited", (icmp6::UNREACHABLE, Some(icmp6::unreachable::PROHIBITED))),
    ("address-unreachable", (icmp6::UNREACHABLE, Some(icmp6::unreachable::ADDRESS))),
    ("port-unreachable", (icmp6::UNREACHABLE, Some(4))),
    ("packet-too-big", (icmp6::PACKET_TOO_BIG, None)),
    ("time-exceeded", (icmp6::TIME_EXCEEDED, None)),
    ("parameter-problem", (icmp6::PARAMETER_PROBLEM, None)),
    ("echo-request", (icmp6::ECHO, None)),
    ("echo-reply", (icmp6::ECHO_REPLY, None)),
    ("router-solicitation", (133, None)),
    ("router-advertisement", (134, None)),
    ("neighbour-solicitation", (135, None)),
    ("neighbour-advertisement", (136, None)),
    ("redirect", (icmp6::REDIRECT, None)),
];

pub(crate) struct ByType;

impl Condition for ByType {
    type Value = List<Icmp>;

    const WORDS: &'static [&'static str] = &["type"];
    const TEST: Test<List<Icmp>> = Test::Moment(|list, headers| {
        headers.fragment != Fragment::Later
            && list.holds(|icmp| icmp.holds(headers.icmp_type, headers.icmp_code))
    });
    const MANUAL: Row =
        Some(("`type LIST`", "of `icmp` or `icmpv6`: names, numbers, ranges `a-b`, `type/code`"));

    fn read(line: &mut Line, word: &Word) -> Option<List<Icmp>> {
        let known = if is(&line.rule.matches, protocol::ICMP) {
            ICMP
        } else if is(&line.rule.matches, protocol::ICMP6) {
            ICMP6
        } else {
            line.wrong(word, "types of which protocol?", Hint::expected("icmp or icmpv6 before type"));
            ICMP
        };
        let expected = "names, numbers, ranges, or type/code: echo-request, 13-18, 3/4";
        line.list("the types", expected, |text| icmp(known, text))
    }

    fn print(list: &List<Icmp>, of: &Match) -> String {
        let names = if of.family == Some(Family::Ipv6) { ICMP6 } else { ICMP };
        format!("type {}", list.print(|icmp| print(icmp, names)))
    }

    fn nftables(list: &List<Icmp>, sentence: &mut Sentence) -> Option<()> {
        sentence.say_shown();
        let name = if sentence.family == Some(Family::Ipv6) { "icmpv6" } else { "icmp" };
        let not = if list.not { "!= " } else { "" };
        sentence.say(format!("{name} type . {name} code {not}{}", boxes(&list.items)));
        Some(())
    }

    fn agree(matches: &mut Match, complain: &mut Complain) {
        let six = is(matches, protocol::ICMP6);
        let family = if six { Family::Ipv6 } else { Family::Ipv4 };
        if matches.family.is_some_and(|other| other != family) {
            complain("no packet is of both families", "icmp with ip, icmpv6 with ip6");
        }
        matches.family = Some(family);
    }

    fn by_family(_: &List<Icmp>) -> bool {
        true
    }
}

fn icmp(known: &Names<(u8, Option<u8>)>, text: &str) -> Item<Icmp> {
    let one = |number| (number, number);
    if let Some((kind, code)) = names::number(known, text) {
        return Ok(Icmp { kinds: one(kind), codes: code.map_or(Icmp::ANY, one) });
    }
    let nothing = || {
        let names = known.iter().map(|(name, _)| *name);
        (format!("there is no type {text:?}"), Hint::near(text, names))
    };
    let range = |numbers: &str| -> Item<(u8, u8)> {
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
            (Ok(_), Ok(_)) => Err((format!("the range {numbers} runs backwards"), Hint::none())),
            _ => Err(nothing()),
        }
    };
    let (kinds, codes) = text.split_once('/').map_or((text, None), |(kinds, codes)| (kinds, Some(codes)));
    let kinds = names::number(known, kinds).map_or_else(|| range(kinds), |(kind, _)| Ok(one(kind)))?;
    Ok(Icmp { kinds, codes: codes.map_or(Ok(Icmp::ANY), range)? })
}

fn print(icmp: &Icmp, names: &Names<(u8, Option<u8>)>) -> String {
    let range = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    let Icmp { kinds, codes } = *icmp;
    let code = (codes != Icmp::ANY).then_some(codes.0);
    let single = kinds.0 == kinds.1 && (codes == Icmp::ANY || codes.0 == codes.1);
    match names::name(names, &(kinds.0, code)).filter(|_| single) {
        Some(name) => name.to_owned(),
        None if codes == Icmp::ANY => range(kinds),
        None => format!("{}/{}", range(kinds), range(codes)),
    }
}

/// A set of the types with their codes: types whose codes are alike together, for intervals must
/// not overlap.
fn boxes(items: &[Icmp]) -> String {
    let mut boxes: Vec<(u8, u8, Vec<Span>)> = Vec::new();
    for kind in 0..=u8::MAX {
        let its = items.iter().filter(|icmp| icmp.kinds.0 <= kind && kind <= icmp.kinds.1);
        let codes = its.map(|icmp| Span { first: icmp.codes.0.into(), last: icmp.codes.1.into() }).collect();
        let codes = List { not: false, items: codes }.spans();
        match boxes.last_mut() {
            Some((_, last, alike)) if *alike == codes => *last = kind,
            _ => boxes.push((kind, kind, codes)),
        }
    }
    let pairs = boxes.iter().flat_map(|(first, last, codes)| {
        codes.iter().map(move |codes| format!("{} . {codes}", range(first, last)))
    });
    format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
}
