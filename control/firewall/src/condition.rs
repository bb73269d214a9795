//! What a rule of nftables asks of a packet, as matches of the filter.
//!
//! A rule may ask for this or that: elements of a concatenation, or of a verdict map. So what it
//! asks for is a list of alternatives, each a [`Match`], of which no packet meets two.

use ipnet::IpNet;
use rules::{Address, Family, Flags, Icmp, Interface, List, Mark, Match, Span, Translated, fragment};
use serde_json::Value;
use wire::protocol;

use crate::Why;
use crate::both;
use crate::field::{self, Field, Operator};
use crate::value::{self, DNAT, Kind};

/// The most alternatives of one rule.
const MOST: usize = 4096;
/// A set of addresses that a rule names.
pub(crate) trait Sets {
    /// What a rule says that asks for the members of a set.
    fn address(&mut self, name: &str) -> Result<Address, Why>;
    /// The elements of a set.
    fn elements(&self, name: &str) -> Result<Vec<Value>, Why>;
}

/// Narrows alternatives to what a `match` of nftables asks for.
pub(crate) fn ask(alternatives: &mut Vec<Match>, about: &Value, sets: &mut impl Sets) -> Result<(), Why> {
    let operator = Operator::read(about["op"].as_str().unwrap_or("=="))?;
    let fields = field::fields(&about["left"])?;
    narrow(alternatives, &fields, operator, &about["right"], sets)
}

/// Narrows alternatives to what is asked for. `right` is a value, a set, or the name of one.
pub(crate) fn narrow(
    alternatives: &mut Vec<Match>,
    fields: &[Field],
    operator: Operator,
    right: &Value,
    sets: &mut impl Sets,
) -> Result<(), Why> {
    let named = right.as_str().and_then(|text| text.strip_prefix('@'));
    match fields {
        [field @ Field::Address { .. }] if let Some(name) = named => {
            let items = vec![sets.address(name)?];
            each(alternatives, |alternative| addresses(alternative, field, operator, &items))
        }
        [field] => {
            let elements = elements(right, sets)?;
            each(alternatives, |alternative| condition(alternative, field, operator, &elements))
        }
        [Field::IcmpType { ipv6 }, Field::IcmpCode { .. }]
            if matches!(operator, Operator::Is | Operator::Not) =>
        {
            let not = operator == Operator::Not;
            let elements = elements(right, sets)?;
            let items = elements.iter().map(|element| types_and_codes(*ipv6, element));
            let items = items.collect::<Result<Vec<Icmp>, Why>>()?;
            each(alternatives, |alternative| icmp(alternative, *ipv6, List { not, items: items.clone() }))
        }
        fields if operator == Operator::Is => {
            let elements = elements(right, sets)?;
            let mut narrowed = Vec::new();
            for element in &elements {
                let mut of_it = alternatives.clone();
                concatenated(&mut of_it, fields, element)?;
                narrowed.append(&mut of_it);
                bounded(&narrowed)?;
            }
            *alternatives = narrowed;
            Ok(())
        }
        _ => Err("a concatenation that must not be one of these".to_owned()),
    }
}

/// Narrows alternatives to one element.
pub(crate) fn element(
    alternatives: &mut Vec<Match>,
    fields: &[Field],
    element: &Value,
    sets: &mut impl Sets,
) -> Result<(), Why> {
    match fields {
        [_] => narrow(alternatives, fields, Operator::Is, element, sets),
        fields => concatenated(alternatives, fields, element),
    }
}

fn concatenated(alternatives: &mut Vec<Match>, fields: &[Field], element: &Value) -> Result<(), Why> {
    let parts = value::bare(element)["concat"].as_array();
    let parts = parts.filter(|parts| parts.len() == fields.len()).ok_or("an element without its parts")?;
    for (field, part) in fields.iter().zip(parts) {
        each(alternatives, |alternative| {
            condition(alternative, field, Operator::Is, std::slice::from_ref(part))
        })?;
    }
    Ok(())
}

