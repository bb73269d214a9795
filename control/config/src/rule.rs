//! `[[rule]]`: a routing rule, which chooses the table that decides about packets (`ip rule`).
//!
//! Linux takes several rules of one priority. Here each family has a priority once: so a rule is
//! known by it, and a changed one is the same rule.

use std::collections::HashMap;
use std::fmt;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;

use crate::interface::{Interface, interface_name};
use crate::mistake::{Hint, Page};
use crate::route::{NET, Route, RouteTable, net, table};
use crate::section::{Section, kind as kind_of};

/// A routing rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingRule {
    /// Its place: the lowest is asked first.
    pub priority: u32,
    /// Whether it is one of IPv4.
    pub ipv4: bool,
    /// Whether it is one of IPv6.
    pub ipv6: bool,
    /// Which packets.
    pub asks: Asks,
    /// What becomes of them.
    pub does: Does,
}

/// Which packets a rule asks for; what is not said is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// For all others.
    pub not: bool,
    /// Source; never a prefix of length 0.
    pub from: Option<IpNet>,
    /// Destination; never a prefix of length 0.
    pub to: Option<IpNet>,
    /// The interface that they came in by; `lo`: this machine's own.
    pub input: Option<String>,
    /// The interface that their socket is bound to.
    pub output: Option<String>,
    /// Mark and mask.
    pub mark: Option<(u32, u32)>,
    /// Type of service; 0: any.
    pub tos: u8,
    /// Protocol of the upper layer.
    pub protocol: Option<u8>,
    /// First and last source port.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub ports: Option<(u16, u16)>,
}

/// What a rule does. A table is as the file names it, or by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Does<Table = RouteTable> {
    /// A table is asked.
    Look {
        /// The table.
        table: Table,
        /// Routes whose prefixes are no longer than this do not count.
        suppress: Option<u32>,
    },
    /// The rules from this priority on decide.
    GoTo(u32),
    /// Packets end here, in this way: a word of iproute2.
    End(&'static str),
}

impl fmt::Display for Asks {
    /// In the words of `ip rule`; without any of them it is every packet.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.not {
            f.write_str("not ")?;
        }
        match &self.from {
            Some(from) => write!(f, "from {from}")?,
            None => f.write_str("from all")?,
        }
        self.to.iter().try_for_each(|to| write!(f, " to {to}"))?;
        self.input.iter().try_for_each(|name| write!(f, " iif {name}"))?;
        self.output.iter().try_for_each(|name| write!(f, " oif {name}"))?;
        self.mark.iter().try_for_each(|(mark, mask)| write!(f, " fwmark {mark:#x}/{mask:#x}"))?;
        if self.tos != 0 {
            write!(f, " tos {:#x}", self.tos)?;
        }
        self.protocol.iter().try_for_each(|protocol| write!(f, " ipproto {protocol}"))?;
        let mut ports = |word: &str, ports: &Option<(u16, u16)>| match ports {
            Some((first, last)) if first == last => write!(f, " {word} {first}"),
            Some((first, last)) => write!(f, " {word} {first}-{last}"),
            None => Ok(()),
        };
        ports("sport", &self.source_ports)?;
        ports("dport", &self.ports)
    }
}

impl fmt::Display for Does<u32> {
    /// In the words of `ip rule`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Does::Look { table, suppress } => {
                write!(f, "table {table}")?;
                suppress.iter().try_for_each(|length| write!(f, " suppress_prefixlength {length}"))
            }
            Does::GoTo(priority) => write!(f, "goto {priority}"),
            Does::End(word) => f.write_str(word),
        }
    }
}

impl RoutingRule {
    /// The greatest type of service that Linux compares whole in IPv4.
    const IPV4_TOS: u64 = 28;
}

const PORTS: &str = "a port, or a range such as \"1024-65534\"";