/// Refuses what would become too long.
pub(crate) fn bounded(alternatives: &[Match]) -> Result<(), Why> {
    match alternatives.len() > MOST {
        true => Err(format!("it stands for more than {MOST} rules")),
        false => Ok(()),
    }
}

fn each(
    alternatives: &mut Vec<Match>,
    mut narrow: impl FnMut(&mut Match) -> Result<bool, Why>,
) -> Result<(), Why> {
    let mut failed = None;
    alternatives.retain_mut(|alternative| match narrow(alternative) {
        Ok(possible) => possible,
        Err(why) => {
            failed = Some(why);
            true
        }
    });
    failed.map_or(Ok(()), Err)
}

/// The values that are asked for.
fn elements(right: &Value, sets: &impl Sets) -> Result<Vec<Value>, Why> {
    if let Some(name) = right.as_str().and_then(|text| text.strip_prefix('@')) {
        return sets.elements(name);
    }
    let set = right["set"].as_array();
    let elements = set
        .map_or_else(|| vec![right.clone()], |set| set.iter().map(|one| value::bare(one).clone()).collect());
    Ok(elements)
}

/// What is asked of a field: how it is compared, and with which values.
struct Asked<'a> {
    operator: Operator,
    elements: &'a [Value],
}

impl Asked<'_> {
    fn not(&self) -> bool {
        self.operator == Operator::Not
    }

    /// Refuses comparisons other than with equals.
    fn equal(&self) -> Result<(), Why> {
        match self.operator {
            Operator::Is | Operator::Not => Ok(()),
            _ => Err("a comparison of what is no number".to_owned()),
        }
    }

    fn numbers(&self, kind: Kind) -> Result<Vec<u32>, Why> {
        let number = |element| value::number(kind, element).ok_or_else(|| format!("the value {element}"));
        self.elements.iter().map(number).collect()
    }

    fn small(&self, kind: Kind) -> Result<Vec<u8>, Why> {
        let one = |number: u32| u8::try_from(number).map_err(|_| format!("the value {number}"));
        self.numbers(kind)?.into_iter().map(one).collect()
    }

    fn nets(&self) -> Result<Vec<Address>, Why> {
        let one = |element| value::prefixes(element).ok_or_else(|| format!("the address {element}"));
        let nets: Vec<Vec<IpNet>> = self.elements.iter().map(one).collect::<Result<_, Why>>()?;
        Ok(nets.into_iter().flatten().map(Address::Net).collect())
    }
}

/// Asks one alternative for a condition more; whether a packet may still match.
fn condition(of: &mut Match, field: &Field, operator: Operator, elements: &[Value]) -> Result<bool, Why> {
    let asked = Asked { operator, elements };
    let not = asked.not();
    match *field {
        Field::Address { .. } => addresses(of, field, operator, &asked.nets()?),
        Field::Port { destination, of: above } => port(of, destination, above, &asked),
        Field::Ports => both_ports(of, &asked),
        Field::Protocol { family } => {
            asked.equal()?;
            let items = asked.small(Kind::Protocol)?;
            Ok(family.is_none_or(|family| is_of(of, family)) && protocols(of, List { not, items }))
        }
        Field::Family => family_of(of, &asked),
        Field::Length { family } => {
            let wanted = spans(operator, elements)?;
            Ok(family.is_none_or(|family| is_of(of, family)) && within(&mut of.length, wanted))
        }
        Field::Ttl { family } => {
            let wanted = spans(operator, elements)?;
            Ok(is_of(of, family) && within(&mut of.ttl, wanted))
        }
        Field::Dscp { family } => {
            asked.equal()?;
            let items = asked.small(Kind::Dscp)?;
            Ok(is_of(of, family) & once(&mut of.dscp, List { not, items }, "code points")?)
        }
        Field::Flags { mask } => tcp_flags(of, mask, &asked),
        Field::IcmpType { ipv6 } => {
            let one = |kinds| Icmp { kinds, codes: Icmp::ANY };
            icmp_of(of, ipv6, Kind::IcmpType { ipv6 }, "type", one, &asked)
        }
        Field::IcmpCode { ipv6 } => {
            let one = |codes| Icmp { kinds: Icmp::ANY, codes };
            icmp_of(of, ipv6, Kind::IcmpCode { ipv6 }, "code", one, &asked)
        }
        Field::Input | Field::Output => {
            asked.equal()?;
            let items = elements.iter().map(interface).collect::<Result<Vec<Interface>, Why>>()?;
            let field = if matches!(field, Field::Input) { &mut of.in_ports } else { &mut of.out_ports };
            both::interfaces(field, List { not, items })
        }
        Field::State => states(of, &asked),
        Field::Status => match (operator, asked.numbers(Kind::Status)?.as_slice()) {
            (Operator::Has | Operator::Is, [DNAT]) => {
                once(&mut of.translated, Translated::Destination, "translation")
            }
            _ => Err("it asks whether a source is translated, or a destination is not".to_owned()),
        },
        Field::Mark { mask } => {
            asked.equal()?;
            match asked.numbers(Kind::Plain)?.as_slice() {
                [wanted] if wanted & !mask != 0 => Ok(not),
                [value] => once(&mut of.mark, Mark { not, value: *value, mask }, "marks"),
                _ => Err("one of several marks".to_owned()),
            }
        }
        Field::Offset => fragments(of, &asked),
    }
}

fn port(of: &mut Match, destination: bool, above: Option<u8>, asked: &Asked<'_>) -> Result<bool, Why> {
    let possible = match above {
        Some(number) => protocols(of, List { not: false, items: vec![number] }),
        None => true,
    };
    if possible {
        has_ports(of)?;
    }
    let wanted = spans(asked.operator, asked.elements)?;
    let field = if destination { &mut of.destination_ports } else { &mut of.source_ports };
    Ok(possible && within(field, wanted))
}

/// Both ports as one number.
fn both_ports(of: &mut Match, asked: &Asked<'_>) -> Result<bool, Why> {
    has_ports(of)?;
    let numbers = asked.numbers(Kind::Plain)?;
    let (Operator::Is, [both]) = (asked.operator, numbers.as_slice()) else {
        return Err("a comparison of both ports".to_owned());
    };
    let one = |port: u32| List { not: false, items: vec![Span { first: port as u16, last: port as u16 }] };
    Ok(within(&mut of.source_ports, one(both >> 16)) && within(&mut of.destination_ports, one(both & 0xffff)))
}

fn family_of(of: &mut Match, asked: &Asked<'_>) -> Result<bool, Why> {
    asked.equal()?;
    let named = |element: &Value| match element.as_str() {
        Some("ipv4" | "ip") => Some(Family::Ipv4),
        Some("ipv6" | "ip6") => Some(Family::Ipv6),
        // Numbers of families, and of protocols above Ethernet, in either byte order.
        _ => match element.as_u64() {
            Some(2 | 0x0800 | 0x0008) => Some(Family::Ipv4),
            Some(10 | 0x86dd | 0xdd86) => Some(Family::Ipv6),
            _ => None,
        },
    };
    let named: Vec<Option<Family>> = asked.elements.iter().map(named).collect();
    let mut left = Family::BOTH.into_iter().filter(|family| named.contains(&Some(*family)) != asked.not());
    Ok(match (left.next(), left.next()) {
        (Some(only), None) => is_of(of, only),
        (None, _) => false,
        _ => true,
    })
}

fn tcp_flags(of: &mut Match, mask: u8, asked: &Asked<'_>) -> Result<bool, Why> {
    let not = asked.not();
    let bits = asked.small(Kind::Flags)?.into_iter();
    let items: Vec<Flags> = match asked.operator {
        Operator::Is | Operator::Not => {
            bits.filter(|set| set & !mask == 0).map(|set| Flags { set, mask }).collect()
        }
        Operator::Has => {
            let single = |bits: u8| (0..8).map(move |n| bits & 1 << n).filter(|bit| *bit != 0);
            let wanted = bits.fold(0, |all, bits| all | bits) & mask;
            single(wanted).map(|bit| Flags { set: bit, mask: bit }).collect()
        }
        _ => return Err("a comparison of flags".to_owned()),
    };
    let possible = protocols(of, List { not: false, items: vec![protocol::TCP] });
    if items.is_empty() {
        return Ok(possible && not);
    }
    Ok(possible & once(&mut of.flags, List { not, items }, "flags")?)
}