/// Every section of this kind, in the order of the file.
pub(crate) fn rules(page: &mut Page, value: &Spanned<DeValue>, interfaces: &[Interface]) -> Vec<RoutingRule> {
    let DeValue::Array(list) = value.get_ref() else {
        let hint = Hint::expected("[[rule]], with two brackets, once for each rule");
        page.wrong(value.span(), format!("rule cannot be {}", kind_of(value.get_ref())), hint);
        return Vec::new();
    };
    let mut rules = Vec::new();
    let mut places = HashMap::new();
    for item in list.iter() {
        let DeValue::Table(table) = item.get_ref() else {
            let message = format!("{} is not a rule", kind_of(item.get_ref()));
            page.wrong(item.span(), message, Hint::expected("[[rule]] sections"));
            continue;
        };
        let Some(rule) = one(page, Section::new("[[rule]]", item.span(), table), interfaces) else {
            continue;
        };
        for (family, _) in [("IPv4", rule.ipv4), ("IPv6", rule.ipv6)].iter().filter(|(_, of)| *of) {
            let Some(other) = places.insert((*family, rule.priority), item.span().start) else { continue };
            let line = page.line_of(other);
            let message = format!(
                "a rule of {family} with the priority {} is there already, on line {line}",
                rule.priority
            );
            page.wrong(item.span(), message, Hint::expected("another priority"));
        }
        rules.push(rule);
    }
    rules
}

fn one(page: &mut Page, mut section: Section, interfaces: &[Interface]) -> Option<RoutingRule> {
    let priority = section.number(page, "priority", 1..=u64::from(u32::MAX)).map(|number| number as u32);
    let priority = section.require(page, "priority", priority, "a number, the lowest is asked first");
    let family = section.choice(page, "family", &[("ipv4", false), ("ipv6", true)]);
    let from = section.text(page, "from", NET, net).map(|found| found.value);
    let to = section.text(page, "to", NET, net).map(|found| found.value);
    let [ipv4, ipv6] = families(page, &mut section, family, [from, to]);
    let any = |net: &IpNet| net.prefix_len() > 0;
    let name = "the name of an interface";
    let input = section.text(page, "in", name, interface_name).map(|found| found.value);
    let output = section.text(page, "out", name, interface_name).map(|found| found.value);
    let protocol = section.text(page, "protocol", "a protocol, such as \"tcp\", or its number", |text| {
        let number = wire::protocol::number(text).or_else(|| text.parse().ok());
        number.ok_or_else(|| format!("{text:?} is no protocol"))
    });
    let mut range = |key| {
        let found = section.text(page, key, PORTS, |text| match notation::ports(text, 1) {
            Ok(range) if *range.end() == u16::MAX => Err("Linux compares no port 65535".to_owned()),
            read => read,
        });
        found.map(|found| (*found.value.start(), *found.value.end()))
    };
    let (source_ports, ports) = (range("source_ports"), range("ports"));
    let asks = Asks {
        not: section.flag(page, "not").unwrap_or(false),
        from: from.filter(any),
        to: to.filter(any),
        input,
        output,
        mark: mark(page, &mut section),
        tos: tos(page, &mut section, ipv4),
        protocol: protocol.map(|found| found.value),
        source_ports,
        ports,
    };
    let does = does(page, &mut section, interfaces, priority, ipv4);
    section.finish(page);
    Some(RoutingRule { priority: priority?, ipv4, ipv6, asks, does: does? })
}

/// The families: what is said, or what prefixes say, or both.
fn families(
    page: &mut Page,
    section: &mut Section,
    said: Option<bool>,
    nets: [Option<IpNet>; 2],
) -> [bool; 2] {
    let mut ipv6 = said;
    for (key, net) in ["from", "to"].into_iter().zip(nets) {
        let Some(net) = net else { continue };
        let of_ipv6 = net.addr().is_ipv6();
        if ipv6.is_some_and(|ipv6| ipv6 != of_ipv6)
            && let Some(at) = section.value(key).map(Spanned::span)
        {
            page.wrong(at, format!("{net} is of the other family"), Hint::expected("one family in a rule"));
        }
        ipv6 = Some(ipv6.unwrap_or(of_ipv6));
    }
    ipv6.map_or([true, true], |ipv6| [!ipv6, ipv6])
}