/// Types or codes of ICMP: `one` makes what is asked for of a range of them.
fn icmp_of(
    of: &mut Match,
    ipv6: bool,
    kind: Kind,
    what: &str,
    one: impl Fn((u8, u8)) -> Icmp,
    asked: &Asked<'_>,
) -> Result<bool, Why> {
    asked.equal()?;
    let range = |element| match bytes(kind, element) {
        Some(range) => Ok(one(range)),
        None => Err(format!("the {what} {element}")),
    };
    let items = asked.elements.iter().map(range).collect::<Result<Vec<Icmp>, Why>>()?;
    icmp(of, ipv6, List { not: asked.not(), items })
}

fn states(of: &mut Match, asked: &Asked<'_>) -> Result<bool, Why> {
    let numbers = asked.numbers(Kind::State);
    let bits = match asked.operator {
        // Of more than one bit, a state has never all.
        Operator::Is | Operator::Not => {
            numbers?.into_iter().filter(|bits| bits.count_ones() == 1).fold(0, |all, bit| all | bit)
        }
        Operator::Has => numbers?.into_iter().fold(0, |all, bits| all | bits),
        _ => return Err("a comparison of states".to_owned()),
    };
    let bits = if asked.not() { !bits & 0x1f } else { bits } as u8;
    let states = of.states.get_or_insert(0x1f);
    *states &= bits;
    Ok(*states != 0)
}

/// Whether a packet is a later fragment, by the offset in its header.
fn fragments(of: &mut Match, asked: &Asked<'_>) -> Result<bool, Why> {
    const FIRST: u8 = fragment::WHOLE | fragment::FIRST;
    asked.equal()?;
    match asked.numbers(Kind::Plain)?.as_slice() {
        [0] => {
            let parts = if asked.not() { fragment::LATER } else { FIRST };
            let field = of.fragment.get_or_insert(FIRST | fragment::LATER);
            *field &= parts;
            Ok(*field != 0 && is_of(of, Family::Ipv4))
        }
        _ => Err("a certain place of a fragment".to_owned()),
    }
}

/// Whether all protocols that are asked for have ports where those of TCP are.
fn has_ports(of: &Match) -> Result<(), Why> {
    let all = |list: &List<u8>| !list.not && list.items.iter().all(|n| protocol::has_ports(*n));
    match of.protocols.as_ref().is_some_and(all) {
        true => Ok(()),
        false => Err("ports of any protocol".to_owned()),
    }
}

/// A condition that stands once in a rule.
fn once<T: PartialEq>(field: &mut Option<T>, value: T, what: &str) -> Result<bool, Why> {
    match field {
        Some(had) if *had != value => Err(format!("two conditions for its {what}")),
        _ => {
            *field = Some(value);
            Ok(true)
        }
    }
}

fn addresses(of: &mut Match, field: &Field, operator: Operator, items: &[Address]) -> Result<bool, Why> {
    let Field::Address { destination, ipv6 } = *field else { return Ok(true) };
    let not = match operator {
        Operator::Is => false,
        Operator::Not => true,
        _ => return Err("a comparison of addresses".to_owned()),
    };
    let possible = is_of(of, if ipv6 { Family::Ipv6 } else { Family::Ipv4 });
    if items.is_empty() {
        return Ok(possible && not);
    }
    let field = if destination { &mut of.destination } else { &mut of.source };
    Ok(possible & both::addresses(field, List { not, items: items.to_vec() })?)
}

fn is_of(of: &mut Match, family: Family) -> bool {
    *of.family.get_or_insert(family) == family
}

/// Asks for protocols beside those that are asked for.
fn protocols(of: &mut Match, wanted: List<u8>) -> bool {
    let Some(had) = &of.protocols else {
        of.protocols = Some(wanted);
        return true;
    };
    let is = |list: &List<u8>, number: u8| list.items.contains(&number) != list.not;
    let items: Vec<u8> = (0..=u8::MAX).filter(|number| is(had, *number) && is(&wanted, *number)).collect();
    let possible = !items.is_empty();
    of.protocols = Some(List { not: false, items });
    possible
}

fn within(field: &mut Option<List<Span>>, wanted: List<Span>) -> bool {
    let Some(had) = field else {
        let possible = !wanted.spans().is_empty();
        *field = Some(wanted);
        return possible;
    };
    let (had, wanted) = (had.spans(), wanted.spans());
    let pairs = had.iter().flat_map(|one| wanted.iter().map(move |other| (one, other)));
    let both = pairs.map(|(one, other)| (one.first.max(other.first), one.last.min(other.last)));
    let items: Vec<Span> =
        both.filter(|(first, last)| first <= last).map(|(first, last)| Span { first, last }).collect();
    let possible = !items.is_empty();
    *field = Some(List { not: false, items });
    possible
}

fn spans(operator: Operator, elements: &[Value]) -> Result<List<Span>, Why> {
    let mut items = Vec::with_capacity(elements.len());
    for element in elements {
        let (first, last) =
            value::range(Kind::Plain, element).ok_or_else(|| format!("the number {element}"))?;
        let most = u32::from(u16::MAX);
        if first > most {
            return Err(format!("the number {first}"));
        }
        let (first, last) = (first as u16, last.min(most) as u16);
        let span = |first, last| Span { first, last };
        match operator {
            Operator::Is | Operator::Not | Operator::Has => items.push(span(first, last)),
            Operator::Below => items.extend(first.checked_sub(1).map(|last| span(0, last))),
            Operator::AtMost => items.push(span(0, first)),
            Operator::Above => items.extend(first.checked_add(1).map(|first| span(first, u16::MAX))),
            Operator::AtLeast => items.push(span(first, u16::MAX)),
        }
    }
    Ok(List { not: operator == Operator::Not, items })
}

fn bytes(kind: Kind, element: &Value) -> Option<(u8, u8)> {
    let (first, last) = value::range(kind, element)?;
    Some((first.try_into().ok()?, last.try_into().ok()?))
}

fn types_and_codes(ipv6: bool, element: &Value) -> Result<Icmp, Why> {
    let parts = element["concat"].as_array().map(Vec::as_slice);
    let Some([kinds, codes]) = parts else { return Err("an element without its parts".to_owned()) };
    let of = |kind, part: &Value| bytes(kind, part).ok_or_else(|| format!("the type or code {part}"));
    let (kinds, codes) = (of(Kind::IcmpType { ipv6 }, kinds)?, of(Kind::IcmpCode { ipv6 }, codes)?);
    Ok(Icmp { kinds, codes })
}

/// Asks for types and codes of ICMP.
fn icmp(of: &mut Match, ipv6: bool, wanted: List<Icmp>) -> Result<bool, Why> {
    let number = if ipv6 { protocol::ICMP6 } else { protocol::ICMP };
    // nft leaves the family away where it prints the type: one follows from the other.
    let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    if !protocols(of, List { not: false, items: vec![number] }) || !is_of(of, family) {
        return Ok(false);
    }
    let Some(had) = &mut of.icmp else {
        of.icmp = Some(wanted);
        return Ok(true);
    };
    if had.not || wanted.not {
        return Err("two conditions for its type of ICMP".to_owned());
    }
    let meet = |one: (u8, u8), other: (u8, u8)| (one.0.max(other.0), one.1.min(other.1));
    let pairs = had.items.iter().flat_map(|one| wanted.items.iter().map(move |other| (one, other)));
    let both = pairs.map(|(one, other)| Icmp {
        kinds: meet(one.kinds, other.kinds),
        codes: meet(one.codes, other.codes),
    });
    had.items = both.filter(|both| both.kinds.0 <= both.kinds.1 && both.codes.0 <= both.codes.1).collect();
    Ok(!had.items.is_empty())
}

fn interface(element: &Value) -> Result<Interface, Why> {
    let name = element.as_str().ok_or_else(|| format!("the interface {element}"))?;
    Ok(Interface { name: name.to_owned(), numbers: Vec::new() })
}