fn mark(page: &mut Page, section: &mut Section) -> Option<(u32, u32)> {
    let mark = section.number(page, "mark", 0..=u64::from(u32::MAX)).map(|mark| mark as u32);
    let mask = section.number(page, "mask", 1..=u64::from(u32::MAX)).map(|mask| mask as u32);
    if let (Some(mark), Some(at)) = (mark, section.value("mark").map(Spanned::span))
        && mark & !mask.unwrap_or(u32::MAX) != 0
    {
        let message = format!("the mark {mark:#x} has bits outside of its mask");
        page.wrong(at, message, Hint::expected("a mark within its mask"));
    }
    if let (None, Some(at)) = (section.value("mark"), section.value("mask").map(Spanned::span)) {
        page.wrong(at, "there is no mark that it could be of", Hint::expected("a mark as well"));
    }
    mark.map(|mark| (mark, mask.unwrap_or(u32::MAX)))
}

fn tos(page: &mut Page, section: &mut Section, ipv4: bool) -> u8 {
    let tos = section.number(page, "tos", 4..=252).unwrap_or(0);
    let (most, whose) = if ipv4 { (RoutingRule::IPV4_TOS, "IPv4") } else { (252, "IPv6") };
    if let (true, Some(at)) = (!tos.is_multiple_of(4) || tos > most, section.value("tos").map(Spanned::span))
    {
        let message = format!("Linux compares no type of service {tos} of {whose}");
        page.wrong(at, message, Hint::expected(format!("a multiple of 4, up to {most}")));
    }
    tos as u8
}

fn does(
    page: &mut Page,
    section: &mut Section,
    interfaces: &[Interface],
    priority: Option<u32>,
    ipv4: bool,
) -> Option<Does> {
    const ONE: &str = "a table, a vrf, a goto or an action";
    let look = table(page, section, interfaces, "a rule asks one table");
    let goto = section.number(page, "goto", 1..=u64::from(u32::MAX)).map(|number| number as u32);
    let end = section.choice(page, "action", &Route::ENDS);
    let suppress = section.number(page, "suppress_prefix_length", 0..=128).map(|length| length as u32);
    let look_at = ["table", "vrf"].into_iter().find(|key| section.value(key).is_some());
    let given: Vec<&str> = look_at
        .into_iter()
        .chain(["goto", "action"].into_iter().filter(|key| section.value(key).is_some()))
        .collect();
    match given.as_slice() {
        [] => page.missing(section.at.clone(), "[[rule]] does nothing", Hint::expected(ONE)),
        [_] => {}
        [.., last] => {
            let at = section.value(if *last == "goto" { "goto" } else { "action" }).map(Spanned::span);
            at.into_iter().for_each(|at| page.wrong(at, "a rule does one thing", Hint::expected(ONE)));
        }
    }
    if let (Some(goto), Some(priority), Some(at)) = (goto, priority, section.value("goto").map(Spanned::span))
        && goto <= priority
    {
        page.wrong(at, "a rule leads to rules behind it only", Hint::expected("a greater number"));
    }
    if let (Some(suppress), Some(at)) = (suppress, section.value("suppress_prefix_length").map(Spanned::span))
    {
        if look_at.is_none() {
            page.wrong(at, "it is of a table", Hint::expected("a table or a vrf as well"));
        } else if ipv4 && suppress > 32 {
            page.wrong(at, "prefixes of IPv4 are not so long", Hint::expected("a length up to 32"));
        }
    }
    if let Some(table) = look {
        return Some(Does::Look { table, suppress });
    }
    goto.map(Does::GoTo).or(end.map(Does::End))
}
